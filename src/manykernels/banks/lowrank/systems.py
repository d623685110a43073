"""The equations of Newton's method in a space of factors, of one output.

A quadratic model of the loss is ``z' H z / 2 - z' pull`` for a step z of coefficients and
intercept, with ``H = [V 1]' diag(bends) [V 1]``; weights of the kernels enter through a root of
theirs.
"""

from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dtrmm

HOLD = 1e-11  # rounding may make a step of the intercept cost nothing, or less
REFINEMENTS = 2  # of a solution, which bends of very different sizes need
SHIFTS = 15  # of a matrix that rounding has made slightly indefinite
NO_NUMBERS = (
    "The factors hold values that are not numbers: check the data, their scale and the kernels."
)


class System:
    """The equations of one output.

    Parameters
    ----------
    points : FactorBank
    bends : (n,) array
        Second derivatives of the loss.
    exact : bool
        Take sums in float64.
    """

    def __init__(self, points, bends, exact):
        q = points.width
        self.H = np.empty((q + 1, q + 1))
        self.H[:q, :q] = points.gram(bends, exact)
        self.H[q, :q] = self.H[:q, q] = points.correlate(bends[None])[0]
        self.H[q, q] = bends.sum()

    def value(self, pull, step):
        """The model's part from the loss, up to a constant."""
        return float(0.5 * step @ (self.H @ step) - pull @ step)

    def rooted(self, root):
        """The equations at weights with this root."""
        return Rooted(self.H, root)


class GivenSystem(System):
    """The equations of one output, from their matrix."""

    def __init__(self, H):
        self.H = H


class Rooted:
    """The equations of one output at weights with ``S = C C'``: ``I + C' H C``, where the root of
    the intercept is one.

    Parameters
    ----------
    H : (q + 1, q + 1) array
    root : (q,) or (q, q) array
        Of the weights: a diagonal, or a triangle.
    """

    def __init__(self, H, root):
        self.H, self.root = H, root
        matrix = self._both_sides()
        diagonal = np.einsum("ii->i", matrix)
        diagonal[:-1] += 1.0
        diagonal[-1] += HOLD * max(diagonal[-1], 1.0)
        self.factor = nearly_definite(matrix, partial(cho_factor, check_finite=False))

    def solve(self, pull, a, missing):
        """The change of the moments a, and the step z of (u, b), that minimize ``z' H z / 2 - z'
        pull`` and the norm.

        But for the intercept, ``change = pull - a - H z`` and ``z = S change - missing``: steps,
        not the minimizer itself, since their errors get smaller as they do.
        """
        right = pull + self.H[:, :-1] @ missing
        right[:-1] -= a
        rise = self._times(self._solution(self._transposed(right)))
        step = rise.copy()
        step[:-1] -= missing
        return (right - self.H @ rise)[:-1], step

    def _solution(self, right):
        x = cho_solve(self.factor, right, check_finite=False)
        for _ in range(REFINEMENTS):
            left = right - self._transposed(self.H @ self._times(x))
            left[:-1] -= x[:-1]
            x += cho_solve(self.factor, left, check_finite=False)
        return x

    def _both_sides(self):
        """``C' H C``."""
        if self.root.ndim == 1:
            both = np.append(self.root, 1.0)
            return both[:, None] * self.H * both
        out = np.empty_like(self.H)
        half = dtrmm(1.0, self.root, self.H[:-1, :-1].T, side=1, lower=1)
        out[:-1, :-1] = dtrmm(1.0, self.root, half, lower=1, trans_a=1, overwrite_b=1)
        out[-1, :-1] = out[:-1, -1] = self.root.T @ self.H[-1, :-1]
        out[-1, -1] = self.H[-1, -1]
        return out

    def _times(self, x):
        """``C x``."""
        return np.append(self.root * x[:-1] if self.root.ndim == 1 else self.root @ x[:-1], x[-1])

    def _transposed(self, x):
        """``C' x``."""
        return np.append(self.root * x[:-1] if self.root.ndim == 1 else self.root.T @ x[:-1], x[-1])


def nearly_definite(matrix, factorize):
    """Cholesky's factors of a matrix that rounding may have made slightly indefinite; it is
    overwritten.
    """
    shift = 1e-14 * np.trace(matrix)
    for _ in range(SHIFTS):
        try:
            return factorize(matrix)
        except np.linalg.LinAlgError:
            np.einsum("ii->i", matrix)[:] += shift
            shift *= 10.0
    raise FloatingPointError(NO_NUMBERS)
