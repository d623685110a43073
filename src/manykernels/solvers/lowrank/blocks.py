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
for all pairs of points, and where they have few with a Gram matrix of all columns. Descents are
quicker, up to thirty times, if few kernels get weight or C is not large, which nobody knows
beforehand. So they are given half of what Newton's method would take, a quarter on few columns, and
when the rest would take more it goes on from where they came to.

A run that begins where another ended goes on from its coefficients of the features, and along a
path of problems with a step ahead (`Course`), which is often all that a problem of it takes.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...run_state import Point, RunState
from ...thresholds import thresholds
from ..base import Iterate, Solver, fewest, patient, stalled
from ..sequential import Sequential
from .descent import Descent, Start


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
    # A quarter of the work of Newton's method on narrow factors: Gram matrices, and factorizations,
    # each of them a matrix of all columns times itself; larger: the same.
    narrow_grams: float = 0.25
    narrow_factorizations: float = 5.0
    # Width of the first corners, in units of the problem; larger: easier and less exact descents.
    first_corner: float = 0.3
    # Factor on the width from descent to descent; larger: corners sharpen more slowly.
    corner_shrinks_to: float = 0.5
    # Width of the last corners, in units of the problem; larger: less exact coefficients.
    narrowest_corner: float = 0.1


TOLERANCES = Tolerances()


class Fit(NamedTuple):
    """Coefficients v (t, r) of the features, intercepts b (t,), the width of corners, and the
    decision values f (t, n) without intercepts, unless rounding has added up in them.
    """

    v: np.ndarray
    b: np.ndarray
    width: float
    f: np.ndarray | None = None


class Course(NamedTuple):
    """What a run takes along.

    A run that begins where it ended goes on from its coefficients of the features: small errors of
    these make large ones of the coefficients of the points, and those make larger ones of the
    coefficients of the features that they give. Along a path of problems, each begins with a step
    ahead, on the way that led to it.

    Attributes
    ----------
    v : (t, r) coefficients of the features where the run ended
    forms : (m,) quadratic forms of all kernels there
    change : (t, r), optional
        Of v since the run began, or in a run before where it took no step.
    """

    v: np.ndarray
    forms: np.ndarray
    change: np.ndarray | None = None


class State(NamedTuple):
    """The state of the method.

    Attributes
    ----------
    fit : Fit
    moments : (t, r)
        Of the coefficients of the points, ``V' beta``.
    products : dict
        Of the kernels that have weight, ``V_k V_k' beta`` (t, n).
    iterate : Iterate
    began : (t, r)
        Coefficients of the features where the run began.
    change : (t, r), optional
        Of the run before.
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
    products: dict[int, np.ndarray]
    iterate: Iterate
    began: np.ndarray
    change: np.ndarray | None = None
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
    """Newton's method on groups of factors, for banks of low-rank factors on the simplex (p = 1).

    Parameters
    ----------
    then : Solver, optional
        What takes over when descents would take more than a part of the time that it needs itself,
        for factors that are held. Without one they are taken to the end, or until three descents
        have come to none (`Tolerances.endless_descents`).
    """

    title = "Newton's method on groups of factors"
    max_iter = 300
    gains_from_sample = False

    def __init__(self, then: Solver | None = None) -> None:
        self.then = then

    def needs(self, run: RunState) -> None:
        if not run.bank.by_blocks:
            raise ValueError(
                "solver='blocks' works on low-rank factors in the memory of this machine: "
                "give an approximation and leave device='cpu', or use solver='newton'."
            )
        if not run.problem.regularizer.is_simplex:
            raise ValueError(
                f"solver='blocks' is for PNormBall(1), got {run.problem.regularizer!r}: "
                "use solver='primal' or solver='interior'."
            )

    @staticmethod
    def allowed(run: RunState) -> float:
        """Multiplications that descents may take before Newton's method, on all pairs of points or
        on narrow factors, is likely to be quicker.
        """
        n, r, outputs = run.bank.n, run.bank.width, len(run.problem.targets)
        if not run.bank.prefers_factor_space:
            return TOLERANCES.newton_products * outputs * n**2 * (n + r)
        grams, factorizations = TOLERANCES.narrow_grams * n, TOLERANCES.narrow_factorizations * r
        return outputs * r**2 * (grams + factorizations)

    @classmethod
    def worth_a_try(cls, run: RunState) -> bool:
        """True if descents may be quicker than Newton's method, where all factors are held."""
        bank, table = run.bank, thresholds()
        smooth = run.problem.loss.is_smooth and bank.m > 1
        gains = cls.allowed(run) >= table.block_operations
        return smooth and bank.n <= table.block_points_per_column * bank.width and gains

    def init(self, run: RunState) -> State:
        weights, beta = run.start
        width = 0.0 if run.problem.loss.is_smooth else TOLERANCES.first_corner * run.problem.unit
        descent, course = Descent(run, run.problem.feasible(beta), width), _taken(run)
        began = v = descent.begin(weights, None if course is None else course.v)
        beta, change = run.problem.feasible(descent.beta), None
        if course is not None and began.any():
            change = course.change
            if change is not None:
                v = descent.ahead(began, change, course.forms, run.tol)
            weights, beta = descent.point(v)
        state = _judged(run, _fit(descent, v, width), weights, beta, began)._replace(change=change)
        if change is not None and state.iterate.certificate.gap <= run.tol:
            return state._replace(iterate=_sparse(run, state, run.tol))
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
        run.carried = self.carried(state)
        return super().refreshed(run, state)

    def carried(self, state: State | Other) -> Course | None:
        if isinstance(state, Other):
            return None
        began, now = state.began, state.fit.v
        moved = began.any() and not np.array_equal(began, now)
        return Course(now, state.forms, now - began if moved else state.change)

    def _descended(self, run: RunState, state: State, tol: float) -> State:
        certificate, (v, b, width, f) = state.iterate.certificate, state.fit
        share = TOLERANCES.share_with_corners if width > 0.0 else TOLERANCES.share_of_tolerance
        aim = state.sharper * share * tol * max(abs(certificate.primal), abs(certificate.dual))
        allowed = np.inf if self.then is None else self.allowed(run) - state.work
        descent = Descent(run, state.iterate.beta, width, allowed)
        v = descent.to(aim, Start(v, b, state.forms, f, state.moments))
        weights, beta = descent.point(v)
        width = min(
            width,
            max(
                TOLERANCES.corner_shrinks_to * width, TOLERANCES.narrowest_corner * run.problem.unit
            ),
        )
        new = _judged(run, _fit(descent, v, width), weights, beta, state.began)
        gap, before = new.iterate.certificate.absolute_gap, certificate.absolute_gap
        useless = not descent.ended or gap > TOLERANCES.slow_step_leaves * before
        endless = TOLERANCES.endless_descents if descent.hopeless else state.endless + useless
        sharper = state.sharper * (TOLERANCES.sharper if descent.reached else 1.0)
        new = new._replace(endless=endless, work=state.work + descent.work, sharper=sharper)
        new = new._replace(change=state.change)
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
    weights, beta = state.iterate.point
    certificate = state.iterate.certificate

    def scores(few: np.ndarray) -> np.ndarray:
        return _scores(few, state.products)

    def good(few: np.ndarray) -> bool:  # the dual value is the same for all weights
        primal, _ = run.problem.primal(few, beta, scores(few))
        return primal - certificate.dual <= tol * abs(primal)

    few = fewest(weights, good)
    if few is weights:
        return state.iterate
    certificate = run.certificate(few, beta, scores=scores(few), forms=state.forms)
    return Iterate(few, beta, certificate)


def _fit(descent: Descent, v: np.ndarray, width: float) -> Fit:
    """Where a descent came to; decision values add up in the precision of the factors, and the
    coefficients of corners that move are not those at the same decision values any more.
    """
    exact = width == 0.0 and descent.bank.dtype == np.float64
    return Fit(v, descent.b, width, descent.f if exact else None)


def _judged(
    run: RunState, fit: Fit, weights: np.ndarray, beta: np.ndarray, began: np.ndarray
) -> State:
    """The state at weights and feasible coefficients, with the forms of all kernels."""
    bank, moments = run.bank, run.bank.correlate(beta)
    run.counters.kernel_passes += 1
    forms = bank.squared_norms(moments)
    products = {int(k): bank.sums_of([k], moments) for k in np.flatnonzero(weights)}
    scores = _scores(weights, products)
    certificate = run.certificate(weights, beta, scores=scores, forms=forms)
    run.latest = Point(weights, beta)
    return State(fit, moments, forms, products, Iterate(weights, beta, certificate), began)


def _scores(weights: np.ndarray, products: dict[int, np.ndarray]) -> np.ndarray:
    """Decision values without intercepts at weights of some kernels, (t, n)."""
    return sum(weights[k] * one for k, one in products.items() if weights[k] > 0.0)


def _taken(run: RunState) -> Course | None:
    """What an earlier run took along, if it belongs to factors of as many columns; it is used
    once.
    """
    course, run.carried = run.carried, None
    shape = len(run.problem.targets), run.bank.width
    return course if isinstance(course, Course) and course.v.shape == shape else None
