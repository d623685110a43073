"""Weights on the simplex (p = 1) on low-rank factors: as few kernels as the tolerance allows, from
whatever start.
"""

import numpy as np
import pytest

from manykernels import MKLClassifier, path
from manykernels.banks import ResolvedKernels
from manykernels.kernels import RBF, KernelCollection
from manykernels.losses import Hinge, Logistic, Squared, SquaredHinge
from manykernels.lowrank import Nystroem
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.result import Status
from manykernels.run_state import Point
from manykernels.solvers import Interior, Newton, PrimalNewton, solve
from manykernels.solvers.lowrank.distributed import DistributedNewton

N, FEATURES = 400, 6
X = np.random.default_rng(5).standard_normal((N, FEATURES))
SIGNAL = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * X[:, 3]
Y = np.where(SIGNAL + 0.2 * np.random.default_rng(6).standard_normal(N) > 0.0, 1.0, -1.0)
KERNELS = [RBF(g, features=[f]) for f in range(FEATURES) for g in (0.1, 1.0, 10.0)]
KERNELS += [RBF(g) for g in (0.02, 0.2, 2.0)]
BANK = Nystroem(8).fit(ResolvedKernels.from_data(KernelCollection(KERNELS), X), X, dtype=np.float64)
SOLVERS = [
    *(
        (loss, solver)
        for loss in (SquaredHinge(), Logistic())
        for solver in (PrimalNewton, DistributedNewton)
    ),
    (Squared(), PrimalNewton),
    (Hinge(), Interior),
]


def problem(loss, C):
    y = Y if loss.separates else SIGNAL
    return Problem(BANK, y, np.full(N, C), PNormBall(1.0), loss)


def named(value):
    return getattr(value, "__name__", type(value).__name__)


@pytest.mark.parametrize(("loss", "solver"), SOLVERS, ids=named)
@pytest.mark.parametrize("C", [0.05, 1.0])
class TestEnds:
    def test_as_few_kernels_as_newtons_method(self, loss, solver, C):
        stated = problem(loss, C)
        assert BANK.prefers_factor_space
        found, other = solve(stated, solver(), tol=1e-3), solve(stated, Newton(), tol=1e-3)
        assert found.status is Status.OPTIMAL
        assert stated.certificate(found.weights, found.beta).gap <= 1.001e-3
        used, known = np.count_nonzero(found.weights), np.count_nonzero(other.weights)
        assert abs(used - known) <= 2
        assert used < BANK.m

    def test_from_one_kernel(self, loss, solver, C):
        """A start at a vertex, where the others would have to come from nothing."""
        stated = problem(loss, C)
        worst = stated.quadratic_forms(solve(stated, solver()).beta).argmin()
        start = Point(np.eye(BANK.m)[worst], np.zeros((1, N)))
        found, plain = solve(stated, solver(), start=start), solve(stated, solver(), tol=1e-5)
        assert found.status is Status.OPTIMAL
        assert found.objective == pytest.approx(plain.objective, rel=1.1e-3)


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic", "hinge"])
def test_a_path_is_certified_from_end_to_end(loss):
    model = MKLClassifier(KERNELS, p=1.0, loss=loss, approximation=Nystroem(8))
    models = path(model, X, Y, C=[0.01, 0.1, 1.0, 10.0, 100.0])
    assert all(one.result_.status is Status.OPTIMAL for one in models)
    used = [np.count_nonzero(one.kernel_weights_) for one in models]
    assert used[0] < used[-1] < len(KERNELS)
