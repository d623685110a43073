"""Low-rank lp-MKL by generalized forward-backward splitting, and two other inner solvers to compare
it with.

A. Rakotomamonjy and S. Chanda, lp-norm multiple kernel learning with low-rank kernels,
Neurocomputing 2014.

At fixed weights the dual is written with the features as variables of their own,

    min_{gamma, beta}  |gamma|^2 / 2 + ridge' beta^2 / 2 - linear' beta + kink' |beta|    subject to
    gamma_k = sqrt(d_k) V_k' beta for every k,   sum(beta) = total,   lower <= beta <= upper.

Each iteration takes a gradient step of the smooth part and averages the projections on every
constraint set. ``inner="split"`` is the paper's algorithm 2: one set per kernel, whose projection
needs a factor of ``I + d_k V_k' V_k`` only. ``"merged"`` takes all equations as one set, with one
large factor. ``"interior"`` is a predictor-corrector interior-point method (Mehrotra) on the same
problem. The weights follow in closed form. These are references: `PrimalNewton` is much faster.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..base import Iterate, Solver

INNER = ("split", "merged", "interior")


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Part of the gap above which a round was slow, and the next inner tolerance is smaller; larger:
    # rougher rounds.
    slow_round_leaves: float = 0.9
    # Inner tolerance at least; larger: small gaps are out of reach.
    smallest_inner_tolerance: float = 1e-12
    # Points for which the interior-point method is a reference and not a mistake; larger: longer
    # runs.
    points_for_interior: int = 20_000


TOLERANCES = Tolerances()


class State(NamedTuple):
    """Weights to try next, the splitting's variables of every output, its tolerance, and where the
    last weights led.
    """

    next_weights: np.ndarray
    variables: list
    tol: float
    iterate: Iterate


class GFB(Solver):
    """Closed-form weights around a splitting method, for banks of low-rank factors.

    Parameters
    ----------
    inner : {"split", "merged", "interior"}
    inner_tol : float
        Relative change of the inner objective at which it ends; lowered when the gap does not fall
        any more.
    inner_iter : int
        Inner iterations at most.
    """

    max_iter = 500
    curved_losses = False
    wait = 1700.0, 57.0

    def __init__(self, inner="split", *, inner_tol=1e-4, inner_iter=3000):
        if inner not in INNER:
            raise ValueError(f"inner={inner!r} is not known; use {', '.join(map(repr, INNER))}.")
        self.inner, self.inner_tol, self.inner_iter = inner, inner_tol, inner_iter

    def needs(self, run):
        if not run.bank.factored:
            raise ValueError(
                "GFB works on low-rank factors: give an approximation, or use solver='newton'."
            )
        regularizer = run.problem.regularizer
        if not regularizer.has_reweight:
            raise ValueError(
                f"GFB needs closed-form weights, which {regularizer!r} does not have: use "
                "solver='spg'."
            )
        if self.inner == "interior" and (
            run.bank.n > TOLERANCES.points_for_interior
            or any(box.kink.any() for box in run.problem.boxes)
        ):
            raise ValueError(
                "inner='interior' is for losses without a kink and up to "
                f"{TOLERANCES.points_for_interior} points."
            )

    def init(self, run):
        weights, beta = run.start
        return self._round(run, weights, [None] * len(beta), self.inner_tol)

    def step(self, run, state, tol):
        new = self._round(run, state.next_weights, state.variables, state.tol)
        slow = (
            new.iterate.certificate.absolute_gap
            > TOLERANCES.slow_round_leaves * state.iterate.certificate.absolute_gap
        )
        return (
            new._replace(tol=max(0.1 * state.tol, TOLERANCES.smallest_inner_tolerance))
            if slow
            else new
        )

    def _round(self, run, weights, variables, inner_tol):
        bank, betas, kept = run.bank, [], []
        solve = {"split": _split, "merged": _merged, "interior": _interior}[self.inner]
        for box, before in zip(run.problem.boxes, variables, strict=True):
            beta, after, steps = solve(bank, weights, box, before, inner_tol, self.inner_iter)
            run.counters.machine_steps += steps
            betas.append(box.feasible(beta))
            kept.append(after)
        run.counters.svm_solves += len(betas)
        beta = np.stack(betas)
        moments = bank.correlate(beta)
        forms = bank.squared_norms(moments)
        certificate = run.certificate(
            weights, beta, scores=bank.dot(bank.column_weights(weights) * moments), forms=forms
        )
        return State(
            run.problem.regularizer.reweight(weights**2 * forms),
            kept,
            inner_tol,
            Iterate(weights, beta, certificate),
        )


class _Affine:
    """Projection on ``gamma = B beta``, ``B = sqrt(d) V'``, for some columns of the factors, and
    the sum of beta if given.
    """

    def __init__(self, V, roots, total=None):
        self.V, self.total = V * roots, total
        if total is not None:
            self.V = np.concatenate([self.V, np.ones((len(V), 1))], axis=1)
        system = self.V.T @ self.V
        diagonal = np.einsum("ii->i", system)
        diagonal[: len(roots)] += 1.0
        self.factor = cho_factor(system, check_finite=False)

    def __call__(self, gamma, beta):
        moments = self.V.T @ beta
        right = gamma - moments if self.total is None else np.append(gamma, self.total) - moments
        t = cho_solve(self.factor, right, check_finite=False)
        return gamma - t[: gamma.size], beta + self.V @ t


def _split(bank, weights, box, before, tol, limit):
    V, roots = bank.whole(), np.sqrt(bank.column_weights(weights))
    parts = [slice(bank.offsets[k], bank.offsets[k + 1]) for k in range(bank.m)]
    return _iterate(
        bank,
        box,
        before,
        tol,
        limit,
        [(part, _Affine(V[:, part], roots[part])) for part in parts],
        line=True,
    )


def _merged(bank, weights, box, before, tol, limit):
    V, roots = bank.whole(), np.sqrt(bank.column_weights(weights))
    return _iterate(
        bank, box, before, tol, limit, [(slice(None), _Affine(V, roots, box.total))], line=False
    )


def _iterate(bank, box, before, tol, limit, sets, line):
    """Generalized forward-backward; returns beta, the auxiliary variables for a later start, and
    the iterations.
    """
    n, r, count = bank.n, bank.width, len(sets) + int(line) + 1
    Z_gamma, Z_beta = (np.zeros((count, r)), np.zeros((count, n))) if before is None else before
    gamma, beta = Z_gamma.mean(axis=0), Z_beta.mean(axis=0)
    step, last = 1.0 / max(1.0, float(box.ridge.max(initial=0.0))), np.inf
    done = 0
    while done < limit:
        done += 1
        slope = box.ridge * beta - box.linear
        for i in range(count):
            g, b = (2.0 - step) * gamma - Z_gamma[i], 2.0 * beta - Z_beta[i] - step * slope
            if i < len(sets):
                part, project = sets[i]
                g[part], b = project(g[part], b)
            elif line and i == len(sets):
                b = b + (box.total - b.sum()) / n
            else:
                b = np.clip(
                    np.sign(b) * np.maximum(np.abs(b) - step * count * box.kink, 0.0),
                    box.lower,
                    box.upper,
                )
            Z_gamma[i] += g - gamma
            Z_beta[i] += b - beta
        gamma, beta = Z_gamma.mean(axis=0), Z_beta.mean(axis=0)
        value = 0.5 * gamma @ gamma - box.value(beta)
        if abs(value - last) <= tol * abs(value):
            break
        last = value
    return beta, (Z_gamma, Z_beta), done


def _interior(bank, weights, box, before, tol, limit):
    """Mehrotra's predictor-corrector method; bounds may be infinite, and an iteration costs one
    small factorization.
    """
    B = bank.whole() * np.sqrt(bank.column_weights(weights))
    has_low, has_high = np.isfinite(box.lower), np.isfinite(box.upper)
    lower, upper = np.where(has_low, box.lower, 0.0), np.where(has_high, box.upper, 0.0)
    width = np.where(has_low & has_high, upper - lower, 1.0)
    open_ = width > 0.0  # points of no cost have no coefficient
    x = np.where(
        has_low & has_high, 0.5 * (lower + upper), np.where(has_low, lower + 1.0, upper - 1.0)
    )
    z_low, z_high, nu = has_low.astype(float), has_high.astype(float), 0.0
    done = 0
    while done < limit:
        done += 1
        low = np.where(has_low & open_, x - lower, 1.0)
        high = np.where(has_high & open_, upper - x, 1.0)
        dual = B @ (B.T @ x) + box.ridge * x - box.linear + nu - z_low + z_high
        missing = x.sum() - box.total
        mu = (z_low @ (low * has_low) + z_high @ (high * has_high)) / max(
            has_low.sum() + has_high.sum(), 1
        )
        value = box.value(x) - 0.5 * float(np.square(B.T @ x).sum())
        if (
            mu * x.size <= tol * abs(value)
            and np.abs(dual).max() <= tol
            and abs(missing) <= tol * max(np.abs(x).sum(), 1.0)
        ):
            break
        theta = box.ridge + z_low / low + z_high / high + np.where(open_, 0.0, 1e12) + 1e-12
        at = _Central(_woodbury(B, theta), dual, missing, low, high, z_low, z_high)
        dx, d_nu, d_low, d_high = at.direction(0.0, 0.0)
        length = _length(low, high, z_low, z_high, dx, d_low, d_high, has_low, has_high)
        after = (z_low + length * d_low) @ ((low + length * dx) * has_low)
        after += (z_high + length * d_high) @ ((high - length * dx) * has_high)
        center = mu * (after / max(has_low.sum() + has_high.sum(), 1) / max(mu, 1e-300)) ** 3
        dx, d_nu, d_low, d_high = at.direction(center - dx * d_low, center + dx * d_high)
        length = 0.995 * _length(low, high, z_low, z_high, dx, d_low, d_high, has_low, has_high)
        x, nu = x + length * dx, nu + length * d_nu
        z_low, z_high = z_low + length * d_low, z_high + length * d_high
    return x, None, done


class _Central:
    """The linear system of one interior-point iteration."""

    def __init__(self, solve, dual, missing, low, high, z_low, z_high):
        self.solve, self.dual, self.missing = solve, dual, missing
        self.low, self.high, self.z_low, self.z_high = low, high, z_low, z_high
        self.ones = solve(np.ones(dual.size))

    def direction(self, low, high):
        """Steps of x, of the multiplier of the sum and of those of the bounds, towards products of
        slack and multiplier.
        """
        d_low, d_high = low / self.low - self.z_low, high / self.high - self.z_high
        has_low, has_high = self.z_low > 0.0, self.z_high > 0.0
        part = self.solve(
            np.where(has_low, d_low, 0.0) - np.where(has_high, d_high, 0.0) - self.dual
        )
        d_nu = (part.sum() + self.missing) / self.ones.sum()
        dx = part - d_nu * self.ones
        d_low = np.where(has_low, d_low - self.z_low * dx / self.low, 0.0)
        d_high = np.where(has_high, d_high + self.z_high * dx / self.high, 0.0)
        return dx, d_nu, d_low, d_high


def _woodbury(B, theta):
    """A function that solves with ``diag(theta) + B B'``."""
    scaled = B / theta[:, None]
    system = B.T @ scaled
    np.einsum("ii->i", system)[:] += 1.0
    factor = cho_factor(system, check_finite=False)
    return lambda right: (
        right / theta - scaled @ cho_solve(factor, scaled.T @ right, check_finite=False)
    )


def _length(low, high, z_low, z_high, dx, d_low, d_high, has_low, has_high):
    """The longest step, one at most, that keeps slacks and multipliers positive."""
    longest = 1.0
    for value, change, counts in (
        (low, dx, has_low),
        (high, -dx, has_high),
        (z_low, d_low, has_low),
        (z_high, d_high, has_high),
    ):
        falling = counts & (change < 0.0)
        if falling.any():
            longest = min(longest, float(np.min(-value[falling] / change[falling])))
    return longest
