"""Two-stage methods: kernel weights by a rule, then one SVM. The baselines that multiple kernel
learning has to beat.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...result import Status
from ...run_state import RunState
from ..base import Iterate, Solver


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Violation of the first SVM; larger: a cheaper first iteration.
    first_inner_tolerance: float = 1e-2
    # Violation that ends the method; larger: it ends sooner.
    smallest_inner_tolerance: float = 1e-12
    # Entries of kernel columns in memory at a time; larger: fewer calls of the bank.
    entries_at_once: int = 2**23


TOLERANCES = Tolerances()


class State(NamedTuple):
    """One solved SVM and how precisely."""

    inner_tolerance: float
    iterate: Iterate


class FixedWeights(Solver):
    """Base: subclasses say what the weights are. The SVM is solved to the tolerance, the weights
    stay.
    """

    follows_rule = True

    max_iter = 50

    def weights(self, run: RunState) -> np.ndarray:
        """The weights, (m,); they are then moved to the nearest feasible ones."""
        raise NotImplementedError

    def init(self, run: RunState) -> State:
        weights = run.problem.regularizer.project(self.weights(run))
        return self._solve(run, weights, run.start.beta, TOLERANCES.first_inner_tolerance)

    def step(self, run: RunState, state: State, tol: float) -> State:
        return self._solve(
            run,
            state.iterate.weights,
            state.iterate.beta,
            max(0.1 * state.inner_tolerance, TOLERANCES.smallest_inner_tolerance),
            tol,
        )

    @staticmethod
    def _solve(
        run: RunState,
        weights: np.ndarray,
        beta: np.ndarray,
        inner_tolerance: float,
        tol: float = 0.0,
    ) -> State:
        at = run.evaluate(weights, beta, inner_tolerance)
        certificate = run.certificate(weights, at.beta, scores=at.scores)
        done = (
            at.noise <= tol * abs(certificate.primal)
            or inner_tolerance <= TOLERANCES.smallest_inner_tolerance
        )
        return State(
            inner_tolerance,
            Iterate(weights, at.beta, certificate, ended=Status.FIXED_WEIGHTS if done else None),
        )


class Uniform(FixedWeights):
    """Equal weights."""

    def weights(self, run: RunState) -> np.ndarray:
        return run.problem.regularizer.start(run.bank.m)


class Alignment(FixedWeights):
    """Weights proportional to the centered alignment of each kernel with the labels, none if it is
    negative.

    C. Cortes, M. Mohri and A. Rostamizadeh, Algorithms for learning kernels based on centered
    alignment, JMLR 2012, the method they call align: ``d_k ~ <K_k, y y'> / |K_k|`` with kernels
    centered and Frobenius products.
    """

    def weights(self, run: RunState) -> np.ndarray:
        counts = run.problem.cost > 0.0  # of points that an output does not see, nothing is known
        means = np.sum(run.problem.targets * counts, axis=1, keepdims=True) / np.maximum(
            counts.sum(axis=1, keepdims=True), 1
        )
        y = np.where(counts, run.problem.targets - means, 0.0)
        norms = _centered_norms(run)
        alignment = np.divide(
            run.quadratic_forms(y), norms, out=np.zeros_like(norms), where=norms > 0
        )
        uniform, total = run.problem.regularizer.start(alignment.size), np.linalg.norm(alignment)
        return alignment * (np.linalg.norm(uniform) / total) if total > 0 else uniform


def _centered_norms(run: RunState) -> np.ndarray:
    """Frobenius norms of the centered kernels, from their columns."""
    bank, squares = run.bank, np.zeros(run.bank.m)
    run.counters.kernel_passes += 1
    step = max(1, TOLERANCES.entries_at_once // (bank.m * bank.n))
    means = run.products(np.full((1, bank.n), 1.0 / bank.n))[:, 0]
    overall = means.mean(axis=1)
    for start in range(0, bank.n, step):
        chosen = np.arange(start, min(start + step, bank.n))
        centered = (
            bank.columns(chosen)
            - means[:, :, None]
            - means[:, None, chosen]
            + overall[:, None, None]
        )
        squares += np.square(centered).sum(axis=(1, 2))
    return np.sqrt(squares)
