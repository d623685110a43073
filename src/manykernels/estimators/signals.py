"""SIGTERM as a second Ctrl-C, where the system has it."""

import signal
import sys
import threading


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
