"""Data and choices at the edge: tiny targets, no support vectors, points that do not count,
interrupts, absurd scales.
"""

import _thread
import threading
import time

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from manykernels import MKLClassifier, MKLFeatureSelector, MKLOneClass, MKLRegressor, path
from manykernels.banks import CombinationBank, make_bank
from manykernels.combinations import PolynomialMixture, Product
from manykernels.kernels import RBF, KernelCollection, Linear
from manykernels.losses import Hinge
from manykernels.problem import Problem
from manykernels.regularizers import L1, GeneralizedKL, PNormBall
from manykernels.result import Certificate, Status
from manykernels.run_state import RunState
from manykernels.solvers import SPG, Iterate, Newton, loop, solve
from manykernels.solvers.sequential import Sequential

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
NUMBERS = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(60)
LABELS = (X[:, 0] * X[:, 1] > 0).astype(int)
KERNELS = [RBF(0.1), RBF(1.0), RBF(10.0), Linear()]


class TestScales:
    @pytest.mark.parametrize("p", [1.0, 1.2, 2.0, np.inf])
    @pytest.mark.parametrize("scale", [1e-6, 0.03, 0.28, 1e4])
    def test_targets_of_any_size(self, p, scale):
        model = MKLRegressor(KERNELS, p=p, C=10.0 * scale, epsilon=0.05 * scale).fit(
            X, scale * NUMBERS
        )
        assert model.result_.status.name == "OPTIMAL"
        assert model.score(X, scale * NUMBERS) > 0.9

    def test_targets_far_from_zero(self):
        near = MKLRegressor(KERNELS, p=2.0, tol=1e-6).fit(X, NUMBERS)
        far = MKLRegressor(KERNELS, p=2.0, tol=1e-6).fit(X, NUMBERS + 1e6)
        np.testing.assert_allclose(far.predict(X) - 1e6, near.predict(X), atol=1e-3)
        assert far.result_.counters.machine_steps < 3 * near.result_.counters.machine_steps

    @pytest.mark.parametrize("kernels", [KERNELS, "auto"])
    def test_nothing_to_explain(self, kernels):
        for y, options in (
            (NUMBERS, {"epsilon": 100.0}),
            (np.full(60, 3.0), {}),
            (0.15 * np.clip(NUMBERS, 0, 1), {"epsilon": 0.1}),
        ):
            model = MKLRegressor(kernels, **options).fit(X, y)
            np.testing.assert_allclose(model.predict(X), model.intercept_[0])
            assert model.support_.size == 0

    @pytest.mark.parametrize("p", [1.0, 2.0])
    @pytest.mark.parametrize("C", [1e4, 1e5])
    @pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
    def test_smooth_losses_with_large_costs(self, C, p, loss):
        A, b = load_breast_cancer(return_X_y=True)
        A = StandardScaler().fit_transform(A)[:300]
        clf = MKLClassifier([RBF(0.01), RBF(0.1), RBF(1.0), Linear()], p=p, C=C, loss=loss).fit(
            A, b[:300]
        )
        assert clf.result_.status.name == "OPTIMAL"

    @pytest.mark.parametrize("scale", [1e160, 1e200, 1e300])
    @pytest.mark.parametrize("n_features", [3, 6])
    @pytest.mark.parametrize("combination", ["product", PolynomialMixture(), "sum"])
    @pytest.mark.filterwarnings("error")
    def test_features_beyond_all_squares_are_refused(self, scale, n_features, combination):
        points = scale * RNG.standard_normal((30, n_features)).clip(-3.0, 3.0)
        with pytest.raises(ValueError, match=r"too large.*rescale them"):
            MKLClassifier(combination=combination).fit(points, LABELS[:30])

    @pytest.mark.parametrize("scale", [1e20, 1e60, 1e130])
    def test_product_of_large_features(self, scale):
        points = scale * np.hstack([X, X])
        with pytest.warns(ConvergenceWarning):
            model = MKLClassifier(combination="product").fit(points, LABELS)
        assert np.isfinite(model.decision_function(points)).all()

    @pytest.mark.filterwarnings("error")
    def test_new_points_far_from_a_product(self):
        for n_features in (3, 6):
            points = np.hstack([X, X])[:, :n_features]
            model = MKLClassifier(combination=Product(starts=1), p=2.0).fit(points, LABELS)
            far = np.vstack([1e160 * points, -1e300 * points])
            np.testing.assert_allclose(model.decision_function(far), model.intercept_[0])

    def test_product_of_small_targets_is_trained(self):
        rng = np.random.default_rng(0)
        A = rng.standard_normal((100, 6))
        target = 0.01 * (np.sin(2 * A[:, 0]) + A[:, 1] ** 2)
        model = MKLRegressor(combination=Product(starts=1), C=10, epsilon=0.0005).fit(A, target)
        assert model.n_iter_ > 0
        assert model.score(A, target) > 0.9

    def test_tolerance_counts_where_there_is_no_gap(self):
        bank = CombinationBank(Product().fit(X))
        found = [
            solve(
                Problem(bank, np.where(LABELS, 1.0, -1.0), np.full(60, 3.0), L1(0.5)),
                SPG(),
                tol=tol,
            )
            for tol in (1e-2, 1e-4)
        ]
        assert found[0].n_iter < found[1].n_iter
        assert found[1].objective <= found[0].objective * (1 + 1e-3)


class TestLargeCosts:
    """The squared loss where the ridge is small beside the rounding of kernels, or where a method
    that is not chosen would reach what the default does not.
    """

    @pytest.mark.parametrize(
        ("C", "tol"), [(1e4, 1e-3), (1e3, 1e-6), (1e5, 1e-3), (1e5, 1e-6), (1e6, 1e-3)]
    )
    def test_a_target_without_noise(self, C, tol):
        points = np.random.default_rng(1).normal(size=(120, 6))
        target = 3.0 * points[:, 0] + np.sin(points[:, 1])
        model = MKLRegressor(loss="squared", C=C, tol=tol).fit(points, target)
        assert model.result_.status is Status.OPTIMAL
        assert model.result_.duality_gap <= tol
        assert model.score(points, target) > 0.999

    @pytest.mark.parametrize("p", [1, 2])
    @pytest.mark.parametrize("C", [1e6, 1e8])
    def test_kernels_that_rounding_makes_indefinite(self, p, C):
        points = np.linspace(0.0, 6.0, 60)[:, None]
        for kernels in ([Linear()], [RBF(0.01)]):
            model = MKLRegressor(kernels, loss="squared", C=C, p=p).fit(points, points[:, 0])
            assert model.score(points, points[:, 0]) > 0.999

    @pytest.mark.parametrize("rounding", [0.01, 0.5])
    def test_another_method_goes_on_unless_rounding_is_the_end(self, rounding):
        certificate = Certificate(1.0, 0.9, 0.1, np.zeros(1), rounding)
        iterate = Iterate(np.ones(1), np.zeros((1, 2)), certificate)
        assert loop._stuck(Status.STALLED, iterate) == (rounding < 0.1)
        assert not loop._stuck(Status.SLOW, iterate)


class TestPointsThatDoNotCount:
    def test_intercepts_of_pairs(self):
        rng = np.random.default_rng(0)
        A, b = rng.standard_normal((30, 2)), np.repeat([0, 1, 2], 10)
        A[:, 0] += 3 * b
        pairs = MKLClassifier([Linear()], C=1e-3, multiclass="ovo", normalize=None, tol=1e-7).fit(
            A, b
        )
        kept = b > 0
        alone = MKLClassifier([Linear()], C=1e-3, normalize=None, tol=1e-7).fit(A[kept], b[kept])
        assert pairs.intercept_[2] == pytest.approx(alone.intercept_[0], abs=1e-6)
        assert pairs.score(A, b) >= SVC(C=1e-3, kernel="linear").fit(A, b).score(A, b) - 0.05

    def test_zero_weights_with_a_fitted_bank(self):
        weight = np.where(np.arange(60) < 45, 1.0, 0.0)
        bank = make_bank(KernelCollection(KERNELS), X, normalize=None)
        some = MKLClassifier(bank, C=1e-3, p=2.0, normalize=None, tol=1e-6).fit(
            X, LABELS, sample_weight=weight
        )
        alone = MKLClassifier(KERNELS, C=1e-3, p=2.0, normalize=None, tol=1e-6).fit(
            X[:45], LABELS[:45]
        )
        assert some.intercept_[0] == pytest.approx(alone.intercept_[0], abs=1e-4)

    def test_intercept_skips_kinks_without_cost(self):
        y, cost = np.array([1.0, -1.0, 1.0]), np.array([1.0, 1.0, 0.0])
        assert Hinge().intercept(y, cost, np.array([3.0, -3.0, 1.5])) == pytest.approx(0.0)

    def test_alignment_of_a_pair(self):
        A, b = load_iris(return_X_y=True)
        pairs = MKLClassifier(
            KERNELS, multiclass="ovo", share_weights=False, solver="alignment"
        ).fit(A, b)
        other = b.copy()
        other[b == 0] = 3  # what lies outside the pair has another name, and nothing else changes
        again = MKLClassifier(
            KERNELS, multiclass="ovo", share_weights=False, solver="alignment"
        ).fit(A, other)
        np.testing.assert_allclose(pairs.kernel_weights_[2], again.kernel_weights_[0], rtol=1e-6)


class TestCertificates:
    def test_weights_beyond_all_numbers_prove_nothing(self):
        bank = make_bank(KernelCollection([RBF(0.01), RBF(1.0)]), X)
        problem = Problem(bank, np.where(LABELS, 1.0, -1.0), np.full(60, 1e3), GeneralizedKL())
        beta = problem.boxes[0].feasible(problem.boxes[0].upper + problem.boxes[0].lower)
        assert problem.certificate(np.ones(2), beta[None]).dual == -np.inf
        assert solve(problem, Newton(), tol=1e-4).status.name == "OPTIMAL"

    def test_a_negative_gap_is_not_optimal(self):
        certificate = Problem(
            make_bank(KernelCollection(KERNELS), X),
            np.where(LABELS, 1.0, -1.0),
            np.ones(60),
            PNormBall(2),
        ).certificate(np.full(4, 0.5), np.zeros((1, 60)))
        iterate = Iterate(np.ones(4), np.zeros((1, 60)), certificate._replace(gap=-0.5))
        assert loop._status(iterate, 1e-3, 0.04, 1, 10) is None

    def test_all_weights_zero_is_said(self):
        with pytest.warns(ConvergenceWarning, match="All kernel weights are zero"):
            MKLClassifier(KERNELS, regularizer=L1(1e6), C=1e-3).fit(X, LABELS)


class TestInterrupts:
    @pytest.fixture
    def interrupted(self, monkeypatch):
        """Ctrl-C in the first step of the second run."""
        step, runs = Sequential.step, []
        init = Sequential.init

        def counting_init(self, run):
            runs.append(0)
            return init(self, run)

        def stopping_step(self, run, state, tol):
            if len(runs) == 2:
                raise KeyboardInterrupt
            return step(self, run, state, tol)

        monkeypatch.setattr(Sequential, "init", counting_init)
        monkeypatch.setattr(Sequential, "step", stopping_step)
        return runs

    def test_path_ends(self, interrupted):
        model = MKLClassifier(KERNELS, tol=1e-6, callbacks=[lambda record: None])
        with pytest.warns(ConvergenceWarning, match="Interrupted"):
            models = path(model, X, LABELS, C=[1.0, 2.0, 3.0, 4.0])
        assert len(models) == 2
        assert models[1].result_.status is Status.INTERRUPTED

    def test_path_of_models_side_by_side_ends(self, monkeypatch):
        """Ctrl-C reaches the thread that waits, not those that work."""
        step = Sequential.step

        def slow_step(self, run, state, tol):
            time.sleep(0.2)
            return step(self, run, state, tol)

        monkeypatch.setattr(Sequential, "step", slow_step)
        timer = threading.Timer(0.5, _thread.interrupt_main)
        timer.start()
        with pytest.warns(ConvergenceWarning, match="Interrupted"):
            models = path(MKLClassifier(KERNELS, tol=1e-9), X, LABELS, C=np.logspace(-1, 2, 9))
        timer.join()
        assert len(models) < 9
        assert models[-1].result_.status is Status.INTERRUPTED
        assert models[-1].predict(X).shape == (len(X),)

    def test_classes_after_it_get_one_svm(self, interrupted):
        with pytest.warns(ConvergenceWarning, match="Interrupted|limit"):
            clf = MKLClassifier(KERNELS, share_weights=False, tol=1e-7).fit(
                *load_iris(return_X_y=True)
            )
        assert clf.result_.status is Status.INTERRUPTED
        assert clf.predict(load_iris().data).shape == (150,)

    def test_choice_of_p_does_not_go_on(self, interrupted):
        with pytest.raises(KeyboardInterrupt), pytest.warns(ConvergenceWarning):
            MKLClassifier(KERNELS, p="auto", tol=1e-6, random_state=0).fit(X, LABELS)


class TestChoices:
    def test_p_is_forgotten(self):
        clf = MKLClassifier(KERNELS, p="auto", random_state=0).fit(X, LABELS)
        clf.set_params(p=2.0).fit(X, LABELS)
        assert not hasattr(clf, "p_")
        assert not hasattr(clf, "p_scores_")

    def test_auto_p_checks_the_data_first(self):
        auto = MKLClassifier(KERNELS, p="auto", random_state=0)
        assert auto.fit(sparse.coo_matrix(X), LABELS).p_ >= 1
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            auto.fit(X[:40], LABELS)
        with pytest.raises(ValueError, match="Unknown label type"):
            auto.fit(X, NUMBERS)
        with pytest.raises(ValueError, match="requires y to be passed"):
            auto.fit(X, None)
        with pytest.raises(ValueError, match="at least four samples"):
            MKLRegressor(KERNELS, p="auto").fit(X[:3], NUMBERS[:3])

    def test_path_without_costs(self):
        assert len(path(MKLOneClass(KERNELS[:2]), X, None, p=[2.0, np.inf])) == 2
        with pytest.raises(ValueError, match="has no C"):
            path(MKLOneClass(KERNELS[:2]), X, None, C=[1.0])
        with pytest.raises(ValueError, match="at least one C and one p"):
            path(MKLClassifier(KERNELS), X, LABELS, C=[])

    @pytest.mark.parametrize(
        "options",
        [{"regularizer": L1()}, {"regularizer": GeneralizedKL()}, {"combination": "product"}],
    )
    def test_novelties_need_bounded_weights(self, options):
        with pytest.raises(ValueError, match="bounded weights"):
            MKLOneClass(**options).fit(X)

    def test_novelties_inside_a_ring(self):
        rng = np.random.default_rng(0)
        angle = rng.uniform(0, 2 * np.pi, 200)
        ring = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.05 * rng.standard_normal(
            (200, 2)
        )
        model = MKLOneClass([RBF(g) for g in (5.0, 10.0, 20.0)], nu=0.1, p=2.0).fit(ring)
        assert model.score_samples(0.1 * rng.standard_normal((50, 2))).max() < np.median(
            model.score_samples(ring)
        )

    def test_selector_on_small_targets(self):
        target = 0.1 * (X[:, 0] ** 2)
        assert not MKLFeatureSelector(C=10, epsilon=100.0).fit(X, target).get_support().any()
        assert (
            MKLFeatureSelector(C=10, strength=0.01, epsilon=0.001).fit(X, target).get_support()[0]
        )
        with pytest.raises(ValueError, match="whole number of at least 1"):
            MKLFeatureSelector(max_features=0.5).fit(X, LABELS)
        with pytest.raises(ValueError, match="starts must be at least 1"):
            MKLFeatureSelector(starts=0).fit(X, LABELS)


def test_newton_counts_its_kernels():
    bank = make_bank(KernelCollection(KERNELS), X)
    for outputs in (1, 3):
        y = np.tile(np.where(LABELS, 1.0, -1.0), (outputs, 1))
        problem = Problem(bank, y, np.ones(60), PNormBall(2))
        assert Newton().fits(RunState(problem, memory_budget=8 * 60 * 60 + 1)) == (outputs == 1)


def test_ridge_regression_of_many_points_is_exact():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((400, 3))
    target = np.sin(A[:, 0])
    model = MKLRegressor([RBF(0.5)], loss="squared", C=50.0, tol=1e-8).fit(A, target)
    assert model.result_.status.name == "OPTIMAL"
    svr = SVR(gamma=0.5, C=50.0, epsilon=0.0).fit(A, target)
    assert np.abs(model.predict(A) - svr.predict(A)).max() < 0.1
