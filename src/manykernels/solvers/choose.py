"""The table of solvers."""

from .base import Solver
from .fixed import Alignment, Uniform
from .group_lasso import GroupLasso
from .newton import Newton
from .simplex import SILP, MirrorDescent, SimpleMKL
from .smo_mkl import SMO
from .spg import SPG

SOLVERS = {
    "newton": Newton,
    "spg": SPG,
    "pgd": lambda: SPG(spectral=False, nonmonotone=False, tune_precision=False, proximal=False),
    "smo": SMO,
    "group_lasso": GroupLasso,
    "mirror": MirrorDescent,
    "simple": SimpleMKL,
    "silp": SILP,
    "alignment": Alignment,
    "uniform": Uniform,
}
PLANNED = ("mwu", "gfb")


def choose_solver(solver, problem=None):
    """A solver from its name, or the object itself; ``"auto"`` is the first of Newton and SPG that fits the problem.

    Newton needs a conjugate that is smooth (or the simplex) and memory for one combined kernel and one vector per kernel; SPG
    takes anything.
    """
    if isinstance(solver, Solver):
        return solver
    if solver == "auto":
        newton = Newton()
        return newton if problem is not None and newton.fits(problem) else SPG()
    if solver in SOLVERS:
        return SOLVERS[solver]()
    if solver in PLANNED:
        raise NotImplementedError(f"solver={solver!r} is not there yet; use 'auto', {', '.join(map(repr, SOLVERS))}.")
    raise ValueError(f"Unknown solver {solver!r}; use 'auto', {', '.join(map(repr, SOLVERS))} or a Solver object.")
