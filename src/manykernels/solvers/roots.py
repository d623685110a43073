"""Descent in the roots of the weights, ``d = x^2``, for kernels that are smooth in these alone.

Random features of a product depend on the roots of its weights. By the weights themselves their
slopes are infinite at zero, in a direction that is chance: descent is stuck there, or bounces. By
the roots nothing is infinite, and penalties of the weights are as smooth: ``sum(d)`` is ``|x|^2``.
A weight of zero stays there, since its root has no slope in the mean.
"""

import numpy as np

from ..regularizers import PNormBall
from ..regularizers.base import Regularizer
from ..run_state import Evaluation, RunState

# Weight that a run begins with at least, as a part of the largest. Larger: columns that a sample of
# the points has left out come back sooner.
LEAST_START = 1e-3


class Coordinates:
    """The weights themselves, as the variables of a descent.

    Parameters
    ----------
    regularizer : Regularizer
        Of the weights.

    Attributes
    ----------
    regularizer : Regularizer
        Of the variables.
    """

    def __init__(self, regularizer: Regularizer) -> None:
        self.regularizer = regularizer

    def of(self, weights: np.ndarray) -> np.ndarray:
        """The variables of weights."""
        return weights

    def weights(self, x: np.ndarray) -> np.ndarray:
        """The weights of variables."""
        return x

    def start(self, weights: np.ndarray) -> np.ndarray:
        """Weights to begin with."""
        return weights

    def gradient(self, at: Evaluation, forms: np.ndarray) -> np.ndarray:
        """The gradient of W by the variables, from the forms of a `Judgment`."""
        return self.regularizer.gradient(at.weights) - 0.5 * forms

    def growth(self, most: float) -> float:
        """The change of the sum of variables that belongs to one of the sum of weights."""
        return most


class Roots(Coordinates):
    """The roots of the weights."""

    def __init__(self, regularizer: Regularizer) -> None:
        super().__init__(Rooted(regularizer))

    def of(self, weights: np.ndarray) -> np.ndarray:
        return np.sqrt(weights)

    def weights(self, x: np.ndarray) -> np.ndarray:
        return np.square(self.regularizer.project(x))

    def start(self, weights: np.ndarray) -> np.ndarray:
        return self.weights(np.sqrt(np.maximum(weights, LEAST_START * weights.max())))

    def gradient(self, at: Evaluation, forms: np.ndarray) -> np.ndarray:
        x = self.of(at.weights)
        return self.regularizer.gradient(x) - x * forms

    def growth(self, most: float) -> float:
        return float(np.sqrt(1.0 + most) - 1.0)


def coordinates(run: RunState) -> Coordinates:
    """The variables in which a run's problem is smooth."""
    kind = Roots if run.bank.smooth_in_roots else Coordinates
    return kind(run.problem.regularizer)


class Rooted(Regularizer):
    """A regularizer of weights as a function of their roots.

    Parameters
    ----------
    of_weights : Regularizer
    """

    def __init__(self, of_weights: Regularizer) -> None:
        self.of_weights, anything = of_weights, np.linspace(1.0, 2.0, 3)
        self.is_orthant = np.array_equal(of_weights.project(anything), anything)

    @property
    def needs_bank(self) -> bool:  # type: ignore[override]
        return self.of_weights.needs_bank

    def value(self, x: np.ndarray) -> float:
        return self.of_weights.value(np.square(x))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = 2.0 * x * self.of_weights.gradient(np.square(x))
        return np.where(x > 0.0, slopes, 0.0)

    def project(self, x: np.ndarray) -> np.ndarray:
        x = np.maximum(x, 0.0)
        if isinstance(self.of_weights, PNormBall):  # |x^2|_p <= 1 is |x|_2p <= 1
            return PNormBall(2.0 * self.of_weights.p).project(x)
        if self.is_orthant:
            return x
        return np.sqrt(self.of_weights.adopt(np.square(x)))

    def __repr__(self) -> str:
        return f"{self.of_weights!r} of squares"
