"""Checkpoints: the best weights and coefficients so far, on disk while a fit runs, and taken up
again by the next one.

The file ``run.mk`` is always whole: a new one takes its place in one step, and the one before stays
as ``run.mk.previous``. A fit has one section per problem that it solves: for each output that has
weights of its own, for each start of a combination.
"""

import math
import os
import signal
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._callers import user_stacklevel
from .._files import CannotWrite, CorruptFile, read, write
from ..result import Resumed, Status

EVERY = 30.0
ENDS = ("", *Status.__members__)


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often a fit keeps what it has; ``checkpoint="run.mk"`` is short for
    ``Checkpoint("run.mk")``.

    Parameters
    ----------
    path : path
    every : float
        Seconds between two writes at least. The end of a fit, Ctrl-C and SIGTERM are always
        written.
    """

    path: str | os.PathLike[str]
    every: float = EVERY


class OtherProblem(ValueError):
    """A checkpoint of other data or other parameters."""


class Section(NamedTuple):
    """What is known of one problem.

    Attributes
    ----------
    weights, beta : (m,) and (t, n)
    iteration, gap, seconds : of all runs so far
    ended : str
        The name of the Status of a run that ended, or nothing.
    tol, solver : float, str
        Of the run.
    """

    weights: np.ndarray
    beta: np.ndarray
    iteration: int
    gap: float
    seconds: float
    ended: str = ""
    tol: float = 0.0
    solver: str = ""

    def status(self, tol, solver):
        """How the problem ended, if the solver and the tolerance would end it there again; None
        otherwise.
        """
        status = Status[self.ended] if self.ended else None
        if (
            status is None
            or not status.converged
            or status is Status.OPTIMAL
            or self.tol > tol
            or self.solver != solver
        ):
            return None
        return status

    @property
    def empty(self):
        """Whether nothing was found yet: the run was ended before its first SVM."""
        return not self.beta.any() and not (self.ended and Status[self.ended].converged)

    @property
    def resumed(self):
        return Resumed(self.iteration, self.gap, self.seconds)


class Keeper:
    """A file that keeps what a long computation has come to.

    Parameters
    ----------
    checkpoint : Checkpoint, or the path
    marks : mapping from name to text
        What the computation is; a file with other marks is refused.
    """

    kind = "checkpoint"

    def __init__(self, checkpoint, marks):
        checkpoint = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        self.path = Path(os.path.realpath(checkpoint.path))
        self.every, self.marks = checkpoint.every, marks
        self.previous = self.path.with_name(self.path.name + ".previous")
        self._written, self._rotate = time.monotonic(), True

    def open(self):
        """Read what an earlier computation has left; without one, write an empty file, so that a
        bad path shows before any work.
        """
        found = self._found()
        if found is None:
            return self._write()
        try:
            marks = self._adopt(*found)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise CorruptFile(
                f"{self.path} does not hold a sound checkpoint ({error!r}); delete it."
            ) from None
        return self._check(marks)

    def _adopt(self, arrays, content):
        """Take over the content of a file; the marks in it."""
        raise NotImplementedError

    def _content(self):
        """Arrays by name and what JSON can hold, for `_adopt`."""
        raise NotImplementedError

    def _found(self):
        """Content of the file, or of the one before if that is all there is."""
        if not (self.path.exists() or self.previous.exists()):
            return None
        try:
            return read(self.path, self.kind)
        except FileNotFoundError:
            damage = f"{self.path} is not there."
        except CorruptFile as error:
            damage = error
            self._rotate = False  # what is damaged does not take the place of the one before
        try:
            found = read(self.previous, self.kind)
        except (CorruptFile, FileNotFoundError):
            raise CorruptFile(
                f"{damage} To begin anew, delete {self.path} or give another path for checkpoint."
            ) from None
        warnings.warn(
            f"{damage} Going on from the checkpoint before it, {self.previous}.",
            stacklevel=user_stacklevel(),
        )
        return found

    def _check(self, marks):
        """Raise if the file belongs to another problem."""
        other = sorted(
            name
            for name in marks.keys() | self.marks.keys()
            if marks.get(name) != self.marks.get(name)
        )
        if other:
            raise OtherProblem(
                f"The checkpoint {self.path} belongs to another problem: {', '.join(other)} "
                "changed since. Delete it to begin "
                "anew, or give another path for checkpoint."
            )

    @property
    def is_time(self):
        """Whether the last write was long ago."""
        return time.monotonic() - self._written >= self.every

    def write(self):
        """Write everything; a disk that is full now may not be so at the next time, and is no
        reason to lose a fit.
        """
        try:
            self._write()
        except CannotWrite as error:
            self._written = time.monotonic()
            warnings.warn(
                f"The checkpoint could not be written. {error.strerror}",
                stacklevel=user_stacklevel(),
            )

    def _write(self):
        arrays, content = self._content()
        write(self.path, arrays, content, self.kind, self.previous if self._rotate else None)
        self._written, self._rotate = time.monotonic(), True


class Journal(Keeper):
    """The checkpoint of one fit; its marks are the `fingerprint` of the problem.

    Attributes
    ----------
    sections : dict of Section
    notes : dict
        JSON-able; whatever else the next fit should know.
    """

    def __init__(self, checkpoint, marks):
        super().__init__(checkpoint, marks)
        self.sections, self.notes = {}, {}
        self._latest, self._pending = None, False

    def section(self, name, shapes):
        """What is known of a problem whose weights and coefficients have these shapes; None if
        there is nothing.
        """
        section = self.sections.get(name)
        if section is None or section.empty:
            return None
        if (section.weights.shape, section.beta.shape) != shapes:
            raise CorruptFile(
                f"{self.path} holds weights or coefficients of another shape; delete it."
            )
        return section

    def keep(self, name, iterate, record, before):
        """Remember the best iterate of a section, and write it if it is time; `before` is a Resumed
        or None.
        """
        if iterate is not self._latest:
            self._latest, self._pending = iterate, True
            self.sections[name] = _section(iterate, record.iteration, record.seconds, before)
        if self._pending and self.is_time:
            self.write()

    def save(self):
        """Write what was not written yet."""
        if self._pending:
            self.write()

    def finish(self, name, result, tol, solver, before):
        """Write the outcome of a section."""
        section = _section(result, result.n_iter, result.counters.seconds, before)
        self.sections[name] = section._replace(
            ended=result.status.name, tol=float(tol), solver=solver
        )
        self.write()

    def _adopt(self, arrays, content):
        marks, self.notes, self.sections = _parts(arrays, content)
        return marks

    def _content(self):
        arrays, numbers = {}, {}
        for name, section in self.sections.items():
            arrays |= {f"{name} weights": section.weights, f"{name} beta": section.beta}
            rest = section._asdict() | {"gap": section.gap if math.isfinite(section.gap) else None}
            numbers[name] = {
                key: value for key, value in rest.items() if key not in ("weights", "beta")
            }
        return arrays, {"marks": self.marks, "notes": self.notes, "sections": numbers}

    def _write(self):
        super()._write()
        self._pending = False


def _parts(arrays, content):
    """Marks, notes and sections of a file."""
    sections = {}
    for name, numbers in content["sections"].items():
        numbers = {**numbers, "gap": math.inf if numbers["gap"] is None else numbers["gap"]}
        sections[name] = Section(arrays[f"{name} weights"], arrays[f"{name} beta"], **numbers)
        sound = all(
            isinstance(numbers[key], (int, float)) for key in ("iteration", "gap", "seconds", "tol")
        )
        if not sound or numbers["ended"] not in ENDS or not isinstance(numbers["solver"], str):
            raise ValueError(f"section {name!r} is not as it should be")
    return dict(content["marks"]), dict(content["notes"]), sections


def _section(point, iteration, seconds, before):
    """The section of an Iterate or a Result."""
    before = before or Resumed(0, math.inf, 0.0)
    return Section(
        point.weights,
        point.beta,
        iteration + before.iteration,
        float(point.certificate.gap),
        seconds + before.seconds,
    )


# --- SIGTERM as a second Ctrl-C, where the system has it ------------------------------------------


class Termination:
    """While this context is entered, SIGTERM raises KeyboardInterrupt in the main thread, once: a
    second signal must not disturb what is written then.

    Does nothing in other threads, which cannot handle signals, or where there are none.

    Attributes
    ----------
    came : bool
        Whether the signal came.
    """

    def __init__(self):
        self.came, self._before = False, None

    def __enter__(self):
        if hasattr(signal, "SIGTERM") and threading.current_thread() is threading.main_thread():
            # what was there before may be None: a handler that Python did not set
            self._before = signal.signal(signal.SIGTERM, self._end) or signal.SIG_DFL
        return self

    def __exit__(self, *_):
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
            self._before = None

    def _end(self, *_):
        if not self.came:
            self.came = True
            raise KeyboardInterrupt

    def leave(self):
        """End the process, if the signal came, with the code that it is known by."""
        if self.came:
            raise SystemExit(128 + signal.SIGTERM)

    def farewell(self, path):
        """The same with a word on where to go on."""
        if self.came:
            print(
                f"Terminated. What was reached is in the checkpoint {path}; run again to go on.",
                file=sys.stderr,
                flush=True,
            )
            self.leave()
