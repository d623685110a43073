"""Products with a tall matrix of factors: entries of either precision, sums in float64.

At a large cost the coefficients are large and nearly cancel: sums in float32 would leave nothing of
the decision values.
"""

from .rbf import fast


@fast
def _add(weight, row, out):
    for j in range(row.size):
        out[j] += weight * row[j]


@fast
def _dot(coefficients, row):
    total = 0.0
    for j in range(row.size):
        total += coefficients[j] * row[j]
    return total


@fast
def correlate(factors, beta, out):
    """``out[c] += factors' beta[c]``; rows where all beta are zero are not read."""
    for i in range(factors.shape[0]):
        for c in range(beta.shape[0]):
            if beta[c, i] != 0.0:
                _add(beta[c, i], factors[i], out[c])


@fast
def dot(factors, coefficients, out):
    """``out[c] = factors coefficients[c]``."""
    for i in range(factors.shape[0]):
        for c in range(coefficients.shape[0]):
            out[c, i] = _dot(coefficients[c], factors[i])
