"""The result of a run: weights, coefficients, certificate and history."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from ._html import result_html
from ._words import gap_in_words


class Status(Enum):
    """The end of a run; the value is the sentence for people."""

    OPTIMAL = "The relative duality gap is below the tolerance."
    STATIONARY = (
        "The projected gradient is below its tolerance (this formulation has no duality gap)."
    )
    FLAT = "The objective has stopped decreasing (this formulation has no duality gap)."
    FIXED_WEIGHTS = (
        "The kernel weights were set by a rule, not optimized; the gap says how much is left to "
        "gain."
    )
    ROUNDS = "All rounds of the schedule were played; the gap says how far they led."
    MAX_ITER = "The limit on iterations was reached."
    SLOW = "The gap falls too slowly for the tolerance to be worth waiting for."
    STALLED = "No further progress was possible in this precision."
    INSEPARABLE = (
        "Nothing was found that separates the classes without error, as a hard margin demands; use "
        "another loss."
    )
    STOPPED = "Stopped by a callback; these are the best weights so far."
    INTERRUPTED = "Interrupted; these are the best weights so far."

    @property
    def converged(self) -> bool:
        """True if the run came to its own end."""
        return self in (
            Status.OPTIMAL,
            Status.STATIONARY,
            Status.FLAT,
            Status.FIXED_WEIGHTS,
            Status.ROUNDS,
        )

    @property
    def broken_off(self) -> bool:
        """True if someone ended the run from outside."""
        return self in (Status.STOPPED, Status.INTERRUPTED)


class Certificate(NamedTuple):
    """Bounds on the optimal value: ``dual <= optimum <= primal``; the gap is relative to the primal
    value.

    ``dual`` is minus infinity and ``gap`` infinite for a formulation without a computable dual.
    ``rounding`` is the standard error that the precision of the kernels makes in either value.
    """

    primal: float
    dual: float
    gap: float
    intercept: np.ndarray
    rounding: float

    @property
    def absolute_gap(self) -> float:
        """Distance of the two bounds."""
        return self.primal - self.dual


@dataclass
class Counters:
    """Work of the solver: inner SVM problems solved, passes over all kernels, steps of the inner
    solver, seconds.
    """

    svm_solves: int = 0
    kernel_passes: int = 0
    machine_steps: int = 0
    seconds: float = 0.0

    def include(self, part: "Counters") -> None:
        """Add the work on a part of the problem; its passes are not over all kernels and points."""
        self.svm_solves += part.svm_solves
        self.machine_steps += part.machine_steps


class Record(NamedTuple):
    """One line of the history of a run.

    ``stage`` says what the run is a part of, for callbacks: one output of several, one start of
    several, a sample.
    """

    iteration: int
    objective: float
    gap: float
    svm_solves: int
    kernels_used: int
    seconds: float
    stage: str = ""


def describe_record(record: Record) -> str:
    """A record in words."""
    stage = f"{record.stage}: " if record.stage else ""
    return (
        f"{stage}iteration {record.iteration:4d}  objective {record.objective:.6g}  "
        + (f"gap {record.gap:.2e}  " if np.isfinite(record.gap) else "")
        + f"kernels {record.kernels_used}  SVM solves {record.svm_solves}  {record.seconds:.1f} s"
    )


class Resumed(NamedTuple):
    """The point at which a run was taken up again from a checkpoint: steps, relative gap and
    seconds of the runs before.
    """

    iteration: int
    gap: float
    seconds: float


class Missing(NamedTuple):
    """Assumptions on training rows that lack whole views.

    Attributes
    ----------
    rule : {"mean", "scaled"}
        Such a row is at the mean of the view in feature space; scaled, its other views count for
        those that it lacks.
    rows : int
        Training rows.
    incomplete : int
        Those that lack some view.
    lacking : dict from view to int
        Number of rows that lack it; without the views that all have.
    """

    rule: str
    rows: int
    incomplete: int
    lacking: dict[str, int]

    def __str__(self) -> str:
        if not self.incomplete:
            return f"no row lacks a view; new ones may ({self.rule!r})"
        views = ", ".join(f"{view} {count}" for view, count in self.lacking.items())
        return (
            f"{self.incomplete} of {self.rows} rows lack views ({views}) and are at their means "
            f"({self.rule!r})"
        )


def binomial_bound(successes: int, trials: int, confidence_level: float) -> float:
    """What a probability is at least, with such a confidence: the exact bound of Clopper and
    Pearson, on one side.
    """
    from scipy.stats import beta

    if successes == 0:
        return 0.0
    return float(beta.ppf(1.0 - confidence_level, successes, trials - successes + 1))


class Compression(NamedTuple):
    """What is known of a model that stands for one with more points (`manykernels.compress`).

    Attributes
    ----------
    points, points_before : int
        Of the expansions; those before are landmarks of a low-rank model, and zero for one without.
    kernels, kernels_before : int
        With weight.
    bytes, bytes_before : int or None
        Of the files of the models; None if they cannot be saved.
    rows : int
        Rows that were used for nothing but this judgment.
    agreeing : int
        Those with the same label, or with scores of a regression within the tolerance.
    training_rows : int
        How many of the rows are among the training rows that the model knew.
    difference, largest_difference : float
        Root mean square and largest size of the differences of the scores, in standard deviations
        of the model's scores.
    fitted : int
        Rows that points and coefficients were fitted at and chosen by, besides those of the model.
    kind : {"free", "support", "synthetic"}
        Of the points.
    """

    points: int
    points_before: int
    kernels: int
    kernels_before: int
    bytes: int | None
    bytes_before: int | None
    rows: int
    agreeing: int
    training_rows: int
    difference: float
    largest_difference: float
    fitted: int
    kind: str

    @property
    def agreement(self) -> float:
        """The share of the rows that agree."""
        return self.agreeing / self.rows

    def bound(self, confidence_level: float = 0.95) -> float:
        """What the share of rows that agree is at least, among all rows like these, with such a
        confidence: the exact binomial bound of Clopper and Pearson, on one side.

        Parameters
        ----------
        confidence_level : float
            Between 0 and 1.
        """
        return binomial_bound(self.agreeing, self.rows, confidence_level)

    def __str__(self) -> str:
        smaller = ""
        if self.bytes is not None and self.bytes_before is not None:
            smaller = f" and {self.bytes:,} of {self.bytes_before:,} bytes"
        before = f" of {self.points_before}" if self.points_before else ""
        return (
            f"{self.points}{before} points{smaller}; the same answer at "
            f"{self.agreement:.2%} of {self.rows} rows that were not used (at least "
            f"{self.bound():.2%} with 95 % confidence), scores differ by {self.difference:.2g} of "
            "their spread."
        )


class Subsets(NamedTuple):
    """How the best k kernels or groups were found.

    Attributes
    ----------
    kind : {"kernel", "group"}
        What is counted.
    k : int
        How many may have weight.
    available : int
        How many there are.
    total : int
        Subsets of k.
    ruled_out : int
        Those that were solved or bounded: no better than what was found by more than the tolerance.
    solved : int
        Problems that this took.
    """

    kind: str
    k: int
    available: int
    total: int
    ruled_out: int
    solved: int

    def __str__(self) -> str:
        found = "the best" if self.ruled_out == self.total else "the best found so far, at most"
        return (
            f"{found} {self.k} of {self.available} {self.kind}s: {self.ruled_out:,} of "
            f"{self.total:,} subsets solved or ruled out by {self.solved:,} problems"
        )


@dataclass(repr=False)
class Result:
    """Outcome of a run.

    Attributes
    ----------
    weights : (m,) kernel weights
    beta : (t, n) signed dual coefficients
    intercept : (t,)
    status : Status
    certificate : Certificate
    n_iter : int
    counters : Counters
    history : list of Record
    resumed : Resumed, optional
        Of a run that began from a checkpoint; counters and history are of this run alone.
    advice : str
        Where the run did not come to its own end: how far it came, and what to do.
    missing : Missing, optional
        Assumptions on rows that lack views, where they may.
    subsets : Subsets, optional
        Where the number of kernels or groups is limited: what was proven of the others. The
        certificate is then that of the problem with the limit.
    seconds : float
        Of the whole fit: of reading the table, of making kernels and of what was chosen on held-out
        rows, too. Of a result of `solve` those of the solver, which ``counters.seconds`` has in any
        case. Of the models of a path the first has what was prepared for all of them.
    carried : object
        What the method takes along to a run that begins here, None for most; not kept in files.
    """

    weights: np.ndarray
    beta: np.ndarray
    intercept: np.ndarray
    status: Status
    certificate: Certificate
    n_iter: int
    counters: Counters
    history: list[Record] = field(default_factory=list)
    resumed: Resumed | None = None
    advice: str = ""
    missing: Missing | None = None
    seconds: float = 0.0
    subsets: Subsets | None = None
    carried: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # a name is what every kind of file can hold
        return vars(self) | {"status": self.status.name, "carried": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # results that were kept by earlier versions have no advice
        absent = {"advice": "", "missing": None, "seconds": state["counters"].seconds}
        absent |= {"subsets": None, "carried": None}
        vars(self).update(absent | state, status=Status[state["status"]])

    def part(self, c: int) -> "Result":
        """The result of output c, where every output has its own weights or shares them."""
        weights = self.weights if self.weights.ndim == 1 else self.weights[c]
        beta, intercept = self.beta[c : c + 1], self.intercept[c : c + 1]
        return replace(self, weights=weights, beta=beta, intercept=intercept, carried=None)

    @property
    def message(self) -> str:
        """The end of the run in words and, if that was not its own end, what to do."""
        return f"{self.status.value} {self.advice}".strip()

    @property
    def objective(self) -> float:
        """The primal value."""
        return self.certificate.primal

    @property
    def duality_gap(self) -> float:
        """The relative duality gap."""
        return self.certificate.gap

    def _proven(self) -> str:
        """What is proven, in words: a gap, or that the end is stationary."""
        bound = gap_in_words(self.duality_gap)
        if np.isfinite(self.duality_gap) or self.status is not Status.STATIONARY:
            return bound
        return f"projected gradient below its tolerance ({bound})"

    def __str__(self) -> str:
        used = int(np.count_nonzero(self.weights))
        return (
            f"{self.status.name}: objective {self.objective:.6g}, {self._proven()}, "
            f"{used} of {self.weights.size} kernels, {self.n_iter} iterations, "
            f"{self.counters.svm_solves} SVM solves, "
            f"{self.seconds:.2f} s"
            + (f", resumed after {self.resumed.iteration} iterations" if self.resumed else "")
            + (f"; {self.missing}" if self.missing else "")
            + (f"; {self.subsets}" if self.subsets else "")
        )

    def __repr__(self) -> str:  # the arrays may have a million entries
        return f"<Result {self}>"

    def _repr_html_(self) -> str:
        return result_html(self)


def merged(results: Sequence[Result]) -> Result:
    """Separate problems as one: weights (t, m), sums of values and work, the worst status and the
    advice that goes with it.
    """
    certificates = [result.certificate for result in results]
    primal, dual = sum(c.primal for c in certificates), sum(c.dual for c in certificates)
    gap = (
        (primal - dual) / max(abs(primal), np.finfo(float).tiny) if np.isfinite(primal) else np.inf
    )
    intercept = np.concatenate([result.intercept for result in results])
    rounding = float(np.sqrt(sum(c.rounding**2 for c in certificates)))
    counters = Counters(
        *(
            sum(getattr(result.counters, name) for result in results)
            for name in vars(results[0].counters)
        )
    )
    worst = max(results, key=lambda result: list(Status).index(result.status))
    return Result(
        np.stack([result.weights for result in results]),
        np.concatenate([result.beta for result in results]),
        intercept,
        worst.status,
        Certificate(primal, dual, gap, intercept, rounding),
        max(result.n_iter for result in results),
        counters,
        [record for result in results for record in result.history],
        next((result.resumed for result in results if result.resumed), None),
        worst.advice,
        subsets=_added([result.subsets for result in results]),
        seconds=sum(result.seconds for result in results),
    )


def _added(subsets: Sequence[Subsets | None]) -> Subsets | None:
    """Those of separate problems together; None if there are none."""
    known = [one for one in subsets if one is not None]
    if not known:
        return None
    sums = {
        name: sum(getattr(one, name) for one in known) for name in ("total", "ruled_out", "solved")
    }
    return known[0]._replace(**sums)
