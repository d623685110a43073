"""Polynomial kernels as sums of powers of the dot product."""

from math import comb
from typing import Any

import numpy as np

from ..kernels.vector import Linear


def polynomial_parameters(kernel: Any) -> Any:
    """Factor of the dot product, constant and degree of a linear or polynomial kernel."""
    if isinstance(kernel, Linear):
        return 1.0, 0.0, 1
    return kernel.gamma, kernel.coef0, kernel.degree


def power_coefficients(kernels: Any, scales: np.ndarray, units: Any) -> Any:
    """Coefficients c[l, r] of ``K_l = sum_r c[l, r] (t / units[l])^r`` for polynomial kernels of
    the dot product t.
    """
    parameters = [polynomial_parameters(kernel) for kernel in kernels]
    table = np.zeros((len(kernels), max(degree for *_, degree in parameters) + 1))
    for row, (gamma, coef0, degree), scale, unit in zip(
        table, parameters, scales, units, strict=True
    ):
        # the scale goes inside the power: outside, both factors may be out of range though their
        # product is not
        root = scale ** (1.0 / degree)
        for r in range(degree + 1):
            row[r] = comb(degree, r) * (gamma * unit * root) ** r * (coef0 * root) ** (degree - r)
    return table
