"""The working-set method on a device: vectors, rows and the small program all stay there."""

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import Array
from .._loops.smo import smo
from .._pulse import pulse
from ..losses import Box
from .base import Machine
from .dense import DenseMachine
from .matrices import CurvedKernel

SIZE = 2048  # points in the working set
FEW = 512  # points, below which a matrix is worth a copy to the host

WorkingSet: TypeAlias = tuple[Array, Array]  # points, and how many of them count


@dataclass(frozen=True)
class Tolerances:
    """Numbers of this machine.

    Attributes
    ----------
    resident_share : float
        Part of the free memory of a device that a combined kernel may take to stay there. Larger
        leaves less for everything else.
    smallest_set : int
        Points of a working set, below which running out of memory is an error.
    sets_per_look : int
        Working sets from one look at the violation, and at the gap, to the next. With more, the
        host waits less often, and a solved SVM is noticed later.
    steps_per_point : int
        Steps of SMO for each point of a working set at most. More spend longer on one set.
    """

    resident_share: float = 0.4
    smallest_set: int = 64
    sets_per_look: int = 4
    steps_per_point: int = 100


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
    """

    def __init__(self, bank: Any, weights: ArrayLike) -> None:
        self.bank, self.weights, self.device, self.n = bank, weights, bank.device, bank.n
        self.diagonal = self.device.put(bank.combined_diagonal(weights))
        fits = bank.n**2 * bank.dtype.itemsize <= TOLERANCES.resident_share * self.device.free()
        self.whole = (
            bank.combined(weights, self.device.indices(np.arange(bank.n))) if fits else None
        )

    def rows(self, chosen: Array) -> Array:
        """The chosen rows, for a tensor of indices."""
        if self.whole is None:
            return self.bank.combined(self.weights, chosen)
        return self.whole if len(chosen) == self.n else self.whole[chosen]


class DeviceMachine(Machine):
    """SMO on a working set of the worst violators, as `BlockedMachine`, with everything on a
    device; on a GPU the host asks how far it is once in some sets, and waits for nothing else.

    (To choose the next set, and compute its rows, while SMO still works on this one takes more
    than twice as many sets: 45 s in place of 25 on half a million points.)

    Parameters
    ----------
    size : int
        Points in the working set; at most 4,096, whose vectors a compiled program can hold.
    """

    looks_at_gap = True

    def __init__(self, size: int = SIZE) -> None:
        self.size = size

    def multiply(self, kernel: DeviceKernel, beta: np.ndarray) -> np.ndarray:
        out, left = kernel.device.put(np.zeros(kernel.n)), np.flatnonzero(beta)
        while left.size:
            part = left[: self.size]
            rows = self._rows(kernel, kernel.device.indices(part))
            if rows is not None:
                _add_rows(kernel.device, rows, kernel.device.put(beta[part]), out)
                left = left[part.size :]
        return out.cpu().numpy()

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
        start, given = beta.copy(), F.copy()  # PyTorch on the CPU writes to the arrays themselves
        at, sets, before = _Vectors(kernel, box, beta, F), 0, -1
        working_set: WorkingSet | None = None
        try:
            while True:
                pulse()
                up, down = at.sides()
                top, bottom = up.max(), down.min()
                if sets % TOLERANCES.sets_per_look == 0 or kernel.n <= self.size:
                    done, high, low, largest = at.progress(top, bottom)
                    # a set of all points that this was too rough for is solved once more
                    rough = (kernel.n > self.size or not sets) and (
                        0.5 * tol >= ROUGH_TOLERANCE * largest
                    )
                    violation = max(0.0, high - low)
                    # sets in which nothing moves are as good as rounding lets them be
                    if violation < tol or done >= max_steps or done == before:
                        break
                    before = done
                    if gap > 0.0 and sets and at.gap(0.5 * (high + low)) < gap:
                        break
                working_set = self._choose(kernel, up, down, working_set)
                rows = self._rows(kernel, working_set[0])
                if rows is None:
                    working_set, sets, before = None, 0, -1
                    continue
                inner = 0.5 * tol if kernel.n <= self.size else None
                at.improve(rows, *working_set, at.tolerance(tol, top - bottom, inner), rough)
                sets += 1
        finally:  # also after an interrupt
            beta[:] = at.beta.cpu().numpy()
        # what was added up block by block has the rounding of every block: once more, all at once
        F[:] = given + self.multiply(kernel, beta - start) + box.ridge * (beta - start)
        return done, violation

    def _choose(
        self, kernel: DeviceKernel, up: Array, down: Array, previous: WorkingSet | None
    ) -> WorkingSet:
        """The worst violators in both directions, filled up with some of the previous set: points,
        and how many of them count.
        """
        torch, n = kernel.device.torch, kernel.n
        if n <= self.size:
            everything = torch.arange(n, device=up.device)
            return everything, torch.full((1,), n, device=up.device)
        each = min(self.size // (2 if previous is None else 4), n // 2)
        worst = [torch.topk(side.float(), each, sorted=False) for side in (up, -down)]
        found, real = [one.indices for one in worst], [one.values > -torch.inf for one in worst]
        if previous is not None:
            found.append(previous[0])
            real.append(torch.ones_like(previous[0], dtype=torch.bool))
        return _first_of_each(torch, torch.cat(found), torch.cat(real), self.size, n)


def _first_of_each(torch: Any, found: Array, real: Array, size: int, n: int) -> WorkingSet:
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


def _add_rows(device: Device, rows: Array, change: Array, out: Array) -> None:
    """``out += change @ rows``, in float64."""
    if device.fused:
        add_rows(rows.contiguous(), change, out)
    else:
        out += change @ rows.double()


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
        """The violation to leave in a working set: a tenth of that of all points, unless one is
        given.
        """
        if inner is not None:
            return self.device.put(np.full(1, inner))
        return (0.1 * violation).clamp(min=0.5 * tol).view(1)

    def gap(self, b: float) -> float:
        """The relative duality gap of the SVM, at an intercept, as far as it can be told; infinite
        without bounds.
        """
        torch, box = self.device.torch, self.box
        if not self.bounded:
            return np.inf
        f = self.F - self.ridge * self.beta + self.linear
        pull = self.linear - f - b
        # the loss is what the best coefficient at this decision value would gain
        free = torch.sign(pull) * (pull.abs() - self.kink).clamp_(min=0.0)
        best = torch.where(self.ridge > 0.0, free / self.ridge, torch.sign(free) * torch.inf)
        best = torch.clamp(torch.where(free == 0.0, 0.0, best), self.lower, self.upper)
        loss = (best * pull - self.kink * best.abs() - 0.5 * self.ridge * best.square()).sum()
        value = self.linear * self.beta - self.kink * self.beta.abs()
        value = (value - 0.5 * self.ridge * self.beta.square()).sum()
        norm = (self.beta * f).sum()
        primal, dual = 0.5 * norm + loss + box.total * b, value - 0.5 * norm
        return float((primal - dual) / primal.abs().clamp(min=np.finfo(float).tiny))

    def improve(self, rows: Array, chosen: Array, count: Array, tol: Array, rough: bool) -> None:
        """Solve for the chosen points, whose rows are given, to a violation of tol, all tensors;
        slopes may be in float32 meanwhile.
        """
        square = rows if len(chosen) == self.kernel.n else rows[:, chosen]
        solve = self._solved_there if self.device.fused else self._solved_here
        change = solve(square.contiguous(), chosen, count, tol, rough)
        _add_rows(self.device, rows, change, self.F)
        # points behind the count are the first one over and over, whose change is zero
        self.F.index_add_(0, chosen, self.ridge[chosen] * change)
        self.beta.index_add_(0, chosen, change)

    def _solved_there(
        self, square: Array, chosen: Array, count: Array, tol: Array, rough: bool
    ) -> Array:
        """Changes of the chosen coefficients, by a compiled program of the device."""
        all_bounds = (self.diagonal, self.lower, self.upper, self.kink, self.ridge)
        bounds, before = tuple(part[chosen] for part in all_bounds), self.beta[chosen]
        part = before.clone(), self.F[chosen]
        most = TOLERANCES.steps_per_point * len(chosen)
        solve_set(square, bounds, part, count, tol, self.steps, most, rough)
        return part[0] - before

    def _solved_here(
        self, square: Array, chosen: Array, count: Array, tol: Array, rough: bool
    ) -> Array:
        """Changes of the chosen coefficients, by the host's loop, where the device is the host."""
        size = int(count)
        places = chosen[:size].numpy()
        bounds, before = self.box.bounds(places), self.beta.numpy()[places]
        part, gradient = before.copy(), self.F.numpy()[places]
        block = square[:size, :size].contiguous().numpy()
        diagonal, most = self.diagonal.numpy()[places], TOLERANCES.steps_per_point * size
        steps, _ = smo(block, diagonal, bounds, part, gradient, float(tol), most)
        self.steps += steps
        change = self.device.torch.zeros(len(chosen), dtype=self.F.dtype)
        change[:size] = self.device.put(part - before)
        return change


# --- calls of the compiled programs ---------------------------------------------------------------

# Tolerance, relative to the slopes, for which float32 is enough: with a smaller one rounding would
# decide.
ROUGH_TOLERANCE = 2e-5
# Rows and columns that a program of a sum visits at a time: more take more registers.
SUM_BLOCK = (16, 256)


def solve_set(
    square: Array,
    bounds: tuple[Array, ...],
    part: tuple[Array, Array],
    count: Array,
    tol: Array,
    steps: Array,
    most: int,
    rough: bool = False,
) -> None:
    """SMO on a working set, as `manykernels._loops.smo.smo`, in one launch; nothing is copied.

    One program does it: its threads hold the vectors, and a step costs two maxima over them and two
    rows of the kernel from the second-level cache, about a microsecond for 2,048 points.

    Parameters
    ----------
    square : (q, q) tensor
    bounds : tuple of (q,) float64 tensors
        Diagonal with the ridge, lower and upper bounds, kinks and ridge.
    part : pair of (q,) float64 tensors
        Coefficients, which are updated, and F, which is not.
    count, steps : (1,) int64 tensors
        Points of the set, of which those behind have no part; to the other are added the steps.
    tol : (1,) float64 tensor
    most : int
        Steps at most.
    rough : bool
        Keep slopes in float32, which is faster: for tolerances that are no less than
        ROUGH_TOLERANCE of them. Coefficients are in float64 in any case.
    """
    size = 1 << max(5, (len(square) - 1).bit_length())
    from . import programs

    program = programs.rough_smo if rough else programs.smo
    program[(1,)](
        square, len(square), *bounds, *part, count, tol, steps, most, Q=size,
        num_warps=max(1, min(8, size // 128)),
    )  # fmt: skip


def add_rows(rows: Array, change: Array, out: Array) -> None:
    """``out += change @ rows`` in float64; rows whose change is zero are not read."""
    count, n = rows.shape
    height, width = SUM_BLOCK
    from .programs import add_rows as compiled

    compiled[(-(-n // width),)](rows, change, out, count, n, BM=height, BN=width)
