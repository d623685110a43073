"""Newton's method in small spaces, over the kernels that may have weight.

At weights ``d_k = |v_k| / sum_j |v_j|`` the penalty is that of a ridge, ``sum_k |v_k|^2 / 2 d_k``,
and a step of Newton's method at these weights is a system of equations without a wall in it:
conjugate gradients take a few products with the factors for as much of it as is of use.

What the ridge does not know, the lengths of the blocks, which of them are zero and how far to go,
is then found at once, in a space of four directions for each kernel: its coefficients, the step,
the moments ``V_k' beta`` and the last change. A kernel that joins has its moments only. There the
problem is a group lasso with four columns for a kernel. Its quadratic models have a small Gram
matrix, on which rounds of block coordinate descent are compiled and cost nothing beside a product
with the factors: thousands of them, which kernels that are alike need, as well as ten.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from ..._loops import blocks as loops
from ..._pulse import pulse
from ...losses import Box
from ...run_state import RunState


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Kernels that may join at a time, at least; larger: fewer passes over all kernels.
    joining_kernels: int = 8
    # Part of the largest length of moments from which on a kernel may join; larger: fewer join.
    joins_above: float = 0.99
    # The same before a step ahead, from lengths of the problem before; larger: fewer join.
    joins_ahead_above: float = 0.95
    # Steps between two passes over all kernels; larger: longer descents.
    steps_per_pass: int = 20
    # Part of the first gap that ends a descent: more kernels may have to join. Larger: more passes
    # over all kernels, and shorter descents.
    gap_left: float = 0.1
    # Part of the first gap to reach at least; larger: shorter descents, which may be for nothing.
    least_progress: float = 0.25
    # Part of the residual that conjugate gradients may leave; larger: more and cheaper steps.
    residual_left: float = 0.3
    # Their rounds at most; larger: dearer steps where the loss is nearly a wall.
    most_rounds: int = 40
    # Part of a direction that must be its own, not that of the directions before it; larger: some
    # are left out.
    own_part: float = 1e-6
    # Quadratic models of the small problem; larger: it is solved further.
    models: int = 5
    # Error of its value, as a part of the gap that is left and of that to reach; larger: rougher.
    share_of_gap: float = 1e-5
    share_of_aim: float = 1e-5
    # Rounds of block coordinate descent on a model; larger: it is solved further.
    rounds_per_model: int = 300
    # Error of the value of a model, as a part of that of the small problem; larger: rougher.
    model_error: float = 1e-2
    # Halvings of a step of the small problem; larger: shorter steps are tried.
    halvings: int = 10
    # Error of the sum of the coefficients in a step, as a part of their sizes; larger: rougher
    # intercepts.
    rough_sum: float = 1e-9
    # The same where a point is judged; larger: less exact certificates.
    exact_sum: float = 1e-14
    # Error of the best multiple of earlier coefficients; larger: a rougher warm start.
    multiple_error: float = 1e-2
    # Entries of a block from which on products use several threads; larger: fewer do.
    threads_from_entries: int = 2**21
    # Price of a product with a block, in multiplications of a product of matrices; larger: descents
    # count as slower.
    work_per_block: float = 2e5
    # Price of an entry of a block in it; larger: descents count as slower.
    work_per_entry: float = 10.0


TOLERANCES = Tolerances()


class Start(NamedTuple):
    """Where a descent begins.

    Attributes
    ----------
    v : (t, r) coefficients of the features
    b : (t,) intercepts
    forms : (m,) quadratic forms of all kernels there
    f, moments : (t, n) and (t, r) arrays, optional
        Decision values and moments ``V' beta`` there, if they are known.
    """

    v: np.ndarray
    b: np.ndarray
    forms: np.ndarray
    f: np.ndarray | None = None
    moments: np.ndarray | None = None


class Descent:
    """Steps over the kernels that may have weight.

    Parameters
    ----------
    run : RunState
    center : (t, n) array
        Coefficients around which corners are rounded off.
    width : float
        Over which they are.
    allowed : float
        Work that the steps may take, in multiplications.

    Attributes
    ----------
    ended : bool
        Whether the gap fell as far as it should before others may join.
    reached : bool
        Whether it is the one that was asked for.
    work : float
        That of the steps so far.
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
        self.ended = self.reached = self.hopeless = False
        self.work, self.allowed = 0.0, allowed
        self.outputs = [
            _Output(*of, width) for of in zip(problem.boxes, problem.cost, center, strict=True)
        ]
        self.b, self.f, self.beta = np.zeros(len(center)), np.zeros_like(center), center.copy()
        self.is_quadratic = all(box.free for box in problem.boxes)

    def begin(self, weights: np.ndarray, v: np.ndarray | None) -> np.ndarray:
        """Coefficients of the features to begin with: those of an earlier result, if they are of
        use here; or what its weights and coefficients of the points make, as long as is best for
        this problem; or none.
        """
        none = np.zeros((len(self.beta), self.bank.offsets[-1]))
        is_given = v is not None
        if v is None:
            v = self.bank.coefficients(weights, self.beta) if self.beta.any() else none
        sizes = np.sqrt(self.bank.squared_norms(v))
        if sizes.any():
            self.bank.want(np.flatnonzero(sizes))
            f = self.bank.sums_of(np.flatnonzero(sizes), v)

            def value(multiple: float) -> float:
                self.f = multiple * f
                return self._value(multiple * sizes.sum())

            near = {"xatol": TOLERANCES.multiple_error}
            if is_given:
                best = float(value(1.0) < value(0.0))
            else:
                best = minimize_scalar(value, bounds=(0.0, 1.0), method="bounded", options=near).x
            v, self.f = best * v, best * f
        self.level(TOLERANCES.exact_sum)
        return v

    def to(self, aim: float, start: Start) -> np.ndarray:
        """Go on until the gap of the kernels that are visited is small enough; the coefficients of
        the features there.
        """
        v, sizes = start.v, np.sqrt(self.bank.squared_norms(start.v))
        self.b = start.b.copy()
        self.f = self.bank.sums_of(np.flatnonzero(sizes), v) if start.f is None else start.f
        self.level(TOLERANCES.exact_sum)
        visited = _Visited(self.bank, _joined(sizes, start.forms, self.bank.capacity))
        now, gap, enough = v[:, visited.columns], np.inf, aim
        known = None if start.f is None else start.moments
        change = np.zeros_like(now)
        with self._threads():
            for _ in range(TOLERANCES.steps_per_pass):
                pulse()
                moments = visited.moments(self.beta) if known is None else known[:, visited.columns]
                lengths, known = visited.lengths(now), None
                before, gap = gap, self._gap(lengths.sum(), visited.lengths(moments))
                if before == np.inf:  # where it is asked to go on
                    aim = min(aim, TOLERANCES.least_progress * gap)
                    enough = max(aim, TOLERANCES.gap_left * gap)
                # the end, or a look at the work that is left
                self.ended, self.reached = gap <= enough, gap <= aim
                self.hopeless = self._rest(visited, before, gap, enough) > self.allowed
                if self.ended or self.hopeless:
                    break
                step = self._step(visited, now, moments)
                basis = visited.basis([now, step, moments, change])
                new = self._smallest(visited, basis, lengths, aim, gap)
                now, change = new, new - now
        return self._moved_to(visited, v, now)

    def ahead(self, v: np.ndarray, change: np.ndarray, forms: np.ndarray, tol: float) -> np.ndarray:
        """A step from the solution v of a problem before this one, on the way that led there: the
        coefficients of the features after it.

        Parameters
        ----------
        v, change : (t, r)
            Where to begin (see `begin`), and by how much the problem before moved them.
        forms : (m,) quadratic forms of all kernels there
        tol : float
            Relative gap to reach.
        """
        sizes, capacity = np.sqrt(self.bank.squared_norms(v)), self.bank.capacity
        joined = _joined(sizes, forms, capacity, TOLERANCES.joins_ahead_above)
        visited = _Visited(self.bank, joined)
        now, aim = v[:, visited.columns], tol * abs(self._value(sizes.sum()))
        with self._threads():
            moments, lengths = visited.moments(self.beta), visited.lengths(now)
            gap = self._gap(lengths.sum(), visited.lengths(moments))
            basis = visited.basis([now, moments, change[:, visited.columns]])
            now = self._smallest(visited, basis, lengths, aim, gap)
        return self._moved_to(visited, v, now)

    def _moved_to(self, visited: "_Visited", v: np.ndarray, now: np.ndarray) -> np.ndarray:
        """Coefficients v with those of the visited kernels in their places."""
        self.run.counters.machine_steps += visited.products
        v = v.copy()
        v[:, visited.columns] = now
        return v

    def point(self, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights of all kernels for coefficients of the features, and feasible ones of the points,
        those of the last step.
        """
        self.level(TOLERANCES.exact_sum)
        sizes, regularizer = np.sqrt(self.bank.squared_norms(v)), self.run.problem.regularizer
        weights = regularizer.adopt(sizes) if sizes.any() else self.run.start.weights
        return weights, self.run.problem.feasible(self.beta)

    def level(self, enough: float) -> None:
        """The best intercepts, and the coefficients that go with them."""
        for c, output in enumerate(self.outputs):
            self.b[c] = output.level(self.f[c], self.b[c], enough, self.beta[c])

    def _gap(self, length: float, moments: np.ndarray) -> float:
        """The duality gap of the problem of some kernels, with corners rounded off, for the lengths
        of their coefficients and moments: the coefficients of the points are the response to the
        decision values, so that the losses and their duals make ``-beta.f``.
        """
        longest = moments.max(initial=0.0)
        return 0.5 * (length**2 + longest**2) - float(np.sum(self.beta * self.f))

    def _rest(self, visited: "_Visited", before: float, gap: float, aim: float) -> float:
        """The work of all steps, if the gap goes on to fall as in the last one."""
        a_step, self.work = visited.work - self.work, visited.work
        return self.work + a_step * _steps(before, gap, aim)

    def _step(self, visited: "_Visited", v: np.ndarray, moments: np.ndarray) -> np.ndarray:
        """The step of Newton's method at the weights of the coefficients v, (t, c)."""
        lengths = visited.lengths(v)
        if not lengths.any():
            return np.zeros_like(v)
        # coefficients are those of the ridge times the roots of the weights
        roots = visited.each(np.sqrt(lengths / lengths.sum()))
        pull = np.where(roots > 0.0, v / np.where(roots > 0.0, roots, 1.0), 0.0)
        right = roots * moments - pull
        rows = []
        for c, output in enumerate(self.outputs):
            bends = output.response(self.f[c] + self.b[c])[1]
            rows.append(roots * visited.ridge(roots, bends, right[c], lengths > 0.0))
        return np.stack(rows)

    def _smallest(
        self, visited: "_Visited", basis: np.ndarray, lengths: np.ndarray, aim: float, gap: float
    ) -> np.ndarray:
        """The best coefficients in the space of directions, of which the first are those of the
        coefficients so far; the decision values follow.
        """
        goal = max(TOLERANCES.share_of_aim * aim, TOLERANCES.share_of_gap * gap)
        design = visited.design(basis)
        x = np.zeros((lengths.size, len(basis)))
        x[:, 0] = lengths
        value = self._value(lengths.sum())
        for _ in range(TOLERANCES.models):
            G, pull = self._model(design)
            new, is_minimum = _minimized(G, pull, x, TOLERANCES.model_error * goal)
            promise = _promise(G, pull, x, new)
            x, after = self._moved(design, x, new, value)
            gain, value = value - after, after
            left = 0.0 if self.is_quadratic and is_minimum else 0.1 * gain
            if gain <= 0.0 or max(abs(promise - gain), left) <= goal:
                break
        self.level(TOLERANCES.exact_sum)
        return np.einsum("jtc,cj->tc", basis, visited.each(x))

    def _model(self, design: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The Gram matrix of a quadratic model of the losses, less what the intercepts take of it,
        and minus their slopes.
        """
        size = design.shape[2]
        G, pull = np.zeros((size, size)), np.zeros(size)
        for c, (output, columns) in enumerate(zip(self.outputs, design, strict=True)):
            bends = output.response(self.f[c] + self.b[c])[1]
            total = float(bends.sum())
            scaled = np.sqrt(bends)[:, None] * (columns - bends @ columns / (total or 1.0))
            G += scaled.T @ scaled
            pull += self.beta[c] @ columns
        return G, pull

    def _moved(
        self, design: np.ndarray, x: np.ndarray, new: np.ndarray, value: float
    ) -> tuple[np.ndarray, float]:
        """Coefficients of the directions as far to new ones as the value falls, and the value."""
        f, b, length = self.f, self.b.copy(), 1.0
        change = design @ (new - x).ravel()
        for _ in range(TOLERANCES.halvings):
            there = new if length == 1.0 else x + length * (new - x)
            self.f = f + length * change
            after = self._value(np.linalg.norm(there, axis=1).sum())
            if after < value:
                return there, after
            length *= 0.5
        self.f, self.b[:] = f, b
        return x, value

    def _value(self, length: float) -> float:
        """The primal value, with rounded corners, at the best intercepts, where the lengths of the
        coefficients sum up to this.
        """
        self.level(TOLERANCES.rough_sum)
        at = zip(self.outputs, self.f, self.b, strict=True)
        return 0.5 * length**2 + sum(output.loss(f, b) for output, f, b in at)

    def _threads(self) -> AbstractContextManager:
        large = self.bank.n * np.diff(self.bank.offsets).max() >= TOLERANCES.threads_from_entries
        return self.bank.threads.algebra() if large else nullcontext()


def _steps(before: float, gap: float, aim: float) -> float:
    """The number of steps to come, if the gap goes on to fall as in the last one."""
    if gap <= aim or not np.isfinite(before):
        return 0.0
    return np.log(gap / aim) / np.log(before / gap) if gap < before else np.inf


def _joined(
    sizes: np.ndarray, forms: np.ndarray, capacity: int, above: float = TOLERANCES.joins_above
) -> np.ndarray:
    """The kernels with coefficients, and those that may get some: as many again, if there are and
    their factors can be held.
    """
    used, reach = sizes > 0.0, above * sizes.sum()
    order = np.argsort(-np.where(used, -1.0, forms), kind="stable")
    most = max(1, min(max(TOLERANCES.joining_kernels, used.sum()), capacity - used.sum()))
    joining = order[:most][np.sqrt(np.maximum(forms[order[:most]], 0.0)) > reach]
    return np.union1d(np.flatnonzero(used), joining[~used[joining]])


class _Visited:
    """The kernels that are visited, and the c columns of their factors.

    Attributes
    ----------
    columns : (c,)
        Of all factors.
    products : int
        With blocks, so far.
    work : float
        That of these products, in multiplications.
    """

    def __init__(self, bank: Any, kernels: np.ndarray) -> None:
        self.bank, self.kernels, self.products, self.work = bank, kernels, 0, 0.0
        bank.want(kernels)
        parts = [np.arange(bank.offsets[k], bank.offsets[k + 1]) for k in kernels]
        self.columns = np.concatenate([*parts, np.empty(0, int)]).astype(int)
        self.counts = np.array([len(part) for part in parts], dtype=int)
        self.ends = np.concatenate([[0], np.cumsum(self.counts)])

    def each(self, of_kernels: np.ndarray) -> np.ndarray:
        """What kernels have, (K, ...), for each of their columns, (c, ...)."""
        return np.repeat(of_kernels, self.counts, axis=0)

    def lengths(self, v: np.ndarray) -> np.ndarray:
        """Lengths of the parts of v (t, c) that belong to each kernel, (K,)."""
        return np.sqrt(self._sums(np.square(v).sum(axis=0)))

    def _sums(self, of_columns: np.ndarray) -> np.ndarray:
        """Sums over the columns of each kernel, (K,), of (c,)."""
        total = np.concatenate([[0.0], np.cumsum(of_columns)])
        return np.maximum(np.diff(total[self.ends]), 0.0)

    def _blocks(self, used: np.ndarray | None = None) -> Iterable[tuple[int, slice, np.ndarray]]:
        """Place, columns and factors of every kernel, or of some."""
        for place, k in enumerate(self.kernels):
            if used is None or used[place]:
                V = self.bank.block(k)
                self.products += 1
                self.work += TOLERANCES.work_per_block + TOLERANCES.work_per_entry * V.size
                yield place, slice(self.ends[place], self.ends[place + 1]), V

    def moments(self, beta: np.ndarray, used: np.ndarray | None = None) -> np.ndarray:
        """``V' beta`` for beta (t, n), as (t, c); zero for kernels that are not used."""
        out = np.zeros((len(beta), self.columns.size))
        for _, own, V in self._blocks(used):
            out[:, own] = beta.astype(V.dtype) @ V
        return out

    def ridge(
        self, roots: np.ndarray, bends: np.ndarray, right: np.ndarray, used: np.ndarray
    ) -> np.ndarray:
        """The x (c,) with ``x + R V' W V R x = right``, roughly, by conjugate gradients; R are the
        roots of the weights, W the bends of the loss, less what the intercept takes of them.
        """
        total = float(bends.sum()) or 1.0
        x, residual, p = np.zeros_like(right), right, right
        now = first = float(right @ right)
        for _ in range(TOLERANCES.most_rounds):
            if now <= TOLERANCES.residual_left**2 * first:
                break
            f = np.zeros(bends.size)
            for _, own, V in self._blocks(used):
                f += V @ (roots[own] * p[own]).astype(V.dtype)
            f = bends * (f - float(bends @ f) / total)
            Hp = p + roots * self.moments(f[None], used)[0]
            length = now / float(p @ Hp)
            x, residual = x + length * p, residual - length * Hp
            before, now = now, float(residual @ residual)
            p = residual + now / before * p
        return x

    def basis(self, directions: list[np.ndarray]) -> np.ndarray:
        """Directions (t, c) made orthogonal to each other and of length one for each kernel, zero
        where nothing is left of them, (j, t, c).
        """
        made: list[np.ndarray] = []
        for v in directions:
            own, before = v, self.lengths(v)
            for _ in range(2):  # twice, for rounding
                for one in made:
                    own = own - one * self.each(self._products(one, own))
            left = self.lengths(own)
            is_new = left > TOLERANCES.own_part * before
            scale = np.where(is_new, 1.0 / np.where(is_new, left, 1.0), 0.0)
            made.append(own * self.each(scale))
        return np.stack(made)

    def _products(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Inner products of the parts of a and b (t, c) that belong to each kernel, (K,)."""
        total = np.concatenate([[0.0], np.cumsum((a * b).sum(axis=0))])
        return np.diff(total[self.ends])

    def design(self, basis: np.ndarray) -> np.ndarray:
        """Decision values of the directions (j, t, c) of every kernel, (t, n, j K)."""
        count, outputs = basis.shape[:2]
        out = np.empty((outputs, self.bank.n, self.kernels.size * count))
        for place, own, V in self._blocks():
            columns = basis[:, :, own].reshape(count * outputs, -1).T
            found = V @ np.ascontiguousarray(columns, dtype=V.dtype)  # else half as fast
            found = found.reshape(-1, count, outputs)
            out[:, :, place * count : (place + 1) * count] = found.transpose(2, 0, 1)
        return out


# --- the small problem ----------------------------------------------------------------------------


def _minimized(
    G: np.ndarray, pull: np.ndarray, x: np.ndarray, error: float
) -> tuple[np.ndarray, bool]:
    """The x (K, j) that minimizes ``(sum_k |x_k|)^2 / 2 + x' G x / 2`` less what is linear, where
    the slope of all but the first part is ``-pull`` at the x that is given; and whether it does.

    Blocks are turned so that their parts of G are diagonal.
    """
    count, size = x.shape
    square = G.reshape(count, size, count, size)
    turns = np.linalg.eigh(square[np.arange(count), :, np.arange(count), :])[1]
    half = np.einsum("kabc,bcd->kabd", square, turns)
    turned = np.einsum("kae,kabd->kebd", turns, half).reshape(count * size, -1)
    found = np.einsum("kae,ka->ke", turns, x)
    slopes = np.einsum("kae,ka->ke", turns, pull.reshape(count, size))
    rounds = loops.descend(turned, slopes, found, error, TOLERANCES.rounds_per_model)
    return np.einsum("kae,ke->ka", turns, found), rounds < TOLERANCES.rounds_per_model


def _promise(G: np.ndarray, pull: np.ndarray, x: np.ndarray, new: np.ndarray) -> float:
    """By how much the value of a model falls."""
    before, after = (np.linalg.norm(at, axis=1).sum() for at in (x, new))
    change = (new - x).ravel()
    return 0.5 * float(before**2 - after**2) + float(pull @ change - 0.5 * change @ G @ change)


class _Output:
    """The loss of one output, with corners rounded off around some coefficients."""

    def __init__(self, box: Box, cost: np.ndarray, center: np.ndarray, width: float) -> None:
        self.box = box
        if box.curve is not None:
            return
        room = np.minimum(box.upper - box.lower, cost)
        extra = np.where((box.ridge > 0.0) | (room <= 0.0), 0.0, width / np.maximum(room, 1e-300))
        ridge = np.where(room > 0.0, box.ridge + extra, 1.0)
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

    def response(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients at decision values f, and the curvature of the loss there."""
        if self.box.curve is not None:
            return self.box.curve.response(f)
        pull, (lower, upper, kink, ridge) = self.linear - f, self.bounds
        free = np.sign(pull) * np.maximum(np.abs(pull) - kink, 0.0) / ridge
        beta = np.clip(free, lower, upper)
        bends = (beta == free) & ((kink == 0.0) | (beta != 0.0)) & (upper > lower)
        return beta, np.where(bends, 1.0 / ridge, 0.0)

    def loss(self, f: np.ndarray, b: float) -> float:
        """The total loss of decision values ``f + b``, with rounded corners."""
        if self.box.curve is not None:
            return self.box.curve.loss(f + b)
        beta = self.response(f + b)[0]
        losses = beta * (self.linear - f - b) - self.bounds.kink * np.abs(beta)
        losses -= 0.5 * self.bounds.ridge * beta**2
        return float(losses.sum()) + self.box.total * b
