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

from typing import NamedTuple

import numpy as np

from .._loops.smo_mkl import Ascent, ascend
from ..losses import Box
from ..result import Status
from .base import Iterate, Solver
from .columns import BATCH, Columns
from .dual import computed, judged, rough_start

PROGRESS = 0.1  # of the violation is left at the end of a round
UPDATES = 20  # per point and round at most
CACHE = (
    2**27
    # bytes of columns kept, if the memory budget allows as much: all of them would be as large as the
    # Gram matrices
)
SMALLEST_TOLERANCE = 1e-13
PATIENCE = 6
# visited by one call of the compiled loop: a tenth of a second, so that Ctrl-C is heard
ENTRIES_PER_CALL = 100_000_000


class State(NamedTuple):
    """Where the ascent stands: coefficients, products and forms, and the columns at hand.

    ``best`` is the smallest absolute gap so far, ``patience`` how many more rounds may pass without
    a smaller one.
    """

    beta: np.ndarray
    products: np.ndarray
    forms: np.ndarray
    columns: Columns | None
    iterate: Iterate
    best: float = np.inf
    patience: int = PATIENCE


class SMO(Solver):
    """Sequential minimal optimization of the MKL dual.

    Needs a regularizer whose conjugate is smooth and known to the compiled loop: p-norms with p >
    1, or `GeneralizedKL`.
    """

    max_iter = 2000

    def needs(self, problem):
        r = problem.regularizer
        if not (hasattr(r, "law") and r.smooth):
            raise ValueError(
                "SMO-MKL needs p > 1 (PNormBall, SquaredPNorm) or GeneralizedKL, whose duals are "
                f"smooth; {r!r} is neither: "
                "use solver='spg', solver='newton' for PNormBall(1), or p = 1.05."
            )
        needed = 16 * problem.bank.m * problem.targets.size
        if needed > problem.memory_budget:
            raise ValueError(
                f"SMO-MKL holds products of {problem.bank.m} kernels with {problem.bank.n} points "
                f"({needed / 2**20:.0f} MB), "
                "which are over the memory budget: raise cache_size or use solver='spg'."
            )

    def init(self, problem):
        beta, products, forms = rough_start(problem)
        return State(
            beta, products, forms, None, judged(problem, problem.regularizer, beta, products, forms)
        )

    def step(self, problem, state, tol):
        active, violation = _active(problem, state)
        if violation <= SMALLEST_TOLERANCE * problem.unit:
            return self._stuck(problem, state)
        columns = state.columns
        if (
            columns is None
            or not np.isin(active, columns.layout).all()
            or active.size < 0.5 * columns.layout.size
        ):
            columns = Columns(problem.bank, active, min(problem.memory_budget, CACHE))
        beta = self._round(problem, state, columns, PROGRESS * violation)
        products, forms, iterate = computed(problem, problem.regularizer, beta)
        gap = iterate.certificate.absolute_gap
        patience = PATIENCE if gap < state.best else state.patience - 1
        new = State(beta, products, forms, columns, iterate, min(gap, state.best), patience)
        return new if patience > 0 else self._stuck(problem, new)

    def _round(self, problem, state, columns, tol):
        """Update pairs among the active points until the violation is below tol; returns the new
        coefficients.
        """
        at = _restricted(problem, state, columns)
        m, t, n = at.products.shape
        left, per_call = UPDATES * n * t + 1000, max(100, ENTRIES_PER_CALL // (m * t * n))
        clock, law = int(columns.stamps.max()) + 1, problem.regularizer.law
        while left > 0:
            done, _, missing = ascend(
                law,
                at,
                columns.store,
                columns.slots,
                columns.stamps,
                clock,
                tol,
                min(left, per_call),
            )
            problem.counters.machine_steps += done
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

    def _stuck(self, problem, state):
        """No smaller gap for a while: finer kernels or, if they are fine, the end."""
        if problem.refine():
            products, forms, iterate = computed(problem, problem.regularizer, state.beta)
            return State(state.beta, products, forms, None, iterate)
        return state._replace(iterate=state.iterate._replace(ended=Status.STALLED))


def _active(problem, state):
    """Points that may still move in some output, and the largest violation.

    A point at a bound is left out when it is pushed against it by more than half the violation.
    """
    sides = [
        box.sides(beta, F)
        for box, beta, F in zip(problem.boxes, state.beta, _residuals(problem, state), strict=True)
    ]
    up, down = (np.stack(side) for side in zip(*sides, strict=True))
    top, bottom = up.max(axis=1, keepdims=True), down.min(axis=1, keepdims=True)
    violation = float(np.max(top - bottom))
    slack = 0.5 * max(violation, 0.0)
    # who may not move up has -inf in up, and stays where it is if its wish to move down is below
    # that of all others
    fixed = (np.isinf(up) & (down > top + slack)) | (np.isinf(down) & (up < bottom - slack))
    return np.flatnonzero(~fixed.all(axis=0)), violation


def _residuals(problem, state):
    """Minus the gradient of the smooth part of the dual, (t, n)."""
    scores = np.einsum("k,ktn->tn", state.iterate.weights, state.products)
    return [
        f + box.ridge * b - box.linear
        for f, b, box in zip(scores, state.beta, problem.boxes, strict=True)
    ]


def _restricted(problem, state, columns):
    """The problem of the active points as the compiled loop wants it."""
    layout = columns.layout
    box = Box(
        *(
            np.stack([getattr(box, name)[layout] for box in problem.boxes])
            for name in Box._fields[:-1]
        )
    ).bounded()
    beta, F = (
        np.ascontiguousarray(state.beta[:, layout]),
        np.stack(_residuals(problem, state))[:, layout],
    )
    products = np.ascontiguousarray(state.products[:, :, layout])
    weights, forms = state.iterate.weights.copy(), state.forms.copy()
    return Ascent(
        beta, np.ascontiguousarray(F), *box[:-1], products, forms, weights, columns.diagonals
    )


def _likeliest(at):
    """Points in the order in which they are likely to be chosen: the worst violators of both
    directions in turn.
    """
    up = np.where(at.beta < at.upper, -at.F, -np.inf).max(axis=0)
    down = np.where(at.beta > at.lower, at.F, -np.inf).max(axis=0)
    order = np.stack([np.argsort(-up)[:BATCH], np.argsort(-down)[:BATCH]], axis=1).ravel()
    _, first = np.unique(order, return_index=True)
    return order[np.sort(first)]
