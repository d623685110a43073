"""Cut by kernels: every part has some of the kernels on all points.

A pass over the kernels is one round: every part answers for its own, and sums over kernels are
added up by the workers. The points, the coefficients and the SVM are those of the client.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..banks.base import SumBank, Sums, as_outputs
from ..banks.dense import DenseBank
from ..banks.wrappers.delegating import DelegatingBank
from ..banks.wrappers.shared import held
from ..regularizers.base import Curvature
from ..solvers.supersteps import Move, Share, begin, moved
from .cluster import Cluster
from .parts import Parts, given


class PartShares:
    """The shares of the kernels of all parts.

    Parameters
    ----------
    parts : Parts
        Banks, each of some of the kernels.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def begin(self, *of):
        """As `Shares.begin`."""
        return self._answer(lambda: self.parts.made("products", begin, *of))

    def move(self, move: Move):
        """As `Shares.move`."""
        before = self.shares
        return self._answer(lambda: self.parts.made("move", _moved, move, each=before.futures))

    def _answer(self, make):
        """What the shares say that are made in the same round."""

        def ask():
            self.shares = make()
            return self.shares.asked(said), self.shares.futures

        forms, sums, totals = zip(*self.parts.cluster.round(ask), strict=True)
        return np.concatenate(forms), sum(sums), sum(totals)


def _moved(bank, move, share):
    return moved(bank, share, move)


def said(share: Share) -> tuple:
    """The answer of a share."""
    return share.answer


class KernelsBank(DelegatingBank):
    """The kernels of a bank, shared out among the workers of a cluster.

    Parameters
    ----------
    bank : SumBank
        Of the training points, with a `take_kernels`.
    cluster : Cluster
    parts : int, optional
        By default two for every thread of the workers, and at least four.
    """

    inner = "bank"
    is_remote = True
    streams = True

    def __init__(self, bank: SumBank, cluster: Cluster, parts: int | None = None) -> None:
        self.bank, self.cluster, self.count = bank, cluster, parts
        self.shares_passes, self.cheap_sweeps = bank.shares_passes, bank.cheap_sweeps
        self.cheap_subsets = bank.cheap_subsets
        count = min(bank.m, parts or cluster.parts)
        self.edges = np.linspace(0, bank.m, count + 1).astype(int)
        recipes = partial(_recipes, bank, self.slices, cluster)
        self.parts = Parts(cluster, "kernels", share, recipes(), recipes, spread=True)

    @property
    def slices(self) -> list[slice]:
        """The kernels of every part."""
        pairs = zip(self.edges[:-1], self.edges[1:], strict=True)
        return [slice(int(start), int(stop)) for start, stop in pairs]

    def shares(self) -> PartShares:
        """What the parts remember between rounds of MWUMKL."""
        return PartShares(self.parts)

    @property
    def persistent(self):
        return self.bank.persistent

    def _of_parts(self, values):
        """Entries per kernel, by part."""
        values = np.asarray(values, dtype=float)
        return [values[..., part] for part in self.slices]

    def combine(self, weights, rows=None):
        return self.parts.total(combine, rows, each=self._of_parts(weights))

    def combine_each(self, weights):
        return self.parts.total(combine_each, each=self._of_parts(weights))

    def decision(self, weights, beta):
        return self.parts.total(decision, np.asarray(beta), each=self._of_parts(weights))

    def quadratic_forms(self, beta):
        return np.concatenate(self.parts.ask(quadratic_forms, as_outputs(beta, self.n)))

    def products(self, beta):
        return np.concatenate(self.parts.ask(products, np.asarray(beta, dtype=float)))

    def products_each(self, beta):
        return np.concatenate(self.parts.ask(products_each, np.asarray(beta)), axis=1)

    def newton_sums(self, weights, beta, J):
        told = zip(
            self._of_parts(weights),
            self._of_parts(J.diagonal),
            self._of_parts(J.vector),
            strict=True,
        )
        return self.parts.total(newton_sums, as_outputs(beta, self.n), J.factor, each=list(told))

    def directional_forms(self, beta, change):
        told = as_outputs(beta, self.n), as_outputs(change, self.n)
        return tuple(
            map(np.concatenate, zip(*self.parts.ask(directional_forms, *told), strict=True))
        )

    def columns(self, chosen):
        return np.concatenate(self.parts.ask(columns, np.asarray(chosen)))

    def kernel_rows(self, chosen, points):
        found = self.parts.ask(kernel_rows, np.asarray(chosen), np.asarray(points))
        return np.concatenate(found, axis=1)

    def diagonal(self):
        return self.bank.diagonal()

    def combined_diagonal(self, weights):
        return self.bank.combined_diagonal(weights)

    def traces(self):
        return self.bank.traces()

    def start(self, regularizer):
        return self.bank.start(regularizer)

    def take_kernels(self, kernels, factor=1.0):
        """Some kernels are a matter of this machine."""
        return self.bank.take_kernels(kernels, factor)

    def take_points(self, points):
        few = self.bank.take_points(points)
        return None if few is None else KernelsBank(few, self.cluster, self.count)

    def refined(self):
        finer = self.bank.refined()
        return None if finer is None else KernelsBank(finer, self.cluster, self.count)


# Recipe and questions: plain functions of this module, which workers import.


def _subset(bank, part):
    some = bank.take_kernels(np.arange(part.start, part.stop))
    if some is None:
        raise ValueError(f"{bank!r} cannot be cut by kernels.")
    return some


def pass_bytes(n: int, dtype: DTypeLike, cluster: Cluster) -> float:
    """Memory of a pass on a worker: a sweep makes a combined kernel and a matrix of squares, and so
    do all that run beside it.
    """
    return cluster.threads_each * n**2 * (np.dtype(dtype).itemsize + 8.0)


def _recipes(bank, slices, cluster):
    """The arguments of `share` for every part: of matrices that are held each gets its own, of
    anything else a copy of what all have in common, which workers hand to each other.
    """
    needed = pass_bytes(bank.n, bank.dtype, cluster)
    total = bank.m * bank.n**2 * bank.dtype.itemsize if isinstance(bank, DenseBank) else 0.0
    cluster.check_room(
        needed, total, "A pass over the kernels", "give fewer points or an approximation"
    )
    each = -(-len(slices) // len(cluster.workers))  # parts of a worker
    budget = int(0.3 * cluster.memory / each) or 2**30
    if isinstance(bank, DenseBank):
        return [(_subset(bank, part), None, budget) for part in slices]
    whole = cluster.submit("points", given, [(bank.threaded(1),)])[0]
    return [(whole, part, budget) for part in slices]


def share(bank: Any, part: slice | None, budget: int) -> SumBank:
    """The bank of a part of the kernels, with its matrices in memory if they are small."""
    some = bank if part is None else _subset(bank, part)
    return held(some, budget) if some.shares_passes else some


def combine(bank, rows, weights):
    return bank.combine(weights, rows)


def combine_each(bank, weights):
    return bank.combine_each(weights)


def decision(bank, beta, weights):
    return bank.decision(weights, beta)


def quadratic_forms(bank, beta):
    return bank.quadratic_forms(beta)


def products(bank, beta):
    return bank.products(beta)


def products_each(bank, beta):
    return bank.products_each(beta)


def newton_sums(bank, beta, factor, told) -> Sums:
    weights, diagonal, vector = told
    return bank.newton_sums(weights, beta, Curvature(diagonal, factor, vector))


def directional_forms(bank, beta, change):
    return bank.directional_forms(beta, change)


def columns(bank, chosen):
    return bank.columns(chosen)


def kernel_rows(bank, chosen, points):
    return bank.kernel_rows(chosen, points)
