"""Kernels between rows and points that move, and their slopes along the points.

A `Placement` is asked twice for every set of points: for the kernels at all rows, and then, with
the slope of some function along these numbers, for its slope along the coordinates of the points.
Work is in float32: what is found is fitted again in float64.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from ..banks.spec import BankSpec
from ..kernels import RBF, Laplacian, Linear, Polynomial
from ..kernels.base import Kernel

SMOOTH = (RBF, Laplacian, Linear, Polynomial)  # by exact type: a subclass may compute anything


class Members(NamedTuple):
    """Kernels that see the same columns in the same way.

    Attributes
    ----------
    kind : type of the kernels
    columns : (f,) int or None
        What they see, None for all columns.
    kernels : list of Kernel
    weights : (q, k) array
        Weight times scale, for each of q combined kernels.
    units : (f,) array, optional
        Factors on the columns.
    """

    kind: type
    columns: np.ndarray | None
    kernels: list[Kernel]
    weights: np.ndarray
    units: np.ndarray | None = None

    def seen(self, points: np.ndarray) -> np.ndarray:
        """What the kernels see of points."""
        part = points if self.columns is None else points[:, self.columns]
        part = part if self.units is None else part * self.units
        return np.asarray(part, dtype=np.float32)


def grouped(spec: BankSpec, weights: np.ndarray) -> list[Members]:
    """The kernels by kind and columns."""
    found: dict[tuple, list[int]] = {}
    for k in range(spec.m):
        kind = Polynomial if type(spec.kernels[k]) is Linear else type(spec.kernels[k])
        found.setdefault((kind, spec.columns_key(k)), []).append(k)
    return [
        Members(
            kind,
            spec.columns[own[0]],
            [spec.kernels[k] for k in own],
            weights[:, own] * spec.scales[own],
        )
        for (kind, _), own in found.items()
    ]


def seen_columns(spec: BankSpec, k: int) -> np.ndarray | slice:
    """The columns that a kernel sees, as an index."""
    columns = spec.columns[k]
    return slice(None) if columns is None else columns


def has_slopes(spec: BankSpec, k: int) -> bool:
    """True if a kernel has slopes along points that are known here."""
    kernel = spec.kernels[k]
    smooth = type(kernel) in SMOOTH
    return smooth and (spec.normalize != "cosine" or kernel.unit_diagonal)


def movable_columns(spec: BankSpec, n_features: int) -> np.ndarray:
    """The columns along which all kernels that see them have slopes, (n_features,) bools."""
    seen, fixed = np.zeros((2, n_features), dtype=bool)
    fixed[list(spec.categories)] = True
    for k in range(spec.m):
        (seen if has_slopes(spec, k) else fixed)[seen_columns(spec, k)] = True
    return seen & ~fixed


class Placement:
    """Combined kernels between rows that stay and points that move.

    Parameters
    ----------
    groups : list of Members
    rows : (n, n_features) array
    fixed : (q, n, s) array, optional
        What kernels without slopes add, at points whose columns for them do not move.
    """

    def __init__(
        self, groups: list[Members], rows: np.ndarray, fixed: np.ndarray | None = None
    ) -> None:
        self.groups, self.fixed = groups, fixed
        self._rows = [group.seen(rows) for group in groups]
        self._slopes: list[Callable] = []

    def kernels(self, points: np.ndarray) -> np.ndarray:
        """The combined kernels at all rows, (q, n, s)."""
        q, n = len(self.groups[0].weights), len(self._rows[0])
        out = np.zeros((q, n, len(points)), dtype=np.float32)
        self._slopes = []
        for group, A in zip(self.groups, self._rows, strict=True):
            self._slopes.append(KINDS[group.kind](group, A, group.seen(points), out))
        if self.fixed is not None:
            out += self.fixed.astype(np.float32)
        return out

    def slopes(self, along: np.ndarray, n_features: int) -> np.ndarray:
        """Slopes along the coordinates of the last points, (s, n_features), of a function with
        these slopes along the last kernels, (q, n, s).
        """
        out = np.zeros((along.shape[2], n_features))
        for group, slope in zip(self.groups, self._slopes, strict=True):
            columns = slice(None) if group.columns is None else group.columns
            units = 1.0 if group.units is None else group.units
            out[:, columns] += slope(along) * units
        return out


def _exponentials(group: Members, distances: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Add ``sum_k w_k exp(-gamma_k D)`` to `out`; ``sum_k w_k gamma_k exp(-gamma_k D)``."""
    steep, values = np.zeros_like(out), np.empty_like(distances)
    for kernel, weights in zip(group.kernels, group.weights.T, strict=True):
        gamma = np.float32(kernel._number())  # type: ignore[attr-defined]
        np.multiply(distances, -gamma, out=values)
        np.exp(values, out=values)
        for c in np.flatnonzero(weights):
            part = values * np.float32(weights[c])
            out[c] += part
            part *= gamma
            steep[c] += part
    return steep


def _gaussians(group: Members, A: np.ndarray, B: np.ndarray, out: np.ndarray) -> Callable:
    if A.shape[1] == 1:
        distances = np.square(A - B.T)
    else:
        distances = A @ B.T
        distances *= -2.0
        distances += np.square(A).sum(axis=1)[:, None]
        distances += np.square(B).sum(axis=1)
        np.maximum(distances, 0.0, out=distances)
    steep = _exponentials(group, distances, out)

    def slope(along: np.ndarray) -> np.ndarray:
        total = np.einsum("qns,qns->ns", along, steep)
        return 2.0 * (total.T @ A - total.sum(axis=0)[:, None] * B)

    return slope


def _laplacians(group: Members, A: np.ndarray, B: np.ndarray, out: np.ndarray) -> Callable:
    distances = cdist(A, B, "cityblock").astype(np.float32)
    steep = _exponentials(group, distances, out)

    def slope(along: np.ndarray) -> np.ndarray:
        total = np.einsum("qns,qns->ns", along, steep)
        sides = [
            (total * np.sign(a[:, None] - b)).sum(axis=0) for a, b in zip(A.T, B.T, strict=True)
        ]
        return np.stack(sides, axis=1)

    return slope


def _polynomials(group: Members, A: np.ndarray, B: np.ndarray, out: np.ndarray) -> Callable:
    dots, steep = A @ B.T, np.zeros_like(out)
    for kernel, weights in zip(group.kernels, group.weights.T, strict=True):
        degree, gamma, coef0 = 1, 1.0, 0.0
        if isinstance(kernel, Polynomial):
            degree, gamma, coef0 = kernel.degree, kernel.gamma, kernel.coef0
        base = np.float32(gamma) * dots + np.float32(coef0)
        lower = base ** (degree - 1)
        for c in np.flatnonzero(weights):
            out[c] += np.float32(weights[c]) * lower * base
            steep[c] += np.float32(weights[c] * degree * gamma) * lower

    def slope(along: np.ndarray) -> np.ndarray:
        return np.einsum("qns,qns->ns", along, steep).T @ A

    return slope


KINDS: dict[type, Callable] = {
    RBF: _gaussians,
    Laplacian: _laplacians,
    Polynomial: _polynomials,
}
