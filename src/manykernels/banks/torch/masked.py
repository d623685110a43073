"""Gaussian kernels on arbitrary feature subsets, on a device."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..base import as_outputs, mirror, support_of
from ..compute import Points
from ..kernel_set import Indices
from ..masked import LARGEST_SQUARE, LOG2_E, MaskedBank
from .base import Adding
from .device import Device, compiled_programs


@dataclass(frozen=True)
class Sizes:
    """Numbers of the tables and of the programs; those of tiles are the fastest of eight choices.

    Attributes
    ----------
    table_entries : int
        Entries of a table of kernels and pairs of points, at most. Larger tables take fewer
        launches and more memory.
    widest : int
        Most features that a compiled program takes. More of them do not fit into its registers.
    aligned : int
        Kernels of a table are a multiple of this: other addresses would need a program compiled for
        them.
    pairs_held : int
        Pairs of points whose feature differences are held at a time. More of them take fewer passes
        over the masks, and more memory.
    tile_kernels, tile_columns, tile_pairs : int
        Kernels, points and pairs of points of a tile of a program. Larger tiles read less and leave
        fewer programs to share out.
    tiles_in_turn : int
        Tiles that a program goes through. With more of them, points are read less often.
    forms_at_once : int
        Forms that a program adds up, which has registers for two.
    """

    table_entries: int = 2**27
    widest: int = 128
    aligned: int = 16
    pairs_held: int = 2**20
    tile_kernels: int = 128
    tile_columns: int = 128
    tile_pairs: int = 64
    tiles_in_turn: int = 16
    forms_at_once: int = 2


SIZES = Sizes()


class DeviceMaskedBank(MaskedBank):
    """A `MaskedBank` whose tables of exponents are made on the device of its `Compute`: one product
    of matrices, one exponential.

    Rows and columns of single kernels (`columns`, `kernel_rows`) come from the host.
    """

    on_device = True

    @property
    def device(self) -> Device:
        return self.compute.device

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if not name.startswith("_on_")}

    @cached_property
    def _on_points(self) -> Any:
        """Points of the rows and of the columns."""
        right = self.device.put(self.right)
        return (right if self.symmetric else self.device.put(self.left)), right

    @cached_property
    def _on_masks(self) -> Any:
        return Masks(
            self.device.put(self.masked.packed, np.uint8),
            self.device.put(self.masked.gammas * LOG2_E, self.dtype),
            self.masked.n_features,
        )

    def _factors(self, kernels: Indices) -> Any:
        """The factors that the host has: a tensor for a slice of the kernels, an array for
        indices.
        """
        if not isinstance(kernels, slice):
            return super()._factors(kernels)
        packed, gammas, _ = self._on_masks
        shifts = self.device.torch.arange(7, -1, -1, device=self.device.place)
        bits = (packed[kernels, :, None] >> shifts) & 1
        return bits.flatten(1)[:, : self.masked.n_features].to(gammas.dtype) * gammas[kernels, None]

    def _squares(self, rows: Any, cols: Any) -> Any:
        """Squared feature differences of pairs, (n_features, pairs), for tensors of indices."""
        left, right = self._on_points
        return (
            (left[rows] - right[cols])
            .square_()
            .clamp_(max=LARGEST_SQUARE)
            .T.to(self.device.entry(self.dtype))
            .contiguous()
        )

    def _chunks_for(self, pairs: Any) -> Any:
        """Slices of the kernels whose tables with so many pairs fit."""
        entries = min(SIZES.table_entries, int(0.1 * self.device.free() / self.dtype.itemsize))
        step = (
            max(1, entries // max(pairs, 1))
            if self.device.rows is None
            else min(self.device.rows, self.m)
        )
        step = max(step // SIZES.aligned * SIZES.aligned, min(step, SIZES.aligned))
        return [slice(start, min(start + step, self.m)) for start in range(0, self.m, step)]

    @property
    def _fused(self) -> Any:
        """True if a compiled kernel does all at once: on a GPU, in float32, with not too many
        features.
        """
        return (
            self.device.fused
            and self.dtype == np.float32
            and self.masked.n_features <= SIZES.widest
        )

    def _values(self, kernels: Any, squares: Any) -> Any:
        """The table of some kernels and pairs, (kernels, pairs)."""
        self.device.pairs += (kernels.stop - kernels.start) * squares.shape[1]
        return (-self._factors(kernels) @ squares).exp2_()

    @property
    def _host(self) -> Any:
        """A copy of the bank on the host."""
        return MaskedBank(
            self.spec, Points(self.left, self.right), replace(self.compute, device=None)
        )

    def _visit(self, chosen: Indices, points: Any, visitor: Callable) -> None:
        """`visit_kernel_rows` and `kernel_rows`: on the host."""
        self._host._visit(chosen, points, visitor)

    def columns(self, chosen: Indices) -> np.ndarray:
        return self._host.columns(chosen)

    def combine(self, weights: Any, rows: Any = None) -> np.ndarray:
        weights = self._scaled(weights)
        active = np.flatnonzero(weights)
        if 0 < active.size < self.m // 2:
            return self.take_kernels(active)._sum(weights[active], rows)
        return self._sum(weights, rows)

    def _sum(self, weights: Any, rows: Any) -> Any:
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

    def _combined(self, weights: ArrayLike, i: Any, j: Any) -> Any:
        """The combined kernel at pairs of points, in float64."""
        out = np.empty(i.size)
        for start in range(0, i.size, SIZES.pairs_held):
            part = slice(start, min(start + SIZES.pairs_held, i.size))
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

    def _bilinear_forms(self, couples: list) -> np.ndarray:
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
        for start in range(0, i.size, SIZES.pairs_held):
            p, q = i[start : start + SIZES.pairs_held], j[start : start + SIZES.pairs_held]
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

    def _forms_there(self, couples: list) -> Any:
        """The forms by a compiled program, which makes no table."""
        torch, n = self.device.torch, self.n
        couples = [[self.device.put(part) for part in couple] for couple in couples]
        out = torch.zeros((len(couples), self.m), dtype=torch.float64, device=self.device.place)
        count = n * (n - 1) // 2
        for start in range(0, count, SIZES.pairs_held):
            i, j = _pairs(torch, start, min(start + SIZES.pairs_held, count), self.device.place)
            self.device.pairs += self.m * len(i)
            B = [(a[:, i] * b[:, j] + a[:, j] * b[:, i]).sum(dim=0) for a, b in couples]
            squares = split_squares(torch, self._squares(i, j).T)
            out += masked_forms(torch, self._on_masks, squares, torch.stack(B).float()).double()
        same = torch.stack([(a * b).sum() for a, b in couples])
        return self.scale * (out + same[:, None]).cpu().numpy()

    def _swept(self, beta: Any, weights: Any, visitor: Any) -> Any:
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
            products = masked_products(torch, points, some, coefficients, weights[kernels], total)
            visitor(kernels, products)
            combined.add_(total)

        for kernels in self._chunks_for(self.n_rows * len(beta)):
            self.device.sparing(visit, kernels)
        return combined

    def products(self, beta: ArrayLike) -> np.ndarray:
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

    def _multiplied(self, beta: Any, points: Any, visitor: Any, weights: Any = None) -> Any:
        """The sum and the calls of `_swept` over some of the points, by tables of values; the sum
        only for weights that are given.
        """
        torch, coefficients = self.device.torch, self.device.put(beta.T, self.dtype)
        cols, weights = (
            self.device.indices(points),
            None if weights is None else self.device.put(weights, self.dtype),
        )
        combined = torch.zeros(
            (self.n_rows, len(cols)), dtype=torch.float64, device=self.device.place
        )
        height = max(1, SIZES.pairs_held // max(len(cols), 1))

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

    def newton_sums(self, weights: ArrayLike, beta: ArrayLike, J: Any) -> Any:
        self._needs_square("newton_sums")
        beta, weights = as_outputs(beta, self.n), self._scaled(weights)
        sums = Adding(self.device, J, beta.shape, self.dtype)
        K = (
            self._swept(beta, weights, sums.add)
            if self._fused
            else self._multiplied(beta, np.arange(self.n), sums.add, weights)
        )
        return sums.result(K, self.scale)


def _pairs(torch: Any, start: Any, stop: Any, place: int) -> Any:
    """Rows and columns of the entries below the diagonal of a matrix, from one number to another,
    row by row.
    """
    p = torch.arange(start, stop, device=place)
    i = ((1.0 + (1.0 + 8.0 * p.double()).sqrt()) / 2.0).long()
    i -= (i * (i - 1) // 2 > p).long()  # where the root was rounded
    i += (i * (i + 1) // 2 <= p).long()
    return i, p - i * (i - 1) // 2


# --- compiled programs ---------------------------------------------------------------------------


class Masks(NamedTuple):
    """Masks of kernels ``exp2(-rate_k sum_f mask_kf (x_f - y_f)^2)``, eight features to a byte, the
    exponents per squared difference, and how many features there are.

    A mask is exact in the eight binary digits of bfloat16, and a squared difference is the sum of
    three such numbers: so three products of matrices that a GPU is fastest at give all digits of
    float32.
    """

    packed: Any
    rates: Any
    n_features: int

    def chosen(self, kernels: slice) -> "Masks":
        """Some kernels, a slice of them."""
        return self._replace(packed=self.packed[kernels], rates=self.rates[kernels])


def split_squares(torch: Any, squares: Any) -> Any:
    """Squared differences (pairs, features) in three parts, (3, pairs, width) with zeros behind the
    features.
    """
    pairs, d = squares.shape
    out = torch.zeros((3, pairs, _width(d)), dtype=torch.bfloat16, device=squares.device)
    rest = squares
    for part in out:
        part[:, :d] = rest
        rest = rest - part[:, :d].to(rest.dtype)
    return out


def masked_forms(torch: Any, masks: Masks, squares: Any, B: Any) -> Any:
    """``sum_p B[c, p] K_k,p`` for every kernel and some c, (len(B), m), for pairs in three
    parts.
    """
    m, pairs, width = len(masks.rates), squares.shape[1], squares.shape[2]
    out = torch.empty((len(B), m), dtype=torch.float32, device=B.device)
    for first in range(0, len(B), SIZES.forms_at_once):
        some = B[first : first + SIZES.forms_at_once].contiguous()
        compiled_programs().masked_forms[(-(-m // SIZES.tile_kernels),)](
            masks.packed, masks.rates, squares, some, out[first:], m, masks.packed.shape[1],
            masks.n_features, pairs, pairs * width, C=len(some), BM=SIZES.tile_kernels,
            BN=SIZES.tile_pairs, BD=width, num_warps=4, num_stages=3,
        )  # fmt: skip
    return out


def masked_products(
    torch: Any, points: tuple, masks: Masks, coefficients: Any, weights: Any, combined: Any
) -> Any:
    """Products of the kernels with coefficients, and their sum, without holding a table of them.

    Parameters
    ----------
    points : pair of tensors, (rows, d) and (n, d)
    masks : Masks
    coefficients : (t, n) tensor
    weights : (m,) tensor
    combined : (rows, n) float64 tensor
        To it is added ``sum_k weights[k] K_k``.

    Returns
    -------
    (m, rows, t) tensor
        ``K_k coefficients``.
    """
    (left, right), (t, n), m = points, coefficients.shape, len(masks.rates)
    out = torch.zeros((m, len(left), t), dtype=torch.float32, device=coefficients.device)
    grid = (
        len(left),
        -(-m // (SIZES.tile_kernels * SIZES.tiles_in_turn)),
        -(-n // SIZES.tile_columns),
    )
    compiled_programs().masked_products[grid](
        left, right, masks.packed, masks.rates, coefficients, weights, out, combined, m,
        masks.packed.shape[1], len(left), n, masks.n_features, T=t, GROUP=SIZES.tiles_in_turn,
        BM=SIZES.tile_kernels, BN=SIZES.tile_columns, BD=_width(masks.n_features), num_warps=4,
    )  # fmt: skip
    return out


def _width(d: int) -> int:
    """Features with zeros behind them: a power of two."""
    return 1 << max(4, (d - 1).bit_length())
