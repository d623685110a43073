"""Factors that are made on a device, block by block, and stay there if they fit."""

import sys

import numpy as np

from ..banks.torch.factors import empty, fits
from .maps import mapped

MOST = 65_536  # points of a block
GIGABYTE = 2**30


def device_factors(features, X, device, *, memory_budget, folder=None, verbose=0):
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

    for part in device.tiles(shape[0], _row_bytes(features), MOST):
        device.sparing(fill, part)
    return store


def plan(features, shape, device, stays, array=None):
    """What goes where, in words."""
    n, width = shape
    place = "stay there" if stays else "stream through it from pinned memory of the host"
    if array is not None:
        place = "stream through it from a file"
    rows = next(iter(device.tiles(n, _row_bytes(features), MOST)), slice(0, 0)).stop
    return (
        f"device {device.name}: {device.free() / GIGABYTE:.1f} GB free; the factors, {n:,} x "
        f"{width:,} in {features.dtype}, take {n * width * features.dtype.itemsize / GIGABYTE:.1f} "
        f"GB and {place}; they are made {rows:,} points at a time; a system of equations takes "
        f"{8 * (width + 1) ** 2 / GIGABYTE:.2f} GB."
    )


def _row_bytes(features):
    """Memory that the factors of a point take while they are made."""
    widest = max(map(int, np.diff(features.offsets)), default=0)
    return 8 * (2 * features.width + 6 * max(widest, features.inner_width))
