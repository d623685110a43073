"""The base of solvers on low-rank factors: a linear machine whose features are weighted in groups.

With ``K_k = V_k V_k'`` the decision function is ``f = V v + b``, and the problem is

    min_{v, b, d}  sum_k |v_k|^2 / 2 d_k + r(d) + loss(V v + b).

In a small space (`banks.lowrank.basis`) ``V = Q P'``, and with the moments ``a = Q' beta`` the
solution is ``v = D P a``, ``f = Q u + b`` with ``u = P' v = S a``, ``S = P' D P``. A quadratic
model of the loss there is small, ``z' H z / 2 - z' pull`` for a step z of (u, b), and the weights
enter its equations through S alone. So closed-form weights and a Cholesky factorization alternate
without another look at the data.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from ..._arrays import here
from ...result import Certificate, Status
from ...run_state import Point, RunState
from ..base import Iterate, Solver, fewest
from ..group_lasso import GroupLasso


@dataclass(frozen=True)
class Tolerances:
    """The numbers that solvers on low-rank factors share."""

    # Rounds of closed-form weights in a model; larger: models are solved further.
    rounds_of_weights: int = 100
    # Power of the change of the weights in a round. Near p = 1 the closed form changes them too
    # little, by a rate of 2 / (1 + p) at fixed coefficients. Larger: fewer rounds, and none that
    # converge beyond 2.
    power_of_change: float = 1.8
    # Weight that a kernel keeps in a model, as a part of the largest, since zero would be for ever;
    # larger: less exact weights.
    smallest_weight: float = 1e-12
    # The same where a model begins, times the relative gap; larger: kernels come back sooner.
    lifted_weight: float = 0.03
    # Bytes of the system of equations; larger: factors of more columns are taken on.
    largest_system: int = 2**31


TOLERANCES = Tolerances()


class FactorSolver(Solver):
    """Base of solvers for banks of low-rank factors with closed-form weights."""

    gains_from_sample = False

    def needs(self, run: RunState) -> None:
        if not run.bank.factored:
            raise ValueError(
                "This solver works on low-rank factors: give an approximation, or use "
                "solver='newton'."
            )
        regularizer = run.problem.regularizer
        if not regularizer.has_reweight:
            raise ValueError(
                f"This solver needs closed-form weights, which {regularizer!r} does not "
                "have: use solver='spg', or "
                "PNormBall or SquaredPNorm."
            )
        if 8 * run.bank.points.width**2 > TOLERANCES.largest_system:
            raise ValueError(
                f"The factors have {run.bank.points.width} columns in all, too many for a "
                "system of equations of "
                f"{8 * run.bank.points.width**2 / 2**20:.0f} MB: lower the rank, raise the "
                "cutoff, or use "
                "solver='group_lasso'."
            )

    def without_steps(self) -> Solver:
        return GroupLasso()  # which begins with an SVM


def certified(run: RunState, weights: np.ndarray, beta: np.ndarray, tol: float = 0.0) -> Iterate:
    """The iterate of feasible coefficients (t, n), which may be where the bank keeps long vectors.

    On the simplex, where closed forms make weights small but never zero, it has as few kernels as
    the tolerance allows, the heaviest.
    """
    bank, moments = run.bank, run.bank.correlate(beta)
    forms = bank.squared_norms(moments)

    def certificate(some: np.ndarray) -> Certificate:
        run.counters.kernel_passes += 1
        scores = bank.values(bank.column_weights(some) * moments)
        return run.problem.placed.certificate(some, beta, scores=scores, forms=forms)

    run.counters.kernel_passes += 1
    found = certificate(weights)
    if run.problem.regularizer.is_simplex and found.gap <= tol:
        few = fewest(weights, lambda some: certificate(some).gap <= tol)
        weights, found = (weights, found) if few is weights else (few, certificate(few))
    run.latest = Point(weights, here(beta))
    return Iterate(*run.latest, found)


def lifted(run: RunState, weights: np.ndarray, gap: float = 1.0) -> np.ndarray:
    """Weights to begin a model with: on the simplex a kernel that has none, or next to none, would
    have to gain so many powers of ten that the first of them are not worth a round.
    """
    if not run.problem.regularizer.is_simplex:
        return weights
    least = TOLERANCES.lifted_weight * min(abs(gap), 1.0) * weights.max()
    return run.problem.regularizer.adopt(np.maximum(weights, least))


def watched(
    state: Any, iterate: Iterate, most: int, stuck: bool = False
) -> tuple[Iterate, float, int]:
    """The iterate, the last one if the method is stuck, the smallest gap, and steps that may pass
    without a smaller one.

    There are `most` of them after a gap smaller than all before.
    """
    gap = abs(iterate.certificate.absolute_gap)
    patience = most if gap < state.best else state.patience - 1
    if stuck or patience == 0:
        iterate = iterate._replace(ended=Status.STALLED)
    return iterate, min(gap, state.best), patience


def penalty(run: RunState, v: np.ndarray) -> float:
    """``sum_k |v_k|^2 / 2 d_k + r(d)`` at the best weights."""
    squared_norms = run.bank.squared_norms(v)
    weights = run.problem.regularizer.reweight(squared_norms)
    used = squared_norms > 0.0
    return 0.5 * float(
        np.sum(squared_norms[used] / np.maximum(weights[used], 1e-300))
    ) + run.problem.regularizer.value(weights)


class Fit(NamedTuple):
    """The variables of a solver.

    Attributes
    ----------
    a, u : (t, q)
        Moments, and coefficients in the small space.
    v : (t, r)
        Coefficients of the features.
    b : (t,)
        Intercepts.
    f : (t, n)
        Decision values, where the bank keeps long vectors.
    weights : (m,)
    """

    a: np.ndarray
    u: np.ndarray
    v: np.ndarray
    b: np.ndarray
    f: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(
        cls, run: RunState, weights: np.ndarray, beta: np.ndarray, b: np.ndarray | float = 0.0
    ) -> "Fit":
        """The fit of coefficients beta with intercepts b."""
        space = run.bank
        a = space.points.correlate(beta)
        v = space.coefficients_of_moments(weights, a)
        u, b = space.reduced(v), np.zeros(len(v)) + b
        return cls(a, u, v, b, _values(space, u, b), weights)

    def moved(self, run: RunState, step: "Fit", length: float) -> "Fit":
        """The fit after a part of a step; its own weights belong to the whole step."""
        steps = ("a", "u", "v", "b", "f")
        moved = {name: getattr(self, name) + length * getattr(step, name) for name in steps}
        if length == 1.0:
            return Fit(**moved, weights=step.weights)
        squared_norms = run.bank.squared_norms(moved["v"])
        return Fit(**moved, weights=run.problem.regularizer.reweight(squared_norms))


class Place(Protocol):
    """A fit as the small model sees it: moments and coefficients in the small space, (t, q)."""

    @property
    def a(self) -> np.ndarray: ...

    @property
    def u(self) -> np.ndarray: ...


F = TypeVar("F", bound=Place)


class SmallModel(ABC, Generic[F]):
    """The quadratic models of the losses of all outputs at a fit, and the weights.

    Parameters
    ----------
    run : RunState
    fit : F
    systems : list
        The equations of every output (`manykernels.banks.lowrank.systems`).
    """

    def __init__(self, run: RunState, fit: F, systems: list) -> None:
        self.run, self.fit, self.space, self.systems = run, fit, run.bank, systems
        self._weights: np.ndarray | None = None
        self._kept: list = []

    def solved(self, pulls: np.ndarray, weights: np.ndarray) -> F:
        """The step to the minimizer at fixed weights."""
        return self._finished(*self._solved(pulls, weights))

    def fitted(self, pulls: np.ndarray, weights: np.ndarray, decrease: float) -> F:
        """The step to the minimizer over the weights too; ends when the value falls by less than
        `decrease`.
        """
        before, power = np.inf, TOLERANCES.power_of_change
        for _ in range(TOLERANCES.rounds_of_weights):
            found, used = self._solved(pulls, weights)
            v = self.space.coefficients_of_moments(used, self.fit.a + found[0])
            of = zip(self.systems, pulls, found[1], strict=True)
            value = penalty(self.run, v) + sum(one.value(pull, step) for one, pull, step in of)
            if not abs(before - value) > decrease or (value > before and power == 1.0):
                break
            power = 1.0 if value > before else power
            weights = self._reweighted(used, v, power)
            before = value
        return self._finished(found, used)

    def _reweighted(self, weights: np.ndarray, v: np.ndarray, power: float) -> np.ndarray:
        """Closed-form weights for coefficients v, or beyond them: their ratio to the last ones
        taken to a power.
        """
        regularizer = self.run.problem.regularizer
        closed = _above_zero(regularizer.reweight(self.run.bank.squared_norms(v)))
        return closed if power == 1.0 else regularizer.adopt(weights * (closed / weights) ** power)

    def _solved(
        self, pulls: np.ndarray, weights: np.ndarray
    ) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
        """Changes of the moments (t, q), steps of (u, b) (t, q + 1), and the weights that were
        used.
        """
        weights = _above_zero(weights)
        # what is missing to u = S a, which a part of a step or other weights leave
        missing = self.fit.u - self.space.reduced(
            self.space.coefficients_of_moments(weights, self.fit.a)
        )
        with self.space.threads.algebra():
            of = zip(self._rooted(weights), pulls, self.fit.a, missing, strict=True)
            changes, steps = zip(*(one.solve(*right) for one, *right in of), strict=True)
        return (np.stack(changes), np.stack(steps)), weights

    def _rooted(self, weights: np.ndarray) -> list:
        """The systems at some weights, which are kept: steps to several aims ask for them."""
        if self._weights is None or not np.array_equal(weights, self._weights):
            root = self.space.root(weights)
            self._weights, self._kept = weights, [one.rooted(root) for one in self.systems]
        return self._kept

    @abstractmethod
    def _finished(self, found: tuple[np.ndarray, np.ndarray], weights: np.ndarray) -> F:
        """The step of a fit that belongs to changes of the moments and steps of (u, b)."""


class Model(SmallModel[Fit]):
    """The quadratic models of the losses of all outputs at a fit: ``H = [V 1]' diag(bends) [V 1]``
    and the weights.

    Parameters
    ----------
    run : RunState
    fit : Fit
    bends : (t, n)
        Second derivatives of the losses.
    exact : bool
        Take sums in float64, which bends of very different sizes need.
    before : Model, optional
        An earlier one, which is of no use afterwards: its equations may be changed to become these,
        where few bends have changed.
    """

    def __init__(
        self,
        run: RunState,
        fit: Fit,
        bends: np.ndarray,
        exact: bool = False,
        before: "Model | None" = None,
    ) -> None:
        old = [None] * len(bends) if before is None else before.given_up()
        of = zip(bends, old, strict=True)
        super().__init__(run, fit, [run.bank.points.system(row, exact, one) for row, one in of])

    def given_up(self) -> list:
        """The equations of all outputs, of which nothing else is kept."""
        self._weights, self._kept = None, []
        return self.systems

    def pulls(self, beta: np.ndarray) -> np.ndarray:
        """Minus the slopes of the losses, for minus their slopes beta (t, n) at every point."""
        moments = self.space.points.correlate(beta)
        missing = here(beta.sum(axis=1)) - [box.total for box in self.run.problem.boxes]
        return np.concatenate([moments, missing[:, None]], axis=1)

    def _finished(self, found: tuple[np.ndarray, np.ndarray], weights: np.ndarray) -> Fit:
        self.run.counters.kernel_passes += 2
        a, (u, b) = found[0], (found[1][:, :-1], found[1][:, -1])
        v = self.space.coefficients_of_moments(weights, self.fit.a + a) - self.fit.v
        return Fit(a, u, v, b, _values(self.space, u, b), weights)


def _values(space: Any, u: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Decision values of coefficients in the space and intercepts."""
    return space.points.values(u) + space.points.to_device(b[:, None])


def _above_zero(weights: np.ndarray) -> np.ndarray:
    return np.maximum(weights, TOLERANCES.smallest_weight * weights.max())
