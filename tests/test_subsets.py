"""The best k kernels or groups: equal to trying every subset, and bounds that hold at any time."""

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conftest import MIXED, toy
from manykernels import (
    MKLClassifier,
    MKLOneClass,
    MKLRegressor,
    load,
    path,
    plan,
    save,
    sparsity_path,
)
from manykernels.banks import make_bank
from manykernels.callbacks import EarlyStop
from manykernels.kernels import RBF, KernelCollection, on_groups
from manykernels.losses import EpsilonInsensitive, Hinge, Logistic, Squared, SquaredHinge
from manykernels.lowrank import Nystroem
from manykernels.problem import Problem
from manykernels.regularizers import (
    L1,
    AtMost,
    ElasticNet,
    PNormBall,
    SimplexRidge,
    SquaredPNorm,
)
from manykernels.result import Status
from manykernels.run_state import RunState
from manykernels.solvers import choose_solver, drive, solve, subsets

POINTS = 30
X, y = toy(POINTS)
NUMBERS = X[:, 0] * X[:, 1] + np.sin(X[:, 2])
GROUPS = ["a", "b", "b", "", "a"]
REGULARIZERS = [
    PNormBall(1),
    PNormBall(1.5),
    PNormBall(np.inf),
    SquaredPNorm(2, 0.5),
    ElasticNet(0.05, 0.3),
    SimplexRidge(0.02),
    SimplexRidge(3.0),
]
LOSSES = [
    (Hinge(), y),
    (SquaredHinge(), y),
    (Logistic(), y),
    (EpsilonInsensitive(0.1), NUMBERS),
    (Squared(), NUMBERS),
]


def few(pairs, quick):
    """Pairs as parameters, all but some of them for long tests."""
    return [
        pytest.param(*pair, marks=[] if quick(place) else [pytest.mark.long])
        for place, pair in enumerate(pairs)
    ]


def bank_of(m=5, seed=0, groups=()):
    """Some of the mixed kernels, in float64."""
    chosen = np.random.default_rng(seed).permutation(len(MIXED))[:m]
    labels = list(groups) or [""] * m
    kernels = KernelCollection.from_lists([MIXED[k] for k in chosen], labels)
    return make_bank(kernels, X, dtype=np.float64)


def problem_of(k, regularizer, loss=None, targets=y, *, seed=0, groups=()):
    """The problem of at most k kernels, or groups, with unequal costs of the points."""
    bank = bank_of(seed=seed, groups=groups)
    cost = np.random.default_rng(seed).uniform(0.5, 3.0, POINTS)
    limit = AtMost(k, regularizer, by_group=bool(groups))
    return Problem(bank, targets, cost, limit, loss or Hinge())


def values(problem):
    """The optimal value of every subset of k units, up to a relative gap of 1e-5."""
    limit = problem.regularizer
    found = {}
    for units in combinations(range(len(limit.units)), min(limit.k, len(limit.units))):
        bank = problem.bank.take_kernels(limit.kernels_of(units, problem.bank.m))
        part = replace(problem, bank=bank, regularizer=limit.regularizer)
        solver = choose_solver("auto", RunState(part))
        found[units] = solve(part, solver, tol=1e-5).objective
    return found


def searched(problem, tol=1e-3, **options):
    run = RunState(problem, **options)
    return drive(choose_solver("auto", run), run, tol=tol)


def assert_best(result, problem, tol=1e-3):
    """The result is the best subset, its bound holds, and its counts add up."""
    best = min(values(problem).values())
    certificate, limit = result.certificate, problem.regularizer
    assert certificate.dual <= best * (1 + 1e-5)
    assert best * (1 - 1e-5) <= certificate.primal <= best * (1 + tol)
    assert result.status is Status.OPTIMAL
    assert result.duality_gap <= tol
    assert np.isfinite(limit.value(result.weights))
    assert 0 < result.subsets.ruled_out <= result.subsets.total
    assert problem.primal(
        result.weights, result.beta, problem.bank.decision(result.weights, result.beta)
    )[0] == pytest.approx(certificate.primal, rel=1e-8)


@pytest.mark.parametrize(
    ("k", "regularizer"),
    few(product(range(1, 6), [PNormBall(1), SimplexRidge(0.3)]), lambda place: place % 3 == 0),
)
def test_every_k_equals_enumeration(k, regularizer):
    problem = problem_of(k, regularizer, seed=k)
    assert_best(searched(problem), problem)


@pytest.mark.parametrize(
    ("regularizer", "case"), few(product(REGULARIZERS, LOSSES), lambda place: place % 4 == 0)
)
def test_losses_and_regularizers_equal_enumeration(regularizer, case):
    loss, targets = case
    problem = problem_of(2, regularizer, loss, targets, seed=7)
    assert_best(searched(problem), problem)


@pytest.mark.parametrize(("k", "regularizer"), [(1, PNormBall(2)), (2, SimplexRidge(0.3))])
def test_groups_equal_enumeration(k, regularizer):
    problem = problem_of(k, regularizer, seed=k, groups=GROUPS)
    assert len(problem.regularizer.units) == 3
    assert_best(searched(problem), problem)


@pytest.mark.parametrize("regularizer", [PNormBall(1), PNormBall(2)], ids=repr)
def test_blocks_equal_enumeration(regularizer, monkeypatch):
    """Subsets that are too many to be listed are divided into blocks."""
    monkeypatch.setattr(subsets, "TOLERANCES", replace(subsets.TOLERANCES, listed=3))
    problem = problem_of(3, regularizer, seed=11)
    assert_best(searched(problem), problem)


def test_several_outputs_share_the_subset():
    targets = np.stack([y, np.where(X[:, 2] > 0, 1.0, -1.0)])
    problem = problem_of(2, PNormBall(1), targets=targets)
    assert_best(searched(problem), problem)


@pytest.mark.parametrize("regularizer", REGULARIZERS[::2], ids=repr)
def test_any_coefficients_bound_all_subsets(regularizer, rng):
    """Cuts are below the values of subsets, and those of blocks below their subsets'."""
    problem = problem_of(2, regularizer, groups=GROUPS)
    known = values(problem)
    rows, optimal = np.array(list(known)), np.array(list(known.values()))
    cuts = subsets.Cuts(problem)
    for scale in (0.1, 1.0, 10.0):
        beta = problem.feasible(scale * rng.standard_normal((1, POINTS)))
        cuts.add(beta, problem.quadratic_forms(beta))
    assert (cuts.best(rows) <= optimal * (1 + 1e-5)).all()
    inside = subsets.Block(0.0, 0, (1,), (0, 2))
    assert cuts.of_block(inside) <= cuts.best(rows[(rows == 1).any(axis=1)]).min() + 1e-9
    # the certificate of the limited problem itself
    assert problem.certificate(problem.regularizer.start(5), beta).dual <= optimal.min()


@pytest.mark.parametrize("moment", [0, 1, 4])
@pytest.mark.parametrize("how", ["watch", "keep", "poll"])
def test_an_end_from_outside_leaves_what_is_proven(how, moment, monkeypatch):
    """Callbacks, Ctrl-C and time limits, at the beginning and later."""
    monkeypatch.setattr("manykernels._pulse.PULSE_INTERVAL", 0.0)
    problem = problem_of(3, PNormBall(1), seed=3)
    best, count = min(values(problem).values()), 0

    def later(*_):
        nonlocal count
        count += 1
        if count > moment and how == "keep":
            raise KeyboardInterrupt
        return count > moment

    result = searched(problem, **{how: later})
    assert result.certificate.dual <= best <= result.objective * (1 + 1e-9)
    assert np.isfinite(result.objective)
    assert 0 <= result.subsets.ruled_out <= result.subsets.total == 10
    if not result.status.converged:
        assert result.status.broken_off


def test_the_bound_rises_and_the_objective_falls():
    problem, records = problem_of(3, PNormBall(1), seed=3), []
    searched(problem, tol=1e-4, watch=lambda record: records.append(record) or False)
    duals = [one.objective - one.gap * abs(one.objective) for one in records]
    assert (np.diff(duals[1:]) >= -1e-9).all()
    assert (np.diff([one.objective for one in records]) <= 0.0).all()


# --- estimators -----------------------------------------------------------------------------------

KERNELS = [RBF(0.5, features=[k]) for k in range(4)] + [RBF(0.2), RBF(1.0)]


def test_classifier_keeps_the_limit_and_comes_back_from_a_file(tmp_path):
    model = MKLClassifier(KERNELS, max_kernels=2).fit(X, y)
    assert np.count_nonzero(model.kernel_weights_) in (1, 2)
    assert model.result_.subsets.total == 15
    assert "the best 2 of 6 kernels" in str(model.result_)
    save(model, tmp_path / "model.mkl")
    loaded = load(tmp_path / "model.mkl")
    assert loaded.result_.subsets == model.result_.subsets
    np.testing.assert_allclose(loaded.decision_function(X), model.decision_function(X))
    assert clone(model).max_kernels == 2


def test_as_many_as_there_are_is_the_plain_problem():
    plain = MKLClassifier(KERNELS).fit(X, y).result_
    limited = MKLClassifier(KERNELS, max_kernels=9).fit(X, y).result_
    assert limited.objective == pytest.approx(plain.objective, rel=2e-3)


def test_groups_of_the_estimator():
    kernels = on_groups({"product": [0, 1], "noise": [2, 3], "one": [0]})
    model = MKLClassifier(kernels, max_groups=1).fit(X, y)
    assert [name for name, share in model.group_weights_.items() if share] == ["product"]


def test_outputs_with_weights_of_their_own_have_a_subset_each():
    labels = np.digitize(X[:, 0], [-0.5, 0.5])
    model = MKLClassifier(KERNELS, max_kernels=1, share_weights=False).fit(X, labels)
    assert (np.count_nonzero(model.kernel_weights_, axis=1) == 1).all()
    assert model.result_.subsets.total == 3 * 6


def test_missing_views_and_approximations():
    holes = X.copy()
    holes[:5, :2] = np.nan
    groups = on_groups({"first": [0, 1], "second": [2, 3]})
    model = MKLClassifier(groups, max_groups=1, missing="mean").fit(holes, y)
    assert model.result_.subsets.ruled_out == 2
    model = MKLRegressor(KERNELS, max_kernels=2, approximation=Nystroem(4)).fit(X, NUMBERS)
    assert np.count_nonzero(model.kernel_weights_) <= 2
    assert model.result_.status is Status.OPTIMAL


def test_a_path_and_a_plan_with_a_limit():
    model = MKLClassifier(KERNELS, max_kernels=2)
    assert "branch and bound over the 15 subsets" in plan(model, X, y).solver.what
    costs = [np.count_nonzero(one.kernel_weights_) for one in path(model, X, y, C=[0.1, 1.0, 10.0])]
    assert max(costs) <= 2


def test_a_time_limit_ends_without_a_warning(recwarn):
    stop = EarlyStop(seconds=0.0)
    model = MKLClassifier(KERNELS[:4], C=30.0, max_kernels=2, callbacks=[stop]).fit(X, y)
    assert model.result_.status is Status.STOPPED
    assert model.result_.duality_gap > 0.0
    assert not recwarn.list


@pytest.mark.parametrize("tol", [1e-3, 0.5])
def test_a_search_goes_on_from_a_checkpoint(tmp_path, tol):
    model = MKLClassifier(KERNELS, max_kernels=2, checkpoint=tmp_path / "search.mkl", tol=tol)
    first, again = (clone(model).fit(X, y).result_ for _ in range(2))
    assert again.resumed is not None
    assert again.subsets.ruled_out == again.subsets.total
    assert again.status is Status.OPTIMAL
    assert again.objective == pytest.approx(first.objective, rel=tol)
    with pytest.raises(ValueError, match="max_kernels changed"):
        clone(model).set_params(max_kernels=1).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"max_kernels": 0}, "whole number of at least 1"),
        ({"max_kernels": 1.5}, "whole number of at least 1"),
        ({"max_kernels": 2, "max_groups": 2}, "not both"),
        ({"max_kernels": 2, "p": "auto"}, "p='auto' chooses p by many fits"),
        ({"max_kernels": 2, "regularizer": L1()}, "needs a regularizer under which all kernels"),
        ({"max_kernels": 2, "loss": "hard_margin"}, "a loss that is finite"),
        ({"max_kernels": 2, "solver": "uniform"}, "sets the weights by a rule"),
        ({"max_kernels": 2, "solver": "smo"}, "SMO"),
    ],
)
def test_what_does_not_go_together_is_refused(parameters, sentence):
    with pytest.raises(ValueError, match=sentence):
        MKLClassifier(KERNELS, **parameters).fit(X, y)


def test_combinations_are_refused():
    with pytest.raises(ValueError, match="are for sums of kernels"):
        MKLClassifier(combination="product", max_kernels=2).fit(X, y)


# --- how many are needed --------------------------------------------------------------------------


def test_sparsity_path_finds_the_best_of_every_size():
    weight = np.where(np.arange(POINTS) % 5 == 0, 0.0, 1.0)
    model = MKLClassifier(KERNELS)
    found = sparsity_path(model, X, y, k=[3, 1], cv=2, sample_weight=weight)
    assert found.k.tolist() == [1, 3]
    for k, own in zip(found.k, found, strict=True):
        alone = MKLClassifier(KERNELS, max_kernels=int(k)).fit(X, y, weight)
        assert own.result_.objective == pytest.approx(alone.result_.objective, rel=2e-3)
        np.testing.assert_array_less(own.result_.certificate.dual, alone.result_.objective)
    assert found.objectives[1] <= found.objectives[0] * 1.001
    assert found.scores.shape == (2, 2)
    assert found.simplest in found.models
    assert list(found.frame()["subsets"]) == [6, 20]
    assert model.max_kernels is None


def test_sparsity_path_counts_groups_where_there_are_some():
    kernels = on_groups({"product": [0, 1], "noise": [2, 3]})
    found = sparsity_path(MKLClassifier(kernels), X, y, k=1, cv=None)
    assert found.what == "groups"
    assert found.chosen(0) == ["product"]
    with pytest.raises(ValueError, match="give cv"):
        found.simplest  # noqa: B018


def test_sparsity_path_of_a_pipeline_fits_its_steps_in_every_fold():
    model, table = MKLClassifier(KERNELS[:3]), 100.0 * X + 7.0
    pipeline = make_pipeline(StandardScaler(), model)
    found = sparsity_path(pipeline, table, y, k=[1], cv=2)
    scores = cross_val_score(pipeline.set_params(mklclassifier__max_kernels=1), table, y, cv=2)
    np.testing.assert_allclose(found.scores[:, 0], scores)
    assert found.chosen(0)[0] in found[0][-1].kernel_names_
    np.testing.assert_array_equal(found[0].predict(table), pipeline.fit(table, y).predict(table))
    assert list(found.frame()["subsets"]) == [3]


def test_sparsity_path_ends_early():
    stop = EarlyStop(seconds=0.0)
    model = MKLClassifier(KERNELS[:4], C=30.0, callbacks=[stop])
    found = sparsity_path(model, X, y, k=[2, 3], cv=None)
    assert len(found) == 1
    assert found.bounds[0] <= found.objectives[0]


@pytest.mark.parametrize("k", [0, [], [1, 0], True, 1.5])
def test_sparsity_path_refuses_other_sizes(k):
    with pytest.raises(ValueError, match="whole number of at least 1"):
        sparsity_path(MKLClassifier(KERNELS), X, y, k=k)


def test_sparsity_path_is_for_classes_and_numbers():
    with pytest.raises(TypeError, match="MKLClassifier or MKLRegressor"):
        sparsity_path(MKLOneClass(), X, y)


def test_display_of_a_sparsity_path():
    pytest.importorskip("matplotlib").use("Agg")
    from manykernels.display import SparsityDisplay

    model = MKLRegressor(KERNELS)
    display = SparsityDisplay.from_estimator(model, X, NUMBERS, k=2, cv=2)
    np.testing.assert_allclose(display.ax_.lines[0].get_ydata(), display.path.objectives)
    assert "R²" in display.score_ax_.get_ylabel()
    without = SparsityDisplay.from_estimator(model, X, NUMBERS, k=2, cv=None)
    assert without.score_ax_ is None
