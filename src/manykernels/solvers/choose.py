"""The table of solvers, and the table by which ``"auto"`` chooses among them."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import NamedTuple

from ..banks.base import Bank
from ..banks.lowrank.product import ProductFeatureBank
from ..regularizers import AtMost
from ..run_state import RunState
from ..thresholds import thresholds
from .base import CERTIFIERS, Solver
from .group_lasso import GroupLasso
from .lowrank.blocks import Blocks
from .lowrank.distributed import DistributedNewton
from .lowrank.interior import Interior
from .lowrank.multipliers import Multipliers
from .lowrank.primal import PrimalNewton
from .mixtures import Mixtures
from .multiplicative import MultiplicativeWeights
from .newton import Newton
from .quasi_newton import QuasiNewton
from .sequential import Sequential
from .smo_mkl import SMO
from .spg import SPG
from .subsets import BranchAndBound
from .wrappers import FromFactors, FromPoints


def _reference(module: str, name: str) -> Solver:
    return getattr(import_module(f".reference.{module}", __package__), name)()


SOLVERS: dict[str, Callable[[], Solver]] = {
    "newton": Newton,
    "quasi_newton": QuasiNewton,
    "spg": SPG,
    "pgd": lambda: SPG(
        spectral=False, nonmonotone=False, tune_tolerance=False, proximal=False, cautious=False
    ),
    "smo": SMO,
    "group_lasso": GroupLasso,
    "mwu": MultiplicativeWeights,
    "primal": PrimalNewton,
    "multipliers": Multipliers,
    "interior": Interior,
    "blocks": Blocks,
    "distributed": DistributedNewton,
    # methods of the papers' tables, in a room that no other fit imports
    "gfb": partial(_reference, "gfb", "GFB"),
    "mirror": partial(_reference, "simplex", "MirrorDescent"),
    "simple": partial(_reference, "simplex", "SimpleMKL"),
    "silp": partial(_reference, "simplex", "SILP"),
    "alignment": partial(_reference, "fixed", "Alignment"),
    "uniform": partial(_reference, "fixed", "Uniform"),
}


class Rule(NamedTuple):
    """A line of the table that ``solver="auto"`` follows: the first whose condition holds and whose
    solver fits.
    """

    solver: str
    when: str
    holds: Callable


def _narrow(run):
    return run.bank.is_sum and run.bank.prefers_factor_space


def _very_narrow(run):
    return run.bank.n >= thresholds().points_per_column_with_corners * run.bank.points.width


def _by_blocks(run):
    return run.bank.by_blocks and (not run.bank.factored or Blocks.worth_a_try(run))


def _always(run):
    return True


# A solver that does not fit (its `check`) is passed over. What was measured is in
# benchmarks/small.py.
AUTO = (
    Rule(
        "mwu",
        "a hard margin, which the others do not take",
        lambda run: run.problem.loss.can_be_infinite,
    ),
    Rule(
        "blocks",
        "p = 1 and kernels of low rank whose factors are made one by one: kernels of ten or more "
        "different sets of columns whose factors are many, or over the memory budget; or a loss "
        f"without corners and at most {thresholds().block_points_per_column} points per column of "
        "factors, until Newton's method would be quicker",
        _by_blocks,
    ),
    Rule(
        "distributed",
        "kernels of low rank whose points are on other machines",
        lambda run: run.bank.is_remote and run.bank.factored,
    ),
    Rule(
        "primal",
        "kernels of low rank whose factors have fewer columns than half the points, smooth losses "
        "(squared, logistic)",
        _narrow,
    ),
    Rule(
        "multipliers",
        "the same with losses that have corners, and at least "
        f"{thresholds().points_per_column_with_corners} points per column",
        lambda run: _narrow(run) and _very_narrow(run),
    ),
    Rule("interior", "the same with fewer points", _narrow),
    Rule(
        "newton",
        "the conjugate is smooth (p > 1, GeneralizedKL) or is that of the simplex, and a combined "
        "kernel and, unless the bank can do without them, the products of all kernels with all "
        "points fit into memory",
        _always,
    ),
    Rule(
        "quasi_newton",
        "the kernel is not a sum, such as a product",
        lambda run: not run.bank.is_sum,
    ),
    Rule(
        "group_lasso",
        "the squared 1-norm, where Newton's method has no curvature and SPG needs more rounds, and "
        "mixed norms of other exponents than 1 and 2 within groups, where SPG bounces at the kinks",
        lambda run: run.problem.regularizer.steep,
    ),
    Rule("spg", "everything else: any regularizer, any number of points and kernels", _always),
)


# What certifies small gaps in few iterations, on factors and on kernels.
CERTIFIERS.update(primal=PrimalNewton, interior=Interior, newton=Newton)


def rule_for(run: RunState) -> Rule:
    """The line of the table that ``solver="auto"`` follows for a run."""
    matching = [rule for rule in AUTO if rule.holds(run)]
    return next((rule for rule in matching if SOLVERS[rule.solver]().fits(run)), matching[0])


def _by_table(run):
    """What the table offers for a run, first what it prefers."""
    candidates = [SOLVERS[rule.solver]() for rule in AUTO if rule.holds(run)]
    return [candidate for candidate in candidates if candidate.fits(run)] or candidates


def _automatic(run):
    chosen, *others = _by_table(run)
    if isinstance(chosen, Blocks) and run.bank.factored:
        return Blocks(then=_sampled(run, others[0]))
    if FromFactors.pays(run) and not run.problem.loss.can_be_infinite:
        return FromFactors(chosen.specialize(run), _automatic)
    return _sampled(run, chosen)


def _sampled(run, chosen):
    """A solver that begins with a sample of the points, where that is possible and pays."""
    size, least = sample_size(run.bank)
    if run.bank.n < least or not chosen.gains_from_sample:
        return chosen
    # a sample tells no weights where there is no choice, and conjugate gradients begin anywhere
    if run.problem.is_system and run.problem.regularizer.only_weights(run.bank.m) is not None:
        return chosen
    usual = chosen.specialize(run)
    most = _for_many_points(run, usual)
    # mixtures need few steps, and SPG-GMKL would need more
    alone = type(usual) is type(most) or (isinstance(most, Mixtures) and isinstance(usual, SPG))
    last = None if alone else chosen
    sampled = FromPoints(most, _automatic, last, size, run.bank.starts)
    return sampled if sampled.fits(run) else chosen


def sample_size(bank: Bank) -> tuple[int, int]:
    """Points of the first sample, and points from which on there is one; kernels that are no sums
    have several starts, which a sample saves all but one of. Of as many random features as points
    a sample tells nothing.
    """
    table = thresholds()
    if bank.is_sum:
        return table.sample_points, table.points_for_sample
    size = table.sample_points_of_combinations
    if isinstance(bank, ProductFeatureBank):
        size = max(size, table.sample_points_per_feature * bank.width)
        return size, 2 * size
    return size, min(2 * size, table.points_for_sample)


def _for_many_points(run, usual):
    """The solver with the fewest SVMs from good weights: mixtures of them need three or four, and
    so does Newton's method for p = 1, if its kernel fits; without memory for either, closed forms
    converge fast near good weights.
    """
    regularizer = run.problem.regularizer
    if not run.bank.is_sum:
        return QuasiNewton()
    if regularizer.is_simplex and isinstance(usual, Sequential):
        return usual
    if (regularizer.is_simplex or regularizer.smooth) and Mixtures().fits(run):
        return Mixtures()
    return GroupLasso() if regularizer.has_reweight and regularizer.smooth else SPG()


def choose_solver(solver: str | Solver, run: RunState | None = None) -> Solver:
    """A solver from its name, or the object itself; ``"auto"`` follows the table `AUTO` for the
    run.

    Problems with many points begin with a sample of them (`FromPoints`), where that is possible. A
    limit on the number of kernels is a search, in which this solver solves the problems.
    """
    if run is not None and isinstance(run.problem.regularizer, AtMost):
        return BranchAndBound(partial(choose_solver, solver))
    if isinstance(solver, Solver):
        return solver
    if solver == "auto":
        if run is None:
            raise ValueError("solver='auto' chooses for a run: give one.")
        return _automatic(run)
    if solver in SOLVERS:
        return SOLVERS[solver]()
    raise ValueError(
        f"Unknown solver {solver!r}; use 'auto', {', '.join(map(repr, SOLVERS))} or a Solver "
        "object."
    )
