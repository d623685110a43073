"""MKL on low-rank factors by Newton's method on the primal, for losses without corners (squared
hinge, logistic, squared).

The slope of the loss at point i is minus the coefficient beta_i that its box gives at the decision
value f_i. For squared losses its second derivative is one over the ridge where beta_i is inside the
box and zero elsewhere: the Newton step needs the factors of those points only. It minimizes the
quadratic model of the loss together with the kernel weights (see `factored`); a step costs a few
passes over the factors and one Gram matrix of the points that bend.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..._arrays import namespace
from ...losses import Box, Curve
from ...problem import Problem
from ...run_state import RunState
from ..base import Iterate
from .factored import FactorSolver, Fit, Model, certified, lifted, penalty, watched


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Change of a model's value that ends its rounds, as a part of the gap; larger: rougher steps.
    model_settled_below: float = 1e-4
    # Halvings of a step in the line search; larger: shorter steps are tried.
    halvings: int = 30
    # Steps without a smaller gap that end the method; larger: it gives up later.
    steps_without_gain: int = 5


TOLERANCES = Tolerances()


class State(NamedTuple):
    """Fit, iterate, its smallest gap so far, how many more steps may pass without a smaller one,
    and the model of the last step.
    """

    fit: Fit
    iterate: Iterate
    best: float = np.inf
    patience: int = TOLERANCES.steps_without_gain
    model: Model | None = None


class PrimalNewton(FactorSolver):
    """Newton's method for banks of low-rank factors and smooth losses; needs a regularizer with
    `reweight`.
    """

    max_iter = 300

    def needs(self, run: RunState) -> None:
        super().needs(run)
        if not run.problem.loss.is_smooth:
            raise ValueError(
                f"PrimalNewton is for losses without corners, not for {run.problem.loss!r}: use "
                "solver='interior' or solver='multipliers'."
            )

    def init(self, run: RunState) -> State:
        weights, beta = run.start
        beta = run.bank.to_device(run.problem.feasible(beta))
        return State(Fit.of(run, lifted(run, weights), beta), certified(run, weights, beta))

    def step(self, run: RunState, state: State, tol: float) -> State:
        # slopes and second derivatives of the losses
        corners, stack = rounded_corners(run.problem.placed, 0.0), namespace(state.fit.f).stack
        pairs = zip(corners, state.fit.f, strict=True)
        beta, bends = map(stack, zip(*(corner.response(f) for corner, f in pairs), strict=True))
        # Newton's direction, together with the weights
        model = Model(run, state.fit, bends, before=state.model)
        decrease = TOLERANCES.model_settled_below * abs(state.iterate.certificate.absolute_gap)
        weights = lifted(run, state.fit.weights, state.iterate.certificate.gap)
        step = model.fitted(model.pulls(beta), weights, decrease)
        # the line search
        length = self._length(run, corners, state.fit, step)
        fit = state.fit.moved(run, step, length)
        # the certificate of feasible coefficients
        beta = self._coefficients(run.problem.placed, fit, beta - length * bends * step.f)
        iterate = certified(run, fit.weights, beta, tol)
        return State(fit, *watched(state, iterate, TOLERANCES.steps_without_gain), model)

    @staticmethod
    def _coefficients(problem: Problem, fit: Fit, beta: np.ndarray) -> np.ndarray:
        """Feasible coefficients at a fit: those of the model, which agree with v, or the response
        of a loss with a curve, which is never outside of its box.
        """
        if problem.loss.has_nonquadratic_dual:
            curved = [(box.curve, box.total) for box in problem.boxes if box.curve is not None]
            pairs = zip(curved, fit.f, strict=True)
            rows = [curve.coefficients(f, total) for (curve, total), f in pairs]
            beta = namespace(fit.f).stack(rows)
        return problem.feasible(beta)

    @staticmethod
    def _length(run: RunState, corners: "list[Corner | Curve]", fit: Fit, step: Fit) -> float:
        """The best of the lengths 1, 1/2, 1/4, ..., or none."""

        def value(length: float) -> float:
            at = zip(corners, fit.f + length * step.f, fit.b + length * step.b, strict=True)
            losses = sum(corner.loss(f, b) for corner, f, b in at)
            return penalty(run, fit.v + length * step.v) + losses

        length, now, after = 1.0, value(0.0), value(1.0)
        for _ in range(TOLERANCES.halvings):
            half = value(0.5 * length)
            if after < now and half >= after:
                break
            length, after = 0.5 * length, half
        return length if after < now else 0.0


# --- losses as functions of decision values, through their boxes, with corners rounded off --------


def rounded_corners(problem: Problem, width: float) -> "list[Corner | Curve]":
    """The loss of every output with its corners rounded off over a width; one with a curve has
    none.
    """
    pairs = zip(problem.boxes, problem.cost, strict=True)
    return [Corner(box, cost, width) if box.curve is None else box.curve for box, cost in pairs]


class Corner:
    """A loss through its box.

    The coefficient of a point at the decision value f is the beta in its box that maximizes ``beta
    (linear - f) - kink |beta| - ridge beta^2 / 2``; a further ridge of ``width / cost`` around a
    center rounds off corners over that width.
    """

    def __init__(
        self, box: Box, cost: np.ndarray, width: float, center: np.ndarray | float = 0.0
    ) -> None:
        xp = namespace(cost)
        extra = xp.where(cost > 0.0, width / xp.where(cost > 0.0, cost, 1.0), 0.0)
        self.box = box._replace(linear=box.linear + extra * center)
        # points without a cost have no coefficient, whatever their ridge
        self.ridge = xp.where(cost > 0.0, box.ridge + extra, 1.0)

    def response(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients at decision values f, and the curvature of the loss there."""
        box, pull, xp = self.box, self.box.linear - f, namespace(f)
        free = xp.sign(pull) * xp.clip(abs(pull) - box.kink, 0.0, None) / self.ridge
        beta = xp.clip(free, box.lower, box.upper)
        bends = (beta == free) & ((box.kink == 0.0) | (beta != 0.0)) & (box.upper > box.lower)
        return beta, xp.where(bends, 1.0 / self.ridge, 0.0)

    def slope(self, f: np.ndarray, change: np.ndarray, b: float) -> float:
        """The slope of `loss` at decision values f along a change of them, of which b is that of
        the intercept.
        """
        return self.box.total * float(b) - float(self.response(f)[0] @ change)

    def loss(self, f: np.ndarray, b: float) -> float:
        """Total loss of the decision values f, of which b is the intercept."""
        beta = self.response(f)[0]
        losses = beta * (self.box.linear - f) - self.box.kink * abs(beta)
        losses -= 0.5 * self.ridge * beta**2
        return float(losses.sum()) + self.box.total * float(b)
