"""Where factors on a device are: there, or in the memory of the host, from which they stream."""

from functools import cached_property

HELD = 0.6  # of the free memory that factors may take


class _Store:
    """A device, and factors for it."""

    def __init__(self, device, factors):
        self.device, self.factors = device, factors

    @property
    def shape(self):
        return tuple(self.factors.shape)


class Resident(_Store):
    """Factors that stay on a device.

    Parameters
    ----------
    device : Device
    factors : (n, r) tensor
    """

    streams = False

    def block(self, part):
        """Rows of a slice, on the device."""
        return self.factors[part]

    def rows(self, places):
        """Chosen rows, on the device, for a tensor of indices."""
        return self.factors[places]

    def host(self):
        """All of them as an array."""
        return self.factors.cpu().numpy()

    def chosen(self, places):
        """The same for some of the rows."""
        return Resident(self.device, self.factors[places])

    def leading(self, count):
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

    def block(self, part):
        if not self.device.fused:
            return self.factors[part]
        return self._lanes.copied(self.factors[part])

    def rows(self, places):
        # gathered on the host, whose memory they are in
        return self.device.put(self.factors[places.cpu()], self.factors.numpy().dtype)

    def host(self):
        return self.factors.numpy()

    def chosen(self, places):
        return placed(self.device, self.factors[places.cpu()])

    def leading(self, count):
        return placed(self.device, self.factors[:, :count].contiguous())

    @cached_property
    def _lanes(self):
        return _Lanes(self.device)


class _Lanes:
    """Two buffers on a GPU, which are filled in turns on a stream of their own."""

    def __init__(self, device):
        cuda = device.torch.cuda
        self.device, self.turn, self.buffers = device, 0, [None, None]
        self.stream = cuda.Stream(device.place)
        self.done = [cuda.Event(), cuda.Event()]  # with what was in the buffers

    def copied(self, rows):
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


def fits(device, shape, itemsize=4):
    """Whether factors of a shape may stay on a device, beside a few systems of equations."""
    room = device.free() - 4 * 8 * shape[1] ** 2
    return shape[0] * shape[1] * itemsize <= HELD * room


def placed(device, factors):
    """A store for factors, a tensor of the host: on the device if they fit there."""
    if fits(device, factors.shape, factors.element_size()):
        return Resident(device, factors.to(device.place))
    return Streamed(device, factors)


def empty(device, shape, dtype, array=None):
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
