"""What is computed on a device against plain NumPy: compiled programs where there is a GPU, and
what takes their place elsewhere.
"""

from dataclasses import replace

import numpy as np
import pytest

from conftest import toy
from manykernels import MKLClassifier
from manykernels._loops.smo import Bounds
from manykernels._loops.smo import smo as host_smo
from manykernels.banks import make_bank
from manykernels.kernels import RBF, KernelCollection, Linear, Polynomial
from manykernels.losses import Box, Hinge
from manykernels.machines import DenseMachine, machine_for
from manykernels.machines.device import (
    TOLERANCES,
    DeviceMachine,
    DeviceMatrix,
    DeviceRows,
    _best_lengths,
    _first_of_each,
    add_rows,
    best_lengths,
    solve_sets,
)
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.solvers import Newton, solve

pytestmark = pytest.mark.device
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from manykernels.banks.torch import exponentials, masked  # noqa: E402
from manykernels.banks.torch.device import Device  # noqa: E402
from manykernels.banks.torch.masked import _pairs  # noqa: E402
from manykernels.banks.torch.tiled import DeviceProducts  # noqa: E402

DEVICES = ["torch"] + (["cuda"] if torch.cuda.is_available() else [])
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
RNG = np.random.default_rng(0)


@pytest.fixture(params=DEVICES)
def device(request):
    return Device(request.param)


def close(found, expected, tol):
    found = np.asarray(found.cpu() if isinstance(found, torch.Tensor) else found)
    np.testing.assert_allclose(found, expected, rtol=tol, atol=tol * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_of_single_features(device, dtype):
    left, right = RNG.standard_normal((3, 37)), RNG.standard_normal((3, 150))
    slot, rate = np.array([0, 0, 0, 1, 2, 2]), 3.0 * RNG.random(6)
    weights, beta = RNG.random(6), RNG.standard_normal((150, 2))
    table = np.exp2(-rate[:, None, None] * (left[slot][:, :, None] - right[slot][:, None]) ** 2)
    rates = exponentials.Rates.of(device, slot, rate, dtype)
    pairs = device.put(left, dtype), device.put(right, dtype)
    tol = 1e-5 if dtype == np.float32 else 1e-12
    out = torch.ones((37, 150), dtype=device.entry(dtype), device=device.place)
    exponentials.combine_features(device, pairs, rates, device.put(weights, dtype), out)
    close(out, 1.0 + np.tensordot(weights, table, 1), tol)
    exponentials.combine_features(device, pairs, rates, device.put(weights, dtype), out, add=False)
    close(out, np.tensordot(weights, table, 1), tol)
    close(
        exponentials.multiply_features(device, pairs, rates, device.put(beta, dtype)),
        table @ beta,
        tol,
    )


def split(device, *points):
    there = tuple(map(device.put, points))
    unit = exponentials.unit_of(there)
    return [exponentials.Split.of(torch, one, unit) for one in there]


@needs_gpu
def test_split_points():
    """Their sums of Gaussians have the digits of float32, and all numbers of a tile are written."""
    cuda = Device("cuda")
    A, B = RNG.random((130, 70)) - 0.5, RNG.random((300, 70)) - 0.5
    distances = np.square(A[:, None] - B).sum(axis=2)
    rates, weights = np.array([0.5, 2.0]), np.array([0.3, 0.9])
    parts = split(cuda, A, B)
    out = torch.full((130, 300), torch.nan, device=cuda.place)
    numbers = (cuda.put(values, np.float32) for values in (rates, weights))
    exponentials.combine_split(*parts, *numbers, out, add=False)
    close(out, np.tensordot(weights, np.exp2(-rates[:, None, None] * distances), 1), 3e-6)


@needs_gpu
def test_products_of_split_points():
    """More kernels than one program adds up, and two outputs."""
    cuda = Device("cuda")
    A, B = RNG.random((130, 70)) - 0.5, RNG.random((3000, 70)) - 0.5
    distances = np.square(A[:, None] - B).sum(axis=2)
    rates, beta = np.linspace(0.5, 8.0, 11), RNG.standard_normal((2, 3000))
    parts = split(cuda, A, B)
    found = exponentials.multiply_split(*parts, cuda.put(rates, np.float32), cuda.put(beta))
    kernels = np.exp2(-rates[:, None, None] * distances)
    close(found, np.swapaxes(kernels @ beta.T, 1, 2), 3e-6)


@needs_gpu
def test_split_points_on_both_sides():
    """Half of the entries is computed, and the other half is the same bits."""
    cuda, A = Device("cuda"), RNG.random((300, 20)) - 0.5
    distances = np.square(A[:, None] - A).sum(axis=2)
    (parts,), out = split(cuda, A), torch.full((300, 300), torch.nan, device=cuda.place)
    one = cuda.put(np.ones(1), np.float32)
    exponentials.combine_split(parts, parts, one, one, out, add=False)
    close(out, np.exp2(-distances), 3e-6)
    assert torch.equal(out, out.T)


@needs_gpu
@pytest.mark.parametrize("features", [54, 784])
@pytest.mark.parametrize("gamma", [1.0, 10.0, 1000.0])
def test_near_split_points(features, gamma):
    """Narrow kernels of points that are nearly the same, far from the center: their error is the
    one that says which kernels are too narrow.
    """
    cuda, near = Device("cuda"), np.sqrt(0.01 / (features * gamma))
    A = 3.0 + RNG.random((1, features)) + near * RNG.standard_normal((200, features))
    A[-1] = -A[0]
    distances, there = np.square(A[:, None] - A).sum(axis=2), (cuda.put(A),)
    (parts,), out = split(cuda, A), torch.empty((200, 200), device=cuda.place)
    numbers = (cuda.put([value], np.float32) for value in (gamma * exponentials.LOG2_E, 1.0))
    exponentials.combine_split(parts, parts, *numbers, out, add=False)
    bound = exponentials.error_of_values(there, gamma)
    error = np.abs(out.cpu().numpy() - np.exp(-gamma * distances)).max()
    assert error <= bound + 1e-6
    assert exponentials.precise_enough(there, gamma) == (bound <= exponentials.SIZES.value_error)


@needs_gpu
def test_decisions_of_split_points():
    """Sums of products of several kernels, of which nothing is written down."""
    cuda = Device("cuda")
    A, B = RNG.random((130, 70)) - 0.5, RNG.random((3000, 70)) - 0.5
    distances = np.square(A[:, None] - B).sum(axis=2)
    rates, beta = np.linspace(0.5, 8.0, 11), RNG.standard_normal((2, 3000))
    weights, parts = RNG.random(11), split(cuda, A, B)
    numbers = (cuda.put(values, np.float32) for values in (rates, weights))
    found = exponentials.decide_split(*parts, *numbers, cuda.put(beta))
    kernel = np.tensordot(weights, np.exp2(-rates[:, None, None] * distances), 1)
    close(found, beta @ kernel.T, 3e-6)


def test_what_splits_precisely_enough(device):
    points = (device.put(np.full((3, 4), 10.0)),)
    assert exponentials.precise_enough(points, 10.0)
    assert not exponentials.precise_enough(points, 1e3)
    assert not exponentials.precise_enough((device.put(np.full((3, 4), 1e300)),), 1e-2)


def test_points_in_two_parts(device):
    """They are the points, nearly, and products of whole numbers are exact in float32."""
    X = RNG.standard_normal((20, 5)) * 10.0 ** RNG.uniform(-3, 3, 5)
    for points in (X, np.zeros((2, 5))):
        (found,) = split(device, points)
        high, low = found.parts.double().cpu().numpy()
        norm = np.sqrt(np.square(points).sum(axis=1).max())
        np.testing.assert_allclose(
            found.unit * (high + low)[:, :5], points, rtol=0.0, atol=2.0**-22 * norm
        )
        assert not high[:, 5:].any()
        assert not low[:, 5:].any()
        assert (high == high.round()).all()
        assert np.abs(high @ high.T).max() < 2.0**21
        norms = np.square(high + low).sum(axis=1)
        np.testing.assert_allclose(found.norms.double().cpu().sum(dim=0), norms, rtol=1e-7)


@needs_gpu
@pytest.mark.parametrize("d", [5, 20, 60, 100])
def test_masks(d):
    cuda, n, m = Device("cuda"), 45, 200
    X, on, rate = RNG.standard_normal((n, d)), RNG.random((m, d)) < 0.5, 0.3 * RNG.random(m)
    squares = np.square(X[:, None] - X)
    table = np.exp2(-rate[:, None, None] * np.einsum("kf,ijf->kij", on, squares))
    there = masked.Masks(cuda.put(np.packbits(on, axis=1), np.uint8), cuda.put(rate, np.float32), d)
    i, j = np.tril_indices(n, -1)
    B = RNG.standard_normal((3, i.size))
    parts = masked.split_squares(torch, cuda.put(squares[i, j], np.float32))
    close(
        masked.masked_forms(torch, there, parts, cuda.put(B, np.float32)),
        B @ table[:, i, j].T,
        2e-5,
    )
    beta, weights = RNG.standard_normal((2, n)), RNG.random(m)
    K = torch.zeros((n, n), dtype=torch.float64, device=cuda.place)
    points = (cuda.put(X, np.float32),) * 2
    numbers = (cuda.put(values, np.float32) for values in (beta, weights))
    products = masked.masked_products(torch, points, there, *numbers, K)
    close(products, np.einsum("kij,cj->kic", table, beta), 2e-5)
    close(K, np.tensordot(weights, table, 1), 2e-5)


def test_pairs_are_counted_row_by_row(device):
    i, j = _pairs(device.torch, 3, 190, device.place)
    expected = np.tril_indices(20, -1)
    np.testing.assert_array_equal(i.cpu(), expected[0][3:])
    np.testing.assert_array_equal(j.cpu(), expected[1][3:])
    far = 10**11
    i, j = _pairs(device.torch, far, far + 1000, device.place)
    assert bool((i * (i - 1) // 2 + j == far + torch.arange(1000, device=i.device)).all())
    assert bool(((j >= 0) & (j < i)).all())


def test_the_first_of_each(device):
    found, real = device.indices([7, 3, 7, 1, 3, 9, 2]), [True, True, True, False, True, True, True]
    real = torch.tensor(real, device=found.device)
    points, count = _first_of_each(torch, found, real, 3, 10)
    assert points.tolist() == [7, 3, 9]
    assert int(count) == 3
    points, count = _first_of_each(torch, found, real, 6, 10)
    assert points.tolist() == [7, 3, 9, 2, 0, 0]
    assert int(count) == 4


def _program(kind, q):
    """An SVM of q points: kernel, linear part and bounds."""
    X, y, C = RNG.standard_normal((q, 3)), np.sign(RNG.standard_normal(q)), 3.0
    K = np.exp(-np.square(X[:, None] - X).sum(axis=2))
    zeros, wide = np.zeros(q), np.full(q, C)
    if kind == "tube":
        return K, X[:, 0], Bounds(-wide, wide, np.full(q, 0.1), zeros)
    signs = np.where(y > 0, 0.0, -C), np.where(y > 0, C, 0.0)
    if kind == "ridge":
        return K, y, Bounds(1e6 * signs[0], 1e6 * signs[1], zeros, np.full(q, 0.3))
    return K, y, Bounds(*signs, zeros, zeros)


@needs_gpu
@pytest.mark.parametrize("rough", [False, True])
@pytest.mark.parametrize("q", [20, 50, 200, 700])
@pytest.mark.parametrize("kind", ["hinge", "ridge", "tube"])
def test_smo_of_a_working_set(kind, q, rough):
    """As good as the host's, feasible, and points that do not count stay as they are; the second
    of two sets.
    """
    cuda, (K, linear, bounds) = Device("cuda"), _program(kind, q)
    more, diagonal = q + 6, np.diag(K) + bounds.ridge

    def padded(values):
        return cuda.put(np.stack([np.full(more, 0.5), np.append(values, np.full(6, 0.5))]))

    squares = np.zeros((2, more, more))
    squares[1, :q, :q] = K
    beta, steps = padded(np.zeros(q)), cuda.indices(np.zeros(1))
    solve_sets(
        cuda.put(squares, np.float32),
        tuple(padded(part) for part in (diagonal, *bounds)),
        (beta, padded(-linear)),
        cuda.indices([0, q]),
        cuda.put([1e-3]),
        steps,
        10**5,
        rough,
    )
    other, found = beta.cpu().numpy()
    assert (other == 0.5).all()
    assert (found[q:] == 0.5).all()
    found, K32 = found[:q], K.astype(np.float32)
    assert abs(found.sum()) < 1e-9
    assert ((found >= bounds.lower) & (found <= bounds.upper)).all()
    F = K32.astype(float) @ found + bounds.ridge * found - linear
    kinks = [np.where(sign * found >= 0.0, bounds.kink, -bounds.kink) for sign in (1.0, -1.0)]
    up = np.where(found < bounds.upper, -F - kinks[0], -np.inf).max()
    down = np.where(found > bounds.lower, -F + kinks[1], np.inf).min()
    assert up - down < 1.1e-3
    here, gradient = np.zeros(q), -linear.copy()
    host_smo(K32, diagonal, bounds, here, gradient, 1e-3, 10**5)
    values = [
        linear @ x - bounds.kink @ abs(x) - 0.5 * (x @ (K @ x) + bounds.ridge @ x**2)
        for x in (here, found)
    ]
    assert values[1] == pytest.approx(values[0], rel=1e-3)
    assert 0 < int(steps) < 10**5


@needs_gpu
def test_rows_are_added_up():
    rows, change = RNG.standard_normal((37, 600)), RNG.standard_normal(37)
    change[::3] = 0.0
    for dtype in (np.float32, np.float64):
        cuda = Device("cuda")
        places = np.array([np.arange(37), np.arange(37)[::-1]])
        there, out = cuda.put(rows, dtype), cuda.put(np.ones((2, 600)))
        add_rows(there, cuda.indices(places), cuda.put([change, change]), out)
        close(out, 1.0 + change @ rows.astype(dtype)[places], 1e-12)


@needs_gpu
def test_lengths_of_steps():
    cuda, Q = Device("cuda"), RNG.standard_normal((7, 7))
    slopes, curves = RNG.standard_normal(7) - 1.0, Q @ Q.T
    found = best_lengths(cuda.put(slopes), cuda.put(curves)).cpu().numpy()
    close(found, _best_lengths(slopes, curves), 1e-12)
    assert 0.0 < found.max() <= 1.0
    assert found.min() >= 0.0


def test_machines_for_matrices(device, monkeypatch):
    monkeypatch.setattr("manykernels.machines.device.FEW", 10)
    K, linear, bounds = _program("hinge", 60)
    box = Box(linear, bounds.lower, bounds.upper, bounds.kink, bounds.ridge)
    there = DeviceMatrix(device, device.put(K))
    machine, kernel = machine_for(there, box)
    assert isinstance(machine, DeviceMachine)
    assert kernel is there
    here, found = np.zeros(60), np.zeros(60)
    DenseMachine().ascend(K, box, here, -linear.copy(), 1e-6, 10**5)
    F = -linear.copy()
    steps, violation = machine.ascend(there, box, found, F, 1e-6, 10**5)
    assert steps > 0
    assert violation < 1e-6
    np.testing.assert_allclose(F, K @ found - linear, atol=1e-10)
    assert linear @ found - 0.5 * found @ K @ found == pytest.approx(
        linear @ here - 0.5 * here @ K @ here, rel=1e-8
    )
    # systems of equations, and what is small, go to the host
    everywhere = np.full(60, np.inf)
    box = box._replace(lower=-everywhere, upper=everywhere)
    machine, kernel = machine_for(there, box)
    assert isinstance(machine, DenseMachine)
    np.testing.assert_array_equal(kernel, K)
    assert isinstance(machine_for(K, box)[0], DenseMachine)


def test_what_does_not_fit_is_halved(device, monkeypatch, lower):
    """Rows, and the kernel of the active points."""
    computed = replace(TOLERANCES, resident_share=0.0, active_share=0.0, smallest_set=10)
    monkeypatch.setattr("manykernels.machines.device.TOLERANCES", computed)
    lower(device_entries=0)
    X, y = toy(200)
    bank = make_bank(KernelCollection([RBF(0.5), Linear()]), X, device=device.name)
    weights, cost, sizes = np.array([0.5, 0.2]), np.full(200, 3.0), []
    combined = type(bank)._combined

    def failing(self, weights, rows, cols):
        sizes.append(len(rows))
        if len(rows) > 40:
            raise torch.OutOfMemoryError("full")
        return combined(self, weights, rows, cols)

    monkeypatch.setattr(type(bank), "_combined", failing)
    machine, kernel = DeviceMachine(size=128), DeviceRows(bank, weights)
    kernel.most = 150
    start = np.where(np.arange(200) % 2, 1.0, -1.0) * (np.arange(200) < 100)
    found = machine.solve(kernel, Hinge(), y, cost, start, tol=1e-4)
    monkeypatch.undo()
    exact = DenseMachine().solve(bank.combine(weights), Hinge(), y, cost, tol=1e-6)
    assert machine.size == 32
    assert kernel.most == 37
    assert max(sizes) > 40
    assert found.dual == pytest.approx(exact.dual, rel=1e-4)


def test_what_does_not_fit_at_all(device, monkeypatch, lower):
    few = replace(TOLERANCES, resident_share=0.0, active_share=0.0, smallest_set=100)
    monkeypatch.setattr("manykernels.machines.device.TOLERANCES", few)
    lower(device_entries=0)
    X, y = toy(200)
    kernel = DeviceRows(make_bank(KernelCollection([RBF(0.5)]), X, device=device.name), np.ones(1))

    def full(self, chosen):
        raise torch.OutOfMemoryError("full")

    for name in ("rows", "among"):
        machine, start = DeviceMachine(size=100), np.ones(200)
        with monkeypatch.context() as broken:
            broken.setattr(DeviceRows, name, full)
            with pytest.raises(torch.OutOfMemoryError):
                machine.solve(kernel, Hinge(), y, np.ones(200), start)


FEATURES = KernelCollection(
    [
        *(RBF(g, features=f) for f in range(4) for g in (0.1, 0.7, 3.0)),
        *(Polynomial(degree, features=[f]) for f in range(4) for degree in (2, 3)),
        *(Linear(features=[f]) for f in range(4)),
        *(RBF(g) for g in (0.1, 1.0)),
    ]
)


@pytest.mark.parametrize("outputs", [1, 3])
def test_sums_that_stay(device, outputs, monkeypatch, lower):
    lower(device_entries=0)
    monkeypatch.setattr("manykernels.banks.torch.tiled.FEW", 10)
    X, _ = toy(60)
    host, there = (make_bank(FEATURES, X, device=name) for name in ("cpu", device.name))
    beta, weights = RNG.standard_normal((outputs, 60)), RNG.random(host.m)
    change = RNG.standard_normal(60)
    J = PNormBall(1.5).curvature(np.abs(host.quadratic_forms(beta)))
    here, found = host.newton_sums(weights, beta, J), there.newton_sums(weights, beta, J)
    close(found.times(beta), here.times(beta), 1e-10)
    for c in range(outputs):
        kernel = here.curved(c, J.factor, np.float64)
        close(found.curved(c, J.factor, np.float64).fetched(), kernel, 1e-10)
        products = host.products(beta)[:, c]
        close(host.curved(here.K, products, J), kernel, 1e-10)
        for K in (here.K, there.held_kernel(weights)):
            close(there.curved(K, products, J).fetched(), kernel, 1e-10)
        pull = here.between(0, c, J.factor, change)
        close(found.between(0, c, J.factor, change), pull, 1e-10)


def test_products_that_stay(device, monkeypatch, lower):
    lower(device_entries=0)
    monkeypatch.setattr("manykernels.banks.torch.tiled.FEW", 10)
    X, _ = toy(60)
    host, there = (make_bank(FEATURES, X, device=name) for name in ("cpu", device.name))
    beta, weights, some = RNG.standard_normal((2, 60)), RNG.random(host.m), np.array([7, 0, 3])
    here, found = host.held_products(beta), there.held_products(beta)
    assert isinstance(found, DeviceProducts)
    assert found.shape == here.shape
    flat = found.reshape(len(found), -1)
    close(flat @ beta.ravel(), here.reshape(len(here), -1) @ beta.ravel(), 1e-10)
    close(weights @ flat, weights @ here.reshape(len(here), -1), 1e-10)
    close(found[some], here[some], 1e-10)
    close(found[some, 1], here[some, 1], 1e-10)
    twice = np.float64(2.0) * found
    twice += found
    close(twice[some], 3.0 * here[some], 1e-10)
    close(found[some], here[some], 1e-10)
    monkeypatch.setattr("manykernels.banks.torch.tiled.HELD_SHARE", 0.0)
    assert isinstance(there.held_products(beta), np.ndarray)


@pytest.mark.parametrize("p", [1.0, 1.33])
def test_many_kernels_of_single_features(device, p, monkeypatch, lower):
    """Programs are solved on the device, and the certificate is recomputed on the host."""
    lower(device_entries=0)
    monkeypatch.setattr("manykernels.machines.device.FEW", 10)
    monkeypatch.setattr("manykernels.banks.torch.tiled.FEW", 10)
    X, y = toy(150)
    host, there = (make_bank(FEATURES, X, device=name) for name in ("cpu", device.name))
    one, other = (
        solve(Problem(bank, y, np.full(150, 5.0), PNormBall(p)), Newton(), tol=1e-4)
        for bank in (host, there)
    )
    assert other.status.converged
    assert other.objective == pytest.approx(one.objective, rel=2e-4)
    problem = Problem(host, y, np.full(150, 5.0), PNormBall(p))
    assert problem.certificate(other.weights, other.beta).gap <= 1.1e-4


@pytest.mark.parametrize("resident", [True, False])
def test_a_plan_is_printed(device, resident, monkeypatch, capfd, lower):
    lower(device_entries=0, device_entries_of_subsets=0)
    if not resident:
        computed = replace(TOLERANCES, resident_share=0.0, active_share=0.0)
        monkeypatch.setattr("manykernels.banks.torch.place.MACHINE_TOLERANCES", computed)
    X, y = toy(60)
    MKLClassifier([RBF(1.0), Linear()], device=device.name, verbose=2).fit(X, y)
    words = capfd.readouterr().err
    assert f"device {device.name}" in words
    assert ("stays there" if resident else "active points") in words
    some = KernelCollection.masked_rbf(np.ones(40), np.ones((40, X.shape[1]), dtype=bool))
    MKLClassifier(some, device=device.name, verbose=2).fit(X, y)
    assert "products of 40 kernels with all points" in capfd.readouterr().err
    MKLClassifier([RBF(1.0), Linear()], device=device.name).fit(X, y)
    assert "device" not in capfd.readouterr().err
