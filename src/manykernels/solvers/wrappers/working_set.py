"""Newton's method on the kernels that matter, when most have no weight.

On the simplex (p = 1) few kernels have weight at the optimum. The problem is solved on a working
set of kernels; one pass over all of them then gives every quadratic form, and so the certificate of
the whole problem; the kernels with the largest forms join the set. A kernel whose form is smaller
than that of the kernels in use has no weight at the optimum.
"""

from typing import NamedTuple

import numpy as np

from ...problem import Problem
from ...result import Status
from ..base import Iterate

FIRST, MORE = 2000, 1000  # kernels in the first set, and joining it in a round
SHARE = 0.3  # of the tolerance is the gap to reach on the working set
ROUGH = 1e-2  # gap on the first set, which is a random one
STEPS = 60  # in a round at most
PATIENCE = 4


class WorkingSet(NamedTuple):
    """Where the method stands.

    Attributes
    ----------
    kernels : (a,) numbers of the kernels in the set
    forms : (m,) quadratic forms of all kernels
    iterate : Iterate of the whole problem
    best, patience : float, int
        Smallest absolute gap so far, and how many more rounds may pass without a smaller one.
    """

    kernels: np.ndarray
    forms: np.ndarray
    iterate: Iterate
    best: float = np.inf
    patience: int = PATIENCE


def begin(newton, problem):
    """The first state: from the heaviest kernels of an earlier result, or from some taken at
    random.
    """
    weights, beta = problem.start
    if beta.any() and np.count_nonzero(weights) <= FIRST:
        return _judged(problem, np.flatnonzero(weights), weights, beta)
    order = weights if beta.any() else np.random.default_rng(0).random(weights.size)
    kernels = np.sort(np.argpartition(-order, min(FIRST, order.size - 1))[:FIRST])
    return _solved(newton.whole(), problem, kernels, weights, beta, ROUGH)


def advanced(newton, problem, state, tol):
    """The state after a round."""
    outside = state.forms.copy()
    outside[state.kernels] = -np.inf
    kernels = np.union1d(
        state.kernels, np.argpartition(-outside, min(MORE, outside.size - 1))[:MORE]
    )
    new = _solved(
        newton.whole(state.iterate.certificate.gap),
        problem,
        kernels,
        *state.iterate[:2],
        SHARE * tol,
    )
    gap = new.iterate.certificate.absolute_gap
    new = new._replace(
        best=min(state.best, gap), patience=PATIENCE if gap < state.best else state.patience - 1
    )
    return new if new.patience > 0 else _stuck(problem, new)


def _solved(newton, problem, kernels, weights, beta, tol):
    """The state once the problem of some kernels is solved."""

    def embed(some):
        out = np.zeros(problem.bank.m)
        out[kernels] = some
        return out

    best = solved(newton, problem, problem.bank.subset(kernels), weights[kernels], beta, tol, embed)
    return _judged(problem, kernels, embed(best.weights), best.beta)


def solved(newton, problem, bank, weights, beta, tol, embed=np.asarray):
    """The iterate that solves the problem with another bank, from given weights and coefficients.

    `embed` makes weights of the problem's own bank of those of the other, so that Ctrl-C finds what
    there is.
    """
    options = {"loss": problem.loss, "memory_budget": problem.memory_budget}
    part = Problem(bank, problem.targets, problem.cost, problem.regularizer, **options)
    part.start = problem.regularizer.adopt(weights), beta
    state, steps = newton.init(part), 0
    best = state.iterate
    problem.latest = embed(best.weights), best.beta
    while abs(best.certificate.gap) > tol and state.iterate.ended is None and steps < STEPS:
        state = newton.step(part, state, tol)
        best = min(best, state.iterate, key=lambda iterate: abs(iterate.certificate.absolute_gap))
        problem.latest = embed(best.weights), best.beta
        steps += 1
    problem.counters.include(part.counters)
    return best


def _judged(problem, kernels, weights, beta):
    """The state with the forms of all kernels and the certificate of the whole problem."""
    problem.latest = weights, beta
    forms = problem.quadratic_forms(beta)
    scores = problem.bank.decision(weights, beta)  # of few kernels
    return WorkingSet(
        kernels,
        forms,
        Iterate(weights, beta, problem.certificate(weights, beta, scores=scores, forms=forms)),
    )


def _stuck(problem, state):
    """No smaller gap for a while: finer kernels or, if they are fine, the end."""
    if problem.refine():
        return _judged(problem, state.kernels, *state.iterate[:2])
    return state._replace(iterate=state.iterate._replace(ended=Status.STALLED))
