"""Model files: what a fitted estimator or pipeline needs to predict, and nothing that could run."""

import json
import os
import warnings
from collections.abc import Mapping
from typing import Any

import sklearn
from sklearn.base import BaseEstimator

from .._callers import user_stacklevel
from .._files import CorruptFile, read, write
from .._log import logger
from . import models, pipelines
from .rehearsal import rehearse
from .values import CannotSave, Packer, Unpacker, check_mapping

UNSOUND = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


def save(model, path: str | os.PathLike[str], extra: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to a file that `load` reads.

    The file holds numbers and texts only, with a checksum: loading it runs no code of the file's.
    It is written in one step, so that a crash or a full disk leaves the file that was there before.
    Kernels given by functions or by classes of your own cannot be stored so; use pickle, joblib or
    skops for them. Of `Precomputed` kernels the Gram matrices are not stored: the loaded model
    predicts from the matrices K(test, train).

    Parameters
    ----------
    model : fitted MKLClassifier, MKLRegressor or MKLOneClass, or Pipeline that ends in one
        The steps before may be scikit-learn's scalers, encoders, imputers and selectors, in
        ColumnTransformers too, and `MKLFeatureSelector`.
    path : path
    extra : dict, optional
        More to keep with the model; anything that JSON can hold. After loading it is the attribute
        ``extra_``.

    Raises
    ------
    CannotSave
        A TypeError: something that a file cannot hold safely; nothing is written.
    CannotWrite
        An OSError: what was there before still is.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from manykernels import MKLClassifier, load, save
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifier().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/iris.mk")
    ...     same = load(f"{folder}/iris.mk")
    >>> bool((same.predict(X) == model.predict(X)).all())
    True
    """
    model = pipelines.on_one_machine(model)
    pipelines.check_last(model, models.ESTIMATORS)
    packer = ModelPacker()
    content = packer.describe(model)
    content |= {"extra": _plain_json(extra), "scikit-learn": sklearn.__version__}
    # only now: whatever cannot be stored was refused before
    write(path, packer.arrays, content, "model")
    logger.info("saved %s to %s", type(model).__name__, path)


def load(path: str | os.PathLike[str]):
    """The fitted model of a file that `save` wrote.

    It predicts as it did before, and can be fitted again. Not in the file are the training data, so
    that ``result_.beta`` has the coefficients of the support vectors only, results of other starts,
    callbacks and the checkpoint's path; other parameters that could not be stored are named in
    ``unsaved_parameters_`` and have their default values. The attribute ``extra_`` is what was
    given to `save`.

    A file is data, never code: at worst it is refused.

    Parameters
    ----------
    path : path

    Returns
    -------
    MKLClassifier, MKLRegressor, MKLOneClass or Pipeline

    Raises
    ------
    CorruptFile
        A ValueError: the file is damaged, or not a model.

    Warns
    -----
    UserWarning
        If steps of a pipeline were fitted with another release of scikit-learn.
    """
    arrays, content = read(path, "model")
    return rebuilt(arrays, content, path)


def rebuilt(arrays, content, path):
    """The fitted model of what was read from a file."""
    try:
        model = ModelUnpacker(arrays).rebuild(content)
        model.extra_ = check_mapping(content["extra"], "What was kept with the model", str)
        pipelines.check_last(model, models.ESTIMATORS)
        rehearse(model)
    except CorruptFile as error:
        raise CorruptFile(f"{path} does not hold a sound model: {error}") from None
    except UNSOUND as error:
        raise CorruptFile(
            f"{path} does not hold a sound model ({type(error).__name__}: {error})."
        ) from error
    _warn_of_release(model, str(content.get("scikit-learn"))[:40], path)
    logger.info("loaded %s from %s", type(model).__name__, path)
    return model


class ModelPacker(Packer):
    """Packs estimators, too: ours by their state, scikit-learn's by what they have learned."""

    @property
    def classes(self):
        return super().classes | pipelines.HELPERS

    def describe(self, estimator):
        """An estimator as a mapping that JSON can hold."""
        part = models if type(estimator).__name__ in models.ESTIMATORS else pipelines
        return part.describe(estimator, self)

    def _pack_object(self, value, where):
        if isinstance(value, BaseEstimator) and not isinstance(value, type):
            return {"estimator": self.describe(value)}
        return super()._pack_object(value, where)


class ModelUnpacker(Unpacker):
    """Makes estimators, too."""

    kinds = (*Unpacker.kinds, "estimator")

    @property
    def classes(self):
        return super().classes | pipelines.HELPERS

    def rebuild(self, described, depth=0):
        """The estimator of a mapping."""
        part = models if described["estimator"] in models.ESTIMATORS else pipelines
        return part.rebuild(described, self, depth)

    def _estimator(self, content, depth):
        return self.rebuild(content, depth)


def _plain_json(extra):
    """Extra information, if JSON can hold it."""
    if extra is None:
        return {}
    try:
        return json.loads(json.dumps(dict(extra), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise CannotSave(
            f"extra must be a dictionary of texts, finite numbers, lists and dictionaries: {error}."
        ) from None


def _warn_of_release(model, release, path):
    if type(model).__name__ in models.ESTIMATORS or release == sklearn.__version__:
        return
    warnings.warn(
        f"The pipeline of {path} was fitted with scikit-learn {release}, and this is "
        f"{sklearn.__version__}: check its predictions, or install that release.",
        stacklevel=user_stacklevel(),
    )
