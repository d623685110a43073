"""SMO on a combined kernel in memory, and systems of equations where the dual asks for them."""

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve

from .._loops.smo import Rows, smo_on_rows
from .._pulse import pulse
from .._threads import cholesky_factor
from ..losses import Box
from ..thresholds import thresholds
from . import curved, iterative
from .base import Machine
from .matrices import CurvedKernel, multiply

# Violation, relative to F, that is rounding: with a larger one SMO ends earlier.
ROUNDING_VIOLATION = 1e-14
# Entries that one call of the compiled loop visits, a tenth of a second: with more, Ctrl-C waits.
ENTRIES_PER_CALL = 50_000_000


class DenseMachine(Machine):
    """SMO with second-order selection; the kernel is an (n, n) array of float32 or float64, or a
    `CurvedKernel`.
    """

    def multiply(self, kernel: Any, beta: np.ndarray) -> np.ndarray:
        return multiply(kernel, beta)

    def ascend(
        self,
        kernel: Any,
        box: Box,
        beta: np.ndarray,
        F: np.ndarray,
        tol: float,
        max_steps: int,
    ) -> tuple[int, float]:
        if box.is_system and beta.size > thresholds().factorized_points:
            steps, violation = iterative.ascend(kernel, box, beta, F, tol, max_steps)
            if violation <= tol or not iterative.gave_up(beta.size, steps, max_steps):
                return steps, violation
        if box.is_system and isinstance(kernel, CurvedKernel):
            kernel = kernel.whole()
        if box.curve is not None:
            return curved.ascend(kernel, box, beta, F, tol, max_steps)
        if box.free:
            return _solve(kernel, box, beta, F)
        diagonal, bounds = kernel.diagonal() + box.ridge, box.bounds()
        rows = (
            Rows.curved(kernel.K, kernel.left, kernel.right)
            if isinstance(kernel, CurvedKernel)
            else Rows.of(kernel)
        )
        tol = max(tol, ROUNDING_VIOLATION * float(np.abs(F).max(initial=0.0)))
        per_call = max(1000, ENTRIES_PER_CALL // beta.size)
        done = 0
        while True:
            limit = min(per_call, max_steps - done)
            steps, violation = smo_on_rows(rows, diagonal, bounds, beta, F, tol, limit)
            done += steps
            pulse()
            if steps < limit or done >= max_steps:
                return done, violation


def _solve(kernel: np.ndarray, box: Box, beta: np.ndarray, F: np.ndarray) -> tuple[int, float]:
    """The maximum without bounds: the step x with ``(K + diag(ridge)) x + F`` constant and ``sum(x)
    = 0``.
    """
    factor, rounds = _factored(kernel, box.ridge)
    for _ in range(rounds):
        x, ones = cho_solve(factor, np.stack([F, np.ones_like(F)], axis=1), check_finite=False).T
        x = ones * (x.sum() / ones.sum()) - x
        beta += x
        F += multiply(kernel, x) + box.ridge * x
    return 1, float(F.max() - F.min())


def _factored(kernel: np.ndarray, ridge: np.ndarray) -> tuple[Any, int]:
    """Cholesky's factor of the kernel and the ridge, and how often to solve by it.

    What is left after one solve is the error of the factorization: a second one removes most of it.
    Where rounding of the kernel is more than the ridge, as where C is very large, a shift makes the
    matrix definite, and more solves undo what they can of that.
    """
    rounding = len(kernel) * float(np.finfo(kernel.dtype).eps) * float(kernel.diagonal().max())
    for shift in (0.0, rounding, 10.0 * rounding, 100.0 * rounding):
        H = np.array(kernel, dtype=float, order="F")
        H[np.diag_indices_from(H)] += ridge + shift
        try:
            return cholesky_factor(H), 2 if shift == 0.0 else 10
        except LinAlgError:
            continue
    raise LinAlgError(
        "A combined kernel is not positive semi-definite: the squared loss has no solution on it."
    )
