"""Going on from where an earlier run ended."""

from typing import NamedTuple

import numpy as np

from ..base import Iterate, Solver


class State(NamedTuple):
    """Where the method stands.

    Attributes
    ----------
    state : object
        Of the solver at work; None before its first step.
    iterate : Iterate
    anew : bool
        Whether the solver was already started from the beginning.
    """

    state: object
    iterate: Iterate
    anew: bool = False


class FromIterate(Solver):
    """Certify the weights and coefficients that the problem starts from, and let a solver go on if
    they are not good enough.

    A solver by itself would first solve an SVM roughly, and so begin with something worse than what
    it was given. One that gets stuck from there is started again from the beginning, so that it
    comes as far as it would have come in one run.

    Parameters
    ----------
    solver : Solver
    beginning : (m,) and (t, n)
        Weights and coefficients that a run from the beginning starts from.
    ended : Status, optional
        How the earlier run ended, if it came to the end of what this solver does.
    proved : float
        A bound on the gap that the earlier run had proved; if the gap is larger now, it was with
        finer kernels.
    """

    def __init__(self, solver, beginning, ended=None, proved=np.inf):
        self.solver, self.beginning, self.ended, self.proved = solver, beginning, ended, proved
        self.max_iter, self.stationarity_tol, self.sums_only = (
            solver.max_iter,
            solver.stationarity_tol,
            solver.sums_only,
        )
        self.hard_margins = solver.hard_margins

    def needs(self, problem):
        self.solver.check(problem)

    def init(self, problem):
        weights, beta = problem.start
        certificate = problem.certificate(weights, beta)
        if abs(certificate.gap) > self.proved and problem.refine():
            certificate = problem.certificate(weights, beta)
        return State(None, Iterate(weights, beta, certificate, ended=self.ended))

    def step(self, problem, state, tol):
        if state.state is None:
            inner = self.solver.init(problem)
        else:
            inner = self.solver.step(problem, state.state, tol)
        if state.anew or not self._stuck(inner.iterate, tol):
            return State(inner, inner.iterate, state.anew)
        problem.start = self.beginning
        inner = self.solver.init(problem)
        return State(inner, inner.iterate, True)

    @staticmethod
    def _stuck(iterate, tol):
        return (
            iterate.ended is not None
            and not iterate.ended.converged
            and abs(iterate.certificate.gap) > tol
        )
