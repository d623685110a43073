"""Scores of a tuned model against C and p as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .axes import PALETTE, axes
from .facts import Surface

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator


class TuningDisplay:
    """Mean score on held-out folds against C, a line for every p, with standard errors.

    Parameters
    ----------
    costs, norms : (c,) and (p,) arrays
    means, errors : (c, p) arrays
        Mean scores and their standard errors.
    chosen : (C, p), as numbers in the two lists

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, after `plot`
    """

    def __init__(
        self,
        costs: np.ndarray,
        norms: np.ndarray,
        means: np.ndarray,
        errors: np.ndarray,
        chosen: tuple[int, int],
    ) -> None:
        self.costs, self.norms, self.means, self.errors = costs, norms, means, errors
        self.chosen = chosen

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, ax: Axes | None = None, **options: Any
    ) -> TuningDisplay:
        """Draw the scores of a fitted MKLClassifierCV or MKLRegressorCV, or of a pipeline that ends
        in one.

        Parameters
        ----------
        estimator : fitted estimator
        ax : matplotlib axes, optional
        options
            For matplotlib's ``errorbar``.

        Returns
        -------
        TuningDisplay
        """
        return cls(*Surface.of(estimator)).plot(ax, **options)

    def plot(self, ax: Axes | None = None, **options: Any) -> TuningDisplay:
        """Draw, on new axes if none are given."""
        self.ax_ = axes(ax)
        self.figure_ = self.ax_.figure
        options = {"marker": "o", "markersize": 4, "capsize": 2, "elinewidth": 1} | options
        for place, norm in enumerate(self.norms):
            # beside each other, so that the bars can be told apart
            shift = 1.03 ** (place - 0.5 * (len(self.norms) - 1))
            self.ax_.errorbar(
                self.costs * shift,
                self.means[:, place],
                self.errors[:, place],
                **(
                    {
                        "color": PALETTE[place % len(PALETTE)],
                        "label": f"p = {norm:g}".replace("inf", "∞"),
                    }
                    | options
                ),
            )
        cost, norm = self.chosen
        self.ax_.plot(
            self.costs[cost],
            self.means[cost, norm],
            marker="*",
            markersize=16,
            color="none",
            markeredgecolor="black",
            linestyle="none",
            label="chosen",
        )
        self.ax_.set_xscale("log")
        self.ax_.set(xlabel="C", ylabel="mean score on held-out folds")
        self.ax_.legend(frameon=False, fontsize="small")
        return self
