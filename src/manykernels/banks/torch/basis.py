"""The small space of the factors of many kernels, found and used on a device.

See `manykernels.banks.lowrank.basis`, which does the same on the host.
"""

from functools import cached_property

import numpy as np

from ..base import as_outputs
from ..lowrank.basis import BAD, ENOUGH, GAIN, LEAST, LEFT, ROUNDS, SAMPLE, ReducedBank
from ..lowrank.factors import FactorBank
from .factors import DeviceFactorBank, Elsewhere
from .store import Resident, fits
from .systems import nearly_definite

LARGEST = 4096  # points of a sample, whose eigenvalues are asked for


class DeviceReducedBank(Elsewhere, ReducedBank):
    """Kernels ``K_k = Q P_k' P_k Q'`` on a device.

    Parameters
    ----------
    points : DeviceFactorBank
        With the factors Q.
    P : (r, q) float64 tensor
        See `ReducedBank`.
    offsets : (m + 1,) int
    diagonals : (m, n) float64 tensor
        Of the kernels.
    """

    def __init__(self, points, P, offsets, diagonals):
        Elsewhere.__init__(self, points.store, offsets, points.features, points.threads)
        self._points, self.P, self._diagonals_there = points, P, diagonals

    def whole(self):
        return self.points.whole() @ self._P_here.T

    def parts(self):
        return (self._P_here[self.offsets[k] : self.offsets[k + 1]] for k in range(self.m))

    @cached_property
    def _P_here(self):
        return self.P.cpu().numpy()

    def values(self, coefficients):
        return self.points.values(self.reduced(np.atleast_2d(coefficients)))

    def correlate(self, beta):
        return self._times_P(self.points.correlate(beta), self.P.T)

    def gram(self, scale, exact=False):
        square = self.device.put(self.points.gram(scale, exact))
        return (self.P @ square @ self.P.T).cpu().numpy()

    def combine(self, weights, rows=None):
        rows = np.arange(self.n_rows) if rows is None else np.asarray(rows)
        few = self.points.store.rows(self.device.indices(rows)).double()
        turned = ((few @ self.root(weights)) @ self.root(weights).T).cpu().numpy()
        return self.points.dot(turned).astype(self.dtype)

    def products(self, beta):
        moments = self.points.correlate(as_outputs(beta, self.n))
        out = np.stack([self.points.dot(moments @ part.T @ part) for part in self.parts()])
        return out if np.ndim(beta) == 2 else out[:, 0]

    def columns(self, chosen):
        few = self.points.store.rows(self.device.indices(np.asarray(chosen)))
        few = few.double().cpu().numpy()
        return np.stack([self.points.dot(few @ part.T @ part).T for part in self.parts()])

    def take_points(self, points):
        places = self.device.indices(np.arange(self.n_rows)[points])
        some = self._diagonals_there[:, places]
        return DeviceReducedBank(self.points.take_points(points), self.P, self.offsets, some)

    def lasting(self, coefficients):
        return self._times_P(self.reduced(coefficients), self.P.T)

    def cross(self, X_new, support=None):
        right = self.right if support is None else self.right[support]
        P = self._P_here
        new = self.features.transform(X_new) @ P @ P.T
        return FactorBank(new, self.offsets, self.features, self.threads, right=right @ P.T)

    def half(self):
        q = self.P.shape[1] // 2
        if q < LEAST // 2:
            return None
        store = self.points.store.leading(q)
        points = DeviceFactorBank(store, [0, q], self.features, self.threads)
        return DeviceReducedBank(
            points, self.P[:, :q].contiguous(), self.offsets, self._diagonals_there
        )

    def root(self, weights):
        columns = self.device.put(np.sqrt(self.column_weights(weights)))
        scaled = columns[:, None] * self.P
        S = scaled.T @ scaled
        S.diagonal().add_(1e-15 * S.trace())
        return nearly_definite(self.device.torch, S)

    def coefficients_of_moments(self, weights, moments):
        return self.column_weights(weights) * self._times_P(moments, self.P.T)

    def reduced(self, v):
        return self._times_P(v, self.P)

    def _times_P(self, short, P):
        return (self.device.put(short) @ P).cpu().numpy()


def reduced_on_device(bank):
    """The same kernels in the smallest space that holds their factors; the bank itself if that is
    not much smaller, or if there is no room for it on the device.

    Parameters
    ----------
    bank : DeviceFactorBank
    """
    if bank.dtype != np.float32 or bank.width < LEAST or bank.store.streams:
        return bank
    squares = bank._diagonals_there.sum(dim=0)
    if not 0.0 < float(squares.sum()) < np.inf:  # nothing to span: the solver says what is wrong
        return bank
    space = _spanned(_Space(bank, squares), min(int(GAIN * bank.width), bank.n))
    if space is None:
        return bank
    store = Resident(bank.device, bank.device.torch.cat(space.Q, dim=1))
    points = DeviceFactorBank(store, [0, space.P.shape[1]], bank.features, bank.threads)
    return DeviceReducedBank(points, space.P, bank.offsets, bank._diagonals_there)


def _spanned(space, most):
    """The space of all points but for LEFT; None if it has more than `most` directions."""
    rest = _sampled(space, most)
    for _ in range(ROUNDS):
        if rest is None or space.P.shape[1] + rest.shape[1] > most:
            return None
        if not fits(space.bank.device, (2 * space.bank.n, space.P.shape[1] + rest.shape[1])):
            return None
        space.add(rest)
        worst = space.left.topk(min(SAMPLE, space.bank.n))
        bad = worst.indices[worst.values > BAD * LEFT**2]
        if not len(bad):
            return space
        rest = _directions(space.bank.device.torch, space.rest(bad))
    return None


def _sampled(space, most):
    """Directions of random points that hold those of all others, as far as can be seen; None if
    there are too many.
    """
    bank, size = space.bank, min(SAMPLE, space.bank.n)
    largest = min(bank.n, LARGEST)
    while True:
        chosen = np.sort(np.random.default_rng(0).choice(bank.n, size, replace=False))
        rows = space.rest(bank.device.indices(chosen))
        if not _spread(bank.device.torch, rows, int(ENOUGH * size)):
            return _directions(bank.device.torch, rows)
        if ENOUGH * size >= most or size >= largest:
            return None
        size = min(2 * size, largest)


def _spread(torch, rows, count):
    """Whether rows have more than so many directions."""
    G = rows @ rows.T
    # those of some of the rows are enough, and Cholesky's method is much faster
    some = G[: count + 1, : count + 1].clone()
    some.diagonal().sub_(LEFT**2)
    if not int(torch.linalg.cholesky_ex(some)[1]):
        return True
    return int((torch.linalg.eigvalsh(G) > LEFT**2).sum()) > count


def _directions(torch, rows):
    """Orthonormal directions that hold all of some rows but for LEFT, those that hold most first,
    (r, k).
    """
    values, vectors = torch.linalg.eigh(rows @ rows.T)
    kept = values > LEFT**2
    kept[-1] = True  # one of them, at least
    return rows.T @ (vectors[:, kept] / values[kept].sqrt()).flip(1)


class _Space:
    """Orthonormal directions P (r, q), and what they hold of the factors, Q (n, q) in parts, and
    leave of their squared lengths (n,).

    Lengths are counted in units of the point's own, or of the usual one if that is more.
    """

    def __init__(self, bank, squares):
        self.bank, self.units = bank, squares.clip(squares.mean(), None)
        self.left = squares / self.units
        self.P, self.Q = squares.new_empty((bank.width, 0)), []

    def rest(self, points):
        """What the directions leave of some factors."""
        V = self.bank.store.rows(points).double() / self.units[points, None].sqrt()
        return V - (V @ self.P) @ self.P.T

    def add(self, new):
        """Directions that are orthogonal to the others but for rounding."""
        qr = self.bank.device.torch.linalg.qr
        new = qr(new - self.P @ (self.P.T @ new))[0]
        held = self.bank.device.torch.empty(
            (self.bank.n, new.shape[1]), dtype=self.bank.device.torch.float32, device=new.device
        )

        def fill(part, block):
            turned = block.double() @ new
            held[part] = turned.float()
            self.left[part] -= turned.square().sum(dim=1) / self.units[part]

        self.bank.visit(fill, 12 * self.bank.width + 16 * new.shape[1])
        self.P, self.Q = self.bank.device.torch.cat([self.P, new], dim=1), [*self.Q, held]
