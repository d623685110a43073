"""Low-rank kernels whose factors are made kernel by kernel, when they are asked for.

With p = 1 few kernels get weight. The factors of those are held, within a budget; those of the
others are made again in every pass over all kernels, one kernel at a time, and forgotten. So
hundreds of kernels on tens of thousands of points take the memory of the few that matter. Where all
fit into the budget, all are held.
"""

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._loops import sums as loops
from ..._threads import Threads, one_thread
from ..base import as_outputs
from ..kernel_set import Indices
from .columns import ColumnBank


class OnDemandFactorBank(ColumnBank):
    """Kernels whose factors are made on demand.

    Parameters
    ----------
    features : FeatureMap
        What makes them.
    X : training points
    threads : Threads
    budget : int
        Bytes of factors that may be held.
    """

    def __init__(self, features: Any, X: Any, threads: Threads, budget: int) -> None:
        super().__init__(features.offsets, features, threads)
        self.X, self.budget, self.dtype = features.laid_out(X), budget, features.dtype
        self.n = self.n_rows = X.shape[0]
        self._held: dict[int, np.ndarray] = {}
        self._lock = Lock()
        self._diagonals: dict[int, np.ndarray] = {}
        self._wanted: frozenset[int] = frozenset()

    symmetric = True

    @property
    def nbytes(self) -> int:
        """Of all factors."""
        return self.n * self.width * self.dtype.itemsize

    @property
    def holds_all(self) -> bool:
        return self.nbytes <= self.budget

    def plan(self) -> str:
        """A sentence on the factors that are held and those that are made again."""
        size = f"{self.m} kernels with {self.width} columns on {self.n} points"
        if self.holds_all:
            return f"factors of {size}: {_megabytes(self.nbytes)}, made once and held"
        room = f"{_megabytes(self.budget)} or {self.capacity} kernels at most"
        return (
            f"factors of {size} would take {_megabytes(self.nbytes)}: those of the kernels in use "
            f"are held, {room}; beyond that they are made again at every visit, and the others in "
            "every pass over all kernels"
        )

    @property
    def capacity(self) -> int:
        return int(self.budget // max(self.nbytes // self.m, 1))

    def want(self, kernels: Indices) -> None:
        """The kernels that will be asked for many times; others are forgotten when room is
        needed.
        """
        self._wanted = frozenset(map(int, kernels))

    def block(self, k: int) -> np.ndarray:
        k = int(k)
        V = self._held.get(k)
        if V is not None:
            return V
        V = self._made(k, self.threads)
        if self.holds_all or k in self._wanted:
            self._hold(k, V)
        return V

    def _hold(self, k: int, V: np.ndarray) -> None:
        """Keep the factors of a kernel, if there is room or what is in the way is not wanted."""
        with self._lock:
            room = self.budget - sum(held.nbytes for held in self._held.values())
            for other in [other for other in self._held if other not in self._wanted]:
                if room >= V.nbytes:
                    break
                room += self._held.pop(other).nbytes
            if room >= V.nbytes:
                self._held[k] = V

    def _made(self, k: int, threads: Threads) -> Any:
        """Contiguous factors of kernel k."""
        return self.features.one(k, self.X, threads)

    def _each(self, work: Callable, kernels: Indices | None = None) -> None:
        """Call ``work(k, V_k)`` for every kernel, or for some, on the threads."""
        alone = Threads(1)

        def one(k):
            V = self._held.get(k)
            V = self._made(k, alone) if V is None else V
            work(k, V)
            if k not in self._held and (self.holds_all or k in self._wanted):
                self._hold(k, V)  # at once, so that no more are in memory than may be

        kernels = range(self.m) if kernels is None else [int(k) for k in kernels]
        with one_thread():  # here: limits are those of the process, and not a worker's to set
            self.threads.map(one, kernels)

    def correlate(self, beta: ArrayLike) -> np.ndarray:
        return self._moments(beta)

    def coefficients(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        """The primal solution, (t, r); only kernels with weight are made."""
        return self.column_weights(weights) * self._moments(beta, np.flatnonzero(weights))

    def _moments(self, beta: ArrayLike, kernels: Indices | None = None) -> Any:
        """``V_k' beta`` of all kernels, or of some and zero elsewhere, (t, r)."""
        beta = as_outputs(beta, self.n)
        out = np.zeros((beta.shape[0], self.width))

        def sums(k, V):
            mine = np.zeros((beta.shape[0], V.shape[1]))
            loops.correlate(V, beta, mine)
            out[:, self.offsets[k] : self.offsets[k + 1]] = mine

        self._each(sums, kernels)
        return out

    def dot(self, coefficients: ArrayLike) -> np.ndarray:
        """``V c`` for coefficients (t, r), as (t, n), of the kernels that have some."""
        coefficients = np.atleast_2d(coefficients)
        return self.sums_of(np.flatnonzero(self.squared_norms(coefficients)), coefficients)

    def decision(self, weights: ArrayLike, beta: ArrayLike) -> np.ndarray:
        scores = self.dot(self.coefficients(weights, beta))
        return scores if np.ndim(beta) == 2 else scores[0]

    def combine(self, weights: Any, rows: Any = None) -> np.ndarray:
        rows = np.arange(self.n) if rows is None else np.asarray(rows)
        out = np.zeros((rows.size, self.n), self.dtype)
        for k in map(int, np.flatnonzero(weights)):
            V = self.block(k)
            with self.algebra():
                out += (self.dtype.type(weights[k]) * V[rows]) @ V.T
        return out

    def products(self, beta: ArrayLike) -> np.ndarray:
        outputs = as_outputs(beta, self.n)
        out = np.empty((self.m, len(outputs), self.n))

        def fill(k, V):
            moments = np.zeros((len(outputs), V.shape[1]))
            loops.correlate(V, outputs, moments)
            loops.dot(V, moments, out[k])

        self._each(fill)
        return out if np.ndim(beta) == 2 else out[:, 0]

    def columns(self, chosen: Indices) -> np.ndarray:
        out = np.empty((self.m, self.n, len(chosen)))

        def fill(k, V):
            out[k] = V @ V[chosen].T

        self._each(fill)
        return out

    def diagonal(self) -> np.ndarray:
        out = np.empty((self.m, self.n))

        def fill(k, V):
            out[k] = _squares(V)

        self._each(fill)
        return out

    def combined_diagonal(self, weights: Any) -> np.ndarray:
        out = np.zeros(self.n)
        for k in map(int, np.flatnonzero(weights)):
            if k not in self._diagonals:
                self._diagonals[k] = _squares(self.block(k))
            out += weights[k] * self._diagonals[k]
        return out

    def cross(self, X_new: Any, support: Indices | None = None) -> Any:
        raise NotImplementedError("Factors that are made on demand are for training points.")

    def take_points(self, points: Indices) -> Any:
        return OnDemandFactorBank(self.features, self.X[points], self.threads, self.budget)

    def take_kernels(self, kernels: Indices, factor: float = 1.0) -> Any:
        some = self.features.take_kernels(np.arange(self.m)[kernels], factor)
        return OnDemandFactorBank(some, self.X, self.threads, self.budget)

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__() | {"_held": {}}
        return {name: value for name, value in state.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._lock = Lock()


def _squares(V: np.ndarray) -> Any:
    return np.einsum("ij,ij->i", V, V, dtype=float)


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MB"
