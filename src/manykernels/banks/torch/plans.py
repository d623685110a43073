"""What goes where on a device, in words."""

from ...machines.device import RESIDENT, SIZE
from .masked import DeviceMaskedBank

GIGABYTE = 2**30


def plan(bank):
    """A sentence or two on the memory that a bank's work will take on its device."""
    device, n, itemsize = bank.device, bank.n, bank.dtype.itemsize
    words = (
        f"device {device.name}: {device.free() / GIGABYTE:.1f} GB free; {bank.m:,} kernels on "
        f"{n:,} points in {bank.dtype}; "
    )
    if isinstance(bank, DeviceMaskedBank):
        rows = bank._chunks_for(n)[0].stop
        return f"{words}products of {rows:,} kernels with all points at a time."
    whole, stays = n**2 * itemsize, n**2 * itemsize <= RESIDENT * device.free()
    if stays:
        return f"{words}a combined kernel takes {whole / GIGABYTE:.2f} GB and stays there."
    return (
        f"{words}a combined kernel would take {whole / GIGABYTE:.0f} GB: {min(SIZE, n):,} rows of "
        f"it, {min(SIZE, n) * n * itemsize / GIGABYTE:.1f} GB, are computed for a working set; "
        "where memory runs out, tiles of half as many rows."
    )
