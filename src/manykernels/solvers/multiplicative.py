"""MWUMKL: multiplicative weights, no SVM solver.

J. Moeller, P. Raman, S. Venkatasubramanian and A. Saha, A geometric algorithm for scalable multiple
kernel learning, 2014.

The dual of sparse MKL is a search for the two nearest points of the convex hulls of both classes,
in the kernel that keeps them furthest apart. A round weighs the kernels by the exponential of the
distance so far, and moves both points a little towards the examples that lie deepest under those
weights (`_loops.multiplicative`). Memory is O(mn).

``schedule="paper"`` takes the rate and the number of rounds from epsilon. With kernels of unit
trace distances are of order ``1/sqrt(n)`` and that rate is far too cold: weights stay nearly
uniform. ``schedule="adaptive"``, ours, sets the largest exponent to ``5 sqrt(t)`` in round t, and
needs a hundred times fewer rounds for the same value.

Margins are losses: `HardMargin`, `SquaredHinge` (2-norm), whose ridge is added to every kernel, and
`Hinge` (1-norm), where coefficients are capped by C. The paper normalizes the coefficients to sum
one, and then the cap is ``C / sum`` with a sum that is not known. We keep them at the scale where
the dual value is largest: a capped round gives the lowest scores of both classes, pair by pair, as
much as C allows, and ends where a pair has nothing to gain. A round may give a class no more than
0.6 of the sum so far: without that bound a large C makes for rounds that are far too long. Capped
rounds consist of many points but differ from their predecessor in a few, so their products are kept
and only the difference is computed.

The intercept is that of the certificate, the one that minimizes the loss at these weights and
coefficients; for a hard margin it is the middle between the nearest points of both classes.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from .._loops import multiplicative as loops
from .._pulse import pulse
from ..losses import UNBOUNDED
from ..result import Certificate, Status
from ..run_state import RunState
from .base import Iterate, Solver
from .columns import Columns


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by, on one machine and on several."""

    # Rho of the paper's lemma 4.2; larger: colder weights and more rounds of its schedule.
    width: float = 1.5
    # Rate of the adaptive schedule; larger: weights follow the forms sooner. (3 ends 0.2 % lower
    # after 10,000 rounds, 8 no higher and with a noisier primal value.)
    adaptive_rate: float = 5.0
    # Rounds of the adaptive schedule for a hard margin; larger: longer runs.
    hard_margin_rounds: int = 10_000
    # Epsilon for which the adaptive schedule plays the paper's rounds; larger: fewer rounds.
    adaptive_epsilon: float = 0.2
    # Part of the rounds after which the gap must be on its way; larger: slow runs end later.
    early_share_of_rounds: float = 0.25
    # Gap, in tolerances, that a gap falling as one over the rounds may lead to; larger: fewer runs
    # end early.
    gap_allowed_early: float = 2.0
    # Part of the sum so far that a capped round may give a class; larger: longer moves.
    round_share_of_sum: float = 0.6
    # Rounds of the first step; larger: a later first certificate.
    rounds_of_first_step: int = 50
    # Factor on the rounds from step to step; larger: fewer certificates.
    growth_of_steps: float = 1.3
    # Bytes of columns that are kept; larger: fewer are computed again.
    cache_bytes: int = 2**26
    # Bytes of one column of every kernel above which none is kept; larger: more are kept.
    keep_no_columns_above: int = 2**22
    # Points of a round above which a pass over the kernels sums their columns; larger: more
    # columns.
    sum_columns_above: int = 64
    # Entries that one call of the compiled loop visits, in some tenth of a second; larger: Ctrl-C
    # is heard later.
    entries_per_call: int = 100_000_000
    # Factor on the coefficients of an iterate at most; larger: decision values may grow more.
    largest_multiple: float = 1e4
    # Rounds that a warm start counts for; larger: it is left more slowly.
    rounds_of_warm_start: int = 300
    # Form that counts as zero, as a part of what the diagonals would make it; larger: classes count
    # as inseparable sooner.
    zero_form: float = 1e-14
    # Points of a class that take part in rounds by points, besides those with a coefficient;
    # larger: dearer rounds, fewer looks at all points.
    points_of_class: int = 2000
    # Rounds by kernels after which products are made anew; larger: a lost part repeats more.
    rounds_of_products: int = 200
    # Exponent above which a hyperbolic sine is half an exponential; larger: until overflow.
    exponential_above: float = 20.0


TOLERANCES = Tolerances()


class State(NamedTuple):
    """The state of the rounds.

    Attributes
    ----------
    average : loops.Average
    done : int
        Rounds in the average.
    batch : int
        Rounds of the next step.
    columns : Columns, optional
        Those at hand, where some are kept.
    iterate : Iterate
    played : int
        Rounds of this run.
    """

    average: loops.Average
    done: int
    batch: int
    columns: Columns | None
    iterate: Iterate
    played: int = 0


def average_of(
    beta: np.ndarray, products: np.ndarray, towards: np.ndarray, forms: np.ndarray
) -> loops.Average:
    """The average at coefficients beta (n,), not yet at its best scale and without a round."""
    n, m = beta.size, forms.size
    return loops.Average(
        beta, products, towards, np.zeros(n), forms, np.empty(m), np.empty(n), np.ones(1)
    )


# Rounds for banks on other machines, by whether these have factors; see `supersteps`.
REMOTE_ROUNDS: dict[bool, type["MultiplicativeWeights"]] = {}


class MultiplicativeWeights(Solver):
    """MWUMKL for two classes and weights on the simplex (p = 1).

    Parameters
    ----------
    schedule : {"adaptive", "paper"}
    epsilon : float
        Error to reach on the paper's scale (kernels of unit trace, coefficients that sum to one),
        for its schedule.
    rounds : int, optional
        To play at most; ``max_iter`` of an estimator means the same, and the smaller counts. By
        default those of the paper for this epsilon with ``"paper"``, for 0.2 with ``"adaptive"``
        (``450 log(n)``, some 3,000), 10,000 for a hard margin, which no other solver takes. With
        ``"adaptive"`` and no limit given, a run ends after a quarter of them if the gap is so large
        that the rest would not bring it to the tolerance: unless C is large, gaps of 1e-2 are what
        it is good for.
    """

    title, unit = "MWUMKL", "round"
    max_iter = TOLERANCES.hard_margin_rounds
    wait = 32.0, 3.6
    hard_margins, curved_losses = True, False
    gains_from_sample = False

    def __init__(
        self, schedule: str = "adaptive", *, epsilon: float = 0.2, rounds: int | None = None
    ) -> None:
        if schedule not in ("adaptive", "paper"):
            raise ValueError(f"schedule must be 'adaptive' or 'paper', got {schedule!r}.")
        if not 0.0 < epsilon < 2.0 * TOLERANCES.width:
            raise ValueError(
                f"epsilon must lie between 0 and {2.0 * TOLERANCES.width:g}, got {epsilon!r}."
            )
        if rounds is not None and not rounds >= 1:
            raise ValueError(f"rounds must be at least 1, got {rounds!r}.")
        self.schedule, self.epsilon, self.rounds = schedule, float(epsilon), rounds

    def needs(self, run: RunState) -> None:
        self._needs_statement(run)
        needed = 8 * run.bank.m * run.bank.n * (2 if run.problem.loss.capped else 1)
        if needed > run.memory_budget:
            raise ValueError(
                f"MWUMKL holds products of {run.bank.m} kernels with {run.bank.n} points "
                f"({needed / 2**20:.0f} MB), "
                "which are over the memory budget: raise cache_size or use solver='spg'."
            )

    @staticmethod
    def _needs_statement(run: RunState) -> None:
        """Raise an error that names a solver which works, if the statement is not for this one."""
        r = run.problem.regularizer
        if not r.is_simplex:
            raise ValueError(
                f"MWUMKL works for PNormBall(1) only, got {r!r}: use solver='newton' or 'spg'."
            )
        if len(run.problem.targets) > 1 or not run.problem.loss.separates:
            raise ValueError(
                "MWUMKL separates two classes; for several give share_weights=False, for other "
                "losses use solver='newton'."
            )

    def specialize(self, run: RunState) -> Solver:
        """With kernels or points on other machines, rounds that ask less of them."""
        kind = REMOTE_ROUNDS.get(run.bank.factored) if run.bank.is_remote else None
        if kind is None:
            return self
        return kind(self.schedule, epsilon=self.epsilon, rounds=self.rounds)

    def init(self, run: RunState) -> State:
        rules, bank = self._rules(run), run.bank
        beta, done = self._first(run, rules)
        products = np.ascontiguousarray(run.products(beta[None])[:, 0])
        forms = np.maximum(products @ beta, 0.0)
        towards = np.zeros((bank.m if rules.capped else 0, bank.n))
        average = average_of(beta, products, towards, forms)
        loops.rescale(average, rules)
        iterate = self._judged(run, rules, average, done)
        return State(average, done, TOLERANCES.rounds_of_first_step, self._columns(run), iterate)

    @staticmethod
    def _columns(run: RunState) -> Columns | None:
        """The columns to keep, if any; of large kernels a small part is seldom of use."""
        bank, cache = run.bank, TOLERANCES.cache_bytes
        column = bank.m * bank.n * bank.dtype.itemsize
        if column > TOLERANCES.keep_no_columns_above:
            return None
        if column * bank.n > 4 * cache:
            cache //= 4
        return Columns(bank, np.arange(bank.n), min(cache, run.memory_budget))

    def _first(self, run: RunState, rules: loops.Rules) -> tuple[np.ndarray, int]:
        """Coefficients to begin with, (n,), and how many rounds they count for."""
        beta = run.start.beta[0].copy()
        if beta.any():
            return beta, TOLERANCES.rounds_of_warm_start
        return self._cold_start(run, rules), 1

    @staticmethod
    def _cold_start(run: RunState, rules: loops.Rules) -> np.ndarray:
        """Two points or, where no two could have the sum that is needed, all."""
        cost, beta = run.problem.cost[0], np.zeros(rules.y.size)
        for sign in (1.0, -1.0):
            members = np.flatnonzero((rules.y == sign) & (rules.caps > 0.0))
            members = members if rules.capped else members[:1]
            beta[members] = sign * cost[members] / cost[members].sum()
        return beta

    def step(self, run: RunState, state: State, tol: float) -> State:
        rules, left = self._rules(run), self.limit(run) - state.played
        rounds = min(state.batch, left)
        done, played = state.done + rounds, state.played + rounds
        self._play(run, rules, state.average, state.columns, state.done, done)
        iterate = self._judged(run, rules, state.average, done)
        return state._replace(
            done=done,
            batch=int(TOLERANCES.growth_of_steps * state.batch),
            iterate=self._perhaps_last(run, iterate, played, tol),
            played=played,
        )

    def _perhaps_last(self, run: RunState, iterate: Iterate, played: int, tol: float) -> Iterate:
        """The iterate after so many rounds, with the reason to stop if there is one."""
        if iterate.ended is not None:
            return iterate
        return iterate._replace(ended=self._ended(run, iterate.certificate, played, tol))

    def _ended(
        self, run: RunState, certificate: Certificate, played: int, tol: float
    ) -> Status | None:
        """The status after the last round, or of a gap that is too large for the rest of them."""
        limit = self.limit(run)
        if played >= limit:
            if np.isinf(certificate.primal):
                return Status.INSEPARABLE
            return Status.ROUNDS if self._by_paper(run) else Status.MAX_ITER
        watched = self.schedule == "adaptive" and self.rounds is None and run.limit is None
        part = played / limit
        if (
            watched
            and part >= TOLERANCES.early_share_of_rounds
            and TOLERANCES.gap_allowed_early * tol < part * certificate.gap < np.inf
        ):
            return Status.SLOW
        return None

    def _by_paper(self, run: RunState) -> bool:
        """True if the paper's schedule alone says how many rounds there are."""
        return self.schedule == "paper" and self.rounds is None and run.limit is None

    def work(self, run: RunState) -> float:
        return run.counters.kernel_passes  # rounds have a limit of their own

    def slow(self, run: RunState, first: float, tol: float) -> bool:
        # as many rounds as were asked for are played, and a hard margin has no other solver
        asked = self.rounds is not None or self.schedule == "paper"
        asked = asked or run.problem.loss.can_be_infinite
        return not asked and super().slow(run, first, tol)

    def count(self, state: Any, steps: int) -> int:
        return state.played

    def limit(self, run: RunState) -> int:
        given = [rounds for rounds in (self.rounds, run.limit) if rounds is not None]
        if given:
            return min(given)
        if self.schedule == "adaptive" and run.problem.loss.can_be_infinite:
            return TOLERANCES.hard_margin_rounds
        epsilon = self.epsilon if self.schedule == "paper" else TOLERANCES.adaptive_epsilon
        return int(np.ceil(8.0 * TOLERANCES.width**2 / epsilon**2 * np.log(run.bank.n)))

    def _rules(self, run: RunState) -> loops.Rules:
        y, box, cost = run.problem.targets[0], run.problem.boxes[0], run.problem.cost[0]
        capped, grows, rate = (
            run.problem.loss.capped,
            self.schedule == "paper",
            TOLERANCES.adaptive_rate,
        )
        if grows:  # for kernels of unit trace; here they have the trace r
            r = max(float(run.bank.traces().max()), np.finfo(float).tiny)
            rate = -np.log(1.0 - self.epsilon / (2.0 * TOLERANCES.width)) / (
                2.0 * TOLERANCES.width * np.sqrt(r)
            )
        caps = cost if capped else np.where(cost > 0.0, UNBOUNDED, 0.0)
        room, limit = (TOLERANCES.round_share_of_sum, 2.0) if capped else (0.5, UNBOUNDED)
        return loops.Rules(
            y,
            np.ascontiguousarray(caps),
            np.ascontiguousarray(box.ridge),
            capped,
            room,
            limit,
            rate,
            grows,
        )

    def _play(
        self,
        run: RunState,
        rules: loops.Rules,
        at: loops.Average,
        columns: Columns | None,
        first: int,
        aim: int,
    ) -> None:
        """Rounds from the first to the aim; columns that are missing are computed in between."""
        done, n = first, run.bank.n
        share, taken, coefficients = np.zeros(n), np.zeros(n, dtype=np.int64), np.zeros(n)
        per_call = max(1, TOLERANCES.entries_per_call // (run.bank.m * n))
        while done < aim:
            pulse()
            if columns is None:
                count = self._choose(run, rules, at, share, taken, coefficients, done)
            else:
                args = (
                    columns.cache.store,
                    columns.cache.slots,
                    columns.cache.stamps,
                    done,
                    min(aim, done + per_call),
                )
                done, count = loops.rounds(at, rules, *args, share, taken, coefficients)
            if count < 0:
                continue
            if columns is None or count > columns.cache.capacity:
                self._round(run, rules, at, share, taken[:count], coefficients[:count], done)
                done += 1
            else:
                run.count_columns(columns.provide(taken[:count], done + 1))
        run.counters.machine_steps += done - first

    @staticmethod
    def _choose(
        run: RunState,
        rules: loops.Rules,
        at: loops.Average,
        share: np.ndarray,
        taken: np.ndarray,
        coefficients: np.ndarray,
        done: int,
    ) -> int:
        """Weights, scores and the points of the next round, on the bank's threads."""
        loops.weigh(at, rules, done)
        parts = run.bank.kernel_slices()

        def sums(part: slice) -> np.ndarray:
            out = np.zeros(at.beta.size)
            loops.weighted(at.weights[part], at.products[part], out)
            return out

        at.scores[:] = sum(run.bank.threads.map(sums, parts))
        loops.finish_scores(at, rules)
        loops.choose(at, rules, share)
        return loops.changes(at, rules, share, taken, coefficients)

    @staticmethod
    def _round(
        run: RunState,
        rules: loops.Rules,
        at: loops.Average,
        share: np.ndarray,
        chosen: np.ndarray,
        coefficients: np.ndarray,
        done: int,
    ) -> None:
        """One round whose columns are not kept; a pass over the kernels sums many of them."""
        step = 1.0 / (done + 2.0)
        if rules.capped and chosen.size > TOLERANCES.sum_columns_above:
            signed = np.zeros(share.size)
            signed[chosen] = coefficients
            at.towards[:] += run.products(signed[None])[:, 0]
            chosen, coefficients = chosen[:0], coefficients[:0]
        keep, places = loops.move(at, rules, share, step), np.arange(chosen.size)

        def blend(part: slice, rows: np.ndarray, first: int) -> None:
            towards = at.towards[part] if rules.capped else at.towards
            loops.blend(
                at.products[part],
                towards,
                at.forms[part],
                at.beta,
                rows,
                first,
                places,
                coefficients,
                keep,
                step,
            )

        run.bank.visit_kernel_rows(chosen, blend)
        run.count_columns(chosen.size)
        loops.rescale(at, rules)

    def _judged(self, run: RunState, rules: loops.Rules, at: loops.Average, done: int) -> Iterate:
        """The iterate of an average of so many rounds, from the products at hand."""
        loops.weigh(at, rules, done)
        weights = at.weights / at.weights.sum()
        scores = at.scale[0] * (weights @ at.products)
        return self._iterate(run, at, weights, scores)

    def _iterate(
        self, run: RunState, at: loops.Average, weights: np.ndarray, scores: np.ndarray
    ) -> Iterate:
        """The iterate of an average with these decision values."""
        size = self._size(run, at.beta, scores)
        beta = size * at.beta[None]
        certificate = run.certificate(
            weights, beta, scores=size * scores[None], forms=size**2 * at.forms
        )
        unbounded = run.problem.loss.can_be_infinite and self._touching(run, at)
        ended = Status.INSEPARABLE if unbounded else None
        return Iterate(weights, beta, certificate, ended=ended)

    @staticmethod
    def _size(run: RunState, beta: np.ndarray, scores: np.ndarray) -> float:
        """The factor on beta with the smallest primal value at these weights.

        Before the weights have settled they give beta less than its largest form: decision values
        would be too small, and the intercept that suits them wrong. The dual value of the
        certificate is that of the best multiple below.
        """
        y, cost, loss = run.problem.targets[0], run.problem.cost[0], run.problem.loss
        form, reach = float(beta @ scores), TOLERANCES.largest_multiple
        if loss.capped:
            most = np.full_like(cost, reach)
            np.divide(cost, np.abs(beta), out=most, where=beta != 0.0)
            reach = min(reach, float(most.min()))
        if form <= 0.0 or reach <= 1.0 or loss.can_be_infinite:
            return 1.0

        def primal(log_size: float) -> float:
            f = np.exp(log_size) * scores
            return 0.5 * np.exp(2.0 * log_size) * form + loss.value(
                y, cost, f, loss.intercept(y, cost, f)
            )

        found = minimize_scalar(
            primal,
            bounds=(0.0, np.log(reach)),
            method="bounded",
            options={"xatol": 1e-3, "maxiter": 30},
        )
        return float(np.exp(found.x)) if found.fun < primal(0.0) else 1.0

    @staticmethod
    def _touching(run: RunState, at: loops.Average) -> bool:
        """True if both hulls have a point in common in every kernel, as far as this precision can
        tell.
        """
        largest = run.bank.combined_diagonal(at.weights / at.weights.sum()).max(initial=0.0)
        return (
            at.forms.max(initial=0.0) <= TOLERANCES.zero_form * largest * np.abs(at.beta).sum() ** 2
        )
