"""Kernels resolved and normalized on the training data, to be evaluated between any two sets of
points.
"""

import copy

import numpy as np

from .._threads import Threads
from ..kernels.collection import MaskedCollection
from ..kernels.points import as_points
from ..kernels.precomputed import Precomputed
from ..kernels.vector import dense
from .codes import refuse_categories
from .masked import MaskedBank
from .spec import BankSpec
from .tiled import TiledBank


class KernelsOnPoints:
    """What a low-rank approximation needs of the kernels; holds none of the training points.

    Parameters
    ----------
    collection : KernelCollection
    X : training points
    normalize, sample_weight, feature_names, categories
        See `make_bank`; ``"center"`` needs the whole of a kernel and is refused.
    """

    def __init__(
        self,
        collection,
        X,
        *,
        normalize="diagonal",
        sample_weight=None,
        feature_names=None,
        categories=None,
    ):
        if normalize == "center":
            raise ValueError(
                "normalize='center' does not go with an approximation: use 'diagonal', 'trace' or "
                "'cosine'."
            )
        X = as_points(X)
        self.normalize, self.m = normalize, len(collection)
        if isinstance(collection, MaskedCollection):
            refuse_categories(categories, "A masked bank")
            total = X.shape[0] if sample_weight is None else float(np.sum(sample_weight))
            self._masked, self._spec = collection, None
            self.names, self.groups = collection.names(), collection.groups
            self.scales = np.full(self.m, 1.0 / total if normalize == "trace" else 1.0)
        else:
            self._masked, self._spec = (
                None,
                BankSpec(collection, X, normalize, sample_weight, feature_names, categories),
            )
            self.names, self.groups, self.scales = (
                self._spec.names,
                self._spec.groups,
                self._spec.scales,
            )

    @classmethod
    def restored(cls, normalize, scales, *, spec=None, masked=None):
        """The same from a spec, or a collection of masked kernels, and scales that were computed
        before.
        """
        kernels = cls.__new__(cls)
        kernels.normalize, kernels.m, kernels.scales = normalize, len(scales), scales
        kernels._spec, kernels._masked = spec, masked
        kernels.names, kernels.groups = (
            (masked.names(), masked.groups) if spec is None else (spec.names, spec.groups)
        )
        return kernels

    @property
    def spec(self):
        """The resolved kernels; None for a masked bank."""
        return self._spec

    @property
    def masked(self):
        """The collection of a masked bank, or None."""
        return self._masked

    def between(self, A, B, only=None):
        """The bank with rows A and columns B, in float64 on one thread; of one kernel only if
        asked.
        """
        if self._masked is not None:
            if only is not None:
                raise ValueError(
                    "Kernels of a masked bank are not approximated one by one: use Nystroem."
                )
            A, B = dense(A), B if A is B else dense(B)
            return MaskedBank(
                self._masked,
                A,
                A if B is A else B,
                self.normalize,
                np.float64,
                Threads(1),
                self.scales[0],
            )
        spec = self._spec if only is None else _only(self._spec, only)
        return TiledBank(spec, A, B, np.float64, Threads(1))

    def combined_diagonal(self, weights, X):
        """Diagonal of the weighted sum of the kernels at the points X."""
        if self._masked is not None:
            return np.full(X.shape[0], float(np.asarray(weights) @ self.scales))
        return sum(
            w * self._spec.diagonal(k, X) for k, w in enumerate(weights) if self.scales[k] > 0.0
        )

    def listed(self, what):
        """The kernels as objects."""
        if self._masked is not None:
            raise ValueError(f"A masked bank has no kernel objects for {what}: use Nystroem.")
        return self._spec.kernels

    def columns(self, k):
        """Features of kernel k as indices, None for all."""
        return self._spec.columns[k]

    def refuse_indices(self, what):
        """Raise if the points are sample indices of precomputed kernels, or codes of categories."""
        if self._spec is not None and any(
            isinstance(kernel, Precomputed) for kernel in self._spec.kernels
        ):
            raise ValueError(
                f"{what} needs feature vectors, but there are precomputed kernels: use "
                "landmarks='uniform'."
            )
        if self._spec is not None and self._spec.categories:
            raise ValueError(
                f"{what} needs feature vectors, but there are strings or categories: use "
                "landmarks='uniform'."
            )


def _only(spec, k):
    """The same with kernel k alone."""
    one = copy.copy(spec)
    one.kernels, one.columns, one.names, one.groups = (
        [spec.kernels[k]],
        [spec.columns[k]],
        [spec.names[k]],
        [spec.groups[k]],
    )
    one.scales = spec.scales[k : k + 1]
    return one
