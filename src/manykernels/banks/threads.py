"""Threads for the loops over tiles."""

import os
from concurrent.futures import ThreadPoolExecutor

from joblib import cpu_count


def thread_count(n_jobs=None):
    """Threads to use: scikit-learn's meaning of n_jobs, except that None means every core this process may use.

    As for scikit-learn's own threaded loops, ``OMP_NUM_THREADS`` lowers that number; joblib sets it in its workers, so
    that a parallel grid search does not ask for more threads than there are cores.
    """
    available = cpu_count()
    if n_jobs is None:
        limit = os.environ.get("OMP_NUM_THREADS", "")
        return max(1, min(available, int(limit))) if limit.isdigit() else available
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; use None for all cores, or a number.")
    return n_jobs if n_jobs > 0 else max(1, available + 1 + n_jobs)


class Threads:
    """Runs a function over tasks, the longest wait being one task; pickles as a number."""

    def __init__(self, count):
        self.count = count
        self._pool = None

    def map(self, function, tasks):
        tasks = list(tasks)
        if self.count == 1 or len(tasks) <= 1:
            return [function(task) for task in tasks]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count)
        futures = [self._pool.submit(function, task) for task in tasks]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:  # nothing waits for the rest after an error or Ctrl-C
                future.cancel()

    def __getstate__(self):
        return {"count": self.count, "_pool": None}
