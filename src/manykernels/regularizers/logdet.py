"""A penalty on the volume of the learned kernel."""

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from .._algebra import cholesky_factor
from .._pulse import pulse
from .base import Regularizer, check_strength

ENTRIES_AT_ONCE = 2**24  # of rows of all kernels


class LogDet(Regularizer):
    """``r(d) = strength / 2 log det(I + K_d)``: a penalty on the volume of the learned kernel.

    It is concave in d, so the problem is not convex: what a solver finds is a stationary point that
    depends on where it starts, and there is no conjugate to certify it. It has to know the kernels:
    see `bound`. A value costs a combined kernel and its Cholesky factorization, a gradient the
    inverse and a pass over the kernels.
    """

    needs_bank = True

    def __init__(self, strength=1.0):
        check_strength("LogDet", strength)
        self.strength = float(strength)
        self.bank = self._latest = None

    def bound(self, bank):
        """A copy that knows the kernels of this bank."""
        copy = LogDet(self.strength)
        copy.bank = bank
        return copy

    def value(self, d):
        if d.min() < 0.0:
            return np.inf
        try:
            return self.strength * float(np.log(np.diagonal(self._factor(d))).sum())
        # weights so large that rounding has made I + K_d indefinite: no step may go there
        except np.linalg.LinAlgError:
            return np.inf

    def gradient(self, d):
        factor, (n, m), traces = self._factor(d), (self.bank.n, self.bank.m), np.zeros(self.bank.m)
        width = m if self.bank.is_sum else 1
        for rows in np.array_split(np.arange(n), -(-n * n * width // ENTRIES_AT_ONCE)):
            unit = np.zeros((n, rows.size))
            unit[rows, np.arange(rows.size)] = 1.0
            pulse()
            if not self.bank.is_sum:
                # tr(L L' dK_d / dd_k), with rows of L', the inverse of the factor
                inverse = solve_triangular(factor, unit, lower=True, trans="T", check_finite=False)
                traces[:] += self.bank.weight_gradient(d, inverse.T)
                continue
            # tr((I + K_d)^-1 K_k), some rows of both
            inverse = cho_solve((factor, True), unit, overwrite_b=True, check_finite=False).T

            def add(kernels, values, first, inverse=inverse):
                for place, k in enumerate(range(kernels.start, kernels.stop), first):
                    traces[k] += np.vdot(values[:, place], inverse)

            self.bank.visit_kernel_rows(rows, add)
        return 0.5 * self.strength * traces

    def _factor(self, d):
        """Lower Cholesky factor of ``I + K_d``; that of the last d is kept, for the gradient
        follows the value.
        """
        if self.bank is None:
            raise ValueError(
                "LogDet needs the kernels: call bound(bank) and use the regularizer that it "
                "returns."
            )
        if self._latest is None or not np.array_equal(self._latest[0], d):
            K = np.array(self.bank.combine(d), dtype=float)
            K[np.diag_indices_from(K)] += 1.0
            self._latest = d.copy(), cholesky_factor(K)[0]
        return self._latest[1]

    def __repr__(self):
        return f"LogDet(strength={self.strength:g})"
