"""MKLClassifier as users meet it."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from conftest import MIXED, toy
from manykernels import MKLClassifier, MKLClassifierCV
from manykernels.banks import MaskedBank, TiledBank, make_bank
from manykernels.kernels import (
    RBF,
    KernelCollection,
    Linear,
    Polynomial,
    Precomputed,
    paper_bank,
)
from manykernels.problem import Problem
from manykernels.regularizers import L1, PNormBall, SquaredPNorm
from manykernels.solvers import SPG

X, y = toy(80)
LABELS = np.where(y > 0, "yes", "no")
KERNELS = MIXED[:4]


class TestFit:
    def test_attributes(self):
        clf = MKLClassifier(KERNELS, C=3.0).fit(X, LABELS)
        assert clf.kernel_weights_.shape == (4,)
        assert clf.kernel_names_[2] == "Linear on all features"
        assert clf.dual_coef_.shape == (1, clf.support_.size)
        assert clf.intercept_.shape == (1,)
        assert clf.classes_.tolist() == ["no", "yes"]
        assert clf.result_.status.name == "OPTIMAL"
        assert clf.result_.duality_gap <= 1e-3
        assert clf.n_iter_ == clf.result_.n_iter > 0
        assert clf.score(X, LABELS) > 0.9

    def test_decision_function_is_the_sum_of_kernels(self):
        clf = MKLClassifier(KERNELS, C=3.0, normalize=None).fit(X, LABELS)
        new = toy(10, seed=5)[0]
        views = [X if k.features is None else X[:, k.features] for k in KERNELS]
        others = [new if k.features is None else new[:, k.features] for k in KERNELS]
        K = sum(
            w * k.block(a, b)
            for w, k, a, b in zip(clf.kernel_weights_, KERNELS, others, views, strict=True)
        )
        expected = K[:, clf.support_] @ clf.dual_coef_[0] + clf.intercept_
        np.testing.assert_allclose(clf.decision_function(new), expected, rtol=1e-9)
        np.testing.assert_array_equal(clf.predict(new), np.where(expected > 0, "yes", "no"))

    def test_one_kernel_is_svc(self):
        clf = MKLClassifier([RBF(0.5)], C=2.0, tol=1e-10).fit(X, y)
        svc = SVC(C=2.0, gamma=0.5, tol=1e-10).fit(X, y)
        np.testing.assert_array_equal(clf.support_, np.sort(svc.support_))
        order = np.argsort(svc.support_)
        np.testing.assert_allclose(clf.dual_coef_, svc.dual_coef_[:, order], atol=1e-5)
        np.testing.assert_allclose(clf.decision_function(X), svc.decision_function(X), atol=1e-5)

    @pytest.mark.parametrize(
        "regularizer", [PNormBall(1.5), SquaredPNorm(2, 0.1), L1(0.5)], ids=repr
    )
    def test_regularizers(self, regularizer):
        clf = MKLClassifier(KERNELS, regularizer=regularizer, C=3.0).fit(X, y)
        assert clf.result_.duality_gap <= 1e-3

    def test_p_is_short_for_the_ball(self):
        a = MKLClassifier(KERNELS, p=1.5).fit(X, y)
        b = MKLClassifier(KERNELS, regularizer=PNormBall(1.5)).fit(X, y)
        np.testing.assert_array_equal(a.kernel_weights_, b.kernel_weights_)

    def test_solver_objects(self):
        clf = MKLClassifier(KERNELS, solver=SPG(nonmonotone=False)).fit(X, y)
        assert clf.result_.duality_gap <= 1e-3

    def test_auto_kernels_do_not_mind_units(self):
        scaled = X * np.array([1.0, 1e4, 1e-4, 30.0])
        assert MKLClassifier(C=10.0).fit(scaled, y).score(scaled, y) > 0.8

    def test_verbose_prints_and_quiet_does_not(self, capsys):
        MKLClassifier(KERNELS).fit(X, y)
        assert capsys.readouterr().out == ""
        MKLClassifier(KERNELS, verbose=2).fit(X, y)
        assert "gap" in capsys.readouterr().out

    def test_small_cache_gives_the_same(self):
        a = MKLClassifier(KERNELS, C=3.0, tol=1e-6).fit(X, y)
        b = MKLClassifier(KERNELS, C=3.0, tol=1e-6, cache_size=0.01).fit(X, y)
        assert a.result_.objective == pytest.approx(b.result_.objective, rel=2e-6)

    def test_tolerance_decides_the_precision(self):
        assert MKLClassifier(KERNELS).fit(X, y).bank_.dtype == np.float32
        assert MKLClassifier(KERNELS, tol=1e-7).fit(X, y).bank_.dtype == np.float64

    @pytest.mark.parametrize("C", [1e4, 1e5])
    @pytest.mark.parametrize("solver", ["spg", "newton"])
    def test_the_certificate_of_float32_kernels_holds_in_float64(self, solver, C):
        kernels = [RBF(0.1), RBF(1.0), Polynomial(3)]
        clf = MKLClassifier(kernels, p=2, C=C, solver=solver).fit(X, y)
        beta = np.zeros((1, len(y)))
        beta[:, clf.support_] = clf.dual_coef_
        exact = Problem(
            make_bank(KernelCollection(kernels), X), y, np.full(len(y), C), PNormBall(2)
        )
        assert exact.certificate(clf.kernel_weights_, beta).gap <= 1.1e-3

    def test_float32_too_coarse_for_the_tolerance_is_replaced(self):
        clf = MKLClassifier([RBF(0.1), Polynomial(3)], C=1e4, tol=1e-5, p=2).fit(X, y)
        assert clf.bank_.dtype == np.float64
        assert clf.result_.duality_gap <= 1e-5

    def test_order_of_rows_does_not_matter(self, rng):
        order = rng.permutation(len(y))
        a = MKLClassifier(KERNELS).fit(X, y)
        b = MKLClassifier(KERNELS).fit(X[order], y[order])
        np.testing.assert_array_equal(a.kernel_weights_, b.kernel_weights_)
        np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))
        np.testing.assert_array_equal(np.sort(order[b.support_]), a.support_)


class TestMulticlass:
    def test_shared_weights(self):
        data = load_iris()
        clf = MKLClassifier(C=10.0).fit(data.data, data.target_names[data.target])
        assert clf.decision_function(data.data).shape == (150, 3)
        assert clf.dual_coef_.shape[0] == 3
        assert clf.kernel_weights_.ndim == 1
        assert clf.score(data.data, data.target_names[data.target]) > 0.95

    def test_objective_sums_over_classes(self):
        data = load_iris()
        clf = MKLClassifier(KERNELS, p=2.0, tol=1e-8).fit(data.data, data.target)
        targets = np.stack([np.where(data.target == c, 1.0, -1.0) for c in range(3)])
        bank = make_bank(KernelCollection(KERNELS), data.data)
        beta = np.zeros((3, 150))
        beta[:, clf.support_] = clf.dual_coef_
        certificate = Problem(bank, targets, np.ones(150), PNormBall(2)).certificate(
            clf.kernel_weights_, beta
        )
        assert certificate.gap <= 1e-7


class TestWeights:
    """A zero weight is a removed row, a whole one a repeated row."""

    WEIGHT = np.random.default_rng(0).integers(0, 4, len(y))

    @pytest.mark.parametrize("normalize", ["diagonal", "trace", "cosine", "center", None])
    @pytest.mark.parametrize(
        "kernels", [KERNELS, "auto", [RBF(), Linear()]], ids=["list", "auto", "scale"]
    )
    def test_repeats(self, kernels, normalize):
        options = {"kernels": kernels, "normalize": normalize, "tol": 1e-8, "p": 2.0}
        weighted = MKLClassifier(**options).fit(X, y, sample_weight=self.WEIGHT)
        repeated = MKLClassifier(**options).fit(
            np.repeat(X, self.WEIGHT, axis=0), np.repeat(y, self.WEIGHT)
        )
        np.testing.assert_allclose(weighted.kernel_weights_, repeated.kernel_weights_, atol=1e-6)
        np.testing.assert_allclose(
            weighted.decision_function(X), repeated.decision_function(X), atol=1e-6
        )

    def test_repeats_of_precomputed(self):
        K = [Precomputed(RBF(g).block(X, X)) for g in (0.1, 1.0)]
        index = np.arange(len(y))[:, None]
        options = {"kernels": K, "tol": 1e-8, "p": 2.0}
        weighted = MKLClassifier(**options).fit(index, y, sample_weight=self.WEIGHT)
        repeated = MKLClassifier(**options).fit(
            np.repeat(index, self.WEIGHT, axis=0), np.repeat(y, self.WEIGHT)
        )
        kept = self.WEIGHT > 0
        removed = MKLClassifier(**options).fit(
            index[kept], y[kept], sample_weight=self.WEIGHT[kept]
        )
        np.testing.assert_allclose(
            weighted.decision_function(index), repeated.decision_function(index), atol=1e-6
        )
        np.testing.assert_allclose(
            weighted.decision_function(index), removed.decision_function(index), atol=1e-6
        )

    def test_without_merging_the_optimum_is_the_same(self):
        """The merged problem and the plain one, solved separately, agree: merging hides nothing."""
        repeated_X, repeated_y = np.repeat(X, self.WEIGHT, axis=0), np.repeat(y, self.WEIGHT)
        clf = MKLClassifier(KERNELS, p=2.0, tol=1e-8).fit(repeated_X, repeated_y)
        beta = np.zeros((1, len(repeated_y)))
        beta[:, clf.support_] = clf.dual_coef_
        plain = Problem(
            make_bank(KernelCollection(KERNELS), repeated_X),
            repeated_y,
            np.ones(len(repeated_y)),
            PNormBall(2),
        )
        assert plain.certificate(clf.kernel_weights_, beta).gap <= 2e-8

    def test_fractional_weights_scale_C(self):
        a = MKLClassifier(KERNELS, C=2.0, normalize=None, tol=1e-8, p=2).fit(
            X, y, sample_weight=np.full(len(y), 0.5)
        )
        b = MKLClassifier(KERNELS, C=1.0, normalize=None, tol=1e-8, p=2).fit(X, y)
        np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-6)

    def test_class_weights_are_sample_weights(self):
        clf = MKLClassifier(KERNELS, class_weight={1.0: 3.0}, normalize=None, tol=1e-8, p=2).fit(
            X, y
        )
        same = MKLClassifier(KERNELS, normalize=None, tol=1e-8, p=2).fit(
            X, y, sample_weight=np.where(y > 0, 3.0, 1.0)
        )
        np.testing.assert_allclose(clf.decision_function(X), same.decision_function(X), atol=1e-6)

    def test_balanced(self):
        few = np.concatenate([np.flatnonzero(y > 0)[:6], np.flatnonzero(y < 0)])
        clf = MKLClassifier([RBF(0.5)], C=0.05, class_weight="balanced").fit(X[few], y[few])
        plain = MKLClassifier([RBF(0.5)], C=0.05).fit(X[few], y[few])
        assert (clf.predict(X) > 0).sum() > (plain.predict(X) > 0).sum()


class TestPrecomputed:
    GRAMS = np.stack([RBF(g).block(X, X) for g in (0.1, 1.0, 10.0)])
    INDEX = np.arange(len(y))[:, None]

    def test_same_as_the_kernels_themselves(self):
        a = MKLClassifier([Precomputed(K) for K in self.GRAMS], tol=1e-8, p=2).fit(self.INDEX, y)
        b = MKLClassifier([RBF(g) for g in (0.1, 1.0, 10.0)], tol=1e-8, p=2).fit(X, y)
        np.testing.assert_allclose(
            a.decision_function(self.INDEX), b.decision_function(X), atol=1e-6
        )

    def test_grid_search_through_indices(self):
        search = GridSearchCV(
            MKLClassifier([Precomputed(K) for K in self.GRAMS]),
            {"C": [0.1, 10.0], "p": [1.0, 2.0]},
            cv=3,
        )
        search.fit(self.INDEX, y)
        assert search.best_score_ > 0.6
        scores = cross_val_score(
            MKLClassifier([RBF(g) for g in (0.1, 1.0, 10.0)], **search.best_params_), X, y, cv=3
        )
        assert scores.mean() == pytest.approx(search.best_score_, abs=0.02)

    def test_test_matrices_in_place_of_indices(self):
        train, test = np.arange(60), np.arange(60, 80)
        clf = MKLClassifier([Precomputed(K) for K in self.GRAMS]).fit(self.INDEX[train], y[train])
        expected = clf.decision_function(self.INDEX[test])
        cross = self.GRAMS[:, test][:, :, train]
        np.testing.assert_allclose(clf.decision_function(cross), expected, rtol=1e-9)
        np.testing.assert_allclose(clf.decision_function(list(cross)), expected, rtol=1e-9)
        one = MKLClassifier([Precomputed(self.GRAMS[0])]).fit(self.INDEX[train], y[train])
        np.testing.assert_allclose(
            one.decision_function(cross[0]), one.decision_function(self.INDEX[test]), rtol=1e-9
        )

    def test_test_matrices_of_the_wrong_side(self):
        train, test = np.arange(60), np.arange(60, 80)
        clf = MKLClassifier([Precomputed(K) for K in self.GRAMS]).fit(self.INDEX[train], y[train])
        with pytest.raises(
            ValueError, match=r"K\(test, train\) is needed, with one column for each of the 60"
        ):
            clf.predict(self.GRAMS[:, test][:, :, test])
        with pytest.raises(ValueError, match="3 precomputed kernels, but 2"):
            clf.predict(self.GRAMS[:2, test][:, :, train])

    def test_index_column_among_others_is_not_a_matrix(self):
        wide = np.hstack([self.INDEX, np.zeros((len(y), len(y) - 1))])
        a = MKLClassifier([Precomputed(self.GRAMS[0], features=0)]).fit(wide, y)
        b = MKLClassifier([Precomputed(self.GRAMS[0])]).fit(self.INDEX, y)
        assert (a.predict(wide) == b.predict(self.INDEX)).mean() > 0.98
        np.testing.assert_allclose(
            a.decision_function(wide), b.decision_function(self.INDEX), atol=0.05
        )

    def test_no_kernel_is_worth_its_weight(self):
        clf = MKLClassifier([Precomputed(K) for K in self.GRAMS], regularizer=L1(1e6)).fit(
            self.INDEX, y
        )
        assert clf.predict(self.GRAMS).shape == y.shape
        np.testing.assert_array_equal(clf.predict(self.GRAMS), clf.predict(self.INDEX))


class TestTools:
    def test_pipeline_and_clone(self):
        pipe = make_pipeline(StandardScaler(), MKLClassifier(KERNELS, C=2.0)).fit(X, y)
        assert clone(pipe).fit(X, y).score(X, y) == pipe.score(X, y)

    def test_pickle(self):
        clf = MKLClassifier(KERNELS, n_jobs=2).fit(X, LABELS)
        again = pickle.loads(pickle.dumps(clf))
        np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))

    def test_data_frame_columns_by_name(self):
        frame = pd.DataFrame(X, columns=["age", "dose", "gene", "site"])
        clf = MKLClassifier(
            {"clinical": RBF(0.5, features=["age", "dose"]), "omics": [Linear(features="gene")]}
        ).fit(frame, LABELS)
        plain = MKLClassifier([RBF(0.5, features=[0, 1]), Linear(features=2)]).fit(X, LABELS)
        np.testing.assert_array_equal(clf.decision_function(frame), plain.decision_function(X))
        assert clf.kernel_names_ == [
            "clinical: RBF(gamma=0.5) on age, dose",
            "omics: Linear on gene",
        ]

    def test_weights_frame(self):
        clf = MKLClassifier({"a": KERNELS[:2], "b": KERNELS[2:]}, p=2).fit(X, y)
        frame = clf.weights_frame()
        assert list(frame.columns) == [
            *("kernel", "group", "weight", "share", "contribution", "remark")
        ]
        assert frame["share"].sum() == pytest.approx(1.0)
        assert frame["weight"].is_monotonic_decreasing
        assert set(frame["group"]) == {"a", "b"}

    def test_boolean_choice_of_data_frame_columns(self):
        frame = pd.DataFrame(X, columns=["age", "dose", "gene", "site"])
        clf = MKLClassifier(
            [RBF(0.5, features=[True, False, True, False]), Linear(features=-1)]
        ).fit(frame, LABELS)
        assert clf.kernel_names_ == ["RBF(gamma=0.5) on age, gene", "Linear on site"]
        with pytest.raises(ValueError, match="outside the 4 columns"):
            MKLClassifier([RBF(0.5, features=[9])]).fit(frame, LABELS)

    def test_trained_on_dense_predicts_on_sparse(self):
        clf = MKLClassifier([RBF(0.5), Linear()], C=10).fit(X + 3, y)
        np.testing.assert_allclose(
            clf.decision_function(sparse.csr_matrix(X + 3)), clf.decision_function(X + 3), atol=1e-9
        )

    def test_sparse_and_dense_agree(self):
        points = np.where(X > 0.5, X, 0.0)
        kernels = paper_bank(points)
        dense = MKLClassifier(kernels, tol=1e-8, p=2).fit(points, y)
        same = MKLClassifier(kernels, tol=1e-8, p=2).fit(sparse.csr_matrix(points), y)
        np.testing.assert_allclose(
            same.decision_function(sparse.csr_array(points)),
            dense.decision_function(points),
            atol=1e-6,
        )

    def test_fitted_bank_is_reused(self):
        bank = make_bank(KernelCollection(KERNELS), X)
        a = MKLClassifier(bank, tol=1e-8, p=2).fit(X, y)
        b = MKLClassifier(KERNELS, tol=1e-8, p=2).fit(X, y)
        assert a.bank_ is bank
        np.testing.assert_allclose(a.decision_function(X), b.decision_function(X), atol=1e-5)

    def test_few_kernels_of_subsets_are_computed_by_themselves(self, rng, lower):
        """Not pair by pair, as many are; the model is the same, and grids share them."""
        X, y = toy(60)
        kernels = KernelCollection.masked_rbf(rng.random(9) + 0.1, np.tri(9, 4, dtype=bool))
        few = MKLClassifier(kernels, tol=1e-6).fit(X, y)
        grid = MKLClassifierCV(kernels, Cs=[1.0], ps=[1.0], cv=2).fit(X, y)
        lower(listed_subsets=8)
        many = MKLClassifier(kernels, tol=1e-6).fit(X, y)
        assert isinstance(few.bank_, TiledBank)
        assert isinstance(many.bank_, MaskedBank)
        np.testing.assert_allclose(few.kernel_weights_, many.kernel_weights_, atol=1e-4)
        again = MKLClassifierCV(kernels, Cs=[1.0], ps=[1.0], cv=2).fit(X, y)
        np.testing.assert_allclose(grid.scores_, again.scores_, atol=1e-3)

    def test_few_kernels_of_subsets_are_checked_as_many_are(self):
        X, y = toy(60)
        masks = np.tri(9, 4, dtype=bool)
        with pytest.raises(ValueError, match="masks are over 4 features, but X has 5"):
            MKLClassifier(KernelCollection.masked_rbf(np.ones(9), masks)).fit(
                X[:, [0, *range(4)]], y
            )
        masks[3] = False
        model = MKLClassifier(KernelCollection.masked_rbf(np.ones(9), masks)).fit(X, y)
        assert isinstance(model.bank_, MaskedBank)

    def test_masked_bank(self, rng):
        bank = KernelCollection.masked_rbf(rng.random(500) + 0.1, rng.random((500, 4)) < 0.7)
        clf = MKLClassifier(bank, C=10.0, p=1.33).fit(X, LABELS)
        assert clf.result_.duality_gap <= 1e-3
        assert clf.score(X, LABELS) > 0.9
        assert len(clf.kernel_names_) == 500

    def test_not_fitted(self):
        with pytest.raises(NotFittedError):
            MKLClassifier().predict(X)
        assert not hasattr(MKLClassifier(), "kernel_names_")

    def test_not_converged_says_the_gap_and_what_to_do(self):
        with pytest.warns(ConvergenceWarning, match=r"gap of [\d.e+-]+.*max_iter"):
            MKLClassifier(KERNELS, max_iter=1, tol=1e-9).fit(X, y)

    def test_user_kernel_class(self):
        data, labels = make_classification(60, 5, random_state=0)
        clf = MKLClassifier([lambda A, B: np.minimum(A[:, None], B).sum(axis=2) + 50, RBF()]).fit(
            data, labels
        )
        assert clf.score(data, labels) > 0.8
