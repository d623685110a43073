"""The best k kernels, or groups of kernels, with proof: branch and bound over subsets.

With V(S) the optimal value of the problem with the kernels S, the least V(S) over the sets of k
kernels is wanted. Every coefficients beta that are feasible bound all of them at once,

    V(S) >= y'beta - phi(s_S(beta)),

with the forms of the kernels S alone: a *cut*. It takes one pass over the kernels, and then serves
every subset for a look at k numbers. So problems are solved one by one, and each rules out many
subsets besides its own:

1. The problem of all kernels, relaxed, whose k heaviest are the first guess, and exchanges of one
   kernel of the best subset for another, as long as they help.
2. While subsets are few enough to be listed, the one with the smallest bound is solved next, up to
   the point where its own dual value rules it out, and its coefficients are a cut for the others.
3. Where they are more, blocks of them (some kernels in, others out, the rest free) are bounded by
   the k largest forms of all cuts. The block with the smallest bound gets a relaxed problem of its
   own, and is divided at the kernels that have most weight there, until it can be listed.

What is proven at any time: the best value found, and the smallest bound of what is left.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import Any, NamedTuple, cast

import numpy as np

from ..problem import Problem
from ..regularizers import AtMost, Regularizer
from ..result import Certificate, Record, Result, Status, Subsets
from ..run_state import Point, RunState
from .base import Iterate, Solver, Stopped
from .loop import drive


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Part of the tolerance to which a problem is solved; larger: cheaper problems, of which fewer
    # end with a proof.
    share_of_tolerance: float = 0.5
    # Gap of relaxed problems at least, whose coefficients are good for a bound at any; larger: they
    # are cheaper, and bound worse.
    relaxed_gap: float = 1e-3
    # Part of the tolerance by which subsets that are ruled out may be better; larger: rounding may
    # leave the gap above the tolerance.
    share_ruled_out: float = 0.99
    # Exchanges in a row without a better subset; larger: a better guess before the proof begins.
    exchanges_without_gain: int = 40
    # Cuts in a row that rule out nothing, after which few are made; larger: more are made in vain.
    idle_cuts: int = 5
    # Problems for each cut then; larger: cuts that would rule out something come later.
    problems_per_idle_cut: int = 8
    # Coefficients that are kept to begin from; larger: more memory.
    kept_starts: int = 100
    # Subsets that are listed; larger: more memory, and fewer blocks.
    listed: int = 200_000


TOLERANCES = Tolerances()


class Cuts:
    """Lower bounds on the values of subsets, by coefficients that are feasible.

    Parameters
    ----------
    problem : Problem
        With an `AtMost`.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.limit = cast("AtMost", problem.regularizer)
        self.units = cast("list[np.ndarray]", self.limit.units)
        self.betas: deque[np.ndarray] = deque(maxlen=TOLERANCES.kept_starts)
        self.forms: list[np.ndarray] = []  # with minus infinity at the end, for no kernel
        self._parabolas: list[tuple[float, float]] = []
        sizes = [kernels.size for kernels in self.units]
        self.members = np.full((len(sizes), max(sizes)), problem.bank.m)
        for unit, kernels in enumerate(self.units):
            self.members[unit, : kernels.size] = kernels

    def add(self, beta: np.ndarray, forms: np.ndarray) -> None:
        """Take coefficients and the forms of all kernels."""
        pairs = list(zip(self.problem.boxes, beta, strict=True))
        if self._scales:
            slope = sum(float(box.linear @ b - box.kink @ abs(b)) for box, b in pairs)
            bend = sum(float(box.ridge @ b**2) for box, b in pairs)
        else:
            slope, bend = self.problem.dual_linear(beta), 0.0
        self.betas.append(beta)
        self.forms.append(np.append(forms, -np.inf))
        self._parabolas.append((slope, bend))

    def of_subsets(self, rows: np.ndarray, cut: int) -> np.ndarray:
        """Bounds on the values of subsets (r, k) of units by one cut, (r,)."""
        width = self.members.shape[1] * rows.shape[1]
        table = self.forms[cut][self.members[rows].reshape(len(rows), width)]
        return self._values(self.limit.regularizer.conjugates(table), *self._parabolas[cut])

    def best(self, rows: np.ndarray) -> np.ndarray:
        """The best bounds of all cuts on the values of subsets, (r,)."""
        found = np.full(len(rows), -np.inf)
        for cut in range(len(self.forms)):
            np.maximum(found, self.of_subsets(rows, cut), out=found)
        return found

    def tightest(self, row: np.ndarray) -> np.ndarray:
        """The coefficients of the last cuts that bound a subset best."""
        last = len(self.betas)
        table = np.array(self.forms[-last:])[:, self.members[row].ravel()]
        conjugates = self.limit.regularizer.conjugates(table)
        bounds = self._values(conjugates, *np.array(self._parabolas[-last:]).T)
        return self.betas[int(np.argmax(bounds))]

    def of_block(self, block: Block) -> float:
        """The best bound on the values of all subsets of a block."""
        forms, parabolas = np.array(self.forms), np.array(self._parabolas)
        inside = forms[:, self.members[list(block.included)].ravel()]
        free = forms[:, self.members[list(block.free)].ravel()]
        # no choice of units has larger forms than as many of the largest
        sizes = np.sort([self.units[unit].size for unit in block.free])[::-1]
        most = int(sizes[: self.limit.k - len(block.included)].sum())
        largest = -np.sort(-free, axis=1)[:, :most]
        conjugates = self.limit.regularizer.conjugates(np.hstack([inside, largest]))
        return float(self._values(conjugates, *parabolas.T).max())

    @property
    def _scales(self) -> bool:
        """True if the best multiple of the coefficients has a closed form."""
        return self.limit.homogeneous and not self.problem.loss.has_nonquadratic_dual

    def _values(self, conjugates: np.ndarray, slope: Any, bend: Any) -> np.ndarray:
        if not self._scales:
            return slope - conjugates
        bend = bend + 2.0 * conjugates
        multiple = np.clip(np.divide(slope, bend, where=bend > 0.0, out=np.ones_like(bend)), 0, 1)
        return multiple * slope - 0.5 * multiple**2 * bend


class Block(NamedTuple):
    """The subsets that have some units, and others only out of some more.

    Attributes
    ----------
    bound : float
        On the values of all of them.
    number : int
        The order among equals.
    included, free : tuples of int
    """

    bound: float
    number: int
    included: tuple[int, ...]
    free: tuple[int, ...]


class Search:
    """The search, and what it has proven so far.

    Parameters
    ----------
    run : RunState
    solver_for : callable
        The solver of a problem, given a run of it.

    Attributes
    ----------
    best : Result
        The problem of the best subset so far.
    chosen : tuple of int
        Its units.
    floor : float
        The smallest bound on the values of subsets that were solved or ruled out.
    solved : int
        Problems that were solved.
    """

    def __init__(self, run: RunState, solver_for: Callable[[RunState], Solver]) -> None:
        self.run, self.solver_for = run, solver_for
        self.cuts = Cuts(run.problem)
        self.limit, self.units = self.cuts.limit, self.cuts.units
        self.k = min(self.limit.k, len(self.units))
        self.best: Result | None = None
        self.chosen: tuple[int, ...] = ()
        self.floor, self.solved, self._failures, self._idle_cuts = np.inf, 0, 0, 0
        self._tried: set[tuple[int, ...]] = set()
        self._rows: np.ndarray = np.empty((0, self.k), int)
        self._bounds: np.ndarray = np.empty(0)
        self._blocks = [Block(-np.inf, 0, (), tuple(range(len(self.units))))]

    # --- what is proven ---------------------------------------------------------------------------

    @property
    def iterate(self) -> Iterate:
        """The best subset so far, with the certificate of the whole problem."""
        best = cast("Result", self.best)
        weights = np.zeros(self.run.bank.m)
        weights[self._kernels(self.chosen)] = best.weights
        primal, tiny = best.certificate.primal, np.finfo(float).tiny
        gap = (primal - self.bound) / max(abs(primal), tiny)
        certificate = Certificate(
            primal, self.bound, gap, best.intercept, best.certificate.rounding
        )
        ended = Status.STALLED if self.is_done and gap > self.run.tol else None
        return Iterate(weights, best.beta, certificate, ended=ended)

    @property
    def bound(self) -> float:
        """What no subset is better than."""
        listed = float(self._bounds.min(initial=np.inf))
        return min([self.floor, listed, *(block.bound for block in self._blocks)])

    @property
    def is_done(self) -> bool:
        """True if every subset was solved or ruled out."""
        return not (len(self._rows) or self._blocks)

    @property
    def subsets(self) -> Subsets:
        """How many subsets there are, and what became of them."""
        limit = self._value_less(1.0)
        left = int(np.count_nonzero(self._bounds < limit))
        left += sum(self._count(block) for block in self._blocks if block.bound < limit)
        total = comb(len(self.units), self.k)
        kind = "group" if self.limit.by_group else "kernel"
        return Subsets(kind, self.k, len(self.units), total, total - left, self.solved)

    @property
    def _cutoff(self) -> float:
        """The bound from which on a subset is not worth a look."""
        return self._value_less(TOLERANCES.share_ruled_out)

    def _value_less(self, share: float) -> float:
        """The best value so far, less a share of the tolerance."""
        if self.best is None:
            return np.inf
        primal = self.best.certificate.primal
        return primal - share * self.run.tol * abs(primal)

    # --- the search -------------------------------------------------------------------------------

    def begin(self, start: np.ndarray) -> None:
        """Solve the relaxed problem of all units, and that of a first guess, with the kernels that
        have weight at the start.
        """
        weights, dual = self._relaxation(self._blocks[0])
        # kernels that an earlier result has used come first
        weights = weights / max(weights.sum(), np.finfo(float).tiny) + (start > 0.0)
        self._solve(self.limit.heaviest(weights))
        everything = self._blocks[0]
        self._blocks = [everything._replace(bound=max(dual, self.cuts.of_block(everything)))]

    def advance(self) -> None:
        """Solve one more problem."""
        if self._failures <= TOLERANCES.exchanges_without_gain:
            exchanged = self._exchange()
            if exchanged is not None:
                self._failures += 1
                self._solve(exchanged)
                return
            self._failures = TOLERANCES.exchanges_without_gain + 1
        while not len(self._rows) and self._blocks:
            if self._divide():
                return
        if len(self._rows):
            self._solve(tuple(self._rows[np.argmin(self._bounds)].tolist()))

    def _exchange(self) -> tuple[int, ...] | None:
        """The subset with the smallest bound that differs from the best by one unit; None if none
        can be better.
        """
        others = [unit for unit in range(len(self.units)) if unit not in self.chosen]
        rows = [tuple(sorted({*self.chosen, new} - {old})) for old in self.chosen for new in others]
        rows = [row for row in rows if row not in self._tried]
        if not rows:
            return None
        bounds = self.cuts.best(np.array(rows))
        # of equals the one that does without the unit of least weight
        weights = self.iterate.weights
        amounts = np.array([weights[kernels].sum() for kernels in self.units])
        kept = [float(amounts[list(row)].sum()) for row in rows]
        place = int(np.lexsort((np.negative(kept), bounds))[0])
        return rows[place] if bounds[place] < self._cutoff else None

    def _divide(self) -> bool:
        """List the subsets of the block with the smallest bound, or divide it; True if that took a
        problem.
        """
        block = heapq.heappop(self._blocks)
        bound = max(block.bound, self.cuts.of_block(block))
        if bound >= self._cutoff:
            self.floor = min(self.floor, bound)
            return False
        if self._count(block) <= TOLERANCES.listed:
            self._list(block._replace(bound=bound))
            return False
        weights, dual = self._relaxation(block)
        bound = max(bound, dual, self.cuts.of_block(block))
        order = sorted(block.free, key=lambda unit: -weights[self.units[unit]].sum())
        slots = self.k - len(block.included)
        for place in range(len(order) - slots + 1):
            included, free = (*block.included, order[place]), tuple(order[place + 1 :])
            child = Block(bound, self.solved * len(self.units) + place, included, free)
            bound_of_child = max(bound, self.cuts.of_block(child))
            heapq.heappush(self._blocks, child._replace(bound=bound_of_child))
        return True

    def _list(self, block: Block) -> None:
        some = combinations(block.free, self.k - len(block.included))
        listed = (tuple(sorted((*block.included, *chosen))) for chosen in some)
        rows = np.array([row for row in listed if row not in self._tried], int)
        rows = rows.reshape(-1, self.k)
        self._rows = rows
        self._bounds = np.maximum(self.cuts.best(rows), block.bound)
        self._rule_out()

    def _rule_out(self) -> None:
        """Take subsets off the list that cannot be better."""
        out = self._bounds >= self._cutoff
        self.floor = min(self.floor, float(self._bounds[out].min(initial=np.inf)))
        self._rows, self._bounds = self._rows[~out], self._bounds[~out]

    def _count(self, block: Block) -> int:
        return comb(len(block.free), self.k - len(block.included))

    # --- problems ---------------------------------------------------------------------------------

    def _solve(self, units: tuple[int, ...]) -> None:
        """Solve the problem of a subset, as far as it may be the best."""
        self._tried.add(units)
        row, kernels = np.array(units), self._kernels(units)
        beta = self.cuts.tightest(row)
        result, dual = self._drive(kernels, self.limit.regularizer, 1.0, beta)
        self.floor = min(self.floor, dual)
        same = (self._rows == row).all(axis=1)
        self._rows, self._bounds = self._rows[~same], self._bounds[~same]
        if self.best is None or result.objective < self.best.objective:
            self.best, self.chosen, self._failures = result, units, 0
        self._cut(result.beta)

    def _relaxation(self, block: Block) -> tuple[np.ndarray, float]:
        """Weights (m,) and dual value of a problem that bounds those of all subsets of a block."""
        kernels = self._kernels((*block.included, *block.free))
        m = self.run.bank.m
        regularizer, factor = self.limit.regularizer.relaxed(self.limit.largest(np.ones(m)).size)
        beta = self.cuts.betas[-1] if self.cuts.betas else np.zeros_like(self.run.problem.targets)
        result, dual = self._drive(kernels, regularizer, factor, beta, is_relaxed=True)
        weights = np.zeros(m)
        weights[kernels] = result.weights
        self._cut(result.beta)
        return weights, dual

    def _drive(
        self,
        kernels: np.ndarray,
        regularizer: Regularizer,
        factor: float,
        beta: np.ndarray,
        is_relaxed: bool = False,
    ) -> tuple[Result, float]:
        """The result of a problem of some kernels, up to where its dual value is above all that
        can be of interest, and the largest dual value on the way, which need not be where the gap
        is smallest.
        """
        run, cutoff, enough, dual = self.run, self._cutoff, False, -np.inf
        bank = run.bank.take_kernels(kernels, factor)

        def watch(record: Record) -> bool:
            nonlocal enough, dual
            if np.isfinite(record.gap):
                dual = max(dual, record.objective - record.gap * abs(record.objective))
            enough = dual >= cutoff or (is_relaxed and record.objective < cutoff < np.inf)
            return enough

        problem = replace(run.problem, bank=bank, regularizer=regularizer)
        inner = RunState(problem, memory_budget=run.memory_budget, watch=watch)
        inner.start = inner.latest = Point(inner.start.weights, problem.feasible(beta))
        inner.is_part = True
        solver = self.solver_for(inner)
        tol = TOLERANCES.share_of_tolerance * run.tol
        tol = max(tol, TOLERANCES.relaxed_gap) if is_relaxed else tol
        result = drive(solver, inner, tol=tol)
        run.counters.include(inner.counters)
        self.solved += 1
        if result.status.broken_off and not enough:
            raise Stopped if result.status is Status.STOPPED else KeyboardInterrupt
        if inner.bank.dtype != bank.dtype:  # others will need the precision as well
            run.refine()
            dual = result.certificate.dual
        return result, max(dual, result.certificate.dual)

    def _cut(self, beta: np.ndarray) -> None:
        """Make a cut of coefficients, and rule out what it can; not of every problem, where cuts
        rule out nothing besides: they take a pass over all kernels.
        """
        is_idle = self._idle_cuts >= TOLERANCES.idle_cuts
        if len(self._rows) and is_idle and self.solved % TOLERANCES.problems_per_idle_cut:
            return
        beta = self.run.problem.feasible(beta)
        self.cuts.add(beta, self.run.quadratic_forms(beta))
        before = len(self._rows)
        if before:
            bounds = self.cuts.of_subsets(self._rows, len(self.cuts.forms) - 1)
            self._bounds = np.maximum(self._bounds, bounds)
            self._rule_out()
            self._idle_cuts = 0 if len(self._rows) < before else self._idle_cuts + 1

    def _kernels(self, units: Iterable[int]) -> np.ndarray:
        return self.limit.kernels_of(units, self.run.bank.m)


class BranchAndBound(Solver):
    """The best k kernels or groups, with proof; see the module.

    Parameters
    ----------
    solver_for : callable
        The solver of a problem without the limit, given a run of it.
    """

    title = "branch and bound"
    unit = "problem"
    max_iter = 10_000
    gains_from_sample = False
    resumes_itself = True  # with the subset that was the best; its proof is not kept

    def __init__(self, solver_for: Callable[[RunState], Solver]) -> None:
        self.solver_for = solver_for

    def check(self, run: RunState) -> None:
        if not run.bank.is_sum:
            raise ValueError(
                "max_kernels and max_groups are for sums of kernels, of which some can be left "
                "out: use combination='sum'."
            )
        if run.problem.loss.can_be_infinite:
            raise ValueError(
                "max_kernels and max_groups need a loss that is finite for every subset of the "
                f"kernels, not {run.problem.loss!r}: use loss='hinge' with a large C."
            )
        if run.bank.is_remote or run.bank.take_kernels(np.arange(1)) is None:
            raise ValueError(
                "max_kernels and max_groups solve problems of some of the kernels, which kernels "
                f"on a cluster and {type(run.bank).__name__} cannot be asked for: fit on one "
                "machine, without them."
            )
        first = self._part(run)
        solver = self.solver_for(first)
        if solver.follows_rule:
            raise ValueError(
                f"{type(solver).__name__} sets the weights by a rule, so that no subset is the "
                "best: use solver='auto' with max_kernels or max_groups."
            )
        solver.check(first)

    def _part(self, run: RunState) -> RunState:
        """A run on the problem of the first units."""
        limit = cast("AtMost", run.problem.regularizer)
        bank = run.bank.take_kernels(limit.kernels_of(range(limit.k), run.bank.m))
        problem = replace(run.problem, bank=bank, regularizer=limit.regularizer)
        return RunState(problem, memory_budget=run.memory_budget)

    def of_parts(self, run: RunState) -> Solver:
        """The solver of the problems of subsets."""
        self.check(run)
        part = self._part(run)
        return self.solver_for(part).specialize(part)

    def init(self, run: RunState) -> Search:
        weights, beta = run.start
        return self._begun(run, weights if beta.any() else np.zeros_like(weights))

    def _begun(self, run: RunState, start: np.ndarray) -> Search:
        search = Search(run, self.solver_for)
        run.subsets = search.subsets
        search.begin(start)
        return self._noted(run, search)

    def step(self, run: RunState, state: Search, tol: float) -> Search:
        state.advance()
        return self._noted(run, state)

    def refreshed(self, run: RunState, state: Search) -> Search:
        return self._begun(run, state.iterate.weights)

    @staticmethod
    def _noted(run: RunState, search: Search) -> Search:
        run.subsets = search.subsets
        return search

    def __repr__(self) -> str:
        return "BranchAndBound()"
