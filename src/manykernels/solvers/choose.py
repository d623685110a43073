"""The table of solvers, and the table by which ``"auto"`` chooses among them."""

from collections.abc import Callable
from typing import NamedTuple

from ..banks.factors import FactorBank
from ..losses import HardMargin
from ..regularizers import BlockNorm, SquaredPNorm
from .base import Solver
from .group_lasso import GroupLasso
from .lowrank.factored import FactorSolver
from .lowrank.interior import Interior
from .lowrank.primal import PrimalNewton
from .multiplicative import MultiplicativeWeights
from .newton import Newton
from .reference.fixed import Alignment, Uniform
from .reference.gfb import GFB
from .reference.simplex import SILP, MirrorDescent, SimpleMKL
from .smo_mkl import SMO
from .spg import SPG
from .wrappers.sample import LARGE, FromSample

SOLVERS = {
    "newton": Newton,
    "spg": SPG,
    "pgd": lambda: SPG(
        spectral=False, nonmonotone=False, tune_tolerance=False, proximal=False, cautious=False
    ),
    "smo": SMO,
    "group_lasso": GroupLasso,
    "mwu": MultiplicativeWeights,
    "primal": PrimalNewton,
    "interior": Interior,
    "gfb": GFB,
    "mirror": MirrorDescent,
    "simple": SimpleMKL,
    "silp": SILP,
    "alignment": Alignment,
    "uniform": Uniform,
}


class Rule(NamedTuple):
    """A line of the table that ``solver="auto"`` follows: the first whose condition holds and whose
    solver fits.
    """

    solver: str
    when: str
    holds: Callable


def _narrow(problem):
    """Whether systems of equations in the space of the factors are cheaper than kernels of all
    pairs of points.
    """
    return isinstance(problem.bank, FactorBank) and 2 * problem.bank.points.width < problem.bank.n


# A solver that does not fit (its `check`) is passed over. What was measured is in
# benchmarks/small.py.
AUTO = (
    Rule(
        "mwu",
        "a hard margin, which the others do not take",
        lambda problem: isinstance(problem.loss, HardMargin),
    ),
    Rule(
        "primal",
        "kernels of low rank whose factors have fewer columns than half the points, smooth losses",
        _narrow,
    ),
    Rule("interior", "the same with losses that have corners", _narrow),
    Rule(
        "newton",
        "the conjugate is smooth (p > 1, GeneralizedKL) or is that of the simplex, and a combined "
        "kernel and, unless the bank "
        "can do without them, the products of all kernels with all points fit into memory",
        lambda problem: True,
    ),
    Rule(
        "group_lasso",
        "the squared 1-norm, where Newton's method has no curvature and SPG needs more rounds",
        lambda problem: (
            isinstance(problem.regularizer, SquaredPNorm) and problem.regularizer.p == 1.0
        ),
    ),
    Rule(
        "group_lasso",
        "mixed norms of other exponents than 1 and 2 within groups, where SPG has no proximal map "
        "and bounces at the kinks",
        lambda problem: (
            isinstance(problem.regularizer, BlockNorm) and problem.regularizer.r not in (1.0, 2.0)
        ),
    ),
    Rule(
        "spg",
        "everything else: any regularizer, any number of points and kernels",
        lambda problem: True,
    ),
)


def _by_table(problem):
    candidates = [SOLVERS[rule.solver]() for rule in AUTO if rule.holds(problem)]
    return next((candidate for candidate in candidates if candidate.fits(problem)), candidates[0])


def _for_many_points(problem):
    """The solver with the fewest SVMs from good weights; near them, closed forms converge fast but
    for p = 1.
    """
    smooth = hasattr(problem.regularizer, "reweight") and getattr(
        problem.regularizer, "smooth", False
    )
    return GroupLasso() if smooth else SPG()


def choose_solver(solver, problem=None):
    """A solver from its name, or the object itself; ``"auto"`` follows the table `AUTO` for the
    problem.

    Problems with many points begin with a sample of them (`FromSample`), where that is possible.
    """
    if isinstance(solver, Solver):
        return solver
    if solver == "auto":
        chosen = _by_table(problem)
        if problem.bank.n < LARGE or isinstance(chosen, FactorSolver | MultiplicativeWeights):
            return chosen
        most = _for_many_points(problem)
        sampled = FromSample(most, _by_table, None if type(chosen) is type(most) else chosen)
        return sampled if sampled.fits(problem) else chosen
    if solver in SOLVERS:
        return SOLVERS[solver]()
    raise ValueError(
        f"Unknown solver {solver!r}; use 'auto', {', '.join(map(repr, SOLVERS))} or a Solver "
        "object."
    )
