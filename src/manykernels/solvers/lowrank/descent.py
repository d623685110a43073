"""Rounds of block coordinate descent over the kernels that may have weight.

The curvature of the loss is nowhere above that of a parabola with ``V_k' diag(h) V_k``, less what
the intercept takes of it, for a Hessian: with its eigenvectors, which are found once for all blocks
and all values of C, the best coefficients of a block are a closed form but for their length. So a
visit costs two products with the factors of one kernel; large directions that all kernels share,
the constant one first, do not slow it down.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from ..._loops import blocks as loops
from ...losses import Box
from ...run_state import RunState


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Kernels that may join at a time, at least; larger: fewer passes over all kernels.
    joining_kernels: int = 8
    # Part of the largest length of moments from which on a kernel may join; larger: fewer join.
    joins_above: float = 0.99
    # Rounds from one look at the gap to the next; larger: fewer looks and extrapolations.
    rounds_per_look: int = 5
    # Rounds between two passes over all kernels; larger: longer descents.
    rounds_per_pass: int = 200
    # Error of the sum of the coefficients in a round, as a part of their sizes; larger: rougher
    # intercepts.
    rough_sum: float = 1e-9
    # The same where a point is judged; larger: less exact certificates.
    exact_sum: float = 1e-14
    # Shift of the diagonal of the extrapolation's system, as a part of its trace; larger: more
    # cautious extrapolations.
    diagonal_shift: float = 1e-12
    # Error of the best multiple of earlier coefficients; larger: a rougher warm start.
    multiple_error: float = 1e-2
    # Entries of a block from which on products use several threads; larger: fewer do.
    threads_from_entries: int = 2**21
    # Price of a visit, in multiplications of a product of matrices; larger: descents count as
    # slower.
    work_per_visit: float = 5e5
    # Price of an entry of a block in it, which is read twice; larger: descents count as slower.
    work_per_entry: float = 20.0


TOLERANCES = Tolerances()


class Descent:
    """Rounds over the kernels that may have weight.

    Parameters
    ----------
    run : RunState
    center : (t, n) array
        Coefficients around which corners are rounded off.
    width : float
        Over which they are.
    allowed : float
        Work that the rounds may take, in multiplications.

    Attributes
    ----------
    ended : bool
        Whether the gap that was asked for is reached.
    work : float
        That of the rounds so far.
    hopeless : bool
        Whether the rest would take more than is allowed.
    f, beta : (t, n)
        Decision values without the intercepts b (t,), and the coefficients that the losses give at
        them.
    """

    def __init__(
        self, run: RunState, center: np.ndarray, width: float, allowed: float = np.inf
    ) -> None:
        self.run, self.bank, problem = run, run.bank, run.problem
        self.ended, self.hopeless, self.work, self.allowed = False, False, 0.0, allowed
        self.outputs = [
            _Output(*of, width) for of in zip(problem.boxes, problem.cost, center, strict=True)
        ]
        self.b, self.f, self.beta = np.zeros(len(center)), np.zeros_like(center), center.copy()

    def begin(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of the features and of the points to begin with: those of an earlier
        result, as long as is best for this problem, or none.
        """
        v = np.zeros((len(self.beta), self.bank.offsets[-1]))
        if self.beta.any():
            self.bank.want(np.flatnonzero(weights))
            v = self.bank.coefficients(weights, self.beta)
            f = self.bank.sums_of(np.flatnonzero(weights), v)
            length = np.sqrt(self.bank.squared_norms(v)).sum()

            def value(multiple: float) -> float:
                self.f = multiple * f
                self.level(TOLERANCES.rough_sum)
                return 0.5 * (multiple * length) ** 2 + self._losses()

            near = {"xatol": TOLERANCES.multiple_error}
            best = minimize_scalar(value, bounds=(0.0, 1.0), method="bounded", options=near).x
            v, self.f = best * v, best * f
        self.level(TOLERANCES.exact_sum)
        return v, self.run.problem.feasible(self.beta)

    def to(self, aim: float, v: np.ndarray, b: np.ndarray, forms: np.ndarray) -> np.ndarray:
        """Go round from coefficients v of the features until the gap of the kernels that are
        visited is small enough; the coefficients there.

        Parameters
        ----------
        aim : float
        v : (t, r), b : (t,), forms : (m,)
            Where to begin, and the quadratic forms of all kernels there.
        """
        v, self.b = v.copy(), b.copy()
        sizes = np.sqrt(self.bank.squared_norms(v))
        self.f = self.bank.sums_of(np.flatnonzero(sizes), v)
        self.level(TOLERANCES.exact_sum)
        # the working set, and the price of the rounds between two looks at its gap
        blocks = self._blocks(_visited(sizes, forms, self.bank.capacity), v)
        sizes, trail, gap = np.array([block.length for block in blocks]), [], np.inf
        a_look = TOLERANCES.rounds_per_look * sum(
            TOLERANCES.work_per_visit + TOLERANCES.work_per_entry * block.entries
            for block in blocks
        )
        with self._threads():
            for done in range(1, TOLERANCES.rounds_per_pass + 1):
                # a round: every block in turn
                trail.append(self._place(blocks))
                for place, block in enumerate(blocks):
                    others = max(sizes.sum() - sizes[place], 0.0)
                    sizes[place] = block.visit(self, others)
                if done % TOLERANCES.rounds_per_look:
                    continue
                # a look at the gap, and at the work that is left
                self.work += a_look
                before, gap = gap, self._gap(blocks, sizes)
                self.ended = gap <= aim
                self.hopeless = self.work + a_look * _looks(before, gap, aim) > self.allowed
                if self.ended or self.hopeless:
                    break
                # Anderson's extrapolation
                sizes, trail = self._beyond(blocks, sizes, [*trail, self._place(blocks)]), []
        self.run.counters.machine_steps += done * len(blocks)
        for block in blocks:
            v[:, block.columns] = block.u @ block.turn.T
        return v

    def point(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights of all kernels for coefficients of the features, and feasible ones of the points,
        those of the last round.
        """
        self.level(TOLERANCES.exact_sum)
        sizes, regularizer = np.sqrt(self.bank.squared_norms(v)), self.run.problem.regularizer
        weights = regularizer.adopt(sizes) if sizes.any() else self.run.start.weights
        return weights, self.run.problem.feasible(self.beta)

    def level(self, enough: float) -> None:
        """The best intercepts, and the coefficients that go with them."""
        for c, output in enumerate(self.outputs):
            self.b[c] = output.level(self.f[c], self.b[c], enough, self.beta[c])

    def _blocks(self, kernels: np.ndarray, v: np.ndarray) -> "list[_Block]":
        bends = np.max([output.curvature for output in self.outputs], axis=0)
        scale = float(bends.max(initial=0.0))
        self.bank.want(kernels)
        spectra = self.bank.spectra(bends / (scale or 1.0))
        self.bank.threads.map(spectra.of, kernels)
        return [_Block(k, self.bank, spectra.of(k), scale, v) for k in kernels]

    def _gap(self, blocks: "list[_Block]", sizes: np.ndarray) -> float:
        """The duality gap of the problem of some kernels, with corners rounded off: the
        coefficients are the response to the decision values, so that the losses and their duals
        make ``-beta.f``.
        """
        self.level(TOLERANCES.exact_sum)
        forms = (np.square(block.moments(self.beta)).sum() for block in blocks)
        return 0.5 * (sizes.sum() ** 2 + max(forms, default=0.0)) - np.sum(self.beta * self.f)

    def _place(self, blocks: "list[_Block]") -> np.ndarray:
        """Coefficients and decision values, (t, r' + n)."""
        return np.hstack([*(block.u for block in blocks), self.f])

    def _beyond(
        self, blocks: "list[_Block]", sizes: np.ndarray, trail: list[np.ndarray]
    ) -> np.ndarray:
        """Go on from where the last rounds lead to, if the value is smaller there; the lengths of
        the coefficients.

        Anderson's extrapolation: the combination of the last places, with a sum of one, whose
        combined change is smallest.
        """
        columns = trail[0].shape[1] - self.f.shape[1]
        changes = np.diff([place[:, :columns].ravel() for place in trail], axis=0)
        products = changes @ changes.T
        products[np.diag_indices(len(products))] += TOLERANCES.diagonal_shift * np.trace(products)
        if not products.any():
            return sizes
        share = np.linalg.solve(products, np.ones(len(products)))
        target = np.tensordot(share / share.sum(), trail[1:], 1)
        before, b = self._value(sizes), self.b.copy()
        self._move(blocks, target)
        after = np.array([block.length for block in blocks])
        if self._value(after) < before:
            return after
        self._move(blocks, trail[-1])
        self.b[:] = b
        return sizes

    def _move(self, blocks: "list[_Block]", place: np.ndarray) -> None:
        """Go back to, or on to, a place."""
        ends = np.cumsum([block.u.shape[1] for block in blocks])
        *parts, self.f = np.split(place, ends, axis=1)
        for block, part in zip(blocks, parts, strict=True):
            block.u = part.copy()

    def _value(self, sizes: np.ndarray) -> float:
        """The primal value, with rounded corners, at the best intercepts."""
        self.level(TOLERANCES.rough_sum)
        return 0.5 * sizes.sum() ** 2 + self._losses()

    def _losses(self) -> float:
        at = zip(self.outputs, self.f, self.b, strict=True)
        return sum(output.loss(f, b) for output, f, b in at)

    def _threads(self) -> AbstractContextManager:
        large = self.bank.n * np.diff(self.bank.offsets).max() >= TOLERANCES.threads_from_entries
        return self.bank.threads.algebra() if large else nullcontext()


def _looks(before: float, gap: float, aim: float) -> float:
    """The number of looks to come, if the gap goes on to fall as since the last one."""
    if gap <= aim or not np.isfinite(before):
        return 0.0
    return np.log(gap / aim) / np.log(before / gap) if gap < before else np.inf


def _visited(sizes: np.ndarray, forms: np.ndarray, capacity: int) -> np.ndarray:
    """The kernels with coefficients, and those that may get some: as many again, if there are and
    their factors can be held.
    """
    used, reach = sizes > 0.0, TOLERANCES.joins_above * sizes.sum()
    order = np.argsort(-np.where(used, -1.0, forms), kind="stable")
    most = max(1, min(max(TOLERANCES.joining_kernels, used.sum()), capacity - used.sum()))
    joining = order[:most][np.sqrt(np.maximum(forms[order[:most]], 0.0)) > reach]
    return np.union1d(np.flatnonzero(used), joining[~used[joining]])


class _Block:
    """Coefficients of one kernel in the directions of its curvature, u (t, q)."""

    def __init__(
        self,
        k: int,
        bank: Any,
        spectrum: tuple[np.ndarray, np.ndarray],
        scale: float,
        v: np.ndarray,
    ) -> None:
        self.k, self.bank = k, bank
        self.columns = slice(bank.offsets[k], bank.offsets[k + 1])
        values, self.turn = spectrum
        self.curvatures, self.u = scale * values, v[:, self.columns] @ self.turn

    @property
    def length(self) -> float:
        return float(np.linalg.norm(self.u))

    @property
    def entries(self) -> int:
        """The number of entries of the kernel's factors."""
        return self.bank.n * self.u.shape[1]

    def moments(self, beta: np.ndarray) -> np.ndarray:
        """``V' beta`` in those directions, (t, q)."""
        V = self.bank.block(self.k)
        return (beta.astype(V.dtype) @ V).astype(float) @ self.turn

    def visit(self, descent: Descent, others: float) -> float:
        """Move to the best coefficients while those of other kernels, of lengths with this sum,
        stay; their length.
        """
        z = self.moments(descent.beta) + self.curvatures * self.u
        new = np.empty_like(self.u)
        length = loops.shrunk(z, self.curvatures, others, new)
        change = new - self.u
        if change.any():
            V = self.bank.block(self.k)
            descent.f += (change @ self.turn.T).astype(V.dtype) @ V.T
            self.u = new
            descent.level(TOLERANCES.rough_sum)
        return length


class _Output:
    """The loss of one output, with corners rounded off around some coefficients.

    Attributes
    ----------
    curvature : (n,)
        What the second derivative of the loss is nowhere above.
    """

    def __init__(self, box: Box, cost: np.ndarray, center: np.ndarray, width: float) -> None:
        self.box = box
        if box.curve is not None:
            self.curvature = box.curve.largest_bends()
            return
        room = np.minimum(box.upper - box.lower, cost)
        extra = np.where((box.ridge > 0.0) | (room <= 0.0), 0.0, width / np.maximum(room, 1e-300))
        ridge = np.where(room > 0.0, box.ridge + extra, 1.0)
        self.curvature = np.where(room > 0.0, 1.0 / ridge, 0.0)
        self.linear = box.linear + extra * center
        self.bounds = box.bounds()._replace(ridge=ridge)

    def level(self, f: np.ndarray, b: float, enough: float, beta: np.ndarray) -> float:
        """The best intercept for decision values f without one, which b is near; beta are the
        coefficients there.
        """
        if self.box.curve is None:
            return loops.leveled(self.linear, self.bounds, f, b, self.box.total, enough, beta)
        b = b + self.box.curve.level(f + b, self.box.total)
        beta[:] = self.box.curve.response(f + b)[0]
        return b

    def loss(self, f: np.ndarray, b: float) -> float:
        """The total loss of decision values ``f + b``, with rounded corners."""
        if self.box.curve is not None:
            return self.box.curve.loss(f + b)
        beta, ridge, kink = np.empty_like(f), self.bounds.ridge, self.bounds.kink
        loops.respond(self.linear, self.bounds, f, b, beta)
        losses = beta * (self.linear - f - b) - kink * np.abs(beta) - 0.5 * ridge * beta**2
        return float(losses.sum()) + self.box.total * b
