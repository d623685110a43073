"""MWUMKL in bulk-synchronous rounds, for kernels or points on other machines.

By kernels: every part keeps the products of its kernels with the average, and a round is one
request, "move, and say what your kernels make of it": quadratic forms, and sums over kernels with
their weights. All other work is that of vectors of n, here. The weights of a round use the longest
form of the round before, which is the only thing that all kernels would have to know of each
other; the exponents differ by less than a round's part of the average, as with any other rate. From
time to time the products are made anew from the average, so that what a lost part has to repeat
stays short.

By points: of many points only some take part in the next rounds, those with a coefficient and those
of either class that lie deepest under the weights. Rounds among them need nothing of the others,
and are those of all points unless one of the others would have been chosen: it had to overtake
hundreds while the average moved by a part of its length. Then all points are looked at again.

(Tried and dropped: to play many rounds on the combined kernel while the weights stay as they are.
The exponents are of the size of the root of the rounds, so that weights which are late by a
fiftieth of the rounds are those of other kernels: the gap after 3,000 rounds is 0.2 in place of
0.01.)
"""

from typing import NamedTuple

import numpy as np

from .._loops import multiplicative as loops
from ..problem import Problem
from ..run_state import RunState
from .base import Iterate
from .columns import Columns
from .multiplicative import (
    BATCH,
    CACHE,
    GROWTH,
    MANY,
    RATE,
    REMOTE_ROUNDS,
    WARM,
    MultiplicativeWeights,
)
from .multiplicative import State as AllState

POINTS = 2000  # of either class that take part, besides those with a coefficient
ANEW = 200  # rounds after which products are made from the average
LARGE = 20.0  # an exponent from which on a hyperbolic sine is half an exponential


class Move(NamedTuple):
    """A round, as the parts hear of it.

    Attributes
    ----------
    chosen, coefficients
        Points whose columns are added, and their signed coefficients.
    keep, step : float
        Factors on the products so far and on the columns.
    beta : (n,)
        The average after it.
    pace, longest, more : float
        The largest exponent, the form that has it, and what a ridge adds to all forms.
    """

    chosen: np.ndarray
    coefficients: np.ndarray
    keep: float
    step: float
    beta: np.ndarray
    pace: float
    longest: float
    more: float


class Share(NamedTuple):
    """What a part keeps of its kernels: products with the average (m, n), with what the last round
    moved to (m, n) or (0, n), forms (m,), and its answer.
    """

    products: np.ndarray
    towards: np.ndarray
    forms: np.ndarray
    answer: tuple


def begin(bank, share, capped, move):
    """The share of a bank at an average.

    Parameters
    ----------
    bank : SumBank
    share : (n,) signed coefficients of the last round
    capped : bool
    move : Move
        Without points.
    """
    products = np.ascontiguousarray(bank.products(move.beta[None])[:, 0])
    towards = np.zeros((0, move.beta.size))
    if capped:
        towards = np.ascontiguousarray(bank.products(share[None])[:, 0])
    forms = np.maximum(products @ move.beta, 0.0)
    return Share(products, towards, forms, _answer(products, forms, move))


def moved(bank, at, move):
    """The share after a round; the old one stays as it is."""
    products, towards, forms = (array.copy() for array in at[:3])
    chosen, coefficients = move.chosen, move.coefficients
    if len(towards) and chosen.size > MANY:
        signed = np.zeros(move.beta.size)
        signed[chosen] = coefficients
        towards += bank.products(signed[None])[:, 0]
        chosen, coefficients = chosen[:0], coefficients[:0]
    rows = bank.kernel_rows(chosen, np.arange(move.beta.size))
    places, of = np.arange(chosen.size), (move.keep, move.step)
    loops.blend(products, towards, forms, move.beta, rows, 0, places, coefficients, *of)
    return Share(products, towards, forms, _answer(products, forms, move))


def _answer(products, forms, move):
    weights = weigh(forms, move)
    return forms, weights @ products, weights.sum()


def weigh(forms, move):
    """Weights ``sinh(u) / u`` of forms, up to a factor that is the same for all kernels."""
    u = np.maximum(move.pace * np.sqrt((forms + move.more) / move.longest), 1e-8)
    if move.pace < LARGE:
        return np.sinh(u) / u
    return 0.5 * np.exp(np.minimum(u - move.pace, LARGE)) / u


class Shares:
    """The shares of all kernels, those of one bank; a cluster has its own."""

    def __init__(self, bank):
        self.bank = bank

    def begin(self, *of):
        """Forms of all kernels, weighted sums of products, and sums of weights, at an average."""
        self.share = begin(self.bank, *of)
        return self.share.answer

    def move(self, move):
        """The same after a round."""
        self.share = moved(self.bank, self.share, move)
        return self.share.answer


class State(NamedTuple):
    """Where the rounds stand.

    Attributes
    ----------
    average : loops.Average
        Without products.
    shares : Shares
    last : Move
        The last round, whose weights are those of the scores.
    sums : (n,)
        Decision values of the average at those weights.
    done, played, batch : int
        Rounds in the average, rounds of this run, and rounds of the next step.
    iterate : Iterate
    """

    average: loops.Average
    shares: Shares
    last: Move
    sums: np.ndarray
    done: int
    played: int
    batch: int
    iterate: Iterate | None = None


class Rounds(MultiplicativeWeights):
    """What both ways have in common."""

    def specialize(self, run):
        return self

    def needs(self, run):
        """As on one machine, but for memory: products are elsewhere."""
        budget, run.memory_budget = run.memory_budget, np.inf
        try:
            super().needs(run)
        finally:
            run.memory_budget = budget

    def slow(self, run, first, tol):
        return False  # rounds have a limit, and columns that are computed again are no new passes


class KernelRounds(Rounds):
    """MWUMKL by kernels: one request a round."""

    def init(self, run):
        rules, n = self._rules(run), run.bank.n
        beta = run.start.beta[0].copy()
        done = WARM if beta.any() else 1
        beta = beta if beta.any() else self._start(run, rules)
        none = np.zeros((0, n))
        forms = run.quadratic_forms(beta[None])
        at = loops.Average(
            beta, none, none, np.zeros(n), forms, np.empty(run.bank.m), np.empty(n), np.ones(1)
        )
        loops.rescale(at, rules)
        own = getattr(run.bank, "shares", None)
        shares = Shares(run.bank) if own is None else own()
        state = State(at, shares, None, None, done, 0, BATCH)
        return self._judged(run, rules, self._anew(run, rules, state))

    def step(self, run, state, tol):
        rules, left = self._rules(run), self.limit(run) - state.played
        rounds = min(state.batch, left)
        n = run.bank.n
        scratch = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(n)
        for _ in range(rounds):
            state = self._round_of_all(run, rules, state, *scratch)
            if state.played % ANEW == 0:
                state = self._anew(run, rules, state)
        run.counters.machine_steps += rounds
        new = self._judged(run, rules, state._replace(batch=int(GROWTH * state.batch)))
        if new.iterate.ended is None:
            return new._replace(iterate=new.iterate._replace(ended=self._ended(run, new, tol)))
        return new

    def _anew(self, run, rules, state):
        """Products made from the average."""
        at = state.average
        move = self._move(rules, at, state.done, np.empty(0, np.intp), np.empty(0), 0.0, 0.0)
        run.counters.kernel_passes += 1 + rules.capped
        answer = state.shares.begin(rules.y * at.share, rules.capped, move)
        return self._heard(rules, state, move, answer)

    def _round_of_all(self, run, rules, state, share, taken, coefficients):
        at, done = state.average, state.done
        at.scores[:] = rules.y * (state.sums + rules.ridge * at.beta)
        loops.choose(at, rules, share)
        count = loops.changes(at, rules, share, taken, coefficients)
        step = 1.0 / (done + 2.0)
        keep = loops.move(at, rules, share, step)
        of = taken[:count].copy(), coefficients[:count].copy(), keep, step
        move = self._move(rules, at, done + 1, *of)
        run.count_columns(count)
        answer = state.shares.move(move)
        state = state._replace(done=done + 1, played=state.played + 1)
        return self._heard(rules, state, move, answer)

    def _move(self, rules, at, done, chosen, coefficients, keep, step):
        more = loops.extra(at, rules)
        longest = max(float(at.forms.max()) + more, loops.SMALLEST_DIVISOR)
        pace = RATE * np.sqrt(done)
        if rules.grows:
            total = max(loops.total(at), loops.SMALLEST_DIVISOR)
            pace = rules.rate * done * np.sqrt(longest) / total
        of = chosen, coefficients, keep, step, at.beta.copy(), float(pace), longest, float(more)
        return Move(*of)

    @staticmethod
    def _heard(rules, state, move, answer):
        """The state with what the parts have said of a move."""
        at, (forms, sums, total) = state.average, answer
        at.forms[:] = forms
        at.weights[:] = weigh(forms, move)
        loops.rescale(at, rules)
        return state._replace(last=move, sums=at.scale[0] * sums / total)

    def _judged(self, run, rules, state):
        at = state.average
        weights = at.weights / at.weights.sum()
        return state._replace(iterate=self._iterate(run, at, weights, state.sums))


class PointRounds(Rounds):
    """MWUMKL by points: rounds among some of them, and a look at all."""

    def init(self, run):
        rules, beta = self._rules(run), run.start.beta[0].copy()
        done = WARM if beta.any() else 1
        beta = beta if beta.any() else self._start(run, rules)
        forms = run.quadratic_forms(beta[None])
        return self._looked(run, rules, beta, forms, AllState(None, done, BATCH, None))

    def step(self, run, state, tol):
        rules, left = self._rules(run), self.limit(run) - state.played
        rounds, at = min(state.batch, left), state.average
        points = _taking_part(rules, at)
        few = _among(run, points)
        inner = self._among_points(few, at, points, state.done)
        self._play(few, self._rules(few), inner, state.done + rounds)
        run.counters.machine_steps += rounds
        beta = np.zeros_like(at.beta)
        beta[points] = inner.average.beta
        done = state._replace(
            done=state.done + rounds,
            batch=int(GROWTH * state.batch),
            played=state.played + rounds,
        )
        new = self._looked(run, rules, beta, inner.average.forms, done)
        if new.iterate.ended is None:
            return new._replace(iterate=new.iterate._replace(ended=self._ended(run, new, tol)))
        return new

    def _looked(self, run, rules, beta, forms, state):
        """The state with the decision values of all points at an average."""
        n, m = run.bank.n, run.bank.m
        none = np.zeros((0, n))
        at = loops.Average(
            beta, none, none, np.zeros(n), forms.copy(), np.empty(m), np.empty(n), np.ones(1)
        )
        loops.rescale(at, rules)
        loops.weigh(at, rules, state.done)
        weights = at.weights / at.weights.sum()
        sums = run.decision(weights, at.beta[None])[0]
        at.scores[:] = rules.y * (sums + rules.ridge * at.beta)
        iterate = self._iterate(run, at, weights, sums)
        return state._replace(average=at, iterate=iterate)

    @staticmethod
    def _among_points(few, at, points, done):
        """The state of `MultiplicativeWeights` among some points."""
        bank, capped = few.bank, few.problem.loss.capped
        beta = at.beta[points].copy()
        products = np.ascontiguousarray(bank.products(beta[None])[:, 0])
        towards = np.zeros((bank.m if capped else 0, bank.n))
        of = np.zeros(bank.n), at.forms.copy(), np.empty(bank.m), np.empty(bank.n), np.ones(1)
        average = loops.Average(beta, products, towards, *of)
        return AllState(average, done, BATCH, Columns(bank, np.arange(bank.n), CACHE))


def _taking_part(rules, at):
    used = rules.caps > 0.0
    deepest = []
    for sign in (1.0, -1.0):
        members = np.flatnonzero(used & (rules.y == sign))
        deepest.append(members[np.argsort(at.scores[members])[:POINTS]])
    return np.unique(np.concatenate([np.flatnonzero(at.beta), *deepest]))


def _among(run, points):
    """The run of some points, with their own costs."""
    whole = run.problem
    targets, cost = whole.targets[:, points], whole.cost[:, points]
    problem = Problem(run.bank.take_points(points), targets, cost, whole.regularizer, whole.loss)
    few = RunState(problem, memory_budget=run.memory_budget)
    few.counters = run.counters
    return few


REMOTE_ROUNDS.update({False: KernelRounds, True: PointRounds})
