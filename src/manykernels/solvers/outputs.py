"""The program of a step for the simplex where several outputs share the weights.

For given weights d the program of `saddle` falls apart: every output has an SVM-like program of its
own, all of them with the kernel ``K_e`` and only other linear terms,

    phi(d) = sum_c max_x  y_c'x - x' K_e x / 2 - sum_k (d_k - e_k) (M_kc'x - s_kc / 2).

So they are solved beside each other, each from the solution for the weights before. phi is convex.
Minus half the tangents of the forms are its slopes, and its Hessian is how the free coefficients
answer to a change of the weights, which takes a factorization for each output. Newton's method
finds the weights, with a program over the simplex of as many variables as there are kernels in each
step.

Bounds that coefficients meet or leave on the way are not in the Hessian, and where many are free it
is made of some of them. Both make steps too long: the curvature that was seen along a step says by
how much.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from .._loops.smo import Bounds, smo
from ..machines import DenseMachine
from ..run_state import RunState
from .dual import TOLERANCES as DUAL
from .saddle import Answers, Between, Goal, Guess, Saddle, answers, closer, first_guess


@dataclass(frozen=True)
class Tolerances:
    """The numbers by which a program of several outputs is solved."""

    # Steps of Newton's method on the weights; larger: programs are solved further.
    newton_steps: int = 12
    # Part of the gap to reach that the programs of the outputs may leave; larger: rougher ones.
    programs_leave: float = 0.25
    # Price of a violation per width of the boxes of free coefficients: a decision value that is
    # anywhere within it costs an eighth. Larger: more precise programs.
    price_per_width: float = 0.125
    # Times that they are solved again; larger: programs that leave too much are believed less.
    solved_again: int = 8
    # Factor on the violation then, at most and at least; larger: more often.
    tightening: float = 0.5
    most_tightening: float = 0.05
    # Free coefficients of an output that make the Hessian; larger: a better and dearer one.
    most_free: int = 500
    # Kernels without weight that may get some in a step; larger: larger systems.
    most_entering: int = 64
    # Factor on the Hessian after one step; larger: a longer step is believed less.
    most_curvature: float = 4.0
    # Part of the first violation that the program over the simplex leaves; larger: rougher steps.
    simplex_violation: float = 1e-3
    # Relative shift of the Hessian's diagonal, because equal kernels make it singular.
    diagonal_shift: float = 1e-9
    # Steps of SMO over the simplex; larger: hard programs take longer to give up.
    simplex_steps: int = 100_000


TOLERANCES = Tolerances()


def system_bytes(run: RunState) -> int:
    """Bytes of the systems of free coefficients of all outputs, or of their Hessians where programs
    are solved on a device.
    """
    outputs, n = run.problem.targets.shape
    if run.bank.on_device:
        return int(outputs * n**2 * run.bank.dtype.itemsize)
    free = n if run.problem.is_system else min(n, TOLERANCES.most_free)
    return int(outputs * free**2 * 8)


class SharedSaddle(Saddle):
    """The program around a point, for outputs that share the weights."""

    def _approaches(self, best: Between, goal: Goal) -> Iterator[Between]:
        center, slopes = self._solved(best, goal)
        best = closer(center, best)
        yield best
        hessian = self._hessian(center, slopes) if goal.missing(best) else None
        for _ in range(TOLERANCES.newton_steps):
            if not goal.missing(best):
                return
            if hessian is None:
                break
            # Newton's step on the weights, and the coefficients that answer to it
            change = hessian.step(slopes, center.d)
            x = self.run.problem.feasible(center.x + hessian.answer(change))
            Kx = center.Kx + self._product(x - center.x)
            trial, others = self._solved(center._replace(d=center.d + change, x=x, Kx=Kx), goal)
            best = closer(trial, best)
            yield best
            # the next Hessian, at the better weights, with the curvature that was seen
            seen = float((others - slopes) @ change)
            if trial.upper < center.upper:
                center, slopes = trial, others
                hessian = self._hessian(center, slopes) if goal.missing(best) else None
            hessian = None if hessian is None else hessian.curved(change, seen)
        # where that did not do
        if goal.missing(best):
            yield from super()._approaches(best, goal)

    def _product(self, change: np.ndarray) -> np.ndarray:
        """``K_e`` times a change of all coefficients, (t, n)."""
        return (change.astype(self.K.dtype) @ self.K).astype(float)

    def _solved(self, at: Between, goal: Goal) -> tuple[Between, np.ndarray]:
        """The maximizers for the weights of a point, from its coefficients on, and the slopes (m,)
        of phi there.

        What their violation costs is the upper bound less the value, so that they are solved again
        only where it is too much.
        """
        problem, run, d = self.run.problem, self.run, at.d
        x, Kx = at.x.copy(), at.Kx.copy()
        pull = self.scores(d, Kx) - Kx
        allowed = TOLERANCES.programs_leave * goal.enough(at)
        smallest, largest = (
            problem.unit * share
            for share in (DUAL.smallest_inner_tolerance, DUAL.first_inner_tolerance)
        )
        price = TOLERANCES.price_per_width * self._reach(x)
        violation = allowed / price if price * largest > allowed else largest

        def ascend(c: int) -> tuple[int, float]:
            box = problem.boxes[c]
            rest = pull[c] - box.linear
            F = Kx[c] + box.ridge * x[c] + rest
            found = DenseMachine().ascend(self.K, box, x[c], F, violation, DUAL.machine_steps)
            Kx[c] = F - box.ridge * x[c] - rest
            return found

        for again in range(TOLERANCES.solved_again + 1):
            steps, violations = zip(*run.each_output(ascend), strict=True)
            run.counters.machine_steps += sum(steps)
            run.counters.svm_solves += len(x)
            forms = self.forms(x)
            here = self._between(d, x, Kx, forms, Kx + pull)
            left = here.gap - 0.5 * float(forms.max() - d @ forms)
            if left <= allowed or (again and not any(steps)):
                break
            factor = max(allowed / left, TOLERANCES.most_tightening)
            violation = max(smallest, min(TOLERANCES.tightening, factor) * max(violations))
        return here, -0.5 * forms

    def _reach(self, x: np.ndarray) -> float:
        """The widths of the boxes of free coefficients."""
        total = 0.0
        for box, row in zip(self.run.problem.boxes, x, strict=True):
            free = (row > box.lower) & (row < box.upper)
            total += float(box.widths(row)[free].sum())
        return total

    def _hessian(self, at: Between, slopes: np.ndarray) -> "Hessian | None":
        """The Hessian at a point whose coefficients are nearly the maximizers; None if a system
        has no solution.
        """
        problem, kernels = self.run.problem, _entering(at.d, slopes)
        guess = first_guess(problem, at.d, at.x)._replace(used=kernels)
        if not problem.is_system:
            guess = _few_free(guess)

        def of(c: int) -> Answers | None:
            free = guess.free[c].any()
            return answers(problem, self.K, self.point, guess, c) if free else None

        try:
            with np.errstate(over="ignore", invalid="ignore"):
                return Hessian.of(self.run.each_output(of), kernels, at.x.shape)
        except LinAlgError:
            return None


def _entering(d: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Kernels that have weight, and those with the steepest slopes that would get some."""
    without = np.flatnonzero((d == 0.0) & (slopes < d @ slopes))
    order = np.argsort(slopes[without], kind="stable")[: TOLERANCES.most_entering]
    return np.union1d(np.flatnonzero(d), without[order])


def _few_free(guess: Guess) -> Guess:
    """The guess with so few free coefficients that systems are small, evenly among all."""
    free = np.zeros_like(guess.free)
    for few, row in zip(free, guess.free, strict=True):
        points = np.flatnonzero(row)
        count = min(points.size, TOLERANCES.most_free)
        few[points[np.linspace(0, points.size - 1, count).astype(int)]] = True
    return guess._replace(free=free)


class Hessian(NamedTuple):
    """How coefficients answer to a change of the weights.

    Attributes
    ----------
    matrix : (s, s) array
    parts : list of Answers
        Of every output; None if none of its coefficients is free.
    kernels : (s,) kernels whose weights may change
    shape : (t, n)
    """

    matrix: np.ndarray
    parts: list[Answers | None]
    kernels: np.ndarray
    shape: tuple[int, ...]

    @classmethod
    def of(
        cls, parts: list[Answers | None], kernels: np.ndarray, shape: tuple[int, ...]
    ) -> "Hessian":
        matrix = np.zeros((kernels.size, kernels.size))
        for part in filter(None, parts):
            sides = _centered(part.sides[:, :-1], part.sides[:, -1])
            matrix += sides.T @ sides
        matrix[np.diag_indices_from(matrix)] += (
            TOLERANCES.diagonal_shift * np.trace(matrix) / kernels.size
        )
        return cls(matrix, parts, kernels, shape)

    def step(self, slopes: np.ndarray, d: np.ndarray) -> np.ndarray:
        """The change of the weights (m,) to the minimum over the simplex."""
        size, used = self.kernels.size, slopes[d > 0.0]
        weights, F = d[self.kernels], slopes[self.kernels].copy()
        tol = TOLERANCES.simplex_violation * float(used.max() - F.min())
        bounds = Bounds(np.zeros(size), np.ones(size), np.zeros(size), np.zeros(size))
        diagonal = self.matrix.diagonal().copy()
        smo(self.matrix, diagonal, bounds, weights, F, tol, TOLERANCES.simplex_steps)
        change = -d
        change[self.kernels] += weights / weights.sum()
        return change

    def answer(self, change: np.ndarray) -> np.ndarray:
        """The change of the coefficients (t, n)."""
        x, pull = np.zeros(self.shape), change[self.kernels]
        for row, part in zip(x, self.parts, strict=True):
            if part is not None:
                side = _centered(part.sides[:, :-1] @ pull, part.sides[:, -1])
                row[part.free] = -part.coefficients(side)
        return x

    def curved(self, change: np.ndarray, seen: float) -> "Hessian | None":
        """The Hessian times what makes the curvature along a change the one that was seen, if that
        is larger; None if there is none to multiply.
        """
        known = float(change[self.kernels] @ self.matrix @ change[self.kernels])
        if seen <= known:
            return self
        if not known > 0.0:
            return None
        return self._replace(matrix=min(seen / known, TOLERANCES.most_curvature) * self.matrix)


def _centered(sides: np.ndarray, ones: np.ndarray) -> np.ndarray:
    """Sides without their part along the ones, which the intercept takes."""
    along = (ones @ sides) / (ones @ ones)
    return sides - np.multiply.outer(ones, along)
