"""Ctrl-C and SIGTERM, while a command starts and while it works."""

import contextlib
import os
import signal
import threading

BROKEN_PIPE = 141  # the exit code of what SIGPIPE ends
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}


def answered():
    """The signals that this thread may answer; jobs in the background ignore Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in WORDS if signal.getsignal(number) is not signal.SIG_IGN]


def leave(number, frame):
    """End the process at once, with a sentence."""
    os.write(2, f"{WORDS[number]} while starting: nothing was written.\n".encode())
    os._exit(128 + number)


@contextlib.contextmanager
def starting():
    """A signal ends the process at once. For imports: a KeyboardInterrupt in the midst of one may
    be swallowed there, or come out as another error.
    """
    before = {number: signal.signal(number, leave) for number in answered()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Signals:
    """SIGTERM is answered like Ctrl-C: what was learned so far is kept. Contexts may lie within
    each other.

    Attributes
    ----------
    came : int or None
        The latest signal.
    """

    came = None

    def __enter__(self):
        self._before = {}
        for number in answered():
            self._before[number] = signal.signal(number, self._stop)
        return self

    def _stop(self, number, frame):
        self.came = number
        before = self._before[number]
        if callable(before) and before is not leave:
            before(number, frame)
        raise KeyboardInterrupt

    def __exit__(self, *_):
        for number, before in self._before.items():
            signal.signal(number, DEFAULTS[number] if before is leave else before)
