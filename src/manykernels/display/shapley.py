"""Shapley values of the columns as pictures: of all rows, and of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..estimators import ShapleyValues, shapley_values
from .axes import OTHERS, PALETTE, axes, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST = 40  # letters of a column's name
LOW, HIGH = PALETTE[0], PALETTE[1]  # of the values of a column, and of what it does to the decision
BINS = 60  # places along an axis within which points are put above each other
WIDTH = 0.8  # of a swarm, in lines


class BeeswarmDisplay:
    """What every column adds to the decision at every row: a line of points for each of the
    largest, colored by the value of the column.

    Parameters
    ----------
    shapley : ShapleyValues
    output : int or str, optional
        Which of several, the first by default.
    max_features : int
        Columns to show, those with the largest mean absolute value.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, after `plot`
    """

    def __init__(
        self, shapley: ShapleyValues, output: int | str | None = None, max_features: int = 15
    ) -> None:
        self.shapley, self.max_features = shapley.output(output), max_features

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        background: Any = None,
        output: int | str | None = None,
        max_features: int = 15,
        ax: Axes | None = None,
        **options: Any,
    ) -> BeeswarmDisplay:
        """Draw the `shapley_values` of a fitted model at some rows.

        Parameters
        ----------
        estimator, X, background
            As for `manykernels.shapley_values`.
        output, max_features
            As for `BeeswarmDisplay`.
        ax : matplotlib axes, optional
        options
            For matplotlib's ``scatter``.

        Returns
        -------
        BeeswarmDisplay
        """
        found = shapley_values(estimator, X, background=background)
        return cls(found, output, max_features).plot(ax, **options)

    def plot(self, ax: Axes | None = None, **options: Any) -> BeeswarmDisplay:
        """Draw, on new axes if none are given."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import LinearSegmentedColormap

        found = self.shapley
        shown = np.argsort(-found.mean_sizes(), kind="stable")[: self.max_features]
        self.ax_ = axes(ax, height=1.2 + 0.36 * max(shown.size, 3), width=7.5)
        self.figure_ = self.ax_.figure
        between = LinearSegmentedColormap.from_list("values", [LOW, "#b9a7b0", HIGH])
        colors = between.with_extremes(bad=OTHERS)
        span = np.ptp(found.values[:, shown]) or 1.0
        self.ax_.axvline(0.0, color="0.6", linewidth=1)
        for place, f in enumerate(shown):
            heights = place + _swarm(found.values[:, f], span)
            shades = colors(np.ma.masked_invalid(colored(found.data[:, f])))
            style = {"c": shades, "s": 14, "linewidths": 0} | options
            self.ax_.scatter(found.values[:, f], heights, **style)
        names = [shortened(found.feature_names[f], LONGEST) for f in shown]
        self.ax_.set_yticks(np.arange(shown.size), names)
        self.ax_.set_ylim(shown.size - 0.4, -0.6)
        self.ax_.tick_params(axis="y", length=0)
        self.ax_.set_xlabel(f"what the column adds to the {_decision(found)}")
        bar = self.figure_.colorbar(
            ScalarMappable(cmap=colors), ax=self.ax_, ticks=[0.0, 1.0], aspect=40, pad=0.02
        )
        bar.ax.set_yticklabels(["low", "high"])
        bar.set_label("value of the column", labelpad=-18)
        bar.outline.set_visible(False)
        return self


class WaterfallDisplay:
    """From the base value to the decision at one row: what every column adds, largest first.

    Parameters
    ----------
    shapley : ShapleyValues
    row : int
        Number of the row.
    output : int or str, optional
        Which of several, the first by default.
    max_features : int
        Columns with a bar of their own; the others share one.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, after `plot`
    """

    def __init__(
        self,
        shapley: ShapleyValues,
        row: int = 0,
        output: int | str | None = None,
        max_features: int = 10,
    ) -> None:
        self.shapley, self.row = shapley.output(output), row
        self.max_features = max_features

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        background: Any = None,
        row: int = 0,
        output: int | str | None = None,
        max_features: int = 10,
        ax: Axes | None = None,
        **options: Any,
    ) -> WaterfallDisplay:
        """Draw the `shapley_values` of a fitted model at one row.

        Parameters
        ----------
        estimator, X, background
            As for `manykernels.shapley_values`.
        row, output, max_features
            As for `WaterfallDisplay`.
        ax : matplotlib axes, optional
        options
            For matplotlib's ``barh``.

        Returns
        -------
        WaterfallDisplay
        """
        found = shapley_values(estimator, X, background=background)
        return cls(found, row, output, max_features).plot(ax, **options)

    def plot(self, ax: Axes | None = None, **options: Any) -> WaterfallDisplay:
        """Draw, on new axes if none are given."""
        found, base = self.shapley, self.shapley.base_values[self.row]
        names, steps = self._steps()
        ends = base + np.cumsum(steps)
        self.ax_ = axes(ax, height=1.6 + 0.36 * max(len(names), 3), width=7.5)
        self.figure_, places = self.ax_.figure, np.arange(len(names))
        colors = [HIGH if step > 0 else LOW for step in steps]
        style = {"color": colors, "height": 0.66} | options
        bars = self.ax_.barh(places, steps, left=ends - steps, **style)
        for place, end in enumerate(ends[:-1]):
            self.ax_.plot([end, end], [place, place + 1], color="0.6", linewidth=0.8)
        words = [f"{step:+.2g}" for step in steps]
        self.ax_.bar_label(bars, words, padding=4, fontsize="small", color="0.35")
        self.ax_.axvline(base, color="0.6", linewidth=1, linestyle="--")
        self.ax_.set_yticks(places, names)
        self.ax_.set_ylim(len(names) - 0.4, -0.6)
        self.ax_.tick_params(axis="y", length=0)
        # bars have no margins of their own, and their numbers need some
        low, high = min(base, ends.min()), max(base, ends.max())
        self.ax_.set_xlim(low - 0.14 * (high - low), high + 0.14 * (high - low))
        self.ax_.set_xlabel(_decision(found))
        title = f"from {base:.3g} (no column) to {ends[-1]:.3g}"
        self.ax_.set_title(title, loc="left", fontsize="medium")
        return self

    def _steps(self):
        """Names and values of the bars, largest first."""
        found, values = self.shapley, self.shapley.values[self.row]
        order = np.argsort(-np.abs(values), kind="stable")
        shown, left = order[: self.max_features], order[self.max_features :]
        names = [
            f"{shortened(found.feature_names[f], LONGEST)} = {found.data[self.row, f]:.4g}"
            for f in shown
        ]
        steps = values[shown]
        if left.size:
            names, steps = [*names, f"{left.size} others"], np.append(steps, values[left].sum())
        return names, steps


def _decision(found):
    of = found.output_names
    return f"decision, {of[0]}" if len(of) == 1 else "decision"


def _swarm(values, span):
    """Heights of points that would lie on each other, around zero, (n,)."""
    bins = np.floor(values / span * BINS).astype(int)
    heights = np.zeros(values.size)
    _, codes, counts = np.unique(bins, return_inverse=True, return_counts=True)
    for number in np.flatnonzero(counts > 1):
        here = np.flatnonzero(codes.ravel() == number)
        # alternately above and below
        heights[here] = (np.arange(here.size) + 1) // 2 * np.where(np.arange(here.size) % 2, 1, -1)
    farthest = max(float(np.abs(heights).max(initial=0.0)), 4.0)
    return 0.5 * WIDTH * heights / farthest


def colored(column):
    """A column between zero and one, by its 5 % and 95 % quantiles."""
    column = np.asarray(column, dtype=float)
    if np.isnan(column).all():
        return column
    low, high = np.nanquantile(column, [0.05, 0.95])
    return np.clip((column - low) / ((high - low) or 1.0), 0.0, 1.0)
