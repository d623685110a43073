"""What a round asks of the points of a low-rank bank: sums over them, and nothing of their number.

Coefficients of the features and intercepts go in, Gram matrices, slopes and losses come out. The
points may be in several places, each with a `Look` of its own: every sum is the sum of theirs.
"""

from typing import NamedTuple

import numpy as np

from ...losses import Loss
from .corners import Corner


class Sums(NamedTuple):
    """Sums over points at coefficients u and intercepts b, for t outputs and q columns.

    Attributes
    ----------
    H : (t, q + 1, q + 1)
        ``[V 1]' diag(bends) [V 1]``, with the second derivatives of the losses.
    pulls : (t, q + 1)
        ``[V 1]' beta``, for minus the slopes beta of the losses.
    parts : (3,)
        Total loss, and the dual of the loss at beta in two parts: what grows as beta does, and what
        grows as its square, or is a curve.
    """

    H: np.ndarray
    pulls: np.ndarray
    parts: np.ndarray


class Look:
    """Some points of a bank with their targets and costs, for a loss without corners.

    Parameters
    ----------
    bank : FactorBank
    targets, cost : (t, n) arrays
    loss : Loss
    """

    def __init__(self, bank, targets: np.ndarray, cost: np.ndarray, loss: Loss) -> None:
        self.bank = bank
        self.boxes = [loss.box(y, own) for y, own in zip(targets, cost, strict=True)]
        pairs = zip(self.boxes, cost, strict=True)
        self.curves = [box.curve or Corner(box, own, 0.0) for box, own in pairs]

    def sums(self, u: np.ndarray, b: np.ndarray) -> Sums:
        """The `Sums` at a fit."""
        F, (t, q) = self._values(u, b), u.shape
        H, pulls, parts = np.empty((t, q + 1, q + 1)), np.empty((t, q + 1)), np.zeros(3)
        for c, (curve, box, f) in enumerate(zip(self.curves, self.boxes, F, strict=True)):
            beta, bends = curve.response(f)
            sums = self.bank.correlate(np.stack([beta, bends]))
            H[c, :q, :q] = self.bank.gram(bends)
            H[c, q, :q] = H[c, :q, q] = sums[1]
            H[c, q, q] = bends.sum()
            pulls[c] = np.append(sums[0], beta.sum())
            parts[0] += curve.loss(f, b[c])
            parts[1] += float(box.linear @ beta - box.kink @ np.abs(beta))
            bent = box.curve is not None
            parts[2] += -box.curve.value(beta) if bent else 0.5 * float(box.ridge @ beta**2)
        return Sums(H, pulls, parts)

    def losses(self, u: np.ndarray, b: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Total losses on a line, at ``u[0] + s u[1]`` and ``b[0] + s b[1]`` for each s of the
        places.
        """
        start, step = self._values(u[0], b[0]), self._values(u[1], b[1])
        return np.array([self._loss(start + s * step, b[0] + s * b[1]) for s in places])

    def coefficients(self, u: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The coefficients beta of all points, (t, n), at a fit."""
        pairs = zip(self.curves, self._values(u, b), strict=True)
        return np.stack([curve.response(f)[0] for curve, f in pairs])

    def _values(self, u, b):
        return self.bank.dot(u) + b[:, None]

    def _loss(self, F, b):
        return sum(curve.loss(f, own) for curve, f, own in zip(self.curves, F, b, strict=True))
