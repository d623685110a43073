"""Kernels of small rank as their factors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from manykernels import MKLClassifier, MKLClassifierCV, MKLRegressor, plan
from manykernels.banks import make_bank
from manykernels.banks.divided import DividedBank, divided, gram_bytes, holding, of_small_rank
from manykernels.kernels import RBF, KernelCollection, Linear
from manykernels.kernels.grids import auto_bank
from manykernels.losses import Hinge
from manykernels.planning import Way
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.thresholds import lowered

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=(300, 4)), RNG.integers(0, 3, 300)])
X = (X - X.mean(axis=0)) / X.std(axis=0)
Y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.7, 1, -1)
BETA = RNG.normal(size=(2, 300))
PRECISION = {np.float32: 2e-6, np.float64: 1e-11}


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def plain(request):
    return make_bank(auto_bank(X), X, dtype=request.param, n_jobs=2)


def both(plain):
    return [divided(plain), holding(divided(plain))]


class TestAnswers:
    """A divided bank answers as the bank that it was made of."""

    @pytest.mark.parametrize(
        "ask",
        [
            lambda bank: bank.combine(np.arange(bank.m) / bank.m),
            lambda bank: bank.combine(np.arange(bank.m) / bank.m, [3, 7, 200]),
            lambda bank: bank.combine(np.eye(bank.m)[-1]),
            lambda bank: bank.combine(np.zeros(bank.m)),
            lambda bank: bank.combine_each(np.stack([np.ones(bank.m), np.arange(bank.m)])),
            lambda bank: bank.products(BETA) / 20,
            lambda bank: bank.products(BETA[0]) / 20,
            lambda bank: bank.products_each(BETA) / 20,
            lambda bank: bank.quadratic_forms(BETA) / 300,
            lambda bank: np.stack(bank.directional_forms(BETA, BETA[::-1])) / 300,
            lambda bank: bank.decision(np.ones(bank.m), BETA) / 100,
            lambda bank: bank.columns([0, 299]),
            lambda bank: bank.kernel_rows([5, 1], [0, 2, 4]),
            lambda bank: bank.diagonal(),
            lambda bank: bank.combined_diagonal(np.arange(bank.m)),
            lambda bank: bank.take_kernels([8, 2, 0], 2.0).products(BETA) / 20,
            lambda bank: bank.take_points(np.arange(0, 300, 2)).combine(np.ones(bank.m)),
            lambda bank: bank.threaded(1).combine(np.ones(bank.m)),
            lambda bank: bank.cross(X[:5]).combine(np.ones(bank.m)),
            lambda bank: bank.matrices(),
        ],
    )
    def test_as_the_whole(self, plain, ask):
        for bank in both(plain):
            assert isinstance(bank, DividedBank)
            assert_allclose(ask(bank), ask(plain), atol=PRECISION[plain.dtype.type] * plain.m)

    def test_names_and_scales(self, plain):
        for bank in both(plain):
            assert bank.names == plain.names
            assert_array_equal(bank.scales, plain.scales)
            assert bank.persistent is plain
            assert bank.same_data(X)

    def test_in_float64(self):
        coarse = holding(divided(make_bank(auto_bank(X), X, dtype=np.float32)))
        fine = coarse.refined()
        assert isinstance(fine, DividedBank)
        assert fine.dtype == np.float64
        assert fine.refined() is None


class TestFactors:
    def test_which_kernels(self, plain):
        bank = divided(plain)
        (others, rest), (few, factors) = bank.parts
        assert_array_equal(np.sort(np.append(others, few)), np.arange(plain.m))
        assert others.size == 5  # the Gaussians of all columns
        assert factors.width < 35 * few.size
        assert gram_bytes(bank) == gram_bytes(rest) == 5 * 300**2 * plain.dtype.itemsize

    def test_three_values_have_three_columns(self):
        bank = divided(make_bank(KernelCollection([RBF(0.5, features=(4,)), RBF(0.5)]), X))
        assert bank.parts[1].bank.width == 3

    def test_narrow_kernels_stay_as_they_are(self):
        bank = make_bank(KernelCollection([RBF(1e6, features=(0,)), RBF(0.5)]), X)
        assert of_small_rank(bank).tolist() == [0]
        assert divided(bank) is bank

    def test_only_factors(self):
        kernels = KernelCollection([Linear(), RBF(0.5, features=(0,))])
        plain = make_bank(kernels, X)
        bank = divided(plain)
        assert [part.kernels.tolist() for part in bank.parts] == [[0, 1]]
        assert_allclose(bank.combine([0.3, 0.7]), plain.combine([0.3, 0.7]), atol=1e-11)

    @pytest.mark.parametrize("normalize", ["cosine", "center", "trace", "variance", None])
    def test_normalized(self, normalize):
        plain = make_bank(auto_bank(X), X, normalize=normalize)
        weights = np.ones(plain.m)
        assert_allclose(divided(plain).combine(weights), plain.combine(weights), atol=1e-10)

    def test_sparse_points(self):
        from scipy import sparse

        table = sparse.csr_matrix(np.where(np.abs(X) > 1.0, X, 0.0))
        plain = make_bank(auto_bank(table), table)
        assert_allclose(
            divided(plain).combine(np.ones(plain.m)), plain.combine(np.ones(plain.m)), atol=1e-10
        )


class TestFits:
    @pytest.mark.parametrize("p", [1.0, 1.33, 2.0])
    @pytest.mark.parametrize("tol", [1e-3, 1e-6])
    def test_the_certificate_of_the_kernels_themselves(self, p, tol):
        model = MKLClassifier(p=p, tol=tol).fit(X, Y)
        assert Way.KERNELS_AS_FACTORS in model.plan_.ways
        assert "6 kernels as factors, the Gram matrices of 5 in memory" in str(model.plan_)
        # without factors
        other = MKLClassifier(p=p, tol=tol, solver="smo" if p > 1.0 else "auto", cache_size=1000)
        exact = other.fit(X, Y).result_.certificate
        ours = model.result_.certificate
        assert ours.dual <= exact.primal * (1.0 + 1e-6)
        assert exact.dual <= ours.primal * (1.0 + 1e-6)

    def test_the_plan_is_foreseen(self):
        for model in (MKLClassifier(), MKLRegressor(p=2.0), MKLClassifier(tol=1e-7)):
            assert str(plan(model, X, Y)) == str(model.fit(X, Y).plan_)


class TestExactFactors:
    """Kernels that are all factors, solved in the space of these."""

    KERNELS = (Linear(features=[0, 1]), Linear(features=[2, 3, 4]), RBF(0.3, features=[0]))

    @pytest.mark.parametrize("p", [1.0, 1.5])
    @pytest.mark.parametrize("tol", [1e-3, 1e-6])
    def test_the_certificate_is_that_of_the_kernels(self, p, tol):
        rows = np.tile(X, (2, 1)) + 0.01 * RNG.normal(size=(600, 5))
        labels = np.tile(Y, 2)
        model = MKLClassifier(list(self.KERNELS), C=300.0, p=p, tol=tol).fit(rows, labels)
        assert Way.EXACT_FACTORS in model.plan_.ways
        assert model.result_.counters.machine_steps == 0
        assert model.result_.duality_gap <= tol
        kernels = KernelCollection(self.KERNELS)
        bank = make_bank(kernels, rows, normalize="diagonal", dtype=np.float64)
        cost = np.full(600, model.C)
        problem = Problem(bank, labels.astype(float), cost, PNormBall(p), Hinge())
        beta = np.zeros((1, 600))
        beta[:, model.support_] = model.dual_coef_
        assert problem.certificate(model.kernel_weights_, beta).gap <= 1.01 * tol

    def test_folds_are_solved_there(self):
        grid = MKLClassifierCV(list(self.KERNELS), Cs=[0.3, 3.0], ps=[1.0, 2.0], cv=2)
        plain = clone(grid).set_params(exhaustive=True)
        with lowered(points_per_exact_column=10**6):
            other = plain.fit(X, Y)
        assert_allclose(
            grid.set_params(exhaustive=True).fit(X, Y).scores_,
            other.scores_,
            atol=0.011,
        )


def test_a_wide_linear_kernel_is_its_columns_where_there_are_many_points(rng, lower):
    points = rng.standard_normal((400, 100))
    bank = make_bank(KernelCollection([Linear(), RBF(0.01)]), points, dtype=np.float64)
    lower(factor_columns=8)
    assert divided(bank) is bank
    lower(linear_share=0.25)
    assert [one.factored for _, one in divided(bank).parts] == [False, True]
    np.testing.assert_allclose(divided(bank).combine([1.0, 2.0]), bank.combine([1.0, 2.0]))
