"""The equations of Newton's method in a space of factors, of one output.

A quadratic model of the loss is ``z' H z / 2 - z' pull`` for a step z of coefficients and
intercept, with ``H = [V 1]' diag(bends) [V 1]``; weights of the kernels enter through a root of
theirs. Matrices are where the bank computes, on the host or on a device; short vectors come from
the host and go back there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._arrays import (
    beside,
    brought,
    cholesky_factors,
    cholesky_solution,
    congruent,
    diagonal,
    namespace,
)


@dataclass(frozen=True)
class Tolerances:
    """Numbers of the factorizations.

    Attributes
    ----------
    intercept_curvature : float
        Curvature that is added for the intercept, relative to its own: rounding may make a step
        of the intercept cost nothing, or less. A larger one makes its steps shorter.
    refinements : int
        Steps of iterative refinement, which curvatures of very different sizes need. More of them
        cost a product with H each.
    first_shift : float
        What is added to the diagonal of a matrix that is not positive definite, relative to its
        trace, at first; ten times as much at every further attempt. A larger one changes the
        solution more.
    shifts : int
        Attempts. With more of them, matrices that hold no numbers are noticed later.
    """

    intercept_curvature: float = 1e-11
    refinements: int = 2
    first_shift: float = 1e-14
    shifts: int = 15


TOLERANCES = Tolerances()
NO_NUMBERS = (
    "The factors hold values that are not numbers: check the data, their scale and the kernels."
)


class System:
    """The equations of one output.

    Parameters
    ----------
    H : (q + 1, q + 1) float64 array or tensor
    curvatures : (n,) array or tensor, optional
        Second derivatives of the loss that H is made of, where they are needed to change it.
    """

    def __init__(self, H: Any, curvatures: Any = None) -> None:
        self.H, self.curvatures = H, curvatures

    def value(self, pull: np.ndarray, step: np.ndarray) -> float:
        """The model's part from the loss, up to a constant."""
        pull, step = beside(self.H, pull, step)
        return float(0.5 * step @ (self.H @ step) - pull @ step)

    def rooted(self, root: Any) -> "Rooted":
        """The equations at weights with this root."""
        return Rooted(self.H, *beside(self.H, root))


class Rooted:
    """The equations of one output at weights with ``S = C C'``: ``I + C' H C``, where the root of
    the intercept is one.

    Parameters
    ----------
    H : (q + 1, q + 1) array or tensor
    root : (q,) or (q, q) array or tensor
        Of the weights: a diagonal, or a lower triangle.
    """

    def __init__(self, H: Any, root: Any) -> None:
        self.H, self.root = H, root
        matrix = self._both_sides()
        entries = diagonal(matrix)
        entries[:-1] += 1.0
        entries[-1] += TOLERANCES.intercept_curvature * entries[-1].clip(1.0, None)
        self.factors = nearly_definite(matrix, cholesky_factors)

    def solve(
        self, pull: np.ndarray, a: np.ndarray, missing: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The change of the moments a, and the step z of (u, b), that minimize ``z' H z / 2 - z'
        pull`` and the norm.

        But for the intercept, ``change = pull - a - H z`` and ``z = S change - missing``: steps,
        not the minimizer itself, since their errors get smaller as they do.
        """
        pull, a, missing = beside(self.H, pull, a, missing)
        right = pull + self.H[:, :-1] @ missing
        right[:-1] -= a
        step = self._times(self._solution(self._transposed(right)))
        change = (right - self.H @ step)[:-1]
        step[:-1] -= missing
        change, step = brought(change, step)
        return change, step

    def descent(self, slope: np.ndarray) -> np.ndarray:
        """The step of (w, b), where ``u = C w``, from a slope (q + 1,) to the minimum of the model
        and the norm of w.
        """
        return brought(-self._solution(*beside(self.H, slope)))[0]

    def _solution(self, right: Any) -> Any:
        x = cholesky_solution(self.factors, right)
        for _ in range(TOLERANCES.refinements):
            left = right - self._transposed(self.H @ self._times(x))
            left[:-1] -= x[:-1]
            x += cholesky_solution(self.factors, left)
        return x

    def _both_sides(self) -> Any:
        """``C' H C``."""
        if self.root.ndim == 1:
            ones = namespace(self.H).ones_like(self.root[:1])
            both = _joined(self.root, ones)
            out = both[:, None] * self.H
            out *= both
            return out
        out = namespace(self.H).empty_like(self.H)
        out[:-1, :-1] = congruent(self.root, self.H[:-1, :-1])
        out[-1, :-1] = out[:-1, -1] = self.root.T @ self.H[-1, :-1]
        out[-1, -1] = self.H[-1, -1]
        return out

    def _times(self, x: Any) -> Any:
        """``C x``."""
        most = self.root * x[:-1] if self.root.ndim == 1 else self.root @ x[:-1]
        return _joined(most, x[-1:])

    def _transposed(self, x: Any) -> Any:
        """``C' x``."""
        most = self.root * x[:-1] if self.root.ndim == 1 else self.root.T @ x[:-1]
        return _joined(most, x[-1:])


def _joined(most: Any, last: Any) -> Any:
    return namespace(most).concatenate([most, last])


def nearly_definite(matrix: Any, factorize: Callable[[Any], Any]) -> Any:
    """Cholesky's factors of a matrix that rounding may have made slightly indefinite; its diagonal
    is changed if so.
    """
    shift = TOLERANCES.first_shift * matrix.trace()
    for _ in range(TOLERANCES.shifts):
        try:
            return factorize(matrix)
        except np.linalg.LinAlgError:
            entries = diagonal(matrix)
            entries += shift
            shift *= 10.0
    raise FloatingPointError(NO_NUMBERS)
