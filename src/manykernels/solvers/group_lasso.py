"""MKLGL: closed-form kernel weights through the group lasso.

Z. Xu, R. Jin, H. Yang, I. King and M. R. Lyu, Simple and efficient multiple kernel learning by
group lasso, ICML 2010.

Alternate between an SVM with the current weights, which gives the norms ``|f_k|^2 = d_k^2 s_k`` of
the parts of its decision function, and the weights that minimize ``sum_k |f_k|^2 / 2 d_k + r(d)``,
which have a closed form for every p >= 1. Cheap rounds, but many: convergence is linear.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..run_state import RunState
from .base import Iterate, Solver


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Violation of the first SVM; larger: a cheaper and rougher first round.
    first_inner_tolerance: float = 0.1
    # Violation below which no SVM is solved; larger: small gaps are out of reach.
    smallest_inner_tolerance: float = 1e-12
    # Part of the tolerance that the gap of an SVM may be; larger: rougher SVMs at the end.
    svm_share_of_gap: float = 0.6


TOLERANCES = Tolerances()


class State(NamedTuple):
    """Weights to try next, and where the last ones led."""

    next_weights: np.ndarray
    inner_tolerance: float
    iterate: Iterate


class GroupLasso(Solver):
    """Alternating minimization with closed-form weights; needs a regularizer with `reweight`."""

    title = "MKLGL"
    max_iter = 5000
    wait = 60.0, 4.5

    def needs(self, run: RunState) -> None:
        regularizer = run.problem.regularizer
        if not regularizer.has_reweight:
            raise ValueError(
                f"MKLGL needs closed-form weights, which {regularizer!r} does not have: "
                "use solver='spg', or "
                "PNormBall or SquaredPNorm."
            )

    def init(self, run: RunState) -> State:
        weights, beta = run.start
        return self._round(run, weights, beta, TOLERANCES.first_inner_tolerance)

    def step(self, run: RunState, state: State, tol: float) -> State:
        return self._round(run, state.next_weights, state.iterate.beta, state.inner_tolerance)

    def _round(
        self, run: RunState, weights: np.ndarray, beta: np.ndarray, inner_tolerance: float
    ) -> State:
        at = run.evaluate(weights, beta, inner_tolerance, TOLERANCES.svm_share_of_gap * run.tol)
        forms, _, certificate = run.judge(at)
        next_weights = run.problem.regularizer.reweight(weights**2 * forms)
        inner_tolerance = float(
            np.clip(
                run.problem.inner_tolerance(certificate.absolute_gap, at.beta),
                TOLERANCES.smallest_inner_tolerance,
                inner_tolerance,
            )
        )
        return State(next_weights, inner_tolerance, Iterate(at.weights, at.beta, certificate))
