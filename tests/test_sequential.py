"""Newton's method for p = 1, and one SVM where the weights do not depend on the data."""

from dataclasses import replace

import numpy as np
import pytest

from conftest import MIXED, toy
from manykernels import MKLClassifier
from manykernels.banks import make_bank
from manykernels.kernels import KernelCollection, paper_bank
from manykernels.losses import (
    EpsilonInsensitive,
    Hinge,
    Logistic,
    OneClass,
    Squared,
    SquaredHinge,
)
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall, SquaredPNorm
from manykernels.run_state import RunState
from manykernels.solvers import SPG, Newton, solve
from manykernels.solvers import saddle as saddle_module
from manykernels.solvers.dual import HeldPoint
from manykernels.solvers.newton import OneSVM
from manykernels.solvers.saddle import (
    Goal,
    HingeSaddle,
    Saddle,
    first_guess,
    next_guess,
    solution,
)
from manykernels.solvers.sequential import Sequential

X, y = toy(60)
NUMBERS = X[:, 0] + 0.3 * X[:, 1] ** 2
CODES = np.digitize(X[:, 0] + X[:, 1], np.linspace(-1, 1, 2))
CLASSES = np.stack([np.where(CODES == c, 1.0, -1.0) for c in range(3)])
BANK = make_bank(KernelCollection(MIXED), X, normalize="trace", dtype=np.float64)
LOSSES = [
    (Hinge(), y),
    (SquaredHinge(), y),
    (Logistic(), y),
    (EpsilonInsensitive(0.05), NUMBERS),
    (Squared(), NUMBERS),
    (OneClass(0.3), np.ones(60)),
    (Hinge(), CLASSES),
    (Logistic(), CLASSES),
]
NAMES = [
    "hinge",
    "squared_hinge",
    "logistic",
    "epsilon",
    "squared",
    "one_class",
    "three classes",
    "logistic of three classes",
]


def problem(C=10.0, loss=None, targets=y, bank=BANK, p=1.0):
    return Problem(bank, targets, np.full(60, C), PNormBall(p), loss or Hinge())


def saddle_of(task):
    """The program around the first SVM, and the absolute gap there."""
    run = RunState(task)
    state = Sequential().init(run)
    weights = state.iterate.weights
    made = Saddle(run, run.held_kernel(weights), weights, state.point)
    return made, state.iterate.certificate.absolute_gap


class TestSequential:
    @pytest.mark.parametrize("C", [0.1, 10.0, 1e4])
    @pytest.mark.parametrize(("loss", "targets"), LOSSES, ids=NAMES)
    def test_it_certifies_small_gaps(self, loss, targets, C):
        task = problem(C, loss, targets)
        result = solve(task, Sequential(), tol=1e-7)
        assert result.status.name == "OPTIMAL"
        assert abs(task.certificate(result.weights, result.beta).gap) <= 1.1e-7
        assert result.weights.min() >= 0.0
        assert result.weights.sum() == pytest.approx(1.0)

    @pytest.mark.parametrize(("loss", "targets"), LOSSES[:5], ids=NAMES[:5])
    def test_agrees_with_spg(self, loss, targets):
        task = problem(3.0, loss, targets)
        ours, theirs = (solve(task, solver, tol=1e-5) for solver in (Sequential(), SPG()))
        assert ours.objective == pytest.approx(theirs.objective, rel=2e-5)

    def test_few_full_passes(self):
        for C in (1.0, 100.0, 1000.0):
            assert solve(problem(C), Sequential()).counters.kernel_passes <= 15

    @pytest.mark.parametrize("C", [10.0, 1e3, 1e5])
    def test_kernels_that_separate_the_classes(self, C):
        """No coefficient is at a bound, and the primal value is of no help far from the optimum:
        this took 60 passes and more, or stalled.
        """
        bank = make_bank(KernelCollection(MIXED), X, normalize="diagonal", dtype=np.float32)
        result = solve(problem(C, bank=bank), Sequential())
        assert result.status.name == "OPTIMAL"
        assert result.counters.kernel_passes <= 25
        assert np.count_nonzero(result.weights) < bank.m

    def test_float32_kernels_are_refined(self):
        bank = make_bank(KernelCollection(MIXED), X, normalize="trace", dtype=np.float32)
        result = solve(problem(1e4, bank=bank), Sequential(), tol=1e-8)
        assert abs(problem(1e4).certificate(result.weights, result.beta).gap) <= 2e-8

    def test_no_sparser_result_is_easily_had(self):
        """Dropping the lightest kernel that is left costs more than the tolerance allows."""
        for C in (0.1, 1.0, 30.0):
            task = problem(C)
            result = solve(task, Sequential(), tol=1e-3)
            used = np.flatnonzero(result.weights)
            if used.size == 1:
                continue
            fewer = result.weights.copy()
            fewer[used[np.argmin(fewer[used])]] = 0.0
            assert task.certificate(fewer / fewer.sum(), result.beta).gap > 1e-3

    def test_an_easy_problem_is_sparse_too(self):
        """Where equal weights are within the tolerance, the result is still not all kernels."""
        task = problem(0.01)
        first = Sequential().init(RunState(task)).iterate
        assert first.weights.all()
        assert first.certificate.gap <= 0.05
        result = solve(task, Newton(), tol=0.05)
        assert np.count_nonzero(result.weights) < BANK.m

    def test_dense_weights_to_begin_with_are_thinned(self):
        first = solve(problem(p=2.0), Newton(), tol=1e-4)
        again = solve(problem(), Newton(), tol=1e-3, start=first)
        assert np.count_nonzero(again.weights) < BANK.m

    def test_equal_kernels(self):
        bank = make_bank(KernelCollection([MIXED[0]] * 4), X, dtype=np.float64)
        result = solve(problem(bank=bank), Newton(), tol=1e-6)
        assert result.status.name == "OPTIMAL"

    def test_nothing_to_explain(self):
        result = solve(problem(1.0, Squared(), np.zeros(60)), Sequential())
        assert result.status.name == "OPTIMAL"
        assert result.objective == 0.0

    def test_it_names_what_works(self):
        with pytest.raises(ValueError, match="Newton"):
            solve(problem(p=2.0), Sequential())
        with pytest.raises(ValueError, match="memory budget"):
            Sequential().check(RunState(problem(), memory_budget=1000))

    def test_wide_sparse_tables(self):
        """More kernels than points: it used to stall with every kernel kept."""
        rng = np.random.default_rng(0)
        A = rng.random((50, 40)) * (rng.random((50, 40)) < 0.1)
        clf = MKLClassifier(paper_bank(A)).fit(A, rng.integers(0, 2, 50))
        assert clf.result_.status.name == "OPTIMAL"
        assert np.count_nonzero(clf.kernel_weights_) < 100


class TestHingeSaddle:
    BANK = make_bank(KernelCollection(MIXED), X, normalize="trace", dtype=np.float32)

    @pytest.mark.parametrize("C", [0.1, 10.0, 1e3])
    def test_the_compiled_program_is_that_of_python(self, C):
        cost = np.where(np.arange(60) % 7 == 0, 0.0, C)
        saddle, gap = saddle_of(Problem(self.BANK, y, cost, PNormBall(1.0), Hinge()))
        saddle.run.tol, goal = 1e-3, Goal(gap, 1e-3 * gap)
        compiled = HingeSaddle(saddle.run, saddle.K, saddle.weights, saddle.point)
        assert HingeSaddle.fits(saddle.run, saddle.K, saddle.point)
        first = next(compiled._approaches(compiled._at(saddle.weights, saddle.point.beta), goal))
        # what it says of its point is what Python says of it
        again = saddle._between(first.d, first.x, saddle._times(first.x), saddle.forms(first.x))
        error = 1e-4
        assert again.upper == pytest.approx(first.upper, rel=error)
        assert again.lower == pytest.approx(first.lower, rel=error, abs=error * first.upper)
        # and both find the saddle
        other = saddle.solve(goal)
        solved = compiled.solve(goal)
        assert max(solved.lower, other.lower) <= min(solved.upper, other.upper) * (1.0 + error)
        assert solved.gap <= max(goal.wanted, 1.1 * other.gap)

    def test_small_gaps_and_other_losses_are_not_its_matter(self):
        coarse, squared = problem(bank=self.BANK), problem(loss=SquaredHinge(), bank=self.BANK)
        for task, tol in ((coarse, 1e-6), (squared, 1e-3), (problem(), 1e-3)):
            saddle, _ = saddle_of(task)
            saddle.run.tol = tol
            assert not HingeSaddle.fits(saddle.run, saddle.K, saddle.point)


class TestSaddle:
    @pytest.mark.parametrize(("loss", "targets"), LOSSES, ids=NAMES)
    def test_bounds_close(self, loss, targets):
        """Any weights and coefficients bound the value of the program, and the solution's meet."""
        saddle, gap = saddle_of(problem(10.0, loss, targets))
        solved = saddle.solve(Goal(gap, 1e-6 * gap))
        x = solved.x
        found = saddle._between(solved.d, x, saddle._times(x), saddle.forms(x))
        assert found.gap <= 1e-6 * gap
        rng = np.random.default_rng(0)
        for _ in range(20):
            d = rng.dirichlet(np.ones(BANK.m))
            other = saddle.run.problem.feasible(x * rng.uniform(0.0, 1.0, x.shape))
            there = saddle._between(d, other, saddle._times(other), saddle.forms(other))
            slack = 1e-9 * abs(found.upper)
            assert there.upper >= found.lower - slack
            assert there.lower <= found.upper + slack

    def test_tangent(self):
        """Forms are exact at the point and have its slope."""
        saddle, _ = saddle_of(problem())
        beta, change = saddle.point.beta, np.random.default_rng(1).normal(size=(1, 60))
        np.testing.assert_allclose(saddle.forms(beta), saddle.point.forms, rtol=1e-10)
        exact = [BANK.quadratic_forms(beta + h * change) for h in (1e-5, -1e-5)]
        slope = saddle.forms(beta + change) - saddle.forms(beta)
        np.testing.assert_allclose(slope, (exact[0] - exact[1]) / 2e-5, rtol=1e-5, atol=1e-9)

    @pytest.mark.parametrize(("loss", "targets"), LOSSES, ids=NAMES)
    def test_kernels_are_let_in(self, loss, targets, monkeypatch):
        """A program that begins with few kernels comes to the same saddle."""
        task = problem(10.0, loss, targets)
        run = RunState(task)
        state = Sequential().init(run)
        gap, around = state.iterate.certificate.absolute_gap, np.zeros(BANK.m)
        around[int(np.argmin(state.point.forms))] = 1.0  # far from the best
        K = run.held_kernel(around)
        whole = Saddle(run, K, around, state.point)
        goal = Goal(gap, 1e-8 * gap)
        value = whole.solve(goal)
        few = replace(saddle_module.TOLERANCES, first_candidates=1, programs=20)
        monkeypatch.setattr(saddle_module, "TOLERANCES", few)
        found = saddle_module.aim(run, K, around, state.point, goal)
        assert found.d.sum() == pytest.approx(1.0)
        here = whole._at(found.d, found.x)  # with all kernels
        assert here.gap <= 1e-5 * gap
        assert here.lower <= value.upper + 1e-6 * gap
        assert here.upper >= value.lower - 1e-6 * gap


class TestEquations:
    @pytest.mark.parametrize(("loss", "targets"), LOSSES, ids=NAMES)
    def test_the_right_guess_gives_the_saddle(self, loss, targets):
        saddle, gap = saddle_of(problem(10.0, loss, targets))
        solved = saddle.solve(Goal(gap, 1e-9 * gap))
        task = saddle.run.problem
        guess = first_guess(task, solved.d, solved.x)
        found = solution(task, saddle.K, saddle.given, saddle.point, guess, 1500)
        if found is None:  # an output without free coefficients
            assert not guess.free.any(axis=1).all()
            return
        x, d = task.feasible(found.x), np.maximum(found.d, 0.0)
        here = saddle._between(d / d.sum(), x, saddle._times(x), saddle.forms(x))
        assert here.gap <= 1e-6 * gap

    def test_a_wrong_guess_is_corrected(self):
        saddle, gap = saddle_of(problem(10.0))
        solved, task = saddle.solve(Goal(gap, 1e-9 * gap)), saddle.run.problem
        right = first_guess(task, solved.d, solved.x)
        wrong = right.free.copy()
        wrong[0, np.flatnonzero(wrong[0])[0]] = False
        guess = right._replace(free=wrong)
        for _ in range(5):
            found = solution(task, saddle.K, saddle.given, saddle.point, guess, 1500)
            x = task.feasible(found.x)
            guess = next_guess(task, saddle, guess, found, saddle._times(x))
            if guess is None:
                break
        assert guess is None
        np.testing.assert_allclose(found.d, solved.d, atol=1e-6)


class TestOneSVM:
    @pytest.mark.parametrize("targets", [y, CLASSES], ids=["two", "three"])
    def test_plain_sum(self, targets):
        task = problem(5.0, targets=targets, p=np.inf)
        result = solve(task, Newton(), tol=1e-5)
        assert result.status.name == "OPTIMAL"
        assert (result.weights == 1.0).all()
        assert result.counters.kernel_passes == 1
        assert task.certificate(result.weights, result.beta).gap == pytest.approx(
            result.duality_gap, abs=1e-9
        )

    @pytest.mark.parametrize("p", [1.0, 1.33, 2.0])
    def test_one_kernel(self, p):
        bank = make_bank(KernelCollection(MIXED[:1]), X, dtype=np.float64)
        result = solve(problem(bank=bank, p=p), Newton())
        assert result.counters.kernel_passes == 1
        assert result.weights == 1.0

    def test_weights_that_depend_on_the_data(self):
        with pytest.raises(ValueError, match="depend"):
            solve(problem(p=2.0), OneSVM())
        squared = Problem(BANK, y, np.ones(60), SquaredPNorm(np.inf))
        assert not OneSVM().fits(RunState(squared))


def test_held_products_are_those_of_the_bank():
    point = HeldPoint.at(RunState(problem()), np.ones((1, 60)))
    np.testing.assert_allclose(point.products[:, 0], BANK.products(np.ones(60)))


def test_a_kernel_of_weights_that_keep_most_is_updated():
    """``c before + a few`` costs a few kernels, and is the kernel of these weights."""
    bank = make_bank(paper_bank(X), X)
    run = RunState(Problem(bank, y, 1.0, PNormBall(1.0)))
    before = np.full(bank.m, 1.0 / bank.m)
    weights = 0.3 * before
    weights[[1, 4]] += 0.35
    asked = []
    run.held_kernel(before)
    combine = bank.combine
    bank.combine = lambda given, rows=None: asked.append(np.count_nonzero(given)) or combine(given)
    K = run.held_kernel(weights)
    assert asked == [2]
    np.testing.assert_allclose(K, combine(weights), atol=1e-6)
    run.held_kernel(np.arange(bank.m) / bank.m)  # keeps nothing
    assert asked == [2, bank.m - 1]
    run.held_kernel(np.zeros(bank.m))
    np.testing.assert_array_equal(run.held_kernel(before), combine(before))
