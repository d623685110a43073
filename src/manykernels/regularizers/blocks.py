"""Mixed norms over groups of kernels."""

import numpy as np
from numpy.typing import ArrayLike

from .base import (
    SMALLEST_FORM,
    Regularizer,
    check_strength,
    checked_p,
    conjugate_exponent,
    p_norm,
)
from .norms import SquaredPNorm


class BlockNorm(Regularizer):
    """``r(d) = strength / 2 |d|^2`` with the mixed norm ``|d| = (sum_g |d_g|_r^p)^(1/p)`` over
    groups g of kernels.

    It is the squared p-norm of the vector of group norms. With p = 1 and r = 2 few groups have any
    weight, and within these all kernels do; with p = 2 and r = 1 all groups do, and few kernels in
    each.

    Parameters
    ----------
    groups : (m,) sequence of labels
        The group of each kernel, as a number or a name.
    r, p : float
        Exponents within and across groups, at least 1 and finite.
    strength : float
    """

    def __init__(
        self, groups: ArrayLike, r: float = 2.0, p: float = 1.0, strength: float = 1.0
    ) -> None:
        labels = np.asarray(groups)
        if labels.ndim != 1 or labels.size == 0:
            raise ValueError(
                f"BlockNorm needs groups, a sequence with the label of each kernel, got {groups!r}."
            )
        for name, exponent in (("r", r), ("p", p)):
            if isinstance(exponent, str) or not 1.0 <= exponent < np.inf:
                raise ValueError(
                    f"BlockNorm needs 1 <= r < inf and 1 <= p < inf, got {name}={exponent!r}."
                )
        check_strength("BlockNorm", strength)
        self.groups = np.unique(labels, return_inverse=True)[1]
        self.r, self.p = checked_p("BlockNorm", r), checked_p("BlockNorm", p)
        self.strength = float(strength)
        self._across = SquaredPNorm(p, strength)

    @property
    def smooth(self) -> bool:
        return self.p > 1.0 and self.r > 1.0

    def value(self, d: np.ndarray) -> float:
        return self._across.value(self._norms(d, self.r)) if d.min() >= 0.0 else np.inf

    def gradient(self, d: np.ndarray) -> np.ndarray:
        return self._across.gradient(self._norms(d, self.r))[self.groups] * self._aligned(d, self.r)

    @property
    def steep(self) -> bool:
        return self.r not in (1.0, 2.0)

    @property
    def has_prox(self) -> bool:
        return self.r == 2.0

    def prox(self, d: np.ndarray, step: float) -> np.ndarray:
        """For r = 2, where it shrinks every group as a whole; the gradient alone would do badly
        where a group reaches zero.
        """
        if not self.has_prox:
            raise self._lacks("proximal map: only r = 2 does")
        d = np.maximum(d, 0.0)
        norms = self._norms(d, 2.0)
        return d * (self._across.prox(norms, step) / np.where(norms > 0.0, norms, 1.0))[self.groups]

    def start(self, m: int) -> np.ndarray:
        if self.groups.size != m:
            raise ValueError(
                f"BlockNorm was given the groups of {self.groups.size} kernels, but there are {m} "
                "kernels."
            )
        ones = np.ones(m)
        return ones / p_norm(self._norms(ones, self.r), self.p)

    def conjugate(self, s: np.ndarray) -> float:
        return self._across.conjugate(self._norms(s, conjugate_exponent(self.r)))

    def weights(self, s: np.ndarray) -> np.ndarray:
        q = conjugate_exponent(self.r)
        return self._across.weights(self._norms(s, q))[self.groups] * self._aligned(s, q)

    def reweight(self, squared_norms: np.ndarray) -> np.ndarray:
        # within a group of norm one the minimizer is parallel to x, and the minimum is half a
        # quasinorm of the parts
        x = self._shares(squared_norms) ** (1.0 / (1.0 + self.r))
        sizes = self._norms(x, self.r)
        groups = self._across.reweight(self._norms(squared_norms, self.r / (1.0 + self.r)))
        # sizes are at least one, or zero like x
        return (groups / np.maximum(sizes, 1.0))[self.groups] * x

    def _norms(self, x: np.ndarray, q: float) -> np.ndarray:
        """q-norm of every group of a nonnegative vector, free of overflow."""
        largest = self._largest(x)
        return (
            largest
            if np.isinf(q)
            else largest * np.bincount(self.groups, self._shares(x) ** q) ** (1.0 / q)
        )

    def _largest(self, x: np.ndarray) -> np.ndarray:
        largest = np.zeros(self.groups.max() + 1)
        np.maximum.at(largest, self.groups, x)
        return largest

    def _shares(self, x: np.ndarray) -> np.ndarray:
        """Entries relative to the largest of their group; zero where that is zero."""
        largest = self._largest(x)
        return x / np.where(largest > 0.0, largest, 1.0)[self.groups]

    def _aligned(self, x: np.ndarray, q: float) -> np.ndarray:
        """``(x_k / |x_g|_q)^(q-1)``, of dual norm one in every group; equal entries where the group
        is zero.

        Equal entries are a subgradient of the norm at zero, the limit of its gradients along equal
        weights.
        """
        x = self._shares(np.where(self._largest(x)[self.groups] > 0.0, x, 1.0))
        if np.isinf(q):
            top = x >= 1.0 - SMALLEST_FORM
            return top / np.bincount(self.groups, top)[self.groups]
        return (x / self._norms(x, q)[self.groups]) ** (q - 1.0)

    def __repr__(self) -> str:
        shape = f"{self.groups.size} kernels in {self.groups.max() + 1} groups"
        return f"BlockNorm({shape}, r={self.r:g}, p={self.p:g}, strength={self.strength:g})"
