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

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ...banks.lowrank.factors import FactorBank
from ...losses import Box
from ...run_state import RunState
from ..base import Iterate, Solver

Variables = tuple[np.ndarray, np.ndarray]  # of the splitting: copies of gamma and beta

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

    def __init__(
        self, inner: str = "split", *, inner_tol: float = 1e-4, inner_iter: int = 3000
    ) -> None:
        if inner not in INNER:
            raise ValueError(f"inner={inner!r} is not known; use {', '.join(map(repr, INNER))}.")
        self.inner, self.inner_tol, self.inner_iter = inner, inner_tol, inner_iter

    def needs(self, run: RunState) -> None:
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

    def init(self, run: RunState) -> State:
        weights, beta = run.start
        return self._round(run, weights, [None] * len(beta), self.inner_tol)

    def step(self, run: RunState, state: State, tol: float) -> State:
        new = self._round(run, state.next_weights, state.variables, state.tol)
        gap, before = new.iterate.certificate.absolute_gap, state.iterate.certificate.absolute_gap
        if gap > TOLERANCES.slow_round_leaves * before:
            finer = max(0.1 * state.tol, TOLERANCES.smallest_inner_tolerance)
            return new._replace(tol=finer)
        return new

    def _round(
        self,
        run: RunState,
        weights: np.ndarray,
        variables: list[Variables | None],
        inner_tol: float,
    ) -> State:
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

    def __init__(self, V: np.ndarray, roots: np.ndarray, total: float | None = None) -> None:
        self.V, self.total = V * roots, total
        if total is not None:
            self.V = np.concatenate([self.V, np.ones((len(V), 1))], axis=1)
        system = self.V.T @ self.V
        diagonal = np.einsum("ii->i", system)
        diagonal[: len(roots)] += 1.0
        self.factor = cho_factor(system, check_finite=False)

    def __call__(self, gamma: np.ndarray, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        moments = self.V.T @ beta
        right = gamma - moments if self.total is None else np.append(gamma, self.total) - moments
        t = cho_solve(self.factor, right, check_finite=False)
        return gamma - t[: gamma.size], beta + self.V @ t


def _split(
    bank: FactorBank,
    weights: np.ndarray,
    box: Box,
    before: Variables | None,
    tol: float,
    limit: int,
) -> tuple[np.ndarray, Variables | None, int]:
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


def _merged(
    bank: FactorBank,
    weights: np.ndarray,
    box: Box,
    before: Variables | None,
    tol: float,
    limit: int,
) -> tuple[np.ndarray, Variables | None, int]:
    V, roots = bank.whole(), np.sqrt(bank.column_weights(weights))
    return _iterate(
        bank, box, before, tol, limit, [(slice(None), _Affine(V, roots, box.total))], line=False
    )


def _iterate(
    bank: FactorBank,
    box: Box,
    before: Variables | None,
    tol: float,
    limit: int,
    sets: list[tuple[slice, _Affine]],
    line: bool,
) -> tuple[np.ndarray, Variables | None, int]:
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
        # the gradient step of the smooth part, and the projections on every set
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
        # their average
        gamma, beta = Z_gamma.mean(axis=0), Z_beta.mean(axis=0)
        value = 0.5 * gamma @ gamma - box.value(beta)
        if abs(value - last) <= tol * abs(value):
            break
        last = value
    return beta, (Z_gamma, Z_beta), done


def _interior(
    bank: FactorBank,
    weights: np.ndarray,
    box: Box,
    before: Variables | None,
    tol: float,
    limit: int,
) -> tuple[np.ndarray, Variables | None, int]:
    """Mehrotra's predictor-corrector method; bounds may be infinite, and an iteration costs one
    small factorization.
    """
    B, bounds = bank.whole() * np.sqrt(bank.column_weights(weights)), _Bounds(box)
    at, done = bounds.start(), 0
    while done < limit:
        done += 1
        system = _Central(B, box, bounds, at)
        if system.solved(tol):
            break
        # predictor: straight to products of zero
        ahead = system.direction(0.0, 0.0)
        # corrector: towards the central path, with the second-order terms of the predictor
        center = system.center(ahead)
        step = system.direction(center - ahead.x * ahead.z_low, center + ahead.x * ahead.z_high)
        at = at.moved(step, 0.995 * system.longest(step))
    return at.x, None, done


class _Place(NamedTuple):
    """Coefficients x (n,), the multiplier of their sum, and those of the bounds (n,); or a step of
    them.
    """

    x: np.ndarray
    nu: float
    z_low: np.ndarray
    z_high: np.ndarray

    def moved(self, step: "_Place", length: float) -> "_Place":
        return _Place(
            self.x + length * step.x,
            self.nu + length * step.nu,
            self.z_low + length * step.z_low,
            self.z_high + length * step.z_high,
        )


class _Bounds:
    """The bounds of a box: which are finite, and which points have room between them."""

    def __init__(self, box: Box) -> None:
        self.has_low, self.has_high = np.isfinite(box.lower), np.isfinite(box.upper)
        self.lower = np.where(self.has_low, box.lower, 0.0)
        self.upper = np.where(self.has_high, box.upper, 0.0)
        width = np.where(self.has_low & self.has_high, self.upper - self.lower, 1.0)
        self.open = width > 0.0  # points of no cost have no coefficient
        self.count = max(self.has_low.sum() + self.has_high.sum(), 1)

    def start(self) -> _Place:
        """The middle of the bounds, with multipliers of one."""
        beside = np.where(self.has_low, self.lower + 1.0, self.upper - 1.0)
        middle = 0.5 * (self.lower + self.upper)
        x = np.where(self.has_low & self.has_high, middle, beside)
        return _Place(x, 0.0, self.has_low.astype(float), self.has_high.astype(float))

    def slacks(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Distances from both bounds, one where there is none."""
        low = np.where(self.has_low & self.open, x - self.lower, 1.0)
        high = np.where(self.has_high & self.open, self.upper - x, 1.0)
        return low, high

    def mean(self, low: np.ndarray, high: np.ndarray, at: _Place) -> float:
        """The mean product of slack and multiplier."""
        return self.total(low, high, at.z_low, at.z_high) / self.count

    def total(
        self, low: np.ndarray, high: np.ndarray, z_low: np.ndarray, z_high: np.ndarray
    ) -> float:
        return z_low @ (low * self.has_low) + z_high @ (high * self.has_high)


class _Central:
    """The optimality conditions at a place, and the linear system of one iteration."""

    def __init__(self, B: np.ndarray, box: Box, bounds: _Bounds, at: _Place) -> None:
        self.B, self.box, self.bounds, self.at, x = B, box, bounds, at, at.x
        self.low, self.high = bounds.slacks(x)
        self.dual = B @ (B.T @ x) + box.ridge * x - box.linear + at.nu - at.z_low + at.z_high
        self.missing = x.sum() - box.total
        self.mu = bounds.mean(self.low, self.high, at)

    def solved(self, tol: float) -> bool:
        """True if the conditions hold to a tolerance."""
        x = self.at.x
        value = self.box.value(x) - 0.5 * float(np.square(self.B.T @ x).sum())
        return bool(
            self.mu * x.size <= tol * abs(value)
            and np.abs(self.dual).max() <= tol
            and abs(self.missing) <= tol * max(np.abs(x).sum(), 1.0)
        )

    @cached_property
    def solve(self) -> Callable[[np.ndarray], np.ndarray]:
        """The solution of the system for a right-hand side, after one factorization."""
        barrier = self.at.z_low / self.low + self.at.z_high / self.high
        held = np.where(self.bounds.open, 0.0, 1e12)
        return _woodbury(self.B, self.box.ridge + barrier + held + 1e-12)

    @cached_property
    def ones(self) -> np.ndarray:
        return self.solve(np.ones(self.dual.size))

    def direction(self, low: np.ndarray | float, high: np.ndarray | float) -> _Place:
        """The step towards these products of slack and multiplier."""
        z_low, z_high = self.at.z_low, self.at.z_high
        d_low, d_high = low / self.low - z_low, high / self.high - z_high
        has_low, has_high = z_low > 0.0, z_high > 0.0
        part = self.solve(
            np.where(has_low, d_low, 0.0) - np.where(has_high, d_high, 0.0) - self.dual
        )
        d_nu = (part.sum() + self.missing) / self.ones.sum()
        dx = part - d_nu * self.ones
        d_low = np.where(has_low, d_low - z_low * dx / self.low, 0.0)
        d_high = np.where(has_high, d_high + z_high * dx / self.high, 0.0)
        return _Place(dx, d_nu, d_low, d_high)

    def center(self, ahead: _Place) -> float:
        """The product to aim at: small where the predictor comes far."""
        length = self.longest(ahead)
        low, high = self.low + length * ahead.x, self.high - length * ahead.x
        z_low = self.at.z_low + length * ahead.z_low
        z_high = self.at.z_high + length * ahead.z_high
        after = self.bounds.total(low, high, z_low, z_high)
        return self.mu * (after / self.bounds.count / max(self.mu, 1e-300)) ** 3

    def longest(self, step: _Place) -> float:
        """The longest step, one at most, that keeps slacks and multipliers positive."""
        longest = 1.0
        for value, change, counts in (
            (self.low, step.x, self.bounds.has_low),
            (self.high, -step.x, self.bounds.has_high),
            (self.at.z_low, step.z_low, self.bounds.has_low),
            (self.at.z_high, step.z_high, self.bounds.has_high),
        ):
            falling = counts & (change < 0.0)
            if falling.any():
                longest = min(longest, float(np.min(-value[falling] / change[falling])))
        return longest


def _woodbury(B: np.ndarray, theta: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A function that solves with ``diag(theta) + B B'``."""
    scaled = B / theta[:, None]
    system = B.T @ scaled
    np.einsum("ii->i", system)[:] += 1.0
    factor = cho_factor(system, check_finite=False)
    return lambda right: (
        right / theta - scaled @ cho_solve(factor, scaled.T @ right, check_finite=False)
    )
