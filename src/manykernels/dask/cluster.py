"""A Dask cluster: tasks for its workers, and their answers, whatever happens to some of them."""

import time
import uuid
import warnings
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any

from distributed import Client, Future, WorkerPlugin, get_client, wait
from distributed.client import ClosedClientError
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker
from threadpoolctl import threadpool_limits

import dask

from .._callers import user_stacklevel

PULSE = 5.0  # seconds between looks at whether the cluster is still there
LOST = 30.0  # seconds in which a scheduler may come back
PAUSE = 10.0  # seconds without progress after which a paused worker's tasks are given to others
REACH = 2.0  # seconds in which a worker must be reached, or answers go by way of the scheduler
# parts for each thread, so that those of a lost worker can be shared out, and at least, for workers
# that are yet to come
PER_THREAD, FEWEST = 2, 4
ROOM = 0.6  # of a worker's memory that parts may take
MEGABYTE = 2**20
GONE = ("closing", "closed")  # statuses of a client that does nothing any more
# what a client raises when its scheduler does not answer any more
LOSSES = (OSError, CommClosedError, CancelledError, ClosedClientError)


class ClusterError(RuntimeError):
    """The cluster is gone, too small, or does not answer."""


class SetThreads(WorkerPlugin):
    """One thread of linear algebra per task: a worker runs as many tasks as it has threads."""

    name = "manykernels-threads"
    idempotent = True

    def setup(self, worker: Any) -> None:
        self.limits = threadpool_limits(limits=1)

    def teardown(self, worker: Any) -> None:
        self.limits.restore_original_limits()


class Cluster:
    """A client, and how long to wait for it.

    Parameters
    ----------
    client : Client
    timeout : float
        Seconds in which some part must answer.
    """

    def __init__(self, client: Client, timeout: float) -> None:
        self.client, self.timeout = client, timeout
        self._before: list[Future] = []  # what was answered last, still to be released
        if client.status in GONE:
            raise self._lost()
        if client not in _REACHES:
            self._set_threads()
            _REACHES[client] = None

    @classmethod
    def of(cls, client: Client | str | None, timeout: float) -> "Cluster":
        """The cluster of a client, of an address, or of the current client."""
        if isinstance(client, str):
            if client not in _ADDRESSES or _ADDRESSES[client].status != "running":
                _ADDRESSES[client] = Client(client, set_as_default=False)
            client = _ADDRESSES[client]
        if client is None:
            try:
                client = get_client()
            except ValueError:
                raise ClusterError(
                    "There is no Dask client: make one, such as client = dask.distributed.Client() "
                    "for the cores of this machine, or give client=."
                ) from None
        return cls(client, timeout)

    def _set_threads(self):
        """One thread of linear algebra for the workers that are there and those to come. The
        scheduler takes note of it before it tells the workers: one that is lost meanwhile fails the
        call, and nobody misses it.
        """
        try:
            self.client.register_plugin(SetThreads())
        except Exception as error:
            if self.client.status in GONE:
                raise self._lost() from error
            if not isinstance(error, LOSSES):
                raise
            self._asked_scheduler()  # raises if it is the scheduler that is lost

    @property
    def workers(self) -> dict[str, dict]:
        """What the scheduler knows of every worker; waits until there is one."""
        until, wanted = time.monotonic() + self.timeout, None
        while True:
            found = self._asked_scheduler()
            if found:
                return found
            if wanted is None:  # an adaptive cluster starts workers when there is something to do
                wanted = self.submit("wake", _awake, [(0,)])
            if time.monotonic() > until:
                raise ClusterError(
                    f"The cluster has had no worker for {self.timeout:.0f} s: start some, or raise "
                    "timeout."
                )
            time.sleep(0.2)

    @property
    def threads(self) -> int:
        """Tasks that run at a time."""
        return sum(worker["nthreads"] for worker in self.workers.values())

    @property
    def parts(self) -> int:
        """In how many parts work is cut."""
        return max(FEWEST, PER_THREAD * self.threads)

    @property
    def memory(self) -> int:
        """Bytes of the smallest worker, zero where none has a limit."""
        limits = [worker.get("memory_limit") or 0 for worker in self.workers.values()]
        return min((limit for limit in limits if limit), default=0)

    @property
    def threads_each(self) -> int:
        """Tasks that the worker with most threads runs at a time."""
        return max(worker["nthreads"] for worker in self.workers.values())

    def _asked_scheduler(self):
        identity = self.client.scheduler.identity if self.client.scheduler else None
        if identity is None:
            raise self._lost()
        try:
            found = self.client.sync(identity, n_workers=-1, callback_timeout=LOST)
        except LOSSES as error:
            raise self._lost() from error
        return found["workers"]

    def spread(self, name: str, function: Callable, arguments: Sequence[tuple]) -> list[Future]:
        """As `submit`, for tasks whose results stay and are asked: as many on every worker as it
        has threads for. Left to itself the scheduler has all of them made by the worker that holds
        what they have in common, since they are quick to make. The places are a wish: if a worker
        is lost, its tasks are run by any other.
        """
        found = self.workers
        homes = [address for address, worker in found.items() for _ in range(worker["nthreads"])]
        out: dict[int, Future] = {}
        for address in found:
            mine = [k for k in range(len(arguments)) if homes[k % len(homes)] == address]
            if mine:
                own = [arguments[k] for k in mine]
                place = {"workers": [address], "allow_other_workers": True}
                out.update(zip(mine, self.submit(name, function, own, **place), strict=True))
        return [out[k] for k in range(len(arguments))]

    def submit(
        self, name: str, function: Callable, arguments: Sequence[tuple], **place: Any
    ) -> list[Future]:
        """A task for each tuple of arguments, under a name that the dashboard shows; `place` as for
        ``Client.map``.
        """
        token = uuid.uuid4().hex[:12]
        keys = [f"{name}-{token}-{number}" for number in range(len(arguments))]
        quiet = {"distributed.admin.large-graph-warning-threshold": "1TB"}
        of, options = zip(*arguments, strict=True), {"pure": False, "retries": 1, **place}
        # data that are given in memory travel with their recipe, so that it can be run again
        with dask.config.set(quiet), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            try:
                return self.client.map(function, *of, key=keys, **options)
            except LOSSES as error:
                raise self._lost() from error

    def answers(
        self,
        futures: Sequence[Future],
        watched: Sequence[Future] = (),
        again: Callable[[], tuple] | None = None,
    ) -> list:
        """What tasks return; an error if nothing happens within the time.

        Parameters
        ----------
        futures : list of Future
        watched : list of Future
            Others that they wait for: when one of these ends, that is progress too.
        again : callable, optional
            Asks anew: tasks that a worker has been given just before it was paused wait for as long
            as that lasts.
        """
        options = {"callback_timeout": PULSE + self.timeout}
        of = self._direct(), min(PULSE, self.timeout)
        done, since, asked = 0, time.monotonic(), time.monotonic()
        try:
            while (
                found := self.client.sync(_answered, self.client, list(futures), *of, **options)
            ) is None:
                now = sum(future.done() for future in (*watched, *futures))
                if now != done:  # fewer, where those of a lost worker are made again
                    done, since, asked = now, time.monotonic(), time.monotonic()
                self._check(since)
                if again is not None and time.monotonic() - asked > PAUSE and self._paused():
                    futures, watched = again()
                    asked = time.monotonic()
        except TimeoutError as error:
            raise self._silent() from error
        except LOSSES as error:
            raise self._lost() from error
        if not isinstance(found, Future):
            return found
        reason = found.exception()
        if isinstance(reason, KilledWorker):
            raise ClusterError(_killed(reason, self.memory)) from reason
        raise reason

    def round(self, ask: Callable[[], tuple], again: Callable[[], tuple] | None = None) -> list:
        """The answers to a question.

        Parameters
        ----------
        ask : callable
            Submits its tasks, and returns them and others that they wait for, as for `answers`.
        again : callable, optional
            In the place of `ask` for the second time.
        """
        try:
            futures, watched = self.client.sync(_asked, self._before, ask)
        except Exception as error:
            if self.client.status in GONE:
                raise self._lost() from error
            raise
        found = self.answers(futures, watched, ask if again is None else again)
        self._before += futures
        return found

    def _direct(self):
        """Whether answers come from the workers themselves and not by way of the scheduler, which
        takes time and the scheduler's memory: so if a worker could be reached, tried once.
        """
        if _REACHES[self.client] is None:
            address = next(iter(self.workers))
            _REACHES[self.client] = self.client.sync(_reached, self.client, address)
        return _REACHES[self.client]

    def _paused(self):
        return any(worker.get("status") == "paused" for worker in self._asked_scheduler().values())

    def _check(self, since):
        """Raise if the scheduler is gone, or nothing has happened for too long."""
        waited = time.monotonic() - since
        if self.client.status == "connecting" and waited <= LOST:
            return
        if self.client.status != "running":
            raise self._lost()
        if waited > self.timeout:
            raise self._silent()

    def _silent(self):
        return ClusterError(
            f"No part has answered for {self.timeout:.0f} s: look at the dashboard; where a "
            "single answer takes so long, raise timeout or parts."
        )

    def _lost(self):
        if self.client.status in GONE:
            return ClusterError(
                "The Dask client is closed: make a new one and give it as client=, or leave client "
                "out for the current one. With checkpoint= fit goes on from the last iterate."
            )
        return ClusterError(
            f"The scheduler at {self.client.scheduler.address if self.client.scheduler else '?'} "
            "is gone, or was told to forget the work. With checkpoint= the same call of fit on "
            "another cluster goes on from the last iterate."
        )

    def check_room(self, largest: float, total: float, what: str, advice: str) -> None:
        """Raise if the work of a worker does not fit into its memory, warn if all parts do not fit
        into that of all workers.

        Parameters
        ----------
        largest, total : bytes that a worker needs, and of all parts
        what : str
            What it needs them for.
        advice : str
            What to do besides using larger workers.
        """
        workers, memory = self.workers, self.memory
        if not memory:
            return
        if largest > ROOM * memory:
            raise ClusterError(
                f"{what} takes {largest / MEGABYTE:.0f} MB, and a worker has "
                f"{memory / MEGABYTE:.0f} MB, of which {ROOM:.0%} are for parts: use workers of at "
                f"least {largest / ROOM / MEGABYTE:.0f} MB, or {advice}."
            )
        room = ROOM * memory * len(workers)
        if total > room:  # more workers may come, and Dask moves to disk what does not fit
            warnings.warn(
                f"All parts together take {total / MEGABYTE:.0f} MB, and {len(workers)} workers of "
                f"{memory / MEGABYTE:.0f} MB have room for {room / MEGABYTE:.0f} MB of them: use "
                f"{-int(-total // (ROOM * memory))} workers, or lower the rank.",
                stacklevel=user_stacklevel(),
            )


# clients whose workers have their threads set, and whether they reach their workers
_REACHES: Any = weakref.WeakKeyDictionary()
_ADDRESSES: dict[str, Client] = {}


async def _asked(before, ask):
    """Release what was asked before, and ask. Here, on the client's loop, both go out as one
    message: a client sends one in ten milliseconds at most.
    """
    before.clear()
    return ask()


async def _answered(client, futures, direct, seconds):
    """The answers; None if they take longer, and a task that failed, if one did."""
    with client.as_current():  # `wait` has no client of its own
        try:
            await wait(futures, timeout=seconds)
        except TimeoutError:
            return None
    failed = next((future for future in futures if future.status == "error"), None)
    return failed or await client.gather(futures, asynchronous=True, direct=direct)


async def _reached(client, address):
    try:
        link = await client.rpc.connect(address, timeout=REACH)
    except (OSError, TimeoutError):  # another network, as of a client outside of the cluster
        return False
    client.rpc.reuse(address, link)
    return True


def _awake(_):
    return True


def _killed(error, memory):
    size = f" of {memory / MEGABYTE:.0f} MB" if memory else ""
    return (
        f"{error} Most often its part does not fit into the memory of a worker{size}: give more "
        "parts, or workers with more memory."
    )
