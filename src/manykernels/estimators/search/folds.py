"""Parts of a table to train on, as parts of the rows of one bank.

The kernels are computed once. A fold is a part of their rows (`PartBank`): it is normalized on its
own training rows, by factors on the weights, and every pass over the kernels also gives decision
values at the rows that were held out. Folds whose kernels are the same share one bank, and all
problems on them one engine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..._threads import Threads, thread_count
from ...banks import Bank
from ...banks.compute import Compute
from ...banks.make import tiled
from ...banks.spec import BankSpec, Training
from ...banks.wrappers.parts import PartBank
from ...banks.wrappers.shared import width
from ...kernels.points import as_points
from ...planning import plan_precision
from ..checks import memory_budget
from ..copies import like
from ..data.prepare import Prepared, collection, goes_by_pairs, planned_table
from ..data.units import in_units, learn_units
from ..engine import Engine


class Fold(NamedTuple):
    """A fold on the rows of a bank.

    Attributes
    ----------
    template : MKL estimator
        That has read the training rows.
    prepared : Prepared
        Without a bank.
    spec : BankSpec
        The kernels as the training rows make them.
    table : (N, n_features) points
        All distinct rows, as the kernels see them.
    points : (n,) int
        The rows of the bank that are training rows.
    held_out : (n_test,) int
        The rows of the bank that were held out, in the order of the test indices.
    """

    template: Any
    prepared: Prepared
    spec: BankSpec
    table: Any
    points: np.ndarray
    held_out: np.ndarray

    def bank(self, shared, scales):
        """The part of a bank of all rows, which has these scales."""
        factors = np.divide(self.spec.scales, scales, out=np.zeros(scales.size), where=scales > 0.0)
        return PartBank(shared, self.points, factors)

    def solved(self, run, start, scales, shared):
        """The result of a problem on the fold, and the bank that it was found on.

        Parameters
        ----------
        run : Run
        start : Result or None
        scales : (m,) array
            Of the bank of all rows.
        shared : SharedBank
        """
        prepared = self.prepared._replace(bank=self.bank(shared, scales))
        with run:
            run.begin(prepared)
            result, bank, _ = run.solve(prepared, start)
        return result, bank


def can_share(template, incomplete):
    """Whether folds can be parts of a bank: where rows lack views, they are at the means of other
    rows in every fold.
    """
    return (
        not incomplete
        and template.approximation is None
        and template.device in ("cpu", "auto")
        and template.combination == "sum"
        and template.normalize != "center"
        and not (isinstance(template.kernels, Bank) or goes_by_pairs(template.kernels))
    )


def make_folds(template, X, y, sample_weight, splits, fixed=False):
    """The folds, all on the same distinct rows.

    Parameters
    ----------
    template : MKL estimator
    X, y, sample_weight
        As for `fit`; weights for all rows.
    splits : list of pairs of index arrays
        Training rows, which may come more than once, and rows that are held out.
    fixed : bool
        Whether widths that follow the data follow all rows, and not the training rows alone, so
        that all folds have the same kernels. Normalization is on the training rows in any case.
    """
    everything, all_rows = Recorder(), like(template)
    all_rows._data(X, y, None, everything)
    place, rows = everything.distinct.group, everything.distinct.rows
    table, folds = as_points(everything.X[rows], missing=True), []
    planned = planned_table(template, everything.X)
    table = table if planned is None else planned.held(table)
    if fixed:
        counts = np.bincount(place, weights=sample_weight, minlength=len(rows))
        everything.distinct = everything.distinct._replace(weight=counts)
        whole = _spec(all_rows, everything)
        table = in_units(all_rows, table)
    for train, test in splits:
        weight = np.zeros(len(sample_weight))
        np.add.at(weight, train, sample_weight[train])
        fold, seen = like(template), Recorder()
        prepared = fold._data(X, y, weight, seen)
        points = place[seen.distinct.rows]
        if fixed:
            training = _training(fold, table[points], seen.distinct.weight)
            spec, view = whole.normalized(training), table
        else:
            spec = _spec(fold, seen)
            view = in_units(fold, table)
        folds.append(Fold(fold, prepared, spec, view, points, place[test]))
    return folds


class Recorder:
    """Takes the place of what makes a bank, and remembers what it was asked for."""

    def __call__(self, estimator, X, distinct):
        self.X, self.distinct = X, distinct


def _spec(template, seen):
    """The kernels as some training rows make them; the template learns its units."""
    X, weight = seen.X[seen.distinct.rows], seen.distinct.weight
    learn_units(template, X, weight)
    X = in_units(template, X)
    training = _training(template, X, weight)
    return BankSpec.from_data(collection(template, X), template.normalize, training)


def _training(template, X, weight):
    names = getattr(template, "feature_names_in_", None)
    return Training(as_points(X), weight, names, template._by_column(template.categories_))


def alike(folds):
    """Numbers of folds in groups that have the same kernels on the same points."""
    groups: list[list[int]] = []
    for number, fold in enumerate(folds):
        for group in groups:
            first = folds[group[0]]
            if first.table is fold.table and first.spec.kernels == fold.spec.kernels:
                group.append(number)
                break
        else:
            groups.append([number])
    return groups


def fold_bank(folds: list[Fold]) -> tuple[Any, int]:
    """One bank for folds that are alike, and how many problems on it fit into memory at once."""
    template, spec = folds[0].template, folds[0].spec
    budget = memory_budget(template.cache_size)
    compute = Compute(plan_precision(template.tol), Threads(thread_count(template.n_jobs)))
    # scales of the same size as theirs
    spec = replace(spec, scales=np.max([fold.spec.scales for fold in folds], axis=0))
    bank = template._placed(tiled(spec, folds[0].table, compute, budget))
    return bank, max(1, width(bank, len(folds[0].prepared.targets), budget))


def fold_engine(folds: list[Fold], verbose: int = 0) -> tuple[Engine, np.ndarray]:
    """An engine for problems on folds that are alike, and the scales of its bank, (m,)."""
    bank, at_once = fold_bank(folds)
    budget = memory_budget(folds[0].template.cache_size)
    return Engine(bank, at_once, True, budget, verbose), bank.scales
