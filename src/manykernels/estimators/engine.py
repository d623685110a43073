"""One engine for all problems over one set of kernels.

Whoever has models to train lists them as problems in waves: a fit (one problem, or one for every
output that has weights of its own), a path, a grid of C and p on folds, models without a group,
models of resampled rows. A problem of a later wave may begin where one of an earlier wave ended.
The engine solves each wave side by side, as many at once as the plan says, so that one pass over
the kernels serves all of them; where passes cannot be shared, each on a core of its own or one
after the other.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from .._threads import one_thread
from ..banks.wrappers.shared import PassBatcher, held

log = logging.getLogger("manykernels")


class BrokenOff(KeyboardInterrupt):
    """Ctrl-C, or a callback that wants an end, came while problems were solved."""


class Job(NamedTuple):
    """One problem.

    Attributes
    ----------
    key : hashable
        What the caller knows it by.
    work : callable
        Given a bank, solves the problem and returns what came of it.
    """

    key: Any
    work: Callable[[Any], Any]


class Engine:
    """Solves problems over one bank.

    Parameters
    ----------
    bank : Bank
    at_once : int
        Problems side by side, as the plan has it.
    shared : bool
        Whether problems share passes over the kernels. Those that do not are solved in threads of
        their own, if there may be several at once.
    memory_budget : int
        Bytes, of which Gram matrices may take a part where problems share them.
    verbose : int
        Above zero, a warning says that memory allows fewer problems at once than there are.

    Attributes
    ----------
    bank : Bank
        With Gram matrices in memory, where problems share them. Callers whose problems are solved
        one after the other may replace it by a finer one.
    stopped : threading.Event
        Set after Ctrl-C while problems are solved in threads of their own, which are to look at it.
    """

    def __init__(
        self,
        bank: Any,
        at_once: int = 1,
        shared: bool = False,
        memory_budget: int = 0,
        verbose: int = 0,
    ) -> None:
        self.bank, self.at_once, self.budget = bank, at_once, memory_budget
        self.verbose, self._batcher, self.stopped = verbose, None, threading.Event()
        if shared:
            self.bank = held(bank, memory_budget)
            self._batcher = PassBatcher(self.bank)

    def solve_all(self, waves: Iterable[Sequence[Job]]) -> Iterator[list[tuple[Any, Any]]]:
        """Solve problems; gives key and outcome of all that were solved together, as they come.

        Parameters
        ----------
        waves : iterable of lists of Job
            Taken one at a time, so that a wave may be made of what came of those before it.

        Raises
        ------
        BrokenOff
            After Ctrl-C, once what was finished has been given.
        """
        for wave in waves:
            for some in self._batches(wave):
                yield [
                    (job.key, outcome)
                    for job, outcome in zip(some, self._solved(some), strict=True)
                ]
                if self._batcher is not None and self._batcher.interrupted:
                    raise BrokenOff

    def _solved(self, jobs: Sequence[Job]) -> list[Any]:
        if self._batcher is not None:
            return self._batcher.run([job.work for job in jobs])
        if self.at_once == 1 or len(jobs) == 1:
            return [job.work(self.bank) for job in jobs]
        return self._in_threads(jobs)

    def _in_threads(self, jobs: Sequence[Job]) -> list[Any]:
        """The outcomes of problems that know nothing of each other, each in a thread."""
        # limits that threads set and take back at different times would not come back to what they
        # were
        with one_thread(), ThreadPoolExecutor(len(jobs)) as pool:
            running = [pool.submit(job.work, self.bank) for job in jobs]
            while True:
                try:
                    wait(running)
                    break
                except KeyboardInterrupt:
                    self.stopped.set()
        return [future.result() for future in running]

    def _batches(self, jobs: Sequence[Job]) -> list[Sequence[Job]]:
        """A wave in parts of about equal size that fit into memory."""
        if self._batcher is not None and self.at_once < len(jobs):
            self._say(len(jobs))
        count = -(-len(jobs) // self.at_once)
        return [jobs[number::count] for number in range(count)]

    def _say(self, problems: int) -> None:
        text = (
            f"Of {problems} problems that could run side by side, {self.at_once} at a time fit "
            f"into {self.budget / 2**20:.0f} MB (cache_size): they run in parts."
        )
        log.info(text)
        if self.verbose:
            print(text, file=sys.stderr, flush=True)
