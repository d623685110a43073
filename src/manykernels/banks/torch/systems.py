"""The equations of Newton's method on a device: matrices stay there, short vectors come and go."""

import numpy as np

from ..lowrank.systems import HOLD, NO_NUMBERS, REFINEMENTS, SHIFTS


class DeviceSystem:
    """As `manykernels.banks.lowrank.systems.System`.

    Parameters
    ----------
    device : Device
    H : (q + 1, q + 1) float64 tensor
    bends : (n,) float64 tensor
        Second derivatives of the loss that H is made of.
    """

    def __init__(self, device, H, bends):
        self.device, self.H, self.curvatures = device, H, bends

    def value(self, pull, step):
        pull, step = self.device.put(np.stack([pull, step]))
        return float(0.5 * (step @ (self.H @ step)) - pull @ step)

    def rooted(self, root):
        return DeviceRooted(self.device, self.H, self.device.put(root))


class DeviceRooted:
    """As `manykernels.banks.lowrank.systems.Rooted`.

    Parameters
    ----------
    device : Device
    H : (q + 1, q + 1) float64 tensor
    root : (q,) or (q, q) float64 tensor
    """

    def __init__(self, device, H, root):
        self.device, self.H, self.root = device, H, root
        matrix = self._both_sides()
        diagonal = matrix.diagonal()
        diagonal[:-1] += 1.0
        diagonal[-1] += HOLD * diagonal[-1].clip(1.0, None)
        self.factor = nearly_definite(device.torch, matrix)

    def solve(self, pull, a, missing):
        short = self.device.put(np.concatenate([pull, a, missing]))
        pull, a, missing = short.split([len(pull), len(a), len(missing)])
        right = pull + self.H[:, :-1] @ missing
        right[:-1] -= a
        rise = self._times(self._solution(self._transposed(right)))
        change = (right - self.H @ rise)[:-1]
        rise[:-1] -= missing
        both = self.device.torch.cat([change, rise]).cpu().numpy()
        return both[: len(change)], both[len(change) :]

    def _solution(self, right):
        x = self._substituted(right)
        for _ in range(REFINEMENTS):
            left = right - self._transposed(self.H @ self._times(x))
            left[:-1] -= x[:-1]
            x += self._substituted(left)
        return x

    def _substituted(self, right):
        return self.device.torch.cholesky_solve(right[:, None], self.factor)[:, 0]

    def _both_sides(self):
        if self.root.ndim == 1:
            both = self.device.torch.nn.functional.pad(self.root, (0, 1), value=1.0)
            return (both[:, None] * self.H).mul_(both)
        out, root = self.device.torch.empty_like(self.H), self.root
        out[:-1, :-1] = root.T @ (self.H[:-1, :-1] @ root)
        out[-1, :-1] = out[:-1, -1] = root.T @ self.H[-1, :-1]
        out[-1, -1] = self.H[-1, -1]
        return out

    def _times(self, x):
        """``C x``."""
        return self._bordered(x, self.root * x[:-1] if self.root.ndim == 1 else self.root @ x[:-1])

    def _transposed(self, x):
        """``C' x``."""
        return self._bordered(
            x, self.root * x[:-1] if self.root.ndim == 1 else self.root.T @ x[:-1]
        )

    def _bordered(self, x, most):
        return self.device.torch.cat([most, x[-1:]])


def nearly_definite(torch, matrix):
    """Cholesky's factor of a matrix that rounding may have made slightly indefinite; its diagonal
    is changed if so.
    """
    shift = 1e-14 * matrix.trace()
    for _ in range(SHIFTS):
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if not int(failed):
            return factor
        matrix.diagonal().add_(shift)
        shift *= 10.0
    raise FloatingPointError(NO_NUMBERS)
