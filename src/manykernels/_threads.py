"""Threads for the loops over tiles, and for factorizations that are to be interrupted."""

import numbers
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import numpy as np

from ._pulse import PULSE_INTERVAL, has_listener, pulse

CACHED = 2**19  # entries of rows that are computed together, so that they stay in cache
# Rows that are computed together at least: more may not stay in cache.
FEWEST_ROWS = 16
FEW_ENTRIES = 2**20  # that one thread computes in less time than others take to start

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


def thread_count(n_jobs: int | None = None) -> int:
    """Threads to use: scikit-learn's meaning of n_jobs, except that None means every core this
    process may use.

    As for scikit-learn's own threaded loops, ``OMP_NUM_THREADS`` lowers that number; joblib sets it
    in its workers, so that a parallel grid search does not ask for more threads than there are
    cores.
    """
    from joblib import cpu_count  # here: predicting a row needs neither it nor its time

    available = cpu_count()
    if n_jobs is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        return max(1, min(available, int(limit))) if limit.isdigit() else available
    if not isinstance(n_jobs, numbers.Integral) or n_jobs == 0:
        raise ValueError(
            f"n_jobs must be None for all cores, or a whole number other than 0, got {n_jobs!r}."
        )
    return int(n_jobs) if n_jobs > 0 else max(1, available + 1 + int(n_jobs))


def rows_at_once(columns: int) -> int:
    """Number of rows of so many columns to compute together."""
    return max(FEWEST_ROWS, CACHED // max(columns, 1))


class Threads:
    """Runs a function over tasks on a number of threads.

    The threads live as long as one call: starting them costs a tenth of a millisecond, and none are
    left behind to keep a model from being copied into another process.

    Parameters
    ----------
    count : int
    """

    def __init__(self, count: int) -> None:
        self.count = count

    def algebra(self) -> AbstractContextManager:
        """A context in which a single matrix operation may use all threads."""
        return MATRIX_LIBRARY.limited(self.count)

    def map(
        self,
        function: Callable[[Task], Outcome],
        tasks: Iterable[Task],
        entries: int | None = None,
    ) -> list[Outcome]:
        """``[function(task) for task in tasks]``.

        Parameters
        ----------
        function : callable
        tasks : iterable
        entries : int, optional
            Numbers that all tasks together compute, if that is known: few of them are there before
            threads have started.
        """
        tasks = list(tasks)
        few = entries is not None and entries < FEW_ENTRIES
        if few or self.count == 1 or len(tasks) <= 1:
            return [_followed_by_pulse(function(task)) for task in tasks]
        waiting: deque[int] = deque(range(len(tasks)))
        outcomes: list[Any] = [None] * len(tasks)

        def work() -> None:
            while waiting:
                try:
                    number = waiting.popleft()
                except IndexError:  # another thread was faster
                    return
                outcomes[number] = function(tasks[number])

        count = min(self.count, len(tasks))
        pool = ThreadPoolExecutor(count)
        try:
            for future in [pool.submit(work) for _ in range(count)]:
                _outcome(future)
        finally:  # after an error or Ctrl-C, nothing waits for the rest
            waiting.clear()
            pool.shutdown(wait=False, cancel_futures=True)
        return outcomes


def _followed_by_pulse(outcome: Outcome) -> Outcome:
    pulse()
    return outcome


def _outcome(future: "Future[Outcome]") -> Outcome:
    """The outcome of a task; while it is waited for, a listener hears the pulse."""
    while has_listener():
        try:
            return _followed_by_pulse(future.result(timeout=PULSE_INTERVAL))
        except NotYet:
            if future.done():  # the task itself raised it
                raise
            pulse()
    return future.result()


def one_thread() -> AbstractContextManager:
    """A context in which matrix operations use one thread: the work is shared out otherwise."""
    return MATRIX_LIBRARY.limited(1)


class _MatrixLibrary:
    """The number of threads of matrix operations.

    It is one for the whole process with most libraries. A context that ends puts back what it
    found, and if it began inside of one of another thread, that is what the other one had set: so
    after the last of contexts that overlap, what was before the first of them is put back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside, self._overlap = 0, False
        self._libraries: Any = None
        self._before: Any = None

    @contextmanager
    def limited(self, count: int) -> Iterator[None]:
        """A context in which matrix operations use so many threads."""
        with self._lock:
            if self._libraries is None:  # looks at every library of the process, which takes long
                from threadpoolctl import ThreadpoolController

                self._libraries = ThreadpoolController()
            if not self._inside:
                self._before, self._overlap = self._libraries.limit(limits=None), False
            self._inside, self._overlap = self._inside + 1, self._overlap or self._inside > 0
        try:
            with self._libraries.limit(limits=count, user_api="blas"):
                yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside and self._overlap:
                    with self._before:
                        pass

    def forked(self) -> None:
        """In a new process there are no other threads."""
        self.__init__()  # type: ignore[misc]


MATRIX_LIBRARY = _MatrixLibrary()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=MATRIX_LIBRARY.forked)


# --- factorizations of large matrices, during which Ctrl-C and callbacks are heard ----------------

# One call of LAPACK for 12,000 points takes half a minute on two cores, and nothing interrupts it.
# (The same in blocks of our own took 1.7 times as long.)
LARGEST_CALL = 4096  # rows of a matrix whose factorization, about a second, is waited for


def cholesky_factor(H: np.ndarray) -> tuple[Any, bool]:
    """The Cholesky factorization of a positive definite matrix, as `scipy.linalg.cho_solve` takes
    it: the lower triangle has the factor, the upper one anything.

    That of a large matrix is computed in a thread of its own, which is left to itself when this
    one is interrupted.

    Parameters
    ----------
    H : (n, n) float64 array
        Overwritten; in Fortran's order it is not copied.
    """
    from scipy.linalg import cho_factor

    if len(H) <= LARGEST_CALL:
        return cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
    outcome: list[Any] = []
    done = threading.Event()

    def work() -> None:
        try:
            outcome.append(cho_factor(H, lower=True, overwrite_a=True, check_finite=False))
        except BaseException as error:  # for who waits
            outcome.append(error)
        done.set()

    threading.Thread(target=work, daemon=True).start()
    while not done.wait(PULSE_INTERVAL):
        pulse()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]
