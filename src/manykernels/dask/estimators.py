"""The estimators on a Dask cluster: the same parameters and attributes, other machines."""

import copy
import inspect
import numbers
import sys
import time
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from .. import estimators as plain
from ..banks import FactorBank
from ..estimators.base import MKLEstimator
from ..estimators.checks import check_choice, check_real
from ..estimators.data.inputs import ReadTable
from ..estimators.data.prepare import RowsElsewhere
from ..kernels import KernelCollection
from ..kernels.grids import auto_count
from .cluster import ROOM, Cluster
from .kernels import KernelsBank, pass_bytes
from .rows import ClusterRows
from .tables import here, is_collection, opened, split_target

CUTS = ("auto", "kernels", "points")
# parameters besides those of the estimator of one machine
OWN = {"client": None, "cut": "auto", "parts": None, "timeout": 600.0}
KEPT = ("_metadata_request", "_sklearn_output_config")  # by a clone, as scikit-learn's does
PARAMETERS = """
    client : dask.distributed.Client or str, optional
        The cluster, or the address of its scheduler; by default the current client.
    cut : {"auto", "kernels", "points"}
        How the work is shared out: every worker has some of the kernels on all points, or the
        low-rank factors of some of the points. ``"auto"`` is by points with an approximation, if
        its factors have no more columns together than there are points or the workers have no
        memory for kernel matrices; else by kernels. ``cut_`` says what it was.
    parts : int, optional
        In how many parts; by default two for every thread of the workers, and at least four.
    timeout : float
        Seconds in which some part must answer a request, or there must be a worker.
"""


class OnCluster(MKLEstimator):
    """What the estimators on a cluster share.

    X and y may be Dask arrays and data frames, and X the path of a Parquet or Zarr store; y may be
    the name of a column of a data frame. The fitted model is that of one machine (`ordinary`) and
    needs no cluster.
    """

    _ordinary_type: type

    def fit(self, X, y, sample_weight=None, **params):
        """As on one machine; X, y and the weights may be on the cluster.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame, of Dask or in memory; or path
            Of a Parquet file or folder, or a Zarr array.
        y : array or Series, of Dask or in memory; or str
            The name of a column of X.
        sample_weight : as y, optional
        params
            Of the tuned estimators: as on one machine.
        """
        began = time.perf_counter()
        check_choice("cut", self.cut, CUTS)
        check_real("timeout", self.timeout)
        whole = isinstance(self.parts, numbers.Integral) and self.parts >= 1
        if self.parts is not None and not whole:
            raise ValueError(
                f"parts must be None or a whole number of at least 1, got {self.parts!r}."
            )
        X, y = split_target(opened(X), y)
        cluster = self._cluster
        y, sample_weight = here(y, cluster), here(sample_weight, cluster)
        if self._way(X, len(y)) == "kernels" or not self._in_place:
            X = here(X, cluster)
        return super().fit(X, np.asarray(y), sample_weight, **params)._timed(began)

    _in_place = True  # whether rows may stay on the workers

    @property
    def _cluster(self):
        return Cluster.of(self.client, self.timeout)

    def _way(self, X, n):
        """The cut for a table of n rows."""
        if self.cut != "auto":
            return self.cut
        columns = factor_columns(self.approximation, self.kernels, n, np.shape(X)[-1])
        return choose_cut(n, columns, self._cluster)

    def _data(self, X, y, sample_weight, kernels=None):
        if not isinstance(X, RowsElsewhere):
            X = X if is_collection(X) or hasattr(X, "shape") else np.asarray(X)
            self.cut_ = self._way(X, len(y))
            if kernels is None and self.cut_ == "points":
                X = X.given if isinstance(X, ReadTable) else X
                X = ClusterRows.of(X, self._cluster, self.parts)
                self._say(f"{len(X)} rows in blocks, by points")
        return super()._data(X, y, sample_weight, kernels)

    def _reads_at_once(self, X):
        return False  # rows may stay on the workers

    def _check_data(self, X, y):
        if not isinstance(X, ClusterRows):
            return super()._check_data(X, y)
        y = np.asarray(y)
        if len(y) != len(X):
            raise ValueError(f"X has {len(X)} rows, and y {len(y)} entries.")
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise ValueError("Input y contains NaN or infinite values.")
        X.sample, _ = super()._check_data(X.sampled(), y[X.chosen])
        return X, y

    def _placed(self, bank):
        if not bank.is_sum:
            raise ValueError("A cluster works with sums of kernels: leave combination='sum'.")
        if self.device != "cpu":
            raise ValueError(f"device={self.device!r} is for one machine: leave device='cpu'.")
        if isinstance(bank, FactorBank) and self.cut_ == "points":
            return bank  # small enough to have been made here
        placed = KernelsBank(bank, self._cluster, self.parts)
        self._say(f"{placed.m} kernels on {placed.n} points in {len(placed.parts)} parts")
        return placed

    def _say(self, what):
        if self.verbose:
            count = len(self._cluster.workers)
            print(f"cluster: {what}, {count} workers", file=sys.stderr, flush=True)

    def ordinary(self) -> Any:
        """The fitted estimator of one machine."""
        given = {k: v for k, v in self.get_params(deep=False).items() if k not in OWN}
        model = self._ordinary_type(**given)
        vars(model).update({k: v for k, v in vars(self).items() if k not in self.get_params(False)})
        return model

    def __getstate__(self):
        """Without a client, which belongs to this process."""
        client = self.client if isinstance(self.client, str) else None
        return {**super().__getstate__(), "client": client}

    def __sklearn_clone__(self) -> Self:
        given = self.get_params(deep=False)
        twins = {k: v if k == "client" else clone(v, safe=False) for k, v in given.items()}
        twin = type(self)(**twins)
        for name in KEPT:
            if hasattr(self, name):
                setattr(twin, name, copy.deepcopy(getattr(self, name)))
        return twin


def _constructor(ordinary):
    """``__init__`` with the parameters of an estimator and those of a cluster."""
    signature = inspect.signature(ordinary.__init__)
    kind = inspect.Parameter.KEYWORD_ONLY
    own = [inspect.Parameter(name, kind, default=value) for name, value in OWN.items()]
    signature = signature.replace(parameters=[*signature.parameters.values(), *own])

    def __init__(self, *args, **kwargs):
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        vars(self).update({k: v for k, v in bound.arguments.items() if k != "self"})

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


def _documented(ordinary):
    """The docstring of an estimator with the parameters of a cluster."""
    head, _, rest = inspect.getdoc(ordinary).partition("\n")
    before, mark, after = rest.partition("\nAttributes\n----------\n")
    own = inspect.cleandoc(PARAMETERS)
    return f"{head.rstrip('.')}, on a Dask cluster.\n{before.rstrip()}\n{own}\n{mark}{after}"


class MKLClassifier(OnCluster, plain.MKLClassifier):
    __doc__ = _documented(plain.MKLClassifier)
    __init__ = _constructor(plain.MKLClassifier)
    _ordinary_type = plain.MKLClassifier


class MKLRegressor(OnCluster, plain.MKLRegressor):
    __doc__ = _documented(plain.MKLRegressor)
    __init__ = _constructor(plain.MKLRegressor)
    _ordinary_type = plain.MKLRegressor


class MKLClassifierCV(OnCluster, plain.MKLClassifierCV):
    __doc__ = _documented(plain.MKLClassifierCV)
    __init__ = _constructor(plain.MKLClassifierCV)
    _ordinary_type, _plain_type, _in_place = plain.MKLClassifierCV, MKLClassifier, False


class MKLRegressorCV(OnCluster, plain.MKLRegressorCV):
    __doc__ = _documented(plain.MKLRegressorCV)
    __init__ = _constructor(plain.MKLRegressorCV)
    _ordinary_type, _plain_type, _in_place = plain.MKLRegressorCV, MKLRegressor, False


# --- how the work is cut: by kernels or by points -------------------------------------------------


def choose_cut(n: int, columns: int | None, cluster: Cluster) -> str:
    """The cut, "kernels" or "points".

    Parameters
    ----------
    n : int
        Points.
    columns : int or None
        Of all factors together; None without an approximation, which a cut by points needs.
    cluster : Cluster
        Whose workers must have the memory for a pass by kernels.
    """
    if columns is None:
        return "kernels"
    if columns <= n:
        return "points"
    memory, needed = cluster.memory, pass_bytes(n, np.float32, cluster)
    return "points" if memory and needed > ROOM * memory else "kernels"


def factor_columns(approximation: Any, kernels: Any, n: int, features: int) -> int | None:
    """How many columns the factors of all kernels have at most, before they are made."""
    if approximation is None:
        return None
    if isinstance(kernels, str):
        count = auto_count(features, kernels)
    else:
        count = len(KernelCollection.of(kernels))
    return count * min(approximation.rank, n)
