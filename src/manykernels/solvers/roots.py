"""Descent in the roots of the weights, ``d = x^2``, for products of Gaussians.

Roots are scales of features, in which W is nearer to a quadratic function than in the weights: a
quarter of the SVMs is saved. Random features of a product depend on the roots alone: by the weights
their slopes are infinite at zero, in a direction that is chance, and descent is stuck there, or
bounces. Penalties of the weights are as smooth in the roots: ``sum(d)`` is ``|x|^2``.

The root of a weight of zero has no slope. Where W falls with such a weight, its slope is taken to
be that at a small weight, so that it leaves zero; random features know no such slope, and begin
with weights above zero. Of very many columns, most of which get no weight, roots leave out too many
too soon: the objective of leukemia was 3 % higher.
"""

import numpy as np

from ..regularizers import L1, PNormBall, SquaredPNorm
from ..regularizers.base import Curvature, Regularizer
from ..run_state import Evaluation, RunState

# Weight that a run begins with at least, as a part of the largest. Larger: columns that a sample of
# the points has left out come back sooner.
LEAST_START = 1e-3
# Weights up to which an exact product is looked for by roots: more of them end in worse minima.
MOST_ROOTS = 100


class Coordinates:
    """The weights themselves, as the variables of a descent.

    Parameters
    ----------
    regularizer : Regularizer
        Of the variables.
    m : int
        Number of weights.

    Attributes
    ----------
    regularizer : Regularizer
    is_orthant : bool
        All variables that are not negative are feasible, with a finite gradient.
    is_bent : bool
        The regularizer has second derivatives, also at zero.
    is_apart : bool
        A model of W has the regularizer as it is, and not its curvature along past steps.
    """

    def __init__(self, regularizer: Regularizer, m: int) -> None:
        self.regularizer, anything = regularizer, 1.0 + np.arange(m)
        with np.errstate(divide="ignore", invalid="ignore"):
            finite = bool(np.isfinite(regularizer.gradient(np.zeros(m))).all())
            self.is_bent = regularizer.has_hessian and bool(
                np.isfinite(regularizer.hessian(np.zeros(m)).diagonal).all()
            )
        self.is_orthant = finite and np.array_equal(regularizer.project(anything), anything)
        self.is_apart = not regularizer.needs_bank and (regularizer.has_prox or self.is_orthant)

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
    """The roots of the weights.

    Parameters
    ----------
    regularizer : Regularizer
        Of the weights.
    m : int
    lifts : bool
        Begin with weights above zero.
    """

    regularizer: "Rooted"

    def __init__(self, regularizer: Regularizer, m: int, lifts: bool) -> None:
        super().__init__(Rooted(regularizer), m)
        self.lifts = lifts

    def of(self, weights: np.ndarray) -> np.ndarray:
        return np.sqrt(weights)

    def weights(self, x: np.ndarray) -> np.ndarray:
        return np.square(self.regularizer.project(x))

    def start(self, weights: np.ndarray) -> np.ndarray:
        if not self.lifts:
            return weights
        return self.weights(np.sqrt(np.maximum(weights, LEAST_START * weights.max())))

    def gradient(self, at: Evaluation, forms: np.ndarray) -> np.ndarray:
        x = self.of(at.weights)
        gradient, least = self.regularizer.gradient(x) - x * forms, np.sqrt(LEAST_START) * x.max()
        by_weights = self.regularizer.of_weights.gradient(at.weights) - 0.5 * forms
        leaves = (x == 0.0) & (by_weights < 0.0)
        return np.where(leaves, 2.0 * least * by_weights, gradient)

    def growth(self, most: float) -> float:
        return float(np.sqrt(1.0 + most) - 1.0)


def coordinates(run: RunState) -> Coordinates:
    """The variables in which a run's problem is smooth."""
    regularizer, lifts = run.problem.regularizer, run.bank.smooth_in_roots
    by_roots = run.bank.by_roots and run.bank.m <= MOST_ROOTS
    if lifts or (by_roots and Rooted(regularizer).is_exact):
        return Roots(regularizer, run.bank.m, lifts)
    return Coordinates(regularizer, run.bank.m)


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

    @property
    def is_exact(self) -> bool:
        """True if `project` gives the nearest roots."""
        return self.is_orthant or isinstance(self.of_weights, PNormBall)

    @property
    def law(self) -> tuple[float, float] | None:
        """Strength and p of the penalty as compiled loops know it; None if they do not."""
        r = self.of_weights
        if type(r) is L1:
            return r.strength, 0.0
        return (r.strength, r.p) if type(r) is SquaredPNorm and np.isfinite(r.p) else None

    def value(self, x: np.ndarray) -> float:
        return self.of_weights.value(np.square(x))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = 2.0 * x * self.of_weights.gradient(np.square(x))
        return np.where(x > 0.0, slopes, 0.0)

    @property
    def has_hessian(self) -> bool:
        return self.of_weights.has_hessian

    def hessian(self, x: np.ndarray) -> Curvature:
        d = np.square(x)
        of_weights = self.of_weights.hessian(d)
        bend = np.where(x > 0.0, of_weights.diagonal, 0.0)
        diagonal = 2.0 * self.of_weights.gradient(d) + 4.0 * d * bend
        return Curvature(diagonal, 4.0 * of_weights.factor, x * of_weights.vector)

    def project(self, x: np.ndarray) -> np.ndarray:
        x = np.maximum(x, 0.0)
        if isinstance(self.of_weights, PNormBall):  # |x^2|_p <= 1 is |x|_2p <= 1
            return PNormBall(2.0 * self.of_weights.p).project(x)
        if self.is_orthant:
            return x
        return np.sqrt(self.of_weights.adopt(np.square(x)))

    def __repr__(self) -> str:
        return f"{self.of_weights!r} of squares"
