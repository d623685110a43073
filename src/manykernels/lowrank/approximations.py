"""The approximations to choose from: Nyström's method, Cholesky's with pivots, random Fourier
features; and how good they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, DTypeLike
from scipy.linalg import eigh, solve_triangular
from sklearn.utils import check_random_state

from .._threads import Threads
from ..banks import Bank, FactorBank, ResolvedKernels
from ..banks.lowrank.product import ProductFeatureBank, ProductMap
from ..banks.torch.device import Device
from ..banks.torch.product import DeviceProductFeatureBank
from ..banks.torch.tiled import kernel_values
from ..combinations import Product
from ..kernels import RBF
from ..kernels.points import as_points
from ..kernels.vector import dense
from .base import MEGABYTE, Approximation, check_rank
from .maps import FourierMap, LandmarkMap

# Points whose leverage is estimated. With more of them landmarks are chosen better, in more time.
LEVERAGE_CANDIDATES = 20_000
LANDMARKS = ("uniform", "kmeans", "leverage")


@dataclass(frozen=True)
class Nystroem(Approximation):
    """Nyström's method with landmarks that all kernels share.

    Parameters
    ----------
    rank : int
        Columns of each factor at most.
    landmarks : {"uniform", "kmeans", "leverage"}
        Random points, centers of clusters (dense data), or random points drawn by their estimated
        ridge leverage.
    n_landmarks : int, optional
        As many as the rank by default. More of them give a better approximation of the same rank.
    cutoff : float
        Eigenvalues below this part of the largest are dropped: by default what float32 could not
        hold anyway.
    random_state : int, RandomState or None
    folder : path, optional
        Where to map factors that are over the memory budget. The file has no name and is gone with
        the process.
    """

    rank: int = 200
    landmarks: str = "uniform"
    n_landmarks: int | None = None
    cutoff: float = 1e-7
    random_state: int | RandomState | None = 0
    folder: str | PathLike | None = None

    def __post_init__(self) -> None:
        check_rank(self.rank)
        if self.landmarks not in LANDMARKS:
            raise ValueError(
                f"landmarks={self.landmarks!r} is not known; use {', '.join(map(repr, LANDMARKS))}."
            )
        if self.n_landmarks is not None and self.n_landmarks < self.rank:
            raise ValueError(
                f"n_landmarks={self.n_landmarks!r} must be at least the rank, {self.rank}."
            )
        if not 0.0 <= self.cutoff < 1.0:
            raise ValueError(f"cutoff must be at least 0 and below 1, got {self.cutoff!r}.")

    def features(
        self, kernels: ResolvedKernels, X: Any, dtype: DTypeLike, threads: Threads
    ) -> LandmarkMap:
        Z = self._landmarks(kernels, X)
        W = kernels.between(Z, Z).columns(np.arange(Z.shape[0]))
        return LandmarkMap(kernels, Z, threads.map(self._projection, W), dtype)

    def features_there(self, kernels: Any, X: Any, dtype: Any, threads: Any, device: Any) -> Any:
        Z = self._landmarks(kernels, X)
        projections = [np.empty((Z.shape[0], 0))] * kernels.m
        for k, W in kernel_values(kernels, Z, Z, device):
            values, vectors = device.torch.linalg.eigh(0.5 * (W + W.T))
            projections[k] = self._largest(values.cpu().numpy(), vectors.cpu().numpy())
        return LandmarkMap(kernels, Z, projections, dtype)

    def _projection(self, W: np.ndarray) -> Any:
        """``L D^-1/2`` of the largest eigenvalues of a kernel on the landmarks."""
        return self._largest(*eigh(0.5 * (W + W.T)))

    def _largest(self, values: Any, vectors: Any) -> Any:
        """``L D^-1/2`` of the largest of all eigenvalues."""
        size = len(values)
        values, vectors = values[::-1][: self.rank], vectors[:, ::-1][:, : self.rank]
        kept = values > max(self.cutoff, size * np.finfo(float).eps) * max(
            values[0], np.finfo(float).tiny
        )
        return vectors[:, kept] / np.sqrt(values[kept])

    def _landmarks(self, kernels: Any, X: Any) -> Any:
        rng, n = check_random_state(self.random_state), X.shape[0]
        count = min(self.n_landmarks or self.rank, n)
        if self.landmarks == "uniform" or count == n:
            return X[np.sort(rng.choice(n, count, replace=False))]
        if self.landmarks == "kmeans":
            from sklearn.cluster import MiniBatchKMeans  # takes long to import

            kernels.refuse_indices("landmarks='kmeans'")
            clusters = MiniBatchKMeans(
                count, random_state=rng, n_init=1, batch_size=max(4096, 4 * count)
            )
            return clusters.fit(dense(X)).cluster_centers_
        return X[np.sort(_by_leverage(kernels, X, count, rng))]


def _by_leverage(kernels: Any, X: Any, count: Any, rng: Any) -> Any:
    """Points drawn by the ridge leverage of the mean of the kernels, which a uniform sketch
    estimates.
    """
    n = X.shape[0]
    candidates = np.sort(rng.choice(n, min(n, max(LEVERAGE_CANDIDATES, 2 * count)), replace=False))
    sketch = X[np.sort(rng.choice(candidates, min(2 * count, candidates.size), replace=False))]
    uniform = np.full(kernels.m, 1.0 / kernels.m)
    K_ss = kernels.between(sketch, sketch).combine(uniform).astype(float)
    K_cs = kernels.between(X[candidates], sketch).combine(uniform).astype(float)
    diagonal = kernels.combined_diagonal(uniform, X[candidates])
    values = np.linalg.eigvalsh(K_ss)
    ridge = max(values[: max(len(values) - count, 1)].clip(0.0).sum() / count, 1e-10 * values[-1])
    explained = np.einsum(
        "cs,cs->c", K_cs, np.linalg.solve(K_ss + ridge * np.eye(len(K_ss)), K_cs.T).T
    )
    leverage = np.maximum(diagonal - explained, 0.0) + 1e-12 * diagonal.max()
    return rng.choice(candidates, count, replace=False, p=leverage / leverage.sum())


# --- Cholesky's method with pivots, stopped early -------------------------------------------------


@dataclass(frozen=True)
class IncompleteCholesky(Approximation):
    """Pivoted Cholesky factors: every kernel has landmarks of its own, each where the error is
    largest.

    For precomputed kernels and whatever has few points of its own; needs one column of a kernel per
    pivot.

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
    folder: str | PathLike | None = None

    def __post_init__(self) -> None:
        check_rank(self.rank)
        if not self.tol >= 0.0:
            raise ValueError(f"tol must not be negative, got {self.tol!r}.")

    def features(
        self, kernels: ResolvedKernels, X: Any, dtype: DTypeLike, threads: Threads
    ) -> LandmarkMap:
        if kernels.is_masked:
            raise ValueError(
                "Kernels of a masked bank are not approximated one by one: use Nystroem."
            )
        alone = (kernels.take_kernels([k]).between(X, X) for k in range(kernels.m))
        pivots = [self._pivots(bank, X.shape[0]) for bank in alone]
        used = np.unique(np.concatenate(pivots)).astype(np.intp)
        used = used if used.size else np.zeros(1, dtype=np.intp)  # all kernels are zero everywhere
        Z = X[used]
        W = kernels.between(Z, Z).columns(np.arange(used.size))
        chosen = [np.searchsorted(used, own) for own in pivots]
        projections = [
            _inverse_factor(K[np.ix_(own, own)]) for K, own in zip(W, chosen, strict=True)
        ]
        return LandmarkMap(kernels, Z, projections, dtype, chosen)

    def _pivots(self, bank: Any, n: Any) -> Any:
        """Places of the pivots of one kernel."""
        left = bank.diagonal()[0].copy()
        total, factor = left.sum(), np.zeros((min(self.rank, n), n))
        pivots: list[int] = []
        while (
            len(pivots) < len(factor)
            and left.sum() > self.tol * total
            and left.max() > 1e-12 * total / n
        ):
            pivot, r = int(np.argmax(left)), len(pivots)
            row = bank.columns([pivot])[0][:, 0] - factor[:r, pivot] @ factor[:r]
            factor[r] = row / np.sqrt(left[pivot])
            left = np.maximum(left - np.square(factor[r]), 0.0)
            left[pivot] = 0.0
            pivots.append(pivot)
        return np.array(pivots, dtype=np.intp)


def _inverse_factor(W: np.ndarray) -> Any:
    """``L^-T`` with ``W = L L'``, for independent pivots; a little is added to the diagonal where
    rounding demands it.
    """
    scale = np.trace(W) / max(len(W), 1)
    for shift in (0.0, 1e-14, 1e-12, 1e-10, 1e-8):
        try:
            lower = np.linalg.cholesky(W + shift * scale * np.eye(len(W)))
        except np.linalg.LinAlgError:
            continue
        return solve_triangular(lower, np.eye(len(W)), lower=True).T
    raise np.linalg.LinAlgError(
        "The pivots of a kernel are not independent: it is not positive semi-definite."
    )


# --- random Fourier features ----------------------------------------------------------------------


@dataclass(frozen=True)
class RandomFourier(Approximation):
    """Random Fourier features of Gaussians (Rahimi and Recht, 2007); the rank is twice the number
    of frequencies.

    With ``combination="product"`` the frequencies are scaled by the weights that are learned.

    Parameters
    ----------
    rank : int
    random_state, folder
        See `Nystroem`.
    """

    rank: int = 200
    random_state: int | RandomState | None = 0
    folder: str | PathLike | None = None

    def __post_init__(self) -> None:
        check_rank(self.rank)

    def features(
        self, kernels: ResolvedKernels, X: Any, dtype: DTypeLike, threads: Threads
    ) -> FourierMap:
        if kernels.is_masked:
            raise ValueError(
                "A masked bank has no kernel objects for random Fourier features: use Nystroem."
            )
        rng, frequencies = check_random_state(self.random_state), []
        for k, kernel in enumerate(kernels.kernels):
            if not isinstance(kernel, RBF):
                raise ValueError(
                    f"Random Fourier features are for RBF kernels, not {kernels.names[k]} (kernel "
                    f"{k}): use Nystroem."
                )
            columns = kernels.columns_of(k)
            size = X.shape[1] if columns is None else len(columns)
            frequencies.append(
                np.sqrt(2.0 * float(kernel.gamma))
                * rng.standard_normal((size, max(1, self.rank // 2)))
            )
        return FourierMap(kernels, frequencies, dtype, X.shape[1])

    def fit_product(
        self,
        product: Product,
        X: Any,
        *,
        feature_names: Sequence[str] | None = None,
        dtype: DTypeLike = np.float32,
        n_jobs: int | None = None,
        memory_budget: int = 2**32,
        device: Device | None = None,
    ) -> ProductFeatureBank:
        """The bank of random features of a product of Gaussians, whose weights are learned.

        Parameters
        ----------
        product : Product
        X : points
        feature_names : sequence of str, optional
        dtype, n_jobs, memory_budget, device
            See `Approximation.fit`.
        """
        if self.folder is not None:
            raise ValueError(
                f"folder={self.folder!r} is for sums of kernels; random features of a product are "
                "made anew at every step, in memory: leave folder=None."
            )
        n, fitted = X.shape[0], product.fit(X)
        rng, half = check_random_state(self.random_state), max(1, self.rank // 2)
        needed = 2 * n * half * np.dtype(dtype).itemsize
        if device is None and needed > memory_budget:
            raise ValueError(
                f"The random features of {n} points take {needed / MEGABYTE:.3g} MB, more than "
                f"the memory budget of {memory_budget / MEGABYTE:.3g} MB: lower the rank, or raise "
                "cache_size."
            )
        frequencies = rng.standard_normal((X.shape[1], half))
        names = fitted.names(feature_names)
        features = ProductMap(names, fitted._group, fitted._center, frequencies, dtype)
        if device is None:
            return ProductFeatureBank(fitted, features, feature_names, n_jobs)
        return DeviceProductFeatureBank(fitted, features, feature_names, n_jobs, device)


# --- how good an approximation is -----------------------------------------------------------------


def quality(
    bank: FactorBank,
    kernels: ResolvedKernels,
    X: Any,
    *,
    sample: int = 512,
    random_state: int | RandomState | None = 0,
) -> np.ndarray:
    """How good the approximation is, on a random sample of the training points.

    Parameters
    ----------
    bank : FactorBank
        The factors.
    kernels : ResolvedKernels
        The kernels that they stand for.
    X : training points
    sample : int
        How many points.
    random_state : int, RandomState or None
        Of the sample.

    Returns
    -------
    (m,) array
        ``|K_k - V_k V_k'|_F / |K_k|_F`` on the sample.
    """
    rows = np.sort(
        check_random_state(random_state).choice(bank.n, min(sample, bank.n), replace=False)
    )
    A = as_points(X)[rows]
    exact = kernels.between(A, A).columns(np.arange(rows.size))
    errors = []
    for k, K in enumerate(exact):
        V = bank.factors[rows, bank.offsets[k] : bank.offsets[k + 1]].astype(float)
        errors.append(np.linalg.norm(K - V @ V.T) / max(np.linalg.norm(K), np.finfo(float).tiny))
    return np.array(errors)


def coefficient_bound(exact: Bank, approximate: Bank, weights: ArrayLike, cost: ArrayLike) -> float:
    """Proposition 2 of Rakotomamonjy and Chanda: how far the dual coefficients of the two SVMs can
    be apart.

    ``|beta - beta'| <= sqrt(2 s / lambda_min(K_d))`` with ``s = |cost|^2 |K_d - K'_d|_F / 2``. For
    banks of a few thousand points; infinite where the exact kernel is singular.

    Parameters
    ----------
    exact, approximate : Bank
        The kernels on the same points, as they are and from their factors.
    weights : (m,) array
    cost : (n,) array
        Upper bounds of the dual coefficients.
    """
    K, approximated = (bank.combine(weights).astype(float) for bank in (exact, approximate))
    smallest = np.linalg.eigvalsh(K)[0]
    if smallest <= len(K) * np.finfo(float).eps * np.trace(K):
        return np.inf
    s = 0.5 * float(np.square(cost).sum()) * np.linalg.norm(K - approximated)
    return float(np.sqrt(2.0 * s / smallest))
