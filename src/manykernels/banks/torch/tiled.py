"""A bank of families of kernels on a device."""

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...kernels.overlaps import Overlap
from ...machines.device import FEW, DeviceMatrix
from ..base import as_outputs, support_of
from ..compute import Compute, Points
from ..spec import SINGLE, grouped
from ..tiled import TiledBank, one_kernel
from .base import Adding, DeviceBank, curved
from .device import Device
from .families import (
    FeatureGaussians,
    FeaturePolynomials,
    FromHost,
    Gaussians,
    Laplacians,
    Overlaps,
    Polynomials,
)

# of several features, by what they are functions of
KINDS: dict[str, Any] = {"distance": Gaussians, "manhattan": Laplacians, "dot": Polynomials}
# Part of the free memory for matrices that only the host can compute, and for products of all
# kernels. With a larger one more of them stay on the device, and tiles are smaller.
HELD_SHARE = 0.3


class DeviceTiledBank(DeviceBank, TiledBank):
    """A `TiledBank` whose sums over pairs of points are taken on the device of its `Compute`.

    Rows and columns of single kernels (`columns`, `kernel_rows`) come from the host.
    """

    streams = cheap_sweeps = True
    cheap_from, sweep_parts = 1, 2

    @property
    def device(self) -> Device:  # type: ignore[override]
        return self.compute.device

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: value for name, value in super().__getstate__().items() if name != "_on_device"
        }

    @cached_property
    def _on_device(self) -> Any:
        alone, groups = grouped(self.spec, self.held)
        of = Points(self.left, self.right), self.dtype.type, self.held
        shape, budget = (self.n_rows, self.n), HELD_SHARE * self.device.free() / max(len(alone), 1)

        def by_itself(k: int) -> Any:
            kernel = self.spec.kernels[k]
            if isinstance(kernel, Overlap):
                seen = self.spec.points(k, of[0])
                return Overlaps(self.device, [k], kernel, self.spec.scales[[k]], self.dtype, seen)
            family = one_kernel(self.spec, k, *of)
            return FromHost(self.device, family, self.dtype, shape, budget)

        return [by_itself(k) for k in alone] + [
            _translated(self, key, np.array(members)) for key, members in groups.items()
        ]

    def between(self, points: Any) -> Any:
        """A bank with other points, for `one_by_one` alone: what the host would need of them is not
        made, unless a family needs it.
        """
        if any(isinstance(family, FromHost) for family in self._on_device):
            return DeviceTiledBank(self.spec, points, self.compute)
        other = copy(self)  # without families of the device, which have the points
        other.left, other.right = points
        other.n_rows, other.n = points.left.shape[0], points.right.shape[0]
        return other

    def one_by_one(self) -> Iterator[Any]:
        """Yield the number of each kernel and its values between all rows and columns, a tensor in
        the bank's precision.
        """
        rows, cols = (
            self.device.torch.arange(count, device=self.device.place)
            for count in (self.n_rows, self.n)
        )
        for family in self._on_device:
            pairs = family.pairs(rows, cols)
            for place, k in enumerate(family.members):
                yield int(k), family.value(pairs, place) * float(family.scales[place])

    def combined(self, weights: ArrayLike, rows: Any) -> Any:
        return self._combined(weights, rows, self.device.indices(np.arange(self.n)))

    def combined_among(self, weights: ArrayLike, points: np.ndarray) -> Any:
        chosen = self.device.indices(points)
        return self._combined(weights, chosen, chosen)

    def _combined(self, weights: ArrayLike, rows: Any, cols: Any) -> Any:
        weights = np.asarray(weights, dtype=float)
        out = self.device.torch.empty(
            (len(rows), len(cols)), dtype=self.device.entry(self.dtype), device=self.device.place
        )
        used = [family for family in self._on_device if weights[family.members].any()]
        if not used:
            return out.zero_()

        def fill(part):
            self.device.pairs += len(rows[part]) * len(cols)
            some = rows if len(rows[part]) == len(rows) else rows[part]
            # the first one writes: memory may have run out half way
            for add, family in enumerate(used):
                family.combine_at(some, cols, weights[family.members], out[part], add > 0)

        lean = self.device.fused and all(family.lean for family in used)
        for part in self.device.tiles(len(rows), 1 if lean else self._tile_bytes(len(cols))):
            self.device.sparing(fill, part)
        return out

    @property
    def without_tiles(self) -> bool:  # type: ignore[override]
        return all(family.without_tiles for family in self._on_device)

    def decision(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        if not self.without_tiles:
            return super().decision(weights, beta)
        weights, outputs = np.asarray(weights, dtype=float), as_outputs(beta, self.n)
        support, out = support_of(outputs), np.zeros((len(outputs), self.n_rows))
        cols, coefficients = self.device.indices(support), self.device.put(outputs[:, support].T)
        for family in self._on_device:
            own = weights[family.members]
            if support.size and own.any():
                self.device.pairs += self.n_rows * support.size
                out += self.device.fetched(family.decision_at(cols, coefficients, own).T)[0]
        return out if np.ndim(beta) == 2 else out[0]

    def _bilinear_forms(self, couples: list) -> np.ndarray:
        self._needs_square("quadratic_forms")
        torch, support = (
            self.device.torch,
            support_of(np.concatenate([part for couple in couples for part in couple])),
        )
        points = self.device.indices(support)
        # one tensor for arrays that are the same
        there = {
            id(part): self.device.put(part[:, support], self.dtype)
            for couple in couples
            for part in couple
        }
        couples = [tuple(there[id(part)] for part in couple) for couple in couples]
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

        if not all(family.by_products for family in self._on_device):
            for part in self.device.tiles(support.size, self._tile_bytes(support.size)):
                self.device.sparing(add, part)
        self._forms_of_products(points, couples, out)
        return out.cpu().numpy()

    def _forms_of_products(self, points: Any, couples: list, out: Any) -> None:
        """Write the forms of families that have them by way of their products."""
        sides: dict = {}  # of the coefficients of a couple, those which are multiplied
        for place, (a, b) in enumerate(couples):
            sides.setdefault(id(b), (b, []))[1].append((place, a))
        for family in self._on_device:
            if not family.by_products:
                continue
            members = self.device.indices(family.members)
            for b, others in sides.values():
                products = self._multiplied(family, points, points, b.T)
                for place, a in others:
                    left = a.T.flatten().double()
                    out[place, members] = products.flatten(1).double() @ left

    def _add_forms(
        self, points: Any, rows: Any, cols: Any, couples: list, twice: Any, out: Any
    ) -> None:
        weights, self.device.pairs = [], self.device.pairs + len(points[rows]) * len(points[cols])
        for a, b in couples:
            B = a[:, rows].T @ b[:, cols]
            if twice:
                B = B.addmm_(b[:, rows].T, a[:, cols]) if a is not b else B.mul_(2.0)
            weights.append(B)
        for family in self._on_device:
            if family.by_products:
                continue
            pairs, members = (
                family.pairs(points[rows], points[cols]),
                self.device.indices(family.members),
            )
            for place, B in enumerate(weights):
                out[place, members] += family.forms(pairs, B)

    def directional_forms(self, beta: ArrayLike, change: ArrayLike) -> tuple[np.ndarray, ...]:
        beta, change = as_outputs(beta, self.n), as_outputs(change, self.n)
        return tuple(self._bilinear_forms([(beta, change), (change, change)]))

    def newton_sums(self, weights: ArrayLike, beta: ArrayLike, J: Any) -> Any:
        self._needs_square("newton_sums")
        beta = as_outputs(beta, self.n)
        sums = Adding(self.device, J, beta.shape, self.dtype)
        everything = self.device.torch.arange(self.n, device=self.device.place)
        for members, products in self._products(beta):
            sums.add(self.device.indices(members), products)
        return sums.result(self.combined(weights, everything))

    def curved(self, K: Any, M: np.ndarray, J: Any) -> Any:
        if self.n <= FEW:
            return super().curved(K, M, J)
        there = K.whole if isinstance(K, DeviceMatrix) else self.device.put(K, K.dtype)
        return curved(self.device, there, M, J)

    def held_kernel(self, weights: np.ndarray) -> Any:
        if self.n <= FEW:
            return self.combine(weights)
        everything = self.device.torch.arange(self.n, device=self.device.place)
        return DeviceMatrix(self.device, self.combined(weights, everything))

    def _products(self, outputs: np.ndarray) -> Iterator[Any]:
        """Yield members of families, and the products of each with all outputs, (members, rows,
        t) tensors.
        """
        support = support_of(outputs)
        rows, cols = self.device.indices(np.arange(self.n_rows)), self.device.indices(support)
        coefficients = self.device.put(outputs[:, support].T, self.dtype)
        for family in self._on_device:
            yield family.members, self._multiplied(family, rows, cols, coefficients)

    def _multiplied(self, family: Any, rows: Any, cols: Any, coefficients: Any) -> Any:
        """The products of one family, in tiles of rows."""
        if family.without_tiles and len(rows) == self.n_rows and len(cols):
            self.device.pairs += len(rows) * len(cols)
            return family.products_at(cols, coefficients)
        values = self.device.torch.empty(
            (family.members.size, len(rows), coefficients.shape[1]),
            dtype=coefficients.dtype,
            device=self.device.place,
        )

        def multiply(part):
            self.device.pairs += len(rows[part]) * len(cols)
            values[:, part] = family.products(family.pairs(rows[part], cols), coefficients).to(
                values.dtype
            )

        for part in self.device.tiles(len(rows), self._tile_bytes(len(cols))):
            self.device.sparing(multiply, part)
        return values

    def held_products(self, beta: Any) -> Any:
        # those of a point, of a step, and their sum
        if self.n <= FEW or 24 * self.m * beta.size > HELD_SHARE * self.device.free():
            return self.products(beta)
        torch, (t, n) = self.device.torch, beta.shape
        out = torch.zeros((self.m, t, n), dtype=torch.float64, device=self.device.place)
        for members, values in self._products(beta):
            out[self.device.indices(members)] = values.transpose(1, 2).double()
        return DeviceProducts(self.device, out)

    def products(self, beta: ArrayLike) -> np.ndarray:
        outputs = as_outputs(beta, self.n)
        out = np.zeros((self.m, outputs.shape[0], self.n_rows))
        for members, values in self._products(outputs):
            (out[members],) = self.device.fetched(values.transpose(1, 2))
        return out if np.ndim(beta) == 2 else out[:, 0]


def _translated(bank: Any, key: Any, members: Any) -> Any:
    """The family of some kernels of the same pairwise number."""
    device, dtype, spec, (kind, columns) = bank.device, bank.dtype, bank.spec, key
    kernels, scales = [spec.kernels[k] for k in members], spec.scales[members]
    points = Points(bank.left, bank.right)
    of_kind: Any = kernels if kind == "dot" else [kernel.gamma for kernel in kernels]
    if columns == SINGLE:
        family: Any = FeaturePolynomials if kind == "dot" else FeatureGaussians
        features = np.array([spec.columns[k][0] for k in members])
        return family(device, members, features, of_kind, scales, dtype, points)
    seen = spec.points(members[0], points)
    return KINDS[kind](device, members, of_kind, scales, dtype, seen)


def kernel_values(on_points: Any, A: Any, B: Any, device: Device) -> Iterator[Any]:
    """Yield the number of each kernel that is not left out and its values between the rows of A and
    those of B, in float64, as a tensor.

    Parameters
    ----------
    on_points : ResolvedKernels
    A, B : points
    device : Device
    """
    if on_points.is_masked:
        values = on_points.between(A, B).columns(np.arange(B.shape[0]))
        yield from ((k, device.put(one)) for k, one in enumerate(values))
        return
    few = DeviceTiledBank(on_points.spec, Points(A[:1], B[:1]), Compute(device=device))
    yield from few.between(Points(A, B)).one_by_one()


# --- products of all kernels that stay on a device ------------------------------------------------


class DeviceProducts:
    """An (m, t, n) array of products ``K_k beta_c`` of which solvers get to see some kernels, sums
    over the kernels and sums over the points, all as NumPy arrays.

    Parameters
    ----------
    device : Device
    values : float64 tensor
    """

    __array_ufunc__ = None  # so that NumPy leaves what it is multiplied with to this class

    def __init__(self, device: Device, values: Any) -> None:
        self.device, self.values = device, values

    @property
    def shape(self) -> Any:
        return tuple(self.values.shape)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, key: Any) -> Any:
        kernels, *others = key if isinstance(key, tuple) else (key,)
        return self.values[(self.device.indices(kernels), *others)].cpu().numpy()

    def reshape(self, *shape: int) -> Any:
        return DeviceProducts(self.device, self.values.reshape(shape))

    def __matmul__(self, vector: np.ndarray) -> Any:
        return (self.values @ self.device.put(vector)).cpu().numpy()

    def __rmatmul__(self, weights: ArrayLike) -> Any:
        return (self.device.put(weights) @ self.values).cpu().numpy()

    def __rmul__(self, size: int) -> Any:
        return DeviceProducts(self.device, float(size) * self.values)

    def __iadd__(self, other: Any) -> Any:
        self.values += other.values
        return self
