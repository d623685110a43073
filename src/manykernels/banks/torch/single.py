"""Sums of Gaussians of single features, ``exp2(-rate_k (x_f - y_f)^2)`` with ``f = slot_k``, any
number of them at once.

On a GPU each is one compiled kernel (Triton) whose programs go through all features, so that three
thousand kernels of 241 features are a few launches; elsewhere tables of some kernels at a time.
"""

from typing import Any, NamedTuple

import numpy as np

ENTRIES = 2**24  # of a table
TILE = (32, 64)  # rows and columns of a program


class Rates(NamedTuple):
    """Some kernels, those of the same feature side by side; all tensors.

    Attributes
    ----------
    slot : (m,) long
        Row of the points that a kernel sees.
    rate : (m,)
    rows, starts : (features,) and (features + 1,) int32
        Rows that are seen by some kernel, and where their kernels begin.
    """

    slot: Any
    rate: Any
    rows: Any
    starts: Any

    @classmethod
    def of(cls, device, slot, rate, dtype):
        """From arrays; the slots are in order."""
        rows, starts = np.unique(slot, return_index=True)
        return cls(
            device.indices(slot),
            device.put(rate, dtype),
            device.put(rows, np.int32),
            device.put(np.append(starts, len(slot)), np.int32),
        )


def combine(device, pairs, rates, weights, out, add=True):
    """``out += sum_k weights[k] K_k``, or ``=``, for pairs of (features, rows) and (features,
    columns) tensors.
    """
    if device.fused:
        from .programs import combine_single

        (left, right), (height, width) = pairs, TILE
        grid = (-(-right.shape[1] // width), -(-left.shape[1] // height))
        combine_single[grid](
            left, right, rates.rows, rates.starts, rates.rate, weights, out, left.shape[1],
            right.shape[1], len(rates.rows), ADD=add, BM=height, BN=width,
        )  # fmt: skip
        return
    if not add:
        out.zero_()
    for part, table in _tables(device, pairs, rates):
        out += device.torch.tensordot(weights[part], table, 1)


def products(device, pairs, rates, coefficients):
    """``K_k coefficients`` for coefficients (columns, t), (m, rows, t)."""
    torch, (left, right) = device.torch, pairs
    shape = len(rates.rate), left.shape[1], coefficients.shape[1]
    out = torch.empty(shape, dtype=coefficients.dtype, device=coefficients.device)
    if device.fused:
        from .programs import multiply_single

        (height, width), outputs = TILE, coefficients.T.contiguous()
        grid = (shape[0], -(-shape[1] // height), shape[2])
        multiply_single[grid](
            left, right, rates.slot, rates.rate, outputs, out, shape[1], right.shape[1], shape[2],
            BM=height, BN=width,
        )  # fmt: skip
        return out
    for part, table in _tables(device, pairs, rates):
        out[part] = table @ coefficients
    return out


def _tables(device, pairs, rates):
    """Slices of the kernels, and their values."""
    (left, right), count = pairs, len(rates.rate)
    step = max(1, ENTRIES // max(left.shape[1] * right.shape[1], 1))
    for start in range(0, count, step):
        part = slice(start, min(start + step, count))
        slot = rates.slot[part]
        difference = left[slot][:, :, None] - right[slot][:, None, :]
        yield part, device.torch.exp2(difference.square_().mul_(-rates.rate[part, None, None]))
