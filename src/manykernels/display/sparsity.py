"""Objective, bound and held-out score against the number of kernels or groups, as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..estimators import SparsityPath, sparsity_path
from .axes import OTHERS, PALETTE, axes, pyplot
from .path import SCORES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike
    from sklearn.base import BaseEstimator


class SparsityDisplay:
    """The best objective and what is proven of it against k, and held-out scores below.

    Parameters
    ----------
    path : SparsityPath

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, after `plot`
    score_ax_ : matplotlib axes of the scores, or None
    """

    def __init__(self, path: SparsityPath) -> None:
        self.path = path

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: Any,
        y: ArrayLike,
        k: int | Sequence[int] | None = None,
        *,
        ax: Axes | Sequence[Axes] | None = None,
        **options: Any,
    ) -> SparsityDisplay:
        """Find the best subsets of every size and draw; see `manykernels.sparsity_path`.

        Parameters
        ----------
        estimator : MKLClassifier or MKLRegressor
        X, y, k : as for `manykernels.sparsity_path`
        ax : matplotlib axes, or two of them, optional
            The second is for the scores.
        options
            For `manykernels.sparsity_path`.

        Returns
        -------
        SparsityDisplay
        """
        return cls.from_path(sparsity_path(estimator, X, y, k, **options), ax=ax)

    @classmethod
    def from_path(
        cls, path: SparsityPath, *, ax: Axes | Sequence[Axes] | None = None, **options: Any
    ) -> SparsityDisplay:
        """Draw what `manykernels.sparsity_path` found.

        Parameters
        ----------
        path : SparsityPath
        ax : matplotlib axes, or two of them, optional
        options
            For matplotlib's ``plot``.

        Returns
        -------
        SparsityDisplay
        """
        return cls(path).plot(ax, **options)

    def plot(self, ax: Axes | Sequence[Axes] | None = None, **options: Any) -> SparsityDisplay:
        """Draw, on new axes if none are given."""
        found = self.path
        self.ax_, self.score_ax_ = self._axes(ax)
        self.figure_ = self.ax_.figure
        options = {"marker": "o", "markersize": 4, "linewidth": 1.8, "color": PALETTE[0]} | options
        self.ax_.plot(found.k, found.objectives, label="objective", **options)
        bounds = np.maximum(found.bounds, 0.0)
        self.ax_.fill_between(found.k, bounds, found.objectives, color=OTHERS, alpha=0.35)
        style = {"color": OTHERS, "linestyle": "--", "linewidth": 1.2}
        self.ax_.plot(found.k, bounds, label="proven bound", **style)
        self.ax_.set_ylabel("objective")
        self.ax_.legend(frameon=False, fontsize="small")
        bottom = self.ax_
        if self.score_ax_ is not None:
            self._draw_scores()
            bottom = self.score_ax_
        bottom.set_xlabel(f"{found.what} with weight, at most")
        bottom.set_xticks(found.k)
        return self

    def _axes(self, ax):
        if ax is not None:
            upper, *lower = np.atleast_1d(ax)
            return axes(upper), axes(lower[0]) if lower and self.path.scores is not None else None
        if self.path.scores is None:
            return axes(None, height=3.6, width=5.6), None
        _, (upper, lower) = pyplot().subplots(
            2, sharex=True, figsize=(5.6, 5.6), layout="constrained"
        )
        return axes(upper), axes(lower)

    def _draw_scores(self):
        found, ax = self.path, self.score_ax_
        look = {"color": "black", "marker": "o", "markersize": 4, "linewidth": 1.2, "capsize": 3}
        ax.errorbar(found.k, found.means, found.errors, **look)
        place = found.models.index(found.simplest)
        text = f"simplest within one standard error: {found.k[place]}"
        ax.axvline(found.k[place], color="black", linewidth=1, zorder=0, label=text)
        ax.set_ylabel(f"{SCORES.get(found.scoring, found.scoring)}, held out")
        ax.legend(frameon=False, fontsize="small")
