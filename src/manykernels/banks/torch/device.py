"""One place where PyTorch computes: tensors in, tensors out, and memory that may run out."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

# Generations of GPUs that multiply in float64 half as fast as in float32, or as fast.
FAST_IN_DOUBLE = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0))


@dataclass(frozen=True)
class Sizes:
    """Numbers of tiles.

    Attributes
    ----------
    tile_share : float
        Part of the free memory that one tile may take. With a larger one there are fewer tiles, and
        less room for what is made of them.
    assumed_bytes : int
        Free memory of devices that do not say how much there is.
    smallest_tile : int
        Rows of a tile, below which running out of memory is an error. With a larger one it is so
        sooner.
    """

    tile_share: float = 0.1
    assumed_bytes: int = 2**30
    smallest_tile: int = 16


SIZES = Sizes()


class Device:
    """A device of PyTorch's, by its name.

    Parameters
    ----------
    name : str
        ``"cuda"``, ``"cuda:1"``, or ``"torch"`` for PyTorch on the CPU.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows = None  # of a tile, once memory has run out
        # of points that were visited so far; times their number, where kernels have pairs of their
        # own
        self.pairs = 0

    @cached_property
    def torch(self) -> Any:
        try:
            import torch
        except ImportError as error:
            raise ImportError(
                f"device={self.name!r} needs PyTorch: install torch, or manykernels[gpu]."
            ) from error
        if not self._is_here(torch):
            raise ValueError(
                f"device={self.name!r} was asked for, but PyTorch finds no such device here: use "
                "device='cpu'."
            )
        return torch

    def _is_here(self, torch: Any) -> Any:
        if self.name == "torch":
            return True
        number = self.name.partition(":")[2]
        return torch.cuda.is_available() and int(number or 0) < torch.cuda.device_count()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A model trained on a device that is not here goes on with PyTorch on the CPU."""
        vars(self).update(state)
        try:
            import torch
        except ImportError:
            return
        if not self._is_here(torch):
            self.name = "torch"

    @property
    def place(self) -> Any:
        return self.torch.device("cpu" if self.name == "torch" else self.name)

    @property
    def fused(self) -> Any:
        """True if fused kernels can be compiled for it."""
        return self.name.startswith("cuda")

    @cached_property
    def doubles(self) -> Any:
        """True if products of matrices in float64 cost little more than in float32."""
        return self.fused and self.torch.cuda.get_device_capability(self.place) in FAST_IN_DOUBLE

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "rows": None, "pairs": 0}

    def put(self, array: ArrayLike, dtype: DTypeLike = np.float64) -> Any:
        """An array as a tensor on the device; a tensor of the device is there already."""
        if isinstance(array, self.torch.Tensor):
            return array.to(self.place, self.entry(dtype))
        # PyTorch warns of arrays that may not be written
        array = np.require(np.ascontiguousarray(array, dtype=dtype), requirements="W")
        return self.torch.as_tensor(array, device=self.place)

    def fetched(self, *tensors: Any) -> Any:
        """Tensors as arrays of the host, all in one go."""
        if not self.fused:
            return tuple(tensor.clone().numpy() for tensor in tensors)
        out = [
            self.torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            for tensor in tensors
        ]
        for there, here in zip(tensors, out, strict=True):
            here.copy_(there, non_blocking=True)
        self.torch.cuda.current_stream(self.place).synchronize()
        return tuple(here.numpy() for here in out)

    def entry(self, dtype: DTypeLike) -> Any:
        """PyTorch's name for a type of NumPy's."""
        return getattr(self.torch, np.dtype(dtype).name)

    def indices(self, array: ArrayLike) -> Any:
        return self.put(array, np.int64)

    def tidy(self) -> None:
        """Give back what no one refers to any more, such as the factors of an earlier fit."""
        gc.collect()
        if self.fused:
            self.torch.cuda.empty_cache()

    def free(self) -> Any:
        """Bytes that are free: of the device's, or of those that PyTorch was allowed to take
        (``torch.cuda.set_per_process_memory_fraction``).
        """
        if not self.fused:
            return SIZES.assumed_bytes
        cuda, place = self.torch.cuda, self.place
        # all statistics at once: one by one they take half a millisecond each
        found = cuda.memory_stats_as_nested_dict(place)
        taken, held = (
            found.get(name, {}).get("all", {}).get("current", 0)
            for name in ("allocated_bytes", "reserved_bytes")
        )
        left, total = cuda.mem_get_info(place)
        index = cuda.current_device() if place.index is None else place.index
        part = getattr(cuda, "get_per_process_memory_fraction", lambda index: 1.0)(index)
        return int(min(left + held, part * total) - taken)

    def tiles(self, count: int, row_bytes: int, most: Any = None) -> Iterator[Any]:
        """Slices of `count` rows, as many at a time as fit, `most` if that is given; fewer once
        memory has run out.
        """
        fitting = max(SIZES.smallest_tile, int(SIZES.tile_share * self.free() // max(row_bytes, 1)))
        fitting = fitting if most is None else min(fitting, most)
        start = 0
        while start < count:
            step = fitting if self.rows is None else min(fitting, self.rows)
            stop = min(start + step, count)
            yield slice(start, stop)
            start = stop

    def sparing(self, work: Callable, part: slice) -> None:
        """``work(part)`` for a slice of rows; where memory runs out, for its halves. Work that
        fails must leave no trace.
        """
        try:
            work(part)
        except self.torch.OutOfMemoryError:
            size = part.stop - part.start
            if size <= SIZES.smallest_tile:
                raise
            if self.fused:
                self.torch.cuda.empty_cache()
            self.rows = size // 2
            middle = part.start + self.rows
            self.sparing(work, slice(part.start, middle))
            self.sparing(work, slice(middle, part.stop))


def compiled_programs() -> Any:
    """The module of compiled programs, which can be imported only where there is a GPU."""
    from . import programs

    return programs
