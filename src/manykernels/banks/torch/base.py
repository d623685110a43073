"""What banks on a device share."""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...machines.device import DeviceMachine, DeviceRows
from ..base import Bank, as_outputs, support_of
from .device import Device


class DeviceBank(Bank):
    """A bank that has rows of its combined kernel as tensors on a device.

    Attributes
    ----------
    device : Device
    """

    device: Device
    on_device = has_machine = True

    @abstractmethod
    def combined(self, weights: ArrayLike, rows: Any) -> Any:
        """Rows of the combined kernel as a tensor, for a tensor of indices."""

    def _tile_bytes(self, columns: int) -> int:
        """Memory that a row of so many columns takes while it is computed."""
        return columns * (24 + 2 * self.dtype.itemsize)

    def machine(self, weights: ArrayLike) -> tuple:
        return DeviceMachine(), DeviceRows(self, weights)

    def combine(self, weights: ArrayLike, rows: ArrayLike | None = None) -> np.ndarray:
        places = self.device.indices(np.arange(self.n_rows) if rows is None else np.asarray(rows))
        out = np.empty((len(places), self.n), dtype=self.dtype)
        for part in self.device.tiles(len(places), 80 * self.n):
            out[part] = self.combined(weights, places[part]).cpu().numpy()
        return out

    def decision(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        outputs = as_outputs(beta, self.n)
        coefficients = self.device.put(outputs, self.dtype)
        out = np.zeros((outputs.shape[0], self.n_rows))
        # rows of the support do as well as columns, and are fewer
        chosen = support_of(outputs) if self.symmetric else np.arange(self.n_rows)
        for part in self.device.tiles(chosen.size, self._tile_bytes(self.n)):
            rows = self.device.indices(chosen[part])
            K = self.combined(weights, rows)
            if self.symmetric:
                out += (coefficients[:, rows] @ K).double().cpu().numpy()
            else:
                out[:, part] = (coefficients @ K.T).double().cpu().numpy()
        return out if np.ndim(beta) == 2 else out[0]
