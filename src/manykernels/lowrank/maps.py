"""From points to their factors."""

from abc import ABC, abstractmethod

import numpy as np

from .._threads import Threads
from ..kernels.points import as_points
from ..kernels.vector import dense

ROWS = 4096  # points whose factors are computed together


class FeatureMap(ABC):
    """From points to their factors.

    Attributes
    ----------
    offsets : (m + 1,) int
        Columns of each kernel.
    names, groups, normalize : of the kernels
    """

    def __init__(self, kernels, widths, dtype):
        self.names, self.groups, self.normalize = kernels.names, kernels.groups, kernels.normalize
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
        self.kernels, self.landmarks, self.projections, self.chosen = (
            kernels,
            landmarks,
            projections,
            chosen,
        )

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
        for k, (columns, F, scale) in enumerate(
            zip(self.columns, self.frequencies, self.scales, strict=True)
        ):
            angles = dense(X if columns is None else X[:, columns]) @ F
            size = np.sqrt(scale / F.shape[1])
            middle = self.offsets[k] + F.shape[1]
            out[:, self.offsets[k] : middle] = size * np.cos(angles)
            out[:, middle : self.offsets[k + 1]] = size * np.sin(angles)
        return out
