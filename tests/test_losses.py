"""Laws of every loss: its dual, its intercept, machines and solvers on it, scikit-learn where it
has the same.
"""

from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVR, OneClassSVM

from conftest import MIXED, toy
from manykernels._loops.kinks import flat_point
from manykernels.banks import make_bank
from manykernels.kernels import KernelCollection
from manykernels.losses import (
    EpsilonInsensitive,
    HardMargin,
    Hinge,
    Logistic,
    OneClass,
    Squared,
    SquaredHinge,
)
from manykernels.machines import BlockedMachine, DenseMachine, KernelRows
from manykernels.problem import Problem
from manykernels.regularizers import L1, PNormBall, SquaredPNorm
from manykernels.run_state import RunState
from manykernels.solvers import choose_solver, solve
from reference import mkl_optimum

LOSSES = [
    Hinge(),
    SquaredHinge(),
    Logistic(),
    EpsilonInsensitive(0.2),
    EpsilonInsensitive(0.0),
    Squared(),
    OneClass(0.3),
]
X, LABELS = toy(50)
NUMBERS = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2])
BANK = make_bank(KernelCollection(MIXED), X)
GRAMS = BANK.columns(np.arange(50))
RNG = np.random.default_rng(0)
COST = RNG.uniform(0.5, 3.0, 50)


def targets_of(loss):
    return LABELS if loss.separates else NUMBERS


@pytest.fixture(params=LOSSES, ids=repr)
def loss(request):
    return request.param


@pytest.mark.parametrize("seed", range(10))
def test_intercept_minimizes(loss, seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(3, 12)
    y = (
        np.where(rng.random(n) < 0.5, 1.0, -1.0)
        if targets_of(loss) is LABELS
        else rng.standard_normal(n)
    )
    y[:2] = [1.0, -1.0]
    cost, scores = rng.integers(1, 4, n).astype(float), rng.standard_normal(n)
    b = loss.intercept(y, cost, scores)
    found = loss.value(y, cost, scores, b)
    grid = min(loss.value(y, cost, scores, c) for c in np.linspace(-6, 6, 2001))
    best = minimize_scalar(
        lambda c: loss.value(y, cost, scores, c),
        bounds=(-8, 8),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert found <= min(grid, best.fun) + 1e-9


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), HardMargin()], ids=repr)
@pytest.mark.parametrize("seed", range(4))
def test_intercept_of_separated_classes_is_the_middle_of_an_interval(loss, seed):
    """The interval on which no point with a cost is on the wrong side of its margin."""
    rng = np.random.default_rng(seed)
    y = np.array([1.0, -1.0, 1.0, -1.0, 1.0, 1.0])
    cost = np.array([1.0, 2.0, 1.0, 0.5, 3.0, 0.0])  # the last one is on the other side, and free
    scores = y * rng.uniform(2.0, 4.0, 6) * [1, 1, 1, 1, 1, -1] + rng.normal()
    used = cost > 0.0
    low = 1.0 - scores[used & (y > 0)].min()
    high = -1.0 - scores[used & (y < 0)].max()
    assert low < high
    found = loss.intercept(y, cost, scores)
    assert found == pytest.approx(0.5 * (low + high))
    assert loss.value(y, cost, scores, found) == 0.0


@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Logistic()], ids=repr)
@pytest.mark.parametrize("label", [1.0, -1.0])
def test_intercept_of_one_class_alone_leaves_no_loss(loss, label):
    y, scores = np.full(5, label), 1000.0 * np.random.default_rng(0).normal(size=5)
    intercept = loss.intercept(y, np.ones(5), scores)
    assert np.isfinite(intercept)
    assert loss.value(y, np.ones(5), scores, intercept) < 1e-9


def test_shifted_coefficients_have_the_sum_that_was_asked_for():
    rng = np.random.default_rng(0)
    y, cost = rng.choice([1.0, -1.0], 30), rng.uniform(0.5, 3.0, 30)
    cost[:3] = 0.0
    curve = Logistic().curve(y, cost)
    np.testing.assert_allclose(curve.largest_bends(), curve.response(np.zeros(30))[1])
    room = curve.room(0.0)
    assert room == pytest.approx((cost[y > 0].sum(), cost[y < 0].sum()))
    for total in (-0.99 * room[1], -1.0, 0.0, 2.0, 0.99 * room[0]):
        for scale in (0.1, 1.0, 30.0):
            f = scale * rng.normal(size=30)
            assert curve.coefficients(f, total).sum() == pytest.approx(total, abs=1e-9)


def test_feasible_repairs_anything_and_leaves_the_feasible(loss):
    box = loss.box(targets_of(loss), COST)
    for beta in (
        10 * RNG.standard_normal(50),
        np.zeros(50),
        np.ones(50),
        np.where(LABELS > 0, 1.0, 0.0),
    ):
        fixed = box.feasible(beta)
        assert abs(fixed.sum() - box.total) < 1e-9
        assert (fixed >= box.lower).all()
        assert (fixed <= box.upper).all()
        np.testing.assert_allclose(box.feasible(fixed), fixed, atol=1e-12)


def test_weak_duality_for_any_point(loss):
    y, K = targets_of(loss), BANK.combine(np.ones(BANK.m))
    box = loss.box(y, COST)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        beta, other = box.feasible(rng.standard_normal(50)), rng.standard_normal(50) * 0.1
        dual = box.value(beta) - 0.5 * beta @ K @ beta
        primal = 0.5 * other @ K @ other + loss.value(y, COST, K @ other, rng.standard_normal())
        assert dual <= primal + 1e-9


@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic(), Squared()], ids=repr)
def test_the_price_of_a_violation_bounds_the_gap(loss):
    """Where the loss bends; elsewhere nobody asks for it."""
    assert loss.is_smooth
    y, K = targets_of(loss), BANK.combine(np.ones(BANK.m))
    box = loss.box(y, COST)
    best = DenseMachine().solve(K, loss, y, COST, tol=1e-10)
    for seed, scale in enumerate((0.0, 0.001, 0.03, 0.3, 1.0, 3.0)):
        change = scale * np.random.default_rng(seed).standard_normal(50)
        beta = box.feasible(best.beta + change)
        up, down = box.sides(beta, K @ beta)
        short = best.dual - (box.value(beta) - 0.5 * beta @ K @ beta)
        assert short <= box.price(max(0.0, float(up.max() - down.min())), beta) + 1e-7


@pytest.mark.parametrize(
    ("loss", "unit"),
    [
        (Hinge(), 1.0),
        (SquaredHinge(), 1.0),
        (Squared(), 0.5 * np.ptp(NUMBERS)),
        (EpsilonInsensitive(0.2), 0.5 * np.ptp(NUMBERS) - 0.2),
        (EpsilonInsensitive(1e3), 1.0),
    ],
    ids=repr,
)
def test_the_unit_is_half_the_violation_of_zero_coefficients(loss, unit):
    assert loss.box(targets_of(loss), COST).unit() == pytest.approx(unit)


@pytest.mark.parametrize("machine", ["dense", "blocked"])
def test_machines_close_the_gap(loss, machine):
    weights = np.ones(BANK.m)
    args = (loss, targets_of(loss), COST)
    if machine == "dense":
        found = DenseMachine().solve(BANK.combine(weights), *args, tol=1e-8)
    else:
        found = BlockedMachine(size=16).solve(KernelRows(BANK, weights, 10**6), *args, tol=1e-8)
    assert found.primal - found.dual <= 1e-6 * abs(found.primal)
    assert found.violation <= 1e-7
    np.testing.assert_allclose(found.scores, BANK.combine(weights) @ found.beta, atol=1e-8)
    start = DenseMachine().solve(BANK.combine(weights), *args, start=found.beta.copy(), tol=1e-7)
    assert start.steps <= 1


class TestOneKernelIsWhatScikitLearnHas:
    K = BANK.combine(np.ones(BANK.m))

    def test_svr(self):
        ours = DenseMachine().solve(
            self.K, EpsilonInsensitive(0.1), NUMBERS, np.full(50, 3.0), tol=1e-9
        )
        svr = SVR(C=3.0, epsilon=0.1, kernel="precomputed", tol=1e-9).fit(self.K, NUMBERS)
        np.testing.assert_allclose(ours.scores + ours.intercept, svr.predict(self.K), atol=1e-5)
        beta = np.zeros(50)
        beta[svr.support_] = svr.dual_coef_[0]
        np.testing.assert_allclose(ours.beta, beta, atol=1e-5)

    def test_one_class(self):
        ours = DenseMachine().solve(self.K, OneClass(0.3), NUMBERS, np.ones(50), tol=1e-9)
        svm = OneClassSVM(nu=0.3, kernel="precomputed", tol=1e-9).fit(self.K)
        np.testing.assert_allclose(
            ours.scores + ours.intercept, svm.decision_function(self.K), atol=1e-5
        )

    def test_squared_is_ridge_regression_with_an_intercept(self):
        ours = DenseMachine().solve(self.K, Squared(), NUMBERS, np.full(50, 3.0))
        center = np.eye(50) - 1 / 50
        ridge = KernelRidge(alpha=1 / 6, kernel="precomputed").fit(
            center @ self.K @ center, NUMBERS - NUMBERS.mean()
        )
        np.testing.assert_allclose(ours.beta, ridge.dual_coef_, atol=1e-9)
        fitted = ridge.predict(center @ self.K @ center) + NUMBERS.mean()
        np.testing.assert_allclose(ours.scores + ours.intercept, fitted, atol=1e-9)


@pytest.mark.parametrize("regularizer", [PNormBall(2), SquaredPNorm(1.5, 0.3), L1(0.4)], ids=repr)
def test_gradient_of_w_by_finite_differences(loss, regularizer):
    run = RunState(Problem(BANK, targets_of(loss), COST, regularizer, loss=loss))
    weights, step = np.random.default_rng(1).uniform(0.2, 0.3, BANK.m), 1e-4

    def evaluate(d):
        return run.evaluate(d, np.zeros((1, 50)), 1e-12)

    gradient = run.judge(evaluate(weights)).gradient
    numeric = [
        (evaluate(weights + step * e).value - evaluate(weights - step * e).value) / (2 * step)
        for e in np.eye(BANK.m)
    ]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-6 * np.abs(gradient).max())


@cache
def optimum_of(loss, regularizer):
    """The optimum that CVXPY finds, once for all solvers."""
    return mkl_optimum(GRAMS, targets_of(loss), COST, regularizer, loss)


@pytest.mark.pairwise
@pytest.mark.parametrize("name", ["newton", "spg", "smo", "group_lasso", "mirror"])
@pytest.mark.parametrize(
    "regularizer", [PNormBall(1), PNormBall(1.33), PNormBall(3), SquaredPNorm(2, 0.5)], ids=repr
)
def test_solvers_reach_the_optimum(loss, name, regularizer):
    problem = Problem(BANK, targets_of(loss), COST, regularizer, loss=loss)
    solver = choose_solver(name)
    if not solver.fits(RunState(problem)):
        return
    tol = 1e-7 if regularizer.p > 1 or name == "newton" else 1e-4
    result = solve(problem, solver, tol=tol, max_iter=20_000)
    assert result.status.name == "OPTIMAL", str(result)
    fresh = Problem(BANK, targets_of(loss), COST, regularizer, loss=loss).certificate(
        result.weights, result.beta
    )
    assert fresh.gap <= tol * 1.01
    assert result.objective == pytest.approx(optimum_of(loss, regularizer), rel=max(2e-6, 2 * tol))


def test_several_targets_share_their_weights():
    Y = np.stack([NUMBERS, np.cos(X[:, 0]), X[:, 1]])
    for loss in (Squared(), EpsilonInsensitive(0.1)):
        result = solve(
            Problem(BANK, Y, COST, PNormBall(1.33), loss=loss), choose_solver("newton"), tol=1e-7
        )
        assert result.status.name == "OPTIMAL"
        assert result.objective == pytest.approx(
            mkl_optimum(GRAMS, Y, COST, PNormBall(1.33), loss), rel=2e-6
        )


@pytest.mark.parametrize(
    "make", [lambda: EpsilonInsensitive(-1), lambda: OneClass(0.0), lambda: OneClass(1.5)]
)
def test_bad_parameters(make):
    with pytest.raises(ValueError, match="needs"):
        make()


class TestFlatPoint:
    @pytest.mark.parametrize("ties", [False, True])
    def test_it_is_the_median_by_cost(self, ties):
        rng = np.random.default_rng(0)
        for _ in range(200):
            n = int(rng.integers(1, 30))
            kinks = rng.integers(-3, 3, n).astype(float) if ties else rng.normal(size=n)
            jumps = rng.choice([0.0, 1.0, 2.5], n)
            jumps[0] = 1.0
            slope = -float(rng.uniform(0.0, 1.0)) * jumps.sum()

            def loss(b, kinks=kinks, jumps=jumps, slope=slope):
                return slope * b + jumps @ np.maximum(b - kinks, 0.0)

            found = loss(flat_point(kinks, jumps, slope))
            assert found <= min(map(loss, kinks[jumps > 0.0])) + 1e-12

    def test_it_is_the_middle_of_a_flat_part(self):
        assert flat_point(np.array([3.0, 1.0, 7.0, 2.0]), np.ones(4), -2.0) == 2.5

    def test_it_ends_where_values_are_no_numbers(self):
        flat_point(np.array([np.nan, 1.0, np.nan, np.inf]), np.ones(4), -2.0)
