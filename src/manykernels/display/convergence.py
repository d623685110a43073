"""The way of a fit to its optimum as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .axes import PALETTE, axes
from .facts import fitted_model
from .runs import Run, from_zero, has_gap, runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator

AGAINST = {"seconds": "seconds", "iterations": "iterations", "svm_solves": "SVM solves"}
SMALLEST = 1e-16  # gap that a logarithmic axis can show


class ConvergenceDisplay:
    """Relative duality gap, or objective, against seconds or iterations.

    Parameters
    ----------
    lines : list of Run
    tol : float, optional
        The gap that was to be reached.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, after `plot`
    """

    def __init__(self, lines: list[Run], tol: float | None = None) -> None:
        self.lines, self.tol = lines, tol

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        show: str = "auto",
        against: str = "seconds",
        ax: Axes | None = None,
        **options: Any,
    ) -> ConvergenceDisplay:
        """Draw the convergence of a fitted estimator.

        Parameters
        ----------
        estimator : fitted MKL estimator, or a pipeline or search that ends in one
        show : {"auto", "gap", "objective"}
            ``"auto"`` is the gap, or the objective for formulations without a gap.
        against : {"seconds", "iterations", "svm_solves"}
        ax : matplotlib axes, optional
        options
            For matplotlib's ``plot``.

        Returns
        -------
        ConvergenceDisplay
        """
        model = fitted_model(estimator)
        return cls(runs(model), model.tol).plot(ax, show=show, against=against, **options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        show: str = "auto",
        against: str = "seconds",
        **options: Any,
    ) -> ConvergenceDisplay:
        """Draw, on new axes if none are given."""
        if against not in AGAINST:
            raise ValueError(
                f"against={against!r} is not known; use {', '.join(map(repr, AGAINST))}."
            )
        if show not in ("auto", "gap", "objective"):
            raise ValueError(f"show={show!r} is not known; use 'auto', 'gap' or 'objective'.")
        if not self.lines:
            raise ValueError(
                "This model has no history of its fit (it was not kept in its file); fit it again "
                "to see one."
            )
        gap = show == "gap" or (show == "auto" and has_gap(self.lines))
        if gap and not has_gap(self.lines):
            raise ValueError("This formulation has no duality gap; use show='objective'.")
        self.ax_ = axes(ax, height=4.2)
        self.figure_ = self.ax_.figure
        for place, run in enumerate(self.lines):
            self._draw(run, gap, against, {"color": PALETTE[place % len(PALETTE)]} | options)
        self._describe(gap, against)
        return self

    def _draw(self, run, gap, against, options):
        """The line of the best so far, and a faint point for every step."""
        x = getattr(run, against)
        steps = run.gaps if gap else run.objectives
        best = run.best_gaps if gap else np.fmin.accumulate(run.objectives)
        steps, best = (
            np.where(np.isfinite(y), np.maximum(y, SMALLEST) if gap else y, np.nan)
            for y in (steps, best)
        )
        (line,) = self.ax_.plot(
            x, best, **({"drawstyle": "steps-post", "label": run.name or None} | options)
        )
        self.ax_.plot(
            x, steps, "o", markersize=3 if len(x) < 100 else 1.5, alpha=0.5, color=line.get_color()
        )

    def _describe(self, gap, against):
        self.ax_.set(xlabel=AGAINST[against], ylabel="relative duality gap" if gap else "objective")
        if from_zero(self.lines, against):
            self.ax_.set_xlim(left=0)
        if gap:
            self.ax_.set_yscale("log")
            if self.tol is not None:
                self.ax_.axhline(self.tol, color="0.5", linestyle="--", linewidth=1)
                self.ax_.annotate(
                    "tolerance",
                    (0.01, self.tol),
                    xycoords=("axes fraction", "data"),
                    va="bottom",
                    color="0.4",
                )
        if 1 < len(self.lines) <= len(PALETTE):
            self.ax_.legend(frameon=False, fontsize="small")
