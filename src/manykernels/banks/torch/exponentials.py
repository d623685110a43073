"""Sums of exponentials of pairwise numbers, for many kernels at once, without holding a matrix of
each.

There are three kinds: ``exp(-gamma_k D)`` of a matrix D that is given; Gaussians of many features,
whose distances are computed on the way (`Split`); and Gaussians of single features (`Rates`). On a
GPU each is one compiled program (`programs`), elsewhere plain operations of PyTorch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from .device import Device, compiled_programs

LOG2_E = float(1.0 / np.log(2.0))


@dataclass(frozen=True)
class Sizes:
    """Numbers of the programs; those of tiles were the fastest that were tried.

    Attributes
    ----------
    sum_block, form_block : int
        Entries of a matrix that a program visits. With more of them there are fewer programs, and
        of forms fewer parts to add up.
    table_entries : int
        Entries of a table of some kernels on a device without compiled programs; larger ones take
        more memory.
    feature_tile, split_tile : (rows, columns)
        Of a program for single features, and for many. Larger ones read points less often and
        leave fewer programs to share out.
    split_depth : int
        Features that a program takes at a time; points are filled up with zeros to a multiple.
    split_warps : int
        Groups of threads of a program; more of them have fewer registers each.
    split_kernels : int
        Kernels whose products a program adds up; more of them take more registers.
    split_error : float
        Error of a squared distance of split points, relative to the largest squared norm: two
        numbers of 22 digits each, and sums of float32. A larger one would refuse more points.
    exponent_error : float
        Largest error in an exponent, as for float32 on the host. With a larger one more kernels are
        computed of split points.
    """

    sum_block: int = 1024
    form_block: int = 4096
    table_entries: int = 2**24
    feature_tile: tuple[int, int] = (32, 64)
    split_tile: tuple[int, int] = (128, 64)
    split_depth: int = 32
    split_warps: int = 4
    split_kernels: int = 8
    split_error: float = 2.0**-21
    exponent_error: float = 1e-4


SIZES = Sizes()


def combine(device: Device, D: Any, gammas: Any, weights: Any, out: Any, add: bool = True) -> None:
    """``out += sum_k weights[k] exp(-gammas[k] D)``, or ``=``; contiguous tensors of one type, but
    for D, which may be finer.
    """
    if device.fused:
        size, block = D.numel(), SIZES.sum_block
        compiled_programs().combine_exponentials[(-(-size // block),)](
            D, gammas * LOG2_E, weights, out, size, gammas.numel(), ADD=add, BLOCK=block
        )
        return
    D = D.to(out.dtype)
    if not add:
        out.zero_()
    for gamma, weight in zip(gammas.tolist(), weights.tolist(), strict=True):
        out.add_(device.torch.exp(-gamma * D), alpha=weight)


def forms(device: Device, D: Any, B: Any, gammas: Any) -> Any:
    """``sum_ij B_ij exp(-gammas[k] D_ij)`` for every k, in float64."""
    torch = device.torch
    if device.fused:
        size, block = D.numel(), SIZES.form_block
        count = -(-size // block)
        parts = torch.empty((gammas.numel(), count), dtype=B.dtype, device=D.device)
        compiled_programs().forms_of_exponentials[(count,)](
            D, B, gammas * LOG2_E, parts, size, gammas.numel(), count, BLOCK=block
        )
        return parts.sum(dim=1, dtype=torch.float64)
    D = D.to(B.dtype)
    values = [
        (torch.exp(-gamma * D) * B).sum(dim=1).sum(dtype=torch.float64) for gamma in gammas.tolist()
    ]
    return torch.stack(values)


# --- Gaussians of many features ------------------------------------------------------------------


class Split(NamedTuple):
    """Points in two parts, (2, n, features) with zeros behind the features, and squared norms.

    Squared distances are products of matrices whose numbers are split in two, ``x = high + low``
    with eleven binary digits each, since a GPU multiplies such numbers many times as fast as those
    of 24. A dot product is ``high high + high low + low high``: what is left out is of the size of
    float32's own rounding. Products in float64 are as fast on some GPUs, but their distances must
    be written down and read again.
    """

    parts: Any
    norms: Any

    @classmethod
    def of(cls, torch: Any, points: Any) -> "Split":
        """From float64 points."""
        n, d = points.shape
        parts = torch.zeros(
            (2, n, -(-d // SIZES.split_depth) * SIZES.split_depth),
            dtype=torch.float32,
            device=points.device,
        )
        parts[0, :, :d] = _rounded(torch, points.float())
        parts[1, :, :d] = _rounded(torch, (points - parts[0, :, :d].double()).float())
        return cls(parts, points.square().sum(dim=1).float())

    def chosen(self, rows: Any) -> "Split":
        """Those of some rows."""
        return Split(self.parts[:, rows], self.norms[rows])


def precise_enough(points: tuple, narrowest: float) -> bool:
    """True if the error in the exponents of the narrowest kernel is small."""
    largest = max(float(part.square().sum(dim=1).max()) for part in points)
    return (
        bool(np.isfinite(largest))
        and largest * narrowest * SIZES.split_error <= SIZES.exponent_error
    )


def combine_split(
    left: Split, right: Split, rates: Any, weights: Any, out: Any, add: bool = True
) -> None:
    """``out += sum_k weights[k] exp2(-rates[k] D)``, or ``=``, for squared distances D between
    split points; compiled only.
    """
    (height, width), (count, n) = SIZES.split_tile, (len(left.norms), len(right.norms))
    blocks = -(-count // height)
    compiled_programs().combine_split[(blocks * -(-n // width),)](
        left.parts, right.parts, left.norms, right.norms, rates, weights, out, count, n, blocks,
        rates.numel(), left.parts.shape[2], left.parts.stride(0), right.parts.stride(0), ADD=add,
        BM=height, BN=width, BD=SIZES.split_depth, num_warps=SIZES.split_warps, num_stages=2,
    )  # fmt: skip


def multiply_split(left: Split, right: Split, rates: Any, coefficients: Any) -> Any:
    """``exp2(-rates[k] D) coefficients[c]`` for every k and c, a float64 tensor (k, c, rows), for
    squared distances D between split points, of which none are written down; compiled only.
    """
    (height, width), (count, n) = SIZES.split_tile, (len(left.norms), len(right.norms))
    columns = coefficients.to(left.norms.dtype).contiguous()
    out = columns.new_empty((len(rates), len(columns), count), dtype=columns.double().dtype)
    for start in range(0, len(rates), SIZES.split_kernels):
        some = rates[start : start + SIZES.split_kernels].contiguous()
        compiled_programs().multiply_split[(-(-count // height), len(columns))](
            left.parts, right.parts, left.norms, right.norms, some, columns, out[start:], count, n,
            len(some), left.parts.shape[2], left.parts.stride(0), right.parts.stride(0),
            KERNELS=SIZES.split_kernels, BM=height, BN=width, BD=SIZES.split_depth,
            num_warps=SIZES.split_warps, num_stages=2,
        )  # fmt: skip
    return out


def _rounded(torch: Any, numbers: Any) -> Any:
    """To eleven binary digits."""
    return ((numbers.view(torch.int32) + 4096) & -8192).view(torch.float32)


# --- Gaussians of single features ----------------------------------------------------------------


class Rates(NamedTuple):
    """Gaussians of single features, ``exp2(-rate_k (x_f - y_f)^2)`` with ``f = slot_k``, those of
    the same feature side by side; all tensors.

    A program goes through all features, so that three thousand kernels of 241 features are a few
    launches.

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
    def of(cls, device: Device, slot: np.ndarray, rate: np.ndarray, dtype: DTypeLike) -> "Rates":
        """From arrays; the slots are in order."""
        rows, starts = np.unique(slot, return_index=True)
        return cls(
            device.indices(slot),
            device.put(rate, dtype),
            device.put(rows, np.int32),
            device.put(np.append(starts, len(slot)), np.int32),
        )


def combine_features(
    device: Device, pairs: tuple, rates: Rates, weights: Any, out: Any, add: bool = True
) -> None:
    """``out += sum_k weights[k] K_k``, or ``=``, for pairs of (features, rows) and (features,
    columns) tensors.
    """
    if device.fused:
        (left, right), (height, width) = pairs, SIZES.feature_tile
        grid = (-(-right.shape[1] // width), -(-left.shape[1] // height))
        compiled_programs().combine_single[grid](
            left, right, rates.rows, rates.starts, rates.rate, weights, out, left.shape[1],
            right.shape[1], len(rates.rows), ADD=add, BM=height, BN=width,
        )  # fmt: skip
        return
    if not add:
        out.zero_()
    for part, table in _tables(device, pairs, rates):
        out += device.torch.tensordot(weights[part], table, 1)


def multiply_features(device: Device, pairs: tuple, rates: Rates, coefficients: Any) -> Any:
    """``K_k coefficients`` for coefficients (columns, t), (m, rows, t)."""
    torch, (left, right) = device.torch, pairs
    shape = len(rates.rate), left.shape[1], coefficients.shape[1]
    out = torch.empty(shape, dtype=coefficients.dtype, device=coefficients.device)
    if device.fused:
        (height, width), outputs = SIZES.feature_tile, coefficients.T.contiguous()
        grid = (shape[0], -(-shape[1] // height), shape[2])
        compiled_programs().multiply_single[grid](
            left, right, rates.slot, rates.rate, outputs, out, shape[1], right.shape[1], shape[2],
            BM=height, BN=width,
        )  # fmt: skip
        return out
    for part, table in _tables(device, pairs, rates):
        out[part] = table @ coefficients
    return out


def _tables(device: Device, pairs: tuple, rates: Rates) -> Iterator[tuple[slice, Any]]:
    """Slices of the kernels, and their values."""
    (left, right), count = pairs, len(rates.rate)
    step = max(1, SIZES.table_entries // max(left.shape[1] * right.shape[1], 1))
    for start in range(0, count, step):
        part = slice(start, min(start + step, count))
        slot = rates.slot[part]
        difference = left[slot][:, :, None] - right[slot][:, None, :]
        yield part, device.torch.exp2(difference.square_().mul_(-rates.rate[part, None, None]))
