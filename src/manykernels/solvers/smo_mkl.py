"""SMO-MKL: the dual of lp-norm MKL, two variables at a time.

S. V. N. Vishwanathan, Z. Sun, N. Theera-Ampornpunt and M. Varma, Multiple kernel learning and the
SMO algorithm, NIPS 2010.

No SVM is solved but the first, rough one: weights follow every update of a pair through their
closed form. The price is that an update touches the products of all kernels, O(mn) numbers. The
compiled loop (`_loops.smo_mkl`) takes the updates; this file decides which points take part
(shrinking), keeps the columns of the kernels that were used last, and asks for the certificate.

Ours are the shrinking by layout and the fresh products at the end of each round: points that cannot
move are left out of every array, so the loops stay contiguous, and one pass over the kernels, which
costs as much as some hundred updates, brings all of them back and removes the rounding of the
updates.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._loops.smo_mkl import Ascent, ascend
from .._pulse import pulse
from ..run_state import RunState
from .base import Iterate, Solver, patient, stalled
from .columns import Columns
from .dual import computed, judged, rough_start


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Part of the violation that is left at the end of a round; larger: shorter rounds.
    violation_left: float = 0.1
    # Updates per point in a round at most; larger: longer rounds, fewer fresh products.
    updates_per_point: int = 20
    # Bytes of columns that are kept, within the memory budget; larger: fewer are computed again.
    cache_bytes: int = 2**27
    # Violation at which the method stalls; larger: it gives up sooner.
    smallest_violation: float = 1e-13
    # Rounds without a smaller gap that end the method; larger: it gives up later.
    rounds_without_gain: int = 6
    # Entries that one call of the compiled loop visits, in some tenth of a second; larger: Ctrl-C
    # is heard later.
    entries_per_call: int = 100_000_000


TOLERANCES = Tolerances()


class State(NamedTuple):
    """The state of the ascent: coefficients, products and forms, and the columns at hand.

    ``best`` is the smallest absolute gap so far, ``patience`` how many more rounds may pass without
    a smaller one.
    """

    beta: np.ndarray
    products: np.ndarray
    forms: np.ndarray
    columns: Columns | None
    iterate: Iterate
    best: float = np.inf
    patience: int = TOLERANCES.rounds_without_gain


class SMO(Solver):
    """Sequential minimal optimization of the MKL dual.

    Needs a regularizer whose conjugate is smooth and known to the compiled loop: p-norms with p >
    1, or `GeneralizedKL`.
    """

    title = "SMO-MKL"
    max_iter = 200
    curved_losses = False

    def needs(self, run: RunState) -> None:
        r = run.problem.regularizer
        if r.compiled_conjugate is None or not r.smooth:
            raise ValueError(
                "SMO-MKL needs p > 1 (PNormBall, SquaredPNorm) or GeneralizedKL, whose duals are "
                f"smooth; {r!r} is neither: "
                "use solver='spg', solver='newton' for PNormBall(1), or p = 1.05."
            )
        needed = 16 * run.bank.m * run.problem.targets.size
        if needed > run.memory_budget:
            raise ValueError(
                f"SMO-MKL holds products of {run.bank.m} kernels with {run.bank.n} points "
                f"({needed / 2**20:.0f} MB), "
                "which are over the memory budget: raise cache_size or use solver='spg'."
            )

    def init(self, run: RunState) -> State:
        beta, products, forms = rough_start(run)
        return State(
            beta, products, forms, None, judged(run, run.problem.regularizer, beta, products, forms)
        )

    def step(self, run: RunState, state: State, tol: float) -> State:
        active, violation = _active(run, state)
        if violation <= TOLERANCES.smallest_violation * run.problem.unit:
            return stalled(state)
        columns = state.columns
        if (
            columns is None
            or not np.isin(active, columns.layout).all()
            or active.size < 0.5 * columns.layout.size
        ):
            columns = Columns(run.bank, active, min(run.memory_budget, TOLERANCES.cache_bytes))
        beta = self._round(run, state, columns, TOLERANCES.violation_left * violation)
        products, forms, iterate = computed(run, run.problem.regularizer, beta)
        new = State(beta, products, forms, columns, iterate)
        return patient(new, state, iterate.certificate.absolute_gap, TOLERANCES.rounds_without_gain)

    def _round(self, run: RunState, state: State, columns: Columns, tol: float) -> np.ndarray:
        """Update pairs among the active points until the violation is below tol; returns the new
        coefficients.
        """
        at = _restricted(run, state, columns)
        m, t, n = at.products.shape
        left, per_call = (
            TOLERANCES.updates_per_point * n * t + 1000,
            max(100, TOLERANCES.entries_per_call // (m * t * n)),
        )
        clock, law = int(columns.cache.stamps.max()) + 1, run.problem.regularizer.compiled_conjugate
        while left > 0:
            pulse()
            done, _, missing = ascend(
                law,
                at,
                columns.cache.store,
                columns.cache.slots,
                columns.cache.stamps,
                clock,
                tol,
                min(left, per_call),
            )
            run.counters.machine_steps += done
            clock += done
            left -= done
            if missing >= 0:
                columns.fetch(missing, _likeliest(at), clock)
                left -= 1
            elif done < per_call:
                break
        beta = state.beta.copy()
        beta[:, columns.layout] = at.beta
        return beta

    def refreshed(self, run: RunState, state: State) -> State:
        products, forms, iterate = computed(run, run.problem.regularizer, state.beta)
        return State(state.beta, products, forms, None, iterate)


def _active(run: RunState, state: State) -> tuple[np.ndarray, float]:
    """Points that may still move in some output, and the largest violation.

    A point at a bound is left out when it is pushed against it by more than half the violation.
    """
    sides = [
        box.sides(beta, F)
        for box, beta, F in zip(run.problem.boxes, state.beta, _residuals(run, state), strict=True)
    ]
    up, down = (np.stack(side) for side in zip(*sides, strict=True))
    top, bottom = up.max(axis=1, keepdims=True), down.min(axis=1, keepdims=True)
    violation = float(np.max(top - bottom))
    slack = 0.5 * max(violation, 0.0)
    # who may not move up has -inf in up, and stays where it is if its wish to move down is below
    # that of all others
    fixed = (np.isinf(up) & (down > top + slack)) | (np.isinf(down) & (up < bottom - slack))
    return np.flatnonzero(~fixed.all(axis=0)), violation


def _residuals(run: RunState, state: State) -> list[np.ndarray]:
    """Minus the gradient of the smooth part of the dual, (t, n)."""
    scores = np.tensordot(state.iterate.weights, state.products, 1)
    return [
        f + box.ridge * b - box.linear
        for f, b, box in zip(scores, state.beta, run.problem.boxes, strict=True)
    ]


def _restricted(run: RunState, state: State, columns: Columns) -> Ascent:
    """The problem of the active points as the compiled loop wants it."""
    layout, boxes = columns.layout, run.problem.boxes
    bounds = [box.bounds(layout) for box in boxes]
    residuals = np.stack(_residuals(run, state))[:, layout]
    return Ascent(
        beta=np.ascontiguousarray(state.beta[:, layout]),
        F=np.ascontiguousarray(residuals),
        linear=np.stack([box.linear[layout] for box in boxes]),
        lower=np.stack([bound.lower for bound in bounds]),
        upper=np.stack([bound.upper for bound in bounds]),
        kink=np.stack([bound.kink for bound in bounds]),
        ridge=np.stack([bound.ridge for bound in bounds]),
        products=np.ascontiguousarray(state.products[:, :, layout]),
        forms=state.forms.copy(),
        weights=state.iterate.weights.copy(),
        diagonals=columns.diagonals,
    )


def _likeliest(at: Ascent) -> np.ndarray:
    """Points in the order in which they are likely to be chosen: the worst violators of both
    directions in turn.
    """
    up = np.where(at.beta < at.upper, -at.F, -np.inf).max(axis=0)
    down = np.where(at.beta > at.lower, at.F, -np.inf).max(axis=0)
    order = np.stack(
        [np.argsort(-up)[: Columns.together], np.argsort(-down)[: Columns.together]], axis=1
    ).ravel()
    _, first = np.unique(order, return_index=True)
    return order[np.sort(first)]
