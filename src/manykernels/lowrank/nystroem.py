"""Nyström's method."""

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import DTypeLike
from scipy.linalg import eigh
from sklearn.utils import check_random_state

from .._threads import Threads
from ..banks.resolved import ResolvedKernels
from ..banks.torch.tiled import kernel_values
from ..kernels.vector import dense
from .base import Approximation, check_rank
from .maps import LandmarkMap

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
