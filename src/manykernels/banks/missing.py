"""Kernels of points that lack whole views: such a point is at the view's mean in feature space.

With ``mu`` the (weighted) mean of the features of the training points that have a kernel, a point
gets the features ``mu + s (phi(x) - mu)``. The size s is zero where it lacks the kernel, and
otherwise one, or larger for a point that lacks other views (rule "scaled"). So

    K'[i, j] = s_i s_j K[i, j] + s_i t_j r[i] + t_i s_j r[j] + t_i t_j c,    t = 1 - s,

with ``r[i] = <phi(x_i), mu>`` and ``c = |mu|^2``. These are products of feature vectors, so K' is
positive semidefinite. With an intercept it is the same model as centered kernels that are zero
where a point lacks them, because the two differ by ``a[i] + a[j]`` with some a. Where every point
has every kernel, K' is K.

Kernels are computed at points that have them and nowhere else: kernels that the same points have
make a `Part`, a bank of these points.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from .._loops.sums import add_spread
from ..kernels.points import as_points, is_sparse
from .base import SumBank, as_outputs
from .kernel_set import Delegating, Indices
from .spec import BankSpec
from .views import Views
from .wrappers.centered import CenteredBank


class Side(NamedTuple):
    """The points of the rows, or of the columns, of a part.

    Attributes
    ----------
    at : (p,) int
        The points that have the kernels, ascending.
    size : (n,) array
        The s of all points: zero for the others.
    means : (kernels, p) array
        The r of the points that have the kernels.
    """

    at: np.ndarray
    size: np.ndarray
    means: np.ndarray

    @property
    def rest(self) -> np.ndarray:
        """The t of all points."""
        return 1.0 - self.size

    @property
    def own(self) -> np.ndarray:
        """The s of the points that have the kernels."""
        return self.size[self.at]

    @property
    def plain(self) -> bool:
        """True if all points have the kernels, as they are."""
        return bool((self.size == 1.0).all())

    def some(self, points: Indices) -> "tuple[Side, np.ndarray]":
        """The side of some points in any order, and the places of those that have the kernels among
        all that do.
        """
        places = np.full(self.size.size, -1)
        places[self.at] = np.arange(self.at.size)
        places = places[np.asarray(points, dtype=np.intp)]
        here = np.flatnonzero(places >= 0)
        return Side(here, self.size[points], self.means[:, places[here]]), places[here]

    def of(self, kernels: Indices, factor: float = 1.0) -> "Side":
        """The side of some of the kernels, each times a factor."""
        return self._replace(means=factor * self.means[kernels])


@dataclass(frozen=True, eq=False)
class Part:
    """Kernels that the same points have.

    Attributes
    ----------
    bank : SumBank or None
        The kernels between the points that have them; None where no row or no column does.
    kernels : (k,) int
        Their numbers, ascending.
    columns : (f,) int
        The columns of points that the bank knows, ascending.
    cols : Side
    new : Side or None
        The rows, where they are other points.
    norms : (k,) array
        The c of the kernels.
    shares : (p,) array or None
        Of the training points that have the kernels in their mean, if all are columns.
    """

    bank: SumBank | None
    kernels: np.ndarray
    columns: np.ndarray
    cols: Side
    norms: np.ndarray
    shares: np.ndarray | None
    new: Side | None = None

    @classmethod
    def of_training(
        cls,
        bank: SumBank,
        kernels: np.ndarray,
        columns: np.ndarray,
        size: np.ndarray,
        shares: np.ndarray,
    ) -> Self:
        """The part of a bank of training points, with the means computed.

        Parameters
        ----------
        bank : SumBank
        kernels, columns
            See above.
        size : (n,) array
            Zero for points that the bank has not.
        shares : (p,) array
            Of its points in the mean.
        """
        means = _means(bank, shares)
        side = Side(np.flatnonzero(size), size, means)
        return cls(bank, kernels, columns, side, means @ shares, shares)

    @property
    def rows(self) -> Side:
        return self.cols if self.new is None else self.new

    @property
    def plain(self) -> bool:
        """True if all points have the kernels, as they are."""
        return self.rows.plain and self.cols.plain

    def of(self, kernels: np.ndarray, factor: float = 1.0) -> "Part | None":
        """Some of the kernels by their places in the part, each times a factor; None if that cannot
        be had.
        """
        bank = None if self.bank is None else self.bank.take_kernels(kernels, factor)
        if bank is None and self.bank is not None:
            return None
        return replace(
            self,
            bank=bank,
            kernels=self.kernels[kernels],
            cols=self.cols.of(kernels, factor),
            norms=factor * self.norms[kernels],
            new=None if self.new is None else self.new.of(kernels, factor),
        )

    # between the points that have the kernels

    def values(self, rows: np.ndarray | None, cols: np.ndarray) -> np.ndarray:
        """Values of every kernel at some of the rows, all by default, and some of the columns, (k,
        rows, columns).
        """
        count = self.rows.at.size if rows is None else rows.size
        if self.bank is None or cols.size == 0 or count == 0:
            return np.zeros((self.kernels.size, count, cols.size))
        if rows is None:
            return self.bank.columns(cols)
        return self.bank.kernel_rows(rows, cols).swapaxes(0, 1)

    def combined(self, weights: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
        """The weighted sum of the kernels, (rows, columns)."""
        if self.bank is None or (rows is not None and rows.size == 0):
            return np.zeros((self.rows.at.size if rows is None else rows.size, self.cols.at.size))
        return self.bank.combine(weights, rows)


class MissingBank(Delegating, SumBank):
    """Kernels of points that may lack views; see the top of this file.

    Parameters
    ----------
    spec : BankSpec
        All kernels, for points with all columns.
    views : Views
        What the kernels see, and the rule for points that lack some of it.
    parts : list of Part
        Which together have all kernels.
    """

    inner = "spec"

    def __init__(self, spec: BankSpec, views: Views, parts: list[Part]) -> None:
        self.spec, self.views, self.parts = spec, views, parts
        self.n_rows, self.n = parts[0].rows.size.size, parts[0].cols.size.size
        banks = [part.bank for part in parts if part.bank is not None]
        self.dtype = np.result_type(*(bank.dtype for bank in banks)) if banks else np.dtype(float)
        self.threads = banks[0].threads if banks else self.threads

    @property
    def symmetric(self) -> bool:
        return all(part.new is None for part in self.parts)

    @property
    def scales(self) -> np.ndarray:
        out = self.spec.scales.copy()
        for part in self.parts:
            if part.bank is not None:  # whose kernels may have been centered besides
                out[part.kernels] = part.bank.scales
        return out

    @property
    def whole(self) -> SumBank | None:
        """The bank of all kernels, if every point has them all as they are."""
        (part, *others) = self.parts
        return part.bank if not others and part.plain else None

    # what a bank is good at, it is good at where no point lacks anything

    @property
    def shares_passes(self) -> bool:  # type: ignore[override]
        return all(part.bank is not None and part.bank.shares_passes for part in self.parts)

    @property
    def streams(self) -> bool:  # type: ignore[override]
        return self.whole is not None and self.whole.streams

    @property
    def cheap_sweeps(self) -> bool:  # type: ignore[override]
        return self.whole is not None and self.whole.cheap_sweeps

    @property
    def cheap_subsets(self) -> bool:  # type: ignore[override]
        return self.whole is not None and self.whole.cheap_subsets

    def newton_sums(self, weights: ArrayLike, beta: ArrayLike, J: Any) -> Any:
        if self.whole is not None:
            return self.whole.newton_sums(weights, beta, J)
        return super().newton_sums(weights, beta, J)

    def directional_forms(self, beta: ArrayLike, change: ArrayLike) -> tuple[np.ndarray, ...]:
        if self.whole is not None:
            return self.whole.directional_forms(beta, change)
        return super().directional_forms(beta, change)

    def visit_kernel_rows(self, chosen: Indices, visitor: Callable) -> None:
        if self.whole is not None:
            self.whole.visit_kernel_rows(chosen, visitor)
        else:
            super().visit_kernel_rows(chosen, visitor)

    # sums over all kernels

    def combine(self, weights: Any, rows: Any = None) -> np.ndarray:
        if self.whole is not None:
            return self.whole.combine(weights, rows)
        weights = np.asarray(weights, dtype=float)
        count = self.n_rows if rows is None else len(rows)
        out = np.zeros((count, self.n), dtype=self.dtype)
        for part in self.parts:
            own = weights[part.kernels]
            if own.any():
                side, places = (part.rows, None) if rows is None else part.rows.some(rows)
                self._put(part, own, part.combined(own, places), side, out)
        return out

    def combine_each(self, weights):
        if self.whole is not None:
            return self.whole.combine_each(weights)
        weights = np.asarray(weights, dtype=float)
        out = np.zeros((len(weights), self.n_rows, self.n), dtype=self.dtype)
        for part in self.parts:
            own = weights[:, part.kernels]
            for w, K, one in zip(own, part.bank.combine_each(own), out, strict=True):
                self._put(part, w, K, part.rows, one)
        return out

    def _put(self, part: Any, weights: Any, K: Any, rows: Any, out: Any) -> None:
        """Add the weighted sum K of a part's kernels to that of all."""
        cols, dtype = part.cols, out.dtype
        if rows.plain and cols.plain:
            out += K
            return
        K, left, right = K.astype(dtype, copy=False), rows.own.astype(dtype), cols.own.astype(dtype)
        step = -(-rows.at.size // self.threads.count)
        self.threads.map(
            lambda part: add_spread(K[part], rows.at[part], cols.at, left[part], right, out),
            [slice(first, first + step) for first in range(0, rows.at.size, max(step, 1))],
        )
        beyond = np.flatnonzero(cols.rest)
        level = weights @ rows.means * rows.own
        added = np.outer(level.astype(dtype), cols.rest[beyond].astype(dtype))
        out[np.ix_(rows.at, beyond)] += added
        line = weights @ part.norms * cols.rest
        line[cols.at] += weights @ cols.means * cols.own
        beyond = np.flatnonzero(rows.rest)
        out[beyond] += np.outer(rows.rest[beyond].astype(dtype), line.astype(dtype))

    def decision(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        if self.whole is not None:
            return self.whole.decision(weights, beta)
        weights, outputs = np.asarray(weights, dtype=float), as_outputs(beta, self.n)
        out = np.zeros((len(outputs), self.n_rows))
        for part in self.parts:
            own = weights[part.kernels]
            if own.any():
                coefficients, total = _weighed(part.cols, outputs)
                scores = np.outer(total, own @ part.rows.means)
                if part.bank is not None:
                    scores += part.bank.decision(own, coefficients)
                level = (own @ part.cols.means) @ coefficients.T + own @ part.norms * total
                out += np.outer(level, part.rows.rest)
                out[:, part.rows.at] += scores * part.rows.own
        return out.reshape((*np.shape(beta)[:-1], self.n_rows))

    def combined_diagonal(self, weights):
        if self.whole is not None:
            return self.whole.combined_diagonal(weights)
        self._needs_square("combined_diagonal")
        weights, out = np.asarray(weights, dtype=float), np.zeros(self.n)
        for part in self.parts:
            own = weights[part.kernels]
            diagonal = part.bank.combined_diagonal(own)
            out += own @ part.norms * part.rows.rest**2
            out[part.rows.at] += _on_diagonal(part.rows, diagonal, own @ part.rows.means)
        return out

    # every kernel

    def products(self, beta: ArrayLike) -> np.ndarray:
        if self.whole is not None:
            return self.whole.products(beta)
        outputs = as_outputs(beta, self.n)
        out = np.empty((self.m, len(outputs), self.n_rows))
        for part in self.parts:
            coefficients, total = _weighed(part.cols, outputs)
            level = part.cols.means @ coefficients.T + np.outer(part.norms, total)
            inside = part.rows.means[:, None] * total[:, None]
            if part.bank is not None:
                inside += part.bank.products(coefficients)
            block = level[..., None] * part.rows.rest
            block[..., part.rows.at] += inside * part.rows.own
            out[part.kernels] = block
        return out if np.ndim(beta) == 2 else out[:, 0]

    def products_each(self, beta: Any) -> np.ndarray:
        if self.whole is not None:
            return self.whole.products_each(beta)
        return super().products_each(beta)

    def quadratic_forms(self, beta):
        if self.whole is not None:
            return self.whole.quadratic_forms(beta)
        self._needs_square("quadratic_forms")
        outputs, out = as_outputs(beta, self.n), np.empty(self.m)
        for part in self.parts:
            coefficients, total = _weighed(part.cols, outputs)
            forms = part.bank.quadratic_forms(coefficients)
            forms += 2.0 * (part.cols.means @ coefficients.T) @ total
            out[part.kernels] = forms + part.norms * np.square(total).sum()
        return out

    def columns(self, chosen: Any) -> np.ndarray:
        if self.whole is not None:
            return self.whole.columns(chosen)
        out = np.empty((self.m, self.n_rows, len(chosen)))
        for part in self.parts:
            cols, places = part.cols.some(chosen)
            out[part.kernels] = _block(part, part.values(None, places), part.rows, cols)
        return out

    def kernel_rows(self, chosen: Any, points: Any) -> np.ndarray:
        if self.whole is not None:
            return self.whole.kernel_rows(chosen, points)
        self._needs_square("kernel_rows")
        out = np.empty((len(chosen), self.m, len(points)), dtype=self.dtype)
        for part in self.parts:
            (rows, above), (cols, along) = part.rows.some(chosen), part.cols.some(points)
            block = _block(part, part.values(above, along), rows, cols)
            out[:, part.kernels] = block.swapaxes(0, 1)
        return out

    def diagonal(self):
        if self.whole is not None:
            return self.whole.diagonal()
        self._needs_square("diagonal")
        out = np.empty((self.m, self.n))
        for part in self.parts:
            block = np.outer(part.norms, part.rows.rest**2)
            block[:, part.rows.at] += _on_diagonal(part.rows, part.bank.diagonal(), part.rows.means)
            out[part.kernels] = block
        return out

    # the same kernels elsewhere, or some of them

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> "SumBank | None":
        chosen, parts = np.arange(self.m)[kernels], []
        for part in self.parts:
            places = np.flatnonzero(np.isin(chosen, part.kernels))
            if places.size:
                some = part.of(np.searchsorted(part.kernels, chosen[places]), factor)
                if some is None:
                    return None
                parts.append(replace(some, kernels=places))
        return MissingBank(
            self.spec.take_kernels(chosen, factor), self.views.take_kernels(chosen), parts
        )

    def take_points(self, points):
        parts = []
        for part in self.parts:
            side, places = part.rows.some(points)
            bank = part.bank.take_points(places) if places.size else None
            if bank is None:
                return None
            parts.append(replace(part, bank=bank, cols=side, shares=None))
        return MissingBank(self.spec, self.views, parts)

    def refined(self):
        if self.dtype == np.float64 or any(part.shares is None for part in self.parts):
            return None
        parts = [
            Part.of_training(
                part.bank.refined() or part.bank,
                part.kernels,
                part.columns,
                part.rows.size,
                part.shares,
            )
            for part in self.parts
        ]
        return MissingBank(self.spec, self.views, parts)

    def with_categories(self, categories):
        spec = self.spec.with_categories(categories)
        parts = [
            replace(part, bank=part.bank.with_categories(spec.on_columns(part.columns).categories))
            for part in self.parts
        ]
        return MissingBank(spec, self.views, parts)

    def cross(self, X_new: Any, support: Any = None) -> "SumBank":
        X_new = as_points(X_new, missing=True)
        presence = self.views.presence(X_new)
        sizes, parts = self.views.sizes(presence), []
        for part in self.parts:
            views = self.views.of_kernel[part.kernels]
            patterns, of_view = np.unique(presence[:, views], axis=1, return_inverse=True)
            for number, has in enumerate(patterns.T):
                places = np.flatnonzero(of_view.ravel() == number)
                some = part if len(patterns.T) == 1 else part.of(places)
                parts.append(_crossed(some, X_new, has * sizes, support))
        return MissingBank(self.spec, self.views, parts)

    def same_data(self, X):
        presence = self.views.presence(X)
        for part in self.parts:
            has = presence[:, self.views.of_kernel[part.kernels[0]]]
            at = np.flatnonzero(has)
            if not np.array_equal(at, part.rows.at):
                return False
            if not part.bank.same_data(points_of(X, at, part.columns)):
                return False
        return True


def points_of(X: Any, rows: np.ndarray, columns: np.ndarray) -> Any:
    """Some rows and columns of points, in ascending order; X itself if those are all."""
    if rows.size < X.shape[0]:
        X = X[rows]
    return X[:, columns] if columns.size < X.shape[1] else X


def _means(bank: Any, shares: Any) -> Any:
    """The mean of every kernel over its training points, at the points of the rows."""
    if isinstance(bank, CenteredBank):  # and all else would be rounding
        return np.zeros((bank.m, bank.n_rows))
    return bank.products(shares)


def _weighed(cols: Any, outputs: np.ndarray) -> Any:
    """Coefficients at the points that have the kernels, and what falls on the means."""
    return outputs[:, cols.at] * cols.own, outputs @ cols.rest


def _on_diagonal(side: Any, diagonal: np.ndarray, means: Any) -> Any:
    """K'[i, i] without the part of the mean alone, at the points that have the kernels."""
    own = side.own
    return own**2 * diagonal + 2.0 * own * (1.0 - own) * means


def _block(part: Any, values: Any, rows: Any, cols: Any) -> Any:
    """The values of K' for those of K at the points that have the kernels, (k, rows, columns)."""
    out = part.norms[:, None, None] * np.outer(rows.rest, cols.rest)
    out[:, rows.at] += (rows.means * rows.own)[:, :, None] * cols.rest
    out[:, :, cols.at] += rows.rest[:, None] * (cols.means * cols.own)[:, None, :]
    everything = np.arange(part.kernels.size)
    out[np.ix_(everything, rows.at, cols.at)] += values * np.outer(rows.own, cols.own)
    return out


def _crossed(part: Any, X_new: Any, size: Any, support: Any) -> Any:
    """A part with new points as rows, of these sizes, and some training points as columns."""
    if part.shares is None and part.cols.rest.any():
        raise ValueError("cross needs a bank of all training points, this one has some of them.")
    cols, places = (part.cols, None) if support is None else part.cols.some(support)
    at = np.flatnonzero(size)
    means, bank = np.zeros((part.kernels.size, at.size)), None
    if at.size:
        points = points_of(X_new, at, part.columns)
        if not is_sparse(points):  # a bank of complete rows has columns that its kernels do not see
            points = np.where(np.isnan(points), 0.0, points)
        if cols.rest.any() and not isinstance(part.bank, CenteredBank):
            means = part.bank.cross(points).products(part.shares)
        if cols.at.size:
            bank = part.bank.cross(points, places)
    return replace(part, bank=bank, cols=cols, shares=None, new=Side(at, size, means))
