"""Models of parts of the rows, a hundred of them for the price of a few.

They share the kernels of all rows: widths that follow the data follow all rows here, normalization
the training rows of each. Where the kernels cannot be shared (approximations, masked kernels,
devices, ``normalize="center"``, rows that lack views, weights that are no optimum) the models are
trained one by one, and their widths follow their own rows. Steps of a pipeline are fitted on the
training rows of each part, so that kernels are shared by the models of one part only.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from ..._shares import shares
from ...kernels import KernelCollection
from ...kernels.groups import GroupedCollection
from ...kernels.points import has_holes
from ..checks import check_parameters, check_weights
from ..copies import like
from ..data.decision import weighted_forms
from ..data.frames import as_table, rows_of
from ..data.prepare import collection
from ..data.silent import silent_kernels, silent_mask
from ..data.units import standardizes
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
    offset : (t, n_test) array
        What no group adds: the intercept, and what kernels add that only regularize.
    """

    weights: np.ndarray
    norms: np.ndarray
    parts: np.ndarray
    offset: np.ndarray

    @property
    def scores(self):
        """Decision values of the rows that were held out, (t, n_test)."""
        return self.parts.sum(axis=0) + self.offset


def refit(weights, norms, parts, intercept):
    """A `Refit` of decision values by groups, and at last by what only regularizes, (g + 1, t,
    n_test).
    """
    weights = np.atleast_2d(weights).mean(axis=0)
    return Refit(weights, norms, parts[:-1], np.reshape(intercept, (-1, 1)) + parts[-1])


def resampled(model, X, y, sample_weight, splits):
    """A `Resampling` of an estimator, or of a pipeline that ends in one, or of the best of a
    search.
    """
    model = getattr(model, "best_estimator_", model)
    if isinstance(model, Pipeline) and len(model.steps) > 1:
        return PipelineResampling(model, X, y, sample_weight, splits)
    return Resampling(model, X, y, sample_weight, splits)


class Groups(NamedTuple):
    """Which kernels are of which group.

    Attributes
    ----------
    names : list of str
    members : (g, m) bool array
        All kernels of each group.
    heard : (g, m) bool array
        Those that say something about other points.
    """

    names: list[str]
    members: np.ndarray
    heard: np.ndarray

    @classmethod
    def of(cls, bank, silent):
        """Those of the kernels of a bank or a spec, some of which only regularize, (m,) bool."""
        names, members = grouped(bank.names, bank.groups)
        return cls(names, members, members & ~silent)

    @property
    def parts(self):
        """The kernels that are heard by group, and at last all others, (g + 1, m)."""
        return np.vstack([self.heard, ~self.heard.any(axis=0)])

    def weights(self, one):
        """Shares of the groups in the weight of a `Refit`, (g,)."""
        return shares(self.heard @ one.weights)

    def contributions(self, one):
        """Shares of the groups in the squared norm of its function, (g,)."""
        return shares(np.maximum(self.heard @ one.norms, 0.0))

    def regularization(self, one):
        """The share of all its weight that only regularizes."""
        return float(shares(one.weights)[self.parts[-1]].sum())


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
    groups : Groups
    bank : Bank or FeatureMap
        The kernels on all rows.
    """

    def __init__(self, model, X, y, sample_weight, splits):
        template = plain(model)
        check_parameters(template)
        if template.combination != "sum":
            raise ValueError(
                f"combination={template.combination!r} is one kernel of all columns, which has no "
                "groups to compare: this needs combination='sum'."
            )
        read, y = template._check_data(X, y)
        self.X, self.y, self._read = as_table(X), y, read
        self.weight = check_weights(sample_weight, y)
        self.splits = splits
        if is_classifier(template):
            template.classes_ = np.unique(y[self.weight > 0])
            refuse_lost_classes(template.classes_, y, self.weight, splits)
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
            with warnings.catch_warnings():  # the template has warned of the table already
                warnings.simplefilter("ignore")
                self._folds = make_folds(template, *data, [*splits, everything], fixed=True)
            self._engine, self._scales = fold_engine(self._folds, template.verbose)
            self.bank = self._engine.bank
            silent = silent_mask(silent_kernels(self.bank), self.bank.m)
            self.groups = Groups.of(self._folds[0].spec, silent)
        else:
            self._whole = self._fitted(template, slice(None))
            self.bank = self._whole.bank_
            self.groups = Groups.of(self.bank, self._whole._is_silent)
        if len(self.groups.names) > 1:
            return
        chosen = getattr(model, "kernels_", model.kernels)
        was_chosen = isinstance(chosen, str) and chosen != model.kernels
        raise ValueError(
            f"All kernels belong to one group, {self.groups.names[0]!r}"
            + (f" (kernels={chosen!r} did best in tuning)" if was_chosen else "")
            + ": give several groups of columns (`manykernels.kernels.on_groups`), a mapping from "
            "group to kernels, or kernels='whole'."
        )

    def of_all_rows(self) -> Refit:
        """The model of all rows, from which the others begin."""
        if not self._shared:
            model = self._whole
            nothing = np.zeros((len(self.groups.parts), len(model.intercept_), 0))
            norms = model.decision_.squared_norms()
            return refit(model.kernel_weights_, norms, nothing, model.intercept_)
        if self._whole is None:
            everything = Resample(len(self.splits))
            self._whole = self._solved([everything])[everything]
        return self._whole[1]

    def refits(self, jobs) -> list[Refit]:
        """The models of some jobs, side by side where they can share the kernels."""
        if not self._shared:
            return [self._alone(job) for job in jobs]
        if len(self.splits) > 1:  # many models begin from one
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
            kept = ~self.groups.members[job.left_out]
            fold = fold._replace(spec=replace(fold.spec, scales=fold.spec.scales * kept))
        if self._whole is not None:
            start = self._start(fold, job)
        run = FitSession(like(fold.template))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result, bank = fold.solved(run, start, self._scales, shared)
        parts = bank.parts(result.weights, result.beta, self.groups.parts)[:, :, fold.held_out]
        offset = result.intercept + np.reshape(fold.prepared.offset, -1)
        norms = weighted_forms(bank, np.atleast_2d(result.weights), result.beta)
        return result, refit(result.weights, norms, parts, offset)

    def _start(self, fold, job):
        """Where the model of all rows ended, without the rows and kernels that are not there."""
        whole, everything = self._whole[0], self._folds[-1]
        beta = np.zeros((len(whole.beta), everything.points.max() + 1))
        beta[:, everything.points] = whole.beta
        weights = whole.weights
        if job.left_out is not None:
            weights = np.where(self.groups.members[job.left_out], 0.0, weights)
            if not weights.any():
                return None
        return replace(whole, beta=beta[:, fold.points], weights=weights)

    def _alone(self, job):
        train, test = self.splits[job.split]
        template, kept = self.template, np.ones(self.groups.members.shape[1], dtype=bool)
        if job.left_out is not None:
            kept = ~self.groups.members[job.left_out]
            template = self._without(self.groups.names[job.left_out], kept)
            train = self._with_something(train, kept)
        model = self._fitted(template, train)
        if len(model.bank_.names) != kept.sum():
            raise ValueError(
                "Some column is constant in a part of the rows, for which kernels='auto' makes "
                "fewer kernels: drop the column, or give the kernels."
            )
        members = self.groups.parts
        parts = np.zeros((len(members), len(model.intercept_), len(test)))
        weights, norms = np.zeros(kept.size), np.zeros(kept.size)
        if len(test):
            parts[:] = model._parts(rows_of(self.X, test), members[:, kept])
        weights[kept] = np.atleast_2d(model.kernel_weights_).mean(axis=0)
        norms[kept] = model.decision_.squared_norms()
        return refit(weights, norms, parts, model.intercept_)

    def _without(self, group, kept):
        """The template without a group, of which only some kernels are kept."""
        template = self.template
        if isinstance(template.kernels, GroupedCollection):
            return like(template, kernels=template.kernels.without(group))
        scale = "standard" if standardizes(template) else None
        return like(template, kernels=_some(template, self._read, kept), scale=scale)

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


class PipelineResampling:
    """A pipeline on many parts of a table: its first steps are fitted on the training rows of each.

    Parameters and attributes are those of `Resampling`; groups are those of the last step, on the
    columns that it gets.
    """

    def __init__(self, pipeline, X, y, sample_weight, splits):
        self._steps, self._model = pipeline[:-1], pipeline[-1]
        self.X, self.splits = as_table(X), splits
        table = clone(self._steps).fit_transform(self.X, y)
        self._whole = Resampling(self._model, table, y, sample_weight, [])
        self.template, self.groups = self._whole.template, self._whole.groups
        self.y, self.weight, self.bank = self._whole.y, self._whole.weight, self._whole.bank
        if is_classifier(self.template):
            refuse_lost_classes(self.template.classes_, self.y, self.weight, splits)

    def of_all_rows(self) -> Refit:
        """The model of all rows."""
        return self._whole.of_all_rows()

    def refits(self, jobs) -> list[Refit]:
        """The models of some jobs, part by part, so that the kernels of one are in memory."""
        found: dict[Resample, Refit] = {}
        for split in dict.fromkeys(job.split for job in jobs):
            mine = [job for job in jobs if job.split == split]
            models = self._part(split).refits([job._replace(split=0) for job in mine])
            found |= dict(zip(mine, models, strict=True))
        return [found[job] for job in jobs]

    def _part(self, split):
        train, test = self.splits[split]
        steps, both = clone(self._steps), np.concatenate([train, test])
        # as `fit` and `predict` of a pipeline do: encoders may treat training rows otherwise
        first = steps.fit_transform(rows_of(self.X, train), self.y[train])
        table = _stacked(first, steps.transform(rows_of(self.X, test)))
        places = np.arange(len(both))
        one = [(places[: len(train)], places[len(train) :])]
        part = Resampling(self._model, table, self.y[both], self.weight[both], one)
        if part.groups.members.shape != self.groups.members.shape:
            raise ValueError(
                "The steps before the model make other columns of a part of the rows, for which "
                "there are fewer kernels: give the kernels, or drop columns that are constant."
            )
        names = [list(getattr(one.template, "feature_names_in_", ())) for one in (self, part)]
        if names[0] != names[1]:
            other = sorted(set(names[0]) ^ set(names[1])) or names[1]
            raise ValueError(
                "The steps before the model choose other columns in parts of the rows "
                f"({', '.join(map(repr, other[:4]))}): what is asked of one column would be "
                "answered by another. Choose the columns before, or leave the choice to the kernel "
                "weights."
            )
        part.groups = self.groups
        return part


def _stacked(first, second):
    """The rows of two tables of one kind."""
    if sparse.issparse(first):
        return sparse.vstack([first, second], format="csr")
    if hasattr(first, "columns"):
        return nw.concat([nw.from_native(first), nw.from_native(second)]).to_native()
    return np.concatenate([first, second])


def refuse_lost_classes(classes, y, weight, splits):
    """Raise if the training rows of a split lack a class."""
    for train, _ in splits:
        missing = np.setdiff1d(classes, y[train][weight[train] > 0])
        if missing.size:
            raise ValueError(
                f"Some training rows have no row of class {str(missing[0])!r}: it is too "
                "rare, or the splits should be stratified."
            )


def plain(model):
    """An estimator without cross-validation, callbacks or checkpoint, and with numbers for what was
    chosen; that at the end of a pipeline.
    """
    model = getattr(model, "best_estimator_", model)
    if isinstance(model, Pipeline):
        model = model[-1]
    if isinstance(model, Tuned):
        if not hasattr(model, "C_"):
            raise ValueError(f"{type(model).__name__} must be fitted first: it chooses C and p.")
        kernels = getattr(model, "kernels_", model.kernels)
        chosen = {"kernels": kernels, "C": model.C_, "p": model.p_}
        return model._plain(**chosen, checkpoint=None, callbacks=None)
    if not (hasattr(model, "kernels") and hasattr(model, "_check_data")):
        raise TypeError(
            "This needs a classifier or regressor of manykernels, or a pipeline that ends in one, "
            f"got {type(model).__name__}."
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
