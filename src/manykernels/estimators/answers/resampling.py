"""Models of parts of the rows, a hundred of them for the price of a few.

They share the kernels of all rows: widths that follow the data follow all rows here, normalization
the training rows of each. Where the kernels cannot be shared (approximations, masked kernels,
devices, ``normalize="center"``, rows that lack views, weights that are no optimum) the models are
trained one by one, and their widths follow their own rows.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning

from ...kernels import KernelCollection
from ...kernels.points import has_holes
from ..checks import check_parameters, check_weights
from ..copies import like
from ..data.decision import weighted_forms
from ..data.frames import as_table, rows_of
from ..data.prepare import collection
from ..engine import Job
from ..search.folds import can_share, fold_engine, make_folds
from ..search.tuned import Tuned
from ..session import FitSession
from .contributions import grouped

RULES = ("uniform", "alignment")  # solvers whose weights are no optimum


class Resample(NamedTuple):
    """A model to train: on the training rows of a split, without a group or with all."""

    split: int
    left_out: int | None = None


class Refit(NamedTuple):
    """What came of a job.

    Attributes
    ----------
    weights : (m,) array
        Means over the outputs where each has its own.
    norms : (m,) array
        Parts of the kernels in the squared norm of the function.
    parts : (g, t, n_test) array
        What every group adds to the decision values of the rows that were held out.
    offset : (t,) array
        What is the same for all rows.
    """

    weights: np.ndarray
    norms: np.ndarray
    parts: np.ndarray
    offset: np.ndarray

    @property
    def scores(self):
        """Decision values of the rows that were held out, (t, n_test)."""
        return self.parts.sum(axis=0) + self.offset[:, None]


class Resampling:
    """An estimator on many parts of a table.

    Parameters
    ----------
    model : MKL estimator
        Fitted or not; a cross-validated one must have chosen its C and p.
    X, y, sample_weight
        As for `fit`.
    splits : list of pairs of index arrays

    Attributes
    ----------
    template : MKL estimator
        That has read all rows.
    groups : list of str
    members : (g, m) bool array
        The kernels of each group.
    """

    def __init__(self, model, X, y, sample_weight, splits):
        template = plain(model)
        check_parameters(template)
        read, y = template._check_data(X, y)
        self.X, self.y, self._read = as_table(X), y, read
        self.weight = check_weights(sample_weight, y)
        self.splits = splits
        if is_classifier(template):
            template.classes_ = np.unique(y[self.weight > 0])
            for train, _ in splits:
                missing = np.setdiff1d(template.classes_, y[train][self.weight[train] > 0])
                if missing.size:
                    raise ValueError(
                        f"Some training rows have no row of class {str(missing[0])!r}: it is too "
                        "rare, or the splits should be stratified."
                    )
        else:
            template._y_ndim_ = y.ndim
        self.template, self._whole = template, None
        # a kernel that is zero has no weight at an optimum, but may have some by a rule
        by_rule = template.solver in RULES or getattr(template.solver, "follows_rule", False)
        incomplete = template.missing != "impute" and has_holes(read)
        self._shared = can_share(template, incomplete) and not by_rule
        if self._shared:
            everything = np.arange(len(y)), np.arange(0)
            data = self.X, y, self.weight
            self._folds = make_folds(template, *data, [*splits, everything], fixed=True)
            self._engine, self._scales = fold_engine(self._folds, template.verbose)
            spec = self._folds[0].spec
            self.groups, self.members = grouped(spec.names, spec.groups)
        else:
            self._whole = self._fitted(template, slice(None))
            bank = self._whole.bank_
            self.groups, self.members = grouped(bank.names, bank.groups)
        if len(self.groups) > 1:
            return
        raise ValueError(
            f"All kernels belong to one group, {self.groups[0]!r}: give several groups of columns "
            "(`manykernels.kernels.on_groups`), or a mapping from group to kernels."
        )

    def of_all_rows(self) -> Refit:
        """The model of all rows, from which the others begin."""
        if not self._shared:
            model = self._whole
            t = len(model.intercept_)
            nothing = np.zeros((len(self.groups), t, 0))
            weights = np.atleast_2d(model.kernel_weights_).mean(axis=0)
            return Refit(weights, model.decision_.squared_norms(), nothing, model.intercept_)
        if self._whole is None:
            everything = Resample(len(self.splits))
            self._whole = self._solved([everything])[everything]
        return self._whole[1]

    def refits(self, jobs) -> list[Refit]:
        """The models of some jobs, side by side where they can share the kernels."""
        if not self._shared:
            return [self._alone(job) for job in jobs]
        self.of_all_rows()
        found = self._solved(jobs)
        return [found[job][1] for job in jobs]

    def _solved(self, jobs):
        """Result and `Refit` of some models, by their job."""
        wave = [Job(job, partial(self._refit, job)) for job in jobs]
        return {key: outcome for some in self._engine.solve_all([wave]) for key, outcome in some}

    def _refit(self, job, shared):
        fold, start = self._folds[job.split], None
        if job.left_out is not None:
            kept = ~self.members[job.left_out]
            fold = fold._replace(spec=replace(fold.spec, scales=fold.spec.scales * kept))
        if self._whole is not None:
            start = self._start(fold, job)
        run = FitSession(like(fold.template))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result, bank = fold.solved(run, start, self._scales, shared)
        parts = bank.parts(result.weights, result.beta, self.members)[:, :, fold.held_out]
        offset = result.intercept + np.reshape(fold.prepared.offset, -1)
        weights = np.atleast_2d(result.weights)
        norms = weighted_forms(bank, weights, result.beta)
        return result, Refit(weights.mean(axis=0), norms, parts, offset)

    def _start(self, fold, job):
        """Where the model of all rows ended, without the rows and kernels that are not there."""
        whole, everything = self._whole[0], self._folds[-1]
        beta = np.zeros((len(whole.beta), everything.points.max() + 1))
        beta[:, everything.points] = whole.beta
        weights = whole.weights
        if job.left_out is not None:
            weights = np.where(self.members[job.left_out], 0.0, weights)
            if not weights.any():
                return None
        return replace(whole, beta=beta[:, fold.points], weights=weights)

    def _alone(self, job):
        train, test = self.splits[job.split]
        template, kept = self.template, np.ones(self.members.shape[1], dtype=bool)
        if job.left_out is not None:
            kept = ~self.members[job.left_out]
            template = like(template, kernels=_some(template, self._read, kept))
            train = self._with_something(train, kept)
        model = self._fitted(template, train)
        if len(model.bank_.names) != kept.sum():
            raise ValueError(
                "Some column is constant in a part of the rows, for which kernels='auto' makes "
                "fewer kernels: drop the column, or give the kernels."
            )
        parts = np.zeros((len(self.groups), len(model.intercept_), len(test)))
        weights, norms = np.zeros(kept.size), np.zeros(kept.size)
        if len(test):
            parts[:] = model._parts(rows_of(self.X, test), self.members[:, kept])
        weights[kept] = np.atleast_2d(model.kernel_weights_).mean(axis=0)
        norms[kept] = model.decision_.squared_norms()
        return Refit(weights, norms, parts, model.intercept_)

    def _with_something(self, rows, kept):
        """The rows that do not lack all of some kernels."""
        if self.template.missing in ("error", "impute") or not isinstance(self._read, np.ndarray):
            return rows
        seen = [self._whole.bank_.columns_of(k) for k in np.flatnonzero(kept)]
        if any(columns is None for columns in seen):
            return rows
        columns = np.unique(np.concatenate(seen))
        return rows[~np.isnan(self._read[np.ix_(rows, columns)]).all(axis=1)]

    def _fitted(self, template, rows):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = like(template)
            X = self.X if isinstance(rows, slice) else rows_of(self.X, rows)
            return model.fit(X, self.y[rows], self.weight[rows])


def plain(model):
    """An estimator without cross-validation, callbacks or checkpoint, and with numbers for what was
    chosen.
    """
    if isinstance(model, Tuned):
        if not hasattr(model, "C_"):
            raise ValueError(f"{type(model).__name__} must be fitted first: it chooses C and p.")
        kernels = getattr(model, "kernels_", model.kernels)
        chosen = {"kernels": kernels, "C": model.C_, "p": model.p_}
        return model._plain(**chosen, checkpoint=None, callbacks=None)
    if not (hasattr(model, "kernels") and hasattr(model, "_check_data")):
        raise TypeError(
            f"This needs a classifier or regressor of manykernels, got {type(model).__name__}; the "
            "steps of a pipeline before it must be applied first."
        )
    twin = type(model)(**model.get_params(deep=False))
    twin.set_params(checkpoint=None, callbacks=None)
    if twin.p == "auto":
        if not hasattr(model, "p_"):
            raise ValueError("With p='auto' the model must be fitted first: it chooses p.")
        twin.set_params(p=model.p_)
    return twin


def _some(template, X, kept):
    """Some of the kernels of an estimator that has read X, as a collection."""
    every = collection(template, X)
    chosen = np.flatnonzero(kept)
    return KernelCollection.from_lists(
        [every.kernels[k] for k in chosen], [every.groups[k] for k in chosen]
    )
