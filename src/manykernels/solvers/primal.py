"""MKL on low-rank factors by Newton's method on the primal: a linear machine whose features are weighted in groups.

With ``K_k = V_k V_k'`` the decision function is ``f = V v + b``, and the problem is

    min_{v, b, d}  sum_k |v_k|^2 / 2 d_k + r(d) + loss(V v + b).

Every loss has the dual of a `Box`, so one rule gives its slopes: the coefficient of point i is the maximiser beta_i of
``beta (linear - f) - kink |beta| - ridge beta^2 / 2`` in the box. Losses without a ridge (hinge, epsilon-insensitive) get a
small one, ``width / cost``, which rounds off their corners over that width; it shrinks as the gap does. Then the loss has a
second derivative, one over the ridge at the points whose coefficient is inside its box and zero elsewhere: the Newton step
needs the factors of those points only.

The step minimises the quadratic model of the loss together with the kernel weights: the weights enter the system of equations
through a diagonal matrix alone, so closed-form weights and a Cholesky factorisation alternate in the small space without
another look at the data. A step costs two or three passes over the factors and one Gram matrix of the points that bend.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..banks.factors import FactorBank
from ..losses import Box
from ..machines import DenseMachine
from ..result import Status
from .base import Iterate, Solver

WIDEST, SHRINK, NARROWEST = 1.0, 0.5, 1e-9  # widths of the rounded corners, in units of the loss
ROUNDS, SETTLED = 100, 1e-4  # of weights in a model, and the change of its value that ends them
FLOOR = 1e-12  # smallest weight that a kernel keeps in a model, as a part of the largest: zero would be for ever
HALVINGS = 30
HOLD = 1e-5
SOLVED = 0.3  # what is left of the smooth problem, as a part of what its corners are wrong, when they get narrower
PROGRAM, PROGRAMS, STEPS = (4000, 12_000), 5, 100  # points of a quadratic program at most, their number, steps per point
LARGEST = 2**31  # bytes of the system of equations
PATIENCE = 5


class State(NamedTuple):
    """Where Newton's method stands.

    Attributes
    ----------
    v, b : (t, r) and (t,)
        Coefficients of the features, and intercepts.
    scores : (t, n)
        ``V v``.
    weights, beta : (m,) and (t, n)
    width : float
        Of the rounded corners.
    unsolved, rounded : float
        Duality gap of the problem with rounded corners, and how much the corners can add to it.
    zone : (t, n) int, optional
        Points that bend by the model's coefficients, which know it better than the scores when corners are narrow: the side of
        the kink that they are on, 0 for the others.
    best, patience : smallest unsolved gap at this width, and how many more steps may pass without a smaller one
    """

    v: np.ndarray
    b: np.ndarray
    scores: np.ndarray
    weights: np.ndarray
    beta: np.ndarray
    width: float
    iterate: Iterate | None = None
    unsolved: float = np.inf
    rounded: float = 0.0
    zone: np.ndarray | None = None
    best: float = np.inf
    patience: int = PATIENCE


class Model(NamedTuple):
    """Where the quadratic model is smallest, and how the coefficients depend on the scores in it.

    ``beta - bends (f - f_before)``; the first three are as in `State`.
    """

    v: np.ndarray
    b: np.ndarray
    weights: np.ndarray
    beta: np.ndarray
    bends: np.ndarray


class PrimalNewton(Solver):
    """Newton's method for banks of low-rank factors; needs a regulariser with `reweight`."""

    max_iter = 300

    def needs(self, problem):
        if not isinstance(problem.bank, FactorBank):
            raise ValueError("This solver works on low-rank factors: give an approximation, or use solver='newton'.")
        if not hasattr(problem.regulariser, "reweight"):
            raise ValueError(
                f"Newton's method on factors needs closed-form weights, which {problem.regulariser!r} does not have: use "
                "solver='spg', or PNormBall or SquaredPNorm."
            )
        needed = 8 * (problem.bank.width + 1) ** 2
        if needed > LARGEST:
            raise ValueError(
                f"The factors have {problem.bank.width} columns in all, too many for a system of equations of "
                f"{needed / 2**20:.0f} MB: lower the rank, raise the cutoff, or use solver='group_lasso'."
            )

    def init(self, problem):
        weights, beta = problem.start
        bank = problem.bank
        v = bank.coefficients(weights, beta)
        scores = bank.dot(v)
        width = 0.0 if all(box.ridge.any() for box in problem.boxes) else WIDEST * problem.unit
        if beta.any() and width:
            width *= SHRINK**6
        return self._judged(problem, State(v, np.zeros(len(v)), scores, weights, beta, width))

    def step(self, problem, state, tol):
        moved = self._searched(problem, state, self._model(problem, state))
        new = self._judged(problem, moved)
        patience = PATIENCE if new.unsolved < state.best else state.patience - 1
        if (patience == 0 and new.width == 0.0) or 0.0 < new.width < NARROWEST * problem.unit:
            return self._ended(new)
        new = new._replace(best=min(new.unsolved, state.best), patience=patience)
        solved = patience == 0 or new.unsolved <= SOLVED * new.rounded  # what is left is less than the corners are wrong
        if new.width > 0.0 and solved:
            new = self._polished(problem, new, tol)
            return new._replace(width=SHRINK * new.width, best=np.inf, patience=PATIENCE)
        return new

    @staticmethod
    def _ended(state):
        return state._replace(iterate=state.iterate._replace(ended=Status.STALLED))

    def _model(self, problem, state):
        """The minimiser of the quadratic model and the weights together."""
        bank, systems = problem.bank, []
        zones = [None] * len(state.v) if state.zone is None else state.zone
        for corner, zone, f, v, b in zip(
            rounded_corners(problem, state.width), zones, state.scores, state.v, state.b, strict=True
        ):
            systems.append(_System(bank, *corner.response(f + b, zone), v, b, corner.box.total))
        weights, before = state.weights, np.inf
        for _ in range(ROUNDS):
            used = np.maximum(weights, FLOOR * weights.max())
            solved = [system.solve(bank.spread(used)) for system in systems]
            v = np.stack([at[0] for at in solved])
            weights = problem.regulariser.reweight(bank.norms(v))
            value = self._penalty(problem, v) + sum(s.value(*at) for s, at in zip(systems, solved, strict=True))
            if not before - value > SETTLED * state.unsolved:
                break
            before = value
        beta, bends = (np.stack([getattr(system, name) for system in systems]) for name in ("beta", "bends"))
        return Model(v, np.array([at[1] for at in solved]), used, beta, bends)

    @staticmethod
    def _penalty(problem, v):
        """``sum_k |v_k|^2 / 2 d_k + r(d)`` at the best weights."""
        norms = problem.bank.norms(v)
        weights = problem.regulariser.reweight(norms)
        used = norms > 0.0
        return 0.5 * float(np.sum(norms[used] / np.maximum(weights[used], 1e-300))) + problem.regulariser.value(weights)

    def _searched(self, problem, state, model):
        """The state after the best of the steps of length 1, 1/2, 1/4, ..."""
        step, shift = model.v - state.v, model.b - state.b
        change = problem.bank.dot(step)
        corners = rounded_corners(problem, state.width)

        def value(length):
            f, b = state.scores + length * change, state.b + length * shift
            return self._penalty(problem, state.v + length * step) + sum(map(_Corner.loss, corners, f, b))

        length, now = 1.0, value(0.0)
        after = value(1.0)
        for _ in range(HALVINGS):
            half = value(0.5 * length)
            if after < now and half >= after:
                break
            length, after = 0.5 * length, half
        if not after < now:
            return state._replace(zone=None)
        v, scores, b = state.v + length * step, state.scores + length * change, state.b + length * shift
        weights = model.weights if length == 1.0 else problem.regulariser.reweight(problem.bank.norms(v))
        # not the slopes of the loss there, which the narrow corners make very steep, but the model's, which agree with v
        beta = model.beta - model.bends * length * (change + shift[:, None])
        zone = np.where(model.bends > 0.0, _inside(problem, beta), 0) if length == 1.0 else None
        return state._replace(v=v, b=b, scores=scores, weights=weights, beta=beta, zone=zone)

    def _polished(self, problem, state, tol):
        """The state with the coefficients of an SVM at these weights, among the points near a corner; the others stay.

        Few points are near a corner once the smooth problem has found where it is. Their coefficients are a small quadratic
        program, and there corners need not be rounded.
        """
        bank, beta = problem.bank, state.iterate.beta.copy()
        spread = bank.spread(state.weights)
        violation = problem.unit * problem.precision(tol * abs(state.iterate.certificate.dual), beta)
        for c, corner in enumerate(rounded_corners(problem, state.width)):
            near = corner.near(state.scores[c] + state.b[c]) | (_inside(problem, beta)[c] != 0)
            if not self._ascended(problem, c, near, beta, spread, violation):
                return state
        new = self._judged(problem, state._replace(beta=beta))
        if new.iterate.certificate.dual <= state.iterate.certificate.dual:
            return state
        v = bank.coefficients(state.weights, new.iterate.beta)
        zone = _inside(problem, new.iterate.beta)
        return new._replace(v=v, b=new.iterate.certificate.intercept, scores=bank.dot(v), zone=zone)

    @staticmethod
    def _ascended(problem, c, near, beta, spread, violation):
        """Solve output c for the points near a corner, and for those that turn out to be; False if they are too many."""
        bank, box, machine = problem.bank, problem.boxes[c], DenseMachine()
        for _ in range(PROGRAMS):
            some = np.flatnonzero(near)
            if some.size > np.clip(0.3 * bank.n, *PROGRAM):
                return False
            F = bank.dot(spread * bank.correlate(beta[c : c + 1]))[0] + box.ridge * beta[c] - box.linear
            up, down = box.sides(beta[c], F)
            if up.max() - down.min() <= violation:
                break
            V, b, F = bank.factors[some], beta[c, some], F[some]
            part = Box(*(np.ascontiguousarray(values[some]) for values in box[:-1]))
            machine.ascend((V * spread.astype(V.dtype)) @ V.T, part, b, F, violation, STEPS * some.size)
            beta[c, some] = b
            near = near | (up > down.min() + violation) & (down < np.inf) | (down < up.max() - violation) & (up > -np.inf)
        return True

    def _judged(self, problem, state):
        """The certificate of the coefficients, and what is left of the problem with rounded corners."""
        bank, corners = problem.bank, rounded_corners(problem, state.width)
        beta = np.stack([corner.box.feasible(row) for corner, row in zip(corners, state.beta, strict=True)])
        moments = bank.correlate(beta)
        problem.counters.kernel_passes += 2
        scores = bank.dot(bank.spread(state.weights) * moments)
        certificate = problem.certificate(state.weights, beta, scores=scores, forms=bank.norms(moments))
        problem.latest = state.weights, beta
        rounded = sum(0.5 * float((c.ridge - c.box.ridge) @ np.square(row)) for c, row in zip(corners, beta, strict=True))
        smooth = self._penalty(problem, state.v) + sum(map(_Corner.loss, corners, state.scores, state.b))
        unsolved = smooth - (certificate.dual - rounded)
        return state._replace(iterate=Iterate(state.weights, beta, certificate), unsolved=unsolved, rounded=rounded)


def _inside(problem, beta):
    """The side of the kink, 1 or -1, of coefficients strictly inside their box and off the kink; 0 for others, (t, n)."""
    kinks = np.stack([box.kink for box in problem.boxes]) > 0.0
    inside = np.stack([box.contains(row) for box, row in zip(problem.boxes, beta, strict=True)])
    return np.where(inside, np.where(kinks, np.sign(beta), 1), 0).astype(np.int8)


def rounded_corners(problem, width):
    """The loss of every output with corners rounded off over a width; `response` gives coefficients at decision values."""
    return [_Corner(box, cost, width) for box, cost in zip(problem.boxes, problem.cost, strict=True)]


class _Corner:
    """A loss through its box, its corners rounded off over a width."""

    def __init__(self, box, cost, width):
        self.box = box
        # points without a cost have no coefficient, whatever their ridge
        self.ridge = np.where(cost > 0.0, box.ridge + width / np.where(cost > 0.0, cost, 1.0), 1.0)

    def response(self, f, zone=None):
        """Coefficients at decision values f, and the curvature of the loss there.

        As if there were no box, and one side of the kink only, for points in the zone.
        """
        box, pull = self.box, self.box.linear - f
        free = np.sign(pull) * np.maximum(np.abs(pull) - box.kink, 0.0) / self.ridge
        beta = np.clip(free, box.lower, box.upper)
        bends = (beta == free) & ((box.kink == 0.0) | (beta != 0.0)) & (box.upper > box.lower)
        if zone is not None:
            beta, bends = np.where(zone != 0, (pull - zone * box.kink) / self.ridge, beta), bends | (zone != 0)
        return beta, np.where(bends, 1.0 / self.ridge, 0.0)

    def near(self, f):
        """Points at decision values f that are inside a rounded corner, or as far from one as it is wide."""
        box, pull = self.box, self.box.linear - f
        reach = self.ridge * (box.upper - box.lower)
        free = np.sign(pull) * np.maximum(np.abs(pull) - box.kink, 0.0)
        inside = (free > self.ridge * box.lower - reach) & (free < self.ridge * box.upper + reach)
        return inside & (np.abs(pull) >= box.kink - reach)

    def loss(self, scores, b):
        """Total loss of the decision values ``scores + b``."""
        f = scores + b
        beta = self.response(f)[0]
        losses = np.sum(beta * (self.box.linear - f) - self.box.kink * np.abs(beta) - 0.5 * self.ridge * beta**2)
        return float(losses + self.box.total * b)


def _factorised(matrix):
    """Cholesky factors of a matrix that rounding may have made slightly indefinite; it is overwritten."""
    shift = 1e-9 * np.trace(matrix)
    for _ in range(10):
        try:
            return cho_factor(matrix, check_finite=False)
        except np.linalg.LinAlgError:
            np.einsum("ii->i", matrix)[:] += shift
            shift *= 10.0
    raise FloatingPointError("The factors hold values that are not numbers: check the data, their scale and the kernels.")


class _System:
    """The quadratic model of one output's loss: Hessian ``[V 1]' diag(bends) [V 1]`` and slopes ``-[V 1]' beta`` at v0, b0."""

    def __init__(self, bank, beta, bends, v0, b0, total):
        r, self.beta, self.bends = bank.width, beta, bends
        self.H, self.z0 = np.empty((r + 1, r + 1)), np.append(v0, b0)
        self.H[:r, :r] = bank.gram(bends)
        self.H[r, :r] = self.H[:r, r] = bank.correlate(bends[None])[0]
        self.H[r, r] = bends.sum()
        self.pull = np.append(bank.correlate(beta[None])[0], beta.sum() - total)

    def solve(self, spread):
        """The minimiser of the model plus ``sum_j v_j^2 / 2 spread_j``."""
        roots = np.append(np.sqrt(spread), 1.0)
        matrix = roots[:, None] * self.H * roots
        diagonal = np.einsum("ii->i", matrix)
        diagonal[:-1] += 1.0
        hold = HOLD * max(
            self.H[-1, -1], 1.0
        )  # a step of the intercept costs a little, since rounding may make it cost nothing
        diagonal[-1] += hold
        right = roots * (self.H @ self.z0 + self.pull)
        right[-1] += hold * self.z0[-1]
        z = roots * cho_solve(_factorised(matrix), right, check_finite=False)
        return z[:-1], z[-1]

    def value(self, v, b):
        """The model's part from the loss, up to a constant."""
        z = np.append(v, b) - self.z0
        return float(0.5 * z @ (self.H @ z) - self.pull @ z)
