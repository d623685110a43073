"""SMO on a combined kernel in memory, and systems of equations where the dual asks for them."""

import numpy as np
from scipy.linalg import cho_solve

from .._algebra import cholesky_factor
from .._loops.smo import smo
from .._pulse import pulse
from . import curved
from .base import Machine

ROWS = 256
ROUNDING = 1e-14  # relative to F, below which a violation is rounding
# visited by one call of the compiled loop: a tenth of a second, so that Ctrl-C is heard
ENTRIES_PER_CALL = 50_000_000


class DenseMachine(Machine):
    """SMO with second-order selection; the kernel is an (n, n) array of float32 or float64."""

    def multiply(self, kernel, beta):
        out, support = np.zeros(beta.size), np.flatnonzero(beta)
        # a few rows at a time: they are copied, and turned into float64
        for start in range(0, support.size, ROWS):
            part = support[start : start + ROWS]
            out += beta[part] @ kernel[part]
        return out

    def ascend(self, kernel, box, beta, F, tol, max_steps):
        if box.curve is not None:
            return curved.ascend(kernel, box, beta, F, tol, max_steps)
        if box.free:
            return _solve(kernel, box, beta, F)
        diagonal, bounds = np.diagonal(kernel) + box.ridge, box.bounds()
        tol = max(tol, ROUNDING * float(np.abs(F).max(initial=0.0)))
        per_call = max(1000, ENTRIES_PER_CALL // beta.size)
        done = 0
        while True:
            limit = min(per_call, max_steps - done)
            steps, violation = smo(kernel, diagonal, bounds, beta, F, tol, limit)
            done += steps
            pulse()
            if steps < limit or done >= max_steps:
                return done, violation


def _solve(kernel, box, beta, F):
    """The maximum without bounds: the step x with ``(K + diag(ridge)) x + F`` constant and ``sum(x)
    = 0``.
    """
    H = np.array(kernel, dtype=float, order="F")
    H[np.diag_indices_from(H)] += box.ridge
    factor = cholesky_factor(H)
    # what is left after one solve is the error of the factorization: a second one removes most of
    # it
    for _ in range(2):
        x, ones = cho_solve(factor, np.stack([F, np.ones_like(F)], axis=1), check_finite=False).T
        x = ones * (x.sum() / ones.sum()) - x
        beta += x
        F += DenseMachine().multiply(kernel, x) + box.ridge * x
    return 1, float(F.max() - F.min())
