"""MKL on low-rank factors by the method of multipliers, for losses with corners (hinge,
epsilon-insensitive) and many more points than columns.

Corners are rounded off around coefficients, the center: in the dual this is a proximal term,
``width / cost |beta - center|^2 / 2``. Newton's method then finds the minimum as it does for smooth
losses (see `primal`), and the center moves to its coefficients (R. T. Rockafellar, Augmented
Lagrangians and applications of the proximal point algorithm in convex programming, Mathematics of
Operations Research 1976). At the right center rounding changes nothing, whatever the width: so
corners need not become narrow, which would make the steps short.

A Newton step needs the Gram matrix of the points that bend. An interior-point method has all points
in it at every step; here they are one in ten, at a width of a fifth of the margin, and from step to
step most of them stay, so that the matrix is changed by the others alone. Wide corners, which come
first and bend nearly everywhere, are those of a sample of the points: the coefficients of the
features that it leaves are where all points begin. In all it takes about one Gram matrix of all
points. Where centers lead no further, the interior-point method takes over.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from ..._arrays import namespace
from ...problem import Problem
from ...run_state import RunState
from ..base import Iterate
from .blocks import Other
from .factored import FactorSolver, Fit, Model, certified, lifted, penalty, watched
from .interior import Interior
from .primal import Corner


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Widths of the first corners, around zero, in units of half the range of the targets; more: an
    # easier start.
    first_widths: tuple[float, ...] = (1.2, 0.4, 0.2)
    # Share of targets on either side that are left out of the unit; larger: sharper corners where
    # few targets are far from the others.
    far_share: float = 0.02
    # Relative decrease of the value that ends the steps there; larger: a rougher start, which suits
    # a sample.
    first_settled_below: float = 1e-2
    # The same around the first center of all points, in tolerances; larger: fewer steps there.
    center_settled_below: float = 1.0
    # The same around the next ones, as a part of the gap; larger: fewer steps around more centers.
    share_of_gap: float = 0.01
    # Change of a model's value that ends its rounds, as a part of that; larger: rougher weights.
    model_settled_below: float = 0.1
    # Gap, in tolerances, that the next center closes at the same width; larger: wider corners, and
    # more centers.
    closed_by_center: float = 10.0
    # Width of the next corners, as a part of the last, at least; larger: more and easier centers.
    width_shrinks_to: float = 0.4
    # Gap of a fit, in tolerances, at which the center stays, and steps go on until coefficients
    # agree with it; larger: fewer centers, and more steps around the last one.
    last_center_below: float = 0.5
    # Factor on the decrease that ends those steps; larger: more certificates.
    last_steps_shrink_to: float = 0.01
    # Newton steps around a center at most; larger: hard centers are come nearer to.
    steps_per_center: int = 30
    # Relative error of the length of a step; larger: fewer looks at the losses of all points.
    length_error: float = 0.05
    # Width, as a part of the last, of corners that count as none; larger: gaps look smaller.
    sharp: float = 1e-12
    # Relative decrease of the value that is rounding; larger: rougher weights in the end.
    rounding: float = 1e-13
    # Centers without a smaller gap that end the method; larger: it gives up later.
    centers_without_gain: int = 8
    # Points of a sample per column of the factors; larger: a better and dearer start.
    sample_per_column: int = 12
    # Times a sample that all points must be at least; larger: fewer fits begin with one.
    times_sample: int = 3


TOLERANCES = Tolerances()


class State(NamedTuple):
    """The state of the method.

    Attributes
    ----------
    fit : Fit
    center : (t, n)
        Coefficients around which corners are rounded off.
    width : float
        Over which they are.
    iterate : Iterate
    best, patience : float, int
        Smallest absolute gap so far, and how many more centers may pass without a smaller one.
    model : Model, optional
        That of the last step.
    enough : float, optional
        Relative decrease of the value that ends the steps around this center.
    """

    fit: Fit
    center: np.ndarray
    width: float
    iterate: Iterate
    best: float = np.inf
    patience: int = TOLERANCES.centers_without_gain
    model: Model | None = None
    enough: float | None = None


class Multipliers(FactorSolver):
    """The method of multipliers for banks of low-rank factors and losses with corners; needs a
    regularizer with `reweight`.
    """

    title = "the method of multipliers"
    then = Interior()  # which takes over where centers lead no further
    unit = "center"
    max_iter = 100

    def needs(self, run: RunState) -> None:
        super().needs(run)
        if run.problem.loss.is_smooth:
            raise ValueError(
                f"Multipliers is for losses with corners, not for {run.problem.loss!r}: use "
                "solver='primal'."
            )
        if run.problem.has_fixed_sum:
            raise ValueError(
                "Multipliers is for losses whose coefficients sum up to zero, not for "
                f"{run.problem.loss!r}: use solver='interior'."
            )

    def init(self, run: RunState) -> State:
        weights, beta = run.start
        center = run.bank.to_device(run.problem.feasible(beta))
        iterate = certified(run, weights, center)
        if beta.any():
            fit = Fit.of(run, lifted(run, weights), center, iterate.certificate.intercept)
        else:
            fit = _first_fit(run)
        return State(fit, center, TOLERANCES.first_widths[-1] * _ranges(run.problem)[1], iterate)

    def step(self, run: RunState, state: State | Other, tol: float) -> State | Other:
        if isinstance(state, Other):
            return state._replace(state=state.solver.step(run, state.state, tol))
        problem, width, center = run.problem.placed, state.width, state.center
        # the minimum around the center, and the certificate of its coefficients
        enough = state.enough or TOLERANCES.center_settled_below * tol
        rounded = _corners(problem, width, center)
        fit, beta, model, settled = _minimum(run, rounded, state.fit, enough, state.model)
        iterate = certified(run, fit.weights, problem.feasible(beta), tol)
        # the gap of the fit itself, with which the coefficients need not agree yet
        value = _value(run, _corners(problem, TOLERANCES.sharp * width, center), fit)
        gap = (value - iterate.certificate.dual) / max(abs(value), np.finfo(float).tiny)
        if not settled:  # easier corners around the same center
            width /= TOLERANCES.width_shrinks_to
        elif gap <= TOLERANCES.last_center_below * tol:
            enough *= TOLERANCES.last_steps_shrink_to
        else:  # the next center, and the width that it needs
            shrinks = np.sqrt(min(1.0, TOLERANCES.closed_by_center * tol / gap))
            width *= max(shrinks, TOLERANCES.width_shrinks_to)
            center = run.bank.to_device(iterate.beta)
            enough = TOLERANCES.share_of_gap * min(max(gap, tol), 1.0)
        watch = watched(state, iterate, TOLERANCES.centers_without_gain)
        if watch[0].ended is not None and iterate.certificate.gap > tol and self.then.fits(run):
            return Other(self.then, self.then.init(run))
        return State(fit, center, width, *watch, model, enough)

    def refreshed(self, run: RunState, state: State | Other) -> State | Other:
        if isinstance(state, Other):
            return state._replace(state=state.solver.refreshed(run, state.state))
        return super().refreshed(run, state)


# --- where to begin -------------------------------------------------------------------------------


def _first_fit(run: RunState) -> Fit:
    """A fit with wide corners: that of a sample of the points, where they are many."""
    weighty = np.flatnonzero(run.problem.cost.any(axis=0))
    count = TOLERANCES.sample_per_column * run.bank.points.width
    if len(weighty) < TOLERANCES.times_sample * count:
        return _widely_fitted(run)
    chosen = np.sort(np.random.default_rng(0).choice(weighty, count, replace=False))
    sample = RunState(run.problem.take_points(chosen), memory_budget=run.memory_budget)
    sample.counters = run.counters
    fit = _widely_fitted(sample)
    run.counters.kernel_passes += 1
    return fit._replace(f=run.bank.points.values(fit.u) + run.bank.to_device(fit.b[:, None]))


def _widely_fitted(run: RunState) -> Fit:
    """The fit with corners that are rounded off around zero, less and less."""
    problem, zero = run.problem, run.bank.to_device(np.zeros_like(run.problem.targets))
    # halfway between the targets nearly every point bends at the first width
    halfway, unit = _ranges(problem)
    fit = Fit.of(run, lifted(run, run.start.weights), zero, halfway)
    for width in TOLERANCES.first_widths:
        rounded = _corners(problem.placed, width * unit, zero)
        fit = _minimum(run, rounded, fit, TOLERANCES.first_settled_below, roughly=True)[0]
    return fit


def _ranges(problem: Problem) -> tuple[np.ndarray, float]:
    """The middle of the range of the targets of every output, (t,), and half of the smallest
    range; both without the few targets that are far from the others.
    """
    targets, far = problem.targets, TOLERANCES.far_share
    ends = np.quantile(targets, (far, 1.0 - far), axis=1)
    same = ends[0] == ends[1]  # but for a few of them, at most
    ends[:, same] = targets[same].min(axis=1), targets[same].max(axis=1)
    half = 0.5 * (ends[1] - ends[0])
    return ends.mean(axis=0), float(half[half > 0.0].min(initial=problem.unit))


# --- the minimum around a center ------------------------------------------------------------------


def _corners(problem: Problem, width: float, center: np.ndarray) -> list[Corner]:
    """The loss of every output with its corners rounded off around a center."""
    of = zip(problem.boxes, problem.cost, center, strict=True)
    return [Corner(box, cost, width, around) for box, cost, around in of]


def _minimum(
    run: RunState,
    corners: list[Corner],
    fit: Fit,
    enough: float,
    model: Model | None = None,
    roughly: bool = False,
) -> tuple[Fit, np.ndarray, Model | None, bool]:
    """The fit where the primal with these losses is smallest, by Newton's method.

    Parameters
    ----------
    run : RunState
    corners : list of Corner
    fit : Fit
        Where to begin.
    enough : float
        Relative decrease of the value by the last step.
    model : Model, optional
        That of an earlier step.
    roughly : bool
        End there even if that step is not a whole one, after which the coefficients do not agree
        with the fit.

    Returns
    -------
    fit : Fit
    beta : (t, n)
        Its coefficients, which may be slightly outside of their boxes.
    model : Model
        That of the last step.
    settled : bool
        False if there were not steps enough.
    """
    stack, value = namespace(fit.f).stack, _value(run, corners, fit)
    smallest = enough * abs(value)
    for _ in range(TOLERANCES.steps_per_center):
        pairs = zip(corners, fit.f, strict=True)
        beta, bends = map(stack, zip(*(corner.response(f) for corner, f in pairs), strict=True))
        # Newton's direction, together with the weights
        model = Model(run, fit, bends, before=model)
        weights = lifted(run, fit.weights, enough / TOLERANCES.share_of_gap)
        settled = TOLERANCES.model_settled_below * smallest
        step = model.fitted(model.pulls(beta), weights, settled)
        # the line search
        length = _length(run, corners, fit, step)
        fit, beta = fit.moved(run, step, length), beta - length * bends * step.f
        before, value = value, _value(run, corners, fit)
        # a step that does not fall at all may have had weights that were not settled
        rounding = TOLERANCES.rounding * abs(value)
        if before - value <= enough * abs(value) and (
            length == 1.0 or (roughly and length > 0.0) or smallest <= rounding
        ):
            return fit, beta, model, True
        smallest = min(smallest, max(before - value, rounding))
    return fit, beta, model, False


def _value(run: RunState, corners: list[Corner], fit: Fit) -> float:
    """The primal with these losses."""
    losses = (corner.loss(f, b) for corner, f, b in zip(corners, fit.f, fit.b, strict=True))
    return penalty(run, fit.v) + sum(losses)


def _length(run: RunState, corners: list[Corner], fit: Fit, step: Fit) -> float:
    """The best length of a step, one at most."""

    def slope(length: float) -> float:
        v = fit.v + length * step.v
        weights = run.problem.regularizer.reweight(run.bank.squared_norms(v))
        columns = run.bank.column_weights(weights)
        used = columns > 0.0
        norm = float(np.sum((v * step.v)[:, used] / columns[used]))
        at = zip(corners, fit.f + length * step.f, step.f, step.b, strict=True)
        return norm + sum(corner.slope(f, change, b) for corner, f, change, b in at)

    if slope(1.0) <= 0.0:
        return 1.0
    if slope(0.0) >= 0.0:
        return 0.0
    return brentq(slope, 0.0, 1.0, rtol=TOLERANCES.length_error)
