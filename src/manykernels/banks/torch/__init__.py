"""Banks whose n×n work is done by PyTorch, on a GPU or on its CPU device.

`moved_to_device` turns a bank into one of these; nothing else in the library knows where the work
is done. Arrays go in and come out as NumPy arrays.
"""

from .place import device_for_factors, gpu_has_started, grid_pays, moved_to_device, work_in_words

__all__ = [
    "device_for_factors",
    "gpu_has_started",
    "grid_pays",
    "moved_to_device",
    "work_in_words",
]
