"""The learned kernel as a picture: which points it takes to be alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from ..kernels.points import as_points
from ..kernels.vector import dense
from .axes import axes
from .facts import fitted_model, training_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike
    from sklearn.base import BaseEstimator


class KernelHeatmapDisplay:
    """A kernel matrix with the points sorted by class.

    Parameters
    ----------
    K : (n, n) array
    labels : (n,) array
        Class of each point, sorted.
    title : str, optional

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, after `plot`
    """

    def __init__(self, K: np.ndarray, labels: np.ndarray, title: str | None = None) -> None:
        self.K, self.labels, self.title = K, labels, title

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        kernel: int | str | None = None,
        output: int = 0,
        max_points: int = 400,
        random_state: int | np.random.RandomState | None = 0,
        ax: Axes | None = None,
        **options: Any,
    ) -> KernelHeatmapDisplay:
        """Draw the learned combination of the kernels, or one of them, on (a sample of) the
        training points.

        Parameters
        ----------
        estimator : fitted MKL estimator
        X, y : the training data, optional
            Points are sorted by y if they are given, else by the model's own decision. A low-rank
            model keeps no training points and needs X; it takes any.
        kernel : int or str, optional
            Number or name of one kernel; the combination by default.
        output : int
            Whose weights to take where every output has its own.
        max_points : int
            Larger data are sampled.
        random_state : int, RandomState or None
            Of the sample.
        ax : matplotlib axes, optional
        options
            For matplotlib's ``imshow``.

        Returns
        -------
        KernelHeatmapDisplay
        """
        model = fitted_model(estimator)
        weights, title = _chosen(model, kernel, output)
        if not model.decision_.approximate:
            n, labels = model.bank_.n, _labels(model, X, y)
            rows = _sorted_sample(n, labels, max_points, random_state)
            K = np.asarray(model.bank_.combine(weights, rows))[:, rows]
        else:
            K, labels, rows = _low_rank(model, X, y, weights, max_points, random_state)
        return cls(K, labels[rows], title).plot(ax, **options)

    def plot(self, ax: Axes | None = None, **options: Any) -> KernelHeatmapDisplay:
        """Draw, on new axes if none are given."""
        self.ax_ = axes(ax, width=6.2, height=5.2)
        self.figure_ = self.ax_.figure
        self.ax_.spines[:].set_visible(False)
        # a few entries far out, as those of a polynomial, would leave all others in one color
        low, high = np.percentile(self.K, [1, 99])
        shades = {"vmin": min(low, 0.0) if low < 0 else 0.0, "vmax": high} if high > low else {}
        image = self.ax_.imshow(
            self.K, **({"cmap": "viridis", "interpolation": "nearest"} | shades | options)
        )
        self.figure_.colorbar(image, ax=self.ax_, shrink=0.85, label="kernel value")
        names, starts, counts = np.unique(self.labels, return_index=True, return_counts=True)
        for start in starts[1:]:
            self.ax_.axhline(start - 0.5, color="w", linewidth=0.8)
            self.ax_.axvline(start - 0.5, color="w", linewidth=0.8)
        words = [f"{name}\n({count})" for name, count in zip(names, counts, strict=True)]
        self.ax_.set_xticks(starts + (counts - 1) / 2, words, fontsize="small")
        self.ax_.set_yticks(starts + (counts - 1) / 2, names, fontsize="small")
        self.ax_.tick_params(length=0)
        self.ax_.set_title(self.title or "", loc="left", fontsize="medium")
        return self


def _chosen(model, kernel, output):
    """Weights to draw with, (m,), and the title."""
    weights = np.atleast_2d(model.kernel_weights_)
    weights = weights[output if len(weights) > 1 else 0]
    if kernel is None:
        return weights, "The learned kernel"
    names = model.bank_.names
    if isinstance(kernel, str):
        if kernel not in names:
            raise ValueError(f"There is no kernel named {kernel!r}; see kernel_names_.")
        kernel = list(names).index(kernel)
    if not model.bank_.is_sum:
        raise ValueError(
            "This combination is not a sum, so its parts cannot be shown by themselves: leave "
            "kernel=None."
        )
    return np.eye(1, weights.size, range(weights.size)[kernel])[0], names[kernel]


def _labels(model, X, y):
    """What the points of the bank are sorted by: their class, or the side of the decision that they
    are on.
    """
    if (X is None) != (y is None):
        raise ValueError("Give X and y of the training data together, or neither of them.")
    if X is None:
        return _decided(model, model.result_.intercept[:, None] + _training_scores(model))
    rows, y = training_rows(model, X, y), np.asarray(y)
    if rows is None:
        raise ValueError(
            "X and y are not the data that this model was trained on; leave them out to sort by "
            "its decision."
        )
    return (
        y[rows]
        if hasattr(model, "classes_") or hasattr(model, "nu")
        else _sides(y[rows].reshape(len(rows), -1)[:, 0])
    )


def _training_scores(model):
    result, bank = model.result_, model.bank_
    if result.weights.ndim == 1:
        return np.atleast_2d(bank.decision(result.weights, result.beta))
    return np.stack([bank.decision(w, b) for w, b in zip(result.weights, result.beta, strict=True)])


def _decided(model, scores):
    """The class that each point is put into, or its side of the median of a regression."""
    if hasattr(model, "classes_"):
        return model.classes_from_scores(scores)
    if hasattr(model, "nu"):
        return np.where(scores[0] >= 0, "inside", "outside")
    return _sides(scores[0])


def _sides(values):
    return np.where(values > np.median(values), "high", "low")


def _sorted_sample(n, labels, most, random_state):
    rows = np.arange(n)
    if n > most:
        rows = np.sort(check_random_state(random_state).choice(n, most, replace=False))
    return rows[np.argsort(labels[rows], kind="stable")]


def _low_rank(model, X, y, weights, most, random_state):
    """The matrix, labels of all points and the rows chosen, from the factors of the points."""
    if X is None:
        raise ValueError(
            "A low-rank model keeps no training points: give X (and y) to draw its kernel on."
        )
    labels = np.asarray(model.predict(X) if y is None else y)
    X, categories = model._read_new(X)
    features = model.bank_.with_categories(categories) if categories else model.bank_
    rows = _sorted_sample(X.shape[0], labels, most, random_state)
    if not features.is_sum:
        V = features.block(dense(X[rows]), weights).astype(float)
        return V @ V.T, labels, rows
    V = features.block(as_points(X)[rows]).astype(float)
    return (V * np.repeat(weights, np.diff(model.bank_.offsets))) @ V.T, labels, rows
