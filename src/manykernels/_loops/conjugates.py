"""Conjugates of regularizers for compiled loops: weights that belong to quadratic forms, and how
they change.

All three have a derivative of the form ``diag(diagonal) + factor d d'``, where d are the weights.
"""

from typing import NamedTuple

import numpy as np

from .rbf import fast

BALL, SQUARED, DIVERGENCE = 0, 1, 2
LARGEST_EXPONENT = 600.0  # of e; the sum of many such terms is still finite
# relative forms below this count as this much in the curvature, where zero would mean infinity
SMALLEST_FORM = 1e-12


class Law(NamedTuple):
    """A regularizer and its numbers.

    Attributes
    ----------
    kind : int
        ``BALL``, ``SQUARED`` (p-norms) or ``DIVERGENCE`` (generalized KL).
    q : float
        Exponent conjugate to p.
    strength : float
    prior : (m,) or (1,) array
        Of the divergence; empty for the others.
    """

    kind: int
    q: float
    strength: float
    prior: np.ndarray


@fast
def respond(law: Law, s: np.ndarray, d: np.ndarray, diagonal: np.ndarray) -> float:
    """Write the weights d of the forms s and the diagonal of their derivative; return the factor of
    ``d d'`` in it.
    """
    if law.kind == DIVERGENCE:
        half = 0.5 / law.strength
        for k in range(s.size):
            d[k] = law.prior[min(k, law.prior.size - 1)] * np.exp(
                min(half * s[k], LARGEST_EXPONENT)
            )
            diagonal[k] = half * d[k]
        return 0.0
    q, largest = law.q, 0.0
    for k in range(s.size):
        largest = max(largest, s[k])
    # with r = s / max(s), |s|_q = max(s) total^(1/q) and one power per kernel gives everything
    scale = 1.0 / largest if largest > 0.0 else 0.0
    total = 0.0
    for k in range(s.size):
        r = s[k] * scale if largest > 0.0 else 1.0
        d[k] = r ** (q - 1.0)
        total += d[k] * r
        diagonal[k] = d[k] / r if r > SMALLEST_FORM else SMALLEST_FORM ** (q - 2.0)
    norm = largest * total ** (1.0 / q)
    shape, slope = total ** (-(q - 1.0) / q), total ** (-(q - 2.0) / q)
    safe = max(norm, 1e-300)
    size = 1.0 if law.kind == BALL else 0.5 * norm / law.strength
    steep = (q - 1.0) / safe if law.kind == BALL else 0.5 * (q - 1.0) / law.strength
    for k in range(s.size):
        d[k] *= size * shape
        diagonal[k] *= steep * slope
    return (
        -(q - 1.0) / safe if law.kind == BALL else -2.0 * law.strength * (q - 2.0) / (safe * safe)
    )
