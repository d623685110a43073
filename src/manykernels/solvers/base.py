"""The protocol of a solver."""

import inspect
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from ..result import Certificate, Status
from ..run_state import Point


class Iterate(NamedTuple):
    """What the driver sees of a solver's state.

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

    max_iter = 1000
    stationarity_tol = 0.04

    sums_only = True  # whether it works for sums of kernels alone
    hard_margins = False  # whether it works for a loss that can be infinite
    gains_from_sample = True  # whether weights from some of the points save it work

    def needs(self, run):  # noqa: B027  (some solvers take any sum of kernels)
        """Raise an error that names a solver which works, if this one does not fit the regularizer
        or the size.
        """

    def check(self, run):
        """Raise an error that names a solver which works, if this one does not fit the run."""
        if self.sums_only and not run.bank.is_sum:
            raise ValueError(
                f"{type(self).__name__} works for sums of kernels only: use solver='spg'."
            )
        if run.problem.loss.can_be_infinite and not self.hard_margins:
            raise ValueError(
                f"{type(self).__name__} does not work for a hard margin: use solver='mwu', which "
                "needs p = 1, or a large C."
            )
        self.needs(run)

    def fits(self, run):
        """Whether `check` has nothing to object."""
        try:
            self.check(run)
        except ValueError:
            return False
        return True

    def planned(self, run):
        """What does the run: this solver, or one that looks at a part of the problem first."""
        return self

    def direct(self):
        """What answers when no step is to be taken: this solver, or one that begins better."""
        return self

    @abstractmethod
    def init(self, run):
        """The first state."""

    @abstractmethod
    def step(self, run, state, tol):
        """The next state, on the way to a relative gap of tol."""

    def refreshed(self, run, state):
        """The state at the same point once the kernels are finer."""
        run.start = state.iterate.point
        return self.init(run)

    def __repr__(self):
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


def patient(new, old, gap, most):
    """The new state with the smallest gap so far (``best``) and how many more steps may pass
    without a smaller one (``patience``): `most` after a gap smaller than all before, and the end
    when none are left.
    """
    patience = most if gap < old.best else old.patience - 1
    new = new._replace(best=min(old.best, gap), patience=patience)
    return new if patience > 0 else stalled(new)


def stalled(state):
    """The state of a method that gets no further."""
    return state._replace(iterate=state.iterate._replace(ended=Status.STALLED))


class Stopped(Exception):
    """A watch wants the run to end, noticed inside a step."""
