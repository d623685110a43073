"""The certificate: right at the optimum, valid everywhere else."""

import numpy as np
import pytest

from conftest import MIXED, toy
from manykernels.banks import make_bank
from manykernels.banks.divided import divided, holding
from manykernels.kernels import RBF, KernelCollection, Laplacian, Linear
from manykernels.losses import EpsilonInsensitive, Hinge, Logistic, SquaredHinge
from manykernels.problem import Problem
from manykernels.regularizers import L1, PNormBall, Regularizer, SquaredPNorm
from manykernels.run_state import RunState
from manykernels.solvers import SPG, drive, solve
from reference import mkl_optimum

X, y = toy(36)
COST = np.full(len(y), 3.0)
BANK = make_bank(KernelCollection(MIXED), X)
GRAMS = BANK.columns(np.arange(len(y)))
REGULARIZERS = [
    PNormBall(1),
    PNormBall(1.33),
    PNormBall(np.inf),
    SquaredPNorm(2, 0.5),
    SquaredPNorm(1.1),
    L1(0.7),
]


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=repr)
class TestCertificate:
    def test_bounds_hold_for_any_weights_and_beta(self, regularizer):
        problem = Problem(BANK, y, COST, regularizer)
        optimum = mkl_optimum(GRAMS, y, COST, regularizer)
        rng = np.random.default_rng(0)
        for scale in (0.1, 1.0, 10.0):
            weights = regularizer.project(scale * rng.random(BANK.m))
            beta = scale * rng.standard_normal(len(y))
            certificate = problem.certificate(weights, beta)
            assert certificate.dual <= optimum * (1 + 1e-7)
            assert certificate.primal >= optimum * (1 - 1e-7)
            assert certificate.gap >= 0

    def test_infeasible_weights_prove_nothing(self, regularizer):
        problem = Problem(BANK, y, COST, regularizer)
        assert np.isinf(problem.certificate(np.full(BANK.m, -0.1), np.zeros(len(y))).primal)

    def test_from_scratch_equals_the_one_in_the_result(self, regularizer):
        result = solve(Problem(BANK, y, COST, regularizer), SPG(), tol=1e-6)
        fresh = Problem(BANK, y, COST, regularizer).certificate(result.weights, result.beta)
        assert fresh.primal == pytest.approx(result.certificate.primal, rel=1e-9)
        assert fresh.dual == pytest.approx(result.certificate.dual, rel=1e-9)
        assert fresh.gap <= 1e-6 + 1e-9


class TestRoundingOfNonnegativeKernels:
    """A narrow Gaussian in float32, whose entries are small and have small errors."""

    def problem(self):
        points, targets = toy(300, seed=5)
        of = KernelCollection([RBF(0.2), RBF(30.0)]), points
        exact, rounded = (make_bank(*of, dtype=kind) for kind in (np.float64, np.float32))
        cost = np.full(len(targets), 50.0)
        return [Problem(bank, targets, cost, PNormBall(2)) for bank in (exact, rounded)]

    def test_it_is_of_the_size_of_the_error(self):
        exact, rounded = self.problem()
        weights, rng = np.array([0.1, 0.9]), np.random.default_rng(0)
        beta = exact.feasible(50.0 * rng.random((1, 300)) * exact.targets)
        sharper = rounded.sharper_rounding(weights, beta)
        rough = rounded.certificate(weights, beta).rounding
        error = rounded.certificate(weights, beta).primal - exact.certificate(weights, beta).primal
        assert abs(error) <= sharper <= 0.3 * rough

    def test_kernels_are_made_finer_only_where_it_matters(self, monkeypatch, lower):
        _, rounded = self.problem()
        result = solve(rounded, SPG(), tol=1e-2)
        rough = rounded.certificate(result.weights, result.beta).rounding
        sharper = rounded.sharper_rounding(result.weights, result.beta)
        allowed = 1e-2 * result.certificate.primal
        refined = []
        monkeypatch.setattr(RunState, "refine", lambda run: refined.append(run) or False)
        lower(rounding_share=0.5 * (sharper + rough) / allowed)
        assert solve(rounded, SPG(), tol=1e-2).certificate.rounding == pytest.approx(sharper)
        assert not refined
        lower(rounding_share=0.5 * sharper / allowed)
        solve(rounded, SPG(), tol=1e-2)
        assert refined


@pytest.mark.parametrize("signs", ["mixed", "nonnegative"])
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()], ids=repr)
@pytest.mark.parametrize("way", ["tiles", "matrices", "factors", "factors and matrices"])
def test_sharper_rounding_is_above_what_rounding_does(signs, loss, way, rng):
    """Around solutions, with a few rows that are far larger than the others."""
    points, targets = toy(400, seed=7)
    points[:3] *= 40.0
    points[:, 1] = 0.0
    points[0, 1] = 300.0
    columns = [RBF(0.3, features=[0]), RBF(0.01, features=[1]), RBF(2.0), Laplacian(1.0)]
    kernels = KernelCollection(columns + [Linear()] * (signs == "mixed"))
    storage = "dense" if way == "matrices" else "fly"
    banks = [
        make_bank(kernels, points, dtype=kind, storage=storage) for kind in (np.float64, np.float32)
    ]
    if "factors" in way:
        banks = [divided(bank) for bank in banks]
    if way == "factors and matrices":
        banks = [holding(bank) for bank in banks]
    cost = np.full(len(targets), 5.0)
    exact, rounded = (Problem(bank, targets, cost, PNormBall(2), loss) for bank in banks)
    assert rounded.bank.dtype == np.float32
    solution = solve(exact, SPG(), tol=1e-3)
    for size in (0.0, 1e-2, 1e-1, 1.0):
        weights = solution.weights * (1.0 + size * rng.random(exact.bank.m))
        weights *= 0.999 / max(1.0, np.linalg.norm(weights))
        noise = 1.0 + size * rng.standard_normal((1, len(targets)))
        beta = exact.feasible(solution.beta * noise)
        coarse, fine = (of.certificate(weights, beta) for of in (rounded, exact))
        sharper = rounded.sharper_rounding(weights, beta)
        # weights are rounded, too, which is common to all entries
        assert abs(coarse.primal - fine.primal) <= sharper + 1e-7 * fine.primal
        assert abs(coarse.dual - fine.dual) <= sharper + 1e-7 * fine.primal
        assert sharper < (0.3 if signs == "mixed" else 0.9) * coarse.rounding


def test_bank_that_does_not_fit_is_solved_row_by_row():
    problem = Problem(BANK, y, COST, PNormBall(2))
    whole, lean = RunState(problem), RunState(problem, memory_budget=2000)
    assert whole.holds_kernel
    assert not lean.holds_kernel
    a, b = (drive(SPG(), run, tol=1e-6) for run in (whole, lean))
    assert b.status.converged
    assert b.objective == pytest.approx(a.objective, rel=2e-6)


def test_outputs_share_the_weights():
    classes = np.digitize(X[:, 0], [-0.5, 0.5])
    targets = np.stack([np.where(classes == c, 1.0, -1.0) for c in range(3)])
    result = solve(Problem(BANK, targets, COST, PNormBall(1.33)), SPG(), tol=1e-8)
    assert result.beta.shape == (3, len(y))
    assert result.objective == pytest.approx(
        mkl_optimum(GRAMS, targets, COST, PNormBall(1.33)), rel=1e-6
    )


class Smooth(Regularizer):
    """A user's regularizer without a conjugate: sum(d^2 + d)."""

    def value(self, d):
        return float(np.sum(d * d + d))

    def gradient(self, d):
        return 2 * d + 1


def test_without_a_conjugate_the_projected_gradient_decides():
    problem = Problem(BANK, y, COST, Smooth())
    result = solve(problem, SPG())
    assert result.status.name == "STATIONARY"
    assert np.isinf(result.duality_gap)
    forms = BANK.quadratic_forms(result.beta)
    gradient = Smooth().gradient(result.weights) - 0.5 * forms
    assert np.abs(result.weights - np.maximum(result.weights - gradient, 0)).max() <= 0.04


def test_counters_count():
    problem = Problem(BANK, y, COST, PNormBall(2))
    result = solve(problem, SPG(), tol=1e-4)
    assert result.counters.svm_solves >= result.n_iter
    assert result.counters.kernel_passes >= 2 * result.n_iter
    assert result.counters.machine_steps > 0
    assert result.counters.seconds > 0
    assert [r.iteration for r in result.history] == list(range(result.n_iter + 1))
    assert "gap" in str(result)


def test_what_belongs_to_infeasible_coefficients_is_not_used():
    problem = Problem(BANK, y, COST, PNormBall(1.33))
    run, weights = RunState(problem), np.full(BANK.m, 0.1)
    beta = np.random.default_rng(0).uniform(-9.0, 9.0, (1, len(y)))
    known = {"scores": BANK.decision(weights, beta), "forms": problem.quadratic_forms(beta)}
    for certificate in (problem.certificate, run.certificate):
        at = certificate(weights, beta, **known)
        assert at.dual == pytest.approx(problem.certificate(weights, problem.feasible(beta)).dual)
        assert at.primal == pytest.approx(problem.certificate(weights, beta).primal)


def test_machines_that_run_out_of_steps_again_and_again_get_fewer():
    run, most = RunState(Problem(BANK, y, COST, PNormBall(1))), 10**9
    run.count_steps(99, 100)
    assert not run.is_exhausted
    given = [most]
    for _ in range(40):
        run.count_steps(100, 100)
        given.append(run.machine_steps(most))
    assert run.is_exhausted
    assert given[1:17] == [most] * 16
    assert given[17:20] == [most // 4, most // 16, most // 64]
    assert 0 < given[-1] < given[20]
    for _ in range(39):
        run.count_steps(99, 100)
    assert not run.is_exhausted
    assert run.machine_steps(most) == most
    assert run.counters.machine_steps == 99 + 40 * 100 + 39 * 99


def test_warm_start_from_an_earlier_result():
    first = solve(Problem(BANK, y, COST, PNormBall(1.33)), SPG(), tol=1e-6)
    again = solve(Problem(BANK, y, COST, PNormBall(1.33)), SPG(), tol=1e-6, start=first)
    near = solve(Problem(BANK, y, 1.05 * COST, PNormBall(1.33)), SPG(), tol=1e-4, start=first)
    cold = solve(Problem(BANK, y, 1.05 * COST, PNormBall(1.33)), SPG(), tol=1e-4)
    assert again.n_iter <= 3
    assert near.n_iter < cold.n_iter
    assert near.objective == pytest.approx(cold.objective, rel=2e-4)


def test_one_kernel_of_masked_bank():
    bank = make_bank(KernelCollection.masked_rbf([0.5], np.ones((1, 4), bool)), X)
    same = make_bank(KernelCollection([RBF(0.5)]), X)
    a, b = (solve(Problem(each, y, COST, PNormBall(1)), SPG(), tol=1e-8) for each in (bank, same))
    assert a.objective == pytest.approx(b.objective, rel=1e-7)


@pytest.mark.parametrize("size", [0.3, 3.0])
@pytest.mark.parametrize(
    "loss", [Hinge(), SquaredHinge(), Logistic(), EpsilonInsensitive(0.3)], ids=repr
)
def test_the_dual_is_that_of_the_best_multiple(loss, size):
    """For a ball, at coefficients far from the optimum too: short ones and long ones."""
    problem = Problem(BANK, y, COST, PNormBall(1.33), loss=loss)
    beta = size * np.random.default_rng(0).uniform(-0.2, 1.0, (1, len(y))) * y
    beta = problem.feasible(beta)
    forms = problem.quadratic_forms(beta)
    scales = np.linspace(0.0, 1.0, 201)
    multiples = [
        problem.dual_linear(t * beta) - problem.regularizer.conjugate(t**2 * forms) for t in scales
    ]
    assert (0.0 < scales[np.argmax(multiples)] < 1.0) == (size > 1.0)
    dual = problem.certificate(np.full(BANK.m, 0.1), beta).dual
    assert max(multiples) <= dual * (1 + 1e-12) + 1e-12
    assert dual <= max(multiples) + 1e-3 * abs(dual)
