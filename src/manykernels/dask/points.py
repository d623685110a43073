"""Cut by points: every part has the low-rank factors of some of the rows.

Newton's method in rounds (`solvers.lowrank.apart`) sends coefficients of the features out and gets
sums over the points back. Whatever else works on factors may ask for vectors with an entry per
point, which then travel: 8 bytes a point and output.
"""

import sys
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from dask.sizeof import sizeof

from .._threads import Threads
from ..banks import Bank, FactorBank
from ..banks.base import as_outputs
from ..banks.lowrank.columns import ColumnBank
from ..banks.lowrank.systems import System
from ..solvers.lowrank.distributed import PointSums, Sums
from .parts import Parts


@sizeof.register(Bank)
def _size(bank):
    """What a bank weighs: by this the scheduler knows that it is better not moved."""
    arrays = (value for value in vars(bank).values() if isinstance(value, np.ndarray))
    return sys.getsizeof(bank) + sum(array.nbytes for array in arrays)


class PointsBank(FactorBank):
    """Low-rank kernels whose factors are on the workers of a cluster, by rows.

    Parameters
    ----------
    parts : Parts
        Each a `FactorBank`.
    edges : (parts + 1,) int
        Part i has the rows ``edges[i]`` to ``edges[i + 1]``.
    features : FeatureMap
    dtype : dtype of the factors
    threads : Threads
        Of this machine.
    """

    is_remote = True
    by_blocks = False
    symmetric = True

    def __init__(
        self, parts: Parts, edges: np.ndarray, features: Any, dtype: np.dtype, threads: Threads
    ) -> None:
        ColumnBank.__init__(self, features.offsets, features, threads)
        self.parts, self.edges = parts, np.asarray(edges)
        self.n = self.n_rows = int(edges[-1])
        self.dtype = np.dtype(dtype)
        self._looks: Any = WeakKeyDictionary()

    @property
    def slices(self) -> list[slice]:
        """The rows of every part."""
        pairs = zip(self.edges[:-1], self.edges[1:], strict=True)
        return [slice(int(start), int(stop)) for start, stop in pairs]

    def _of_parts(self, values):
        """Entries per point, by part."""
        return [np.ascontiguousarray(values[..., part]) for part in self.slices]

    def look(self, problem) -> "Looks":
        """What answers the rounds of a problem on these points."""
        if problem not in self._looks:
            told = zip(self._of_parts(problem.targets), self._of_parts(problem.cost), strict=True)
            aims = Parts(self.parts.cluster, "targets", _aims, list(told))
            self._looks[problem] = Looks(self.parts, aims, problem.loss)
        return self._looks[problem]

    @property
    def factors(self):
        """All of them, for what is asked of small banks alone."""
        return np.concatenate(self.parts.ask(factors))

    @property
    def right(self):
        return self.factors

    def values(self, coefficients):
        coefficients = np.ascontiguousarray(np.atleast_2d(coefficients), dtype=float)
        return np.concatenate(self.parts.ask(dot, coefficients), axis=1)

    def correlate(self, beta):
        return self.parts.total(correlate, each=self._of_parts(as_outputs(beta, self.n)))

    def gram(self, scale, exact=False):
        return self.parts.total(gram, exact, each=self._of_parts(np.asarray(scale, dtype=float)))

    def system(self, bends, exact=False, before=None):
        return System(self.parts.total(bordered, exact, each=self._of_parts(bends)))

    def combine(self, weights, rows=None):
        rows = np.arange(self.n) if rows is None else np.asarray(rows)
        left = self._rows(rows) * self.column_weights(weights).astype(self.dtype)
        return np.concatenate(self.parts.ask(multiplied, left), axis=1)

    def products(self, beta):
        moments = self.correlate(as_outputs(beta, self.n))
        out = np.concatenate(self.parts.ask(products, moments), axis=2)
        return out if np.ndim(beta) == 2 else out[:, 0]

    def columns(self, chosen):
        return np.concatenate(self.parts.ask(columns, self._rows(np.asarray(chosen))), axis=1)

    def take_points(self, points):
        return FactorBank(self._rows(points), self.offsets, self.features, self.threads)

    def take_kernels(self, kernels, factor=1.0):
        return None

    def cross(self, X_new, support=None):
        rows = np.arange(self.n) if support is None else np.asarray(support)
        return FactorBank(
            self.features.transform(X_new),
            self.offsets,
            self.features,
            self.threads,
            right=self._rows(rows),
        )

    def block(self, k):
        return np.concatenate(self.parts.ask(block, k))

    @cached_property
    def _diagonals(self):
        return np.concatenate(self.parts.ask(diagonal), axis=1)

    def largest(self, weights):
        return max(self.parts.ask(largest, np.asarray(weights, dtype=float)))

    def combined_diagonal(self, weights):
        return np.concatenate(self.parts.ask(combined_diagonal, np.asarray(weights, dtype=float)))

    def _rows(self, chosen):
        """Factors of some points, in their order."""
        chosen = np.arange(self.n)[chosen]
        of = np.searchsorted(self.edges, chosen, side="right") - 1
        mine = [chosen[of == part] - self.edges[part] for part in range(len(self.parts))]
        out = np.empty((chosen.size, self.width), self.dtype)
        for part, found in enumerate(self.parts.ask(rows, each=mine)):
            out[of == part] = found
        return out


class Looks:
    """The `PointSums` of every part, as one.

    Parameters
    ----------
    parts, aims : Parts
        Factors, and targets with costs.
    loss : Loss
    """

    def __init__(self, parts: Parts, aims: Parts, loss: Any) -> None:
        self.parts, self.aims, self.loss = parts, aims, loss

    def sums(self, u, b) -> Sums:
        """As `PointSums.sums`."""
        return self.parts.total(sums, self.loss, u, b, each=self.aims.futures)

    def losses(self, u, b, places):
        """As `PointSums.losses`."""
        return self.parts.total(losses, self.loss, u, b, places, each=self.aims.futures)

    def coefficients(self, u, b):
        """As `PointSums.coefficients`."""
        found = self.parts.ask(coefficients, self.loss, u, b, each=self.aims.futures)
        return np.concatenate(found, axis=1)


# Recipes and questions: plain functions of this module, which workers import.


def make_factors(block, features) -> FactorBank:
    """The factors of a block of rows."""
    V = features.transform(block, None, Threads(1), None)
    # names and maps are the client's
    return FactorBank(V, features.offsets, None, Threads(1))


def _aims(targets, cost):
    return targets, cost


def sums(bank, loss, u, b, aims):
    return PointSums(bank, *aims, loss).sums(u, b)


def losses(bank, loss, u, b, places, aims):
    return PointSums(bank, *aims, loss).losses(u, b, places)


def coefficients(bank, loss, u, b, aims):
    return PointSums(bank, *aims, loss).coefficients(u, b)


def factors(bank):
    return bank.factors


def dot(bank, coefficients):
    return bank.dot(coefficients)


def correlate(bank, beta):
    return bank.correlate(beta)


def gram(bank, exact, scale):
    return bank.gram(scale, exact)


def bordered(bank, exact, bends):
    return bank.system(bends, exact).H


def multiplied(bank, left):
    return left @ bank.factors.T


def products(bank, moments):
    out = np.empty((bank.m, len(moments), bank.n))
    for k in range(bank.m):
        own = slice(bank.offsets[k], bank.offsets[k + 1])
        out[k] = moments[:, own] @ bank.factors[:, own].T
    return out


def columns(bank, chosen):
    out = np.empty((bank.m, bank.n, len(chosen)))
    for k in range(bank.m):
        own = slice(bank.offsets[k], bank.offsets[k + 1])
        out[k] = bank.factors[:, own] @ chosen[:, own].T
    return out


def block(bank, k):
    return bank.block(k)


def rows(bank, chosen):
    return bank.factors[chosen]


def diagonal(bank):
    return bank.diagonal()


def largest(bank, weights):
    return bank.largest(weights)


def combined_diagonal(bank, weights):
    return bank.combined_diagonal(weights)
