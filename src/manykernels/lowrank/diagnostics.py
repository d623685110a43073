"""How good an approximation is."""

import numpy as np
from sklearn.utils import check_random_state

from ..kernels.points import as_points


def quality(bank, kernels, X, *, sample=512, random_state=0):
    """How good the approximation is, on a random sample of the training points.

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


def coefficient_bound(exact, approximate, weights, cost):
    """Proposition 2 of Rakotomamonjy and Chanda: how far the dual coefficients of the two SVMs can
    be apart.

    ``|beta - beta'| <= sqrt(2 s / lambda_min(K_d))`` with ``s = |cost|^2 |K_d - K'_d|_F / 2``. For
    banks of a few thousand points; infinite where the exact kernel is singular.
    """
    K, approximated = (bank.combine(weights).astype(float) for bank in (exact, approximate))
    smallest = np.linalg.eigvalsh(K)[0]
    if smallest <= len(K) * np.finfo(float).eps * np.trace(K):
        return np.inf
    s = 0.5 * float(np.square(cost).sum()) * np.linalg.norm(K - approximated)
    return float(np.sqrt(2.0 * s / smallest))
