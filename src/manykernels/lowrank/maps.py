"""From points to their factors."""

import errno
import os
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .._threads import Threads
from ..banks.kernel_set import Delegating, Indices
from ..banks.resolved import ResolvedKernels
from ..banks.torch.device import Device
from ..banks.torch.tiled import kernel_values
from ..kernels.points import as_points, is_sparse
from ..kernels.vector import dense

# Points whose factors are computed together. More of them take more memory.
ROWS = 4096
# Share of entries that are not zero, up to which a product with sparse points is faster. With a
# larger one more points stay sparse.
SPARSE_SHARE = 0.1


class FeatureMap(Delegating):
    """From points to their factors.

    Parameters
    ----------
    on_points : ResolvedKernels
        The kernels.
    widths : sequence of int
        How many columns each kernel has.
    dtype : dtype of the factors

    Attributes
    ----------
    offsets : (m + 1,) int
        Columns of each kernel.
    """

    inner = "on_points"

    def __init__(self, on_points: ResolvedKernels, widths: Sequence[int], dtype: DTypeLike) -> None:
        self.on_points = on_points
        self.offsets = np.concatenate([[0], np.cumsum(widths)]).astype(np.intp)
        self.dtype = np.dtype(dtype)

    @property
    def width(self) -> int:
        """Columns of all factors together."""
        return int(self.offsets[-1])

    @abstractmethod
    def block(self, X: Any) -> np.ndarray:
        """Factors of a few points, (len(X), width)."""

    @property
    def inner_width(self) -> int:
        """Numbers per point from which the factors of a kernel are made."""
        return 0

    def on(self, device: Any) -> Callable[[Any], Any]:
        """The map from a few points to their factors as a tensor on a device; here by way of the
        host.
        """
        return lambda X: device.put(self.block(X), self.dtype)

    @abstractmethod
    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> "FeatureMap":
        """The map of some of the kernels, each times a factor."""

    def transform(
        self,
        X: Any,
        out: np.ndarray | None = None,
        threads: Threads | None = None,
        progress: Callable[[int], Any] | None = None,
    ) -> np.ndarray:
        """Factors of points, block by block, (len(X), width).

        Parameters
        ----------
        X : points
        out : array, optional
            Where to write them.
        threads : Threads, optional
        progress : callable, optional
            Called with the number of points that are done.
        """
        X = as_points(X)
        out = np.empty((X.shape[0], self.width), dtype=self.dtype) if out is None else out
        starts = range(0, X.shape[0], ROWS)

        def fill(start):
            out[start : start + ROWS] = self.block(X[start : start + ROWS])
            if progress is not None:
                progress(min(start + ROWS, X.shape[0]))

        (threads or Threads(1)).map(fill, starts)
        return out

    def laid_out(self, X: Any) -> Any:
        """Points as `one` reads them fastest."""
        return X

    def one(self, k: int, X: Any, threads: Threads | None = None) -> np.ndarray:
        """Factors of points for one kernel, (len(X), its columns).

        Parameters
        ----------
        k : int
        X : points
            As `laid_out` gives them.
        threads : Threads, optional
        """
        return self.take_kernels([k]).transform(X, threads=threads)


class LandmarkMap(FeatureMap):
    """``V_k = K_k(x, landmarks) P_k``.

    Parameters
    ----------
    on_points : ResolvedKernels
        The kernels.
    landmarks : points
    projections : list of (n_landmarks of kernel k, width of kernel k) arrays
    dtype : dtype of the factors
    chosen : list of index arrays, optional
        The landmarks of each kernel; all by default.
    """

    def __init__(
        self,
        on_points: ResolvedKernels,
        landmarks: Any,
        projections: Sequence[np.ndarray],
        dtype: DTypeLike,
        chosen: Sequence[np.ndarray] | None = None,
    ) -> None:
        # a kernel that is zero at all points has a column of zeros: no solver has to expect none
        projections = [P if P.shape[1] else np.zeros((len(P), 1)) for P in projections]
        super().__init__(on_points, [P.shape[1] for P in projections], dtype)
        self.landmarks, self.projections, self.chosen = landmarks, projections, chosen

    def block(self, X: Any) -> np.ndarray:
        out = np.empty((X.shape[0], self.width), dtype=self.dtype)
        everything, X = np.arange(self.landmarks.shape[0]), as_points(X, like=self.landmarks)
        values = self.on_points.between(X, self.landmarks).columns(everything)
        for k, P in enumerate(self.projections):
            mine = values[k] if self.chosen is None else values[k][:, self.chosen[k]]
            out[:, self.offsets[k] : self.offsets[k + 1]] = mine @ P
        return out

    @property
    def inner_width(self) -> int:
        return self.landmarks.shape[0]

    def on(self, device: Device) -> Callable[[Any], Any]:
        projections = [device.put(P) for P in self.projections]
        chosen = None if self.chosen is None else [device.indices(own) for own in self.chosen]

        def block(X):
            out = projections[0].new_zeros((X.shape[0], self.width))
            points = as_points(X, like=self.landmarks)
            for k, values in kernel_values(self.on_points, points, self.landmarks, device):
                mine = values if chosen is None else values[:, chosen[k]]
                out[:, self.offsets[k] : self.offsets[k + 1]] = mine @ projections[k]
            return out

        return block

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> Any:
        # the kernels stay as they are: a factor on them would come in here as its square
        places = np.arange(self.m)[kernels]
        projections = [np.sqrt(factor) * self.projections[k] for k in places]
        chosen = None if self.chosen is None else [self.chosen[k] for k in places]
        some = self.on_points.take_kernels(places)
        return LandmarkMap(some, self.landmarks, projections, self.dtype, chosen)


class FourierMap(FeatureMap):
    """Cosines and sines of random frequencies: ``E[V_k V_k'] = K_k`` for Gaussians.

    Parameters
    ----------
    on_points : ResolvedKernels
        The kernels.
    frequencies : list of (features of kernel k, width of kernel k / 2) arrays
    dtype : dtype of the factors
    n_features : int
        Of the points.
    """

    def __init__(
        self,
        on_points: ResolvedKernels,
        frequencies: Sequence[np.ndarray],
        dtype: DTypeLike,
        n_features: int,
    ) -> None:
        super().__init__(on_points, [2 * F.shape[1] for F in frequencies], dtype)
        self.frequencies, self.n_features = frequencies, n_features

    def block(self, X: Any) -> np.ndarray:
        out = np.empty((X.shape[0], self.width), dtype=self.dtype)
        for k in range(self.m):
            self._fill(k, self._seen(k, X), out[:, self.offsets[k] : self.offsets[k + 1]])
        return out

    def laid_out(self, X: Any) -> Any:
        return X.tocsc() if is_sparse(X) else X

    def one(self, k: int, X: Any, threads: Threads | None = None) -> np.ndarray:
        out = np.empty((X.shape[0], 2 * self.frequencies[k].shape[1]), dtype=self.dtype)
        seen = self._seen(k, X)
        seen = seen.tocsr() if is_sparse(seen) else seen

        def fill(start):
            self._fill(k, seen[start : start + ROWS], out[start : start + ROWS])

        (threads or Threads(1)).map(fill, range(0, X.shape[0], ROWS))
        return out

    def _seen(self, k: int, X: Any) -> Any:
        """The part of the points that kernel k sees."""
        columns = self.columns_of(k)
        return X if columns is None else X[:, columns]

    def _fill(self, k: int, X: Any, out: np.ndarray) -> None:
        """Write the factors of kernel k for points of which it sees every column; in the precision
        of the factors, in which cosines cost a fifth.
        """
        F = self.frequencies[k].astype(self.dtype, copy=False)
        if not is_sparse(X) or X.nnz > SPARSE_SHARE * X.shape[0] * X.shape[1]:
            X = dense(X)
        angles = X.astype(self.dtype, copy=False) @ F
        np.cos(angles, out=out[:, : F.shape[1]])
        np.sin(angles, out=out[:, F.shape[1] :])
        out *= self.dtype.type(np.sqrt(self.scales[k] / F.shape[1]))

    def on(self, device: Device) -> Callable[[Any], Any]:
        frequencies = [device.put(F) for F in self.frequencies]

        def block(X):
            points, parts = device.put(dense(X)), []
            for k, (F, scale) in enumerate(zip(frequencies, self.scales, strict=True)):
                columns = self.columns_of(k)
                angles = (points if columns is None else points[:, device.indices(columns)]) @ F
                size = float(np.sqrt(scale / F.shape[1]))
                parts += [size * angles.cos(), size * angles.sin()]
            return device.torch.cat(parts, dim=1)

        return block

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> Any:
        places = np.arange(self.m)[kernels]
        frequencies = [self.frequencies[k] for k in places]
        some = self.on_points.take_kernels(places, factor)
        return FourierMap(some, frequencies, self.dtype, self.n_features)


# --- arrays in files that are gone with the process -----------------------------------------------


# Zeros that are written to a file at a time, in bytes. More of them take more memory.
ZEROS_AT_ONCE = 2**20


def mapped(folder: str | PathLike, shape: tuple[int, ...], dtype: DTypeLike) -> np.memmap:
    """An array in a file that nobody else sees and that is removed when the array goes.

    On Unix the file has no name from the start, on Windows the system removes it with its last
    handle: `tempfile` knows. The map has a handle of its own, so the file object may be closed.

    Parameters
    ----------
    folder : path
    shape : tuple of int
    dtype : dtype
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    with tempfile.TemporaryFile(dir=os.fspath(folder)) as file:
        allocate(file, size)
        return np.memmap(file, dtype=dtype, shape=shape, mode="r+")


def allocate(file: Any, size: int) -> None:
    """Give a new file its size, and the room for it: a full disk fails here, before any work, and
    not in the middle of it.

    Parameters
    ----------
    file : open file
    size : int
        In bytes.
    """
    if hasattr(os, "posix_fallocate"):  # not on macOS and Windows
        try:
            return os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # a file system without it
                raise
    # a file that was only made longer may have holes, for which there need not be room later
    zeros = bytes(min(ZEROS_AT_ONCE, size))
    for start in range(0, size, ZEROS_AT_ONCE):
        file.write(zeros[: size - start])
    file.flush()
    file.seek(0)
