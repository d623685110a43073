"""The public checks: our own parts pass, broken ones are told what is wrong with them."""

import numpy as np
import pytest

from conftest import MIXED, toy
from manykernels.banks import make_bank
from manykernels.combinations import PolynomialMixture, Product
from manykernels.kernels import KernelCollection
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
from manykernels.testing import check_combination, check_regularizer

NORMS = [1, 1.05, 1.33, 2, 4, np.inf]
GROUPS = [0, 1, 1, 0, 2, 1, 2, 2]
REGULARISERS = [
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


@pytest.mark.parametrize("regularizer", REGULARISERS, ids=repr)
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

        for fault, message in [
            (WrongSlope(), "gradient.*worst is entry 2"),
            (NotSymmetric(), "gram disagrees with its transpose"),
            (NotPositive(), "not positive semidefinite"),
            (WrongDiagonal(), "diagonal disagrees with gram"),
        ]:
            with pytest.raises(AssertionError, match=message):
                check_combination(fault)
