"""Laws of every regularizer, on random vectors."""

import numpy as np
import pytest
from scipy.optimize import minimize

from conftest import MIXED, toy
from manykernels import MKLClassifier
from manykernels._loops.conjugates import respond
from manykernels.banks import ResolvedKernels, make_bank
from manykernels.banks.lowrank.basis import ReducedBank, reduced
from manykernels.kernels import RBF, KernelCollection, Linear
from manykernels.lowrank import Nystroem
from manykernels.problem import Problem
from manykernels.regularizers import (
    L1,
    BlockNorm,
    ElasticNet,
    GeneralizedKL,
    LogDet,
    PNormBall,
    SimplexRidge,
    SquaredPNorm,
)
from manykernels.solvers import SPG, solve
from manykernels.solvers.roots import Rooted
from manykernels.testing import check_regularizer

NORMS = [1, 1.05, 1.1, 1.33, 2, 3, 4, np.inf]
BALLS = [PNormBall(p) for p in NORMS]
SQUARED = [SquaredPNorm(p, strength=0.7) for p in NORMS]
GROUPS = ["a", "b", "b", "c", "a", "b"]
BLOCKS = [BlockNorm(GROUPS, r, p, strength=0.7) for r in (1, 1.1, 2, 3) for p in (1, 1.33, 2, 4)]
NETS = [ElasticNet(0.3, 0.8), ElasticNet(0.0, 2.0)]
X, y = toy(20)
BANK = make_bank(KernelCollection(MIXED), X)
PENALTIES = [
    *SQUARED,
    GeneralizedKL(0.3, strength=0.8),
    L1(0.4),
    *NETS,
    *BLOCKS,
    LogDet(0.6).bound(BANK),
]
RIDGES = [SimplexRidge(0.05), SimplexRidge(2.0)]
CONJUGATES = [r for r in BALLS + PENALTIES + RIDGES if r.has_weights]
CURVED = [r for r in CONJUGATES if r.has_curvature and 1 < getattr(r, "p", 2) < np.inf]
LAWFUL = [r for r in CURVED if r.compiled_conjugate is not None]
PROXIMAL = [r for r in PENALTIES if r.has_prox and not np.isinf(getattr(r, "p", 1))]


def smooth(regularizers):
    return [r for r in regularizers if not np.isinf(getattr(r, "p", 1))]


def size(r, m):
    """m, or the number of kernels that the regularizer prescribes."""
    if isinstance(r, LogDet):
        return BANK.m
    return len(GROUPS) if isinstance(r, BlockNorm) else m


@pytest.mark.parametrize("r", smooth(PENALTIES), ids=repr)
def test_gradient_is_that_of_the_value(r, rng):
    d = rng.random(size(r, 6)) + 0.1
    step = 1e-6
    numeric = [(r.value(d + step * e) - r.value(d - step * e)) / (2 * step) for e in np.eye(d.size)]
    np.testing.assert_allclose(r.gradient(d), numeric, rtol=1e-6)


TWICE = [r for r in smooth(PENALTIES) if r.has_hessian]


@pytest.mark.parametrize("r", [*TWICE, *map(Rooted, TWICE)], ids=repr)
def test_hessian_is_that_of_the_gradient(r, rng):
    d, step = rng.random(6) + 0.1, 1e-6
    numeric = [
        (r.gradient(d + step * e) - r.gradient(d - step * e)) / (2 * step) for e in np.eye(6)
    ]
    np.testing.assert_allclose(r.hessian(d).matrix, numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("r", BALLS, ids=repr)
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0, 1e6])
def test_projection_is_the_nearest_feasible_point(r, scale, rng):
    z = scale * rng.standard_normal(7)
    x = r.project(z)
    assert r.value(x) == 0.0
    # the variational inequality (z - x)'(v - x) <= 0 for feasible v characterizes the projection
    for _ in range(300):
        v = rng.random(7) * (rng.random(7) < 0.5)
        v /= max(np.linalg.norm(v, r.p), 1e-300)
        assert (z - x) @ (v - x) <= 1e-9 * scale
    np.testing.assert_allclose(r.project(x), x, atol=1e-12)


@pytest.mark.parametrize("shift", [1e15, 1e20, 1e200])
def test_projection_of_huge_points(shift):
    """Moving along the normal of the simplex changes nothing, though a one is not seen there."""
    np.testing.assert_array_equal(PNormBall(1).project(np.array([0.0, shift, 0.0])), [0, 1, 0])
    np.testing.assert_array_equal(PNormBall(1).project(np.full(4, shift)), np.full(4, 0.25))


@pytest.mark.parametrize("r", PENALTIES, ids=repr)
def test_projection_of_penalties(r, rng):
    x = r.project(rng.standard_normal(size(r, 7)))
    assert (x >= 0).all()
    np.testing.assert_allclose(r.project(x), x)
    x[1] = -0.1
    assert np.isinf(r.value(x))


@pytest.mark.parametrize("r", PROXIMAL, ids=repr)
@pytest.mark.parametrize("step", [1e-3, 0.4, 50.0])
def test_prox_minimizes(r, step, rng):
    z = 2 * rng.standard_normal(6)

    def objective(x):
        return 0.5 * np.square(x - z).sum() + step * r.value(np.maximum(x, 0))

    x = r.prox(z, step)
    starts = [np.maximum(z, 0) / (1 + step) + 1e-3, np.full(6, 0.1)]
    options = {"ftol": 1e-15, "gtol": 1e-10}
    best = min(minimize(objective, s, bounds=[(0, None)] * 6, options=options).fun for s in starts)
    assert (x >= 0).all()
    assert objective(x) <= best * (1 + 1e-8)


def test_prox_for_infinite_p_minimizes_on_the_ray(rng):
    r, z = SquaredPNorm(np.inf, 0.7), rng.random(6)
    levels = np.linspace(0, 1, 20001)
    values = [0.5 * np.square(c - z).sum() + 0.4 * r.value(np.full(6, c)) for c in levels]
    np.testing.assert_allclose(r.prox(z, 0.4), levels[np.argmin(values)], atol=1e-4)


@pytest.mark.parametrize("r", CONJUGATES, ids=repr)
def test_fenchel_young_with_equality_at_the_weights(r, rng):
    for _ in range(5):
        s = rng.exponential(size=6)
        phi, d = r.conjugate(s), r.weights(s)
        assert 0.5 * d @ s - r.value(d) == pytest.approx(phi, rel=1e-9)
        for _ in range(50):
            other = r.project(rng.exponential(size=6))
            assert 0.5 * other @ s - r.value(other) <= phi * (1 + 1e-12)


def test_conjugate_of_l1_and_its_scaling():
    r, s = L1(0.4), np.array([0.1, 3.0, 0.5])
    assert np.isinf(r.conjugate(s))
    scale = r.dual_scale(s)
    assert r.conjugate(scale**2 * s) == 0.0
    assert scale**2 * s.max() == pytest.approx(0.8)
    assert r.dual_scale(np.array([0.1, 0.2])) == 1.0
    assert not r.has_weights
    assert not r.has_curvature


@pytest.mark.parametrize("r", CURVED, ids=repr)
def test_curvature_is_the_derivative_of_the_weights(r, rng):
    s = 1.0 + 0.2 * rng.random(5)
    J = r.curvature(s)
    matrix = np.diag(J.diagonal) + J.factor * np.outer(J.vector, J.vector)
    step = 1e-6
    numeric = np.stack(
        [(r.weights(s + step * e) - r.weights(s - step * e)) / (2 * step) for e in np.eye(5)],
        axis=1,
    )
    np.testing.assert_allclose(matrix, numeric, atol=1e-6 * np.abs(numeric).max())


@pytest.mark.parametrize("r", LAWFUL, ids=repr)
def test_compiled_loops_know_the_same_law(r, rng):
    for s in (rng.exponential(size=6), np.array([1e-3, 1.0, 0.0, 0.2, 1e-15, 1.0])):
        d, diagonal = np.empty(6), np.empty(6)
        factor = respond(r.compiled_conjugate, s, d, diagonal)
        J = r.curvature(s)
        np.testing.assert_allclose(d, r.weights(s), rtol=1e-10)
        large = s > 1e-9  # below, the floors of the two differ
        pair = factor * np.outer(d, d), J.factor * np.outer(J.vector, J.vector)
        np.testing.assert_allclose(
            *(matrix[large][:, large] for matrix in pair), rtol=1e-9, atol=1e-12
        )
        np.testing.assert_allclose(diagonal[large], J.diagonal[large], rtol=1e-10)
        assert np.isfinite(diagonal).all()


def test_prior_weights_per_kernel(rng):
    r = GeneralizedKL(np.array([0.1, 1.0, 5.0]), 2.0)
    s, d, diagonal = rng.exponential(size=3), np.empty(3), np.empty(3)
    assert respond(r.compiled_conjugate, s, d, diagonal) == 0.0
    np.testing.assert_allclose(d, r.prior * np.exp(s / 4.0))
    np.testing.assert_array_equal(r.start(3), r.prior)
    with pytest.raises(ValueError, match="prior of 3 weights, but there are 4 kernels"):
        r.start(4)


@pytest.mark.parametrize("r", [PNormBall(1), SquaredPNorm(1)], ids=repr)
def test_no_curvature_at_a_kink(r):
    with pytest.raises(ValueError, match="kink"):
        r.curvature(np.ones(3))


@pytest.mark.parametrize("r", CONJUGATES, ids=repr)
def test_extreme_forms_do_not_overflow(r):
    for s in (
        np.zeros(6),
        np.array([0.0, 0.0, 1e-300, 0.0, 0.0, 0.0]),
        np.array([1e150, 1.0, 1e-150, 0.0, 1e150, 0.0]),
    ):
        with np.errstate(over="raise", invalid="raise"):
            d = r.weights(s)
        assert np.isfinite(d).all()
        assert (d >= 0).all()
        # e^(10^150) is infinite, and a certificate must not pretend otherwise
        assert np.isfinite(r.conjugate(s)) or isinstance(r, GeneralizedKL)
        # no weights on the simplex are free of the ridge
        assert r.conjugate(s) >= 0.0 or isinstance(r, SimplexRidge)


def test_elastic_net_has_no_weight_below_its_threshold(rng):
    r = ElasticNet(0.5, 2.0)
    np.testing.assert_allclose(r.weights(np.array([0.3, 1.0, 3.0])), [0.0, 0.0, 0.5])
    np.testing.assert_array_equal(r.curvature(np.array([0.3, 1.0, 3.0])).diagonal, [0.0, 0.0, 0.25])
    assert r.value(r.start(7)) == pytest.approx(1.0)
    ridge, d = SquaredPNorm(2, 2.0), rng.random(5)
    assert ElasticNet(0.0, 2.0).value(d) == pytest.approx(ridge.value(d))
    assert ElasticNet(0.0, 2.0).conjugate(d) == pytest.approx(ridge.conjugate(d))


@pytest.mark.parametrize("p", [1, 1.33, 3])
def test_block_norm_of_trivial_groups_is_the_squared_norm(p, rng):
    plain, s = SquaredPNorm(p, 0.7), rng.exponential(size=6)
    for r in (
        BlockNorm(range(6), 2, p, 0.7),
        BlockNorm(["all"] * 6, p, 2, 0.7),
        BlockNorm(GROUPS, p, p, 0.7),
    ):
        assert r.value(s) == pytest.approx(plain.value(s), rel=1e-12)
        assert r.conjugate(s) == pytest.approx(plain.conjugate(s), rel=1e-12)
        assert r.smooth == plain.smooth
        for method in ("gradient", "weights", "reweight", "start"):
            argument = 6 if method == "start" else s
            np.testing.assert_allclose(
                getattr(r, method)(argument), getattr(plain, method)(argument), rtol=1e-9
            )


@pytest.mark.parametrize("r", BLOCKS, ids=repr)
def test_block_norm_where_a_group_is_zero(r, rng):
    d = rng.random(6) * np.array([1, 0, 0, 1, 1, 0])
    for point in (d, np.zeros(6), 1e-300 * d):
        gradient = r.gradient(point)
        assert np.isfinite(gradient).all()
        for _ in range(50):  # a subgradient, for the norm is convex
            other = rng.exponential(size=6)
            assert r.value(other) >= r.value(point) + gradient @ (other - point) - 1e-12
    assert r.value(1e150 * d) == pytest.approx(1e300 * r.value(d))


@pytest.mark.parametrize("r", BLOCKS, ids=repr)
def test_block_norm_reweights_to_the_minimizer(r, rng):
    norms = rng.exponential(size=6)
    d = r.reweight(norms)
    np.testing.assert_allclose(r.gradient(d), norms / (2 * d**2), rtol=1e-9)
    without = r.reweight(norms * np.array([1, 0, 0, 1, 1, 0]))
    np.testing.assert_array_equal(without > 0, [True, False, False, True, True, False])
    np.testing.assert_array_equal(r.reweight(np.zeros(6)), np.zeros(6))


def test_block_norm_keeps_whole_groups():
    groups = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    result = solve(Problem(BANK, y, np.ones(20), BlockNorm(groups, strength=0.5)), SPG(), tol=1e-6)
    assert result.status.converged
    used = result.weights > 0
    np.testing.assert_array_equal(used[::2], used[1::2])
    assert 0 < used.sum() < 8


def test_block_norm_needs_a_label_for_each_kernel():
    with pytest.raises(ValueError, match="groups of 6 kernels, but there are 4 kernels"):
        BlockNorm(GROUPS).start(4)
    assert not BlockNorm(GROUPS, r=3).has_prox
    assert not BlockNorm(GROUPS, r=1, p=2).smooth


class TestLogDet:
    grams = BANK.columns(np.arange(BANK.n))
    d = np.linspace(0.0, 2.0, BANK.m)

    def test_equals_plain_numpy(self):
        r = LogDet(0.6).bound(BANK)
        A = np.eye(BANK.n) + np.tensordot(self.d, self.grams, 1)
        assert r.value(self.d) == pytest.approx(0.3 * np.linalg.slogdet(A)[1], rel=1e-12)
        traces = [np.trace(np.linalg.solve(A, K)) for K in self.grams]
        np.testing.assert_allclose(r.gradient(self.d), 0.3 * np.array(traces), rtol=1e-10)

    def test_factors_once_per_point(self, monkeypatch):
        r, calls = LogDet().bound(BANK), []
        combine = type(BANK).combine
        monkeypatch.setattr(
            type(BANK),
            "combine",
            lambda bank, d, rows=None: calls.append(d) or combine(bank, d, rows),
        )
        d = self.d.copy()
        first = r.value(d), r.gradient(d)
        assert len(calls) == 1
        d *= 2.0  # the same array with other weights is another point
        assert r.value(d) > first[0]
        assert (r.gradient(d) <= first[1]).all()  # concave along the ray
        assert len(calls) == 2

    def test_unbound(self):
        r = LogDet()
        for method in (r.value, r.gradient):
            with pytest.raises(ValueError, match=r"call bound\(bank\)"):
                method(self.d)
        assert r.bound(BANK) is not r
        assert r.bank is None

    def test_is_infinite_where_rounding_makes_the_kernel_indefinite(self):
        bank = make_bank(KernelCollection([Linear()]), X, dtype=np.float32)  # of rank 4
        assert np.isfinite(LogDet().bound(bank).value(np.ones(1)))
        assert np.isinf(LogDet().bound(bank).value(np.full(1, 1e12)))

    @pytest.mark.parametrize("shares_space", [False, True])
    def test_of_narrow_factors_equals_that_of_their_kernels(self, shares_space, lower, monkeypatch):
        lower(shared_basis_columns=1)
        kernels = KernelCollection([RBF(1 / (2 * w * w)) for w in np.geomspace(1.0, 100.0, 20)])
        points = toy(500)[0]
        on_points = ResolvedKernels.from_data(kernels, points)
        factors = Nystroem(10, random_state=0).fit(on_points, points, dtype=np.float32)
        bank = reduced(factors) if shares_space else factors
        assert isinstance(bank, ReducedBank) == shares_space
        V = bank.whole()
        grams = [V[:, of] @ V[:, of].T for of in map(bank.kernel_of.__eq__, range(bank.m))]
        monkeypatch.setattr(type(bank), "combine", None)  # no kernel of all points
        r = LogDet(0.6).bound(bank)
        for d in (np.linspace(0.0, 2.0, bank.m), np.geomspace(1e-4, 1e4, bank.m)):
            A = np.eye(len(points)) + np.tensordot(d, grams, 1)
            assert r.value(d) == pytest.approx(0.3 * np.linalg.slogdet(A)[1], rel=1e-6)
            traces = [np.trace(np.linalg.solve(A, K)) for K in grams]
            np.testing.assert_allclose(r.gradient(d), 0.3 * np.array(traces), rtol=1e-5)
        r.check_memory(0)

    def test_kernel_over_the_memory_budget_is_refused_before_it_is_made(self, monkeypatch):
        monkeypatch.setattr(type(BANK), "combine", None)
        r = LogDet().bound(BANK)
        r.check_memory(8 * BANK.n**2)
        with pytest.raises(ValueError, match=r"over the memory budget of .*: raise cache_size"):
            solve(Problem(BANK, y, np.ones(20), r), SPG(), memory_budget=8 * BANK.n**2 - 1)

    def test_spg_finds_a_stationary_point(self):
        r = LogDet(0.3).bound(BANK)
        result = solve(Problem(BANK, y, np.ones(20), r), SPG(), tol=1e-3)
        assert result.status.name == "STATIONARY"
        gradient = r.gradient(result.weights) - 0.5 * BANK.quadratic_forms(result.beta)
        step = result.weights - r.project(result.weights - gradient)
        assert np.abs(step).max() <= 0.05


@pytest.mark.parametrize("r", BALLS + PENALTIES, ids=repr)
def test_start_is_feasible(r):
    m = size(r, 9)
    d = r.start(m)
    assert np.isfinite(r.value(d))
    np.testing.assert_allclose(r.project(d), d)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PNormBall(0.5), "p >= 1"),
        (lambda: PNormBall("2"), "p >= 1"),
        (lambda: PNormBall(np.nan), "p >= 1"),
        (lambda: SquaredPNorm(0.9), "p >= 1"),
        (lambda: SquaredPNorm(2, strength=0), "strength > 0"),
        (lambda: L1(strength=-1), "strength > 0"),
        (lambda: GeneralizedKL(strength=0), "strength > 0"),
        (lambda: GeneralizedKL(prior=0.0), "prior of finite weights above 0"),
        (lambda: GeneralizedKL(prior=[1.0, np.nan]), "prior of finite weights above 0"),
        (lambda: ElasticNet(l1=-1), "l1 >= 0 and l2 > 0"),
        (lambda: ElasticNet(l1=np.nan), "l1 >= 0 and l2 > 0"),
        (lambda: ElasticNet(l2=0), "without l2 use L1"),
        (lambda: BlockNorm([]), "the label of each kernel"),
        (lambda: BlockNorm("aab"), "the label of each kernel"),
        (lambda: BlockNorm([[0, 1], [1, 0]]), "the label of each kernel"),
        (lambda: BlockNorm(GROUPS, r=0.5), "r=0.5"),
        (lambda: BlockNorm(GROUPS, r=np.inf), "r < inf"),
        (lambda: BlockNorm(GROUPS, p=np.nan), "p=nan"),
        (lambda: BlockNorm(GROUPS, p="1"), "p='1'"),
        (lambda: BlockNorm(GROUPS, strength=0), "strength > 0"),
        (lambda: LogDet(strength=np.inf), "strength > 0"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("p", [1, 1.33, 2, np.inf])
def test_weights_just_outside_a_ball_are_not_feasible(p):
    d = PNormBall(p).start(5)
    assert PNormBall(p).value(d) == 0.0
    assert PNormBall(p).value(1.001 * d) == np.inf


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_exponents_next_to_one_are_one(loss):
    """The conjugate exponent would overflow, and the answer is that of p = 1."""
    points = np.random.default_rng(0).standard_normal((60, 3))
    labels = np.where(points[:, 0] + points[:, 1] ** 2 > 0.5, 1, -1)
    kernels = [RBF(0.2), RBF(2.0, features=[0]), Linear()]
    found = [
        MKLClassifier(kernels, p=p, loss=loss).fit(points, labels).result_
        for p in (1.0, 1.0 + 1e-12)
    ]
    assert found[1].status.converged
    assert found[1].objective == pytest.approx(found[0].objective, rel=1e-3)
    assert PNormBall(1.0 + 1e-8).smooth is SquaredPNorm(1.0 + 1e-8).smooth is False
    assert BlockNorm([0, 1], r=1.0 + 1e-8, p=2.0).smooth is False


@pytest.mark.parametrize("r", [r for r in CONJUGATES if r.symmetric], ids=repr)
def test_conjugates_of_rows(r, rng):
    """Rows of forms, where minus infinity stands for no kernel."""
    table = 3.0 * rng.random((5, 4))
    table[1, 2] = table[2, :3] = -np.inf
    expected = [r.conjugate(row[np.isfinite(row)]) for row in table]
    np.testing.assert_allclose(r.conjugates(table), expected, rtol=1e-12)


@pytest.mark.parametrize("r", RIDGES, ids=repr)
def test_ridge_keeps_the_laws(r):
    check_regularizer(r)


def test_ridge_between_the_simplex_and_equal_weights():
    """A small ridge is p = 1, a large one makes weights equal."""
    models = [MKLClassifier(MIXED[:3], regularizer=SimplexRidge(s)).fit(X, y) for s in (1e-6, 1e6)]
    plain = MKLClassifier(MIXED[:3]).fit(X, y)
    assert models[0].result_.objective == pytest.approx(plain.result_.objective, rel=2e-3)
    np.testing.assert_allclose(models[1].kernel_weights_, 1 / 3, atol=1e-3)
