"""The SVM machines."""

import numpy as np
import pytest
from sklearn.svm import SVC

from conftest import MIXED, toy
from manykernels.banks import FactorBank, ResolvedKernels, make_bank
from manykernels.banks.lowrank.basis import ReducedBank
from manykernels.kernels import RBF, KernelCollection
from manykernels.losses import (
    EpsilonInsensitive,
    Hinge,
    Logistic,
    OneClass,
    Squared,
    SquaredHinge,
)
from manykernels.lowrank import Nystroem
from manykernels.machines import (
    BlockedMachine,
    DenseMachine,
    FactoredKernel,
    FactoredMachine,
    KernelRows,
)
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.run_state import RunState

X, y = toy(120)
COST = np.full(len(y), 2.0)


def rows_of(bank, weights, budget=10**6):
    return KernelRows(bank, np.asarray(weights, dtype=float), budget)


@pytest.fixture
def bank():
    return make_bank(KernelCollection(MIXED), X)


@pytest.fixture(params=["dense", "blocked", "blocked without cache"])
def solve(request, bank):
    """A function that solves the SVM with the given kernel weights."""

    def solve(weights, **options):
        if request.param == "dense":
            return DenseMachine().solve(bank.combine(weights), Hinge(), y, COST, **options)
        kernel = rows_of(bank, weights, 10**6 if request.param == "blocked" else 0)
        return BlockedMachine(size=16).solve(kernel, Hinge(), y, COST, **options)

    return solve


def test_agrees_with_svc(solve, bank):
    weights = np.ones(bank.m)
    ours = solve(weights, tol=1e-8)
    K = bank.combine(weights)
    svc = SVC(C=2.0, kernel="precomputed", tol=1e-8).fit(K, y)
    beta = np.zeros(len(y))
    beta[svc.support_] = svc.dual_coef_[0]
    np.testing.assert_allclose(ours.beta, beta, atol=1e-5)
    np.testing.assert_allclose(ours.scores + ours.intercept, svc.decision_function(K), atol=1e-5)
    assert ours.primal - ours.dual < 1e-5 * ours.primal


def test_result_is_consistent(solve, bank):
    weights = np.linspace(0, 1, bank.m)
    result = solve(weights, tol=1e-6)
    K = bank.combine(weights)
    np.testing.assert_allclose(result.scores, K @ result.beta, atol=1e-9)
    dual = y @ result.beta - 0.5 * result.beta @ K @ result.beta
    primal = 0.5 * result.beta @ K @ result.beta + COST @ np.maximum(
        0, 1 - y * (K @ result.beta + result.intercept)
    )
    assert result.dual == pytest.approx(dual)
    assert result.primal == pytest.approx(primal)
    assert result.violation <= 1e-6
    assert result.steps > 0


def test_warm_start_on_a_changed_kernel(solve, bank):
    first = solve(np.ones(bank.m), tol=1e-6)
    changed = np.linspace(0.9, 1.1, bank.m)
    cold = solve(changed, tol=1e-6)
    warm = solve(changed, start=first.beta.copy(), tol=1e-6)
    assert warm.dual == pytest.approx(cold.dual, rel=1e-6)
    assert warm.steps < cold.steps


@pytest.mark.parametrize("kind", ["dense", "blocked"])
def test_slopes_follow_the_coefficients(kind, bank):
    """Programs of Newton's steps have slopes that are not ``K beta - linear``."""
    rng, box = np.random.default_rng(0), Hinge().box(y, COST)
    weights, beta = np.ones(bank.m), box.feasible(rng.standard_normal(len(y)))
    K, start, given = bank.combine(weights), beta.copy(), rng.standard_normal(len(y))
    machine = DenseMachine() if kind == "dense" else BlockedMachine(size=16)
    F = given.copy()
    machine.ascend(K if kind == "dense" else rows_of(bank, weights), box, beta, F, 1e-3, 10_000)
    assert np.abs(beta - start).max() > 0.1
    np.testing.assert_allclose(F, given + K @ (beta - start), atol=1e-6)


def test_infeasible_start_is_repaired(solve, bank):
    start = 100 * np.random.default_rng(0).standard_normal(len(y))
    reference = solve(np.ones(bank.m), tol=1e-6)
    assert solve(np.ones(bank.m), start=start, tol=1e-6).dual == pytest.approx(
        reference.dual, rel=1e-6
    )


def test_a_start_that_is_too_long_is_shortened(bank):
    """To the best of its multiples, which no step would be needed for."""
    K, box = bank.combine(np.ones(bank.m)), Hinge().box(y, COST)
    start = box.feasible(y * COST)
    short = (y @ start) / (start @ K @ start)
    assert short < 0.5
    found = DenseMachine().solve(K, Hinge(), y, COST, start.copy(), max_steps=0)
    np.testing.assert_allclose(found.beta, short * start)
    np.testing.assert_allclose(found.scores, K @ found.beta, atol=1e-9)


def test_points_without_cost_stay_out(bank):
    cost = np.where(np.arange(len(y)) % 3 == 0, 0.0, 2.0)
    result = DenseMachine().solve(bank.combine(np.ones(bank.m)), Hinge(), y, cost)
    assert (result.beta[cost == 0] == 0).all()


def test_float32_kernel(bank):
    K = bank.combine(np.ones(bank.m))
    coarse = DenseMachine().solve(K.astype(np.float32), Hinge(), y, COST, tol=1e-4)
    assert coarse.dual == pytest.approx(
        DenseMachine().solve(K, Hinge(), y, COST, tol=1e-4).dual, rel=1e-5
    )


class TestKernelRows:
    def test_rows_are_right_whatever_the_order(self, bank):
        weights = np.ones(bank.m)
        full = bank.combine(weights)
        for capacity in (0, 1, 7, 40, 120):
            rows = rows_of(bank, weights, capacity * len(y) * 8)
            rng = np.random.default_rng(capacity)
            for _ in range(30):
                chosen = rng.choice(len(y), rng.integers(1, 20), replace=False)
                np.testing.assert_allclose(
                    rows.rows(chosen).square(np.arange(len(y))), full[chosen], atol=1e-12
                )
            assert rows.capacity == capacity

    def test_kept_rows_are_not_computed_again(self, bank):
        rows = rows_of(bank, np.ones(bank.m))
        rows.rows(np.arange(20))
        rows.rows(np.arange(10, 30))
        assert rows.computed == 30

    def test_memory_is_bounded(self, bank):
        rows = rows_of(bank, np.ones(bank.m), budget=5000)
        for start in range(0, 120, 10):
            rows.rows(np.arange(start, start + 10))
        assert rows._cache.store.nbytes <= 5000


def test_blocked_machine_on_more_points_than_fit():
    points, labels = toy(1500, seed=3)
    bank = make_bank(KernelCollection([RBF(0.5), RBF(0.1, features=0)]), points, dtype=np.float32)
    weights, cost = np.array([0.5, 0.5]), np.ones(1500)
    dense = DenseMachine().solve(bank.combine(weights), Hinge(), labels, cost, tol=1e-3)
    kernel = KernelRows(bank, weights, 200 * 1500 * 4)
    blocked = BlockedMachine(size=128).solve(kernel, Hinge(), labels, cost, tol=1e-3)
    assert blocked.violation < 1e-3
    assert blocked.dual == pytest.approx(dense.dual, rel=1e-5)


class TestFactoredMachine:
    """The machine in the space of factors gives what the machine with the kernel gives."""

    LOSSES = (
        Hinge(),
        SquaredHinge(),
        Logistic(),
        EpsilonInsensitive(0.2),
        Squared(),
        OneClass(0.3),
    )

    @pytest.fixture(params=[False, True], ids=["factors", "their space"])
    def low(self, request):
        """Kernels whose factors have a diagonal root of the weights, and a triangular one."""
        collection = KernelCollection(MIXED)
        bank = Nystroem(rank=6).fit(ResolvedKernels.from_data(collection, X), X, dtype=float)
        if not request.param:
            return bank
        P = np.linalg.qr(np.random.default_rng(0).standard_normal((bank.width, bank.width)))[0]
        points = FactorBank(bank.factors @ P, [0, bank.width], bank.features)
        return ReducedBank(points, P, bank.offsets, bank.diagonal())

    @pytest.mark.parametrize("loss", LOSSES, ids=repr)
    @pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
    def test_it_agrees_with_the_dense_one(self, low, loss, C):
        targets = y if loss.separates else X[:, 0] * X[:, 1]
        weights, cost = np.linspace(0.0, 1.0, low.m), np.full(len(y), C)
        cost[::7] = 0.0
        kernel = FactoredKernel(low, weights)
        ours = FactoredMachine().solve(kernel, loss, targets, cost, tol=1e-6)
        K = low.combine(weights)
        theirs = DenseMachine().solve(K, loss, targets, cost, tol=1e-8)
        scale = abs(theirs.primal) + 1e-12
        assert ours.violation <= 1e-6
        assert ours.dual == pytest.approx(theirs.dual, abs=1e-5 * scale)
        assert ours.primal - ours.dual <= 1e-5 * scale
        np.testing.assert_allclose(ours.scores, K @ ours.beta, atol=1e-7 * (1.0 + C))
        box = loss.box(targets, cost)
        np.testing.assert_array_equal(box.feasible(ours.beta), ours.beta)

    def test_a_solution_needs_no_step(self, low):
        weights = np.ones(low.m)
        kernel = FactoredKernel(low, weights)
        first = FactoredMachine().solve(kernel, Hinge(), y, COST, tol=1e-4)
        again = FactoredMachine().solve(kernel, Hinge(), y, COST, first.beta.copy(), tol=1e-4)
        assert again.steps == 0 < first.steps

    def test_one_class_alone(self, low):
        kernel = FactoredKernel(low, np.ones(low.m))
        ours = FactoredMachine().solve(kernel, Hinge(), np.ones(len(y)), COST, tol=1e-4)
        np.testing.assert_array_equal(ours.beta, 0.0)

    def test_runs_use_it_where_factors_are_narrow(self, low):
        run = RunState(Problem(low, y, COST, PNormBall(2)))
        assert low.prefers_factor_space
        at = run.evaluate(run.start.weights, run.start.beta, 1e-3)
        assert run.counters.machine_steps < 50  # steps of Newton's method, not of pairs
        np.testing.assert_allclose(at.scores[0], low.combine(at.weights) @ at.beta[0], atol=1e-8)
        assert not make_bank(KernelCollection(MIXED), X).prefers_factor_space
