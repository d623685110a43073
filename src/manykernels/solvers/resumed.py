"""Going on from where an earlier run ended."""

from typing import NamedTuple

from .base import Iterate, Solver


class State(NamedTuple):
    """The state of the solver at work, None before its first step, and the iterate to judge."""

    state: object
    iterate: Iterate


class FromIterate(Solver):
    """Certify the weights and coefficients that the problem starts from, and let a solver go on if they are not good enough.

    A solver by itself would first solve an SVM roughly, and so begin with something worse than what it was given.

    Parameters
    ----------
    solver : Solver
    ended : Status, optional
        How the earlier run ended, if it came to the end of what this solver does.
    """

    def __init__(self, solver, ended=None):
        self.solver, self.ended = solver, ended
        self.max_iter, self.stationarity_tol, self.sums_only = solver.max_iter, solver.stationarity_tol, solver.sums_only
        self.hard_margins = solver.hard_margins

    def needs(self, problem):
        self.solver.check(problem)

    def init(self, problem):
        weights, beta = problem.start
        return State(None, Iterate(weights, beta, problem.certificate(weights, beta), ended=self.ended))

    def step(self, problem, state, tol):
        if state.state is None:
            inner = self.solver.init(problem)
        else:
            inner = self.solver.step(problem, state.state, tol)
        return State(inner, inner.iterate)
