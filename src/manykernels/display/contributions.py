"""How much of the decision each kernel makes."""

import numpy as np

from ..banks import Bank

LISTED = 10_000  # kernels that a table of all is made for


def contributions(estimator):
    """Share of every kernel in the squared length of the decision function, (m,); None where it cannot be had.

    ``sum_c d_kc beta_c' K_k beta_c`` over the same sum for all kernels: the part of ``|f|^2`` in the space of kernel k.
    It cannot be had for combinations that are not sums, nor without the training points or the factors.
    """
    weights = np.atleast_2d(estimator.kernel_weights_)
    if weights.shape[1] <= LISTED:
        parts = _from_frame(estimator, weights.mean(axis=0))
        if parts is not None:
            return _shares(parts)
    if getattr(estimator, "_coefficients", None) is not None:
        return _shares(_from_factors(estimator, weights))
    result, bank = getattr(estimator, "result_", None), estimator.bank_
    if result is None or not isinstance(bank, Bank) or not (bank.linear and bank.symmetric):
        return None
    if result.beta.shape[1] != bank.n:  # only some of the points were kept
        return None
    return _shares(_from_forms(bank, weights, result.beta))


def _from_frame(estimator, weights):
    """The column of the estimator's own table, if it has one, in the order of the kernels."""
    try:
        frame = estimator.weights_frame()
    except ImportError:
        return None
    frame = frame.sort_index()  # heaviest first otherwise
    if "contribution" not in frame or not np.allclose(frame["weight"], weights):
        return None
    return frame["contribution"].to_numpy(float)


def _from_factors(estimator, weights):
    """``|c_k|^2 / d_k`` with the coefficients ``c_k = d_k V_k' beta`` of a low-rank model."""
    offsets, squares = estimator.bank_.offsets, np.square(estimator._coefficients)
    lengths = np.add.reduceat(np.pad(squares, ((0, 0), (0, 1))), offsets[:-1], axis=1)
    lengths[:, np.diff(offsets) == 0] = 0.0  # reduceat gives an empty kernel its neighbour's first entry
    weights = np.broadcast_to(weights, lengths.shape)
    return np.divide(lengths, weights, out=np.zeros_like(lengths), where=weights > 0).sum(axis=0)


def _from_forms(bank, weights, beta):
    """``d_k beta' K_k beta`` from the bank, of the kernels that have weight if it can be cut down to them."""
    used = np.flatnonzero(weights.any(axis=0))
    parts = np.zeros(bank.m)
    if used.size == 0:
        return parts
    if hasattr(bank, "select") and used.size < bank.m:
        parts[used] = _forms(bank.select(used), weights[:, used], beta)
        return parts
    return _forms(bank, weights, beta)


def _forms(bank, weights, beta):
    if len(weights) == 1:
        return weights[0] * bank.quad(beta)
    return sum(w * bank.quad(b) for w, b in zip(weights, beta, strict=True))


def _shares(parts):
    parts = np.maximum(parts, 0.0)  # rounding
    total = parts.sum()
    return parts / total if total > 0 else parts
