"""Sets of classes and intervals: as often right as they say, and as the definition says."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from manykernels import MKLClassifierCV, MKLRegressorCV, load, save
from manykernels.kernels import RBF, Precomputed, on_groups
from manykernels.lowrank import Nystroem

LEVELS = (0.8, 0.9, 0.95)


def classes(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = np.digitize(X[:, 0] + X[:, 1] + rng.normal(size=n), [-0.7, 1.5])
    return X, np.array(["low", "mid", "top"])[y]


def numbers(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.3 * rng.standard_t(3, size=n)


@pytest.fixture(scope="module")
def classifier():
    return MKLClassifierCV([RBF()], Cs=[0.3, 3.0], ps=[1]).fit(*classes(300, 0))


@pytest.fixture(scope="module")
def regressor():
    return MKLRegressorCV([RBF()], Cs=[0.3, 3.0], ps=[1]).fit(*numbers(300, 0))


def within_chance(hits, level):
    """Whether a share is the level, as far as 1,000 new and 300 held-out rows can tell."""
    return abs(hits.mean() - level) < 3.0 * np.sqrt(level * (1.0 - level) * (1 / 1000 + 1 / 300))


class TestSets:
    @pytest.mark.parametrize("level", LEVELS)
    def test_the_true_class_is_in_them(self, classifier, level):
        X, y = classes(1000, 1)
        sets = classifier.predict_set(X, level)
        true = np.searchsorted(classifier.classes_, y)
        assert within_chance(sets[np.arange(1000), true], level)
        each = classifier.predict_set(X, level, class_conditional=True)
        for c in range(3):
            assert (each[true == c, c].mean() - level) > -0.12

    def test_they_are_what_the_definition_says(self, classifier):
        X, _ = classes(20, 2)
        counts = np.zeros((20, 3))
        for fold in classifier.held_out_folds_:
            values = fold.model.decision_function(X)
            for c in range(3):
                margins = values[:, c] - np.delete(values, c, axis=1).max(axis=1)
                counts[:, c] += (fold.scores[0] >= -margins[:, None]).sum(axis=1)
        np.testing.assert_array_equal(classifier.predict_set(X), (1.0 + counts) / 301.0 > 0.1)

    def test_folds_are_kept_in_files(self, classifier, tmp_path):
        X, _ = classes(50, 3)
        save(classifier, tmp_path / "model.mk")
        again = load(tmp_path / "model.mk")
        np.testing.assert_array_equal(again.predict_set(X), classifier.predict_set(X))

    def test_low_rank_models_of_folds_keep_no_rows(self, tmp_path):
        X, y = classes(90, 7)
        model = MKLClassifierCV([RBF()], Cs=[1.0], ps=[1], cv=3, approximation=Nystroem(20))
        sets = model.fit(X, y).predict_set(X)
        assert all(fold.model.result_.beta.size == 0 for fold in model.held_out_folds_)
        save(model, tmp_path / "model.mk")
        np.testing.assert_array_equal(load(tmp_path / "model.mk").predict_set(X), sets)

    def test_a_class_that_a_fold_does_not_know(self):
        X, y = classes(90, 4)
        order = np.argsort(y, kind="stable")
        model = MKLClassifierCV([RBF()], Cs=[1.0], ps=[1], cv=KFold(5)).fit(X[order], y[order])
        assert model.predict_set(X, 0.8).shape == (90, 3)

    def test_rows_that_lack_views_are_compared_with_their_like(self):
        X, y = classes(400, 5)
        X[::2, :2] = np.nan  # which tell the classes apart
        groups = {"first": [0, 1], "second": [2, 3]}
        model = MKLClassifierCV(on_groups(groups, [RBF()]), Cs=[1.0], ps=[2], missing="mean", cv=3)
        sets = model.fit(X[:300], y[:300]).predict_set(X[300:])
        sizes = sets.sum(axis=1)
        assert sizes[::2].mean() > sizes[1::2].mean() + 0.3

    def test_matrices_and_indices_say_the_same(self):
        X, y = classes(80, 6)
        K, rows = X @ X.T, np.arange(80)[:, None]
        model = MKLClassifierCV([Precomputed(K)], Cs=[1.0], ps=[1], cv=3).fit(rows, y)
        np.testing.assert_array_equal(model.predict_set(K), model.predict_set(rows))

    @pytest.mark.parametrize("level", [0.0, 1.0, "high", np.nan])
    def test_levels_are_between_zero_and_one(self, classifier, level):
        with pytest.raises(ValueError, match="confidence_level"):
            classifier.predict_set(np.zeros((1, 4)), level)


class TestIntervals:
    @pytest.mark.parametrize("level", LEVELS)
    def test_the_true_value_is_in_them(self, regressor, level):
        X, y = numbers(1000, 1)
        low, high = regressor.predict_interval(X, level).T
        assert within_chance((low <= y) & (y <= high), level)

    def test_they_are_what_the_definition_says(self, regressor):
        X, _ = numbers(5, 2)
        values = np.linspace(-5.0, 5.0, 4001)
        count = np.zeros((5, values.size))
        for fold in regressor.held_out_folds_:
            distances = np.abs(values - fold.model.predict(X)[:, None])
            count += (fold.scores[0] >= distances[:, :, None]).sum(axis=2)
        kept = (1.0 + count) / 301.0 > 0.1
        ends = np.stack([values[kept.argmax(axis=1)], values[::-1][kept[:, ::-1].argmax(axis=1)]])
        np.testing.assert_allclose(regressor.predict_interval(X), ends.T, atol=0.006)

    def test_several_targets_and_too_few_rows(self, tmp_path):
        X, y = numbers(30, 3)
        model = MKLRegressorCV([RBF()], Cs=[1.0], ps=[1], cv=3).fit(X, np.stack([y, 10 * y], 1))
        found = model.predict_interval(X)
        assert found.shape == (30, 2, 2)
        assert np.isinf(model.predict_interval(X, 0.99)).all()
        save(model, tmp_path / "model.mk")
        np.testing.assert_allclose(load(tmp_path / "model.mk").predict_interval(X), found)

    def test_a_grid_from_a_checkpoint(self, tmp_path):
        X, y = numbers(60, 4)
        model = MKLRegressorCV([RBF()], Cs=[1.0], ps=[1], cv=3, checkpoint=tmp_path / "grid.mk")
        first = model.fit(X, y).predict_interval(X)
        np.testing.assert_allclose(model.fit(X, y).predict_interval(X), first, atol=1e-2)
