"""Predictions from a model file, without the estimator that wrote it.

An estimator is scikit-learn's, whose import alone takes longer than a second, and its solvers are
compiled. A service or a script that only predicts needs the support vectors and NumPy.
"""

import os
from functools import cached_property
from typing import Any

import numpy as np

from .._files import read
from .._log import logger
from .._threads import FEW_ENTRIES, Threads, thread_count
from ..banks.packed import Expansion, PackedExpansion, can_pack
from ..estimators import outcomes
from ..estimators.data.plain import plain_rows
from ..estimators.data.units import in_units
from ..thresholds import thresholds
from .learned import by_column, check_columns, check_table
from .specs import Columns, check_spec, rebuild_points, rebuild_spec
from .values import KERNELS, Unpacker, check_array, check_indices, check_mapping, require

UNSOUND = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
TASKS = {
    "MKLClassifier": "classifier",
    "MKLClassifierCV": "classifier",
    "MKLRegressor": "regressor",
    "MKLRegressorCV": "regressor",
    "MKLOneClass": "one class",
}
# what reading rows asks of a model
COLUMNS = (
    "n_features_in_",
    "feature_names_in_",
    "categories_",
    "date_columns_",
    "feature_medians_",
    "feature_means_",
    "feature_spreads_",
)
ONE_THREAD = Threads(1)


class Predictor:
    """What a model file predicts, ready in a fraction of the time that `manykernels.load` takes.

    For processes that only predict: neither scikit-learn nor compiled loops are imported where an
    exact sum of kernels meets arrays, or data frames with the columns of the training rows. For
    everything else (pipelines of several steps, low rank, missing views, combinations that are not
    sums, sparse tables, strings, rows with errors, very many rows) the estimator itself is loaded
    when it is first needed, and answers. Predictions are those of the estimator, to rounding.

    Any number of threads may use one predictor.

    Parameters
    ----------
    path : path
        A file that `manykernels.save` or ``manykernels train`` wrote.

    Attributes
    ----------
    classes_ : array, of classifiers
    n_features_in_ : int
    feature_names_in_ : array of str, for models of data frames
    categories_ : dict from column to list
        What the columns of strings and categories held in training.
    extra_ : dict
        What was given to `save`.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from manykernels import MKLClassifier, Predictor, save
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(MKLClassifier().fit(X, y), f"{folder}/iris.mk")
    ...     predictor = Predictor(f"{folder}/iris.mk")
    >>> predictor.predict(X[:2]).tolist()
    [0, 0]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        arrays, content = read(path, "model")
        self._read = arrays, content
        self._light: _Light | None = None
        try:
            self._light = _Light.of(_last(content), KernelUnpacker(arrays))
            self.extra_ = check_mapping(content["extra"], "What was kept with the model", str)
        except UNSOUND as reason:  # the estimator serves it, or says what is wrong with the file
            logger.info("%s is served by its estimator (%s)", path, reason)
            self.extra_ = self.model.extra_
        if self._light is not None:
            logger.info("loaded %s for predictions alone", path)
        for name in ("n_features_in_", "feature_names_in_", "categories_", "classes_"):
            if self._light is not None and name in self._light.learned:
                setattr(self, name, self._light.learned[name])
            elif self._light is None and hasattr(self.model, name):
                setattr(self, name, getattr(self.model, name))

    @property
    def is_light(self) -> bool:
        """True if the file is served without its estimator."""
        return self._light is not None

    @property
    def task(self) -> str:
        """What the model does: "classifier", "regressor" or "one class"."""
        return TASKS[_last(self._read[1])["estimator"]]

    @cached_property
    def model(self) -> Any:
        """The estimator or pipeline of the file, made when it is first asked for."""
        from .files import rebuilt

        arrays, content = self._read
        return rebuilt(arrays, content, self.path)

    def predict(self, X: Any) -> np.ndarray:
        """The predictions of the model, as its own ``predict`` gives them.

        Parameters
        ----------
        X : as for the model
        """
        light, scores = self._scores(X)
        return self.model.predict(X) if scores is None else light.predictions(scores)

    @property
    def decision_function(self) -> Any:
        """A function from rows to decision values, for classifiers and novelty detection."""
        if self._light is None:
            return self.model.decision_function
        if self._light.task == "regressor":
            raise AttributeError("Regression has no decision function; use predict.")
        return self._decision_function

    @property
    def predict_proba(self) -> Any:
        """A function from rows to probabilities of all classes, where the model has some."""
        if self._light is None:
            return self.model.predict_proba
        if self._light.probabilities is None:
            raise AttributeError(
                "This model has no probabilities: train with loss='logistic' or MKLClassifierCV."
            )
        return self._predict_proba

    def _decision_function(self, X: Any) -> np.ndarray:
        light, scores = self._scores(X)
        return self.model.decision_function(X) if scores is None else light.values(scores)

    def _predict_proba(self, X: Any) -> np.ndarray:
        light, scores = self._scores(X)
        return self.model.predict_proba(X) if scores is None else light.probabilities(scores)

    def _scores(self, X: Any) -> tuple[Any, np.ndarray | None]:
        """What answers, and decision values of every output, (t, n_new), or None where the
        estimator is needed.
        """
        light = self._light
        rows = None if light is None else plain_rows(light, X)
        return light, None if light is None or rows is None else light.scores(rows[0])


class KernelUnpacker(Unpacker):
    """Makes kernels, and nothing else."""

    @property
    def classes(self) -> dict[str, Any]:
        return KERNELS


class _Light:
    """An exact sum of kernels at dense support vectors, with what was learned of the columns as
    attributes.

    Attributes
    ----------
    task : {"classifier", "regressor", "one class"}
    learned : dict
    probabilities : callable or None
        From scores (t, n) to (n, n_classes).
    """

    def __init__(self, task: str, learned: dict[str, Any], packed: PackedExpansion) -> None:
        self.task, self.learned, self.packed = task, learned, packed
        vars(self).update({name: value for name, value in learned.items() if name in COLUMNS})
        self.intercept, self.multiclass = learned["intercept_"], "ovr"
        self.probabilities: Any = None

    @classmethod
    def of(cls, described: Any, unpacker: Unpacker) -> "_Light":
        """That of the description of a model; raise for any other model."""
        learned = unpacker.unpack(described["learned"])
        check_columns(learned)
        check_table(learned)
        expansion = _expansion(described, learned, unpacker)
        made = cls(TASKS[described["estimator"]], learned, PackedExpansion(expansion))
        if made.task == "classifier":
            made._set_probabilities(described)
        found = made.packed.scores(expansion.points[:1], ONE_THREAD)
        require(np.isfinite(found).all(), "Decision values are not finite.")
        return made

    def _set_probabilities(self, described: Any) -> None:
        loss, self.multiclass = (described["parameters"][name] for name in ("loss", "multiclass"))
        require(isinstance(loss, str), "The loss is one of its own.")
        if self.multiclass != "ovr":
            return
        if not described["estimator"].endswith("CV"):
            if loss == "logistic":
                self.probabilities = lambda scores: np.exp(outcomes.log_probabilities(scores))
            return
        kind, tables = (self.learned[f"calibration_{name}_"] for name in ("kind", "table"))
        if tables is not None:
            self.probabilities = lambda scores: outcomes.calibrated(scores, kind, tables)

    def scores(self, X: np.ndarray) -> np.ndarray | None:
        """Decision values of every output, (t, n_new); None for so many rows that compiled loops
        pay.
        """
        entries = len(X) * self.packed.entries
        if entries > thresholds().unloaded_entries:
            return None
        threads = ONE_THREAD if entries < FEW_ENTRIES else Threads(thread_count())
        return self.packed.scores(in_units(self, X), threads) + self.intercept[:, None]

    def values(self, scores: np.ndarray) -> np.ndarray:
        """What `decision_function` gives."""
        if self.task == "one class":
            return scores[0]
        return outcomes.values_by_class(scores, self.learned["classes_"].size, self.multiclass)

    def predictions(self, scores: np.ndarray) -> np.ndarray:
        """What `predict` gives."""
        if self.task == "regressor":
            return scores[0] if self.learned["_y_ndim_"] == 1 else scores.T
        if self.task == "one class":
            return np.where(scores[0] >= 0.0, 1, -1)
        if self.probabilities is not None:
            return self.learned["classes_"][self.probabilities(scores).argmax(axis=1)]
        return self.learned["classes_"][outcomes.likeliest(self.values(scores))]


def _last(content: Any) -> Any:
    """The description of the model, which may be a pipeline of one step."""
    if content["estimator"] != "Pipeline":
        return content
    ((_, step),) = (one["tuple"] for one in content["parameters"]["steps"])
    return step["estimator"]


def _expansion(described: Any, learned: dict[str, Any], unpacker: Unpacker) -> Expansion:
    bank = unpacker.unpack(described["bank"])
    require(bank["kind"] == "TiledBank", "It is no exact sum of kernels.")
    columns = Columns(learned["n_features_in_"], learned.get("feature_names_in_"))
    points, spec = rebuild_points(bank["points"], columns.size), rebuild_spec(bank, columns)
    require(can_pack(spec, points) and not spec.needs_grams, "Its rows are no plain numbers.")
    check_spec(spec, points)
    require(by_column(learned) == spec.categories, "The categories have other codes.")
    decision = unpacker.unpack(described["decision"])
    support = check_indices(decision["support"], "The decision's support", len(points))
    outputs = check_array(learned["intercept_"], "The intercepts", (None,)).size
    beta = check_array(decision["beta"], "The decision's beta", (outputs, support.size))
    weights = np.atleast_2d(unpacker.unpack(described["result"])["weights"])
    check_array(weights, "The weights", (None, spec.m))
    require(len(weights) in (1, outputs), "There are weights of other outputs.")
    return Expansion(spec, points[support], weights, beta)
