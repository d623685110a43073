"""Random Fourier features."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_random_state

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
    random_state: object = 0
    folder: object = None

    def __post_init__(self):
        check_rank(self.rank)

    def features(self, kernels, X, dtype, threads):
        rng, columns, frequencies = check_random_state(self.random_state), [], []
        for k, kernel in enumerate(kernels.listed("random Fourier features")):
            if not isinstance(kernel, RBF):
                raise ValueError(
                    f"Random Fourier features are for RBF kernels, not {kernels.names[k]} (kernel "
                    f"{k}): use Nystroem."
                )
            columns.append(kernels.columns(k))
            size = X.shape[1] if columns[k] is None else len(columns[k])
            frequencies.append(
                np.sqrt(2.0 * kernel.gamma) * rng.standard_normal((size, max(1, self.rank // 2)))
            )
        return FourierMap(kernels, columns, frequencies, kernels.scales, dtype)
