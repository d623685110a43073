"""MKL with p = 1 on low-rank factors, block by block: many kernels, some of which get weight, and
many columns in all.

With ``K_k = V_k V_k'`` the problem is a group lasso (F. Bach, Consistency of the group lasso and
multiple kernel learning, JMLR 2008),

    min_{v, b}  (sum_k |v_k|)^2 / 2 + loss(V v + b),

and the weights are ``d_k = |v_k| / sum_j |v_j|``. A block is the coefficients of one kernel. Steps
of Newton's method at fixed weights and a small group lasso alternate (`descent`).

Only kernels that may have weight are visited. A pass over all of them then gives every quadratic
form, and with it the certificate of the whole problem and the kernels that join. Where factors are
made on demand, those of other kernels are never held.

A loss with corners has them rounded off around the last coefficients, which move (see
`manykernels.machines.factored`).

Where C is large a loss with corners is nearly a wall. When several descents have not come to their
end, or the gap hardly moves, Newton's method on all pairs of points takes over, if its kernel fits
into memory.

Where all factors are held and have many columns, Newton's method begins with the sum of all kernels
for all pairs of points. Descents are quicker, up to thirty times, if few kernels get weight, which
nobody knows beforehand. So they are given half of what Newton's method would take, and when the
rest would take more it goes on from where they came to.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...run_state import Point, RunState
from ...thresholds import thresholds
from ..base import Iterate, Solver, fewest, patient, stalled
from ..sequential import Sequential
from .descent import Descent


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Gap of the visited kernels to reach, as a part of the tolerance; larger: shorter descents.
    share_of_tolerance: float = 0.4
    # The same where the loss has corners, which are rounded off; larger: shorter descents.
    share_with_corners: float = 0.1
    # Factor on that gap after a descent that reached it for nothing; larger: shorter descents.
    sharper: float = 0.25
    # Steps without a smaller gap that end the method; larger: it gives up later.
    steps_without_gain: int = 5
    # Descents without an end after which another method takes over; larger: it does so later.
    endless_descents: int = 3
    # Part of the gap above which a step counts as one of them; larger: fewer do.
    slow_step_leaves: float = 0.9
    # Relative gap below which coefficients are a warm start for that method; larger: rougher ones
    # are.
    warm_start_below: float = 0.5
    # Half the work of Newton's method on all pairs of points, in units of its largest product of
    # matrices; larger: descents may take longer before it takes over.
    newton_products: float = 2.5
    # Width of the first corners, in units of the problem; larger: easier and less exact descents.
    first_corner: float = 0.3
    # Factor on the width from descent to descent; larger: corners sharpen more slowly.
    corner_shrinks_to: float = 0.5
    # Width of the last corners, in units of the problem; larger: less exact coefficients.
    narrowest_corner: float = 0.1


TOLERANCES = Tolerances()


class Fit(NamedTuple):
    """Coefficients v (t, r) of the features, intercepts b (t,), and the width of corners."""

    v: np.ndarray
    b: np.ndarray
    width: float


class State(NamedTuple):
    """The state of the method.

    Attributes
    ----------
    fit : Fit
    moments : (t, r)
        Of the coefficients of the points, ``V' beta``.
    forms : (m,) quadratic forms of all kernels
    iterate : Iterate
    endless : int
        Descents so far that did not come to their end, or gained next to nothing.
    work : float
        That of all descents so far, in multiplications.
    best, patience : float, int
        Smallest absolute gap so far, and how many more steps may pass without a smaller one.
    sharper : float
        Part of the gap of the visited kernels that is still to be reached, after descents that
        reached all of it: weights and coefficients of points are judged, and small errors of those
        of the features make large ones of these.
    """

    fit: Fit
    moments: np.ndarray
    forms: np.ndarray
    iterate: Iterate
    endless: int = 0
    work: float = 0.0
    best: float = np.inf
    patience: int = TOLERANCES.steps_without_gain
    sharper: float = 1.0


class Other(NamedTuple):
    """The state of the solver that took over."""

    solver: Solver
    state: Any

    @property
    def iterate(self) -> Iterate:
        return self.state.iterate


class Blocks(Solver):
    """Block coordinate descent for banks of low-rank factors on the simplex (p = 1).

    Parameters
    ----------
    then : Solver, optional
        What takes over when descents would take more than half as long as Newton's method, for
        factors that are held. Without one they are taken to the end, or until three descents
        have come to none (`Tolerances.endless_descents`).
    """

    title = "block coordinate descent"
    max_iter = 300
    gains_from_sample = False

    def __init__(self, then: Solver | None = None) -> None:
        self.then = then

    def needs(self, run: RunState) -> None:
        if not run.bank.by_blocks:
            raise ValueError(
                "Block coordinate descent works on low-rank factors in the memory of this machine: "
                "give an approximation and leave device='cpu', or use solver='newton'."
            )
        if not run.problem.regularizer.is_simplex:
            raise ValueError(
                f"Block coordinate descent is for PNormBall(1), got {run.problem.regularizer!r}: "
                "use solver='primal' or solver='interior'."
            )

    @staticmethod
    def allowed(run: RunState) -> float:
        """Multiplications that rounds may take before Newton's method on all pairs of points is
        quicker.
        """
        n, outputs = run.bank.n, len(run.problem.targets)
        return TOLERANCES.newton_products * outputs * n**2 * (n + run.bank.width)

    @classmethod
    def worth_a_try(cls, run: RunState) -> bool:
        """True if rounds may be quicker than Newton's method, where all factors are held."""
        bank = run.bank
        smooth = run.problem.loss.is_smooth and bank.m > 1
        gains = cls.allowed(run) >= thresholds().block_operations
        return smooth and not bank.prefers_factor_space and gains

    def init(self, run: RunState) -> State:
        weights, beta = run.start
        width = 0.0 if run.problem.loss.is_smooth else TOLERANCES.first_corner * run.problem.unit
        descent = Descent(run, run.problem.feasible(beta), width)
        v, beta = descent.begin(weights)
        state = _judged(run, Fit(v, descent.b, width), weights, beta)
        dense = weights.size > 1 and weights.all()  # such weights may do, but so would fewer
        return state._replace(iterate=state.iterate._replace(settled=not dense))

    def step(self, run: RunState, state: State | Other, tol: float) -> State | Other:
        if isinstance(state, Other):
            return state._replace(state=state.solver.step(run, state.state, tol))
        if not state.forms.any():  # nothing to explain, or nothing that explains it
            last = stalled(state._replace(iterate=state.iterate._replace(settled=True)))
            return last if state.iterate.certificate.gap <= tol else self._other(run, last)
        new = self._descended(run, state, tol)
        if new.iterate.certificate.gap <= tol:
            return new._replace(iterate=_sparse(run, new, tol))
        tired = new.endless >= TOLERANCES.endless_descents or new.iterate.ended is not None
        return self._other(run, new) if tired else new

    def refreshed(self, run: RunState, state: State | Other) -> State | Other:
        if isinstance(state, Other):
            return state._replace(state=state.solver.refreshed(run, state.state))
        return super().refreshed(run, state)

    def _descended(self, run: RunState, state: State, tol: float) -> State:
        certificate, (v, b, width) = state.iterate.certificate, state.fit
        share = TOLERANCES.share_with_corners if width > 0.0 else TOLERANCES.share_of_tolerance
        aim = state.sharper * share * tol * max(abs(certificate.primal), abs(certificate.dual))
        allowed = np.inf if self.then is None else self.allowed(run) - state.work
        descent = Descent(run, state.iterate.beta, width, allowed)
        v = descent.to(aim, v, b, state.forms)
        weights, beta = descent.point(v)
        width = min(
            width,
            max(
                TOLERANCES.corner_shrinks_to * width, TOLERANCES.narrowest_corner * run.problem.unit
            ),
        )
        new = _judged(run, Fit(v, descent.b, width), weights, beta)
        gap, before = new.iterate.certificate.absolute_gap, certificate.absolute_gap
        useless = not descent.ended or gap > TOLERANCES.slow_step_leaves * before
        endless = TOLERANCES.endless_descents if descent.hopeless else state.endless + useless
        sharper = state.sharper * (TOLERANCES.sharper if descent.reached else 1.0)
        new = new._replace(endless=endless, work=state.work + descent.work, sharper=sharper)
        return patient(new, state, gap, TOLERANCES.steps_without_gain)

    def _other(self, run: RunState, state: State) -> State | Other:
        """Another method from here on, if it fits; else the same state."""
        other, before = (self.then or Sequential()).specialize(run), run.start
        if not other.fits(run):
            return state
        if state.iterate.certificate.gap < TOLERANCES.warm_start_below:
            run.start = state.iterate.point
        begun = Other(other, other.init(run))
        run.start = before
        return begun


def _sparse(run: RunState, state: State, tol: float) -> Iterate:
    """The iterate with as few kernels as the tolerance allows, the heaviest."""
    (weights, beta), bank = state.iterate.point, run.bank
    certificate, used = state.iterate.certificate, np.flatnonzero(weights)
    products = {k: bank.sums_of([k], state.moments) for k in used}

    def scores(few: np.ndarray) -> np.ndarray:
        return sum(few[k] * products[k] for k in used if few[k] > 0.0)

    def good(few: np.ndarray) -> bool:  # the dual value is the same for all weights
        primal, _ = run.problem.primal(few, beta, scores(few))
        return primal - certificate.dual <= tol * abs(primal)

    few = fewest(weights, good)
    if few is weights:
        return state.iterate
    certificate = run.certificate(few, beta, scores=scores(few), forms=state.forms)
    return Iterate(few, beta, certificate)


def _judged(run: RunState, fit: Fit, weights: np.ndarray, beta: np.ndarray) -> State:
    """The state at weights and feasible coefficients, with the forms of all kernels."""
    bank, moments = run.bank, run.bank.correlate(beta)
    run.counters.kernel_passes += 1
    forms = bank.squared_norms(moments)
    scores = bank.sums_of(np.flatnonzero(weights), bank.column_weights(weights) * moments)
    certificate = run.certificate(weights, beta, scores=scores, forms=forms)
    run.latest = Point(weights, beta)
    return State(fit, moments, forms, Iterate(weights, beta, certificate))
