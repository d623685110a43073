"""C and p by cross-validation: the scores of a grid search, at a part of its price."""

import _thread
import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import log_loss, make_scorer, max_error
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    MKLRegressorCV,
    load,
    save,
)
from manykernels.banks import make_bank
from manykernels.banks.wrappers.parts import PartBank
from manykernels.estimators import calibration, outcomes
from manykernels.estimators.data.units import MADE
from manykernels.estimators.search import folds, tuning
from manykernels.estimators.search.race import hopeless
from manykernels.kernels import RBF, Hamming, KernelCollection, Linear, Polynomial, paper_bank
from manykernels.lowrank import Nystroem

rng = np.random.default_rng(0)
X = rng.normal(size=(90, 3))
noise = 0.5 * rng.normal(size=90)
y = np.where(X[:, 0] + X[:, 1] ** 2 - 0.7 + noise > 0, "up", "down")
target = 3.0 * X[:, 0] + X[:, 1] ** 2 + noise + 100.0
FIXED = KernelCollection(
    [*(RBF(g, features=[f]) for f in range(3) for g in (0.1, 1.0)), Polynomial(2), Linear()]
)
GRID = {"C": [0.05, 1.0, 20.0], "p": [1.0, 2.0, np.inf]}
CLASSES = np.digitize(target, [99.0, 102.0])
SMALL = [RBF(0.3), Linear()]
ONE_CELL = {"Cs": [1.0], "ps": [2.0], "cv": 3}
SPLITS = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y))


def by_grid_search(model, points=X, labels=y, splits=SPLITS, **options):
    """Scores of scikit-learn's grid search, (folds, C, p)."""
    search = GridSearchCV(model, GRID, cv=splits, refit=False, **options).fit(points, labels)
    found = [search.cv_results_[f"split{fold}_test_score"] for fold in range(len(splits))]
    return np.array(found).reshape(len(splits), 3, 3)


def tuned(plain, **options):
    """The cross-validated estimator of a plain one."""
    kind = MKLClassifierCV if isinstance(plain, MKLClassifier) else MKLRegressorCV
    parameters = {
        name: value
        for name, value in plain.get_params(deep=False).items()
        if name in kind._get_param_names()
    }
    given = {"Cs": GRID["C"], "ps": GRID["p"], "cv": SPLITS, "exhaustive": True}
    return kind(**parameters | given | options)


LONG = pytest.mark.long


class TestScores:
    """Those of a grid search on the same folds, to the solvers' tolerance."""

    @pytest.mark.parametrize(
        "plain",
        [
            pytest.param(MKLClassifier(FIXED, tol=1e-5), marks=LONG),
            MKLClassifier("auto", tol=1e-5),
            pytest.param(MKLClassifier(FIXED, tol=1e-5, normalize="cosine"), marks=LONG),
            pytest.param(
                MKLClassifier(FIXED, tol=1e-5, normalize="trace", class_weight="balanced"),
                marks=LONG,
            ),
            pytest.param(
                MKLClassifier(FIXED, tol=1e-5, normalize=None, loss="squared_hinge"), marks=LONG
            ),
            pytest.param(MKLClassifier(FIXED, tol=1e-5, loss="logistic"), marks=LONG),
            pytest.param(MKLClassifier(FIXED, tol=1e-5, normalize="center"), marks=LONG),
            MKLClassifier(FIXED, tol=1e-5, approximation=Nystroem(20, random_state=0)),
            pytest.param(MKLRegressor(FIXED, tol=1e-5), marks=LONG),
            MKLRegressor("auto", tol=1e-5, loss="squared"),
        ],
        ids=lambda plain: repr(plain)[:60],
    )
    @pytest.mark.filterwarnings("ignore")
    def test_the_same(self, plain):
        labels = y if isinstance(plain, MKLClassifier) else target
        scoring = "roc_auc" if isinstance(plain, MKLClassifier) else None
        ours = tuned(plain, scoring=scoring).fit(X, labels)
        plain = clone(plain).set_params(kernels=getattr(ours, "kernels_", plain.kernels))
        theirs = by_grid_search(plain, labels=labels, scoring=scoring)
        # a kernel alone has one p
        np.testing.assert_allclose(ours.scores_, theirs[:, :, : ours.ps_.size], atol=3e-3)

    @pytest.mark.parametrize(
        "options",
        [
            {},
            pytest.param({"share_weights": False}, marks=LONG),
            pytest.param({"multiclass": "ovo"}, marks=LONG),
        ],
    )
    def test_several_classes(self, options):
        points, labels = load_wine(return_X_y=True)
        plain = MKLClassifier(KernelCollection([RBF(0.1), Linear(), RBF(1e-4)]), **options)
        splits = list(StratifiedKFold(3).split(points, labels))
        ours = tuned(plain, cv=splits).fit(points, labels)
        theirs = by_grid_search(plain, points, labels, splits)
        np.testing.assert_allclose(ours.scores_, theirs, atol=0.02)

    def test_equal_rows_sparse_rows_and_weights(self):
        """Rows are merged within a fold, as a fit on its rows alone would."""
        points = np.round(2.0 * X)
        weight = rng.integers(1, 4, len(X)).astype(float)
        ours = tuned(MKLClassifier(FIXED, tol=1e-5)).fit(sparse.csr_matrix(points), y, weight)
        for fold, (train, test) in enumerate(SPLITS):
            alone = MKLClassifier(FIXED, tol=1e-5, C=1.0, p=2.0)
            alone.fit(points[train], y[train], weight[train])
            expected = alone.score(points[test], y[test], weight[test])
            assert ours.scores_[fold, 1, 1] == pytest.approx(expected, abs=1e-12)

    def test_frames_with_categories(self):
        """A category may be in held-out rows only."""
        kinds = np.array(["a", "b", "c"])[rng.integers(0, 3, 90)]
        kinds[SPLITS[0][1][0]] = "rare"
        frame = pd.DataFrame(X, columns=list("stu")).assign(kind=kinds)
        kernels = [RBF(0.5, features=["s", "t"]), Hamming(features=["kind"])]
        ours = tuned(MKLClassifier(kernels, tol=1e-5)).fit(frame, y)
        theirs = by_grid_search(MKLClassifier(kernels, tol=1e-5), frame)
        np.testing.assert_allclose(ours.scores_, theirs, atol=1e-12)
        assert ours.predict(frame).shape == (90,)

    def test_several_targets(self):
        both = np.stack([target, -2.0 * target], axis=1)
        ours = tuned(MKLRegressor(FIXED, tol=1e-5)).fit(X, both)
        theirs = by_grid_search(MKLRegressor(FIXED, tol=1e-5), labels=both)
        np.testing.assert_allclose(ours.scores_, theirs, atol=1e-3)
        assert ours.oof_decision_.shape == both.shape

    def test_a_little_memory_is_enough(self, capsys, caplog):
        """Then the grid runs in parts, and says so."""
        plain = MKLClassifier(FIXED, tol=1e-5)
        whole = tuned(plain).fit(X, y)
        assert not capsys.readouterr().err
        with caplog.at_level("INFO", logger="manykernels"):
            parts = tuned(plain, cache_size=0.2, verbose=2).fit(X, y)
        assert "they run in parts" in caplog.text
        words = capsys.readouterr().err
        assert "they run in parts" in words
        assert "grid: 36 of 36 problems\n" in words
        np.testing.assert_allclose(parts.scores_, whole.scores_, atol=0.02)

    def test_what_a_race_leaves_out_is_said(self, capsys):
        MKLClassifierCV(FIXED, Cs=[1e-4, 1.0, 100.0], ps=[1.0], cv=4, verbose=1).fit(X, y)
        *_, last = re.findall(
            r"grid: (\d+) of (\d+) problems; (\d+) others", capsys.readouterr().err
        )
        done, total, left = map(int, last)
        assert done == total == 12 - left

    @pytest.mark.long
    @pytest.mark.parametrize("megabytes", [3, 60])
    def test_memory_stays_below_the_budget(self, megabytes):
        points = np.random.default_rng(1).normal(size=(200, 4))
        labels = np.where(points[:, 0] * points[:, 1] > 0, 1, -1)
        model = MKLClassifierCV(
            paper_bank(points), Cs=[0.1, 1.0, 10.0], cv=4, cache_size=megabytes, refit=False
        )
        model.fit(points[:40], labels[:40])  # compiles
        tracemalloc.start()
        model.fit(points, labels)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < (megabytes + 2) * 2**20  # the data and what Python needs

    def test_folds_without_a_class(self):
        labels = np.array(["a", "b", "c"])[rng.integers(0, 3, 90)]
        labels[:3], labels[labels == "c"] = "c", "a"
        labels[:3] = "c"
        splits = [(np.arange(3, 90), np.arange(3)), (np.arange(60), np.arange(60, 90))]
        for multiclass in ("ovr", "ovo"):
            model = tuned(MKLClassifier(FIXED, multiclass=multiclass), cv=splits).fit(X, labels)
            assert (model.scores_[0] == 0.0).all()
            assert model.predict(X).shape == (90,)


class TestChoice:
    def test_what_is_learned(self):
        model = tuned(MKLClassifier(FIXED), rule="best").fit(X, y)
        assert model.scores_.shape == (4, 3, 3)
        cost, norm = model.best_index_
        means = model.scores_.mean(axis=0)
        assert model.best_score_ == means.max() == means[cost, norm]
        assert (model.C, model.p) == (model.C_, model.p_) == (GRID["C"][cost], GRID["p"][norm])
        frame = model.cv_results_
        assert len(frame) == 9
        assert frame.mean_test_score.max() == model.best_score_
        assert frame.rank_test_score.min() == 1
        alone = MKLClassifier(FIXED, C=model.C_, p=model.p_).fit(X, y)
        np.testing.assert_array_equal(model.kernel_weights_, alone.kernel_weights_)
        np.testing.assert_array_equal(model.decision_function(X), alone.decision_function(X))
        assert model.result_.status.converged

    def test_decision_values_of_held_out_rows(self):
        model = tuned(MKLClassifier(FIXED, tol=1e-6)).fit(X, y)
        for train, test in SPLITS:
            alone = MKLClassifier(FIXED, C=model.C_, p=model.p_, tol=1e-6).fit(X[train], y[train])
            np.testing.assert_allclose(
                model.oof_decision_[test], alone.decision_function(X[test]), atol=5e-3
            )

    def test_accuracy_and_brier_score(self):
        """Of C and p that are about as often right, the surer one; other scores are taken as they
        are.
        """
        model = tuned(MKLClassifier(FIXED)).fit(X, y)
        means = model.scores_.mean(axis=0)
        errors = np.zeros(means.shape)
        for cost, norm in np.ndindex(means.shape):
            cell = {"Cs": [GRID["C"][cost]], "ps": [GRID["p"][norm]]}
            one = tuned(MKLClassifier(FIXED), calibration="sigmoid", **cell).fit(X, y)
            truth, said = y == one.classes_[1], one._probabilities(one._held_out)[:, 1]
            errors[cost, norm] = np.mean(np.square(said - truth))
        best = means - errors
        np.testing.assert_allclose(best[tuple(model.best_index_)], best.max(), atol=1e-3)
        named = tuned(MKLClassifier(FIXED), scoring="accuracy").fit(X, y)
        plain = tuned(MKLClassifier(FIXED), rule="best").fit(X, y)
        assert named.best_index_ == plain.best_index_
        assert plain.best_score_ == means.max()

    def test_a_grid_broken_off_at_its_beginning_says_nothing(self, monkeypatch):
        ways, calls = tuning._on_shared_kernels, []

        def broken(*of):
            task = of[0]
            for _ in ways(*of):
                calls.append(task.kernels)
                yield
                if task.kernels == 1:
                    raise KeyboardInterrupt

        monkeypatch.setattr(tuning, "_on_shared_kernels", broken)
        model = MKLClassifierCV(Cs=[0.1, 1.0], ps=[1.33], cv=5, exhaustive=True)
        with pytest.warns(ConvergenceWarning, match="broken off"):
            model.fit(X, y)
        assert 1 in calls
        assert model.kernels_ == "auto"
        assert not np.isnan(model.scores_).any()

    def test_scores_of_probabilities(self):
        options = {"Cs": [0.1, 1.0], "ps": [1.33], "cv": 3, "scoring": "neg_log_loss"}
        model = MKLClassifierCV(FIXED, loss="logistic", **options).fit(X, y)
        assert -1.0 < model.best_score_ < 0.0
        with pytest.raises(ValueError, match="needs probabilities"):
            MKLClassifierCV(FIXED, **options).fit(X, y)

    def test_kernels_that_are_made(self):
        """With those on single columns and without: the better ones are taken."""
        rng = np.random.default_rng(0)
        A = rng.normal(size=(90, 6))
        for labels in (np.sign(A[:, 0]), np.sign(A.sum(axis=1))):
            found = {
                kernels: MKLClassifierCV(kernels, Cs=[0.1, 1.0], ps=[1.33], cv=3, rule="best")
                for kernels in ("auto", "whole")
            }
            both, whole = found["auto"].fit(A, labels), found["whole"].fit(A, labels)
            assert whole.kernels_ == "whole"
            assert both.best_score_ >= whole.best_score_
            if both.kernels_ == "whole":
                np.testing.assert_array_equal(both.scores_, whole.scores_)
            alone = MKLClassifier(both.kernels_, C=both.C_, p=both.p_).fit(A, labels)
            np.testing.assert_array_equal(alone.decision_function(A), both.decision_function(A))
        assert len(MKLClassifier("whole").fit(A, labels).kernel_names_) == 6

    def test_one_standard_error(self):
        best = tuned(MKLClassifier(FIXED)).fit(X, y)
        simple = tuned(MKLClassifier(FIXED), rule="one_standard_error").fit(X, y)
        np.testing.assert_array_equal(best.scores_, simple.scores_)
        means = best.scores_.mean(axis=0)
        cost, norm = best.best_index_
        error = best.scores_[:, cost, norm].std(ddof=1) / 2.0
        within = means >= means.max() - error
        assert simple.p_ == min(np.array(GRID["p"])[within.any(axis=0)])
        assert simple.C_ == min(np.array(GRID["C"])[within[:, simple.best_index_[1]]])
        assert (simple.p_, simple.C_) <= (best.p_, best.C_)

    def test_rows_held_out_more_than_once_or_never(self):
        splits = [(np.arange(45, 90), np.arange(30)), (np.arange(45, 90), np.arange(20))]
        model = tuned(MKLClassifier(FIXED), cv=splits).fit(X, y)
        assert np.isnan(model.oof_decision_[30:]).all()
        assert np.isfinite(model.oof_decision_[:30]).all()

    def test_without_refit(self):
        model = tuned(MKLClassifier(FIXED), refit=False).fit(X, y)
        assert model.C_ in GRID["C"]
        with pytest.raises(NotFittedError):
            model.predict(X)

    def test_default_costs(self):
        model = MKLClassifierCV(FIXED, Cs=5, refit=False, ps=[1.0]).fit(X, y)
        assert model.Cs_.size == 5
        first = MKLClassifier(FIXED, C=0.9 * model.Cs_[0], p=np.inf, solver="uniform").fit(X, y)
        beta = np.abs(first.dual_coef_).ravel()
        smaller = min((y == "up").sum(), (y == "down").sum())
        at_bound = np.isclose(beta, first.C).sum()
        assert at_bound >= smaller  # of the smaller class all are
        doubled = MKLClassifierCV(FIXED, Cs=5, refit=False, ps=[1.0, np.inf]).fit(X, y)
        assert doubled.Cs_[0] == pytest.approx(model.Cs_[0] / len(FIXED))

    def test_costs_of_regression_follow_the_targets(self):
        costs = [
            MKLRegressorCV(FIXED, Cs=3, ps=[2.0], refit=False, cv=2).fit(X, unit * target).Cs_
            for unit in (1.0, 1000.0)
        ]
        np.testing.assert_allclose(costs[1], 1000.0 * costs[0], rtol=1e-9)

    def test_parameters(self):
        model = MKLClassifierCV(FIXED, Cs=[1.0], ps=[2.0])
        assert clone(model).get_params()["ps"] == [2.0]
        with pytest.raises(AttributeError, match="before it is fitted"):
            _ = model.C
        for wrong, words in [
            ({"Cs": 0}, "at least 1"),
            ({"Cs": [-1.0]}, "above 0"),
            ({"ps": [0.5]}, "at least 1"),
            ({"rule": "worst"}, "rule"),
            ({"calibration": "no"}, "calibration"),
            ({"refit": "yes"}, "refit"),
        ]:
            with pytest.raises(ValueError, match=words):
                clone(model).set_params(**wrong).fit(X, y)
        with pytest.raises(TypeError, match="does not know"):
            model.fit(X, y, fold=3)

    def test_groups_and_scorers(self):
        groups = np.repeat(np.arange(9), 10)
        model = tuned(MKLRegressor(FIXED), cv=GroupKFold(3), scoring=make_scorer(max_error))
        model.fit(X, target, sample_weight=np.ones(90), groups=groups)
        expected = [test for _, test in GroupKFold(3).split(X, target, groups)]
        assert model.scores_.shape[0] == len(expected)
        plain = MKLRegressor(FIXED, C=model.C_, p=model.p_)
        train = np.setdiff1d(np.arange(90), expected[0])
        alone = plain.fit(X[train], target[train])
        cost, norm = model.best_index_
        assert model.scores_[0, cost, norm] == pytest.approx(
            max_error(target[expected[0]], alone.predict(X[expected[0]])), rel=0.05
        )

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"Cs": []}, "Cs is empty"),
            ({"cv": []}, "cv gave no splits"),
            ({"cv": [(np.arange(40), np.arange(60, 91))]}, "row 90, and X has 90 rows"),
            ({"cv": [(np.arange(40), np.array([-91]))]}, "row -91"),
            ({"cv": [(np.arange(95), np.arange(60, 70))]}, "training rows of split 0 have row 94"),
            ({"cv": [(np.arange(40), np.arange(0))]}, "no test rows of split 0"),
            ({"cv": [(np.arange(40), np.array([0.5]))]}, "list of row numbers"),
        ],
        ids=["costs", "splits", "test", "negative", "training", "empty", "fractions"],
    )
    def test_grids_and_splits_that_are_none(self, options, message):
        with pytest.raises(ValueError, match=message):
            MKLClassifierCV(FIXED, **{"Cs": [1.0], "ps": [1.0], **options}).fit(X, y)

    def test_rows_without_weight(self):
        """A fold of nothing else has no score, and nothing to learn from."""
        weight = np.where(np.arange(90) < 30, 0.0, 1.0)
        fold = np.arange(30, 90), np.arange(30)
        for cv, part in (([fold], "test rows"), ([fold[::-1]], "training rows")):
            with pytest.raises(ValueError, match=f"The {part} of split 0 all have a sample weight"):
                MKLRegressorCV(FIXED, Cs=[1.0], ps=[1.0], cv=cv).fit(X, target, weight)

    def test_a_class_of_one_row(self):
        """Some fold trains without it."""
        for labels in (np.arange(90) == 7, np.where(np.arange(90) == 7, "rare", "usual")):
            with pytest.raises(ValueError, match="training rows of split 0 are all of the class"):
                MKLClassifierCV(FIXED, cv=KFold(3)).fit(X, labels)

    def test_scores_that_are_no_numbers(self):
        """They are never chosen."""
        names = iter([np.nan, 0.1, np.inf, 0.3, 0.2, 0.9] * 2)

        def odd(*of):
            return next(names)

        model = MKLClassifierCV(FIXED, Cs=[0.1, 1.0, 10.0], ps=[1.0], cv=2, scoring=odd)
        with pytest.warns(UserWarning, match="2 of 6 scores are NaN or infinite"):
            model.fit(X, y)
        assert model.C_ == 10.0
        assert model.cv_results_["rank_test_score"].iloc[0] > 1
        model.set_params(scoring=lambda *of: np.nan)
        with pytest.raises(ValueError, match="nothing to choose C and p by: 6 of 6 scores"):
            model.fit(X, y)


class TestAgain:
    def test_a_second_fit_forgets_the_first(self):
        other = np.where(X[:, 2] > 0, "up", "down")
        again = MKLClassifierCV(Cs=[0.1, 1.0], ps=[1.0], cv=3).fit(X, y)
        again.kernel_contributions_  # noqa: B018, keeps them
        again.set_params(kernels=FIXED).fit(X[:, ::-1], other)
        fresh = MKLClassifierCV(FIXED, Cs=[0.1, 1.0], ps=[1.0], cv=3).fit(X[:, ::-1], other)
        np.testing.assert_array_equal(
            again.decision_function(X[:, ::-1]), fresh.decision_function(X[:, ::-1])
        )
        np.testing.assert_array_equal(again.kernel_contributions_, fresh.kernel_contributions_)
        assert vars(again).keys() == vars(fresh).keys()

    def test_without_refit_the_first_is_gone(self):
        model = MKLClassifierCV(FIXED, Cs=[1.0], ps=[1.0], cv=3).fit(X, y)
        model.set_params(refit=False).fit(X, y)
        with pytest.raises(NotFittedError):
            model.predict(X)


class TestInterrupts:
    def test_nothing_was_finished(self, monkeypatch):
        def at_once(*data):
            raise KeyboardInterrupt

        monkeypatch.setattr(tuning, "make_folds", at_once)
        with pytest.raises(KeyboardInterrupt):
            MKLClassifierCV(FIXED, Cs=[1.0], cv=3).fit(X, y)

    def test_the_best_so_far_is_trained(self, monkeypatch):
        made, make = [], tuning.made_cell

        def interrupted_later(*of):
            made.append(make(*of))
            if len(made) == 20:
                _thread.interrupt_main()
            return made[-1]

        monkeypatch.setattr(tuning, "made_cell", interrupted_later)
        model = MKLClassifierCV(FIXED, Cs=np.logspace(-1, 3, 12), ps=[1.5, 2.0, 3.0], cv=SPLITS)
        with pytest.warns(ConvergenceWarning, match="broken off"):
            model.fit(X, y)
        assert np.isnan(model.scores_).any()
        assert model.predict(X).shape == (90,)


class TestRace:
    """Cells that cannot win are left out."""

    def test_by_standard_errors_of_differences(self):
        rng, weight = np.random.default_rng(0), np.ones(400)
        good = (rng.random(400) < 0.9).astype(float)
        near = np.where(np.arange(400) == 7, 1.0 - good, good)
        bad = (rng.random(400) < 0.7).astype(float)
        gone = np.full(400, np.nan)
        merits = np.stack([bad, good, near, gone])
        assert hopeless(merits, weight).tolist() == [True, False, False, True]
        # few rows say little, whatever they count
        assert not hopeless(merits[:3, :6], weight[:6]).any()
        assert not hopeless(merits[:3, :6], 100.0 * weight[:6]).any()

    def test_what_is_left(self):
        rng = np.random.default_rng(1)
        A = rng.normal(size=(240, 4))
        labels = np.sign(A[:, 0] * A[:, 1] + 0.3 * rng.normal(size=240))
        grid = {"Cs": [1e-4, 1.0, 10.0], "ps": [1.0, 2.0], "cv": 4}
        kernels = [RBF(0.5), RBF(1e-4), Linear()]
        race = MKLClassifierCV(kernels, **grid).fit(A, labels)
        whole = MKLClassifierCV(kernels, **grid, exhaustive=True).fit(A, labels)
        left = np.isfinite(race.scores_)
        assert left[:2].all()  # two folds for all
        assert not left[2:, 0].any()
        cost, norm = whole.best_index_
        assert left[:, cost, norm].all()
        assert race.best_score_ >= whole.best_score_ - 0.02
        assert race.result_.certificate.gap <= race.tol
        named = MKLClassifierCV(kernels, **grid, scoring="accuracy").fit(A, labels)
        assert np.isfinite(named.scores_).all()
        assert race.cv_results_.mean_test_score.isna().any()

    def test_of_regressions(self):
        rng = np.random.default_rng(1)
        A = rng.normal(size=(200, 3))
        numbers = np.sin(A[:, 0]) + 0.1 * rng.normal(size=200)
        grid = {"Cs": [1e-4, 1.0], "ps": [1.0], "cv": 4}
        model = MKLRegressorCV([RBF(0.5), Linear()], **grid).fit(A, numbers)
        assert np.isnan(model.scores_[2:, 0]).all()
        assert model.C_ == 1.0


class TestProbabilities:
    def test_they_are_probabilities(self):
        model = MKLClassifierCV(FIXED, Cs=3, cv=SPLITS).fit(X, y)
        found = model.predict_proba(X)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), found)
        order = np.argsort(model.decision_function(X))
        assert (np.diff(found[order, 1]) >= 0.0).all()

    @pytest.mark.parametrize("labels", [y, CLASSES], ids=["two", "several"])
    @pytest.mark.parametrize(
        "model",
        [
            MKLClassifier(SMALL, loss="logistic"),
            MKLClassifierCV(SMALL, **ONE_CELL, calibration="sigmoid"),
            MKLClassifierCV(SMALL, **ONE_CELL, calibration="isotonic"),
            MKLClassifierCV(SMALL, **ONE_CELL, loss="logistic"),
            MKLClassifierCV(SMALL, **ONE_CELL, class_weight="balanced"),
            MKLClassifierCV(SMALL, **ONE_CELL, calibration=None),
            MKLClassifierCV(SMALL, **ONE_CELL, multiclass="ovo"),
        ],
        ids=["logistic", "sigmoid", "isotonic", "both", "balanced", "none", "ovo"],
    )
    def test_the_likeliest_class_is_predicted(self, model, labels, tmp_path):
        """With the same score, in a pipeline, and after a file; the decision values have the say
        where there are no probabilities.
        """
        alone = clone(model).fit(X, labels)
        pipeline = clone(make_pipeline(StandardScaler(with_std=False), model)).fit(X, labels)
        save(alone, tmp_path / "alone.mk")
        save(pipeline, tmp_path / "pipeline.mk")
        again = [load(tmp_path / name) for name in ("alone.mk", "pipeline.mk")]
        for fitted in (alone, pipeline, *again):
            values = fitted.decision_function(X)
            if hasattr(model, "predict_proba"):
                places = fitted.predict_proba(X).argmax(axis=1)
            else:
                assert not hasattr(fitted, "predict_proba")
                places = (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
            predicted = fitted.classes_[places]
            np.testing.assert_array_equal(fitted.predict(X), predicted)
            assert fitted.score(X, labels) == np.mean(predicted == labels)

    def test_labels_differ_from_those_of_the_margins(self):
        """Where held-out rows say so; kernels are computed once all the same."""
        model = MKLClassifierCV(SMALL, **ONE_CELL, calibration="isotonic").fit(X, y)
        by_sign = model.classes_[(model.decision_function(X) > 0).astype(int)]
        assert (model.predict(X) != by_sign).any()
        calls, scores = [], model.decision_.scores
        model.decision_.scores = lambda *given: calls.append(given) or scores(*given)
        model.predict(X)
        assert len(calls) == 1

    def test_class_weights_stay(self):
        """A class that weighs more is as much likelier, and so predicted more often."""
        points = np.random.default_rng(0).normal(size=(150, 2))
        noise = np.random.default_rng(1).normal(size=150)
        labels = points[:, 0] + 0.5 * noise > 1.3
        shares = []
        for class_weight in (None, "balanced"):
            model = MKLClassifierCV(SMALL, **ONE_CELL, class_weight=class_weight)
            shares.append(model.fit(points, labels).predict(points).mean())
        assert shares[1] > 1.5 * shares[0]
        weight = np.where(labels, 1.0 / labels.mean(), 1.0 / (1.0 - labels.mean()))
        mean = np.average(model.predict_proba(points)[:, 1], weights=weight)
        assert mean == pytest.approx(0.5, abs=0.1)

    def test_they_say_something_about_new_rows(self):
        fresh = np.random.default_rng(1).normal(size=(400, 3))
        truth = np.where(
            fresh[:, 0] + fresh[:, 1] ** 2 - 0.7 + 0.5 * rng.normal(size=400) > 0, "up", "down"
        )
        model = MKLClassifierCV(FIXED, Cs=4).fit(X, y)
        prior = np.tile([(y == "down").mean(), (y == "up").mean()], (400, 1))
        ours = log_loss(truth, model.predict_proba(fresh))
        assert ours < 0.8 * log_loss(truth, prior)
        other = CalibratedClassifierCV(MKLClassifier(FIXED, C=model.C_, p=model.p_)).fit(X, y)
        assert ours < 1.1 * log_loss(truth, other.predict_proba(fresh))

    def test_several_classes(self):
        points, labels = load_iris(return_X_y=True)
        model = MKLClassifierCV([RBF(0.3), Linear()], Cs=3).fit(points, labels)
        assert model.predict_proba(points).shape == (150, 3)
        assert (model.predict_proba(points).argmax(axis=1) == labels).mean() > 0.9

    @pytest.mark.parametrize("options", [{"calibration": None}, {"multiclass": "ovo"}])
    def test_none(self, options):
        points, labels = load_iris(return_X_y=True)
        model = MKLClassifierCV([RBF(0.3)], Cs=[1.0], ps=[1.0], **options).fit(points, labels)
        for method in ("predict_proba", "predict_log_proba"):
            assert not hasattr(model, method)
        with pytest.raises(AttributeError) as error:
            model.predict_proba(points)
        assert "calibration='auto' and multiclass='ovr'" in str(error.value)
        assert not hasattr(clone(model), "predict_proba")

    def test_sigmoid_is_that_of_the_largest_likelihood(self):
        """With Platt's targets, and for values of any size."""
        scores = rng.normal(size=300)
        positive = rng.random(300) < 1.0 / (1.0 + np.exp(-(2.0 * scores - 1.0)))
        slope, offset = calibration.fitted("sigmoid", scores, positive, np.ones(300))
        ahead = positive.sum()
        wanted = np.where(positive, (ahead + 1) / (ahead + 2), 1 / (302 - ahead))
        p = 1.0 / (1.0 + np.exp(-(slope * scores + offset)))
        assert abs((p - wanted).sum()) < 1e-3
        assert abs(((p - wanted) * scores).sum()) < 1e-3
        tiny = calibration.fitted("sigmoid", 1e-6 * scores, positive, np.ones(300))
        np.testing.assert_allclose(tiny, [1e6 * slope, offset], rtol=1e-3)

    def test_values_that_mislead_say_nothing(self):
        scores = np.linspace(-1.0, 1.0, 50)
        slope, offset = calibration.fitted("sigmoid", scores, scores < 0.2, np.ones(50))
        assert slope == 0.0
        found = outcomes.one_sided("sigmoid", (slope, offset), 3.0)
        assert found == pytest.approx(31 / 52, abs=0.01)

    def test_isotonic_from_a_thousand_rows(self):
        points = rng.normal(size=(1100, 2))
        labels = (points[:, 0] + rng.normal(size=1100) > 0).astype(int)
        model = MKLClassifierCV([Linear(), RBF(0.5)], Cs=[0.1], ps=[2.0], cv=3).fit(points, labels)
        assert model.calibration_kind_ == "isotonic"
        found = model.predict_proba(points)[:, 1]
        assert abs(found.mean() - labels.mean()) < 0.02

    @pytest.mark.parametrize("clean", [0, 1, 20, 150])
    def test_isotonic_is_never_certain(self, clean):
        """At ends of so many rows without an error, one more would be one."""
        labels = np.concatenate([np.zeros(clean), np.tile([1.0, 0.0], 150), np.ones(clean)])
        scores, error = np.arange(len(labels), dtype=float), min(0.5, 1.0 / (clean + 1.0))
        table = calibration.fitted("isotonic", scores, labels > 0, np.full(len(labels), 3.0))
        found = np.interp(scores, *table)
        np.testing.assert_allclose(found[:clean], error)
        np.testing.assert_allclose(found[clean : len(labels) - clean], 0.5)
        np.testing.assert_allclose(found[len(labels) - clean :], 1.0 - error)

    @pytest.mark.parametrize("heavy", [0.0, 1.0, 1e6])
    def test_isotonic_ends_count_rows(self, heavy):
        """A class or a row that weighs much does not outweigh the end of the other class."""
        labels, scores = np.arange(100) >= 50, np.arange(100.0)
        for weight in (np.where(labels, heavy or 1e-6, 1.0), 1.0 + heavy * (scores == 50.0)):
            found = np.interp(scores, *calibration.fitted("isotonic", scores, labels, weight))
            np.testing.assert_allclose(found[:50], 1 / 51)
            np.testing.assert_allclose(found[50:], 50 / 51)

    def test_isotonic_without_rows_that_weigh_nothing(self):
        labels, scores, weight = (
            rng.random(80) < 0.5,
            rng.normal(size=80),
            np.repeat([0.0, 2.0], 40),
        )
        found = calibration.fitted("isotonic", scores[40:], labels[40:], weight[40:])
        again = calibration.fitted("isotonic", scores, labels, weight)
        places = np.linspace(scores[40:].min(), scores[40:].max(), 50)
        np.testing.assert_allclose(np.interp(places, *again), np.interp(places, *found))


class TestFiles:
    @pytest.mark.parametrize(
        "model",
        [
            MKLClassifierCV(FIXED, Cs=2, cv=3),
            MKLClassifierCV(FIXED, Cs=2, cv=KFold(3), calibration="isotonic"),
            MKLRegressorCV(FIXED, Cs=[0.1, 1.0], cv=3, ps=[1.0, np.inf]),
        ],
        ids=["sigmoid", "isotonic", "regression"],
    )
    def test_round_trip(self, model, tmp_path):
        model = clone(model).fit(X, y if isinstance(model, MKLClassifier) else target)
        save(model, tmp_path / "model.mkl")
        again = load(tmp_path / "model.mkl")
        assert type(again) is type(model)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.scores_, model.scores_)
        assert (again.C, again.p, again.best_index_) == (model.C, model.p, model.best_index_)
        if isinstance(model, MKLClassifier):
            np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


class TestParts:
    def test_a_part_is_a_bank(self):
        whole = make_bank(FIXED, X, dtype=np.float64)
        points, factors = rng.permutation(90)[:40], rng.uniform(0.5, 2.0, whole.m)
        part = PartBank(whole, points, factors)
        alone = make_bank(FIXED, X[points], normalize=None, dtype=np.float64)
        scale = whole.scales * factors
        beta, weights = rng.normal(size=(2, 40)), rng.random(whole.m)
        np.testing.assert_allclose(part.combine(weights), alone.combine(weights * scale))
        rows = np.array([3, 1])
        np.testing.assert_allclose(
            part.combine(weights, rows), alone.combine(weights * scale, rows)
        )
        products = alone.products(beta) * scale[:, None, None]
        np.testing.assert_allclose(part.products(beta), products, atol=1e-10)
        forms = alone.quadratic_forms(beta) * scale
        np.testing.assert_allclose(part.quadratic_forms(beta), forms)
        np.testing.assert_allclose(part.diagonal(), alone.diagonal() * scale[:, None])
        np.testing.assert_allclose(
            part.columns(rows), alone.columns(rows) * scale[:, None, None], atol=1e-12
        )
        np.testing.assert_allclose(
            part.combined_diagonal(weights), alone.combined_diagonal(weights * scale)
        )
        np.testing.assert_allclose(
            part.decision(weights, beta), alone.decision(weights * scale, beta), atol=1e-9
        )
        everywhere = part.everywhere(weights, beta)
        assert everywhere.shape == (2, 90)
        np.testing.assert_allclose(everywhere[:, points], part.decision(weights, beta))


def test_fixed_kernels_are_shared(monkeypatch):
    """Kernels that do not follow the data are computed once for all folds."""
    made, tiled = [], folds.tiled
    monkeypatch.setattr(folds, "tiled", lambda *of: made.append(1) or tiled(*of))
    for kernels, banks in ((paper_bank(X), 1), ("auto", 3 * len(MADE))):
        made.clear()
        MKLClassifierCV(kernels, Cs=[1.0], ps=[1.0], cv=3, refit=False).fit(X, y)
        assert len(made) == banks
