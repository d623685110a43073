"""Low-rank kernels on a device: factors in float32, sums in float64.

The formulas are those of `manykernels.banks.lowrank.factors`. What is here is what truly differs:
factors are kept on the device, or stream through it from the memory of the host; long vectors are
tensors; and the Gram matrix is added up by panels in place, since a second one of many thousand
columns may not fit, and may be changed where few of its scales have.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..._arrays import here, is_tensor
from ..base import as_outputs
from ..kernel_set import Indices
from ..lowrank.columns import ColumnBank
from ..lowrank.factors import FactorBank
from ..lowrank.systems import System
from .device import Device


@dataclass(frozen=True)
class Sizes:
    """Numbers that depend on the device.

    Attributes
    ----------
    held : float
        Part of the free memory that factors may take. With a larger one fewer of them stream, and
        less is left for systems of equations.
    float32_rows : int
        Rows whose products are summed in float32 where that is faster. With all of half a million
        rows the Gram matrix lost the positive eigenvalues that Cholesky's method needs.
    float64_rows : int
        Rows of a block in float64, at most; larger blocks take more memory, and are hardly faster.
    gathered : float
        Part of the rows up to which they are worth a copy beside the others on the device. With a
        larger one more of the copies cost what they save.
    gathered_on_host : float
        The same for rows in the memory of the host.
    renewed : float
        Changes of curvatures, as a part of them, from which on a Gram matrix is made anew. With a
        larger one more of them are changed in place, and rounding adds up.
    panel : int
        Columns of a Gram matrix of which only the rows below are computed, at least. Smaller panels
        save more of the upper half, and are slower each.
    """

    held: float = 0.6
    float32_rows: int = 8192
    float64_rows: int = 65_536
    gathered: float = 0.8
    gathered_on_host: float = 0.05
    renewed: float = 0.5
    panel: int = 1024


SIZES = Sizes()


class DeviceFactorBank(FactorBank):
    """A `FactorBank` whose factors are on a device, or stream through it.

    Vectors with an entry per point may be tensors of the device, and are what `values` returns;
    short ones, one entry per column, are arrays of the host.

    Parameters
    ----------
    store : Resident or Streamed
        The factors.
    offsets, features, threads
        See `FactorBank`.
    """

    symmetric = True
    by_blocks = False

    def __init__(
        self, store: "Resident | Streamed", offsets: Indices, features: Any, threads: Any = None
    ) -> None:
        ColumnBank.__init__(self, offsets, features, threads)
        self.store, self.device, self.dtype = store, store.device, store.dtype
        self.n = self.n_rows = store.shape[0]

    @property
    def factors(self) -> np.ndarray:  # type: ignore[override]
        """All of them as an array of the host, for what is asked of small banks alone."""
        return self.store.host()

    @property
    def right(self) -> np.ndarray:  # type: ignore[override]
        return self.factors

    @property
    def width(self) -> int:
        return self.store.shape[1]

    @property
    def has_all_dimensions(self) -> bool:
        return not self.store.streams

    def to_device(self, array: np.ndarray) -> Any:
        return self.device.put(array)

    def visit(
        self,
        work: Callable[[slice, Any], Any],
        row_bytes: int = 0,
        training: bool = False,
        most: int | None = None,
    ) -> list[Any]:
        results = []

        def visited(part):
            results.append(work(part, self.store.block(part)))

        for part in self.device.tiles(self.n_rows, row_bytes, most or SIZES.float64_rows):
            self.device.sparing(visited, part)
        return results

    def rows(self, chosen: Any) -> Any:
        return self.store.rows(self.device.indices(chosen))

    def zeros(self, shape: tuple[int, ...]) -> Any:
        torch = self.device.torch
        return torch.zeros(shape, dtype=torch.float64, device=self.device.place)

    def multiplier(self, short: Any) -> Any:
        return self.device.put(short)

    def with_factors(self, factors: Any) -> "DeviceFactorBank":
        return self._with_store(Resident(self.device, factors))

    def leading(self, count: int) -> "DeviceFactorBank":
        return self._with_store(self.store.leading(count))

    def _with_store(self, store: "Resident | Streamed") -> "DeviceFactorBank":
        return DeviceFactorBank(store, [0, store.shape[1]], self.features, self.threads)

    def room_for_columns(self, memory_budget: int) -> int:
        counts = range(self.width, 0, -1)
        return next((some for some in counts if fits(self.device, (2 * self.n, some))), 0)

    def values(self, coefficients: ArrayLike) -> Any:
        short = self.device.put(np.atleast_2d(coefficients))
        out = self.zeros((len(short), self.n_rows))

        def fill(part, block):
            out[:, part] = short @ block.double().T

        self.visit(fill, 12 * self.width)
        return out

    def correlate(self, beta: Any) -> np.ndarray:
        beta = self.device.put(beta if is_tensor(beta) else as_outputs(beta, self.n))
        out = self.zeros((len(beta), self.width))
        self.visit(lambda part, block: out.add_(beta[:, part] @ block.double()), 12 * self.width)
        return here(out)

    def gram(self, scale: Any, exact: bool = False) -> np.ndarray:
        out = self.zeros((self.width, self.width))
        self._gram(self.device.put(scale), exact, out)
        return here(out)

    def system(self, bends: Any, exact: bool = False, before: System | None = None) -> System:
        bends = self.device.put(bends)
        change = None if before is None else bends - before.curvatures
        few = SIZES.renewed * bends.count_nonzero()
        if before is not None and change is not None and change.count_nonzero() < few:
            H = before.H
        else:
            H, change = self.zeros((self.width + 1, self.width + 1)), bends
        border = self.zeros((self.width,))
        self._gram(change, exact, H[:-1, :-1], border)
        H[-1, :-1] += border
        H[:-1, -1] = H[-1, :-1]
        H[-1, -1] = bends.sum()
        return System(H, bends)

    def _gram(self, scale: Any, exact: bool, out: Any, border: Any = None) -> None:
        """Add ``V' diag(scale) V`` to a symmetric matrix, and ``V' scale`` to a border; rows
        without a scale are left out where that saves time.
        """
        fine, used = exact or self.device.doubles, scale.nonzero().ravel()
        few = SIZES.gathered_on_host if self.store.streams else SIZES.gathered
        if len(used) > few * self.n_rows:
            used = None  # a pass over all is as fast

        def add(part, block):
            share = scale[part] if used is None else scale[used[part]]
            roots, block = share.abs().sqrt()[:, None], block.double() if fine else block
            scaled = block * roots.to(block.dtype)
            signed = scaled * share.sign()[:, None].to(block.dtype)
            if border is not None:
                border.add_(roots[:, 0] @ signed.double())
            _add_gram(out, scaled, signed)

        row_bytes = 40 * self.width
        most = SIZES.float64_rows if fine else SIZES.float32_rows
        if used is None:
            self.visit(add, row_bytes, most=most)
        else:
            for part in self.device.tiles(len(used), row_bytes, most):
                self.device.sparing(lambda part: add(part, self.store.rows(used[part])), part)
        _mirror(out)

    def combine(self, weights: ArrayLike, rows: Indices | None = None) -> np.ndarray:
        rows = np.arange(self.n_rows) if rows is None else np.asarray(rows)
        columns = self.device.put(self.column_weights(weights), self.dtype)
        left = self.rows(rows) * columns
        out = np.empty((rows.size, self.n), self.dtype)

        def fill(part, block):
            out[:, part] = (left @ block.T).cpu().numpy()

        self.visit(fill, 4 * (self.width + 2 * rows.size))
        return out

    def combine_rooted(self, root: Any, rows: Indices | None = None) -> np.ndarray:
        # without a second copy of the factors, which may not fit
        rows = np.arange(self.n_rows) if rows is None else np.asarray(rows)
        turned = (self.rows(rows).double() @ root) @ root.T
        return self.dot(here(turned)).astype(self.dtype)

    def take_points(self, points: Indices) -> "DeviceFactorBank":
        store = self.store.chosen(self.device.indices(np.arange(self.n_rows)[points]))
        return DeviceFactorBank(store, self.offsets, self.features, self.threads)

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> "FactorBank | None":
        some = super().take_kernels(kernels, factor)
        return None if some is None else moved_to_device(some, self.device)


def moved_to_device(bank: FactorBank, device: Device) -> DeviceFactorBank:
    """A `FactorBank` of the host on a device."""
    store = placed(device, device.torch.from_numpy(np.ascontiguousarray(bank.factors)))
    return DeviceFactorBank(store, bank.offsets, bank.features, bank.threads)


def _add_gram(out: Any, scaled: Any, signed: Any) -> None:
    """Add ``scaled' signed``, which is symmetric, on and below the diagonal of panels."""
    fine = scaled.dtype == out.dtype
    for start, stop in _panels(len(out)):
        panel, below = signed[:, start:stop], scaled[:, start:].T
        there = out[start:, start:stop]
        if fine:
            there.addmm_(below, panel)
        else:
            there.add_(below @ panel)


def _mirror(square: Any) -> None:
    """Fill the part above the panels with that below."""
    for start, stop in _panels(len(square)):
        square[start:stop, stop:] = square[stop:, start:stop].T


def _panels(width: int) -> list[tuple[int, int]]:
    """First and last columns of the panels of a matrix."""
    step = max(SIZES.panel, -(-width // 8))
    return [(start, min(start + step, width)) for start in range(0, width, step)]


# --- where factors on a device are: there, or in the memory of the host, from which they stream ---


class _Store:
    """A device, and factors for it."""

    streams: bool

    def __init__(self, device: Device, factors: Any) -> None:
        self.device, self.factors = device, factors

    @property
    def shape(self) -> tuple[int, int]:
        return tuple(self.factors.shape)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(str(self.factors.dtype).split(".")[-1])


class Resident(_Store):
    """Factors that stay on a device.

    Parameters
    ----------
    device : Device
    factors : (n, r) tensor
    """

    streams = False

    def block(self, part: slice) -> Any:
        """Rows of a slice, on the device."""
        return self.factors[part]

    def rows(self, places: Any) -> Any:
        """Chosen rows, on the device, for a tensor of indices."""
        return self.factors[places]

    def host(self) -> np.ndarray:
        """All of them as an array."""
        return self.factors.cpu().numpy()

    def chosen(self, places: Any) -> "Resident | Streamed":
        """A store of some of the rows."""
        return Resident(self.device, self.factors[places])

    def leading(self, count: int) -> "Resident | Streamed":
        """The first columns alone."""
        return Resident(self.device, self.factors[:, :count].contiguous())


class Streamed(_Store):
    """Factors in the memory of the host, or in a file that is mapped there.

    A block is copied while the device still computes with the one before it: two of them are there
    at a time.

    Parameters
    ----------
    device : Device
    factors : (n, r) tensor of the host
        Copies from pinned memory are the fastest.
    """

    streams = True

    def block(self, part: slice) -> Any:
        if not self.device.fused:
            return self.factors[part]
        return self._lanes.copied(self.factors[part])

    def rows(self, places: Any) -> Any:
        # gathered on the host, whose memory they are in
        return self.device.put(self.factors[places.cpu()], self.factors.numpy().dtype)

    def host(self) -> np.ndarray:
        return self.factors.numpy()

    def chosen(self, places: Any) -> "Resident | Streamed":
        return placed(self.device, self.factors[places.cpu()])

    def leading(self, count: int) -> "Resident | Streamed":
        return placed(self.device, self.factors[:, :count].contiguous())

    @cached_property
    def _lanes(self) -> Any:
        return _Lanes(self.device)


class _Lanes:
    """Two buffers on a GPU, which are filled in turns on a stream of their own."""

    def __init__(self, device: Device) -> None:
        cuda = device.torch.cuda
        self.device, self.turn, self.buffers = device, 0, [None, None]
        self.stream = cuda.Stream(device.place)
        self.done = [cuda.Event(), cuda.Event()]  # with what was in the buffers

    def copied(self, rows: Any) -> Any:
        cuda, place = self.device.torch.cuda, self.device.place
        current = cuda.current_stream(place)
        self.done[self.turn].record(current)  # whoever asks again has queued all that it does
        self.turn = turn = 1 - self.turn
        buffer = self.buffers[turn]
        if buffer is None or len(buffer) < len(rows):
            self.buffers[turn] = buffer = None  # its memory first
            buffer = self.device.torch.empty(rows.shape, dtype=rows.dtype, device=place)
            buffer.record_stream(self.stream)
            self.buffers[turn] = buffer
            self.done[turn].record(current)  # the memory may have been another's until now
        with cuda.stream(self.stream):
            self.stream.wait_event(self.done[turn])
            buffer[: len(rows)].copy_(rows, non_blocking=True)
        current.wait_stream(self.stream)
        return buffer[: len(rows)]


def fits(device: Device, shape: tuple[int, int], itemsize: int = 4) -> bool:
    """True if factors of a shape may stay on a device, beside a few systems of equations."""
    room = device.free() - 4 * 8 * shape[1] ** 2
    return shape[0] * shape[1] * itemsize <= SIZES.held * room


def placed(device: Device, factors: Any) -> Resident | Streamed:
    """A store for factors, a tensor of the host: on the device if they fit there."""
    if fits(device, factors.shape, factors.element_size()):
        return Resident(device, factors.to(device.place))
    return Streamed(device, factors)


def empty(
    device: Device, shape: tuple[int, int], dtype: DTypeLike, array: np.ndarray | None = None
) -> Resident | Streamed:
    """A store for factors that are yet to be made.

    Parameters
    ----------
    device : Device
    shape : (n, r)
    dtype : dtype of NumPy's
    array : array, optional
        Memory of the host, such as a memory map, for those that do not fit on the device; pinned
        memory by default.
    """
    torch, entry = device.torch, device.entry(dtype)
    if fits(device, shape, entry.itemsize):
        return Resident(device, torch.empty(shape, dtype=entry, device=device.place))
    if array is not None:
        return Streamed(device, torch.from_numpy(array))
    try:
        return Streamed(device, torch.empty(shape, dtype=entry, pin_memory=device.fused))
    except RuntimeError:  # not so much memory can be pinned: copies take longer
        return Streamed(device, torch.empty(shape, dtype=entry))
