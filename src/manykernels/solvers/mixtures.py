"""Mixtures of SVMs: the best weights that those so far know of.

As in `group_lasso`, an SVM with the current weights gives forms, and forms give weights in closed
form. That is a step of a fixed point, which converges linearly, and for p = 1 kernels that have no
weight never get one. But the dual is concave in the coefficients, and those of an SVM change nearly
linearly with its weights: among the mixtures of a few SVMs is one that is much nearer to the
solution than each of them (simplicial decomposition: B. von Hohenbalken, Mathematical Programming
13, 1977). The best one is the saddle of a small problem,

    min_d max_a  sum_i a_i L_i - sum_k d_k a' S_k a / 2 + r(d)   over  a >= 0, sum a = 1,

where ``S_k,ij = beta_i' K_k beta_j`` and L_i is the dual of SVM i without its part from the
kernels. Its weights are the next ones, and they converge as Newton's method does: in the directions
in which there are SVMs, the small problem knows how the value bends. With the products of all
kernels with the coefficients of each SVM it costs no pass.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._loops.smo import Bounds, smo
from ..regularizers.base import Regularizer
from ..run_state import RunState
from .base import Iterate, Solver
from .group_lasso import TOLERANCES as CLOSED_FORMS


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # SVMs that are mixed at most; larger: more memory.
    most: int = 6
    # Closed forms in a row for the small problem; larger: it is more precise.
    small_rounds: int = 1000
    # The same for one SVM, which knows nothing of how the value bends; larger: longer steps.
    first_rounds: int = 4
    # Weight to begin with at least, as a part of the largest; larger: kernels come back sooner.
    smallest_weight: float = 1e-2
    # Change of the weights, relative to the largest, at which it ends; larger: rougher mixtures.
    small_change: float = 1e-6
    # Violation of its shares, relative to the values; larger: rougher mixtures.
    small_violation: float = 1e-9


TOLERANCES = Tolerances()


class Members(NamedTuple):
    """SVMs that are mixed.

    Attributes
    ----------
    weights : (s, m)
    beta : (s, t, n)
    products : (s, m, t, n)
    forms : (s, s, m)
        Of every two of them.
    values : (s,)
        The dual without its part from the kernels.
    """

    weights: np.ndarray
    beta: np.ndarray
    products: np.ndarray
    forms: np.ndarray
    values: np.ndarray

    @classmethod
    def alone(cls, run: RunState, weights: np.ndarray, beta: np.ndarray) -> "Members":
        """One SVM."""
        products, value = run.products(beta), run.problem.dual_linear(beta)
        forms = np.tensordot(products, beta, 2)
        return cls(weights[None], beta[None], products[None], forms[None, None], np.array([value]))

    def joined(self, other: "Members", shares: np.ndarray) -> "Members":
        """These and another one, without the one of the smallest share if they are too many."""
        kept = np.sort(np.argsort(-shares, kind="stable")[: TOLERANCES.most - 1])
        mixed = np.array([np.tensordot(other.products[0], self.beta[i], 2) for i in kept])
        above = np.concatenate([self.forms[np.ix_(kept, kept)], mixed[:, None]], axis=1)
        below = np.concatenate([mixed[None], other.forms], axis=1)
        return Members(
            np.concatenate([self.weights[kept], other.weights]),
            np.concatenate([self.beta[kept], other.beta]),
            np.concatenate([self.products[kept], other.products]),
            np.concatenate([above, below]),
            np.append(self.values[kept], other.values),
        )

    def best(self, regularizer: Regularizer) -> tuple[np.ndarray, np.ndarray]:
        """Shares (s,) and weights (m,) at the saddle of the small problem, by closed forms."""
        shares, none = np.zeros(len(self.values)), np.zeros(len(self.values))
        shares[-1], bounds = 1.0, Bounds(none, np.ones_like(none), none, none)
        size = max(float(np.abs(self.values).max()), np.finfo(float).tiny)
        forms, values, last = self.forms / size, self.values / size, self.weights[-1]
        weights = regularizer.adopt(np.maximum(last, TOLERANCES.smallest_weight * last.max()))
        for _ in range(TOLERANCES.first_rounds if shares.size == 1 else TOLERANCES.small_rounds):
            K = forms @ weights
            F = K @ shares - values
            most = 100 * shares.size
            smo(K, K.diagonal().copy(), bounds, shares, F, TOLERANCES.small_violation, most)
            before = weights
            weights = regularizer.reweight(weights**2 * _mixed(forms, shares))
            if np.abs(weights - before).max() <= TOLERANCES.small_change * weights.max():
                break
        return shares, weights

    def judged(self, run: RunState, shares: np.ndarray, weights: np.ndarray) -> Iterate:
        """A mixture with some weights."""
        beta, products = (np.tensordot(shares, part, 1) for part in (self.beta, self.products))
        scores, forms = np.tensordot(weights, products, 1), _mixed(self.forms, shares)
        beta = run.problem.feasible(beta)  # which rounding has kept it from
        certificate = run.certificate(weights, beta, scores=scores, forms=forms)
        return Iterate(weights, beta, certificate)


def _mixed(forms: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Quadratic forms of a mixture, (m,), which rounding must not make negative."""
    return np.maximum(shares @ np.tensordot(shares, forms, 1), 0.0)


class State(NamedTuple):
    """The SVMs so far, the shares and weights of their best mixture, and where they led."""

    members: Members
    shares: np.ndarray
    weights: np.ndarray
    inner_tolerance: float
    iterate: Iterate


class Mixtures(Solver):
    """SVMs at the best weights of mixtures of those before; needs a ball with `reweight`, and
    memory for the products of all kernels with some SVMs.
    """

    title = "mixtures of SVMs"
    max_iter = 40  # SVMs: where these are not enough, the small problem does not tell the weights

    def needs(self, run: RunState) -> None:
        regularizer = run.problem.regularizer
        # of weights without a bound, mixtures would have to be scaled, too
        if not (regularizer.has_reweight and regularizer.homogeneous):
            raise ValueError(
                f"Mixtures of SVMs are for balls with closed-form weights, such as PNormBall, not "
                f"for {regularizer!r}: use solver='spg'."
            )
        size = 8 * TOLERANCES.most * (run.bank.m + 1) * run.problem.targets.size
        if size > run.memory_budget:
            raise ValueError(
                f"Mixtures of SVMs hold the products of {run.bank.m} kernels with some of them, "
                f"{size / 2**20:.0f} MB, which is over the memory budget: raise cache_size or use "
                "solver='spg'."
            )

    def init(self, run: RunState) -> State:
        weights, beta = run.start
        return self._round(run, None, weights, beta, CLOSED_FORMS.first_inner_tolerance)

    def step(self, run: RunState, state: State, tol: float) -> State:
        beta = run.problem.feasible(np.tensordot(state.shares, state.members.beta, 1))
        return self._round(run, state, state.weights, beta, state.inner_tolerance)

    def refreshed(self, run: RunState, state: State) -> State:
        weights, beta = state.iterate.point
        return self._round(run, None, weights, beta, state.inner_tolerance)

    def _round(
        self,
        run: RunState,
        state: State | None,
        weights: np.ndarray,
        beta: np.ndarray,
        inner_tolerance: float,
    ) -> State:
        """The state after one more SVM."""
        gap = CLOSED_FORMS.svm_share_of_gap * run.tol
        at = run.evaluate(weights, beta, inner_tolerance, gap)
        members = Members.alone(run, weights, at.beta)
        if state is not None:
            members = state.members.joined(members, state.shares)
        shares, best = members.best(run.problem.regularizer)
        last = np.zeros_like(shares)
        last[-1] = 1.0
        # the best weights are a guess while the SVMs are few
        pairs = (shares, best), (shares, shares @ members.weights), (last, weights)
        judged = [members.judged(run, *pair) for pair in pairs]
        iterate = min(judged, key=lambda one: one.certificate.absolute_gap)
        finer = run.problem.inner_tolerance(iterate.certificate.absolute_gap, at.beta)
        finer = float(np.clip(finer, CLOSED_FORMS.smallest_inner_tolerance, inner_tolerance))
        return State(members, shares, best, finer, iterate)
