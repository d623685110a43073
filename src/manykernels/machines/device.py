"""The working-set method on a device: vectors, rows and the small programs all stay there.

A combined kernel that fits into the memory of the device is held there, and several working sets
are solved beside each other: the worst violators, and others sorted into groups of points that are
near in the space of the kernel, so that groups have little to do with each other. How far to go
along the change of each group is a program of as many variables as there are groups. (Eight groups
take a quarter to a fifth of the rounds of one; groups at random take more rounds than one.)

A kernel that does not fit is held for the active points alone, those that violate the optimality
conditions or come nearest to it. Once most of their part of the gap is gone, the slopes of all
points are computed, and others become active.
"""

from dataclasses import dataclass
from math import isqrt
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import Array
from .._loops.smo import smo
from .._pulse import pulse
from ..losses import Box
from .base import Machine
from .dense import DenseMachine
from .matrices import CurvedKernel

SIZE = 2048  # points in a working set
FEW = 512  # points, below which a matrix is worth a copy to the host

# points of each of some working sets, (sets, size), and how many of each count
WorkingSets: TypeAlias = tuple[Array, Array]


@dataclass(frozen=True)
class Tolerances:
    """Numbers of this machine.

    Attributes
    ----------
    resident_share : float
        Part of the free memory of a device that a combined kernel may take to stay there. Larger
        leaves less for everything else.
    active_share : float
        The same for the kernel of the active points, beside which there is little else. Larger
        makes room for more of them: where free coefficients have none, others take turns, slowly.
    smallest_set : int
        Points of a working set, or of the active ones, below which running out of memory is an
        error.
    sets_at_once : int
        Working sets beside each other at most. With more, steps along each are shorter.
    points_per_set : int
        Points for each of them at least, in sizes of a working set. With fewer, small problems have
        more sets, which hinder each other.
    anchors : int
        Points by whose kernels others are sorted into groups. With more, sorting takes longer.
    sweeps : int
        Sweeps over the lengths of the steps along the sets. With fewer, they are rougher.
    part_of_gap : float
        Part of the gap that is left when active points are solved. With a smaller one, they are
        solved further than the other points, which do not follow meanwhile, are worth.
    rounds_per_look : int
        Rounds from one look at the violation, and at the gap, to the next; the first comes after
        half as many, since a good start needs few. With more, the host looks less often, and a
        solved SVM is noticed later.
    steps_per_point : int
        Steps of SMO for each point of a working set at most. More spend longer on one set.
    part_of_violation : float
        Violation that is left in a working set, as a part of that of all points. A larger one takes
        more rounds, which read rows of the kernel; a smaller one more steps in each.
    """

    resident_share: float = 0.4
    active_share: float = 0.8
    smallest_set: int = 64
    sets_at_once: int = 8
    points_per_set: int = 4
    anchors: int = 256
    sweeps: int = 20
    part_of_gap: float = 0.1
    rounds_per_look: int = 4
    steps_per_point: int = 100
    part_of_violation: float = 0.02


TOLERANCES = Tolerances()


class Device(Protocol):
    """The part of `manykernels.banks.torch.device.Device` that this machine asks for."""

    @property
    def torch(self) -> Any: ...

    @property
    def fused(self) -> bool: ...

    def put(self, array: Any) -> Array: ...

    def indices(self, array: Any) -> Array: ...

    def fetched(self, *tensors: Array) -> Any: ...

    def free(self) -> int: ...

    def tidy(self) -> None: ...


class DeviceKernel(Protocol):
    """A combined kernel on a device: `DeviceMatrix`, or `DeviceRows`."""

    device: Device
    n: int
    diagonal: Array
    whole: Any  # an (n, n) tensor, or None

    def rows(self, chosen: Array) -> Array: ...


def machine_for(kernel: Any, box: Box) -> tuple[Machine, Any]:
    """The machine for a kernel in memory or on a device, and the kernel as it takes it."""
    if isinstance(kernel, np.ndarray | CurvedKernel):
        return DenseMachine(), kernel
    # systems of equations are solved on the host
    if box.is_system or kernel.n <= FEW:
        return DenseMachine(), kernel.fetched()
    return DeviceMachine(), kernel


class DeviceMatrix:
    """A symmetric matrix on a device, as `DeviceMachine` takes it.

    Parameters
    ----------
    device : Device
    whole : (n, n) tensor
    """

    def __init__(self, device: Device, whole: Array) -> None:
        self.device, self.whole, self.n = device, whole, len(whole)
        self.diagonal = whole.diagonal().double()

    def rows(self, chosen: Array) -> Array:
        """The chosen rows, for a tensor of indices."""
        return self.whole if len(chosen) == self.n else self.whole[chosen]

    def fetched(self) -> np.ndarray:
        """This matrix as an array of the host."""
        return self.device.fetched(self.whole)[0]


def entries(kernel: Any, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Some entries of a kernel in memory or on a device, as an array of the host."""
    if isinstance(kernel, DeviceMatrix):
        chosen = kernel.rows(kernel.device.indices(rows))
        return chosen[:, kernel.device.indices(columns)].cpu().numpy()
    return kernel[np.ix_(rows, columns)]


class DeviceRows:
    """Rows of a combined kernel on a device: all of them if they fit, else computed when they are
    asked for.

    Parameters
    ----------
    bank : DeviceTiledBank
    weights : (m,) array

    Attributes
    ----------
    whole : (n, n) tensor, or None if it does not fit
    most : int
        Points whose kernel fits.
    """

    def __init__(self, bank: Any, weights: ArrayLike) -> None:
        self.bank, self.weights, self.device, self.n = bank, weights, bank.device, bank.n
        self.diagonal = self.device.put(bank.combined_diagonal(weights))
        room = self.device.free() // bank.dtype.itemsize
        self.most = max(TOLERANCES.smallest_set, isqrt(int(TOLERANCES.active_share * room)))
        fits = self.n**2 <= TOLERANCES.resident_share * room
        everything = self.device.indices(np.arange(bank.n))
        self.whole = bank.combined(weights, everything) if fits else None

    def rows(self, chosen: Array) -> Array:
        """The chosen rows, for a tensor of indices."""
        if self.whole is None:
            return self.bank.combined(self.weights, chosen)
        return self.whole if len(chosen) == self.n else self.whole[chosen]

    def among(self, chosen: np.ndarray) -> DeviceMatrix:
        """The kernel of some of the points."""
        return DeviceMatrix(self.device, self.bank.combined_among(self.weights, chosen))


class Goal(NamedTuple):
    """Where an SVM is good enough.

    Attributes
    ----------
    tol : float
        Violation.
    steps : int
        Steps at most.
    gap, left : float
        Relative duality gap, and an absolute one.
    """

    tol: float
    steps: int
    gap: float = 0.0
    left: float = 0.0

    def is_met(self, at: "_Vectors", b: float) -> bool:
        """True if the gap at an intercept is small enough."""
        if self.gap == self.left == 0.0:
            return False
        left, primal = at.gap(b)
        return left < max(self.gap * primal, self.left)


class DeviceMachine(Machine):
    """SMO on working sets of the worst violators, as `BlockedMachine`, with everything on a device;
    on a GPU the host asks how far it is once in some rounds.

    (To choose the next set, and compute its rows, while SMO still works on this one takes more
    than twice as many sets: 45 s in place of 25 on half a million points.)

    Parameters
    ----------
    size : int
        Points in a working set; at most 4,096, whose vectors a compiled program can hold.
    """

    looks_at_gap = True

    def __init__(self, size: int = SIZE) -> None:
        self.size = size

    def multiply(self, kernel: DeviceKernel, beta: np.ndarray) -> np.ndarray:
        device, left = kernel.device, np.flatnonzero(beta)
        if isinstance(kernel, DeviceRows) and kernel.whole is None and kernel.bank.without_tiles:
            return kernel.bank.decision(kernel.weights, beta)
        out = device.put(np.zeros((1, kernel.n)))
        while left.size:
            part = left[: self.size]
            places, change = device.indices(part[None]), device.put(beta[part][None])
            if kernel.whole is not None:
                _add_rows(device, kernel.whole, places, change, out)
            else:
                rows = self._rows(kernel, places[0])
                if rows is None:
                    continue
                _add_rows(device, rows, device.indices(np.arange(part.size)[None]), change, out)
            left = left[part.size :]
        return out[0].cpu().numpy()

    def _rows(self, kernel: DeviceKernel, chosen: Array) -> Array | None:
        """Rows of the kernel; None where memory runs out, and sets are half as large from then
        on.
        """
        try:
            return kernel.rows(chosen)
        except kernel.device.torch.OutOfMemoryError:
            if self.size <= TOLERANCES.smallest_set:
                raise
            self.size //= 2
            kernel.device.tidy()
            return None

    def ascend(
        self,
        kernel: DeviceKernel,
        box: Box,
        beta: np.ndarray,
        F: np.ndarray,
        tol: float,
        max_steps: int,
        gap: float = 0.0,
    ) -> tuple[int, float]:
        goal = Goal(tol, max_steps, gap)
        if kernel.whole is None:
            return self._by_active_points(kernel, box, beta, F, goal)
        start, given = beta.copy(), F.copy()  # PyTorch on the CPU writes to the arrays themselves
        outcome = self._improve(kernel, box, beta, F, goal)
        # what was added up round by round has the rounding of every round: once more, all at once
        F[:] = given + self.multiply(kernel, beta - start) + box.ridge * (beta - start)
        return outcome

    def _by_active_points(
        self, kernel: Any, box: Box, beta: np.ndarray, F: np.ndarray, goal: Goal
    ) -> tuple[int, float]:
        """Solve for the points that matter at the moment, whose kernel fits, until none do."""
        steps, before = 0, -1
        while True:
            pulse()
            at = _Vectors(kernel, box, beta, F)
            up, down = at.sides()
            _, high, low, _ = at.progress(up.max(), down.min())
            violation, b = max(0.0, high - low), 0.5 * (high + low)
            if violation < goal.tol or steps >= goal.steps or steps == before:
                return steps, violation
            left, primal = at.gap(b)
            if left < goal.gap * primal:
                return steps, violation
            before = steps
            # how far a coefficient is from its optimality condition, on either side of it
            active, some = self._active(kernel, kernel.device.torch.maximum(up - b, b - down))
            part, enough = beta[active], max(TOLERANCES.part_of_gap * left, 0.5 * goal.gap * primal)
            rest = goal._replace(steps=goal.steps - steps, gap=0.0, left=enough)
            try:
                steps += self._improve(some, box.take_points(active), part, F[active], rest)[0]
            finally:  # also after an interrupt
                change = np.zeros_like(beta)
                change[active] = part - beta[active]
                beta[active] = part
            del some  # makes room for the next
            F += self.multiply(kernel, change) + box.ridge * change

    def _active(self, kernel: DeviceRows, near: Array) -> tuple[np.ndarray, DeviceMatrix]:
        """As many of the points with the largest numbers as fit, and their kernel."""
        while True:
            largest = near.topk(min(kernel.most, kernel.n), sorted=False).indices
            active = np.sort(largest.cpu().numpy())
            try:
                return active, kernel.among(active)
            except kernel.device.torch.OutOfMemoryError:
                if active.size <= TOLERANCES.smallest_set:
                    raise
                kernel.most = active.size // 2
                kernel.device.tidy()

    def _improve(
        self, kernel: DeviceKernel, box: Box, beta: np.ndarray, F: np.ndarray, goal: Goal
    ) -> tuple[int, float]:
        """Improve beta, for a kernel that is held; F is of no use afterwards."""
        at, rounds, before = _Vectors(kernel, box, beta, F), 0, -1
        alone = kernel.n <= self.size
        sets: WorkingSets | None = None
        try:
            while True:
                pulse()
                up, down = at.sides()
                top, bottom = up.max(), down.min()
                looks = TOLERANCES.rounds_per_look
                if rounds % looks == 0 or 2 * rounds == looks or alone:
                    done, high, low, largest = at.progress(top, bottom)
                    # a set of all points that this was too rough for is solved once more
                    rough = (not alone or not rounds) and (
                        0.5 * goal.tol >= ROUGH_TOLERANCE * largest
                    )
                    violation = max(0.0, high - low)
                    # rounds in which nothing moves are as good as rounding lets them be
                    if violation < goal.tol or done >= goal.steps or done == before:
                        break
                    before = done
                    if rounds and goal.is_met(at, 0.5 * (high + low)):
                        break
                sets = self._choose(kernel, at, up, down, sets)
                inner = 0.5 * goal.tol if alone else None
                at.improve(*sets, at.tolerance(goal.tol, top - bottom, inner), rough)
                rounds += 1
        finally:  # also after an interrupt
            beta[:] = at.beta.cpu().numpy()
        return done, violation

    def _choose(
        self,
        kernel: DeviceKernel,
        at: "_Vectors",
        up: Array,
        down: Array,
        previous: WorkingSets | None,
    ) -> WorkingSets:
        """The worst violators in both directions, filled up with some of the previous sets."""
        torch, n = kernel.device.torch, kernel.n
        if n <= self.size:
            everything = torch.arange(n, device=up.device)
            return everything[None], torch.full((1,), n, device=up.device)
        count = min(TOLERANCES.sets_at_once, max(1, n // (TOLERANCES.points_per_set * self.size)))
        size = count * self.size
        each = min(size // (2 if previous is None else 4), n // 2)
        worst = [torch.topk(side.float(), each) for side in (up, -down)]
        # one of each direction in turn
        found = [torch.stack([one.indices for one in worst], dim=1).flatten()]
        real = [torch.stack([one.values > -torch.inf for one in worst], dim=1).flatten()]
        if previous is not None:
            found.append(previous[0].flatten())
            real.append(torch.ones_like(found[-1], dtype=torch.bool))
        chosen, used = _first_of_each(torch, torch.cat(found), torch.cat(real), size, n)
        if count == 1:
            return chosen[None], used
        return at.grouped(chosen, used, count)


def _first_of_each(torch: Any, found: Array, real: Array, size: int, n: int) -> tuple[Array, Array]:
    """The first `size` different ones of some numbers below n, those that are real, and how many
    there are; zeros behind them. No number leaves the device.
    """
    count = len(found)
    order = torch.arange(count, device=found.device)
    first = torch.full((n,), count, device=found.device)
    first.scatter_reduce_(0, found, torch.where(real, order, count), "amin")
    kept = real & (first[found] == order)
    rank = kept.cumsum(0) - 1
    place = torch.where(kept & (rank < size), rank, size)
    out = torch.zeros(size + 1, dtype=found.dtype, device=found.device)
    out.scatter_(0, place, found)
    return out[:size], kept.sum().clamp(max=size).view(1)


def _add_rows(device: Device, rows: Array, places: Array, change: Array, out: Array) -> None:
    """``out[g] += change[g] @ rows[places[g]]`` for every g, in float64."""
    if device.fused:
        add_rows(rows, places, change, out)
    else:
        for one, some, total in zip(change, places, out, strict=True):
            total += one @ rows[some].double()


class _Vectors:
    """The vectors of one SVM on a device."""

    def __init__(self, kernel: DeviceKernel, box: Box, beta: np.ndarray, F: np.ndarray) -> None:
        self.kernel, self.device, self.box, bounds = kernel, kernel.device, box, box.bounds()
        self.beta, self.F = self.device.put(beta), self.device.put(F)
        self.lower, self.upper = self.device.put(bounds.lower), self.device.put(bounds.upper)
        self.kink, self.ridge = self.device.put(bounds.kink), self.device.put(bounds.ridge)
        self.linear, self.diagonal = self.device.put(box.linear), kernel.diagonal + self.ridge
        self.bounded = box.is_bounded
        self.steps = self.device.indices(np.zeros(1))
        self.random = self.device.torch.Generator(self.beta.device).manual_seed(0)

    def sides(self) -> tuple[Array, Array]:
        """As `Box.sides`."""
        torch, beta, F = self.device.torch, self.beta, self.F
        up = torch.where(
            beta < self.upper, -F - torch.where(beta >= 0.0, self.kink, -self.kink), -torch.inf
        )
        down = torch.where(
            beta > self.lower, -F + torch.where(beta <= 0.0, self.kink, -self.kink), torch.inf
        )
        return up, down

    def progress(self, top: Array, bottom: Array) -> tuple[int, float, float, float]:
        """Steps so far, the slopes of the worst violators and the largest of F, as numbers of the
        host.
        """
        four = [self.steps[0].double(), top, bottom, self.F.abs().max()]
        done, high, low, largest = self.device.fetched(self.device.torch.stack(four))[0].tolist()
        return int(done), high, low, largest

    def tolerance(self, tol: float, violation: Array, inner: float | None) -> Array:
        """The violation to leave in a working set: a part of that of all points, unless one is
        given.
        """
        if inner is not None:
            return self.device.put(np.full(1, inner))
        return (TOLERANCES.part_of_violation * violation).clamp(min=0.5 * tol).view(1)

    def gap(self, b: float) -> tuple[float, float]:
        """The duality gap of the SVM at an intercept, a sum over the points, and the size of its
        primal value; of some of the points it is their part of the sum. Infinite without bounds.
        """
        torch, box = self.device.torch, self.box
        if not self.bounded:
            return np.inf, 1.0
        f = self.F - self.ridge * self.beta + self.linear
        pull = self.linear - f - b
        # the loss is what the best coefficient at this decision value would gain
        free = torch.sign(pull) * (pull.abs() - self.kink).clamp_(min=0.0)
        best = torch.where(self.ridge > 0.0, free / self.ridge, torch.sign(free) * torch.inf)
        best = torch.clamp(torch.where(free == 0.0, 0.0, best), self.lower, self.upper)
        loss, own = self._gain(best, pull), self._gain(self.beta, pull)
        three = torch.stack([loss - own, loss, (self.beta * f).sum()])
        left, loss, norm = self.device.fetched(three)[0].tolist()
        return left, max(abs(0.5 * norm + loss + box.total * b), np.finfo(float).tiny)

    def _gain(self, beta: Array, pull: Array) -> Array:
        """What coefficients gain at some slopes."""
        bent = self.kink * beta.abs() + 0.5 * self.ridge * beta.square()
        return (beta * pull - bent).sum()

    def grouped(self, chosen: Array, used: Array, count: int) -> WorkingSets:
        """Points as so many working sets of the same size: the first ones, the worst violators, as
        they are, so that some of them can move; the others in the order of a random function of
        the kernel's space, in which near points are near.
        """
        torch, K, size = self.device.torch, self.kernel.whole, len(chosen) // count
        anchors = chosen[:: max(1, len(chosen) // TOLERANCES.anchors)]
        draw = torch.randn(len(anchors), generator=self.random, device=chosen.device)
        rows = K[anchors]
        # once through the kernel: a smooth function
        heights = rows[:, anchors] @ draw.to(K.dtype)
        along = (heights - heights.mean()) @ rows[:, chosen]
        order = torch.arange(len(chosen), device=chosen.device)
        # those that are not used are the last
        along = torch.where(order < size, -torch.inf, torch.where(order < used, along, torch.inf))
        order = along.argsort()
        before = size * torch.arange(count, device=chosen.device)
        return chosen[order].view(count, size), (used - before).clamp(0, size)

    def improve(self, sets: Array, counts: Array, tol: Array, rough: bool) -> None:
        """Solve for the points of each of some working sets to a violation of tol, all tensors, and
        go along their changes; slopes may be in float32 meanwhile.
        """
        K, every = self.kernel.whole, sets.shape[1] == self.kernel.n
        squares = K[None] if every else K[sets[:, :, None], sets[:, None, :]]
        solve = self._solved_there if self.device.fused else self._solved_here
        changes = solve(squares.contiguous(), sets, counts, tol, rough)
        moved = self.device.torch.zeros(
            (len(sets), self.kernel.n), dtype=self.F.dtype, device=self.F.device
        )
        _add_rows(self.device, K, sets, changes, moved)
        if len(sets) > 1:
            lengths = self._lengths(sets, changes, moved)
            changes, moved = lengths[:, None] * changes, lengths @ moved
        self.F += moved.view(-1)
        # points behind the count are the first one over and over, whose change is zero
        points, changes = sets.flatten(), changes.flatten()
        self.F.index_add_(0, points, self.ridge[points] * changes)
        self.beta.index_add_(0, points, changes)

    def _lengths(self, sets: Array, changes: Array, moved: Array) -> Array:
        """How far to go along the changes of some sets, at most all the way each: the best of the
        dual, where what the kinks cost is taken to be linear.
        """
        beta, points = self.beta[sets], sets.flatten()
        kinks = self.kink[sets] * ((beta + changes).abs() - beta.abs())
        slopes = (self.F[sets] * changes + kinks).sum(dim=1)
        curves = (moved[:, points].view(len(sets), *sets.shape) * changes).sum(dim=2)
        curves.diagonal().add_((self.ridge[sets] * changes.square()).sum(dim=1))
        if self.device.fused:
            return best_lengths(slopes, curves)
        return self.device.put(_best_lengths(slopes.numpy(), curves.numpy()))

    def _solved_there(
        self, squares: Array, sets: Array, counts: Array, tol: Array, rough: bool
    ) -> Array:
        """Changes of the coefficients of the sets, by a compiled program of the device."""
        all_bounds = (self.diagonal, self.lower, self.upper, self.kink, self.ridge)
        bounds, before = tuple(part[sets] for part in all_bounds), self.beta[sets]
        part = before.clone(), self.F[sets]
        most = TOLERANCES.steps_per_point * sets.shape[1]
        solve_sets(squares, bounds, part, counts, tol, self.steps, most, rough)
        return part[0] - before

    def _solved_here(
        self, squares: Array, sets: Array, counts: Array, tol: Array, rough: bool
    ) -> Array:
        """Changes of the coefficients of the sets, by the host's loop, where the device is the
        host.
        """
        changes = self.device.torch.zeros(sets.shape, dtype=self.F.dtype)
        for square, chosen, count, change in zip(squares, sets, counts, changes, strict=True):
            size = int(count)
            places = chosen[:size].numpy()
            bounds, before = self.box.bounds(places), self.beta.numpy()[places]
            part, gradient = before.copy(), self.F.numpy()[places]
            block = square[:size, :size].contiguous().numpy()
            diagonal, most = self.diagonal.numpy()[places], TOLERANCES.steps_per_point * size
            steps, _ = smo(block, diagonal, bounds, part, gradient, float(tol), most)
            self.steps += steps
            change[:size] = self.device.put(part - before)
        return changes


def _best_lengths(slopes: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """The minimizer of ``slopes' t + t' curves t / 2`` over t in [0, 1], by coordinate descent."""
    t = np.ones(len(slopes))
    for _ in range(TOLERANCES.sweeps):
        for i, own in enumerate(curves.diagonal()):
            if own > 0.0:
                t[i] = min(max(t[i] - (slopes[i] + curves[i] @ t) / own, 0.0), 1.0)
    return t


# --- calls of the compiled programs ---------------------------------------------------------------

# Tolerance, relative to the slopes, for which float32 is enough: with a smaller one rounding would
# decide.
ROUGH_TOLERANCE = 2e-5
# Rows and columns that a program of a sum visits at a time: more take more registers.
SUM_BLOCK = (16, 256)


def solve_sets(
    squares: Array,
    bounds: tuple[Array, ...],
    part: tuple[Array, Array],
    counts: Array,
    tol: Array,
    steps: Array,
    most: int,
    rough: bool = False,
) -> None:
    """SMO on working sets, as `manykernels._loops.smo.smo`, in one launch; nothing is copied.

    One program does one of them: its threads hold the vectors, and a step costs two maxima over
    them and two rows of the kernel from the second-level cache, about two microseconds for 2,048
    points.

    Parameters
    ----------
    squares : (sets, q, q) tensor
    bounds : tuple of (sets, q) float64 tensors
        Diagonal with the ridge, lower and upper bounds, kinks and ridge.
    part : pair of (sets, q) float64 tensors
        Coefficients, which are updated, and F, which is not.
    counts, steps : (sets,) and (1,) int64 tensors
        Points of the sets, of which those behind have no part; to the other are added the steps.
    tol : (1,) float64 tensor
    most : int
        Steps at most.
    rough : bool
        Keep slopes in float32, which is faster: for tolerances that are no less than
        ROUGH_TOLERANCE of them. Coefficients are in float64 in any case.
    """
    count, q = squares.shape[:2]
    size = 1 << max(5, (q - 1).bit_length())
    from . import programs

    program = programs.rough_smo if rough else programs.smo
    program[(count,)](
        squares, q, *bounds, *part, counts, tol, steps, most, Q=size,
        num_warps=max(1, min(8, size // 128)),
    )  # fmt: skip


def add_rows(rows: Array, places: Array, change: Array, out: Array) -> None:
    """``out[g] += change[g] @ rows[places[g]]`` for every g, in float64; rows whose change is zero
    are not read.
    """
    (groups, count), n = places.shape, rows.shape[1]
    height, width = SUM_BLOCK
    from .programs import add_rows as compiled

    compiled[(-(-n // width), groups)](
        rows, places, change.contiguous(), out, count, n, BM=height, BN=width
    )


def best_lengths(slopes: Array, curves: Array) -> Array:
    """`_best_lengths` of tensors, in one launch."""
    out, count = slopes.new_ones(len(slopes)), len(slopes)
    from .programs import best_lengths as compiled

    compiled[(1,)](
        slopes, curves.contiguous(), out, count, TOLERANCES.sweeps,
        P=1 << (count - 1).bit_length(), num_warps=1,
    )  # fmt: skip
    return out
