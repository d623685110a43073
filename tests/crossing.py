"""The crossing table: what people combine, crossed with every way that a fit may go.

A row says what is fitted: a value for each of `AXES`. A way (`WAYS`) is a decision that depends on
size, memory or data, such as a sample of the points first; small data go that way when its
thresholds are lowered. `rows` is a pairwise cover: every two values of different axes meet in one
row at least, unless the library refuses the two together, with a sentence (`REFUSED`).

`tests/test_crossing.py` runs all rows through all ways with few points, `python -m benchmarks
cross` at the sizes where fits go these ways by themselves.
"""

import functools
import importlib
import inspect
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any
from unittest import mock

import joblib
import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone

from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    MKLRegressorCV,
    load,
    planning,
    save,
    thresholds,
)
from manykernels.callbacks import Callback
from manykernels.combinations import PolynomialMixture, Product
from manykernels.estimators.answers.resampling import plain as untuned
from manykernels.estimators.checks import choose_regularizer, limited
from manykernels.kernels import (
    RBF,
    FunctionKernel,
    KernelCollection,
    Precomputed,
    on_groups,
)
from manykernels.lowrank import IncompleteCholesky, Nystroem, RandomFourier
from manykernels.machines import iterative
from manykernels.persistence import CannotSave
from manykernels.problem import Problem
from manykernels.regularizers import (
    L1,
    BlockNorm,
    ElasticNet,
    GeneralizedKL,
    LogDet,
    SimplexRidge,
    SquaredPNorm,
)
from manykernels.result import Status
from manykernels.solvers.lowrank import multipliers

COLUMNS = 6
GROUPS = {"first": [0, 1], "second": [2, 3, 4, 5]}

# The first value of an axis is the default; rows are filled up with it where nothing is new.
AXES: dict[str, dict[str, Any]] = {
    "task": {
        "hinge": (MKLClassifier, {}),
        "squared hinge": (MKLClassifier, {"loss": "squared_hinge"}),
        "logistic": (MKLClassifier, {"loss": "logistic"}),
        "epsilon": (MKLRegressor, {}),
        "squared": (MKLRegressor, {"loss": "squared"}),
        "one class": (MKLOneClass, {}),
        "tuned": (MKLClassifierCV, {"Cs": [0.3, 3.0], "ps": [1.0, 2.0], "cv": 2}),
        "tuned numbers": (MKLRegressorCV, {"Cs": [0.3, 3.0], "ps": [1.0, 2.0], "cv": 2}),
    },
    "outputs": {
        "one": {},
        "several": {},
        "own weights": {"share_weights": False},
        "one against one": {"multiclass": "ovo"},
    },
    "kernels": {
        "auto": "auto",
        "whole": "whole",
        "list": [RBF(0.1), RBF(0.5), RBF(2.0, features=[0, 1]), RBF(0.3, features=[2, 3])],
        "columns": [RBF(0.1, features=[0]), RBF(0.5, features=[1]), RBF(1.0, features=[2])],
        "groups": on_groups(GROUPS),
        "subsets": KernelCollection.masked_rbf(
            np.geomspace(0.05, 2.0, 9),
            np.tri(9, COLUMNS, dtype=bool) | np.eye(9, COLUMNS, dtype=bool),
        ),
        "function": "function",
        "matrices": "matrices",
        "product": "product",
        "polynomial": "polynomial",
    },
    "norm": {
        "1": {"p": 1.0},
        "1.33": {"p": 1.33},
        "2": {"p": 2.0},
        "inf": {"p": np.inf},
        "auto": {"p": "auto"},
        "elastic net": {"regularizer": ElasticNet()},
        "entropy": {"regularizer": GeneralizedKL()},
        "mixed": {"regularizer": "mixed"},
        "log-det": {"regularizer": LogDet()},
        "l1": {"regularizer": L1()},
        "squared 1": {"regularizer": SquaredPNorm(1)},
        "ridge": {"regularizer": SimplexRidge()},
    },
    "limit": {"none": {}, "kernels": {"max_kernels": 2}, "groups": {"max_groups": 1}},
    "normalize": {
        "diagonal": "diagonal",
        "variance": "variance",
        "trace": "trace",
        "cosine": "cosine",
        "center": "center",
        "none": None,
    },
    "approximation": {
        "exact": None,
        "narrow": Nystroem(4, random_state=0),
        "wide": Nystroem(30, random_state=0),
        "fourier": RandomFourier(16, random_state=0),
        "cholesky": IncompleteCholesky(6),
    },
    "scale": {"auto": "auto", "standard": "standard"},
    "weights": {"equal": None, "zeros": "zeros", "balanced": "balanced"},
    "input": {
        "dense": "dense",
        "repeated": "repeated",
        "sparse": "sparse",
        "frame": "frame",
        "missing": "missing",
    },
    "tolerance": {"usual": 1e-3, "fine": 5e-6},
}


TUNED = ("tuned", "tuned numbers")
CLASSIFIERS = ("hinge", "squared hinge", "logistic", "tuned")
CORNERED = ("hinge", "epsilon", "tuned", "tuned numbers")
REGRESSORS = ("epsilon", "squared", "tuned numbers")
# kernels whose number is known before there are data
COUNTS = {"list": 4, "function": 2, "matrices": 3, "subsets": 9, "product": 6, "polynomial": 6}
MIXTURES = {"product": Product(starts=2), "polynomial": PolynomialMixture(starts=1)}


def laplacian(A, B):
    """A kernel of the user's."""
    A, B = (points.toarray() if sparse.issparse(points) else points for points in (A, B))
    return np.exp(-0.3 * cdist(A, B, "cityblock"))


@dataclass
class Refusal:
    """Values that do not go together, and what the library says to that: None where an estimator
    has no parameter for one of them.
    """

    sentence: str | None
    values: dict[str, tuple[str, ...]]

    def holds(self, row):
        """Whether a row, or what is known of it, has such values."""
        return all(row.get(axis) in values for axis, values in self.values.items())


def _all_but(axis, *names):
    return tuple(name for name in AXES[axis] if name not in names)


LOW_RANK = ("narrow", "wide", "fourier", "cholesky")
NO_BALLS = ("elastic net", "entropy", "mixed", "log-det", "l1", "squared 1", "ridge")
LIMITS = ("kernels", "groups")
REFUSED = [
    Refusal(
        "does not go with combination=",
        {"kernels": tuple(MIXTURES), "approximation": ("narrow", "wide", "cholesky")},
    ),
    Refusal(
        "does not go with combination=",
        {"kernels": ("polynomial",), "approximation": ("fourier",)},
    ),
    Refusal(
        "is for sums of kernels; a combination is taken as it is",
        {"kernels": tuple(MIXTURES), "normalize": ("variance", "trace", "cosine", "center")},
    ),
    Refusal(
        "normalize='variance' gives every kernel a factor of its own",
        {"kernels": ("subsets",), "normalize": ("variance",)},
    ),
    Refusal(
        "precomputed kernels read the numbers of samples",
        {"kernels": ("matrices",), "scale": ("standard",)},
    ),
    Refusal(
        "Novelty detection needs a sum of kernels",
        {"task": ("one class",), "kernels": tuple(MIXTURES)},
    ),
    Refusal(
        "Novelty detection needs a sum of kernels and bounded weights",
        {"task": ("one class",), "norm": NO_BALLS},
    ),
    Refusal(
        "p='auto' compares scores on held-out data",
        {"task": ("one class",), "norm": ("auto",)},
    ),
    Refusal(
        "is for exact kernels on the CPU",
        {"input": ("missing",), "approximation": LOW_RANK},
    ),
    Refusal(
        "normalize='center' does not go with an approximation",
        {"normalize": ("center",), "approximation": LOW_RANK},
    ),
    Refusal(
        "Random Fourier features are for RBF kernels",
        {
            "kernels": ("auto", "whole", "groups", "function", "matrices"),
            "approximation": ("fourier",),
        },
    ),
    Refusal(
        "no kernel objects for random Fourier features",
        {"kernels": ("subsets",), "approximation": ("fourier",)},
    ),
    Refusal(
        "Kernels of a masked bank are not approximated one by one",
        {"kernels": ("subsets",), "approximation": ("cholesky",)},
    ),
    Refusal("p='auto' chooses p by many fits", {"limit": LIMITS, "norm": ("auto",)}),
    Refusal("are for sums of kernels, of which", {"limit": LIMITS, "kernels": tuple(MIXTURES)}),
    Refusal(
        "needs a regularizer under which all kernels count alike",
        {"limit": LIMITS, "norm": ("entropy", "mixed", "log-det", "l1", "squared 1")},
    ),
    Refusal(None, {"limit": LIMITS, "task": (*TUNED, "one class")}),
    # grids choose p themselves, among sums
    Refusal(None, {"task": TUNED, "norm": _all_but("norm", "1")}),
    Refusal(None, {"task": TUNED, "kernels": tuple(MIXTURES)}),
    Refusal(None, {"task": ("one class",), "outputs": _all_but("outputs", "one")}),
    Refusal(None, {"task": REGRESSORS, "outputs": ("own weights", "one against one")}),
    Refusal(None, {"task": (*REGRESSORS, "one class"), "weights": ("balanced",)}),
    # groups of kernels are given before there are data
    Refusal(None, {"norm": ("mixed",), "kernels": _all_but("kernels", *COUNTS)}),
    # points are the numbers of rows
    Refusal(None, {"kernels": ("matrices",), "input": ("sparse", "frame", "missing")}),
    # values that are missing are missing in a group
    Refusal(None, {"input": ("missing",), "kernels": _all_but("kernels", "groups")}),
]


def refusal(row):
    """The first refusal that holds for a row, or None."""
    return next((one for one in REFUSED if one.holds(row)), None)


@dataclass
class Case:
    """An estimator and its data.

    Attributes
    ----------
    estimator : unfitted
    X, y : training data
    fit : dict
        More arguments of fit.
    X_new : points to predict at
    """

    estimator: Any
    X: Any
    y: Any
    X_new: Any
    fit: dict = field(default_factory=dict)


def case(row, n=40, seed=0, points=None):
    """The case of a row.

    Parameters
    ----------
    row : dict from axis to the name of a value
    n : int
        Training points.
    seed : int
    points : (more than n, COLUMNS) array, optional
        Real points in the place of random ones.
    """
    rng = np.random.default_rng(seed)
    total = n + 9
    X = rng.standard_normal((total, COLUMNS)) if points is None else points[:total]
    if row["input"] == "repeated":
        X = X[np.repeat(np.arange(total), 2)[:total]]
    score = X[:, 0] * X[:, 1] + 0.5 * X[:, 2] + 0.3 * rng.standard_normal(total)
    kind, parameters = AXES["task"][row["task"]]
    parameters = dict(parameters) | AXES["outputs"][row["outputs"]] | {"random_state": 0}
    parameters |= {"tol": AXES["tolerance"][row["tolerance"]]}
    several, fit = row["outputs"] != "one", {}
    if row["task"] in CLASSIFIERS:
        cuts = np.quantile(score, [0.3, 0.6] if several else [0.5])
        y = np.array(["low", "middle", "high"])[np.digitize(score, cuts)]
    elif row["task"] in REGRESSORS:
        y = np.stack([score, np.sin(2.0 * X[:, 3])], axis=1) if several else score
    else:
        y = None
    if row["weights"] == "zeros":
        fit["sample_weight"] = rng.integers(0, 3, total)[:n].astype(float)
    elif row["weights"] == "balanced":
        parameters["class_weight"] = "balanced"
    parameters |= {
        "normalize": AXES["normalize"][row["normalize"]],
        "scale": AXES["scale"][row["scale"]],
        "approximation": AXES["approximation"][row["approximation"]],
    }
    if row["task"] not in TUNED:
        parameters |= AXES["norm"][row["norm"]] | AXES["limit"][row["limit"]]
    if parameters.get("regularizer") == "mixed":
        parameters["regularizer"] = BlockNorm(np.arange(COUNTS[row["kernels"]]) // 2)
    parameters |= _kernels(row, X)
    X, more = _points(row, X)
    parameters |= more
    taken = X.iloc if hasattr(X, "iloc") else X
    return Case(kind(**parameters), taken[:n], None if y is None else y[:n], taken[n:], fit)


def _points(row, X):
    """Points as the input of a row has them, and the parameters that go with it."""
    if row["kernels"] == "matrices":
        return np.arange(len(X))[:, None], {}
    if row["input"] == "sparse":
        return sparse.csr_array(np.where(np.abs(X) < 0.4, 0.0, X)), {}
    if row["input"] == "frame":
        import pandas as pd

        frame = pd.DataFrame(X, columns=[f"column {k}" for k in range(COLUMNS)])
        if row["kernels"] in ("auto", "whole"):
            frame["color"] = np.array(["red", "green", "blue"])[np.digitize(X[:, 5], [-0.5, 0.5])]
        return frame, {}
    if row["input"] == "missing":
        X = X.copy()
        X[::5, GROUPS["first"]] = np.nan
        X[2::5, GROUPS["second"]] = np.nan
        return X, {"missing": "mean" if row["tolerance"] == "usual" else "scaled"}
    return X, {}


def _kernels(row, X):
    """The parameters that say which kernels."""
    name = row["kernels"]
    if name in MIXTURES:
        return {"combination": MIXTURES[name]}
    if name == "function":
        return {"kernels": [FunctionKernel(laplacian), RBF(0.5)]}
    if name == "matrices":
        grams = [np.exp(-gamma * _distances(X)) for gamma in (0.1, 0.5, 2.0)]
        return {"kernels": [Precomputed(gram) for gram in grams]}
    return {"kernels": AXES["kernels"][name]}


def _distances(X):
    squares = np.square(X).sum(axis=1)
    return np.maximum(squares[:, None] + squares - 2.0 * X @ X.T, 0.0)


# --- which rows -----------------------------------------------------------------------------------


def pairs(row):
    """Every two values of a row, each with its axis."""
    return set(combinations(sorted(row.items()), 2))


def rows(tries=12, seed=0):
    """A pairwise cover, and the pairs that no row can have.

    Greedily: each row begins with a pair that is not covered yet and takes, of several random
    fillings, the one with most pairs that are new.
    """
    rng = np.random.default_rng(seed)
    left = {
        tuple(sorted([(a, v), (b, w)]))
        for a, b in combinations(AXES, 2)
        for v, w in product(AXES[a], AXES[b])
    }
    found, impossible = [], set()
    while left:
        pair = min(left)
        fillings = [_filled(dict(pair), left, rng) for _ in range(tries)]
        if fillings[0] is None:
            impossible.add(pair)
            left.discard(pair)
            continue
        best = max(fillings, key=lambda row: len(pairs(row) & left))
        found.append({axis: best[axis] for axis in AXES})
        left -= pairs(best)
    return found, impossible


def count_pairs():
    """How many pairs of values of different axes there are."""
    return sum(len(AXES[a]) * len(AXES[b]) for a, b in combinations(AXES, 2))


def _filled(row, left, rng):
    """A row that may be fitted and has the given values, the other axes in random order, each with
    the value that brings most new pairs if that is possible; None if there is none.
    """
    if refusal(row) is not None:
        return None
    others = [axis for axis in AXES if axis not in row]
    if not others:
        return row
    axis = others[rng.integers(len(others))]
    gains = {value: len(pairs(row | {axis: value}) & left) for value in AXES[axis]}
    for value in sorted(gains, key=lambda value: rng.random() - 2 * gains[value]):
        filled = _filled(row | {axis: value}, left, rng)
        if filled is not None:
            return filled
    return None


def refused_rows():
    """A row for each refusal."""
    default = {axis: next(iter(AXES[axis])) for axis in AXES}
    found = []
    for one in REFUSED:
        if one.sentence is None:
            continue
        row = default | {axis: values[-1] for axis, values in one.values.items()}
        if row["input"] == "missing":
            row["kernels"] = "groups"
        if row["norm"] == "mixed":
            row["kernels"] = "list"
        found.append((one, row))
    return found


# --- which ways -----------------------------------------------------------------------------------


@dataclass
class Way:
    """A decision that depends on size, memory or data.

    Attributes
    ----------
    table : dict
        Thresholds, and what they are lowered to for data of 40 points.
    planned : Way, optional
        As plans name it.
    sizes : dict
        Sizes of tiles and batches below `manykernels`, which change no plan.
    walked : tuple of str
        Functions of which one is called when a fit goes this way, where plans do not name it.
    parameters : dict
        Of the estimator.
    concerns : dict from axis to values
        The rows that may go this way; others should take no notice of the thresholds.
    surely : dict from axis to value
        With which rows do go this way, where chance alone may leave them out.
    refused : tuple of Refusal
        What does not go with the parameters.
    needs : str
        A package without which nobody goes this way.
    """

    table: dict[str, Any] = field(default_factory=dict)
    planned: planning.Way | None = None
    sizes: dict[str, Any] = field(default_factory=dict)
    walked: tuple[str, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    concerns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    surely: dict[str, str] = field(default_factory=dict)
    refused: tuple[Refusal, ...] = ()
    needs: str = ""

    def takes(self, row):
        return all(row[axis] in values for axis, values in self.concerns.items())


WAYS = {
    # sparse tables stay sparse, and are arrays on other ways
    "matrices in memory": Way({"stored_share": 2.0}, planning.Way.MATRICES_HELD),
    "kernels as factors": Way(
        {"factor_share": 1.0, "held_gram_bytes": 0},
        planning.Way.KERNELS_AS_FACTORS,
        concerns={"approximation": ("exact",)},
    ),
    "exact factors": Way(
        {"factor_share": 1.0, "points_per_exact_column": 0},
        planning.Way.EXACT_FACTORS,
        concerns={"approximation": ("exact",), "kernels": ("columns",)},
        surely={"norm": "1", "limit": "none", "normalize": "diagonal"},
    ),
    "sample of points": Way(
        {
            "points_for_sample": 10,
            "sample_points": 16,
            "sample_points_of_combinations": 16,
            "sample_points_per_feature": 1,
            "second_sample_points": 28,
            "sample_growth": 1,
        },
        planning.Way.SAMPLE_OF_POINTS,
        {"solvers.wrappers.ROUNDS": 1, "solvers.quasi_newton.MANY_WEIGHTS": 2},
    ),
    "part of the kernels": Way(
        {"kernels_for_part": 3},
        planning.Way.PART_OF_KERNELS,
        {
            "solvers.wrappers.SAMPLE": 2,
            "solvers.wrappers.SMALLEST_SAMPLE": 3,
            "solvers.wrappers.FIRST": 3,
            "solvers.wrappers.MORE": 2,
        },
        concerns={"kernels": ("subsets",)},
    ),
    "rows on demand": Way(
        {},
        planning.Way.ROWS_ON_DEMAND,
        {"machines.blocked.SIZE": 12},
        parameters={"cache_size": 0.002},
        concerns={"approximation": ("exact",)},
        refused=(
            Refusal(
                "LogDet factorizes the kernel of all",
                {"norm": ("log-det",), "approximation": ("exact",)},
            ),
        ),
    ),
    "conjugate gradients": Way(
        {"factorized_points": 10},
        planning.Way.CONJUGATE_GRADIENTS,
        {"machines.iterative.TOLERANCES": iterative.Tolerances(columns=8)},
        concerns={"task": ("logistic", "squared"), "approximation": ("exact",)},
    ),
    "small tiles": Way(
        {"held_gram_bytes": 0, "held_product_bytes": 0, "stored_share": 2.0},
        sizes={
            "banks.tiled.ROWS": 7,
            "banks.tiled.COLS": 16,
            "banks.tiled.TALL": 14,
            "banks.tiled.MANY": 1,
            "banks.tiled.BLOCK": 64,
            "banks.base.ROW_BLOCK": 8,
            "banks.masked.KERNELS": 2,
            "banks.base.ENTRIES_AT_ONCE": 64,
            "banks.tiled.SQUARE": 8,
            "banks.lowrank.factors.COMBINED_ROWS": 8,
            "banks.lowrank.columns.ROWS": 16,
            "lowrank.maps.ROWS": 16,
            "estimators.data.decision.FACTOR_ROWS": 8,
            "_threads.LARGEST_CALL": 8,
            "_threads.CACHED": 64,
            "machines.dense.ENTRIES_PER_CALL": 1,
        },
        walked=("banks.tiled.TiledBank.products",),
    ),
    "finer kernels": Way(
        {"rounding_share": 0.0},
        walked=("problem.Problem.refined",),
        concerns={"tolerance": ("usual",)},
    ),
    "factors one by one": Way(
        {
            "separate_column_sets": 1,
            "block_columns": 1,
            "block_columns_with_corners": 1,
            "block_operations": 0.0,
        },
        planning.Way.FACTORS_ONE_BY_ONE,
        concerns={"approximation": LOW_RANK},
        surely={"task": "hinge", "norm": "1", "limit": "none"},
    ),
    "small space of factors": Way(
        {"shared_basis_columns": 2, "shared_basis_share": 1.0},
        planning.Way.SHARED_BASIS,
        concerns={"approximation": LOW_RANK},
    ),
    "models in turn": Way(
        {"models_side_by_side": 10**9, "problems_per_batch": 1},
        planning.Way.MODELS_IN_TURN,
        concerns={"task": TUNED},
    ),
    "folds in turn": Way(
        {},
        planning.Way.FOLDS_IN_TURN,
        {"estimators.search.tuning.can_share": lambda *_: False},
        concerns={"task": TUNED},
    ),
    "on a device": Way(
        {"device_entries": 0, "device_entries_of_subsets": 0, "copied_kernel_points": 5},
        planning.Way.ON_DEVICE,
        {"machines.device.SIZE": 16, "machines.device.FEW": 4},
        parameters={"device": "torch"},
        refused=(
            Refusal("is for sums and products of kernels", {"kernels": ("polynomial",)}),
            Refusal("is for exact kernels on the CPU", {"input": ("missing",)}),
        ),
        needs="torch",
    ),
    "in lockstep": Way(
        {},
        planning.Way.IN_LOCKSTEP,
        parameters={"device": "torch"},
        concerns={"task": TUNED},
        refused=(
            Refusal("is for sums and products of kernels", {"kernels": ("polynomial",)}),
            Refusal("is for exact kernels on the CPU", {"input": ("missing",)}),
        ),
        needs="torch",
    ),
    "on a cluster": Way(
        {},
        planning.Way.ON_CLUSTER,
        concerns={"task": _all_but("task", "one class")},
        refused=(
            Refusal("A cluster works with sums of kernels", {"kernels": tuple(MIXTURES)}),
            Refusal("which kernels on a cluster", {"limit": LIMITS}),
            Refusal(
                "p='auto' needs the rows in memory",
                {"norm": ("auto",), "approximation": ("narrow", "cholesky")},
            ),
        ),
        needs="distributed",
    ),
    "table as an array": Way(
        {},
        planning.Way.TABLE_AS_ARRAY,
        concerns={"input": ("sparse",), "approximation": ("exact",)},
    ),
    "multipliers": Way(
        {"points_per_column_with_corners": 0},
        planning.Way.MULTIPLIERS,
        {
            "solvers.lowrank.multipliers.TOLERANCES": multipliers.Tolerances(
                sample_per_column=1, times_sample=1
            )
        },
        concerns={"task": CORNERED, "approximation": LOW_RANK},
    ),
}


def on_cluster(estimator):
    """The same estimator for the current client's cluster."""
    from manykernels import dask

    return getattr(dask, type(estimator).__name__)(**estimator.get_params(deep=False))


def _place(name):
    """The object that holds an attribute below `manykernels`, and the attribute's name."""
    parts = f"manykernels.{name}".split(".")
    for size in range(len(parts) - 1, 0, -1):
        try:
            place = importlib.import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        for part in parts[size:-1]:
            place = getattr(place, part)
        return place, parts[-1]
    raise LookupError(name)


def by_pairs():
    """A context in which a few kernels of subsets stand for the many that are computed pair by
    pair.
    """
    return thresholds.lowered(listed_subsets=0)


@contextmanager
def going(way):
    """A context in which fits go a way, if they can; gives a list that grows when they do."""
    walked: list[str] = []
    with ExitStack() as stack:
        stack.enter_context(by_pairs())
        stack.enter_context(thresholds.lowered(**way.table))
        for name, value in way.sizes.items():
            stack.enter_context(mock.patch.object(*_place(name), value))
        for name in way.walked:
            stack.enter_context(_noted(name, "", walked.append))
        yield walked


@contextmanager
def every_way():
    """A context that gives the set of the ways, which no plan names, that fits go by
    themselves.
    """
    walked: set[str] = set()
    with ExitStack() as stack:
        for way in WAYS:
            for name in WAYS[way].walked:
                stack.enter_context(_noted(name, way, walked.add))
        yield walked


def planned_ways(model):
    """The names of the ways that the plan of a fitted model has."""
    return {name for name, way in WAYS.items() if way.planned in model.plan_.ways}


@contextmanager
def _noted(name, note, take):
    """A context in which every call of a function below `manykernels` is noted."""
    place, attribute = _place(name)
    inner = getattr(place, attribute)

    @functools.wraps(inner)
    def outer(*args, **kwargs):
        take(note)
        return inner(*args, **kwargs)

    plain = inspect.getattr_static(place, attribute)
    bound = isinstance(plain, classmethod | staticmethod)
    with mock.patch.object(place, attribute, staticmethod(outer) if bound else outer):
        yield


# --- what holds of every row on every way ---------------------------------------------------------


def fitted(case, **parameters):
    """The fitted estimator of a case."""
    estimator = clone(case.estimator).set_params(**parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case.y is None:
            return estimator.fit(case.X, **case.fit)
        return estimator.fit(case.X, case.y, **case.fit)


def check_model(case, model, tol):
    """A model is finite and keeps its claims."""
    assert np.isfinite(model.kernel_weights_).all()
    assert (model.kernel_weights_ >= 0.0).all()
    _check_finite(case, model)
    result, claimed = model.result_, model.result_.certificate
    again = _judged_again(case, model)
    primal = sum(certificate.primal for certificate in again)
    # centered kernels have nothing that is new to them: the objective is then rounding
    size = max(abs(claimed.primal), 1e-9 * case.X_new.shape[0])
    close = 1e-5 + 2.0 * claimed.rounding / size
    assert abs(primal - claimed.primal) <= close * size
    if result.subsets is not None:  # whose bound takes a search: see test_subsets.py
        assert claimed.dual <= claimed.primal + 1e-9 * size
        assert all(np.isfinite(certificate.primal) for certificate in again)
        return
    gap = (primal - sum(certificate.dual for certificate in again)) / size
    if np.isfinite(claimed.gap):
        assert gap <= claimed.gap + close
    if result.status is Status.OPTIMAL:
        assert gap <= 1.01 * tol + close


def _check_finite(case, model):
    for values in _answers(case, model):
        assert len(values) == case.X_new.shape[0]
        assert values.dtype.kind in "OU" or np.isfinite(values).all()


def _answers(case, model):
    """What a model says of new points."""
    methods = ("predict", "decision_function", "predict_proba")
    return [getattr(model, name)(case.X_new) for name in methods if hasattr(model, name)]


def _judged_again(case, model):
    """Certificates of the problems that a model claims to have solved, stated anew: of one, or of
    one for each output.
    """
    plain = clone(model) if isinstance(model, MKLOneClass) else untuned(model)
    weight = case.fit.get("sample_weight")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = plain._data(case.X, case.y, weight)
    regularizer = limited(plain, choose_regularizer(plain.p, plain.regularizer))
    bank = prepared.bank.refined() or prepared.bank
    # of rows that are equal, and of none that has no weight
    beta = np.zeros((len(prepared.targets), bank.n))
    np.add.at(beta, (slice(None), prepared.distinct.group[model.support_]), model.dual_coef_)
    parts, certificates = [prepared], []
    if not plain.share_weights:
        parts, beta = [prepared.part(c) for c in prepared.outputs], beta[:, None]
    else:
        beta = beta[None]
    for part, weights, own in zip(parts, np.atleast_2d(model.kernel_weights_), beta, strict=True):
        cost = plain._costs(part.cost)
        problem = Problem(bank, part.targets, cost, regularizer, plain._loss())
        certificates.append(problem.certificate(weights, own))
    return certificates


class Interruption(Callback):
    """Ctrl-C at one of the first moments at which it can be heard."""

    def __init__(self, moments):
        self.moments = moments

    def on_tick(self, estimator):
        self.moments -= 1
        if self.moments == 0:
            raise KeyboardInterrupt

    def on_iteration(self, estimator, record):
        self.on_tick(estimator)


def check_interrupt(case, moments, **parameters):
    """A fit obeys Ctrl-C, and what it leaves is a model."""
    model = fitted(case, callbacks=[Interruption(moments)], **parameters)
    assert np.isfinite(model.kernel_weights_).all()
    _check_finite(case, model)


def check_file(case, model, folder):
    """A model predicts the same after it was saved and loaded."""
    try:
        save(model, folder / "model.mk")
        again = load(folder / "model.mk")
    except CannotSave:  # code of the user's
        again = None
    if again is None or model.bank_.needs_grams:  # which are not in a model file
        joblib.dump(model, folder / "model.joblib")
        again = joblib.load(folder / "model.joblib")
    for before, after in zip(_answers(case, model), _answers(case, again), strict=True):
        if before.dtype.kind in "OU":
            assert (before == after).all()
        else:
            np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-9)
