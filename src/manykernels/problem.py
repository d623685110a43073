"""The problem that every solver works on, and the certificate that judges them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy.optimize import brentq

from ._arrays import Array, is_tensor, length, namespace, same
from .banks.base import Bank, SumBank
from .losses import Box, Hinge, Loss
from .regularizers import Regularizer
from .result import Certificate


@dataclass(frozen=True, eq=False)
class Problem:
    """``min_{d >= 0} r(d) + sum_c max_beta  y_c' beta - beta' K_d beta / 2`` with the combined
    kernel ``K_d``, for sums of kernels ``sum_k d_k K_k``.

    The outputs c (one for two classes, one per class otherwise) share the kernel weights. A problem
    is a statement and never changes: what a run knows is in `manykernels.run_state.RunState`.

    Parameters
    ----------
    bank : Bank
    targets : (t, n) array
        Labels of ±1, or numbers for regression.
    cost : (n,) or (t, n) array
        Loss of each point: C times its weight.
    regularizer : Regularizer
    loss : Loss
    """

    bank: Bank
    targets: Array
    cost: Array
    regularizer: Regularizer
    loss: Loss = field(default_factory=Hinge)

    def __post_init__(self) -> None:
        made: dict[str, Any] = {"regularizer": self.regularizer.bound(self.bank)}
        if not is_tensor(self.targets):
            targets = np.atleast_2d(np.asarray(self.targets, dtype=float))
            cost = np.broadcast_to(np.asarray(self.cost, dtype=float), targets.shape)
            made |= {"targets": targets, "cost": cost}
        for name, value in made.items():
            object.__setattr__(self, name, value)

    @cached_property
    def boxes(self) -> list[Box]:
        """The dual of the loss of every output."""
        return [self.loss.box(y, cost) for y, cost in zip(self.targets, self.cost, strict=True)]

    @cached_property
    def unit(self) -> float:
        """The unit of violations of the optimality conditions."""
        return min(box.unit() for box in self.boxes)

    @cached_property
    def is_system(self) -> bool:
        """True if some output is solved by systems of linear equations."""
        return any(box.is_system for box in self.boxes)

    @property
    def has_fixed_sum(self) -> bool:
        """True if the coefficients of an output have a sum that is given and not zero."""
        return any(box.total for box in self.boxes)

    @property
    def has_dual(self) -> bool:
        """True if the dual value can be computed, so that there is a gap."""
        return self.bank.is_sum and self.regularizer.has_conjugate

    def on(self, bank: Bank) -> Problem:
        """This problem with other kernels on the same points."""
        return replace(self, bank=bank)

    @cached_property
    def placed(self) -> Problem:
        """This problem with its vectors where the bank keeps long ones."""
        targets = self.bank.to_device(self.targets)
        if targets is self.targets:
            return self
        return replace(self, targets=targets, cost=self.bank.to_device(self.cost))

    def take_points(self, rows: Any) -> Problem:
        """The problem of some of the points, whose costs add up to those of all."""
        share = self.cost.sum() / self.cost[:, rows].sum()
        bank = self.bank.take_points(rows)
        if bank is None:
            raise ValueError(f"{self.bank!r} cannot be cut down to some of its points.")
        return replace(
            self,
            bank=bank,
            targets=self.targets[:, rows],
            cost=share * self.cost[:, rows],
        )

    def refined(self) -> Problem | None:
        """This problem with kernels in float64; None if they are already."""
        finer = self.bank.refined()
        return None if finer is None else self.on(finer)

    def inner_tolerance(self, gap: float, beta: Array) -> float:
        """The violation, in units, that makes a fifth of an absolute gap: the next tolerance of the
        machines.

        A violation v costs up to v times the widths of the box, and where the loss bends up to
        ``v^2`` times its curvature. The smaller of the two is the price. In a box without bounds,
        such as that of a squared loss, the widths are a guess: there both must be small.
        """
        reach = sum(float(box.widths(b).sum()) for box, b in zip(self.boxes, beta, strict=True))
        squares = sum(box.squares for box in self.boxes)
        linear = 0.2 * gap / reach
        if squares > 0.0:
            bounds = linear, np.sqrt(0.2 * max(gap, 0.0) / squares)
            linear = max(bounds) if all(box.is_bounded for box in self.boxes) else min(bounds)
        return linear / self.unit

    def feasible(self, beta: Array) -> Array:
        """Coefficients (t, n) moved into their boxes and onto the right sums; a no-op for feasible
        ones.
        """
        rows = [box.feasible(row) for box, row in zip(self.boxes, beta, strict=True)]
        return namespace(rows[0]).stack(rows)

    def dual_linear(self, beta: Array) -> float:
        """The dual objective without its part from the kernels."""
        return sum(box.value(b) for box, b in zip(self.boxes, beta, strict=True))

    def dual_slope(self, beta: Array, change: Array) -> float:
        """The slope of `dual_linear` along a change of beta."""
        steps = zip(self.boxes, beta, change, strict=True)
        return sum(box.slope(b, step) for box, b, step in steps)

    def quadratic_forms(self, beta: Array) -> np.ndarray:
        """``s_k = sum_c beta_c' K_k beta_c`` of every kernel, (m,), never negative."""
        return np.maximum(cast("SumBank", self.bank).quadratic_forms(beta), 0.0)

    def certificate(
        self,
        weights: np.ndarray,
        beta: Array,
        *,
        scores: Array | None = None,
        forms: np.ndarray | None = None,
    ) -> Certificate:
        """Primal and dual value, relative gap and intercepts at any weights and any beta, optimal
        or not.

        beta is first moved into its box (a no-op for what our machines return). With the intercepts
        b that minimize the loss,

            primal = sum_c beta_c' K_d beta_c / 2 + loss(K_d beta_c + b_c) + r(d)  >=  optimum
            dual   = sum_c y_c' (t beta_c) - phi(t^2 s)                            <=  optimum

        where t is the best factor of at most one for balls, the largest allowed for regularizers
        whose conjugate phi is finite on a part of the space only, and one otherwise. A loss that
        can be infinite is taken at the multiple of the decision values that makes it finite, if
        there is one.

        Parameters
        ----------
        weights : (m,) array
        beta : (t, n) array
        scores : (t, n) array, optional
            ``K_d beta``, if known.
        forms : (m,) array, optional
            Quadratic forms of beta, if known.
        """
        given = beta if is_tensor(beta) else np.atleast_2d(np.asarray(beta, dtype=float))
        beta = self.feasible(given)
        if not same(beta, given):
            scores = forms = None
        if scores is None:
            scores = self.bank.decision(weights, beta)
        primal, intercept = self.primal(weights, beta, scores)
        dual = self._dual(beta, forms)
        tiny = np.finfo(float).tiny
        gap = (primal - dual) / max(abs(primal), tiny) if np.isfinite(primal) else primal
        return Certificate(primal, dual, gap, intercept, self._rounding(weights, beta))

    def uncertified(self, weights: np.ndarray, beta: np.ndarray) -> Certificate:
        """The intercepts at any weights and any beta, without bounds on the optimum: for a run that
        must end at once.
        """
        beta = self.feasible(np.atleast_2d(np.asarray(beta, dtype=float)))
        intercept = self.intercepts(self.bank.decision(weights, beta))
        return Certificate(np.inf, -np.inf, np.inf, intercept, 0.0)

    def intercepts(self, scores: Array) -> np.ndarray:
        """The intercept of every output that minimizes its loss at ``scores = K_d beta``, (t,)."""
        data = zip(self.targets, self.cost, scores, strict=True)
        return np.array([self.loss.intercept(*of) for of in data])

    def primal(self, weights: np.ndarray, beta: Array, scores: Array) -> tuple[float, np.ndarray]:
        """The primal value at ``scores = K_d beta``, and the intercepts that make it smallest."""
        intercept = self.intercepts(scores)
        primal = self.regularizer.value(weights)
        data = zip(self.targets, self.cost, scores, beta, intercept, strict=True)
        for y, cost, f, coefficients, b in data:
            c = self.loss.factor(y, cost, f, b)
            primal += 0.5 * c**2 * float(coefficients @ f) + self.loss.value(y, cost, c * f, c * b)
        return primal, intercept

    def _dual(self, beta: Array, forms: np.ndarray | None) -> float:
        if not self.has_dual:
            return -np.inf
        forms = self.quadratic_forms(beta) if forms is None else forms
        scale = self.regularizer.dual_scale(forms)
        if self.has_fixed_sum:
            fits = scale >= 1.0
            return self.dual_linear(beta) - self.regularizer.conjugate(forms) if fits else -np.inf
        # the dual is then simple along the multiples of beta
        if self.regularizer.homogeneous:
            scale = self.best_scale(beta, forms)
        return self.dual_linear(scale * beta) - self.regularizer.conjugate(scale**2 * forms)

    def best_scale(self, beta: Array, forms: np.ndarray) -> float:
        """The factor in [0, 1] on beta at which the dual is largest, for a conjugate that is a
        multiple of its square: a parabola, unless the loss is curved.
        """
        pairs, conjugate = list(zip(self.boxes, beta, strict=True)), self.regularizer.conjugate
        if self.loss.has_nonquadratic_dual:
            half = conjugate(forms)
            return _root(lambda scale: self.dual_slope(scale * beta, beta) - 2.0 * scale * half)
        slope = sum(float(box.linear @ b - box.kink @ abs(b)) for box, b in pairs)
        bend = sum(float(box.ridge @ b**2) for box, b in pairs)
        bend += 2.0 * conjugate(forms)
        return float(np.clip(slope / bend, 0.0, 1.0)) if bend > 0.0 else 1.0

    def _rounding(self, weights: np.ndarray, beta: Array) -> float:
        """Error of the primal value when every entry of K_d is rounded to the bank's precision.

        Entries have independent errors of at most half a unit of the largest: they add up to ``eps
        / 2 max(K_d) |beta|^2`` in ``beta' K_d beta`` and to ``eps / 2 max(K_d) |beta|`` in a score,
        which the loss multiplies by the cost of the points that have a coefficient, or by the
        coefficient itself where there are no corners.
        """
        unit = 0.5 * float(np.finfo(self.bank.dtype).eps) * self.bank.largest(weights)
        losses = sum(
            length(b) * float(box.steepness(b).sum())
            for box, b in zip(self.boxes, beta, strict=True)
        )
        return float(unit * (float((beta**2).sum()) + losses))

    def sharper_rounding(self, weights: np.ndarray, beta: Array) -> float:
        """`_rounding` by the sizes of what is rounded in each entry, S (`Bank.magnitudes`), and not
        by the largest one.

        An entry k of a Gaussian has an error of ``eps / 2 k``, and one of ``eps / 2 k log(1 / k)``
        of its exponent: about ``eps / 2 sqrt(k sqrt(g_i g_j))`` in all for the diagonal g of K_d. A
        product of factors has one of ``eps / 2 sqrt(g_i g_j)``, however much of it cancels. So the
        squares of the errors of scores are ``eps^2 / 4 sqrt(g_i) sum_j S_ij sqrt(g_j) beta_j^2``,
        where `_rounding` has ``max(g)^2 |beta|^2``.
        """
        roots = np.sqrt(self.bank.combined_diagonal(weights))
        roots = self.bank.to_device(roots) if is_tensor(beta) else roots
        errors = (roots * self.bank.magnitudes(weights, roots * beta**2)) ** 0.5
        losses = sum(
            float(of @ box.steepness(b))
            for box, b, of in zip(self.boxes, beta, errors, strict=True)
        )
        unit = 0.5 * float(np.finfo(self.bank.dtype).eps)
        return float(unit * (float(((beta * errors) ** 2).sum()) ** 0.5 + losses))


def _root(slope: Callable[[float], float]) -> float:
    """The place in [0, 1] where a falling slope is zero; the end that it points to if nowhere."""
    if slope(1.0) >= 0.0:
        return 1.0
    smallest = 1e-9
    return brentq(slope, smallest, 1.0, rtol=1e-6) if slope(smallest) > 0.0 else 0.0
