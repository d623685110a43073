"""Banks on PyTorch's devices against the banks of the host; on a GPU too where there is one."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_classification

from conftest import MIXED, toy
from manykernels import MKLClassifier, MKLRegressor, load, save
from manykernels.banks import CombinationBank, ResolvedKernels, make_bank
from manykernels.banks.torch import moved_to_device
from manykernels.banks.torch.device import Device
from manykernels.combinations import PolynomialMixture, Product
from manykernels.kernels import RBF, KernelCollection, Laplacian, Linear, Polynomial, Precomputed
from manykernels.losses import EpsilonInsensitive, Hinge, SquaredHinge
from manykernels.lowrank import Nystroem
from manykernels.machines import DenseMachine
from manykernels.machines.device import TOLERANCES, DeviceMachine, DeviceRows
from manykernels.problem import Problem
from manykernels.regularizers import L1, PNormBall
from manykernels.solvers import SPG, Newton, solve

pytestmark = pytest.mark.device
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
DEVICES = ["torch"] + (["cuda"] if torch.cuda.is_available() else [])
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-10}

X, Y = toy(70)
RNG = np.random.default_rng(1)
GRAM = X @ X.T


def callable_kernel(A, B):
    return np.tanh(A[:, :1]) @ np.tanh(B[:, :1]).T


SETS = {
    "mixed": KernelCollection(MIXED),
    "families": KernelCollection(
        [
            *(RBF(g) for g in (0.01, 0.3, 5.0)),
            *(RBF(g, features=1) for g in (0.2, 4.0)),
            Laplacian(0.5),
            Linear(),
            Polynomial(2),
            Polynomial(3, features=[0]),
            callable_kernel,
        ]
    ),
    "masked": KernelCollection.masked_rbf(
        RNG.uniform(0.1, 2.0, 40), RNG.random((40, X.shape[1])) < 0.6
    ),
}


@pytest.fixture(params=DEVICES)
def device(request, lower):
    lower(
        device_entries=0,
        device_entries_of_subsets=0,
        device_operations_on_factors=0,
        device_points_of_tables=0,
    )
    return request.param


def banks(name, device, dtype=np.float64, normalize="diagonal"):
    host = make_bank(SETS[name], X, dtype=dtype, normalize=normalize)
    there = make_bank(SETS[name], X, dtype=dtype, normalize=normalize, device=device)
    assert type(there) is not type(host) or normalize == "center"
    return host, there


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("normalize", ["diagonal", "trace", "cosine", None])
@pytest.mark.parametrize("name", SETS)
class TestBanks:
    def test_values(self, name, device, dtype, normalize):
        host, there = banks(name, device, dtype, normalize)
        weights, beta, change = (
            RNG.random(host.m),
            RNG.standard_normal((2, 70)),
            RNG.standard_normal((2, 70)),
        )
        beta[:, ::3] = 0.0
        tol = TOLERANCE[dtype]

        def close(a, b):
            np.testing.assert_allclose(a, b, rtol=tol, atol=tol * np.abs(b).max())

        close(there.combine(weights), host.combine(weights))
        close(there.combine(weights, [5, 2, 60]), host.combine(weights, [5, 2, 60]))
        close(there.quadratic_forms(beta), host.quadratic_forms(beta))
        close(there.quadratic_forms(beta[0]), host.quadratic_forms(beta[0]))
        close(there.products(beta), host.products(beta))
        close(there.products(beta[1]), host.products(beta[1]))
        close(there.decision(weights, beta), host.decision(weights, beta))
        for a, b in zip(
            there.directional_forms(beta, change), host.directional_forms(beta, change), strict=True
        ):
            close(a, b)
        J = PNormBall(1.5).curvature(np.abs(host.quadratic_forms(beta)))
        swept = there.newton_sums(weights, beta, J).host(), host.newton_sums(weights, beta, J)
        for a, b in zip(*swept, strict=True):
            close(a, b)
        close(there.columns([3, 9]), host.columns([3, 9]))
        close(there.diagonal(), host.diagonal())

    def test_new_points(self, name, device, dtype, normalize):
        host, there = banks(name, device, dtype, normalize)
        new, support = RNG.standard_normal((11, X.shape[1])), np.array([1, 5, 30])
        weights, beta = RNG.random(host.m), RNG.standard_normal((2, 3))
        expected = host.cross(new, support).decision(weights, beta)
        np.testing.assert_allclose(
            there.cross(new, support).decision(weights, beta), expected, rtol=1e-9, atol=1e-10
        )


@pytest.mark.parametrize("name", SETS)
def test_other_banks_of_the_same_kernels(name, device):
    _, there = banks(name, device, np.float32)
    assert there.refined().dtype == np.float64
    assert there.refined().refined() is None
    again = pickle.loads(pickle.dumps(there))
    beta = RNG.standard_normal(70)
    np.testing.assert_allclose(again.quadratic_forms(beta), there.quadratic_forms(beta), rtol=1e-6)
    if there.cheap_subsets:
        np.testing.assert_allclose(
            there.take_kernels(np.array([1, 7])).quadratic_forms(beta),
            there.quadratic_forms(beta)[[1, 7]],
            rtol=1e-5,
        )
    elif there.take_points(np.arange(5)) is not None:
        rows = np.array([4, 9, 22])
        np.testing.assert_allclose(
            there.take_points(rows).combine(np.ones(there.m)),
            there.combine(np.ones(there.m))[np.ix_(rows, rows)],
            rtol=1e-5,
        )


@pytest.mark.parametrize("name", SETS)
def test_memory_that_runs_out_halves_the_tiles(name, device, monkeypatch):
    host, there = banks(name, device)
    work, seen = Device.sparing, []

    def sparing(self, function, part):
        def failing(inner):
            seen.append(inner.stop - inner.start)
            if inner.stop - inner.start > 20:
                raise torch.OutOfMemoryError("full")
            return function(inner)

        return work(self, failing, part)

    monkeypatch.setattr(Device, "sparing", sparing)
    beta = RNG.standard_normal(70)
    np.testing.assert_allclose(there.quadratic_forms(beta), host.quadratic_forms(beta), rtol=1e-9)
    np.testing.assert_allclose(
        there.combine(np.ones(host.m)), host.combine(np.ones(host.m)), rtol=1e-9, atol=1e-12
    )
    assert max(seen) > 20 >= min(seen)


def test_tiles_of_one_row_that_do_not_fit_are_an_error():
    def full(_):
        raise torch.OutOfMemoryError("full")

    with pytest.raises(torch.OutOfMemoryError):
        Device("torch").sparing(full, slice(0, 100))


@pytest.mark.parametrize("held", [True, False])
# runs do not give it the logistic loss, whose systems of equations are solved on the host
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), EpsilonInsensitive(0.1)], ids=repr)
def test_the_machine(loss, held, device, monkeypatch):
    A, b = toy(200)
    y = A[:, 0] if isinstance(loss, EpsilonInsensitive) else b
    bank = make_bank(KernelCollection(MIXED), A, device=device)
    weights, cost = np.full(bank.m, 0.2), np.full(200, 3.0)
    if not held:
        computed = replace(TOLERANCES, resident_share=0.0, active_share=0.0)
        monkeypatch.setattr("manykernels.machines.device.TOLERANCES", computed)
    found = DeviceMachine(size=8).solve(DeviceRows(bank, weights), loss, y, cost, tol=1e-4)
    exact = DenseMachine().solve(bank.combine(weights), loss, y, cost, tol=1e-6)
    assert found.primal - found.dual < 1e-2
    assert found.dual == pytest.approx(exact.dual, rel=1e-4)
    np.testing.assert_allclose(found.scores, bank.combine(weights) @ found.beta, atol=1e-8)


def test_slopes_follow_the_coefficients(device):
    """Programs of Newton's steps have slopes that are not ``K beta - linear``."""
    A, b = toy(200)
    bank, rng = make_bank(KernelCollection(MIXED), A, device=device), np.random.default_rng(0)
    box, weights = Hinge().box(b, np.full(200, 3.0)), np.full(bank.m, 0.2)
    beta, given = box.feasible(rng.standard_normal(200)), rng.standard_normal(200)
    F, start = given.copy(), beta.copy()
    DeviceMachine(size=32).ascend(DeviceRows(bank, weights), box, beta, F, 1e-3, 10_000)
    assert np.abs(beta - start).max() > 0.1
    np.testing.assert_allclose(F, given + bank.combine(weights) @ (beta - start), atol=1e-6)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("p", [1.0, 1.33])
def test_fits_agree_by_objective(name, p, device):
    host, there = banks(name, device, np.float32)
    for solver in (Newton(), SPG()):
        one, other = (
            solve(Problem(bank, Y, np.full(70, 5.0), PNormBall(p)), solver, tol=1e-3)
            for bank in (host, there)
        )
        assert other.status.converged
        assert other.objective == pytest.approx(one.objective, rel=2.1e-3)
        fresh = Problem(host.refined(), Y, np.full(70, 5.0), PNormBall(p)).certificate(
            other.weights, other.beta
        )
        assert fresh.gap <= 1.1e-3


@pytest.mark.parametrize("groups", [None, "aabb"])
def test_products(groups, device, tmp_path, lower):
    lower(copied_kernel_points=10)  # SVMs there, too
    product = Product(None if groups is None else list(groups), starts=1)
    host = CombinationBank(product.fit(X))
    there = moved_to_device(host, device)
    weights, beta, new = (
        RNG.random(host.m),
        RNG.standard_normal((2, 70)),
        RNG.standard_normal((9, 4)),
    )
    beta[:, ::4] = 0.0
    np.testing.assert_allclose(there.combine(weights), host.combine(weights), atol=1e-12)
    np.testing.assert_allclose(
        there.combine(weights, [4, 2]), host.combine(weights, [4, 2]), atol=1e-12
    )
    np.testing.assert_allclose(
        there.weight_gradient(weights, beta),
        host.weight_gradient(weights, beta),
        rtol=1e-9,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        there.weight_gradient(weights, beta, [1]), host.weight_gradient(weights, beta, [1])
    )
    rough = moved_to_device(CombinationBank(product.fit(X), dtype=np.float32), device)
    assert rough.combine(weights).dtype == np.float32
    np.testing.assert_allclose(rough.combine(weights), host.combine(weights), atol=2e-7)
    few = rough.take_points(np.arange(20))
    assert few.device is rough.device
    np.testing.assert_allclose(few.combine(weights), rough.combine(weights)[:20, :20], atol=2e-7)
    some = np.array([1, 8, 30])
    expected = host.cross(new, some).decision(weights, beta[:, some])
    np.testing.assert_allclose(
        there.cross(new, some).decision(weights, beta[:, some]), expected, atol=1e-10
    )
    models = [
        MKLClassifier(combination=product, regularizer=L1(0.1), device=place).fit(X, Y)
        for place in ("cpu", device)
    ]
    assert models[1].result_.objective == pytest.approx(models[0].result_.objective, rel=1e-3)
    save(models[1], tmp_path / "m.mk")
    np.testing.assert_allclose(
        load(tmp_path / "m.mk").decision_function(new), models[1].decision_function(new), atol=1e-8
    )


def test_low_rank(device):
    A, b = toy(300)
    host = Nystroem(15).fit(ResolvedKernels.from_data(KernelCollection(MIXED), A), A)
    there = moved_to_device(host, device)
    beta, v = RNG.standard_normal((2, 300)), RNG.standard_normal((2, host.width))
    np.testing.assert_allclose(there.correlate(beta), host.correlate(beta), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(there.dot(v), host.dot(v), rtol=1e-6, atol=1e-6)
    for exact in (True, False):
        np.testing.assert_allclose(
            there.gram(beta[0] ** 2, exact), host.gram(beta[0] ** 2, exact), rtol=1e-5, atol=1e-4
        )
    models = [
        MKLClassifier(MIXED, approximation=Nystroem(15), p=1.5, device=place).fit(A, b)
        for place in ("cpu", device)
    ]
    np.testing.assert_allclose(*(model.decision_function(A) for model in models), atol=2e-2)


class TestEstimators:
    def test_classes_and_tensors(self, device):
        A, b = make_classification(150, 6, n_informative=4, n_classes=3, random_state=0)
        options = {"kernels": [RBF(0.05), RBF(0.5), Linear()], "p": 1.5}
        host = MKLClassifier(**options).fit(A, b)
        there = MKLClassifier(**options, device=device).fit(torch.tensor(A), torch.tensor(b))
        assert there.result_.objective == pytest.approx(host.result_.objective, rel=2e-3)
        assert np.mean(there.predict(torch.tensor(A)) == host.predict(A)) > 0.98
        assert np.mean(pickle.loads(pickle.dumps(there)).predict(A) == there.predict(A)) == 1.0

    def test_more_points_than_are_worth_a_copy(self, device, lower):
        lower(copied_kernel_points=10)
        A, b = toy(300)
        host = MKLClassifier(MIXED, p=1.33, solver="group_lasso").fit(A, b)
        there = MKLClassifier(MIXED, p=1.33, solver="group_lasso", device=device).fit(A, b)
        assert there.result_.objective == pytest.approx(host.result_.objective, rel=2e-3)

    def test_centered_precomputed_and_regression(self, device):
        centered = MKLClassifier(MIXED, normalize="center", p=2.0, device=device).fit(X, Y)
        assert centered.score(X, Y) == MKLClassifier(MIXED, normalize="center", p=2.0).fit(
            X, Y
        ).score(X, Y)
        index = np.arange(70)[:, None]
        given = [
            MKLClassifier([Precomputed(GRAM)], device=place).fit(index, Y)
            for place in ("cpu", device)
        ]
        np.testing.assert_allclose(*(model.decision_function(index) for model in given), atol=1e-2)
        numbers = [
            MKLRegressor(MIXED, p=2.0, device=place).fit(X, X[:, 0]) for place in ("cpu", device)
        ]
        np.testing.assert_allclose(*(model.predict(X) for model in numbers), atol=3e-2)

    @pytest.mark.parametrize(
        "options", [{}, {"normalize": "center"}, {"approximation": Nystroem(10)}], ids=str
    )
    def test_models_leave_the_device(self, device, options, tmp_path):
        model = MKLClassifier(MIXED, device=device, **options).fit(X, Y)
        save(model, tmp_path / "m.mk")
        np.testing.assert_allclose(
            load(tmp_path / "m.mk").decision_function(X), model.decision_function(X), atol=1e-5
        )
        masked = MKLClassifier(SETS["masked"], device=device).fit(X, Y)
        save(masked, tmp_path / "m.mk")
        np.testing.assert_allclose(
            load(tmp_path / "m.mk").decision_function(X), masked.decision_function(X), atol=1e-5
        )

    def test_a_device_that_is_not_here(self, device):
        model = MKLClassifier(MIXED, device=device).fit(X, Y)
        model.bank_.device.name = "cuda:77"
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_allclose(
            again.decision_function(X),
            model.set_params(device="cpu").fit(X, Y).decision_function(X),
            atol=1e-2,
        )

    def test_what_does_not_go(self, device, tmp_path):
        bank = make_bank(KernelCollection(MIXED), X, device=device)
        with pytest.raises(ValueError, match="not a fitted bank"):
            MKLClassifier(bank, device=device).fit(X, Y)
        # the device is no part of the problem
        MKLClassifier(bank, checkpoint=str(tmp_path / "run.mk")).fit(X, Y)
        with pytest.raises(ValueError, match="is for sums and products"):
            MKLClassifier(combination=PolynomialMixture(), device=device).fit(X, Y)

    @pytest.mark.skipif("cuda" in DEVICES, reason="there is a CUDA device")
    def test_no_gpu_here(self):
        with pytest.raises(ValueError, match="finds no such device here"):
            MKLClassifier(device="cuda").fit(X, Y)

    def test_small_problems_stay_on_the_host(self):
        bank = make_bank(KernelCollection(MIXED), X)
        if torch.cuda.is_available():
            assert moved_to_device(bank, "cuda") is bank
        assert moved_to_device(bank, "cpu") is bank
