"""The logistic loss: its dual, what CVXPY and scikit-learn find, what is hard for it, and
probabilities.
"""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from conftest import MIXED, toy
from manykernels import MKLClassifier, MKLClassifierCV, load, path, save
from manykernels.banks import ResolvedKernels, make_bank
from manykernels.estimators.data.decision import ExpansionDecision
from manykernels.kernels import RBF, KernelCollection, Linear
from manykernels.losses import TOLERANCES, Entropy, Hinge, Logistic
from manykernels.lowrank import Nystroem, RandomFourier
from manykernels.machines import (
    BlockedMachine,
    DenseMachine,
    FactoredKernel,
    FactoredMachine,
    KernelRows,
)
from manykernels.problem import Problem
from manykernels.regularizers import L1, GeneralizedKL, PNormBall
from manykernels.run_state import RunState
from manykernels.solvers import (
    SOLVERS,
    SPG,
    GroupLasso,
    Newton,
    PrimalNewton,
    choose_solver,
    solve,
)
from manykernels.solvers.wrappers import FromPoints
from reference import mkl_optimum

X, y = toy(40)
CODES = np.digitize(X[:, 0] + X[:, 1], np.linspace(-1, 1, 2))
CLASSES = np.stack([np.where(CODES == c, 1.0, -1.0) for c in range(3)])
BANK = make_bank(KernelCollection(MIXED), X)
GRAMS = BANK.columns(np.arange(40))
LOW = Nystroem(rank=2).fit(ResolvedKernels.from_data(KernelCollection(MIXED), X), X, dtype=float)
COST = np.random.default_rng(0).uniform(0.5, 3.0, 40)
LINE = make_bank(KernelCollection([Linear(features=0)]), X, normalize=None)
FEW = [RBF(0.1), RBF(1.0), Linear()]
REFUSED = ("smo", "mwu", "interior", "multipliers", "gfb")
ON_SIMPLEX = ("blocks", "mwu", "mirror", "simple", "silp")


def problem(regularizer, cost=COST, targets=y, bank=BANK):
    return Problem(bank, targets, cost, regularizer, Logistic())


def primal_by_hand(bank, weights, beta, b, targets, cost):
    """Half the squared norm and the loss, as books have it."""
    f = bank.combine(weights) @ beta
    return 0.5 * beta @ f + cost @ np.log(1.0 + np.exp(-targets * (f + b)))


def dual_by_hand(bank, alpha, targets, cost, p):
    """Entropies, less half the dual norm of the quadratic forms."""
    t = alpha[cost > 0] / cost[cost > 0]
    entropies = cost[cost > 0] @ (-t * np.log(t) - (1 - t) * np.log(1 - t))
    forms, q = bank.quadratic_forms(targets * alpha), np.inf if p == 1 else p / (p - 1)
    return entropies - 0.5 * np.linalg.norm(forms, q)


class TestEntropy:
    CURVE = Entropy(y, COST)

    def test_slopes_are_those_of_the_value(self):
        alpha, step = COST * np.random.default_rng(0).uniform(0.02, 0.98, 40), 1e-6
        slopes = self.CURVE.slopes(y * alpha)
        for i in range(0, 40, 7):
            ends = [self.CURVE.value(y * alpha + h * step * np.eye(40)[i]) for h in (1, -1)]
            assert slopes[i] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-6, abs=1e-8)

    def test_response_and_slopes_are_inverse(self):
        f = 5.0 * np.random.default_rng(0).standard_normal(40)
        beta, bends = self.CURVE.response(f)
        np.testing.assert_allclose(self.CURVE.slopes(beta), f, atol=1e-8)
        moved = self.CURVE.response(f + 1e-6)[0] - self.CURVE.response(f - 1e-6)[0]
        np.testing.assert_allclose(bends, -moved / 2e-6, rtol=1e-5, atol=1e-10)

    def test_value_and_loss_are_conjugate(self):
        """Fenchel's inequality, with equality for coefficients that belong to decision values."""
        rng = np.random.default_rng(1)
        for _ in range(20):
            f, alpha = 4.0 * rng.standard_normal(40), COST * rng.uniform(0.0, 1.0, 40)
            own = self.CURVE.response(f)[0]
            assert self.CURVE.value(own) - own @ f == pytest.approx(self.CURVE.loss(f), rel=1e-12)
            assert self.CURVE.value(y * alpha) - (y * alpha) @ f <= self.CURVE.loss(f) + 1e-9

    def test_the_ends_of_the_box_are_finite(self):
        for alpha in (np.zeros(40), COST):
            assert self.CURVE.value(y * alpha) == 0.0
            assert np.isfinite(self.CURVE.slopes(y * alpha)).all()
        assert self.CURVE.loss(y * 1e4) == 0.0
        assert self.CURVE.loss(y * -1e4) == pytest.approx(1e4 * COST.sum())

    @pytest.mark.parametrize("spread", [0.0, 1.0, 1e3, 1e6])
    def test_level(self, spread):
        f = spread * np.random.default_rng(2).standard_normal(40)
        for total in (0.0, 1.0, -2.0):
            beta = self.CURVE.response(f + self.CURVE.level(f, total))[0]
            # far apart, one rounding of a decision value moves a whole coefficient
            assert beta.sum() == pytest.approx(total, abs=1e-12 * max(1.0, spread) * COST.sum())

    def test_one_class_alone_has_no_loss(self):
        for side in (1.0, -1.0):
            b = Logistic().intercept(np.full(3, side), np.ones(3), np.array([1.0, -2.0, 0.5]))
            assert side * b >= TOLERANCES.certain_value
            assert Logistic().value(np.full(3, side), np.ones(3), np.zeros(3), b) == 0.0

    def test_the_quadratic_model_has_value_and_slope_of_the_curve(self):
        box, alpha = Logistic().box(y, COST), 0.3 * COST
        model, change = box.around(y * alpha), 1e-4 * np.random.default_rng(3).normal(size=40)
        assert model.curve is None
        assert model.slope(y * alpha, change) == pytest.approx(box.slope(y * alpha, change))
        rise = [one.value(y * alpha + change) - one.value(y * alpha) for one in (box, model)]
        assert rise[0] == pytest.approx(rise[1], abs=1e-8)


class TestOptimum:
    @pytest.mark.parametrize(
        ("p", "targets"), [(1, y), (1.33, y), (2, y), (np.inf, y), (1, CLASSES), (2, CLASSES)]
    )
    def test_what_cvxpy_finds(self, p, targets):
        task = problem(PNormBall(p), targets=targets)
        result = solve(task, choose_solver("auto", RunState(task)), tol=1e-7)
        assert result.status.name == "OPTIMAL"
        assert abs(task.certificate(result.weights, result.beta).gap) <= 1.01e-7
        optimum = mkl_optimum(GRAMS, targets, COST, PNormBall(p), Logistic())
        assert result.objective == pytest.approx(optimum, rel=2e-6)

    @pytest.mark.parametrize("regularizer", [L1(0.7), GeneralizedKL(0.3, 2.0)], ids=repr)
    def test_other_regularizers(self, regularizer):
        task = problem(regularizer)
        result = solve(task, choose_solver("auto", RunState(task)), tol=1e-5)
        assert result.status.name == "OPTIMAL"
        optimum = mkl_optimum(GRAMS, y, COST, regularizer, Logistic())
        assert result.objective == pytest.approx(optimum, rel=2e-5)

    @pytest.mark.parametrize("p", [1, 1.33])
    def test_the_certificate_by_hand(self, p):
        """Primal and dual values as in books, and the conditions of the optimum."""
        cost = COST.copy()
        cost[::5] = 0.0
        task = problem(PNormBall(p), cost)
        result = solve(task, Newton(), tol=1e-8)
        (beta,), (b,) = result.beta, result.intercept
        alpha = y * beta
        assert (alpha >= 0).all()
        assert (alpha <= cost).all()
        assert (alpha[cost == 0] == 0).all()
        assert beta.sum() == pytest.approx(0.0, abs=1e-12)
        primal = primal_by_hand(BANK, result.weights, beta, b, y, cost)
        dual = dual_by_hand(BANK, alpha, y, cost, p)
        assert result.objective == pytest.approx(primal, rel=1e-10)
        assert result.certificate.dual == pytest.approx(dual, rel=1e-10)
        f = BANK.combine(result.weights) @ beta + b
        np.testing.assert_allclose(alpha, cost * expit(-y * f), atol=2e-3)
        assert np.linalg.norm(result.weights, p) == pytest.approx(1.0)

    def test_points_without_cost_are_as_if_not_there(self):
        cost, some = COST.copy(), np.arange(40) % 3 > 0
        cost[~some] = 0.0
        whole = solve(problem(PNormBall(1.33), cost), Newton(), tol=1e-8)
        bank = BANK.take_points(np.flatnonzero(some))
        part = problem(PNormBall(1.33), COST[some], y[some], bank)
        part = solve(part, Newton(), tol=1e-8)
        assert whole.objective == pytest.approx(part.objective, rel=2e-8)
        assert not whole.beta[0, ~some].any()
        np.testing.assert_allclose(whole.beta[0, some], part.beta[0], atol=1e-3)

    def test_one_output_with_a_single_class(self):
        both = np.stack([y, np.ones(40)])
        result = solve(problem(PNormBall(2), targets=both), Newton(), tol=1e-6)
        assert result.status.name == "OPTIMAL"
        assert not result.beta[1].any()
        alone = solve(problem(PNormBall(2)), Newton(), tol=1e-6)
        assert result.objective == pytest.approx(alone.objective, rel=2e-6)

    @pytest.mark.parametrize("bank", [BANK, LOW], ids=["kernels", "factors"])
    @pytest.mark.parametrize("C", [1e-3, 1e3, 1e6])
    @pytest.mark.parametrize("p", [1, 2])
    def test_costs_from_small_to_large(self, bank, C, p):
        """Kernels separate the classes: coefficients are far below their bounds."""
        task = problem(PNormBall(p), np.full(40, C), bank=bank)
        solver = choose_solver("auto", RunState(task))
        result = solve(task, solver, tol=1e-6)
        assert isinstance(solver, PrimalNewton if bank is LOW else Newton)
        assert result.status.name == "OPTIMAL"
        assert abs(task.certificate(result.weights, result.beta).gap) <= 1.01e-6

    def test_float32_kernels_are_refined(self):
        bank = make_bank(KernelCollection(MIXED), X, dtype=np.float32)
        result = solve(problem(PNormBall(1.33), bank=bank), Newton(), tol=1e-9)
        assert abs(problem(PNormBall(1.33)).certificate(*result_point(result)).gap) <= 2e-9


def result_point(result):
    return result.weights, result.beta


class TestSolvers:
    @pytest.mark.parametrize("bank", [BANK, LOW], ids=["kernels", "factors"])
    @pytest.mark.parametrize("name", sorted(SOLVERS))
    def test_each_solves_it_or_names_who_does(self, name, bank):
        task = problem(PNormBall(1 if name in ON_SIMPLEX else 1.5), bank=bank)
        solver, run = choose_solver(name), RunState(task)
        if name in REFUSED and (bank is LOW or name in ("smo", "mwu")):
            with pytest.raises(ValueError, match=r"Logistic\(\).*use solver='(newton|primal)'"):
                solve(task, solver)
            return
        if not solver.fits(run):
            assert bank is BANK
            assert name in ("primal", "interior", "multipliers", "blocks", "distributed", "gfb")
            return
        # given time: SimpleMKL would not be waited for
        result = solve(task, solver, tol=1e-3, max_iter=solver.max_iter)
        assert result.status.converged
        fresh = task.certificate(result.weights, result.beta)
        best = solve(task, Newton(), tol=1e-7)
        assert fresh.dual <= best.objective * (1 + 1e-9)
        assert fresh.primal >= best.certificate.dual * (1 - 1e-9)
        if name not in ("uniform", "alignment"):
            assert fresh.gap <= 1.01e-3

    @pytest.mark.parametrize("p", [1, 1.5])
    def test_newton_needs_few_passes(self, p):
        for C in (1.0, 100.0, 1e4):
            result = solve(problem(PNormBall(p), np.full(40, C)), Newton())
            assert result.status.name == "OPTIMAL"
            assert result.counters.kernel_passes <= 15

    def test_streamed_sums(self):
        task = problem(PNormBall(1.5), targets=CLASSES)
        held, streamed = (solve(task, Newton(streamed=one), tol=1e-7) for one in (False, True))
        assert streamed.objective == pytest.approx(held.objective, rel=2e-7)

    def test_rows_on_demand(self):
        """A kernel that does not fit into memory."""
        task = problem(PNormBall(1.5))
        result = solve(task, SPG(), tol=1e-4, memory_budget=40 * 8 * 20)
        assert result.status.name == "OPTIMAL"
        assert result.objective == pytest.approx(solve(task, Newton()).objective, rel=1.2e-3)

    def test_a_warm_start_saves_steps(self):
        K = BANK.combine(np.ones(BANK.m))
        first = DenseMachine().solve(K, Logistic(), y, COST, tol=1e-6)
        again = DenseMachine().solve(1.01 * K, Logistic(), y, COST, first.beta.copy(), tol=1e-6)
        assert again.steps < first.steps

    def test_a_bad_start_is_not_begun_with(self):
        """Coefficients of 1e4 put every point far on a side, where the loss has no curvature."""
        cost, start = np.full(40, 1e4), 1e4 * np.random.default_rng(0).uniform(0.0, 1.0, 40) * y
        K = LOW.combine(np.ones(LOW.m))
        for machine, kernel in (
            (DenseMachine(), K),
            (FactoredMachine(), FactoredKernel(LOW, np.ones(LOW.m))),
        ):
            found = machine.solve(kernel, Logistic(), y, cost, start.copy(), tol=1e-5)
            cold = machine.solve(kernel, Logistic(), y, cost, tol=1e-5)
            assert found.violation <= 1e-5
            assert found.steps <= cold.steps
            assert found.primal - found.dual <= 1e-9 * found.primal

    def test_from_a_sample_of_the_points(self):
        A, b = toy(120)
        bank = make_bank(KernelCollection(FEW), A)
        task = problem(PNormBall(1.33), np.ones(120), b, bank)
        sampled = FromPoints(GroupLasso(), lambda run: Newton(), size=60)
        found, whole = solve(task, sampled), solve(task, Newton(), tol=1e-6)
        assert found.status.name == "OPTIMAL"
        assert found.objective == pytest.approx(whole.objective, rel=1.01e-3)

    @pytest.mark.parametrize("far", [1.0, 30.0, 300.0])
    def test_an_offset_that_no_kernel_explains(self, far):
        """Decision values far on the wrong side: coefficients are at their bounds, to rounding."""
        K = np.outer(X[:, 0], X[:, 0]) + 1e-3 * np.eye(40)
        flipped = np.where(np.arange(40) < 3, -np.sign(X[:, 0]), np.sign(X[:, 0]))
        found = DenseMachine().solve(far * K, Logistic(), flipped, np.full(40, 1e3), tol=1e-6)
        assert found.primal - found.dual <= 1e-9 * found.primal
        kernel = KernelRows(LINE, np.array([far]), 10**6)
        blocked = BlockedMachine(8).solve(kernel, Logistic(), flipped, np.full(40, 10.0), tol=1e-4)
        assert blocked.primal - blocked.dual <= 1e-6 * blocked.primal


class TestLogisticRegression:
    """One linear kernel is the logistic regression of scikit-learn."""

    def ours(self, **options):
        return MKLClassifier(
            [Linear()], loss="logistic", normalize=None, p=np.inf, tol=1e-12, **options
        )

    def test_the_same_function(self):
        weight = np.random.default_rng(4).choice([0.0, 0.5, 2.0], 40)
        for options in ({}, {"class_weight": "balanced"}, {"class_weight": {1.0: 3.0}}):
            ours = self.ours(C=0.7, **options).fit(X, y, weight)
            theirs = LogisticRegression(C=0.7, solver="newton-cholesky", tol=1e-9, **options)
            theirs.fit(X, y, weight)
            new = toy(30, seed=7)[0]
            np.testing.assert_allclose(
                ours.decision_function(new), theirs.decision_function(new), atol=1e-5
            )
            np.testing.assert_allclose(
                ours.predict_proba(new), theirs.predict_proba(new), atol=1e-5
            )

    def test_one_against_rest(self):
        points, labels = load_iris(return_X_y=True)
        ours = self.ours(C=1.0).fit(points, labels)
        for c in range(3):
            alone = LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-9).fit(
                points, labels == c
            )
            np.testing.assert_allclose(
                ours.decision_function(points)[:, c], alone.decision_function(points), atol=1e-4
            )


class TestProbabilities:
    CLF = MKLClassifier(FEW, loss="logistic", C=2.0).fit(X, y)

    def test_two_classes(self):
        chances, f = self.CLF.predict_proba(X), self.CLF.decision_function(X)
        np.testing.assert_allclose(chances[:, 1], 1.0 / (1.0 + np.exp(-f)), rtol=1e-12)
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)
        np.testing.assert_allclose(np.exp(self.CLF.predict_log_proba(X)), chances, rtol=1e-12)
        np.testing.assert_array_equal(
            self.CLF.classes_[chances.argmax(axis=1)], self.CLF.predict(X)
        )

    def test_mean_probability_is_the_share_of_a_class(self):
        """What the intercept makes true, where rows weigh the same."""
        weights = np.random.default_rng(0).uniform(0.5, 2.0, 40)
        clf = MKLClassifier(FEW, loss="logistic", tol=1e-8).fit(X, y, weights)
        said = weights @ clf.predict_proba(X)[:, 1]
        assert said == pytest.approx(weights[y > 0].sum(), rel=1e-4)

    def test_several_classes(self):
        clf = MKLClassifier(FEW, loss=Logistic(), p=1.33).fit(X, CODES)
        chances, each = clf.predict_proba(X), expit(clf.decision_function(X))
        np.testing.assert_allclose(chances, each / each.sum(axis=1, keepdims=True), rtol=1e-9)
        np.testing.assert_array_equal(chances.argmax(axis=1), clf.predict(X))
        assert clf.dual_coef_.shape == (3, 40)

    def test_far_points_have_probabilities_too(self):
        clf = MKLClassifier([Linear()], loss="logistic", C=100.0).fit(X, CODES)
        for scale in (1e3, 1e6):
            chances, logs = clf.predict_proba(scale * X), clf.predict_log_proba(scale * X)
            np.testing.assert_allclose(chances.sum(axis=1), 1.0)
            assert np.isfinite(logs).all()

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"loss": "hinge"}, "loss='logistic'"),
            ({"loss": Hinge()}, "loss='logistic'"),
            ({"loss": "logistic", "multiclass": "ovo"}, "multiclass='ovr'"),
        ],
    )
    def test_only_of_this_loss(self, options, words):
        clf = MKLClassifier(FEW, **options).fit(X, CODES)
        assert not hasattr(clf, "predict_proba")
        assert not hasattr(clf, "predict_log_proba")
        with pytest.raises(AttributeError) as error:
            clf.predict_proba(X)
        assert words in str(error.value)
        assert hasattr(clf.set_params(loss="logistic", multiclass="ovr"), "predict_proba")

    def test_tuned_ones_are_calibrated(self):
        grid = {"Cs": [0.1, 1.0], "ps": [1.0, 2.0], "cv": 3}
        clf = MKLClassifierCV(FEW, loss="logistic", **grid).fit(X, y)
        assert clf.calibration_kind_ == "sigmoid"
        f = clf.decision_function(X)
        (slope, offset), chances = clf.calibration_table_[0], clf.predict_proba(X)[:, 1]
        np.testing.assert_allclose(chances, expit(slope * f + offset))
        bare = MKLClassifierCV(FEW, loss="logistic", calibration=None, **grid).fit(X, y)
        assert not hasattr(bare, "predict_proba")


class TestEstimators:
    @pytest.mark.parametrize("approximation", [None, Nystroem(5), RandomFourier(8)], ids=repr)
    def test_fit_save_and_load(self, approximation, tmp_path):
        kernels = [RBF(0.1), RBF(1.0)]
        clf = MKLClassifier(kernels, loss="logistic", approximation=approximation, p=1.33)
        clf.fit(X, y)
        assert clf.result_.duality_gap <= 1e-3
        save(clf, tmp_path / "model.mk")
        again = load(tmp_path / "model.mk")
        np.testing.assert_allclose(again.predict_proba(X), clf.predict_proba(X), atol=1e-9)
        if approximation is None:
            assert isinstance(clf.decision_, ExpansionDecision)
            assert clf.support_.size == 40

    def test_a_checkpoint_is_gone_on_from(self, tmp_path):
        whole = MKLClassifier(FEW, loss="logistic", p=2.0, tol=1e-6).fit(X, y)
        part = clone(whole).set_params(max_iter=1, checkpoint=tmp_path / "c.mk")
        with pytest.warns(ConvergenceWarning):
            part.fit(X, y)
        again = clone(part).set_params(max_iter=None).fit(X, y)
        assert again.result_.resumed is not None
        assert again.result_.status.name == "OPTIMAL"
        assert again.result_.objective == pytest.approx(whole.result_.objective, rel=2e-6)

    def test_a_path_is_what_single_fits_are(self):
        costs, norms = [0.1, 1.0, 10.0], [1.0, 2.0]
        models = path(MKLClassifier(FEW, loss="logistic", tol=1e-5), X, y, C=costs, p=norms)
        for model in models:
            alone = MKLClassifier(FEW, loss="logistic", C=model.C, p=model.p, tol=1e-5).fit(X, y)
            assert model.result_.duality_gap <= 1e-5
            assert model.result_.objective == pytest.approx(alone.result_.objective, rel=2e-5)

    def test_threads_make_no_difference(self):
        one, two = (
            MKLClassifier(FEW, loss="logistic", tol=1e-7, n_jobs=jobs).fit(X, y) for jobs in (1, 2)
        )
        np.testing.assert_allclose(one.kernel_weights_, two.kernel_weights_, atol=1e-5)

    def test_a_row_of_weight_two_is_two_rows(self):
        weight = np.where(np.arange(40) % 4 == 0, 2.0, 1.0)
        one = MKLClassifier(FEW, loss="logistic", tol=1e-8).fit(X, y, weight)
        rows = np.repeat(np.arange(40), weight.astype(int))
        two = MKLClassifier(FEW, loss="logistic", tol=1e-8).fit(X[rows], y[rows])
        np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-6)
