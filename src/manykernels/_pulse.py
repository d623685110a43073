"""How a long computation is ended from outside.

Inner loops call `pulse` between pieces of work of a fraction of a second. Whoever started the
computation may listen, and ends it by raising an exception from there. Ctrl-C needs no listener,
but the same pieces: Python raises KeyboardInterrupt between two calls of compiled code, not inside
of one.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PULSE_INTERVAL = 0.2  # seconds between two calls of a listener


class _Listener:
    """A listener that is called at most once in an interval, and not again once it has raised: what
    is reached by then is still to be judged.
    """

    def __init__(self, listener: Callable[[], None]) -> None:
        self.listener, self.due = listener, time.monotonic() + PULSE_INTERVAL

    def hear(self) -> None:
        if time.monotonic() >= self.due:
            self.due = math.inf
            self.listener()
            self.due = time.monotonic() + PULSE_INTERVAL


class _Computation(threading.local):
    """That of one thread. (A context variable would be handed on to the threads that a computation
    starts where Python has no global lock, and they would all call its listener.)
    """

    listener: _Listener | None = None


_here = _Computation()


def pulse() -> None:
    """Let the listener of this computation end it, if there is one."""
    listener = _here.listener
    if listener is not None:
        listener.hear()


def has_listener() -> bool:
    """Whether anybody listens to this computation."""
    return _here.listener is not None


@contextmanager
def listening(listener: Callable[[], None] | None) -> Iterator[None]:
    """A context in which a listener, or nobody, hears the pulse of this thread's computation,
    whoever listens outside: a fit inside of a callback is none of theirs.
    """
    before = _here.listener
    _here.listener = None if listener is None else _Listener(listener)
    try:
        yield
    finally:
        _here.listener = before
