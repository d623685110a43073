"""The working-set method on a device: vectors, rows and the small program all stay there."""

import numpy as np

from .._loops.smo import smo
from .._pulse import pulse
from . import compiled
from .base import Machine
from .dense import DenseMachine

SIZE = 2048  # points in the working set
LOOK = 4  # working sets from one look at the violation, and at the gap, to the next
RESIDENT = 0.4  # of the free memory for a combined kernel that stays
FEW = 512  # points, below which a matrix is worth a copy to the host
STEPS = 100  # of SMO for each point of a working set at most
SMALLEST = 64  # points of a working set, below which running out of memory is an error


def machine_for(kernel, box):
    """The machine for a kernel in memory or on a device, and the kernel as it takes it."""
    if isinstance(kernel, np.ndarray):
        return DenseMachine(), kernel
    # systems of equations are solved on the host
    if box.curve is not None or box.free or kernel.n <= FEW:
        return DenseMachine(), kernel.fetched()
    return DeviceMachine(), kernel


class DeviceMatrix:
    """A symmetric matrix on a device, as `DeviceMachine` takes it.

    Parameters
    ----------
    device : Device
    whole : (n, n) tensor
    """

    def __init__(self, device, whole):
        self.device, self.whole, self.n = device, whole, len(whole)
        self.diagonal = whole.diagonal().double()

    def rows(self, chosen):
        """The chosen rows, for a tensor of indices."""
        return self.whole if len(chosen) == self.n else self.whole[chosen]

    def fetched(self):
        """As an array of the host."""
        return self.device.fetched(self.whole)[0]


class DeviceRows:
    """Rows of a combined kernel on a device: all of them if they fit, else computed when they are
    asked for.

    Parameters
    ----------
    bank : DeviceTiledBank
    weights : (m,) array
    """

    def __init__(self, bank, weights):
        self.bank, self.weights, self.device, self.n = bank, weights, bank.device, bank.n
        self.diagonal = self.device.put(bank.combined_diagonal(weights))
        fits = bank.n**2 * bank.dtype.itemsize <= RESIDENT * self.device.free()
        self.whole = (
            bank.combined(weights, self.device.indices(np.arange(bank.n))) if fits else None
        )

    def rows(self, chosen):
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

    def __init__(self, size=SIZE):
        self.size = size

    def multiply(self, kernel, beta):
        out, left = kernel.device.put(np.zeros(kernel.n)), np.flatnonzero(beta)
        while left.size:
            part = left[: self.size]
            rows = self._rows(kernel, kernel.device.indices(part))
            if rows is not None:
                _add_rows(kernel.device, rows, kernel.device.put(beta[part]), out)
                left = left[part.size :]
        return out.cpu().numpy()

    def _rows(self, kernel, chosen):
        """Rows of the kernel; None where memory runs out, and sets are half as large from then
        on.
        """
        try:
            return kernel.rows(chosen)
        except kernel.device.torch.OutOfMemoryError:
            if self.size <= SMALLEST:
                raise
            self.size //= 2
            kernel.device.tidy()
            return None

    def ascend(self, kernel, box, beta, F, tol, max_steps, gap=0.0):
        at, sets, working_set, before = _Vectors(kernel, box, beta, F), 0, None, -1
        try:
            while True:
                pulse()
                up, down = at.sides()
                top, bottom = up.max(), down.min()
                if sets % LOOK == 0 or kernel.n <= self.size:
                    done, high, low, largest = at.progress(top, bottom)
                    # a set of all points that this was too rough for is solved once more
                    rough = (kernel.n > self.size or not sets) and (
                        0.5 * tol >= compiled.ROUGH * largest
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
        F[:] = self.multiply(kernel, beta) + box.ridge * beta - box.linear
        return done, violation

    def _choose(self, kernel, up, down, previous):
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


def _first_of_each(torch, found, real, size, n):
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


def _add_rows(device, rows, change, out):
    """``out += change @ rows``, in float64."""
    if device.fused:
        compiled.add_rows(rows.contiguous(), change, out)
    else:
        out += change @ rows.double()


class _Vectors:
    """The vectors of one SVM on a device."""

    def __init__(self, kernel, box, beta, F):
        self.kernel, self.device, self.box, bounds = kernel, kernel.device, box, box.bounds()
        self.beta, self.F = self.device.put(beta), self.device.put(F)
        self.lower, self.upper = self.device.put(bounds.lower), self.device.put(bounds.upper)
        self.kink, self.ridge = self.device.put(bounds.kink), self.device.put(bounds.ridge)
        self.linear, self.diagonal = self.device.put(box.linear), kernel.diagonal + self.ridge
        self.bounded = bool(np.isfinite(box.upper - box.lower).all())
        self.steps = self.device.indices(np.zeros(1))

    def sides(self):
        """As `Box.sides`."""
        torch, beta, F = self.device.torch, self.beta, self.F
        up = torch.where(
            beta < self.upper, -F - torch.where(beta >= 0.0, self.kink, -self.kink), -torch.inf
        )
        down = torch.where(
            beta > self.lower, -F + torch.where(beta <= 0.0, self.kink, -self.kink), torch.inf
        )
        return up, down

    def progress(self, top, bottom):
        """Steps so far, the slopes of the worst violators and the largest of F, as numbers of the
        host.
        """
        four = [self.steps[0].double(), top, bottom, self.F.abs().max()]
        done, *others = self.device.fetched(self.device.torch.stack(four))[0].tolist()
        return int(done), *others

    def tolerance(self, tol, violation, inner):
        """The violation to leave in a working set: a tenth of that of all points, unless one is
        given.
        """
        if inner is not None:
            return self.device.put(np.full(1, inner))
        return (0.1 * violation).clamp(min=0.5 * tol).view(1)

    def gap(self, b):
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

    def improve(self, rows, chosen, count, tol, rough):
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

    def _solved_there(self, square, chosen, count, tol, rough):
        all_bounds = (self.diagonal, self.lower, self.upper, self.kink, self.ridge)
        bounds, before = tuple(part[chosen] for part in all_bounds), self.beta[chosen]
        part = before.clone(), self.F[chosen]
        most = STEPS * len(chosen)
        compiled.solve_set(square, bounds, part, count, tol, self.steps, most, rough)
        return part[0] - before

    def _solved_here(self, square, chosen, count, tol, rough):
        """The same by the host's loop, where the device is the host."""
        size = int(count)
        places = chosen[:size].numpy()
        bounds, before = self.box.bounds(places), self.beta.numpy()[places]
        part, gradient = before.copy(), self.F.numpy()[places]
        block = square[:size, :size].contiguous().numpy()
        steps, _ = smo(
            block, self.diagonal.numpy()[places], bounds, part, gradient, float(tol), STEPS * size
        )
        self.steps += steps
        change = self.device.torch.zeros(len(chosen), dtype=self.F.dtype)
        change[:size] = self.device.put(part - before)
        return change
