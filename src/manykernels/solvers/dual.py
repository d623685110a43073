"""Parts of solvers that ascend on the dual: a point to begin from, quadratic programs, and the
points of Newton's method.

A point knows beta and its quadratic forms. It is judged by a regularizer, makes the quadratic
program of the next step, and says how the forms change along a step. `HeldPoint` keeps the products
``K_k beta``, (m, t, n) numbers, and updates them. `StreamedPoint` keeps none: one sweep over the
kernels adds up what judging and the program need of them, (t, t, n, n) numbers, and another gives
the forms along the step.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from ..banks.base import SumBank, Sums
from ..machines import DenseMachine, machine_for
from ..machines.device import DeviceMachine
from ..problem import Problem
from ..regularizers.base import Curvature, Regularizer
from ..run_state import RunState
from .base import Iterate


@dataclass(frozen=True)
class Tolerances:
    """The numbers that methods on the dual share."""

    # Violation of the first SVM, and the largest of a program; larger: rougher starts.
    first_inner_tolerance: float = 0.1
    # Violation below which no program is solved; larger: small gaps are out of reach.
    smallest_inner_tolerance: float = 1e-11
    # Factor on the first coefficients at least; larger: a start that is too long stays so.
    smallest_multiple: float = math.exp(-20.0)
    # Sweeps over outputs, whose programs are coupled; larger: more precise and dearer steps.
    sweeps_over_outputs: int = 50
    # Part of the step that the last sweep may still change; larger: fewer sweeps.
    sweep_settled_below: float = 0.03
    # Steps of the machine for one program; larger: hard programs take longer to give up.
    machine_steps: int = 1_000_000


TOLERANCES = Tolerances()


def rough_start(run: RunState) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coefficients, products and forms of an SVM solved roughly at the first weights, times the
    factor that suits the dual.
    """
    beta = first_svm(run)
    products = run.products(beta)
    forms = forms_of(products, beta)
    size = best_multiple(run.problem, beta, forms)
    return size * beta, size * products, size**2 * forms


def first_svm(run: RunState) -> np.ndarray:
    """Coefficients of an SVM solved roughly at the first weights."""
    return run.evaluate(*run.start, TOLERANCES.first_inner_tolerance).beta


def judged(
    run: RunState, model: Regularizer, beta: np.ndarray, products: np.ndarray, forms: np.ndarray
) -> Iterate:
    """The iterate at beta, with the weights that belong to its forms."""
    weights = model.weights(forms)
    scores = (weights @ products.reshape(len(products), -1)).reshape(beta.shape)
    return Iterate(weights, beta, run.certificate(weights, beta, scores=scores, forms=forms))


def computed(
    run: RunState, model: Regularizer, beta: np.ndarray
) -> tuple[np.ndarray, np.ndarray, Iterate]:
    """Products, forms and iterate at beta, from a fresh pass over the kernels."""
    products = run.products(beta)
    forms = forms_of(products, beta)
    return products, forms, judged(run, model, beta, products, forms)


def forms_of(products: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """Quadratic forms ``sum_c beta_c' products[k, c]``, which rounding must not make negative."""
    return np.maximum(inner(products, beta), 0.0)


def inner(products: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """``sum_c beta_c' products[k, c]`` for every kernel: `np.tensordot`, which takes longer to
    begin than a small one takes.
    """
    return products.reshape(len(products), -1) @ beta.ravel()


def best_multiple(problem: Problem, beta: np.ndarray, forms: np.ndarray) -> float:
    """The factor in (0, 1] on beta with the largest dual value; one where the sum of beta is given.

    It costs nothing and saves up to ten iterations where the scale of the weights is not known
    beforehand (the squared norm).
    """
    if problem.has_fixed_sum:
        return 1.0
    if problem.regularizer.homogeneous:
        return max(problem.best_scale(beta, forms), TOLERANCES.smallest_multiple)

    def loss(log_size: float) -> float:
        size = np.exp(log_size)
        return problem.regularizer.conjugate(size**2 * forms) - problem.dual_linear(size * beta)

    bounds = (np.log(TOLERANCES.smallest_multiple), 0.0)
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.01})
    return 1.0 if loss(0.0) <= found.fun else float(np.exp(found.x))


# --- the quadratic program of a Newton step -------------------------------------------------------


def maximizer(
    run: RunState, beta: np.ndarray, gap: float, program: "HeldProgram | StreamedProgram"
) -> np.ndarray:
    """The maximizer over the box of a quadratic model of the dual around beta, output by output;
    what the loss has in it is taken as it is.

    How precisely it is solved decides everything: a violation v costs up to ``v sum(cost)`` in the
    gap, so it is solved to a fifth of the absolute gap divided by the total cost
    (`Problem.inner_tolerance`). With a tolerance that does not know C the method stalls.

    Parameters
    ----------
    run : RunState
    beta : (t, n) array
    gap : float
        Absolute gap at beta.
    program : HeldProgram or StreamedProgram
    """
    problem = run.problem
    wanted = problem.inner_tolerance(gap, beta)
    bounds = TOLERANCES.smallest_inner_tolerance, TOLERANCES.first_inner_tolerance
    tol = problem.unit * np.clip(wanted, *bounds)
    target = beta.copy()
    for _ in range(TOLERANCES.sweeps_over_outputs if len(beta) > 1 else 1):
        last = target.copy()
        for c, (kernel, box) in enumerate(zip(program.kernels, problem.boxes, strict=True)):
            F = program.scores[c] + box.ridge * target[c] - box.linear
            machine, kernel = machine_for(kernel, box)
            if len(beta) > 1:
                F += machine.multiply(kernel, target[c] - beta[c]) + program.coupling(c)
            before = F.copy()
            allowed = run.machine_steps(TOLERANCES.machine_steps)
            with run.algebra():
                steps, _ = machine.ascend(kernel, box, target[c], F, tol, allowed)
            run.count_steps(steps, allowed)
            change = target[c] - last[c]
            program.moved(c, target[c] - beta[c], F - before - box.ridge * change)
        moved, whole = np.abs(target - last).max(), np.abs(target - beta).max()
        if moved <= TOLERANCES.sweep_settled_below * whole:
            break
    run.counters.svm_solves += len(target)
    return target


class HeldProgram:
    """The curvature ``H_ce = [c = e] K + 2 M_c' J M_e`` between outputs c and e, by the products.

    Attributes
    ----------
    kernels : list
        ``H_cc`` as machines take it, in the precision of K.
    scores : (t, n)
    """

    def __init__(
        self, bank: SumBank, K: np.ndarray, products: np.ndarray, J: Curvature, scores: np.ndarray
    ) -> None:
        self.products, self.J, self.scores = products, J, scores
        self.kernels = [bank.curved(K, products[:, c], J) for c in range(products.shape[1])]
        self._pulls = np.zeros((len(self.kernels), len(products)))
        self._bent = np.zeros((len(self.kernels), products.shape[2]))

    def moved(self, c: int, change: np.ndarray, bent: np.ndarray) -> None:
        """Take note of how far output c has gone, and of ``H_cc`` times its last step."""
        self._pulls[c] = self.products[:, c] @ change
        self._bent[c] += bent

    def times_kernel(self) -> np.ndarray:
        """``K change_c`` of every output, (t, n): what the machines know, without the curvature."""
        J = self.J
        inside = self._pulls * J.diagonal + J.factor * np.outer(self._pulls @ J.vector, J.vector)
        return self._bent - 2.0 * np.einsum("ck,kcn->cn", inside, self.products)

    def coupling(self, c: int) -> np.ndarray:
        """``sum_e H_ce change_e`` over the other outputs, (n,)."""
        x, J = self._pulls.sum(axis=0) - self._pulls[c], self.J
        return 2.0 * ((J.diagonal * x + J.factor * (J.vector @ x) * J.vector) @ self.products[:, c])


class StreamedProgram:
    """The curvature of `HeldProgram` by sums over the kernels."""

    def __init__(self, sums: Sums, factor: float, beta: np.ndarray, dtype: np.dtype) -> None:
        self.sums, self.factor, self.scores = sums, factor, sums.times(beta)
        kind = np.dtype(dtype).type
        self.kernels = [sums.curved(c, factor, kind) for c in range(len(beta))]
        self._changes = np.zeros_like(beta)

    def moved(self, c: int, change: np.ndarray, bent: np.ndarray) -> None:
        self._changes[c] = change

    def coupling(self, c: int) -> np.ndarray:
        others = (e for e in range(len(self._changes)) if e != c)
        return sum(
            (2.0 * self.sums.between(c, e, self.factor, self._changes[e]) for e in others),
            np.zeros(self._changes.shape[1]),
        )


def multiply(K: Any, beta: np.ndarray) -> np.ndarray:
    """``K beta_c`` of every output, (t, n)."""
    machine = DenseMachine() if isinstance(K, np.ndarray) else DeviceMachine()
    return np.stack([machine.multiply(K, b) for b in beta])


# --- points of Newton's method, with the products of all kernels in memory or without -------------


def held_bytes(run: RunState) -> int:
    """Bytes of the products of all kernels, with those of a step."""
    outputs, n = run.problem.targets.shape
    return 16 * run.bank.m * outputs * n


class Line(NamedTuple):
    """Quadratic forms ``s + 2 size slope + size^2 curve`` along a change of beta.

    Attributes
    ----------
    change : (t, n)
    slope, curve : (m,)
    products : (m, t, n), or what does as an array where the bank keeps them; None if not held
    """

    change: np.ndarray
    slope: np.ndarray
    curve: np.ndarray
    products: Any = None

    def forms(self, start: np.ndarray, size: float) -> np.ndarray:
        """Forms after a step of this size, which rounding must not make negative."""
        return np.maximum(start + 2 * size * self.slope + size**2 * self.curve, 0.0)


class HeldPoint(NamedTuple):
    """A point with the products of all kernels: beta (t, n), products (m, t, n), forms (m,)."""

    beta: np.ndarray
    products: np.ndarray
    forms: np.ndarray

    @classmethod
    def at(cls, run: RunState, beta: np.ndarray) -> "HeldPoint":
        products = run.held_products(beta)
        return cls(beta, products, forms_of(products, beta))

    def times(self, size: float) -> "HeldPoint":
        """The point of a multiple of beta."""
        return HeldPoint(size * self.beta, size * self.products, size**2 * self.forms)

    def only(self, kernels: np.ndarray) -> "HeldPoint":
        """The point for some of the kernels."""
        if len(kernels) == len(self.forms):
            return self
        return HeldPoint(self.beta, self.products[kernels], self.forms[kernels])

    def judged(self, run: RunState, model: Regularizer) -> tuple["HeldPoint", Iterate]:
        """The point, and the iterate with the weights that belong to its forms."""
        return self, judged(run, model, self.beta, self.products, self.forms)

    def fresh(self, run: RunState) -> "HeldPoint":
        """This point, computed anew to be judged again."""
        return self.at(run, self.beta)

    def scores(self, run: RunState, weights: np.ndarray) -> np.ndarray:
        """``K_d beta`` for any weights d."""
        m, *shape = self.products.shape
        return (weights @ self.products.reshape(m, -1)).reshape(shape)

    def program(self, run: RunState, model: Regularizer) -> tuple["HeldPoint", HeldProgram]:
        """The curvature of the dual here, and the point that knows it."""
        weights = model.weights(self.forms)
        K, J = run.held_kernel(weights), model.curvature(self.forms)
        return self, HeldProgram(run.bank, K, self.products, J, self.scores(run, weights))

    def line(self, run: RunState, change: np.ndarray) -> Line:
        moved = run.held_products(change)
        return Line(change, inner(self.products, change), forms_of(moved, change), moved)

    def moved(self, line: Line, size: float) -> "HeldPoint":
        """The point after a step along a line."""
        products = size * line.products
        products += self.products  # a large array less
        return HeldPoint(self.beta + size * line.change, products, line.forms(self.forms, size))


class Sweep(NamedTuple):
    """Weights and sums of a sweep over the kernels for a model."""

    model: Regularizer
    weights: np.ndarray
    sums: Sums


class StreamedPoint(NamedTuple):
    """A point without products, with the last sweep here if there was one."""

    beta: np.ndarray
    forms: np.ndarray
    sweep: Sweep | None = None

    @classmethod
    def at(cls, run: RunState, beta: np.ndarray) -> "StreamedPoint":
        return cls(beta, run.quadratic_forms(beta))

    def times(self, size: float) -> "StreamedPoint":
        return StreamedPoint(size * self.beta, size**2 * self.forms)

    def judged(self, run: RunState, model: Regularizer) -> tuple["StreamedPoint", Iterate]:
        sweep, beta = self._swept(run, model), self.beta
        scores = sweep.sums.times(beta)
        certificate = run.certificate(sweep.weights, beta, scores=scores, forms=self.forms)
        return self._replace(sweep=sweep), Iterate(sweep.weights, beta, certificate)

    def fresh(self, run: RunState) -> "StreamedPoint":
        # any weights are good for a certificate: those of the sweep, whose scores are known, save
        # another one
        return self._replace(forms=run.quadratic_forms(self.beta))

    def scores(self, run: RunState, weights: np.ndarray) -> np.ndarray:
        return run.decision(weights, self.beta)

    def program(self, run: RunState, model: Regularizer) -> tuple["StreamedPoint", StreamedProgram]:
        sweep, factor = self._swept(run, model), model.curvature(self.forms).factor
        program = StreamedProgram(sweep.sums, factor, self.beta, run.bank.dtype)
        return self._replace(sweep=sweep), program

    def line(self, run: RunState, change: np.ndarray) -> Line:
        slope, curve = run.directional_forms(self.beta, change)
        return Line(change, slope, np.maximum(curve, 0.0))

    def moved(self, line: Line, size: float) -> "StreamedPoint":
        return StreamedPoint(self.beta + size * line.change, line.forms(self.forms, size))

    def _swept(self, run: RunState, model: Regularizer) -> Sweep:
        """The sweep for a model: the last one, or a new one."""
        if self.sweep is not None and self.sweep.model is model:
            return self.sweep
        weights = model.weights(self.forms)
        sums = run.newton_sums(weights, self.beta, model.curvature(self.forms))
        return Sweep(model, weights, sums)
