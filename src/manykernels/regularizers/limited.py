"""At most so many kernels, or groups of them, with weight."""

from typing import Any, ClassVar

import numpy as np

from .base import Regularizer


class AtMost(Regularizer):
    """Another regularizer, for weights of at most k kernels or groups; infinite for others.

    Not convex. Its conjugate is that of the largest forms, ``phi_k(s) = max_{|S| <= k} phi(s_S)``,
    so that every beta still bounds the optimum from below: by more than without the limit, as far
    as phi counts more than the largest form.

    Parameters
    ----------
    k : int
        At least 1.
    regularizer : Regularizer
        That is `symmetric`, such as ``PNormBall(1)``.
    by_group : bool
        Whether groups of kernels are counted; a kernel without a group is one by itself.
    units : list of int arrays, optional
        The kernels of each unit that counts; known once there is a bank (`bound`).
    """

    smooth: ClassVar[bool] = False  # type: ignore[assignment]

    def __init__(
        self,
        k: int,
        regularizer: Regularizer,
        by_group: bool = False,
        units: list[np.ndarray] | None = None,
    ) -> None:
        if not regularizer.symmetric:
            raise ValueError(
                "A limit on the number of kernels needs a regularizer under which all kernels "
                "count alike, which has a finite conjugate and whose problems are solved quickly; "
                f"{regularizer!r} is none: use p, or SquaredPNorm with p > 1, ElasticNet or "
                "SimplexRidge."
            )
        self.k, self.regularizer, self.by_group, self.units = k, regularizer, by_group, units

    @property
    def homogeneous(self) -> bool:  # type: ignore[override]
        return self.regularizer.homogeneous

    def bound(self, bank: Any) -> "AtMost":
        if self.units is not None and sum(map(len, self.units)) == bank.m:
            return self
        labels = [group if self.by_group and group else k for k, group in enumerate(bank.groups)]
        members: dict[Any, list[int]] = {}
        for k, label in enumerate(labels):
            members.setdefault(label, []).append(k)
        units = [np.array(kernels) for kernels in members.values()]
        return AtMost(self.k, self.regularizer, self.by_group, units)

    def value(self, d: np.ndarray) -> float:
        used = sum(bool(d[kernels].any()) for kernels in self._units(d.size))
        return self.regularizer.value(d) if used <= self.k else np.inf

    def gradient(self, d: np.ndarray) -> np.ndarray:
        return self.regularizer.gradient(d)

    def start(self, m: int) -> np.ndarray:
        return self._on(self.kernels_of(range(self.k), m), m, self.regularizer.start)

    def project(self, d: np.ndarray) -> np.ndarray:
        """Nearest to the weights of the k heaviest kernels or groups."""
        return self._heaviest(d, self.regularizer.project)

    def adopt(self, d: np.ndarray) -> np.ndarray:
        return self._heaviest(d, self.regularizer.adopt)

    def conjugate(self, s: np.ndarray) -> float:
        return self.regularizer.conjugate(self.largest(s))

    def largest(self, s: np.ndarray) -> np.ndarray:
        """Forms that are no smaller than those of any k units: the largest, as many as k units have
        kernels at most.
        """
        sizes = sorted((len(kernels) for kernels in self._units(s.size)), reverse=True)
        return np.sort(s)[::-1][: sum(sizes[: self.k])]

    def heaviest(self, d: np.ndarray) -> tuple[int, ...]:
        """The k units with the largest sums of weights, ascending."""
        sums = np.array([d[kernels].sum() for kernels in self._units(d.size)])
        return tuple(sorted(np.argsort(-sums, kind="stable")[: self.k].tolist()))

    def kernels_of(self, units: Any, m: int) -> np.ndarray:
        """The kernels of some units, ascending; units that there are not have none."""
        every = self._units(m)
        return np.sort(np.concatenate([every[unit] for unit in units if unit < len(every)]))

    def _heaviest(self, d: np.ndarray, made: Any) -> np.ndarray:
        kernels = self.kernels_of(self.heaviest(np.maximum(d, 0.0)), d.size)
        return self._on(kernels, d.size, lambda _: made(d[kernels]))

    @staticmethod
    def _on(kernels: np.ndarray, m: int, made: Any) -> np.ndarray:
        weights = np.zeros(m)
        weights[kernels] = made(kernels.size)
        return weights

    def _units(self, m: int) -> list[np.ndarray]:
        return [np.array([k]) for k in range(m)] if self.units is None else self.units

    def __repr__(self) -> str:
        what = "group" if self.by_group else "kernel"
        return f"{self.regularizer!r} on at most {self.k} {what}{'s' * (self.k != 1)}"
