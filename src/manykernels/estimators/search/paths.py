"""Regularization paths: many values of C and p for little more than the price of one, and p chosen
on held-out data.
"""

from __future__ import annotations

import numbers
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils import check_random_state

from ...banks import Bank
from ...planning import Batch, Way, plan_width
from ..answers.contributions import by_group
from ..checks import Points, check_parameters, check_real, check_weights, memory_budget
from ..copies import like, unfitted
from ..data.frames import as_table, rows_of
from ..data.inputs import ReadTable
from ..engine import BrokenOff, Engine, Job
from ..session import FitSession
from .costs import at_bounds, first_cost, warm_start
from .group_path import GroupPathSearch
from .path_models import Path

NORMS = (1.0, 1.1, 1.33, 2.0, 4.0, float("inf"))  # that p="auto" chooses from
NO_COST = (
    "{} has no C to make a path over: give a classifier or regressor of manykernels. Its "
    "scale='standard' takes the place of a scaler before it."
)
FOLDS = 5
EXACT = 1e-5  # gap at which models that differ in one group differ; float32 can tell
COARSER = 10.0  # times that gap, where it cannot be reached


def path(
    estimator: Any,
    X: Points,
    y: ArrayLike,
    *,
    C: float | Sequence[float] | None = None,
    p: float | Sequence[float] | None = None,
    max_groups: int | None = None,
    sample_weight: ArrayLike | None = None,
) -> Path:
    """Train an estimator for every C and p, for less than one by one; or, with p = 1, from one
    group of kernels to some.

    Where the kernels are computed in memory, models are trained side by side and one pass over the
    kernels serves all of them; every other C begins where the one before ended. Models with
    callbacks or messages are trained in turn, each from where the one before ended, and so are
    those of which fewer than four fit into the memory that ``cache_size`` allows.

    Parameters
    ----------
    estimator : MKLClassifier or another MKL estimator
        Gives all other parameters. It is not changed.
    X, y, sample_weight
        As for `fit`.
    C : float or sequence of floats, optional
        The estimator's own by default.
    p : float or sequence of floats, optional
        The estimator's own by default. For every p, all C are visited from small to large. In turn,
        weights are carried over from one p to the next, so neighbouring values should follow each
        other.
    max_groups : int, optional
        In the place of C, with p = 1: begin at the largest C at which one group is enough (or as
        few as possible: where one class weighs less than what it is told from, the hinge loss may
        need several at any C; ``class_weight="balanced"`` helps if there are two, or
        ``loss="squared_hinge"`` or ``"logistic"``), and go up until a model has more than
        `max_groups`. C is chosen so that groups enter one by one. They may leave again, and those
        that enter together, as copies of each other do, are said to do so (``jumps``) and not told
        apart.
        Models are trained to a relative gap of 1e-5, if ``tol`` is not smaller (ten times that
        where it cannot be reached): a group counts if without its weight that could not be
        certified.
        Beside values of C: end early, with the first model that has more groups.

    Returns
    -------
    Path
        Up to the model that was ended by Ctrl-C or a callback, if one was.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from manykernels import MKLClassifier, path
    >>> from manykernels.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> models = path(MKLClassifier([RBF(0.1), RBF(1.0)]), X, y, C=[0.1, 1.0])
    >>> [model.C for model in models]
    [0.1, 1.0]
    """
    began = time.perf_counter()
    if max_groups is not None:
        _check_max_groups(estimator, p, max_groups)
    if max_groups is not None and C is None:
        return _over_groups(estimator, X, y, max_groups, sample_weight, began)
    costs, norms = _grid(estimator, C, p)
    # kernels are made for the norm that asks for most of them
    template = unfitted(estimator).set_params(p=max(norms))
    check_parameters(template)
    prepared = template._data(X, y, sample_weight)
    models = [
        like(template, p=norm, **({"C": cost} if hasattr(template, "C") else {}))
        for norm in norms
        for cost in costs
    ]
    _train_all(models, prepared, len(costs), began, max_groups)
    return Path(_until_broken_off(models))


def _over_groups(estimator, X, y, max_groups, sample_weight, began):
    """The path from one group, or as few as possible, to `max_groups`."""
    template = unfitted(estimator).set_params(p=1.0, C=1.0, tol=min(estimator.tol, EXACT))
    check_parameters(template)
    prepared = template._data(X, y, sample_weight)
    prepared = FitSession(template).at_hand(prepared)

    def train(cost, before):
        nonlocal prepared
        session = _counted(template, cost, prepared, before)
        prepared = prepared._replace(bank=session.outcome.bank)  # one that was refined stays so
        return session.estimator

    available = len(by_group(prepared.bank.names, prepared.bank.groups, np.ones(prepared.bank.m)))
    climb = GroupPathSearch(train, _used_groups, max_groups, available)
    first = _first_cost(template, prepared)
    shared = time.perf_counter() - began
    climb.run(first)
    if not climb.steps:
        raise ValueError(
            f"There is no C at which max_groups={max_groups} groups are enough: raise it. With the "
            "hinge loss, sides of unequal weight may need several groups at any C: weigh two "
            "classes equally (class_weight='balanced'), or use loss='squared_hinge' or 'logistic'."
        )
    climb.steps[0].model.result_.seconds += shared
    return Path([step.model for step in climb.steps], climb.jumps)


def _counted(template, cost, prepared, before):
    """The session of a model whose groups can be counted: where a solver ends without the
    certificate, groups are left that it had not yet dropped, so that it begins anew with a gap that
    it reaches.
    """
    session = FitSession(like(template, C=cost))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        _finished(session, prepared, before, prepared.bank)
    status = session.estimator.result_.status
    if not (status.converged or status.broken_off):
        session = FitSession(like(template, C=cost, tol=COARSER * template.tol))
        _finished(session, prepared, None, prepared.bank)
    return session


def _check_max_groups(estimator, p, max_groups):
    if isinstance(max_groups, bool) or not isinstance(max_groups, numbers.Integral):
        raise ValueError(f"max_groups must be a whole number, got {max_groups!r}.")
    if max_groups < 1:
        raise ValueError(f"max_groups must be at least 1, got {max_groups!r}.")
    if not hasattr(estimator, "C"):
        raise ValueError(NO_COST.format(type(estimator).__name__))
    norm = estimator.p if p is None else p
    is_one = not isinstance(norm, str) and np.size(norm) == 1 and np.all(np.equal(norm, 1.0))
    sparse_sum = estimator.combination == "sum" and estimator.regularizer is None
    if not (sparse_sum and is_one):
        raise ValueError(
            "max_groups is for sums of kernels with p=1, which leave groups out; got "
            f"p={norm!r}, regularizer={estimator.regularizer!r} and "
            f"combination={estimator.combination!r}."
        )
    _grid(estimator, 1.0, 1.0)  # what else a path refuses


def _used_groups(model):
    found = model.group_weights_.items()
    return frozenset(group for group, weight in found if weight > 0.0)


def _first_cost(template, prepared):
    """The C at which points leave their bounds if the kernel that fits best has all the weight."""
    loss, bank = template._loss(), prepared.bank
    costs = np.broadcast_to(prepared.cost, prepared.targets.shape)
    outputs = list(zip(prepared.targets, costs, strict=True))
    forms = bank.quadratic_forms(np.stack([at_bounds(loss, *output) for output in outputs]))
    weights = np.zeros(bank.m)
    weights[np.argmax(forms)] = 1.0
    return min(first_cost(bank, weights, loss, *output) for output in outputs)


def _train_all(models, prepared, costs, began, max_groups=None):
    """Train the models of a path: side by side, or in turn up to one that was broken off or has too
    many groups. The first has the seconds since the path began.
    """
    template, bank = models[0], prepared.bank
    budget, outputs = memory_budget(template.cache_size), len(prepared.targets)
    # whoever listens hears one fit at a time, and numbers of groups are counted in turn
    is_heard = bool(template.callbacks or template.verbose) or max_groups is not None
    at_once = plan_width(bank, outputs, budget, is_heard=is_heard)
    if at_once == 1:
        bank = FitSession(min(models, key=lambda model: model.p)).at_hand(prepared).bank
    engine = Engine(bank, at_once, at_once > 1, budget)
    ways = (Way.MODELS_IN_TURN,) if at_once == 1 and len(models) > 1 else ()
    batch = Batch(len(models), at_once, "values of C and p", ways, ("C", "p"))
    make_waves = _waves_side_by_side if at_once > 1 else _waves_in_turn
    shared = time.perf_counter() - began
    with suppress(BrokenOff):
        for solved in engine.solve_all(make_waves(models, prepared, costs, batch)):
            for model, session in solved:
                if at_once > 1:
                    model._finish(session)
                else:
                    engine.bank = session.outcome.bank  # one that was refined stays so
            trained = [model for model, _ in solved]
            trained[0].result_.seconds += shared
            shared = 0.0
            if any(model.result_.status.broken_off for model in trained):
                return
            if max_groups is not None and len(_used_groups(trained[-1])) > max_groups:
                return


def _waves_in_turn(models, prepared, costs, batch):
    """Each from where the one of the p before ended, or of the C before."""
    for place, model in enumerate(models):
        start = models[place - costs] if place >= costs else models[place - 1] if place else None
        session = FitSession(model, batch=batch)
        yield [Job(model, partial(_finished, session, prepared, start))]


def _waves_side_by_side(models, prepared, costs, batch):
    """Every other C first, and the others from where those before ended."""
    for first in (0, 1):
        places = [place for place in range(len(models)) if place % costs % 2 == first]
        starts = [_moved(models[place - 1], models[place]) if first else None for place in places]
        yield [
            Job(
                models[place],
                partial(_solved, FitSession(models[place], batch=batch), prepared, start),
            )
            for place, start in zip(places, starts, strict=True)
        ]


def _solved(session, prepared, start, bank):
    """The session of a model, once its problem is solved on a bank."""
    with session:
        prepared = prepared._replace(bank=bank)
        session.begin(prepared)
        session.solve(prepared, start)
    return session


def _finished(session, prepared, before, bank):
    """The session of a model, once that is trained on a bank, from where another ended, or None."""
    model = session.estimator
    with session:
        prepared = prepared._replace(bank=bank)
        session.begin(prepared)
        session.solve(prepared, None if before is None else _moved(before, model))
        model._finish(session)
    return session


def _until_broken_off(models):
    """Models up to the first that was broken off."""
    trained = [model for model in models if hasattr(model, "result_")]
    ends = (place for place, model in enumerate(trained) if model.result_.status.broken_off)
    return trained[: next(ends, len(trained)) + 1]


def _grid(estimator, C, p):
    """The values of C, ascending, and of p; raise where there is no path over them."""
    if C is not None and not hasattr(estimator, "C"):
        raise ValueError(NO_COST.format(type(estimator).__name__))
    if isinstance(C, str):
        raise ValueError(
            f"A path needs numbers for C, got {C!r}: leave it out for the estimator's."
        )
    costs = [getattr(estimator, "C", 1.0)] if C is None else list(np.sort(np.atleast_1d(C)))
    norms = [estimator.p] if p is None else list(np.atleast_1d(p))
    if not (costs and norms):
        raise ValueError(f"A path needs at least one C and one p, got C={C!r} and p={p!r}.")
    if C is None and isinstance(costs[0], str):  # a path over p alone
        check_parameters(estimator)
    else:
        for cost in costs:
            check_real("C", float(cost))
        costs = [float(cost) for cost in costs]
    if any(isinstance(norm, str) for norm in norms):
        raise ValueError(f"A path needs numbers for p, got {norms}: give p=[1, 1.33, 2] or so.")
    if estimator.checkpoint is not None:
        raise ValueError(
            "A path trains many models and makes no checkpoints: leave checkpoint=None."
        )
    return costs, [_plain(norm) for norm in norms]


def choose_p(estimator, X, y, sample_weight):
    """For ``p="auto"``, set ``p_`` and ``p_scores_`` by cross-validation along the path, from the
    plain sum to the sparsest.
    """
    if estimator.p != "auto":
        vars(estimator).pop("p_", None)
        vars(estimator).pop("p_scores_", None)
        return
    if estimator.regularizer is not None:
        raise ValueError(f"Give p='auto' or regularizer={estimator.regularizer!r}, not both.")
    if isinstance(estimator.kernels, Bank):
        raise ValueError(
            "p='auto' trains on parts of the data: give the kernels themselves, not a bank fitted "
            "on all of it."
        )
    table = ReadTable.read(estimator, X, y)
    X = table.given.tocsr() if sparse.issparse(table.given) else as_table(table.given)
    weight = check_weights(sample_weight, np.asarray(y))
    used, y = np.flatnonzero(weight > 0), np.asarray(y)
    norms, scores = sorted(NORMS, reverse=True), []
    # these are for the training on everything
    quiet = unfitted(estimator).set_params(checkpoint=None, callbacks=None)
    for fold in _folds(estimator, y[used]):
        train, test = (used[part] for part in fold)
        models = path(quiet, table.rows(train), y[train], p=norms, sample_weight=weight[train])
        if models[-1].result_.status.broken_off:
            raise KeyboardInterrupt
        scores.append(models.scores(rows_of(X, test), y[test], weight[test]))
    means = dict(zip(norms, np.mean(scores, axis=0).tolist(), strict=True))
    estimator.p_scores_ = dict(sorted(means.items()))
    estimator.p_ = max(estimator.p_scores_, key=estimator.p_scores_.get)  # of equals the sparsest


def _folds(estimator, y):
    seed = check_random_state(estimator.random_state)
    if not is_classifier(estimator):
        if y.shape[0] < 4:
            raise ValueError(
                f"p='auto' needs at least four samples to hold some out, got {y.shape[0]}; give p "
                "as a number."
            )
        return KFold(min(FOLDS, y.shape[0] // 2), shuffle=True, random_state=seed).split(y)
    smallest = np.unique(y, return_counts=True)[1].min()
    if smallest < 2:
        raise ValueError(
            "p='auto' needs at least two samples of every class to hold some out; give p as a "
            "number."
        )
    return StratifiedKFold(min(FOLDS, smallest), shuffle=True, random_state=seed).split(
        np.zeros(y.size), y
    )


def _moved(model, other):
    here, there = getattr(model, "C", 1.0), getattr(other, "C", 1.0)
    return warm_start(model.result_, 1.0 if here == there else there / here)


def _plain(norm):
    """A number as Python has it, so that parameters of models print well."""
    return float(norm) if isinstance(norm, numbers.Real) else norm
