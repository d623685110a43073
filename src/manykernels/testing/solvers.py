"""The laws of a solver."""

import numpy as np

from ..banks import make_bank
from ..kernels import RBF, KernelCollection, Linear
from ..problem import Problem
from ..regularizers import PNormBall, SquaredPNorm
from ..run_state import RunState
from ..solvers import SPG, Solver, drive, solve
from .laws import require

POINTS = 40
REGULARIZERS = (PNormBall(1), PNormBall(1.5), PNormBall(2), SquaredPNorm(2))


def check_solver(solver: Solver, tol: float = 1e-3, seed: int = 0) -> None:
    """Check that a solver finds, and proves, the optimum of small problems that it fits.

    One and two outputs, four regularizers, two costs: weights and coefficients are feasible, the
    gap recomputed from scratch is below the tolerance, the objective agrees with that of `SPG`
    within both gaps, and a run that is stopped leaves something that can be certified.

    Parameters
    ----------
    solver : Solver
    tol : float
        Relative gap that it should reach.
    seed : int
        Of the random points.

    Raises
    ------
    AssertionError
        Which says what is wrong and for which problem.
    """
    fitting = [problem for problem in _problems(seed) if solver.fits(RunState(problem))]
    require(bool(fitting), f"{solver!r} fits none of the problems: see its needs().")
    for problem in fitting:
        _check_result(solver, problem, tol)
    _check_stop(solver, fitting[0])


def _problems(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((POINTS, 3))
    kernels = [RBF(0.1), RBF(1.0), RBF(5.0, features=0), Linear(), Linear(features=[1, 2])]
    bank = make_bank(KernelCollection(kernels), X)
    y = np.where(X[:, 0] ** 2 + X[:, 1] > 0.8 + 0.3 * rng.standard_normal(POINTS), 1.0, -1.0)
    both = np.stack([y, np.where(X[:, 2] > 0.0, 1.0, -1.0)])
    for regularizer in REGULARIZERS:
        for targets in (y, both):
            for cost in (0.5, 20.0):
                yield Problem(bank, targets, np.full(POINTS, cost), regularizer)


def _check_result(solver, problem, tol):
    cost, outputs = problem.cost[0, 0], len(problem.targets)
    where = f"for {problem.regularizer!r}, cost {cost:g} and {outputs} outputs"
    result = solve(problem, solver, tol=tol)
    require(
        result.status.converged, f"{solver!r} ended with {result.status.name} {where}: {result}."
    )
    require(result.weights.min() >= 0.0, f"{solver!r} gave negative weights {where}.")
    value = problem.regularizer.value(result.weights)
    require(np.isfinite(value), f"{solver!r} gave weights that are not feasible {where}.")
    moved = np.abs(problem.feasible(result.beta) - result.beta).max()
    require(
        moved <= 1e-9 * cost, f"{solver!r} gave coefficients {moved:.1e} outside the box {where}."
    )
    fresh = problem.certificate(result.weights, result.beta)
    require(
        fresh.gap <= tol * 1.01 + 1e-9,
        f"{solver!r} left a gap of {fresh.gap:.1e}, above its tolerance of {tol:g}, {where}.",
    )
    reference = solve(problem, SPG(), tol=tol)
    apart = abs(fresh.primal - reference.objective)
    allowed = fresh.absolute_gap + reference.certificate.absolute_gap
    require(
        apart <= 1.01 * allowed + 1e-9 * abs(fresh.primal),
        f"{solver!r} ended at {fresh.primal:.8g}, SPG at {reference.objective:.8g}, {where}: the "
        "difference is more than both gaps allow.",
    )


def _check_stop(solver, problem):
    run = RunState(problem, watch=lambda record: True)
    result = drive(solver, run, tol=1e-14)
    fresh = problem.certificate(result.weights, result.beta)
    require(
        abs(fresh.primal - result.objective) <= 1e-6 * abs(fresh.primal),
        f"{solver!r} was stopped, and its result says {result.objective:.8g} where its weights and "
        f"coefficients give {fresh.primal:.8g}.",
    )
