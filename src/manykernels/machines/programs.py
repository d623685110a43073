"""Programs for a GPU in Triton's language; to be imported only where there is one."""

import triton
import triton.language as tl


@triton.jit
def first(
    a: tl.tensor, i: tl.tensor, x: tl.tensor, b: tl.tensor, j: tl.tensor, y: tl.tensor
) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """The larger of two numbers, with what belongs to it."""
    # of equal ones the first, or threads would not agree
    mine = (a > b) | ((a == b) & (i < j))
    return tl.where(mine, a, b), tl.where(mine, i, j), tl.where(mine, x, y)


@triton.jit
def second(
    a: tl.tensor,
    i: tl.tensor,
    x: tl.tensor,
    u: tl.tensor,
    b: tl.tensor,
    j: tl.tensor,
    y: tl.tensor,
    v: tl.tensor,
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """`first` with one more number that belongs to each."""
    mine = (a > b) | ((a == b) & (i < j))
    return (
        tl.where(mine, a, b),
        tl.where(mine, i, j),
        tl.where(mine, x, y),
        tl.where(mine, u, v),
    )


@triton.jit
def smo(
    K: tl.tensor,
    stride: tl.tensor,
    diagonal: tl.tensor,
    lower: tl.tensor,
    upper: tl.tensor,
    kink: tl.tensor,
    ridge: tl.tensor,
    beta: tl.tensor,
    F: tl.tensor,
    count: tl.tensor,
    tol: tl.tensor,
    steps: tl.tensor,
    most: tl.tensor,
    Q: tl.constexpr,
) -> None:
    # a set for each program
    here = tl.program_id(0).to(tl.int64) * stride
    K += here * stride
    diagonal, lower, upper = diagonal + here, lower + here, upper + here
    kink, ridge, beta, F = kink + here, ridge + here, beta + here, F + here
    count += tl.program_id(0)
    t = tl.arange(0, Q)
    inside = t < tl.load(count)
    low = tl.load(lower + t, mask=inside, other=0.0)
    high = tl.load(upper + t, mask=inside, other=0.0)
    bend = tl.load(kink + t, mask=inside, other=0.0)
    own = tl.load(diagonal + t, mask=inside, other=1.0).to(tl.float32)
    b = tl.load(beta + t, mask=inside, other=0.0)
    f = tl.load(F + t, mask=inside, other=0.0)
    # what a move up or down costs besides f: a huge number where there is no room
    up_bar = tl.where(inside & (b < high), tl.where(b >= 0.0, bend, -bend), 1e300)
    down_bar = tl.where(inside & (b > low), tl.where(b <= 0.0, bend, -bend), 1e300)
    enough = tl.load(tol)
    unit = 1.0 / tl.maximum(enough, 1e-290)
    done = tl.load(count).to(tl.int32) * 0
    running = done + 1
    while running > 0:
        top, i, b_i = tl.reduce((-f - up_bar, t, b), 0, first)
        row_i = tl.load(K + i.to(tl.int64) * stride + t, mask=inside, other=0.0)
        own_i = tl.load(diagonal + i)
        high_i, low_i = tl.load(upper + i), tl.load(lower + i)
        bend_i, ridge_i = tl.load(kink + i), tl.load(ridge + i)
        down = f - down_bar
        # which partner gains most is decided in float32, in units of the tolerance
        pull = tl.minimum(tl.maximum((top + down) * unit, 0.0), 1e15).to(tl.float32)
        around = own_i.to(tl.float32) + own
        curve = tl.maximum(around - 2.0 * row_i.to(tl.float32), 1e-7 * around)
        # a point at the origin bends nothing: its own rounding would be a gain
        gain = tl.where(t == i, 0.0, pull * pull / tl.maximum(curve, 1e-37))
        best, j, down_j, b_j = tl.reduce((gain, t, down, b), 0, second)
        running = ((best > 0.0) & (done < most)).to(tl.int32)
        if top + down_j < enough:  # the largest violation may be that of another pair
            worst = tl.max(down, axis=0)
            running = running * (top + worst >= enough).to(tl.int32)
        row_j = tl.load(K + j.to(tl.int64) * stride + t, mask=inside, other=0.0)
        own_j = tl.load(diagonal + j)
        high_j, low_j = tl.load(upper + j), tl.load(lower + j)
        bend_j, ridge_j = tl.load(kink + j), tl.load(ridge + j)
        shared = tl.load(K + i.to(tl.int64) * stride + j).to(tl.float64)
        # rounding can make the curvature of a pair of near-equal points zero or negative
        both = own_i + own_j
        curvature = tl.maximum(both - 2.0 * shared, 1e-12 * both + 1e-300)
        zero_i, zero_j = (b_i < 0.0) & (bend_i > 0.0), (b_j > 0.0) & (bend_j > 0.0)
        end_i, end_j = tl.where(zero_i, 0.0, high_i), tl.where(zero_j, 0.0, low_j)
        step = tl.minimum((top + down_j) / curvature, tl.minimum(end_i - b_i, b_j - end_j))
        step = tl.where(running > 0, step, 0.0)
        new_i = tl.where(step == end_i - b_i, end_i, b_i + step)
        new_j = tl.where(step == b_j - end_j, end_j, b_j - step)
        up_i = tl.where(new_i < high_i, tl.where(new_i >= 0.0, bend_i, -bend_i), 1e300)
        up_j = tl.where(new_j < high_j, tl.where(new_j >= 0.0, bend_j, -bend_j), 1e300)
        down_i = tl.where(new_i > low_i, tl.where(new_i <= 0.0, bend_i, -bend_i), 1e300)
        down_j = tl.where(new_j > low_j, tl.where(new_j <= 0.0, bend_j, -bend_j), 1e300)
        at_i, at_j = t == i, t == j
        b = tl.where(at_i, new_i, tl.where(at_j, new_j, b))
        up_bar = tl.where(at_i, up_i, tl.where(at_j, up_j, up_bar))
        down_bar = tl.where(at_i, down_i, tl.where(at_j, down_j, down_bar))
        f += step * (row_i.to(tl.float64) - row_j.to(tl.float64))
        f += tl.where(at_i, step * ridge_i, tl.where(at_j, -step * ridge_j, 0.0))
        done += running
    tl.store(beta + t, b, mask=inside)
    tl.atomic_add(steps, done.to(tl.int64))


@triton.jit
def add_rows(
    rows: tl.tensor,
    places: tl.tensor,
    change: tl.tensor,
    out: tl.tensor,
    count: tl.tensor,
    n: tl.tensor,
    BM: tl.constexpr,
    BN: tl.constexpr,
) -> None:
    j = tl.program_id(0) * BN + tl.arange(0, BN)
    group = tl.program_id(1).to(tl.int64)
    places, change, out = places + group * count, change + group * count, out + group * n
    total = tl.zeros((BM, BN), dtype=tl.float64)
    for begin in range(0, count, BM):
        i = begin + tl.arange(0, BM)
        c = tl.load(change + i, mask=i < count, other=0.0)
        at = tl.load(places + i, mask=i < count, other=0)
        there = rows + at[:, None] * n + j[None, :]
        used = (c[:, None] != 0.0) & (j[None, :] < n)
        total += c[:, None] * tl.load(there, mask=used, other=0.0).to(tl.float64)
    before = tl.load(out + j, mask=j < n, other=0.0)
    tl.store(out + j, before + tl.sum(total, axis=0), mask=j < n)


@triton.jit
def best_lengths(
    slopes: tl.tensor,
    curves: tl.tensor,
    out: tl.tensor,
    count: tl.tensor,
    sweeps: tl.tensor,
    P: tl.constexpr,
) -> None:
    j = tl.arange(0, P)
    t = tl.where(j < count, 1.0, 0.0).to(tl.float64)
    for _ in range(sweeps):
        for i in range(count):
            row = tl.load(curves + i * count + j, mask=j < count, other=0.0)
            own = tl.load(curves + i * count + i)
            slope = tl.load(slopes + i) + tl.sum(row * t, axis=0)
            new = t - slope / tl.where(own > 0.0, own, 1.0)
            new = tl.minimum(tl.maximum(new, 0.0), 1.0)
            t = tl.where((j == i) & (own > 0.0), new, t)
    tl.store(out + j, t, mask=j < count)


@triton.jit
def ordered(x: tl.tensor, t: tl.tensor) -> tl.tensor:
    """Numbers and their places as integers of the same order."""
    bits = x.to(tl.int32, bitcast=True)
    return ((bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.int64) << 32) | t.to(tl.int64)


@triton.jit
def value_of(key: tl.tensor) -> tl.tensor:
    """The number of such an integer."""
    bits = (key >> 32).to(tl.int32)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def rough_smo(
    K: tl.tensor,
    stride: tl.tensor,
    diagonal: tl.tensor,
    lower: tl.tensor,
    upper: tl.tensor,
    kink: tl.tensor,
    ridge: tl.tensor,
    beta: tl.tensor,
    F: tl.tensor,
    count: tl.tensor,
    tol: tl.tensor,
    steps: tl.tensor,
    most: tl.tensor,
    Q: tl.constexpr,
) -> None:
    # a set for each program
    here = tl.program_id(0).to(tl.int64) * stride
    K += here * stride
    diagonal, lower, upper = diagonal + here, lower + here, upper + here
    kink, ridge, beta, F = kink + here, ridge + here, beta + here, F + here
    count += tl.program_id(0)
    t = tl.arange(0, Q)
    inside = t < tl.load(count)
    low = tl.load(lower + t, mask=inside, other=0.0)
    high = tl.load(upper + t, mask=inside, other=0.0)
    own = tl.load(diagonal + t, mask=inside, other=1.0).to(tl.float32)
    b = tl.load(beta + t, mask=inside, other=0.0)
    # slopes in units of the tolerance
    unit = 1.0 / tl.maximum(tl.load(tol), 1e-290)
    bend = (tl.load(kink + t, mask=inside, other=0.0) * unit).to(tl.float32)
    f = (tl.load(F + t, mask=inside, other=0.0) * unit).to(tl.float32)
    up_bar = tl.where(inside & (b < high), tl.where(b >= 0.0, bend, -bend), 1e30)
    down_bar = tl.where(inside & (b > low), tl.where(b <= 0.0, bend, -bend), 1e30)
    done = tl.load(count).to(tl.int32) * 0
    running = done + 1
    while running > 0:
        key = tl.max(ordered(-f - up_bar, t), axis=0)
        top, i = value_of(key), (key & 0x7FFFFFFF).to(tl.int32)
        row_i = tl.load(K + i.to(tl.int64) * stride + t, mask=inside, other=0.0).to(tl.float32)
        own_i = tl.load(diagonal + i).to(tl.float32)
        b_i, high_i, low_i = tl.load(beta + i), tl.load(upper + i), tl.load(lower + i)
        bend_i, ridge_i = tl.load(kink + i), tl.load(ridge + i)
        down = f - down_bar
        pull = tl.minimum(tl.maximum(top + down, 0.0), 1e15)
        around = own_i + own
        curve = tl.maximum(tl.maximum(around - 2.0 * row_i, 1e-7 * around), 1e-37)
        key = tl.max(ordered(pull * pull / curve, t), axis=0)
        gain, j = value_of(key), (key & 0x7FFFFFFF).to(tl.int32)
        row_j = tl.load(K + j.to(tl.int64) * stride + t, mask=inside, other=0.0).to(tl.float32)
        both = own_i + tl.load(diagonal + j).to(tl.float32)
        b_j, high_j, low_j = tl.load(beta + j), tl.load(upper + j), tl.load(lower + j)
        bend_j, ridge_j = tl.load(kink + j), tl.load(ridge + j)
        shared = tl.load(K + i.to(tl.int64) * stride + j).to(tl.float32)
        curve_ij = tl.maximum(tl.maximum(both - 2.0 * shared, 1e-7 * both), 1e-37)
        length = tl.sqrt(gain / curve_ij)
        running = ((gain > 0.0) & (done < most)).to(tl.int32)
        if length * curve_ij < 1.0:  # the largest violation may be that of another pair
            running = running * (top + tl.max(down, axis=0) >= 1.0).to(tl.int32)
        zero_i, zero_j = (b_i < 0.0) & (bend_i > 0.0), (b_j > 0.0) & (bend_j > 0.0)
        end_i, end_j = tl.where(zero_i, 0.0, high_i), tl.where(zero_j, 0.0, low_j)
        step = tl.minimum(length.to(tl.float64) / unit, tl.minimum(end_i - b_i, b_j - end_j))
        step = tl.where(running > 0, step, 0.0)
        new_i = tl.where(step == end_i - b_i, end_i, b_i + step)
        new_j = tl.where(step == b_j - end_j, end_j, b_j - step)
        cost_i, cost_j = (bend_i * unit).to(tl.float32), (bend_j * unit).to(tl.float32)
        up_i = tl.where(new_i < high_i, tl.where(new_i >= 0.0, cost_i, -cost_i), 1e30)
        up_j = tl.where(new_j < high_j, tl.where(new_j >= 0.0, cost_j, -cost_j), 1e30)
        down_i = tl.where(new_i > low_i, tl.where(new_i <= 0.0, cost_i, -cost_i), 1e30)
        down_j = tl.where(new_j > low_j, tl.where(new_j <= 0.0, cost_j, -cost_j), 1e30)
        at_i, at_j = t == i, t == j
        up_bar = tl.where(at_i, up_i, tl.where(at_j, up_j, up_bar))
        down_bar = tl.where(at_i, down_i, tl.where(at_j, down_j, down_bar))
        size = (step * unit).to(tl.float32)
        f += size * (row_i - row_j)
        own_up, own_down = size * ridge_i.to(tl.float32), size * ridge_j.to(tl.float32)
        f += tl.where(at_i, own_up, tl.where(at_j, -own_down, 0.0))
        # coefficients are in memory: all threads must have read those of this step
        tl.debug_barrier()
        tl.store(beta + i, new_i)
        tl.store(beta + j, new_j)
        done += running
    tl.atomic_add(steps, done.to(tl.int64))
