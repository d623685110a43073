"""The base of all approximations: an estimate before the work, and factors that are made in memory,
in a file that is mapped there, or on a device.
"""

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .._callers import user_stacklevel
from .._threads import Threads, one_thread, thread_count
from ..banks.lowrank.columns import ColumnBank
from ..banks.lowrank.factors import FactorBank
from ..banks.lowrank.on_demand import OnDemandFactorBank
from ..banks.resolved import ResolvedKernels
from ..banks.torch.device import Device
from ..banks.torch.factors import DeviceFactorBank, Resident, Streamed, empty, fits
from ..kernels.points import as_points
from .maps import FeatureMap, mapped

MEGABYTE, GIGABYTE = 2**20, 2**30
# Points of a block whose factors are made together on a device. More of them take more memory.
POINTS_ON_DEVICE = 65_536
# Operations of a core in a second. With a larger number estimates of time are shorter.
FLOPS_OF_A_CORE = 2e10


class Approximation(ABC):
    """Turns a collection of kernels into a bank of factors.

    Subclasses are dataclasses with the fields ``rank`` and ``folder``.
    """

    rank: int
    folder: str | PathLike | None

    @abstractmethod
    def features(
        self, kernels: ResolvedKernels, X: Any, dtype: DTypeLike, threads: Threads
    ) -> FeatureMap:
        """The map from points to factors.

        Parameters
        ----------
        kernels : ResolvedKernels
        X : training points
        dtype : dtype of the factors
        threads : Threads
            To share out the kernels on.
        """

    def features_there(
        self, kernels: ResolvedKernels, X: Any, dtype: DTypeLike, threads: Threads, device: Device
    ) -> FeatureMap:
        """`features`, with the help of a device where that is faster."""
        return self.features(kernels, X, dtype, threads)

    def estimate(self, n: int, m: int, itemsize: int) -> tuple[int, float]:
        """Bytes of the factors, and seconds to compute them on one core, before anything is
        computed.
        """
        rank = min(self.rank, n)
        return n * m * rank * itemsize, 2.0 * n * m * rank * rank / FLOPS_OF_A_CORE

    def fit(
        self,
        kernels: ResolvedKernels,
        X: Any,
        *,
        dtype: DTypeLike = np.float32,
        n_jobs: int | None = None,
        memory_budget: int = 2**32,
        verbose: int = 0,
        device: Device | None = None,
        on_demand: bool = False,
    ) -> ColumnBank:
        """The bank of factors on the training points.

        Parameters
        ----------
        kernels : ResolvedKernels
        X : points
        dtype : float32 or float64
            Of the factors.
        n_jobs : int, optional
            Threads; by default as many as there are cores.
        memory_budget : int
            Bytes that factors in memory may take; with a ``folder`` they are memory-mapped there
            instead.
        verbose : int
            Above zero, a line on a terminal says how many points are done; above one, anywhere.
        device : Device, optional
            Where PyTorch makes and keeps the factors, or through which they stream if they do not
            fit there.
        on_demand : bool
            Make the factors of a kernel when they are asked for, and hold those that are in use:
            all that `Blocks` needs, whatever the budget.
        """
        X, dtype = as_points(X), np.dtype(dtype)
        threads = Threads(thread_count(n_jobs))
        if device is None and not on_demand:
            self._check_room(X.shape[0], kernels.m, dtype, memory_budget)
        # our threads share out the kernels, and then the points
        with one_thread():
            features = (
                self.features(kernels, X, dtype, threads)
                if device is None
                else self.features_there(kernels, X, dtype, threads, device)
            )
        if on_demand:
            made = OnDemandFactorBank(features, X, threads, memory_budget)
            if verbose:
                print(made.plan(), file=sys.stderr)
            return made
        if features.width > X.shape[0]:
            warnings.warn(
                f"The factors have {features.width} columns in all, more than the {X.shape[0]} "
                "points: without an approximation training would be exact, and probably faster.",
                stacklevel=user_stacklevel(),
            )
        options: dict[str, Any] = {"memory_budget": memory_budget, "verbose": verbose}
        options["folder"] = self.folder
        if device is None:
            factors = host_factors(features, X, threads, **options)
            return FactorBank(factors, features.offsets, features, threads)
        store = device_factors(features, X, device, **options)
        return DeviceFactorBank(store, features.offsets, features, threads)

    def _check_room(self, n: Any, m: Any, dtype: Any, memory_budget: Any) -> None:
        """Raise if the factors may be over the memory budget and there is no folder for them."""
        needed, seconds = self.estimate(n, m, dtype.itemsize)
        if needed > memory_budget and self.folder is None:
            raise ValueError(
                f"The factors of {m} kernels on {n} points may take {needed / MEGABYTE:.0f} MB "
                f"(and some {seconds:.0f} s to compute), which is over the memory budget of "
                f"{memory_budget / MEGABYTE:.0f} MB: lower the rank, raise cache_size, or give the "
                "approximation a folder for a memory-mapped file."
            )


def check_rank(rank: Any) -> None:
    """Raise unless the rank of an approximation is a whole number above zero."""
    if not isinstance(rank, (int, np.integer)) or rank < 1:
        raise ValueError(f"rank must be a whole number of at least 1, got {rank!r}.")


def _bar(n: int, verbose: int) -> Callable[[int], None] | None:
    """A line that says how many points are done, on a terminal, or printed if verbose is above one;
    None for silence.
    """
    if not verbose or (verbose == 1 and not sys.stderr.isatty()):
        return None
    stream = sys.stderr if verbose == 1 else sys.stdout

    def progress(done):
        print(
            f"\rfactors {100 * done // n:3d} %",
            end="\n" if done == n else "",
            flush=True,
            file=stream,
        )

    return progress


def host_factors(
    features: FeatureMap,
    X: Any,
    threads: Threads,
    *,
    memory_budget: int,
    folder: str | PathLike | None = None,
    verbose: int = 0,
) -> np.ndarray:
    """The factors of points, (n, width); memory-mapped in a folder if they are over the budget."""
    out, shape = None, (X.shape[0], features.width)
    if folder is not None and shape[0] * shape[1] * features.dtype.itemsize > memory_budget:
        out = mapped(folder, shape, features.dtype)
    with one_thread():
        return features.transform(X, out, threads, _bar(X.shape[0], verbose))


# --- factors that are made on a device, block by block, and stay there if they fit ---------------


def device_factors(
    features: FeatureMap,
    X: Any,
    device: Device,
    *,
    memory_budget: int,
    folder: str | PathLike | None = None,
    verbose: int = 0,
) -> Resident | Streamed:
    """The factors of points, as a store.

    Parameters
    ----------
    features : FeatureMap
    X : points
    device : Device
    memory_budget : int
        Bytes of the host that factors may take which do not fit on the device; with a folder they
        are memory-mapped there if it is less.
    folder : path, optional
    verbose : int
        Above zero, a line on a terminal says what goes where before the work begins; above one,
        anywhere.
    """
    shape, array = (X.shape[0], features.width), None
    needed = shape[0] * shape[1] * features.dtype.itemsize
    stays = fits(device, shape, features.dtype.itemsize)
    if not stays and needed > memory_budget:
        if folder is None:
            raise ValueError(
                f"The factors take {needed / GIGABYTE:.1f} GB, more than device="
                f"{device.name!r} has free ({device.free() / GIGABYTE:.1f} GB) and more than the "
                f"memory budget of the host ({memory_budget / GIGABYTE:.1f} GB): lower the rank, "
                "raise cache_size, or give the approximation a folder for a memory-mapped file."
            )
        array = mapped(folder, shape, features.dtype)
    if verbose > 1 or (verbose and sys.stderr.isatty()):
        print(plan(features, shape, device, stays, array), file=sys.stderr, flush=True)
    store, make = empty(device, shape, features.dtype, array), features.on(device)

    def fill(part):
        store.factors[part] = make(X[part]).to(store.factors.dtype).to(store.factors.device)

    for part in device.tiles(shape[0], _row_bytes(features), POINTS_ON_DEVICE):
        device.sparing(fill, part)
    return store


def plan(
    features: FeatureMap,
    shape: tuple[int, int],
    device: Device,
    stays: bool,
    array: np.ndarray | None = None,
) -> str:
    """A sentence on what goes where."""
    n, width = shape
    place = "stay there" if stays else "stream through it from pinned memory of the host"
    if array is not None:
        place = "stream through it from a file"
    rows = next(iter(device.tiles(n, _row_bytes(features), POINTS_ON_DEVICE)), slice(0, 0)).stop
    return (
        f"device {device.name}: {device.free() / GIGABYTE:.1f} GB free; the factors, {n:,} x "
        f"{width:,} in {features.dtype}, take {n * width * features.dtype.itemsize / GIGABYTE:.1f} "
        f"GB and {place}; they are made {rows:,} points at a time; a system of equations takes "
        f"{8 * (width + 1) ** 2 / GIGABYTE:.2f} GB."
    )


def _row_bytes(features: FeatureMap) -> int:
    """Memory that the factors of a point take while they are made."""
    widest = max(map(int, np.diff(features.offsets)), default=0)
    return 8 * (2 * features.width + 6 * max(widest, features.inner_width))
