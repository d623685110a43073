"""Low-rank kernels on PyTorch's devices against those of the host; on a GPU too where there is
one.
"""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_classification

from conftest import MIXED, toy
from manykernels import MKLClassifier, MKLOneClass, MKLRegressor
from manykernels.banks import FactorBank, ResolvedKernels
from manykernels.banks.lowrank.basis import ReducedBank, reduced
from manykernels.banks.torch import factors, moved_to_device
from manykernels.banks.torch.device import Device
from manykernels.banks.torch.factors import DeviceFactorBank, Resident, Streamed
from manykernels.kernels import RBF, KernelCollection
from manykernels.losses import LOSSES, EpsilonInsensitive, OneClass
from manykernels.lowrank import IncompleteCholesky, Nystroem, RandomFourier
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.run_state import RunState
from manykernels.solvers import solve
from manykernels.solvers.lowrank.interior import Interior
from manykernels.solvers.lowrank.multipliers import Multipliers
from manykernels.solvers.lowrank.primal import PrimalNewton

pytestmark = pytest.mark.device
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
DEVICES = ["torch"] + (["cuda"] if torch.cuda.is_available() else [])
MANY = KernelCollection([RBF(1 / (2 * w * w)) for w in 10.0 ** np.linspace(0, 2, 20)])
X, Y = toy(400)


@pytest.fixture(params=DEVICES)
def device(request, lower):
    lower(
        device_entries=0,
        device_entries_of_subsets=0,
        device_operations_on_factors=0,
        device_points_of_tables=0,
    )
    return Device(request.param)


@pytest.fixture(params=["resident", "streamed"])
def limited(request, monkeypatch):
    """Whether there is room for the factors on the device."""
    if request.param == "streamed":
        changed(monkeypatch, held=0.0)
    return request.param == "streamed"


def changed(monkeypatch, **sizes):
    """Take other sizes for factors on a device."""
    monkeypatch.setattr(factors, "SIZES", replace(factors.SIZES, **sizes))


def host_bank(kernels=MIXED, rank=15, dtype=np.float32):
    on_points = ResolvedKernels.from_data(KernelCollection(kernels), X)
    return Nystroem(rank).fit(on_points, X, dtype=dtype)


def close(a, b, tol):
    np.testing.assert_allclose(a, b, rtol=tol, atol=tol * np.abs(b).max())


def check_protocol(there, host, tol):
    """Every method of a bank gives what that of the host gives."""
    rng = np.random.default_rng(0)
    weights, beta = rng.random(host.m), rng.standard_normal((2, host.n))
    v = rng.standard_normal((2, host.width))
    beta[:, ::3] = 0.0
    for name, *args in (
        ("dot", v),
        ("correlate", beta),
        ("gram", beta[0] ** 2),
        ("gram", beta[0] ** 2, True),
        ("gram", 1.0 + beta[0] ** 2),
        ("combine", weights),
        ("combine", weights, [3, 1]),
        ("quadratic_forms", beta),
        ("products", beta),
        ("products", beta[0]),
        ("columns", [4, 7]),
        ("diagonal",),
        ("combined_diagonal", weights),
        ("largest", weights),
        ("decision", weights, beta),
        ("decision", weights, beta[1]),
        ("coefficients", weights, beta),
        ("squared_norms", v),
        ("whole",),
    ):
        close(getattr(there, name)(*args), getattr(host, name)(*args), tol)
    few = np.arange(0, host.n, 7)
    close(there.take_points(few).whole(), host.take_points(few).whole(), tol)
    # vectors that are on the device already
    close(there.correlate(there.to_device(beta)), host.correlate(beta), tol)
    close(there.values(v).cpu().numpy(), host.dot(v), tol)
    close(
        there.decision(weights, there.to_device(beta)).cpu().numpy(),
        host.decision(weights, beta),
        tol,
    )
    new = X[:9] + 0.1
    close(there.cross(new).decision(weights, beta), host.cross(new).decision(weights, beta), tol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_banks(device, limited, dtype, monkeypatch):
    changed(monkeypatch, panel=16)
    host = host_bank(dtype=dtype)
    there = moved_to_device(host, device.name)
    assert type(there) is DeviceFactorBank
    assert type(there.store) is (Streamed if limited else Resident)
    check_protocol(there, host, {np.float32: 2e-5, np.float64: 1e-10}[dtype])
    some = np.array([1, 3])
    close(there.take_kernels(some, 2.0).whole(), host.take_kernels(some, 2.0).whole(), 1e-6)


def test_small_spaces(device):
    plain = host_bank(MANY, 20)
    there = reduced(moved_to_device(plain, device.name))
    assert type(there) is ReducedBank
    assert there.points.width < 0.6 * there.width
    close(there.whole(), plain.whole(), 3e-5)
    of = there.points.whole() @ there.P.cpu().numpy().T
    check_protocol(there, FactorBank(of.astype(np.float32), plain.offsets, plain.features), 1e-4)
    weights, v = np.random.default_rng(0).random(20), np.ones((1, there.width))
    root, P = there.root(weights).cpu().numpy(), there.P.cpu().numpy()
    close(there.lasting(v), v @ P @ P.T, 1e-9)
    close(root @ root.T, (P.T * there.column_weights(weights)) @ P, 1e-9)


def test_what_is_not_worth_a_small_space_stays(device, monkeypatch):
    few = moved_to_device(host_bank(), device.name)
    assert reduced(few) is few
    exact = moved_to_device(host_bank(MANY, 20, np.float64), device.name)
    assert reduced(exact) is exact
    spread = host_bank([RBF(g) for g in (5.0, 50.0)], 150)
    spread = moved_to_device(spread, device.name)
    assert reduced(spread) is spread
    for value in (0.0, np.nan):
        plain = host_bank(MANY, 20)
        empty = FactorBank(np.full_like(plain.factors, value), plain.offsets, plain.features)
        empty = moved_to_device(empty, device.name)
        assert reduced(empty) is empty


@pytest.mark.parametrize(
    "approximation", [Nystroem(15), Nystroem(10, n_landmarks=30), IncompleteCholesky(12)], ids=repr
)
def test_factors_made_there(approximation, device, limited, tmp_path):
    on_points = ResolvedKernels.from_data(KernelCollection(MIXED), X)
    check_made(approximation, on_points, device)


def test_fourier_features_made_there(device, limited):
    gaussians = KernelCollection([RBF(0.3), RBF(2.0, features=[0, 2])])
    check_made(RandomFourier(20), ResolvedKernels.from_data(gaussians, X), device)


def test_masked_kernels_made_there(device, limited):
    rng = np.random.default_rng(0)
    masked = KernelCollection.masked_rbf(rng.uniform(0.1, 2.0, 7), rng.random((7, 4)) < 0.6)
    check_made(Nystroem(20), ResolvedKernels.from_data(masked, X), device)


def check_made(approximation, on_points, device):
    host = approximation.fit(on_points, X, dtype=np.float64)
    there = approximation.fit(on_points, X, dtype=np.float64, device=device)
    np.testing.assert_array_equal(there.offsets, host.offsets)
    rng = np.random.default_rng(0)
    weights, beta = rng.random(host.m), rng.standard_normal((1, host.n))
    close(there.decision(weights, beta), host.decision(weights, beta), 1e-6)
    # the map that predictions are made with is that of the factors
    close(there.whole(), there.features.transform(X), 1e-8)


def test_sums_over_many_points_are_exact_enough(device):
    # with sums of half a million products in float32 the equations, of eigenvalues of one and more,
    # were wrong by more than one, and Newton's method took no step
    n, r = 400_000, 12
    V = (0.3 + 0.1 * np.random.default_rng(0).random((n, r))).astype(np.float32)
    features = type("Map", (), {"m": 1})()
    there = DeviceFactorBank(
        Resident(device, torch.tensor(V, device=device.place)), [0, r], features
    )
    scale = np.full(n, 4.0)  # whose root rounds nothing
    exact = (V.T.astype(float) * scale) @ V.astype(float)
    for fine in (False, True):
        error = np.linalg.eigvalsh(there.gram(scale, fine) - exact)
        assert np.abs(error).max() < (1e-12 if fine else 5e-8) * np.trace(exact)
    close(there.correlate(scale)[0], V.astype(float).T @ scale, 1e-12)
    close(there.dot(np.ones(r))[0], V.astype(float).sum(axis=1), 1e-12)


def test_equations_from_those_of_other_bends(device, limited, monkeypatch):
    changed(monkeypatch, panel=16)
    host = host_bank()
    there, rng = moved_to_device(host, device.name), np.random.default_rng(0)
    system, scale = None, np.where(rng.random(host.n) < 0.5, 4.0, 0.0)
    for flips in (0, 0, 3, 50, 300):
        chosen = rng.choice(host.n, flips, replace=False)
        scale[chosen] = 4.0 - scale[chosen]
        system = there.system(there.to_device(scale.copy()), False, system)
        close(system.H.cpu().numpy(), host.system(scale, True).H, 1e-6)
        pull, step = rng.standard_normal((2, host.width + 1))
        assert system.value(pull, step) == pytest.approx(
            host.system(scale).value(pull, step), rel=1e-4
        )
        right = pull, step[:-1], np.zeros(host.width)
        found, expected = (
            one.rooted(host.root(np.ones(host.m))).solve(*right)
            for one in (system, host.system(scale))
        )
        for a, b in zip(found, expected, strict=True):
            close(a, b, 1e-3)


@pytest.mark.parametrize("p", [1.0, 1.33])
@pytest.mark.parametrize(
    "loss", ["hinge", "squared_hinge", "logistic", "squared", "epsilon_insensitive", "one_class"]
)
def test_solvers_agree_with_the_host(loss, p, device, limited):
    host = host_bank(rank=25)
    there = moved_to_device(host, device.name)
    made = {"epsilon_insensitive": EpsilonInsensitive(0.1), "one_class": OneClass(0.3)}
    loss = made.get(loss) or LOSSES[loss]()
    targets = Y if loss.separates else X[:, 0] + 0.1 * X[:, 1]
    cost = np.where(np.arange(len(Y)) % 9 == 0, 0.0, 5.0)  # and some points that do not count
    problems = [Problem(bank, targets, cost, PNormBall(p), loss) for bank in (host, there)]
    for solver in (PrimalNewton(), Interior(), Multipliers()):
        if not solver.fits(RunState(problems[0])):
            continue
        one, other = (solve(problem, solver, tol=1e-4) for problem in problems)
        assert other.status.converged
        assert other.objective == pytest.approx(one.objective, rel=2.1e-4)
        assert problems[0].certificate(other.weights, other.beta).gap <= 1.1e-4


def options(**more):
    return {"kernels": MANY, "approximation": Nystroem(20), "C": 10.0, "tol": 1e-3} | more


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_fits_agree_with_the_host(loss, device, limited):
    new = toy(100, seed=5)[0]
    host = MKLClassifier(**options(loss=loss, p=1.33)).fit(X, Y)
    there = MKLClassifier(**options(loss=loss, p=1.33, device=device.name)).fit(X, Y)
    assert there.result_.status.converged
    assert there.result_.objective == pytest.approx(host.result_.objective, rel=2.1e-3)
    assert np.mean(there.predict(new) == host.predict(new)) > 0.95


@pytest.mark.parametrize("share", [True, False])
def test_classes(share, device):
    A, b = make_classification(300, 6, n_informative=4, n_classes=3, random_state=0)
    for loss in ("hinge", "squared_hinge"):
        more = {"share_weights": share, "loss": loss, "p": 1.5}
        host = MKLClassifier(**options(**more)).fit(A, b)
        there = MKLClassifier(**options(**more, device=device.name)).fit(A, b)
        assert there.result_.objective == pytest.approx(host.result_.objective, rel=2.1e-3)


def test_other_estimators(device):
    host = MKLRegressor(**options(p=2.0)).fit(X, X[:, 0])
    there = MKLRegressor(**options(p=2.0, device=device.name)).fit(X, X[:, 0])
    assert there.result_.objective == pytest.approx(host.result_.objective, rel=2.1e-3)
    alone = {name: value for name, value in options().items() if name != "C"}
    host, there = (MKLOneClass(**alone, device=place).fit(X) for place in ("cpu", device.name))
    assert there.result_.objective == pytest.approx(host.result_.objective, rel=2.1e-3)


@pytest.mark.parametrize("solver", ["spg", "group_lasso"])
def test_other_solvers(solver, device):
    host, there = (
        MKLClassifier(**options(p=1.5, solver=solver, device=place)).fit(X, Y)
        for place in ("cpu", device.name)
    )
    assert there.result_.objective == pytest.approx(host.result_.objective, rel=2.1e-3)


def test_factors_of_three_times_the_memory(device, monkeypatch, tmp_path):
    needed = 4 * 400 * 20 * 12
    monkeypatch.setattr(Device, "free", lambda self: needed // 3)
    for more in ({}, {"approximation": Nystroem(20, folder=str(tmp_path)), "cache_size": 0.01}):
        loose = MKLClassifier(
            **options(p=1.33, loss="squared_hinge") | more | {"cache_size": None}
        ).fit(X, Y)
        tight = MKLClassifier(
            **options(p=1.33, loss="squared_hinge", device=device.name) | more
        ).fit(X, Y)
        assert tight.result_.objective == pytest.approx(loose.result_.objective, rel=2.1e-3)
    with pytest.raises(ValueError, match="give the approximation a folder"):
        MKLClassifier(**options(device=device.name, cache_size=0.01)).fit(X, Y)


def test_memory_that_runs_out_halves_the_blocks(device, monkeypatch):
    work, seen = Device.sparing, []

    def sparing(self, function, part):
        def failing(inner):
            seen.append(inner.stop - inner.start)
            if inner.stop - inner.start > 60:
                raise torch.OutOfMemoryError("full")
            return function(inner)

        return work(self, failing, part)

    host = MKLClassifier(**options(p=1.33)).fit(X, Y)
    monkeypatch.setattr(Device, "sparing", sparing)
    there = MKLClassifier(**options(p=1.33, device=device.name)).fit(X, Y)
    assert there.result_.objective == pytest.approx(host.result_.objective, rel=2.1e-3)
    assert max(seen) > 60 >= min(seen)


def test_a_plan_before_the_work(device, capsys):
    MKLClassifier(**options(verbose=2, device=device.name)).fit(X, Y)
    said = capsys.readouterr().err
    assert "the factors, 400 x" in said
    assert "stay there" in said
