"""One SVM, where the weights do not depend on the data: p = inf, or a single kernel."""

from typing import NamedTuple

import numpy as np

from .base import Iterate, Solver, stalled

FIRST_TOLERANCE, SMALLEST_TOLERANCE = 1e-2, 1e-12
NEARLY = 0.9  # of the gap that is asked for may be that of the SVM, as it tells it


class State(NamedTuple):
    """A combined kernel with its machine, and how precisely the SVM is solved."""

    machine: object
    kernel: object
    tolerance: float
    iterate: Iterate


class OneSVM(Solver):
    """The SVM of the only weights there are, solved until its gap is below the tolerance.

    One pass over the kernels makes the combined kernel; no other is needed, because the quadratic
    forms count only by their sum, which is that of the combined kernel.
    """

    title = "Newton's method"
    max_iter = 50

    def needs(self, run):
        if run.problem.regularizer.only_weights(run.bank.m) is None:
            raise ValueError("The weights depend on the data: use solver='auto'.")

    def init(self, run):
        weights = run.problem.regularizer.only_weights(run.bank.m)
        machine, kernel = run.machine(weights)
        return self._solved(run, machine, kernel, weights, run.start.beta, FIRST_TOLERANCE)

    def step(self, run, state, tol):
        weights, beta, certificate = state.iterate[:3]
        wanted = run.problem.inner_tolerance(tol * abs(certificate.primal), beta)
        finer = max(min(0.1 * state.tolerance, wanted), SMALLEST_TOLERANCE)
        new = self._solved(run, state.machine, state.kernel, weights, beta, finer)
        return stalled(new) if state.tolerance <= SMALLEST_TOLERANCE else new

    @staticmethod
    def _solved(run, machine, kernel, weights, beta, tolerance):
        at = run.solve(machine, kernel, weights, beta, tolerance, NEARLY * run.tol)
        form = float(np.vdot(at.beta, at.scores))
        forms = np.full(weights.size, max(form, 0.0) / weights.size)
        certificate = run.certificate(weights, at.beta, scores=at.scores, forms=forms)
        return State(machine, kernel, tolerance, Iterate(weights, at.beta, certificate))
