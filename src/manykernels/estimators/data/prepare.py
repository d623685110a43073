"""From data to a prepared problem: distinct rows, kernels on them, targets, costs.

All of it is the same for every C and p, so that a path prepares once.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from ..._canonical import Canonical, canonical_rows, fixed_rows, taken
from ...banks import Bank, CombinationBank, MissingBank, ResolvedKernels, make_bank
from ...banks.codes import refuse_categories
from ...banks.lowrank.basis import reduced
from ...banks.torch import device_for_factors, moved_to_device
from ...banks.views import RULES, Views, listed_rows
from ...combinations import Product
from ...kernels import KernelCollection, auto_bank
from ...kernels.collection import MaskedCollection
from ...kernels.points import is_sparse
from ...lowrank import RandomFourier
from ...planning import Request, Table, plan_blocks, plan_precision, plan_table, see_the_same
from ...result import Missing
from ...thresholds import thresholds
from ..checks import choose_combination, is_limited, memory_budget
from .fingerprints import fingerprint
from .silent import silent_kernels
from .units import MADE, in_units, learn_units, warn_of_scales, warn_of_scales_in_product


class Targets(NamedTuple):
    """What the decision functions should give at the distinct rows.

    Attributes
    ----------
    values : (t, n) array
    cost : (n,) or (t, n) array
        Of each row when C is one.
    offset : float or (t,) array
        What was subtracted from the values.
    """

    values: np.ndarray
    cost: np.ndarray
    offset: Any = 0.0


class RowsElsewhere(ABC):
    """Training rows that are not in the memory of this machine: they keep their order, and make
    their own kernels.

    Attributes
    ----------
    shape : (n, n_features)
    """

    shape: tuple[int, int]

    def __len__(self):
        return self.shape[0]

    @abstractmethod
    def note(self, codes, sample_weight) -> None:
        """Take note of the targets of all rows, as `distinct_rows` has them, and of weights."""

    @abstractmethod
    def make_kernels(self, estimator) -> Bank:
        """The kernels that an estimator asks for, on all rows."""

    @abstractmethod
    def marks(self, estimator, targets, cost) -> dict:
        """The fingerprint of a problem on them, for its checkpoint."""


class Prepared(NamedTuple):
    """Training data on the way from `fit`'s arguments to a problem.

    Attributes
    ----------
    bank : Bank
        The kernels on the distinct rows.
    targets, cost, offset
        See `Targets`.
    distinct : Canonical
        Which rows are distinct, and how often they come.
    silent : dict, optional
        Kernels that say nothing about other points; see `silent_kernels`.
    marks : dict, optional
        The fingerprint of the problem, for its checkpoint.
    missing : Missing, optional
        What is assumed of rows that lack views, where they may.
    table : Table, optional
        How the rows are held, if they were given as a sparse table.
    """

    bank: Bank
    targets: np.ndarray
    cost: np.ndarray
    offset: Any
    distinct: Canonical
    silent: dict | None = None
    marks: dict | None = None
    missing: Missing | None = None
    table: Table | None = None

    @property
    def outputs(self):
        return range(len(self.targets))

    def part(self, c):
        """The same with one output alone."""
        cost = self.cost if self.cost.ndim == 1 else self.cost[c]
        return self._replace(targets=self.targets[c : c + 1], cost=cost)


def prepare(estimator, X, distinct, targets, kernels=None):
    """The problem of an estimator, all but its C and its regularizer.

    Parameters
    ----------
    estimator : MKLEstimator
        That has read X.
    X : checked points
    distinct : Canonical
    targets : Targets
    kernels : callable, optional
        What makes the bank in the place of `make_kernels`, from the estimator, all of X and the
        distinct rows.
    """
    table = planned_table(estimator, X)
    if kernels is not None:
        return Prepared(kernels(estimator, X, distinct), *targets, distinct, table=table)
    if isinstance(X, RowsElsewhere):
        bank = X.make_kernels(estimator)
        marks = None if estimator.checkpoint is None else X.marks(estimator, *targets[:2])
        return Prepared(bank, *targets, distinct, marks=marks)
    missing = missing_views(estimator, X, distinct.group >= 0)
    X = taken(X, distinct.rows)
    learn_units(estimator, X, distinct.weight)
    X = in_units(estimator, X)
    held = X if table is None else table.held(X)
    bank = make_kernels(estimator, held, distinct.weight)
    placed = estimator._placed(bank)
    # others are asked once they are at hand, where that costs less
    at_once = placed is not bank or isinstance(bank, MissingBank)
    silent = silent_kernels(bank) if at_once else None
    prepared = Prepared(placed, *targets, distinct, silent, missing=missing, table=table)
    if estimator.checkpoint is None:
        return prepared
    marks = fingerprint(estimator, X, prepared.targets, prepared.cost)
    return prepared._replace(marks=marks)


def planned_table(estimator, X):
    """How the training rows are held, if X is sparse and exact kernels are computed of it."""
    given = isinstance(estimator.kernels, Bank)
    if given or estimator.approximation is not None or not is_sparse(X):
        return None
    return plan_table(X, memory_budget(estimator.cache_size))


def missing_views(estimator, X, counts):
    """What is assumed of rows that lack views, as `Missing`; None where they may not. Raise if rows
    lack anything else.

    Parameters
    ----------
    estimator : MKLEstimator
        That has read X.
    X : all rows
    counts : (n,) bool
        The rows that count.
    """
    rule, numbers = estimator.missing, np.flatnonzero(counts)
    if rule not in RULES:
        return None
    if is_sparse(X) or not np.isnan(X).any():
        return Missing(rule, numbers.size, 0, {})
    if isinstance(estimator.kernels, str):
        rows = np.flatnonzero(np.isnan(X).any(axis=1))
        raise ValueError(
            f"kernels={estimator.kernels!r} makes kernels of all columns together, and "
            f"{listed_rows(rows, X.shape[0])} lack values: give kernels on the columns that are "
            "missing together, such as on_groups({'clinical': [...], 'mrna': [...]}) of "
            "manykernels.kernels, or impute the values."
        )
    names = getattr(estimator, "feature_names_in_", None)
    views = Views.of(collection(estimator, X), X.shape[1], names, rule)
    presence = views.presence(X)[numbers]
    views.check_training(presence, numbers)
    lacking = dict(zip(views.labels, (~presence).sum(axis=0).tolist(), strict=True))
    lacking = {view: count for view, count in lacking.items() if count}
    return Missing(rule, numbers.size, int((~presence.all(axis=1)).sum()), lacking)


def distinct_rows(estimator, X, codes, sample_weight):
    """Rows to train on: canonical, unless a fitted bank fixes them.

    Parameters
    ----------
    codes : (n,) int
        Of the targets.
    """
    bank = estimator.kernels
    if isinstance(X, RowsElsewhere):
        X.note(codes, sample_weight)
        return fixed_rows(sample_weight)
    if not isinstance(bank, Bank):
        return canonical_rows(X, codes, sample_weight)
    if not bank.same_data(X):
        raise ValueError(
            f"This bank was fitted on other data ({bank.n} points); pass the same X to fit, or "
            "give the kernels themselves, not a fitted bank."
        )
    return fixed_rows(sample_weight)


def make_kernels(estimator, X, sample_weight):
    """The kernels that an estimator asks for, on the training rows."""
    combination = choose_combination(estimator.combination)
    names = getattr(estimator, "feature_names_in_", None)
    if isinstance(combination, Product):
        warn_of_scales_in_product(X, sample_weight, names)
    if combination is not None:
        return _combination_bank(estimator, combination, X)
    if isinstance(estimator.kernels, Bank):
        return _given_bank(estimator)
    kernels = collection(estimator, X)
    if not isinstance(kernels, MaskedCollection):
        warn_of_scales(kernels, X, sample_weight, names)
    on_points = {
        "normalize": estimator.normalize,
        "sample_weight": sample_weight,
        "feature_names": names,
        "categories": estimator._by_column(estimator.categories_),
    }
    on_machine = {
        "dtype": plan_precision(estimator.tol),
        "n_jobs": estimator.n_jobs,
        "memory_budget": memory_budget(estimator.cache_size),
    }
    if estimator.approximation is None:
        rule = estimator.missing if estimator.missing in RULES else "error"
        on_machine |= {"device": estimator.device, "missing": rule}
        return make_bank(kernels, X, **on_points, **on_machine)
    kernels = ResolvedKernels.from_data(kernels, X, **on_points)
    return _factors(estimator, kernels, X, on_machine | {"verbose": estimator.verbose})


def _factors(estimator, kernels, X, options):
    """The bank of an approximation, in the small space of its factors if there is one."""
    approximation, n = estimator.approximation, X.shape[0]
    if plan_blocks(request(estimator), kernels, n):
        return approximation.fit(kernels, X, **options, on_demand=True)
    width = kernels.m * min(approximation.rank, n)
    device = device_for_factors(estimator.device, n, width, see_the_same(kernels))
    fitted = approximation.fit(kernels, X, **options, device=device)
    # a search for some of the kernels asks for the factors of each
    return fitted if is_limited(estimator) else reduced(fitted, options["memory_budget"])


def request(estimator):
    """What the parameters of an estimator ask of a plan."""
    return Request(
        tol=estimator.tol,
        solver=estimator.solver,
        device=estimator.device,
        approximation=estimator.approximation,
        is_sparse=estimator.regularizer is None
        and estimator.p == 1.0
        and not is_limited(estimator),
        is_smooth=estimator._loss().is_smooth,
        memory_budget=memory_budget(estimator.cache_size),
    )


def collection(estimator, X):
    """The kernels without data, for the columns of X."""
    kernels, categories = estimator.kernels, estimator._by_column(estimator.categories_)
    if not isinstance(kernels, str):
        names = getattr(estimator, "feature_names_in_", None)
        found = KernelCollection.of(kernels).for_columns(X.shape[1], names, categories)
        if isinstance(found, MaskedCollection) and not goes_by_pairs(found):
            found.check_columns(X.shape[1])
            return KernelCollection(list(found.kernels))
        return found
    if kernels not in MADE:
        raise ValueError(
            f"kernels={kernels!r} is not known; use one of {', '.join(map(repr, MADE))}, kernels, "
            "a mapping or a KernelCollection."
        )
    return auto_bank(X, list(categories), estimator._column_names(), kernels)


def goes_by_pairs(kernels):
    """Whether kernels of feature subsets are computed pair by pair, all of them at once: many are,
    and those of no feature, which are one everywhere.
    """
    if not isinstance(kernels, MaskedCollection):
        return False
    return len(kernels) > thresholds().listed_subsets or not kernels.packed.any(axis=1).all()


def _given_bank(estimator):
    """The bank that was given in the place of kernels, if it is what the parameters ask for."""
    bank = estimator.kernels
    if estimator.approximation is not None:
        raise ValueError("An approximation needs the kernels themselves, not a fitted bank.")
    if estimator.device not in ("cpu", "auto"):
        raise ValueError(
            f"device={estimator.device!r} needs the kernels themselves, not a fitted bank."
        )
    if estimator.normalize != bank.normalize:
        raise ValueError(
            f"normalize={estimator.normalize!r}, but the bank was fitted with "
            f"normalize={bank.normalize!r}."
        )
    return bank


def _combination_bank(estimator, combination, X):
    """The bank of a kernel that is not a sum."""
    if not (isinstance(estimator.kernels, str) and estimator.kernels == "auto"):
        raise ValueError(
            f"kernels={estimator.kernels!r} are for sums of kernels; "
            f"combination={estimator.combination!r} makes its own: leave kernels='auto'."
        )
    if estimator.normalize not in ("diagonal", None):
        raise ValueError(
            f"normalize={estimator.normalize!r} is for sums of kernels; a combination is taken as "
            "it is."
        )
    refuse_categories(estimator.categories_, f"combination={estimator.combination!r}")
    options = {"feature_names": getattr(estimator, "feature_names_in_", None)}
    options |= {"n_jobs": estimator.n_jobs, "dtype": plan_precision(estimator.tol)}
    if estimator.approximation is not None:
        return _product_features(estimator, combination, X, options)
    return moved_to_device(CombinationBank(combination.fit(X), **options), estimator.device)


def _product_features(estimator, combination, X, options):
    """The bank of random features of a product."""
    approximation = estimator.approximation
    if type(combination) is not Product or not isinstance(approximation, RandomFourier):
        raise ValueError(
            f"approximation={approximation!r} does not go with combination="
            f"{estimator.combination!r}: kernels that are not sums have random features of "
            "products alone; use RandomFourier with combination='product', or approximation=None."
        )
    device = device_for_factors(estimator.device, X.shape[0], approximation.rank)
    budget = memory_budget(estimator.cache_size)
    return approximation.fit_product(combination, X, memory_budget=budget, device=device, **options)
