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
        Error of the distance between two split points, relative to the largest norm: roundings of
        at most 2^-22 in each feature, along one line. A larger one would refuse more points.
    sum_error : float
        Error of its square besides, relative to the largest squared norm, for each `split_depth`
        features: a GPU cuts off the digits of sums that do not fit, where others round them.
    value_error : float
        Largest error of a kernel's value, as for float32 on the host. With a larger one more
        kernels are computed of split points.
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
    sum_error: float = 2.0**-29
    value_error: float = 1e-4


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


# Units of the grid in the largest norm, at least: so sums of products of whole numbers are below
# 2^24, and float32 rounds none of them.
GRID = 512.0


class Split(NamedTuple):
    """Points in two parts of float16, ``point = unit (high + low)``: whole numbers and what is
    left, at most a half, (2, n, features) with zeros behind the features.

    Squared distances are products of matrices. A GPU multiplies such numbers many times as fast as
    those of 24 digits, and sums of products of whole numbers are exact. So near points do not lose
    their distance: kernels are those of points that are moved a little, by at most 2^-22 of the
    largest norm in each feature. Products in float64 are as exact, but their
    distances must be written down and read again.

    Attributes
    ----------
    parts : (2, n, features) float16 tensor
    norms : (2, n) float32 tensor
        Squared norms: of the whole numbers, and the rest.
    unit : float
        A power of two, the same for points whose distances are asked for.
    """

    parts: Any
    norms: Any
    unit: float

    @classmethod
    def of(cls, torch: Any, points: Any, unit: float) -> "Split":
        """From float64 points."""
        n, d = points.shape
        depth = -(-d // SIZES.split_depth) * SIZES.split_depth
        parts = torch.zeros((2, n, depth), dtype=torch.float16, device=points.device)
        scaled = points / unit
        parts[0, :, :d] = scaled.round()
        parts[1, :, :d] = scaled - parts[0, :, :d].double()
        high, low = (part.double() for part in parts)
        norms = torch.stack([high.square().sum(dim=1), ((2.0 * high + low) * low).sum(dim=1)])
        return cls(parts, norms.float(), unit)

    def chosen(self, rows: Any) -> "Split":
        """Those of some rows."""
        return Split(self.parts[:, rows], self.norms[:, rows].contiguous(), self.unit)


def unit_of(points: tuple) -> float:
    """The unit of split points."""
    norm = float(np.sqrt(_largest(points)))
    return 2.0 ** np.ceil(np.log2(norm / (2.0 * GRID))) if norm > 0.0 else 1.0


def _largest(points: tuple) -> float:
    """The largest squared norm."""
    return max(float(part.square().sum(dim=1).max()) for part in points)


def error_of_values(points: tuple, gamma: float) -> float:
    """About the largest error of a kernel's values: they change by at most ``sqrt(gamma)`` times
    the change of a distance, and ``gamma`` times that of its square.
    """
    narrow, blocks = _largest(points) * gamma, -(-points[0].shape[1] // SIZES.split_depth)
    return float(np.sqrt(narrow) * SIZES.split_error + narrow * blocks * SIZES.sum_error)


def precise_enough(points: tuple, narrowest: float) -> bool:
    """True if the error in the values of the narrowest kernel is small, and a number."""
    return error_of_values(points, narrowest) <= SIZES.value_error


def combine_split(
    left: Split, right: Split, rates: Any, weights: Any, out: Any, add: bool = True
) -> None:
    """``out += sum_k weights[k] exp2(-rates[k] D)``, or ``=``, for squared distances D between
    split points; compiled only. Of the same points on both sides, and ``=``, half is computed.
    """
    (height, width), (count, n) = SIZES.split_tile, (left.parts.shape[1], right.parts.shape[1])
    blocks, rates = -(-count // height), rates * left.unit**2
    compiled_programs().combine_split[(blocks * -(-n // width),)](
        left.parts, right.parts, left.norms, right.norms, rates, weights, out, count, n, blocks,
        rates.numel(), *_depths(left, right), ADD=add, MIRRORED=left is right and not add,
        **_split_program(),
    )  # fmt: skip


def decide_split(left: Split, right: Split, rates: Any, weights: Any, coefficients: Any) -> Any:
    """``sum_k weights[k] exp2(-rates[k] D) coefficients[c]`` for every c, a float64 tensor
    (c, rows), for squared distances D between split points, of which none are written down;
    compiled only.
    """
    height, (count, n) = SIZES.split_tile[0], (left.parts.shape[1], right.parts.shape[1])
    columns = coefficients.to(left.norms.dtype).contiguous()
    out = columns.new_empty((len(columns), count), dtype=columns.double().dtype)
    rates = rates * left.unit**2
    compiled_programs().decide_split[(-(-count // height), len(columns))](
        left.parts, right.parts, left.norms, right.norms, rates, weights, columns, out, count, n,
        rates.numel(), *_depths(left, right), **_split_program(),
    )  # fmt: skip
    return out


def multiply_split(left: Split, right: Split, rates: Any, coefficients: Any) -> Any:
    """``exp2(-rates[k] D) coefficients[c]`` for every k and c, a float64 tensor (k, c, rows), for
    squared distances D between split points, of which none are written down; compiled only.
    """
    height, (count, n) = SIZES.split_tile[0], (left.parts.shape[1], right.parts.shape[1])
    columns, rates = coefficients.to(left.norms.dtype).contiguous(), rates * left.unit**2
    out = columns.new_empty((len(rates), len(columns), count), dtype=columns.double().dtype)
    for start in range(0, len(rates), SIZES.split_kernels):
        some = rates[start : start + SIZES.split_kernels].contiguous()
        compiled_programs().multiply_split[(-(-count // height), len(columns))](
            left.parts, right.parts, left.norms, right.norms, some, columns, out[start:], count, n,
            len(some), *_depths(left, right), KERNELS=SIZES.split_kernels, **_split_program(),
        )  # fmt: skip
    return out


def _depths(left: Split, right: Split) -> tuple[int, int, int]:
    """Features, and how far behind the first parts the second ones are."""
    return left.parts.shape[2], left.parts.stride(0), right.parts.stride(0)


def _split_program() -> dict[str, int]:
    """Options of the programs for split points."""
    (height, width), warps = SIZES.split_tile, SIZES.split_warps
    return {"BM": height, "BN": width, "BD": SIZES.split_depth, "num_warps": warps, "num_stages": 2}


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
