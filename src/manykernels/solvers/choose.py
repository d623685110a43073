"""The table of solvers."""

from .base import Solver
from .spg import SPG

SOLVERS = {
    "spg": lambda: SPG(),
    "pgd": lambda: SPG(spectral=False, nonmonotone=False, tune_precision=False, proximal=False),
}
PLANNED = ("newton", "smo", "group_lasso", "mwu", "gfb", "simple", "uniform")


def choose_solver(solver):
    """A solver from its name, or the object itself."""
    if isinstance(solver, Solver):
        return solver
    if solver == "auto":
        return SPG()
    if solver in SOLVERS:
        return SOLVERS[solver]()
    if solver in PLANNED:
        raise NotImplementedError(f"solver={solver!r} is not there yet; use 'auto', {', '.join(map(repr, SOLVERS))}.")
    raise ValueError(f"Unknown solver {solver!r}; use 'auto', {', '.join(map(repr, SOLVERS))} or a Solver object.")
