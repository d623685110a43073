"""The laws of a kernel."""

import copy

import numpy as np

from ..combinations import Combination
from ..kernels import Kernel
from .laws import NOISE, NUMERIC, ROUNDING, STEP, agree, require, semidefinite, vector


def check_kernel(kernel: Kernel, X=None, seed: int = 0) -> None:
    """Check that a kernel is one: symmetric, positive semidefinite, and the same whoever asks.

    Parameters
    ----------
    kernel : Kernel
    X : array, optional
        Points to try it on, with the columns that the kernel sees; a dozen random ones of four
        numbers by default. A kernel of strings needs some.
    seed : int
        Of the random points.

    Raises
    ------
    AssertionError
        Which says what is wrong, by how much, and in which entry it is worst.
    """
    if X is None:
        X = np.random.default_rng(seed).standard_normal((12, 4))
    n = X.shape[0]
    resolved = kernel.resolved(X, np.ones(n))
    require(isinstance(resolved, Kernel), f"resolved(A, sample_weight) gave {resolved!r}.")
    K = semidefinite("block", resolved.block(X, X), n)
    _check_parts(resolved, X, K)
    _check_value(kernel, resolved, X, K)


def _check_parts(kernel, X, K):
    """Blocks of some points are parts of the whole, and so is the diagonal."""
    n = len(K)
    rows, cols = np.arange(n)[::2], np.arange(n)[1:]
    part = np.asarray(kernel.block(X[rows], X[cols]), dtype=float)
    agree("block of some points", part, K[np.ix_(rows, cols)], ROUNDING, "the whole")
    diagonal = vector("diagonal", kernel.diagonal(X), n, "point")
    agree("diagonal", diagonal, np.diagonal(K), ROUNDING, "block")
    if kernel.unit_diagonal:
        agree("diagonal, which unit_diagonal says is one,", diagonal, np.ones(n), ROUNDING)


def _check_value(kernel, resolved, X, K):
    """A kernel is a value: copies agree, a resolved one stays what it is, and it has a name."""
    again = np.asarray(copy.deepcopy(resolved).block(X, X), dtype=float)
    agree("block of a copy", again, K, ROUNDING, "the original's")
    if not resolved.needs_data:
        twice = np.asarray(resolved.resolved(X, np.ones(len(K))).block(X, X), dtype=float)
        agree("block of a kernel that was resolved twice", twice, K, ROUNDING, "resolved once")
    name = kernel.name()
    require(isinstance(name, str) and bool(name), f"name() should be a text, but is {name!r}.")


# --- the laws of a combination --------------------------------------------------------------------


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
    part, out = slice(1, n - 1), np.empty((n - 2, n))
    fitted.filler(weights, X, X)(part, out)
    agree("filler", out, K[part], ROUNDING, "gram")


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
    some = np.arange(fitted.m)[::2]
    partial = vector("partial_gradient", fitted.partial_gradient(weights, beta, some), some.size)
    agree("partial_gradient", partial, gradient[some], ROUNDING, "gradient")
