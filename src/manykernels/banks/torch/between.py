"""Kernels between two sets of points on a device, one at a time."""

import numpy as np

from ..compute import Compute, Points
from .tiled import DeviceTiledBank


def kernel_values(on_points, A, B, device):
    """Yield the number of each kernel that is not left out and its values between the rows of A and
    those of B, in float64, as a tensor.

    Parameters
    ----------
    on_points : ResolvedKernels
    A, B : points
    device : Device
    """
    if on_points.is_masked:
        values = on_points.between(A, B).columns(np.arange(B.shape[0]))
        yield from ((k, device.put(one)) for k, one in enumerate(values))
        return
    few = DeviceTiledBank(on_points.spec, Points(A[:1], B[:1]), Compute(device=device))
    yield from few.between(Points(A, B)).one_by_one()
