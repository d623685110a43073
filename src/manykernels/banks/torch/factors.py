"""Low-rank kernels on a device: factors in float32, sums in float64."""

from functools import cached_property

import numpy as np

from ..._arrays import is_tensor
from ..base import as_outputs
from ..lowrank.factors import FactorBank
from .store import placed
from .systems import DeviceSystem

# rows whose products are summed in float32 where that is faster: with all of half a million rows
# the Gram matrix lost the positive eigenvalues that Cholesky's method needs
ROWS = 8192
LARGEST = 65_536  # rows of a block in float64
# parts of the rows that are worth a copy beside the others, on the device and from the host
MOST, FEW = 0.8, 0.05
RENEWED = 0.5  # changes of bends, as a part of them, from which on a Gram matrix is made anew
PANEL = 1024  # columns of a Gram matrix of which only the rows below are computed, at least


class Elsewhere(FactorBank):
    """A `FactorBank` without factors in the memory of the host.

    Parameters
    ----------
    store : Resident or Streamed
        The factors.
    offsets, features, threads
        See `FactorBank`.
    """

    symmetric = True
    by_blocks = False

    def __init__(self, store, offsets, features, threads=None):
        self.store, self.device = store, store.device
        FactorBank.__init__(self, _Shape(store), offsets, features, threads)

    @property
    def factors(self):
        """All of them as an array, for what is asked of small banks alone."""
        return self.store.host()

    @factors.setter
    def factors(self, value):
        self._width = value.shape[1]

    @property
    def right(self):
        return self.factors

    @right.setter
    def right(self, value):
        pass  # the same

    def to_device(self, array):
        return self.device.put(array)

    def dot(self, coefficients):
        return self.values(coefficients).cpu().numpy()

    def decision(self, weights, beta):
        if is_tensor(beta):
            return self.values(self.coefficients(weights, beta))
        return super().decision(weights, beta)

    def largest(self, weights):
        return float((self.device.put(weights) @ self._diagonals_there).max())

    def diagonal(self):
        return self._diagonals_there.cpu().numpy()

    def combined_diagonal(self, weights):
        return (self.device.put(weights) @ self._diagonals_there).cpu().numpy()


class DeviceFactorBank(Elsewhere):
    """A `FactorBank` whose factors are on a device, or stream through it.

    Vectors with an entry per point may be tensors of the device, and are what `values` returns;
    short ones, one entry per column, are arrays of the host.
    """

    @property
    def width(self):
        return self._width

    def visit(self, work, row_bytes, most=LARGEST):
        """Call ``work(part, block)`` for blocks of rows."""

        def visited(part):
            work(part, self.store.block(part))

        for part in self.device.tiles(self.n_rows, row_bytes, most):
            self.device.sparing(visited, part)

    def values(self, coefficients):
        coefficients = self.device.put(np.atleast_2d(coefficients))
        out = self._doubles((len(coefficients), self.n_rows))

        def fill(part, block):
            out[:, part] = coefficients @ block.double().T

        self.visit(fill, 12 * self.width)
        return out

    def correlate(self, beta):
        beta = self.device.put(beta if is_tensor(beta) else as_outputs(beta, self.n))
        out = self._doubles((len(beta), self.width))
        self.visit(lambda part, block: out.add_(beta[:, part] @ block.double()), 12 * self.width)
        return out.cpu().numpy()

    def gram(self, scale, exact=False):
        out = self._doubles((self.width, self.width))
        self._gram(self.device.put(scale), exact, out)
        return out.cpu().numpy()

    def system(self, bends, exact=False, before=None):
        bends = self.device.put(bends)
        change = None if before is None else bends - before.curvatures
        if change is not None and change.count_nonzero() < RENEWED * bends.count_nonzero():
            H = before.H
        else:
            H, change = self._doubles((self.width + 1, self.width + 1)), bends
        border = self._doubles(self.width)
        self._gram(change, exact, H[:-1, :-1], border)
        H[-1, :-1] += border
        H[:-1, -1] = H[-1, :-1]
        H[-1, -1] = bends.sum()
        return DeviceSystem(self.device, H, bends)

    def _gram(self, scale, exact, out, border=None):
        """Add ``V' diag(scale) V`` to a symmetric matrix, and ``V' scale`` to a border; rows
        without a scale are left out where that saves time.
        """
        fine, used = exact or self.device.doubles, scale.nonzero().ravel()
        if len(used) > (FEW if self.store.streams else MOST) * self.n_rows:
            used = None  # a pass over all is as fast

        def add(part, block):
            share = scale[part] if used is None else scale[used[part]]
            roots, block = share.abs().sqrt()[:, None], block.double() if fine else block
            scaled = block * roots.to(block.dtype)
            signed = scaled * share.sign()[:, None].to(block.dtype)
            if border is not None:
                border.add_(roots[:, 0] @ signed.double())
            _add_gram(out, scaled, signed)

        row_bytes, most = 40 * self.width, LARGEST if fine else ROWS
        if used is None:
            self.visit(add, row_bytes, most)
        else:
            for part in self.device.tiles(len(used), row_bytes, most):
                self.device.sparing(lambda part: add(part, self.store.rows(used[part])), part)
        _mirror(out)

    @cached_property
    def _diagonals_there(self):
        """Of the kernels, (m, n)."""
        out = self._doubles((self.m, self.n_rows))

        def fill(part, block):
            for k in range(self.m):
                own = block[:, self.offsets[k] : self.offsets[k + 1]].double()
                out[k, part] = own.square().sum(dim=1)

        self.visit(fill, 20 * self.width)
        return out

    def combine(self, weights, rows=None):
        rows = np.arange(self.n_rows) if rows is None else np.asarray(rows)
        columns = self.device.put(self.column_weights(weights), self.dtype)
        left = self.store.rows(self.device.indices(rows)) * columns
        out = np.empty((rows.size, self.n), self.dtype)

        def fill(part, block):
            out[:, part] = (left @ block.T).cpu().numpy()

        self.visit(fill, 4 * (self.width + 2 * rows.size))
        return out

    def products(self, beta):
        moments = self.correlate(beta)
        shape = (self.m, *moments.shape)
        alone = np.zeros(shape)
        for k in range(self.m):
            columns = slice(self.offsets[k], self.offsets[k + 1])
            alone[k, :, columns] = moments[:, columns]
        out = self.dot(alone.reshape(-1, self.width)).reshape(*shape[:2], self.n_rows)
        return out if np.ndim(beta) == 2 else out[:, 0]

    def columns(self, chosen):
        few = self.store.rows(self.device.indices(np.asarray(chosen))).double().cpu().numpy()
        alone = np.zeros((self.m, *few.shape))
        for k in range(self.m):
            columns = slice(self.offsets[k], self.offsets[k + 1])
            alone[k, :, columns] = few[:, columns]
        out = self.dot(alone.reshape(-1, self.width))
        return out.reshape(self.m, len(few), self.n_rows).transpose(0, 2, 1)

    def take_points(self, points):
        store = self.store.chosen(self.device.indices(np.arange(self.n_rows)[points]))
        return DeviceFactorBank(store, self.offsets, self.features, self.threads)

    def take_kernels(self, kernels, factor=1.0):
        plain = super().take_kernels(kernels, factor)
        return moved_to_device(plain, self.device)

    def _doubles(self, shape):
        return self.device.torch.zeros(
            shape, dtype=self.device.torch.float64, device=self.device.place
        )


class _Shape:
    """Shape and type of factors that are elsewhere."""

    def __init__(self, store):
        self.shape, self.dtype = store.shape, np.dtype(str(store.factors.dtype).split(".")[-1])


def moved_to_device(bank, device):
    """A `FactorBank` of the host on a device."""
    store = placed(device, device.torch.from_numpy(np.ascontiguousarray(bank.factors)))
    return DeviceFactorBank(store, bank.offsets, bank.features, bank.threads)


def _add_gram(out, scaled, signed):
    """Add ``scaled' signed``, which is symmetric, on and below the diagonal of panels."""
    width = len(out)
    step = max(PANEL, -(-width // 8))
    fine = scaled.dtype == out.dtype
    for start in range(0, width, step):
        panel, below = signed[:, start : start + step], scaled[:, start:].T
        there = out[start:, start : start + step]
        if fine:
            there.addmm_(below, panel)
        else:
            there.add_(below @ panel)


def _mirror(square):
    """Fill the part above the panels with that below."""
    width = len(square)
    step = max(PANEL, -(-width // 8))
    for start in range(0, width, step):
        stop = min(start + step, width)
        square[start:stop, stop:] = square[stop:, start:stop].T
