"""Kernels that are not sums: products, mixtures of polynomials, a user's own."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from conftest import toy
from manykernels import MKLClassifier, MKLRegressor, combinations
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
from manykernels.regularizers import L1, ElasticNet, PNormBall, SquaredPNorm
from manykernels.result import Status
from manykernels.run_state import Point, RunState
from manykernels.solvers import (
    SOLVERS,
    SPG,
    QuasiNewton,
    choose_solver,
    quasi_newton,
    solve,
)
from manykernels.solvers.roots import Rooted
from manykernels.testing import check_combination, check_solver

X, y = toy(60)
NUMBERS = X[:, 0] * X[:, 1]
FEW_ROWS = replace(combinations.TOLERANCES, rows_per_product=7)


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

    @pytest.mark.parametrize("solver", [SPG(), QuasiNewton()], ids=repr)
    def test_more_points_than_fit_into_memory(self, solver):
        problem = Problem(CombinationBank(Product().fit(X)), y, np.full(60, 3.0), L1(0.5))
        a, b = solve(problem, solver), solve(problem, solver, memory_budget=8 * 60 * 20)
        assert a.objective == pytest.approx(b.objective, rel=1e-2)

    @pytest.mark.parametrize("combination", [Product(list("uvvu")), PolynomialMixture()], ids=repr)
    def test_slopes_of_some_weights(self, combination):
        bank = CombinationBank(combination.fit(X))
        weights, some = np.linspace(0.0, 1.0, bank.m), np.array([bank.m - 1])
        beta = np.random.default_rng(0).normal(size=(2, 60))
        expected = np.zeros(bank.m)
        expected[some] = bank.weight_gradient(weights, beta)[some]
        np.testing.assert_allclose(bank.weight_gradient(weights, beta, some), expected)

    @pytest.mark.parametrize("some", [None, np.array([0, 2])], ids=["all", "some"])
    @pytest.mark.parametrize("outputs", [1, 2])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_slopes_by_a_known_kernel(self, dtype, outputs, some, monkeypatch):
        monkeypatch.setattr(combinations, "TOLERANCES", FEW_ROWS)
        bank = CombinationBank(Product(list("uvwu")).fit(X + 5.0), dtype=dtype)
        weights = np.linspace(0.0, 1.0, bank.m)
        beta = np.random.default_rng(0).normal(size=(outputs, 60)) * (np.arange(60) % 3 > 0)
        expected = bank.weight_gradient(weights, beta, some)
        slopes = bank.weight_gradient(weights, beta, some, kernel=bank.combine(weights))
        error = 1e-12 if dtype == np.float64 else 1e-5
        np.testing.assert_allclose(slopes, expected, atol=error * np.abs(expected).max())

    def test_single_precision(self):
        combination, weights = Product().fit(X), np.array([0.5, 0.0, 2.0, 0.1])
        bank = CombinationBank(combination, dtype=np.float32)
        K = bank.combine(weights)
        assert K.dtype == np.float32
        np.testing.assert_allclose(K, combination.gram(weights, X, X), atol=2e-7)
        assert bank.refined().combine(weights).dtype == np.float64
        assert bank.refined().refined() is None
        large = CombinationBank(PolynomialMixture(5).fit(1e9 * X), dtype=np.float32)
        assert np.isfinite(large.combine(np.ones(4))).all()


@pytest.mark.parametrize(
    "regularizer", [L1(0.7), SquaredPNorm(1.0), SquaredPNorm(1.33, 2.0), SquaredPNorm(3.0)]
)
def test_compiled_model_is_the_general_one(regularizer):
    rng, rooted = np.random.default_rng(0), Rooted(regularizer)
    for m in (1, 5, 40):
        root = rng.normal(size=(m, m))
        x, B = np.maximum(rng.normal(size=m), 0.0), root @ root.T + np.eye(m)
        smooth = 5.0 * rng.normal(size=m)
        expected = quasi_newton._by_newton(rooted, x, smooth, B)
        found = quasi_newton._compiled(rooted.law, x, smooth, B)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("columns", [3, 120])
@pytest.mark.parametrize("C", [1.0, 1e6])
def test_columns_that_are_all_zero(columns, C):
    model = MKLClassifier(combination="product", p=1.0, C=C, random_state=0)
    model.fit(np.zeros((50, columns)), np.arange(50) % 3 == 0)
    assert model.result_.status is Status.STATIONARY


class TestQuasiNewton:
    """Beside SPG, and what it does with many weights, rough kernels and users' regularizers."""

    @pytest.mark.parametrize(
        ("regularizer", "loss"),
        [
            (L1(0.5), Logistic()),
            (L1(0.5), EpsilonInsensitive(0.1)),
            (ElasticNet(), Hinge()),
            (SquaredPNorm(1.1), Hinge()),
            (SquaredPNorm(np.inf), Hinge()),
        ],
        ids=repr,
    )
    def test_ends_as_low_as_spg(self, regularizer, loss):
        bank = CombinationBank(Product().fit(X), dtype=np.float32)
        targets = y if loss.separates else NUMBERS
        problem = Problem(bank, targets, np.full(60, 3.0), regularizer, loss=loss)
        ours, theirs = (solve(problem, solver) for solver in (QuasiNewton(), SPG()))
        assert ours.status.converged
        assert ours.objective <= 1.001 * theirs.objective

    @pytest.mark.parametrize("p", [1.1, 2.0])
    def test_penalties_that_are_steep_at_zero(self, p):
        """Weights of a mixture have no roots, and some of these are zero."""
        bank, r = CombinationBank(PolynomialMixture().fit(X)), SquaredPNorm(p)
        start = Point(np.array([1.0, 0.0, 0.0, 0.0]), np.zeros((1, 60)))
        problem = Problem(bank, y, np.full(60, 3.0), r)
        ours, theirs = (solve(problem, one(), start=start) for one in (QuasiNewton, SPG))
        assert ours.objective <= 1.01 * theirs.objective

    def test_classes_share_weights(self):
        targets = np.where(np.arange(60) % 3 == np.arange(3)[:, None], 1.0, -1.0)
        problem = Problem(CombinationBank(Product().fit(X)), targets, np.full(60, 3.0), L1(0.5))
        ours, theirs = (solve(problem, solver) for solver in (QuasiNewton(), SPG()))
        assert ours.objective <= 1.001 * theirs.objective
        assert ours.beta.shape == (3, 60)

    def test_weights_that_are_held_at_zero_stay_out(self, monkeypatch):
        monkeypatch.setattr(quasi_newton, "MANY_WEIGHTS", 10)
        rng = np.random.default_rng(0)
        points = rng.normal(size=(80, 30))
        targets = np.where(points[:, 2] * points[:, 4] > 0.0, 1.0, -1.0)
        problem = Problem(CombinationBank(Product().fit(points)), targets, np.full(80, 3.0), L1(2))
        asked, whole = [], CombinationBank.weight_gradient

        def counted(bank, weights, beta, some=None, **known):
            asked.append(30 if some is None else len(some))
            return whole(bank, weights, beta, some, **known)

        monkeypatch.setattr(CombinationBank, "weight_gradient", counted)
        result = solve(problem, QuasiNewton())
        assert result.status.name == "STATIONARY"
        assert min(asked) < 15
        assert asked[-1] == 30  # the end is proven of all weights
        run = RunState(problem)
        gradient = run.judge(run.evaluate(result.weights, result.beta, 1e-9)).gradient
        assert np.all(gradient[result.weights == 0.0] > 0.0)
        assert set(np.argsort(-result.weights)[:2]) == {2, 4}

    def test_certifies_sums(self):
        check_solver(QuasiNewton())


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

    def test_starts_side_by_side(self):
        models = [
            MKLClassifier(combination="product", regularizer=L1(), n_jobs=jobs, random_state=1).fit(
                X, y
            )
            for jobs in (1, 2)
        ]
        assert "one after the other" in models[0].plan_.problems.what
        assert "up to 3 side by side" in models[1].plan_.problems.what
        assert models[0].result_.objective == models[1].result_.objective
        others = [[other.objective for other in model.other_results_] for model in models]
        assert others[0] == others[1]
        assert len(others[0]) == 2

    def test_weights_of_points_count(self):
        weight = np.random.default_rng(0).integers(0, 3, 60)
        options = {"combination": Product(starts=1), "regularizer": L1(), "C": 3.0}
        weighted = MKLClassifier(**options).fit(X, y, weight)
        rows = np.repeat(np.arange(60), weight)
        repeated = MKLClassifier(**options).fit(X[rows], y[rows])
        objectives = [model.result_.objective for model in (weighted, repeated)]
        assert objectives[0] == pytest.approx(objectives[1], rel=2e-3)


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
        lower(points_for_sample=20, sample_points_of_combinations=30)

    def test_starts_are_tried_on_the_sample(self):
        stages = []

        def watch(record):
            stages.append(record.stage)

        model = MKLClassifier(combination="product", regularizer=L1(), callbacks=[watch]).fit(X, y)
        starts = [f"sample of 30 points, start {number} of 3" for number in (1, 2, 3)]
        assert list(dict.fromkeys(stages)) == [*starts, ""]
        assert model.other_results_ == []
        assert "30 points, from 3 starts" in str(model.plan_)

    @pytest.mark.parametrize("combination", [Product(starts=1), PolynomialMixture(starts=1)])
    @pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
    def test_classifier(self, combination, loss):
        model = MKLClassifier(combination=combination, regularizer=L1(), loss=loss).fit(X, y)
        assert model.result_.status.converged
        assert np.isfinite(model.decision_function(X)).all()

    def test_regressor(self):
        model = MKLRegressor(combination=Product(starts=1), regularizer=L1()).fit(X, NUMBERS)
        assert model.result_.status.converged


@pytest.mark.filterwarnings("ignore")
def test_a_column_far_too_large_does_not_take_all_iterations():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(150, 5))
    labels = A[:, 0] * A[:, 1] > 0
    A[:, 0] *= 1e8
    assert MKLClassifier(combination="product").fit(A, labels).n_iter_ < 100


def test_kernels_of_all_outputs_that_are_the_identity():
    A, labels = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 3
    model = MKLClassifier(combination="product", share_weights=False, normalize=None)
    with pytest.warns(ConvergenceWarning, match="no row is like any other"):
        model.fit(1e6 * A, labels)
