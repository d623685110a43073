"""Paths over the number of groups, and which of their models to take."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from conftest import data_folder
from manykernels import MKLClassifier, MKLClassifierCV, MKLOneClass, MKLRegressor, path
from manykernels.banks.dense import DenseBank
from manykernels.estimators import Choice
from manykernels.estimators.search import paths
from manykernels.estimators.search.group_path import EXTRA, NEAR, NEAREST, GroupPathSearch
from manykernels.kernels import RBF, KernelCollection, Linear, on_groups
from manykernels.planning import Way
from manykernels.regularizers import SquaredPNorm
from manykernels.result import Status

GROUPS = {name: [2 * place, 2 * place + 1] for place, name in enumerate("ABCDEFGH")}


def independent(n=80, classes=2):
    """Eight groups of two columns, that matter less and less, and what they say; of the classes
    all are equally frequent.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 16))
    y = X[:, ::2] @ np.geomspace(1.0, 0.05, 8) + 0.3 * rng.standard_normal(n)
    return X, np.argsort(np.argsort(y)) * classes // n if classes else y


X, y = independent()
KERNELS = on_groups(GROUPS, [Linear(), RBF("median")])


@pytest.fixture(scope="module")
def steps():
    return path(MKLClassifier(KERNELS), X, y, max_groups=5)


class TestSteps:
    def test_counts_go_up_in_steps_of_one(self, steps):
        counts = steps.n_groups()
        assert counts[0] == 1
        assert counts[-1] == counts.max() == 5
        assert set(np.diff(counts)) <= {0, 1}
        assert (np.diff(steps.costs) > 0).all()
        assert steps.jumps == []

    def test_models_are_certified_and_those_of_their_own_fits(self, steps):
        for model in steps:
            assert (model.p, model.tol) == (1.0, 1e-5)
            assert model.result_.status is Status.OPTIMAL
            assert model.result_.duality_gap <= 1e-5
            alone = clone(model).fit(X, y)
            assert model.result_.objective == pytest.approx(alone.result_.objective, rel=2e-5)

    def test_begins_where_the_second_group_enters(self, steps):
        first, second = steps.costs[:2]
        assert second <= NEAR * first
        template = clone(steps[0]).set_params(tol=1e-7)
        used = [
            sum(
                share > 0
                for share in clone(template).set_params(C=C).fit(X, y).group_weights_.values()
            )
            for C in (first / 1.05, first * 1.05)
        ]
        assert used == [1, 2]

    def test_the_first_group_has_the_largest_form_of_all_points_at_their_bounds(self, steps):
        low = clone(steps[0]).set_params(C=0.1 * steps[0].C).fit(X, y)
        np.testing.assert_allclose(np.abs(low.dual_coef_), low.C)
        forms = low.bank_.quadratic_forms(low.result_.beta)
        (entered,) = (group for group, share in steps[0].group_weights_.items() if share > 0)
        assert low.bank_.groups[int(np.argmax(forms))] == entered

    def test_matrices_stay_in_memory_from_one_model_to_the_next(self, steps):
        told = []
        given = MKLClassifier(KERNELS, callbacks=[told.append])
        for models in (steps, path(given, X, y, C=[0.1, 1.0])):
            for model in models:
                assert Way.MATRICES_HELD in model.plan_.ways
                assert not isinstance(model.bank_, DenseBank)
        assert told

    def test_values_of_C_end_early(self):
        costs = np.logspace(-2.0, 2.0, 9)
        found = path(MKLClassifier(KERNELS), X, y, C=costs, max_groups=2)
        counts = found.n_groups()
        assert counts[-1] > 2
        assert max(counts[:-1]) <= 2
        np.testing.assert_allclose(found.costs, costs[: len(found)])

    def test_stops_early(self):
        few = path(MKLClassifier(KERNELS), X, y, max_groups=2)
        assert few.n_groups().max() == 2
        assert few.costs[-1] < 1.0

    def test_tables_and_words(self, steps):
        frame = steps.frame()
        assert list(frame["groups"]) == list(steps.n_groups())
        assert frame["entered"].iloc[0] in GROUPS
        np.testing.assert_allclose(steps.group_weights().sum(axis=1), 1.0)
        assert steps.groups == list(GROUPS)
        three = steps.with_groups(3)
        assert three.C == steps.costs[steps.n_groups() <= 3].max()
        with pytest.raises(ValueError, match="at most 0 groups: they have at least 1"):
            steps.with_groups(0)

    def test_all_groups_end_it(self):
        two = on_groups({"A": [0, 1], "B": [2, 3]}, Linear())
        found = path(MKLClassifier(two), X, y, max_groups=9)
        assert set(found.n_groups()) == {1, 2}
        one = path(MKLClassifier(on_groups({"A": [0, 1]})), X, y, max_groups=1)
        assert len(one) == 1


class TestOtherTasks:
    @pytest.mark.parametrize(
        "loss", ["epsilon_insensitive", pytest.param("squared", marks=pytest.mark.long)]
    )
    def test_regression(self, loss):
        _, target = independent(classes=0)
        found = path(MKLRegressor(KERNELS, loss=loss), X, 10.0 * target, max_groups=3)
        assert list(np.unique(found.n_groups())) == [1, 2, 3]
        assert all(model.result_.duality_gap <= 1e-5 for model in found)

    @pytest.mark.parametrize(
        ("loss", "share_weights", "fewest"),
        [
            ("squared_hinge", True, 1),
            # one for each class
            pytest.param("squared_hinge", False, 3, marks=pytest.mark.long),
        ],
    )
    def test_several_classes(self, loss, share_weights, fewest):
        _, labels = independent(classes=3)
        model = MKLClassifier(KERNELS, loss=loss, share_weights=share_weights)
        found = path(model, X, labels, max_groups=4)
        assert (found.n_groups()[0], found.n_groups().max()) == (fewest, 4)
        assert set(np.diff(found.n_groups())) <= {-1, 0, 1}

    def test_unequal_classes(self):
        """The rare class has all coefficients at their bounds at any small C, the other those that
        bring it nearest: that may take several groups.
        """
        labels = np.arange(len(y)) < 8
        with pytest.raises(ValueError, match="class_weight='balanced'"):
            path(MKLClassifier(KERNELS), X, labels, max_groups=1)
        for options in ({"class_weight": "balanced"}, {"loss": "logistic"}):
            found = path(MKLClassifier(KERNELS, **options), X, labels, max_groups=1)
            assert list(found.n_groups()) == [1]


class TestJumps:
    def test_copies_that_enter_together(self):
        copies = np.hstack([X[:, :4], X[:, 2:4]])
        kernels = on_groups({"A": [0, 1], "B": [2, 3], "copy of B": [4, 5]}, Linear())
        found = path(MKLClassifier(kernels), copies, y, max_groups=3)
        counts = found.n_groups()
        if found.jumps:
            assert found.jumps[0].groups == ("B", "copy of B")
            assert "B, copy of B enter together between C =" in repr(found)
        else:  # a copy was lighter than what the gap tells
            assert set(np.diff(counts)) <= {0, 1}

    def test_the_climb_ends_at_groups_that_no_cost_tells_apart(self):
        climb, fits = climbed({1.0: "a", 2.0: "bc", 5.0: "d"}, max_groups=9)
        (jump,) = climb.jumps
        assert jump.groups == ("b", "c")
        assert jump.below < 2.0 <= jump.above <= 1.01 * NEAREST * jump.below
        assert [step.count for step in climb.steps][-1] == 4
        assert len(fits) < 60

    def test_near_groups_are_told_apart(self):
        climb, _ = climbed({1.0: "a", 2.0: "b", 2.02: "c", 2.03: "d", 2.5: "ef"}, max_groups=4)
        counts = [step.count for step in climb.steps]
        assert counts[0] == 1
        assert counts[-1] == 4
        assert set(np.diff(counts)) <= {0, 1}
        assert climb.jumps == []

    def test_extra_models_are_bounded(self):
        entries = {1.0: "a"} | {3.0 * 1.0002**k: name for k, name in enumerate("bcdefghijk")}
        climb, fits = climbed(entries, max_groups=8)
        assert climb.jumps
        assert len(fits) < 30 + 8 * EXTRA

    def test_groups_that_leave(self):
        climb, _ = climbed({1.0: "a", 2.0: "b", 4.0: "c"}, max_groups=3, leave={3.0: "b"})
        assert climb.steps[0].count == 1
        assert frozenset("ac") in [step.used for step in climb.steps]


class Fit:
    """Looks like a model."""

    def __init__(self, C):
        self.C, self.result_ = C, self
        self.objective, self.status = C, Status.OPTIMAL


def climbed(entries, max_groups, leave=None):
    """A climb over groups that enter (and leave) at given C, and the C that it tried."""
    tried = []

    def train(C, start):
        tried.append(C)
        return Fit(C)

    def used(model):
        inside = set().union(*(set(names) for C, names in entries.items() if C <= model.C), "a")
        outside = set().union(*(set(n) for C, n in (leave or {}).items() if C <= model.C))
        return frozenset(inside - outside)

    climb = GroupPathSearch(train, used, max_groups, len(set("".join(entries.values()))))
    climb.run(0.9)
    return climb, tried


class TestErrors:
    @pytest.mark.parametrize(
        ("model", "options", "message"),
        [
            (MKLClassifier(KERNELS, p=2.0), {}, "with p=1"),
            (MKLClassifier(KERNELS, p="auto"), {}, "with p=1"),
            (MKLClassifier(KERNELS), {"p": [1.0, 2.0]}, "with p=1"),
            (MKLClassifier(KERNELS, regularizer=SquaredPNorm(2)), {}, "with p=1"),
            (MKLClassifier(KERNELS), {"max_groups": 0}, "at least 1"),
            (MKLClassifier(KERNELS), {"max_groups": 2.5}, "whole number"),
            (MKLOneClass(KERNELS), {}, "has no C"),
        ],
    )
    def test_what_has_no_path(self, model, options, message):
        with pytest.raises(ValueError, match=message):
            path(model, X, y, **{"max_groups": 3, **options})

    def test_a_gap_that_cannot_be_reached(self, monkeypatch):
        """Groups of a model without a certificate are not counted."""
        tols, trained = [], paths._finished

        def stalls(session, prepared, start, bank):
            trained(session, prepared, start, bank)
            model = session.estimator
            tols.append(model.tol)
            if model.tol < 1e-4:
                model.result_.status = Status.STALLED

        monkeypatch.setattr(paths, "_finished", stalls)
        found = path(MKLClassifier(KERNELS), X, y, max_groups=2)
        assert {model.tol for model in found} == {1e-4}
        assert tols[:2] == [1e-5, 1e-4]
        assert found.n_groups().max() == 2

    def test_a_break_ends_it(self):
        seen = []

        def stop(record):
            seen.append(record)
            return len(seen) > 20

        found = path(MKLClassifier(KERNELS, callbacks=[stop]), X, y, max_groups=5)
        assert found[-1].result_.status is Status.STOPPED
        assert (np.diff(found.costs) > 0).all()


class TestChoice:
    def test_best_and_simplest(self, steps):
        choice = steps.choose(X, y, scoring="roc_auc", cv=2)
        assert isinstance(choice, Choice)
        assert choice.best.C == choice.costs[np.argmax(choice.means)]
        place = int(np.argmax(choice.means))
        enough = choice.means >= choice.means[place] - choice.errors[place]
        assert choice.simplest.C == choice.costs[enough].min()
        assert choice.simplest in steps.models
        assert choice.frame()["simplest"].sum() == 1
        assert "simplest within one standard error" in repr(choice)

    def test_as_the_cross_validated_estimator_chooses(self, steps):
        tuned = MKLClassifierCV(
            KERNELS,
            Cs=steps.costs,
            ps=[1.0],
            cv=2,
            scoring="roc_auc",
            rule="one_standard_error",
            tol=1e-5,
        ).fit(X, y)
        choice = steps.choose(X, y, scoring="roc_auc", cv=2)
        assert tuned.C_ == choice.simplest.C
        np.testing.assert_array_equal(tuned.scores_[:, :, 0], choice.scores)
        assert tuned.n_groups_.shape == (2, len(steps), 1)
        assert (tuned.n_groups_ <= tuned.n_kernels_).all()
        frame = tuned.cv_results_
        np.testing.assert_allclose(frame["mean_groups"], tuned.n_groups_.mean(axis=0).ravel())
        train, _ = next(StratifiedKFold(2).split(X, y))
        model = clone(steps[0]).fit(X[train], y[train])
        used = sum(share > 0 for share in model.group_weights_.values())
        assert tuned.n_groups_[0, 0, 0] == used

    def test_scores_are_those_of_fits(self, steps):
        few = type(steps)(steps.models[:2])
        split = [(np.arange(0, 80, 2), np.arange(1, 80, 2))]
        choice = few.choose(X, y, cv=split)
        expected = [clone(model).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) for model in few]
        np.testing.assert_allclose(choice.scores[0], expected)
        assert choice.scoring == "accuracy"
        assert not choice.errors.any()

    def test_regression(self):
        _, target = independent(classes=0)
        found = path(MKLRegressor(KERNELS), X, target, C=[0.1, 1.0])
        assert found.choose(X, target, cv=2).scoring == "r2"

    def test_what_cannot_be_chosen_from(self):
        both = path(MKLClassifier(KERNELS), X, y, C=[0.1, 1.0], p=[1.0, 2.0])
        with pytest.raises(ValueError, match="one p, and every C once"):
            both.choose(X, y)
        other = path(MKLClassifier(KERNELS, regularizer=SquaredPNorm(2)), X, y, C=[0.1, 1.0])
        with pytest.raises(ValueError, match="needs regularizer=None"):
            other.choose(X, y)


@pytest.mark.long
@pytest.mark.parametrize("name", ["pbmc_dc_mono", "pbmc_t_rest"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_gene_sets_of_cells(name, class_weight):
    file = data_folder() / f"{name}.npz"
    if not file.exists():
        pytest.skip(f"data set {name} is not here ({file})")
    with np.load(file) as archive:
        cells, labels = archive["X"], archive["y"]
        ends = archive["offsets"]
        groups = {
            str(set_): archive["members"][a:b]
            for set_, a, b in zip(archive["names"], ends[:-1], ends[1:], strict=True)
        }
    model = MKLClassifier(on_groups(groups), class_weight=class_weight)
    found = path(model, cells, labels, max_groups=8)
    assert set(range(1, 9)) <= set(found.n_groups())
    assert np.diff(found.n_groups()).max() == 1
    assert found.jumps == []


def test_kernels_without_groups_are_groups():
    kernels = KernelCollection([Linear(features=[f]) for f in range(6)])
    found = path(MKLClassifier(kernels), X, y, max_groups=3)
    assert list(np.unique(found.n_groups())) == [1, 2, 3]
