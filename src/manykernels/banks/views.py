"""Views: the sets of columns that kernels see, and which points have them.

A point lacks a view if all columns of it are NaN. A point of which only some are NaN has missing
values inside a view, and nobody here knows what to make of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ..kernels.base import NumberedColumns, describe_features
from ..kernels.collection import KernelCollection, MaskedCollection
from ..kernels.points import is_sparse
from .kernel_set import Indices
from .spec import resolved_features

RULES = ("mean", "scaled")
NAMED_IN_ERRORS = 5  # rows and columns that an error names; with more of them it is longer


@dataclass(frozen=True, eq=False)
class Views:
    """The different sets of columns that the kernels of a collection see.

    Attributes
    ----------
    columns : list of (size,) int
        Of every view, ascending.
    of_kernel : (m,) int
        The view of every kernel.
    labels : list of str
        What the views are called: by their group, where that is one view, or by their columns.
    names : sequence of str
        Of all columns.
    rule : {"mean", "scaled"}
        What is made of points that lack views; see `MissingBank`.
    """

    columns: list[np.ndarray]
    of_kernel: np.ndarray
    labels: list[str]
    names: Sequence[str]
    rule: str

    @classmethod
    def of(
        cls,
        collection: KernelCollection,
        n_features: int,
        feature_names: Sequence[str] | None,
        rule: str,
    ) -> Self:
        """The views of a collection on a table with these columns.

        Parameters
        ----------
        collection : KernelCollection
        n_features : int
        feature_names : sequence of str, optional
        rule : {"mean", "scaled"}
        """
        refuse_masks(collection)
        seen = [
            resolved_features(kernel, group, n_features, feature_names)
            for kernel, group in zip(collection.kernels, collection.groups, strict=True)
        ]
        return cls.from_columns(seen, collection.groups, n_features, feature_names, rule)

    @classmethod
    def from_columns(
        cls,
        seen: Sequence[np.ndarray | None],
        groups: Sequence[str],
        n_features: int,
        feature_names: Sequence[str] | None,
        rule: str,
    ) -> Self:
        """The views of kernels, from the columns that each of them sees, None for all, and its
        group.
        """
        places: dict[tuple[int, ...], int] = {}
        everything = np.arange(n_features)
        sets = [everything if columns is None else np.unique(columns) for columns in seen]
        of_kernel = np.array(
            [places.setdefault(tuple(columns.tolist()), len(places)) for columns in sets]
        )
        views = [np.array(view, dtype=np.intp) for view in places]
        names: Sequence[str] = NumberedColumns(n_features)
        if feature_names is not None:
            names = [str(name) for name in feature_names]
        owners: list[set[str]] = [set() for _ in views]
        for view, group in zip(of_kernel, groups, strict=True):
            owners[view].add(group)
        return cls(views, of_kernel, _labels(views, owners, names), names, rule)

    def __len__(self) -> int:
        return len(self.columns)

    def take_kernels(self, kernels: Indices) -> Self:
        """The views for some of the kernels; points are still asked for all views."""
        return replace(self, of_kernel=self.of_kernel[kernels])

    def presence(self, X: Any) -> np.ndarray:
        """The views that each point has, (n, views) bools; raise if one has a part of a view.

        Parameters
        ----------
        X : (n, n_features) array, in which NaN is missing, or sparse matrix, which lacks nothing
        """
        if X.shape[1] != len(self.names):
            raise ValueError(
                f"These points have {X.shape[1]} features, the kernels are for {len(self.names)}."
            )
        holes = None if is_sparse(X) else np.isnan(X)
        if holes is None or not holes.any():
            return np.ones((X.shape[0], len(self)), dtype=bool)
        lacking = np.stack([holes[:, view].sum(axis=1) for view in self.columns], axis=1)
        sizes = np.array([view.size for view in self.columns])
        partly = (lacking > 0) & (lacking < sizes)
        if partly.any():
            view = int(np.flatnonzero(partly.any(axis=0))[0])
            raise ValueError(self._on_part(view, partly[:, view], holes))
        return lacking == 0

    def _on_part(self, view: Any, partly: Any, holes: Any) -> str:
        """The error of points that have a part of a view."""
        columns, rows = self.columns[view], np.flatnonzero(partly)
        column = columns[holes[np.ix_(rows, columns)].any(axis=0)][0]
        there = np.flatnonzero(holes[:, column] & partly)
        return (
            f"missing={self.rule!r} is for rows that lack whole views, but {self.labels[view]!r} "
            f"has missing values beside others in {listed_rows(rows, len(partly))}: column "
            f"{self.names[column]!r} lacks {listed_rows(there, len(partly))}. Impute them, drop "
            "these rows, or make views of the columns that are missing together "
            "(manykernels.kernels.on_groups)."
        )

    def check_training(self, presence: np.ndarray, numbers: np.ndarray | None = None) -> None:
        """Raise if a point has no view, or a view no point.

        Parameters
        ----------
        presence : (n, views) array
        numbers : (n,) int, optional
            What the points are called.
        """
        numbers = np.arange(len(presence)) if numbers is None else numbers
        empty = ~presence.any(axis=1)
        if empty.any():
            raise ValueError(
                f"Nothing is known of {listed_rows(numbers[empty], len(presence))}, which lack "
                "every view: drop them from the training data."
            )
        never = np.flatnonzero(~presence.any(axis=0))
        if never.size:
            named = ", ".join(repr(self.labels[v]) for v in never[:NAMED_IN_ERRORS])
            raise ValueError(
                f"No training row has {named}{' …' if never.size > NAMED_IN_ERRORS else ''}: leave "
                "such kernels out."
            )

    def sizes(self, presence: np.ndarray) -> np.ndarray:
        """Factors of the features of points, (n,): one, or the number of views over that of the
        views that a point has.
        """
        if self.rule == "mean":
            return np.ones(len(presence))
        return len(self) / np.maximum(presence.sum(axis=1), 1)


def listed_rows(rows: np.ndarray, total: int) -> str:
    """Words for some of so many rows: how many, and the first of them."""
    first = ", ".join(map(str, np.sort(rows)[:NAMED_IN_ERRORS].tolist()))
    more = ", …" if len(rows) > NAMED_IN_ERRORS else ""
    return f"{len(rows)} of {total} rows ({first}{more})"


def refuse_masks(collection: Any) -> None:
    """Raise for kernels that are stored as masks, each of which may be a view of its own."""
    if isinstance(collection, MaskedCollection):
        raise ValueError(
            "Kernels of masked_rbf need every column: leave missing='error', or put kernels on the "
            "views with manykernels.kernels.on_groups."
        )


def _labels(columns: Any, owners: Any, names: Any) -> Any:
    """The group that a view is all of, or its columns."""
    alone = [next(iter(groups)) if len(groups) == 1 else "" for groups in owners]
    labels: list[str] = []
    for view, group in zip(columns, alone, strict=True):
        words = "all features" if view.size == len(names) else describe_features(view, names)
        if group and alone.count(group) == 1:
            words = group
        elif group:
            words = f"{group}: {words}"
        labels.append(words if words not in labels else f"{words} (view {len(labels)})")
    return labels
