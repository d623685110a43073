"""The problem that every solver works on, and the certificate that judges them all."""

from typing import NamedTuple

import numpy as np

from .losses import Hinge
from .machines import BlockedMachine, DenseMachine, KernelRows
from .regularizers import PNormBall
from .result import Certificate, Counters

GIGABYTE = 2**30
FEW = 5000  # points whose combined kernel is worth a copy from where the bank computes it


class Evaluation(NamedTuple):
    """One solved SVM per output at fixed kernel weights.

    Attributes
    ----------
    weights : (m,)
    beta, scores : (t, n) dual coefficients and ``K_d beta``
    value : float
        ``W(weights)`` as seen from below: dual value of the SVMs plus the regularizer.
    noise : float
        How much larger W may be: gap between primal and dual values of the SVMs.
    """

    weights: np.ndarray
    beta: np.ndarray
    scores: np.ndarray
    value: float
    noise: float


class Judgement(NamedTuple):
    """What is known at an evaluation: slopes of the kernel term and gradient of W, both (m,), and
    the certificate.
    """

    slopes: np.ndarray
    gradient: np.ndarray
    certificate: Certificate


class Problem:
    """``min_{d >= 0} r(d) + sum_c max_beta  y_c' beta - beta' K_d beta / 2`` with ``K_d = sum_k d_k
    K_k``.

    The outputs c (one for two classes, one per class otherwise) share the kernel weights.

    Parameters
    ----------
    bank : Bank
    targets : (t, n) array
        Labels of ±1, or numbers for regression.
    cost : (n,) or (t, n) array
        Loss of each point: C times its weight.
    regularizer : Regularizer
    loss : Loss
    start : Result, optional
        An earlier result on the same kernels, to begin from.
    memory_budget : int
        Bytes for a combined kernel; above it rows are computed on demand and as many as fit are
        kept.
    """

    def __init__(
        self, bank, targets, cost, regularizer, *, loss=None, start=None, memory_budget=4 * GIGABYTE
    ):
        self.bank = bank
        self.regularizer = regularizer.bound(bank) if hasattr(regularizer, "bound") else regularizer
        self.targets = np.atleast_2d(np.asarray(targets, dtype=float))
        self.cost = np.broadcast_to(np.asarray(cost, dtype=float), self.targets.shape)
        self.loss = loss or Hinge()
        self.memory_budget = memory_budget
        self.counters = Counters()
        self.boxes = [
            self.loss.box(y, cost) for y, cost in zip(self.targets, self.cost, strict=True)
        ]
        self.unit = min(box.unit() for box in self.boxes)
        if start is None:
            self.start = bank.start(regularizer), np.zeros_like(self.targets)
        else:
            self.start = regularizer.adopt(start.weights), start.beta
        self.watch = None  # what `drive` calls with each record
        # weights and (t, n) coefficients under work, for a solver that is interrupted
        self.latest = self.start

    @property
    def dense(self):
        """Whether a combined kernel fits into the memory budget."""
        return self.bank.n**2 * self._itemsize <= self.memory_budget

    @property
    def _itemsize(self):
        """Bytes per entry of a combined kernel; linear systems are solved in float64."""
        return (
            8 + self.bank.dtype.itemsize
            if any(box.free for box in self.boxes)
            else self.bank.dtype.itemsize
        )

    def evaluate(self, weights, beta, tol):
        """Solve the SVM of every output at these weights, starting from beta, to a violation of tol
        times the `unit`.
        """
        beta, tol = np.array(beta, dtype=float), tol * self.unit
        self.latest = weights, beta
        machine, kernel = self._machine(weights)
        solved = [
            machine.solve(kernel, self.loss, y, cost, start, tol)
            for y, cost, start in zip(self.targets, self.cost, beta, strict=True)
        ]
        self.counters.svm_solves += len(solved)
        self.counters.machine_steps += sum(one.steps for one in solved)
        dual = sum(one.dual for one in solved)
        noise = max(0.0, sum(one.primal for one in solved) - dual)
        scores = np.stack([one.scores for one in solved])
        return Evaluation(weights, beta, scores, dual + self.regularizer.value(weights), noise)

    def _machine(self, weights):
        """The machine for SVMs with the combined kernel, and that kernel as it takes it."""
        self.counters.kernel_passes += 1
        if self.bank.n > FEW and not any(box.free for box in self.boxes):
            elsewhere = self.bank.machine(weights)
            if elsewhere is not None:
                return elsewhere
        if self.dense:
            return DenseMachine(), self.bank.combine(weights)
        return BlockedMachine(), KernelRows(self.bank, weights, self.memory_budget)

    def refine(self):
        """Go on with kernels in float64; False if they are already."""
        refined = self.bank.refined()
        if refined is None:
            return False
        self.bank = refined
        if hasattr(self.regularizer, "bound"):
            self.regularizer = self.regularizer.bound(refined)
        return True

    def quadratic_forms(self, beta):
        """Quadratic forms ``s_k = sum_c beta_c' K_k beta_c`` of every kernel, (m,)."""
        self.counters.kernel_passes += 1
        return np.maximum(self.bank.quadratic_forms(beta), 0.0)

    def products(self, beta):
        """Products ``K_k beta_c`` of every kernel and output, (m, t, n)."""
        self.counters.kernel_passes += 1
        return self.bank.products(beta)

    def combine(self, weights):
        """The combined kernel ``sum_k weights[k] K_k``."""
        self.counters.kernel_passes += 1
        return self.bank.combine(weights)

    def sweep(self, weights, beta, J):
        """What Newton's method needs of the products of all kernels, added up; see `Bank.sweep`."""
        self.counters.kernel_passes += 1
        return self.bank.sweep(weights, beta, J)

    def along(self, beta, change):
        """Slopes and curvatures of the quadratic forms along a change of beta, (m,) each."""
        self.counters.kernel_passes += 1
        return self.bank.along(beta, change)

    def decision(self, weights, beta):
        """``K_d beta``, (t, n)."""
        self.counters.kernel_passes += 1
        return self.bank.decision(weights, beta)

    def judge(self, at):
        """Gradient of W (Danskin's theorem) and certificate at an evaluation; one pass over the
        kernels gives both.

        For sums of kernels the slope of weight k is the quadratic form of kernel k.
        """
        self.counters.kernel_passes += 1
        slopes = self.bank.weight_gradient(at.weights, at.beta)
        if self.bank.is_sum:
            # quadratic forms, which rounding must not make negative
            slopes = np.maximum(slopes, 0.0)
        certificate = self.certificate(at.weights, at.beta, scores=at.scores, forms=slopes)
        return Judgement(slopes, self.regularizer.gradient(at.weights) - 0.5 * slopes, certificate)

    def inner_tolerance(self, gap, beta):
        """The violation, in units, that makes a fifth of an absolute gap: what the machines should
        reach next.

        A violation v costs up to v times the widths of the box, and for squared losses up to ``cost
        v^2``.
        """
        reach = sum(float(box.widths(b).sum()) for box, b in zip(self.boxes, beta, strict=True))
        squares = sum(float(np.sum(0.5 / box.ridge[box.ridge > 0.0])) for box in self.boxes)
        linear = 0.2 * gap / reach
        return (
            min(linear, np.sqrt(0.2 * max(gap, 0.0) / squares)) if squares > 0.0 else linear
        ) / self.unit

    def feasible(self, beta):
        """Coefficients (t, n) moved into their boxes and onto the right sums; a no-op for feasible
        ones.
        """
        return np.stack([box.feasible(row) for box, row in zip(self.boxes, beta, strict=True)])

    def dual_linear(self, beta):
        """The dual objective without its part from the kernels."""
        return sum(box.value(b) for box, b in zip(self.boxes, beta, strict=True))

    def dual_slope(self, beta, change):
        """The slope of that along a change of beta."""
        return sum(
            box.slope(b, step) for box, b, step in zip(self.boxes, beta, change, strict=True)
        )

    def certificate(self, weights, beta, *, scores=None, forms=None):
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
        scores : (t, n) array, optional
            ``K_d beta``, if known.
        forms : (m,) array, optional
            Quadratic forms of beta, if known.
        """
        given = np.atleast_2d(np.asarray(beta, dtype=float))
        beta = self.feasible(given)
        if not np.array_equal(beta, given):
            scores = forms = None
        if scores is None:
            scores = self.decision(weights, beta)
        data = list(zip(self.targets, self.cost, scores, strict=True))
        intercept = np.array([self.loss.intercept(*of) for of in data])
        primal = self.regularizer.value(weights)
        for (y, cost, f), coefficients, b in zip(data, beta, intercept, strict=True):
            c = self.loss.factor(y, cost, f, b)
            primal += 0.5 * c**2 * float(coefficients @ f) + self.loss.value(y, cost, c * f, c * b)
        dual = self._dual(beta, forms)
        gap = (
            (primal - dual) / max(abs(primal), np.finfo(float).tiny)
            if np.isfinite(primal)
            else primal
        )
        return Certificate(primal, dual, gap, intercept, self._rounding(weights, beta))

    def _rounding(self, weights, beta):
        """Error of the primal value when every entry of K_d is rounded to the bank's precision.

        Entries have independent errors of at most half a unit of the largest: they add up to ``eps
        / 2 max(K_d) |beta|^2`` in ``beta' K_d beta`` and to ``eps / 2 max(K_d) |beta|`` in a score,
        which the loss multiplies by the cost of the points that have a coefficient.
        """
        unit = (
            0.5
            * np.finfo(self.bank.dtype).eps
            * self.bank.combined_diagonal(weights).max(initial=0.0)
        )
        losses = sum(
            np.linalg.norm(b) * box.widths(b)[b != 0.0].sum()
            for box, b in zip(self.boxes, beta, strict=True)
        )
        return float(unit * (np.square(beta).sum() + losses))

    def _dual(self, beta, forms):
        if not (self.bank.is_sum and hasattr(self.regularizer, "conjugate")):
            return -np.inf
        forms = self.quadratic_forms(beta) if forms is None else forms
        scale = self.regularizer.dual_scale(forms)
        if any(box.total for box in self.boxes):  # the sum of the coefficients is given
            return (
                -np.inf
                if scale < 1.0
                else self.dual_linear(beta) - self.regularizer.conjugate(forms)
            )
        # the dual is a parabola along the multiples of beta
        if isinstance(self.regularizer, PNormBall):
            slope = sum(
                float(box.linear @ b - box.kink @ np.abs(b))
                for box, b in zip(self.boxes, beta, strict=True)
            )
            bend = sum(
                float(box.ridge @ np.square(b)) for box, b in zip(self.boxes, beta, strict=True)
            )
            bend += 2.0 * self.regularizer.conjugate(forms)
            scale = float(np.clip(slope / bend, 0.0, 1.0)) if bend > 0.0 else 1.0
        return self.dual_linear(scale * beta) - self.regularizer.conjugate(scale**2 * forms)
