"""How good an approximation is."""

from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from ..banks import Bank, FactorBank, ResolvedKernels
from ..kernels.points import as_points


def quality(
    bank: FactorBank,
    kernels: ResolvedKernels,
    X: Any,
    *,
    sample: int = 512,
    random_state: int | RandomState | None = 0,
) -> np.ndarray:
    """How good the approximation is, on a random sample of the training points.

    Parameters
    ----------
    bank : FactorBank
        The factors.
    kernels : ResolvedKernels
        The kernels that they stand for.
    X : training points
    sample : int
        How many points.
    random_state : int, RandomState or None
        Of the sample.

    Returns
    -------
    (m,) array
        ``|K_k - V_k V_k'|_F / |K_k|_F`` on the sample.
    """
    rows = np.sort(
        check_random_state(random_state).choice(bank.n, min(sample, bank.n), replace=False)
    )
    A = as_points(X)[rows]
    exact = kernels.between(A, A).columns(np.arange(rows.size))
    errors = []
    for k, K in enumerate(exact):
        V = bank.factors[rows, bank.offsets[k] : bank.offsets[k + 1]].astype(float)
        errors.append(np.linalg.norm(K - V @ V.T) / max(np.linalg.norm(K), np.finfo(float).tiny))
    return np.array(errors)


def coefficient_bound(exact: Bank, approximate: Bank, weights: ArrayLike, cost: ArrayLike) -> float:
    """Proposition 2 of Rakotomamonjy and Chanda: how far the dual coefficients of the two SVMs can
    be apart.

    ``|beta - beta'| <= sqrt(2 s / lambda_min(K_d))`` with ``s = |cost|^2 |K_d - K'_d|_F / 2``. For
    banks of a few thousand points; infinite where the exact kernel is singular.

    Parameters
    ----------
    exact, approximate : Bank
        The kernels on the same points, as they are and from their factors.
    weights : (m,) array
    cost : (n,) array
        Upper bounds of the dual coefficients.
    """
    K, approximated = (bank.combine(weights).astype(float) for bank in (exact, approximate))
    smallest = np.linalg.eigvalsh(K)[0]
    if smallest <= len(K) * np.finfo(float).eps * np.trace(K):
        return np.inf
    s = 0.5 * float(np.square(cost).sum()) * np.linalg.norm(K - approximated)
    return float(np.sqrt(2.0 * s / smallest))
