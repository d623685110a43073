"""The protocol of a bank: many kernels on one data set, and all the n×n work on them."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from .._threads import Threads

# entries of rows that are computed together, so that they stay in cache, and fewest rows
CACHED, FEWEST = (
    2**19,
    16,
)
ROW_BLOCK = (
    1024  # rows of a combined kernel held at a time when only their product with a vector is wanted
)


class Sums(NamedTuple):
    """What `Bank.sweep` adds up over the kernels, with the products ``M_kc = K_k beta_c``.

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


class Bank(ABC):
    """m kernels between n_rows points (the training set, or new points) and n training points.

    Vectors of dual coefficients have shape (n,) or (t, n) for t outputs; results are float64 but
    for `combine`.

    Attributes
    ----------
    m, n, n_rows : int
    dtype : dtype of combined kernels
    names, groups : list of str
    normalize : str or None
    symmetric : bool
        Whether rows and columns are the same points.
    linear : bool
        Whether the combined kernel is the weighted sum of the kernels; only then is there
        `quadratic_forms` and what builds on it.
    streams : bool
        Whether `sweep` and `along` need no memory for the products of all kernels.
    cheap_sweeps : bool
        Whether they cost as much for many kernels as for a few.

    A bank that can be cut down to some of its kernels has a method ``select(kernels, factor=1)``:
    the bank of those, each times the factor. One that computes elsewhere than on the host has
    ``machine(weights)``: a machine that works there, and the combined kernel.
    """

    linear = True
    streams = False
    cheap_sweeps = False
    threads = Threads(1)

    def start(self, regularizer):
        """Weights to begin with."""
        return regularizer.start(self.m)

    def weight_gradient(self, weights, beta):
        """``sum_c beta_c' (dK_d / dd_k) beta_c`` for every weight, (m,)."""
        return self.quadratic_forms(beta)

    @abstractmethod
    def combine(self, weights, rows=None):
        """``sum_k weights[k] K_k``, (n_rows, n), or the chosen rows of it."""

    @abstractmethod
    def quadratic_forms(self, beta):
        """``beta' K_k beta`` for every kernel, (m,); summed over the outputs."""

    @abstractmethod
    def products(self, beta):
        """``K_k beta`` for every kernel, (m, n_rows), or (m, t, n_rows) for t outputs."""

    def sweep(self, weights, beta, J):
        """The `Sums` for weights (m,), beta (t, n) and the diagonal and vector of a `Curvature` J;
        for the training points.
        """
        self._needs_square("sweep")
        products = self.products(as_outputs(beta, self.n))
        scaled = products * J.diagonal[:, None, None]
        outputs = range(products.shape[1])
        squares = np.array(
            [[scaled[:, c].T @ products[:, other] for other in outputs] for c in outputs]
        )
        return Sums(self.combine(weights), squares, np.tensordot(J.vector, products, 1))

    def along(self, beta, change):
        """``sum_c change_c' K_k beta_c`` and ``sum_c change_c' K_k change_c``: how the forms change
        from beta on, (m,) each.
        """
        moved = self.products(as_outputs(change, self.n))
        return tuple(
            np.einsum("ktn,tn->k", moved, as_outputs(other, self.n)) for other in (beta, change)
        )

    @abstractmethod
    def columns(self, chosen):
        """Columns of every kernel, (m, n_rows, len(chosen))."""

    def kernel_rows(self, chosen, points):
        """Rows of every kernel at the chosen points over other points, (len(chosen), m,
        len(points)), in the bank's dtype.

        For the bank of the training points; what `columns` gives, laid out for loops that go along
        them.
        """
        self._needs_square("kernel_rows")
        return np.moveaxis(self.columns(chosen)[:, points], 2, 0).astype(self.dtype, order="C")

    def visit_kernel_rows(self, chosen, visitor):
        """Call ``visitor(kernels, rows, first)`` for slices of the kernels, on the bank's threads.

        ``rows`` are as `kernel_rows` gives them, over all points; kernel ``kernels.start + i`` is
        at ``rows[:, first + i]``. Where the bank can, no more of them are in memory at a time than
        the threads work on.
        """
        rows = self.kernel_rows(chosen, np.arange(self.n))
        self.threads.map(
            lambda kernels: visitor(kernels, rows, kernels.start), self.kernel_slices()
        )

    def kernel_slices(self):
        """The kernels in parts for the threads."""
        step = -(-self.m // self.threads.count)
        return [slice(start, min(start + step, self.m)) for start in range(0, self.m, step)]

    @abstractmethod
    def diagonal(self):
        """Diagonals of all kernels, (m, n)."""

    @abstractmethod
    def cross(self, X_new, support=None):
        """The same kernels, in float64, with the rows of X_new as rows and the training points (or
        some) as columns.
        """

    def among(self, points):
        """The bank of the same kernels on some of the training points, scaled as they are; None if
        that cannot be had.
        """
        return None

    @abstractmethod
    def same_data(self, X):
        """Whether X is the data that this bank was fitted on."""

    def refined(self):
        """The same bank in float64, or None if it is already."""
        return None

    def combined_diagonal(self, weights):
        """Diagonal of ``sum_k weights[k] K_k``, (n,)."""
        return np.asarray(weights, dtype=float) @ self.diagonal()

    def traces(self):
        """Trace of every kernel, (m,)."""
        return self.diagonal().sum(axis=1)

    def decision(self, weights, beta):
        """``sum_k weights[k] K_k beta`` in blocks of rows, (n_rows,) or (t, n_rows)."""
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

    def __len__(self):
        return self.m

    def __repr__(self):
        return f"{type(self).__name__}({self.m} kernels on {self.n} points)"

    def _repr_html_(self):
        from .._html import bank_html

        return bank_html(self)

    def _needs_square(self, what):
        if not self.symmetric:
            raise ValueError(
                f"{what} needs the bank of the training points; this one has new points as rows."
            )


def _blocks(indices):
    return (indices[start : start + ROW_BLOCK] for start in range(0, indices.size, ROW_BLOCK))


def as_outputs(beta, n):
    """Dual coefficients as a (t, n) float64 array."""
    beta = np.atleast_2d(np.asarray(beta, dtype=float))
    if beta.ndim != 2 or beta.shape[1] != n:
        raise ValueError(
            f"Coefficients must have one entry per point, ({n},) or (t, {n}), got shape "
            f"{beta.shape}."
        )
    return beta


def support_of(beta):
    """Points with a nonzero coefficient in any output."""
    return np.flatnonzero(beta.any(axis=0))


def mirror(out, block=64):
    """Copy the lower triangle of a square matrix onto the upper one, in blocks that stay in cache."""
    for start in range(0, out.shape[0], block):
        stop = min(start + block, out.shape[0])
        square = out[start:stop, start:stop]
        square[...] = np.tril(square) + np.tril(square, -1).T
        out[:start, start:stop] = out[start:stop, :start].T
