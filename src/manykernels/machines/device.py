"""The working-set method on a device: vectors and rows of all points stay there, the small program
is solved on the host.
"""

import numpy as np

from .._loops.smo import smo
from .base import Machine

SIZE, SMALL = 2048, 1024  # points in the working set, and if rows are at hand
LOOK = 4  # working sets from one look at the gap to the next
RESIDENT = 0.4  # of the free memory for a combined kernel that stays


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
        self.diagonal = bank.combined_diagonal(weights)
        fits = bank.n**2 * bank.dtype.itemsize <= RESIDENT * self.device.free()
        self.whole = (
            bank.combined(weights, self.device.indices(np.arange(bank.n))) if fits else None
        )

    def rows(self, chosen):
        """The chosen rows, for a tensor of indices."""
        return (
            self.bank.combined(self.weights, chosen) if self.whole is None else self.whole[chosen]
        )


class DeviceMachine(Machine):
    """SMO on a working set of the worst violators, as `BlockedMachine`, with all long vectors on a
    device.

    (To choose the next set, and compute its rows, while the host still works on this one takes more
    than twice as many sets: 45 s in place of 25 on half a million points.)

    Parameters
    ----------
    size : int, optional
        Points in the working set; by default more where rows must be computed.
    """

    looks_at_gap = True

    def __init__(self, size=None):
        self.size = size

    def multiply(self, kernel, beta):
        out = kernel.device.put(np.zeros(kernel.n))
        support, size = np.flatnonzero(beta), self._size(kernel)
        for start in range(0, support.size, size):
            part = support[start : start + size]
            rows = kernel.rows(kernel.device.indices(part))
            out += (kernel.device.put(beta[part]).to(rows.dtype) @ rows).double()
        return out.cpu().numpy()

    def ascend(self, kernel, box, beta, F, tol, max_steps, gap=0.0):
        at = _Vectors(kernel, box, beta, F)
        done, sets, working_set = 0, 0, None
        try:
            while True:
                up, down = at.sides()
                top, bottom = float(up.max()), float(down.min())
                violation, sets = max(0.0, top - bottom), sets + 1
                if violation < tol or done >= max_steps:
                    break
                if gap > 0.0 and sets % LOOK == 0 and at.gap(0.5 * (top + bottom)) < gap:
                    break
                working_set = self._choose(kernel, up, down, working_set)
                done += at.improve(working_set, max(0.5 * tol, 0.1 * violation))
        finally:  # also after an interrupt
            beta[:] = at.beta.cpu().numpy()
        # what was added up block by block has the rounding of every block: once more, all at once
        F[:] = self.multiply(kernel, beta) + box.ridge * beta - box.linear
        return done, violation

    def _size(self, kernel):
        if self.size is not None:
            return self.size
        return SIZE if kernel.whole is None else SMALL

    def _choose(self, kernel, up, down, previous):
        """The worst violators in both directions, filled up with some of the previous set."""
        torch, size = kernel.device.torch, self._size(kernel)
        each = min(size // (2 if previous is None else 4), len(up) // 2 or 1)
        best_up, best_down = torch.topk(up, each), torch.topk(-down, each)
        chosen = torch.cat(
            [best.indices[torch.isfinite(best.values)] for best in (best_up, best_down)]
        ).unique()
        if previous is None:
            return chosen
        new = torch.zeros(len(up), dtype=torch.bool, device=up.device)
        new[chosen] = True
        kept = previous[~new[previous]][: size - len(chosen)]
        return torch.cat([chosen, kept])


class _Vectors:
    """The vectors of one SVM on a device."""

    def __init__(self, kernel, box, beta, F):
        self.kernel, self.device, self.box, bounds = kernel, kernel.device, box, box.bounds()
        self.beta, self.F = self.device.put(beta), self.device.put(F)
        self.lower, self.upper = self.device.put(bounds.lower), self.device.put(bounds.upper)
        self.kink, self.ridge = self.device.put(bounds.kink), self.device.put(bounds.ridge)
        self.linear = self.device.put(box.linear)
        self.bounded = bool(np.isfinite(box.upper - box.lower).all())

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

    def improve(self, chosen, tol):
        """Solve for the chosen points, to a violation of tol; returns the steps that it took."""
        rows = self.kernel.rows(chosen)
        square, places, before, gradient = self.device.fetched(
            rows[:, chosen], chosen, self.beta[chosen], self.F[chosen]
        )
        bounds, part = self.box.bounds(places), before.copy()
        diagonal = self.kernel.diagonal[places] + bounds.ridge
        steps, _ = smo(square, diagonal, bounds, part, gradient, tol, 100 * places.size)
        change = self.device.put(part - before)
        self.F += (change.to(rows.dtype) @ rows).double()
        self.F[chosen] += self.device.put(bounds.ridge) * change
        self.beta[chosen] = self.device.put(part)
        return max(steps, 1)
