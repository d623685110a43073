"""Laws of every regulariser, on random vectors."""

import numpy as np
import pytest
from scipy.optimize import minimize

from manykernels._loops.conjugates import respond
from manykernels.regularisers import L1, GeneralisedKL, PNormBall, SquaredPNorm

NORMS = [1, 1.05, 1.1, 1.33, 2, 3, 4, np.inf]
BALLS = [PNormBall(p) for p in NORMS]
PENALTIES = [*(SquaredPNorm(p, strength=0.7) for p in NORMS), GeneralisedKL(0.3, strength=0.8), L1(0.4)]
CONJUGATES = BALLS + PENALTIES[:-1]
CURVED = [r for r in CONJUGATES if 1 < getattr(r, "p", 2) < np.inf]


def smooth(regularisers):
    return [r for r in regularisers if not np.isinf(getattr(r, "p", 1))]


@pytest.mark.parametrize("r", smooth(PENALTIES), ids=repr)
def test_gradient_is_that_of_the_value(r, rng):
    d = rng.random(6) + 0.1
    step = 1e-6
    numeric = [(r.value(d + step * e) - r.value(d - step * e)) / (2 * step) for e in np.eye(6)]
    np.testing.assert_allclose(r.gradient(d), numeric, rtol=1e-6)


@pytest.mark.parametrize("r", BALLS, ids=repr)
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0, 1e6])
def test_projection_is_the_nearest_feasible_point(r, scale, rng):
    z = scale * rng.standard_normal(7)
    x = r.project(z)
    assert r.value(x) == 0.0
    # the variational inequality (z - x)'(v - x) <= 0 for feasible v characterises the projection
    for _ in range(300):
        v = rng.random(7) * (rng.random(7) < 0.5)
        v /= max(np.linalg.norm(v, r.p), 1e-300)
        assert (z - x) @ (v - x) <= 1e-9 * scale
    np.testing.assert_allclose(r.project(x), x, atol=1e-12)


@pytest.mark.parametrize("r", PENALTIES, ids=repr)
def test_projection_of_penalties(r, rng):
    x = r.project(rng.standard_normal(7))
    assert (x >= 0).all()
    np.testing.assert_allclose(r.project(x), x)
    assert np.isinf(r.value(np.array([1.0, -0.1])))


@pytest.mark.parametrize("r", [*(SquaredPNorm(p, 0.7) for p in NORMS[:-1]), GeneralisedKL(0.3, 0.8)], ids=repr)
@pytest.mark.parametrize("step", [1e-3, 0.4, 50.0])
def test_prox_minimises(r, step, rng):
    z = 2 * rng.standard_normal(6)

    def objective(x):
        return 0.5 * np.square(x - z).sum() + step * r.value(np.maximum(x, 0))

    x = r.prox(z, step)
    starts = [np.maximum(z, 0) / (1 + step) + 1e-3, np.full(6, 0.1)]
    options = {"ftol": 1e-15, "gtol": 1e-10}
    best = min(minimize(objective, s, bounds=[(0, None)] * 6, options=options).fun for s in starts)
    assert (x >= 0).all()
    assert objective(x) <= best * (1 + 1e-8)


def test_prox_for_infinite_p_minimises_on_the_ray(rng):
    r, z = SquaredPNorm(np.inf, 0.7), rng.random(6)
    levels = np.linspace(0, 1, 20001)
    values = [0.5 * np.square(c - z).sum() + 0.4 * r.value(np.full(6, c)) for c in levels]
    np.testing.assert_allclose(r.prox(z, 0.4), levels[np.argmin(values)], atol=1e-4)


@pytest.mark.parametrize("r", CONJUGATES, ids=repr)
def test_fenchel_young_with_equality_at_the_weights(r, rng):
    for _ in range(20):
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
    assert not hasattr(r, "weights")
    assert not hasattr(r, "curvature")


@pytest.mark.parametrize("r", CURVED, ids=repr)
def test_curvature_is_the_derivative_of_the_weights(r, rng):
    s = 1.0 + 0.2 * rng.random(5)
    J = r.curvature(s)
    matrix = np.diag(J.diagonal) + J.factor * np.outer(J.vector, J.vector)
    step = 1e-6
    numeric = np.stack([(r.weights(s + step * e) - r.weights(s - step * e)) / (2 * step) for e in np.eye(5)], axis=1)
    np.testing.assert_allclose(matrix, numeric, atol=1e-6 * np.abs(numeric).max())


@pytest.mark.parametrize("r", CURVED, ids=repr)
def test_compiled_loops_know_the_same_law(r, rng):
    for s in (rng.exponential(size=6), np.array([1e-3, 1.0, 0.0, 0.2, 1e-15, 1.0])):
        d, diagonal = np.empty(6), np.empty(6)
        factor = respond(r.law, s, d, diagonal)
        J = r.curvature(s)
        np.testing.assert_allclose(d, r.weights(s), rtol=1e-10)
        large = s > 1e-9  # below, the floors of the two differ
        pair = factor * np.outer(d, d), J.factor * np.outer(J.vector, J.vector)
        np.testing.assert_allclose(*(matrix[large][:, large] for matrix in pair), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(diagonal[large], J.diagonal[large], rtol=1e-10)
        assert np.isfinite(diagonal).all()


def test_prior_weights_per_kernel(rng):
    r = GeneralisedKL(np.array([0.1, 1.0, 5.0]), 2.0)
    s, d, diagonal = rng.exponential(size=3), np.empty(3), np.empty(3)
    assert respond(r.law, s, d, diagonal) == 0.0
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
    for s in (np.zeros(4), np.array([0.0, 0.0, 1e-300, 0.0]), np.array([1e150, 1.0, 1e-150, 0.0])):
        with np.errstate(over="raise", invalid="raise"):
            d = r.weights(s)
        assert np.isfinite(d).all()
        assert (d >= 0).all()
        assert np.isfinite(r.conjugate(s))


@pytest.mark.parametrize("r", BALLS + PENALTIES, ids=repr)
def test_start_is_feasible(r):
    assert np.isfinite(r.value(r.start(9)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PNormBall(0.5), "p >= 1"),
        (lambda: PNormBall("2"), "p >= 1"),
        (lambda: PNormBall(np.nan), "p >= 1"),
        (lambda: SquaredPNorm(0.9), "p >= 1"),
        (lambda: SquaredPNorm(2, strength=0), "strength > 0"),
        (lambda: L1(strength=-1), "strength > 0"),
        (lambda: GeneralisedKL(strength=0), "strength > 0"),
        (lambda: GeneralisedKL(prior=0.0), "prior of finite weights above 0"),
        (lambda: GeneralisedKL(prior=[1.0, np.nan]), "prior of finite weights above 0"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()
