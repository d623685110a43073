"""From decision values to probabilities, by what models said about rows they had not seen.

A calibration is a table of numbers, so that it can be stored: for ``"sigmoid"`` slope and offset of
every output (Platt 1999, with his correction for the prior), for ``"isotonic"`` the steps of a
monotone function.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.isotonic import IsotonicRegression

MANY = 1000  # held-out rows from which on a monotone function is better than a sigmoid
KINDS = ("sigmoid", "isotonic")


def fitted(kind, scores, positive, weight):
    """The table of a calibration.

    Parameters
    ----------
    kind : {"sigmoid", "isotonic"}
    scores : (n,) decision values
    positive : (n,) bool
    weight : (n,) array

    Returns
    -------
    (2,) array for a sigmoid, (2, k) array of places and values for a monotone function.
    """
    return (
        _sigmoid(scores, positive, weight)
        if kind == "sigmoid"
        else _steps(scores, positive, weight)
    )


def _sigmoid(scores, positive, weight):
    """Slope and offset of the largest likelihood for targets that lean towards one half."""
    ahead, behind = weight[positive].sum(), weight[~positive].sum()
    target = np.where(positive, (ahead + 1.0) / (ahead + 2.0), 1.0 / (behind + 2.0))
    unit = max(float(np.sqrt(np.average(np.square(scores), weights=weight))), 1e-300)
    x = scores / unit

    def loss(at):
        z = at[0] * x + at[1]
        error = weight * (expit(z) - target)
        value = -float(weight @ (target * log_expit(z) + (1.0 - target) * log_expit(-z)))
        return value, np.array([error @ x, error.sum()])

    start = np.array([1.0, np.log((ahead + 1.0) / (behind + 1.0))])
    found = minimize(loss, start, jac=True, method="BFGS").x
    # decision values that say the opposite of what is true say nothing
    slope = max(found[0], 0.0)
    offset = found[1] if found[0] > 0.0 else start[1]
    return np.array([slope / unit, offset])


def _steps(scores, positive, weight):
    model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
    model.fit(scores, positive.astype(float), sample_weight=weight)
    return np.stack([model.X_thresholds_, model.y_thresholds_])
