"""Newton's method on the dual.

For a smooth conjugate phi, ``D(beta) = y'beta - phi(s(beta))`` has gradient ``y - K_d beta`` and curvature

    H = K_d + 2 M' J M,    M_k = K_k beta,    J = d weights / d s   (diagonal plus rank one),

so that a Newton step over the box is itself an SVM-like quadratic program with kernel H, and the SMO machine solves it. Along
the step every quadratic form is a parabola in the step size, so the line search is exact and costs no pass. An iteration takes
two passes over the kernels, one for ``K_d`` and one for the products with the step.

How precisely the program is solved decides everything: a violation v costs up to ``v sum(cost)`` in the gap, so it is solved to
a fifth of the gap divided by the total cost (`Problem.precision`). With a tolerance that does not know C the method stalls.

Where the conjugate has a kink (the ball with p = 1), the steps are taken on a proximal version of it, whose centre moves and
whose temperature halves when the proximal problem is solved to a third of the true gap.

Outputs that share the weights have one program each, coupled through J; they are solved in turn until they settle. For p = 1
with several outputs that coupling grows as the smoothing cools, and gaps below 1e-5 may be out of reach.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from ..machines import DenseMachine
from ..result import Status
from .base import Iterate, Solver
from .dual import COARSEST, computed, forms_of, judged, rough_start

FINEST = 1e-11  # tolerance of the quadratic program
FIRST_TEMPERATURE = 0.05  # relative to the largest quadratic form of the first SVM
PATIENCE = 4
SWEEPS, SETTLED = 50, 0.03  # over outputs, whose programs are coupled; until a sweep moves less than this part of the step


class State(NamedTuple):
    """Where the ascent stands.

    Attributes
    ----------
    beta : (t, n)
    products : (m, t, n)
    forms : (m,)
    model : has ``conjugate``, ``weights``, ``curvature``
        The regulariser, or a smoothed version of it.
    iterate : Iterate
    best, patience : float, int
        Smallest absolute gap so far, and how many more steps may pass without a smaller one.
    """

    beta: np.ndarray
    products: np.ndarray
    forms: np.ndarray
    model: object
    iterate: Iterate
    best: float = np.inf
    patience: int = PATIENCE


class Newton(Solver):
    """Second-order ascent on the dual of sums of kernels.

    Needs a regulariser with a smooth conjugate or a smoothed stand-in for it, and room for a combined kernel and for the (m, n)
    products.
    """

    max_iter = 200

    def needs(self, problem):
        r = problem.regulariser
        if not (hasattr(r, "curvature") and (r.smooth or hasattr(r, "smoothed"))):
            raise ValueError(
                f"Newton's method needs a conjugate that is smooth, or PNormBall(1); {r!r} has neither: use solver='spg'."
            )
        outputs, n = problem.targets.shape
        products = 16 * problem.bank.m * outputs * n
        if not problem.dense or max(products, outputs * n**2 * problem.bank.dtype.itemsize) > problem.memory_budget:
            raise ValueError(
                f"Newton's method holds a combined kernel for each of {outputs} outputs and the products of {problem.bank.m} "
                f"kernels with {n} points, which are over the memory budget: raise cache_size or use solver='spg'."
            )

    def init(self, problem):
        beta, products, forms, size = rough_start(problem)
        model = problem.regulariser
        if not model.smooth:
            weights = 0.9 * problem.start[0] + 0.1 / forms.size  # an earlier result may lack kernels that are needed now
            longest = forms.max() / size**2
            model = model.smoothed(weights, FIRST_TEMPERATURE * longest if longest > 0.0 else 1.0)
        return _state(problem, beta, products, forms, model)

    def step(self, problem, state, tol):
        model = self._model(problem, state)
        change = self._solve_program(problem, state, model) - state.beta
        moved = problem.products(change)
        slope, curve = np.einsum("ktn,tn->k", state.products, change), forms_of(moved, change)
        size = _line_search(problem, state, model, change, slope, curve)
        forms = np.maximum(state.forms + 2 * size * slope + size**2 * curve, 0.0)
        new = _state(problem, state.beta + size * change, state.products + size * moved, forms, model)
        gap = new.iterate.certificate.absolute_gap
        if new.iterate.certificate.gap <= tol:  # products were updated, not computed: judge by fresh ones
            new = _sparse(problem, _fresh(problem, new), tol)
        new = new._replace(best=min(state.best, gap), patience=PATIENCE if gap < state.best else state.patience - 1)
        return new if new.patience > 0 else self._stuck(problem, new)

    def _model(self, problem, state):
        """The function to step on: a new centre once the proximal problem of the old one is nearly solved."""
        if not hasattr(state.model, "centre"):
            return state.model
        weights = state.iterate.weights
        apart = state.iterate.certificate.primal - problem.dual_linear(state.beta)  # the gap but for the kernels' part
        gap = apart + problem.regulariser.conjugate(state.forms)
        proximal = apart + state.model.conjugate(state.forms) + state.model.divergence(weights)
        return state.model.recentred(weights) if proximal < 0.3 * gap else state.model

    def _solve_program(self, problem, state, model):
        """The maximiser over the box of the quadratic model of the dual, output by output."""
        weights = model.weights(state.forms)
        K = problem.combine(weights)
        J = model.curvature(state.forms)
        certificate = state.iterate.certificate
        tol = problem.unit * np.clip(problem.precision(certificate.absolute_gap, state.beta), FINEST, COARSEST)
        scores = np.einsum("k,ktn->tn", weights, state.products)
        target, pull = state.beta.copy(), np.zeros(len(weights))
        machine, outputs = DenseMachine(), range(len(target))
        kernels = [_curved(K, state.products[:, c], J) for c in outputs]
        for _ in range(SWEEPS if len(target) > 1 else 1):
            last = target.copy()
            for c in outputs:
                M, before = state.products[:, c], target[c].copy()
                coupling = 2.0 * (_apply(J, pull - M @ (target[c] - state.beta[c])) @ M)
                own = kernels[c] @ (target[c] - state.beta[c])
                box = problem.boxes[c]
                F = scores[c] + box.ridge * target[c] - box.linear + own + coupling
                steps, _ = machine.ascend(kernels[c], box, target[c], F, tol, 1_000_000)
                problem.counters.machine_steps += steps
                pull += M @ (target[c] - before)
            if np.abs(target - last).max() <= SETTLED * np.abs(target - state.beta).max():
                break
        problem.counters.svm_solves += len(target)
        return target

    def _stuck(self, problem, state):
        """No smaller gap for a while: finer kernels or, if they are fine, the end."""
        if problem.refine():
            return _fresh(problem, state)._replace(patience=PATIENCE)
        return state._replace(iterate=state.iterate._replace(ended=Status.STALLED))


def _state(problem, beta, products, forms, model):
    return State(beta, products, forms, model, judged(problem, model, beta, products, forms))


def _fresh(problem, state):
    """The same point with products computed anew."""
    products, forms, iterate = computed(problem, state.model, state.beta)
    return State(state.beta, products, forms, state.model, iterate)


def _sparse(problem, state, tol):
    """The same point without kernels of negligible weight, if it is still good enough; only smoothed weights need it."""
    weights = state.iterate.weights
    if not hasattr(state.model, "centre"):
        return state
    ascending = np.sort(weights)
    for share in (1e-1, 1e-2, 1e-3):  # of the tolerance: as much weight as may be dropped
        cut = ascending[np.searchsorted(np.cumsum(ascending), share * tol)]
        kept = np.where(weights >= cut, weights, 0.0)
        kept /= kept.sum()
        scores = np.einsum("k,ktn->tn", kept, state.products)
        certificate = problem.certificate(kept, state.beta, scores=scores, forms=state.forms)
        if certificate.gap <= tol:
            return state._replace(iterate=Iterate(kept, state.beta, certificate))
    return state


def _apply(J, x):
    """``J x`` for a diagonal plus rank-one matrix."""
    return J.diagonal * x + J.factor * (J.vector @ x) * J.vector


def _curved(K, M, J):
    """``K + 2 M' J M``, in the precision of K."""
    rows = (M * np.sqrt(2.0 * J.diagonal)[:, None]).astype(K.dtype)
    out = rows.T @ rows
    out += K
    v = (J.vector @ M).astype(K.dtype)
    out += K.dtype.type(2.0 * J.factor) * np.outer(v, v)
    return out


def _line_search(problem, state, model, change, slope, curve):
    """The step in [0, 1] that maximises the dual along the change, exactly."""

    def loss(size):
        forms = np.maximum(state.forms + 2 * size * slope + size**2 * curve, 0.0)
        return model.conjugate(forms) - problem.dual_linear(state.beta + size * change)

    inner = minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9})
    # near the optimum the dual is flat to the last digit while the primal still gains from a whole step
    slack = 1e-13 * (abs(loss(0.0)) + abs(inner.fun))
    return 1.0 if loss(1.0) <= inner.fun + slack else inner.x
