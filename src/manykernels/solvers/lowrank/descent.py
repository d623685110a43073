"""Rounds of block coordinate descent over the kernels that may have weight.

The curvature of the loss is nowhere above that of a parabola with ``V_k' diag(h) V_k``, less what
the intercept takes of it, for a Hessian: with its eigenvectors, which are found once for all blocks
and all values of C, the best coefficients of a block are a closed form but for their length. So a
visit costs two products with the factors of one kernel; large directions that all kernels share,
the constant one first, do not slow it down.
"""

from contextlib import nullcontext

import numpy as np
from scipy.optimize import minimize_scalar

from ..._loops import blocks as loops

JOIN = 8  # kernels that join at a time, at least
SLACK = 0.99  # of the largest length of moments allowed, from which on a kernel may join
LOOK = 5  # rounds from one look at the gap to the next
ROUNDS = 200  # over the kernels that are visited, between two passes over all
ROUGH, EXACT = 1e-9, 1e-14  # errors of the sum of the coefficients, as a part of their sizes
HOLD = 1e-12  # on the diagonal of a system, as a part of its trace
NEAR = {"xatol": 1e-2}  # of the best multiple of earlier coefficients
LARGE = 2**21  # entries of a block from which on a product with it is worth several threads
# what a visit costs, and an entry of a block in it, which is read twice: in multiplications, as
# many as a product of matrices does in that time
VISIT, ENTRY = 5e5, 20.0


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

    def __init__(self, run, center, width, allowed=np.inf):
        self.run, self.bank, problem = run, run.bank, run.problem
        self.ended, self.hopeless, self.work, self.allowed = False, False, 0.0, allowed
        self.outputs = [
            _Output(*of, width) for of in zip(problem.boxes, problem.cost, center, strict=True)
        ]
        self.b, self.f, self.beta = np.zeros(len(center)), np.zeros_like(center), center.copy()

    def begin(self, weights):
        """Coefficients of the features and of the points to begin with: those of an earlier
        result, as long as is best for this problem, or none.
        """
        v = np.zeros((len(self.beta), self.bank.offsets[-1]))
        if self.beta.any():
            self.bank.want(np.flatnonzero(weights))
            v = self.bank.coefficients(weights, self.beta)
            f = self.bank.sums_of(np.flatnonzero(weights), v)
            length = np.sqrt(self.bank.squared_norms(v)).sum()

            def value(multiple):
                self.f = multiple * f
                self.level(ROUGH)
                return 0.5 * (multiple * length) ** 2 + self._losses()

            best = minimize_scalar(value, bounds=(0.0, 1.0), method="bounded", options=NEAR).x
            v, self.f = best * v, best * f
        self.level(EXACT)
        return v, self.run.problem.feasible(self.beta)

    def to(self, aim, v, b, forms):
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
        self.level(EXACT)
        blocks = self._blocks(_visited(sizes, forms, self.bank.capacity), v)
        sizes, trail, gap = np.array([block.length for block in blocks]), [], np.inf
        a_look = LOOK * sum(VISIT + ENTRY * block.entries for block in blocks)
        with self._threads():
            for done in range(1, ROUNDS + 1):
                trail.append(self._place(blocks))
                for place, block in enumerate(blocks):
                    others = max(sizes.sum() - sizes[place], 0.0)
                    sizes[place] = block.visit(self, others)
                if done % LOOK:
                    continue
                self.work += a_look
                before, gap = gap, self._gap(blocks, sizes)
                self.ended = gap <= aim
                self.hopeless = self.work + a_look * _looks(before, gap, aim) > self.allowed
                if self.ended or self.hopeless:
                    break
                sizes, trail = self._beyond(blocks, sizes, [*trail, self._place(blocks)]), []
        self.run.counters.machine_steps += done * len(blocks)
        for block in blocks:
            v[:, block.columns] = block.u @ block.turn.T
        return v

    def point(self, v):
        """Weights of all kernels for coefficients of the features, and feasible ones of the points,
        those of the last round.
        """
        self.level(EXACT)
        sizes, regularizer = np.sqrt(self.bank.squared_norms(v)), self.run.problem.regularizer
        weights = regularizer.adopt(sizes) if sizes.any() else self.run.start.weights
        return weights, self.run.problem.feasible(self.beta)

    def level(self, enough):
        """The best intercepts, and the coefficients that go with them."""
        for c, output in enumerate(self.outputs):
            self.b[c] = output.level(self.f[c], self.b[c], enough, self.beta[c])

    def _blocks(self, kernels, v):
        bends = np.max([output.curvature for output in self.outputs], axis=0)
        scale = float(bends.max(initial=0.0))
        self.bank.want(kernels)
        spectra = self.bank.spectra(bends / (scale or 1.0))
        self.bank.threads.map(spectra.of, kernels)
        return [_Block(k, self.bank, spectra.of(k), scale, v) for k in kernels]

    def _gap(self, blocks, sizes):
        """The duality gap of the problem of some kernels, with corners rounded off: the
        coefficients are the response to the decision values, so that the losses and their duals
        make ``-beta.f``.
        """
        self.level(EXACT)
        forms = (np.square(block.moments(self.beta)).sum() for block in blocks)
        return 0.5 * (sizes.sum() ** 2 + max(forms, default=0.0)) - np.sum(self.beta * self.f)

    def _place(self, blocks):
        """Coefficients and decision values, (t, r' + n)."""
        return np.hstack([*(block.u for block in blocks), self.f])

    def _beyond(self, blocks, sizes, trail):
        """Go on from where the last rounds lead to, if the value is smaller there; the lengths of
        the coefficients.

        Anderson's extrapolation: the combination of the last places, with a sum of one, whose
        combined change is smallest.
        """
        columns = trail[0].shape[1] - self.f.shape[1]
        changes = np.diff([place[:, :columns].ravel() for place in trail], axis=0)
        products = changes @ changes.T
        products[np.diag_indices(len(products))] += HOLD * np.trace(products)
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

    def _move(self, blocks, place):
        """Go back to, or on to, a place."""
        ends = np.cumsum([block.u.shape[1] for block in blocks])
        *parts, self.f = np.split(place, ends, axis=1)
        for block, part in zip(blocks, parts, strict=True):
            block.u = part.copy()

    def _value(self, sizes):
        """The primal value, with rounded corners, at the best intercepts."""
        self.level(ROUGH)
        return 0.5 * sizes.sum() ** 2 + self._losses()

    def _losses(self):
        at = zip(self.outputs, self.f, self.b, strict=True)
        return sum(output.loss(f, b) for output, f, b in at)

    def _threads(self):
        large = self.bank.n * np.diff(self.bank.offsets).max() >= LARGE
        return self.bank.threads.algebra() if large else nullcontext()


def _looks(before, gap, aim):
    """How many looks there are to come if the gap goes on to fall as since the last one."""
    if gap <= aim or not np.isfinite(before):
        return 0.0
    return np.log(gap / aim) / np.log(before / gap) if gap < before else np.inf


def _visited(sizes, forms, capacity):
    """The kernels with coefficients, and those that may get some: as many again, if there are and
    their factors can be held.
    """
    used, reach = sizes > 0.0, SLACK * sizes.sum()
    order = np.argsort(-np.where(used, -1.0, forms), kind="stable")
    most = max(1, min(max(JOIN, used.sum()), capacity - used.sum()))
    joining = order[:most][np.sqrt(np.maximum(forms[order[:most]], 0.0)) > reach]
    return np.union1d(np.flatnonzero(used), joining[~used[joining]])


class _Block:
    """Coefficients of one kernel in the directions of its curvature, u (t, q)."""

    def __init__(self, k, bank, spectrum, scale, v):
        self.k, self.bank = k, bank
        self.columns = slice(bank.offsets[k], bank.offsets[k + 1])
        values, self.turn = spectrum
        self.curvatures, self.u = scale * values, v[:, self.columns] @ self.turn

    @property
    def length(self):
        return np.linalg.norm(self.u)

    @property
    def entries(self):
        """Of the factors of the kernel."""
        return self.bank.n * self.u.shape[1]

    def moments(self, beta):
        """``V' beta`` in those directions, (t, q)."""
        V = self.bank.block(self.k)
        return (beta.astype(V.dtype) @ V).astype(float) @ self.turn

    def visit(self, descent, others):
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
            descent.level(ROUGH)
        return length


class _Output:
    """The loss of one output, with corners rounded off around some coefficients.

    Attributes
    ----------
    curvature : (n,)
        What the second derivative of the loss is nowhere above.
    """

    def __init__(self, box, cost, center, width):
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

    def level(self, f, b, enough, beta):
        """The best intercept for decision values f without one, which b is near; beta are the
        coefficients there.
        """
        if self.box.curve is None:
            return loops.leveled(self.linear, self.bounds, f, b, self.box.total, enough, beta)
        b = b + self.box.curve.level(f + b, self.box.total)
        beta[:] = self.box.curve.response(f + b)[0]
        return b

    def loss(self, f, b):
        """Of decision values ``f + b``, with rounded corners."""
        if self.box.curve is not None:
            return self.box.curve.loss(f + b)
        beta, ridge, kink = np.empty_like(f), self.bounds.ridge, self.bounds.kink
        loops.respond(self.linear, self.bounds, f, b, beta)
        losses = beta * (self.linear - f - b) - kink * np.abs(beta) - 0.5 * ridge * beta**2
        return float(losses.sum()) + self.box.total * b
