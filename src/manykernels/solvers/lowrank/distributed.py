"""MKL on low-rank factors whose points are in several places: Newton's method in rounds, for losses
without corners.

A round sends coefficients of the features out, and what comes back are sums over the points
(`look.Sums`): one Gram matrix, slopes and losses. So a step costs two rounds, whatever the number
of points: the model at a fit, and losses along the step. Weights and coefficients come from the
small model, as in `primal`, and the places need to remember nothing.

The gap between rounds is an estimate, from sums. The coefficients of all points are asked for when
it has become much smaller, and the certificate on them decides.

(Corners could be rounded off, which leaves the loss a function of the decision value: tried, and
the narrow corners that a gap of 1e-3 needs take ten times the steps of `interior`. Around a center,
as in `multipliers`, they need not be narrow; but the places would have to remember theirs.)
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...banks.lowrank.systems import System
from ...losses import Loss
from ...result import Status
from ...run_state import RunState
from ..base import Iterate
from .factored import FactorSolver, SmallModel, certified, lifted, penalty
from .primal import Corner


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Change of a model's value that ends its rounds, as a part of the gap; larger: rougher steps.
    model_settled_below: float = 1e-4
    # Parts 1, 1/2, 1/4, ... of a step that one round looks at; larger: shorter steps are tried.
    parts_of_step: int = 16
    # Steps without a smaller estimate that end the method; larger: it gives up later.
    steps_without_gain: int = 5
    # Part of the last gap below which an estimate is worth a certificate; larger: more of them.
    certify_below: float = 0.1
    # Factor on the gap to reach after a certificate did not confirm an estimate; larger: the next
    # one is asked for sooner.
    stricter_aim: float = 0.3


TOLERANCES = Tolerances()


class Sums(NamedTuple):
    """Sums over points at coefficients u and intercepts b, for t outputs and q columns.

    Attributes
    ----------
    H : (t, q + 1, q + 1)
        ``[V 1]' diag(bends) [V 1]``, with the second derivatives of the losses.
    pulls : (t, q + 1)
        ``[V 1]' beta``, for minus the slopes beta of the losses.
    parts : (3,)
        Total loss, and the dual of the loss at beta in two parts: what grows as beta does, and what
        grows as its square, or is a curve.
    """

    H: np.ndarray
    pulls: np.ndarray
    parts: np.ndarray


class PointSums:
    """Some points of a bank with their targets and costs, for a loss without corners.

    Parameters
    ----------
    bank : FactorBank
    targets, cost : (t, n) arrays
    loss : Loss
    """

    def __init__(self, bank: Any, targets: np.ndarray, cost: np.ndarray, loss: Loss) -> None:
        self.bank = bank
        self.boxes = [loss.box(y, own) for y, own in zip(targets, cost, strict=True)]
        pairs = zip(self.boxes, cost, strict=True)
        self.curves = [box.curve or Corner(box, own, 0.0) for box, own in pairs]

    def sums(self, u: np.ndarray, b: np.ndarray) -> Sums:
        """The `Sums` at a fit."""
        F, (t, q) = self._values(u, b), u.shape
        H, pulls, parts = np.empty((t, q + 1, q + 1)), np.empty((t, q + 1)), np.zeros(3)
        for c, (curve, box, f) in enumerate(zip(self.curves, self.boxes, F, strict=True)):
            beta, bends = curve.response(f)
            sums = self.bank.correlate(np.stack([beta, bends]))
            H[c, :q, :q] = self.bank.gram(bends)
            H[c, q, :q] = H[c, :q, q] = sums[1]
            H[c, q, q] = bends.sum()
            pulls[c] = np.append(sums[0], beta.sum())
            parts[0] += curve.loss(f, b[c])
            parts[1] += float(box.linear @ beta - box.kink @ np.abs(beta))
            parts[2] -= box.bent_value(beta)
        return Sums(H, pulls, parts)

    def losses(self, u: np.ndarray, b: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Total losses on a line, at ``u[0] + s u[1]`` and ``b[0] + s b[1]`` for each s of the
        places.
        """
        start, step = self._values(u[0], b[0]), self._values(u[1], b[1])
        return np.array([self._loss(start + s * step, b[0] + s * b[1]) for s in places])

    def coefficients(self, u: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The coefficients beta of all points, (t, n), at a fit."""
        pairs = zip(self.curves, self._values(u, b), strict=True)
        return np.stack([curve.response(f)[0] for curve, f in pairs])

    def _values(self, u: np.ndarray, b: np.ndarray) -> np.ndarray:
        return self.bank.dot(u) + b[:, None]

    def _loss(self, F: np.ndarray, b: np.ndarray) -> float:
        return sum(curve.loss(f, own) for curve, f, own in zip(self.curves, F, b, strict=True))


class Fit(NamedTuple):
    """Coefficients of the features u, (t, q), moments (t, q), intercepts (t,) and weights (m,)."""

    u: np.ndarray
    a: np.ndarray
    b: np.ndarray
    weights: np.ndarray


class State(NamedTuple):
    """The state of the rounds.

    Attributes
    ----------
    fit : Fit
    sums : Sums
    iterate : Iterate
        The last one that has a certificate.
    aim : float
        Relative gap at which a certificate is asked for in the end.
    best, patience
        The smallest gap that was estimated, and steps without a smaller one that may pass.
    """

    fit: Fit
    sums: Sums
    iterate: Iterate
    aim: float = np.inf
    best: float = np.inf
    patience: int = TOLERANCES.steps_without_gain


class DistributedNewton(FactorSolver):
    """Newton's method for low-rank factors whose points are in several places and smooth losses;
    needs a regularizer with `reweight`.
    """

    title = "Newton's method in rounds"
    max_iter = 300

    def needs(self, run: RunState) -> None:
        super().needs(run)
        if not run.problem.loss.is_smooth or run.problem.has_fixed_sum:
            raise ValueError(
                f"Newton's method in rounds is for losses without corners, not for "
                f"{run.problem.loss!r}: use solver='interior'."
            )
        if run.bank.points is not run.bank:
            raise ValueError(
                "Newton's method in rounds works with the factors themselves, not in a small space "
                "of theirs: use solver='primal'."
            )

    def init(self, run: RunState) -> State:
        weights, beta = run.start
        beta = run.problem.feasible(beta)
        a = run.bank.correlate(beta)
        first = lifted(run, weights)
        fit = Fit(run.bank.column_weights(first) * a, a, np.zeros(len(a)), first)
        iterate = certified(run, weights, beta)
        return self._estimated(run, State(fit, self._sums(run, fit), iterate))

    def step(self, run: RunState, state: State, tol: float) -> State:
        aim = min(state.aim, tol)
        # Newton's direction, from the small model
        model = SumsModel(run, state.fit, state.sums)
        weights = lifted(run, state.fit.weights, state.iterate.certificate.gap)
        step = model.fitted(
            state.sums.pulls, weights, TOLERANCES.model_settled_below * abs(state.best)
        )
        # the line search: one round
        fit = self._along(run, state.fit, step)
        if fit is state.fit:
            return self._certified(run, state._replace(aim=aim, patience=0))
        # the sums at the new fit: another round, which gives an estimate of the gap
        sums = self._sums(run, fit)
        state = self._estimated(run, state._replace(fit=fit, sums=sums, aim=aim))
        primal, gap = self._bounds(run, state)
        worth = max(aim, TOLERANCES.certify_below * state.iterate.certificate.gap) * abs(primal)
        return self._certified(run, state) if gap <= worth or not state.patience else state

    @staticmethod
    def _along(run: RunState, fit: Fit, step: Fit) -> Fit:
        """The fit after the best of some parts of a step, or itself if there is none."""
        places = np.append(0.0, 0.5 ** np.arange(TOLERANCES.parts_of_step))
        line = np.stack([fit.u, step.u]), np.stack([fit.b, step.b])
        losses = look_of(run).losses(*line, places)
        run.counters.kernel_passes += 2
        values = [
            penalty(run, fit.u + s * step.u) + loss for s, loss in zip(places, losses, strict=True)
        ]
        best = int(np.argmin(values))
        if best == 0:
            return fit
        s, weights = places[best], step.weights
        u = fit.u + s * step.u
        if s < 1.0:
            weights = run.problem.regularizer.reweight(run.bank.squared_norms(u))
        return Fit(u, fit.a + s * step.a, fit.b + s * step.b, weights)

    @staticmethod
    def _sums(run: RunState, fit: Fit) -> Sums:
        """The sums over all points at a fit: one round."""
        run.counters.kernel_passes += 2
        return look_of(run).sums(fit.u, fit.b)

    def _estimated(self, run: RunState, state: State) -> State:
        """The state that remembers the estimate of its gap."""
        _, gap = self._bounds(run, state)
        patience = TOLERANCES.steps_without_gain if gap < state.best else state.patience - 1
        return state._replace(best=min(gap, state.best), patience=patience)

    @staticmethod
    def _bounds(run: RunState, state: State) -> tuple[float, float]:
        """The primal value at a fit, and its distance from the dual value at the coefficients
        there, once their sums were made zero where that costs least.
        """
        (H, pulls, (loss, linear, ridge)), fit = state.sums, state.fit
        # the primal value at the fit
        primal = penalty(run, fit.u) + loss
        # the intercept's equation: coefficients move along the curvatures until they sum to zero
        bends, border = H[:, -1, -1], H[:, -1, :-1]
        excess = pulls[:, -1] / np.maximum(bends, np.finfo(float).tiny)
        moments = pulls[:, :-1] - excess[:, None] * border
        linear = linear - float(excess @ (np.einsum("tq,tq->t", border, fit.u) + bends * fit.b))
        # the dual scaling: the multiple of the coefficients with the largest dual value
        regularizer, forms = run.problem.regularizer, run.bank.squared_norms(moments)
        scale = regularizer.dual_scale(forms)
        if regularizer.homogeneous and not run.problem.loss.has_nonquadratic_dual:
            bend = 2.0 * (ridge + regularizer.conjugate(forms))
            scale = float(np.clip(linear / bend, 0.0, 1.0)) if bend > 0.0 else 1.0
        # the dual value there
        dual = scale * linear - scale**2 * ridge - regularizer.conjugate(scale**2 * forms)
        return primal, primal - dual

    @staticmethod
    def _certified(run: RunState, state: State) -> State:
        """The state with the certificate of its coefficients; the end where patience is at its."""
        run.counters.kernel_passes += 1
        beta = look_of(run).coefficients(state.fit.u, state.fit.b)
        iterate = certified(run, state.fit.weights, run.problem.feasible(beta), state.aim)
        if state.patience <= 0:
            iterate = iterate._replace(ended=Status.STALLED)
        unconfirmed = state.best <= state.aim * abs(iterate.certificate.primal)
        unconfirmed = unconfirmed and iterate.certificate.gap > state.aim
        return state._replace(
            iterate=iterate, aim=state.aim * (TOLERANCES.stricter_aim if unconfirmed else 1.0)
        )


class SumsModel(SmallModel[Fit]):
    """The quadratic models of the losses at a fit, from sums."""

    def __init__(self, run: RunState, fit: Fit, sums: Sums) -> None:
        super().__init__(run, fit, [System(H) for H in sums.H])

    def _finished(self, found: tuple[np.ndarray, np.ndarray], weights: np.ndarray) -> Fit:
        a, b = found[0], found[1][:, -1]
        u = self.space.coefficients_of_moments(weights, self.fit.a + a) - self.fit.u
        return Fit(u, a, b, weights)


def look_of(run: RunState) -> Any:
    """The `PointSums` of a run, or what does as one: the bank's own, where its points are
    elsewhere.
    """
    own, problem = getattr(run.bank, "look", None), run.problem
    if own is not None:
        return own(problem)
    return PointSums(run.bank, problem.targets, problem.cost, problem.loss)
