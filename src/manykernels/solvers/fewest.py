"""As few kernels as a tolerance allows."""

from collections.abc import Callable

import numpy as np


def fewest(weights: np.ndarray, good: Callable[[np.ndarray], bool]) -> np.ndarray:
    """The heaviest of some weights on the simplex, scaled to it: as few as are good.

    More kernels do not always mean a smaller gap, but nearly: the number is found by halving.

    Parameters
    ----------
    weights : (m,) array
        That are good themselves.
    good : callable
        Whether other weights are.
    """
    order = np.argsort(-weights, kind="stable")

    def kept(count: int) -> np.ndarray:
        some = np.zeros_like(weights)
        some[order[:count]] = weights[order[:count]]
        return some / some.sum()

    few, most = 0, int(np.count_nonzero(weights))
    everything = most
    while most - few > 1:
        middle = (few + most) // 2
        if good(kept(middle)):
            most = middle
        else:
            few = middle
    return kept(most) if most < everything else weights
