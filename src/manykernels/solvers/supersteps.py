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

from typing import Any, NamedTuple

import numpy as np

from .._loops import multiplicative as loops
from ..banks.base import SumBank
from ..problem import Problem
from ..run_state import RunState
from .base import Iterate, Solver
from .columns import Columns
from .multiplicative import REMOTE_ROUNDS, TOLERANCES, MultiplicativeWeights, average_of
from .multiplicative import State as AllState


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


# Forms of the kernels (m,), weighted sums of their products (n,), and the sum of their weights.
Answer = tuple[np.ndarray, np.ndarray, float]


class Share(NamedTuple):
    """The kernels of a part: products with the average (m, n), with what the last round moved to
    (m, n) or (0, n), forms (m,), and its answer.
    """

    products: np.ndarray
    towards: np.ndarray
    forms: np.ndarray
    answer: Answer


def begin(bank: SumBank, share: np.ndarray, capped: bool, move: Move) -> Share:
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


def moved(bank: SumBank, at: Share, move: Move) -> Share:
    """The share after a round; the old one stays as it is."""
    products, towards, forms = (array.copy() for array in at[:3])
    chosen, coefficients = move.chosen, move.coefficients
    if len(towards) and chosen.size > TOLERANCES.sum_columns_above:
        signed = np.zeros(move.beta.size)
        signed[chosen] = coefficients
        towards += bank.products(signed[None])[:, 0]
        chosen, coefficients = chosen[:0], coefficients[:0]
    rows = bank.kernel_rows(chosen, np.arange(move.beta.size))
    places, of = np.arange(chosen.size), (move.keep, move.step)
    loops.blend(products, towards, forms, move.beta, rows, 0, places, coefficients, *of)
    return Share(products, towards, forms, _answer(products, forms, move))


def _answer(products: np.ndarray, forms: np.ndarray, move: Move) -> Answer:
    weights = weigh(forms, move)
    return forms, weights @ products, weights.sum()


def weigh(forms: np.ndarray, move: Move) -> np.ndarray:
    """Weights ``sinh(u) / u`` of forms, up to a factor that is the same for all kernels."""
    u = np.maximum(move.pace * np.sqrt((forms + move.more) / move.longest), 1e-8)
    if move.pace < TOLERANCES.exponential_above:
        return np.sinh(u) / u
    return 0.5 * np.exp(np.minimum(u - move.pace, TOLERANCES.exponential_above)) / u


class Shares:
    """The shares of all kernels, those of one bank; a cluster has its own."""

    def __init__(self, bank: SumBank) -> None:
        self.bank = bank

    def begin(self, *of: Any) -> Answer:
        """Forms of all kernels, weighted sums of products, and sums of weights, at an average."""
        self.share = begin(self.bank, *of)
        return self.share.answer

    def move(self, move: Move) -> Answer:
        """The answer after a round."""
        self.share = moved(self.bank, self.share, move)
        return self.share.answer


class State(NamedTuple):
    """The state of the rounds.

    Attributes
    ----------
    average : loops.Average
        Without products.
    shares : Shares
    sums : (n,)
        Decision values of the average at the weights of the last round.
    done, played, batch : int
        Rounds in the average, rounds of this run, and rounds of the next step.
    iterate : Iterate
    """

    average: loops.Average
    shares: Shares
    sums: np.ndarray
    done: int
    played: int
    batch: int
    iterate: Iterate


class Rounds(MultiplicativeWeights):
    """The base of both ways: no limit on memory, and no end before the last round."""

    def specialize(self, run: RunState) -> Solver:
        return self

    def needs(self, run: RunState) -> None:
        self._needs_statement(run)  # memory is no matter: products are elsewhere

    def slow(self, run: RunState, first: float, tol: float) -> bool:
        return False  # rounds have a limit, and columns that are computed again are no new passes


class KernelRounds(Rounds):
    """MWUMKL by kernels: one request a round."""

    def init(self, run: RunState) -> Any:
        rules = self._rules(run)
        beta, done = self._first(run, rules)
        none = np.zeros((0, run.bank.n))
        at = average_of(beta, none, none, run.quadratic_forms(beta[None]))
        loops.rescale(at, rules)
        own = getattr(run.bank, "shares", None)
        shares = Shares(run.bank) if own is None else own()
        sums = self._fresh_sums(run, rules, at, shares, done)
        iterate = self._iterate(run, at, at.weights / at.weights.sum(), sums)
        return State(at, shares, sums, done, 0, TOLERANCES.rounds_of_first_step, iterate)

    def step(self, run: RunState, state: Any, tol: float) -> Any:
        rules, left = self._rules(run), self.limit(run) - state.played
        rounds, n = min(state.batch, left), run.bank.n
        scratch = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(n)
        for _ in range(rounds):
            state = self._round_of_all(run, rules, state, *scratch)
            if state.played % TOLERANCES.rounds_of_products == 0:
                sums = self._fresh_sums(run, rules, state.average, state.shares, state.done)
                state = state._replace(sums=sums)
        run.counters.machine_steps += rounds
        at = state.average
        iterate = self._iterate(run, at, at.weights / at.weights.sum(), state.sums)
        return state._replace(
            batch=int(TOLERANCES.growth_of_steps * state.batch),
            iterate=self._perhaps_last(run, iterate, state.played, tol),
        )

    def _fresh_sums(
        self, run: RunState, rules: loops.Rules, at: loops.Average, shares: Shares, done: int
    ) -> np.ndarray:
        """Decision values of the average, from products that the parts make anew."""
        nothing = np.empty(0, np.intp), np.empty(0), 0.0, 0.0
        move = Move(*nothing, at.beta.copy(), *self._pace(rules, at, done))
        run.counters.kernel_passes += 1 + rules.capped
        answer = shares.begin(rules.y * at.share, rules.capped, move)
        return self._heard(rules, at, move, answer)

    def _round_of_all(
        self,
        run: RunState,
        rules: loops.Rules,
        state: State,
        share: np.ndarray,
        taken: np.ndarray,
        coefficients: np.ndarray,
    ) -> State:
        at, done = state.average, state.done
        at.scores[:] = rules.y * (state.sums + rules.ridge * at.beta)
        loops.choose(at, rules, share)
        count = loops.changes(at, rules, share, taken, coefficients)
        step = 1.0 / (done + 2.0)
        keep = loops.move(at, rules, share, step)
        of = taken[:count].copy(), coefficients[:count].copy(), keep, step
        move = Move(*of, at.beta.copy(), *self._pace(rules, at, done + 1))
        run.count_columns(count)
        sums = self._heard(rules, at, move, state.shares.move(move))
        return state._replace(sums=sums, done=done + 1, played=state.played + 1)

    @staticmethod
    def _pace(rules: loops.Rules, at: loops.Average, done: int) -> tuple[float, float, float]:
        """The last numbers of a `Move`, at an average of so many rounds."""
        more = loops.extra(at, rules)
        longest = max(float(at.forms.max()) + more, loops.SMALLEST_DIVISOR)
        pace = TOLERANCES.adaptive_rate * np.sqrt(done)
        if rules.grows:
            total = max(loops.total(at), loops.SMALLEST_DIVISOR)
            pace = rules.rate * done * np.sqrt(longest) / total
        return float(pace), longest, float(more)

    @staticmethod
    def _heard(rules: loops.Rules, at: loops.Average, move: Move, answer: Answer) -> np.ndarray:
        """Decision values of the average, which learns what the parts have said of a move."""
        forms, sums, total = answer
        at.forms[:] = forms
        at.weights[:] = weigh(forms, move)
        loops.rescale(at, rules)
        return at.scale[0] * sums / total


class PointRounds(Rounds):
    """MWUMKL by points: rounds among some of them, and a look at all."""

    def init(self, run: RunState) -> AllState:
        rules = self._rules(run)
        beta, done = self._first(run, rules)
        at, iterate = self._looked(run, rules, beta, run.quadratic_forms(beta[None]), done)
        return AllState(at, done, TOLERANCES.rounds_of_first_step, None, iterate)

    def step(self, run: RunState, state: AllState, tol: float) -> AllState:
        rules, left = self._rules(run), self.limit(run) - state.played
        rounds, at = min(state.batch, left), state.average
        points = _taking_part(rules, at)
        few = _among(run, points)
        inner = self._among_points(few, at, points)
        columns = Columns(few.bank, np.arange(few.bank.n), TOLERANCES.cache_bytes)
        done, played = state.done + rounds, state.played + rounds
        self._play(few, self._rules(few), inner, columns, state.done, done)
        run.counters.machine_steps += rounds
        beta = np.zeros_like(at.beta)
        beta[points] = inner.beta
        at, iterate = self._looked(run, rules, beta, inner.forms, done)
        return AllState(
            at,
            done,
            int(TOLERANCES.growth_of_steps * state.batch),
            None,
            self._perhaps_last(run, iterate, played, tol),
            played,
        )

    def _looked(
        self, run: RunState, rules: loops.Rules, beta: np.ndarray, forms: np.ndarray, done: int
    ) -> tuple[loops.Average, Iterate]:
        """The average of all points at coefficients beta, with their decision values, and its
        iterate.
        """
        none = np.zeros((0, run.bank.n))
        at = average_of(beta, none, none, forms.copy())
        loops.rescale(at, rules)
        loops.weigh(at, rules, done)
        weights = at.weights / at.weights.sum()
        sums = run.decision(weights, at.beta[None])[0]
        at.scores[:] = rules.y * (sums + rules.ridge * at.beta)
        return at, self._iterate(run, at, weights, sums)

    @staticmethod
    def _among_points(few: RunState, at: loops.Average, points: np.ndarray) -> loops.Average:
        """The average among some points, with its products."""
        bank, capped = few.bank, few.problem.loss.capped
        beta = at.beta[points].copy()
        products = np.ascontiguousarray(bank.products(beta[None])[:, 0])
        towards = np.zeros((bank.m if capped else 0, bank.n))
        return average_of(beta, products, towards, at.forms.copy())


def _taking_part(rules: loops.Rules, at: loops.Average) -> np.ndarray:
    used = rules.caps > 0.0
    deepest = []
    for sign in (1.0, -1.0):
        members = np.flatnonzero(used & (rules.y == sign))
        deepest.append(members[np.argsort(at.scores[members])[: TOLERANCES.points_of_class]])
    return np.unique(np.concatenate([np.flatnonzero(at.beta), *deepest]))


def _among(run: RunState, points: np.ndarray) -> RunState:
    """The run of some points, with their own costs."""
    whole = run.problem
    targets, cost = whole.targets[:, points], whole.cost[:, points]
    problem = Problem(run.bank.take_points(points), targets, cost, whole.regularizer, whole.loss)
    few = RunState(problem, memory_budget=run.memory_budget)
    few.counters = run.counters
    return few


REMOTE_ROUNDS.update({False: KernelRounds, True: PointRounds})
