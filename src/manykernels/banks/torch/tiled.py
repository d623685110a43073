"""A bank of families of kernels on a device."""

from functools import cached_property

import numpy as np

from ..base import Bank, as_outputs, support_of
from ..families import DistanceGaussians, DistanceLaplacians, DotPolynomials, FeaturePolynomials
from ..families import FeatureGaussians as HostFeatureGaussians
from ..tiled import TiledBank
from .families import FeatureGaussians, FromHost, Gaussians, Laplacians, Polynomials

HELD = 0.3  # of the free memory for matrices that only the host can compute


class DeviceTiledBank(TiledBank):
    """A `TiledBank` whose sums over pairs of points are taken on a device.

    Rows and columns of single kernels (`columns`, `kernel_rows`) come from the host.

    Parameters
    ----------
    device : Device
    """

    streams = cheap_sweeps = False

    def __init__(self, spec, left, right, dtype, threads, held=None, device=None):
        super().__init__(spec, left, right, dtype, threads, held)
        self.device = device

    def __getstate__(self):
        return {
            name: value for name, value in super().__getstate__().items() if name != "_on_device"
        }

    @cached_property
    def _on_device(self):
        """The families, translated."""
        waiting, budget = [], HELD * self.device.free() / max(len(self.families), 1)
        for family in self.families:
            waiting.extend(_translated(self, family, budget))
        return waiting

    def _tile_bytes(self, columns):
        return columns * (24 + 2 * self.dtype.itemsize)

    def combined(self, weights, rows):
        """Rows of the combined kernel as a tensor, for a tensor of indices."""
        weights = np.asarray(weights, dtype=float)
        everything = self.device.torch.arange(self.n, device=self.device.place)
        out = self.device.torch.zeros(
            (len(rows), self.n), dtype=self.device.entry(self.dtype), device=self.device.place
        )

        def fill(part):
            out[part] = 0.0  # memory may have run out half way
            self.device.pairs += len(rows[part]) * self.n
            for family in self._on_device:
                if weights[family.members].any():
                    family.combine(
                        family.pairs(rows[part], everything), weights[family.members], out[part]
                    )

        for part in self.device.tiles(len(rows), self._tile_bytes(self.n)):
            self.device.sparing(fill, part)
        return out

    def combine(self, weights, rows=None):
        return on_rows(self, weights, np.arange(self.n_rows) if rows is None else np.asarray(rows))

    def _bilinear_forms(self, couples):
        self._needs_square("quadratic_forms")
        torch, support = (
            self.device.torch,
            support_of(np.concatenate([part for couple in couples for part in couple])),
        )
        points = self.device.indices(support)
        couples = [
            tuple(self.device.put(part[:, support], self.dtype) for part in couple)
            for couple in couples
        ]
        out = torch.zeros((len(couples), self.m), dtype=torch.float64, device=self.device.place)

        def add(part):
            before, sums = slice(0, part.start), torch.zeros_like(out)
            # pairs below the diagonal count twice
            for cols, twice in (
                (before, True),
                (part, False),
            ):
                if cols.stop > cols.start:
                    self._add_forms(points, part, cols, couples, twice, sums)
            out.add_(sums)

        for part in self.device.tiles(support.size, self._tile_bytes(support.size)):
            self.device.sparing(add, part)
        return out.cpu().numpy()

    def _add_forms(self, points, rows, cols, couples, twice, out):
        weights, self.device.pairs = [], self.device.pairs + len(points[rows]) * len(points[cols])
        for a, b in couples:
            B = a[:, rows].T @ b[:, cols]
            if twice:
                B = B.addmm_(b[:, rows].T, a[:, cols]) if a is not b else B.mul_(2.0)
            weights.append(B)
        for family in self._on_device:
            pairs, members = (
                family.pairs(points[rows], points[cols]),
                self.device.indices(family.members),
            )
            for place, B in enumerate(weights):
                out[place, members] += family.forms(pairs, B)

    def along(self, beta, change):
        beta, change = as_outputs(beta, self.n), as_outputs(change, self.n)
        return tuple(self._bilinear_forms([(beta, change), (change, change)]))

    def sweep(self, weights, beta, J):
        return Bank.sweep(self, weights, beta, J)

    def products(self, beta):
        outputs = as_outputs(beta, self.n)
        support = support_of(outputs)
        cols, coefficients = (
            self.device.indices(support),
            self.device.put(outputs[:, support].T, self.dtype),
        )
        out = np.zeros((self.m, outputs.shape[0], self.n_rows))
        rows = self.device.indices(np.arange(self.n_rows))

        def multiply(part):
            self.device.pairs += len(rows[part]) * len(cols)
            for family in self._on_device:
                values = family.products(family.pairs(rows[part], cols), coefficients)
                out[family.members, :, part] = values.permute(0, 2, 1).cpu().numpy()

        for part in self.device.tiles(self.n_rows, self._tile_bytes(support.size)):
            self.device.sparing(multiply, part)
        return out if np.ndim(beta) == 2 else out[:, 0]

    def decision(self, weights, beta):
        outputs = as_outputs(beta, self.n)
        coefficients = self.device.put(outputs, self.dtype)
        rows, out = (
            self.device.indices(np.arange(self.n_rows)),
            np.zeros((outputs.shape[0], self.n_rows)),
        )
        if self.symmetric:  # rows of the support do as well as columns, and are fewer
            support = support_of(outputs)
            for part in self.device.tiles(support.size, self._tile_bytes(self.n)):
                K = self.combined(weights, rows[self.device.indices(support[part])])
                out += (
                    (coefficients[:, self.device.indices(support[part])] @ K).double().cpu().numpy()
                )
        else:
            for part in self.device.tiles(self.n_rows, self._tile_bytes(self.n)):
                out[:, part] = (
                    (coefficients @ self.combined(weights, rows[part]).T).double().cpu().numpy()
                )
        return out if np.ndim(beta) == 2 else out[0]

    def machine(self, weights):
        """The machine for many points, and the combined kernel as it takes it."""
        from ...machines.device import DeviceMachine, DeviceRows

        return DeviceMachine(), DeviceRows(self, weights)

    def refined(self):
        return (
            None
            if self.dtype == np.float64
            else self._like(self.left, self.right, np.float64, self.held)
        )

    def cross(self, X_new, support=None):
        plain = super().cross(X_new, support)
        return self._like(plain.left, plain.right, plain.dtype, {})

    def among(self, points):
        plain = super().among(points)
        return self._like(plain.left, plain.right, plain.dtype, plain.held)

    def _like(self, left, right, dtype, held):
        return DeviceTiledBank(self.spec, left, right, dtype, self.threads, held, self.device)


def on_rows(bank, weights, rows):
    """Rows of a combined kernel as an array, from a bank that has them as tensors."""
    rows, out = bank.device.indices(rows), np.empty((len(rows), bank.n), dtype=bank.dtype)
    for part in bank.device.tiles(len(rows), 80 * bank.n):
        out[part] = bank.combined(weights, rows[part]).cpu().numpy()
    return out


def _translated(bank, family, budget):
    """A family of the host as families of a device."""
    device, dtype, spec, members = bank.device, bank.dtype, bank.spec, family.members
    kernels = [spec.kernels[k] for k in members]
    if isinstance(family, HostFeatureGaussians | FeaturePolynomials):
        gaussian = isinstance(family, HostFeatureGaussians)
        features = np.array([spec.columns[k][0] for k in members])
        return [_of_feature(bank, members[features == f], gaussian) for f in np.unique(features)]
    if not isinstance(family, DistanceGaussians | DistanceLaplacians | DotPolynomials):
        return [FromHost(device, family, dtype, (bank.n_rows, bank.n), budget)]
    of = (spec.scales[members], dtype, *spec.points(members[0], bank.left, bank.right))
    if isinstance(family, DotPolynomials):
        return [Polynomials(device, members, kernels, *of)]
    kind = Gaussians if type(family) is DistanceGaussians else Laplacians
    return [kind(device, members, [kernel.gamma for kernel in kernels], *of)]


def _of_feature(bank, members, gaussian):
    """The kernels of one feature."""
    spec, device = bank.spec, bank.device
    kernels = [spec.kernels[k] for k in members]
    of = (spec.scales[members], bank.dtype, *spec.points(members[0], bank.left, bank.right))
    if gaussian:
        return FeatureGaussians(device, members, [kernel.gamma for kernel in kernels], *of)
    return Polynomials(device, members, kernels, *of)
