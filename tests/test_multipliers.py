"""The method of multipliers on low-rank factors: losses with corners."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_moons

import reference
from conftest import MIXED, toy
from manykernels import MKLClassifier, MKLRegressor
from manykernels.banks import ResolvedKernels
from manykernels.kernels import RBF, KernelCollection
from manykernels.losses import EpsilonInsensitive, Hinge, Logistic, OneClass
from manykernels.lowrank import Nystroem
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall, SquaredPNorm
from manykernels.result import Status
from manykernels.solvers import Interior, Multipliers, solve
from manykernels.solvers.lowrank import multipliers

X, Y = toy(80)
BANK = Nystroem(12).fit(ResolvedKernels.from_data(KernelCollection(MIXED), X), X, dtype=np.float64)
NUMBERS = X[:, 0] + np.sin(3.0 * X[:, 1]) + 40.0


def stated(loss, C, regularizer):
    targets = Y if isinstance(loss, Hinge) else NUMBERS
    return Problem(BANK, targets, np.full(80, C), regularizer, loss=loss)


@pytest.fixture(scope="module")
def many():
    """A problem with many more points than columns, some without weight, and its labels."""
    A, labels = toy(1500)
    noisy = np.where(np.arange(1500) % 9 == 0, -labels, labels)
    kernels = KernelCollection([RBF(0.1), RBF(1.0), RBF(5.0)])
    bank = Nystroem(8).fit(ResolvedKernels.from_data(kernels, A), A)
    cost = np.random.default_rng(0).choice([0.0, 1.0, 4.0], 1500)
    return Problem(bank, noisy, cost, PNormBall(2))


@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.2)], ids=repr)
@pytest.mark.parametrize("C", [0.3, 30.0])
@pytest.mark.parametrize(
    "regularizer", [PNormBall(1), PNormBall(1.5), PNormBall(np.inf), SquaredPNorm(1.5)], ids=repr
)
def test_agrees_with_the_interior_point_method(loss, C, regularizer):
    tol = 1e-5
    found = solve(stated(loss, C, regularizer), Multipliers(), tol=tol)
    other = solve(stated(loss, C, regularizer), Interior(), tol=tol)
    assert found.status is Status.OPTIMAL, str(found)
    assert found.objective == pytest.approx(other.objective, rel=2 * tol, abs=1e-9)
    fresh = stated(loss, C, regularizer).certificate(found.weights, found.beta)
    assert abs(fresh.gap) <= 1.01 * tol


@pytest.mark.parametrize("p", [1, 2])
def test_agrees_with_cvxpy(p):
    A, labels = toy(40)
    resolved = ResolvedKernels.from_data(KernelCollection(MIXED[:3]), A)
    bank = Nystroem(6).fit(resolved, A, dtype=np.float64)
    grams = [bank.block(k) @ bank.block(k).T for k in range(bank.m)]
    best = reference.mkl_optimum(grams, labels, np.full(40, 3.0), PNormBall(p))
    found = solve(Problem(bank, labels, np.full(40, 3.0), PNormBall(p)), Multipliers(), tol=1e-6)
    assert found.objective == pytest.approx(best, rel=3e-6)


def test_large_costs_in_float32():
    """Coefficients of a thousand that nearly cancel."""
    A, labels = toy(300)
    kernels = KernelCollection([RBF(1 / (2 * w * w)) for w in (1.0, 3.0, 10.0, 30.0, 100.0)])
    bank = Nystroem(20).fit(ResolvedKernels.from_data(kernels, A), A, dtype=np.float32)
    flipped = np.where(np.arange(300) % 7 == 0, -labels, labels)
    problem = Problem(bank, flipped, np.full(300, 1000.0), PNormBall(1.1))
    assert solve(problem, Multipliers(), tol=1e-3).status is Status.OPTIMAL


def test_many_points_begin_with_a_sample(many, monkeypatch):
    sizes = []
    taken = type(many.bank).take_points
    monkeypatch.setattr(
        type(many.bank), "take_points", lambda of, rows: sizes.append(len(rows)) or taken(of, rows)
    )
    found = solve(many, Multipliers(), tol=1e-4)
    assert sizes == [multipliers.TOLERANCES.sample_per_column * many.bank.width]
    assert found.status is Status.OPTIMAL
    assert not found.beta[many.cost == 0.0].any()
    other = solve(many, Interior(), tol=1e-4)
    assert found.objective == pytest.approx(other.objective, rel=2e-4)


def test_a_sample_is_taken_of_points_with_weight(many):
    few = replace(many, cost=np.where(np.arange(1500) < 40, 1.0, 0.0))
    found = solve(few, Multipliers(), tol=1e-3)
    assert found.status is Status.OPTIMAL


def test_starts_from_an_earlier_result(many):
    first = solve(many, Multipliers(), tol=1e-4)
    assert solve(many, Multipliers(), tol=2e-4, start=first).n_iter == 0
    dearer = replace(many, cost=1.2 * many.cost)
    cold = solve(dearer, Multipliers(), tol=1e-4)
    warm = solve(dearer, Multipliers(), tol=1e-4, start=first)
    assert warm.status is Status.OPTIMAL
    assert warm.counters.kernel_passes < cold.counters.kernel_passes


def test_hardly_any_errors_at_a_large_cost(many):
    """Few points bend, so that corners must become wider again."""
    A, _ = toy(1500)
    separated = replace(many, targets=np.sign(A[None, :, 0]), cost=np.full(1500, 1e4))
    assert solve(separated, Multipliers(), tol=1e-3).status is Status.OPTIMAL


@pytest.mark.parametrize("C", [10.0, 49.0])  # 49 (1 / 49) is not one
def test_all_points_bend_at_first(C):
    problem = stated(Hinge(), C, PNormBall(2))
    width = multipliers.TOLERANCES.first_widths[0] * multipliers._ranges(problem)[1]
    (corner,) = multipliers._corners(problem, width, np.zeros((1, 80)))
    assert corner.response(np.zeros(80))[1].all()


def test_the_interior_point_method_takes_over(many, monkeypatch):
    monkeypatch.setattr(multipliers, "_length", lambda *_: 0.0)  # no step leads anywhere
    found = solve(many, Multipliers(), tol=1e-3)
    assert found.status is Status.OPTIMAL
    assert found.n_iter > multipliers.TOLERANCES.centers_without_gain


def test_several_outputs():
    y = np.stack([Y, np.where(X[:, 0] > 0, 1.0, -1.0), np.ones(80)])
    cost = np.random.default_rng(0).choice([0.0, 1.0, 5.0], (3, 80))
    problem = Problem(BANK, y, cost, PNormBall(1.5))
    found, other = (solve(problem, of, tol=1e-4) for of in (Multipliers(), Interior()))
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(other.objective, rel=2e-4)


@pytest.mark.parametrize("after", [0, 6])
def test_interrupted(many, monkeypatch, after):
    steps, length = [], multipliers._length

    def interrupted(*of):
        steps.append(0)
        if len(steps) > after:
            raise KeyboardInterrupt
        return length(*of)

    monkeypatch.setattr(multipliers, "_length", interrupted)
    found = solve(many, Multipliers(), tol=1e-4)
    assert found.status is Status.INTERRUPTED
    fresh = many.certificate(found.weights, found.beta)
    assert found.duality_gap == pytest.approx(fresh.gap)


@pytest.mark.parametrize(("loss", "other"), [(Logistic(), "primal"), (OneClass(), "interior")])
def test_other_losses_are_refused(loss, other):
    problem = Problem(BANK, Y, np.ones(80), PNormBall(2), loss=loss)
    with pytest.raises(ValueError, match=f"use solver='{other}'"):
        solve(problem, Multipliers())


def test_estimators():
    A, labels = make_moons(1500, noise=0.2, random_state=0)
    model = MKLClassifier([RBF(0.1), RBF(1.0)], p=2.0, approximation=Nystroem(10)).fit(A, labels)
    assert "method of multipliers" in str(model.plan_)
    assert model.score(A, labels) > 0.9
    numbers = MKLRegressor([RBF(0.1), RBF(1.0)], p=2.0, approximation=Nystroem(10), tol=1e-3)
    numbers.fit(A, 100.0 + A[:, 0])
    assert "method of multipliers" in str(numbers.plan_)
    assert numbers.score(A, 100.0 + A[:, 0]) > 0.9


def test_equations_are_changed_where_few_curvatures_are():
    rng = np.random.default_rng(0)
    bends = rng.choice([0.0, 2.0], 80)
    other = np.where(rng.random(80) < 0.1, 2.0 - bends, bends)
    before = BANK.system(bends)
    changed, fresh = BANK.system(other, before=before), BANK.system(other)
    assert changed.H is before.H
    np.testing.assert_allclose(changed.H, fresh.H, atol=1e-10)
    assert BANK.system(rng.random(80), before=before).H is not before.H
