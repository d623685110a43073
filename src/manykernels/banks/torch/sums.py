"""Sums over the kernels that stay on a device."""

from typing import Any, NamedTuple

import numpy as np

from ...machines.device import DeviceMatrix
from ..base import Sums


class DeviceSums(NamedTuple):
    """As `manykernels.banks.base.Sums`, of tensors: what comes to the host are vectors."""

    device: Any
    K: Any
    squares: Any
    mixed: Any

    def times(self, beta):
        return (self.device.put(beta) @ self.K.double().T).cpu().numpy()

    def curved(self, c, factor, dtype):
        torch, v = self.device.torch, self.mixed[c]
        out = torch.addr(self.squares[c, c], v, v, beta=2.0, alpha=2.0 * factor)
        return DeviceMatrix(self.device, out.add_(self.K).to(self.device.entry(dtype)))

    def between(self, c, e, factor, change):
        change = self.device.put(change)
        pull = self.squares[c, e] @ change + factor * (self.mixed[e] @ change) * self.mixed[c]
        return pull.cpu().numpy()

    def host(self):
        return Sums(*(part.double().cpu().numpy() for part in self[1:]))


def curved(device, K, M, J):
    """As `manykernels.banks.base.curved`, of a tensor and arrays."""
    M, roots = device.put(M), device.put(np.sqrt(2.0 * J.diagonal))
    rows, v = (M * roots[:, None]).to(K.dtype), (device.put(J.vector) @ M).to(K.dtype)
    out = device.torch.addmm(K, rows.T, rows)
    return DeviceMatrix(device, out.addr_(v, v, alpha=2.0 * J.factor))


class Adding:
    """Sums to which the products of some kernels at a time are added.

    Parameters
    ----------
    device : Device
    J : Curvature
    shape : (t, n)
    dtype : dtype of the products
    """

    def __init__(self, device, J, shape, dtype):
        (t, n), torch = shape, device.torch
        there = {"dtype": torch.float64, "device": device.place}
        self.device = device
        self.squares, self.mixed = torch.zeros((t, t, n, n), **there), torch.zeros((t, n), **there)
        self.vector, self.roots = (
            device.put(values, dtype) for values in (J.vector, np.sqrt(J.diagonal))
        )
        self.couples = [(c, other) for c in range(t) for other in range(c, t)]

    def add(self, kernels, products):
        """Of some kernels, (kernels, n, t)."""
        torch, rows = self.device.torch, products * self.roots[kernels, None, None]
        outer = [(rows[:, :, c].T @ rows[:, :, other]).double() for c, other in self.couples]
        sums = torch.tensordot(self.vector[kernels], products, 1).T.double()
        self.mixed.add_(sums)  # from here on nothing needs memory
        for (c, other), one in zip(self.couples, outer, strict=True):
            self.squares[c, other].add_(one)

    def result(self, K, scale=1.0):
        """The sums, of products that have a factor in common."""
        for c in range(len(self.mixed)):
            self.squares[c, :c] = self.squares[:c, c].transpose(1, 2)
        return DeviceSums(self.device, K, self.squares.mul_(scale**2), self.mixed.mul_(scale))
