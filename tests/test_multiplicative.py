"""Multiplicative weights: values against CVXPY, both engines against each other, inputs at the
edge.
"""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.svm import SVC

from conftest import MIXED, toy
from manykernels import MKLClassifier
from manykernels.banks import make_bank
from manykernels.kernels import RBF, KernelCollection, Linear, Precomputed
from manykernels.losses import HardMargin, Hinge, Squared, SquaredHinge
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.result import Status
from manykernels.solvers import MultiplicativeWeights, Newton, multiplicative, solve
from reference import mkl_optimum

MARGINS = [
    (HardMargin(), 1.0),
    (SquaredHinge(), 1.0),
    (SquaredHinge(), 100.0),
    (Hinge(), 1.0),
    (Hinge(), 100.0),
    (Hinge(), 1e4),
]
IDS = [f"{loss!r}-{C:g}" for loss, C in MARGINS]


def ring(n):
    """Two rings: separable by a Gaussian, not by a line."""
    rng = np.random.default_rng(1)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    angle, radius = (
        rng.uniform(0, 2 * np.pi, n),
        np.where(y > 0, 1.0, 2.0) + 0.2 * rng.standard_normal(n),
    )
    return np.stack(
        [radius * np.cos(angle), radius * np.sin(angle), *rng.standard_normal((2, n))], axis=1
    ), y


def many(X):
    """Forty Gaussians: five widths on all features, on every feature and on every pair of
    neighbours.
    """
    subsets = [
        None,
        *([f] for f in range(X.shape[1])),
        *([f, f + 1] for f in range(X.shape[1] - 1)),
    ]
    return KernelCollection(
        [RBF(2.0**e, features=s) for s in subsets for e in np.linspace(-4, 3, 5)]
    )


def problems():
    sets = [("toy", *toy(40), KernelCollection(MIXED)), ("ring", *ring(30), None)]
    return [
        pytest.param(
            X, y, kernels or many(X), id=name, marks=pytest.mark.long if kernels is None else ()
        )
        for name, X, y, kernels in sets
    ]


def played(problem, rounds, **options):
    return solve(problem, MultiplicativeWeights(rounds=rounds, **options), tol=1e-12)


@pytest.mark.parametrize(("X", "y", "kernels"), problems())
@pytest.mark.parametrize(("loss", "C"), MARGINS, ids=IDS)
def test_value_approaches_the_optimum(X, y, kernels, loss, C):
    bank, cost = make_bank(kernels, X, normalize="trace"), np.full(len(y), C)
    optimum = mkl_optimum(bank.columns(np.arange(len(y))), y, cost, PNormBall(1), loss)
    for rounds, error in ((1000, 0.02), (10_000, 0.005)):
        result = played(Problem(bank, y, cost, PNormBall(1), loss=loss), rounds)
        fresh = Problem(bank, y, cost, PNormBall(1), loss=loss).certificate(
            result.weights, result.beta
        )
        assert result.certificate.dual == pytest.approx(fresh.dual, rel=1e-9)
        assert result.certificate.primal == pytest.approx(fresh.primal, rel=1e-6)
        assert (1 - error) * optimum <= fresh.dual <= optimum * (1 + 1e-6)
        assert fresh.primal >= optimum * (1 - 1e-6)


@pytest.mark.parametrize(("loss", "C"), MARGINS, ids=IDS)
def test_papers_schedule_keeps_its_promise(loss, C):
    X, y = ring(60)
    bank, cost, epsilon = make_bank(many(X), X, normalize="trace"), np.full(60, C), 0.2
    solver = MultiplicativeWeights("paper", epsilon=epsilon)
    result = solve(Problem(bank, y, cost, PNormBall(1), loss=loss), solver, tol=1e-12)
    assert result.status in (Status.ROUNDS, Status.OPTIMAL)
    assert result.counters.machine_steps <= np.ceil(8 * 1.5**2 / epsilon**2 * np.log(60))
    # its value is the largest form of coefficients that sum to one, for kernels of unit trace
    optimum = solve(
        Problem(bank, y, cost, PNormBall(1), loss=loss if C > 1 else Hinge()), Newton(), tol=1e-6
    )
    forms = [
        np.max(bank.quadratic_forms(r.beta)) / np.abs(r.beta).sum() ** 2 for r in (result, optimum)
    ]
    assert abs(forms[0] - forms[1]) <= epsilon


def test_adaptive_schedule_needs_a_hundredth_of_the_rounds():
    X, y = ring(60)
    bank, values = make_bank(many(X), X, normalize="trace"), {}
    for schedule, rounds in (("paper", 20_000), ("adaptive", 200)):
        problem = Problem(bank, y, np.ones(60), PNormBall(1), loss=HardMargin())
        values[schedule] = played(problem, rounds, schedule=schedule, epsilon=0.05).certificate.dual
    assert values["adaptive"] > values["paper"]


class TestEngines:
    @pytest.fixture(params=MARGINS, ids=IDS)
    def play(self, request):
        loss, C = request.param
        X, y = toy(40)
        bank = make_bank(KernelCollection(MIXED), X, normalize="trace")

        def play():
            return played(Problem(bank, y, np.full(40, C), PNormBall(1), loss=loss), 300)

        return play

    @pytest.mark.parametrize(
        "change",
        [
            {"keep_no_columns_above": 0},
            {"keep_no_columns_above": 0, "sum_columns_above": 0},
            {"cache_bytes": 0},
        ],
        ids=str,
    )
    def test_columns_come_from_where_they_may(self, play, change, monkeypatch):
        expected = play()
        changed = replace(multiplicative.TOLERANCES, **change)
        monkeypatch.setattr(multiplicative, "TOLERANCES", changed)
        found = play()
        # a certificate is that of the best multiple, so two multiples are as good, and rounding
        # decides between them
        ours, theirs = (result.beta / np.abs(result.beta).sum() for result in (found, expected))
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9 * np.abs(theirs).max())
        np.testing.assert_allclose(found.weights, expected.weights, rtol=1e-6)
        assert found.certificate.dual == pytest.approx(expected.certificate.dual, rel=1e-8)

    @pytest.mark.parametrize("threads", [1, 2])
    def test_masked_kernels_give_the_lines_of_their_columns(self, threads, rng, monkeypatch):
        monkeypatch.setattr("manykernels.banks.masked.KERNELS", 4)
        X, masks = rng.standard_normal((30, 5)), rng.random((11, 5)) < 0.5
        masks[:, 0] = True
        bank = make_bank(
            KernelCollection.masked_rbf(np.exp(rng.standard_normal(11)), masks),
            X,
            normalize="trace",
            n_jobs=threads,
        )
        chosen, points, seen = np.array([7, 3]), np.array([1, 4, 29]), {}
        np.testing.assert_allclose(
            bank.kernel_rows(chosen, points),
            bank.columns(chosen)[:, points].transpose(2, 0, 1),
            atol=1e-14,
        )
        bank.visit_kernel_rows(
            chosen,
            lambda kernels, lines, first: seen.update({kernels.start: (kernels, lines[:, first:])}),
        )
        for kernels, lines in seen.values():
            here = lines[:, : kernels.stop - kernels.start]
            np.testing.assert_allclose(
                here, bank.columns(chosen)[kernels].transpose(2, 0, 1), atol=1e-14
            )
        assert sum(kernels.stop - kernels.start for kernels, _ in seen.values()) == 11

    def test_columns_in_float32_are_summed_in_float64(self):
        X, y = ring(60)
        fine = make_bank(many(X), X, normalize="trace")
        coarse = make_bank(many(X), X, normalize="trace", dtype=np.float32)
        values = [
            played(Problem(bank, y, np.full(60, 10.0), PNormBall(1)), 2000).certificate.dual
            for bank in (fine, coarse)
        ]
        assert values[1] == pytest.approx(values[0], rel=1e-5)


def test_stops_early_on_the_gap():
    X, y = toy(60)
    clf = MKLClassifier(MIXED, solver="mwu", C=1.0, tol=0.02).fit(X, y)
    assert clf.result_.status is Status.OPTIMAL
    assert clf.result_.counters.machine_steps < 10_000
    assert clf.result_.counters.svm_solves == 0


def test_one_kernel_is_an_svm():
    X, y = toy(60)
    K = make_bank(KernelCollection([RBF(0.5)]), X)
    clf = MKLClassifier(
        [RBF(0.5)], C=5.0, solver=MultiplicativeWeights(rounds=100_000), tol=1e-4
    ).fit(X, y)
    svc = SVC(kernel="precomputed", C=5.0).fit(K.columns(np.arange(60))[0], y)
    assert clf.result_.status is Status.OPTIMAL
    np.testing.assert_allclose(
        clf.decision_function(X), svc.decision_function(K.columns(np.arange(60))[0]), atol=0.05
    )


def test_goes_on_from_a_start():
    X, y = toy(60)
    bank = make_bank(KernelCollection(MIXED), X)
    first = solve(Problem(bank, y, np.ones(60), PNormBall(1)), MultiplicativeWeights(), tol=0.01)
    again = solve(
        Problem(bank, y, np.ones(60), PNormBall(1)), MultiplicativeWeights(), tol=0.011, start=first
    )
    assert again.counters.machine_steps < 0.5 * first.counters.machine_steps


def test_hard_margin_separates():
    X, y = ring(80)
    clf = MKLClassifier([RBF(0.1), RBF(1.0), Linear()], loss="hard_margin", tol=0.1).fit(X, y)
    assert clf.result_.status is Status.OPTIMAL
    assert clf.score(X, y) == 1.0
    margins = y * clf.decision_function(X)
    assert margins.min() == pytest.approx(1.0, abs=0.15)
    nearest = [margins[y == sign].min() for sign in (1, -1)]
    assert nearest[0] == pytest.approx(nearest[1], rel=1e-6)  # the intercept is in the middle


def test_several_classes_have_weights_of_their_own():
    X, y = toy(60)
    labels = np.where(X[:, 0] > 1, 2, np.where(y > 0, 1, 0))
    clf = MKLClassifier(MIXED, solver="mwu", share_weights=False, tol=0.05).fit(X, labels)
    assert clf.kernel_weights_.shape == (3, len(MIXED))
    assert clf.result_.status is Status.OPTIMAL
    with pytest.raises(ValueError, match="share_weights=False"):
        MKLClassifier(MIXED, solver="mwu").fit(X, labels)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("schedule", ["adaptive", "paper"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "hard_margin"])
class TestEdges:
    def fit(self, X, y, kernels, loss, schedule):
        with np.errstate(invalid="raise", over="raise"):
            clf = MKLClassifier(
                kernels, loss=loss, solver=MultiplicativeWeights(schedule, epsilon=1.0), C=10.0
            ).fit(X, y)
        assert clf.result_.status.value.endswith(".")
        for numbers in (
            clf.kernel_weights_,
            clf.dual_coef_,
            clf.intercept_,
            clf.decision_function(X),
        ):
            assert np.isfinite(numbers).all()
        assert not np.isnan(clf.result_.duality_gap)
        assert clf.kernel_weights_.sum() == pytest.approx(1.0)
        return clf.result_

    def test_equal_points_of_opposite_classes(self, loss, schedule):
        X, y = toy(30)
        X, y = np.concatenate([X, X[:5]]), np.concatenate([y, -y[:5]])
        result = self.fit(X, y, MIXED, loss, schedule)
        assert (result.status is Status.INSEPARABLE) == (loss == "hard_margin")
        if loss == "hard_margin":
            assert result.objective == np.inf

    def test_only_equal_points(self, loss, schedule):
        result = self.fit(np.zeros((6, 2)), np.array([0, 1, 0, 1, 0, 1]), MIXED[:1], loss, schedule)
        assert (result.status is Status.INSEPARABLE) == (loss == "hard_margin")

    @pytest.mark.parametrize(
        "odd", [np.zeros((30, 30)), np.ones((30, 30))], ids=["zero", "constant"]
    )
    def test_a_kernel_that_says_nothing(self, loss, schedule, odd):
        X, y = toy(30)
        grams = [odd, make_bank(KernelCollection([RBF(1.0)]), X).columns(np.arange(30))[0]]
        result = self.fit(
            np.arange(30)[:, None], y, [Precomputed(K) for K in grams], loss, schedule
        )
        assert result.status is not Status.INSEPARABLE

    def test_only_zero_kernels(self, loss, schedule):
        X = np.arange(8)[:, None]
        result = self.fit(X, X[:, 0] % 2, [Precomputed(np.zeros((8, 8)))] * 2, loss, schedule)
        assert (result.status is Status.INSEPARABLE) == (loss == "hard_margin")

    def test_one_point_per_class(self, loss, schedule):
        result = self.fit(
            np.array([[0.0, 0.0], [1.0, 2.0]]),
            np.array([0, 1]),
            [RBF(1.0), Linear()],
            loss,
            schedule,
        )
        assert result.duality_gap < 0.1


def test_what_does_not_fit_is_refused():
    X, y = toy(30)
    bank = make_bank(KernelCollection(MIXED), X)
    for regularizer, loss, words in (
        (PNormBall(2), Hinge(), r"PNormBall\(1\) only"),
        (PNormBall(1), Squared(), "other losses"),
    ):
        with pytest.raises(ValueError, match=words):
            solve(Problem(bank, y, np.ones(30), regularizer, loss=loss), MultiplicativeWeights())
    with pytest.raises(ValueError, match="over the memory budget"):
        solve(
            Problem(bank, y, np.ones(30), PNormBall(1)), MultiplicativeWeights(), memory_budget=1000
        )
    with pytest.raises(ValueError, match="hard margin: use solver='mwu'"):
        MKLClassifier(MIXED, loss="hard_margin", solver="newton").fit(X, y)
    with pytest.raises(ValueError, match=r"PNormBall\(1\) only"):
        MKLClassifier(MIXED, loss="hard_margin", p=2).fit(X, y)
    for options in ({"schedule": "fast"}, {"epsilon": 0.0}, {"epsilon": 4.0}, {"rounds": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            MultiplicativeWeights(**options)
