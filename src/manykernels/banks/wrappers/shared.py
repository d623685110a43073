"""One bank for problems that are solved side by side: what they ask for is computed together.

Each problem runs in a thread of its own and knows nothing of the others. Its bank, a `SharedBank`,
hands requests to a `PassBatcher`, which waits until every problem that still runs has asked for
something and then answers all of them in one pass over the kernels. Which requests are answered
together depends on the problems alone and not on the clock, so that results are the same from run
to run.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._threads import Threads, one_thread
from ...thresholds import thresholds
from ..base import SumBank, as_outputs
from ..dense import DenseBank
from ..divided import DividedBank, divided, gram_bytes, holding
from ..kernel_set import Indices
from .delegating import DelegatingBank


@dataclass(frozen=True)
class Sizes:
    """Numbers of banks that are shared.

    Attributes
    ----------
    float64_requests : int
        Requests for kernels in float64, from which on they are held too. With more of them they are
        computed anew more often.
    wait_seconds : float
        Seconds until Ctrl-C is noticed.
    """

    float64_requests: int = 5
    wait_seconds: float = 0.2


SIZES = Sizes()


def is_worth_holding(bank: SumBank, memory_budget: int) -> bool:
    """True if the matrices of all kernels that are no factors are a small part of a budget: a pass
    over them costs a tenth of one that computes them.
    """
    is_small = gram_bytes(bank) <= thresholds().held_gram_share * memory_budget
    return is_small and not (bank.is_remote or isinstance(bank, DenseBank))


def held(bank: SumBank, memory_budget: int) -> SumBank:
    """The bank with kernels of small rank as factors, and with the matrices of the others in
    memory, if they are worth it.
    """
    bank = divided(bank)
    return holding(bank) if is_worth_holding(bank, memory_budget) else bank


def width(bank: SumBank, outputs: int, memory_budget: int) -> int:
    """How many problems with so many outputs fit into a budget, besides what `held` takes of it.

    Each has a few combined kernels, and the products of all kernels with its coefficients and with
    a step.
    """
    kernels = 3 * bank.n**2 * (bank.dtype.itemsize + 8)
    products = 4 * 8 * bank.m * outputs * bank.n
    return int((1.0 - 3 * thresholds().held_gram_share) * memory_budget // (kernels + products))


class Request:
    """A request that one problem waits for: products with coefficients, or combined kernels."""

    def __init__(self, bank: SumBank, kind: str, rows: np.ndarray) -> None:
        self.bank, self.kind, self.rows = bank, kind, rows
        self.answer: Any = None
        self.error: BaseException | None = None
        self.done = False


class PassBatcher:
    """Runs problems side by side on one bank, and answers their requests when all of them wait.

    Parameters
    ----------
    bank : SumBank
        As many problems compute at a time as it has threads.

    Attributes
    ----------
    interrupted : bool
        Whether Ctrl-C came in the last run; problems that were nearly done may not have noticed.
    """

    def __init__(self, bank: SumBank) -> None:
        self.bank = bank
        self._live, self._changed = 0, threading.Condition()
        self._slots = threading.Semaphore(bank.threads.count)
        self._waiting: dict[int, Request] = {}
        self._ended = threading.Lock()
        self._told: set[int] = set()
        self._stopped = self._serving = self.interrupted = False
        self._finer: SumBank | None = None
        self._finer_held: DenseBank | None = None
        self._finer_asked = 0

    def run(self, works: Sequence[Callable[[SumBank], Any]]) -> list:
        """``[work(bank) for work in works]``, with passes over the kernels that serve all.

        Parameters
        ----------
        works : callables
            Each is called in a thread, with a bank of its own, of which what `Bank.persistent` says
            may outlive the call.

        Returns
        -------
        list
            What the calls returned. After Ctrl-C each gets a KeyboardInterrupt of its own, from
            which solvers return what they have. The first exception of any other kind is raised
            again, once all have ended.
        """
        outcomes: list[Any] = [None] * len(works)
        errors: list[BaseException | None] = [None] * len(works)
        self._live, self._stopped, self.interrupted = len(works), False, False
        self._ended = threading.Lock()
        self._ended.acquire()
        self._told.clear()

        def run(place):
            self._slots.acquire()
            try:
                outcomes[place] = works[place](SharedBank(self.bank, self, place))
            except BaseException as error:  # raised again by who waits
                errors[place] = error
            finally:
                self._leave()

        threads = [
            threading.Thread(target=run, args=(place,), daemon=True) for place in range(len(works))
        ]
        # limits that threads set and take back at different times would not come back to what they
        # were
        with one_thread():
            for thread in threads:
                self._start(thread)
            self._wait_for_all()
        interrupted = self.interrupted
        for error in errors:
            if error is not None and not (interrupted and isinstance(error, KeyboardInterrupt)):
                raise error
        if interrupted and any(errors):
            raise KeyboardInterrupt
        return outcomes

    def _start(self, thread: Any) -> None:
        """Start a thread; after Ctrl-C too, since the others wait for it."""
        while thread.ident is None:
            try:
                thread.start()
            except KeyboardInterrupt:
                self.stop()

    def _wait_for_all(self) -> None:
        """Wait until all problems have ended. (Joining threads will not do: one that is interrupted
        meanwhile takes them for dead.)
        """
        while self._live:
            try:
                while self._live and not self._ended.acquire(timeout=SIZES.wait_seconds):
                    pass
            except KeyboardInterrupt:
                self.stop()

    def _leave(self) -> None:
        """A problem has ended."""
        self._slots.release()
        with self._changed:
            self._live -= 1
            if not self._live:
                self._ended.release()
            self._changed.notify_all()

    def stop(self) -> None:
        """Every problem gets a KeyboardInterrupt, once; what it asks for then is answered alone."""
        self.interrupted = True
        with self._changed:
            self._stopped = True
            for place, request in self._waiting.items():
                self._told.add(place)
                request.error, request.done = KeyboardInterrupt(), True
            self._waiting.clear()
            self._changed.notify_all()

    def ask(self, place: int, request: Request) -> Any:
        """The answer to a request of the problem at a place."""
        with self._changed:
            if self._stopped:
                self.heed(place)
                alone = True
            else:
                alone = False
                self._waiting[place] = request
        if alone:
            self._answer([request])
        else:
            self._slots.release()
            try:
                self._wait(request)
            finally:
                self._slots.acquire()
        if request.error is not None:
            raise request.error
        return request.answer

    def heed(self, place: int) -> None:
        """Raise the KeyboardInterrupt of the problem at a place, once, if there was one."""
        with self._changed:
            if self._stopped and place not in self._told:
                self._told.add(place)
                raise KeyboardInterrupt

    def refined(self) -> SumBank | None:
        """The bank in float64, one for all problems; not in memory, until that pays."""
        with self._changed:
            if self._finer is None:
                source = self.bank.source if isinstance(self.bank, DenseBank) else self.bank
                self._finer = source.refined()
            return self._finer

    def _best_bank(self, bank, requests):
        """The bank that answers a batch of requests: one in memory once there were many."""
        if bank is not self._finer or not isinstance(self.bank, DenseBank):
            return bank
        self._finer_asked += len(requests)
        if self._finer_held is None and self._finer_asked > SIZES.float64_requests:
            self._finer_held = DenseBank.from_bank(bank)
        return self._finer_held or bank

    def _wait(self, request: Any) -> None:
        """Until the request is answered, by whoever notices first that all wait."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: request.done or self._is_time())
                if request.done:
                    return
                batch = [self._waiting[place] for place in sorted(self._waiting)]
                self._waiting.clear()
                self._serving = True
            self._answer(batch)
            with self._changed:
                for one in batch:
                    one.done = True
                self._serving = False
                self._changed.notify_all()

    def _answer(self, batch: Any) -> None:
        """Answer requests, those for the same bank and of the same kind together."""
        groups: dict[tuple[int, str], list[Request]] = {}
        for request in batch:
            groups.setdefault((id(request.bank), request.kind), []).append(request)
        for requests in groups.values():
            try:
                _answer_alike(self._best_bank(requests[0].bank, requests), requests)
            except BaseException as error:  # for those who asked
                for request in requests:
                    request.error = error

    def _is_time(self) -> Any:
        return not self._serving and 0 < self._live == len(self._waiting)


def _answer_alike(bank: Any, requests: Any) -> None:
    kind = requests[0].kind
    if len(requests) == 1 and kind == "combine":
        requests[0].answer = bank.combine(requests[0].rows[0])
    elif kind == "combine":
        places: dict[bytes, int] = {}  # of different weights
        for request in requests:
            places.setdefault(request.rows.tobytes(), len(places))
        rows = [np.frombuffer(row) for row in places]
        kernels = bank.combine_each(np.array(rows))
        for request in requests:
            request.answer = kernels[places[request.rows.tobytes()]]
    else:
        stops = np.cumsum([len(request.rows) for request in requests])
        products = bank.products_each(np.concatenate([request.rows for request in requests]))
        for request, part in zip(requests, np.split(products, stops[:-1]), strict=True):
            request.answer = part


class SharedBank(DelegatingBank):
    """A bank for one of several problems; see `PassBatcher`.

    Parameters
    ----------
    bank : SumBank
    hub : PassBatcher
    place : int
        Of the problem.
    """

    inner = "bank"

    def __init__(self, bank: SumBank, hub: PassBatcher, place: int) -> None:
        self.bank, self.hub, self.place = bank, hub, place
        # what costs little is not worth waiting for others
        self._alone = bank.threaded(1) if isinstance(bank, DividedBank) else None
        self._last: tuple[np.ndarray, np.ndarray] | None = None  # coefficients and products

    @property
    def persistent(self) -> Any:
        return self.bank.persistent

    def algebra(self) -> AbstractContextManager:
        return nullcontext()  # other problems compute beside this one

    @property
    def own_threads(self) -> Threads:
        return Threads(1)

    def exact_factors(self) -> Any:
        return None if self._alone is None else self._alone.exact_factors()

    def combine(self, weights: ArrayLike, rows: Indices | None = None) -> np.ndarray:
        if rows is not None:
            return self.bank.combine(weights, rows)
        weights = np.asarray(weights, dtype=float)
        if self._alone is not None:
            self.hub.heed(self.place)
            return self._alone.combine(weights)
        if isinstance(self.bank, DenseBank) and self.bank.is_cheap(weights):
            return self.bank.combine(weights)
        return self.hub.ask(self.place, Request(self.bank, "combine", weights[None]))

    def products(self, beta: ArrayLike) -> np.ndarray:
        outputs = as_outputs(beta, self.n)
        # solvers end with a certificate of the last coefficients, and decision values are next
        if self._last is None or not np.array_equal(self._last[0], outputs):
            if self._alone is not None:
                self.hub.heed(self.place)
                found = self._alone.products_each(outputs)
            else:
                found = self.hub.ask(self.place, Request(self.bank, "products", outputs))
            self._last = outputs.copy(), found.copy()
        found = self._last[1].swapaxes(0, 1).astype(float, order="C")
        return found if np.ndim(beta) == 2 else found[:, 0]

    def quadratic_forms(self, beta: ArrayLike) -> np.ndarray:
        beta = as_outputs(beta, self.n)
        return np.tensordot(self.products(beta), beta, 2)

    def decision(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        if self._alone is not None:
            return self._alone.decision(weights, beta)
        scores = np.tensordot(np.asarray(weights, dtype=float), self.products(beta), 1)
        return scores.reshape((*np.shape(beta)[:-1], self.n_rows))

    def refined(self) -> Any:
        finer = None if self.dtype == np.float64 else self.hub.refined()
        return None if finer is None else SharedBank(finer, self.hub, self.place)

    def combined_diagonal(self, weights: ArrayLike) -> np.ndarray:
        return self.bank.combined_diagonal(weights)

    def columns(self, chosen: Indices) -> np.ndarray:
        return self.bank.columns(chosen)

    def kernel_rows(self, chosen: Indices, points: Indices) -> np.ndarray:
        return self.bank.kernel_rows(chosen, points)

    def visit_kernel_rows(self, chosen: Indices, visitor: Callable) -> None:
        self.bank.visit_kernel_rows(chosen, visitor)

    def diagonal(self) -> np.ndarray:
        return self.bank.diagonal()

    def traces(self) -> np.ndarray:
        return self.bank.traces()

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> "SumBank | None":
        return self.bank.take_kernels(kernels, factor)

    def take_points(self, points: Indices) -> "SumBank | None":
        return self.bank.take_points(points)
