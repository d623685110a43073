"""Combinations: kernels that are differentiable functions of nonnegative weights.

Sums of kernels are what the rest of the library is about, and need nothing of this. Anything else
is a `Combination`: a kernel K_d that depends on weights d in some differentiable way, such as a
product of Gaussians, one per feature. The problem is then no longer convex in general, so there is
no certificate; it is solved from several starts until the projected gradient is small.
"""

import copy
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self

import numpy as np
from scipy.spatial.distance import cdist

from ._loops.exponentials import gaussian_rows
from ._loops.rbf import LOG2_E
from ._threads import Threads, rows_at_once
from .kernels.vector import dense


@dataclass(frozen=True)
class Tolerances:
    """Numbers of this module.

    Attributes
    ----------
    rows_per_block : int
        Rows of a kernel that are computed for a part of its diagonal. More take more memory.
    rows_per_product : int
        Rows of a kernel whose products are summed in its own precision. More are less precise.
    largest_exponent_of_products : float
        Exponent of a point far out up to which slopes come from such products. A larger one lets
        rounding grow.
    largest_exponent : float
        Exponents beyond are all the same: the kernel is zero there.
    largest_coordinate : float
        Coordinate of a point, whose square is a number with room for weights and sums. New points
        farther away are moved there.
    largest_value : float
        Largest sum over the training points: beyond, the features are refused as too large.
    """

    rows_per_block: int = 256
    rows_per_product: int = 1024
    largest_exponent_of_products: float = 1e3
    largest_exponent: float = 1e15
    largest_coordinate: float = 1e140
    largest_value: float = 1e280


TOLERANCES = Tolerances()
# Features up to which distances are added up one by one: more would be slower than a product.
FEW_FEATURES = 4


class Combination(ABC):
    """A kernel K_d between points, with weights d >= 0.

    Two methods make one: `gram`, and `gradient`, which torch can give instead: if it is installed
    and there is no `gradient`, `gram` is called with torch tensors and differentiated (take
    functions from ``namespace(weights)`` then).

    Attributes
    ----------
    starts : int
        Number of starting points; the best result is kept.
    fits_single_precision : bool
        Whether float32 holds every kernel, as where entries are at most one.
    by_roots : bool
        Whether solvers look for the roots of the weights, as is faster for scales of features.
    reads_kernel : bool
        Whether `partial_gradient` also takes the kernel of the training points at the weights.
    X : (n, d) array
        The training points, after `fit`.
    threads : Threads
        To share out the work of `gradient` on; those of its bank.
    """

    starts: int = 1
    fits_single_precision: bool = False
    by_roots: bool = False
    reads_kernel: bool = False
    threads: Threads = Threads(1)
    X: np.ndarray

    def fit(self, X: Any) -> Self:
        """A copy that knows the training points.

        Parameters
        ----------
        X : (n, d) array or sparse matrix
        """
        fitted = copy.copy(self)
        fitted.X = dense(X)
        fitted.prepare()
        return fitted

    def prepare(self) -> None:  # noqa: B027  (most combinations need nothing)
        """Compute what depends on the training points ``self.X`` alone."""

    @property
    def m(self) -> int:
        """Number of weights: one per feature, unless a subclass says otherwise."""
        return self.X.shape[1]

    def names(self, feature_names: Sequence[str] | None = None) -> list[str]:
        """A readable name for every weight."""
        return (
            [f"x{f}" for f in range(self.m)]
            if feature_names is None
            else [str(name) for name in feature_names]
        )

    def start(self, m: int) -> np.ndarray:
        """Weights to begin with, before they are made feasible."""
        return np.full(m, 1.0 / m)

    @abstractmethod
    def gram(self, weights: Any, rows: Any, cols: Any) -> Any:
        """The kernel K_d between two sets of points, (len(rows), len(cols)).

        For large problems it is called with some of the rows at a time, on several threads at once.

        Parameters
        ----------
        weights : (m,) array
        rows, cols : (n, d) arrays
            All three are torch tensors where there is no `gradient`.
        """

    def filler(
        self, weights: np.ndarray, rows: np.ndarray, cols: np.ndarray
    ) -> Callable[[slice, np.ndarray], None]:
        """A function that writes the kernel of a part of the rows into an array; what all parts
        need is computed once.
        """

        def fill(part: slice, out: np.ndarray) -> None:
            out[:] = self.gram(weights, rows[part], cols)

        return fill

    def gradient(self, weights: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """``sum_c beta_c' (dK_d / dd_k) beta_c`` on the training points for every weight, (m,);
        beta (t, n).
        """
        return _autograd(self, weights, beta)

    def partial_gradient(
        self, weights: np.ndarray, beta: np.ndarray, some: np.ndarray
    ) -> np.ndarray:
        """The `gradient` of some weights alone, where that costs less."""
        return np.asarray(self.gradient(weights, beta))[some]

    def diagonal(self, weights: np.ndarray, points: np.ndarray) -> np.ndarray:
        """``K_d(x, x)`` for each point."""
        step = TOLERANCES.rows_per_block
        blocks = (points[start : start + step] for start in range(0, len(points), step))
        return np.concatenate(
            [np.diagonal(np.asarray(self.gram(weights, block, block))) for block in blocks]
        )

    def __repr__(self) -> str:
        shown = {
            name: value
            for name, value in vars(self).items()
            if name not in ("X", "threads") and not name.startswith("_")
        }
        parameters = ", ".join(f"{name}={value!r}" for name, value in shown.items())
        return f"{type(self).__name__}({parameters})"


class Product(Combination):
    """``K_d(x, z) = exp(-sum_k d_k D_k(x, z))``: a product of Gaussians, one per feature or per
    group of features.

    ``D_k`` is the squared distance over the features of group k. With a sparse regularizer (`L1`,
    or p = 1) features are selected. The slopes of all weights come from one kernel and one matrix
    product, so thousands of features are no trouble.

    Parameters
    ----------
    groups : sequence of labels, optional
        One per feature; features with the same label share a weight. Every feature has its own by
        default.
    starts : int
        Starting points to try.
    """

    fits_single_precision = by_roots = True

    def __init__(self, groups: Sequence[Hashable] | None = None, starts: int = 3) -> None:
        self.groups, self.starts = groups, starts

    def prepare(self) -> None:
        # labels in the order in which they come; distances do not change when points are moved, but
        # rounding does
        labels = list(range(self.X.shape[1])) if self.groups is None else list(self.groups)
        if len(labels) != self.X.shape[1]:
            raise ValueError(
                f"Product has groups for {len(labels)} features, but X has {self.X.shape[1]}."
            )
        self._labels = list(dict.fromkeys(labels))
        place = {label: k for k, label in enumerate(self._labels)}
        self._group = np.array([place[label] for label in labels])
        self._center = np.median(self.X, axis=0)
        with np.errstate(over="ignore"):
            squares = np.square(self.X - self._center)
            check_range(self, squares.sum())
        self._squares = squares.max(axis=0, initial=0.0)

    @property
    def reads_kernel(self) -> bool:  # type: ignore[override]
        kind = type(self)  # and not a subclass with something of its own
        return kind.gram is Product.gram and kind.gradient is Product.gradient

    @property
    def m(self) -> int:
        return len(self._labels)

    def names(self, feature_names: Sequence[str] | None = None) -> list[str]:
        return (
            super().names(feature_names)
            if self.groups is None
            else [str(label) for label in self._labels]
        )

    def gram(self, weights: np.ndarray, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        out = np.empty((len(rows), len(cols)))
        self._filler(weights, rows, cols)(slice(None), out)
        if rows is cols:
            np.fill_diagonal(out, 1.0)
        return out

    def filler(
        self, weights: np.ndarray, rows: np.ndarray, cols: np.ndarray
    ) -> Callable[[slice, np.ndarray], None]:
        own = type(self).gram is Product.gram  # and not that of a subclass
        return (self._filler if own else super().filler)(weights, rows, cols)

    def _filler(
        self, weights: np.ndarray, rows: np.ndarray, cols: np.ndarray
    ) -> Callable[[slice, np.ndarray], None]:
        scale = np.sqrt(weights)[self._group]
        used = scale > 0.0
        # new points may lie anywhere
        farthest = TOLERANCES.largest_coordinate

        def scaled(points: np.ndarray) -> np.ndarray:
            moved = points[:, used] - self._center[used]
            return np.clip(moved, -farthest, farthest, out=moved) * scale[used]

        a = scaled(rows)
        b = a if rows is cols else scaled(cols)
        a_norms, b_norms = np.square(a).sum(axis=1), np.square(b).sum(axis=1)
        few = a.shape[1] <= FEW_FEATURES

        def fill(part: slice, out: np.ndarray) -> None:
            if few:  # exact, and not slower: dot products are those of the distances with nothing
                norms, others = np.zeros(len(out)), np.zeros(len(b))
                dots = -0.5 * cdist(a[part], b, "sqeuclidean")
            else:
                norms, others, dots = a_norms[part], b_norms, a[part] @ b.T
            gaussian_rows(dots, norms, others, LOG2_E, TOLERANCES.largest_exponent, out)

        return fill

    def gradient(self, weights: np.ndarray, beta: np.ndarray) -> np.ndarray:
        return self._slopes(weights, beta, np.arange(self.m))

    def partial_gradient(
        self,
        weights: np.ndarray,
        beta: np.ndarray,
        some: np.ndarray,
        kernel: np.ndarray | None = None,
    ) -> np.ndarray:
        if type(self).gradient is not Product.gradient:
            return super().partial_gradient(weights, beta, some)
        # of many outputs products cost more, and far from each other points have none but rounding
        longest = float(weights[self._group] @ self._squares)
        if kernel is None or len(beta) > 1 or longest > TOLERANCES.largest_exponent_of_products:
            return self._slopes(weights, beta, some)
        return self._slopes_of(kernel, beta[0], some)

    def _slopes_of(self, kernel: np.ndarray, beta: np.ndarray, some: np.ndarray) -> np.ndarray:
        """Slopes of one output, from products of the kernel with the coefficients, and with these
        times the points.
        """
        support, wanted = np.flatnonzero(beta), np.flatnonzero(np.isin(self._group, some))
        points = self.X[:, wanted] - self._center[wanted]
        factors = np.vstack([beta, beta * points.T])

        def products(part: np.ndarray) -> np.ndarray:
            return (factors[:, part].astype(kernel.dtype) @ kernel[part]).astype(float)

        step = TOLERANCES.rows_per_product
        parts = [support[start : start + step] for start in range(0, support.size, step)]
        total = sum(self.threads.map(products, parts), np.zeros(factors.shape))
        # sum_ij beta_i beta_j K_ij (x_i - x_j)^2 for every feature at once
        sums = np.square(points).T @ (beta * total[0])
        sums -= np.einsum("fi,fi->f", factors[1:], total[1:])
        return self._by_group(wanted, -2.0 * sums)[some]

    def _by_group(self, wanted: np.ndarray, sums: np.ndarray) -> np.ndarray:
        return np.bincount(self._group[wanted], weights=sums, minlength=self.m)

    def _slopes(self, weights: np.ndarray, beta: np.ndarray, some: np.ndarray) -> np.ndarray:
        support = np.flatnonzero(beta.any(axis=0))
        X, coefficients = self.X[support], beta[:, support]
        wanted = np.flatnonzero(np.isin(self._group, some))
        points = X[:, wanted] - self._center[wanted]
        fill = self.filler(weights, X, X)

        def scatter(part: slice) -> np.ndarray:
            B = np.empty((len(X[part]), len(X)))
            fill(part, B)
            B *= coefficients[:, part].T @ coefficients
            # sum_ij B_ij (x_i - x_j)^2 for every feature at once
            return np.square(points[part]).T @ B.sum(axis=1) - np.einsum(
                "if,if->f", points[part], B @ points
            )

        step = rows_at_once(support.size)
        parts = [slice(start, start + step) for start in range(0, support.size, step)]
        total = 2.0 * sum(self.threads.map(scatter, parts), np.zeros(wanted.size))
        return self._by_group(wanted, -total)[some]

    def diagonal(self, weights: np.ndarray, points: np.ndarray) -> np.ndarray:
        return np.ones(len(points))


class PolynomialMixture(Combination):
    """``K_d(x, z) = (offset + sum_f d_f x_f z_f)^degree``: all products of up to `degree` features,
    weighted together.

    C. Cortes, M. Mohri and A. Rostamizadeh, Learning non-linear combinations of kernels, NIPS 2009.

    Parameters
    ----------
    degree : int
        At least one.
    offset : float
        At least zero.
    starts : int
        Starting points to try.
    """

    def __init__(self, degree: int = 2, offset: float = 1.0, starts: int = 3) -> None:
        self.degree, self.offset, self.starts = degree, offset, starts

    def prepare(self) -> None:
        with np.errstate(over="ignore"):
            check_range(self, (self.offset + np.square(self.X).sum()) ** self.degree)

    def gram(self, weights: np.ndarray, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        return (self.offset + (rows * weights) @ cols.T) ** self.degree

    def gradient(self, weights: np.ndarray, beta: np.ndarray) -> np.ndarray:
        inner = self.degree * (self.offset + (self.X * weights) @ self.X.T) ** (self.degree - 1)
        B = (beta.T @ beta) * inner
        return np.einsum("if,if->f", self.X, B @ self.X)


COMBINATIONS = {"product": Product}


def check_range(combination: Combination, largest: float) -> None:
    """Raise if what a combination sums on its training points is beyond all numbers."""
    if not largest < TOLERANCES.largest_value:
        raise ValueError(
            f"{type(combination).__name__} is out of range: the features are too large; rescale "
            "them."
        )


def namespace(array: Any) -> ModuleType:
    """The library that an array belongs to, torch or NumPy, so that `gram` can be written once for
    both.
    """
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(array, torch.Tensor) else np


def _autograd(combination: Combination, weights: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Slopes by automatic differentiation of `gram`."""
    try:
        import torch
    except ImportError as error:
        name = type(combination).__name__
        raise ImportError(
            f"{name} has no gradient(): write one, or install torch to have gram() differentiated."
        ) from error
    d = torch.tensor(weights, dtype=torch.float64, requires_grad=True)
    X, coefficients = torch.as_tensor(combination.X), torch.as_tensor(beta)
    K = combination.gram(d, X, X)
    torch.sum((coefficients @ K) * coefficients).backward()
    gradient: Any = d.grad
    return gradient.numpy()
