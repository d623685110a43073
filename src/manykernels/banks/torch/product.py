"""Products of Gaussians, one per feature or group of features, on a device."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...combinations import Product
from ..base import as_outputs, support_of
from ..combination import CombinationBank
from ..kernel_set import Indices
from .base import DeviceBank
from .families import squared_distances


class DeviceProductBank(DeviceBank, CombinationBank):
    """A bank of `manykernels.combinations.Product` whose kernels and slopes are computed on a
    device, in float64.

    Parameters
    ----------
    device : Device
    """

    combination: Product

    def __init__(
        self,
        combination: Any,
        left: Any = None,
        support: Any = None,
        feature_names: Any = None,
        n_jobs: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__(combination, left, support, feature_names, n_jobs)
        self.device = device

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if not name.startswith("_on_")}

    @cached_property
    def _on_points(self) -> Any:
        """Points of the rows and of the columns, moved to where their numbers are small."""
        center = self.combination._center
        right = self.device.put(self.right - center)
        return (right if self.symmetric else self.device.put(self.left - center)), right

    def _scale(self, weights: Any) -> Any:
        return self.device.put(np.sqrt(np.asarray(weights, dtype=float))[self.combination._group])

    def _kernel(self, rows: Any, cols: Any, scale: np.ndarray) -> Any:
        """The kernel between two sets of points, tensors."""
        return squared_distances(rows * scale, cols * scale).neg_().exp_()

    def combined(self, weights: ArrayLike, rows: Any) -> Any:
        (left, right), scale = self._on_points, self._scale(weights)
        out = self.device.torch.empty(
            (len(rows), self.n), dtype=self.device.torch.float64, device=self.device.place
        )

        def fill(part):
            self.device.pairs += len(rows[part]) * self.n
            out[part] = self._kernel(left[rows[part]], right, scale)

        for part in self.device.tiles(len(rows), 24 * self.n):
            self.device.sparing(fill, part)
        return out

    def weight_gradient(self, weights: Any, beta: Any) -> np.ndarray:
        self._needs_square("weight_gradient")
        beta = as_outputs(beta, self.n)
        support, torch = support_of(beta), self.device.torch
        points, scale = self._on_points[1][self.device.indices(support)], self._scale(weights)
        coefficients = self.device.put(beta[:, support])
        total = torch.zeros(points.shape[1], dtype=torch.float64, device=self.device.place)

        def add(part):
            self.device.pairs += len(points[part]) * len(points)
            B = self._kernel(points[part], points, scale).mul_(
                coefficients[:, part].T @ coefficients
            )
            # sum_ij B_ij (x_i - x_j)^2 for every feature at once
            scatter = points[part].square().T @ B.sum(dim=1) - (points[part] * (B @ points)).sum(
                dim=0
            )
            total.add_(scatter)

        for part in self.device.tiles(support.size, 32 * support.size):
            self.device.sparing(add, part)
        return -np.bincount(
            self.combination._group, weights=2.0 * total.cpu().numpy(), minlength=self.m
        )

    def cross(self, X_new: Any, support: Indices | None = None) -> Any:
        plain = super().cross(X_new, support)
        return DeviceProductBank(
            self.combination,
            plain.left,
            support,
            self.feature_names,
            self.threads.count,
            self.device,
        )
