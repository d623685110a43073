"""Plans: what a fit will do, before it and after it, and the table of thresholds that decides."""

import re
import warnings
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from conftest import MIXED, toy
from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    path,
    plan,
    thresholds,
)
from manykernels.combinations import Product
from manykernels.estimators.data import decision
from manykernels.estimators.data.inputs import ReadsTables
from manykernels.estimators.engine import Engine
from manykernels.kernels import RBF, KernelCollection, on_groups
from manykernels.lowrank import Nystroem, RandomFourier
from manykernels.planning import Plan, Way
from manykernels.regularizers import L1

X, Y = toy(60)
BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SUBSETS = KernelCollection.masked_rbf(np.geomspace(0.05, 2.0, 36), np.tri(36, 4, dtype=bool))


class TestThresholds:
    @pytest.mark.parametrize("row", thresholds.rows(), ids=lambda row: row["name"])
    def test_each_says_what_it_means_and_who_set_it(self, row):
        assert row["meaning"]
        assert (BENCHMARKS / f"{row['benchmark']}.py").exists()
        assert row["value"] > 0

    def test_lowered_for_a_while(self):
        before = thresholds.TABLE
        with thresholds.lowered(points_for_sample=7):
            assert thresholds.TABLE == replace(before, points_for_sample=7)
        assert thresholds.TABLE is before

    def test_every_threshold_is_used(self):
        source = Path(thresholds.__file__).parent
        text = "".join(path.read_text() for path in source.rglob("*.py"))
        for one in fields(thresholds.Thresholds):
            assert text.count(f".{one.name}") >= 1, one.name


MODELS = [
    MKLClassifier(),
    MKLClassifier(MIXED, p=2.0),
    MKLClassifier(MIXED, p=np.inf),
    MKLClassifier(MIXED, loss="logistic", tol=1e-6),
    MKLClassifier(MIXED, solver="smo", p=1.5),
    MKLClassifier(MIXED, share_weights=False),
    MKLClassifier(combination=Product(starts=2), regularizer=L1()),
    MKLClassifier(SUBSETS),
    MKLClassifier(on_groups({"a": [0, 1], "b": [2, 3]}), normalize="center"),
    MKLRegressor(MIXED, cache_size=0.001),
    MKLOneClass(MIXED),
    MKLClassifierCV(MIXED, Cs=[0.1, 1.0], ps=[1.0, 2.0], cv=3),
    MKLClassifierCV(SUBSETS, Cs=[0.1, 1.0], ps=[1.0, 2.0], cv=3),
    MKLClassifierCV(Cs=2, ps=[1.0], cv=2),
]


def _targets(model):
    return {MKLRegressor: X[:, 0], MKLOneClass: None}.get(type(model), Y)


@pytest.mark.filterwarnings("ignore")
class TestPlan:
    @pytest.mark.parametrize("model", MODELS, ids=lambda model: repr(model)[:40])
    def test_foreseen_is_what_is_done(self, model):
        """And nothing of a fit is left behind by looking ahead."""
        before = dict(vars(model))
        foreseen = plan(model, X, _targets(model))
        assert vars(model) == before
        assert foreseen == model.fit(X, _targets(model)).plan_

    @pytest.mark.parametrize("model", MODELS, ids=lambda model: repr(model)[:40])
    def test_printed(self, model):
        text = str(plan(model, X, _targets(model)))
        assert all(len(line) <= 100 for line in text.splitlines()[1:])
        for name in ("kernels", "precision", "place", "solver", "machine", "problems", "memory"):
            assert f"\n{name}" in text

    def test_factors_are_as_many_at_most(self):
        model = MKLClassifier(MIXED, approximation=Nystroem(5), p=2.0, loss="squared_hinge")
        foreseen, done = plan(model, X, Y), model.fit(X, Y).plan_
        assert replace(foreseen, kernels=done.kernels, memory=done.memory) == done
        assert foreseen.memory >= done.memory
        assert "40 columns" in foreseen.kernels.what

    @pytest.mark.parametrize(
        ("changed", "options", "way"),
        [
            ({}, {}, Way.MATRICES_HELD),
            (
                {"points_for_sample": 10, "sample_points": 9, "held_gram_bytes": 1},
                {},
                Way.SAMPLE_OF_POINTS,
            ),
            ({"kernels_for_part": 3}, {"kernels": SUBSETS}, Way.PART_OF_KERNELS),
            ({}, {"cache_size": 0.001}, Way.ROWS_ON_DEMAND),
            ({"factorized_points": 10}, {"loss": "logistic"}, Way.CONJUGATE_GRADIENTS),
            (
                {"separate_column_sets": 1, "block_columns_with_corners": 1},
                {"approximation": Nystroem(5)},
                Way.FACTORS_ONE_BY_ONE,
            ),
        ],
    )
    def test_ways(self, changed, options, way, lower):
        model = MKLClassifier(**{"kernels": MIXED, "p": 1.0} | options)
        lower(**changed)
        assert way in plan(model, X, Y).ways
        assert way in model.fit(X, Y).plan_.ways

    @pytest.mark.parametrize(
        ("least", "options", "what", "why"),
        [
            (0.0, {}, "an array in the place of the sparse table, 0 MB", "% of its entries are"),
            (1.5, {}, "sparse, as it was given", "an array is faster from 15% on"),
            (0.0, {"cache_size": 0.001}, "sparse, as it was given", "would take 0 MB"),
        ],
    )
    @pytest.mark.parametrize("kind", [MKLClassifier, MKLClassifierCV])
    def test_sparse_tables(self, kind, least, options, what, why):
        table = sparse.csr_array(np.where(X > least, X, 0.0))
        model = kind(MIXED, **options)
        found = plan(model, table, Y)
        assert (found.table.what, Way.TABLE_AS_ARRAY in found.ways) == (what, "array" in what)
        assert why in found.table.why
        if kind is MKLClassifier:
            assert found == model.fit(table, Y).plan_
            assert sparse.issparse(model.bank_.right) == ("array" not in what)
        for other in (table.toarray(), table):
            low_rank = MKLClassifier(MIXED, approximation=Nystroem(5))
            assert plan(low_rank if other is table else model, other, Y).table is None

    def test_sparse_tables_as_arrays_say_the_same(self, monkeypatch):
        table = sparse.csr_array(np.where(X > 0.0, X, 0.0))
        monkeypatch.setattr(decision, "ARRAY_ENTRIES", 7 * X.shape[1])  # rows at a time
        for kernels in ("whole", MIXED):
            model = MKLClassifier(kernels, tol=1e-7).fit(table, Y)
            scores = model.decision_function(table)
            np.testing.assert_allclose(model.decision_function(table.toarray()), scores, atol=1e-9)
            with thresholds.lowered(stored_share=2.0):
                as_given = clone(model).fit(table, Y)
            np.testing.assert_allclose(as_given.decision_function(table), scores, atol=1e-4)
            assert as_given.result_.objective == pytest.approx(model.result_.objective, rel=1e-6)

    def test_pipelines(self):
        steps = make_pipeline(StandardScaler(), MKLClassifier(MIXED))
        assert plan(steps, X, Y) == steps.fit(X, Y)[-1].plan_
        assert not hasattr(make_pipeline(StandardScaler())[0], "mean_")

    @pytest.mark.parametrize("model", [3, SVC(), make_pipeline(SVC())], ids=repr)
    def test_others_are_told_what_has_a_plan(self, model):
        with pytest.raises(TypeError, match="of manykernels"):
            plan(model, X, Y)

    @pytest.mark.parametrize(
        "options", [{"solver": "silp", "p": 2.0}, {"solver": "smo"}, {"solver": "primal"}]
    )
    def test_solvers_that_do_not_fit_are_refused(self, options):
        model = MKLClassifier(MIXED, **options)
        with pytest.raises(ValueError, match="solver") as foreseen:
            plan(model, X, Y)
        with pytest.raises(ValueError, match=re.escape(str(foreseen.value))):
            model.fit(X, Y)

    def test_random_features_may_be_more_than_points(self):
        model = MKLClassifier([RBF(0.1), RBF(1.0)], approximation=RandomFourier(100))
        assert "200 columns" in plan(model, X, Y).kernels.what
        assert "200 columns" in model.fit(X, Y).plan_.kernels.what

    def test_outputs_with_weights_of_their_own(self):
        three = np.digitize(X[:, 0], [-0.5, 0.5])
        model = MKLClassifier(MIXED, share_weights=False)
        assert plan(model, X, three) == model.fit(X, three).plan_

    def test_all_problems_of_a_grid_are_counted(self):
        model = MKLClassifierCV(Cs=2, ps=[1.0, 2.0], cv=2)
        words = "2 folds, 2 values of C, 2 of p; 8 choices of kernels, 6 of them single"
        assert f"40 problems ({words}" in plan(model, X, Y).problems.what

    def test_a_small_budget_is_named(self):
        text = str(plan(MKLClassifier(MIXED, cache_size=0.001), X, Y))
        assert "on demand" in text
        assert "[cache_size]" in text

    def test_models_of_a_path(self):
        models = path(MKLClassifier(MIXED), X, Y, C=[0.1, 1.0, 10.0])
        plans = [model.plan_ for model in models]
        assert all(isinstance(one, Plan) for one in plans)
        assert "3 problems" in plans[0].problems.what
        assert plans[0].at_once >= 3

    def test_verbose_fits_begin_with_it(self, capsys):
        model = MKLClassifier(MIXED, verbose=2).fit(X, Y)
        assert capsys.readouterr().err.splitlines()[0] == model.plan_.summary()


class TestReading:
    """A table is read once."""

    @pytest.fixture
    def readings(self, monkeypatch):
        found, inner = [], ReadsTables._validated

        def counted(self, X, *args, **kwargs):
            found.append(np.shape(X)[0])
            return inner(self, X, *args, **kwargs)

        monkeypatch.setattr(ReadsTables, "_validated", counted)
        return found

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize(
        "model",
        [
            MKLClassifier(),
            MKLClassifierCV(Cs=2, ps=[1.0, 2.0], cv=3),
            MKLClassifierCV(MIXED, Cs=[0.1, 1.0], ps=[1.0], cv=3),
        ],
        ids=["fit", "grid", "grid of given kernels"],
    )
    def test_by_fits(self, model, readings):
        model.fit(X, Y)
        assert readings == [len(X)]

    @pytest.mark.filterwarnings("ignore")
    def test_rows_held_out_are_read_to_predict(self, readings):
        MKLClassifier(MIXED, p="auto").fit(X, Y)
        assert readings[0] == len(X)
        assert len(X) not in readings[1:]

    def test_who_reads_once_knows_its_columns(self):
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(X, columns=list("abcd")).assign(e=np.where(Y > 0, "u", "v"))
        model = MKLClassifierCV("whole", Cs=[1.0], ps=[1.0], cv=2).fit(frame, Y)
        assert list(model.feature_names_in_) == list("abcde")
        assert list(model.categories_) == ["e"]


@pytest.mark.parametrize(
    ("options", "problems"),
    [
        ({}, 1),
        ({"share_weights": False}, 3),
        ({"combination": Product(starts=2), "regularizer": L1(1.0), "max_iter": 3}, 2),
    ],
    ids=["plain", "weights of their own", "starts"],
)
def test_problems_of_a_fit_go_through_the_engine(options, problems, monkeypatch):
    """As many as the plan says."""
    X, _ = toy(45)
    solved, solve_all = [], Engine.solve_all

    def counted(engine, waves):
        for some in solve_all(engine, waves):
            solved.extend(some)
            yield some

    monkeypatch.setattr(Engine, "solve_all", counted)
    model = MKLClassifier(tol=0.1, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, np.arange(45) % 3)
    assert len(solved) == problems
    assert model.plan_.problems.what.startswith(f"{problems} problem")
