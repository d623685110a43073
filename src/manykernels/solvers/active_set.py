"""The saddle of a step as a system of linear equations, once it is known which coefficients are
free and which kernels have weight.

With the others fixed, the optimality conditions of `saddle` are linear: for the free coefficients
x_F of every output, the weights d_S, the intercepts b and the common value t of the forms in use,

    K_e x + sum_k (d_k - e_k) M_k + ridge x + b = linear - kink sign(x)    on F
    M_k'x - s_k / 2 = t    for k in S,    sum(x) = total,    sum(d_S) = 1.

A solution that leaves its bounds says what to fix next, and a condition that does not hold what to
set free (a primal-dual active-set method). From a good guess a few systems give all digits, where
the smoothed model needs a temperature at which SMO takes millions of steps (80 to 300 points,
C = 10^4, gap 1e-6: 40 million without, 30 thousand with).

The conditions of a loss with a curve are not linear: there a system is a step of Newton's method on
them, with all coefficients free, and the next guess is where it led.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

ROUNDS = 8
MOST_FREE, MOST_USED = 1500, 100  # beyond which a system costs more than it saves
USED = 1e-4  # part of the largest weight above which a kernel is taken to be in use
SHIFT = 1e-12  # relative, on diagonals: equal points or kernels make a system singular
VIOLATED = 1e-9  # in units of the problem, or relative: what is not rounding
SAME = 1e-12  # change of the coefficients, as a part of the largest, that is none
SIGN = 1e-300  # a coefficient that is to leave zero in this direction


class Guess(NamedTuple):
    """Which coefficients are free and which kernels have weight.

    Attributes
    ----------
    free : (t, n) bool
    x : (t, n)
        Values of coefficients that are not free; signs of those that are, or where to linearize the
        slopes of a curve.
    used : (s,) kernels
    """

    free: np.ndarray
    x: np.ndarray
    used: np.ndarray


class Found(NamedTuple):
    """The solution of a guess: weights (m,), coefficients (t, n) and intercepts (t,), not yet
    within any bounds, unless the loss has a curve.
    """

    d: np.ndarray
    x: np.ndarray
    b: np.ndarray


def first_guess(problem, d, x):
    """From weights and coefficients that are nearly right."""
    free = [
        (row > box.lower) & (row < box.upper) & ((row != 0.0) | (box.kink == 0.0))
        for box, row in zip(problem.boxes, x, strict=True)
    ]
    return Guess(np.stack(free), x, np.flatnonzero(d > USED * d.max()))


def solution(problem, K, given, point, guess):
    """The solution of a guess; None if its system is too large or has none.

    The coefficients are eliminated, output by output, which leaves a system for the weights, the
    intercepts and the height t.

    Parameters
    ----------
    problem : Problem
    K : (n, n) array
        Combined kernel of the weights e.
    given : (t, n) array
        Its product with the coefficients of the point.
    point : HeldPoint
    guess : Guess
    """
    sizes, t, s = guess.free.sum(axis=1), len(guess.free), guess.used.size
    # a step by any other method costs systems of that size too, where a loss has a curve
    too_many = sizes.max() > MOST_FREE and not problem.loss.curved
    if sizes.min() == 0 or too_many or s > min(MOST_USED, sizes.sum() + 1):
        return None
    small, right = np.zeros((s + t + 1, s + t + 1)), np.zeros(s + t + 1)
    small[:s, -1] = small[-1, :s] = right[-1] = 1.0
    right[:s] = 0.5 * point.forms[guess.used]
    # kernels of 1e290 and more may make numbers that are none, and then there is no solution
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            parts = [_eliminated(problem, K, given, point, guess, c) for c in range(t)]
            for c, part in enumerate(parts):
                rows = np.r_[:s, s + c]
                small[np.ix_(rows, rows)] -= part.sides[:, :-1].T @ part.sides[:, :-1]
                right[rows] += part.fixed - part.sides[:, :-1].T @ part.sides[:, -1]
            small[np.diag_indices(s)] += SHIFT * np.trace(small[:s, :s]) / s
            z = np.linalg.solve(small, right)
        except LinAlgError:
            return None
        if not np.isfinite(z).all():
            return None
    x, d = guess.x.copy(), np.zeros(point.forms.size)
    for c, part in enumerate(parts):
        left = part.sides[:, -1] - part.sides[:, :-1] @ z[np.r_[:s, s + c]]
        x[c, part.free] = solve_triangular(part.factor, left, lower=True, trans=1)
        x[c] = _inside(problem.boxes[c], guess.x[c], x[c])
    d[guess.used] = z[:s]
    return Found(d, x, z[s : s + t]) if np.isfinite(z).all() and np.isfinite(x).all() else None


def _inside(box, before, x):
    """The response of a loss with a curve to the decision values that its linearized slopes have
    come to; x itself without a curve.
    """
    if box.curve is None:
        return x
    model = box.around(before)
    f = model.linear - model.ridge * x
    return box.curve.response(f + box.curve.level(f, box.total))[0]


class _Part(NamedTuple):
    """The equations of one output without its coefficients.

    Attributes
    ----------
    free : (f,) points with free coefficients
    factor : (f, f) Cholesky's factor L of their kernel
    sides : (f, s + 2)
        ``L^-1`` times the products of the kernels in use, ones, and the right-hand side.
    fixed : (s + 1,)
        What the other coefficients leave of the right-hand sides of weights and intercept.
    """

    free: np.ndarray
    factor: np.ndarray
    sides: np.ndarray
    fixed: np.ndarray


def _eliminated(problem, K, given, point, guess, c):
    box, M = problem.boxes[c].around(guess.x[c]), point.products[guess.used, c]
    F, fixed = np.flatnonzero(guess.free[c]), np.where(guess.free[c], 0.0, guess.x[c])
    held = np.flatnonzero(fixed)
    block = K[np.ix_(F, F)].astype(float)
    block[np.diag_indices(F.size)] += box.ridge[F] + SHIFT * np.trace(block) / F.size
    factor = cholesky(block, lower=True, overwrite_a=True, check_finite=False)
    sides = np.empty((F.size, len(M) + 2))
    sides[:, :-2], sides[:, -2] = M[:, F].T, 1.0
    sides[:, -1] = box.linear[F] - box.kink[F] * np.sign(guess.x[c, F]) + given[c, F]
    sides[:, -1] -= fixed[held] @ K[np.ix_(held, F)]
    sides = solve_triangular(factor, sides, lower=True, overwrite_b=True, check_finite=False)
    return _Part(F, factor, sides, np.append(-M @ fixed, box.total - fixed.sum()))


def next_guess(problem, saddle, guess, found, Kx):
    """What the solution says about bounds and kernels; None if it says what was guessed."""
    scores, x, free = saddle.scores(found.d, Kx), found.x.copy(), guess.free.copy()
    for c, box in enumerate(problem.boxes):
        outside = (x[c] <= box.lower) | (x[c] >= box.upper)
        turned = (box.kink > 0.0) & (np.sign(x[c]) != np.sign(guess.x[c]))
        x[c] = np.where(free[c] & turned, 0.0, np.clip(x[c], box.lower, box.upper))
        up, down = box.sides(x[c], scores[c] + box.ridge * x[c] - box.linear)
        slack = VIOLATED * problem.unit
        rises, falls = ~free[c] & (up > found.b[c] + slack), ~free[c] & (down < found.b[c] - slack)
        at_kink = (box.kink > 0.0) & (x[c] == 0.0)
        x[c] += np.where(at_kink & rises, SIGN, 0.0) - np.where(at_kink & falls, SIGN, 0.0)
        free[c] = (free[c] & ~outside & ~turned) | rises | falls
    used = found.d > 0.0
    forms = saddle.forms(x)
    used |= forms > forms[used].max() * (1.0 + VIOLATED)
    changed = not np.array_equal(free, guess.free)
    changed |= not np.array_equal(np.flatnonzero(used), guess.used)
    if problem.loss.curved:
        changed |= bool(np.abs(x - guess.x).max() > SAME * np.abs(x).max())
    return Guess(free, x, np.flatnonzero(used)) if changed else None
