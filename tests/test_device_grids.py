"""Problems in lockstep on PyTorch's devices: against the engine, Problem and NumPy."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import make_regression

from conftest import toy
from manykernels import MKLClassifier, MKLClassifierCV, MKLRegressorCV, planning
from manykernels.banks import make_bank
from manykernels.banks.torch.device import Device
from manykernels.estimators.search import batches
from manykernels.kernels import RBF, KernelCollection, Linear, Precomputed
from manykernels.losses import (
    EpsilonInsensitive,
    HardMargin,
    Hinge,
    Logistic,
    Squared,
    SquaredHinge,
)
from manykernels.lowrank import Nystroem
from manykernels.problem import Problem
from manykernels.regularizers import L1, PNormBall
from manykernels.solvers import Newton, lockstep, solve

pytestmark = pytest.mark.device
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from manykernels.banks.torch.stacks import FactorStack, MatrixStack  # noqa: E402

DEVICES = ["torch"] + (["cuda"] if torch.cuda.is_available() else [])
X, Y = toy(60)
KERNELS = KernelCollection([RBF(0.1), RBF(1.0), Linear(), RBF(0.5, features=0)])
NORMS = (1.0, 1.33, 2.0, 4.0, np.inf)
LOSSES = {"hinge": Hinge(), "squared_hinge": SquaredHinge(), "squared": Squared()}


@pytest.fixture(params=DEVICES)
def device(request):
    return Device(request.param)


def matrices(bank):
    return np.stack([bank.combine(row) for row in np.eye(bank.m)])


def stated(bank, loss, y, costs=(0.03, 1.0, 30.0)):
    return [
        Problem(bank, y[None], np.full(len(y), C), PNormBall(p), loss) for C in costs for p in NORMS
    ]


@pytest.mark.parametrize("loss", LOSSES)
def test_every_problem_has_the_optimum_of_the_engine(device, loss):
    y = X[:, 0] + 0.1 * X[:, 1] if loss == "squared" else Y
    banks = [
        make_bank(KERNELS, X[:n], dtype=np.float64, normalize="diagonal") for n in (len(Y), 41)
    ]
    groups = []
    for bank in banks:
        K = device.put(matrices(bank))
        problems = stated(bank, LOSSES[loss], y[: bank.n])
        groups.append(lockstep.Group(MatrixStack(K, K[:, :3]), problems))
    for group, answers in zip(groups, lockstep.solve(device, groups, 1e-5), strict=True):
        for problem, answer in zip(group.problems, answers, strict=True):
            assert answer.finished
            result = batches.certified(problem, answer, 1e-5, 0.0)
            again = problem.certificate(result.weights, result.beta)
            assert again.gap <= 1.01e-5
            assert result.certificate.gap == pytest.approx(again.gap, abs=1e-9)
            assert result.certificate.primal == pytest.approx(again.primal, rel=1e-9)
            other = solve(problem, Newton(), tol=1e-5)
            assert result.objective == pytest.approx(other.objective, rel=2e-5)


def test_decision_values_of_held_out_rows(device):
    bank = make_bank(KERNELS, X, dtype=np.float64)
    K = matrices(bank)
    stack = MatrixStack(device.put(K), device.put(K[:, :7]))
    rng = np.random.default_rng(0)
    weights, beta = rng.random((3, bank.m)), rng.normal(size=(3, bank.n))
    (values,) = device.fetched(stack.values(device.put(weights), device.put(beta)))
    expected = [np.tensordot(d, K[:, :7], 1) @ b for d, b in zip(weights, beta, strict=True)]
    np.testing.assert_allclose(values, expected, rtol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_factors_are_the_matrices_that_they_make(device, loss):
    rng = np.random.default_rng(0)
    Q, P = rng.normal(size=(len(Y), 6)), rng.normal(size=(9, 6))
    offsets = [0, 2, 5, 9]
    V = Q @ P.T
    K = np.stack([V[:, a:b] @ V[:, a:b].T for a, b in pairwise(offsets)])
    rows = np.arange(len(Y), dtype=float)[:, None]
    collection = KernelCollection([Precomputed(one) for one in K])
    bank = make_bank(collection, rows, dtype=np.float64, normalize=None)
    problems = stated(bank, LOSSES[loss], Y)
    there = [device.put(one) for one in (Q, P, V[:5])]
    stacks = FactorStack(device, *there, offsets), MatrixStack(device.put(K), device.put(K[:, :5]))
    found = [lockstep.solve(device, [lockstep.Group(one, problems)], 1e-4)[0] for one in stacks]
    for problem, narrow, whole in zip(problems, *found, strict=True):
        results = [batches.certified(problem, one, 1e-4, 0.0) for one in (narrow, whole)]
        assert results[0].objective == pytest.approx(results[1].objective, rel=2e-4)
        again = problem.certificate(results[0].weights, results[0].beta)
        assert again.gap == pytest.approx(results[0].certificate.gap, abs=1e-8)
    weights, beta = np.ones((1, 3)), Y[None].astype(float)
    values = [one.values(device.put(weights), device.put(beta)) for one in stacks]
    np.testing.assert_allclose(*device.fetched(*values), rtol=1e-9)


@pytest.mark.parametrize(("n", "size"), [(1, 1), (300, 4), (513, 1)])
def test_cholesky_factors_of_many_matrices(device, n, size):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(size, n, n))
    H, right = A @ A.transpose(0, 2, 1) + n * np.eye(n), rng.normal(size=(size, n, 2))
    solver = lockstep.Cholesky(torch, device.put(H.copy()))  # which it overwrites
    (found,) = device.fetched(solver.solve(device.put(right)))
    np.testing.assert_allclose(found, np.linalg.solve(H, right), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("regularizer", "loss"),
    [
        (PNormBall(2), Logistic()),
        (PNormBall(2), HardMargin()),
        (PNormBall(2), EpsilonInsensitive(0.1)),
        (L1(1.0), Hinge()),
    ],
)
def test_problems_that_are_not_taken(regularizer, loss):
    bank = make_bank(KERNELS, X)
    assert not lockstep.takes(Problem(bank, Y[None], np.ones(len(Y)), regularizer, loss))
    assert lockstep.takes(Problem(bank, Y[None], np.ones(len(Y)), PNormBall(2), Hinge()))


GRID = {"Cs": [0.1, 1.0, 10.0], "ps": [1, 2], "cv": 3, "exhaustive": True}


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("approximation", [None, Nystroem(rank=20, random_state=0)])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_grid_is_that_of_the_host(name, approximation, loss):
    models = [
        MKLClassifierCV(
            KERNELS, device=one, approximation=approximation, loss=loss, tol=1e-6, **GRID
        )
        for one in ("cpu", name)
    ]
    here, there = (model.fit(X, Y) for model in models)
    assert planning.Way.IN_LOCKSTEP in there.plan_.ways
    assert planning.Way.IN_LOCKSTEP not in here.plan_.ways
    np.testing.assert_allclose(there.scores_, here.scores_, atol=1e-9)
    assert (there.C_, there.p_) == (here.C_, here.p_)
    np.testing.assert_allclose(there.oof_decision_, here.oof_decision_, atol=5e-3)
    folds = zip(there.held_out_folds_, here.held_out_folds_, strict=True)
    for ours, theirs in folds:
        np.testing.assert_allclose(
            ours.model.decision_function(X), theirs.model.decision_function(X), atol=5e-3
        )
    assert there.cv_results_.shape == here.cv_results_.shape


def test_a_race_leaves_out_the_same_cells():
    options = {"kernels": "whole", "Cs": [1e-3, 1.0, 10.0], "ps": [1, 2], "tol": 1e-6}
    here, there = (MKLClassifierCV(**options, device=d).fit(X, Y) for d in ("cpu", "torch"))
    assert planning.Way.IN_LOCKSTEP in there.plan_.ways
    np.testing.assert_array_equal(np.isnan(there.scores_), np.isnan(here.scores_))


def test_regression_with_the_squared_loss():
    A, b = make_regression(60, 4, noise=5.0, random_state=0)
    options = {"kernels": "whole", "loss": "squared", "tol": 1e-6, **GRID}
    here, there = (MKLRegressorCV(**options, device=d).fit(A, b) for d in ("cpu", "torch"))
    assert planning.Way.IN_LOCKSTEP in there.plan_.ways
    np.testing.assert_allclose(there.scores_, here.scores_, atol=1e-4)


@pytest.mark.parametrize(
    "changed", [{"loss": "logistic"}, {"max_iter": 50}, {"solver": "spg"}, {"normalize": "center"}]
)
def test_other_problems_go_to_the_engine(changed):
    model = MKLClassifierCV(KERNELS, device="torch", Cs=[1.0], ps=[2], cv=2, **changed).fit(X, Y)
    assert planning.Way.IN_LOCKSTEP not in model.plan_.ways
    assert np.isfinite(model.scores_).all()


def test_what_is_not_finished_goes_to_the_engine(monkeypatch):
    options = {"kernels": KERNELS, "tol": 1e-6, **GRID}
    here = MKLClassifierCV(**options).fit(X, Y)
    monkeypatch.setattr(lockstep, "TOLERANCES", lockstep.Tolerances(steps=9))
    there = MKLClassifierCV(**options, device="torch").fit(X, Y)
    np.testing.assert_allclose(there.scores_, here.scores_, atol=1e-9)


def test_many_chunks_are_as_one(monkeypatch):
    options = {"kernels": KERNELS, "device": "torch", "tol": 1e-6, **GRID}
    whole = MKLClassifierCV(**options).fit(X, Y)
    monkeypatch.setattr(batches, "problems_at_once", lambda largest, free: 2)
    parts = MKLClassifierCV(**options).fit(X, Y)
    np.testing.assert_allclose(parts.oof_decision_, whole.oof_decision_, atol=1e-6)


def test_a_checkpoint_of_a_grid_is_gone_on_from(tmp_path):
    options = {"kernels": KERNELS, "device": "torch", "checkpoint": tmp_path / "grid", **GRID}
    first = MKLClassifierCV(**options).fit(X, Y)
    again = MKLClassifierCV(**options).fit(X, Y)
    np.testing.assert_array_equal(again.scores_, first.scores_)


def test_several_classes_go_to_the_engine():
    y = np.arange(len(Y)) % 3
    model = MKLClassifierCV(KERNELS, device="torch", Cs=[1.0], ps=[2], cv=2).fit(X, y)
    assert planning.Way.IN_LOCKSTEP not in model.plan_.ways
    assert isinstance(model, MKLClassifier)
