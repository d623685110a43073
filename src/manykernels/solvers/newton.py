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

from ..banks.sample import SampledBank
from ..machines import DenseMachine
from ..result import Status
from .base import Iterate, Solver
from .dual import FIRST_TOLERANCE, best_multiple, first_svm
from .points import HeldPoint, StreamedPoint
from .wrappers import working_set

SMALLEST_TOLERANCE = 1e-11  # tolerance of the quadratic program
# first temperature relative to the gap of a start that is nearly optimal, and the lowest
COOL, COOLEST = (
    0.1,
    1e-3,
)
PATIENCE = 4
# over outputs, whose programs are coupled; until a sweep moves less than this part of the step
SWEEPS, SETTLED = (
    50,
    0.03,
)
STEP = 1e-3  # error of the length of a step, as a part of it
HELD = 2**24  # bytes of products that are held in any case
CHEAP = 100  # kernels, from which on sweeps that cost the same for any number are used
MANY = 10_000  # kernels, from which on a part of them is looked at first
# one kernel in so many, but so many at least; the gap to reach on them
SAMPLE, SMALLEST_SAMPLE, ROUGH = (
    32,
    1000,
    1e-3,
)


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
        (`working_set`), otherwise at a sample, whose solution is a good start for all; by default
        where kernels are many and the bank can.
    temperature : float
        Of the first smoothing for p = 1, relative to the largest quadratic form of the first SVM.
    """

    max_iter = 200

    def __init__(self, streamed=None, partial=None, temperature=0.05):
        self.streamed, self.partial, self.temperature = streamed, partial, temperature

    def needs(self, problem):
        r = problem.regularizer
        if not (hasattr(r, "curvature") and (r.smooth or hasattr(r, "smoothed"))):
            raise ValueError(
                f"Newton's method needs a conjugate that is smooth, or PNormBall(1); {r!r} has "
                "neither: use solver='spg'."
            )
        outputs, n = problem.targets.shape
        held = _sizes(problem)[1 if self._streams(problem) else 0]
        if (
            not problem.dense
            or max(held, outputs * n**2 * problem.bank.dtype.itemsize) > problem.memory_budget
        ):
            raise ValueError(
                f"Newton's method holds a combined kernel for each of {outputs} outputs and the "
                f"products of {problem.bank.m} "
                f"kernels with {n} points, or their sums for each pair of outputs, which are over "
                "the memory budget: raise "
                "cache_size or use solver='spg'."
            )

    def _streams(self, problem):
        """Whether to do without the products."""
        if self.streamed is not None:
            return self.streamed
        products, sums = _sizes(problem)
        if problem.bank.cheap_sweeps:
            return (
                problem.bank.m >= CHEAP * len(problem.targets) ** 2
                and sums <= problem.memory_budget
            )
        return problem.bank.streams and products > max(HELD, sums)

    def _parts(self, problem):
        """Whether to look at a part of the kernels first."""
        wanted = problem.bank.m >= MANY if self.partial is None else self.partial
        return wanted and problem.bank.cheap_subsets

    def init(self, problem):
        parts = self._parts(problem)
        if parts and not problem.regularizer.smooth:
            return working_set.begin(self, problem)
        beta = (
            self._sampled(problem) if parts and not problem.start[1].any() else first_svm(problem)
        )
        point = (StreamedPoint if self._streams(problem) else HeldPoint).at(problem, beta)
        size = best_multiple(problem, beta, point.forms)
        return _state(problem, point.times(size), self._first_model(problem, point.forms))

    def direct(self):
        return Newton(self.streamed, False, self.temperature)

    def whole(self, gap=np.inf):
        """The same method for all kernels at once, from a start with so large a relative gap."""
        return Newton(
            self.streamed,
            partial=False,
            temperature=min(self.temperature, max(COOL * gap, COOLEST)),
        )

    def _sampled(self, problem):
        """Coefficients that solve the problem of a sample of the kernels."""
        sampled = SampledBank(
            problem.bank, min(problem.bank.m, max(SMALLEST_SAMPLE, problem.bank.m // SAMPLE))
        )
        weights, beta = problem.start
        if not hasattr(problem.regularizer, "repeated"):
            return working_set.solved(self.whole(), problem, sampled, weights, beta, ROUGH).beta
        # the same problem with short vectors
        bank = problem.bank.subset(
            sampled.chosen, problem.regularizer.repeated(sampled.m / sampled.size)
        )

        def embed(some):
            return problem.regularizer.adopt(some[sampled.stands_for])

        return working_set.solved(
            self.whole(), problem, bank, weights[sampled.chosen], beta, ROUGH, embed
        ).beta

    def _first_model(self, problem, forms):
        """The regularizer, or its smooth stand-in around the first weights."""
        model = problem.regularizer
        if model.smooth:
            return model
        # an earlier result may lack kernels that are needed now
        weights = 0.9 * problem.start[0] + 0.1 / forms.size
        longest = forms.max()
        return model.smoothed(weights, self.temperature * longest if longest > 0.0 else 1.0)

    def step(self, problem, state, tol):
        if isinstance(state, working_set.WorkingSet):
            return working_set.advanced(self, problem, state, tol)
        model = self._model(problem, state)
        point, program = state.point.program(problem, model)
        line = point.line(problem, self._solve(problem, state, program) - point.beta)
        new = _state(problem, point.moved(line, _line_search(problem, point, model, line)), model)
        gap = new.iterate.certificate.absolute_gap
        # forms were updated, not computed: judge by fresh ones
        if new.iterate.certificate.gap <= tol:
            new = _sparse(problem, _state(problem, new.point.fresh(problem), model), tol)
        new = new._replace(
            best=min(state.best, gap), patience=PATIENCE if gap < state.best else state.patience - 1
        )
        return new if new.patience > 0 else self._stuck(problem, new)

    def _model(self, problem, state):
        """The function to step on: a new center once the proximal problem of the old one is nearly
        solved.
        """
        if not hasattr(state.model, "center"):
            return state.model
        weights, point = state.iterate.weights, state.point
        # the gap but for the kernels' part
        apart = state.iterate.certificate.primal - problem.dual_linear(point.beta)
        gap = apart + problem.regularizer.conjugate(point.forms)
        proximal = apart + state.model.conjugate(point.forms) + state.model.divergence(weights)
        return state.model.recentered(weights) if proximal < 0.3 * gap else state.model

    def _solve(self, problem, state, program):
        """The maximizer over the box of the quadratic model of the dual, output by output."""
        beta, certificate = state.point.beta, state.iterate.certificate
        tol = problem.unit * np.clip(
            problem.inner_tolerance(certificate.absolute_gap, beta),
            SMALLEST_TOLERANCE,
            FIRST_TOLERANCE,
        )
        target, machine = beta.copy(), DenseMachine()
        for _ in range(SWEEPS if len(beta) > 1 else 1):
            last = target.copy()
            for c, (kernel, box) in enumerate(zip(program.kernels, problem.boxes, strict=True)):
                F = (
                    program.scores[c]
                    + box.ridge * target[c]
                    - box.linear
                    + kernel @ (target[c] - beta[c])
                )
                if len(beta) > 1:
                    F += program.coupling(c)
                steps, _ = machine.ascend(kernel, box, target[c], F, tol, 1_000_000)
                problem.counters.machine_steps += steps
                program.moved(c, target[c] - beta[c])
            if np.abs(target - last).max() <= SETTLED * np.abs(target - beta).max():
                break
        problem.counters.svm_solves += len(target)
        return target

    def _stuck(self, problem, state):
        """No smaller gap for a while: finer kernels or, if they are fine, the end."""
        if problem.refine():
            return _state(problem, state.point.at(problem, state.point.beta), state.model)
        return state._replace(iterate=state.iterate._replace(ended=Status.STALLED))


def _sizes(problem):
    """Bytes of the products of all kernels, and of what is kept of them by a sweep."""
    outputs, n = problem.targets.shape
    return 16 * problem.bank.m * outputs * n, 8 * (problem.bank.threads.count + 1) * (
        outputs * n
    ) ** 2


def _state(problem, point, model):
    point, iterate = point.judged(problem, model)
    return State(point, model, iterate)


def _sparse(problem, state, tol):
    """The same point without kernels of negligible weight, if it is still good enough; only
    smoothed weights need it.
    """
    weights, point = state.iterate.weights, state.point
    if not hasattr(state.model, "center"):
        return state
    ascending = np.sort(weights)
    for share in (1e-1, 1e-2, 1e-3):  # of the tolerance: as much weight as may be dropped
        cut = ascending[np.searchsorted(np.cumsum(ascending), share * tol)]
        kept = np.where(weights >= cut, weights, 0.0)
        kept /= kept.sum()
        certificate = problem.certificate(
            kept, point.beta, scores=point.scores(problem, kept), forms=point.forms
        )
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
        return problem.dual_slope(point.beta + size * line.change, line.change) - 0.5 * float(
            model.weights(forms) @ change
        )

    def loss(size):
        return model.conjugate(line.forms(point.forms, size)) - problem.dual_linear(
            point.beta + size * line.change
        )

    first, last = slope(0.0), slope(1.0)
    if last >= 0.0:
        return 1.0
    inner = brentq(slope, 0.0, 1.0, xtol=1e-9, rtol=STEP, maxiter=50) if first > 0.0 else 0.0
    # near the optimum the dual is flat to the last digit while the primal still gains from a whole
    # step
    value = loss(inner)
    slack = 1e-13 * (abs(loss(0.0)) + abs(value))
    return 1.0 if loss(1.0) <= value + slack else inner
