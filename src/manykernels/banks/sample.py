"""Some kernels in place of all."""

import numpy as np

from .base import SumBank
from .delegating import DelegatingBank


class SampledBank(DelegatingBank):
    """As many kernels as a bank has, but neighbours are taken to be equal to one of them.

    Its optimum is close to that of the whole bank at a small part of the price: a good place to
    begin from.

    Parameters
    ----------
    source : SumBank
        One that has a `subset`.
    size : int
        How many kernels are computed.
    random_state : int
        Of the choice among neighbours.
    """

    inner = "source"

    def __init__(self, source: SumBank, size: int, random_state: int = 0) -> None:
        self.source, self.size, self.random_state = source, size, random_state
        # which of the chosen kernels each one is taken to be
        self.stands_for = np.arange(self.m) * size // self.m
        first = np.searchsorted(self.stands_for, np.arange(size))
        last = np.append(first[1:], self.m)
        self.chosen = np.random.default_rng(random_state).integers(first, last)
        self.bank = source.subset(self.chosen)

    @property
    def streams(self):
        return self.source.streams

    def _summed(self, weights):
        return np.bincount(self.stands_for, weights, minlength=self.size)

    def combine(self, weights, rows=None):
        return self.bank.combine(self._summed(weights), rows)

    def quadratic_forms(self, beta):
        return self.bank.quadratic_forms(beta)[self.stands_for]

    def along(self, beta, change):
        return tuple(forms[self.stands_for] for forms in self.bank.along(beta, change))

    def products(self, beta):
        return self.bank.products(beta)[self.stands_for]

    def sweep(self, weights, beta, J):
        summed = J._replace(diagonal=self._summed(J.diagonal), vector=self._summed(J.vector))
        return self.bank.sweep(self._summed(weights), beta, summed)

    def columns(self, chosen):
        return self.bank.columns(chosen)[self.stands_for]

    def diagonal(self):
        return self.bank.diagonal()[self.stands_for]

    def combined_diagonal(self, weights):
        return self.bank.combined_diagonal(self._summed(weights))

    def cross(self, X_new, support=None):
        return SampledBank(self.source.cross(X_new, support), self.size, self.random_state)
