"""The pieces that exact kernels on a GPU are made of, each beside what it took the place of.

What was learned (H200, Triton 3.6): SMO of a working set is bound by the latency of its steps, 1.8
microseconds for 2,048 points with slopes in float32 and 2.7 in float64, where a core of the host
takes 3.5 to 5.5; and nothing is copied. Maxima over threads must agree on ties, or the threads of a
warp go on with different points. Squared distances of split numbers take two thirds of the time of
products in float64 (4.6 against 7.2 ms), which write distances down and read them again. Quadratic
forms of single-feature kernels are faster by way of products (1.6 ms) than as sums over a tile for
each kernel (11 to 17 ms). Masks are exact in bfloat16: forms of a million kernels take 16 ms in
place of 140.
"""

import numpy as np

from .common import best_of, table

MOST_STEPS = 10**6


def shortest(work):
    """Of several runs on the device, in seconds."""
    import torch

    def run():
        work()
        torch.cuda.synchronize()

    run()
    return best_of(run)


def _working_sets():
    """SMO of one working set: host, and device with slopes in either precision."""
    import torch

    from manykernels._loops.smo import Bounds, smo
    from manykernels.banks.torch.device import Device
    from manykernels.machines.device import solve_sets

    rows, device, rng = [], Device("cuda"), np.random.default_rng(0)
    for q in (512, 1024, 2048):
        X, y = rng.random((q, 10)), np.where(rng.random(q) < 0.5, 1.0, -1.0)
        K = np.exp(-2.0 * np.square(X[:, None] - X).sum(axis=2)).astype(np.float32)
        none, own = np.zeros(q), np.ones(q)
        bounds = Bounds(np.where(y > 0, 0.0, -10.0), np.where(y > 0, 10.0, 0.0), none, none)

        def host(K=K, y=y, own=own, bounds=bounds):
            beta = np.zeros(y.size)
            return beta, smo(K, own, bounds, beta, -y, 1e-2, MOST_STEPS)[0]

        square, there = device.put(K, np.float32), [device.put(part) for part in (own, *bounds)]
        given = device.put(-y), device.indices([q]), device.put([1e-2])

        def program(rough, square=square, there=there, given=given, q=q):
            beta, steps = device.put(np.zeros(q)), device.indices([0])
            slopes, count, tol = given
            sets = square[None], there, (beta[None], slopes[None])
            solve_sets(*sets, count, tol, steps, MOST_STEPS, rough)
            return beta.cpu().numpy(), int(steps)

        row = {"points": q}
        for name, work in (
            ("host", host),
            ("float64", lambda: program(False)),
            ("float32", lambda: program(True)),
        ):
            beta, steps = work()
            torch.cuda.synchronize()
            row[f"{name} us a step"] = 1e6 * best_of(work) / steps
            row[f"{name} dual"] = float(y @ beta - 0.5 * beta @ K @ beta)
        rows.append(row)
    table("SMO of a working set", rows)
    return rows


def _rows():
    """A block of rows for half a million points: distances in float64, and of split numbers."""
    import torch

    from manykernels.banks.torch import exponentials
    from manykernels.banks.torch.device import Device

    device, (n, d, q) = Device("cuda"), (561_012, 54, 2048)
    X = torch.rand(n, d, device="cuda", dtype=torch.float64) - 0.5
    gammas = torch.tensor([0.5, 1.0, 2.0, 4.0, 8.0], device="cuda")
    weights, out = torch.full((5,), 0.2, device="cuda"), torch.empty(q, n, device="cuda")
    norms, ones = X.square().sum(dim=1, keepdim=True), torch.ones_like(X[:, :1])
    right, left = torch.cat([-2.0 * X, ones, norms], 1), torch.cat([X, norms, ones], 1)[:q]
    row = {"rows": q, "points": n}
    row["float64 ms"] = 1e3 * shortest(
        lambda: exponentials.combine(device, left @ right.T, gammas, weights, out, False)
    )
    exact, parts = out.clone(), exponentials.Split.of(torch, X, exponentials.unit_of((X,)))
    some = parts.chosen(slice(0, q))
    row["split ms"] = 1e3 * shortest(
        lambda: exponentials.combine_split(
            some, parts, gammas * exponentials.LOG2_E, weights, out, False
        )
    )
    row["largest difference"] = float((out - exact).abs().max())
    table("Rows of five Gaussians of 54 features", [row])
    return [row]


def _features():
    """Kernels of single features, and of feature subsets."""
    import torch

    from manykernels.banks.torch import exponentials, masked
    from manykernels.banks.torch.device import Device

    device, rng, (d, n, m) = Device("cuda"), np.random.default_rng(0), (241, 1500, 2410)
    slot, rate = np.repeat(np.arange(d), 10), np.tile(2.0 ** np.arange(-3, 7), d)
    rates = exponentials.Rates.of(device, slot, rate, np.float32)
    X, weights = torch.randn(d, n, device="cuda"), torch.rand(m, device="cuda")
    out, beta = torch.empty(n, n, device="cuda"), torch.randn(n, 1, device="cuda")
    row = {"kernels": m, "points": n}
    row["sum ms"] = 1e3 * shortest(
        lambda: exponentials.combine_features(device, (X, X), rates, weights, out, False)
    )
    row["products ms"] = 1e3 * shortest(
        lambda: exponentials.multiply_features(device, (X, X), rates, beta)
    )
    table("Gaussians of single features", [row])
    d, n, m = 60, 208, 10**6
    packed = device.put(np.packbits(rng.random((m, d)) < 0.5, axis=1), np.uint8)
    some, X = (
        masked.Masks(packed, torch.rand(m, device="cuda"), d),
        torch.randn(n, d, device="cuda"),
    )
    i, j = np.tril_indices(n, -1)
    pairs, B = (
        masked.split_squares(torch, (X[i] - X[j]).square()),
        torch.randn(2, i.size, device="cuda"),
    )
    beta, K = torch.randn(1, n, device="cuda"), torch.zeros((n, n), device="cuda").double()
    weights, other = torch.rand(m, device="cuda"), {"kernels": m, "points": n}
    other["two forms ms"] = 1e3 * shortest(lambda: masked.masked_forms(torch, some, pairs, B))
    other["sum and products ms"] = 1e3 * shortest(
        lambda: masked.masked_products(torch, (X, X), some, beta, weights, K)
    )
    table("Gaussians of feature subsets", [other])
    return [row, other]


def pieces():
    """SMO of a working set, rows and sums of kernels on a GPU."""
    return _working_sets() + _rows() + _features()
