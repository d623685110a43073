"""What checks compare with, and how they say what is wrong."""

import numpy as np

ROUNDING = 1e-9  # relative error that is put down to rounding
STEP = 1e-5  # relative step of finite differences
NUMERIC = 1e-6  # relative error of finite differences
NOISE = 1e-13  # relative error of a value or of weights; large exponents cost digits


def vector(what, x, m, of="kernel"):
    """x as an array, if it is a vector of m finite numbers."""
    x = np.asarray(x)
    require(
        x.shape == (m,),
        f"{what} should have shape ({m},), one entry per {of}, but has shape {x.shape}.",
    )
    finite = np.isfinite(x)
    worst = finite.argmin()
    require(finite[worst], f"{what} is not finite: entry {worst} is {x[worst]}.")
    return x


def semidefinite(what, K, n):
    """K as an array, if it is a symmetric and positive semidefinite (n, n) matrix."""
    K = np.asarray(K, dtype=float)
    require(
        K.shape == (n, n),
        f"{what} of {n} points with themselves should have shape ({n}, {n}), but has {K.shape}.",
    )
    require(np.isfinite(K).all(), f"{what} has entries that are not finite.")
    agree(what, K, K.T, ROUNDING, "its transpose")
    lowest = np.linalg.eigvalsh(0.5 * (K + K.T))[0]
    require(
        lowest >= -1e-9 * np.abs(K).max(),
        f"{what} is not positive semidefinite: its smallest eigenvalue is {lowest:.1e}.",
    )
    return K


def agree(what, x, expected, tol, source="what it should be", noise=0.0):
    """Every entry to a relative tol and the noise; entries below a thousandth of the largest count
    as that large.
    """
    if not np.size(expected):  # a single point has no others
        return
    error, size = np.maximum(np.abs(x - expected) - noise, 0.0), np.abs(expected)
    relative = error / np.maximum(
        np.maximum(size, 1e-3 * size.max(initial=0.0)), np.finfo(float).tiny
    )
    worst = np.unravel_index(relative.argmax(), relative.shape)
    entry = ", ".join(map(str, worst))
    require(
        relative[worst] <= tol,
        f"{what} disagrees with {source}; the worst is entry {entry}, {x[worst]:.8g} against "
        f"{expected[worst]:.8g}.",
    )


def require(condition, message):
    """What ``assert`` does, also where Python leaves assertions out."""
    if not condition:
        raise AssertionError(message)
