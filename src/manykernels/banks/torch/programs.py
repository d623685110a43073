"""Programs for a GPU in Triton's language; to be imported only where there is one."""

import triton
import triton.language as tl


@triton.jit
def combine_exponentials(
    D, gammas, weights, out, size, count, ADD: tl.constexpr, BLOCK: tl.constexpr
):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    d = tl.load(D + at, mask=inside, other=0.0).to(out.dtype.element_ty)
    total = tl.load(out + at, mask=inside, other=0.0) if ADD else tl.zeros_like(d)
    for k in range(count):
        total += tl.load(weights + k) * tl.exp2(-tl.load(gammas + k) * d)
    tl.store(out + at, total, mask=inside)


@triton.jit
def forms_of_exponentials(D, B, gammas, parts, size, count, programs, BLOCK: tl.constexpr):
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


@triton.jit
def split_distances(
    left, right, left_norms, right_norms, i, j, rows, n, depth, left_low, right_low,
    BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Squared distances between some split points, in units of their grid."""
    f, here, there = tl.arange(0, BD), i < rows, j < n
    a = left + i[:, None].to(tl.int64) * depth + f[None, :]
    b = right + j[None, :].to(tl.int64) * depth + f[:, None]
    whole = tl.zeros((BM, BN), dtype=tl.float32)  # integers: nothing is rounded
    rest = tl.zeros((BM, BN), dtype=tl.float32)
    for begin in range(0, depth, BD):
        x = tl.load(a + begin, mask=here[:, None], other=0.0)
        z = tl.load(b + begin, mask=there[None, :], other=0.0)
        whole = tl.dot(x, z, whole)
        x_low = tl.load(a + left_low + begin, mask=here[:, None], other=0.0)
        rest = tl.dot(x_low, z, rest)
        z_low = tl.load(b + right_low + begin, mask=there[None, :], other=0.0)
        rest = tl.dot(x, z_low, rest)
        rest = tl.dot(x_low, z_low, rest)
    norms = tl.load(left_norms + i, mask=here, other=0.0)[:, None]
    norms += tl.load(right_norms + j, mask=there, other=0.0)[None, :]
    low_norms = tl.load(left_norms + rows + i, mask=here, other=0.0)[:, None]
    low_norms += tl.load(right_norms + n + j, mask=there, other=0.0)[None, :]
    return tl.maximum((norms - 2.0 * whole) + (low_norms - 2.0 * rest), 0.0)


@triton.jit
def sum_of_exponentials(distances, rates, weights, total, kernels):
    for k in range(kernels):
        total += tl.load(weights + k) * tl.exp2(-tl.load(rates + k) * distances)
    return total


@triton.jit
def combine_split(
    left, right, left_norms, right_norms, rates, weights, out, rows, n, blocks, kernels, depth,
    left_low, right_low,
    ADD: tl.constexpr, MIRRORED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    # programs of the same columns follow one another, and find them in the cache
    above, before = tl.program_id(0) % blocks * BM, tl.program_id(0) // blocks * BN
    if MIRRORED and before + BN <= above:
        return
    i, j = above + tl.arange(0, BM), before + tl.arange(0, BN)
    distances = split_distances(
        left, right, left_norms, right_norms, i, j, rows, n, depth, left_low, right_low,
        BM, BN, BD,
    )  # fmt: skip
    inside = (i < rows)[:, None] & (j < n)[None, :]
    if MIRRORED:  # an entry and the one across the diagonal are from one program: the same bits
        inside = inside & (i[:, None] <= j[None, :])
    at = out + i[:, None].to(tl.int64) * n + j[None, :]
    if ADD:
        total = tl.load(at, mask=inside, other=0.0)
    else:
        total = tl.zeros((BM, BN), dtype=tl.float32)
    total = sum_of_exponentials(distances, rates, weights, total, kernels)
    tl.store(at, total, mask=inside)
    if MIRRORED:
        mirrored = out + j[:, None].to(tl.int64) * n + i[None, :]
        tl.store(mirrored, tl.trans(total), mask=tl.trans(inside))


@triton.jit
def decide_split(
    left, right, left_norms, right_norms, rates, weights, coefficients, out, rows, n, kernels,
    depth, left_low, right_low,
    BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    i, column = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1).to(tl.int64)
    total = tl.zeros((BM,), dtype=tl.float64)
    for begin in range(0, n, BN):
        j = begin + tl.arange(0, BN)
        distances = split_distances(
            left, right, left_norms, right_norms, i, j, rows, n, depth, left_low, right_low,
            BM, BN, BD,
        )  # fmt: skip
        values = tl.zeros((BM, BN), dtype=tl.float32)
        values = sum_of_exponentials(distances, rates, weights, values, kernels)
        c = tl.load(coefficients + column * n + j, mask=j < n, other=0.0)[None, :]
        total += tl.sum(values * c, axis=1).to(tl.float64)
    tl.store(out + column * rows + i, total, mask=i < rows)


@triton.jit
def multiply_split(
    left, right, left_norms, right_norms, rates, coefficients, out, rows, n, kernels, depth,
    left_low, right_low,
    KERNELS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    k_of, column = tl.arange(0, KERNELS), tl.program_id(1)
    totals = tl.zeros((KERNELS, BM), dtype=tl.float64)
    for begin in range(0, n, BN):
        j = begin + tl.arange(0, BN)
        distances = split_distances(
            left, right, left_norms, right_norms, i, j, rows, n, depth, left_low, right_low,
            BM, BN, BD,
        )  # fmt: skip
        c = tl.load(coefficients + column * n + j, mask=j < n, other=0.0)[None, :]
        for k in range(kernels):
            part = tl.sum(tl.exp2(-tl.load(rates + k) * distances) * c, axis=1).to(tl.float64)
            totals += tl.where(k_of[:, None] == k, part[None, :], 0.0)
    place = (k_of[:, None].to(tl.int64) * tl.num_programs(1) + column) * rows + i[None, :]
    tl.store(out + place, totals, mask=(k_of < kernels)[:, None] & (i < rows)[None, :])


@triton.jit
def zeros_and_ones(packed, k, m, width, f, d):
    """Masks of some kernels, eight features to a byte in memory, as numbers."""
    there = packed + k[:, None].to(tl.int64) * width + (f // 8)[None, :]
    byte = tl.load(there, mask=(k < m)[:, None] & (f < d)[None, :], other=0).to(tl.int32)
    return ((byte >> (7 - f % 8)[None, :]) & 1).to(tl.bfloat16)


@triton.jit(do_not_specialize=["m"])  # chunks have any size
def masked_forms(
    packed, rates, squares, B, out, m, width, d, pairs, part,
    C: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    k, f = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BD)
    masks = zeros_and_ones(packed, k, m, width, f, d)
    rate = tl.load(rates + k, mask=k < m, other=0.0)[:, None]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    other = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, pairs, BN):
        p = first + tl.arange(0, BN)
        inside = p < pairs
        there = squares + p[None, :].to(tl.int64) * BD + f[:, None]
        # a mask is exact in eight digits, and a square is three such numbers
        low = tl.load(there + 2 * part, mask=inside[None, :], other=0.0)
        dots = tl.dot(masks, low)
        middle = tl.load(there + part, mask=inside[None, :], other=0.0)
        dots = tl.dot(masks, middle, dots)
        high = tl.load(there, mask=inside[None, :], other=0.0)
        dots = tl.dot(masks, high, dots)
        values = tl.exp2(-rate * dots)
        total += values * tl.load(B + p, mask=inside, other=0.0)[None, :]
        if C == 2:
            other += values * tl.load(B + pairs + p, mask=inside, other=0.0)[None, :]
    tl.store(out + k, tl.sum(total, axis=1), mask=k < m)
    if C == 2:
        tl.store(out + m + k, tl.sum(other, axis=1), mask=k < m)


@triton.jit(do_not_specialize=["m"])
def masked_products(
    left, right, packed, rates, coefficients, weights, out, combined, m, width, rows, n, d,
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
    high = squares.to(tl.bfloat16)
    rest = squares - high.to(tl.float32)
    middle = rest.to(tl.bfloat16)
    low = (rest - middle.to(tl.float32)).to(tl.bfloat16)
    total = tl.zeros((BN,), dtype=tl.float32)
    for block in range(GROUP):
        k = first + block * BM + tl.arange(0, BM)
        inside = k < m
        masks = zeros_and_ones(packed, k, m, width, f, d)
        dots = tl.dot(masks, low)
        dots = tl.dot(masks, middle, dots)
        dots = tl.dot(masks, high, dots)
        values = tl.exp2(-tl.load(rates + k, mask=inside, other=0.0)[:, None] * dots)
        total += tl.sum(values * tl.load(weights + k, mask=inside, other=0.0)[:, None], axis=0)
        for c in range(T):
            beta = tl.load(coefficients + c * n + j, mask=j < n, other=0.0)
            product = tl.sum(values * beta[None, :], axis=1)
            tl.atomic_add(out + (k.to(tl.int64) * rows + i) * T + c, product, mask=inside)
    tl.atomic_add(combined + i * n + j, total.to(tl.float64), mask=j < n)


@triton.jit
def combine_single(
    left, right, slots, starts, rates, weights, out, rows, cols, features,
    ADD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(1) * BM + tl.arange(0, BM)
    j = tl.program_id(0) * BN + tl.arange(0, BN)
    inside = (i[:, None] < rows) & (j[None, :] < cols)
    there = out + i[:, None].to(tl.int64) * cols + j[None, :]
    if ADD:
        total = tl.load(there, mask=inside, other=0.0)
    else:
        total = tl.zeros((BM, BN), dtype=out.dtype.element_ty)
    for s in range(features):
        slot = tl.load(slots + s).to(tl.int64)
        x = tl.load(left + slot * rows + i, mask=i < rows, other=0.0)
        z = tl.load(right + slot * cols + j, mask=j < cols, other=0.0)
        difference = x[:, None] - z[None, :]
        squares = difference * difference
        for k in range(tl.load(starts + s), tl.load(starts + s + 1)):
            total += tl.load(weights + k) * tl.exp2(-tl.load(rates + k) * squares)
    tl.store(there, total, mask=inside)


@triton.jit
def multiply_single(
    left, right, slots, rates, coefficients, out, rows, cols, outputs,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    k, c = tl.program_id(0).to(tl.int64), tl.program_id(2)
    i = tl.program_id(1) * BM + tl.arange(0, BM)
    slot, rate = tl.load(slots + k), tl.load(rates + k)
    x = tl.load(left + slot * rows + i, mask=i < rows, other=0.0)
    total = tl.zeros((BM, BN), dtype=out.dtype.element_ty)
    for first in range(0, cols, BN):
        j = first + tl.arange(0, BN)
        z = tl.load(right + slot * cols + j, mask=j < cols, other=0.0)
        beta = tl.load(coefficients + c * cols + j, mask=j < cols, other=0.0)
        difference = x[:, None] - z[None, :]
        total += beta[None, :] * tl.exp2(-rate * difference * difference)
    tl.store(out + (k * rows + i) * outputs + c, tl.sum(total, axis=1), mask=i < rows)
