"""Products of Gaussians, one per feature or group of features, and their random features, on a
device.
"""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...combinations import Product
from ..base import as_outputs, support_of
from ..combination import CombinationBank
from ..kernel_set import Indices
from ..lowrank.product import ProductFeatureBank, ProductMap
from .base import DeviceBank
from .factors import SIZES as FACTOR_SIZES
from .factors import DeviceFactorBank, empty
from .families import squared_distances


class DeviceProductBank(DeviceBank, CombinationBank):
    """A bank of `manykernels.combinations.Product` whose kernels and slopes are computed on a
    device: distances and slopes in float64, kernels in the precision of the bank.

    Parameters
    ----------
    device : Device
    """

    combination: Product
    reads_kernel = False

    def __init__(
        self,
        combination: Any,
        left: Any = None,
        support: Any = None,
        feature_names: Any = None,
        n_jobs: Any = None,
        dtype: Any = np.float64,
        device: Any = None,
    ) -> None:
        super().__init__(combination, left, support, feature_names, n_jobs, dtype)
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

    def _scaled(self, weights: ArrayLike, *points: Any) -> list[Any]:
        """Points with the features that have weight, scaled by its root."""
        scale = np.sqrt(np.asarray(weights, dtype=float))[self.combination._group]
        used = np.flatnonzero(scale)
        there, factors = self.device.indices(used), self.device.put(scale[used])
        return [some.index_select(1, there) * factors for some in points]

    def combined(self, weights: ArrayLike, rows: Any) -> Any:
        left, right = self._on_points
        scaled, others = self._scaled(weights, left[rows], right)
        entry = self.device.entry(self.dtype)
        out = self.device.torch.empty((len(rows), self.n), dtype=entry, device=self.device.place)

        def fill(part):
            self.device.pairs += len(rows[part]) * self.n
            out[part] = squared_distances(scaled[part], others).neg_().to(entry).exp_()

        for part in self.device.tiles(len(rows), 24 * self.n):
            self.device.sparing(fill, part)
        return out

    def weight_gradient(  # type: ignore[override]
        self, weights: ArrayLike, beta: ArrayLike, some: Indices | None = None
    ) -> np.ndarray:
        self._needs_square("weight_gradient")
        outputs, group = as_outputs(beta, self.n), self.combination._group
        support, torch = support_of(outputs), self.device.torch
        wanted = np.arange(group.size) if some is None else np.flatnonzero(np.isin(group, some))
        points = self._on_points[1][self.device.indices(support)]
        (scaled,), points = (
            self._scaled(weights, points),
            points.index_select(1, self.device.indices(wanted)),
        )
        coefficients = self.device.put(outputs[:, support])
        total = torch.zeros(wanted.size, dtype=torch.float64, device=self.device.place)

        def add(part):
            self.device.pairs += len(points[part]) * len(points)
            B = squared_distances(scaled[part], scaled).neg_().exp_()
            B.mul_(coefficients[:, part].T @ coefficients)
            # sum_ij B_ij (x_i - x_j)^2 for every feature at once
            scatter = points[part].square().T @ B.sum(dim=1) - (points[part] * (B @ points)).sum(
                dim=0
            )
            total.add_(scatter)

        for part in self.device.tiles(support.size, 32 * support.size):
            self.device.sparing(add, part)
        return -np.bincount(group[wanted], weights=2.0 * total.cpu().numpy(), minlength=self.m)

    def take_points(self, points: Indices) -> "DeviceProductBank":
        return DeviceProductBank(
            self.combination.fit(self.right[points]),
            feature_names=self.feature_names,
            n_jobs=self.threads.count,
            dtype=self.dtype,
            device=self.device,
        )

    def cross(self, X_new: Any, support: Indices | None = None) -> Any:
        plain = super().cross(X_new, support)
        return DeviceProductBank(
            self.combination,
            plain.left,
            support,
            self.feature_names,
            self.threads.count,
            device=self.device,
        )


class DeviceProductFeatureBank(ProductFeatureBank):
    """A `ProductFeatureBank` whose features are made on a device, and stay there if they fit.

    Parameters
    ----------
    device : Device
    """

    on_device = True

    def __init__(
        self,
        combination: Any,
        features: ProductMap,
        feature_names: Any = None,
        n_jobs: Any = None,
        device: Any = None,
    ) -> None:
        super().__init__(combination, features, feature_names, n_jobs)
        self.device = device

    @cached_property
    def _on_points(self) -> Any:
        return self.device.put(self.features.moved(self.right))

    def _rows(self, part: slice) -> Any:
        return self._on_points[part]

    def _made(self, roots: np.ndarray) -> DeviceFactorBank:
        device, entry, half = self.device, self.device.entry(self.dtype), self.width // 2
        store = empty(device, (self.n, self.width), self.dtype)
        scaled = device.put(roots[:, None] * self.features.frequencies, self.dtype)

        def fill(part: slice) -> None:
            angles = self._on_points[part].to(entry) @ scaled
            block = device.torch.cat([angles.cos(), angles.sin()], dim=1).mul_(half**-0.5)
            store.factors[part] = block.to(store.factors.device)

        row_bytes = 4 * self.dtype.itemsize * self.width
        for part in device.tiles(self.n, row_bytes, FACTOR_SIZES.float64_rows):
            device.sparing(fill, part)
        return DeviceFactorBank(store, [0, self.width], self.features, self.threads)

    def _twin(self, combination: Any, features: ProductMap) -> "DeviceProductFeatureBank":
        names, jobs = self.feature_names, self.threads.count
        return DeviceProductFeatureBank(combination, features, names, jobs, self.device)
