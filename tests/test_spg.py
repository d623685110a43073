"""SPG-GMKL: optimality, limit cases, ablations, and the papers' data sets."""

import numpy as np
import pytest
from sklearn.svm import SVC

from conftest import MIXED, toy
from manykernels.banks import make_bank
from manykernels.kernels import RBF, KernelCollection, Precomputed, paper_bank
from manykernels.problem import Problem
from manykernels.regularizers import L1, PNormBall, SquaredPNorm
from manykernels.solvers import SPG, choose_solver, solve
from reference import mkl_optimum

NORMS = [1, 1.1, 1.33, 2, 4, np.inf]


def formulations(p):
    return [PNormBall(p), SquaredPNorm(p, 0.5)] + ([L1(0.7)] if p == 1 else [])


def solved(bank, y, C, regularizer, tol=1e-8, solver=None, **options):
    return solve(
        Problem(bank, y, np.full(y.shape[-1], float(C)), regularizer),
        solver or SPG(),
        tol=tol,
        **options,
    )


@pytest.mark.parametrize("regularizer", [r for p in NORMS for r in formulations(p)], ids=repr)
@pytest.mark.parametrize(
    ("seed", "n", "m", "C"),
    [(0, 30, 5, 3.0), pytest.param(1, 40, 8, 0.5, marks=pytest.mark.long), (2, 24, 6, 100.0)],
)
def test_objective_agrees_with_cvxpy(regularizer, seed, n, m, C):
    X, y = toy(n, seed)
    bank = make_bank(KernelCollection(MIXED[:m]), X)
    result = solved(bank, y, C, regularizer)
    optimum = mkl_optimum(bank.columns(np.arange(n)), y, np.full(n, C), regularizer)
    assert result.status.name == "OPTIMAL"
    assert result.duality_gap <= 1e-8
    assert result.objective == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("p", NORMS)
def test_one_kernel_is_an_svm(p):
    X, y = toy(60)
    K = RBF(0.5).block(X, X)
    result = solved(make_bank(KernelCollection([RBF(0.5)]), X), y, 2.0, PNormBall(p), tol=1e-10)
    svc = SVC(C=2.0, kernel="precomputed", tol=1e-10).fit(K, y)
    beta = np.zeros(60)
    beta[svc.support_] = svc.dual_coef_[0]
    np.testing.assert_allclose(result.beta[0], beta, atol=1e-5)
    assert result.intercept[0] == pytest.approx(svc.intercept_[0], abs=1e-5)
    assert result.weights == pytest.approx([1.0])


@pytest.mark.parametrize("regularizer", [PNormBall(1), L1(0.7)], ids=repr)
def test_a_duplicated_kernel_changes_nothing(regularizer):
    X, y = toy()
    once, twice = (
        make_bank(KernelCollection(kernels), X) for kernels in (MIXED, MIXED + MIXED[:3])
    )
    a, b = (solved(bank, y, 3.0, regularizer) for bank in (once, twice))
    assert a.objective == pytest.approx(b.objective, rel=2e-8)


def test_infinite_p_is_the_plain_sum():
    X, y = toy()
    bank = make_bank(KernelCollection(MIXED), X)
    result = solved(bank, y, 3.0, PNormBall(np.inf))
    svc = SVC(C=3.0, kernel="precomputed", tol=1e-10).fit(bank.combine(np.ones(bank.m)), y)
    np.testing.assert_array_equal(result.weights, 1.0)
    beta = np.zeros(len(y))
    beta[svc.support_] = svc.dual_coef_[0]
    np.testing.assert_allclose(result.beta[0], beta, atol=1e-4)


def test_large_p_approaches_the_plain_sum():
    X, y = toy()
    bank = make_bank(KernelCollection(MIXED), X)
    assert solved(bank, y, 3.0, PNormBall(1000)).weights == pytest.approx(np.ones(bank.m), abs=0.02)


def test_the_right_kernels_win():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 10))
    y = np.sign(X[:, 3] * X[:, 7])
    kernels = [RBF(0.5, features=[f, (f + 4) % 10]) for f in range(10)]
    result = solved(make_bank(KernelCollection(kernels), X), y, 10.0, PNormBall(1), tol=1e-4)
    assert result.weights.argmax() == 3
    assert result.weights[3] > 3 * np.delete(result.weights, 3).max()


ABLATIONS = {
    "SPG": SPG(),
    "gradient": SPG(proximal=False),
    "PGD+N+S": SPG(tune_tolerance=False, proximal=False),
    "PGD+S": SPG(nonmonotone=False, tune_tolerance=False, proximal=False),
    "PGD+N": SPG(spectral=False, tune_tolerance=False, proximal=False),
    "PGD": choose_solver("pgd"),
    "random start": SPG(start="random", random_state=3),
}


@pytest.mark.parametrize("name", ABLATIONS)
@pytest.mark.parametrize("regularizer", [SquaredPNorm(2), PNormBall(2), L1(0.7)], ids=repr)
def test_every_ablation_reaches_the_same_optimum(name, regularizer):
    X, y = toy(30)
    bank = make_bank(KernelCollection(MIXED[:4]), X)
    reference = solved(bank, y, 1.0, regularizer)
    result = solved(bank, y, 1.0, regularizer, tol=1e-3, solver=ABLATIONS[name], max_iter=20000)
    assert result.status.name == "OPTIMAL"
    assert result.objective == pytest.approx(reference.objective, rel=1.1e-3)


def test_switches_do_what_they_say():
    X, y = toy(60)
    bank = make_bank(KernelCollection(MIXED), X)
    solves = {
        name: solved(bank, y, 10.0, SquaredPNorm(2), 1e-3, ABLATIONS[name], max_iter=20000).counters
        for name in ABLATIONS
    }
    assert solves["SPG"].svm_solves < solves["PGD"].svm_solves
    assert solves["PGD+S"].svm_solves < solves["PGD"].svm_solves
    # rough SVMs are what tuning saves
    assert solves["gradient"].machine_steps < solves["PGD+N+S"].machine_steps


def test_iteration_limit_is_said():
    X, y = toy()
    result = solved(make_bank(KernelCollection(MIXED), X), y, 3.0, PNormBall(1), max_iter=2)
    assert result.status.name == "MAX_ITER"
    assert result.n_iter == 2
    assert result.duality_gap > 1e-8


def test_result_is_the_best_iterate():
    X, y = toy()
    result = solved(make_bank(KernelCollection(MIXED), X), y, 3.0, PNormBall(1), tol=1e-6)
    assert result.certificate.absolute_gap <= min(
        record.gap * record.objective for record in result.history
    ) * (1 + 1e-9)


def test_separable_points_with_opposite_duplicates():
    """Hard cases: contradictory labels, a tiny and a huge C."""
    X = np.repeat(np.eye(3), 2, axis=0)
    y = np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
    bank = make_bank(KernelCollection([RBF(1.0), RBF(10.0)]), X)
    for C in (1e-6, 1.0, 1e6):
        result = solved(bank, y, C, PNormBall(1), tol=1e-6)
        assert result.status.name == "OPTIMAL", result
        assert np.isfinite(result.beta).all()


@pytest.mark.parametrize(
    "name",
    [
        "sonar",
        "liver",
        "wpbc",
        *[
            pytest.param(name, marks=pytest.mark.long)
            for name in ("ionosphere", "breast_cancer", "australian", "diabetes")
        ],
    ],
)
@pytest.mark.parametrize(
    "p",
    [1, pytest.param(1.1, marks=pytest.mark.long), 1.33, pytest.param(2, marks=pytest.mark.long)],
)
@pytest.mark.parametrize("n", [80, pytest.param(300, marks=pytest.mark.long)])
def test_papers_sets_are_certified(load, name, p, n):
    X, y = load(name)
    # many points take minutes for p = 1
    rows = np.random.default_rng(0).permutation(len(y))[: n // 3 if p == 1 else n]
    X, y = X[rows], y[rows]
    bank = make_bank(paper_bank(X), X, normalize="trace", dtype=np.float32)
    exact = make_bank(paper_bank(X), X, normalize="trace", dtype=np.float64)
    for regularizer in (PNormBall(p), L1() if p == 1 else SquaredPNorm(p)):
        # by default it ends when Newton's method would be worth a try
        result = solved(bank, y, 100.0, regularizer, tol=1e-3, max_iter=3000)
        assert result.status.name == "OPTIMAL", (regularizer, str(result))
        # from scratch and in float64: the float32 kernels have not fooled the certificate
        certificate = Problem(exact, y, np.full(len(y), 100.0), regularizer).certificate(
            result.weights, result.beta
        )
        assert certificate.gap <= 1e-3 * (1 + 1e-2)


@pytest.mark.parametrize("factor", [1e-300, 1e300])
def test_kernels_of_extreme_scale(factor):
    X, y = toy()
    K = RBF(0.5).block(X, X)
    index = np.arange(len(y))[:, None]
    for normalize in ("diagonal", "trace", None):
        bank = make_bank(
            KernelCollection([Precomputed(K * factor), Precomputed(K)]), index, normalize=normalize
        )
        result = solved(bank, y, 1.0, PNormBall(2), tol=1e-3)
        assert np.isfinite(result.weights).all()
        assert np.isfinite(result.beta).all()
