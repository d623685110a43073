"""The laws of a combination."""

import numpy as np

from ..combinations import Combination
from .laws import NOISE, NUMERIC, ROUNDING, STEP, agree, semidefinite, vector


def check_combination(combination: Combination, X=None, seed: int = 0) -> None:
    """Check that a combination is a kernel for every weight, and that its gradient is that of its
    `gram`.

    Parameters
    ----------
    combination : Combination
    X : (n, d) array, optional
        Points to try it on; a dozen random ones by default.
    seed : int
        Of the random points, weights and coefficients.

    Raises
    ------
    AssertionError
        Which says what is wrong, by how much, and in which entry it is worst.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((12, 4)) if X is None else np.asarray(X, dtype=float)
    fitted = combination.fit(X)
    for scale in (0.1, 1.0):
        weights = scale * (0.1 + rng.random(fitted.m))
        _check_gram(fitted, weights)
        _check_gradient(fitted, weights, rng)


def _check_gram(fitted, weights):
    X, n = fitted.X, len(fitted.X)
    K = semidefinite("gram", fitted.gram(weights, X, X), n)
    rows, cols = np.arange(n)[::2], np.arange(n)[1:]
    agree(
        "gram of some points",
        np.asarray(fitted.gram(weights, X[rows], X[cols])),
        K[np.ix_(rows, cols)],
        ROUNDING,
        "the whole",
    )
    agree(
        "diagonal",
        vector("diagonal", fitted.diagonal(weights, X), n),
        np.diagonal(K),
        ROUNDING,
        "gram",
    )


def _check_gradient(fitted, weights, rng):
    beta = rng.standard_normal((2, len(fitted.X)))
    gradient = vector("gradient(weights, beta)", fitted.gradient(weights, beta), fitted.m)

    def form(d):
        return float(np.sum((beta @ np.asarray(fitted.gram(d, fitted.X, fitted.X))) * beta))

    steps = STEP * np.diag(weights)
    numeric = np.array(
        [(form(weights + step) - form(weights - step)) / (2.0 * step.max()) for step in steps]
    )
    size = (
        float(np.sum(np.abs(beta)) ** 2)
        * np.abs(np.asarray(fitted.gram(weights, fitted.X, fitted.X))).max()
    )
    noise = NOISE * size / (STEP * weights.min())
    agree(
        "gradient(weights, beta)",
        gradient,
        numeric,
        NUMERIC,
        "finite differences of beta' gram beta",
        noise,
    )
