"""MKLGL: closed-form kernel weights through the group lasso.

Z. Xu, R. Jin, H. Yang, I. King and M. R. Lyu, Simple and efficient multiple kernel learning by group lasso, ICML 2010.

Alternate between an SVM with the current weights, which gives the norms ``|f_k|^2 = d_k^2 s_k`` of the parts of its decision
function, and the weights that minimise ``sum_k |f_k|^2 / 2 d_k + r(d)``, which have a closed form for every p >= 1.
Cheap rounds, but many: convergence is linear.
"""

from typing import NamedTuple

import numpy as np

from .base import Iterate, Solver

COARSEST, FINEST = 0.1, 1e-12


class State(NamedTuple):
    """Weights to try next, and where the last ones led."""

    next_weights: np.ndarray
    precision: float
    iterate: Iterate


class GroupLasso(Solver):
    """Alternating minimisation with closed-form weights; needs a regulariser with `reweight`."""

    max_iter = 5000

    def needs(self, problem):
        if not hasattr(problem.regulariser, "reweight"):
            raise ValueError(
                f"MKLGL needs closed-form weights, which {problem.regulariser!r} does not have: use solver='spg', or "
                "PNormBall or SquaredPNorm."
            )

    def init(self, problem):
        weights, beta = problem.start
        return self._round(problem, weights, beta, COARSEST)

    def step(self, problem, state, tol):
        return self._round(problem, state.next_weights, state.iterate.beta, state.precision)

    def _round(self, problem, weights, beta, precision):
        at = problem.evaluate(weights, beta, precision)
        forms, _, certificate = problem.judge(at)
        next_weights = problem.regulariser.reweight(weights**2 * forms)
        precision = float(np.clip(problem.precision(certificate.absolute_gap, at.beta), FINEST, precision))
        return State(next_weights, precision, Iterate(at.weights, at.beta, certificate))
