"""Some of the points of a bank as training points, the others as new ones: a fold."""

from typing import Self

import numpy as np

from .base import SumBank, as_outputs
from .delegating import DelegatingBank


class PartBank(DelegatingBank):
    """The kernels of a bank on some of its points, each times a factor.

    The factors are what a normalization on these points alone needs. Decision values at all points
    of the bank come from the pass that gives those at the training points.

    Parameters
    ----------
    bank : SumBank
        Of all points, rows and columns.
    points : (n,) int
        Different ones.
    factors : (m,) array
    """

    inner = "bank"

    def __init__(self, bank: SumBank, points: np.ndarray, factors: np.ndarray) -> None:
        self.bank, self.points, self.factors = bank, points, factors

    @property
    def n(self):
        return self.points.size

    @property
    def n_rows(self):
        return self.points.size

    @property
    def symmetric(self):
        return True

    def subset(self, kernels, factor=1.0):
        some = self.bank.subset(kernels, factor)
        return None if some is None else PartBank(some, self.points, self.factors[kernels])

    def among(self, points):
        return PartBank(self.bank, self.points[points], self.factors)

    @property
    def scales(self):
        return self.bank.scales * self.factors

    def combine(self, weights, rows=None):
        chosen = self.points if rows is None else self.points[rows]
        whole = self.bank.combine(self._scaled(weights), None if rows is None else chosen)
        places = chosen if rows is None else np.arange(chosen.size)
        return whole[np.ix_(places, self.points)]

    def products(self, beta):
        found = self.bank.products(self._spread(as_outputs(beta, self.n)))
        found = found.take(self.points, axis=2)
        found *= self.factors[:, None, None]
        return found if np.ndim(beta) == 2 else found[:, 0]

    def quadratic_forms(self, beta):
        beta = as_outputs(beta, self.n)
        return self.bank.quadratic_forms(self._spread(beta)) * self.factors

    def everywhere(self, weights, beta) -> np.ndarray:
        """``K_d beta`` at all points of the whole bank, (t, N)."""
        return self.bank.decision(self._scaled(weights), self._spread(as_outputs(beta, self.n)))

    def parts(self, weights, beta, members) -> np.ndarray:
        """`everywhere` by parts of the kernels, (g, t, N).

        Parameters
        ----------
        weights : (m,) or (t, m) array
        beta : (t, n) array
        members : (g, m) bool array
            The kernels of each part.
        """
        products = self.bank.products(self._spread(as_outputs(beta, self.n)))  # (m, t, N)
        products *= np.atleast_2d(self._scaled(weights)).T[:, :, None]
        return np.tensordot(members.astype(float), products, 1)

    def decision(self, weights, beta):
        return self.everywhere(weights, beta)[:, self.points].reshape(np.shape(beta))

    def combined_diagonal(self, weights):
        return self.bank.combined_diagonal(self._scaled(weights))[self.points]

    def columns(self, chosen):
        columns = self.bank.columns(self.points[chosen])[:, self.points]
        return columns * self.factors[:, None, None]

    def diagonal(self):
        return self.bank.diagonal()[:, self.points] * self.factors[:, None]

    def refined(self) -> Self | None:
        finer = self.bank.refined()
        return None if finer is None else type(self)(finer, self.points, self.factors)

    def cross(self, X_new, support=None):
        raise NotImplementedError("A fold predicts at the points of its bank: see `everywhere`.")

    def same_data(self, X):
        return False

    def _scaled(self, weights):
        return np.asarray(weights, dtype=float) * self.factors

    def _spread(self, beta):
        """Coefficients of all points of the bank."""
        out = np.zeros((len(beta), self.bank.n))
        out[:, self.points] = beta
        return out
