"""Random Fourier features."""

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import DTypeLike
from sklearn.utils import check_random_state

from .._threads import Threads
from ..banks.resolved import ResolvedKernels
from ..kernels import RBF
from .base import Approximation, check_rank
from .maps import FourierMap


@dataclass(frozen=True)
class RandomFourier(Approximation):
    """Random Fourier features of Gaussians (Rahimi and Recht, 2007); the rank is twice the number
    of frequencies.

    Parameters
    ----------
    rank : int
    random_state, folder
        See `Nystroem`.
    """

    rank: int = 200
    random_state: int | RandomState | None = 0
    folder: str | PathLike | None = None

    def __post_init__(self) -> None:
        check_rank(self.rank)

    def features(
        self, kernels: ResolvedKernels, X: Any, dtype: DTypeLike, threads: Threads
    ) -> FourierMap:
        if kernels.is_masked:
            raise ValueError(
                "A masked bank has no kernel objects for random Fourier features: use Nystroem."
            )
        rng, frequencies = check_random_state(self.random_state), []
        for k, kernel in enumerate(kernels.kernels):
            if not isinstance(kernel, RBF):
                raise ValueError(
                    f"Random Fourier features are for RBF kernels, not {kernels.names[k]} (kernel "
                    f"{k}): use Nystroem."
                )
            columns = kernels.columns_of(k)
            size = X.shape[1] if columns is None else len(columns)
            frequencies.append(
                np.sqrt(2.0 * float(kernel.gamma))
                * rng.standard_normal((size, max(1, self.rank // 2)))
            )
        return FourierMap(kernels, frequencies, dtype, X.shape[1])
