"""The protocol of anything that holds kernels: a bank, a map of features, or their plain
description.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from ..kernels.base import Kernel
from ..kernels.collection import KernelCollection
from ..kernels.precomputed import Precomputed

Indices = Sequence[int] | np.ndarray


class KernelSet(ABC):
    """m kernels, resolved and normalized on some training points."""

    @property
    @abstractmethod
    def names(self) -> Sequence[str]:
        """A readable name for every kernel, or every weight of a combination."""

    @property
    @abstractmethod
    def groups(self) -> Sequence[str]:
        """The group of every kernel, empty for a kernel without one."""

    @property
    @abstractmethod
    def normalize(self) -> str | None:
        """How the kernels are normalized; see `make_bank`."""

    @property
    @abstractmethod
    def kernels(self) -> Sequence[Kernel]:
        """The kernels with numbers for all parameters; of a million each is made when it is asked
        for. Empty for a combination.
        """

    @property
    @abstractmethod
    def scales(self) -> np.ndarray:
        """The factor that normalizes each kernel, (m,); zero for a kernel that is left out."""

    @property
    def m(self) -> int:
        """The number of weights."""
        return len(self.scales)

    @property
    def is_sum(self) -> bool:
        """True if the combined kernel is the weighted sum of the kernels."""
        return True

    @property
    def needs_grams(self) -> bool:
        """True if any kernel is a Gram matrix of the user's, so that points are sample indices."""
        return any(isinstance(kernel, Precomputed) for kernel in self.kernels)

    def columns_of(self, k: int) -> np.ndarray | None:
        """Indices of the columns of X that kernel k sees, None for all."""
        return None

    def with_categories(self, categories: Mapping[int, list]) -> Self:
        """The kernels for points whose codes stand for these entries, by column, as new points' do.

        Kernels that read numbers only stay as they are.
        """
        return self

    def collection(self) -> KernelCollection | None:
        """The kernels and their groups, without data; None for a combination, which has none."""
        return KernelCollection.from_lists(self.kernels, self.groups)

    def __len__(self) -> int:
        return self.m


class Delegating(KernelSet):
    """A holder whose kernels are those of another one, or of a `BankSpec` or `MaskedSpec`: its
    attribute of the name `inner`.
    """

    inner: str

    @property
    def _inner(self) -> Any:
        return getattr(self, self.inner)

    @property
    def names(self) -> Sequence[str]:
        return self._inner.names

    @property
    def groups(self) -> Sequence[str]:
        return self._inner.groups

    @property
    def normalize(self) -> str | None:
        return self._inner.normalize

    @property
    def kernels(self) -> Sequence[Kernel]:
        return self._inner.kernels

    @property
    def scales(self) -> np.ndarray:
        return self._inner.scales

    @property
    def m(self) -> int:
        return self._inner.m

    @property
    def needs_grams(self) -> bool:
        return self._inner.needs_grams

    def columns_of(self, k: int) -> np.ndarray | None:
        return self._inner.columns_of(k)

    def with_categories(self, categories: Mapping[int, list]) -> Self:
        twin = copy.copy(self)
        setattr(twin, self.inner, self._inner.with_categories(categories))
        return twin

    def collection(self) -> KernelCollection | None:
        return self._inner.collection()
