"""The plan of a fit, before anything of it is computed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from .._canonical import taken
from .._threads import Threads, thread_count
from ..banks import FactorBank, ResolvedKernels
from ..banks.dense import DenseBank
from ..banks.divided import divided, holding
from ..banks.torch import device_for_factors
from ..banks.wrappers.shared import is_worth_holding
from ..lowrank import RandomFourier
from ..planning import (
    Plan,
    Way,
    make_plan,
    plan_blocks,
    plan_precision,
    problems_of,
    see_the_same,
)
from ..solvers import choose_solver
from .base import MKLEstimator
from .checks import Points, check_parameters, choose_combination, memory_budget
from .copies import unfitted
from .data.prepare import RowsElsewhere, collection, make_kernels, planned_table, request
from .data.units import in_units, learn_units
from .search.folds import alike, can_share, fold_bank, make_folds
from .search.paths import NORMS
from .search.tuned import Tuned
from .session import FitSession, run_state


def plan(
    model: Any, X: Points, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
) -> Plan:
    """What `fit` would do with a table, and why, without doing it.

    The table is read and the kernels are resolved (widths that follow the data, normalization), but
    no kernel and no factor is computed, but for Gram matrices of kernels that are functions of your
    own. Numbers of columns of low-rank factors are upper bounds.

    Parameters
    ----------
    model : MKL estimator, or a scikit-learn pipeline that ends in one
        It is not changed; copies of the steps before it are fitted.
    X, y, sample_weight
        As for `fit`.

    Returns
    -------
    Plan

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from manykernels import MKLClassifier, plan
    >>> X, y = load_iris(return_X_y=True)
    >>> plan(MKLClassifier(), X, y).solver.what
    "Newton's method by sequential quadratic programming"
    """
    if isinstance(model, Pipeline):
        for _, step in model.steps[:-1]:
            if step is not None and step != "passthrough":
                X = clone(step).fit_transform(X, y)
        return plan(model.steps[-1][1], X, y, sample_weight)
    if not isinstance(model, MKLEstimator):
        raise TypeError(
            "A plan is made for a classifier, regressor or one-class model of manykernels, or a "
            f"pipeline that ends in one, got {model!r}."
        )
    if isinstance(model, Tuned):
        return _plan_of_grid(unfitted(model), X, y, sample_weight)
    twin = unfitted(model).set_params(checkpoint=None, callbacks=None, verbose=0)
    check_parameters(twin)
    if twin.p == "auto":
        twin.p_ = min(NORMS)
    prepared = twin._data(X, y, sample_weight, _foreseen)
    prepared = prepared if twin.share_weights else prepared.part(0)
    session = FitSession(twin)
    prepared = session.at_hand(prepared, held=_held)
    state = run_state(twin, prepared, None)
    choose_solver(twin.solver, state).check(state)
    batch = session.batch_of(state)
    return make_plan(state, request(twin), batch=batch, table=prepared.table)


def _foreseen(estimator: Any, X: Any, distinct: Any) -> Any:
    """The bank that an estimator would make of some rows, without factors."""
    if isinstance(X, RowsElsewhere):
        raise ValueError(
            "The rows are on a cluster, where kernels are made at once: fit the model, and look at "
            "its plan_."
        )
    table = planned_table(estimator, X)
    X = taken(X, distinct.rows)
    learn_units(estimator, X, distinct.weight)
    X = in_units(estimator, X)
    X = X if table is None else table.held(X)
    is_sum = choose_combination(estimator.combination) is None
    if estimator.approximation is None or not is_sum:
        return make_kernels(estimator, X, distinct.weight)
    kernels = ResolvedKernels.from_data(
        collection(estimator, X),
        X,
        normalize=estimator.normalize,
        sample_weight=distinct.weight,
        feature_names=getattr(estimator, "feature_names_in_", None),
        categories=estimator._by_column(estimator.categories_),
    )
    return ForeseenFactors(estimator, kernels, X.shape[0])


class ForeseenFactors(FactorBank):
    """Low-rank factors as large as they will be at most, of which nothing was computed."""

    def __init__(self, estimator: Any, kernels: ResolvedKernels, n: int) -> None:
        approximation = estimator.approximation
        many = isinstance(approximation, RandomFourier)  # which may be more than points
        rank = approximation.rank if many else min(approximation.rank, n)
        # an array without memory: all its strides are zero
        nothing: np.ndarray = np.zeros((), plan_precision(estimator.tol))
        factors = np.broadcast_to(nothing, (n, kernels.m * rank))
        threads = Threads(thread_count(estimator.n_jobs))
        super().__init__(factors, np.arange(kernels.m + 1) * rank, kernels, threads)
        asked = request(estimator)
        if plan_blocks(asked, kernels, n):
            self.factored, self.budget = False, asked.memory_budget
            return
        device = device_for_factors(estimator.device, n, kernels.m * rank, see_the_same(kernels))
        if device is not None:
            self.device, self.by_blocks = device, False

    @property
    def nbytes(self) -> int:
        """Bytes of all factors."""
        return self.n * self.width * self.dtype.itemsize


def _held(bank: Any) -> DenseBank:
    """The bank with Gram matrices in memory, as far as a plan looks at it."""
    nothing: np.ndarray = np.zeros((), bank.dtype)
    return DenseBank(np.broadcast_to(nothing, (bank.m, bank.n, bank.n)), bank)


def _plan_of_grid(model: Any, X: Any, y: Any, sample_weight: Any) -> Plan:
    """The plan of the problems of a search; training the chosen model has a plan of its own."""
    grid = model._stated(X, y, sample_weight, {}, lambda count: [1.0 + k for k in range(count)])
    task = grid.tasks[0]
    place = task.places()[0]
    train, _ = task.splits[place.fold]
    if not can_share(task.template, task.incomplete):
        first = task.model(place, task.template)
        found = plan(first, task.table.rows(train), task.y[train], task.sample_weight[train])
        batch = task.batch(1)
        ways = found.ways | {Way.FOLDS_IN_TURN, *batch.ways}
        return replace(found, problems=problems_of(batch), ways=ways)
    folds = make_folds(task.template, task.table, task.y, task.sample_weight, task.splits)
    alone = folds[place.fold]
    bank, at_once = fold_bank([folds[number] for number in alike(folds)[0]])
    budget = memory_budget(task.template.cache_size)
    bank = divided(bank)
    whole = holding(bank, _held) if is_worth_holding(bank, budget) else bank
    prepared = alone.prepared._replace(bank=alone.bank(whole, bank.scales))
    prepared = prepared if task.template.share_weights else prepared.part(0)
    state = run_state(task.model(place, alone.template), prepared, None)
    asked, batch = request(task.model(place, alone.template)), task.batch(at_once)
    return make_plan(state, asked, batch=batch, table=prepared.table)
