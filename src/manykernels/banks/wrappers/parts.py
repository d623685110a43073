"""Some of the points of a bank as training points, the others as new ones: a fold."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from ..base import SumBank, as_outputs
from ..kernel_set import Indices
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
    def n(self) -> int:  # type: ignore[override]
        return self.points.size

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self.points.size

    @property
    def symmetric(self) -> bool:
        return True

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> "SumBank | None":
        some = self.bank.take_kernels(kernels, factor)
        return None if some is None else PartBank(some, self.points, self.factors[kernels])

    def take_points(self, points: Indices) -> "SumBank | None":
        return PartBank(self.bank, self.points[points], self.factors)

    @property
    def scales(self) -> np.ndarray:
        return self.bank.scales * self.factors

    def combine(self, weights: ArrayLike, rows: Indices | None = None) -> np.ndarray:
        chosen = self.points if rows is None else self.points[rows]
        whole = self.bank.combine(self._scaled(weights), None if rows is None else chosen)
        places = chosen if rows is None else np.arange(chosen.size)
        return whole[places][:, self.points]

    def exact_factors(self) -> Any:
        whole = self.bank.exact_factors()
        return None if whole is None else whole.take_points(self.points).scaled(self.factors)

    def products(self, beta: ArrayLike) -> np.ndarray:
        found = self.bank.products(self._spread(as_outputs(beta, self.n)))
        found = found.take(self.points, axis=2)
        found *= self.factors[:, None, None]
        return found if np.ndim(beta) == 2 else found[:, 0]

    def quadratic_forms(self, beta: ArrayLike) -> np.ndarray:
        beta = as_outputs(beta, self.n)
        return self.bank.quadratic_forms(self._spread(beta)) * self.factors

    def everywhere(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        """``K_d beta`` at all points of the whole bank, (t, N)."""
        return self.bank.decision(self._scaled(weights), self._spread(as_outputs(beta, self.n)))

    def parts(self, weights: Any, beta: Any, members: Any) -> np.ndarray:
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

    def decision(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        return self.everywhere(weights, beta)[:, self.points].reshape(np.shape(beta))

    def combined_diagonal(self, weights: ArrayLike) -> np.ndarray:
        return self.bank.combined_diagonal(self._scaled(weights))[self.points]

    def columns(self, chosen: Indices) -> np.ndarray:
        columns = self.bank.columns(self.points[chosen])[:, self.points]
        return columns * self.factors[:, None, None]

    def diagonal(self) -> np.ndarray:
        return self.bank.diagonal()[:, self.points] * self.factors[:, None]

    def refined(self) -> Self | None:
        finer = self.bank.refined()
        return None if finer is None else type(self)(finer, self.points, self.factors)

    def cross(self, X_new: Any, support: Indices | None = None) -> "SumBank":
        raise NotImplementedError("A fold predicts at the points of its bank: see `everywhere`.")

    def same_data(self, X: Any) -> bool:
        return False

    def _scaled(self, weights: ArrayLike) -> Any:
        return np.asarray(weights, dtype=float) * self.factors

    def _spread(self, beta: Any) -> Any:
        """Coefficients of all points of the bank."""
        out = np.zeros((len(beta), self.bank.n))
        out[:, self.points] = beta
        return out


# --- some kernels in place of all -----------------------------------------------------------------


class SampledBank(DelegatingBank):
    """A bank of as many kernels as another, in which neighbors are taken to be equal.

    Its optimum is close to that of the whole bank at a small part of the price: a good place to
    begin from.

    Parameters
    ----------
    source : SumBank
        One that has a `take_kernels`.
    size : int
        How many kernels are computed.
    random_state : int
        Of the choice among neighbors.
    """

    inner = "source"

    def __init__(self, source: SumBank, size: int, random_state: int = 0) -> None:
        self.source, self.size, self.random_state = source, size, random_state
        # which of the chosen kernels each one is taken to be
        self.stands_for = np.arange(self.m) * size // self.m
        first = np.searchsorted(self.stands_for, np.arange(size))
        last = np.append(first[1:], self.m)
        self.chosen = np.random.default_rng(random_state).integers(first, last)
        self.bank: Any = source.take_kernels(self.chosen)

    @property
    def streams(self) -> bool:  # type: ignore[override]
        return self.source.streams

    def _summed(self, weights: ArrayLike) -> Any:
        return np.bincount(self.stands_for, weights, minlength=self.size)

    def combine(self, weights: Any, rows: Any = None) -> np.ndarray:
        return self.bank.combine(self._summed(weights), rows)

    def quadratic_forms(self, beta: Any) -> np.ndarray:
        return self.bank.quadratic_forms(beta)[self.stands_for]

    def directional_forms(self, beta: Any, change: Any) -> tuple[np.ndarray, ...]:
        return tuple(forms[self.stands_for] for forms in self.bank.directional_forms(beta, change))

    def products(self, beta: Any) -> np.ndarray:
        return self.bank.products(beta)[self.stands_for]

    def newton_sums(self, weights: Any, beta: Any, J: Any) -> Any:
        summed = J._replace(diagonal=self._summed(J.diagonal), vector=self._summed(J.vector))
        return self.bank.newton_sums(self._summed(weights), beta, summed)

    def columns(self, chosen: Any) -> np.ndarray:
        return self.bank.columns(chosen)[self.stands_for]

    def diagonal(self) -> np.ndarray:
        return self.bank.diagonal()[self.stands_for]

    def combined_diagonal(self, weights: Any) -> np.ndarray:
        return self.bank.combined_diagonal(self._summed(weights))

    def cross(self, X_new: Any, support: Any = None) -> "SumBank":
        return SampledBank(self.source.cross(X_new, support), self.size, self.random_state)
