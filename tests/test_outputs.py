"""Programs for p = 1 of several outputs that share the weights."""

from dataclasses import replace

import numpy as np
import pytest

from conftest import MIXED, toy
from manykernels import run_state
from manykernels.banks import make_bank
from manykernels.kernels import KernelCollection
from manykernels.losses import EpsilonInsensitive, Hinge, Logistic, Squared, SquaredHinge
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.run_state import RunState
from manykernels.solvers import SPG, solve
from manykernels.solvers import outputs as module
from manykernels.solvers.outputs import SharedSaddle
from manykernels.solvers.saddle import Goal, Saddle
from manykernels.solvers.sequential import Sequential

X, _ = toy(60)
CODES = np.digitize(X[:, 0] + 0.5 * X[:, 1] ** 2, [-0.5, 0.2, 1.0])
CLASSES = np.stack([np.where(CODES == c, 1.0, -1.0) for c in range(4)])
NUMBERS = np.stack([X[:, 0] + 0.3 * X[:, 1] ** 2, np.sin(X[:, 2])])
BANK = make_bank(KernelCollection(MIXED), X, normalize="trace", dtype=np.float64)
LOSSES = {
    "hinge": (Hinge(), CLASSES),
    "squared_hinge": (SquaredHinge(), CLASSES),
    "logistic": (Logistic(), CLASSES),
    "epsilon": (EpsilonInsensitive(0.05), NUMBERS),
    "squared": (Squared(), NUMBERS),
}


def problem(C=10.0, loss="hinge", bank=BANK):
    loss, targets = LOSSES[loss]
    return Problem(bank, targets, np.full(60, C), PNormBall(1.0), loss)


def programs_of(task):
    """The program around the first SVMs by either method, and a goal."""
    run = RunState(task)
    state = Sequential().init(run)
    weights, gap = state.iterate.weights, state.iterate.certificate.absolute_gap
    K = run.held_kernel(weights)
    made = [kind(run, K, weights, state.point) for kind in (SharedSaddle, Saddle)]
    return *made, Goal(gap, 1e-7 * gap)


class TestSharedSaddle:
    @pytest.mark.parametrize("loss", LOSSES)
    def test_the_saddle_is_that_of_coupled_programs(self, loss):
        ours, theirs, goal = programs_of(problem(loss=loss))
        found, other = ours.solve(goal), theirs.solve(goal)
        assert found.gap <= goal.wanted
        assert found.lower <= other.upper + goal.wanted
        assert found.upper >= other.lower - goal.wanted
        again = ours._at(found.d, found.x)
        assert again.upper == pytest.approx(found.upper, rel=1e-9)
        assert again.lower == pytest.approx(found.lower, rel=1e-9)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_hessian_is_the_change_of_the_slopes(self, loss):
        saddle, _, goal = programs_of(problem(loss=loss))
        goal = goal._replace(wanted=1e-16 * goal.gap)
        start = saddle._at(saddle.weights, saddle.point.beta)
        center, slopes = saddle._solved(start, goal)
        hessian = saddle._hessian(center, slopes)
        change = np.zeros(BANK.m)
        change[:2] = 1e-6, -1e-6
        moved, others = saddle._solved(center._replace(d=center.d + change), goal)
        expected = np.zeros(BANK.m)
        expected[hessian.kernels] = hessian.matrix @ change[hessian.kernels]
        size = np.abs(others - slopes).max()
        assert size > 0.0
        np.testing.assert_allclose(expected, others - slopes, atol=2e-2 * size)
        answer = center.x + hessian.answer(change)
        assert np.abs(answer - moved.x).max() <= 2e-2 * np.abs(moved.x - center.x).max()

    @pytest.mark.parametrize("C", [0.1, 10.0, 1e4])
    def test_a_hessian_of_few_coefficients_does(self, C, monkeypatch):
        few = replace(module.TOLERANCES, most_free=3)
        monkeypatch.setattr(module, "TOLERANCES", few)
        task = problem(C)
        result = solve(task, Sequential(), tol=1e-6)
        assert result.status.name == "OPTIMAL"
        assert task.certificate(result.weights, result.beta).gap <= 1.1e-6

    def test_without_steps_on_the_weights(self, monkeypatch):
        """The coupled programs take over where Newton's method on the weights does not do."""
        monkeypatch.setattr(module, "TOLERANCES", replace(module.TOLERANCES, newton_steps=0))
        task = problem()
        assert solve(task, Sequential(), tol=1e-5).status.name == "OPTIMAL"

    @pytest.mark.parametrize("loss", LOSSES)
    def test_agrees_with_spg(self, loss):
        task = problem(3.0, loss)
        ours, theirs = (solve(task, solver, tol=1e-5) for solver in (Sequential(), SPG()))
        assert ours.objective == pytest.approx(theirs.objective, rel=2e-5)

    def test_threads_change_nothing(self, monkeypatch):
        monkeypatch.setattr(run_state, "FEWEST_COEFFICIENTS", 0)
        one, two = (solve(problem(bank=BANK.threaded(n)), Sequential()) for n in (1, 2))
        np.testing.assert_array_equal(one.beta, two.beta)
        np.testing.assert_array_equal(one.weights, two.weights)

    def test_an_output_without_free_coefficients(self):
        """Costs so small that all coefficients of the rarer label are at their bounds."""
        task = problem(1e-6)
        result = solve(task, Sequential(), tol=1e-5)
        assert result.status.name == "OPTIMAL"
