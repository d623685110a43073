"""Callbacks: objects that are told how a fit goes on, and may end it.

An estimator's ``callbacks`` is a list of objects with any of the methods of `Callback`, or of plain
functions of a `Record`.
"""

import logging
import math
import numbers
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ._log import logger as library_logger
from .result import Record, Result, describe_record

__all__ = ["Callback", "EarlyStop", "Lines", "Log", "Progress"]

HOOKS = ("on_fit_begin", "on_iteration", "on_tick", "on_fit_end")


class Callback:
    """The methods that a callback may have; each is optional."""

    def on_fit_begin(self, estimator: Any) -> None:
        """Called once, when the data are read and the kernels are ready."""

    def on_iteration(self, estimator: Any, record: Record) -> bool | None:
        """Called with the `manykernels.result.Record` of every iteration; return True to end the
        fit.

        The fit then keeps the best weights so far, and ``result_.status`` says STOPPED.
        """

    def on_tick(self, estimator: Any) -> bool | None:
        """Called several times a second while an iteration is under way; return True to end the
        fit, which keeps what it has come to.
        """

    def on_fit_end(self, estimator: Any, result: Result | None) -> None:
        """Called once, with the `Result`, or with None if the fit failed."""


class EarlyStop(Callback):
    """Ends a fit that takes too long or gets no further.

    Parameters
    ----------
    seconds : float, optional
        From when the kernels are ready, for all outputs and starts together.
    patience : int, optional
        Iterations without progress.
    decrease : float
        Progress is a relative decrease of the gap (of the objective, where there is no gap) of at
        least this.

    Raises
    ------
    ValueError
        If one of them is negative or NaN.
    """

    def __init__(
        self, seconds: float | None = None, patience: int | None = None, decrease: float = 0.01
    ) -> None:
        for name, value in (("seconds", seconds), ("patience", patience), ("decrease", decrease)):
            if value is not None and not (isinstance(value, numbers.Real) and value >= 0):
                raise ValueError(f"{name} must be a number of at least 0, got {value!r}.")
        self.seconds, self.patience, self.decrease = seconds, patience, decrease

    def on_fit_begin(self, estimator: Any) -> None:
        self._began = time.perf_counter()
        self._stage: str | None = None
        self._best, self._waited = math.inf, 0

    def on_tick(self, estimator: Any) -> bool:
        return self.seconds is not None and time.perf_counter() - self._began >= self.seconds

    def on_iteration(self, estimator: Any, record: Record) -> bool:
        return self.on_tick(estimator) or (
            self.patience is not None and self._stuck(record, self.patience)
        )

    def _stuck(self, record: Record, patience: int) -> bool:
        """True after so many iterations without progress."""
        value = record.gap if math.isfinite(record.gap) else record.objective
        if record.stage != self._stage:
            self._stage, self._best, self._waited = record.stage, math.inf, 0
        if math.isinf(self._best) or value < self._best - self.decrease * abs(self._best):
            self._best, self._waited = value, 0
        else:
            self._waited += 1
        return self._waited >= patience


class Log(Callback):
    """Writes every iteration to a logger.

    The result, too, but to the logger of the library, which has it in any case at the level INFO.

    Parameters
    ----------
    logger : logging.Logger or str
    level : int
    """

    def __init__(
        self, logger: str | logging.Logger = "manykernels", level: int = logging.INFO
    ) -> None:
        self.logger, self.level = logger, level

    def _log(self, text: str) -> None:
        self._own().log(self.level, text)

    def _own(self) -> logging.Logger:
        return logging.getLogger(self.logger) if isinstance(self.logger, str) else self.logger

    def on_fit_begin(self, estimator: Any) -> None:
        self._log(f"{type(estimator).__name__}: fit begins")

    def on_iteration(self, estimator: Any, record: Record) -> None:
        self._log(describe_record(record))

    def on_fit_end(self, estimator: Any, result: Result | None) -> None:
        if result is None:
            self._log(f"{type(estimator).__name__}: fit failed")
        elif self._own() is not library_logger or self.level != logging.INFO:
            self._log(str(result))


class Lines(Callback):
    """Prints a line per iteration on standard output."""

    def on_iteration(self, estimator: Any, record: Record) -> None:
        print(describe_record(record), flush=True)


def check_callbacks(callbacks: Any) -> None:
    """Raise unless the parameter is None or a list of callbacks."""
    if callbacks is None:
        return
    if not isinstance(callbacks, (list, tuple)):
        raise TypeError(
            f"callbacks must be a list of objects such as EarlyStop(seconds=60), got {callbacks!r}."
        )
    for callback in callbacks:
        if isinstance(callback, type) or not (callable(callback) or _has_hooks(callback)):
            raise TypeError(
                "A callback is a function of a Record or an object with a method "
                f"{', '.join(HOOKS)}, got {callback!r}."
            )


def _has_hooks(callback: Any) -> bool:
    return any(hasattr(callback, hook) for hook in HOOKS)


class Announcer:
    """Tells all callbacks of an estimator.

    Parameters
    ----------
    estimator : MKL estimator
    more : list of Callback
        Besides those of its parameters ``callbacks`` and ``verbose``.
    """

    def __init__(self, estimator: Any, more: Iterable[Any] = ()) -> None:
        shown = [] if not estimator.verbose else [Progress() if estimator.verbose == 1 else Lines()]
        self.estimator = estimator
        self.callbacks: list[Any] = [*(estimator.callbacks or ()), *shown, *more]
        self.begun: list[Any] = []

    def begin(self) -> None:
        """Call `Callback.on_fit_begin` of all."""
        for callback in self.callbacks:
            self.begun.append(callback)
            _call(callback, "on_fit_begin", self.estimator)

    def watch(self, stage: str) -> Callable[[Record], bool] | None:
        """A function that `drive` calls with each record of a stage; None if there is nobody to
        tell.
        """
        if not self.callbacks:
            return None

        def tell(record: Record) -> bool:
            record = record._replace(
                stage=", ".join(part for part in (stage, record.stage) if part)
            )
            # all of them hear of it
            answers = [_iteration(callback, self.estimator, record) for callback in self.callbacks]
            return any(answers)

        return tell

    @property
    def poll(self) -> Callable[[], bool] | None:
        """A function that says whether to end a run inside of an iteration; None if no callback
        asks for that.
        """
        asking = [callback for callback in self.callbacks if _asks(callback)]
        if not asking:
            return None
        return lambda: any(_is_true(callback.on_tick(self.estimator)) for callback in asking)

    def end(self, result: Result | None) -> None:
        """Call `Callback.on_fit_end` of those that were told of the beginning."""
        begun, self.begun = self.begun, []
        for callback in begun:
            _call(callback, "on_fit_end", self.estimator, result)


def _call(callback: Any, hook: str, *arguments: Any) -> None:
    if hasattr(callback, hook):
        getattr(callback, hook)(*arguments)


def _iteration(callback: Any, estimator: Any, record: Record) -> bool:
    """True if this callback wants to stop."""
    if hasattr(callback, "on_iteration"):
        answer = callback.on_iteration(estimator, record)
    else:
        answer = None if _has_hooks(callback) else callback(record)
    return _is_true(answer)


def _asks(callback: Any) -> bool:
    """True if a callback has an `on_tick` of its own."""
    own = getattr(callback, "on_tick", None)
    return own is not None and getattr(own, "__func__", own) is not Callback.on_tick


def _is_true(answer: Any) -> bool:
    """True if an answer is a true boolean, so that what a function happens to return does no
    harm.
    """
    return isinstance(answer, (bool, np.bool_)) and bool(answer)


# --- a live line on the terminal: how far a fit has come, and how long it may still take ----------

# Fall of the logarithm of the gap that tells of the time left: with a larger one it is told later.
LEAST_FALL = 0.01


class Progress:
    """One line on standard error that follows the fit; nothing where that is not a terminal.

    With rich installed there is a bar: how far the gap has come from its first value to the
    tolerance, on a logarithmic scale.
    """

    def on_fit_begin(self, estimator: Any) -> None:
        self._shown = _display() if sys.stderr.isatty() else None
        self._first: Record | None = None

    def on_iteration(self, estimator: Any, record: Record) -> None:
        if self._shown is None:
            return
        if self._first is None or record.iteration == 0:
            self._first, self._eta = record, TimeLeft(estimator.tol)
        self._shown.update(
            _share(self._first.gap, record.gap, estimator.tol),
            _line(record, self._eta.after(record)),
        )

    def on_fit_end(self, estimator: Any, result: Result | None) -> None:
        shown = getattr(self, "_shown", None)
        if shown is not None:
            shown.close()
            self._shown = None

    def __getstate__(self) -> dict[str, Any]:
        return {}  # a terminal stays where it is


class TimeLeft:
    """Seconds until the gap reaches the tolerance, if its logarithm goes on falling as in the last
    iterations.

    Parameters
    ----------
    tol : float
    window : int
        Iterations that count.
    """

    def __init__(self, tol: float, window: int = 10) -> None:
        self.tol, self.window = tol, window
        self.records: list[Record] = []

    def after(self, record: Record) -> float | None:
        """The estimate after one more record; None while there is nothing to tell it from."""
        if not (0.0 < record.gap < math.inf):
            return None
        self.records = [*self.records[-self.window :], record]
        first = self.records[0]
        fall, seconds = math.log(first.gap / record.gap), record.seconds - first.seconds
        if record.gap <= self.tol:
            return 0.0
        return math.log(record.gap / self.tol) * seconds / fall if fall > LEAST_FALL else None


def _line(record: Record, left: float | None) -> str:
    """A record in so few words that they fit into a line."""
    stage = f"{record.stage}: " if record.stage else ""
    value = (
        f"gap {record.gap:.1e}"
        if math.isfinite(record.gap)
        else f"objective {record.objective:.6g}"
    )
    counts = f"{record.kernels_used} kernels  {record.svm_solves} SVMs  {_duration(record.seconds)}"
    return f"{stage}step {record.iteration}  {value}  {counts}" + (
        "" if left is None else f" + {_duration(left)}"
    )


def _duration(seconds: float) -> str:
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.0f} h"


def _share(first: float, gap: float, tol: float) -> float:
    """The part of the way from the first gap to the tolerance, in logarithms."""
    if not (tol < first < math.inf and 0.0 < gap):
        return 0.0
    return min(max(math.log(first / gap) / math.log(first / tol), 0.0), 1.0)


def _display() -> "_RichDisplay | _PlainDisplay":
    try:
        return _RichDisplay()
    except ImportError:
        return _PlainDisplay()


class _PlainDisplay:
    """A line that is written over."""

    def __init__(self) -> None:
        self.width = 0

    def update(self, share: float, text: str) -> None:
        # a longer one would begin a new line every time
        text = text[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write("\r" + text.ljust(self.width))
        sys.stderr.flush()
        self.width = len(text)

    def close(self) -> None:
        if self.width:
            sys.stderr.write("\n")
            sys.stderr.flush()


class _RichDisplay:
    """A bar and a line, by rich; it draws only when it is told to."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self.live = Live(console=Console(stderr=True), auto_refresh=False)
        self.live.start()

    def update(self, share: float, text: str) -> None:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        grid = Table.grid(padding=(0, 1))
        grid.add_row(ProgressBar(total=1.0, completed=share, width=12), text)
        self.live.update(grid, refresh=True)

    def close(self) -> None:
        self.live.stop()
