"""The base class of regularizers, and norms that several of them use."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._loops.conjugates import Law

# Relative size that a quadratic form has at least where zero would mean infinite curvature: larger
# makes steps of Newton's method shorter.
SMALLEST_FORM = 1e-12
# The smallest exponent that is told from 1. Below it the exponent of the dual norm, p / (p - 1), is
# so large that the dual has a kink in floating point, while the optimal value for m kernels differs
# from that of p = 1 by a factor of m^(p - 1) at most, 1.00014 for a million kernels.
SMALLEST_EXPONENT = 1.0 + 1e-5


class Curvature(NamedTuple):
    """The matrix ``diag(diagonal) + factor * outer(vector, vector)``."""

    diagonal: np.ndarray
    factor: float
    vector: np.ndarray

    @property
    def matrix(self) -> np.ndarray:
        """All its entries, (m, m)."""
        return np.diag(self.diagonal) + self.factor * np.outer(self.vector, self.vector)


class Regularizer(ABC):
    """Base of all regularizers; weights d and quadratic forms s have shape (m,).

    A subclass needs `value` and `gradient`. Everything beyond `dual_scale` is a capability: write
    the method where there is a closed form, and ``has_...`` says so to solvers; without it, a
    solver that needs it names one which does not.
    """

    homogeneous: ClassVar[bool] = False
    """``conjugate(t s) = t conjugate(s)`` for t >= 0, as for the indicator of a set."""

    needs_bank: ClassVar[bool] = False
    """The value depends on the kernels themselves, so that part of the data will not do and a value
    takes more than a pass over the kernels.
    """

    near_simplex: ClassVar[bool] = False
    """The weights are on the simplex, and what they cost there may be so little that the conjugate
    has nearly the kink of ``max(s)``: solvers begin with p = 1.
    """

    @property
    def symmetric(self) -> bool:
        """True if all kernels count alike: the problem of some of them has the same regularizer,
        and its conjugate is finite and rises with every form. Limits on the number of kernels ask
        for it.
        """
        return False

    @property
    def smooth(self) -> bool:
        """True if the conjugate, where there is one, is differentiable."""
        return True

    @property
    def is_simplex(self) -> bool:
        """True if the feasible weights are ``d >= 0, sum(d) <= 1`` and cost nothing there."""
        return False

    @property
    def steep(self) -> bool:
        """True if descent along gradients bounces at a kink that no proximal map takes care of."""
        return False

    @abstractmethod
    def value(self, d: np.ndarray) -> float:
        """r(d)."""

    @abstractmethod
    def gradient(self, d: np.ndarray) -> np.ndarray:
        """Gradient of r at d, (m,)."""

    def project(self, d: np.ndarray) -> np.ndarray:
        """The nearest feasible weights."""
        return np.maximum(d, 0.0)

    def start(self, m: int) -> np.ndarray:
        """Feasible weights to start from."""
        return np.full(m, 1.0 / m)

    def adopt(self, d: np.ndarray) -> np.ndarray:
        """Feasible weights to start from, made of those of another problem."""
        return self.project(d)

    def dual_scale(self, s: np.ndarray) -> float:
        """A factor t <= 1 for which ``t beta`` has a finite conjugate; s are the quadratic forms of
        beta.
        """
        return 1.0

    def bound(self, bank: Any) -> "Regularizer":
        """The regularizer for the kernels of a bank; itself, unless it `needs_bank`."""
        return self

    def check_memory(self, memory_budget: int) -> None:  # noqa: B027  (few hold anything)
        """Raise an error that says what to do if values take more bytes than there are."""

    def only_weights(self, m: int) -> np.ndarray | None:
        """The weights of m kernels where they do not depend on the data; None where they do."""
        return None

    # What follows is there where there is a closed form.

    def prox(self, d: np.ndarray, step: float) -> np.ndarray:
        """The minimizer of ``|x - d|^2 / 2 + step r(x)``, for descent where the gradient changes
        without bound near zero.
        """
        raise self._lacks("proximal map")

    def hessian(self, d: np.ndarray) -> Curvature:
        """Second derivatives of r; they may be infinite at weights of zero."""
        raise self._lacks("second derivatives in closed form")

    def conjugate(self, s: np.ndarray) -> float:
        """``phi(s) = max_{d >= 0} d's/2 - r(d)``, which the dual and every certificate need."""
        raise self._lacks("conjugate in closed form")

    def conjugates(self, table: np.ndarray) -> np.ndarray:
        """The conjugate of each row of forms, (r,), where it is `symmetric`; minus infinity stands
        for no kernel.
        """
        return np.array([self.conjugate(row[row > -np.inf]) for row in table])

    def relaxed(self, k: int) -> tuple["Regularizer", float]:
        """A regularizer, and a factor on the kernels, whose problem bounds that of any k of them
        well, where it is `symmetric`: of the betas of such problems the k largest forms are taken.
        """
        return self, 1.0

    def weights(self, s: np.ndarray) -> np.ndarray:
        """The weights at which the conjugate is attained, (m,)."""
        raise self._lacks("weights that belong to quadratic forms")

    def curvature(self, s: np.ndarray) -> Curvature:
        """The derivative of those weights, for Newton's method."""
        raise self._lacks("curvature of its conjugate")

    def reweight(self, squared_norms: np.ndarray) -> np.ndarray:
        """The minimizer of ``sum_k squared_norms[k] / 2 d_k + r(d)``: closed-form weights, for the
        squared norms of the parts of a decision function.
        """
        raise self._lacks("closed-form weights")

    def repeated(self, count: float) -> float | None:
        """The factor on a kernel by which it stands for so many equal ones; None if none does."""
        return None

    @property
    def compiled_conjugate(self) -> Law | None:
        """The conjugate as compiled loops know it; None if they do not."""
        return None

    @property
    def has_prox(self) -> bool:
        """True if there is `prox`."""
        return self._overrides("prox")

    @property
    def has_hessian(self) -> bool:
        """True if there is `hessian`."""
        return self._overrides("hessian")

    @property
    def has_conjugate(self) -> bool:
        """True if there is `conjugate`."""
        return self._overrides("conjugate")

    @property
    def has_weights(self) -> bool:
        """True if there is `weights`."""
        return self._overrides("weights")

    @property
    def has_curvature(self) -> bool:
        """True if there is `curvature`."""
        return self._overrides("curvature")

    @property
    def has_reweight(self) -> bool:
        """True if there is `reweight`."""
        return self._overrides("reweight")

    def _overrides(self, name: str) -> bool:
        return getattr(type(self), name) is not getattr(Regularizer, name)

    def _lacks(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{self!r} has no {what}.")


def conjugate_exponent(p: float) -> float:
    """The q with ``1/p + 1/q = 1``."""
    if p == 1.0:
        return np.inf
    return 1.0 if np.isinf(p) else p / (p - 1.0)


def p_norm(x: np.ndarray, p: float) -> float:
    """p-norm of a nonnegative vector, free of overflow."""
    largest = x.max(initial=0.0)
    if np.isinf(p) or largest == 0.0:
        return float(largest)
    return float(largest * np.sum((x / largest) ** p) ** (1.0 / p))


def checked_p(name: str, p: float) -> float:
    """The exponent as a number; one if it is as near as that."""
    if isinstance(p, str) or not p >= 1.0:
        raise ValueError(f"{name} needs p >= 1 (below 1 the problem is not convex), got p={p!r}.")
    return 1.0 if p < SMALLEST_EXPONENT else float(p)


def check_strength(name: str, strength: float) -> None:
    """Raise unless the strength of a regularizer is a finite number above zero."""
    if not (np.isfinite(strength) and strength > 0.0):
        raise ValueError(f"{name} needs strength > 0, got {strength!r}.")
