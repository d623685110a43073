"""Newton's method on groups of factors (p = 1), and banks whose factors are made on demand:
closed forms against minimizers, both banks against each other, answers by their certificates.
"""

import pickle
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_diabetes
from threadpoolctl import threadpool_info

from conftest import toy
from manykernels import MKLClassifier, MKLRegressor, path
from manykernels._loops import blocks as loops
from manykernels.banks import OnDemandFactorBank, ResolvedKernels
from manykernels.kernels import RBF, KernelCollection, Linear, on_groups
from manykernels.losses import (
    EpsilonInsensitive,
    Hinge,
    Logistic,
    OneClass,
    Squared,
    SquaredHinge,
)
from manykernels.lowrank import Nystroem, RandomFourier
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.result import Status
from manykernels.run_state import RunState
from manykernels.solvers import Blocks, Newton, PrimalNewton, choose_solver, solve
from manykernels.solvers.base import fewest
from manykernels.solvers.lowrank.descent import _steps
from manykernels.solvers.sequential import Sequential

pytestmark = pytest.mark.filterwarnings("ignore:The factors have")

N, SETS = 120, 12
X = np.random.default_rng(3).standard_normal((N, 3 * SETS))
SIGNAL = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 3]) + 0.5 * X[:, 8]
Y = np.where(SIGNAL > 0.0, 1.0, -1.0)
GROUPS = {f"set {k}": range(3 * k, 3 * k + 3) for k in range(SETS)}
KERNELS = on_groups(GROUPS, [RBF(0.2)])
ON_POINTS = ResolvedKernels.from_data(KERNELS, X)
APPROXIMATIONS = [RandomFourier(24), Nystroem(15)]
SMOOTH = [SquaredHinge(), Logistic(), Squared()]
LOSSES = [Hinge(), SquaredHinge(), Logistic(), EpsilonInsensitive(0.2), Squared()]
ROOM = 2**30
BLOCKS = {"p": 1.0, "solver": "blocks"}


def made(approximation=APPROXIMATIONS[0], budget=ROOM, dtype=np.float64, **options):
    on_demand = {"memory_budget": budget, "on_demand": True}
    return approximation.fit(ON_POINTS, X, dtype=dtype, **on_demand, **options)


def targets(loss, outputs=1):
    one = Y if loss.separates else SIGNAL
    shifted = [np.roll(one, 7 * c) for c in range(outputs)]
    return np.stack(shifted)


class TestLoops:
    @pytest.mark.parametrize("threshold", [0.0, 0.3, 2.0])
    def test_the_closed_form_is_the_minimizer(self, threshold, rng):
        z, bends = rng.standard_normal(6), 10.0 ** rng.uniform(-3, 3, 6)
        u = np.empty_like(z)
        length = loops.shrunk(z, bends, threshold, u)
        assert length == pytest.approx(np.linalg.norm(u))

        def value(at):
            smooth = 0.5 * np.sum((1.0 + bends) * at**2) - np.sum(z * at)
            return smooth + threshold * np.linalg.norm(at)

        found = minimize(value, u + 0.01, method="Powell", options={"ftol": 1e-14})
        assert value(u) <= found.fun + 1e-12

    def test_rounds_on_a_gram_matrix_end_at_the_minimizer(self, rng):
        cp = pytest.importorskip("cvxpy")
        A, c, x = rng.standard_normal((30, 8)), 5.0 * rng.standard_normal(8), np.zeros((4, 2))
        for k in range(4):  # columns of a block are orthogonal
            A[:, 2 * k : 2 * k + 2] = np.linalg.qr(A[:, 2 * k : 2 * k + 2])[0]
        A[:, 2:4] = A[:, :2] + 0.05 * A[:, 2:4]  # and two blocks are alike
        G = A.T @ A
        for k in range(4):
            G[2 * k, 2 * k + 1] = G[2 * k + 1, 2 * k] = 0.0
        G += np.eye(8) * max(0.0, 1e-6 - np.linalg.eigvalsh(G).min())
        loops.descend(G, c.reshape(4, 2).copy(), x, 1e-18, 100_000)
        z = cp.Variable(8)
        lengths = sum(cp.norm(z[2 * k : 2 * k + 2]) for k in range(4))
        value = 0.5 * cp.square(lengths) + 0.5 * cp.quad_form(z, cp.psd_wrap(G)) - c @ z
        best = cp.Problem(cp.Minimize(value)).solve()
        total, at = np.linalg.norm(x, axis=1).sum(), x.ravel()
        assert 0.5 * total**2 + 0.5 * at @ G @ at - c @ at == pytest.approx(best, rel=1e-6)

    def test_nothing_is_left_of_what_is_below_the_threshold(self):
        u = np.ones(2)
        assert loops.shrunk(np.array([0.3, 0.4]), np.ones(2), 0.5, u) == 0.0
        assert not u.any()

    @pytest.mark.parametrize("loss", [SquaredHinge(), Hinge(), EpsilonInsensitive(0.1), Squared()])
    def test_the_intercept_gives_the_coefficients_their_sum(self, loss, rng):
        box = loss.box(Y if loss.separates else SIGNAL, rng.random(N) + 0.1)
        ridge = np.where(box.ridge > 0.0, box.ridge, 0.2)
        beta, f = np.empty(N), rng.standard_normal(N)
        bounds = box.bounds()._replace(ridge=ridge)
        for start in (0.0, 50.0, -50.0):
            loops.leveled(box.linear, bounds, f, start, 0.0, 1e-13, beta)
            assert abs(beta.sum()) <= 1e-12 * np.abs(beta).sum()
            assert (beta >= box.lower).all()
            assert (beta <= box.upper).all()


class TestMadeBank:
    def test_threads_of_others_stay_as_they_are(self):
        before = [one["num_threads"] for one in threadpool_info()]
        model = MKLClassifier(KERNELS, p=1.0, approximation=RandomFourier(24), solver="blocks")
        model.set_params(n_jobs=4).fit(X, Y)
        assert [one["num_threads"] for one in threadpool_info()] == before

    def test_copies_hold_nothing(self):
        bank = made()
        bank.block(3)
        copy = pickle.loads(pickle.dumps(bank))
        assert not copy._held
        np.testing.assert_allclose(copy.block(3), bank.block(3))

    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
    @pytest.mark.parametrize("budget", [0, 40_000, ROOM])
    def test_it_is_the_bank_of_all_factors(self, approximation, budget, rng):
        bank, whole = made(approximation, budget), approximation.fit(ON_POINTS, X, dtype=float)
        bank.want([1, 4])
        beta, weights = rng.standard_normal((2, N)), np.where(rng.random(SETS) < 0.5, 0.3, 0.0)
        coefficients = rng.standard_normal((2, bank.width))
        for name, args in {
            "combine": (weights,),
            "quadratic_forms": (beta,),
            "products": (beta,),
            "decision": (weights, beta),
            "columns": ([3, 7],),
            "diagonal": (),
            "combined_diagonal": (weights,),
            "correlate": (beta,),
            "dot": (coefficients,),
            "sums_of": ([0, 5], coefficients),
            "coefficients": (weights, beta),
        }.items():
            ours, theirs = (getattr(one, name)(*args) for one in (bank, whole))
            np.testing.assert_allclose(ours, theirs, atol=1e-9, err_msg=name)
        np.testing.assert_allclose(bank.block(4), whole.block(4), atol=1e-12)
        some = np.arange(0, N, 3)
        np.testing.assert_allclose(
            bank.take_points(some).diagonal(), whole.take_points(some).diagonal(), atol=1e-9
        )
        np.testing.assert_allclose(
            bank.take_kernels([2, 5], 3.0).combine(np.ones(2)),
            whole.take_kernels([2, 5], 3.0).combine(np.ones(2)),
            atol=1e-9,
        )

    def test_no_more_is_held_than_the_budget_allows(self):
        size = made().block(0).nbytes
        bank = made(budget=3 * size)
        assert not bank.holds_all
        bank.correlate(Y)
        assert not bank._held  # nothing was wanted
        bank.want([2, 3, 4, 5])
        for k in range(SETS):
            bank.block(k)
        assert set(bank._held) == {2, 3, 4}
        bank.want([7])
        bank.block(7)
        assert 7 in bank._held
        assert len(bank._held) == 3

    def test_the_plan_says_what_is_held(self, capsys):
        assert "made once and held" in made(verbose=1).plan()
        assert "held" in capsys.readouterr().err
        size = made().block(0).nbytes
        assert "3 kernels at most" in made(budget=3 * size).plan()
        made(verbose=0)
        assert not capsys.readouterr().err


class TestAnswers:
    @pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
    @pytest.mark.parametrize("C", [0.05, 2.0])
    @pytest.mark.parametrize("outputs", [1, 3])
    def test_the_certificate_holds_from_scratch(self, loss, C, outputs):
        problem = Problem(made(), targets(loss, outputs), np.full(N, C), PNormBall(1), loss)
        found = solve(problem, Blocks(), tol=1e-3)
        assert found.status is Status.OPTIMAL
        again = problem.certificate(found.weights, found.beta)
        assert 0.0 <= again.gap <= 1e-3 * 1.01
        whole = APPROXIMATIONS[0].fit(ON_POINTS, X, dtype=float)
        exact = solve(Problem(whole, *_stated(problem)), Newton(), tol=1e-6)
        assert found.objective == pytest.approx(exact.objective, rel=2e-3)

    @pytest.mark.parametrize("loss", [SquaredHinge(), Logistic(), Hinge()])
    def test_many_digits(self, loss):
        problem = Problem(made(), targets(loss), np.full(N, 1.0), PNormBall(1), loss)
        found = solve(problem, Blocks(), tol=1e-7)
        assert found.status is Status.OPTIMAL
        assert problem.certificate(found.weights, found.beta).gap <= 1.1e-7

    @pytest.mark.parametrize("seed", [0, 1, 15])
    @pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.1), Logistic()])
    def test_a_large_cost(self, loss, seed):
        """Where rounds would not end, or gain next to nothing, another method does."""
        bank = made(RandomFourier(24, random_state=seed))
        problem = Problem(bank, targets(loss), np.full(N, 1e4), PNormBall(1), loss)
        found = solve(problem, Blocks(), tol=1e-3)
        assert found.status is Status.OPTIMAL
        assert problem.certificate(found.weights, found.beta).gap <= 1.1e-3

    @pytest.mark.parametrize("loss", [Logistic(), Hinge(), Squared()])
    def test_kernels_that_are_alike(self, loss):
        """Correlated kernels, most of which get weight, take few steps, and not another method."""
        mixed = X[:, :8] @ np.random.default_rng(0).standard_normal((8, 3 * SETS)) + 0.3 * X
        points = ResolvedKernels.from_data(on_groups(GROUPS, [RBF("median")]), mixed)
        bank = RandomFourier(24).fit(points, mixed, dtype=float, on_demand=True)
        problem = Problem(bank, targets(loss), np.full(N, 3.0), PNormBall(1), loss)
        found = solve(problem, Blocks(), tol=1e-4)
        assert found.status is Status.OPTIMAL
        assert problem.certificate(found.weights, found.beta).gap <= 1.01e-4
        assert found.counters.svm_solves == 0
        assert np.count_nonzero(found.weights) > SETS // 2

    def test_optimality_conditions(self):
        """Moments of kernels in use are equally long, those of others are not longer."""
        problem = Problem(made(), Y[None], np.full(N, 0.3), PNormBall(1), SquaredHinge())
        found = solve(problem, Blocks(), tol=1e-8)
        forms, used = problem.quadratic_forms(found.beta), found.weights > 1e-6
        assert 0 < used.sum() < SETS
        np.testing.assert_allclose(forms[used], forms.max(), rtol=1e-3)

    @pytest.mark.parametrize("loss", [SquaredHinge(), Hinge()])
    def test_rows_without_a_cost_do_not_count(self, loss):
        cost, some = np.full(N, 0.5), np.arange(N) % 3 > 0
        cost[~some] = 0.0
        cost[:40] *= 4.0
        whole = solve(Problem(made(), Y[None], cost, PNormBall(1), loss), Blocks(), tol=1e-5)
        part = Problem(made().take_points(some), Y[None, some], cost[some], PNormBall(1), loss)
        assert whole.status is Status.OPTIMAL
        assert whole.objective == pytest.approx(solve(part, Newton(), tol=1e-6).objective, rel=1e-4)
        assert not whole.beta[:, ~some].any()

    def test_one_class(self):
        problem = Problem(made(), np.ones((1, N)), np.full(N, 1.0), PNormBall(1), OneClass(0.3))
        found = solve(problem, Blocks(), tol=1e-3)
        whole = APPROXIMATIONS[0].fit(ON_POINTS, X, dtype=float)
        exact = solve(Problem(whole, *_stated(problem)), Newton(), tol=1e-6)
        assert found.status is Status.OPTIMAL
        assert found.objective == pytest.approx(exact.objective, rel=2e-3)

    def test_factors_that_are_made_again_give_the_same(self):
        held, again = (
            solve(
                Problem(made(budget=budget), Y[None], np.full(N, 1.0), PNormBall(1), Hinge()),
                Blocks(),
            )
            for budget in (ROOM, 0)
        )
        assert again.status is Status.OPTIMAL
        assert held.objective == pytest.approx(again.objective, rel=2e-3)

    def test_targets_without_anything_to_explain(self):
        problem = Problem(made(), np.ones((1, N)), np.full(N, 1.0), PNormBall(1), Squared())
        found = solve(problem, Blocks(), tol=1e-3)
        assert np.isfinite(found.weights).all()
        np.testing.assert_allclose(found.beta, 0.0, atol=1e-10)

    def test_what_it_is_not_for(self):
        problem = Problem(made(), Y[None], np.full(N, 1.0), PNormBall(2), Hinge())
        with pytest.raises(ValueError, match="solver='primal'"):
            solve(problem, Blocks())
        with pytest.raises(ValueError, match="give an approximation"):
            MKLClassifier(KERNELS, solver="blocks", p=1.0).fit(X, Y)

    def test_as_few_as_are_good(self):
        weights = np.array([0.1, 0.5, 0.0, 0.3, 0.1])
        few = fewest(weights, lambda some: np.count_nonzero(some) >= 2)
        np.testing.assert_allclose(few, [0.0, 0.625, 0.0, 0.375, 0.0])
        assert fewest(weights, lambda some: False) is weights


class TestHeldFactors:
    """Rounds before Newton's method, where all factors are held and there are many columns."""

    @staticmethod
    def problem(loss, C, outputs=1):
        bank = RandomFourier(60).fit(ON_POINTS, X, dtype=float)
        cost = np.full(N, C)
        return Problem(bank, targets(loss, outputs), cost, PNormBall(1), loss)

    @pytest.fixture(autouse=True)
    def worth(self, lower):
        lower(block_operations=0.0)

    @pytest.mark.parametrize("loss", SMOOTH, ids=lambda loss: type(loss).__name__)
    @pytest.mark.parametrize("C", [0.05, 1.0, 100.0])
    @pytest.mark.parametrize("outputs", [1, 3])
    def test_the_answer_is_newtons(self, loss, C, outputs):
        problem = self.problem(loss, C, outputs=outputs)
        solver = choose_solver("auto", RunState(problem))
        assert isinstance(solver, Blocks)
        assert isinstance(solver.then, Newton)
        found, exact = solve(problem, solver, tol=1e-4), solve(problem, Newton(), tol=1e-6)
        assert found.status is Status.OPTIMAL
        assert problem.certificate(found.weights, found.beta).gap <= 1.01e-4
        assert found.objective == pytest.approx(exact.objective, rel=2e-4)

    @pytest.mark.parametrize(("C", "takes_over"), [(0.05, False), (1e3, True)])
    def test_newtons_method_takes_over_where_rounds_are_many(self, C, takes_over, monkeypatch):
        begun, init = [], Sequential.init

        def counted(self, run):
            begun.append(run)
            return init(self, run)

        monkeypatch.setattr(Sequential, "init", counted)
        problem = self.problem(SquaredHinge(), C)
        found = solve(problem, choose_solver("auto", RunState(problem)), tol=1e-4)
        assert found.status is Status.OPTIMAL
        assert bool(begun) is takes_over

    @pytest.mark.parametrize("loss", SMOOTH, ids=lambda loss: type(loss).__name__)
    def test_few_columns_have_another_method_behind_it(self, loss):
        narrow = RandomFourier(4).fit(ON_POINTS, X, dtype=float)
        problem = Problem(narrow, targets(loss), np.full(N, 5.0), PNormBall(1), loss)
        solver = choose_solver("auto", RunState(problem))
        assert isinstance(solver, Blocks)
        assert isinstance(solver.then, PrimalNewton)
        found, other = (solve(problem, one, tol=1e-5) for one in (solver, PrimalNewton()))
        assert problem.certificate(found.weights, found.beta).gap <= 1.01e-5
        assert found.objective == pytest.approx(other.objective, rel=2e-5)

    def test_where_it_is_not_tried(self, lower, monkeypatch):
        def chosen(problem):
            return choose_solver("auto", RunState(problem))

        assert not isinstance(chosen(self.problem(Hinge(), 1.0)), Blocks)
        narrow = RandomFourier(3).fit(ON_POINTS, X, dtype=float)
        few = Problem(narrow, Y[None], np.full(N, 1.0), PNormBall(1), SquaredHinge())
        lower(block_points_per_column=3)
        assert not isinstance(chosen(few), Blocks)
        monkeypatch.undo()  # a small problem
        assert not isinstance(chosen(self.problem(SquaredHinge(), 1.0)), Blocks)

    def test_what_is_to_come(self):
        assert _steps(np.inf, 1.0, 1e-3) == 0.0
        assert _steps(1.0, 0.1, 1e-3) == pytest.approx(2.0)
        assert _steps(1.0, 1e-4, 1e-3) == 0.0
        assert _steps(1.0, 1.5, 1e-3) == np.inf


class TestPaths:
    """Problems that begin where one of a smaller C ended."""

    @staticmethod
    def along(costs, loss, forget=False, dtype=float):
        bank, before = RandomFourier(24).fit(ON_POINTS, X, dtype=dtype), None
        for C in costs:
            problem = Problem(bank, targets(loss), np.full(N, C), PNormBall(1), loss)
            if before is not None and forget:
                before.carried = None
            before = solve(problem, Blocks(), tol=1e-3, start=before)
            yield problem, before

    @pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_every_certificate_holds(self, loss, dtype):
        for problem, found in self.along(np.geomspace(0.1, 3.0, 8), loss, dtype=dtype):
            assert found.status is Status.OPTIMAL
            finer = problem if dtype is np.float64 else problem.refined() or problem
            assert finer.certificate(found.weights, found.beta).gap <= 1.02e-3

    def test_a_step_ahead_saves_products(self):
        costs = np.geomspace(0.5, 2.0, 20)
        ahead, forgetful = (
            sum(found.counters.machine_steps for _, found in self.along(costs, Squared(), forget))
            for forget in (False, True)
        )
        assert ahead < 0.7 * forgetful

    def test_coefficients_of_other_features_do_no_harm(self):
        *_, (problem, before) = self.along([0.5, 0.6], Squared())
        v = before.carried.v
        for wrong in (v[:, ::-1], -100.0 * v, v[:, :-1], np.zeros_like(v)):
            before.carried = before.carried._replace(v=wrong)
            found = solve(problem, Blocks(), tol=1e-3, start=before)
            assert found.status is Status.OPTIMAL
            assert problem.certificate(found.weights, found.beta).gap <= 1.01e-3

    def test_wide_factors_become_finer_where_rounding_is_in_the_way(self):
        points, values = load_diabetes(return_X_y=True)
        points, values = (one / one.std(axis=0) for one in (points, values - values.mean()))
        widths = [RBF(g) for g in (0.01, 0.03, 0.1, 0.3, 1.0)]
        model = MKLRegressor(widths, p=1.0, loss="squared", approximation=Nystroem(50))
        model.set_params(C=1e5).fit(points, values)  # a kernel in float32 is not definite there
        assert model.result_.status is Status.OPTIMAL

    def test_files_and_parts_have_nothing_of_it(self):
        *_, (_, found) = self.along([0.5], Squared())
        assert found.carried is not None
        assert pickle.loads(pickle.dumps(found)).carried is None
        assert found.part(0).carried is None


class TestEstimators:
    @pytest.mark.parametrize("approximation", APPROXIMATIONS)
    def test_many_groups_of_columns_are_solved_by_blocks(self, approximation, lower):
        lower(block_columns_with_corners=100)
        model = MKLClassifier(KERNELS, p=1.0, C=0.5, approximation=approximation).fit(X, Y)
        assert isinstance(model._data(X, Y, None).bank, OnDemandFactorBank)
        run = RunState(Problem(made(), Y[None], np.full(N, 1.0), PNormBall(1), Hinge()))
        assert isinstance(choose_solver("auto", run), Blocks)
        other = MKLClassifier(KERNELS, p=1.0, C=0.5, approximation=approximation, solver="newton")
        other.fit(X, Y)
        assert model.result_.objective == pytest.approx(other.result_.objective, rel=3e-3)
        np.testing.assert_allclose(
            model.decision_function(X), other.decision_function(X), atol=0.15
        )

    def test_other_problems_are_not(self):
        for p, kernels in ((1.33, KERNELS), (1.0, [RBF(0.1), RBF(1.0), Linear()])):
            model = MKLClassifier(kernels, p=p, approximation=Nystroem(5))
            assert not isinstance(model._data(X, Y, None).bank, OnDemandFactorBank)
        few = MKLClassifier(KERNELS, p=1.0, approximation=Nystroem(5))  # a small system
        assert not isinstance(few._data(X, Y, None).bank, OnDemandFactorBank)

    def test_the_norms_of_a_path_decide(self):
        options = {"approximation": RandomFourier(24), "cache_size": 0.03}
        sparse = MKLClassifier(KERNELS, p=2.0, **options)
        assert path(sparse, X, Y, p=[1.0])[0].result_.status is Status.OPTIMAL
        with pytest.raises(ValueError, match="memory budget"):
            path(MKLClassifier(KERNELS, p=1.0, **options), X, Y, p=[1.0, 2.0])

    def test_factors_over_the_budget(self):
        options = {"p": 1.0, "C": 0.5, "loss": "squared_hinge", "approximation": RandomFourier(24)}
        options["solver"] = "blocks"
        small = MKLClassifier(KERNELS, cache_size=0.03, **options).fit(X, Y)
        large = MKLClassifier(KERNELS, **options).fit(X, Y)
        assert small.result_.status is Status.OPTIMAL
        assert small.result_.objective == pytest.approx(large.result_.objective, rel=2e-3)
        np.testing.assert_allclose(small.kernel_weights_, large.kernel_weights_, atol=0.03)

    def test_predictions_make_no_kernel_without_weight(self, monkeypatch):
        model = MKLClassifier(KERNELS, C=0.1, approximation=RandomFourier(24), **BLOCKS).fit(X, Y)
        used = np.flatnonzero(model.kernel_weights_)
        assert 0 < used.size < SETS
        widths = []
        from manykernels.lowrank.maps import FourierMap

        block = FourierMap.block

        def counted(self, points):
            widths.append(self.width)
            return block(self, points)

        monkeypatch.setattr(FourierMap, "block", counted)
        scores = model.decision_function(X[:7])
        assert widths == [24 * used.size]
        parts = model.group_decisions(X[:7])
        total = sum(np.asarray(parts[name]) for name in parts)
        np.testing.assert_allclose(total + model.intercept_, scores, atol=1e-6)

    def test_a_path_is_as_good_as_single_fits(self):
        model = MKLRegressor(
            KERNELS, loss="squared", approximation=RandomFourier(24), tol=1e-4, **BLOCKS
        )
        costs = [0.01, 0.1, 1.0]
        for one, C in zip(path(model, X, SIGNAL, C=costs), costs, strict=True):
            alone = MKLRegressor(**{**model.get_params(), "C": C}).fit(X, SIGNAL)
            assert one.result_.objective == pytest.approx(alone.result_.objective, rel=2e-4)

    def test_several_classes_and_weights_of_their_own(self):
        labels = np.digitize(SIGNAL, [-0.7, 0.7])
        for share in (True, False):
            model = MKLClassifier(
                KERNELS, share_weights=share, approximation=Nystroem(15), **BLOCKS
            ).fit(X, labels)
            assert model.result_.status is Status.OPTIMAL
            assert model.score(X, labels) > 0.7

    def test_a_limit_leaves_a_model(self):
        model = MKLClassifier(KERNELS, C=5.0, approximation=RandomFourier(24), **BLOCKS)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.set_params(max_iter=3, tol=1e-9).fit(X, Y)
        assert model.result_.status is Status.MAX_ITER
        assert model.score(X, Y) > 0.8


def _stated(problem):
    return problem.targets, problem.cost, problem.regularizer, problem.loss


def test_toy_problems_agree_with_exact_kernels(rng):
    """With as many landmarks as points the factors are exact, and so is the answer."""
    points, labels = toy(60)
    kernels = KernelCollection([RBF(1.0, features=[j]) for j in range(4)])
    on_points = ResolvedKernels.from_data(kernels, points)
    bank = Nystroem(60, cutoff=0.0).fit(on_points, points, dtype=float, on_demand=True)
    problem = Problem(bank, labels[None], np.full(60, 1.0), PNormBall(1), SquaredHinge())
    found = solve(problem, Blocks(), tol=1e-5)
    exact = MKLClassifier(
        kernels, p=1.0, C=1.0, loss="squared_hinge", tol=1e-6, solver="newton"
    ).fit(points, labels)
    assert found.objective == pytest.approx(exact.result_.objective, rel=1e-4)
