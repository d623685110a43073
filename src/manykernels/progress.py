"""A live line on the terminal: how far a fit has come, and how long it may still take."""

import math
import shutil
import sys
from typing import Any

from .result import Record, Result

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
