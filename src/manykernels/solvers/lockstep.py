"""Many problems in lockstep on a device: one interior-point method, whose every step is a few
products of matrices for all of them.

Each problem has one output and the dual

    max  linear' beta - ridge' beta^2 / 2 - phi(s(beta)),    s_k = beta' K_k beta,

over ``lower <= beta <= upper`` and ``sum(beta) = total``, where phi belongs to a ball of p-norms.
With z and z' for the distances to the bounds, a Newton step on the optimality conditions, whose
products are moved from zero to ``mu``, is a system of equations with the matrix

    H = K_d + 2 M' J M + diag(ridge + z / (beta - lower) + z' / (upper - beta)),    M_k = K_k beta

and J the curvature of phi. On the simplex (p = 1), where phi has a kink, the weights are variables
of their own, with ``d_k (t - s_k / 2) = mu``; once they and t are eliminated, H is the same with
another J. A step predicts how far mu can fall, and then corrects for it (Mehrotra 1992). A
problem takes four to sixty steps, more of them with a large C; an SVM's working-set method takes
millions for some of them.

Nothing here is certified: who called computes the certificate of what comes out.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from ..problem import Problem
from ..regularizers import PNormBall


@dataclass(frozen=True)
class Tolerances:
    """The numbers that the method is tuned by."""

    # Part of the tolerance that is left where problems end; larger: fewer steps, and more problems
    # whose certificate, with few kernels, is not good enough.
    share_of_tolerance: float = 0.5
    # Part of the way to the next bound that a step takes at most; larger: faster, until it sticks.
    way_to_bound: float = 0.99
    # Slack of the first multipliers, as a part of the largest slope; larger: a longer way.
    first_slack: float = 1.0
    # Distance of the first coefficients from their bounds, as a part of their mean size; larger:
    # a longer way.
    first_aside: float = 0.1
    # Curvature that is added to every system, as a part of the kernels' diagonal: rounding.
    jitter: float = 1e-13
    # Steps at most; larger: problems that get stuck hinder the others longer.
    steps: int = 60
    # Halvings of a step that goes too far; larger: surer, and a little more work.
    halvings: int = 6
    # Sum of the coefficients that counts as right, as a part of their sizes.
    sum_error: float = 1e-9


TOLERANCES = Tolerances()


class Kernels(Protocol):
    """Kernels on the points of some problems, on a device."""

    n: int
    m: int

    def products(self, beta: Any) -> Any:
        """``K_k beta_b``, (B, m, n) for (B, n) coefficients."""

    def system(self, weights: Any, products: Any, beta: Any, bend: "Bend", diagonal: Any) -> Any:
        """What solves the equations of a step: has ``solve``, for (B, n, c) right-hand sides."""


class Bend(NamedTuple):
    """A curvature ``diag(a) + f v v'`` of every problem: (B, m), (B,) and (B, m)."""

    diagonal: Any
    factor: Any
    vector: Any

    def take(self, chosen: Any) -> "Bend":
        return Bend(*(part[chosen] for part in self))


class Group(NamedTuple):
    """Problems on the same kernels."""

    kernels: Any
    problems: list[Problem]


class Answer(NamedTuple):
    """What came of a problem: weights (m,), coefficients (n,), products (m, n), steps, and whether
    it ended by itself.
    """

    weights: np.ndarray
    beta: np.ndarray
    products: np.ndarray
    steps: int
    finished: bool


def takes(problem: Problem) -> bool:
    """Whether a problem is one for this method: one output, a quadratic dual in a box, a p-norm."""
    if len(problem.boxes) != 1 or type(problem.regularizer) is not PNormBall:
        return False
    box = problem.boxes[0]
    is_plain = box.curve is None and not box.kink.any()
    return is_plain and bool(((box.ridge > 0.0) | np.isfinite(box.upper - box.lower)).all())


def norm_of(problem: Problem) -> float:
    """The p of its ball."""
    return float(cast(PNormBall, problem.regularizer).p)


def solve(device: Any, groups: list[Group], tol: float) -> list[list[Answer]]:
    """The answers to the problems of some groups, each to a relative gap of about tol.

    Parameters
    ----------
    device : Device
    groups : list of Group
    tol : float
    """
    with device.torch.no_grad():
        return Lockstep(device, groups, tol).run()


class Lockstep:
    """The variables of all problems that are under way: a row for each.

    Rows are those of groups one after the other, and as long as the longest: what is behind the
    points of a problem, or behind its kernels, stays zero.
    """

    def __init__(self, device: Any, groups: list[Group], tol: float) -> None:
        self.device, self.torch, self.groups, self.tol = device, device.torch, groups, tol
        self.goal = TOLERANCES.share_of_tolerance * tol
        self.found: list[list[Answer]] = [[None] * len(one.problems) for one in groups]  # type: ignore[list-item]
        # group and number of every row
        self.rows = [(g, k) for g, one in enumerate(groups) for k in range(len(one.problems))]
        problems = [groups[g].problems[k] for g, k in self.rows]
        self.n = max(one.kernels.n for one in groups)
        self.m = max(one.kernels.m for one in groups)
        # points whose coefficient can only be zero, besides those behind a problem's own
        self.has_fixed = any((one.boxes[0].upper <= one.boxes[0].lower).any() for one in problems)
        self.is_curved = any(1.0 < norm_of(one) < np.inf and one.bank.m > 1 for one in problems)
        self._state(problems)

    def _state(self, problems: list[Problem]) -> None:
        boxes = [one.boxes[0] for one in problems]
        self.v: dict[str, Any] = {}  # vectors of all problems
        for name in ("linear", "lower", "upper", "ridge"):
            self.v[name] = self._padded([getattr(box, name) for box in boxes], self.n)
        self.v["is_point"] = self._padded(
            [(b.upper > b.lower).astype(float) for b in boxes], self.n
        )
        self.v["is_kernel"] = self._padded([np.ones(p.bank.m) for p in problems], self.m)
        # a kernel alone has no weight to learn
        p = [np.inf if one.bank.m == 1 else norm_of(one) for one in problems]
        self.v["p"] = self.device.put(np.array(p))
        self.v["total"] = self.device.put(np.array([box.total for box in boxes]))

    def _padded(self, rows: list[np.ndarray], length: int) -> Any:
        out = np.zeros((len(rows), length))
        for whole, row in zip(out, rows, strict=True):
            whole[: row.size] = row
        return self.device.put(out)

    # --- the loop ---------------------------------------------------------------------------------

    def run(self) -> list[list[Answer]]:
        self._begin()
        for step in range(TOLERANCES.steps + 1):
            self._look()
            self._take_out(step, every=step == TOLERANCES.steps)
            if not self.rows:
                break
            self._step()
        return self.found

    def _parts(self) -> list[tuple[Any, slice]]:
        """The kernels of every group that is under way, with its rows."""
        parts, start = [], 0
        while start < len(self.rows):
            group, stop = self.rows[start][0], start
            while stop < len(self.rows) and self.rows[stop][0] == group:
                stop += 1
            parts.append((self.groups[group].kernels, slice(start, stop)))
            start = stop
        return parts

    def _products(self, beta: Any) -> Any:
        out = beta.new_zeros((len(beta), self.m, self.n))
        for kernels, part in self._parts():
            out[part, : kernels.m, : kernels.n] = kernels.products(beta[part, : kernels.n])
        return out

    def _begin(self) -> None:
        """The first point: coefficients of the size that suits the dual, and multipliers that make
        it one of the dual's.
        """
        torch, v = self.torch, self.v
        linear, point = v["linear"], v["is_point"]
        # both sides weigh the same, as far as there are two
        up, down = ((sign * linear > 0.0) * point for sign in (1.0, -1.0))
        balanced = up / up.sum(1, keepdim=True).clamp(min=1.0)
        balanced = balanced - down / down.sum(1, keepdim=True).clamp(min=1.0)
        M = self._products(balanced)
        forms = (M * balanced[:, None]).sum(2).clamp(min=0.0)
        bend = self._norm(forms)[0] + (v["ridge"] * balanced.square()).sum(1)
        size = (linear * balanced).sum(1) / bend.clamp(min=1e-300)
        beta = size[:, None] * balanced
        room = v["upper"] - v["lower"]
        inside = torch.where(room.isfinite(), 0.5 * room, torch.inf)
        aside = TOLERANCES.first_aside * beta.abs().mean(1, keepdim=True) + 0.0 * beta
        low = torch.minimum(aside, 0.5 * inside)
        v["beta"] = point * torch.minimum(
            torch.maximum(beta, v["lower"] + low), v["upper"] - low
        ).nan_to_num(0.0)
        v["b"] = torch.zeros_like(v["p"])
        v["d"] = v["is_kernel"] / v["is_kernel"].sum(1, keepdim=True)
        v["simplex"] = (v["p"] == 1.0)[:, None] & (v["is_kernel"] > 0.0)
        v["t"] = torch.zeros_like(v["p"])
        v["w"] = torch.ones_like(v["d"])
        v["M"] = self._products(v["beta"])
        self._evaluate()
        largest = v["s"].amax(1)
        v["t"] = 0.5 * largest + 0.25 * (largest + v["s"].mean(1))
        v["w"] = torch.where(v["simplex"], v["t"][:, None] - 0.5 * v["s"], 1.0)
        slack = TOLERANCES.first_slack * linear.abs().amax(1, keepdim=True).clamp(min=1e-300)
        r, (has_low, has_high) = v["r"], self._sides()
        v["zl"] = has_low * torch.maximum(torch.where(has_high > 0, r.clamp(min=0.0), r), 0.0 * r)
        v["zl"] = v["zl"] + has_low * slack
        v["zu"] = has_high * ((-r).clamp(min=0.0) + slack)

    def _sides(self) -> tuple[Any, Any]:
        """Which points have a lower and an upper bound, as numbers."""
        v = self.v
        return tuple(
            v["is_point"] * v[name].isfinite().to(v["beta"].dtype) for name in ("lower", "upper")
        )

    def _norm(self, s: Any) -> tuple[Any, Any, Any]:
        """The dual norm of the forms, relative forms, and the dual exponent (infinite if p = 1)."""
        torch, p = self.torch, self.v["p"]
        q = torch.where(p.isinf(), 1.0, torch.where(p == 1.0, 2.0, p / (p - 1.0)))
        top = s.amax(1).clamp(min=1e-300)
        relative = s / top[:, None]
        norm = top * (relative ** q[:, None]).sum(1) ** (1.0 / q)
        return torch.where(p == 1.0, top, norm), s / norm[:, None], q

    def _evaluate(self) -> None:
        """Forms, weights and slopes at the coefficients."""
        torch, v = self.torch, self.v
        v["s"] = (v["M"] @ v["beta"][:, :, None])[:, :, 0].clamp(min=0.0)
        norm, u, q = self._norm(v["s"])
        v["norm"] = norm
        weights = torch.where(v["is_kernel"] > 0, u.clamp(min=0.0) ** (q[:, None] - 1.0), 0.0)
        v["d"] = torch.where(v["simplex"], v["d"], weights)
        v["f"] = (v["d"][:, None] @ v["M"])[:, 0]
        pull = v["linear"] - v["f"] - v["b"][:, None]
        v["r"] = v["is_point"] * (v["ridge"] * v["beta"] - pull)

    # --- where they are -------------------------------------------------------------------------

    def _look(self) -> None:
        """The gaps of all problems, at weights that sum to one on the simplex."""
        torch, v = self.torch, self.v
        beta, ridge = v["beta"], v["ridge"]
        total = v["d"].sum(1).clamp(min=1e-300)
        f = v["f"] / torch.where(v["p"] == 1.0, total, 1.0)[:, None]
        pull = v["is_point"] * (v["linear"] - f - v["b"][:, None])
        best = torch.where(ridge > 0.0, pull / ridge.clamp(min=1e-300), pull.sign() * torch.inf)
        best = torch.where(pull == 0.0, 0.0, best).clamp(v["lower"], v["upper"])
        loss = (best * pull - 0.5 * ridge * best.square()).sum(1)
        primal = 0.5 * (beta * f).sum(1) + loss + v["b"] * v["total"]
        dual = (beta * v["linear"] - 0.5 * ridge * beta.square()).sum(1) - 0.5 * v["norm"]
        off = (beta.sum(1) - v["total"]).abs() > TOLERANCES.sum_error * beta.abs().sum(1)
        gap = (primal - dual) / primal.abs().clamp(min=1e-300)
        v["gap"] = torch.where(off | gap.isnan(), torch.inf, gap)

    def _take_out(self, steps: int, every: bool) -> None:
        """Answers of the problems that have ended, which make room."""
        v = self.v
        lost = ~v["beta"].isfinite().all(1)
        ended = (v["gap"] <= self.goal) | lost | every
        if not bool(ended.any()):
            return
        out, fine = ended.nonzero().ravel(), (v["gap"] <= self.goal)
        at = self.device.fetched(v["d"][out], v["beta"][out], v["M"][out], fine[out])
        for row, d, beta, M, good in zip(out.tolist(), *at, strict=True):
            group, number = self.rows[row]
            kernels = self.groups[group].kernels
            n, m = kernels.n, kernels.m
            self.found[group][number] = Answer(d[:m], beta[:n], M[:m, :n], steps, bool(good))
        left = (~ended).nonzero().ravel()
        self.rows = [self.rows[row] for row in left.tolist()]
        for name, values in v.items():
            v[name] = values[left]

    # --- a step -----------------------------------------------------------------------------------

    def _step(self) -> None:
        torch, v = self.torch, self.v
        has_low, has_high = self._sides()
        above = torch.where(has_low > 0, v["beta"] - v["lower"], 1.0)
        below = torch.where(has_high > 0, v["upper"] - v["beta"], 1.0)
        bend = self._bend()
        diagonal = torch.where(
            v["is_point"] > 0, v["ridge"] + v["zl"] / above + v["zu"] / below, 1.0
        )
        solver = self._system(bend, diagonal)
        sides = above, below, has_low, has_high
        border = solver(v["is_point"][:, :, None])[:, :, 0]
        # how far it would go if the products were to be zero
        zero = torch.zeros_like(v["p"])
        aim = self._direction(solver, border, sides, bend, zero, None)
        mu = self._mu(sides, None, 0.0)
        length = self._length(sides, aim, 1.0)
        after = self._mu(sides, aim, length)
        center = (after / mu.clamp(min=1e-300)).clamp(0.0, 1.0) ** 3 * mu
        move = self._direction(solver, border, sides, bend, center, aim)
        length = self._length(sides, move, TOLERANCES.way_to_bound)
        D = self._products(move["beta"])
        length = length * self._share(sides, move["beta"], D, length, center)
        v["M"] = v["M"] + length[:, None, None] * D
        for name in ("beta", "zl", "zu", "d", "w", "t", "b"):
            change = move[name]
            v[name] = v[name] + (length if change.dim() == 1 else length[:, None]) * change
        self._evaluate()

    def _share(self, sides: Any, change: Any, D: Any, length: Any, center: Any) -> Any:
        """The share of a step after which the dual is no smaller, where phi is no parabola: less
        what keeps the coefficients from their bounds.
        """
        torch, v = self.torch, self.v
        if not self.is_curved:
            return torch.ones_like(length)
        above, below, has_low, has_high = sides
        size, out = length[:, None] * change, torch.ones_like(length)
        slope = (v["M"] @ size[:, :, None])[:, :, 0]
        curve = length[:, None] * (D @ size[:, :, None])[:, :, 0]
        linear = (v["linear"] * size).sum(1) - v["b"] * size.sum(1)
        bend = (v["ridge"] * size * v["beta"]).sum(1), (v["ridge"] * size.square()).sum(1)

        def risen(share: Any) -> Any:
            t = share[:, None]
            norm = self._norm((v["s"] + 2.0 * t * slope + t.square() * curve).clamp(min=0.0))[0]
            walls = has_low * torch.log1p((t * size / above).clamp(min=-1.0 + 1e-12))
            walls = walls + has_high * torch.log1p((-t * size / below).clamp(min=-1.0 + 1e-12))
            value = 0.5 * (norm - v["norm"]) + share * (bend[0] - linear)
            return value + 0.5 * share.square() * bend[1] - center * walls.sum(1)

        is_curved = (v["p"] > 1.0) & v["p"].isfinite()
        slack = 1e-12 * v["norm"]
        for _ in range(TOLERANCES.halvings):
            out = torch.where(is_curved & (risen(out) > slack), 0.5 * out, out)
        return out

    def _bend(self) -> Bend:
        """The curvature of the dual between the forms."""
        torch, v = self.torch, self.v
        p, simplex = v["p"], v["simplex"]
        norm, u, q = self._norm(v["s"])
        u = u.clamp(min=1e-12) * v["is_kernel"]
        slope = torch.where(p.isinf(), 0.0, 2.0 * (q - 1.0) / norm)
        own = torch.where(u > 0.0, u.clamp(min=1e-300) ** (q[:, None] - 2.0), 0.0)
        W = torch.where(simplex, v["d"] / v["w"], 0.0)
        sums = W.sum(1)
        is_simplex = simplex.any(1)
        diagonal = torch.where(simplex, W, slope[:, None] * own)
        vector = torch.where(simplex, W, torch.where(u > 0.0, u ** (q[:, None] - 1.0), 0.0))
        factor = torch.where(is_simplex, -1.0 / torch.where(is_simplex, sums, 1.0), -slope)
        return Bend(diagonal, factor, vector)

    def _system(self, bend: Bend, diagonal: Any) -> Any:
        """What solves the equations of all problems."""
        v, solvers = self.v, []
        parts = self._parts()
        if all(kernels.is_exact for kernels, _ in parts):
            H = diagonal.new_zeros((len(diagonal), self.n, self.n))
            H.diagonal(dim1=1, dim2=2).copy_(diagonal)
            for kernels, part in parts:
                inside = H[part, : kernels.n, : kernels.n]
                inside += kernels.combined(v["d"][part, : kernels.m])
            left = bend.diagonal[:, :, None] * v["M"]
            across = (bend.vector[:, None] @ v["M"])[:, 0]
            left += (bend.factor[:, None] * bend.vector)[:, :, None] * across[:, None]
            H.baddbmm_(left.transpose(1, 2), v["M"])
            if self.has_fixed:
                kept = v["is_point"]
                H *= kept[:, :, None]
                H *= kept[:, None]
                H.diagonal(dim1=1, dim2=2).add_(1.0 - kept)
            own = H.diagonal(dim1=1, dim2=2)
            own *= 1.0 + TOLERANCES.jitter
            return Cholesky(self.torch, H).solve
        for kernels, part in parts:
            some, n, m = bend.take(part), kernels.n, kernels.m
            some = Bend(some.diagonal[:, :m], some.factor, some.vector[:, :m])
            solvers.append(
                kernels.system(v["d"][part, :m], v["beta"][part, :n], some, diagonal[part, :n])
            )

        def solve(right: Any) -> Any:
            out = right.clone()
            for (kernels, part), one in zip(parts, solvers, strict=True):
                out[part, : kernels.n] = one(right[part, : kernels.n])
            return out * v["is_point"][:, :, None]

        return solve

    def _direction(
        self, solver: Any, border: Any, sides: Any, bend: Bend, center: Any, aim: Any
    ) -> dict[str, Any]:
        """The step to products of size ``center``, with what an earlier aim says of their bends."""
        torch, v = self.torch, self.v
        above, below, has_low, has_high = sides
        c = center[:, None]
        low, high, own = c * has_low, c * has_high, c * v["simplex"]
        if aim is not None:
            low = low - aim["beta"] * aim["zl"] * has_low
            high = high + aim["beta"] * aim["zu"] * has_high
            own = own - aim["d"] * aim["w"]
        right = -v["r"] + low / above - high / below
        d, w, M, simplex = v["d"], v["w"], v["M"], v["simplex"]
        # the weights of the simplex and t, which are eliminated
        W = torch.where(simplex, bend.diagonal, 0.0)
        sums = torch.where(simplex.any(1), W.sum(1), 1.0)
        missing = torch.where(simplex, w - v["t"][:, None] + 0.5 * v["s"], 0.0)
        const = torch.where(simplex, own / w - d + W * missing, 0.0)
        excess = torch.where(simplex, const + d, 0.0).sum(1) - simplex.any(1).to(d.dtype)
        share = const - W * (excess / sums)[:, None]
        right = v["is_point"] * (right - (share[:, None] @ M)[:, 0])
        x = solver(right[:, :, None])[:, :, 0]
        left = v["total"] - v["beta"].sum(1)
        b = (x.sum(1) - left) / border.sum(1)
        beta = x - b[:, None] * border
        pulled = (M @ beta[:, :, None])[:, :, 0]
        t = (excess + (W * pulled).sum(1)) / sums * simplex.any(1)
        moved_d = torch.where(simplex, const + W * (pulled - t[:, None]), 0.0)
        moved_w = torch.where(simplex, t[:, None] - pulled - missing, 0.0)
        zl = has_low * ((low - v["zl"] * beta) / above - v["zl"])
        zu = has_high * ((high + v["zu"] * beta) / below - v["zu"])
        return {"beta": beta, "b": b, "t": t, "d": moved_d, "w": moved_w, "zl": zl, "zu": zu}

    def _length(self, sides: Any, move: dict[str, Any], share: float) -> Any:
        """How far a step may go, at most the whole way."""
        torch, v = self.torch, self.v
        above, below, has_low, has_high = sides
        simplex = v["simplex"].to(above.dtype)
        pairs = [
            (above, move["beta"] * has_low),
            (below, -move["beta"] * has_high),
            (v["zl"], move["zl"]),
            (v["zu"], move["zu"]),
            (v["d"], move["d"] * simplex),
            (v["w"], move["w"] * simplex),
        ]
        out = torch.ones_like(v["p"])
        for value, change in pairs:
            limit = torch.where(change < 0.0, -share * value / change, torch.inf)
            out = torch.minimum(out, limit.amin(1))
        return out

    def _mu(self, sides: Any, move: dict[str, Any] | None, length: Any) -> Any:
        """The mean product of distances and multipliers, here or after a step."""
        v = self.v
        above, below, has_low, has_high = sides
        simplex = v["simplex"].to(above.dtype)
        zl, zu, d, w = v["zl"], v["zu"], v["d"], v["w"]
        if move is not None:
            size = length[:, None]
            above, below = above + size * move["beta"], below - size * move["beta"]
            zl, zu = zl + size * move["zl"], zu + size * move["zu"]
            d, w = d + size * move["d"], w + size * move["w"]
        sums = (has_low * above * zl + has_high * below * zu).sum(1) + (simplex * d * w).sum(1)
        count = has_low.sum(1) + has_high.sum(1) + simplex.sum(1)
        return sums / count.clamp(min=1.0)


# --- factorizations of many matrices at once ------------------------------------------------------

BLOCK = 256  # columns that are factorized at a time


class Cholesky:
    """Cholesky factors of many matrices of the same size, (B, n, n), which they take the place of.

    By columns of blocks, so that nearly all of it is products of matrices: libraries factorize one
    large matrix fast, or many small ones.
    """

    def __init__(self, torch: Any, H: Any) -> None:
        self.torch, self.L, n = torch, H, H.shape[1]
        self.parts = [slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
        self.inverses = []
        for part in self.parts:
            below, before = slice(part.start, n), slice(0, part.start)
            column = H[:, below, part]
            if part.start:
                column.baddbmm_(H[:, below, before], H[:, part, before].transpose(1, 2), alpha=-1)
            size = part.stop - part.start
            own = torch.linalg.cholesky_ex(column[:, :size])[0]
            one = torch.eye(size, dtype=H.dtype, device=H.device).expand_as(own)
            inverse = torch.linalg.solve_triangular(own, one, upper=False)
            self.inverses.append(inverse)
            column[:, :size] = own
            if part.stop < n:
                column[:, size:] = column[:, size:] @ inverse.transpose(1, 2)

    def solve(self, right: Any) -> Any:
        """``H^-1 right``, (B, n, c)."""
        x, L = right.clone(), self.L
        for part, inverse in zip(self.parts, self.inverses, strict=True):
            rest = x[:, part]
            if part.start:
                rest = rest - L[:, part, : part.start] @ x[:, : part.start]
            x[:, part] = inverse @ rest
        for part, inverse in zip(self.parts[::-1], self.inverses[::-1], strict=True):
            rest = x[:, part]
            if part.stop < x.shape[1]:
                rest = rest - L[:, part.stop :, part].transpose(1, 2) @ x[:, part.stop :]
            x[:, part] = inverse.transpose(1, 2) @ rest
        return x
