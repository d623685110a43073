"""Cholesky's method with pivots, stopped early."""

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import solve_triangular

from .._threads import Threads
from ..banks.resolved import ResolvedKernels
from .base import Approximation, check_rank
from .maps import LandmarkMap


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
