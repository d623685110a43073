"""SMO on a combined kernel in memory."""

import numpy as np

from .._loops.smo import smo
from .base import Machine

ROWS = 256
ENTRIES_PER_CALL = 50_000_000  # visited by one call of the compiled loop: a tenth of a second, so that Ctrl-C is heard


class DenseMachine(Machine):
    """SMO with second-order selection; the kernel is an (n, n) array of float32 or float64."""

    def multiply(self, kernel, beta):
        out, support = np.zeros(beta.size), np.flatnonzero(beta)
        for start in range(0, support.size, ROWS):  # a few rows at a time: they are copied, and turned into float64
            part = support[start : start + ROWS]
            out += beta[part] @ kernel[part]
        return out

    def ascend(self, kernel, box, beta, F, tol, max_steps):
        diagonal = np.diagonal(kernel).astype(float)
        per_call = max(1000, ENTRIES_PER_CALL // beta.size)
        done = 0
        while True:
            limit = min(per_call, max_steps - done)
            steps, violation = smo(kernel, diagonal, box.lower, box.upper, beta, F, tol, limit)
            done += steps
            if steps < limit or done >= max_steps:
                return done, violation
