"""Going on from where an earlier run ended."""

from typing import Any, NamedTuple

import numpy as np

from ...result import Status
from ...run_state import Point, RunState
from ..base import Around, Iterate, Solver


class State(NamedTuple):
    """The state of the method.

    Attributes
    ----------
    state : Any
        Of the solver at work; None before its first step.
    iterate : Iterate
    anew : bool
        Whether the solver was already started from the beginning.
    """

    state: Any
    iterate: Iterate
    anew: bool = False


class FromIterate(Around):
    """Certify the weights and coefficients that the run starts from, and let a solver go on if they
    are not good enough.

    A solver by itself would first solve an SVM roughly, and so begin with something worse than what
    it was given. One that gets stuck from there is started again from the beginning, so that it
    comes as far as it would have come in one run.

    Parameters
    ----------
    solver : Solver
    beginning : Point
        Weights and coefficients that a run from the beginning starts from.
    ended : Status, optional
        How the earlier run ended, if it came to the end of what this solver does.
    proved : float
        A bound on the gap that the earlier run had proved; if the gap is larger now, it was with
        finer kernels.
    """

    def __init__(
        self, solver: Solver, beginning: Point, ended: Status | None = None, proved: float = np.inf
    ) -> None:
        super().__init__(solver)
        self.beginning, self.ended, self.proved = beginning, ended, proved

    def count(self, state: State, steps: int) -> int:
        return 0 if state.state is None else self.solver.count(state.state, steps)

    def specialize(self, run: RunState) -> Solver:
        planned = self.solver.specialize(run)
        return FromIterate(planned, self.beginning, self.ended, self.proved)

    def init(self, run: RunState) -> State:
        weights, beta = run.start
        certificate = run.certificate(weights, beta)
        if abs(certificate.gap) > self.proved and run.refine():
            certificate = run.certificate(weights, beta)
        return State(None, Iterate(weights, beta, certificate, ended=self.ended))

    def step(self, run: RunState, state: State, tol: float) -> State:
        if state.state is None:
            inner = self.solver.init(run)
        else:
            inner = self.solver.step(run, state.state, tol)
        if state.anew or not self._stuck(inner.iterate, tol):
            return State(inner, inner.iterate, state.anew)
        run.start = self.beginning
        inner = self.solver.init(run)
        return State(inner, inner.iterate, True)

    def refreshed(self, run: RunState, state: State) -> State:
        if state.state is None:
            run.start = state.iterate.point
            return self.init(run)
        inner = self.solver.refreshed(run, state.state)
        return State(inner, inner.iterate, state.anew)

    @staticmethod
    def _stuck(iterate: Iterate, tol: float) -> bool:
        failed = iterate.ended is not None and not iterate.ended.converged
        return failed and abs(iterate.certificate.gap) > tol
