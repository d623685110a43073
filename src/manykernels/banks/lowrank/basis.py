"""Factors of many kernels in the small space in which they lie.

Kernels of neighboring widths are nearly functions of each other, so the factors of all of them
together, ``V`` with r columns, have a much smaller rank than r, but for a hundred-thousandth of
their length: ``V = Q P'`` with q columns. Fifty Gaussians of rank 100 on data of ten features, 3279
columns, lie in a space of 1059. With weights D on the columns of V the combined kernel is ``Q S
Q'`` with ``S = P' D P``: memory, passes over the points and systems of equations are those of q
columns.

The factors are those of the host or of a device: P and Q are arrays or tensors as they are.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import qr
from scipy.linalg.lapack import dpstrf

from ..._arrays import (
    as_dtype_of,
    beside,
    cholesky_root,
    contiguous,
    diagonal,
    here,
    is_tensor,
    largest_places,
    namespace,
)
from ...thresholds import thresholds
from ..base import as_outputs
from ..kernel_set import Indices
from .columns import ColumnBank
from .factors import FactorBank, blocks
from .systems import nearly_definite


@dataclass(frozen=True)
class Tolerances:
    """Numbers of the search for a space.

    Attributes
    ----------
    left_out : float
        Length of a point's factors outside of the space, relative to their own. A larger one makes
        the space smaller and the kernels less accurate.
    excess : float
        How many times the square of `left_out` is too much for a point, so that its directions are
        added. With a larger one there are fewer rounds.
    held_bytes : int
        Memory for the small matrices of all kernels, which are kept if they take less.
    sample : int
        Points whose factors show the space, at first, and of a round. Larger samples take fewer
        rounds, which cost more each.
    largest_device_sample : int
        Most points of a sample on a device: its eigenvalues take as many cubed.
    spread : float
        Directions per point of a sample, above which it does not show those of other points. With a
        larger one smaller samples are trusted.
    rounds : int
        Most rounds of points whose factors were not in the space.
    """

    left_out: float = 1e-5
    excess: float = 4.0
    held_bytes: int = 2**29
    sample: int = 1024
    largest_device_sample: int = 4096
    spread: float = 0.9
    rounds: int = 20


TOLERANCES = Tolerances()


class ReducedBank(FactorBank):
    """Kernels ``K_k = Q P_k' P_k Q'``.

    Parameters
    ----------
    points : FactorBank
        With the factors Q.
    P : (r, q) float64 array or tensor
        Orthonormal columns, those that hold most first; rows as the columns of the factors that it
        stands for.
    offsets : (m + 1,) int
        Kernel k has the rows ``offsets[k]`` to ``offsets[k + 1]`` of P.
    diagonals : (m, n) float64 array or tensor
        Of the kernels.
    """

    symmetric = True
    by_blocks = False  # since all of them have the same columns
    has_all_dimensions = False

    def __init__(self, points: FactorBank, P: Any, offsets: Indices, diagonals: Any) -> None:
        ColumnBank.__init__(self, offsets, points.features, points.threads)
        self._points, self.P, self._diagonals = points, P, diagonals
        self.n, self.n_rows, self.dtype = points.n, points.n_rows, points.dtype

    @property
    def points(self) -> FactorBank:
        return self._points

    @property
    def factors(self) -> np.ndarray:  # type: ignore[override]
        return self.points.factors

    @property
    def right(self) -> np.ndarray:  # type: ignore[override]
        return self.points.right

    @property
    def width(self) -> int:
        return self.P.shape[0]

    @cached_property
    def _host_P(self) -> np.ndarray:
        return here(self.P)

    def parts(self) -> Iterator[np.ndarray]:
        """``P_k`` of every kernel, as arrays of the host."""
        return (self._host_P[self._own(k)] for k in range(self.m))

    def to_device(self, array: np.ndarray) -> Any:
        return self.points.to_device(array)

    def whole(self) -> np.ndarray:
        return self.points.whole() @ self._host_P.T

    def values(self, coefficients: ArrayLike) -> Any:
        return self.points.values(self.reduced(np.atleast_2d(coefficients)))

    def correlate(self, beta: Any) -> np.ndarray:
        return self._times(self.points.correlate(beta), self.P.T)

    def gram(self, scale: Any, exact: bool = False) -> np.ndarray:
        (square,) = beside(self.P, self.points.gram(scale, exact))
        return here(self.P @ square @ self.P.T)

    def combine(self, weights: ArrayLike, rows: Indices | None = None) -> np.ndarray:
        return self.points.combine_rooted(self.root(weights), rows)

    def products(self, beta: ArrayLike) -> np.ndarray:
        moments = self.points.correlate(as_outputs(beta, self.n))
        out = np.stack([self.points.dot(moments @ part.T @ part) for part in self.parts()])
        return out if np.ndim(beta) == 2 else out[:, 0]

    def columns(self, chosen: Indices) -> np.ndarray:
        few = here(self.points.rows(chosen)).astype(float)
        return np.stack([self.points.dot(few @ part.T @ part).T for part in self.parts()])

    def cross(self, X_new: Any, support: Indices | None = None) -> FactorBank:
        right, P = self.right if support is None else self.right[support], self._host_P
        new = self.features.transform(X_new) @ P @ P.T
        return FactorBank(new, self.offsets, self.features, self.threads, right=right @ P.T)

    def take_points(self, points: Indices) -> "ReducedBank":
        some = self._diagonals[:, np.arange(self.n)[points]]
        return ReducedBank(self.points.take_points(points), self.P, self.offsets, some)

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> FactorBank | None:
        return None  # the space is that of all kernels together

    def lasting(self, coefficients: np.ndarray) -> np.ndarray:
        return self._times(self.reduced(coefficients), self.P.T)

    # --- what solvers on factors ask of a space ---------------------------------------------------

    def half(self) -> "ReducedBank | None":
        q = self.P.shape[1] // 2
        if q < thresholds().shared_basis_columns // 2:
            return None
        # with the diagonals of the whole: near enough for the estimate of rounding, which is all
        # that asks for them
        return ReducedBank(
            self.points.leading(q), contiguous(self.P[:, :q]), self.offsets, self._diagonals
        )

    @cached_property
    def _squares(self) -> np.ndarray | None:
        """``P_k' P_k`` of every kernel, (m, q, q), if they do not take too much memory, and if P is
        not on a device, which computes their sum as fast.
        """
        too_large = 8 * self.m * self.P.shape[1] ** 2 > TOLERANCES.held_bytes
        if is_tensor(self.P) or too_large:
            return None
        return np.stack([part.T @ part for part in self.parts()])

    def root(self, weights: ArrayLike) -> Any:
        """A lower triangular root of S."""
        if self._squares is not None:
            S = np.tensordot(np.asarray(weights, dtype=float), self._squares, 1)
        else:
            (columns,) = beside(self.P, np.sqrt(self.column_weights(weights)))
            scaled = columns[:, None] * self.P
            S = scaled.T @ scaled
        trace = S.trace()
        if trace == 0.0:  # no kernel has weight
            return S
        entries = diagonal(S)
        entries += 1e-15 * trace  # it is singular to rounding
        return nearly_definite(S, cholesky_root)

    def coefficients_of_moments(self, weights: ArrayLike, moments: np.ndarray) -> np.ndarray:
        """``D P moments``, (t, r), for moments ``Q' beta``, (t, q)."""
        return self.column_weights(weights) * self._times(moments, self.P.T)

    def reduced(self, v: np.ndarray) -> np.ndarray:
        """``P' v``, (t, q)."""
        return self._times(v, self.P)

    def _times(self, short: np.ndarray, P: Any) -> np.ndarray:
        """Products of short vectors of the host, as such."""
        (there,) = beside(P, short)
        return here(there @ P)


def reduced(bank: Any, memory_budget: int = 2**32) -> Any:
    """The kernels of a bank in the smallest space that holds their factors; the bank itself if that
    is not much smaller.

    In float64, which is asked for where digits count, nothing is left out. While the factors of the
    space are made, they are twice in memory beside those of the bank: all of them must fit, into
    the budget, unless the bank's are in a file, or onto the device.

    Parameters
    ----------
    bank : FactorBank
        Or any other bank, which is returned.
    memory_budget : int
        Bytes of the host's memory.
    """
    if not getattr(bank, "has_all_dimensions", False):
        return bank
    if bank.dtype != np.float32 or bank.width < thresholds().shared_basis_columns:
        return bank
    squares = bank._diagonals.sum(axis=0)
    if not 0.0 < float(squares.sum()) < np.inf:  # nothing to span: the solver says what is wrong
        return bank
    kind = _EigenvectorSpace if is_tensor(squares) else _PivotSpace
    with bank.threads.algebra():
        space = kind(bank, squares).spanned(memory_budget)
    if space is None:
        return bank
    points = bank.with_factors(space.factors())
    return ReducedBank(points, space.P, bank.offsets, bank._diagonals)


class _Space(ABC):
    """Orthonormal directions P (r, q), and what they hold of the factors, Q (n, q) in parts, and
    leave of their squared lengths (n,).

    Lengths are counted in units of the point's own, or of the usual one if that is more.
    """

    def __init__(self, bank: FactorBank, squares: Any) -> None:
        self.bank, self.units = bank, squares.clip(squares.mean(), None)
        self.left = squares / self.units
        self.P: Any = bank.zeros((bank.width, 0))
        self.parts: list[Any] = []

    def factors(self) -> Any:
        """Q."""
        if len(self.parts) == 1:
            return self.parts[0]
        return namespace(self.P).concatenate(self.parts, 1)

    def spanned(self, memory_budget: int) -> "_Space | None":
        """The space with directions that hold the factors of all points but for what may be left
        out; None if there are too many, or too many rounds.

        A sample of the points shows most of the directions, and the points that these serve worst
        show the others: often the landmarks, which narrow kernels set apart.
        """
        bank, allowed = self.bank, TOLERANCES.excess * TOLERANCES.left_out**2
        share = thresholds().shared_basis_share
        most = min(int(share * bank.width), bank.n, bank.room_for_columns(memory_budget))
        found = self._sampled(most)
        for _ in range(TOLERANCES.rounds):
            if found is None:
                return None
            count = self.P.shape[1] + found.shape[1]
            if count > min(most, bank.room_for_columns(memory_budget)):
                return None
            self._add(found)
            worst = largest_places(self.left, TOLERANCES.sample)
            worst = worst[self.left[worst] > allowed]
            if not len(worst):
                return self
            found = self._directions(self._rest(worst))
        return None

    def _sampled(self, most: int) -> Any:
        """Directions of random points that hold those of all others, as far as can be seen; None if
        there are too many.

        There must be fewer of them than points in the sample: else other points, and new ones,
        would have many more directions.
        """
        n, largest = self.bank.n, min(self.bank.n, self.largest_sample)
        size = min(TOLERANCES.sample, n)
        while True:
            chosen = np.sort(np.random.default_rng(0).choice(n, size, replace=False))
            found = self._few_directions(self._rest(chosen), int(TOLERANCES.spread * size))
            if found is not None:
                return found
            if TOLERANCES.spread * size >= most or size >= largest:
                return None
            size = min(2 * size, largest)

    def _rest(self, points: Any) -> Any:
        """The rest of some factors, in float64, which the directions do not hold."""
        V = self.bank.rows(points) / self.units[points, None] ** 0.5
        return V - (V @ self.P) @ self.P.T

    def _hold(self, new: Any, held: Any, part: slice, block: Any) -> None:
        """Fill in what new directions hold of a block of factors."""
        turned = as_dtype_of(block, new) @ new
        held[part] = as_dtype_of(turned, held)
        self.left[part] -= (turned**2).sum(axis=1) / self.units[part]

    @property
    @abstractmethod
    def largest_sample(self) -> int:
        """Most points of a sample."""

    @abstractmethod
    def _directions(self, rows: Any) -> Any:
        """Directions that hold all of some rows but for what may be left out, (r, k)."""

    @abstractmethod
    def _few_directions(self, rows: Any, count: int) -> Any:
        """`_directions`, or None if there are more than so many."""

    @abstractmethod
    def _add(self, new: Any) -> None:
        """Take directions (r, k) into the space."""


class _PivotSpace(_Space):
    """Directions on the host: rows that Cholesky's method with pivots chooses."""

    @property
    def largest_sample(self) -> int:
        return self.bank.n

    def _directions(self, rows: Any) -> Any:
        tolerance = TOLERANCES.left_out**2
        _, order, rank, _ = dpstrf(rows @ rows.T, tol=tolerance, lower=1)
        return rows[order[:rank] - 1].T

    def _few_directions(self, rows: Any, count: int) -> Any:
        found = self._directions(rows)
        return found if found.shape[1] <= count else None

    def _add(self, new: Any) -> None:
        new = qr(new, mode="economic", check_finite=False)[0]
        if self.P.shape[1]:  # what rounding has left of the old directions
            new = qr(new - self.P @ (self.P.T @ new), mode="economic", check_finite=False)[0]
        held = np.empty((self.bank.n, new.shape[1]), self.bank.dtype)
        # one block after the other, each on all threads: blocks are copied in float64
        for part in blocks(self.bank.n, TOLERANCES.sample):
            self._hold(new, held, part, self.bank.factors[part])
        self.P = np.hstack([self.P, new])
        self.parts.append(held)


class _EigenvectorSpace(_Space):
    """Directions on a device: eigenvectors, those that hold most first. Pivots, which are found one
    after the other, take longer there.
    """

    @property
    def largest_sample(self) -> int:
        return TOLERANCES.largest_device_sample

    def _directions(self, rows: Any) -> Any:
        values, vectors = namespace(rows).linalg.eigh(rows @ rows.T)
        kept = values > TOLERANCES.left_out**2
        kept[-1] = True  # one of them, at least
        return rows.T @ (vectors[:, kept] / values[kept].sqrt()).flip(1)

    def _few_directions(self, rows: Any, count: int) -> Any:
        torch, square, G = namespace(rows), TOLERANCES.left_out**2, rows @ rows.T
        # those of some of the rows are enough, and Cholesky's method is much faster
        some = G[: count + 1, : count + 1].clone()
        some.diagonal().sub_(square)
        if not int(torch.linalg.cholesky_ex(some)[1]):
            return None
        if int((torch.linalg.eigvalsh(G) > square).sum()) > count:
            return None
        return self._directions(rows)

    def _add(self, new: Any) -> None:
        torch = namespace(new)
        new = torch.linalg.qr(new - self.P @ (self.P.T @ new))[0]
        held = torch.empty((self.bank.n, new.shape[1]), dtype=torch.float32, device=new.device)
        row_bytes = 12 * self.bank.width + 16 * new.shape[1]
        self.bank.visit(lambda part, block: self._hold(new, held, part, block), row_bytes)
        self.P = torch.concatenate([self.P, new], 1)
        self.parts.append(held)
