"""Newton's method on the dual.

For a smooth conjugate phi, ``D(beta) = y'beta - phi(s(beta))`` has gradient ``y - K_d beta`` and
curvature

    H = K_d + 2 M' J M,    M_k = K_k beta,    J = d weights / d s   (diagonal plus rank one),

so that a Newton step over the box is itself an SVM-like quadratic program with kernel H, and the
SMO machine solves it. Along the step every quadratic form is a parabola in the step size, so the
line search is exact and costs no pass. An iteration takes two passes over the kernels, one for
``K_d`` and one for the products with the step.

The products M are either held, or never in memory: then the first pass adds up H itself, and the
second gives the parabolas (see `points`). So a million kernels take no more memory than a few
numbers for each.

How precisely the program is solved decides everything: a violation v costs up to ``v sum(cost)`` in
the gap, so it is solved to a fifth of the gap divided by the total cost
(`Problem.inner_tolerance`). With a tolerance that does not know C the method stalls.

Where the conjugate has a kink (the ball with p = 1), the steps are taken on a proximal version of
it, whose center moves and whose temperature halves when the proximal problem is solved to a third
of the true gap.

Outputs that share the weights have one program each, coupled through J; they are solved in turn
until they settle. For p = 1 with several outputs that coupling grows as the smoothing cools, and
gaps below 1e-5 may be out of reach.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from ..machines import DenseMachine
from .base import Iterate, Solver, patient
from .dual import FIRST_TOLERANCE, best_multiple, first_svm
from .points import HeldPoint, StreamedPoint
from .wrappers.kernels_first import FromKernels, WorkingSet

SMALLEST_TOLERANCE = 1e-11  # of the quadratic program
# first temperature relative to the gap of a start that is nearly optimal, and the lowest
COOL, COOLEST = 0.1, 1e-3
PATIENCE = 4
# over outputs, whose programs are coupled; until a sweep moves less than this part of the step
SWEEPS, SETTLED = 50, 0.03
STEP = 1e-3  # error of the length of a step, as a part of it
HELD = 2**24  # bytes of products that are held in any case
CHEAP = 100  # kernels, from which on sweeps that cost the same for any number are used
MANY = 10_000  # kernels, from which on a part of them is looked at first


class State(NamedTuple):
    """Where the ascent stands.

    Attributes
    ----------
    point : HeldPoint or StreamedPoint
    model : has ``conjugate``, ``weights``, ``curvature``
        The regularizer, or a smoothed version of it.
    iterate : Iterate
    best, patience : float, int
        Smallest absolute gap so far, and how many more steps may pass without a smaller one.
    """

    point: object
    model: object
    iterate: Iterate
    best: float = np.inf
    patience: int = PATIENCE


class Newton(Solver):
    """Second-order ascent on the dual of sums of kernels.

    Needs a regularizer with a smooth conjugate or a smoothed stand-in for it, and room for a
    combined kernel and for the (m, n) products, unless the bank can do without them.

    Parameters
    ----------
    streamed : bool, optional
        Whether to do without the products of all kernels; by default where they are large and the
        bank can.
    partial : bool, optional
        Whether to look at a part of the kernels first: for p = 1 at those which may have weight
        (`WorkingSet`), otherwise at a sample, whose solution is a good start for all
        (`FromKernels`); by default where kernels are many and the bank can.
    temperature : float
        Of the first smoothing for p = 1, relative to the largest quadratic form of the first SVM.
    """

    title = "Newton's method"
    max_iter = 200

    def __init__(self, streamed=None, partial=None, temperature=0.05):
        self.streamed, self.partial, self.temperature = streamed, partial, temperature

    def needs(self, run):
        r = run.problem.regularizer
        if not (r.has_curvature and (r.smooth or r.has_smoothed)):
            raise ValueError(
                f"Newton's method needs a conjugate that is smooth, or PNormBall(1); {r!r} has "
                "neither: use solver='spg'."
            )
        outputs, n = run.problem.targets.shape
        held = _sizes(run)[1 if self._streams(run) else 0]
        largest = max(held, outputs * n**2 * run.bank.dtype.itemsize)
        if not run.holds_kernel or largest > run.memory_budget:
            raise ValueError(
                f"Newton's method holds a combined kernel for each of {outputs} outputs and the "
                f"products of {run.bank.m} kernels with {n} points, or their sums for each pair of "
                "outputs, which are over the memory budget: raise cache_size or use solver='spg'."
            )

    def _streams(self, run):
        """Whether to do without the products."""
        if self.streamed is not None:
            return self.streamed
        products, sums = _sizes(run)
        if run.bank.cheap_sweeps:
            outputs = len(run.problem.targets)
            return run.bank.m >= CHEAP * outputs**2 and sums <= run.memory_budget
        return run.bank.streams and products > max(HELD, sums)

    def planned(self, run):
        wanted = run.bank.m >= MANY if self.partial is None else self.partial
        if not wanted or not run.bank.cheap_subsets:
            return self
        wrapper = FromKernels if run.problem.regularizer.smooth else WorkingSet
        return wrapper(Newton(self.streamed, False, self.temperature))

    def cooled(self, gap):
        """The same method for a start with so small a relative gap."""
        temperature = min(self.temperature, max(COOL * gap, COOLEST))
        return Newton(self.streamed, self.partial, temperature)

    def init(self, run):
        return self.begin(run, first_svm(run))

    def begin(self, run, beta):
        """The first state, from coefficients that need not be an SVM's."""
        point = (StreamedPoint if self._streams(run) else HeldPoint).at(run, beta)
        size = best_multiple(run.problem, beta, point.forms)
        return _state(run, point.times(size), self._first_model(run, point.forms))

    def _first_model(self, run, forms):
        """The regularizer, or its smooth stand-in around the first weights."""
        model = run.problem.regularizer
        if model.smooth:
            return model
        # an earlier result may lack kernels that are needed now
        weights = 0.9 * run.start.weights + 0.1 / forms.size
        longest = forms.max()
        return model.smoothed(weights, self.temperature * longest if longest > 0.0 else 1.0)

    def step(self, run, state, tol):
        model = self._model(run.problem, state)
        point, program = state.point.program(run, model)
        line = point.line(run, self._solve(run, state, program) - point.beta)
        size = _line_search(run.problem, point, model, line)
        new = _state(run, point.moved(line, size), model)
        gap = new.iterate.certificate.absolute_gap
        # forms were updated, not computed: judge by fresh ones
        if new.iterate.certificate.gap <= tol:
            new = _sparse(run, _state(run, new.point.fresh(run), model), tol)
        return patient(new, state, gap, PATIENCE)

    def refreshed(self, run, state):
        return _state(run, state.point.at(run, state.point.beta), state.model)

    @staticmethod
    def _model(problem, state):
        """The function to step on: a new center once the proximal problem of the old one is nearly
        solved.
        """
        if not state.model.is_stand_in:
            return state.model
        weights, point = state.iterate.weights, state.point
        # the gap but for the kernels' part
        apart = state.iterate.certificate.primal - problem.dual_linear(point.beta)
        gap = apart + problem.regularizer.conjugate(point.forms)
        proximal = apart + state.model.conjugate(point.forms) + state.model.divergence(weights)
        return state.model.recentered(weights) if proximal < 0.3 * gap else state.model

    @staticmethod
    def _solve(run, state, program):
        """The maximizer over the box of the quadratic model of the dual, output by output."""
        problem, beta, certificate = run.problem, state.point.beta, state.iterate.certificate
        wanted = problem.inner_tolerance(certificate.absolute_gap, beta)
        tol = problem.unit * np.clip(wanted, SMALLEST_TOLERANCE, FIRST_TOLERANCE)
        target, machine = beta.copy(), DenseMachine()
        for _ in range(SWEEPS if len(beta) > 1 else 1):
            last = target.copy()
            for c, (kernel, box) in enumerate(zip(program.kernels, problem.boxes, strict=True)):
                F = program.scores[c] + box.ridge * target[c] - box.linear
                F += kernel @ (target[c] - beta[c])
                if len(beta) > 1:
                    F += program.coupling(c)
                steps, _ = machine.ascend(kernel, box, target[c], F, tol, 1_000_000)
                run.counters.machine_steps += steps
                program.moved(c, target[c] - beta[c])
            if np.abs(target - last).max() <= SETTLED * np.abs(target - beta).max():
                break
        run.counters.svm_solves += len(target)
        return target


def _sizes(run):
    """Bytes of the products of all kernels, and of what is kept of them by a sweep."""
    outputs, n = run.problem.targets.shape
    parts = run.bank.threads.count + 1
    return 16 * run.bank.m * outputs * n, 8 * parts * (outputs * n) ** 2


def _state(run, point, model):
    point, iterate = point.judged(run, model)
    return State(point, model, iterate)


def _sparse(run, state, tol):
    """The same point without kernels of negligible weight, if it is still good enough; only
    smoothed weights need it.
    """
    weights, point = state.iterate.weights, state.point
    if not state.model.is_stand_in:
        return state
    ascending = np.sort(weights)
    for share in (1e-1, 1e-2, 1e-3):  # of the tolerance: as much weight as may be dropped
        cut = ascending[np.searchsorted(np.cumsum(ascending), share * tol)]
        kept = np.where(weights >= cut, weights, 0.0)
        kept /= kept.sum()
        scores = point.scores(run, kept)
        certificate = run.certificate(kept, point.beta, scores=scores, forms=point.forms)
        if certificate.gap <= tol:
            return state._replace(iterate=Iterate(kept, point.beta, certificate))
    return state


def _line_search(problem, point, model, line):
    """The step in [0, 1] that maximizes the dual along the line: where its slope is zero.

    The slope of the conjugate is half the weights, so that the last look at them is the one that
    the next iteration needs.
    """

    def slope(size):
        forms, change = line.forms(point.forms, size), 2.0 * (line.slope + size * line.curve)
        linear = problem.dual_slope(point.beta + size * line.change, line.change)
        return linear - 0.5 * float(model.weights(forms) @ change)

    def loss(size):
        linear = problem.dual_linear(point.beta + size * line.change)
        return model.conjugate(line.forms(point.forms, size)) - linear

    first, last = slope(0.0), slope(1.0)
    if last >= 0.0:
        return 1.0
    inner = brentq(slope, 0.0, 1.0, xtol=1e-9, rtol=STEP, maxiter=50) if first > 0.0 else 0.0
    # near the optimum the dual is flat to the last digit while the primal still gains from a whole
    # step
    value = loss(inner)
    slack = 1e-13 * (abs(loss(0.0)) + abs(value))
    return 1.0 if loss(1.0) <= value + slack else inner
