"""Kernels resolved and normalized on the training data, to be evaluated between any two sets of
points.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..kernels.collection import KernelCollection
from ..kernels.points import as_points
from ..kernels.vector import dense
from .base import SumBank
from .compute import Compute, Points
from .kernel_set import Delegating, Indices
from .masked import MaskedBank
from .spec import BankSpec, MaskedSpec, Training, spec_from_data
from .tiled import TiledBank


class ResolvedKernels(Delegating):
    """Kernels as a low-rank approximation needs them, without any of the training points.

    Parameters
    ----------
    spec : BankSpec or MaskedSpec
        The kernels with their scales. `from_data` computes these.
    """

    inner = "spec"

    def __init__(self, spec: BankSpec | MaskedSpec) -> None:
        self.spec = spec

    @classmethod
    def from_data(
        cls,
        collection: KernelCollection,
        X: Any,
        *,
        normalize: str | None = "diagonal",
        sample_weight: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        categories: Mapping[int, list] | None = None,
    ) -> Self:
        """The kernels of a collection, resolved and normalized on the training points.

        Parameters
        ----------
        collection : KernelCollection
        X : training points
        normalize, sample_weight, feature_names, categories
            See `make_bank`; ``"center"`` needs the whole of a kernel and is refused.
        """
        if normalize == "center":
            raise ValueError(
                "normalize='center' does not go with an approximation: use 'diagonal', 'trace' or "
                "'cosine'."
            )
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        training = Training(as_points(X), weights, feature_names, categories)
        return cls(spec_from_data(collection, normalize, training))

    @property
    def is_masked(self) -> bool:
        """True if the kernels are stored as arrays of widths and masks."""
        return isinstance(self.spec, MaskedSpec)

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> Self:
        """Some of the kernels, each times a factor."""
        return type(self)(self.spec.take_kernels(kernels, factor))

    def between(self, A: Any, B: Any) -> SumBank:
        """The bank with rows A and columns B, in float64 on one thread."""
        if isinstance(self.spec, MaskedSpec):
            return MaskedBank(self.spec, Points(A, B).each(dense), Compute())
        return TiledBank(self.spec, Points(A, B), Compute())

    def combined_diagonal(self, weights: ArrayLike, X: Any) -> np.ndarray:
        """Diagonal of the weighted sum of the kernels at the points X."""
        if isinstance(self.spec, MaskedSpec):
            return np.full(X.shape[0], self.spec.scale * float(np.sum(weights)))
        out = np.zeros(X.shape[0])
        for k in self.spec.alive:
            out += np.asarray(weights)[k] * self.spec.diagonal(k, X)
        return out

    def refuse_indices(self, what: str) -> None:
        """Raise if the points are sample indices of precomputed kernels, or codes of categories."""
        if self.needs_grams:
            raise ValueError(
                f"{what} needs feature vectors, but there are precomputed kernels: use "
                "landmarks='uniform'."
            )
        if isinstance(self.spec, BankSpec) and self.spec.categories:
            raise ValueError(
                f"{what} needs feature vectors, but there are strings or categories: use "
                "landmarks='uniform'."
            )
