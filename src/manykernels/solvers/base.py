"""The protocol of a solver."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from ..result import Certificate, Result, Status
from ..run_state import Point, RunState


@dataclass(frozen=True)
class Tolerances:
    """The numbers by which `Solver.slow` ends a run."""

    # Part of the work worth waiting for after which some progress is due; larger: hopeless runs
    # take longer to end.
    early_share_of_work: float = 0.25
    # Part of the decades to the tolerance that are due by then; larger: more runs end early.
    decades_due_early: float = 1.0 / 6.0
    # Gap, in tolerances, that is near the end; larger: more runs get extra work.
    gap_counts_as_near: float = 2.0
    # Factor on the work of a run that is near the end; larger: such runs go on longer.
    extra_work_when_near: float = 1.25
    # Factor on the work where Newton's method does not apply; larger: such runs go on longer.
    extra_work_without_newton: float = 4.0


TOLERANCES = Tolerances()

# Solvers by name that certify small gaps in few iterations; filled by those who know them.
CERTIFIERS: dict[str, type["Solver"]] = {}


class Iterate(NamedTuple):
    """The part of a solver's state that the driver sees.

    Attributes
    ----------
    weights, beta : (m,) and (t, n)
    certificate : Certificate
    stationarity : float
        Norm of the projected gradient, the stopping rule where there is no duality gap.
    ended : Status, optional
        The solver's own reason to stop, if it has one.
    settled : bool
        False where a run should go on although the gap is small enough: the weights are those that
        it began with, not chosen.
    """

    weights: np.ndarray
    beta: np.ndarray
    certificate: Certificate
    stationarity: float = np.inf
    ended: Status | None = None
    settled: bool = True

    @property
    def point(self) -> Point:
        """Weights and coefficients."""
        return Point(self.weights, self.beta)


class Solver(ABC):
    """An algorithm as `init` and `step`; a state is anything with an attribute ``iterate``.

    Both get the run (`manykernels.run_state.RunState`), whose ``problem`` is the statement, and ask
    it for everything that costs a pass over the kernels. `manykernels.solvers.drive` is the loop.
    """

    title = ""  # the method's name in sentences; that of the class by default
    unit = "iteration"  # what max_iter counts
    max_iter = 1000
    stationarity_tol = 0.04
    # passes over the kernels worth waiting for: so many, and so many more times the fourth power of
    # the powers of ten by which the gap has to fall; None for methods whose iterations are few
    wait: tuple[float, float] | None = None

    sums_only = True  # whether it works for sums of kernels alone
    hard_margins = False  # whether it works for a loss that can be infinite
    curved_losses = True  # whether it works for a loss whose dual is not quadratic
    gains_from_sample = True  # whether weights from some of the points save it work
    resumes_itself = False  # whether it goes on from the weights of an earlier run by itself
    follows_rule = False  # whether its weights follow a rule, and are no optimum
    stand_in: type["Solver"] | None = None  # goes on where it is stuck and rounding is not why

    def needs(self, run: RunState) -> None:  # noqa: B027  (some solvers take any sum of kernels)
        """Raise an error that names a solver which works, if this one does not fit the regularizer
        or the size.
        """

    def check(self, run: RunState) -> None:
        """Raise an error that names a solver which works, if this one does not fit the run."""
        if self.sums_only and not run.bank.is_sum:
            raise ValueError(
                f"{type(self).__name__} works for sums of kernels only: use solver='quasi_newton'."
            )
        if run.problem.loss.can_be_infinite and not self.hard_margins:
            raise ValueError(
                f"{type(self).__name__} does not work for a hard margin: use solver='mwu', which "
                "needs p = 1, or a large C."
            )
        if run.problem.loss.has_nonquadratic_dual and not self.curved_losses:
            raise ValueError(
                f"{type(self).__name__} needs a loss whose dual is quadratic, not "
                f"{run.problem.loss!r}: use solver='newton' or solver='spg', or solver='primal' "
                "for low-rank factors."
            )
        self.needs(run)

    def fits(self, run: RunState) -> bool:
        """True if `check` has nothing to object."""
        try:
            self.check(run)
        except ValueError:
            return False
        return True

    @property
    def called(self) -> str:
        """The method's name in sentences."""
        return self.title or type(self).__name__

    def count(self, state: Any, steps: int) -> int:
        """The part of `max_iter` that is used up after so many steps."""
        return steps

    def limit(self, run: RunState) -> int:
        """The default of `max_iter` for this run."""
        return self.max_iter

    def work(self, run: RunState) -> float:
        """The work of the run so far, in passes over the kernels."""
        return run.work

    def slow(self, run: RunState, first: float, tol: float) -> bool:
        """True if a run whose first gap was `first` has done more than is worth waiting for; or a
        quarter of that, with next to nothing to show.

        In passes, not seconds: the same fit always ends in the same way. Newton's method takes the
        time of 6 passes or more where the gap has to fall by one or two powers of ten, of 10 where
        by two and a half, and of 9 to 35 where by three: hence the fourth power. No run should
        take 30 times as long as that.
        """
        if self.wait is None or not np.isfinite(first):
            return False
        least, more = self.wait
        decades = _decades(first, tol)
        allowed, fallen = least + more * decades**4, _decades(first, run.best.certificate.gap)
        if not (run.problem.regularizer.smooth or run.problem.regularizer.is_simplex):
            allowed *= TOLERANCES.extra_work_without_newton
        work = self.work(run)
        if (
            work > max(least, TOLERANCES.early_share_of_work * allowed)
            and fallen < TOLERANCES.decades_due_early * decades
        ):
            return True
        nearly = run.best.certificate.gap < TOLERANCES.gap_counts_as_near * tol
        return work > (TOLERANCES.extra_work_when_near if nearly else 1.0) * allowed

    def advice(self, run: RunState, result: Result, tol: float) -> str:
        """A sentence on how far the run came, and on what to do about it."""
        count, gap = result.n_iter, result.duality_gap
        if result.status is Status.INSEPARABLE:
            return ""
        units = self.unit if count == 1 else f"{self.unit}s"
        reached = f"{self.called} took {count:,} {units}"
        if np.isfinite(gap):
            reached += f" to a relative duality gap of {gap:.1e}; the tolerance is {tol:g}"
        if result.status.broken_off:
            return f"{reached}."
        if run.is_exhausted:
            return (
                f"{reached}. Its SVMs were given up, as where values of kernels are very large or "
                "C is: standardize the columns, leave normalize at its default, or take a smaller "
                "C."
            )
        better = self._certifier(run) if np.isfinite(gap) else None
        if better is not None:
            return f"{reached}. solver={better!r} certifies that on such problems."
        ways = [f"more {self.unit}s (max_iter)", "a larger tol"]
        if getattr(run.problem.regularizer, "p", np.inf) < np.inf:
            ways.append("a larger p")
        return f"{reached}. Allow {', '.join(ways)} or a smaller C."

    def _certifier(self, run: RunState) -> str | None:
        """The name of a solver that certifies what this one has not come to; None if none fits or
        this is one of them.
        """
        candidates = {name: kind() for name, kind in CERTIFIERS.items()}
        if any(candidate.called == self.called for candidate in candidates.values()):
            return None
        fitting = (name for name, candidate in candidates.items() if candidate.fits(run))
        return next(fitting, None)

    def specialize(self, run: RunState) -> "Solver":
        """The solver of the run: this one, or one that looks at a part of the problem first."""
        return self

    def without_steps(self) -> "Solver":
        """The solver for a run of no steps: this one, or one that begins better."""
        return self

    @abstractmethod
    def init(self, run: RunState) -> Any:
        """The first state."""

    @abstractmethod
    def step(self, run: RunState, state: Any, tol: float) -> Any:
        """The next state, on the way to a relative gap of tol."""

    def refreshed(self, run: RunState, state: Any) -> Any:
        """The state at the same point once the kernels are finer."""
        run.start = state.iterate.point
        return self.init(run)

    def carried(self, state: Any) -> Any:
        """What a run that begins where this one ended may use, besides weights and coefficients:
        it is the `RunState.carried` of that run.
        """
        return None

    def __repr__(self) -> str:
        given = {
            name: p.default
            for name, p in inspect.signature(type(self)).parameters.items()
            if hasattr(self, name)
        }
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, default in given.items()
            if getattr(self, name) != default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def _decades(first: float, last: float) -> float:
    """Powers of ten from a gap, one at most, down to another."""
    return np.log10(max(min(first, 1.0) / max(abs(last), np.finfo(float).tiny), 1.0))


class Around(Solver):
    """Base of solvers around a solver, whose name and limits they have."""

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        limits = "title", "unit", "max_iter", "stationarity_tol", "stand_in"
        for name in (*limits, "sums_only", "hard_margins", "curved_losses"):
            setattr(self, name, getattr(solver, name))
        self.title = solver.called

    def needs(self, run: RunState) -> None:
        self.solver.check(run)

    def limit(self, run: RunState) -> int:
        return self.solver.limit(run)

    def slow(self, run: RunState, first: float, tol: float) -> bool:
        # the first gap is small because something went before, not because the problem is easy
        return self.solver.slow(run, 1.0 if np.isfinite(first) else first, tol)

    def advice(self, run: RunState, result: Result, tol: float) -> str:
        return self.solver.advice(run, result, tol)


class Stoppable(Protocol):
    """A state that can be marked as the last one; any NamedTuple with an iterate is."""

    @property
    def iterate(self) -> Iterate: ...

    def _replace(self, *args: Any, **changes: Any) -> Any: ...


class Watched(Stoppable, Protocol):
    """A state that remembers the smallest gap, and how many more steps may pass without one."""

    @property
    def best(self) -> float: ...

    @property
    def patience(self) -> int: ...


S = TypeVar("S", bound=Stoppable)
P = TypeVar("P", bound=Watched)


def patient(new: P, old: P, gap: float, most: int) -> P:
    """The new state with the smallest gap so far (``best``) and how many more steps may pass
    without a smaller one (``patience``): `most` after a gap smaller than all before, and the end
    when none are left.
    """
    patience = most if gap < old.best else old.patience - 1
    new = new._replace(best=min(old.best, gap), patience=patience)
    return new if patience > 0 else stalled(new)


def stalled(state: S) -> S:
    """The state of a method that gets no further."""
    return state._replace(iterate=state.iterate._replace(ended=Status.STALLED))


class Stopped(Exception):
    """A watch wants the run to end, noticed inside a step."""


# --- as few kernels as a tolerance allows ---------------------------------------------------------


def fewest(weights: np.ndarray, good: Callable[[np.ndarray], bool]) -> np.ndarray:
    """The heaviest of some weights on the simplex, scaled to it: as few as are good.

    More kernels do not always mean a smaller gap, but nearly: the number is found by halving.

    Parameters
    ----------
    weights : (m,) array
        That are good themselves.
    good : callable
        Whether other weights are.
    """
    order = np.argsort(-weights, kind="stable")

    def kept(count: int) -> np.ndarray:
        some = np.zeros_like(weights)
        some[order[:count]] = weights[order[:count]]
        return some / some.sum()

    few, most = 0, int(np.count_nonzero(weights))
    everything = most
    while most - few > 1:
        middle = (few + most) // 2
        if good(kept(middle)):
            most = middle
        else:
            few = middle
    return kept(most) if most < everything else weights
