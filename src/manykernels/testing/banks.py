"""The laws of a bank of kernels in a sum."""

import numpy as np

from ..banks.base import SumBank
from ..regularizers import Curvature
from .laws import agree, require

FLOAT64, FLOAT32 = 1e-8, 1e-4  # relative error of sums over kernels of either precision


def check_bank(bank: SumBank, seed: int = 0) -> None:
    """Check that every way to ask a bank gives what its Gram matrices give.

    Parameters
    ----------
    bank : SumBank
        Of training points, some dozens: all Gram matrices are held.
    seed : int
        Of the random weights and coefficients.

    Raises
    ------
    AssertionError
        Which says what is wrong, by how much, and in which entry it is worst.
    """
    rng = np.random.default_rng(seed)
    grams = np.asarray(bank.columns(np.arange(bank.n)), dtype=float)
    require(
        grams.shape == (bank.m, bank.n, bank.n),
        f"columns of all points have shape {grams.shape}, not ({bank.m}, {bank.n}, {bank.n}).",
    )
    require(len(bank.names) == bank.m, f"there are {len(bank.names)} names of {bank.m} kernels.")
    require(len(bank.groups) == bank.m, f"there are {len(bank.groups)} groups of {bank.m} kernels.")
    tol = FLOAT64 if bank.dtype == np.float64 else FLOAT32
    weights, beta = rng.random(bank.m), rng.standard_normal((2, bank.n))
    _check_weighted(bank, grams, weights, beta, tol)
    _check_sums(bank, grams, beta, rng.standard_normal(beta.shape), tol)
    _check_sweep(bank, grams, weights, beta, tol)
    _check_rows(bank, grams, tol)
    _check_parts(bank, grams, rng, tol)


def _check_weighted(bank, grams, weights, beta, tol):
    K, rows = np.tensordot(weights, grams, 1), np.arange(bank.n)[::3]
    _same("combine(weights)", bank.combine(weights), K, tol)
    _same("combine(weights, rows)", bank.combine(weights, rows), K[rows], tol)
    _same("combined_diagonal(weights)", bank.combined_diagonal(weights), np.diagonal(K), tol)
    _same("decision(weights, beta)", bank.decision(weights, beta), beta @ K, tol)
    _same("decision(weights, beta[0])", bank.decision(weights, beta[0]), beta[0] @ K, tol)


def _check_sums(bank, grams, beta, change, tol):
    products = np.stack([grams @ b for b in beta], axis=1)
    _same("products(beta)", bank.products(beta), products, tol)
    _same("products(beta[0])", bank.products(beta[0]), products[:, 0], tol)
    forms = np.einsum("ktn,tn->k", products, beta)
    # of a single kernel nothing but the terms says how much rounding there may be
    terms = np.stack([np.abs(grams) @ np.abs(b) for b in beta], axis=1)
    size = np.einsum("ktn,tn->k", terms, np.abs(change)).max() / 100
    _same("quadratic_forms(beta)", bank.quadratic_forms(beta), forms, tol, size)
    slope, curve = bank.directional_forms(beta, change)
    moved = np.stack([grams @ b for b in change], axis=1)
    _same("the slope along a change", slope, np.einsum("ktn,tn->k", products, change), tol, size)
    _same("the curve along a change", curve, np.einsum("ktn,tn->k", moved, change), tol, size)


def _check_sweep(bank, grams, weights, beta, tol):
    J = Curvature(weights, -0.1, weights[::-1].copy())
    sums, M = bank.newton_sums(weights, beta, J), np.stack([grams @ b for b in beta], axis=1)
    _same("the kernel of a sweep", sums.K, np.tensordot(weights, grams, 1), tol)
    squares = np.einsum("k,kci,kej->ceij", J.diagonal, M, M)
    _same("the squares of a sweep", sums.squares, squares, tol)
    _same("the mixed sums of a sweep", sums.mixed, np.einsum("k,kcn->cn", J.vector, M), tol)


def _check_rows(bank, grams, tol):
    chosen, points = np.arange(bank.n)[::4], np.arange(bank.n)[1::2]
    rows = np.moveaxis(grams[:, chosen][:, :, points], 1, 0)
    size = np.abs(grams).max(initial=0.0)  # a few rows may be all but zero
    _same("kernel_rows(chosen, points)", bank.kernel_rows(chosen, points), rows, tol, size)
    diagonal = np.diagonal(grams, axis1=1, axis2=2)
    _same("diagonal()", bank.diagonal(), diagonal, tol)
    _same("traces()", bank.traces(), diagonal.sum(axis=1), tol)


def _check_parts(bank, grams, rng, tol):
    """The bank of some kernels or some points, and the finer one, where there are such."""
    kernels = np.sort(rng.permutation(bank.m)[: -(-bank.m // 2)])
    everything = np.arange(bank.n)
    some = bank.take_kernels(kernels, 2.0)
    if some is not None:
        require(some.m == kernels.size, f"take_kernels of {kernels.size} kernels has {some.m}.")
        _same("take_kernels(kernels, 2)", some.columns(everything), 2.0 * grams[kernels], tol)
    points = everything[::2]
    few = bank.take_points(points)
    if few is not None:
        inside = grams[np.ix_(np.arange(bank.m), points, points)]
        _same("take_points(points)", few.columns(np.arange(points.size)), inside, tol)
    finer = bank.refined()
    if finer is not None:
        require(finer.dtype == np.float64, f"refined() has {finer.dtype}, not float64.")
        _same("refined()", finer.columns(everything), grams, FLOAT32)


def _same(what, given, expected, tol, size=0.0):
    """Entries to a part of the largest, or of a size: sums over many pairs lose digits where they
    cancel.
    """
    given = np.asarray(given, dtype=float)
    require(
        given.shape == expected.shape,
        f"{what} has shape {given.shape}, but should have {expected.shape}.",
    )
    noise = tol * np.abs(expected).max(initial=size)
    agree(what, given, expected, tol, "the Gram matrices", noise)
