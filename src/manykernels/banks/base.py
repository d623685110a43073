"""The protocol of a bank: many kernels on one data set, and all the n×n work on them."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import Array, is_tensor
from .._html import bank_html
from .._threads import Threads
from ..machines import CurvedKernel, DenseMachine
from .kernel_set import Indices, KernelSet

# Rows of a combined kernel that are held at a time where only their product with a vector is
# wanted. More of them take more memory.
ROW_BLOCK = 1024
# Products, as a part of the points, up to which the rows of a matrix that is made of them are added
# up when they are asked for. With a larger one matrices are made row by row that are needed whole.
FEW_PRODUCTS = 0.125
# Entries of matrices that are computed together. More of them take more memory.
ENTRIES_AT_ONCE = 2**24
# Rows of an outer product that are added at a time. More of them do not stay in cache.
OUTER_ROWS = 256


class Sums(NamedTuple):
    """Sums over the kernels that `SumBank.newton_sums` makes of the products ``M_kc = K_k beta_c``.

    Attributes
    ----------
    K : (n, n) combined kernel
    squares : (t, t, n, n)
        ``squares[c, e] = sum_k diagonal[k] outer(M_kc, M_ke)``.
    mixed : (t, n)
        ``sum_k vector[k] M_kc``.
    """

    K: np.ndarray
    squares: np.ndarray
    mixed: np.ndarray

    def times(self, beta: np.ndarray) -> np.ndarray:
        """``K beta_c`` of every output, (t, n)."""
        return np.stack([DenseMachine().multiply(self.K, b) for b in beta])

    def curved(self, c: int, factor: float, dtype: Any) -> Any:
        """``K + 2 squares[c, c] + 2 factor outer(mixed[c], mixed[c])`` as machines take it, in as
        few passes as it takes.
        """
        out, v = self.squares[c, c].astype(dtype), self.mixed[c]
        out *= dtype(2.0)
        out += self.K
        for start in range(0, v.size, OUTER_ROWS):
            part = slice(start, start + OUTER_ROWS)
            out[part] += np.outer(2.0 * factor * v[part], v).astype(dtype)
        return out

    def between(self, c: int, e: int, factor: float, change: np.ndarray) -> np.ndarray:
        """``(squares[c, e] + factor outer(mixed[c], mixed[e])) change``, (n,)."""
        return self.squares[c, e] @ change + factor * (self.mixed[e] @ change) * self.mixed[c]

    def host(self) -> "Sums":
        """The sums in the memory of the host."""
        return self


def curved(K: np.ndarray, M: np.ndarray, J: Any) -> Any:
    """``K + 2 M' J M`` in the precision of K, for products M (k, n)."""
    if len(M) <= FEW_PRODUCTS * len(K):
        right = M.astype(K.dtype)
        left = (2.0 * J.diagonal) * M.T + np.outer((2.0 * J.factor) * (J.vector @ M), J.vector)
        return CurvedKernel(K, left.astype(K.dtype), right)
    rows = (M * np.sqrt(2.0 * J.diagonal)[:, None]).astype(K.dtype)
    out = rows.T @ rows
    out += K
    v = (J.vector @ M).astype(K.dtype)
    out += K.dtype.type(2.0 * J.factor) * np.outer(v, v)
    return out


class Bank(KernelSet):
    """One kernel K_d made of m weights d, between n_rows points (the training set, or new points)
    and n training points.

    Vectors of dual coefficients have shape (n,) or (t, n) for t outputs; results are float64 but
    for `combine`.

    Attributes
    ----------
    n, n_rows : int
    dtype : dtype of combined kernels
    threads : Threads
        On which the work is shared out.
    """

    n: int
    n_rows: int
    dtype: np.dtype
    threads: Threads = Threads(1)
    factored: bool = False
    """True if the kernels are products of factors, which solvers for low rank work on."""

    on_device: bool = False
    """True if the work on pairs of points is done on a device."""

    has_machine: bool = False
    """Whether `machine` gives one, which is where the bank computes."""

    is_remote: bool = False
    """True if the kernels are on other machines: every request is a round trip, and matrices of all
    kernels are not to be brought here.
    """

    by_roots: bool = False
    """True if solvers should look for the roots of the weights."""

    smooth_in_roots: bool = False
    """True if the kernel is a smooth function of the roots of the weights, and not of the weights
    themselves where they are zero.
    """

    reads_kernel: bool = False
    """True if `weight_gradient` also takes the combined kernel, where somebody has it."""

    by_blocks: bool = False
    """True if the factors of one kernel can be had at a time, which is all that
    `Blocks` asks for.
    """

    @property
    def prefers_factor_space(self) -> bool:
        """True if systems of equations in the space of factors are cheaper than kernels of all
        pairs of points.
        """
        return False

    @property
    def starts(self) -> int:
        """How many starting points a solver should try."""
        return 1

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """True if rows and columns are the same points."""

    @property
    def persistent(self) -> "Bank":
        """The bank that a fitted model keeps: without what was there for the run alone."""
        return self

    def threaded(self, count: int) -> Self:
        """A copy of the bank with so many threads."""
        twin = copy.copy(self)
        twin.threads = Threads(count)
        if hasattr(twin, "compute"):
            twin.compute = replace(twin.compute, threads=twin.threads)
        inner = getattr(self, "inner", None)
        if inner is not None and isinstance(getattr(self, inner), Bank):
            setattr(twin, inner, getattr(self, inner).threaded(count))
        return twin

    def algebra(self) -> AbstractContextManager:
        """A context in which a single matrix operation may use all threads."""
        return self.threads.algebra()

    @property
    def own_threads(self) -> Threads:
        """Threads for the work of one problem: one where others compute beside it."""
        return self.threads

    def start(self, regularizer: Any) -> np.ndarray:
        """Weights to begin with, (m,)."""
        return regularizer.start(self.m)

    @abstractmethod
    def combine(self, weights: ArrayLike, rows: Indices | None = None) -> np.ndarray:
        """The kernel K_d, (n_rows, n), or the chosen rows of it."""

    @abstractmethod
    def weight_gradient(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        """``sum_c beta_c' (dK_d / dd_k) beta_c`` for every weight, (m,)."""

    @abstractmethod
    def combined_diagonal(self, weights: ArrayLike) -> np.ndarray:
        """Diagonal of K_d, (n,)."""

    def largest(self, weights: ArrayLike) -> float:
        """The largest entry of the diagonal of K_d."""
        return float(self.combined_diagonal(weights).max(initial=0.0))

    def nonnegative(self) -> bool | np.ndarray:
        """Which kernels have no negative entries and are computed entry by entry, (m,) or all."""
        return False

    def magnitudes(self, weights: ArrayLike, numbers: Array) -> Array:
        """``S numbers`` for nonnegative numbers (t, n), where S_ij is the size of what is rounded
        in an entry of K_d: the entry itself of `nonnegative` kernels, and for others its
        bound ``sqrt(K_ii K_jj)``, since terms that cancel are as large.
        """
        weights = np.asarray(weights, dtype=float)
        sure = np.where(self.nonnegative(), weights, 0.0)
        out = np.maximum(self.decision(sure, numbers), 0.0) if sure.any() else 0.0
        if sure.any() and np.array_equal(sure, weights):
            return out
        roots = np.sqrt(self.combined_diagonal(weights - sure))
        roots = self.to_device(roots) if is_tensor(numbers) else roots
        return out + (numbers @ roots)[:, None] * roots

    def to_device(self, array: np.ndarray) -> Any:
        """An array with an entry per point where solvers should keep it: in memory, or as a tensor
        on the device of a bank whose products with long vectors are taken there.
        """
        return array

    @abstractmethod
    def cross(self, X_new: Any, support: Indices | None = None) -> "Bank":
        """A bank of these kernels, in float64, with the rows of X_new as rows and the training
        points (or some) as columns.
        """

    @abstractmethod
    def same_data(self, X: Any) -> bool:
        """True if X is the data that this bank was made on."""

    def take_points(self, points: Indices) -> "Bank | None":
        """The bank of the same kernels on some of the training points, scaled as they are; None if
        that cannot be had.
        """
        return None

    def refined(self) -> Self | None:
        """A copy of the bank in float64, or None if this one is."""
        return None

    def machine(self, weights: ArrayLike) -> tuple | None:
        """A machine for SVMs with the kernel K_d and that kernel as it takes it, from a bank that
        computes elsewhere than on the host; None where the host does the work.
        """
        return None

    def decision(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        """``K_d beta`` in blocks of rows, (n_rows,) or (t, n_rows)."""
        beta = np.asarray(beta, dtype=float)
        out = np.zeros((*beta.shape[:-1], self.n_rows))
        if self.symmetric:  # rows of the support do as well as columns, and are fewer
            support = support_of(as_outputs(beta, self.n))
            # half of the pairs are enough for the whole
            if self.n <= min(ROW_BLOCK, 2 * support.size):
                return beta @ self.combine(weights)
            for rows in _blocks(support):
                out += beta[..., rows] @ self.combine(weights, rows)
        else:
            for rows in _blocks(np.arange(self.n_rows)):
                out[..., rows] = beta @ self.combine(weights, rows).T
        return out

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy, in which points that are both rows and columns stand once: joblib
        and skops do not keep the identity of arrays.
        """
        state = dict(vars(self))
        if "left" in state and state["left"] is state["right"]:
            state["left"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "left" in state and state["left"] is None:
            vars(self)["left"] = state["right"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.m} kernels on {self.n} points)"

    def _repr_html_(self) -> str:
        return bank_html(self)

    def _needs_square(self, what: str) -> None:
        if not self.symmetric:
            raise ValueError(
                f"{what} needs the bank of the training points; this one has new points as rows."
            )


class SumBank(Bank):
    """A bank whose kernel is the weighted sum ``sum_k d_k K_k``.

    Attributes
    ----------
    streams : bool
        Whether `newton_sums` and `directional_forms` do without the products of all kernels.
    cheap_sweeps : bool
        Whether they cost as much for many kernels as for a few.
    cheap_from : int
        Kernels for each pair of outputs, from which on cheap sweeps are cheaper than products that
        are held.
    sweep_parts : int
        How many times the sums of a sweep are in memory.
    shares_passes : bool
        Whether `products` with many outputs and `combine_each` cost far less than one by one.
    cheap_subsets : bool
        Whether `take_kernels` takes no time, and its bank is cheaper in proportion: then it pays to
        look at a part of many kernels first.
    """

    streams: bool = False
    cheap_sweeps: bool = False
    cheap_from: int = 100
    shares_passes: bool = False
    cheap_subsets: bool = False

    @property
    def sweep_parts(self) -> int:
        return self.threads.count + 1

    def exact_factors(self) -> Any:
        """The kernels as factors that are the kernels themselves, in a `FactorBank`; None where
        they are not held so.
        """
        return None

    @abstractmethod
    def quadratic_forms(self, beta: ArrayLike) -> np.ndarray:
        """``beta' K_k beta`` for every kernel, (m,); summed over the outputs."""

    @abstractmethod
    def products(self, beta: ArrayLike) -> np.ndarray:
        """``K_k beta`` for every kernel, (m, n_rows), or (m, t, n_rows) for t outputs."""

    def held_products(self, beta: np.ndarray) -> Any:
        """The `products` (m, t, n_rows) for a solver that holds them: an array, or what does as
        one where the bank keeps them elsewhere.
        """
        return self.products(beta)

    def held_kernel(self, weights: np.ndarray) -> Any:
        """The combined kernel for a solver that holds it: an array, or a `DeviceMatrix`."""
        return self.combine(weights)

    def products_each(self, beta: np.ndarray) -> np.ndarray:
        """The `products` of many outputs with each output's together, (t, m, n_rows), in any
        precision that is not below the bank's.
        """
        return self.products(beta).swapaxes(0, 1)

    def combine_each(self, weights: ArrayLike) -> np.ndarray:
        """The combined kernels of several weights (r, m), (r, n_rows, n), for less than one by one
        where the bank `shares_passes`.
        """
        return np.stack([self.combine(row) for row in np.asarray(weights, dtype=float)])

    @abstractmethod
    def columns(self, chosen: Indices) -> np.ndarray:
        """Columns of every kernel, (m, n_rows, len(chosen))."""

    @abstractmethod
    def diagonal(self) -> np.ndarray:
        """Diagonals of all kernels, (m, n)."""

    @abstractmethod
    def cross(self, X_new: Any, support: Indices | None = None) -> "SumBank":
        """A sum of kernels as `Bank.cross` says."""

    def take_points(self, points: Indices) -> "SumBank | None":
        return None

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> "SumBank | None":
        """The bank of some of the kernels, each times a factor; None if that cannot be had.

        Parameters
        ----------
        kernels : indices
        factor : float
            Above zero.
        """
        return None

    def weight_gradient(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        return self.quadratic_forms(beta)

    def combined_diagonal(self, weights: ArrayLike) -> np.ndarray:
        return np.asarray(weights, dtype=float) @ self.diagonal()

    def traces(self) -> np.ndarray:
        """Trace of every kernel, (m,)."""
        return self.diagonal().sum(axis=1)

    def newton_sums(self, weights: ArrayLike, beta: ArrayLike, J: Any) -> Sums:
        """The `Sums` for weights (m,), beta (t, n) and the diagonal and vector of a `Curvature` J;
        for the training points.
        """
        self._needs_square("newton_sums")
        products = self.products(as_outputs(beta, self.n))
        scaled = products * J.diagonal[:, None, None]
        outputs = range(products.shape[1])
        squares = np.array(
            [[scaled[:, c].T @ products[:, other] for other in outputs] for c in outputs]
        )
        return Sums(self.combine(weights), squares, np.tensordot(J.vector, products, 1))

    def curved(self, K: np.ndarray, M: np.ndarray, J: Any) -> Any:
        """``K + 2 M' J M`` as machines take it, for products M (k, n) of some kernels and their
        part of a `Curvature`.
        """
        return curved(K, M, J)

    def directional_forms(self, beta: ArrayLike, change: ArrayLike) -> tuple[np.ndarray, ...]:
        """``sum_c change_c' K_k beta_c`` and ``sum_c change_c' K_k change_c``: how the forms change
        from beta on, (m,) each.
        """
        moved = self.products(as_outputs(change, self.n))
        return tuple(np.tensordot(moved, as_outputs(other, self.n), 2) for other in (beta, change))

    def kernel_rows(self, chosen: Indices, points: Indices) -> np.ndarray:
        """Rows of every kernel at the chosen points over other points, (len(chosen), m,
        len(points)), in the bank's dtype.

        For the bank of the training points; what `columns` gives, laid out for loops that go along
        them.
        """
        self._needs_square("kernel_rows")
        return np.moveaxis(self.columns(chosen)[:, points], 2, 0).astype(self.dtype, order="C")

    def matrices(self) -> np.ndarray:
        """The matrices of all kernels, (m, n, n), for the bank of the training points."""
        grams, points = np.empty((self.m, self.n, self.n), self.dtype), np.arange(self.n)
        step = max(ENTRIES_AT_ONCE // (self.m * self.n), 16)
        for start in range(0, self.n, step):
            part = slice(start, start + step)
            rows = self.kernel_rows(points[part], points)

            def put(kernels: slice, part: slice = part, rows: np.ndarray = rows) -> None:
                grams[kernels, part] = rows[:, kernels].swapaxes(0, 1)

            self.threads.map(put, self.kernel_slices())
        return grams

    def visit_kernel_rows(
        self, chosen: Indices, visitor: Callable[[slice, np.ndarray, int], Any]
    ) -> None:
        """Call ``visitor(kernels, rows, first)`` for slices of the kernels, on the bank's threads.

        ``rows`` are as `kernel_rows` gives them, over all points; kernel ``kernels.start + i`` is
        at ``rows[:, first + i]``. Where the bank can, no more of them are in memory at a time than
        the threads work on.
        """
        rows = self.kernel_rows(chosen, np.arange(self.n))
        self.threads.map(
            lambda kernels: visitor(kernels, rows, kernels.start), self.kernel_slices()
        )

    def kernel_slices(self) -> list[slice]:
        """The kernels in parts for the threads."""
        step = -(-self.m // self.threads.count)
        return [slice(start, min(start + step, self.m)) for start in range(0, self.m, step)]


def _blocks(indices: np.ndarray) -> Iterator[np.ndarray]:
    return (indices[start : start + ROW_BLOCK] for start in range(0, indices.size, ROW_BLOCK))


def as_outputs(beta: ArrayLike, n: int) -> np.ndarray:
    """Dual coefficients as a (t, n) float64 array."""
    beta = np.atleast_2d(np.asarray(beta, dtype=float))
    if beta.ndim != 2 or beta.shape[1] != n:
        raise ValueError(
            f"Coefficients must have one entry per point, ({n},) or (t, {n}), got shape "
            f"{beta.shape}."
        )
    return beta


def support_of(beta: np.ndarray) -> np.ndarray:
    """Points with a nonzero coefficient in any output."""
    return np.flatnonzero(beta.any(axis=0))


def mirror(out: np.ndarray, block: int = 64) -> None:
    """Copy the lower triangle of a matrix onto the upper one, in blocks that stay in cache."""
    for start in range(0, out.shape[0], block):
        stop = min(start + block, out.shape[0])
        square = out[start:stop, start:stop]
        square[...] = np.tril(square) + np.tril(square, -1).T
        out[:start, start:stop] = out[start:stop, :start].T
