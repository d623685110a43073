"""Smooth losses by conjugate gradients: what factorizations give, from the kernel as it is."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from conftest import toy
from manykernels import MKLClassifier, MKLRegressor, _pulse
from manykernels.banks import make_bank
from manykernels.kernels import RBF, KernelCollection, Linear
from manykernels.losses import Logistic, Squared
from manykernels.machines import CurvedKernel, DenseMachine, iterative
from manykernels.machines.matrices import multiply, rough_product, submatrix
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.run_state import RunState
from manykernels.solvers import Newton, solve
from test_curved_loss import Probit, RoundedHinge

N = 150
X, y = toy(N, seed=2)
KERNELS = KernelCollection([RBF(0.1), RBF(0.5), RBF(2.0)])
K = make_bank(KERNELS, X).combine(np.ones(3))
LOSSES = [Logistic(), Squared(), RoundedHinge(0.5), Probit()]


def targets_of(loss):
    return y if loss.separates else X[:, 0] * X[:, 1]


@pytest.fixture(autouse=True)
def iterated(lower, monkeypatch):
    """Conjugate gradients for these few points, from fewer columns than there are points."""
    lower(factorized_points=20)
    few = replace(iterative.TOLERANCES, columns=15)
    monkeypatch.setattr(iterative, "TOLERANCES", few)


@pytest.fixture
def factorized(lower):
    """A function that solves as few points usually are."""

    def solved(*given, **options):
        lower(factorized_points=10**6)
        try:
            return DenseMachine().solve(*given, **options)
        finally:
            lower(factorized_points=20)

    return solved


class TestMachine:
    @pytest.mark.parametrize("loss", LOSSES, ids=repr)
    @pytest.mark.parametrize("C", [0.01, 1.0, 100.0, 1e4])
    def test_what_factorizations_find(self, loss, C, factorized):
        targets, cost = targets_of(loss), C * np.random.default_rng(0).uniform(0.5, 2.0, N)
        found = DenseMachine().solve(K, loss, targets, cost, tol=1e-6)
        exact = factorized(K, loss, targets, cost, tol=1e-9)
        scale = abs(exact.primal)
        np.testing.assert_allclose(found.scores, K @ found.beta, atol=1e-9 * C)
        box = loss.box(targets, cost)
        np.testing.assert_array_equal(box.feasible(found.beta), found.beta)
        gap = found.primal - found.dual
        assert gap <= max(1.01 * box.price(1e-6, found.beta), 1e-12 * scale)
        assert found.violation <= 1.01e-6
        assert exact.dual - 1e-9 * scale <= found.primal <= exact.primal + gap + 1e-9 * scale

    @pytest.mark.parametrize("loss", LOSSES, ids=repr)
    def test_a_kernel_in_single_precision(self, loss):
        found = DenseMachine().solve(
            K.astype(np.float32), loss, targets_of(loss), np.full(N, 10.0), tol=1e-3
        )
        gap = (found.primal - found.dual) / found.primal
        assert -1e-6 <= gap <= 1.1e-4  # no rougher than that, whatever the violation

    @pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=repr)
    @pytest.mark.parametrize(
        "singular",
        [np.zeros((N, N)), np.ones((N, N)), np.outer(X[:, 0], X[:, 0]), np.eye(N)],
        ids=["nothing", "a constant", "rank one", "the identity"],
    )
    def test_kernels_that_tell_little(self, loss, singular, factorized):
        cost = np.ones(N)
        found = DenseMachine().solve(singular, loss, targets_of(loss), cost, tol=1e-6)
        exact = factorized(singular, loss, targets_of(loss), cost, tol=1e-9)
        assert found.primal == pytest.approx(exact.primal, rel=1e-8)
        assert found.dual == pytest.approx(exact.dual, rel=1e-8)

    def test_points_without_cost_are_as_if_not_there(self):
        cost, used = np.where(np.arange(N) % 3 == 0, 0.0, 2.0), np.arange(N) % 3 > 0
        found = DenseMachine().solve(K, Logistic(), y, cost, tol=1e-7)
        alone = DenseMachine().solve(
            submatrix(K, np.flatnonzero(used)), Logistic(), y[used], cost[used], tol=1e-7
        )
        assert not found.beta[~used].any()
        assert found.dual == pytest.approx(alone.dual, rel=1e-9)
        np.testing.assert_allclose(found.scores, K @ found.beta, atol=1e-10)

    def test_one_class_alone(self):
        found = DenseMachine().solve(K, Logistic(), np.ones(N), np.ones(N))
        assert found.primal == pytest.approx(0.0, abs=1e-12)

    @pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=repr)
    def test_a_kernel_with_a_second_term(self, loss):
        left = np.random.default_rng(1).standard_normal((N, 3))
        kernel, some = CurvedKernel(K, 4.0 * left, left.T.copy()), np.arange(0, N, 2)
        for one, other in (
            (kernel, kernel.whole()),
            (submatrix(kernel, some), submatrix(kernel.whole(), some)),
        ):
            x = np.random.default_rng(2).standard_normal(len(other))
            np.testing.assert_allclose(multiply(one, x), other @ x, atol=1e-10)
            np.testing.assert_allclose(rough_product(one, x), other @ x, atol=1e-10)
        found, whole = (
            DenseMachine().solve(one, loss, targets_of(loss), np.ones(N), tol=1e-7)
            for one in (kernel, kernel.whole())
        )
        assert found.dual == pytest.approx(whole.dual, rel=1e-9)

    def test_a_warm_start_saves_products(self):
        first = DenseMachine().solve(K, Logistic(), y, np.ones(N), tol=1e-5)
        again = DenseMachine().solve(
            1.001 * K, Logistic(), y, np.ones(N), first.beta.copy(), tol=1e-5
        )
        assert again.steps < first.steps

    def test_interrupted_between_products(self, monkeypatch):
        """Coefficients are in their box at any moment."""
        monkeypatch.setattr(_pulse, "PULSE_INTERVAL", 0.0)
        beta, heard = np.zeros(N), []

        def listener():
            heard.append(beta.copy())
            if len(heard) == 40:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt), _pulse.listening(listener):
            DenseMachine().solve(K, Logistic(), y, np.full(N, 1e4), beta, tol=1e-9)
        box = Logistic().box(y, np.full(N, 1e4))
        np.testing.assert_array_equal(box.feasible(beta), beta)

    def test_the_number_of_products_is_limited(self):
        box, beta = Logistic().box(y, np.full(N, 1e4)), np.zeros(N)
        F = np.zeros(N)
        steps, violation = DenseMachine().ascend(K, box, beta, F, 1e-9, 100)
        product = N / iterative.TOLERANCES.rows_per_step
        assert steps <= 100 + 2 * product  # the last one, and that of its answer
        assert violation > 1e-9
        np.testing.assert_allclose(F, K @ beta, atol=1e-8)

    @pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=repr)
    def test_hopeless_systems_are_factorized(self, loss, monkeypatch, factorized):
        few = replace(iterative.TOLERANCES, least_products=5, products_per_point=0.0)
        monkeypatch.setattr(iterative, "TOLERANCES", few)
        cost = np.full(N, 1e4)
        found = DenseMachine().solve(K, loss, targets_of(loss), cost, tol=1e-8)
        exact = factorized(K, loss, targets_of(loss), cost, tol=1e-9)
        assert found.primal == pytest.approx(exact.primal, rel=1e-8)
        monkeypatch.setattr(iterative, "TOLERANCES", replace(few, most_factorized_points=10))
        rough = DenseMachine().solve(K, loss, targets_of(loss), cost, tol=1e-8)
        assert rough.primal - rough.dual > found.primal - found.dual


class TestProblems:
    @pytest.mark.parametrize("p", [1, 2, np.inf])
    @pytest.mark.parametrize("loss", [Logistic(), Squared()], ids=repr)
    @pytest.mark.parametrize("tol", [1e-3, 1e-7])
    def test_the_certificate_from_scratch(self, p, loss, tol, lower):
        problem = Problem(make_bank(KERNELS, X), targets_of(loss), 10.0, PNormBall(p), loss)
        found = solve(problem, Newton(), tol=tol)
        assert found.status.name == "OPTIMAL"
        fresh = problem.certificate(found.weights, found.beta)
        assert -1e-9 <= fresh.gap <= 1.01 * tol
        lower(factorized_points=10**6)
        best = solve(problem, Newton(), tol=1e-8)
        assert found.objective == pytest.approx(best.objective, rel=1.01 * tol + 1e-8)

    def test_memory_is_that_of_the_kernel(self, lower):
        problem = Problem(make_bank(KERNELS, X), y, 1.0, PNormBall(2), Logistic())
        run = RunState(problem, memory_budget=N**2 * 8 + iterative.held_bytes(N, 8))
        assert run.machine_kind == "dense"
        lower(factorized_points=10**6)
        assert run.machine_kind == "rows"

    def test_one_linear_kernel_is_logistic_regression(self):
        A, b = make_classification(300, 6, flip_y=0.1, random_state=4)
        ours = MKLClassifier(
            [Linear()], loss="logistic", normalize=None, p=np.inf, tol=1e-10, C=3.0, scale=None
        ).fit(A, b)
        theirs = LogisticRegression(C=3.0, tol=1e-10, max_iter=1000).fit(A, b)
        np.testing.assert_allclose(
            ours.decision_function(A), theirs.decision_function(A), atol=1e-4
        )

    def test_the_plan_says_so(self):
        model = MKLRegressor(list(KERNELS), loss="squared", C=1.0).fit(X, X[:, 0])
        assert "conjugate gradients on a combined kernel" in model.plan_.machine.what
        assert "more than 20 points" in model.plan_.machine.why
