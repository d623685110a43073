"""Low-rank approximations of kernels: ``K_k ~ V_k V_k'`` with a few hundred columns each.

An approximation is given to an estimator (``approximation=Nystroem(rank=200)``). On the training data it becomes a
`FeatureMap`, which computes the factors of any points from landmarks (or frequencies) alone: after training, the data are not
needed.
"""

import os
import sys
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, solve_triangular
from sklearn.cluster import MiniBatchKMeans
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from .banks.factors import FactorBank
from .banks.threads import Threads, thread_count
from .kernels import RBF
from .kernels.points import as_points
from .kernels.vector import dense

ROWS = 4096  # points whose factors are computed together
CANDIDATES = 20_000  # points whose leverage is estimated
MEGABYTE = 2**20
FLOPS = 2e10  # of a core, for the estimate of time only
LANDMARKS = ("uniform", "kmeans", "leverage")


class FeatureMap(ABC):
    """From points to their factors.

    Attributes
    ----------
    offsets : (m + 1,) int
        Columns of each kernel.
    names, groups, normalise : of the kernels
    """

    def __init__(self, kernels, widths, dtype):
        self.names, self.groups, self.normalise = kernels.names, kernels.groups, kernels.normalise
        self.offsets = np.concatenate([[0], np.cumsum(widths)]).astype(np.intp)
        self.dtype = np.dtype(dtype)

    @property
    def width(self):
        return int(self.offsets[-1])

    @abstractmethod
    def block(self, X):
        """Factors of a few points, (len(X), width)."""

    def transform(self, X, out=None, threads=None, progress=None):
        """Factors of points, block by block, into ``out`` if it is given."""
        X = as_points(X)
        out = np.empty((X.shape[0], self.width), dtype=self.dtype) if out is None else out
        starts = range(0, X.shape[0], ROWS)

        def fill(start):
            out[start : start + ROWS] = self.block(X[start : start + ROWS])
            if progress is not None:
                progress(min(start + ROWS, X.shape[0]))

        (threads or Threads(1)).map(fill, starts)
        return out


class LandmarkMap(FeatureMap):
    """``V_k = K_k(x, landmarks) P_k``.

    Parameters
    ----------
    kernels : KernelsOnPoints
    landmarks : points
    projections : list of (n_landmarks of kernel k, width of kernel k) arrays
    chosen : list of index arrays, optional
        The landmarks of each kernel; all by default.
    """

    def __init__(self, kernels, landmarks, projections, dtype, chosen=None):
        super().__init__(kernels, [P.shape[1] for P in projections], dtype)
        self.kernels, self.landmarks, self.projections, self.chosen = kernels, landmarks, projections, chosen

    def block(self, X):
        out = np.empty((X.shape[0], self.width), dtype=self.dtype)
        values = self.kernels.between(X, self.landmarks).columns(np.arange(self.landmarks.shape[0]))
        for k, P in enumerate(self.projections):
            mine = values[k] if self.chosen is None else values[k][:, self.chosen[k]]
            out[:, self.offsets[k] : self.offsets[k + 1]] = mine @ P
        return out


class FourierMap(FeatureMap):
    """Cosines and sines of random frequencies: ``E[V_k V_k'] = K_k`` for Gaussians."""

    def __init__(self, kernels, columns, frequencies, scales, dtype):
        super().__init__(kernels, [2 * F.shape[1] for F in frequencies], dtype)
        self.columns, self.frequencies, self.scales = columns, frequencies, scales

    def block(self, X):
        out = np.empty((X.shape[0], self.width), dtype=self.dtype)
        for k, (columns, F, scale) in enumerate(zip(self.columns, self.frequencies, self.scales, strict=True)):
            angles = dense(X if columns is None else X[:, columns]) @ F
            size = np.sqrt(scale / F.shape[1])
            middle = self.offsets[k] + F.shape[1]
            out[:, self.offsets[k] : middle] = size * np.cos(angles)
            out[:, middle : self.offsets[k + 1]] = size * np.sin(angles)
        return out


class Approximation(ABC):
    """Turns a collection of kernels into a bank of factors.

    Subclasses are dataclasses with the fields ``rank``, ``seed`` and ``folder``.
    """

    @abstractmethod
    def features(self, kernels, X, dtype, threads):
        """The FeatureMap for kernels on the training points X; `threads` are there to share out the kernels."""

    def estimate(self, n, m, itemsize):
        """Bytes of the factors, and seconds to compute them on one core, before anything is computed."""
        rank = min(self.rank, n)
        return n * m * rank * itemsize, 2.0 * n * m * rank * rank / FLOPS

    def fit(self, kernels, X, *, dtype=np.float32, n_jobs=None, memory_budget=2**32, verbose=0):
        """The bank of factors on the training points.

        Parameters
        ----------
        kernels : KernelsOnPoints
        X : points
        memory_budget : int
            Bytes that factors in memory may take; with a ``folder`` they are memory-mapped there instead.
        """
        X = as_points(X)
        needed, seconds = self.estimate(X.shape[0], kernels.m, np.dtype(dtype).itemsize)
        if needed > memory_budget and self.folder is None:
            raise ValueError(
                f"The factors of {kernels.m} kernels on {X.shape[0]} points may take {needed / MEGABYTE:.0f} MB (and some "
                f"{seconds:.0f} s to compute), which is over the memory budget of {memory_budget / MEGABYTE:.0f} MB: lower the "
                "rank, raise cache_size, or give the approximation a folder for a memory-mapped file."
            )
        threads = Threads(thread_count(n_jobs))
        with threadpool_limits(1, user_api="blas"):  # our threads share out the kernels, and then the points
            features = self.features(kernels, X, dtype, threads)
        out = None
        size = X.shape[0] * features.width * np.dtype(dtype).itemsize
        if size > memory_budget:
            out = _mapped(self.folder, (X.shape[0], features.width), dtype, size)
        progress = _bar(X.shape[0], verbose)
        with threadpool_limits(1, user_api="blas"):
            factors = features.transform(X, out, threads, progress)
        return FactorBank(factors, features.offsets, features, threads)


@dataclass(frozen=True)
class Nystroem(Approximation):
    """Nyström's method with landmarks that all kernels share.

    Parameters
    ----------
    rank : int
        Columns of each factor at most.
    landmarks : {"uniform", "kmeans", "leverage"}
        Random points, centres of clusters (dense data), or random points drawn by their estimated ridge leverage.
    n_landmarks : int, optional
        As many as the rank by default. More of them give a better approximation of the same rank.
    cutoff : float
        Eigenvalues below this part of the largest are dropped: by default what float32 could not hold anyway.
    seed : int, RandomState or None
    folder : path, optional
        Where to map factors that are over the memory budget. The file has no name and is gone with the process.
    """

    rank: int = 200
    landmarks: str = "uniform"
    n_landmarks: int | None = None
    cutoff: float = 1e-7
    seed: object = 0
    folder: object = None

    def __post_init__(self):
        _check_rank(self.rank)
        if self.landmarks not in LANDMARKS:
            raise ValueError(f"landmarks={self.landmarks!r} is not known; use {', '.join(map(repr, LANDMARKS))}.")
        if self.n_landmarks is not None and self.n_landmarks < self.rank:
            raise ValueError(f"n_landmarks={self.n_landmarks!r} must be at least the rank, {self.rank}.")
        if not 0.0 <= self.cutoff < 1.0:
            raise ValueError(f"cutoff must be at least 0 and below 1, got {self.cutoff!r}.")

    def features(self, kernels, X, dtype, threads):
        Z = self._landmarks(kernels, X)
        W = kernels.between(Z, Z).columns(np.arange(Z.shape[0]))
        return LandmarkMap(kernels, Z, threads.map(self._projection, W), dtype)

    def _projection(self, W):
        """``L D^-1/2`` of the largest eigenvalues of a kernel on the landmarks."""
        values, vectors = eigh(0.5 * (W + W.T))
        values, vectors = values[::-1][: self.rank], vectors[:, ::-1][:, : self.rank]
        kept = values > max(self.cutoff, len(W) * np.finfo(float).eps) * max(values[0], np.finfo(float).tiny)
        return vectors[:, kept] / np.sqrt(values[kept])

    def _landmarks(self, kernels, X):
        rng, n = check_random_state(self.seed), X.shape[0]
        count = min(self.n_landmarks or self.rank, n)
        if self.landmarks == "uniform" or count == n:
            return X[np.sort(rng.choice(n, count, replace=False))]
        if self.landmarks == "kmeans":
            kernels.refuse_indices("landmarks='kmeans'")
            clusters = MiniBatchKMeans(count, random_state=rng, n_init=1, batch_size=max(4096, 4 * count))
            return clusters.fit(dense(X)).cluster_centers_
        return X[np.sort(_by_leverage(kernels, X, count, rng))]


@dataclass(frozen=True)
class IncompleteCholesky(Approximation):
    """Pivoted Cholesky factors: every kernel has landmarks of its own, each where the error is largest.

    For precomputed kernels and whatever has few points of its own; needs one column of a kernel per pivot.

    Parameters
    ----------
    rank : int
    tol : float
        Stop when the trace of the error is below this part of the trace.
    folder : path, optional
        See `Nystroem`.
    """

    rank: int = 200
    tol: float = 1e-6
    folder: object = None

    def __post_init__(self):
        _check_rank(self.rank)
        if not self.tol >= 0.0:
            raise ValueError(f"tol must not be negative, got {self.tol!r}.")

    def features(self, kernels, X, dtype, threads):
        pivots = [self._pivots(kernels.between(X, X, only=k), X.shape[0]) for k in range(kernels.m)]
        used = np.unique(np.concatenate(pivots)).astype(np.intp)
        Z = X[used]
        W = kernels.between(Z, Z).columns(np.arange(used.size))
        chosen = [np.searchsorted(used, own) for own in pivots]
        projections = [_inverse_factor(K[np.ix_(own, own)]) for K, own in zip(W, chosen, strict=True)]
        return LandmarkMap(kernels, Z, projections, dtype, chosen)

    def _pivots(self, bank, n):
        """Places of the pivots of one kernel."""
        left = bank.diagonal()[0].copy()
        total, factor, pivots = left.sum(), np.zeros((min(self.rank, n), n)), []
        while len(pivots) < len(factor) and left.sum() > self.tol * total and left.max() > 1e-12 * total / n:
            pivot, r = int(np.argmax(left)), len(pivots)
            row = bank.columns([pivot])[0][:, 0] - factor[:r, pivot] @ factor[:r]
            factor[r] = row / np.sqrt(left[pivot])
            left = np.maximum(left - np.square(factor[r]), 0.0)
            left[pivot] = 0.0
            pivots.append(pivot)
        return np.array(pivots, dtype=np.intp)


@dataclass(frozen=True)
class RandomFourier(Approximation):
    """Random Fourier features of Gaussians (Rahimi and Recht, 2007); the rank is twice the number of frequencies.

    Parameters
    ----------
    rank : int
    seed, folder
        See `Nystroem`.
    """

    rank: int = 200
    seed: object = 0
    folder: object = None

    def __post_init__(self):
        _check_rank(self.rank)

    def features(self, kernels, X, dtype, threads):
        rng, columns, frequencies = check_random_state(self.seed), [], []
        for k, kernel in enumerate(kernels.listed("random Fourier features")):
            if not isinstance(kernel, RBF):
                raise ValueError(
                    f"Random Fourier features are for RBF kernels, not {kernels.names[k]} (kernel {k}): use Nystroem."
                )
            columns.append(kernels.columns(k))
            size = X.shape[1] if columns[k] is None else len(columns[k])
            frequencies.append(np.sqrt(2.0 * kernel.gamma) * rng.standard_normal((size, max(1, self.rank // 2))))
        return FourierMap(kernels, columns, frequencies, kernels.scales, dtype)


def quality(bank, kernels, X, *, sample=512, seed=0):
    """How good the approximation is, on a random sample of the training points.

    Returns
    -------
    (m,) array
        ``|K_k - V_k V_k'|_F / |K_k|_F`` on the sample.
    """
    rows = np.sort(check_random_state(seed).choice(bank.n, min(sample, bank.n), replace=False))
    A = as_points(X)[rows]
    exact = kernels.between(A, A).columns(np.arange(rows.size))
    errors = []
    for k, K in enumerate(exact):
        V = bank.factors[rows, bank.offsets[k] : bank.offsets[k + 1]].astype(float)
        errors.append(np.linalg.norm(K - V @ V.T) / max(np.linalg.norm(K), np.finfo(float).tiny))
    return np.array(errors)


def coefficient_bound(exact, approximate, weights, cost):
    """Proposition 2 of Rakotomamonjy and Chanda: how far the dual coefficients of the two SVMs can be apart.

    ``|beta - beta'| <= sqrt(2 s / lambda_min(K_d))`` with ``s = |cost|^2 |K_d - K'_d|_F / 2``. For banks of a few thousand
    points; infinite where the exact kernel is singular.
    """
    K, approximated = (bank.combine(weights).astype(float) for bank in (exact, approximate))
    smallest = np.linalg.eigvalsh(K)[0]
    if smallest <= len(K) * np.finfo(float).eps * np.trace(K):
        return np.inf
    s = 0.5 * float(np.square(cost).sum()) * np.linalg.norm(K - approximated)
    return float(np.sqrt(2.0 * s / smallest))


def _check_rank(rank):
    if not isinstance(rank, (int, np.integer)) or rank < 1:
        raise ValueError(f"rank must be a whole number of at least 1, got {rank!r}.")


def _inverse_factor(W):
    """``L^-T`` with ``W = L L'``, for independent pivots; a little is added to the diagonal where rounding demands it."""
    scale = np.trace(W) / max(len(W), 1)
    for shift in (0.0, 1e-14, 1e-12, 1e-10, 1e-8):
        try:
            lower = np.linalg.cholesky(W + shift * scale * np.eye(len(W)))
        except np.linalg.LinAlgError:
            continue
        return solve_triangular(lower, np.eye(len(W)), lower=True).T
    raise np.linalg.LinAlgError("The pivots of a kernel are not independent: it is not positive semi-definite.")


def _by_leverage(kernels, X, count, rng):
    """Points drawn by the ridge leverage of the mean of the kernels, which a uniform sketch estimates."""
    n = X.shape[0]
    candidates = np.sort(rng.choice(n, min(n, max(CANDIDATES, 2 * count)), replace=False))
    sketch = X[np.sort(rng.choice(candidates, min(2 * count, candidates.size), replace=False))]
    uniform = np.full(kernels.m, 1.0 / kernels.m)
    K_ss = kernels.between(sketch, sketch).combine(uniform).astype(float)
    K_cs = kernels.between(X[candidates], sketch).combine(uniform).astype(float)
    diagonal = kernels.combined_diagonal(uniform, X[candidates])
    values = np.linalg.eigvalsh(K_ss)
    ridge = max(values[: max(len(values) - count, 1)].clip(0.0).sum() / count, 1e-10 * values[-1])
    explained = np.einsum("cs,cs->c", K_cs, np.linalg.solve(K_ss + ridge * np.eye(len(K_ss)), K_cs.T).T)
    leverage = np.maximum(diagonal - explained, 0.0) + 1e-12 * diagonal.max()
    return rng.choice(candidates, count, replace=False, p=leverage / leverage.sum())


def _mapped(folder, shape, dtype, size):
    """An array in a file without a name."""
    with tempfile.TemporaryFile(dir=folder) as file:
        os.posix_fallocate(file.fileno(), 0, size)  # a full disk fails here, before any work, and not in the middle of it
        return np.memmap(file, dtype=dtype, shape=shape, mode="r+")


def _bar(n, verbose):
    """A line that says how many points are done, on a terminal, or printed if verbose is above one; None for silence."""
    if not verbose or (verbose == 1 and not sys.stderr.isatty()):
        return None
    stream = sys.stderr if verbose == 1 else sys.stdout

    def progress(done):
        print(f"\rfactors {100 * done // n:3d} %", end="\n" if done == n else "", flush=True, file=stream)

    return progress
