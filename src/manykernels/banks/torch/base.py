"""Banks on a device: rows of combined kernels, and sums over the kernels, as tensors."""

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ...machines.device import DeviceMachine, DeviceMatrix, DeviceRows
from ..base import Bank, Sums, as_outputs, support_of
from ..kernel_set import Indices
from .device import Device


class DeviceBank(Bank):
    """A bank that has rows of its combined kernel as tensors on a device.

    Attributes
    ----------
    device : Device
    """

    device: Device
    on_device = has_machine = True
    without_tiles = False  # True: `decision` visits pairs of points and writes nothing down

    @abstractmethod
    def combined(self, weights: ArrayLike, rows: Any) -> Any:
        """Rows of the combined kernel as a tensor, for a tensor of indices."""

    def combined_among(self, weights: ArrayLike, points: np.ndarray) -> Any:
        """The combined kernel between some of the points, as a tensor."""
        some: Any = self.take_points(points)
        return some.combined(weights, self.device.indices(np.arange(points.size)))

    def _tile_bytes(self, columns: int) -> int:
        """Memory that a row of so many columns takes while it is computed."""
        return columns * (24 + 2 * self.dtype.itemsize)

    def machine(self, weights: ArrayLike) -> tuple:
        return DeviceMachine(), DeviceRows(self, weights)

    def combine(self, weights: ArrayLike, rows: ArrayLike | None = None) -> np.ndarray:
        places = self.device.indices(np.arange(self.n_rows) if rows is None else np.asarray(rows))
        out = np.empty((len(places), self.n), dtype=self.dtype)
        for part in self.device.tiles(len(places), 80 * self.n):
            out[part] = self.combined(weights, places[part]).cpu().numpy()
        return out

    def decision(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        outputs = as_outputs(beta, self.n)
        coefficients = self.device.put(outputs, self.dtype)
        out = np.zeros((outputs.shape[0], self.n_rows))
        # rows of the support do as well as columns, and are fewer
        chosen = support_of(outputs) if self.symmetric else np.arange(self.n_rows)
        for part in self.device.tiles(chosen.size, self._tile_bytes(self.n)):
            rows = self.device.indices(chosen[part])
            K = self.combined(weights, rows)
            if self.symmetric:
                out += (coefficients[:, rows] @ K).double().cpu().numpy()
            else:
                out[:, part] = (coefficients @ K.T).double().cpu().numpy()
        return out if np.ndim(beta) == 2 else out[0]


# --- sums over the kernels -----------------------------------------------------------------------


class DeviceSums(NamedTuple):
    """The `manykernels.banks.base.Sums` as tensors, of which only vectors come to the host."""

    device: Any
    K: Any
    squares: Any
    mixed: Any

    def times(self, beta: ArrayLike) -> Any:
        return (self.device.put(beta) @ self.K.double().T).cpu().numpy()

    def curved(self, c: Any, factor: float, dtype: DTypeLike) -> Any:
        torch, v = self.device.torch, self.mixed[c]
        out = torch.addr(self.squares[c, c], v, v, beta=2.0, alpha=2.0 * factor)
        return DeviceMatrix(self.device, out.add_(self.K).to(self.device.entry(dtype)))

    def between(self, c: Any, e: Any, factor: float, change: ArrayLike) -> Any:
        change = self.device.put(change)
        pull = self.squares[c, e] @ change + factor * (self.mixed[e] @ change) * self.mixed[c]
        return pull.cpu().numpy()

    def host(self) -> Any:
        return Sums(*(part.double().cpu().numpy() for part in self[1:]))


def curved(device: Device, K: np.ndarray, M: np.ndarray, J: Any) -> Any:
    """The matrix of `manykernels.banks.base.curved`, of a tensor and arrays."""
    right, diagonal, v = (device.put(part) for part in (M, J.diagonal, J.vector))
    # the two terms of J nearly cancel: added up in float64
    left = 2.0 * (diagonal * right.T + J.factor * device.torch.outer(v @ right, v))
    return DeviceMatrix(device, device.torch.addmm(K, left.to(K.dtype), right.to(K.dtype)))


class Adding:
    """Sums to which the products of some kernels at a time are added.

    Parameters
    ----------
    device : Device
    J : Curvature
    shape : (t, n)
    dtype : dtype of the products
    """

    def __init__(self, device: Device, J: Any, shape: tuple[int, int], dtype: DTypeLike) -> None:
        (t, n), torch = shape, device.torch
        there = {"dtype": torch.float64, "device": device.place}
        self.device = device
        self.squares, self.mixed = torch.zeros((t, t, n, n), **there), torch.zeros((t, n), **there)
        self.vector, self.roots = (
            device.put(values, dtype) for values in (J.vector, np.sqrt(J.diagonal))
        )
        self.couples = [(c, other) for c in range(t) for other in range(c, t)]

    def add(self, kernels: Indices, products: Any) -> None:
        """Of some kernels, (kernels, n, t)."""
        torch, rows = self.device.torch, products * self.roots[kernels, None, None]
        outer = [(rows[:, :, c].T @ rows[:, :, other]).double() for c, other in self.couples]
        vector = self.vector[kernels].to(products.dtype)
        sums = torch.tensordot(vector, products, 1).T.double()
        self.mixed.add_(sums)  # from here on nothing needs memory
        for (c, other), one in zip(self.couples, outer, strict=True):
            self.squares[c, other].add_(one)

    def result(self, K: Any, scale: Any = 1.0) -> Any:
        """The sums, of products that have a factor in common."""
        for c in range(len(self.mixed)):
            self.squares[c, :c] = self.squares[:c, c].transpose(1, 2)
        return DeviceSums(self.device, K, self.squares.mul_(scale**2), self.mixed.mul_(scale))
