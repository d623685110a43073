"""Kernels that say nothing about other points.

A Gaussian that is too narrow is the identity matrix: every point is like itself alone. With weight
it makes the fit of the training rows smoother, as a ridge does, and it is zero at any new point. A
constant kernel is a second intercept. The optimum may well give them weight; whoever asks which
kernels matter must hear that these do not.
"""

import numpy as np

from ...banks import MissingBank
from ...banks.divided import DividedBank, KernelFactors

SAMPLE = 8  # points that are compared with all
MOST = 2**20  # values in a row of all kernels
ALONE = 0.1  # norm of a row of similarities, without the one to itself, below which it is alone
SAME = 1e-6  # relative difference of values that are taken to be equal


def remarks(silent, m):
    """A word for every one of m kernels, empty for most."""
    words = np.full(m, "", dtype=object)
    for kind, kernels in silent.items():
        words[kernels] = kind
    return words


def silent_mask(silent, m):
    """Which of m kernels are among the silent ones, (m,) bool; none where nobody looked."""
    mask = np.zeros(m, dtype=bool)
    for kernels in (silent or {}).values():
        mask[kernels] = True
    return mask


def silent_kernels(bank):
    """Numbers of the kernels of a bank of training points that are nearly the ``"identity"``, and
    of those that are ``"constant"``, as a dict; None where looking would take long, or the kernels
    are no sum.

    A kernel is nearly the identity if the similarities ``K_ij / sqrt(K_ii K_jj)`` of a typical
    point to all others have a norm below 0.1.
    """
    if not bank.is_sum or bank.n < 2 or bank.m * bank.n > MOST:
        return None
    if isinstance(bank, MissingBank | DividedBank):
        return _of_parts(bank.parts)
    if isinstance(bank, KernelFactors):
        return _of_factors(bank)
    chosen = np.unique(np.linspace(0, bank.n - 1, SAMPLE + 2).astype(int)[1:-1])
    diagonal, everything = np.asarray(bank.diagonal(), dtype=float), np.arange(bank.n)
    sizes = np.sqrt(np.maximum(diagonal, np.finfo(float).tiny))
    low, high, lengths = np.inf, -np.inf, []
    for point, row in zip(chosen, bank.kernel_rows(chosen, everything), strict=True):  # (m, n)
        row = row.astype(float)
        low, high = np.minimum(low, row.min(axis=1)), np.maximum(high, row.max(axis=1))
        row /= sizes
        row[:, point] = 0.0
        norms = np.linalg.norm(row, axis=1) / sizes[:, point]
        # a point at the origin is like none, itself included: no sign of an identity
        lengths.append(np.where(diagonal[:, point] > 0.0, norms, np.inf))
    largest = diagonal.max(axis=1)
    # the diagonal is of all points, also of those that were not chosen
    low, high = np.minimum(low, diagonal.min(axis=1)), np.maximum(high, largest)
    constant = (largest > 0.0) & (high - low <= SAME * largest)
    alone = (largest > 0.0) & (np.median(lengths, axis=0) < ALONE)
    return {
        "identity": np.flatnonzero(alone & ~constant),
        "constant": np.flatnonzero(constant),
    }


def _of_factors(bank):
    """The same of kernels with factors V of few columns: none is like the identity, whose rank is
    the number of points. Rows ``c + e_i`` around their mean c make the entries ``c'c + c'e_i +
    c'e_j + e_i'e_j``, which are equal if neither ``V c`` nor the rows vary.
    """
    widths, empty = np.diff(bank.offsets), np.empty(0, dtype=int)
    chosen = np.linspace(0, bank.n - 1, SAMPLE).astype(int)
    V, own = bank.factors[chosen].astype(float), bank.offsets[:-1]
    entries = np.add.reduceat(V[:, None] * V, own, axis=2)
    low, high = entries.min(axis=(0, 1)), entries.max(axis=(0, 1))
    # entries of equal kernels, by what follows, are within twice the bound: most kernels end here
    same = np.flatnonzero(high - low <= 4.0 * SAME * high)
    if same.size:
        V = bank.factors[:, np.isin(np.repeat(np.arange(bank.m), widths), same)]
        own = np.concatenate([[0], np.cumsum(widths[same])[:-1]])
        mean = np.add.reduceat(V * V.mean(axis=0, dtype=float), own, axis=1)
        apart = np.add.reduceat(np.ptp(V, axis=0).astype(float) ** 2, own)
        largest = np.add.reduceat(V.astype(float) ** 2, own, axis=1).max(axis=0)
        same = same[(largest > 0.0) & (np.ptp(mean, axis=0) + 0.5 * apart <= SAME * largest)]
    return {"identity": empty, "constant": same}


def _of_parts(parts):
    """The same of banks with some of the kernels each; among the points that have them, since
    those that lack them say nothing.
    """
    found = [(part.kernels, silent_kernels(part.bank)) for part in parts]
    if any(silent is None for _, silent in found):
        return None
    return {
        kind: np.sort(np.concatenate([kernels[silent[kind]] for kernels, silent in found]))
        for kind in ("identity", "constant")
    }


def silent_words(silent, shares, names):
    """A sentence on silent kernels that have weight; empty if none has."""
    lines = []
    for kind, kernels, means in (
        ("nearly the identity", silent["identity"], "only regularize and are zero at new points"),
        ("constant", silent["constant"], "only shift the intercept"),
    ):
        used = [k for k in kernels if shares[k] > 0.0]
        if used:
            used.sort(key=lambda k: -shares[k])
            named = ", ".join(names[k] for k in used[:3]) + (", …" if len(used) > 3 else "")
            count = f"{len(used)} kernel{'s are' if len(used) > 1 else ' is'}"
            share = sum(shares[k] for k in used)
            lines.append(
                f"{count} {kind} on the training rows ({named}) and hold"
                f"{'' if len(used) > 1 else 's'} {share:.0%} of the weight: such kernels {means}."
            )
    return " ".join(lines)
