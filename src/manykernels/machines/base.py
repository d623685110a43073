"""Machines: solvers of the SVM with one fixed kernel."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..losses import Box, Loss


class MachineResult(NamedTuple):
    """Solution of one SVM.

    Attributes
    ----------
    beta, scores : (n,) dual coefficients, and ``K beta``
    intercept : float
    primal, dual : float
        Values of the SVM with this kernel at (beta, intercept).
    violation : float
        Largest violation of the optimality conditions.
    steps : int
    """

    beta: np.ndarray
    scores: np.ndarray
    intercept: float
    primal: float
    dual: float
    violation: float
    steps: int


class Machine(ABC):
    """Solves ``max_beta  box.value(beta) - beta' K beta / 2`` over the box of a loss, from any
    start.

    The start may come from another kernel: that is what makes a sequence of similar SVMs cheap.
    """

    looks_at_gap: ClassVar[bool] = False
    """`ascend` takes a relative duality gap that is good enough."""

    def solve(
        self,
        kernel: Any,
        loss: Loss,
        y: np.ndarray,
        cost: np.ndarray,
        start: np.ndarray | None = None,
        tol: float = 1e-3,
        max_steps: int | None = None,
        gap: float = 0.0,
    ) -> MachineResult:
        """Solve one SVM.

        Parameters
        ----------
        kernel : (n, n) array for `DenseMachine`, `KernelRows` for `BlockedMachine`
        loss : see `manykernels.losses`
        y, cost : (n,) arrays
        start : (n,) array, optional
            Overwritten with the solution. It is feasible at any moment, also after an interrupt.
        tol : float
            On the violation of the optimality conditions, as in LIBSVM.
        max_steps : int, optional
            `most_steps` by default.
        gap : float
            Relative duality gap of the SVM that is good enough whatever the violation, for machines
            that look at it.
        """
        max_steps = self.most_steps(len(y)) if max_steps is None else max_steps
        box = loss.box(y, cost)
        beta = np.zeros(len(y)) if start is None else start
        beta[:] = box.feasible(beta)
        pull = self.multiply(kernel, beta) + box.ridge * beta
        share = _share(box, beta, pull)
        beta *= share
        F = share * pull - box.linear
        enough: dict[str, float] = {"gap": gap} if self.looks_at_gap else {}
        steps, violation = self.ascend(kernel, box, beta, F, tol, max_steps, **enough)
        scores = F - box.ridge * beta + box.linear
        intercept = loss.intercept(y, cost, scores)
        norm = 0.5 * float(beta @ scores)
        primal = norm + loss.value(y, cost, scores, intercept)
        return MachineResult(
            beta, scores, intercept, primal, box.value(beta) - norm, violation, steps
        )

    def most_steps(self, n: int) -> int:
        """A million steps, or a hundred per point if that is more: only hopeless problems need so
        many.
        """
        return max(1_000_000, 100 * n)

    @abstractmethod
    def multiply(self, kernel: Any, beta: np.ndarray) -> np.ndarray:
        """``K beta`` in float64."""

    @abstractmethod
    def ascend(
        self,
        kernel: Any,
        box: Box,
        beta: np.ndarray,
        F: np.ndarray,
        tol: float,
        max_steps: int,
    ) -> tuple[int, float]:
        """Improve beta in place, keeping ``F = (K + diag(ridge)) beta - linear``, minus the
        gradient of the quadratic part; return (steps, violation).
        """


# Part of a start that is best, below which it is taken; a larger one changes good starts, too.
LONGEST_SHARE = 0.5


def _share(box: Box, beta: np.ndarray, pull: np.ndarray) -> float:
    """The part of the coefficients of a start, ``pull`` being their slopes, at which the dual is
    largest, if it is a small one: coefficients that a sample tells may be far too large.
    """
    if box.total or box.curve is not None:
        return 1.0
    bend, slope = float(beta @ pull), float(box.linear @ beta - box.kink @ abs(beta))
    share = max(slope, 0.0) / bend if bend > 0.0 else 1.0
    return share if share < LONGEST_SHARE else 1.0
