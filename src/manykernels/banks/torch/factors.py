"""Low-rank kernels on a device."""

from functools import cached_property

import numpy as np

from ..base import as_outputs
from ..factors import FactorBank


class DeviceFactorBank(FactorBank):
    """A `FactorBank` whose products with the factors are taken on a device, in blocks of rows if
    they do not fit there.

    Parameters
    ----------
    device : Device
    """

    def __init__(self, factors, offsets, features, threads=None, right=None, device=None):
        super().__init__(factors, offsets, features, threads, right)
        self.device = device

    def __getstate__(self):
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_on_device"}

    @cached_property
    def _on_device(self):
        """The factors of all rows, if they fit."""
        fits = self.factors.nbytes <= 0.5 * self.device.free()
        return self.device.put(self.factors, self.dtype) if fits else None

    def _visit(self, work, row_bytes):
        """Call ``work(part, block)`` for blocks of rows."""

        def visit(part):
            held = self._on_device
            work(
                part,
                self.device.put(self.factors[part], self.dtype) if held is None else held[part],
            )

        for part in self.device.tiles(self.n_rows, row_bytes):
            self.device.sparing(visit, part)

    def dot(self, coefficients):
        coefficients = self.device.put(np.atleast_2d(coefficients))
        out = np.empty((coefficients.shape[0], self.n_rows))

        def fill(part, block):
            out[:, part] = (coefficients @ block.double().T).cpu().numpy()

        self._visit(fill, 12 * self.width)
        return out

    def correlate(self, beta):
        if not self.symmetric:
            return super().correlate(beta)
        beta = self.device.put(as_outputs(beta, self.n))
        out = self.device.torch.zeros(
            (beta.shape[0], self.width), dtype=self.device.torch.float64, device=self.device.place
        )
        self._visit(lambda part, block: out.add_(beta[:, part] @ block.double()), 12 * self.width)
        return out.cpu().numpy()

    def gram(self, scale, exact=False):
        roots = self.device.put(np.sqrt(scale))
        out = self.device.torch.zeros(
            (self.width, self.width), dtype=self.device.torch.float64, device=self.device.place
        )

        def add(part, block):
            block = block.double() if exact else block
            scaled = block * roots[part, None].to(block.dtype)
            out.add_((scaled.T @ scaled).double())

        self._visit(add, 20 * self.width)
        return out.cpu().numpy()
