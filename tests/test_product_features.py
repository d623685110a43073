"""Random features of products: the gradient is that of the approximation, on the host and with
PyTorch, and fits, predictions and refusals are those of any model.
"""

import numpy as np
import pytest
from sklearn.base import clone

from conftest import toy
from manykernels import (
    MKLClassifier,
    MKLFeatureSelector,
    MKLRegressor,
    load,
    save,
    shapley_values,
)
from manykernels.banks.torch.device import Device
from manykernels.combinations import PolynomialMixture, Product
from manykernels.lowrank import Nystroem, RandomFourier
from manykernels.problem import Problem
from manykernels.regularizers import L1, PNormBall, SimplexRidge, SquaredPNorm
from manykernels.run_state import RunState
from manykernels.solvers import QuasiNewton, solve
from manykernels.solvers.roots import Rooted

X, y = toy(90)
GROUPS = Product(groups=list("abbc"), starts=1)
DEVICES = [None, pytest.param("torch", marks=pytest.mark.device)]


def bank_of(rank=16, device=None, dtype=np.float64):
    device = None if device is None else Device(device)
    return RandomFourier(rank).fit_product(GROUPS, X, dtype=dtype, device=device)


@pytest.fixture(params=DEVICES)
def device(request):
    if request.param is not None:
        pytest.importorskip("torch")
    return request.param


class TestBank:
    def test_is_near_the_product(self):
        bank, d = bank_of(4000), np.array([0.3, 0.1, 0.0])
        np.testing.assert_allclose(bank.combine(d), bank.combination.gram(d, X, X), atol=0.1)
        np.testing.assert_allclose(np.diag(bank.combine(d)), bank.combined_diagonal(d), atol=1e-12)

    @pytest.mark.parametrize("rank", [16, 100], ids=["factors", "dense"])
    def test_gradient_of_w_by_finite_differences(self, rank, device):
        bank, step = bank_of(rank, device), 1e-5
        run = RunState(Problem(bank, y, np.ones(90), SquaredPNorm(1.5)))
        assert run.machine_kind == ("factors" if rank == 16 else "dense")
        weights = np.array([0.4, 0.2, 0.3])

        def evaluate(d):
            return run.evaluate(d, np.zeros((1, 90)), 1e-7)

        numeric = [
            (evaluate(weights + step * e).value - evaluate(weights - step * e).value) / (2 * step)
            for e in np.eye(3)
        ]
        gradient = run.judge(evaluate(weights)).gradient
        np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-4)

    def test_device_is_the_host(self, device):
        host, there = bank_of(), bank_of(device=device)
        weights, beta = np.array([0.4, 0.0, 0.3]), np.random.default_rng(0).normal(size=(2, 90))
        for name in ("decision", "weight_gradient", "coefficients"):
            ours, theirs = (getattr(bank, name)(weights, beta) for bank in (there, host))
            np.testing.assert_allclose(ours, theirs, atol=1e-10)
        np.testing.assert_allclose(there.combine(weights, [3, 5]), host.combine(weights, [3, 5]))
        some = there.take_points(np.arange(30))
        np.testing.assert_allclose(some.combine(weights), host.combine(weights)[:30, :30])
        assert bank_of(device=device, dtype=np.float32).refined().dtype == np.float64


class TestRoots:
    @pytest.mark.parametrize("regularizer", [L1(), PNormBall(2), SimplexRidge()])
    def test_the_end_is_stationary_by_the_roots(self, regularizer):
        problem = Problem(bank_of(), y, np.ones(90), regularizer)
        result = solve(problem, QuasiNewton())
        assert result.status.converged
        run, rooted = RunState(problem), Rooted(regularizer)
        at = run.evaluate(result.weights, result.beta, 1e-9)
        x = np.sqrt(result.weights)
        gradient = rooted.gradient(x) - x * run.judge(at).forms
        step = x - rooted.project(x - 0.01 * gradient)
        assert gradient @ step <= 1e-3 * result.objective
        assert rooted.value(x) == pytest.approx(regularizer.value(result.weights))

    def test_gradient_of_the_regularizer(self):
        rooted, x = Rooted(SquaredPNorm(1.5)), np.array([0.3, 0.0, 0.8])
        numeric = [
            (rooted.value(x + 1e-6 * e) - rooted.value(abs(x - 1e-6 * e))) / 2e-6 for e in np.eye(3)
        ]
        np.testing.assert_allclose(rooted.gradient(x), numeric, atol=1e-6)


class TestEstimators:
    model = MKLClassifier(
        combination=GROUPS, approximation=RandomFourier(16), regularizer=L1(), C=10.0
    )

    def test_classifier(self, device, tmp_path):
        model = clone(self.model).set_params(device=device or "cpu").fit(X, y)
        assert model.result_.status.converged
        assert model.score(X, y) > 0.7
        assert list(model.kernel_names_) == ["a", "b", "c"]
        scores = model.decision_function(X)
        bank = RandomFourier(16).fit_product(GROUPS, X)
        beta = np.zeros((1, 90))
        beta[:, model.support_] = model.dual_coef_
        expected = bank.decision(model.kernel_weights_, beta)[0] + model.intercept_
        np.testing.assert_allclose(scores, expected, atol=1e-4)
        save(model, tmp_path / "model.mk")
        again = load(tmp_path / "model.mk").decision_function(X)
        np.testing.assert_allclose(again, scores, atol=1e-9)
        assert "16 random features of the product" in model.plan_.kernels.what

    def test_regressor_from_a_sample(self, lower):
        lower(sample_points_of_combinations=30, sample_points_per_feature=1)
        model = MKLRegressor(combination=GROUPS, approximation=RandomFourier(16), p=1.0)
        model.fit(X, X[:, 0] * X[:, 1])
        assert model.result_.status.converged
        assert "a sample of 30 points" in str(model.plan_)

    @pytest.mark.parametrize(
        ("parameters", "sentence"),
        [
            ({"approximation": Nystroem(4)}, "use RandomFourier with combination='product'"),
            ({"combination": PolynomialMixture()}, "does not go with combination="),
            ({"approximation": RandomFourier(4, folder="here")}, "leave folder=None"),
            ({"cache_size": 0.001}, "lower the rank, or raise cache_size"),
        ],
    )
    def test_what_does_not_go_together(self, parameters, sentence):
        with pytest.raises(ValueError, match=sentence):
            clone(self.model).set_params(**parameters).fit(X, y)

    def test_shapley_values_are_refused(self):
        with pytest.raises(ValueError, match="random features mix all columns"):
            shapley_values(clone(self.model).fit(X, y), X[:2])


def test_selection_of_columns_on_any_scale():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(150, 5))
    inside = points[:, 1] ** 2 + points[:, 3] ** 2 < 1.4
    points *= [1.0, 1e3, 1.0, 1e-3, 1.0]
    selector = MKLFeatureSelector(strength=5.0, threshold=0.2, scale="standard")
    assert selector.fit(points, inside).get_support(indices=True).tolist() == [1, 3]
