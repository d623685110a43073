"""The working-set method on a device: vectors and rows of all points stay there, the small program
is solved on the host.
"""

import numpy as np

from .._loops.smo import smo
from .base import Machine

SIZE = 1024
RESIDENT = 0.4  # of the free memory for a combined kernel that stays
ALLOWED = 2.0  # times the tolerance may the violation be once kernels that were quick are exact


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

    def rows(self, chosen, quick=False):
        """The chosen rows, for a tensor of indices; `quick` ones may be off by a little."""
        if self.whole is not None:
            return self.whole[chosen]
        make = self.bank.quick_rows if quick else self.bank.combined
        return make(self.weights, chosen)


class DeviceMachine(Machine):
    """SMO on a working set of the worst violators, as `BlockedMachine`, with all long vectors on a
    device.

    Parameters
    ----------
    size : int
        Points in the working set.
    """

    def __init__(self, size=SIZE):
        self.size = size

    def multiply(self, kernel, beta):
        out = kernel.device.put(np.zeros(kernel.n))
        support = np.flatnonzero(beta)
        for start in range(0, support.size, self.size):
            part = support[start : start + self.size]
            rows = kernel.rows(kernel.device.indices(part))
            out += (kernel.device.put(beta[part]).to(rows.dtype) @ rows).double()
        return out.cpu().numpy()

    def ascend(self, kernel, box, beta, F, tol, max_steps):
        done = 0
        for quick in (kernel.whole is None, False):
            at = _Vectors(kernel.device, box, beta, F)
            try:
                done += self._search(kernel, at, tol, max_steps - done, quick)
            finally:  # also after an interrupt
                beta[:] = at.beta.cpu().numpy()
            # what was added up block by block has the rounding of every block: once more, all at
            # once
            F[:] = self.multiply(kernel, beta) + box.ridge * beta - box.linear
            up, down = box.sides(beta, F)
            violation = max(0.0, float(up.max() - down.min()))
            if violation <= ALLOWED * tol or done >= max_steps or not quick:
                break
        return done, violation

    def _search(self, kernel, at, tol, max_steps, quick):
        """Go from working set to working set; the steps that it took."""
        done, working_set = 0, None
        while True:
            up, down = at.sides()
            violation = max(0.0, float(up.max() - down.min()))
            if violation < tol or done >= max_steps:
                return done
            working_set = self._choose(kernel.device.torch, up, down, working_set)
            rows = kernel.rows(working_set, quick)
            done += at.improve(kernel, rows, working_set, max(0.5 * tol, 0.1 * violation))

    def _choose(self, torch, up, down, previous):
        """The worst violators in both directions, filled up with some of the previous set."""
        each = min(self.size // (2 if previous is None else 4), len(up) // 2 or 1)
        best_up, best_down = torch.topk(up, each), torch.topk(-down, each)
        chosen = torch.cat(
            [best.indices[torch.isfinite(best.values)] for best in (best_up, best_down)]
        ).unique()
        if previous is None:
            return chosen
        new = torch.zeros(len(up), dtype=torch.bool, device=up.device)
        new[chosen] = True
        kept = previous[~new[previous]][: self.size - len(chosen)]
        return torch.cat([chosen, kept])


class _Vectors:
    """The vectors of one SVM on a device."""

    def __init__(self, device, box, beta, F):
        self.device, self.box, bounds = device, box, box.bounds()
        self.beta, self.F = device.put(beta), device.put(F)
        self.lower, self.upper = device.put(bounds.lower), device.put(bounds.upper)
        self.kink = device.put(bounds.kink)

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

    def improve(self, kernel, rows, chosen, tol):
        """Solve for the chosen points, whose rows are given, to a violation of tol; returns the
        steps that it took.
        """
        square, places, part, gradient = self.device.fetched(
            rows[:, chosen], chosen, self.beta[chosen], self.F[chosen]
        )
        bounds, before = self.box.bounds(places), part.copy()
        steps, _ = smo(
            square,
            kernel.diagonal[places] + bounds.ridge,
            bounds,
            part,
            gradient,
            tol,
            100 * places.size,
        )
        change = part - before
        self.F += (self.device.put(change).to(rows.dtype) @ rows).double()
        self.F[chosen] += self.device.put(bounds.ridge * change)
        self.beta[chosen] = self.device.put(part)
        return max(steps, 1)
