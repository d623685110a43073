"""Gaussian kernels on arbitrary feature subsets, on a device."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from ..base import as_outputs, mirror, support_of
from ..compute import Points
from ..masked import LARGEST, LOG2_E, MaskedBank
from . import masks
from .sums import Adding

ENTRIES = 2**27  # of a table of kernels and pairs
WIDEST = 128  # features that a compiled kernel takes
ALIGNED = 16  # kernels
PAIRS = 2**20  # whose feature differences are held at a time


class DeviceMaskedBank(MaskedBank):
    """A `MaskedBank` whose tables of exponents are made on the device of its `Compute`: one product
    of matrices, one exponential.

    Rows and columns of single kernels (`columns`, `kernel_rows`) come from the host.
    """

    on_device = True

    @property
    def device(self):
        return self.compute.device

    def __getstate__(self):
        state = super().__getstate__()
        return {name: value for name, value in state.items() if not name.startswith("_on_")}

    @cached_property
    def _on_points(self):
        """Points of the rows and of the columns."""
        right = self.device.put(self.right)
        return (right if self.symmetric else self.device.put(self.left)), right

    @cached_property
    def _on_masks(self):
        return masks.Masks(
            self.device.put(self.masked.packed, np.uint8),
            self.device.put(self.masked.gammas * LOG2_E, self.dtype),
            self.masked.n_features,
        )

    def _factors(self, kernels):
        """As on the host, for a slice of the kernels, but a tensor; an array for whoever asks by
        indices.
        """
        if not isinstance(kernels, slice):
            return super()._factors(kernels)
        packed, gammas, _ = self._on_masks
        shifts = self.device.torch.arange(7, -1, -1, device=self.device.place)
        bits = (packed[kernels, :, None] >> shifts) & 1
        return bits.flatten(1)[:, : self.masked.n_features].to(gammas.dtype) * gammas[kernels, None]

    def _squares(self, rows, cols):
        """Squared feature differences of pairs, (n_features, pairs), for tensors of indices."""
        left, right = self._on_points
        return (
            (left[rows] - right[cols])
            .square_()
            .clamp_(max=LARGEST)
            .T.to(self.device.entry(self.dtype))
            .contiguous()
        )

    def _chunks_for(self, pairs):
        """Slices of the kernels whose tables with so many pairs fit."""
        entries = min(ENTRIES, int(0.1 * self.device.free() / self.dtype.itemsize))
        step = (
            max(1, entries // max(pairs, 1))
            if self.device.rows is None
            else min(self.device.rows, self.m)
        )
        # other addresses would need a kernel compiled for them
        step = max(step // ALIGNED * ALIGNED, min(step, ALIGNED))
        return [slice(start, min(start + step, self.m)) for start in range(0, self.m, step)]

    @property
    def _fused(self):
        """Whether a compiled kernel does all at once: on a GPU, in float32, with not too many
        features.
        """
        return self.device.fused and self.dtype == np.float32 and self.masked.n_features <= WIDEST

    def _values(self, kernels, squares):
        """The table of some kernels and pairs, (kernels, pairs)."""
        self.device.pairs += (kernels.stop - kernels.start) * squares.shape[1]
        return (-self._factors(kernels) @ squares).exp2_()

    @property
    def _host(self):
        """The same bank on the host."""
        return MaskedBank(
            self.spec, Points(self.left, self.right), replace(self.compute, device=None)
        )

    def _visit(self, chosen, points, visitor):
        """`visit_kernel_rows` and `kernel_rows`: on the host."""
        self._host._visit(chosen, points, visitor)

    def columns(self, chosen):
        return self._host.columns(chosen)

    def combine(self, weights, rows=None):
        weights = self._scaled(weights)
        active = np.flatnonzero(weights)
        if 0 < active.size < self.m // 2:
            return self.take_kernels(active)._sum(weights[active], rows)
        return self._sum(weights, rows)

    def _sum(self, weights, rows):
        """`combine` for weights that are scaled."""
        weights = self.device.put(weights, self.dtype)
        if rows is None and self.symmetric:
            below = self._combined(weights, *np.tril_indices(self.n, -1))
            out = np.full(
                (self.n, self.n),
                float(weights.sum(dtype=self.device.torch.float64)),
                dtype=self.dtype,
            )
            out[np.tril_indices(self.n, -1)] = below
            mirror(out)
            return out
        rows = np.arange(self.n_rows) if rows is None else np.asarray(rows)
        i, j = np.repeat(rows, self.n), np.tile(np.arange(self.n), rows.size)
        return self._combined(weights, i, j).reshape(rows.size, self.n).astype(self.dtype)

    def _combined(self, weights, i, j):
        """The combined kernel at pairs of points, in float64."""
        out = np.empty(i.size)
        for start in range(0, i.size, PAIRS):
            part = slice(start, min(start + PAIRS, i.size))
            squares = self._squares(self.device.indices(i[part]), self.device.indices(j[part]))
            total = self.device.torch.zeros(
                squares.shape[1], dtype=self.device.torch.float64, device=self.device.place
            )

            def add(kernels, squares=squares, total=total):
                total.add_((weights[kernels] @ self._values(kernels, squares)).double())

            for kernels in self._chunks_for(squares.shape[1]):
                self.device.sparing(add, kernels)
            out[part] = total.cpu().numpy()
        return out

    def _bilinear_forms(self, couples):
        self._needs_square("quadratic_forms")
        if self._fused:
            return self._forms_there(couples)
        torch, support = (
            self.device.torch,
            support_of(np.concatenate([part for couple in couples for part in couple])),
        )
        couples = [(a[:, support], b[:, support]) for a, b in couples]
        out = torch.zeros((self.m, len(couples)), dtype=torch.float64, device=self.device.place)
        i, j = np.tril_indices(support.size, -1)
        for start in range(0, i.size, PAIRS):
            p, q = i[start : start + PAIRS], j[start : start + PAIRS]
            both = np.stack(
                [(a[:, p] * b[:, q] + a[:, q] * b[:, p]).sum(axis=0) for a, b in couples], axis=1
            )
            B, squares = (
                self.device.put(both, self.dtype),
                self._squares(*(self.device.indices(support[x]) for x in (p, q))),
            )

            def add(kernels, B=B, squares=squares):
                out[kernels] += (self._values(kernels, squares) @ B).double()

            for kernels in self._chunks_for(p.size):
                self.device.sparing(add, kernels)
        # values of a point with itself are one
        same = np.array([np.sum(a * b) for a, b in couples])
        return self.scale * (out.T.cpu().numpy() + same[:, None])

    def _forms_there(self, couples):
        """The same by a compiled program, which makes no table."""
        torch, n = self.device.torch, self.n
        couples = [[self.device.put(part) for part in couple] for couple in couples]
        out = torch.zeros((len(couples), self.m), dtype=torch.float64, device=self.device.place)
        count = n * (n - 1) // 2
        for start in range(0, count, PAIRS):
            i, j = _pairs(torch, start, min(start + PAIRS, count), self.device.place)
            self.device.pairs += self.m * len(i)
            B = [(a[:, i] * b[:, j] + a[:, j] * b[:, i]).sum(dim=0) for a, b in couples]
            squares = masks.split(torch, self._squares(i, j).T)
            out += masks.forms(torch, self._on_masks, squares, torch.stack(B).float()).double()
        same = torch.stack([(a * b).sum() for a, b in couples])
        return self.scale * (out + same[:, None]).cpu().numpy()

    def _swept(self, beta, weights, visitor):
        """``sum_k weights[k] K_k`` (rows, n), and calls of ``visitor(kernels, products)`` with
        products (kernels, rows, t).
        """
        # differences do not mind
        torch, middle = (
            self.device.torch,
            self._on_points[1].median(dim=0).values,
        )
        points = [(part - middle).to(self.device.entry(self.dtype)) for part in self._on_points]
        coefficients, weights = (
            self.device.put(beta, self.dtype),
            self.device.put(weights, self.dtype),
        )
        combined = torch.zeros((self.n_rows, self.n), dtype=torch.float64, device=self.device.place)

        def visit(kernels):
            total = torch.zeros_like(combined)
            self.device.pairs += (kernels.stop - kernels.start) * combined.numel()
            some = self._on_masks.chosen(kernels)
            products = masks.multiply(torch, points, some, coefficients, weights[kernels], total)
            visitor(kernels, products)
            combined.add_(total)

        for kernels in self._chunks_for(self.n_rows * len(beta)):
            self.device.sparing(visit, kernels)
        return combined

    def products(self, beta):
        outputs = as_outputs(beta, self.n)
        out = np.empty((self.m, outputs.shape[0], self.n_rows))

        def keep(kernels, products):
            out[kernels] = products.permute(0, 2, 1).double().cpu().numpy()

        if self._fused:
            self._swept(outputs, np.zeros(self.m), keep)
        else:
            points = np.arange(self.n) if self.symmetric else support_of(outputs)
            self._multiplied(outputs[:, points], points, keep)
        out *= self.scale
        return out if np.ndim(beta) == 2 else out[:, 0]

    def _multiplied(self, beta, points, visitor, weights=None):
        """As `_swept`, over some of the points and by tables of values; the sum only for weights
        that are given.
        """
        torch, coefficients = self.device.torch, self.device.put(beta.T, self.dtype)
        cols, weights = (
            self.device.indices(points),
            None if weights is None else self.device.put(weights, self.dtype),
        )
        combined = torch.zeros(
            (self.n_rows, len(cols)), dtype=torch.float64, device=self.device.place
        )
        height = max(1, PAIRS // max(len(cols), 1))

        def visit(kernels):
            total, shape = (
                torch.zeros_like(combined),
                (kernels.stop - kernels.start, self.n_rows, coefficients.shape[1]),
            )
            products = torch.empty(shape, dtype=coefficients.dtype, device=self.device.place)
            for start in range(0, self.n_rows, height):
                rows = torch.arange(
                    start, min(start + height, self.n_rows), device=self.device.place
                )
                values = self._values(
                    kernels,
                    self._squares(rows.repeat_interleave(len(cols)), cols.repeat(len(rows))),
                )
                products[:, rows] = (values.view(-1, len(cols)) @ coefficients).view(
                    shape[0], len(rows), shape[2]
                )
                if weights is not None:
                    total[rows] = (weights[kernels] @ values).double().view(len(rows), -1)
            visitor(kernels, products)
            combined.add_(total)

        for kernels in self._chunks_for(min(height, self.n_rows) * len(cols)):
            self.device.sparing(visit, kernels)
        return combined

    def newton_sums(self, weights, beta, J):
        self._needs_square("newton_sums")
        beta, weights = as_outputs(beta, self.n), self._scaled(weights)
        sums = Adding(self.device, J, beta.shape, self.dtype)
        K = (
            self._swept(beta, weights, sums.add)
            if self._fused
            else self._multiplied(beta, np.arange(self.n), sums.add, weights)
        )
        return sums.result(K, self.scale)


def _pairs(torch, start, stop, place):
    """Rows and columns of the entries below the diagonal of a matrix, from one number to another,
    row by row.
    """
    p = torch.arange(start, stop, device=place)
    i = ((1.0 + (1.0 + 8.0 * p.double()).sqrt()) / 2.0).long()
    i -= (i * (i - 1) // 2 > p).long()  # where the root was rounded
    i += (i * (i + 1) // 2 <= p).long()
    return i, p - i * (i - 1) // 2
