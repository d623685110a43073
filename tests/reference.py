"""Slow and obvious twins of what the library computes."""

import math
import re
import warnings

import numpy as np
import pytest


def gaussian_chain(t, length):
    """``2^-(2^l t)`` for l < length."""
    return np.stack([np.exp2(-np.exp2(place) * t) for place in range(length)])


def smo_by_gradient(K, linear, lower, upper, rounds=3000):
    """Maximize ``linear' b - b' K b / 2`` over the box and ``sum(b) = 0`` by projected gradient."""
    step, b = 1.0 / np.linalg.eigvalsh(K)[-1], np.zeros(linear.size)
    for _ in range(rounds):
        b = project_box_plane(b + step * (linear - K @ b), lower, upper)
    return b


def project_box_plane(z, lower, upper):
    """Nearest point of the box with sum zero, by bisection on the shift."""
    low, high = (z - upper).min(), (z - lower).max()
    for _ in range(80):
        shift = 0.5 * (low + high)
        low, high = (shift, high) if np.clip(z - shift, lower, upper).sum() > 0 else (low, shift)
    return np.clip(z - shift, lower, upper)


def mkl_optimum(grams, targets, cost, regularizer, loss=None):
    """Optimal value of the MKL problem by CVXPY.

    The power cones of p near 1 do not always allow the finest accuracy, and solvers like variables
    of order one, so a few accuracies and units of beta are tried until one succeeds.
    """
    cp = pytest.importorskip("cvxpy")

    for accuracy in (1e-10, 1e-9, 1e-8, 3e-8):
        for unit in (cost.max(), 1.0, np.sqrt(cost.max()), 0.1, 100.0):
            problem = _dual_problem(
                cp, grams, np.atleast_2d(targets), cost / unit, regularizer, unit, loss
            )
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    problem.solve(
                        "CLARABEL",
                        tol_gap_abs=accuracy,
                        tol_gap_rel=accuracy,
                        tol_feas=accuracy,
                        max_iter=500,
                    )
            except cp.SolverError:
                continue
            if problem.status == "optimal":
                return unit * problem.value
    raise AssertionError(f"CVXPY did not solve the reference problem: {problem.status}")


def _dual_problem(cp, grams, targets, cost, regularizer, unit, loss):
    """The dual ``max  y' b - phi(s(b))`` in ``b = beta / unit``, divided by the unit.

    phi is written out anew for each regularizer, so that nothing of the library is used to judge
    it.
    """
    beta, forms = cp.Variable(targets.shape), cp.Variable(len(grams), nonneg=True)
    linear, constraints = _loss_dual(
        cp, beta, targets, np.tile(cost, (len(targets), 1)), loss, unit
    )
    for k, K in enumerate(grams):
        values, vectors = np.linalg.eigh(K)
        kept = values > 1e-13 * values[-1]
        root = (vectors[:, kept] * np.sqrt(values[kept])).T if kept.any() else np.zeros((1, len(K)))
        constraints.append(cp.sum_squares(beta @ root.T) <= forms[k])
    name, p = type(regularizer).__name__, getattr(regularizer, "p", None)
    if name == "L1":
        return cp.Problem(
            cp.Maximize(linear), [*constraints, unit**2 * forms <= 2 * regularizer.strength]
        )
    if name == "GeneralizedKL":
        growth = cp.exp(unit**2 * forms / (2 * regularizer.strength)) - 1
        penalty = (
            regularizer.strength
            / unit
            * cp.sum(cp.multiply(np.full(len(grams), regularizer.prior), growth))
        )
        return cp.Problem(cp.Maximize(linear - penalty), constraints)
    q = np.inf if p == 1 else 1 if np.isinf(p) else p / (p - 1)
    norm = cp.norm(forms, "inf" if np.isinf(q) else q)
    penalty = (
        unit * norm / 2
        if name == "PNormBall"
        else unit**3 * cp.square(norm) / (8 * regularizer.strength)
    )
    return cp.Problem(cp.Maximize(linear - penalty), constraints)


def _loss_dual(cp, beta, y, cost, loss, unit):
    """Minus the conjugate of the loss at beta, divided by the unit, and the constraints; beta and
    cost are in that unit.
    """
    name, balanced = type(loss).__name__, cp.sum(beta, axis=1) == 0
    alpha = cp.multiply(y, beta)
    squares = unit * cp.sum(cp.multiply(0.25 / (unit * cost), cp.square(beta)))
    if name == "HardMargin":
        return cp.sum(alpha), [balanced, alpha >= 0]
    if name == "SquaredHinge":
        return cp.sum(alpha) - squares, [balanced, alpha >= 0]
    if name == "Logistic":  # entr(x) = -x log(x), and x = alpha / cost
        share = cp.multiply(1.0 / cost, alpha)
        entropies = cp.entr(share) + cp.entr(1.0 - share)
        return cp.sum(cp.multiply(cost, entropies)), [balanced]
    if name == "EpsilonInsensitive":
        return cp.sum(alpha) - loss.epsilon * cp.sum(cp.abs(beta)), [balanced, cp.abs(beta) <= cost]
    if name == "Squared":
        return cp.sum(alpha) - squares, [balanced]
    if name == "OneClass":
        return 0.0, [cp.sum(beta, axis=1) == loss.nu * cost.sum(axis=1), beta >= 0, beta <= cost]
    return cp.sum(alpha), [balanced, alpha >= 0, alpha <= cost]


def shared_part(A, B):
    """The part of the counts of two rows that is common, entry by entry; one if there are none."""
    return np.array(
        [
            [np.minimum(a, b).sum() / np.maximum(a, b).sum() if (a + b).any() else 1.0 for b in B]
            for a in A
        ]
    )


def share_of_equal_entries(A, B, weights=None):
    """The weighted share of columns in which two rows are equal, entry by entry."""
    weights = [1.0] * len(A[0]) if weights is None else weights
    return np.array(
        [
            [
                sum(w for w, x, z in zip(weights, a, b, strict=True) if x == z) / sum(weights)
                for b in B
            ]
            for a in A
        ]
    )


def shared_substrings(a, b, k):
    """``sum_s count_s(a) count_s(b)``, by looking at all pairs of substrings."""
    left, right = ([word[i : i + k] for i in range(len(word) - k + 1)] for word in (a, b))
    return float(sum(s == t for s in left for t in right))


class LibsvmError(ValueError):
    """What is wrong with a LIBSVM file, and on which line."""

    def __init__(self, line):
        super().__init__(f"line {line}")
        self.line = line


def read_libsvm_slowly(data, max_line):
    """Labels, and one mapping from index to value per row, of the bytes of a LIBSVM file; indices
    as written.
    """
    labels, rows = [], []
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        words = re.split(rb"[ \t\r]+", line.split(b"#")[0].strip(b" \t\r"))
        if words != [b""]:
            labels.append(_finite(words[0], number))
            rows.append(_pairs(words[1:], number))
        if len(line) > max_line:
            raise LibsvmError(number)
    return labels, rows


def _finite(word, number):
    if not re.fullmatch(
        rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", word
    ) or not np.isfinite(float(word)):
        raise LibsvmError(number)
    return float(word)


def _pairs(words, number):
    pairs = {}
    for word in words:
        index, colon, value = word.partition(b":")
        if (
            not colon
            or not re.fullmatch(rb"[0-9]+", index)
            or int(index) >= 2**31
            or any(int(index) <= i for i in pairs)
        ):
            raise LibsvmError(number)
        pairs[int(index)] = _finite(value, number)
    return pairs


def row_keys(X, salts, scramble):
    """Sums of scrambled entries that are not zero; all NaN are the same."""
    X = np.where(np.isnan(X), np.nan, X)
    mixed = scramble(np.ascontiguousarray(X).view(np.uint64) + salts)
    return np.where(X == 0.0, np.uint64(0), mixed).sum(axis=1, dtype=np.uint64)


def shapley_by_coalitions(value, columns):
    """Shapley values of a game, (columns,), by all of its coalitions.

    Parameters
    ----------
    value : callable
        From coalitions, (count, columns) bool, to their values, (count,).
    columns : int
    """
    coalitions = (np.arange(2**columns)[:, None] >> np.arange(columns)) & 1 == 1
    values, sizes = value(coalitions), coalitions.sum(axis=1)
    orders = np.array([math.factorial(r) for r in range(columns + 1)], dtype=float)
    out = np.empty(columns)
    for j in range(columns):
        without = np.flatnonzero(~coalitions[:, j])
        r = sizes[without]
        shares = orders[r] * orders[columns - 1 - r] / orders[columns]
        out[j] = shares @ (values[without + 2**j] - values[without])
    return out


def product_game(x, z, background, rates, squared):
    """The game of ``prod_f exp(-rates[f] distance_f)`` at one pair of points, as a function of
    coalitions.
    """

    def factors(a):
        return np.exp(-rates * (np.square(a - z) if squared else np.abs(a - z)))

    def value(coalitions):
        others = [factors(b) for b in background] if len(background) else [np.ones(len(x))]
        parts = [np.where(coalitions, factors(x), other).prod(axis=1) for other in others]
        return np.mean(parts, axis=0)

    return value


def power_game(x, z, background, rates, offset, degree):
    """The same of ``(offset + sum_f rates[f] x_f z_f)^degree``."""

    def value(coalitions):
        others = background if len(background) else np.zeros((1, len(x)))
        sums = [np.where(coalitions, x, other) @ (rates * z) for other in others]
        return np.mean([(offset + part) ** degree for part in sums], axis=0)

    return value
