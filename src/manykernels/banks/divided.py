"""Kernels of small rank as their factors, and the others as they are.

A Gaussian of one column is a smooth function of two numbers: of a standardized column its pivoted
Cholesky factor has some 15 columns when no entry of what it leaves is above 1e-7, which is what
float32 rounds away. A linear kernel has its columns. So the products and the sums of such kernels
cost a small part of those of matrices, and are as exact.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from .._loops.factors import gaussian_factor
from ..kernels.vector import Linear
from ..thresholds import thresholds
from .base import SumBank, as_outputs
from .dense import DenseBank
from .kernel_set import Delegating, Indices
from .lowrank.factors import FactorBank
from .tiled import TiledBank

# Largest entry that a factor may leave, by precision: what rounding takes in any case.
ERRORS = {np.dtype(np.float32): 1e-7, np.dtype(np.float64): 1e-13}


class Part(NamedTuple):
    """Some kernels, by number, and the bank that has them."""

    kernels: np.ndarray
    bank: Any


class DividedBank(Delegating, SumBank):
    """Kernels that are divided among several banks of the same training points.

    Parameters
    ----------
    source : SumBank
        With all kernels; it serves new points.
    parts : tuple of Part
        All but the first are of factors.
    """

    inner, shares_passes = "source", True

    def __init__(self, source: SumBank, parts: tuple[Part, ...]) -> None:
        self.source, self.parts = source, parts
        self.n_rows, self.n, self.dtype = source.n_rows, source.n, source.dtype
        self.threads = source.threads

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def persistent(self) -> Any:
        return self.source.persistent

    def threaded(self, count: int) -> Self:
        twin = copy.copy(self)
        twin.source = self.source.threaded(count)
        twin.threads = twin.source.threads
        twin.parts = tuple(Part(kernels, bank.threaded(count)) for kernels, bank in self.parts)
        return twin

    def exact_factors(self) -> Any:
        (_, first), *others = self.parts
        return None if others or not first.factored else first

    def combine(self, weights: ArrayLike, rows: Indices | None = None) -> np.ndarray:
        weights = np.asarray(weights, dtype=float)
        used = [part for part in self.parts if weights[part.kernels].any()] or self.parts[:1]
        out = used[0].bank.combine(weights[used[0].kernels], rows)
        for kernels, bank in used[1:]:
            bank.add_combined(weights[kernels], rows, out)
        return out

    def decision(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        weights, out = np.asarray(weights, dtype=float), np.zeros(np.shape(beta))
        for kernels, bank in self.parts:
            if weights[kernels].any():
                out += bank.decision(weights[kernels], beta)
        return out

    def magnitudes(self, weights: ArrayLike, numbers: Any) -> Any:
        weights = np.asarray(weights, dtype=float)
        used = [part for part in self.parts if weights[part.kernels].any()] or self.parts[:1]
        return sum(bank.magnitudes(weights[kernels], numbers) for kernels, bank in used)

    def combine_each(self, weights: ArrayLike) -> np.ndarray:
        weights = np.asarray(weights, dtype=float)
        found = (bank.combine_each(weights[:, kernels]) for kernels, bank in self.parts)
        out = next(found)
        for more in found:
            out += more
        return out

    def products(self, beta: ArrayLike) -> np.ndarray:
        outputs = as_outputs(beta, self.n)
        found = self._gathered(lambda bank: bank.products(outputs), (len(outputs), self.n))
        return found if np.ndim(beta) == 2 else found[:, 0]

    def quadratic_forms(self, beta: ArrayLike) -> np.ndarray:
        return self._gathered(lambda bank: bank.quadratic_forms(beta))

    def directional_forms(self, beta: ArrayLike, change: ArrayLike) -> tuple[np.ndarray, ...]:
        found = self._gathered(
            lambda bank: np.stack(bank.directional_forms(beta, change), axis=1), (2,)
        )
        return found[:, 0], found[:, 1]

    def columns(self, chosen: Indices) -> np.ndarray:
        return self._gathered(lambda bank: bank.columns(chosen), (self.n, len(chosen)))

    def kernel_rows(self, chosen: Indices, points: Indices) -> np.ndarray:
        out = np.empty((len(chosen), self.m, len(points)), self.dtype)
        for kernels, bank in self.parts:
            out[:, kernels] = bank.kernel_rows(chosen, points)
        return out

    def diagonal(self) -> np.ndarray:
        return self._gathered(lambda bank: bank.diagonal(), (self.n,))

    def combined_diagonal(self, weights: ArrayLike) -> np.ndarray:
        weights = np.asarray(weights, dtype=float)
        return sum(bank.combined_diagonal(weights[kernels]) for kernels, bank in self.parts)

    def _gathered(self, work: Callable, shape: tuple[int, ...] = ()) -> np.ndarray:
        """What all parts give, in the order of the kernels."""
        out = np.empty((self.m, *shape))
        for kernels, bank in self.parts:
            out[kernels] = work(bank)
        return out

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> "SumBank | None":
        source = self.source.take_kernels(kernels, factor)
        chosen, parts = np.arange(self.m)[kernels], []
        for members, bank in self.parts:
            places = np.flatnonzero(np.isin(chosen, members))
            if places.size and source is not None:
                some = bank.take_kernels(np.searchsorted(members, chosen[places]), factor)
                if some is None:
                    return None
                parts.append(Part(places, some))
        return None if source is None else DividedBank(source, tuple(parts))

    def take_points(self, points: Indices) -> "SumBank | None":
        return self._like(self.source.take_points(points))

    def refined(self) -> Any:
        return self._like(self.source.refined())

    def _like(self, source: Any) -> Any:
        """Another bank of these kernels, divided and held as this one is."""
        if source is None:
            return None
        holds = any(isinstance(bank, DenseBank) for _, bank in self.parts)
        return holding(divided(source)) if holds else divided(source)

    def cross(self, X_new: Any, support: Indices | None = None) -> "SumBank":
        return self.source.cross(X_new, support)

    def same_data(self, X: Any) -> bool:
        return self.source.same_data(X)


class KernelFactors(FactorBank):
    """Factors that are the kernels themselves, up to rounding, and not an approximation."""

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> "KernelFactors":
        chosen = np.arange(self.m)[kernels]
        widths = np.diff(self.offsets)[chosen]
        columns = np.concatenate([np.arange(self.width)[self._own(k)] for k in chosen])
        root = self.dtype.type(np.sqrt(factor))
        return KernelFactors(
            self.factors[:, columns] * root,
            np.append(0, np.cumsum(widths)),
            self.features.take_kernels(chosen, factor),
            self.threads,
        )


def gram_bytes(bank: Any) -> int:
    """Bytes of the Gram matrices of all kernels that are no factors."""
    if isinstance(bank, DividedBank):
        return sum(gram_bytes(one) for _, one in bank.parts if not isinstance(one, FactorBank))
    return int(bank.m * bank.n**2 * bank.dtype.itemsize)


def of_small_rank(bank: Any) -> np.ndarray:
    """Numbers of the kernels that may have a factor of few columns: Gaussians of one column, and
    linear kernels of few or, where there are many points, of a small part of so many.
    """
    if type(bank) is not TiledBank or bank.normalize in ("cosine", "center"):
        return np.empty(0, dtype=int)
    spec, most = bank.spec, most_columns(bank.n)
    most = max(most, int(thresholds().linear_share * bank.n))
    width = bank.right.shape[1]
    found = [
        k
        for k in spec.alive
        if spec.on_one_feature(k)
        or (
            type(spec.kernels[k]) is Linear
            and not hasattr(bank.right, "nnz")
            and (width if spec.columns[k] is None else spec.columns[k].size) <= most
        )
    ]
    return np.array(found, dtype=int)


def most_columns(n: int) -> int:
    """Columns that a factor may have."""
    table = thresholds()
    return min(table.factor_columns, int(table.factor_share * n))


def divided(bank: Any) -> Any:
    """The bank with kernels of small rank as their factors; itself if there are none."""
    candidates = of_small_rank(bank)
    if not candidates.size:
        return bank
    most = most_columns(bank.n)
    factors = bank.threads.map(
        lambda k: _factor(bank, k, most),
        candidates.tolist(),
        entries=candidates.size * bank.n * most,
    )
    found = [(k, one) for k, one in zip(candidates, factors, strict=True) if one is not None]
    if not found:
        return bank
    kernels = np.array([k for k, _ in found])
    offsets = np.append(0, np.cumsum([len(one) for _, one in found]))
    rows = np.empty((offsets[-1], bank.n), bank.dtype)
    np.concatenate([one for _, one in found], out=rows, casting="same_kind")
    side_by_side = np.ascontiguousarray(rows.T)
    some = KernelFactors(side_by_side, offsets, bank.take_kernels(kernels), bank.threads)
    parts, others = [Part(kernels, some)], np.setdiff1d(np.arange(bank.m), kernels)
    if others.size:
        parts.insert(0, Part(others, bank.take_kernels(others)))
    return DividedBank(bank, tuple(parts))


def holding(bank: Any, held: Callable = DenseBank.from_bank) -> Any:
    """The bank with the matrices of all kernels that are no factors, as ``held`` makes them."""
    if not isinstance(bank, DividedBank):
        return held(bank)
    parts = (Part(some, one if one.factored else held(one)) for some, one in bank.parts)
    return DividedBank(bank.source, tuple(parts))


def _factor(bank: Any, k: int, most: int) -> np.ndarray | None:
    """The factor of a kernel, (r, n), or None if it has too many columns."""
    kernel, scale = bank.spec.kernels[k], np.sqrt(bank.spec.scales[k])
    seen = bank.spec.seen(k, bank.right)
    if type(kernel) is Linear:
        return scale * np.asarray(seen, dtype=float).T
    x = np.asarray(seen.toarray() if hasattr(seen, "toarray") else seen, dtype=float).ravel()
    factor, left, powers = np.empty((most, bank.n)), np.empty(bank.n), np.empty(bank.n)
    rank = gaussian_factor(x, kernel.gamma, ERRORS[bank.dtype], left, powers, factor)
    return None if rank < 0 else scale * factor[:rank]
