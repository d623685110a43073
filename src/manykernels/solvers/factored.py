"""What solvers on low-rank factors share: a linear machine whose features are weighted in groups.

With ``K_k = V_k V_k'`` the decision function is ``f = V v + b``, and the problem is

    min_{v, b, d}  sum_k |v_k|^2 / 2 d_k + r(d) + loss(V v + b).

A quadratic model of the loss at (v, b) is small: ``z' H z / 2 - z' pull`` for a step z, and the weights enter its equations
through a diagonal matrix alone. So closed-form weights and a Cholesky factorisation alternate without another look at the data.
"""

from itertools import repeat
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..banks.factors import FactorBank
from .base import Iterate, Solver
from .group_lasso import GroupLasso

ROUNDS = 100  # of weights in a model
FLOOR = 1e-12  # smallest weight that a kernel keeps in a model, as a part of the largest: zero would be for ever
HOLD = 1e-11  # rounding may make a step of the intercept cost nothing, or less
REFINEMENTS = 2  # of a solution, which bends of very different sizes need
LARGEST = 2**31  # bytes of the system of equations


class FactorSolver(Solver):
    """Base of solvers for banks of low-rank factors with closed-form weights."""

    def needs(self, problem):
        if not isinstance(problem.bank, FactorBank):
            raise ValueError("This solver works on low-rank factors: give an approximation, or use solver='newton'.")
        if not hasattr(problem.regulariser, "reweight"):
            raise ValueError(
                f"This solver needs closed-form weights, which {problem.regulariser!r} does not have: use solver='spg', or "
                "PNormBall or SquaredPNorm."
            )
        needed = 8 * (problem.bank.width + 1) ** 2
        if needed > LARGEST:
            raise ValueError(
                f"The factors have {problem.bank.width} columns in all, too many for a system of equations of "
                f"{needed / 2**20:.0f} MB: lower the rank, raise the cutoff, or use solver='group_lasso'."
            )

    def direct(self):
        return GroupLasso()  # which begins with an SVM


def certified(problem, weights, beta):
    """The iterate of feasible coefficients (t, n)."""
    bank, moments = problem.bank, problem.bank.correlate(beta)
    problem.counters.kernel_passes += 2
    scores = bank.dot(bank.spread(weights) * moments)
    certificate = problem.certificate(weights, beta, scores=scores, forms=bank.norms(moments))
    problem.latest = weights, beta
    return Iterate(weights, beta, certificate)


def penalty(problem, v):
    """``sum_k |v_k|^2 / 2 d_k + r(d)`` at the best weights."""
    norms = problem.bank.norms(v)
    weights = problem.regulariser.reweight(norms)
    used = norms > 0.0
    return 0.5 * float(np.sum(norms[used] / np.maximum(weights[used], 1e-300))) + problem.regulariser.value(weights)


class Fit(NamedTuple):
    """Coefficients v (t, r), intercepts b (t,), the weights (m,) that go with them, and decision values V v + b, (t, n)."""

    v: np.ndarray
    b: np.ndarray
    weights: np.ndarray
    f: np.ndarray

    @classmethod
    def of(cls, problem, weights, beta):
        """The fit of coefficients beta without an intercept."""
        v = problem.bank.coefficients(weights, beta)
        return cls(v, np.zeros(len(v)), weights, problem.bank.dot(v))

    def moved(self, problem, step, length):
        """The fit after a part of a step; its own weights belong to the whole step."""
        v, b, f = (now + length * change for now, change in zip((self.v, self.b, self.f), step.changes, strict=True))
        return Fit(v, b, step.weights if length == 1.0 else problem.regulariser.reweight(problem.bank.norms(v)), f)


class FitStep(NamedTuple):
    """Changes of v, b and the decision values, and the weights after them."""

    v: np.ndarray
    b: np.ndarray
    weights: np.ndarray
    f: np.ndarray

    @property
    def changes(self):
        return self.v, self.b, self.f


class Model:
    """The quadratic models of the losses of all outputs at a fit: ``H = [V 1]' diag(bends) [V 1]`` and the weights.

    Parameters
    ----------
    problem : Problem
    fit : Fit
    bends : (t, n)
        Second derivatives of the losses.
    exact : bool
        Take sums in float64, which bends of very different sizes need.
    """

    def __init__(self, problem, fit, bends, exact=False):
        self.problem, self.fit = problem, fit
        self.systems = [_System(problem.bank, row, exact) for row in bends]

    def pulls(self, beta):
        """Minus the slopes of the losses, for minus their slopes beta (t, n) at every point."""
        moments = self.problem.bank.correlate(beta)
        missing = beta.sum(axis=1) - [box.total for box in self.problem.boxes]
        return np.concatenate([moments, missing[:, None]], axis=1)

    def solved(self, pulls, weights):
        """The step to the minimiser at fixed weights."""
        return self._finished(*self._solved(pulls, weights))

    def fitted(self, pulls, weights, precision):
        """The step to the minimiser over the weights too; ends when the value falls by less than the precision."""
        before = np.inf
        for _ in range(ROUNDS):
            steps, used = self._solved(pulls, weights)
            v = self.fit.v + steps[:, :-1]
            weights = self.problem.regulariser.reweight(self.problem.bank.norms(v))
            value = penalty(self.problem, v) + sum(map(_System.value, self.systems, pulls, steps))
            if not before - value > precision:
                break
            before = value
        return self._finished(steps, used)

    def _solved(self, pulls, weights):
        weights = np.maximum(weights, FLOOR * weights.max())
        spread = self.problem.bank.spread(weights)
        return np.stack(list(map(_System.solve, self.systems, repeat(spread), pulls, self.fit.v))), weights

    def _finished(self, steps, weights):
        self.problem.counters.kernel_passes += 2
        v, b = steps[:, :-1], steps[:, -1]
        return FitStep(v, b, weights, self.problem.bank.dot(v) + b[:, None])


class _System:
    """The equations of one output."""

    def __init__(self, bank, bends, exact):
        r = bank.width
        self.H = np.empty((r + 1, r + 1))
        self.H[:r, :r] = bank.gram(bends, exact)
        self.H[r, :r] = self.H[:r, r] = bank.correlate(bends[None])[0]
        self.H[r, r] = bends.sum()

    def solve(self, spread, pull, v):
        """The step z from v that minimises ``z' H z / 2 - z' pull + sum_j (v_j + z_j)^2 / 2 spread_j``.

        Steps, not the minimiser itself: as they get smaller, so do their errors.
        """
        roots = np.append(np.sqrt(spread), 1.0)
        matrix = roots[:, None] * self.H * roots
        diagonal = np.einsum("ii->i", matrix)
        diagonal[:-1] += 1.0
        diagonal[-1] += HOLD * max(self.H[-1, -1], 1.0)
        right = roots * pull
        right[:-1] -= v / roots[:-1]
        factor = _factorised(matrix.copy())
        diagonal[-1] = self.H[-1, -1]
        step = cho_solve(factor, right, check_finite=False)
        for _ in range(REFINEMENTS):
            step += cho_solve(factor, right - matrix @ step, check_finite=False)
        return roots * step

    def value(self, pull, step):
        """The model's part from the loss, up to a constant."""
        return float(0.5 * step @ (self.H @ step) - pull @ step)


def _factorised(matrix):
    """Cholesky factors of a matrix that rounding may have made slightly indefinite; it is overwritten."""
    shift = 1e-14 * np.trace(matrix)
    for _ in range(15):
        try:
            return cho_factor(matrix, check_finite=False)
        except np.linalg.LinAlgError:
            np.einsum("ii->i", matrix)[:] += shift
            shift *= 10.0
    raise FloatingPointError("The factors hold values that are not numbers: check the data, their scale and the kernels.")
