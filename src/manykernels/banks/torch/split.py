"""Sums of Gaussians of many features in one launch.

Squared distances are products of matrices whose numbers are split in two, ``x = high + low`` with
eleven binary digits each, since a GPU multiplies such numbers many times as fast as those of 24. A
dot product is ``high high + high low + low high``: what is left out is of the size of float32's own
rounding. Products in float64 are as fast on some GPUs, but their distances must be written down and
read again.
"""

from typing import Any, NamedTuple

import numpy as np

DEPTH = 32  # features that a program takes at a time
TILE = (128, 64)
WARPS = 4
# of a squared distance, relative to the largest squared norm: two numbers of 22 digits each, and
# sums of float32
ERROR = 2.0**-21
LARGEST_ERROR = 1e-4  # in an exponent, as for float32 on the host


class Split(NamedTuple):
    """Points in two parts, (2, n, features) with zeros behind the features, and squared norms."""

    parts: Any
    norms: Any

    @classmethod
    def of(cls, torch, points):
        """From float64 points."""
        n, d = points.shape
        parts = torch.zeros(
            (2, n, -(-d // DEPTH) * DEPTH), dtype=torch.float32, device=points.device
        )
        parts[0, :, :d] = _rounded(torch, points.float())
        parts[1, :, :d] = _rounded(torch, (points - parts[0, :, :d].double()).float())
        return cls(parts, points.square().sum(dim=1).float())

    def chosen(self, rows):
        return Split(self.parts[:, rows], self.norms[rows])


def precise_enough(points, narrowest):
    """Whether the error in the exponents of the narrowest kernel is small."""
    largest = max(float(part.square().sum(dim=1).max()) for part in points)
    return bool(np.isfinite(largest)) and largest * narrowest * ERROR <= LARGEST_ERROR


def combine(left, right, rates, weights, out, add=True):
    """``out += sum_k weights[k] exp2(-rates[k] D)``, or ``=``, for squared distances D between
    split points; compiled only.
    """
    from .programs import combine_split

    (height, width), (count, n) = TILE, (len(left.norms), len(right.norms))
    blocks = -(-count // height)
    combine_split[(blocks * -(-n // width),)](
        left.parts, right.parts, left.norms, right.norms, rates, weights, out, count, n, blocks,
        rates.numel(), left.parts.shape[2], left.parts.stride(0), right.parts.stride(0), ADD=add,
        BM=height, BN=width, BD=DEPTH, num_warps=WARPS, num_stages=2,
    )  # fmt: skip


def _rounded(torch, numbers):
    """To eleven binary digits."""
    return ((numbers.view(torch.int32) + 4096) & -8192).view(torch.float32)
