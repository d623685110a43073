"""What a fit will do, decided in one place, and the reasons in words.

A plan is made from the statement of the problem and from the resources: how the kernels are held,
in which precision and where, which solver with which parts of the problem first, which machine
solves the SVMs, how many problems at once, and the memory that this takes. The numbers that decide
stand in `manykernels.thresholds`; the table of solvers is `manykernels.solvers.AUTO`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import comb
from typing import Any, NamedTuple, cast

import numpy as np

from ._words import count, megabytes
from .banks import ResolvedKernels
from .banks.dense import DenseBank
from .banks.divided import DividedBank, divided, gram_bytes, holding
from .banks.lowrank.product import ProductFeatureBank
from .banks.torch import work_in_words
from .banks.wrappers.delegating import DelegatingBank
from .banks.wrappers.shared import is_worth_holding, width
from .regularizers import AtMost, Regularizer
from .run_state import RunState
from .solvers import Solver, choose_solver
from .solvers.choose import rule_for, sample_size
from .solvers.lowrank.blocks import Blocks
from .solvers.lowrank.distributed import DistributedNewton
from .solvers.lowrank.interior import Interior
from .solvers.lowrank.multipliers import Multipliers
from .solvers.lowrank.primal import PrimalNewton
from .solvers.newton import Newton, OneSVM
from .solvers.sequential import Sequential
from .solvers.subsets import BranchAndBound
from .solvers.wrappers import FromFactors, FromIterate, FromKernels, FromPoints, WorkingSet
from .thresholds import thresholds

# solvers that pass over all kernels in every iteration, so that Gram matrices are worth holding
MANY_PASSES = ("auto", "newton", "spg", "group_lasso", "simple", "silp", "mirror", "pgd")
WIDTH = 100  # columns of a printed plan


class Way(Enum):
    """The ways that a fit may go besides the plain one; tests walk all of them."""

    MATRICES_HELD = "all Gram matrices in memory"
    KERNELS_AS_FACTORS = "kernels of small rank as their factors"
    TABLE_AS_ARRAY = "a sparse table as an array"
    SAMPLE_OF_POINTS = "a sample of the points first"
    PART_OF_KERNELS = "a part of the kernels first"
    ROWS_ON_DEMAND = "rows of the combined kernel on demand"
    CONJUGATE_GRADIENTS = "systems of equations by conjugate gradients"
    FACTORS_ONE_BY_ONE = "factors of one kernel at a time"
    EXACT_FACTORS = "the space of exact factors first"
    SHARED_BASIS = "factors in a smaller space"
    MULTIPLIERS = "losses with corners by the method of multipliers"
    MODELS_IN_TURN = "models one after the other"
    FOLDS_IN_TURN = "kernels for every fold"
    ON_DEVICE = "work on a device"
    IN_LOCKSTEP = "problems in lockstep on a device"
    ON_CLUSTER = "work on a cluster"


class Decision(NamedTuple):
    """One decision of a plan.

    Attributes
    ----------
    what : str
        What is done.
    why : str
        The reason.
    options : tuple of str
        Parameters that would change it.
    """

    what: str
    why: str = ""
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = self.what + (f", because {self.why}" if self.why else "")
        return text + (f" [{', '.join(self.options)}]" if self.options else "")


@dataclass(frozen=True)
class Plan:
    """What a fit does, and why. Print it.

    Made by `manykernels.plan` before a fit, and kept by models as ``plan_``.

    Attributes
    ----------
    statement : str
        The problem: points, kernels, outputs, loss, regularizer and tolerance.
    kernels, precision, place, solver, machine, problems : Decision
        How the kernels are held, in which floating-point numbers, where the work is done, which
        method, which solver of SVMs with fixed kernels, and how many problems there are and how
        many are solved at once.
    first : tuple of Decision
        Parts of the problem that are solved before the whole.
    memory : int
        Bytes that the largest arrays take, besides the data; an estimate.
    ways : frozenset of Way
    at_once : int
        Problems that are solved side by side.
    table : Decision, optional
        How the rows of a sparse table are held, where exact kernels are computed of them.
    """

    statement: str
    kernels: Decision
    precision: Decision
    place: Decision
    solver: Decision
    machine: Decision
    problems: Decision
    memory: int
    first: tuple[Decision, ...] = ()
    ways: frozenset[Way] = frozenset()
    at_once: int = 1
    table: Decision | None = None

    def summary(self) -> str:
        """The plan in one line."""
        firsts = "".join(f"{one.what}, then " for one in self.first)
        return (
            f"plan: {self.statement}; {firsts}{self.solver.what}; {self.kernels.what}, "
            f"{self.precision.what}, {self.place.what}; {self.problems.what}; about "
            f"{megabytes(self.memory)}"
        )

    def decisions(self) -> dict[str, Decision]:
        """All decisions by name, in the order in which they matter."""
        found = {} if self.table is None else {"table": self.table}
        found |= {"kernels": self.kernels, "precision": self.precision, "place": self.place}
        found |= {f"first {k}" if k > 1 else "first": one for k, one in enumerate(self.first, 1)}
        return found | {"solver": self.solver, "machine": self.machine, "problems": self.problems}

    def __str__(self) -> str:
        lines = [self.statement]
        for name, decision in self.decisions().items():
            lines += _paragraph(name, str(decision))
        return "\n".join([*lines, *_paragraph("memory", f"about {megabytes(self.memory)}")])


def _paragraph(name: str, text: str) -> list[str]:
    indent = " " * 11
    lines = textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent)
    return [f"{name:<11}{lines[0].lstrip()}", *lines[1:]]


# --- how kernels are held -------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """What the parameters of a fit ask for, as far as plans depend on them.

    Attributes
    ----------
    tol : float
    solver : str or Solver
    device : str
    approximation : Approximation, optional
    is_sparse : bool
        Whether p = 1, without another regularizer.
    is_smooth : bool
        Whether the loss is.
    memory_budget : int
    """

    tol: float
    solver: str | Solver
    device: str
    approximation: Any
    is_sparse: bool
    is_smooth: bool
    memory_budget: int


class Table(NamedTuple):
    """How the training rows of a sparse table are held.

    Attributes
    ----------
    decision : Decision
    nbytes : int
        Bytes of the array that they become; zero if they stay sparse.
    """

    decision: Decision
    nbytes: int = 0

    def held(self, X: Any) -> Any:
        """Rows of the table, as they are held."""
        return X.toarray() if self.nbytes else X


def plan_table(X: Any, memory_budget: int) -> Table:
    """How a sparse table is held: as an array if many of its entries are stored and it is a small
    part of the memory budget. Products of sparse rows cost more for every entry.

    Parameters
    ----------
    X : sparse matrix
    memory_budget : int
    """
    limits, entries = thresholds(), max(X.shape[0] * X.shape[1], 1)
    nbytes, most = 8 * entries, int(limits.array_share * memory_budget)
    stored = f"{X.nnz / entries:.2%} of its entries are stored"
    if X.nnz < limits.stored_share * entries:
        why = f"{stored}, and an array is faster from {limits.stored_share:.0%} on"
        return Table(Decision("sparse, as it was given", why))
    if nbytes > most:
        why = f"an array would take {megabytes(nbytes)}, and {megabytes(most)} are for it"
        return Table(Decision("sparse, as it was given", why, ("cache_size",)))
    what = f"an array in the place of the sparse table, {megabytes(nbytes)}"
    return Table(Decision(what, stored, ("cache_size",)), nbytes)


def plan_precision(tol: float) -> type:
    """float32 for kernels, unless the tolerance is finer than that."""
    return np.float64 if tol < thresholds().single_precision_tolerance else np.float32


def plan_blocks(request: Request, kernels: ResolvedKernels, n: int) -> bool:
    """True if low-rank kernels are worked on one at a time: p = 1 with kernels of many different
    columns, which have no small space in common, and more columns of factors than a system of
    equations is good for, or than there is memory for.
    """
    approximation, table = request.approximation, thresholds()
    if request.device not in ("cpu", "auto") or request.solver not in ("auto", "blocks"):
        return False
    if request.solver == "blocks":
        return True
    if not request.is_sparse or kernels.is_masked or see_the_same(kernels):
        return False
    columns = kernels.m * min(approximation.rank, n)
    if approximation.folder is None and 4 * n * columns > request.memory_budget:
        return True
    return columns >= (
        table.block_columns if request.is_smooth else table.block_columns_with_corners
    )


def see_the_same(kernels: ResolvedKernels) -> bool:
    """Whether kernels see few different sets of columns, so that their factors have a small space
    in common.
    """
    if kernels.is_masked:
        return False
    columns = (kernels.columns_of(k) for k in range(kernels.m))
    sets = {None if one is None else np.asarray(one).tobytes() for one in columns}
    return len(sets) < thresholds().separate_column_sets


def plan_bank(
    bank: Any,
    solver: str | Solver,
    regularizer: Regularizer,
    memory_budget: int,
    held: Callable = DenseBank.from_bank,
) -> Any:
    """The bank as a fit visits it. If more than one pass over the kernels will be made, those of
    small rank are their factors, and the Gram matrices of the others are in memory where they are
    small: a pass over them costs a fifth of one that computes them, and holding them little more
    than one. ``held`` makes the bank of such matrices.
    """
    if not _makes_many_passes(bank, solver, regularizer):
        return bank
    bank, most = divided(bank), min(memory_budget, thresholds().held_gram_bytes)
    return holding(bank, held) if is_worth_holding(bank, most) else bank


def _makes_many_passes(bank: Any, solver: str | Solver, regularizer: Regularizer) -> bool:
    can = bank.is_sum and bank.shares_passes and not (bank.on_device or bank.is_remote)
    if not can or solver not in MANY_PASSES:
        return False
    return regularizer.bound(bank).only_weights(bank.m) is None


# --- how many problems at once --------------------------------------------------------------------


def plan_width(bank: Any, outputs: int, memory_budget: int, *, is_heard: bool) -> int:
    """How many problems over one bank are solved side by side.

    One by one where passes cannot be shared, where someone listens to every fit, or where fewer
    than some fit into memory.
    """
    if is_heard or bank.on_device or not (bank.is_sum and bank.shares_passes):
        return 1
    fits = width(bank, outputs, memory_budget)
    return fits if fits >= thresholds().models_side_by_side else 1


def plan_rounds(costs: int, side_by_side: int) -> list[range]:
    """Numbers of the values of C in rounds: as few at a time as make a good batch of problems, far
    from each other, so that later ones have a warm start near.
    """
    at_once = min(costs, -(-thresholds().problems_per_batch // side_by_side))
    rounds = -(-costs // at_once)
    return [range(first, costs, rounds) for first in range(rounds)]


def fold_matrices_fit(m: int, n: int, rows: int, free: int) -> bool:
    """Whether m kernels of a fold, between n training points and so many rows in all, have room on
    a device, so that problems are solved there in lockstep.
    """
    nbytes, limit = 8 * m * n * rows + 16 * n * rows, thresholds()
    return n <= limit.lockstep_points and nbytes <= limit.lockstep_share * free


def fold_factors_fit(width: int, n: int, rows: int, free: int) -> bool:
    """The same of factors with so many columns."""
    nbytes, limit = 24 * width * (n + rows), thresholds()
    return width <= limit.lockstep_columns and nbytes <= limit.lockstep_share * free


def problems_at_once(largest: tuple[int, int, bool], free: int) -> int:
    """How many problems fit beside each other, of so many points and kernels at most, with
    combined kernels if these are matrices.
    """
    n, m, is_exact = largest
    each = 8 * (5 * m * n + 40 * n) + (28 * n**2 if is_exact else 0)
    return max(1, int(thresholds().lockstep_problems * free / each))


def plan_batches(run: RunState, request: Request, device: str, batch: Batch, stack: Any) -> Plan:
    """The plan of problems that are solved in lockstep on a device.

    Parameters
    ----------
    run : RunState
        On one of them.
    request : Request
    device : str
    batch : Batch
    stack : MatrixStack or FactorStack
        The kernels on the device.
    """
    n, bank = run.bank.n, run.bank
    if stack.is_exact:
        nbytes, what = 8 * bank.m * n**2, "all Gram matrices of a fold"
        machine = f"Cholesky factors of {n:,} rows, of all problems at once"
    else:
        nbytes, what = 8 * bank.width * n, f"low-rank factors with {bank.width:,} columns"
        machine = f"systems of {bank.width:,} equations, of all problems at once"
    why = "every step of every problem reads them"
    many = f"{problems_of(replace(batch, at_once=1)).what.split(', one after')[0]}"
    each = 28 * n**2 if stack.is_exact else 80 * n
    return Plan(
        statement=_statement(run, request.tol),
        kernels=Decision(f"{what} on {device}, {megabytes(nbytes)}", why, ("device",)),
        precision=Decision("float64", "systems of equations of interior points need it"),
        place=_on_device(device, request),
        solver=Decision(
            "an interior-point method, all problems of a fold in lockstep",
            "its steps are the same few products of matrices for all of them",
            ("solver", "max_iter"),
        ),
        machine=Decision(machine),
        problems=Decision(
            f"{many}, up to {batch.at_once} of a fold side by side",
            "one launch serves all of them",
            batch.options,
        ),
        memory=nbytes + each * batch.at_once,
        ways=frozenset({Way.ON_DEVICE, Way.IN_LOCKSTEP}),
        at_once=batch.at_once,
    )


# --- the plan of a run ----------------------------------------------------------------------------


def plan_solver(run: RunState, solver: str | Solver) -> Solver:
    """The solver that a run gets, in the variant that fits it."""
    return choose_solver(solver, run).specialize(run)


def plan_starts(run: RunState, solver: str | Solver) -> int:
    """Starting points that are tried with all points of a problem: one where a sample of the
    points has tried them.
    """
    if run.bank.starts == 1 or isinstance(choose_solver(solver, run), FromPoints):
        return 1
    return int(run.bank.starts)


@dataclass(frozen=True)
class Batch:
    """The problems of a fit, as a plan tells of them.

    Attributes
    ----------
    count, at_once : int
    what : str
        The problems in words.
    ways : tuple of Way
    options : tuple of str
        Parameters that would change the number.
    """

    count: int = 1
    at_once: int = 1
    what: str = ""
    ways: Sequence[Way] = ()
    options: tuple[str, ...] = field(default=())


def make_plan(
    run: RunState,
    request: Request,
    solver: Solver | None = None,
    batch: Batch | None = None,
    table: Table | None = None,
) -> Plan:
    """The plan of a run on the statement of a problem.

    Parameters
    ----------
    run : RunState
    request : Request
    solver : Solver, optional
        What does the run, if that is known.
    batch : Batch, optional
        The problems of the fit, where there are several.
    table : Table, optional
        Of the training rows, where it is sparse.
    """
    solver = plan_solver(run, request.solver) if solver is None else solver
    batch = batch or Batch()
    chain = list(_chain(solver))
    ways = {*_bank_ways(run.bank), *batch.ways}
    firsts = tuple(decision for one in chain for decision in _parts(one, run))
    ways |= {Way.SAMPLE_OF_POINTS for one in chain if isinstance(one, FromPoints)}
    ways |= {Way.PART_OF_KERNELS for one in chain if isinstance(one, FromKernels | WorkingSet)}
    ways |= {Way.EXACT_FACTORS for one in chain if isinstance(one, FromFactors)}
    ways |= {Way.MULTIPLIERS for one in chain if isinstance(one, Multipliers)}
    if run.machine_kind == "rows":
        ways.add(Way.ROWS_ON_DEMAND)
    if _uses_gradients(run):
        ways.add(Way.CONJUGATE_GRADIENTS)
    array = 0 if table is None else table.nbytes
    if array:
        ways.add(Way.TABLE_AS_ARRAY)
    memory = _memory(run, chain) * min(batch.at_once, batch.count)
    return Plan(
        statement=_statement(run, request.tol),
        kernels=_kernels(run, request),
        precision=_precision(run, request.tol),
        place=_place(run, request),
        solver=_solver(chain, run, request),
        machine=_machine(run),
        problems=problems_of(batch),
        memory=memory + _held_bytes(run.bank) + array,
        first=firsts,
        ways=frozenset(ways),
        at_once=batch.at_once,
        table=None if table is None else table.decision,
    )


def _chain(solver: Solver) -> Iterable[Solver]:
    """A solver and those that it hands the work to, outermost first."""
    yield solver
    if isinstance(solver, FromFactors | FromIterate | FromPoints | FromKernels | WorkingSet):
        yield from _chain(solver.solver)
    if isinstance(solver, Blocks) and solver.then is not None:
        yield from _chain(solver.then)


def _inmost(bank: Any) -> Any:
    """The bank that does the work, inside of those that pass it on."""
    passes_on = isinstance(bank, DelegatingBank) and not bank.is_remote
    return _inmost(bank._inner) if passes_on else bank


def _device(bank: Any) -> Any:
    """The device where a bank or its factors are; None for the host."""
    return getattr(_inmost(bank), "device", None)


def _bank_ways(bank: Any) -> set[Way]:
    found, bank = set(), _inmost(bank)
    if isinstance(bank, DividedBank):
        found.add(Way.KERNELS_AS_FACTORS)
    if _holds(bank):
        found.add(Way.MATRICES_HELD)
    if _device(bank) is not None:
        found.add(Way.ON_DEVICE)
    if bank.is_remote:
        found.add(Way.ON_CLUSTER)
    if bank.by_blocks and not bank.factored:
        found.add(Way.FACTORS_ONE_BY_ONE)
    if bank.factored and bank.points is not bank:
        found.add(Way.SHARED_BASIS)
    return found


def _holds(bank: Any) -> bool:
    """True if Gram matrices are in memory."""
    parts = [one for _, one in bank.parts] if isinstance(bank, DividedBank) else [bank]
    return any(isinstance(one, DenseBank) for one in parts)


def _statement(run: RunState, tol: float) -> str:
    problem, bank = run.problem, run.bank
    outputs = len(problem.targets)
    kind = count(bank.m, "kernel" if bank.is_sum else "parameter")
    several = "" if outputs == 1 else f", {outputs} outputs that share their weights"
    goal = f"relative gap {tol:g}" if problem.has_dual else f"tolerance {tol:g}"
    return f"{bank.n:,} points, {kind}{several}; {problem.loss!r}, {problem.regularizer!r}, {goal}"


def _kernels(run: RunState, request: Request) -> Decision:
    bank = _inmost(run.bank)
    if bank.is_remote:
        what = "factors of parts of the points" if bank.factored else "parts of the kernels"
        return Decision(f"{what} on the workers of the cluster", "the table is there")
    if isinstance(bank, ProductFeatureBank):
        where = "" if _device(bank) is None else f" on {_device(bank).name}"
        what = f"{bank.width:,} random features of the product{where}, made anew at every step"
        return Decision(what, "an approximation was asked for", ("approximation", "combination"))
    if not bank.is_sum:
        return Decision(
            "one kernel that is not a sum, computed anew at every step", "", ("combination",)
        )
    if bank.by_blocks and not bank.factored:
        return Decision(
            f"low-rank factors of one kernel at a time, {bank.width:,} columns in all",
            "p = 1 leaves most kernels out, the kernels see different columns, and the factors "
            "have too many columns for systems of equations, or for the memory budget",
            ("approximation", "solver", "cache_size"),
        )
    if bank.factored:
        return _factors(bank)
    if _device(bank) is not None:
        what = f"computed on the device in every pass; {work_in_words(bank)}"
        return Decision(what, "", ("device",))
    few, size = _small_ranks(bank), gram_bytes(bank)
    number = bank.m - few
    first = f"{count(few, 'kernel')} as factors" if few else ""
    why = _SMALL_RANK if few else ""
    if not size:
        return Decision(first, why.removesuffix(", and "), ("solver",))
    if _holds(bank):
        what = (
            f"the Gram matrices of {number:,} in memory" if few else "all Gram matrices in memory"
        )
        fits = "matrices fit" if few else "they fit"
        why += (
            f"{fits} the part of the memory budget that is theirs, and every pass after the first "
            "reads them"
        )
        return Decision(_and(first, f"{what}, {megabytes(size)}"), why, ("cache_size",))
    others = f"{number:,} " if few else ""
    what = f"{others}computed on the fly, in tiles, in every pass; the matrices would take "
    return Decision(
        _and(first, what + megabytes(size)),
        why + _why_not_held(bank, request),
        ("cache_size", "solver"),
    )


_SMALL_RANK = "kernels of small rank have factors that leave no more than rounding, and "


def _and(first: str, second: str) -> str:
    return f"{first}, {second}" if first else second


def _small_ranks(bank: Any) -> int:
    """How many kernels are held as factors."""
    if not isinstance(bank, DividedBank):
        return 0
    return sum(kernels.size for kernels, one in bank.parts if one.factored)


def _why_not_held(bank: Any, request: Request) -> str:
    table = thresholds()
    if not bank.shares_passes:
        return "a pass over kernels of this kind costs no less with matrices"
    if request.solver not in MANY_PASSES:
        return f"solver={request.solver!r} does not pass over all kernels again and again"
    budget = min(request.memory_budget, table.held_gram_bytes)
    if gram_bytes(bank) > table.held_gram_share * budget:
        most = megabytes(int(table.held_gram_share * budget))
        return f"matrices are held up to {most}"
    return "one pass over them is enough: the weights do not depend on the data"


def _factors(bank: Any) -> Decision:
    columns = bank.points.width
    where = "" if _device(bank) is None else f" on {_device(bank).name}"
    if bank.points is not bank:
        return Decision(
            f"low-rank factors{where} in a common space of {columns:,} dimensions, for "
            f"{bank.width:,} columns",
            f"the space has at most {thresholds().shared_basis_share:.0%} of their columns",
            ("approximation",),
        )
    return Decision(
        f"low-rank factors{where} with {columns:,} columns in all",
        "an approximation was asked for",
        ("approximation",),
    )


def _precision(run: RunState, tol: float) -> Decision:
    least = thresholds().single_precision_tolerance
    if run.bank.dtype == np.float32:
        why = f"the tolerance is not below {least:g}; float64 follows if rounding is in the way"
        return Decision("float32", why, ("tol",))
    if tol < least:
        return Decision("float64", f"the tolerance is below {least:g}", ("tol",))
    return Decision("float64", "float32 does not hold these kernels, or they were given so")


def _on_device(name: str, request: Request) -> Decision:
    why = "it was asked for"
    if request.device == "auto":
        why = "there is a GPU and the kernels have enough entries for it"
    return Decision(f"device {name}", why, ("device",))


def _place(run: RunState, request: Request) -> Decision:
    bank = run.bank
    if bank.is_remote:
        return Decision("the workers of the cluster and this machine")
    device = _device(bank)
    if device is not None:
        return _on_device(device.name, request)
    threads = f"this machine, {count(bank.threads.count, 'thread')}"
    if request.device == "cpu":
        return Decision(threads, "device='cpu'", ("device", "n_jobs"))
    return Decision(threads, "there is no GPU, or the kernels are too few for it", ("n_jobs",))


def _search(solver: BranchAndBound, run: RunState) -> Decision:
    """What is done for the best k kernels or groups."""
    limit = cast("AtMost", run.problem.regularizer)
    kind, available = "group" if limit.by_group else "kernel", len(limit.units or ())
    k = min(limit.k, available)
    last = list(_chain(solver.of_parts(run)))[-1]
    inner = _VARIANTS.get(type(last), (last.called, ""))[0]
    subsets = count(comb(available, k), "subset")
    what = (
        f"branch and bound over the {subsets} of {k} of {count(available, kind)}, each by {inner}"
    )
    why = f"at most {count(limit.k, kind)} may have weight, and the best are to be proven so"
    return Decision(what, why, (f"max_{kind}s", "tol", "callbacks"))


def _solver(chain: list[Solver], run: RunState, request: Request) -> Decision:
    if isinstance(chain[0], BranchAndBound):
        return _search(chain[0], run)
    last = next(one for one in chain if not isinstance(one, FromFactors | FromIterate | FromPoints))
    if isinstance(last, FromKernels | WorkingSet):
        last = last.solver
    what, why = _VARIANTS.get(type(last), (last.called, ""))
    options = ("solver", "p")
    if isinstance(request.solver, Solver) or request.solver != "auto":
        return Decision(what, f"solver={request.solver!r} was asked for", options)
    if isinstance(chain[0], FromPoints):
        after = chain[0].last
        if after is not None:
            after = after.specialize(run)
            what += f", and {_VARIANTS.get(type(after), (after.called, ''))[0]} if that takes long"
        return Decision(what, "from good weights it needs the fewest SVMs of all points", options)
    return Decision(what, why or rule_for(run).when, options)


_ROOM = "a combined kernel and the products of all kernels with all points fit into memory"
_NARROW = "the factors have fewer columns than half the points"
_VARIANTS: dict[type, tuple[str, str]] = {
    Sequential: (
        "Newton's method by sequential quadratic programming",
        f"the weights are on the simplex (p = 1), and {_ROOM}",
    ),
    OneSVM: ("one SVM", "p = inf or a single kernel: the weights do not depend on the data"),
    Newton: ("Newton's method on the dual", f"the regularizer has a smooth conjugate, and {_ROOM}"),
    PrimalNewton: (
        "Newton's method on the primal, in the space of the factors",
        f"{_NARROW}, and the loss is smooth",
    ),
    Multipliers: (
        "the method of multipliers in the space of the factors",
        "the factors have few columns for so many points, and the loss has corners",
    ),
    Interior: (
        "an interior-point method in the space of the factors",
        f"{_NARROW}, and the loss has corners",
    ),
    DistributedNewton: (
        "Newton's method in rounds over the workers",
        "the factors of the points are on other machines",
    ),
}


def _parts(solver: Solver, run: RunState) -> Iterable[Decision]:
    table = thresholds()
    if isinstance(solver, FromPoints):
        sizes = solver.sizes(run.bank.n)
        what = " and then ".join(f"a sample of {size:,} points" for size in sizes)
        what += f", from {solver.starts} starts" if solver.starts > 1 else ""
        least = sample_size(run.bank)[1]
        why = f"there are at least {least:,} points, and a sample tells the weights"
        yield Decision(what, why, ("solver",))
    if isinstance(solver, FromFactors):
        width, least = run.bank.exact_factors().width, table.points_per_exact_column
        why = f"there are at least {least} points for each of the {count(width, 'column')}"
        yield Decision("the space of the kernels' own factors", why, ("solver",))
    if isinstance(solver, WorkingSet):
        why = f"there are at least {table.kernels_for_part:,} kernels, of which few get weight"
        yield Decision("working sets of the kernels", why, ("solver",))
    if isinstance(solver, FromKernels):
        why = f"there are at least {table.kernels_for_part:,} kernels, and a sample is a good start"
        yield Decision("a sample of the kernels", why, ("solver",))


def _machine(run: RunState) -> Decision:
    kind, n = run.machine_kind, run.bank.n
    if kind == "factors":
        return Decision("systems of equations in the space of the factors")
    if kind == "device":
        least = thresholds().copied_kernel_points
        return Decision("SMO on the device", f"there are more than {least:,} points")
    size = megabytes(n**2 * run.bank.dtype.itemsize)
    points = f"{thresholds().factorized_points:,} points, and the loss has no corners"
    if _uses_gradients(run):
        what = f"Newton's method by conjugate gradients on a combined kernel in memory, {size}"
        return Decision(what, f"there are more than {points}")
    if kind == "dense" and run.is_factorized:
        what = f"systems of equations with a combined kernel in memory, {size}, factorized"
        return Decision(what, f"there are at most {points}")
    if kind == "dense":
        return Decision(f"SMO on a combined kernel in memory, {size}", "it fits the memory budget")
    return Decision(
        "SMO on working sets, rows of the combined kernel on demand",
        f"the combined kernel, {size}, is over the memory budget of {megabytes(run.memory_budget)}",
        ("cache_size",),
    )


def _uses_gradients(run: RunState) -> bool:
    """True if systems of equations are solved by conjugate gradients."""
    return run.machine_kind == "dense" and run.problem.is_system and not run.is_factorized


def problems_of(batch: Batch) -> Decision:
    """The decision of a plan on several problems."""
    what = count(batch.count, "problem") + (f" ({batch.what})" if batch.what else "")
    if batch.count == 1:
        return Decision(what, "", batch.options)
    if batch.at_once > 1:
        why = "passes over the kernels serve all of them"
        if "starts" in batch.what:
            why = "there are cores and memory for a kernel each"
        return Decision(
            f"{what}, up to {min(batch.at_once, batch.count)} side by side",
            why,
            ("cache_size", *batch.options),
        )
    return Decision(f"{what}, one after the other", "", batch.options)


def _held_bytes(bank: Any) -> int:
    """Bytes that all problems share: matrices or factors."""
    bank = _inmost(bank)
    if bank.is_remote:
        return 0
    if bank.by_blocks and not bank.factored:
        return int(min(bank.nbytes, bank.budget))
    if bank.factored or isinstance(bank, ProductFeatureBank):
        return int(bank.n * bank.points.width * bank.dtype.itemsize)
    return gram_bytes(bank) if _holds(bank) else 0


def _memory(run: RunState, chain: list[Solver]) -> int:
    """Bytes of what one problem holds: combined kernels and products, or systems of equations."""
    outputs, n, bank = len(run.problem.targets), run.bank.n, run.bank
    if run.machine_kind == "factors":
        return int(8 * outputs * (2 * bank.points.width**2 + 4 * n))
    is_second_order = any(isinstance(one, Newton | Sequential) for one in chain)
    # the combined kernel, its Hessian, and copies of both while they are added up
    kernel = run.kernel_bytes * (4 if is_second_order else 2)
    products = 2 * 8 * bank.m * outputs * n if is_second_order else 0
    if bank.is_sum and bank.streams:
        products = min(products, 8 * bank.sweep_parts * (outputs * n) ** 2)
    vectors = 80 * bank.m + 80 * outputs * n
    return int(min(kernel, run.memory_budget) + min(products, run.memory_budget) + vectors)
