"""The public checks: our own parts pass, broken ones are told what is wrong with them."""

import numpy as np
import pytest

from conftest import MIXED, toy
from manykernels.banks import ResolvedKernels, make_bank
from manykernels.combinations import PolynomialMixture, Product
from manykernels.kernels import RBF, Kernel, KernelCollection, Laplacian, Linear, Polynomial
from manykernels.lowrank import Nystroem
from manykernels.regularizers import (
    L1,
    BlockNorm,
    Curvature,
    ElasticNet,
    GeneralizedKL,
    LogDet,
    PNormBall,
    SquaredPNorm,
)
from manykernels.solvers import SMO, SPG, Newton
from manykernels.testing import (
    check_bank,
    check_combination,
    check_kernel,
    check_regularizer,
    check_solver,
)

NORMS = [1, 1.05, 1.33, 2, 4, np.inf]
GROUPS = [0, 1, 1, 0, 2, 1, 2, 2]
REGULARIZERS = [
    *(PNormBall(p) for p in NORMS),
    *(SquaredPNorm(p, strength) for p in NORMS for strength in (0.05, 3.0)),
    L1(0.4),
    L1(20.0),
    GeneralizedKL(0.3, strength=0.8),
    GeneralizedKL(np.arange(1.0, 9.0), strength=0.01),
    ElasticNet(),
    ElasticNet(0.0, 0.3),
    ElasticNet(10.0, 0.1),
    *(BlockNorm(GROUPS, r, p, 0.7) for r, p in ((2, 1), (1, 2), (1, 1), (1.2, 3), (4, 1.1))),
    LogDet(0.6).bound(make_bank(KernelCollection(MIXED), toy(20)[0])),
]


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=repr)
def test_regularizers_of_the_library_pass(regularizer):
    check_regularizer(regularizer, m=8)


class WrongStart(PNormBall):
    def start(self, m):
        return np.ones(m)


class Negative(L1):
    def project(self, d):
        return d


class NotIdempotent(L1):
    def project(self, d):
        return 0.5 * np.maximum(d, 0.0)


class NotNearest(PNormBall):
    def project(self, d):
        d = np.maximum(d, 0.0)
        return d / max(1.0, d.sum())


class WrongGradient(SquaredPNorm):
    def gradient(self, d):
        gradient = super().gradient(d)
        gradient[3] *= 1.0 + 1e-4
        return gradient


class WrongShape(L1):
    def gradient(self, d):
        return self.strength


class NoGradientAtAll(L1):
    def gradient(self, d):
        return np.full(d.size, np.nan)


class WrongProx(SquaredPNorm):
    def prox(self, d, step):
        return super().prox(d, 1.1 * step)


class SmallConjugate(ElasticNet):
    def conjugate(self, s):
        return 0.9 * super().conjugate(s)


class LargeConjugate(ElasticNet):
    def conjugate(self, s):
        return 1.1 * super().conjugate(s)


class InfiniteConjugate(L1):
    def dual_scale(self, s):
        return 1.0


class WrongCurvature(ElasticNet):
    def curvature(self, s):
        J = super().curvature(s)
        return Curvature(1.01 * J.diagonal, J.factor, J.vector)


@pytest.mark.parametrize(
    ("regularizer", "message"),
    [
        (WrongStart(2), r"start\(m\) is not feasible: value is inf"),
        (Negative(), r"project\(d\) has negative weights; the worst is entry \d"),
        (NotIdempotent(), r"should stay what it is.* entry \d"),
        (NotNearest(1), r"not the nearest feasible point.* entry \d"),
        (
            WrongGradient(2),
            r"gradient\(d\) disagrees with finite differences of value; the worst is entry 3",
        ),
        (WrongShape(), r"gradient\(d\) should have shape \(5,\).*has shape \(\)"),
        (NoGradientAtAll(), r"gradient\(d\) is not finite: entry 0 is nan"),
        (WrongProx(2), r"prox\(d, step=.*\) is not a minimizer.* entry \d"),
        (SmallConjugate(), r"conjugate\(s\) is too small"),
        (LargeConjugate(), r"conjugate\(s\) is not attained at weights\(s\)"),
        (InfiniteConjugate(), "dual_scale promises a finite value"),
        (
            WrongCurvature(),
            r"curvature\(s\) disagrees with finite differences of weights; the worst is entry \d, "
            r"\d",
        ),
    ],
    ids=lambda part: type(part).__name__,
)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_faults_are_named(regularizer, message, seed):
    with pytest.raises(AssertionError, match=message):
        check_regularizer(regularizer, seed=seed)


class TestCombinations:
    @pytest.mark.parametrize(
        "combination",
        [
            Product(),
            Product(groups=["a", "b", "a", "c"]),
            PolynomialMixture(),
            PolynomialMixture(3, 0.5),
        ],
        ids=repr,
    )
    def test_those_of_the_library_pass(self, combination):
        for seed in range(3):
            check_combination(combination, seed=seed)

    def test_faults_are_named(self):
        class WrongSlope(Product):
            def gradient(self, weights, beta):
                slopes = super().gradient(weights, beta)
                slopes[2] *= 1.01
                return slopes

        class NotSymmetric(Product):
            def gram(self, weights, rows, cols):
                return super().gram(weights, rows, cols) * np.linspace(1, 2, len(rows))[:, None]

        class NotPositive(PolynomialMixture):
            def gram(self, weights, rows, cols):
                return -super().gram(weights, rows, cols)

        class WrongDiagonal(Product):
            def diagonal(self, weights, points):
                return np.full(len(points), 2.0)

        class WrongPart(PolynomialMixture):
            def partial_gradient(self, weights, beta, some):
                return 2.0 * super().partial_gradient(weights, beta, some)

        class WrongRows(PolynomialMixture):
            def filler(self, weights, rows, cols):
                return super().filler(weights, rows[::-1], cols)

        for fault, message in [
            (WrongPart(), "partial_gradient disagrees with gradient"),
            (WrongRows(), "filler disagrees with gram"),
            (WrongSlope(), "gradient.*worst is entry 2"),
            (NotSymmetric(), "gram disagrees with its transpose"),
            (NotPositive(), "not positive semidefinite"),
            (WrongDiagonal(), "diagonal disagrees with gram"),
        ]:
            with pytest.raises(AssertionError, match=message):
                check_combination(fault)


class TestKernels:
    @pytest.mark.parametrize(
        "kernel",
        [RBF(), RBF(0.3, factor=2.0), Laplacian(0.5), Linear(), Polynomial(2, coef0=0.5)],
        ids=repr,
    )
    def test_ours_pass(self, kernel):
        check_kernel(kernel)

    @pytest.mark.parametrize(
        ("block", "law"),
        [
            (lambda A, B: A @ B.T + A[:, :1], "transpose"),
            (lambda A, B: -(A @ B.T), "not positive semidefinite"),
            (lambda A, B: (A @ B.T)[:, ::-1], "transpose|semidefinite"),
            (lambda A, B: A @ B.T / len(B), "the whole"),
            (lambda A, B: np.full((len(A), len(B)), np.nan), "not finite"),
        ],
    )
    def test_what_is_no_kernel_is_found(self, block, law):
        class Own(Kernel):
            def block(self, A, B):
                return block(A, B)

        with pytest.raises(AssertionError, match=law):
            check_kernel(Own())

    def test_a_diagonal_that_lies_is_found(self):
        class Own(Linear):
            unit_diagonal = True

        with pytest.raises(AssertionError, match="unit_diagonal says is one"):
            check_kernel(Own())


class TestBanks:
    X = np.random.default_rng(3).standard_normal((30, 4))
    kernels = KernelCollection(MIXED)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("storage", ["fly", "dense"])
    @pytest.mark.parametrize("normalize", ["diagonal", "trace", "cosine", "center"])
    def test_ours_pass(self, dtype, storage, normalize):
        options = {"dtype": dtype, "storage": storage, "normalize": normalize}
        check_bank(make_bank(self.kernels, self.X, **options))

    def test_masked_and_factors_pass(self):
        masks = np.random.default_rng(0).random((40, 4)) < 0.6
        check_bank(make_bank(KernelCollection.masked_rbf(np.linspace(0.1, 2, 40), masks), self.X))
        on_points = ResolvedKernels.from_data(self.kernels, self.X)
        check_bank(Nystroem(5).fit(on_points, self.X, dtype=np.float64))

    @pytest.mark.parametrize(
        ("name", "law"),
        [
            ("quadratic_forms", r"quadratic_forms\(beta\)"),
            ("products", r"products\(beta\)"),
            ("combine", r"combine\(weights\)"),
            ("combined_diagonal", "combined_diagonal"),
            ("diagonal", r"diagonal\(\)"),
            ("kernel_rows", "kernel_rows"),
            ("take_kernels", "take_kernels"),
            ("take_points", r"take_points\(points\)"),
        ],
    )
    def test_what_is_wrong_is_found(self, name, law):
        bank = make_bank(self.kernels, self.X)
        right = getattr(bank, name)

        def wrong(*arguments):
            if name == "take_kernels":
                return right(arguments[0])  # forgets the factor
            if name == "take_points":
                return right(arguments[0][::-1])
            return 1.001 * right(*arguments)

        setattr(bank, name, wrong)
        with pytest.raises(AssertionError, match=law):
            check_bank(bank)


class TestSolvers:
    @pytest.mark.parametrize("solver", [Newton(), SPG(), SMO()], ids=repr)
    def test_ours_pass(self, solver):
        check_solver(solver)

    def test_what_is_wrong_is_found(self):
        class Early(SPG):
            """Claims to be done at once."""

            def step(self, run, state, tol):
                state = super().step(run, state, tol)
                lie = state.iterate.certificate._replace(gap=0.0)
                return state._replace(iterate=state.iterate._replace(certificate=lie))

        class Outside(SPG):
            def step(self, run, state, tol):
                state = super().step(run, state, tol)
                return state._replace(iterate=state.iterate._replace(beta=state.iterate.beta + 1.0))

        class Nothing(SPG):
            def needs(self, run):
                raise ValueError("never")

        for solver, law in (
            (Early(), "left a gap of"),
            (Outside(), "outside the box"),
            (Nothing(), "fits none"),
        ):
            with pytest.raises(AssertionError, match=law):
                check_solver(solver)
