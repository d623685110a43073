"""Points and coefficients of a function that follows another one at given rows.

With the combined kernel K and points z, the function is ``g(x) = sum_j beta_j K(x, z_j) + b``. Its
coefficients are those of least squares, for any points. The points are chosen one after the other
by how much each makes the sum of squares smaller (orthogonal least squares), or moved by a
quasi-Newton method on the sum of squares as a function of the points alone (variable projection:
its slope is that at fixed coefficients, because these are optimal).
"""

from typing import Any

import numpy as np
from scipy import linalg
from scipy.optimize import minimize

from .._pulse import pulse
from .kernels import PointKernels
from .rows import Sample

# Ridge of least squares, for kernels of unit length. A larger one makes coefficients of points
# beside each other smaller, which float32 predictions need, and the fit worse.
RIDGE = 1e-7
SINGLE_RIDGE = 1e-6  # the same in float32
# Part of a kernel that points chosen before leave, below which a point adds nothing.
DEPENDENT = 1e-8
MEMORY = 20  # pairs of vectors of the quasi-Newton method


def coefficients(
    K: np.ndarray, scores: np.ndarray, ridge: float = RIDGE
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (t, s) and intercepts (t,) of least squares.

    Parameters
    ----------
    K : (q, n, s) array
        One kernel for all outputs, or one for each.
    scores : (t, n) array
        What is to be followed.
    ridge : float
    """
    means = scores.mean(axis=1)
    centered = (scores - means[:, None]).astype(K.dtype)
    beta = np.empty((len(scores), K.shape[2]))
    intercept = np.empty(len(scores))
    for kernel, own in zip(K, _outputs_of(K, scores), strict=True):
        levels = kernel.mean(axis=0)
        moved = kernel - levels
        H = (moved.T @ moved).astype(float)
        right = (moved.T @ centered[own].T).astype(float)
        units = np.sqrt(H.diagonal())
        units[units <= 0.0] = 1.0
        H /= np.outer(units, units)
        H[np.diag_indices_from(H)] += ridge
        beta[own] = (_solved(H, right / units[:, None]) / units[:, None]).T
        intercept[own] = means[own] - beta[own] @ levels
    return beta, intercept


def _solved(H, right):
    try:
        return linalg.solve(H, right, assume_a="pos", check_finite=False)
    except linalg.LinAlgError:  # rounding of more points than there is to say
        return linalg.lstsq(H, right, check_finite=False)[0]


def _outputs_of(K, scores):
    """The outputs that each kernel is for."""
    if len(K) == 1:
        return [np.arange(len(scores))]
    return [np.array([c]) for c in range(len(scores))]


def values(K: np.ndarray, beta: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    """The function at the rows of K, (t, n)."""
    out = np.empty((len(beta), K.shape[1]))
    for kernel, own in zip(K, _outputs_of(K, beta), strict=True):
        out[own] = beta[own] @ kernel.T + intercept[own, None]
    return out


def greedy(K: np.ndarray, scores: np.ndarray, count: int, first: int = 0) -> list[int]:
    """Points in the order in which they are chosen, by orthogonal least squares.

    Parameters
    ----------
    K : (q, n, c) array
        Kernels at all candidates.
    scores : (t, n) array
    count : int
        How many points to choose, at most.
    first : int
        The first so many candidates are chosen already.
    """
    spreads = np.maximum(scores.std(axis=1), 1e-300)
    centered = (scores - scores.mean(axis=1)[:, None]) / spreads[:, None]
    paths = [
        _Path(kernel, centered[own], first + count)
        for kernel, own in zip(K, _outputs_of(K, scores), strict=True)
    ]
    order: list[int] = []
    for _ in range(first + count):
        gains = np.sum([path.gains() for path in paths], axis=0)
        gains[order] = 0.0
        best = len(order) if len(order) < first else int(gains.argmax())
        if len(order) >= first and gains[best] <= 0.0:
            break
        order.append(best)
        for path in paths:
            path.take(best)
    return order[first:]


class _Path:
    """What is left of the candidates and of the scores beside the points that were taken: a
    Cholesky factorization that is pivoted by the gain.
    """

    def __init__(self, kernel, scores, most):
        moved = kernel - kernel.mean(axis=0)
        self.gram = (moved.T @ moved).astype(float)
        self.right = moved.T @ scores.T
        self.left = self.gram.diagonal().copy()
        self.whole = np.maximum(self.left, 1e-300)
        self.columns = np.zeros((len(self.gram), most))
        self.size = 0

    def gains(self):
        """How much each candidate would take off the sum of squares."""
        alive = self.left > DEPENDENT * self.whole
        squares = np.square(self.right).sum(axis=1)
        return np.divide(squares, self.left, out=np.zeros(len(squares)), where=alive)

    def take(self, j):
        if self.left[j] <= DEPENDENT * self.whole[j]:
            return
        done = self.columns[:, : self.size]
        column = (self.gram[:, j] - done @ done[j]) / np.sqrt(self.left[j])
        self.columns[:, self.size] = column
        self.right = self.right - np.outer(column, self.right[j] / column[j])
        self.left = self.left - np.square(column)
        self.size += 1


def moved(kernels: PointKernels, sample: Sample, points: np.ndarray, iterations: int) -> np.ndarray:
    """Points that follow the scores of a sample better, by so many iterations from these.

    Parameters
    ----------
    kernels : PointKernels
    sample : Sample
    points : (s, n_features) array
    iterations : int
    """
    rows = np.asarray(sample.rows)
    placement = kernels.placement(rows, points, sample.categories)
    units = rows.std(axis=0)
    columns = np.flatnonzero(kernels.movable & (units > 0.0))
    units = units[columns]
    centered = sample.scores - sample.scores.mean(axis=1)[:, None]
    # every output counts the same
    shares = 1.0 / np.maximum(np.square(centered).sum(axis=1), 1e-300)

    def placed(flat: np.ndarray) -> np.ndarray:
        out = points.copy()
        out[:, columns] = flat.reshape(len(points), -1) * units
        return out

    def squares(flat: np.ndarray) -> tuple[float, np.ndarray]:
        pulse()
        at = placed(flat)
        K = placement.kernels(at)
        beta, intercept = coefficients(K, sample.scores, SINGLE_RIDGE)
        errors = values(K, beta, intercept) - sample.scores
        along = _along(K, 2.0 * shares[:, None] * errors, beta)
        slopes = placement.slopes(along, points.shape[1])[:, columns] * units
        return float((np.square(errors).sum(axis=1) * shares).sum()), slopes.ravel()

    start = (points[:, columns] / units).ravel()
    options: Any = {"maxiter": iterations, "maxcor": MEMORY, "maxfun": 2 * iterations}
    with np.errstate(over="ignore", invalid="ignore"):
        found = minimize(squares, start, jac=True, method="L-BFGS-B", options=options)
    return placed(found.x) if np.isfinite(found.x).all() else points


def _along(K, slopes, beta):
    """Slopes of the sum of squares along the kernels, (q, n, s)."""
    if len(K) == 1:
        return (slopes.T.astype(np.float32) @ beta.astype(np.float32))[None]
    return np.stack([np.outer(g, b) for g, b in zip(slopes, beta, strict=True)]).astype(np.float32)
