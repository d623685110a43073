"""Sums of exponentials of a matrix of pairwise numbers, ``exp(-gamma_k D)`` for many gamma, without
holding them.

On a GPU each is one compiled kernel (Triton) that reads D once; elsewhere plain PyTorch operations,
one kernel at a time.
"""

from functools import cache

import numpy as np

LOG2_E = float(np.log2(np.e))
BLOCK = 4096  # entries that one program of a compiled kernel visits


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

    return SimpleNamespace(combine=combine, forms=forms)
