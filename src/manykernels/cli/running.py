"""How a command ends: exit codes, errors as one line, Ctrl-C and SIGTERM."""

import functools
import inspect
import os
import signal
import sys
import threading
import warnings
from typing import Annotated

import typer

FINE, WRONG, NOT_CONVERGED, INTERRUPTED, TERMINATED = 0, 1, 3, 130, 143
EXPECTED = (
    ValueError,
    TypeError,
    OSError,
    ImportError,
    MemoryError,
    NotImplementedError,
    FloatingPointError,
)

Debug = Annotated[
    bool, typer.Option("--debug", help="Show where an error comes from.", rich_help_panel="Output")
]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON object, and nothing else on the standard output.",
        rich_help_panel="Output",
    ),
]


def ends_well(command):
    """The command with an option ``--debug``, its errors on one line, and the exit code that it
    returns.
    """

    @functools.wraps(command)
    def run(*, debug, **options):
        with _Signals() as signals, warnings.catch_warnings():
            warnings.showwarning = _show_warning
            try:
                code = command(**options) or FINE
            except KeyboardInterrupt:
                code = TERMINATED if signals.terminated else INTERRUPTED
                note("interrupted")
            except (typer.Exit, typer.BadParameter):
                raise
            # whoever reads has had enough, as in "manykernels predict … | head"
            except BrokenPipeError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                code = WRONG
            except Exception as error:
                if debug:
                    raise
                note(f"error: {_one_line(error)}")
                code = WRONG
        raise typer.Exit(code)

    signature = inspect.signature(command)
    parameter = inspect.Parameter(
        "debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug
    )
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), parameter])
    run.__annotations__ = {**command.__annotations__, "debug": Debug}
    return run


def note(text):
    """Print a line on the standard error."""
    print(text, file=sys.stderr, flush=True)


def _one_line(error):
    text = " ".join(str(error).split()) or type(error).__name__
    return (
        text
        if isinstance(error, EXPECTED)
        else f"{type(error).__name__}: {text} (--debug shows where)"
    )


def _show_warning(message, category, *_, **__):
    """A warning as one line; that a run did not converge is said in its summary."""
    if category.__name__ != "ConvergenceWarning":
        note(f"warning: {' '.join(str(message).split())}")


class _Signals:
    """SIGTERM is answered like Ctrl-C: what was learned so far is kept."""

    terminated = False

    def __enter__(self):
        self._ours = threading.current_thread() is threading.main_thread()
        if self._ours:
            self._before = signal.signal(signal.SIGTERM, self._stop)
        return self

    def _stop(self, *_):
        self.terminated = True
        raise KeyboardInterrupt

    def __exit__(self, *_):
        if self._ours:
            signal.signal(signal.SIGTERM, self._before)
