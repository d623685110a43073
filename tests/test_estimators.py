"""MKLRegressor, MKLOneClass, MKLFeatureSelector, and classifiers of several classes."""

import time

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

from conftest import MIXED, toy
from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLFeatureSelector,
    MKLOneClass,
    MKLRegressor,
    path,
)
from manykernels.kernels import RBF, Linear, Precomputed
from manykernels.regularizers import PNormBall

X, y = toy(80)
NUMBERS = X[:, 0] * X[:, 1] + 0.5 * X[:, 2]
IRIS = load_iris(return_X_y=True)
CHEAP = [RBF(0.5), RBF(0.1), Linear()]


class TestSeconds:
    """By a clock that goes on by a hundred seconds when a kernel is made."""

    @pytest.fixture
    def slow(self, monkeypatch):
        late, clock = [0.0], time.perf_counter

        def kernel(A, B):
            late[0] += 100.0
            return A @ B.T

        monkeypatch.setattr(time, "perf_counter", lambda: clock() + late[0])
        return MKLClassifier([kernel, RBF(0.5)])

    def test_kernels_are_counted(self, slow):
        result = slow.fit(X, y).result_
        assert result.counters.seconds < 100.0 <= result.seconds
        assert f"{result.seconds:.2f} s" in str(result)

    def test_what_a_path_shares_is_the_first_model_s(self, slow):
        for options in ({"C": [0.1, 1.0]}, {"C": [0.1, 1.0], "max_groups": 2}, {"max_groups": 2}):
            first, *others = path(slow, X, y, **options)
            assert first.result_.seconds >= 100.0
            assert all(model.result_.seconds < 100.0 for model in others)

    def test_grids_are_counted(self, slow):
        alone = slow.fit(X, y).result_.seconds
        tuned = MKLClassifierCV(slow.kernels, Cs=[1.0], ps=[1.0], cv=2).fit(X, y)
        assert tuned.result_.seconds >= alone + 99.0


class TestRegressor:
    @pytest.mark.parametrize("C", [0.5, 20.0])
    def test_one_kernel_is_svr(self, C):
        ours = MKLRegressor([RBF(0.3)], C=C, epsilon=0.05, tol=1e-7).fit(X, NUMBERS)
        svr = SVR(C=C, gamma=0.3, epsilon=0.05, tol=1e-7).fit(X, NUMBERS)
        np.testing.assert_allclose(ours.predict(X), svr.predict(X), atol=1e-3)

    def test_one_kernel_is_ridge_regression(self):
        K = RBF(0.3).block(X, X)
        center = np.eye(80) - 1 / 80
        ours = MKLRegressor([Precomputed(K)], loss="squared", C=5.0, tol=1e-9, normalize=None)
        ours.fit(np.arange(80)[:, None], NUMBERS)
        ridge = KernelRidge(alpha=0.1, kernel="precomputed").fit(
            center @ K @ center, NUMBERS - NUMBERS.mean()
        )
        expected = ridge.predict(center @ K @ center) + NUMBERS.mean()
        np.testing.assert_allclose(ours.predict(np.arange(80)[:, None]), expected, atol=1e-4)

    @pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared"])
    @pytest.mark.parametrize("p", [1.0, 1.33, 2.0])
    def test_real_data_with_a_certificate(self, loss, p):
        A, b = load_diabetes(return_X_y=True)
        A, b = (
            StandardScaler().fit_transform(A)[:200],
            StandardScaler().fit_transform(b[:200, None]).ravel(),
        )
        model = MKLRegressor(loss=loss, p=p, C=3.0).fit(A, b)
        assert model.result_.duality_gap <= 1e-3
        assert model.score(A, b) > 0.4

    @pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared"])
    def test_several_targets(self, loss):
        Y = np.column_stack([NUMBERS, X[:, 3], np.sin(X[:, 0])])
        model = MKLRegressor(MIXED, loss=loss, p=1.33, C=10.0).fit(X, Y)
        assert model.kernel_weights_.shape == (8,)
        assert model.predict(X).shape == (80, 3)
        assert model.score(X, Y) > 0.8
        assert MKLRegressor(MIXED, loss=loss).fit(X, Y[:, :1]).predict(X).shape == (80, 1)

    def test_repeated_rows_are_weights(self):
        weight = np.random.default_rng(0).integers(0, 4, 80)
        a = MKLRegressor(MIXED, C=2.0, tol=1e-6).fit(X, NUMBERS, sample_weight=weight)
        b = MKLRegressor(MIXED, C=2.0, tol=1e-6).fit(
            np.repeat(X, weight, axis=0), np.repeat(NUMBERS, weight)
        )
        np.testing.assert_allclose(a.predict(X), b.predict(X), atol=1e-8)

    def test_path_and_auto_p(self):
        models = path(MKLRegressor(MIXED), X, NUMBERS, C=[1.0, 10.0], p=[2.0, 1.0])
        assert len(models) == 4
        model = MKLRegressor(MIXED, p="auto", C=10.0, random_state=0).fit(X, NUMBERS)
        assert model.p_scores_[model.p_] == max(model.p_scores_.values())

    def test_grid_search(self):
        search = GridSearchCV(
            MKLRegressor(MIXED),
            {"C": [0.1, 10.0], "loss": ["squared", "epsilon_insensitive"]},
            cv=3,
        )
        assert search.fit(X, NUMBERS).best_params_["C"] == 10.0

    def test_bad_parameters(self):
        with pytest.raises(ValueError, match="does not suit this estimator"):
            MKLRegressor(MIXED, loss="hinge").fit(X, NUMBERS)
        with pytest.raises(ValueError, match="epsilon >= 0"):
            MKLRegressor(MIXED, epsilon=-1).fit(X, NUMBERS)


class TestOneClass:
    @pytest.mark.parametrize("nu", [0.1, 0.5])
    def test_one_kernel_is_one_class_svm(self, nu):
        ours = MKLOneClass([RBF(0.3)], nu=nu, tol=1e-9).fit(X)
        svm = OneClassSVM(gamma=0.3, nu=nu, tol=1e-9).fit(X)
        np.testing.assert_allclose(
            ours.decision_function(X), svm.decision_function(X), atol=1e-4 * abs(svm.offset_[0])
        )
        np.testing.assert_allclose(ours.score_samples(X) - ours.offset_, ours.decision_function(X))

    @pytest.mark.parametrize("p", [1.0, 1.33, 2.0])
    def test_finds_novelties(self, p):
        rng = np.random.default_rng(0)
        inside = rng.standard_normal((150, 4))
        outside = rng.uniform(4, 6, (40, 4)) * rng.choice([-1, 1], (40, 4))
        model = MKLOneClass([RBF(0.1), RBF(0.5), RBF(0.3, features=[0, 1])], nu=0.1, p=p).fit(
            inside
        )
        assert model.result_.duality_gap <= 1e-3
        assert (model.predict(outside) == -1).all()
        assert (model.predict(inside) == -1).mean() <= 0.2

    def test_share_of_points_outside(self):
        for nu in (0.05, 0.3, 0.8):
            model = MKLOneClass(CHEAP[:2], nu=nu, p=2.0, tol=1e-6).fit(X)
            assert (model.decision_function(X) < -1e-6).mean() <= nu + 1e-9
            assert model.support_.size >= nu * 80 - 1e-9

    def test_bad_parameters(self):
        with pytest.raises(ValueError, match="0 < nu <= 1"):
            MKLOneClass(nu=0.0).fit(X)
        with pytest.raises(ValueError, match="give p as a number"):
            MKLOneClass(p="auto").fit(X)


class TestSeveralClasses:
    @pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
    @pytest.mark.parametrize("share_weights", [True, False])
    @pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
    def test_all_ways_work_and_are_certified(self, multiclass, share_weights, loss):
        clf = MKLClassifier(
            CHEAP, p=1.33, C=5.0, multiclass=multiclass, share_weights=share_weights, loss=loss
        ).fit(*IRIS)
        assert clf.score(*IRIS) > 0.95
        assert clf.result_.duality_gap <= 1e-3
        assert clf.decision_function(IRIS[0]).shape == (150, 3)
        assert clf.kernel_weights_.shape == ((3,) if share_weights else (3, 3))
        assert clf.dual_coef_.shape[0] == 3

    def test_weights_per_class_are_separate_problems(self):
        both = MKLClassifier(CHEAP, share_weights=False, p=1.33, tol=1e-6).fit(*IRIS)
        for c in range(3):
            alone = MKLClassifier(CHEAP, p=1.33, tol=1e-6).fit(IRIS[0], IRIS[1] == c)
            np.testing.assert_allclose(both.kernel_weights_[c], alone.kernel_weights_, atol=1e-4)
            np.testing.assert_allclose(
                both.decision_function(IRIS[0])[:, c], alone.decision_function(IRIS[0]), atol=1e-4
            )
        frame = both.weights_frame()
        assert [name for name in frame.columns if name.startswith("weight ")] == [
            "weight 0",
            "weight 1",
            "weight 2",
        ]

    def test_one_against_one_with_one_kernel_is_svc(self):
        A, b = load_wine(return_X_y=True)
        A = StandardScaler().fit_transform(A)
        ours = MKLClassifier([RBF(0.05)], multiclass="ovo", share_weights=False, tol=1e-6).fit(A, b)
        svc = SVC(gamma=0.05, decision_function_shape="ovr", tol=1e-6).fit(A, b)
        assert (ours.predict(A) == svc.predict(A)).mean() > 0.99

    def test_ovo_ignores_other_classes_in_a_pair(self):
        clf = MKLClassifier(CHEAP, p=2.0, multiclass="ovo").fit(*IRIS)
        beta = np.zeros((3, 150))
        beta[:, clf.support_] = clf.dual_coef_
        for pair, other in zip(beta, (2, 1, 0), strict=True):
            assert not pair[IRIS[1] == other].any()

    def test_path_with_weights_per_class(self):
        models = path(MKLClassifier(CHEAP, share_weights=False), *IRIS, C=[1.0, 5.0], p=[2.0, 1.33])
        for model in models:
            alone = clone(model).fit(*IRIS)
            assert model.result_.objective == pytest.approx(alone.result_.objective, rel=3e-3)

    def test_bad_choices(self):
        with pytest.raises(ValueError, match="share_weights must be True or False, got 'own'"):
            MKLClassifier(CHEAP, share_weights="own").fit(*IRIS)
        with pytest.raises(ValueError, match="multiclass='crammer' is not known"):
            MKLClassifier(CHEAP, multiclass="crammer").fit(*IRIS)
        with pytest.raises(ValueError, match="does not suit"):
            MKLClassifier(CHEAP, loss="squared").fit(*IRIS)


class TestSelector:
    def data(self, regression=False):
        rng = np.random.default_rng(0)
        A = rng.standard_normal((120, 25))
        signal = np.abs(A[:, 4]) + np.abs(A[:, 11])
        return A, signal if regression else np.where(signal > 1.5, "far", "near")

    @pytest.mark.parametrize("regression", [False, True])
    def test_finds_the_features(self, regression):
        A, b = self.data(regression)
        selector = MKLFeatureSelector(C=10.0, strength=2.0, random_state=0).fit(A, b)
        assert set(np.argsort(-selector.weights_)[:2]) == {4, 11}
        assert selector.set_params(threshold=0.2).get_support().sum() == 2
        assert selector.transform(A).shape == (120, selector.get_support().sum())

    @pytest.mark.parametrize("C", [1.0, 10.0])
    @pytest.mark.parametrize("regression", [False, True])
    def test_columns_of_noise_are_left_out_by_default(self, regression, C):
        rng = np.random.default_rng(3)
        A = rng.standard_normal((200, 50))
        signal = A[:, 7] ** 2 + A[:, 30] ** 2
        b = signal if regression else signal > 1.4
        selector = MKLFeatureSelector(C=C, random_state=0).fit(A, b)
        assert selector.get_support(indices=True).tolist() == [7, 30]

    def test_of_noise_alone_next_to_nothing_is_kept(self):
        rng = np.random.default_rng(0)
        A, b = rng.standard_normal((100, 20)), rng.random(100) < 0.5
        assert MKLFeatureSelector(random_state=0).fit(A, b).get_support().sum() <= 1

    @pytest.mark.parametrize("threshold", ["auto", 1e-3])
    @pytest.mark.parametrize("strength", [1e3, 1e4, 1e6])
    def test_a_strong_penalty_keeps_nothing(self, strength, threshold):
        A, b = self.data()
        selector = MKLFeatureSelector(strength=strength, threshold=threshold, random_state=0)
        assert not selector.fit(A, b).get_support().any()

    def test_sparse_rows_with_weights(self):
        A, b = self.data()
        weights = np.r_[np.ones(100), np.full(20, 0.5)]
        dense, sparse = (
            MKLFeatureSelector(random_state=0).fit(table, b, weights) for table in (A, csr_array(A))
        )
        np.testing.assert_array_equal(dense.get_support(), sparse.get_support())
        assert set(dense.get_support(indices=True)) == {4, 11}

    def test_unknown_threshold(self):
        with pytest.raises(ValueError, match="threshold"):
            MKLFeatureSelector(threshold="none").fit(*self.data())

    def test_advice_is_of_its_own_parameters(self):
        A, b = self.data()
        with pytest.warns(ConvergenceWarning, match=r"\(max_iter\), a larger tol or a smaller C\."):
            MKLFeatureSelector(max_iter=1).fit(A, b)

    def test_at_most_so_many_and_names(self):
        A, b = self.data()
        frame = pd.DataFrame(A, columns=[f"gene {f}" for f in range(25)])
        selector = MKLFeatureSelector(C=10.0, strength=2.0, max_features=2, random_state=0)
        selector.fit(frame, b)
        assert list(selector.get_feature_names_out()) == ["gene 4", "gene 11"]

    def test_in_a_pipeline(self):
        A, b = self.data()
        model = make_pipeline(
            StandardScaler(),
            MKLFeatureSelector(C=10.0, strength=2.0, max_features=4, random_state=0),
            SVC(C=10.0),
        )
        assert (
            cross_val_score(model, A, b, cv=3).mean()
            > cross_val_score(SVC(C=10.0), A, b, cv=3).mean()
        )

    @pytest.mark.long
    def test_leukemia(self, load):
        load("leukemia")  # skips where it is not here
        from conftest import data_folder

        with np.load(data_folder() / "leukemia.npz") as archive:
            train, labels, test, truth = (
                archive[name].astype(float) for name in ("X", "y", "X_test", "y_test")
            )
        scaler = StandardScaler().fit(train)
        selector = MKLFeatureSelector(C=10.0).fit(scaler.transform(train), labels)
        assert 1 <= selector.get_support().sum() < 200
        assert (selector.estimator_.predict(scaler.transform(test)) == truth).sum() >= 30


def test_regularizer_by_p_or_by_object():
    a = MKLRegressor(MIXED, p=1.33, C=2.0, tol=1e-6).fit(X, NUMBERS)
    b = MKLRegressor(MIXED, regularizer=PNormBall(1.33), C=2.0, tol=1e-6).fit(X, NUMBERS)
    np.testing.assert_allclose(a.predict(X), b.predict(X))
