"""The place and precision in which a bank computes, and the points of its rows and columns."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from .._threads import Threads


@dataclass(frozen=True)
class Compute:
    """How a bank computes.

    Attributes
    ----------
    dtype : dtype
        Of tiles and combined kernels, float32 or float64.
    threads : Threads
    device : Device, optional
        The place where PyTorch computes; None for the host.
    """

    dtype: Any = np.float64
    threads: Threads = field(default_factory=lambda: Threads(1))
    device: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", np.dtype(self.dtype))


class Points(NamedTuple):
    """Points of the rows and of the columns of a bank; one object where they are the same."""

    left: Any
    right: Any

    @classmethod
    def square(cls, points: Any) -> Self:
        """A set of points as rows and columns."""
        return cls(points, points)

    @property
    def same(self) -> bool:
        return self.left is self.right

    def each(self, function: Callable) -> "Points":
        """The values of a function at both; it is called once if they are the same."""
        right = function(self.right)
        return Points(right if self.same else function(self.left), right)
