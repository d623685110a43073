"""Polynomials of a number per pair of points."""

from .rbf import fast


@fast
def write(rows, cols, coefficients, places, out):
    """``out[i, places[l], j] = sum_r coefficients[l, r] (rows[l, i] cols[l, j])^r``.

    Rows (l, b) and cols (l, c) are of the polynomials' own features; out is (b, kernels, c).
    """
    for i in range(out.shape[0]):
        for l in range(places.size):  # noqa: E741
            line, x, y = out[i, places[l]], rows[l, i], cols[l]
            for j in range(line.size):
                line[j] = coefficients[l, -1]
            for r in range(coefficients.shape[1] - 2, -1, -1):
                c = coefficients[l, r]
                for j in range(line.size):
                    line[j] = line[j] * (x * y[j]) + c
