"""What all approximations share: an estimate before the work, blocks, and memory maps."""

import os
import sys
import tempfile
import warnings
from abc import ABC, abstractmethod

import numpy as np
from threadpoolctl import threadpool_limits

from .._callers import outside
from .._threads import Threads, thread_count
from ..banks.factors import FactorBank
from ..kernels.points import as_points

MEGABYTE = 2**20
FLOPS = 2e10  # of a core, for the estimate of time only


class Approximation(ABC):
    """Turns a collection of kernels into a bank of factors.

    Subclasses are dataclasses with the fields ``rank``, ``random_state`` and ``folder``.
    """

    @abstractmethod
    def features(self, kernels, X, dtype, threads):
        """The FeatureMap for kernels on the training points X; `threads` are there to share out the
        kernels.
        """

    def estimate(self, n, m, itemsize):
        """Bytes of the factors, and seconds to compute them on one core, before anything is
        computed.
        """
        rank = min(self.rank, n)
        return n * m * rank * itemsize, 2.0 * n * m * rank * rank / FLOPS

    def fit(self, kernels, X, *, dtype=np.float32, n_jobs=None, memory_budget=2**32, verbose=0):
        """The bank of factors on the training points.

        Parameters
        ----------
        kernels : KernelsOnPoints
        X : points
        memory_budget : int
            Bytes that factors in memory may take; with a ``folder`` they are memory-mapped there
            instead.
        """
        X = as_points(X)
        needed, seconds = self.estimate(X.shape[0], kernels.m, np.dtype(dtype).itemsize)
        if needed > memory_budget and self.folder is None:
            raise ValueError(
                f"The factors of {kernels.m} kernels on {X.shape[0]} points may take "
                f"{needed / MEGABYTE:.0f} MB (and some "
                f"{seconds:.0f} s to compute), which is over the memory budget of "
                f"{memory_budget / MEGABYTE:.0f} MB: lower the "
                "rank, raise cache_size, or give the approximation a folder for a memory-mapped "
                "file."
            )
        threads = Threads(thread_count(n_jobs))
        # our threads share out the kernels, and then the points
        with threadpool_limits(1, user_api="blas"):
            features = self.features(kernels, X, dtype, threads)
        if features.width > X.shape[0]:
            warnings.warn(
                f"The factors have {features.width} columns in all, more than the {X.shape[0]} "
                "points: without an "
                "approximation training would be exact, and probably faster.",
                stacklevel=outside(),
            )
        out = None
        size = X.shape[0] * features.width * np.dtype(dtype).itemsize
        if size > memory_budget:
            out = _mapped(self.folder, (X.shape[0], features.width), dtype, size)
        progress = _bar(X.shape[0], verbose)
        with threadpool_limits(1, user_api="blas"):
            factors = features.transform(X, out, threads, progress)
        return FactorBank(factors, features.offsets, features, threads)


def check_rank(rank):
    if not isinstance(rank, (int, np.integer)) or rank < 1:
        raise ValueError(f"rank must be a whole number of at least 1, got {rank!r}.")


def _mapped(folder, shape, dtype, size):
    """An array in a file without a name."""
    with tempfile.TemporaryFile(dir=folder) as file:
        # a full disk fails here, before any work, and not in the middle of it
        os.posix_fallocate(file.fileno(), 0, size)
        return np.memmap(file, dtype=dtype, shape=shape, mode="r+")


def _bar(n, verbose):
    """A line that says how many points are done, on a terminal, or printed if verbose is above one;
    None for silence.
    """
    if not verbose or (verbose == 1 and not sys.stderr.isatty()):
        return None
    stream = sys.stderr if verbose == 1 else sys.stdout

    def progress(done):
        print(
            f"\rfactors {100 * done // n:3d} %",
            end="\n" if done == n else "",
            flush=True,
            file=stream,
        )

    return progress
