"""Decision functions in NumPy alone, packed once for many calls.

Of few rows neither compiling pays nor a pool of threads: a packed expansion holds what can be
computed before the rows are known. Kernels of one distance share it, scales and weights are one
factor, and kernels that are polynomials of a product with the row (linear ones, and those of one
column) become sums of powers of its entries, whatever the number of support vectors. Nothing in it
changes once it is made, so any number of threads may use it.
"""

from typing import Any, NamedTuple

import numpy as np

from .._threads import Threads
from ..kernels.categorical import Hamming
from ..kernels.overlaps import Overlap
from ..kernels.vector import middle, squared_norms
from .column_functions import ColumnFunctions
from .powers import polynomial_parameters, power_coefficients
from .spec import SINGLE, BankSpec, grouped, inverse_roots

# Values at pairs of points that are computed together: more do not stay in cache.
BLOCK = 2**16
# Squared norm, in units of the narrowest kernel, up to which distances are had of dot products, as
# in `banks.families.distances`.
FARTHEST = 1e8


class Expansion(NamedTuple):
    """What is packed.

    Attributes
    ----------
    spec : BankSpec
    points : (s, n_features) array
        The support vectors.
    weights : (g, m) array
        Of all outputs (g = 1), or of each.
    beta : (t, s) array
        Coefficients of the support vectors.
    """

    spec: BankSpec
    points: np.ndarray
    weights: np.ndarray
    beta: np.ndarray

    def seen(self, columns: Any) -> np.ndarray:
        """Some columns of the points, None for all."""
        return self.points if columns is None else self.points[:, columns]

    def factors(self, kernels: np.ndarray) -> np.ndarray:
        """Weights times scales of some kernels, (g, kernels)."""
        return self.weights[:, kernels] * self.spec.scales[kernels]

    @property
    def used(self) -> Any:
        """Kernels that have weight in any output, (m,) of bool."""
        return self.weights.any(axis=0)

    @property
    def per_output(self) -> np.ndarray:
        """The weights of every output, (t, m)."""
        return np.broadcast_to(self.weights, (len(self.beta), self.weights.shape[1]))


def can_pack(spec: Any, points: Any) -> bool:
    """True for dense points and kernels that do not ask what the codes of strings stand for."""
    plain = isinstance(spec, BankSpec) and isinstance(points, np.ndarray)
    return plain and all(kernel.reads != "strings" for kernel in spec.kernels)


class PackedExpansion:
    """The functions ``f_c(x) = sum_i beta_ci K_d(x, x_i)`` of t outputs.

    Parameters
    ----------
    expansion : Expansion
        One that `can_pack` says yes to.

    Attributes
    ----------
    entries : int
        Values at pairs of points that one row costs.
    functions : ColumnFunctions or None
        The Gaussians of single columns for many rows.
    """

    def __init__(self, expansion: Expansion) -> None:
        spec, used = expansion.spec, expansion.used
        self.beta, self.outputs = expansion.beta, len(expansion.weights)
        self.folded, self.functions = Folded(expansion), None
        self.terms: list[Any] = []
        alone, groups = grouped(spec, ())
        for (kind, columns), members in groups.items():
            chosen = np.array([k for k in members if used[k]], dtype=np.intp)
            if kind == "dot":
                chosen = np.array([k for k in chosen if not folds(spec, k)], dtype=np.intp)
            if chosen.size:
                self.terms.append(_term(kind, columns, chosen, expansion))
            if chosen.size and columns == SINGLE and kind == "distance":
                self.functions = self.terms[-1].functions(self.beta)
        for k in alone:
            if used[k]:
                self.terms.append(_alone(spec.kernels[k])(k, expansion))
        self.entries = self.beta.shape[1] * sum(term.passes for term in self.terms)

    def scores(self, X: np.ndarray, threads: Threads) -> np.ndarray:
        """Decision values without the intercepts, (t, n_new), of dense rows."""
        out = self.folded.scores(X)
        step = max(1, BLOCK // self.beta.shape[1])

        def fill(start: int) -> None:
            part = slice(start, start + step)
            out[:, part] += self._expanded(X[part])

        if self.terms:
            threads.map(fill, range(0, len(X), step), entries=len(X) * self.entries)
        return out

    def begun(self, X: np.ndarray, tabulated: bool) -> tuple[np.ndarray, np.ndarray]:
        """What needs no pairs of points for many rows, (t, n_new), and the kernels that are left.

        Parameters
        ----------
        X : (n_new, n_features) array
        tabulated : bool
            Whether the Gaussians of single columns are looked up.
        """
        out, left = self.folded.scores(X), [term.members for term in self.terms]
        if tabulated and self.functions is not None:
            self.functions.add(X, out)
            left = [np.setdiff1d(members, self.functions.members) for members in left]
        return out, np.concatenate([np.empty(0, dtype=np.intp), *left])

    def _expanded(self, X: np.ndarray) -> np.ndarray:
        K = np.zeros((self.outputs, len(X), self.beta.shape[1]))
        with np.errstate(over="ignore", under="ignore"):
            for term in self.terms:
                term.add(X, K)
        if self.outputs == 1:
            return self.beta @ K[0].T
        return np.stack([of_output @ b for of_output, b in zip(K, self.beta, strict=True)])


def folds(spec: BankSpec, k: int) -> bool:
    """True if kernel k, a polynomial of a dot product, needs no support vectors once it is
    folded.
    """
    columns = spec.columns[k]
    one = columns is not None and columns.size == 1
    return one or polynomial_parameters(spec.kernels[k])[2] == 1


class Folded:
    """Sums of kernels that are polynomials of the entries of a row: ``c + sum_f a_f x_f``, and
    powers of single columns.

    Attributes
    ----------
    constants : (t,) array
    slopes : (t, n_features) array
    columns, units : (F,) arrays
        Columns that have powers, and what these are measured in.
    powers : (degree, t, F) array
    """

    def __init__(self, expansion: Expansion) -> None:
        spec, points = expansion.spec, expansion.points
        self.constants = np.zeros(len(expansion.beta))
        self.slopes = np.zeros((len(expansion.beta), points.shape[1]))
        used = expansion.used
        chosen = [
            k for k in spec.alive.tolist() if used[k] and spec.kind(k) == "dot" and folds(spec, k)
        ]
        single = [k for k in chosen if spec.columns[k] is not None and spec.columns[k].size == 1]
        for k in chosen:
            if k not in single:
                self._add_linear(k, expansion)
        self._set_powers(np.array(single, dtype=np.intp), expansion)
        self.is_linear = bool(self.slopes.any())

    def _add_linear(self, k: int, expansion: Expansion) -> None:
        spec, columns = expansion.spec, expansion.spec.columns[k]
        constant, slope = power_coefficients([spec.kernels[k]], spec.scales[[k]], [1.0])[0]
        weights = expansion.per_output[:, k]
        self.constants += weights * constant * expansion.beta.sum(axis=1)
        sums = (slope * weights)[:, None] * (expansion.beta @ expansion.seen(columns))
        self.slopes[:, slice(None) if columns is None else columns] += sums

    def _set_powers(self, chosen: np.ndarray, expansion: Expansion) -> None:
        spec, beta = expansion.spec, expansion.beta
        features = np.array([spec.columns[k][0] for k in chosen], dtype=np.intp)
        self.columns, slot = np.unique(features, return_inverse=True)
        seen = expansion.seen(self.columns)
        largest = np.abs(seen).max(axis=0, initial=0.0)
        self.units = np.where(largest > 0, largest, 1.0)
        if not chosen.size:
            self.powers = np.empty((0, len(beta), 0))
            return
        kernels = [spec.kernels[k] for k in chosen]
        coefficients = power_coefficients(kernels, spec.scales[chosen], self.units[slot] ** 2)
        z = seen / self.units
        table = []
        for r in range(coefficients.shape[1]):
            weighted = np.zeros((len(beta), self.columns.size))
            np.add.at(weighted.T, slot, (expansion.per_output[:, chosen] * coefficients[:, r]).T)
            table.append(weighted * (beta @ z**r))
        self.constants += table[0].sum(axis=1)
        self.powers = np.array(table[1:])

    def scores(self, X: np.ndarray) -> np.ndarray:
        """The sums at some rows, (t, n_new)."""
        out = np.repeat(self.constants[:, None], len(X), axis=1)
        if self.is_linear:
            out += self.slopes @ X.T
        if self.columns.size:
            z = (X[:, self.columns] / self.units).T
            power = z
            for table in self.powers:
                out += table @ power
                power = power * z
        return out


def _term(kind: str, columns: Any, members: np.ndarray, expansion: Expansion) -> Any:
    """The term of kernels that share their pairwise number."""
    if columns == SINGLE:
        return ColumnGaussians(members, expansion)
    if kind == "dot":
        return Dots(members, expansion)
    return (Distances if kind == "distance" else Manhattan)(members, expansion)


def _alone(kernel: Any) -> Any:
    """The term of a kernel by itself."""
    if type(kernel) is Hamming:
        return Matches
    return Overlaps if isinstance(kernel, Overlap) else OneKernel


class OneKernel:
    """A kernel by itself, through its `block`."""

    passes = 2

    def __init__(self, k: int, expansion: Expansion) -> None:
        spec, self.members = expansion.spec, np.array([k])
        self.kernel, self.columns = spec.kernels[k], spec.columns[k]
        self.weights = expansion.factors(np.array([k]))[:, 0]
        seen = expansion.seen(self.columns)
        self.points = self.kernel.laid_out(seen)
        self._roots = None
        if spec.normalize == "cosine" and not self.kernel.unit_diagonal:
            self._roots = inverse_roots(self.kernel.diagonal(seen))

    def add(self, X: np.ndarray, K: np.ndarray) -> None:
        """Add the kernel at rows X to each of K, (g, n_new, s)."""
        A = X if self.columns is None else X[:, self.columns]
        block = self.block(A)
        if self._roots is not None:
            block = block * inverse_roots(self.kernel.diagonal(A))[:, None] * self._roots
        for of_output, weight in zip(K, self.weights, strict=True):
            if weight:
                of_output += weight * block

    def block(self, A: np.ndarray) -> Any:
        """The kernel between rows and the points."""
        return self.kernel.block(A, self.points)


class Overlaps(OneKernel):
    """A kernel of what rows share, which visits every octet of their bits, or about as much."""

    def __init__(self, k: int, expansion: Expansion) -> None:
        super().__init__(k, expansion)
        self.passes = 2 + expansion.seen(self.columns).shape[1] // 8

    def block(self, A: np.ndarray) -> Any:
        kernel: Any = self.kernel
        return kernel.few_rows(A, self.points)


class Matches:
    """The weighted share of columns in which rows are equal."""

    passes = 2

    def __init__(self, k: int, expansion: Expansion) -> None:
        spec, self.members = expansion.spec, np.array([k])
        kernel: Any = spec.kernels[k]
        columns, shares = spec.columns[k], kernel.weights
        self.columns = np.arange(expansion.points.shape[1]) if columns is None else columns
        shares = np.ones(self.columns.size) if shares is None else np.asarray(shares, dtype=float)
        self.shares = shares / shares.sum()
        self.weights = expansion.factors(self.members)[:, 0]
        self.points = np.ascontiguousarray(expansion.seen(self.columns).T)

    def add(self, X: np.ndarray, K: np.ndarray) -> None:
        """Add the kernel at rows X to each of K, (g, n_new, s)."""
        block = np.zeros(K.shape[1:])
        for share, entries, column in zip(self.shares, X.T[self.columns], self.points, strict=True):
            block += share * (entries[:, None] == column)
        for of_output, weight in zip(K, self.weights, strict=True):
            if weight:
                of_output += weight * block


class Dots:
    """Polynomials of one dot product, of degree 2 and 3."""

    def __init__(self, members: np.ndarray, expansion: Expansion) -> None:
        spec, self.members = expansion.spec, members
        self.columns = spec.columns[members[0]]
        seen = expansion.seen(self.columns)
        unit = squared_norms(seen).max(initial=0.0) or 1.0
        kernels = [spec.kernels[k] for k in members]
        units = np.full(len(kernels), unit)
        table = power_coefficients(kernels, spec.scales[members], units)
        self.coefficients = expansion.weights[:, members] @ table
        self.points = np.ascontiguousarray(seen.T) / unit
        self.passes = table.shape[1]

    def add(self, X: np.ndarray, K: np.ndarray) -> None:
        """Add the kernels at rows X to each of K, (g, n_new, s)."""
        t = (X if self.columns is None else X[:, self.columns]) @ self.points
        for of_output, (*lower, highest) in zip(K, self.coefficients, strict=True):
            total = np.full_like(t, highest)
            for coefficient in reversed(lower):
                total *= t
                total += coefficient
            of_output += total


class Distances:
    """Gaussians of one distance over several columns."""

    def __init__(self, members: np.ndarray, expansion: Expansion) -> None:
        spec, self.members = expansion.spec, members
        self.columns = spec.columns[members[0]]
        self.gammas = np.array([spec.kernels[k].gamma for k in members])
        self.weights = expansion.factors(members)
        self._set_points(expansion.seen(self.columns))
        self.passes = 1 + self.gammas.size

    def _set_points(self, seen: np.ndarray) -> None:
        self.center = middle(seen)
        self.points = seen - self.center
        self.doubled = np.ascontiguousarray(-2.0 * self.points.T)
        with np.errstate(over="ignore"):
            self.norms = squared_norms(self.points)
        self.farthest = self.norms.max(initial=0.0)

    def pairs(self, A: np.ndarray) -> np.ndarray:
        """The pairwise numbers of rows, (n_new, s)."""
        A = A - self.center
        norms = squared_norms(A)
        if max(norms.max(), self.farthest) * self.gammas.max() > FARTHEST:
            return _sums(A, self.points, np.square)
        D = A @ self.doubled
        D += norms[:, None]
        D += self.norms
        return np.maximum(D, 0.0, out=D)

    def add(self, X: np.ndarray, K: np.ndarray) -> None:
        """Add the kernels at rows X to each of K, (g, n_new, s)."""
        D = self.pairs(X if self.columns is None else X[:, self.columns])
        E = np.empty_like(D)
        for gamma, weights in zip(self.gammas, self.weights.T, strict=True):
            np.exp(np.multiply(D, -gamma, out=E), out=E)
            for of_output, weight in zip(K, weights, strict=True):
                if weight:
                    of_output += weight * E


class Manhattan(Distances):
    """Laplacians of one sum of absolute differences."""

    def _set_points(self, seen: np.ndarray) -> None:
        self.points = seen

    def pairs(self, A: np.ndarray) -> np.ndarray:
        return _sums(A, self.points, np.abs)


class ColumnGaussians:
    """Gaussians of single columns."""

    def __init__(self, members: np.ndarray, expansion: Expansion) -> None:
        spec, self.members = expansion.spec, members
        self.columns = np.array([spec.columns[k][0] for k in members])
        self.rates = -np.array([spec.kernels[k].gamma for k in members])
        self.weights = expansion.factors(members)
        # each column once, however many kernels see it
        distinct, self.places = np.unique(self.columns, return_inverse=True)
        self.points = np.ascontiguousarray(expansion.seen(distinct).T)
        self.passes = members.size

    def functions(self, beta: np.ndarray) -> ColumnFunctions:
        """The same as functions of the columns."""
        weights = np.broadcast_to(self.weights, (len(beta), self.members.size))
        return ColumnFunctions(self.members, self.columns, self.rates, weights, self.points, beta)

    def add(self, X: np.ndarray, K: np.ndarray) -> None:
        """Add the kernels at rows X to each of K, (g, n_new, s)."""
        step = max(1, BLOCK // K[0].size)
        for start in range(0, self.columns.size, step):
            part = slice(start, start + step)
            E = X.T[self.columns[part], :, None] - self.points[self.places[part], None, :]
            np.square(E, out=E)
            E *= self.rates[part, None, None]
            np.exp(E, out=E)
            K += np.tensordot(self.weights[:, part], E, 1)


def _sums(A: np.ndarray, B: np.ndarray, function: Any) -> np.ndarray:
    """Sums of a function of the differences between two sets of rows, row by row."""
    out = np.empty((len(A), len(B)))
    for row, a in zip(out, A, strict=True):
        differences = B - a
        function(differences, out=differences).sum(axis=1, out=row)
    return out
