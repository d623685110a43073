"""The table of solvers times a table of problems: every solver is judged by the same certificate."""

import numpy as np
import pytest

from conftest import MIXED, toy
from manykernels.kernels import KernelBank, paper_bank
from manykernels.losses import Hinge
from manykernels.machines import DenseMachine
from manykernels.problem import Problem
from manykernels.regularisers import L1, PNormBall, Regulariser, SquaredPNorm
from manykernels.solvers import SOLVERS, SPG, GroupLasso, Newton, choose_solver, drive
from manykernels.solvers.fixed import Alignment
from reference import mkl_optimum

NORMS = [1, 1.1, 1.33, 2, 3, 10, np.inf]
FORMULATIONS = [PNormBall(p) for p in NORMS] + [SquaredPNorm(p, 0.5) for p in NORMS] + [L1(0.7)]
TIGHT = {"newton": 1e-8, "spg": 1e-8, "group_lasso": 1e-7}  # gap to ask for on the small problems; 1e-4 by default
FIXED = ("alignment", "uniform")


def table():
    return [
        pytest.param(name, regulariser, id=f"{name}-{regulariser!r}")
        for name in SOLVERS
        if name not in FIXED
        for regulariser in FORMULATIONS
        if name != "pgd" or getattr(regulariser, "p", 2) >= 2  # plain gradients fail near zero for p near 1
    ]


def outputs(n, classes):
    X, y = toy(n)
    if classes == 2:
        return X, y
    codes = np.digitize(X[:, 0] + X[:, 1], np.linspace(-1, 1, classes - 1))
    return X, np.stack([np.where(codes == c, 1.0, -1.0) for c in range(classes)])


@pytest.mark.parametrize(("name", "regulariser"), table())
@pytest.mark.parametrize(("classes", "C"), [(2, 3.0), (2, 100.0), (3, 1.0)])
def test_reaches_the_optimum(name, regulariser, classes, C):
    X, y = outputs(36, classes)
    bank = KernelBank(MIXED).fit(X)
    problem = Problem(bank, y, np.full(36, C), regulariser)
    solver = choose_solver(name)
    if not solver.fits(problem):
        with pytest.raises(ValueError, match=r"use solver='(spg|newton)'"):
            drive(solver, problem)
        return
    tol = TIGHT.get(name, 1e-4)
    if name == "newton" and classes > 2 and not regulariser.smooth:
        tol = 1e-5  # the programs of the outputs are coupled the more strongly the colder the smoothing
    result = drive(solver, problem, tol=tol, max_iter=20_000)
    assert result.status.name == "OPTIMAL", str(result)
    fresh = Problem(bank, y, np.full(36, C), regulariser).certificate(result.weights, result.beta)
    assert fresh.gap <= tol * (1 + 1e-3)
    optimum = mkl_optimum(bank.columns(np.arange(36)), y, np.full(36, C), regulariser)
    assert result.objective == pytest.approx(optimum, rel=max(1e-6, 2 * tol))
    assert (result.weights >= 0).all()


@pytest.mark.parametrize("name", ["sonar", "ionosphere", "liver", "breast_cancer", "australian", "diabetes", "wpbc"])
@pytest.mark.parametrize("C", [1.0, 100.0, 1e4])
def test_newton_needs_few_iterations(load, name, C):
    X, y = load(name)
    bank = paper_bank(X).fit(X, normalise="trace")
    for p in (1, 1.1, 1.33, 2, 3, 10):
        for regulariser in (PNormBall(p), SquaredPNorm(p)):
            if p == 1 and not isinstance(regulariser, PNormBall):
                continue
            result = drive(Newton(), Problem(bank, y, np.full(len(y), C), regulariser), tol=1e-6)
            coarse = next(record.iteration for record in result.history if record.gap <= 1e-3)
            assert result.status.name == "OPTIMAL", (regulariser, str(result))
            assert coarse <= (40 if p == 1 else 15), (regulariser, coarse)
            assert result.n_iter <= (60 if p == 1 else 20), (regulariser, result.n_iter)


def test_newton_keeps_few_kernels_for_p_1(load):
    X, y = load("sonar")
    bank = paper_bank(X).fit(X, normalise="trace", dtype=np.float32)
    result = drive(Newton(), Problem(bank, y, np.full(len(y), 100.0), PNormBall(1)), tol=1e-3)
    assert result.duality_gap <= 1e-3
    assert np.count_nonzero(result.weights) < 120
    assert result.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("p", [2.0, 1000.0])
@pytest.mark.parametrize("make", [PNormBall, SquaredPNorm])
def test_group_lasso_of_large_p_does_not_overflow(make, p):
    X, y = toy()
    bank = KernelBank(MIXED).fit(X)
    result = drive(GroupLasso(), Problem(bank, y, np.full(40, 10.0), make(p)), tol=1e-6)
    assert result.status.name == "OPTIMAL"
    assert np.isfinite(result.weights).all()


@pytest.mark.parametrize("regulariser", [r for r in FORMULATIONS if hasattr(r, "reweight")], ids=repr)
def test_reweight_minimises(regulariser, rng):
    norms = rng.exponential(size=5)

    def value(d):
        return 0.5 * np.sum(norms / d) + regulariser.value(d)

    d = regulariser.reweight(norms)
    for _ in range(200):
        other = d * np.exp(0.1 * rng.standard_normal(5))
        if isinstance(regulariser, PNormBall):
            other /= np.linalg.norm(other, regulariser.p)
        assert value(d) <= value(other) * (1 + 1e-12)


@pytest.mark.parametrize("regulariser", FORMULATIONS, ids=repr)
@pytest.mark.parametrize("name", FIXED)
class TestFixedWeights:
    def test_the_svm_is_solved_and_the_gap_is_true(self, name, regulariser):
        X, y = toy(40)
        bank = KernelBank(MIXED).fit(X)
        problem = Problem(bank, y, np.full(40, 3.0), regulariser)
        result = drive(choose_solver(name), problem, tol=1e-6)
        assert result.status.name in ("FIXED_WEIGHTS", "OPTIMAL")
        assert np.isfinite(regulariser.value(result.weights))
        svm = DenseMachine().solve(bank.combine(result.weights), Hinge(), y, np.full(40, 3.0), tol=1e-9)
        assert result.objective == pytest.approx(svm.dual + regulariser.value(result.weights), rel=1e-5)
        best = drive(SPG(), Problem(bank, y, np.full(40, 3.0), regulariser), tol=1e-6)
        assert result.objective >= best.objective * (1 - 1e-5)
        assert result.certificate.dual <= best.objective * (1 + 1e-9)


def test_alignment_follows_its_definition():
    X, y = toy(40)
    bank = KernelBank(MIXED).fit(X)
    result = drive(Alignment(), Problem(bank, y, np.full(40, 3.0), PNormBall(2)), tol=1e-3)
    H = np.eye(40) - 1 / 40
    alignments = [np.sum((H @ K @ H) * np.outer(y, y)) / np.linalg.norm(H @ K @ H) for K in bank.columns(np.arange(40))]
    np.testing.assert_allclose(result.weights / result.weights.sum(), alignments / np.sum(alignments), rtol=1e-6)


class TestChoice:
    X, y = toy()
    bank = KernelBank(MIXED).fit(X)

    def problem(self, regulariser, **options):
        return Problem(self.bank, self.y, np.ones(40), regulariser, **options)

    def test_auto(self):
        assert isinstance(choose_solver("auto", self.problem(PNormBall(1))), Newton)
        assert isinstance(choose_solver("auto", self.problem(SquaredPNorm(2))), Newton)
        assert isinstance(choose_solver("auto", self.problem(L1())), SPG)
        assert isinstance(choose_solver("auto", self.problem(SquaredPNorm(1))), SPG)
        assert isinstance(choose_solver("auto", self.problem(PNormBall(2), memory_budget=100)), SPG)

    def test_objects_are_kept(self):
        mine = SPG(nonmonotone=False)
        assert choose_solver(mine) is mine

    def test_unknown(self):
        with pytest.raises(ValueError, match="Unknown solver"):
            choose_solver("sgd")
        with pytest.raises(NotImplementedError, match="not there yet"):
            choose_solver("mwu")

    def test_what_does_not_fit_names_what_does(self):
        class Own(Regulariser):
            def value(self, d):
                return float(d.sum())

            def gradient(self, d):
                return np.ones_like(d)

        for solver in (Newton(), GroupLasso()):
            with pytest.raises(ValueError, match="use solver='spg'"):
                drive(solver, self.problem(Own()))
        with pytest.raises(ValueError, match="raise cache_size or use solver='spg'"):
            drive(Newton(), self.problem(PNormBall(2), memory_budget=100))
