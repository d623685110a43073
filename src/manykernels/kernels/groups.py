"""Kernels on groups of columns: several views of the same samples."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import numpy as np

from .base import Features, Kernel, resolve_features
from .categorical import Hamming
from .collection import KernelCollection, Some
from .vector import RBF, Linear

# Widths: two that see far, and one that follows the distances to near points. In many dimensions
# all distances are about the same: a width far below them is an identity matrix, and half of it
# still takes weight for no more than regularizing.
FAR, NEAR = (0.125, 0.5), (1.0,)


def on_groups(
    groups: Mapping[str, Features], kernels: Some | Mapping[str, Some] | None = None
) -> KernelCollection:
    """The same kernels on every group of columns, such as the views of a multi-omics study.

    ``MKLClassifier(on_groups({"clinical": ["age", "stage"], "mrna": slice(2, 202)}))``

    Parameters
    ----------
    groups : mapping from name to columns
        Names, indices, a slice or whatever else `Kernel.features` may be.
    kernels : kernel, list of kernels, or mapping from group to such, optional
        To be put on the groups; they must not have features of their own. By default, and for
        groups that a mapping leaves out, Gaussians of three widths and a linear kernel. The widths
        follow the distances that occur within the group (``gamma="median"`` and ``"near"``), so
        that groups of fifteen and of three hundred columns have the same chances, none is nearly
        the identity, and a few odd samples do not change them. In an estimator that finds
        categories among the columns of a group, `Hamming` on those and the others on the rest.

    Returns
    -------
    KernelCollection
        With the names in ``groups``. An estimator standardizes the columns of groups that have
        the default kernels (``scale="auto"``); kernels of your own see columns as they are.

    Examples
    --------
    >>> from manykernels.kernels import RBF, on_groups
    >>> on_groups({"clinical": ["age", "stage"], "mrna": slice(2, 202)})
    GroupedCollection(8 kernels)
    >>> on_groups({"clinical": [0, 1]}, RBF(0.5)).names()
    ['clinical: RBF(gamma=0.5) on x0, x1']
    """
    if not isinstance(groups, Mapping) or not groups:
        raise TypeError(
            f"groups must be a mapping such as {{'clinical': ['age', 'stage'], 'mrna': [...]}}, "
            f"got {groups!r}."
        )
    own = kernels if isinstance(kernels, Mapping) else dict.fromkeys(groups, kernels)
    unknown = [group for group in own if group not in groups]
    if unknown:
        raise ValueError(
            f"There are kernels for {unknown[:5]}, which are not among the groups "
            f"{list(groups)[:10]}."
        )
    return GroupedCollection(
        groups, {group: kernels for group, kernels in own.items() if kernels is not None}
    )


class GroupedCollection(KernelCollection):
    """Kernels on groups of columns. Made by `on_groups`.

    Parameters
    ----------
    columns : mapping from group to columns
    own : mapping from group to kernels
        Of the groups that do not have the default ones.
    """

    def __init__(self, columns: Mapping[str, Features], own: Mapping[str, Some]) -> None:
        self.columns, self.own = columns, own
        super().__init__(
            {str(group): self._on(group, features) for group, features in columns.items()}
        )

    def _on(self, group: str, features: Features) -> list[Kernel]:
        if features is None:
            raise ValueError(f"Group {group!r} has no columns: give their names or indices.")
        features = (
            features
            if isinstance(features, (str, int, slice, tuple))
            else tuple(np.asarray(features).tolist())
        )
        if group not in self.own:
            return default_kernels(features)
        return [_seeing(kernel, features) for kernel in KernelCollection(self.own[group]).kernels]

    def without(self, left_out: str) -> Self:
        """All groups but one."""
        kept = [group for group in self.columns if str(group) != left_out]
        own = {group: self.own[group] for group in kept if group in self.own}
        return type(self)({group: self.columns[group] for group in kept}, own)

    def columns_as_given(self, n_features: int, feature_names: Sequence[str] | None) -> np.ndarray:
        """Columns of groups that have kernels of their own."""
        seen = [resolve_features(self.columns[g], n_features, feature_names) for g in self.own]
        return np.unique(np.concatenate([np.empty(0, dtype=np.intp), *seen]))

    def for_columns(
        self, n_features: int, feature_names: Sequence[str] | None, categories: Iterable[int]
    ) -> KernelCollection:
        """This collection with `Hamming` on the categories of groups with the default kernels."""
        return KernelCollection(
            {
                str(group): self._split(group, n_features, feature_names, categories)
                for group in self.columns
            }
        )

    def _split(
        self,
        group: str,
        n_features: int,
        feature_names: Sequence[str] | None,
        categories: Iterable[int],
    ) -> list[Kernel]:
        features = self.columns[group]
        try:
            columns = resolve_features(features, n_features, feature_names)
            chosen = [] if columns is None else columns.tolist()
        except ValueError:  # the bank says what is wrong with them
            chosen = []
        kinds = tuple(f for f in chosen if f in categories)
        if group in self.own or not kinds:
            return self._on(group, features)
        rest = tuple(f for f in chosen if f not in categories)
        return [Hamming(features=kinds), *(default_kernels(rest) if rest else [])]


def default_kernels(features: Features) -> list[Kernel]:
    """Gaussians of some widths and a linear kernel."""
    return [
        *(RBF("median", features=features, factor=factor) for factor in FAR),
        *(RBF("near", features=features, factor=factor) for factor in NEAR),
        Linear(features=features),
    ]


def _seeing(kernel: Kernel, columns: Features) -> Kernel:
    """The kernel on these columns."""
    if kernel.features is not None:
        raise ValueError(
            f"{kernel!r} has features of its own; give kernels without, on_groups puts them on the "
            "groups."
        )
    twin = copy.copy(kernel)
    object.__setattr__(twin, "features", columns)  # a new value, not yet seen by anybody
    return twin
