"""Sums of exponentials of a matrix of pairwise numbers, ``exp(-gamma_k D)`` for many gamma, without
holding them.

On a GPU each is one compiled kernel (Triton) that reads D once; elsewhere plain PyTorch operations,
one kernel at a time.
"""

from functools import cache

import numpy as np

LOG2_E = float(np.log2(np.e))
BLOCK = 4096  # entries that one program of a compiled kernel visits
# of a tile, and tiles that a program goes through: the fastest of 16 choices
KERNELS, COLUMNS, GROUP = 128, 256, 16


def combine(device, D, gammas, weights, out, add=True):
    """``out += sum_k weights[k] exp(-gammas[k] D)``, or ``=``; contiguous tensors of one type, but
    for D, which may be finer.
    """
    if device.fused:
        _compiled().combine[(-(-D.numel() // 1024),)](
            D, gammas * LOG2_E, weights, out, D.numel(), gammas.numel(), ADD=add, BLOCK=1024
        )
        return
    D = D.to(out.dtype)
    if not add:
        out.zero_()
    for gamma, weight in zip(gammas.tolist(), weights.tolist(), strict=True):
        out.add_(device.torch.exp(-gamma * D), alpha=weight)


def forms(device, D, B, gammas):
    """``sum_ij B_ij exp(-gammas[k] D_ij)`` for every k, in float64."""
    torch = device.torch
    if device.fused:
        count = -(-D.numel() // BLOCK)
        parts = torch.empty((gammas.numel(), count), dtype=B.dtype, device=D.device)
        _compiled().forms[(count,)](
            D, B, gammas * LOG2_E, parts, D.numel(), gammas.numel(), count, BLOCK=BLOCK
        )
        return parts.sum(dim=1, dtype=torch.float64)
    D = D.to(B.dtype)
    values = [
        (torch.exp(-gamma * D) * B).sum(dim=1).sum(dtype=torch.float64) for gamma in gammas.tolist()
    ]
    return torch.stack(values)


def multiply(device, points, factors, coefficients, weights, combined):
    """Products of Gaussians on feature subsets with coefficients, and their sum, without holding a
    table of them.

    With ``K_k,ij = exp2(-sum_f factors[k, f] (x_if - y_jf)^2)``, for compiled kernels only.

    Parameters
    ----------
    points : pair of tensors, (rows, d) and (n, d)
    factors : (m, d) tensor
    coefficients : (t, n) tensor
    weights : (m,) tensor
    combined : (rows, n) float64 tensor
        To it is added ``sum_k weights[k] K_k``.

    Returns
    -------
    (m, rows, t) tensor
        ``K_k coefficients``.
    """
    (left, right), (t, n), (m, d) = points, coefficients.shape, factors.shape
    out = device.torch.zeros((m, len(left), t), dtype=factors.dtype, device=factors.device)
    width = 1 << max(4, (d - 1).bit_length())
    groups = -(-m // (KERNELS * GROUP))
    grid = (len(left), groups, -(-n // COLUMNS))
    _compiled().multiply[grid](
        left, right, factors, coefficients, weights, out, combined, m, len(left), n, d,
        T=t, GROUP=GROUP, BM=KERNELS, BN=COLUMNS, BD=width, num_warps=8,
    )  # fmt: skip
    return out


@cache
def _compiled():
    """The compiled kernels, made when they are first needed."""
    from types import SimpleNamespace

    import triton
    import triton.language as tl

    @triton.jit
    def combine(D, gammas, weights, out, size, count, ADD: tl.constexpr, BLOCK: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        inside = at < size
        d = tl.load(D + at, mask=inside, other=0.0).to(out.dtype.element_ty)
        total = tl.load(out + at, mask=inside, other=0.0) if ADD else tl.zeros_like(d)
        for k in range(count):
            total += tl.load(weights + k) * tl.exp2(-tl.load(gammas + k) * d)
        tl.store(out + at, total, mask=inside)

    @triton.jit
    def forms(D, B, gammas, parts, size, count, programs, BLOCK: tl.constexpr):
        program = tl.program_id(0).to(tl.int64)
        at = program * BLOCK + tl.arange(0, BLOCK)
        inside = at < size
        b = tl.load(B + at, mask=inside, other=0.0)
        d = tl.load(D + at, mask=inside, other=0.0).to(b.dtype)
        for k in range(count):
            tl.store(
                parts + k * programs + program,
                tl.sum(b * tl.exp2(-tl.load(gammas + k) * d), axis=0),
            )

    @triton.jit(do_not_specialize=["m"])  # chunks have any size
    def multiply(
        left, right, factors, coefficients, weights, out, combined, m, rows, n, d,
        T: tl.constexpr, GROUP: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
    ):  # fmt: skip
        i, first = tl.program_id(0), tl.program_id(1) * GROUP * BM
        j, f = tl.program_id(2) * BN + tl.arange(0, BN), tl.arange(0, BD)
        x = tl.load(left + i * d + f, mask=f < d, other=0.0)
        z = tl.load(
            right + j[:, None] * d + f[None, :], mask=(j[:, None] < n) & (f[None, :] < d), other=0.0
        )
        difference = x[None, :] - z
        squares = tl.trans(tl.minimum(difference * difference, 1e30).to(tl.float32))
        total = tl.zeros((BN,), dtype=tl.float32)
        for block in range(GROUP):
            k = first + block * BM + tl.arange(0, BM)
            inside = k < m
            there = factors + k[:, None].to(tl.int64) * d + f[None, :]
            rates = tl.load(there, mask=inside[:, None] & (f[None, :] < d), other=0.0)
            values = tl.exp2(-tl.dot(rates, squares, input_precision="tf32x3"))
            total += tl.sum(values * tl.load(weights + k, mask=inside, other=0.0)[:, None], axis=0)
            for c in range(T):
                beta = tl.load(coefficients + c * n + j, mask=j < n, other=0.0)
                product = tl.sum(values * beta[None, :], axis=1)
                tl.atomic_add(out + (k.to(tl.int64) * rows + i) * T + c, product, mask=inside)
        tl.atomic_add(combined + i * n + j, total.to(tl.float64), mask=j < n)

    return SimpleNamespace(combine=combine, forms=forms, multiply=multiply)
