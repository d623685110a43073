"""A loss with a curved dual of one's own: what `manykernels.losses.Curve` asks for is enough."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_ndtr

from conftest import toy
from manykernels import MKLClassifier
from manykernels._arrays import namespace
from manykernels.kernels import RBF, Linear
from manykernels.losses import Curve, CurvedLoss
from manykernels.lowrank import Nystroem

KERNELS = [RBF(0.1), RBF(1.0), Linear(), RBF(0.5, features=[0])]


@dataclass(frozen=True, eq=False)
class Arc(Curve):
    """``alpha_i + cost_i width sqrt(s_i (1 - s_i))`` with ``alpha_i = y_i beta_i = cost_i s_i``."""

    width: float = 0.5

    def limits(self):
        bound = np.where(self.y > 0, self.cost, -self.cost)
        return np.minimum(bound, 0.0), np.maximum(bound, 0.0)

    def value(self, beta):
        xp, share = namespace(beta), self._shares(beta)
        return float(self.cost @ (share + self.width * xp.sqrt(share * (1.0 - share))))

    def slopes(self, beta):
        share = np.clip(self._shares(beta), 1e-300, 1.0 - 2.0**-53)
        error = self.width * (share - 0.5) / np.sqrt(share * (1.0 - share))
        return np.where(self.cost > 0.0, self.y * (1.0 - error), 0.0)

    def response(self, f):
        error = 1.0 - self.y * f
        length = np.hypot(error, self.width)
        bends = 0.5 * self.cost / length * (self.width / length) ** 2
        return 0.5 * self.y * self.cost * (1.0 + error / length), bends

    def loss(self, f, b=0.0):
        error = 1.0 - self.y * f
        return float(0.5 * self.cost @ (error + np.hypot(error, self.width)))

    def largest_bends(self):
        return 0.5 * self.cost / self.width

    def _shares(self, beta):
        cost = np.where(self.cost > 0.0, self.cost, 1.0)
        return np.clip(self.y * beta / cost, 0.0, 1.0)


class RoundedHinge(CurvedLoss):
    """``cost_i (e_i + sqrt(e_i^2 + width^2)) / 2`` with the errors ``e_i = 1 - y_i f_i``."""

    separates = capped = True

    def __init__(self, width=0.5):
        self.width = width

    def curve(self, y, cost):
        return Arc(y, cost, self.width)


@dataclass(frozen=True, eq=False)
class NormalTail(Curve):
    """The dual of the probit loss, which has no closed form: slopes by Newton's method. Its
    coefficients have no upper bound.
    """

    def limits(self):
        bound = np.where(self.cost > 0.0, np.inf, 0.0)
        return np.where(self.y > 0, 0.0, -bound), np.where(self.y > 0, bound, 0.0)

    def value(self, beta):
        f = self.slopes(beta)
        terms = -self.cost * log_ndtr(self.y * f) + beta * f
        return float(np.where(beta == 0.0, 0.0, terms).sum())

    def slopes(self, beta):
        share = np.maximum(self.y * beta / np.where(self.cost > 0.0, self.cost, 1.0), 1e-300)
        # -m < phi(m) / Phi(m) < 1 - m for m < 0, and from m = 37 on the ratio is next to nothing
        low, high = -share, np.where(share > 1.0, 1.0 - share, 38.0)
        for _ in range(100):
            margin = 0.5 * (low + high)
            above = _ratio(margin)[0] > share
            low, high = np.where(above, margin, low), np.where(above, high, margin)
        margin = 0.5 * (low + high)
        return np.where(self.cost > 0.0, self.y * margin, 0.0)

    def response(self, f):
        ratio, bend = _ratio(self.y * f)
        return self.y * self.cost * ratio, self.cost * bend

    def loss(self, f, b=0.0):
        return float(-self.cost @ log_ndtr(self.y * f))

    def largest_bends(self):
        return 1.0 * self.cost


def _ratio(m):
    """``phi(m) / Phi(m)`` and minus its slope."""
    m = np.minimum(m, 38.0)
    ratio = np.exp(-0.5 * m**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(m))
    return ratio, np.maximum(ratio * (ratio + m), 1e-300)


class Probit(CurvedLoss):
    """``-cost_i log Phi(y_i f_i)`` with the normal distribution Phi."""

    separates = True

    def curve(self, y, cost):
        return NormalTail(y, cost)


OWN = [RoundedHinge(0.5), RoundedHinge(0.1), Probit()]


def points(curve, rng):
    """Coefficients inside of the limits."""
    alpha = rng.uniform(0.02, 0.98, curve.cost.size) * curve.cost
    return curve.y * alpha


@pytest.fixture(params=OWN, ids=repr)
def loss(request):
    return request.param


@pytest.fixture
def curve(loss):
    rng = np.random.default_rng(0)
    y = np.where(rng.random(30) < 0.4, -1.0, 1.0)
    return loss.curve(y, rng.uniform(0.5, 3.0, 30))


class TestCurve:
    """Laws of a curve."""

    def test_coefficients_and_decision_values_belong_to_each_other(self, curve):
        beta = points(curve, np.random.default_rng(1))
        f = curve.slopes(beta)
        np.testing.assert_allclose(curve.response(f)[0], beta, rtol=1e-9)
        assert curve.value(beta) == pytest.approx(curve.loss(f) + beta @ f, rel=1e-10)

    def test_slopes_and_responses_are_derivatives(self, curve):
        rng, small = np.random.default_rng(2), 1e-6
        beta, change = points(curve, rng), 0.1 * rng.standard_normal(30)
        rise = curve.value(beta + small * change) - curve.value(beta - small * change)
        assert rise / (2 * small) == pytest.approx(curve.slopes(beta) @ change, rel=1e-6)
        f = curve.slopes(beta)
        rise = curve.loss(f + small * change) - curve.loss(f - small * change)
        response, bends = curve.response(f)
        assert rise / (2 * small) == pytest.approx(-response @ change, rel=1e-6)
        moved = curve.response(f + small * change)[0] - curve.response(f - small * change)[0]
        np.testing.assert_allclose(moved / (2 * small), -bends * change, rtol=1e-5, atol=1e-8)
        assert (bends <= curve.largest_bends() * (1 + 1e-12)).all()

    def test_a_level_makes_the_sum_right(self, curve):
        f = np.random.default_rng(3).standard_normal(30)
        for total in (0.0, 0.3):
            assert curve.coefficients(f, total).sum() == pytest.approx(total, abs=1e-11)

    def test_one_class_alone(self, loss):
        curve = loss.curve(np.ones(3), np.ones(3))
        assert curve.coefficients(np.zeros(3)).sum() == pytest.approx(0.0, abs=2e-5)
        assert np.isfinite(curve.level(np.zeros(3)))

    def test_some_points(self, curve):
        part, f = curve.take_points(np.arange(5)), np.linspace(-1, 1, 30)
        np.testing.assert_array_equal(part.response(f[:5])[0], curve.response(f)[0][:5])

    def test_doubts_are_small(self, curve):
        doubts = curve.doubts(points(curve, np.random.default_rng(4)))
        assert (doubts >= 0.0).all()
        assert doubts.max() < 1e-13


def mkl_value(loss, grams, y, cost, p):
    """The optimal value by a method that knows nothing of ours: at fixed weights the primal over
    (beta, b), over the weights by their softmax.
    """
    n, m = len(y), len(grams)

    def inner(d, start):
        K = np.tensordot(d, grams, 1)
        curve = loss.curve(y, cost)

        def primal(x):
            product = K @ x[:n]
            f = product + x[n]
            response = curve.response(f)[0]
            value = 0.5 * x[:n] @ product + curve.loss(f)
            return value, np.append(product - K @ response, -response.sum())

        found = minimize(primal, start, jac=True, method="L-BFGS-B", options=TIGHT)
        return found.fun, found.x

    kept = {"x": np.zeros(n + 1)}

    def outer(z):
        e = np.exp(z - z.max())
        d = e / np.linalg.norm(e, p)
        value, kept["x"] = inner(d, kept["x"])
        return value

    found = minimize(outer, np.zeros(m), method="Nelder-Mead", options=LOOSE)
    return found.fun


TIGHT = {"maxiter": 5000, "maxfun": 10**6, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 50}
LOOSE = {"xatol": 1e-5, "fatol": 1e-9, "maxiter": 2000}


@pytest.mark.parametrize("p", [1.0, pytest.param(2.0, marks=pytest.mark.long)])
def test_the_optimum_is_that_of_scipy(p, loss):
    X, y = toy(24)
    model = MKLClassifier(KERNELS[:3], loss=loss, p=p, C=1.5, tol=1e-6, normalize=None).fit(X, y)
    result = model.result_
    assert result.status.converged
    grams = np.stack([kernel.block(X, X) for kernel in KERNELS[:3]])
    labels = np.where(y == model.classes_[1], 1.0, -1.0)
    best = mkl_value(loss, grams, labels, np.full(24, 1.5), p)
    assert result.certificate.dual <= best * (1 + 1e-7)
    assert result.objective == pytest.approx(best, rel=1e-5)


@pytest.mark.pairwise
@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize(
    "approximation", [None, Nystroem(20, random_state=0)], ids=["exact", "low"]
)
def test_auto_certifies(approximation, p, loss):
    X, y = toy(150)
    model = MKLClassifier(KERNELS, loss=loss, p=p, approximation=approximation, tol=1e-5)
    model.fit(X, y)
    assert model.result_.status.converged, model.result_
    assert model.result_.duality_gap <= 1e-5
    assert model.score(X, y) > 0.7


def test_rows_on_demand(loss):
    X, y = toy(150)
    held = MKLClassifier(KERNELS, loss=loss, p=2.0, tol=1e-4).fit(X, y)
    streamed = MKLClassifier(KERNELS, loss=loss, p=2.0, tol=1e-4, cache_size=0.02).fit(X, y)
    assert streamed.result_.objective == pytest.approx(held.result_.objective, rel=2e-4)


def test_several_classes_and_no_probabilities(loss):
    X, y = toy(90)
    y = y + (X[:, 1] > 0.5)
    model = MKLClassifier(KERNELS, loss=loss, tol=1e-4).fit(X, y)
    assert model.result_.duality_gap <= 1e-4
    assert not hasattr(model, "predict_proba")


def test_solvers_that_need_a_quadratic_dual_say_so(loss):
    X, y = toy(40)
    with pytest.raises(ValueError, match="a loss whose dual is quadratic"):
        MKLClassifier(KERNELS, loss=loss, p=2.0, solver="smo").fit(X, y)


@pytest.mark.pairwise
@pytest.mark.parametrize("solver", ["newton", "primal", "blocks", "distributed", "spg"])
def test_solvers_on_factors_agree(solver, loss):
    X, y = toy(100)
    factors = {"approximation": Nystroem(12, random_state=0), "loss": loss, "tol": 1e-4}
    found = MKLClassifier(KERNELS, solver=solver, **factors).fit(X, y).result_
    best = MKLClassifier(KERNELS, **factors).fit(X, y).result_
    assert found.status.converged
    assert found.objective == pytest.approx(best.objective, rel=2e-4)


def test_the_interior_point_method_refuses(loss):
    X, y = toy(40)
    model = MKLClassifier(KERNELS, loss=loss, approximation=Nystroem(8), solver="interior")
    with pytest.raises(ValueError, match="Interior is for losses"):
        model.fit(X, y)
