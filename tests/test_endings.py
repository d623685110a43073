"""How runs end that do not come to the tolerance: within a budget of work, and with a sentence that
says what to do.
"""

import html
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from conftest import MIXED, toy
from manykernels import MKLClassifier, MKLOneClass, load, run_state, save
from manykernels.banks import ResolvedKernels, make_bank
from manykernels.kernels import RBF, KernelCollection, Linear, Polynomial
from manykernels.losses import HardMargin, Hinge, Logistic, Squared, SquaredHinge
from manykernels.lowrank import Nystroem
from manykernels.machines.base import Machine
from manykernels.problem import Problem
from manykernels.regularizers import L1, PNormBall
from manykernels.result import Status, merged
from manykernels.run_state import RunState
from manykernels.solvers import (
    SOLVERS,
    MultiplicativeWeights,
    choose_solver,
    drive,
    multiplicative,
    solve,
)
from manykernels.solvers.reference import simplex

X, Y = toy(80)
BANK = make_bank(KernelCollection(MIXED), X)
LOW = Nystroem(rank=4).fit(ResolvedKernels.from_data(KernelCollection(MIXED), X), X, dtype=float)
FIXED = ("uniform", "alignment")  # whose weights are set by a rule
WATCHED = [name for name in SOLVERS if SOLVERS[name]().wait is not None]


def problems(C=10.0):
    """One for every kind of solver."""
    for bank in (BANK, LOW):
        for p in (1.0, 1.5):
            for loss in (Hinge(), SquaredHinge()):
                yield Problem(bank, Y, np.full(len(Y), C), PNormBall(p), loss)


def fitting(name):
    """A problem that the solver fits."""
    return next(problem for problem in problems() if choose_solver(name).fits(RunState(problem)))


class TestBudget:
    @pytest.mark.parametrize("name", WATCHED)
    def test_a_run_ends_when_its_work_is_no_longer_worth_waiting_for(self, name):
        solver, run = choose_solver(name), RunState(fitting(name))
        solver.wait, seen = (20.0, 0.0), []
        run.watch = lambda record: seen.append(run.work)
        result = drive(solver, run, tol=1e-14)
        assert result.status in (Status.SLOW, Status.STALLED, Status.OPTIMAL)
        if result.status is Status.SLOW and name != "mwu":  # which also looks at its rounds
            assert max(seen[:-1], default=0.0) <= 20.0 < seen[-1]

    @pytest.mark.parametrize("name", ["spg", "group_lasso", "mirror"])
    def test_whoever_gives_max_iter_says_how_long_to_wait(self, name):
        solver = choose_solver(name)
        solver.wait = (0.0, 0.0)
        assert solve(fitting(name), solver, tol=1e-14).n_iter == 0
        assert solve(fitting(name), solver, tol=1e-14, max_iter=7).n_iter == 7

    def test_work_is_the_same_in_every_run(self):
        ends = [solve(fitting("pgd"), SOLVERS["pgd"](), tol=1e-9) for _ in range(2)]
        assert ends[0].n_iter == ends[1].n_iter
        assert ends[0].status is ends[1].status

    def test_next_to_no_progress_ends_a_run_early(self):
        run, solver = RunState(fitting("spg")), choose_solver("spg")
        run.best = solver.init(run).iterate
        gap, tol = run.best.certificate.gap, 1e-6
        decades = np.log10(gap / tol)
        assert gap < 1.0
        # a third of what is worth waiting for was done
        solver.wait = (0.0, 3.0 * run.work / decades**4)
        assert solver.slow(run, gap, tol)
        run.best = run.best._replace(certificate=run.best.certificate._replace(gap=0.1 * gap))
        assert not solver.slow(run, gap, tol)

    def test_planes_that_say_nothing_are_dropped(self, monkeypatch):
        few = replace(simplex.TOLERANCES, idle_rounds=3)
        monkeypatch.setattr(simplex, "TOLERANCES", few)
        solver, run = choose_solver("silp"), RunState(fitting("silp"))
        state = solver.init(run)
        for _ in range(30):
            state = solver.step(run, state, 1e-12)
        assert len(state.memory) < 20
        short = solve(fitting("silp"), choose_solver("silp"), tol=1e-4)
        assert short.status is Status.OPTIMAL


class TestRounds:
    def problem(self, loss=None, n=60):
        points, y = toy(n)
        bank = make_bank(KernelCollection(MIXED), points, normalize="trace")
        return Problem(bank, y, np.full(n, 50.0), PNormBall(1), loss or Hinge())

    @pytest.mark.parametrize("rounds", [1, 49, 50, 51, 200])
    def test_max_iter_counts_rounds(self, rounds):
        result = solve(self.problem(), MultiplicativeWeights(), tol=1e-12, max_iter=rounds)
        assert result.n_iter == result.counters.machine_steps == rounds
        assert result.status is Status.MAX_ITER
        clf = MKLClassifier(MIXED, solver="mwu", max_iter=rounds, tol=1e-12)
        with pytest.warns(ConvergenceWarning, match=f"MWUMKL took {rounds} round"):
            assert clf.fit(X, Y).n_iter_ == rounds

    def test_the_smaller_of_two_limits_counts(self):
        for given, limit in ((70, 30), (30, 70)):
            result = solve(
                self.problem(), MultiplicativeWeights(rounds=given), tol=1e-12, max_iter=limit
            )
            assert result.n_iter == 30

    def test_the_budget_is_that_of_the_paper(self):
        run, rounds = RunState(self.problem()), int(np.ceil(450 * np.log(60)))
        assert MultiplicativeWeights().limit(run) == rounds
        assert MultiplicativeWeights("paper").limit(run) == rounds
        assert MultiplicativeWeights().limit(RunState(self.problem(HardMargin()))) == 10_000

    def test_columns_that_are_computed_again_are_work(self, monkeypatch):
        kept = solve(self.problem(), MultiplicativeWeights(), tol=1e-12, max_iter=200)
        none = replace(multiplicative.TOLERANCES, cache_bytes=0)
        monkeypatch.setattr(multiplicative, "TOLERANCES", none)
        again = solve(self.problem(), MultiplicativeWeights(), tol=1e-12, max_iter=200)
        assert kept.counters.kernel_passes <= 2 < again.counters.kernel_passes
        ended = MultiplicativeWeights()
        ended.wait = (3.0, 0.0)
        assert solve(self.problem(), ended, tol=1e-12).n_iter < 200
        ended = MultiplicativeWeights(rounds=200)
        ended.wait = (3.0, 0.0)
        assert solve(self.problem(), ended, tol=1e-12).n_iter == 200

    def test_a_hopeless_gap_ends_it_after_a_quarter(self):
        result = solve(self.problem(), MultiplicativeWeights(), tol=1e-9)
        limit = MultiplicativeWeights().limit(RunState(self.problem()))
        assert result.status is Status.SLOW
        assert 0.25 * limit <= result.n_iter < 0.4 * limit
        assert solve(self.problem(), MultiplicativeWeights(), tol=0.05).status is Status.OPTIMAL


class TestMessage:
    @pytest.mark.parametrize(
        "name", [name for name in SOLVERS if name not in ("uniform", "alignment")]
    )
    def test_it_has_the_figures_and_a_solver_that_fits(self, name):
        for problem in problems():
            run, solver = RunState(problem), choose_solver(name)
            if not solver.fits(run):
                continue
            result = drive(solver, run, tol=1e-9, max_iter=1)
            assert result.status is Status.MAX_ITER
            assert result.message.startswith(Status.MAX_ITER.value)
            assert f"{result.duality_gap:.1e}" in result.message
            assert f"1 {solver.unit} " in result.message
            assert "1e-09" in result.message
            if "solver=" in result.message:
                better = result.message.split("solver='")[1].split("'")[0]
                assert better in ("newton", "primal", "interior")
                assert solve(problem, choose_solver(better), tol=1e-4).status is Status.OPTIMAL
            else:
                assert name in ("newton", "primal", "interior")
                assert "max_iter" in result.message

    def test_a_solver_is_named_only_where_it_fits(self):
        hard = Problem(BANK, Y, np.ones(len(Y)), PNormBall(1), HardMargin())
        result = solve(hard, MultiplicativeWeights(), tol=1e-12, max_iter=60)
        assert "newton" not in result.message
        l1 = Problem(BANK, Y, np.full(len(Y), 10.0), L1(1.0))
        result = solve(l1, choose_solver("spg"), tol=1e-12, max_iter=1)
        assert "newton" not in result.message
        assert "max_iter" in result.message

    def test_runs_that_come_to_their_own_end_need_none(self):
        result = solve(next(problems()), choose_solver("newton"), tol=1e-3)
        assert result.message == Status.OPTIMAL.value
        assert result.advice == ""

    def test_the_worst_of_several_problems_speaks(self):
        problem = next(problems())
        done = solve(problem, choose_solver("newton"), tol=1e-3)
        left = solve(problem, choose_solver("spg"), tol=1e-9, max_iter=1)
        assert merged([done, left, done]).message == left.message

    def test_it_is_kept(self, tmp_path):
        with pytest.warns(ConvergenceWarning, match="solver='newton'") as caught:
            clf = MKLClassifier([RBF(0.5), RBF(2.0)], solver="spg", tol=1e-9, max_iter=1).fit(X, Y)
        message = clf.result_.message
        assert message == str(caught[0].message)
        assert message in html.unescape(clf.result_._repr_html_())
        assert pickle.loads(pickle.dumps(clf)).result_.message == message
        save(clf, tmp_path / "model")
        assert load(tmp_path / "model").result_.message == message
        state = clf.result_.__getstate__()
        del state["advice"]
        old = object.__new__(type(clf.result_))
        old.__setstate__(state)
        assert old.message == Status.MAX_ITER.value


class TestFactors:
    """Solvers that solve an SVM at every trial of weights do so in the space of narrow factors."""

    @pytest.mark.parametrize("p", [1.0, 1.5, 2.0])
    @pytest.mark.parametrize("loss", [Hinge(), SquaredHinge(), Logistic()], ids=repr)
    @pytest.mark.parametrize("name", ["group_lasso", "spg"])
    def test_they_agree_with_those_made_for_factors(self, name, loss, p):
        problem = Problem(LOW, Y, np.full(len(Y), 5.0), PNormBall(p), loss)
        assert LOW.prefers_factor_space
        best = solve(problem, choose_solver("auto", RunState(problem)), tol=1e-6)
        ours = solve(problem, choose_solver(name), tol=1e-3)
        assert ours.status is Status.OPTIMAL
        fresh = problem.certificate(ours.weights, ours.beta)
        assert fresh.gap <= 1e-3
        apart = abs(fresh.primal - best.objective)
        assert apart <= fresh.absolute_gap + best.certificate.absolute_gap

    @pytest.mark.parametrize("name", ["group_lasso", "uniform", "spg"])
    def test_no_kernel_of_all_pairs_is_asked_for(self, name, monkeypatch):
        monkeypatch.setattr(type(LOW), "combine", None)
        problem = Problem(LOW, Y, np.full(len(Y), 5.0), PNormBall(2))
        assert solve(problem, choose_solver(name), tol=1e-3).status.converged


def test_rounds_on_factors_are_not_taken_for_systems_of_equations():
    problem = Problem(LOW, Y, np.full(len(Y), 50.0), PNormBall(1), SquaredHinge())
    result = solve(problem, MultiplicativeWeights(), tol=1e-9)
    assert result.n_iter >= 0.25 * MultiplicativeWeights().limit(RunState(problem))


class TestCuttingPlanes:
    def problem(self):
        """Gradients of a hundred million: squared errors at a large cost."""
        X = np.random.default_rng(0).standard_normal((40, 6))
        bank = make_bank(KernelCollection([RBF(1.0, features=[f]) for f in range(6)]), X)
        return Problem(bank, 1e4 * X[:, 0], np.full(40, 1e4), PNormBall(1.0), Squared())

    def test_steep_planes_are_no_obstacle(self):
        found = solve(self.problem(), choose_solver("silp"), tol=0.1)
        assert found.status is Status.OPTIMAL

    def test_a_program_without_a_solution_ends_the_run(self, monkeypatch):
        nothing = SimpleNamespace(x=None, nit=0)
        monkeypatch.setattr(simplex, "linprog", lambda *_, **__: nothing)
        assert solve(self.problem(), choose_solver("silp")).status is Status.STALLED


@pytest.mark.long
def test_kernels_of_very_large_values_end_with_advice(monkeypatch):
    monkeypatch.setattr(Machine, "most_steps", lambda self, n: 50_000)
    monkeypatch.setattr(run_state, "FEWEST_STEPS", 1000)
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 4))
    sides = np.sign(A[:, 0] * A[:, 1] + 0.3 * A[:, 2])
    model = MKLClassifier([Polynomial(2), Linear()], normalize=None)
    with pytest.warns(ConvergenceWarning, match="standardize the columns"):
        model.fit(1e3 * A, sides)
    assert 0.0 <= model.result_.certificate.dual <= model.result_.certificate.primal


def test_rows_around_the_origin_have_no_half_space():
    A = np.random.default_rng(0).standard_normal((40, 3))
    with pytest.warns(ConvergenceWarning, match="origin of the feature space lies among"):
        MKLOneClass([Linear()]).fit(A - A.mean(axis=0))
    assert MKLOneClass([Linear()]).fit(A + 5.0).result_.status.converged


def test_no_iterations_are_none():
    with pytest.warns(ConvergenceWarning, match="limit on iterations"):
        assert MKLClassifier([RBF(1.0), Linear()], max_iter=0).fit(X, Y).n_iter_ == 0
