"""Kernels that are not sums: products, mixtures of polynomials, a user's own."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from conftest import toy
from manykernels import MKLClassifier, MKLRegressor
from manykernels.banks import CombinationBank
from manykernels.combinations import Combination, PolynomialMixture, Product, namespace
from manykernels.losses import (
    EpsilonInsensitive,
    Hinge,
    Logistic,
    OneClass,
    Squared,
    SquaredHinge,
)
from manykernels.problem import Problem
from manykernels.regularizers import L1, PNormBall, SquaredPNorm
from manykernels.run_state import RunState
from manykernels.solvers import SOLVERS, SPG, QuasiNewton, choose_solver, solve
from manykernels.testing import check_combination

X, y = toy(60)
NUMBERS = X[:, 0] * X[:, 1]


class Bump(Combination):
    """A user's kernel whose gradient torch finds: a rational function of a weighted distance."""

    def gram(self, weights, rows, cols):
        distances = ((rows[:, None, :] - cols[None, :, :]) ** 2 * weights).sum(-1)
        return 1.0 / (1.0 + namespace(weights).sqrt(1.0 + distances))


class TestProduct:
    def test_gram_is_a_product_of_gaussians(self):
        d = np.array([0.5, 0.0, 2.0, 0.1])
        expected = np.prod([rbf_kernel(X[:, [f]], gamma=d[f]) for f in range(4)], axis=0)
        np.testing.assert_allclose(Product().fit(X).gram(d, X, X), expected, atol=1e-12)

    def test_groups_share_a_weight(self):
        fitted = Product(groups=["u", "v", "v", "u"]).fit(X)
        assert fitted.names() == ["u", "v"]
        one, two = rbf_kernel(X[:, [0, 3]], gamma=0.7), rbf_kernel(X[:, [1, 2]], gamma=0.2)
        np.testing.assert_allclose(fitted.gram(np.array([0.7, 0.2]), X, X), one * two, atol=1e-12)
        with pytest.raises(ValueError, match="groups for 3 features, but X has 4"):
            Product(groups=[1, 2, 3]).fit(X)

    def test_fixed_weights_are_an_svm(self):
        bank = CombinationBank(Product().fit(X))
        weights = np.full(4, 0.3)
        run = RunState(Problem(bank, y, np.full(60, 2.0), L1()))
        ours = run.evaluate(weights, np.zeros((1, 60)), 1e-9)
        scores = SVC(C=2.0, gamma=0.3, tol=1e-9).fit(X, y).decision_function(X)
        np.testing.assert_allclose(
            ours.scores[0] - ours.scores[0, 0], scores - scores[0], atol=1e-5
        )

    @pytest.mark.parametrize(
        "loss",
        [Hinge(), SquaredHinge(), Logistic(), EpsilonInsensitive(0.1), Squared(), OneClass(0.3)],
        ids=repr,
    )
    @pytest.mark.parametrize("combination", [Product(), PolynomialMixture()], ids=repr)
    def test_gradient_of_w_by_finite_differences(self, loss, combination):
        bank, step = CombinationBank(combination.fit(X)), 1e-4
        targets = y if loss.separates else NUMBERS
        run = RunState(Problem(bank, targets, np.full(60, 0.7), SquaredPNorm(1.5), loss=loss))
        weights = np.random.default_rng(0).uniform(0.2, 0.4, 4)

        def evaluate(d):
            return run.evaluate(d, np.zeros((1, 60)), 1e-12)

        gradient = run.judge(evaluate(weights)).gradient
        numeric = [
            (evaluate(weights + step * e).value - evaluate(weights - step * e).value) / (2 * step)
            for e in np.eye(4)
        ]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())

    @pytest.mark.parametrize(
        "regularizer", [L1(0.5), SquaredPNorm(1.33), PNormBall(1), PNormBall(2)], ids=repr
    )
    @pytest.mark.parametrize("solver", [SPG(), QuasiNewton()], ids=repr)
    def test_the_end_is_a_stationary_point(self, regularizer, solver):
        bank = CombinationBank(Product().fit(X))
        problem = Problem(bank, y, np.full(60, 3.0), regularizer)
        result = solve(problem, solver)
        assert result.status.name == "STATIONARY"
        assert np.isinf(result.duality_gap)
        run = RunState(problem)
        at = run.evaluate(result.weights, result.beta, 1e-9)
        step = result.weights - regularizer.project(result.weights - run.judge(at).gradient)
        assert np.abs(step).max() <= 0.1  # the solver saw SVMs of the precision it asked for

    def test_more_points_than_fit_into_memory(self):
        bank = CombinationBank(Product().fit(X))
        a = solve(Problem(bank, y, np.full(60, 3.0), L1(0.5)), SPG())
        b = solve(Problem(bank, y, np.full(60, 3.0), L1(0.5)), SPG(), memory_budget=8 * 60 * 20)
        assert a.objective == pytest.approx(b.objective, rel=1e-2)


class TestEstimators:
    def test_irrelevant_features_get_no_weight(self):
        rng = np.random.default_rng(0)
        A = rng.standard_normal((150, 30))
        target = np.where(np.abs(A[:, 3]) + np.abs(A[:, 7]) > 1.5, 1, 0)
        clf = MKLClassifier(combination="product", regularizer=L1(2.0), C=10.0, random_state=0).fit(
            A, target
        )
        heaviest = np.argsort(-clf.kernel_weights_)[:2]
        assert set(heaviest) == {3, 7}
        assert np.count_nonzero(clf.kernel_weights_ > 0.2 * clf.kernel_weights_.max()) == 2
        assert clf.score(A, target) > 0.9
        assert len(clf.other_results_) == 2
        assert all(other.objective >= clf.result_.objective for other in clf.other_results_)
        assert clf.kernel_names_[3] == "x3"
        assert clf.weights_frame()["kernel"].iloc[0] in ("x3", "x7")

    def test_regression_and_prediction_on_new_points(self):
        train, test = slice(0, 45), slice(45, 60)
        model = MKLRegressor(combination=Product(starts=1), p=1.33, C=10.0).fit(
            X[train], NUMBERS[train]
        )
        gram = model.bank_.combination.gram(model.kernel_weights_, X[test], X[train])
        expected = gram[:, model.support_] @ model.dual_coef_[0] + model.intercept_[0]
        np.testing.assert_allclose(model.predict(X[test]), expected, atol=1e-8)

    def test_mixture_of_polynomials(self):
        clf = MKLClassifier(combination=PolynomialMixture(2), p=2.0, C=10.0, random_state=0).fit(
            X, y
        )
        assert clf.score(X, y) > 0.8
        heaviest = np.argsort(-clf.kernel_weights_)[:2]
        assert set(heaviest) == {0, 1}

    def test_what_does_not_go_together(self):
        with pytest.raises(ValueError, match="are for sums of kernels"):
            MKLClassifier(kernels=[], combination="product").fit(X, y)
        with pytest.raises(ValueError, match="for sums of kernels"):
            MKLClassifier(combination="product", normalize="trace").fit(X, y)
        with pytest.raises(ValueError, match="combination='sums' is not known"):
            MKLClassifier(combination="sums").fit(X, y)
        for name in SOLVERS:
            if name not in ("quasi_newton", "spg", "pgd"):
                with pytest.raises(ValueError, match="sums of kernels only: use solver='quasi"):
                    MKLClassifier(combination="product", solver=name).fit(X, y)

    def test_auto_is_quasi_newton(self):
        problem = Problem(CombinationBank(Product().fit(X)), y, np.ones(60), PNormBall(2))
        assert isinstance(choose_solver("auto", RunState(problem)), QuasiNewton)


class TestOwn:
    @pytest.mark.device
    def test_gradient_by_torch(self):
        pytest.importorskip(
            "torch", reason="torch is not installed: gram() cannot be differentiated"
        )
        check_combination(Bump())
        clf = MKLClassifier(combination=Bump(), p=2.0, C=10.0).fit(X, y)
        assert clf.result_.status.converged
        assert clf.score(X, y) > 0.7

    def test_without_torch_the_error_says_what_to_do(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "torch", None)
        with pytest.raises(
            ImportError, match=r"Bump has no gradient\(\): write one, or install torch"
        ):
            MKLClassifier(combination=Bump()).fit(X, y)


class TestManyPoints:
    """Above the size from which sums begin with a sample of the points."""

    @pytest.fixture(autouse=True)
    def few_are_many(self, lower):
        lower(points_for_sample=20)

    @pytest.mark.parametrize("combination", [Product(starts=1), PolynomialMixture(starts=1)])
    @pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
    def test_classifier(self, combination, loss):
        model = MKLClassifier(combination=combination, regularizer=L1(), loss=loss).fit(X, y)
        assert model.result_.status.converged
        assert np.isfinite(model.decision_function(X)).all()

    def test_regressor(self):
        model = MKLRegressor(combination=Product(starts=1), regularizer=L1()).fit(X, NUMBERS)
        assert model.result_.status.converged
