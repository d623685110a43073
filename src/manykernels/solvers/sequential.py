"""Newton's method on the simplex (p = 1): sequential quadratic programming.

A step solves the program of `saddle` for new weights and coefficients, which takes no pass over the
kernels; one pass then gives their products with the change of the coefficients, and with them every
quadratic form along the step, so that its length is the best one. Another pass, over the few
kernels that have weight, makes the combined kernel of the next program.

Far from the solution the primal value says little: where C is large, a decision function that is
off by a hair costs a thousand times the optimum. There the dual value decides how far to go, and
the weights that the next program is made around go as far as the coefficients, whether or not they
make a better certificate. (With steps that had to make the gap smaller, C = 100 and a mean diagonal
of one took 60 passes on 345 points, and 20 like this.)

Weights that the gap does not notice are dropped on the way, and at the end as many as the
certificate allows.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from ..problem import Problem
from ..result import Certificate
from ..run_state import RunState
from .base import Iterate, Solver, fewest, patient, stalled
from .dual import HeldPoint, Line, best_multiple, first_svm, held_bytes
from .outputs import SharedSaddle, system_bytes
from .saddle import Between, Goal, HingeSaddle, Saddle, aim
from .spg import SPG


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Part of the tolerance that a program may leave; larger: rougher programs, more steps.
    program_share_of_tolerance: float = 0.1
    # Weight that is dropped on the way, as a part of the relative gap; larger: fewer kernels.
    drop_weight_per_gap: float = 0.01
    # Weight that is dropped before the next program; larger: programs around fewer kernels.
    drop_weight_below: float = 1e-3
    # Part of the gap that a good step leaves at most, after which the certificate chooses the
    # weights; larger: it does so farther from the solution.
    good_step_leaves: float = 0.3
    # Part of the tolerance that a whole step may lose in the dual; larger: fewer line searches.
    dual_loss_allowed: float = 0.3
    # Length next to the whole step, where the slope of the dual is looked at; larger: closer to it.
    nearly_whole_step: float = 0.99
    # Length from which on the next program is much like the last; larger: its active set is guessed
    # less often.
    step_counts_as_whole: float = 0.7
    # Part of the smallest gap so far below which something was gained; larger: slow runs go on.
    gain_counts_below: float = 0.98
    # Steps without a gain that end the method; larger: it gives up later.
    steps_without_gain: int = 4


TOLERANCES = Tolerances()


class State(NamedTuple):
    """The state of the method.

    Attributes
    ----------
    point : HeldPoint
    iterate : Iterate
    around : (m,) weights that the next program is made around
    known : bool
        Whether it is likely which coefficients are free and which kernels have weight.
    primal, dual : float
        The best values so far.
    best, patience : float, int
        Smallest difference of the two, and how many more steps may pass without a smaller one.
    """

    point: HeldPoint
    iterate: Iterate
    around: np.ndarray
    known: bool = False
    primal: float = np.inf
    dual: float = -np.inf
    best: float = np.inf
    patience: int = TOLERANCES.steps_without_gain


class Sequential(Solver):
    """Second-order method for sums of kernels with weights on the simplex.

    Holds a combined kernel, the (m, n) products, and systems of the free coefficients.
    """

    title = "Newton's method"
    max_iter = 100
    stand_in = SPG  # a target without noise and a large C: the dual may crawl up from nothing

    def needs(self, run: RunState) -> None:
        if not run.problem.regularizer.is_simplex:
            raise ValueError(
                f"This method is for PNormBall(1), got {run.problem.regularizer!r}: use Newton()."
            )
        outputs, n = run.problem.targets.shape
        if not run.holds_kernel or max(held_bytes(run), system_bytes(run)) > run.memory_budget:
            raise ValueError(
                f"Newton's method holds a combined kernel, the products of {run.bank.m} kernels "
                f"with {n} points and systems of equations of {outputs} outputs, which are over "
                "the memory budget: raise cache_size or use solver='spg'."
            )

    def init(self, run: RunState) -> State:
        weights, beta = run.start.weights, first_svm(run)
        point = HeldPoint.at(run, beta)
        multiple = best_multiple(run.problem, beta, point.forms)
        return _unless_dense(_judged(run, weights, point.times(multiple)))

    def step(self, run: RunState, state: State, tol: float) -> State:
        point, certificate = state.point, state.iterate.certificate
        if not point.forms.any():  # nothing to explain, or nothing that explains it
            return stalled(_marked(state, settled=True))
        allowed = tol * _scale(certificate)
        gap = max(certificate.absolute_gap, allowed)  # rounding may have made it negative
        # the quadratic program around the point
        wanted = TOLERANCES.program_share_of_tolerance * allowed
        goal = Goal(gap, wanted, certificate.dual, state.known)
        K = run.held_kernel(state.around)
        target = aim(run, K, state.around, point, goal, _method(run, K, point))
        # the line search, and the weights of the next program
        new, size = _searched(run, state, target, gap, TOLERANCES.dual_loss_allowed * allowed)
        around, reached = new.around, new.iterate.certificate
        # as few kernels as the tolerance allows, at the end
        if reached.gap <= tol:
            new = _finished(run, new, tol)
        # the best bounds so far, which say whether something was gained
        known = target.exact or size >= TOLERANCES.step_counts_as_whole
        primal, dual = min(state.primal, reached.primal), max(state.dual, reached.dual)
        new = new._replace(around=around, known=known, primal=primal, dual=dual)
        gained = primal - dual < TOLERANCES.gain_counts_below * state.best
        left = primal - dual if gained else np.inf
        return patient(new, state, left, TOLERANCES.steps_without_gain)

    def refreshed(self, run: RunState, state: State) -> State:
        return _unless_dense(_judged(run, state.iterate.weights, state.point.fresh(run)))._replace(
            around=state.around, known=state.known
        )


def _method(run: RunState, K: Any, point: HeldPoint) -> type[Saddle]:
    """How programs are solved: compiled, or outputs beside each other, if they are in the memory of
    the host.
    """
    if HingeSaddle.fits(run, K, point):
        return HingeSaddle
    here = isinstance(K, np.ndarray) and isinstance(point.products, np.ndarray)
    return SharedSaddle if here and len(point.beta) > 1 else Saddle


def _searched(
    run: RunState, state: State, target: Between, gap: float, slack: float
) -> tuple[State, float]:
    """The state after the best step towards a target, and the length of the shortest that was
    tried; `slack` is what a whole step may lose in the dual.
    """
    weights, point = state.iterate.weights, state.point
    line = point.line(run, target.x - point.beta)
    sizes = _lengths(run.problem, point, line, slack)
    tried = [_weighed(run, weights, target.d, point.moved(line, size), gap) for size in sizes]
    new, size = _best(tried), sizes[-1]
    around = _without_light(new.iterate.weights, TOLERANCES.drop_weight_below)
    # far from the solution the dual value decides, and the next program's weights go as far
    if new.iterate.certificate.absolute_gap > TOLERANCES.good_step_leaves * gap:
        new = _best([tried[-1], _judged(run, weights, tried[-1].point)])
        aimed = _without_light(target.d, TOLERANCES.drop_weight_below)
        moved = state.around + size * (aimed - state.around)
        around = _without_light(moved, TOLERANCES.drop_weight_below)
    return new._replace(around=around), size


def _scale(certificate: Certificate) -> float:
    """The value that the tolerance is relative to, as far as it is known."""
    if certificate.dual > 0.0:
        return min(abs(certificate.primal), certificate.dual)
    return abs(certificate.primal)


def _judged(run: RunState, weights: np.ndarray, point: HeldPoint) -> State:
    scores = point.scores(run, weights)
    certificate = run.certificate(weights, point.beta, scores=scores, forms=point.forms)
    return State(point, Iterate(weights, point.beta, certificate), weights)


def _best(states: list[State]) -> State:
    return min(states, key=lambda state: state.iterate.certificate.absolute_gap)


def _marked(state: State, settled: bool) -> State:
    return state._replace(iterate=state.iterate._replace(settled=settled))


def _unless_dense(state: State) -> State:
    """The state, not settled if all kernels have weight: they may do, but so would fewer."""
    weights = state.iterate.weights
    return _marked(state, settled=weights.size == 1 or not weights.all())


def _lengths(problem: Problem, point: HeldPoint, line: Line, slack: float) -> list[float]:
    """Steps worth trying: the whole one, and the one with the largest dual value if the whole one
    loses more than some slack.
    """

    def loss(size: float) -> float:
        linear = problem.dual_linear(point.beta + size * line.change)
        return problem.regularizer.conjugate(line.forms(point.forms, size)) - linear

    whole = loss(1.0)
    if whole <= loss(TOLERANCES.nearly_whole_step):  # the dual is concave: it is largest at the end
        return [1.0]
    found = minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-3})
    return [1.0] if whole <= found.fun + slack else [1.0, float(found.x)]


def _weighed(
    run: RunState, old: np.ndarray, new: np.ndarray, point: HeldPoint, gap: float
) -> State:
    """The state at a point with the best weights between old and new ones."""
    before, after = (point.scores(run, weights) for weights in (old, new))
    size = abs(run.problem.primal(new, point.beta, after)[0])
    per_gap = TOLERANCES.drop_weight_per_gap
    light = min(per_gap * gap / max(size, np.finfo(float).tiny), per_gap)
    state = _judged(run, _without_light(new, light), point)
    if state.iterate.certificate.absolute_gap <= TOLERANCES.good_step_leaves * gap:
        return state

    def primal(share: float) -> float:
        weights = old + share * (new - old)
        return run.problem.primal(weights, point.beta, before + share * (after - before))[0]

    found = minimize_scalar(primal, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-2})
    other = _judged(run, old + found.x * (new - old), point)
    return _best([state, other])


def _without_light(weights: np.ndarray, allowed: float) -> np.ndarray:
    """Weights without the lightest, which make up an allowed part of the sum."""
    order = np.argsort(weights, kind="stable")
    light = order[np.cumsum(weights[order]) <= allowed]
    kept = weights.copy()
    kept[light] = 0.0
    return kept / kept.sum()


def _finished(run: RunState, state: State, tol: float) -> State:
    """The state with as few kernels as the tolerance allows, judged anew.

    Products were updated, not computed: the last certificate is made of fresh forms, and of a
    fresh combination of the kernels that are left. Only if it is not good enough are all products
    computed again.
    """
    few, beta = _sparse(run, state, tol), state.point.beta
    weights = few.iterate.weights
    certificate = run.certificate(weights, beta)
    if certificate.gap <= tol:
        return few._replace(iterate=Iterate(weights, beta, certificate))
    return _judged(run, state.iterate.weights, state.point.fresh(run))


def _sparse(run: RunState, state: State, tol: float) -> State:
    """The state at this point with as few kernels as the tolerance allows, the heaviest."""
    weights, point, dual = state.iterate.weights, state.point, state.iterate.certificate.dual

    def good(few: np.ndarray) -> bool:  # the dual value is the same for all weights
        primal, _ = run.problem.primal(few, point.beta, point.scores(run, few))
        return primal - dual <= tol * abs(primal)

    few = fewest(weights, good)
    return state if few is weights else _judged(run, few, point)
