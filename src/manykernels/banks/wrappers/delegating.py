"""Banks around a bank."""

import copy
from contextlib import AbstractContextManager
from typing import Any, Self

import numpy as np

from ..._threads import Threads
from ..base import SumBank
from ..kernel_set import Delegating, Indices


class DelegatingBank(Delegating, SumBank):
    """Base of banks whose work another bank does: its attribute of the name `inner`.

    Points, precision, threads and the place of the work are those of the other bank. What a bank
    does quickly (`streams`, `shares_passes`, ...) depends on its own methods: each subclass states
    it.
    """

    @property
    def n(self) -> int:  # type: ignore[override]
        return self._inner.n

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self._inner.n_rows

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        return self._inner.dtype

    @property
    def threads(self) -> Threads:  # type: ignore[override]
        return self._inner.threads

    @property
    def on_device(self) -> bool:  # type: ignore[override]
        return self._inner.on_device

    @property
    def is_remote(self) -> bool:  # type: ignore[override]
        return self._inner.is_remote

    @property
    def starts(self) -> int:
        return self._inner.starts

    @property
    def symmetric(self) -> bool:
        return self._inner.symmetric

    def algebra(self) -> AbstractContextManager:
        return self._inner.algebra()

    def threaded(self, count: int) -> Self:
        twin = copy.copy(self)
        setattr(twin, self.inner, self._inner.threaded(count))
        return twin

    def cross(self, X_new: Any, support: Indices | None = None) -> SumBank:
        return self._inner.cross(X_new, support)

    def same_data(self, X: Any) -> bool:
        return self._inner.same_data(X)
