"""The state of one run: where it began, where it stands, what it has cost and who listens.

A `Problem` states and judges; solvers ask the run for everything that costs a pass over the
kernels, so that the work is counted in one place.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from ._arrays import Array
from ._threads import Threads
from .banks.base import Sums
from .machines import (
    BlockedMachine,
    DenseMachine,
    FactoredKernel,
    FactoredMachine,
    KernelRows,
    Machine,
    MachineResult,
    iterative,
)
from .problem import Problem
from .regularizers import Curvature
from .result import Certificate, Counters, Result, Subsets
from .thresholds import thresholds

GIGABYTE = 2**30
# Coefficients of all outputs from which on threads share them: fewer take as long as to begin.
FEWEST_COEFFICIENTS = 10_000
# Part of a weight below which a difference of two is rounding.
ROUNDING = 1e-12
# SVMs that run out of steps before those after them get fewer, and how few they get at least; more:
# hopeless runs are longer, and fewer of the hard ones are given up.
PATIENCE, FEWEST_STEPS = 16, 20_000

Outcome = TypeVar("Outcome")


@dataclass(frozen=True)
class Prices:
    """Prices of work in passes over the kernels, for `RunState.work`.

    Attributes
    ----------
    entries_per_visit : float
        Entries of one kernel that a pass visits in the time a step takes for one entry of a row.
        If it were larger, steps would count for more.
    steps_per_pass : float
        Steps in the time that the smallest pass takes. Larger makes steps of small problems count
        for less.
    kernels_per_solve : float
        Kernels that are combined in the time an SVM takes for a few looks at the combined kernel.
        Larger makes an SVM count for more, up to a pass.
    small_entries : float
        Entries of all kernels for which Newton's method takes as long for what does not depend on
        their number as for the rest. Larger makes passes count for less.
    small_passes : float
        Small passes that are worth one, at most.
    narrow_passes : float
        Passes over narrow factors, or steps there, that are worth one over kernels.
    """

    entries_per_visit: float = 40
    steps_per_pass: float = 200.0
    kernels_per_solve: float = 20
    small_entries: float = 1e6
    small_passes: float = 5.0
    narrow_passes: float = 3.0


PRICES = Prices()


class Point(NamedTuple):
    """Kernel weights (m,) and dual coefficients (t, n)."""

    weights: np.ndarray
    beta: np.ndarray


class Evaluation(NamedTuple):
    """One solved SVM per output at fixed kernel weights.

    Attributes
    ----------
    weights : (m,)
    beta, scores : (t, n) dual coefficients and ``K_d beta``
    value : float
        ``W(weights)`` as seen from below: dual value of the SVMs plus the regularizer.
    noise : float
        Bound on what W may be larger by: gap between primal and dual values of the SVMs.
    """

    weights: np.ndarray
    beta: np.ndarray
    scores: np.ndarray
    value: float
    noise: float


class Judgment(NamedTuple):
    """Gradient and certificate at an evaluation.

    Attributes
    ----------
    forms : (m,)
        ``sum_c beta_c' (dK_d / dd_k) beta_c``: for sums of kernels their quadratic forms.
    gradient : (m,) of W
    certificate : Certificate
    """

    forms: np.ndarray
    gradient: np.ndarray
    certificate: Certificate


class RunState:
    """One run on a problem.

    Parameters
    ----------
    problem : Problem
    start : Result, optional
        An earlier result on the same kernels, to begin from.
    memory_budget : int
        Bytes for a combined kernel; above it rows are computed on demand and as many as fit are
        kept.
    watch : callable, optional
        Called with each `Record`; True ends the run.
    keep : callable, optional
        Called before, with the best `Iterate` so far and the `Record`.
    poll : callable, optional
        Called several times a second while an iteration is under way; True ends the run.

    Attributes
    ----------
    problem : Problem
        The statement with the kernels in the precision that the run has come to.
    start : Point
        Where solvers begin.
    latest : Point
        Weights and coefficients under work, for a solver that is interrupted.
    best : Iterate or None
        The best that `drive` has seen.
    counters : Counters
    limit : int or None
        The largest number of iterations, or of what the solver counts in their place, if one was
        asked for.
    tol : float
        Relative gap that is asked for; zero if that is not known.
    is_part : bool
        The problem is a part of another run's.
    subsets : Subsets or None
        Of a search for the best subset of the kernels.
    carried : object
        What the method of an earlier run took along (`Result.carried`), for the first use.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        start: Result | Point | None = None,
        memory_budget: int = 4 * GIGABYTE,
        watch: Callable | None = None,
        keep: Callable | None = None,
        poll: Callable | None = None,
    ) -> None:
        self.problem, self.memory_budget = problem, memory_budget
        self.watch, self.keep, self.poll, self.is_part = watch, keep, poll, False
        self.counters, self.tol = Counters(), 0.0
        self.best: Any = None  # an Iterate, which the floor above defines
        self.limit: int | None = None
        self.subsets: Subsets | None = None
        self.carried: Any = getattr(start, "carried", None)
        self._columns, self._parts, self._exhausted = 0, 0.0, 0
        self._last: Any = np.empty(0), None, None  # weights, bank and kernel
        self._is_update = False  # whether that kernel is an update of another one
        regularizer = problem.regularizer
        if start is None:
            self.start = Point(problem.bank.start(regularizer), np.zeros_like(problem.targets))
        else:
            self.start = Point(regularizer.adopt(start.weights), start.beta)
        self.latest = self.start

    @property
    def bank(self) -> Any:
        """The kernels in the precision that the run has come to: a `Bank`, a `SumBank` for sums."""
        return self.problem.bank

    @property
    def holds_kernel(self) -> bool:
        """True if a combined kernel fits into the memory budget."""
        return self.kernel_bytes <= self.memory_budget

    @property
    def kernel_bytes(self) -> int:
        """Bytes of a combined kernel and of what systems of equations with it take: a copy in
        float64 to be factorized, or a preconditioner.
        """
        n, itemsize = self.bank.n, self.bank.dtype.itemsize
        if not self.problem.is_system:
            return n**2 * itemsize
        if self.is_factorized:
            return n**2 * (itemsize + 8)
        return n**2 * itemsize + iterative.held_bytes(n, itemsize)

    @property
    def is_factorized(self) -> bool:
        """True if systems of as many equations as there are points are factorized."""
        return self.problem.is_system and self.bank.n <= thresholds().factorized_points

    @property
    def work(self) -> float:
        """Work done so far, in passes over the kernels.

        A step of a machine visits a row of the combined kernel, a pass all rows of all kernels; on
        narrow factors a step solves a system of equations, and is worth a pass, but both are cheap
        beside what the methods made for factors do. Where few kernels have weight combining them is
        a part of a pass, and the SVM's own time is not small beside it. Of few entries a pass is
        cheap beside what Newton's method does in any case.
        """
        counters, passes = self.counters, self.counters.kernel_passes + self._parts
        if self.bank.prefers_factor_space:
            return (passes + counters.machine_steps) / PRICES.narrow_passes
        visits = self.bank.n * self.bank.m / PRICES.entries_per_visit
        per_pass = max(PRICES.steps_per_pass, visits)
        per_solve = min(1.0, PRICES.kernels_per_solve / self.bank.m)
        entries = self.bank.n**2 * self.bank.m
        small = min(PRICES.small_passes, 1.0 + PRICES.small_entries / entries)
        work = passes + counters.machine_steps / per_pass + counters.svm_solves * per_solve
        return work / small

    def refine(self) -> bool:
        """Go on with kernels in float64; False if they are already."""
        finer = self.problem.refined()
        if finer is None:
            return False
        if self.best is not None:
            self.latest = Point(self.best.weights, self.best.beta)
        self.problem, self.best = finer, None  # certificates of coarser kernels do not compare
        return True

    def sharpened(self, iterate: Any) -> Any:
        """An `Iterate` with a sharper estimate of what rounding is in its certificate."""
        rounding, certificate = self.problem.sharper_rounding(*iterate.point), iterate.certificate
        if rounding >= certificate.rounding:
            return iterate
        sharper = iterate._replace(certificate=certificate._replace(rounding=rounding))
        self.best = sharper if self.best is iterate else self.best
        return sharper

    def evaluate(
        self, weights: np.ndarray, beta: np.ndarray, tol: float, gap: float = 0.0
    ) -> Evaluation:
        """Solve the SVM of every output at these weights, starting from beta, to a violation of tol
        times the `unit`, or to a relative gap of its own where the machine looks at that.
        """
        machine, kernel = self.machine(weights)
        return self.solve(machine, kernel, weights, beta, tol, gap)

    def machine_steps(self, most: int) -> int:
        """Steps of a machine for one SVM: fewer where it ran out of them before. Kernels that are
        hopelessly conditioned would take all of them every time.
        """
        return max(FEWEST_STEPS, most >> 2 * max(0, self._exhausted - PATIENCE))

    @property
    def is_exhausted(self) -> bool:
        """True if machines ran out of steps again and again."""
        return self._exhausted > 1

    def count_steps(self, steps: int, allowed: int) -> None:
        """Take note of the steps of one SVM."""
        self.counters.machine_steps += steps
        self._exhausted = max(0, self._exhausted + (1 if steps >= allowed else -1))

    def solve(
        self,
        machine: Machine,
        kernel: Any,
        weights: np.ndarray,
        beta: np.ndarray,
        tol: float,
        gap: float = 0.0,
    ) -> Evaluation:
        """`evaluate` with the `machine` of these weights and its kernel, which cost a pass."""
        problem = self.problem
        beta, tol = np.array(beta, dtype=float), tol * problem.unit
        self.latest = Point(weights, beta)
        allowed = self.machine_steps(machine.most_steps(beta.shape[1]))

        def solved_from(c: int, start: np.ndarray) -> MachineResult:
            y, cost = problem.targets[c], problem.cost[c]
            return machine.solve(kernel, problem.loss, y, cost, start, tol, allowed, gap=gap)

        if len(beta) > 1 and isinstance(machine, DenseMachine):
            # from copies: threads that are left to themselves after an interrupt must not write to
            # what is judged then
            solved = self.each_output(lambda c: solved_from(c, beta[c].copy()))
            beta[:] = [one.beta for one in solved]
        else:
            with self.algebra():
                solved = [solved_from(c, start) for c, start in enumerate(beta)]
        self.counters.svm_solves += len(solved)
        for one in solved:
            self.count_steps(one.steps, allowed)
        dual = sum(one.dual for one in solved)
        noise = max(0.0, sum(one.primal for one in solved) - dual)
        scores = np.stack([one.scores for one in solved])
        return Evaluation(weights, beta, scores, dual + problem.regularizer.value(weights), noise)

    def each_output(self, work: Callable[[int], Outcome]) -> list[Outcome]:
        """``work(c)`` of every output c: beside each other where outputs are large, unless they are
        systems of equations, each of which uses all threads.
        """
        outputs, n = self.problem.targets.shape
        if self.problem.is_system or outputs * n < FEWEST_COEFFICIENTS:
            with self.algebra():
                return Threads(1).map(work, range(outputs))
        return self.bank.own_threads.map(work, range(outputs))

    def algebra(self) -> AbstractContextManager:
        """A context for machines, in which systems of equations may use all threads."""
        return self.bank.algebra() if self.problem.is_system else nullcontext()

    @property
    def machine_kind(self) -> str:
        """The machine that solves the SVMs: ``"factors"`` (systems of equations in their space),
        ``"device"``, ``"dense"`` (on a combined kernel in memory) or ``"rows"`` (on demand).
        """
        if self.bank.prefers_factor_space:
            return "factors"
        many = self.bank.n > thresholds().copied_kernel_points
        if many and self.bank.has_machine and not self.problem.is_system:
            return "device"
        return "dense" if self.holds_kernel else "rows"

    def machine(self, weights: np.ndarray) -> tuple[Machine, Any]:
        """The machine for SVMs with the combined kernel, and that kernel as it takes it."""
        self._combined(weights)
        kind = self.machine_kind
        if kind == "factors":
            if self.bank.is_sum:
                return FactoredMachine(), FactoredKernel(self.bank, weights)
            return FactoredMachine(), FactoredKernel(self.bank.factors(weights), np.ones(1))
        if kind == "device":
            return cast(tuple[Machine, Any], self.bank.machine(weights))
        if kind == "dense":
            return DenseMachine(), self._kernel(weights)
        return BlockedMachine(), KernelRows(self.bank, weights, self.memory_budget)

    def judge(self, at: Evaluation, some: np.ndarray | None = None) -> Judgment:
        """Gradient of W (Danskin's theorem) and certificate at an evaluation; one pass over the
        kernels gives both.

        Of some weights, if they are given, where the kernel is not a sum: forms of the others are
        zero, and their gradient is that of the regularizer.
        """
        self.counters.kernel_passes += 1
        options = {}
        if some is not None and not self.bank.is_sum:
            options["some"] = some
        if self.bank.reads_kernel and self._knows_kernel(at.weights):
            options["kernel"] = self._last[2]
        forms = self.bank.weight_gradient(at.weights, at.beta, **options)
        if self.bank.is_sum:  # quadratic forms, which rounding must not make negative
            forms = np.maximum(forms, 0.0)
        certificate = self.certificate(at.weights, at.beta, scores=at.scores, forms=forms)
        gradient = self.problem.regularizer.gradient(at.weights) - 0.5 * forms
        return Judgment(forms, gradient, certificate)

    def certificate(
        self,
        weights: np.ndarray,
        beta: np.ndarray,
        *,
        scores: np.ndarray | None = None,
        forms: np.ndarray | None = None,
    ) -> Certificate:
        """`Problem.certificate`; what is not given is computed, and counted."""
        given = np.atleast_2d(np.asarray(beta, dtype=float))
        beta = self.problem.feasible(given)
        if not np.array_equal(beta, given):
            scores = forms = None
        if scores is None:
            scores = self.decision(weights, beta)
        if forms is None and self.problem.has_dual:
            forms = self.quadratic_forms(beta)
        return self.problem.certificate(weights, beta, scores=scores, forms=forms)

    def quadratic_forms(self, beta: Array) -> np.ndarray:
        """`Problem.quadratic_forms`, counted."""
        self.counters.kernel_passes += 1
        return self.problem.quadratic_forms(beta)

    def products(self, beta: Array) -> np.ndarray:
        """Products ``K_k beta_c`` of every kernel and output, (m, t, n)."""
        self.counters.kernel_passes += 1
        return self.bank.products(beta)

    def held_products(self, beta: np.ndarray) -> Any:
        """The `products` to be held: where the bank computes them, if that is elsewhere."""
        self.counters.kernel_passes += 1
        return self.bank.held_products(beta)

    def held_kernel(self, weights: np.ndarray) -> Any:
        """The combined kernel ``sum_k weights[k] K_k`` to be held, not to be written to: where the
        bank computes it, if that is elsewhere.
        """
        self._combined(weights)
        return self.bank.held_kernel(weights) if self.bank.on_device else self._kernel(weights)

    def _kernel(self, weights: np.ndarray) -> np.ndarray:
        """The combined kernel; the last one is kept, since an SVM and the program around its
        solution have the same.
        """
        of, bank, kernel = self._last
        if self._knows_kernel(weights):
            return kernel
        can = bank is self.bank and bank.is_sum and not self._is_update  # or rounding adds up
        kept, rest = _kept_share(weights, of) if can else (0.0, weights)
        self._is_update = kept > 0.0 and 3 * kernel.nbytes <= self.memory_budget
        if self._is_update:
            kernel = kernel * kernel.dtype.type(kept)
            kernel += self.bank.combine(rest)
        else:
            self._last = np.empty(0), None, None
            del kernel  # two do not fit where one does
            kernel = self.bank.combine(weights)
        self._last = np.array(weights, dtype=float), self.bank, kernel
        return kernel

    def _knows_kernel(self, weights: np.ndarray) -> bool:
        of, bank, _ = self._last
        return bank is self.bank and np.array_equal(of, weights)

    def newton_sums(self, weights: np.ndarray, beta: np.ndarray, J: Curvature) -> Sums:
        """Sums over the products of all kernels for Newton's method; see `SumBank.newton_sums`."""
        self.counters.kernel_passes += 1
        return self.bank.newton_sums(weights, beta, J)

    def directional_forms(self, beta: Array, change: Array) -> tuple[np.ndarray, ...]:
        """Slopes and curvatures of the quadratic forms along a change of beta, (m,) each."""
        self.counters.kernel_passes += 1
        return self.bank.directional_forms(beta, change)

    def count_columns(self, number: int) -> None:
        """Count columns of all kernels that were computed: as many as there are points are a
        pass.
        """
        passes, self._columns = divmod(self._columns + number, self.bank.n)
        self.counters.kernel_passes += passes

    def decision(self, weights: np.ndarray, beta: Array) -> Array:
        """``K_d beta``, (t, n)."""
        self._combined(weights)
        return self.bank.decision(weights, beta)

    def _combined(self, weights: np.ndarray) -> None:
        """Count a pass over the kernels that have weight or, where they are the smaller part, what
        part they are.
        """
        share = np.count_nonzero(weights) / len(weights)
        if share > 0.5:
            self.counters.kernel_passes += 1
        else:
            self._parts += share


def _kept_share(weights: np.ndarray, before: np.ndarray) -> tuple[float, np.ndarray]:
    """The share c of earlier weights that new ones keep, ``weights = c before + rest``, and the
    rest, if that is of few kernels; else zero. A step that goes some way towards a few kernels is
    like this. What rounding has left is zero.
    """
    used = before > 0.0
    if not used.any():
        return 0.0, weights
    share = float((weights[used] / before[used]).min())
    rest = weights - share * before
    rest = np.where(rest > ROUNDING * weights, rest, 0.0)
    few = 2 * np.count_nonzero(rest) < np.count_nonzero(weights)
    return (share, rest) if few else (0.0, weights)
