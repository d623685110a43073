"""Factors of many kernels in the small space in which they lie.

Kernels of neighbouring widths are nearly functions of each other, so the factors of all of them
together, ``V`` with r columns, have a much smaller rank than r, but for a hundred-thousandth of
their length: ``V = Q P'`` with q columns. Fifty Gaussians of rank 100 on data of ten features, 3279
columns, lie in a space of 1059. With weights D on the columns of V the combined kernel is ``Q S
Q'`` with ``S = P' D P``: memory, passes over the points and systems of equations are those of q
columns.
"""

from functools import cached_property, partial

import numpy as np
from scipy.linalg import cholesky, qr
from scipy.linalg.lapack import dpstrf

from ..base import as_outputs
from .factors import FactorBank
from .systems import nearly_definite

LEAST = 256  # columns that are worth it
GAIN = 0.6  # largest part of the columns that a smaller space may have
# of a point's factors outside of the space, relative to their length, and a square that is too much
LEFT, BAD = 1e-5, 4.0
HELD = 2**29  # bytes of small matrices that are kept
# points whose factors show the space, at first, and directions per point that they may show
SAMPLE, ENOUGH = 1024, 0.9
ROUNDS = 20  # of points whose factors were not in the space


class ReducedBank(FactorBank):
    """Kernels ``K_k = Q P_k' P_k Q'``.

    Parameters
    ----------
    points : FactorBank
        With the factors Q.
    P : (r, q) array
        Orthonormal columns, those that hold most first; rows as the columns of the factors that it
        stands for.
    offsets : (m + 1,) int
        Kernel k has the rows ``offsets[k]`` to ``offsets[k + 1]`` of P.
    diagonals : (m, n) array
        Of the kernels.
    """

    by_blocks = False  # which all have the same columns

    def __init__(self, points, P, offsets, diagonals):
        super().__init__(points.factors, offsets, points.features, points.threads)
        self._points, self.P, self._diagonals = points, P, diagonals

    @property
    def points(self):
        return self._points

    @property
    def width(self):
        return self.P.shape[0]

    def whole(self):
        return self.points.whole() @ self.P.T

    def parts(self):
        """``P_k`` of every kernel."""
        return (self.P[self.offsets[k] : self.offsets[k + 1]] for k in range(self.m))

    def dot(self, coefficients):
        return self.points.dot(self.reduced(np.atleast_2d(coefficients)))

    def correlate(self, beta):
        return self.points.correlate(beta) @ self.P.T

    def gram(self, scale, exact=False):
        return self.P @ self.points.gram(scale, exact) @ self.P.T

    def combine(self, weights, rows=None):
        root = self.root(weights).astype(self.dtype)
        rotated = FactorBank(self._rotated(root), [0, root.shape[1]], self.features, self.threads)
        return rotated.combine(np.ones(1), rows)

    def products(self, beta):
        moments = self.points.correlate(as_outputs(beta, self.n))
        out = np.stack([self.points.dot(moments @ part.T @ part) for part in self.parts()])
        return out if np.ndim(beta) == 2 else out[:, 0]

    def columns(self, chosen):
        few = self.factors[chosen].astype(float)
        return np.stack([self.points.dot(few @ part.T @ part).T for part in self.parts()])

    def cross(self, X_new, support=None):
        right = self.right if support is None else self.right[support]
        new = self.features.transform(X_new) @ self.P @ self.P.T
        return FactorBank(new, self.offsets, self.features, self.threads, right=right @ self.P.T)

    def take_points(self, points):
        return ReducedBank(
            self.points.take_points(points), self.P, self.offsets, self._diagonals[:, points]
        )

    def take_kernels(self, kernels, factor=1.0):
        return None  # the space is that of all kernels together

    def lasting(self, coefficients):
        return self.reduced(coefficients) @ self.P.T

    def _rotated(self, matrix):
        """``Q matrix``, in the precision of Q."""
        out = np.empty((self.n_rows, matrix.shape[1]), self.dtype)

        def fill(part):
            out[part] = self.factors[part] @ matrix

        self.threads.map(fill, self.blocks())
        return out

    # what solvers on factors ask of a space

    def half(self):
        q = self.P.shape[1] // 2
        if q < LEAST // 2:
            return None
        points = FactorBank(
            np.ascontiguousarray(self.points.factors[:, :q]), [0, q], self.features, self.threads
        )
        # with the diagonals of the whole: near enough for the estimate of rounding, which is all
        # that asks for them
        return ReducedBank(
            points, np.ascontiguousarray(self.P[:, :q]), self.offsets, self._diagonals
        )

    @cached_property
    def _squares(self):
        """``P_k' P_k`` of every kernel, if they do not take too much memory, (m, q, q)."""
        if 8 * self.m * self.P.shape[1] ** 2 > HELD:
            return None
        return np.stack([part.T @ part for part in self.parts()])

    def root(self, weights):
        """A triangular root of S."""
        if self._squares is not None:
            return _lower(np.tensordot(np.asarray(weights, dtype=float), self._squares, 1))
        scaled = np.sqrt(self.column_weights(weights))[:, None] * self.P
        return _lower(scaled.T @ scaled)

    def coefficients_of_moments(self, weights, moments):
        """``D P moments``, (t, r), for moments ``Q' beta``, (t, q)."""
        return self.column_weights(weights) * (moments @ self.P.T)

    def reduced(self, v):
        """``P' v``, (t, q)."""
        return v @ self.P


def _lower(S):
    """The Cholesky factor of a matrix that is singular to rounding; it is overwritten."""
    np.einsum("ii->i", S)[:] += 1e-15 * np.trace(S)
    return nearly_definite(S, partial(cholesky, lower=True, check_finite=False))


def reduced(bank, memory_budget=2**32):
    """The same kernels in the smallest space that holds their factors; the bank itself if that is
    not much smaller.

    In float64, which is asked for where digits count, nothing is left out. While the factors of the
    space are made, they are twice in memory beside those of the bank: all of them must fit into the
    budget, unless the bank's are in a file.
    """
    if type(bank) is not FactorBank or bank.dtype != np.float32 or bank.width < LEAST:
        return bank
    room = memory_budget - (0 if isinstance(bank.factors, np.memmap) else bank.factors.nbytes)
    diagonals = bank.diagonal()  # which the bank keeps, if it stays
    if not 0.0 < diagonals.sum() < np.inf:  # nothing to span: let the solver say what is wrong
        return bank
    with bank.threads.algebra():
        most = min(int(GAIN * bank.width), bank.n, room // (2 * bank.n * bank.dtype.itemsize))
        space = _spanned(bank, diagonals.sum(axis=0), most)
    if space is None:
        return bank
    points = FactorBank(space.Q, [0, space.P.shape[1]], bank.features, bank.threads)
    return ReducedBank(points, space.P, bank.offsets, diagonals)


def _spanned(bank, squares, most):
    """Directions that hold the factors of all points but for LEFT; None if there are more than
    `most`, or too many rounds.

    A sample of the points shows most of the directions, and the points that these serve worst show
    the others: often the landmarks, which narrow kernels set apart.
    """
    space = _Space(bank, squares)
    rest = _sampled(space, most)
    for _ in range(ROUNDS):
        if rest is None or space.P.shape[1] + len(rest) > most:
            return None
        space.add(rest)
        worst = np.argsort(space.left)[-SAMPLE:]
        worst = worst[space.left[worst] > BAD * LEFT**2]
        if not worst.size:
            return space
        rest = _spanning(space.rest(worst))
    return None


def _sampled(space, most):
    """Factors of random points that span all others, as far as can be seen; None if there are too
    many.

    There must be fewer of them than points in the sample: else other points, and new ones, would
    have many more directions.
    """
    n = space.bank.n
    size = min(SAMPLE, n)
    while True:
        found = _spanning(
            space.rest(np.sort(np.random.default_rng(0).choice(n, size, replace=False)))
        )
        if len(found) <= ENOUGH * size:
            return found
        if ENOUGH * size >= most or size == n:
            return None
        size = min(2 * size, n)


class _Space:
    """Orthonormal directions P (r, q), and what they hold of the factors, Q (n, q), and leave of
    their squared lengths (n,).

    Lengths are counted in units of the point's own, or of the usual one if that is more.
    """

    def __init__(self, bank, squares):
        self.bank, self.units = bank, np.maximum(squares, squares.mean())
        self.left = squares / self.units
        self.P, self.Q = np.empty((bank.width, 0)), np.empty((bank.n, 0), bank.dtype)

    def rest(self, points):
        """What the directions leave of some factors."""
        V = self.bank.factors[points] / np.sqrt(self.units[points, None])
        return V - (V @ self.P) @ self.P.T

    def add(self, rows):
        """Directions of some rows."""
        new = qr(rows.T, mode="economic", check_finite=False)[0]
        if self.P.shape[1]:  # what rounding has left of the old directions
            new = qr(new - self.P @ (self.P.T @ new), mode="economic", check_finite=False)[0]
        held = np.empty((self.bank.n, new.shape[1]), self.bank.dtype)
        for start in range(0, self.bank.n, SAMPLE):
            part = slice(start, start + SAMPLE)
            turned = self.bank.factors[part].astype(float) @ new
            held[part] = turned
            self.left[part] -= np.square(turned).sum(axis=1) / self.units[part]
        self.P, self.Q = np.hstack([self.P, new]), np.hstack([self.Q, held])


def _spanning(rows):
    """Some of the rows, such that they hold all of them but for LEFT: Cholesky's method with
    pivots.
    """
    _, order, rank, _ = dpstrf(rows @ rows.T, tol=LEFT**2, lower=1)
    return rows[order[:rank] - 1]
