"""A penalty on the volume of the learned kernel."""

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from .base import Regularizer, check_strength


class LogDet(Regularizer):
    """``r(d) = strength / 2 log det(I + K_d)``: a penalty on the volume of the learned kernel.

    It is concave in d, so the problem is not convex: what a solver finds is a stationary point that
    depends on where it starts, and there is no conjugate to certify it. It has to know the kernels:
    see `bound`. A value costs a combined kernel and its Cholesky factorization, a gradient as much
    as the quadratic forms of n outputs.
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
        # (I + K_d)^-1 = L L' with L' the inverse of the factor, and tr(L L' K_k) = sum_i l_i' K_k
        # l_i over the rows l_i of L'
        inverse = solve_triangular(self._factor(d), np.eye(self.bank.n), lower=True)
        return 0.5 * self.strength * self.bank.quadratic_forms(inverse)

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
            self._latest = d.copy(), cholesky(K, lower=True)
        return self._latest[1]

    def __repr__(self):
        return f"LogDet(strength={self.strength:g})"
