"""Shapley values of the columns as pictures: of all rows, and of one."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..estimators import ShapleyValues, shapley_values
from .axes import OTHERS, PALETTE, axes, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST = 40  # letters of a column's name
LOW, HIGH = PALETTE[0], PALETTE[1]  # of the values of a column, and of what it does to the decision
BINS = 60  # places along an axis within which points are put above each other
WIDTH = 0.8  # of a swarm, in lines


class ShapleyDisplay:
    """What the pictures of Shapley values have in common.

    Parameters
    ----------
    shapley : ShapleyValues
    output : int or str, optional
        Which of several classes or targets, by its number or its name; the first by default. The
        picture names it.
    max_features : int
        Columns to show.
    """

    def __init__(
        self, shapley: ShapleyValues, output: int | str | None = None, max_features: int = 10
    ) -> None:
        self.shapley, self.max_features = shapley.output(output), max_features
        of, named = shapley.output_names, self.shapley.output_names[0]
        which = f", {named}" + (f" (one of {len(of)})" if len(of) > 1 else "")
        self._decision = f"decision{which}"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        background: Any = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw the `shapley_values` of a fitted model.

        Parameters
        ----------
        estimator, X, background
            As for `manykernels.shapley_values`.
        ax : matplotlib axes, optional
        options
            Parameters of the display, such as ``output``, and of its `plot`.

        Returns
        -------
        The display.
        """
        own = {name: options.pop(name) for name in signature(cls).parameters if name in options}
        return cls(shapley_values(estimator, X, background=background), **own).plot(ax, **options)

    def plot(self, ax: Axes | None = None, **options: Any) -> Self:
        """Draw, on new axes if none are given."""
        raise NotImplementedError


class BeeswarmDisplay(ShapleyDisplay):
    """What every column adds to the decision at every row: a line of points for each of the
    largest, colored by the value of the column. Words have no order to be colored by: their names
    stand beside the column, in the order of what they add on average, from left to right; beside
    dates are the first and the last.

    Parameters
    ----------
    shapley : ShapleyValues
    output : int or str, optional
        Which of several classes or targets, by its number or its name; the first by default. The
        picture names it.
    max_features : int
        Columns to show, those with the largest mean absolute value.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, after `plot`
    """

    def __init__(
        self, shapley: ShapleyValues, output: int | str | None = None, max_features: int = 15
    ) -> None:
        super().__init__(shapley, output, max_features)

    def plot(self, ax: Axes | None = None, **options: Any) -> Self:
        """Draw, on new axes if none are given; options are for matplotlib's ``scatter``."""
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
            drawn = colors(np.ma.masked_invalid(shades(found, f)))
            style = {"c": drawn, "s": 14, "linewidths": 0} | options
            self.ax_.scatter(found.values[:, f], heights, **style)
        names = [shortened(label(found, f), LONGEST) for f in shown]
        self.ax_.set_yticks(np.arange(shown.size), names)
        self.ax_.set_ylim(shown.size - 0.4, -0.6)
        self.ax_.tick_params(axis="y", length=0)
        self.ax_.set_xlabel(f"what the column adds to the {self._decision}\n{found.game}")
        bar = self.figure_.colorbar(
            ScalarMappable(cmap=colors), ax=self.ax_, ticks=[0.0, 1.0], aspect=40, pad=0.02
        )
        bar.ax.set_yticklabels(["low", "high"])
        bar.set_label("value of the column", labelpad=-18)
        bar.outline.set_visible(False)
        return self


class WaterfallDisplay(ShapleyDisplay):
    """From the base value to the decision at one row: what every column adds, largest first.

    Parameters
    ----------
    shapley : ShapleyValues
    row : int
        Number of the row.
    output : int or str, optional
        Which of several classes or targets, by its number or its name; the first by default. The
        picture names it.
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
        super().__init__(shapley, output, max_features)
        self.row = row

    def plot(self, ax: Axes | None = None, **options: Any) -> Self:
        """Draw, on new axes if none are given; options are for matplotlib's ``barh``."""
        base = self.shapley.base_values[self.row]
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
        self.ax_.set_xlabel(f"{self._decision}\n{self.shapley.game}")
        title = f"from {base:.3g} (no column known) to {ends[-1]:.3g}"
        self.ax_.set_title(title, loc="left", fontsize="medium")
        return self

    def _steps(self):
        """Names and values of the bars, largest first."""
        found, values = self.shapley, self.shapley.values[self.row]
        order = np.argsort(-np.abs(values), kind="stable")
        shown, left = order[: self.max_features], order[self.max_features :]
        names = [
            f"{shortened(found.feature_names[f], LONGEST)} = "
            f"{shortened(found.entry(self.row, f), LONGEST)}"
            for f in shown
        ]
        steps = values[shown]
        if left.size:
            names, steps = [*names, f"{left.size} others"], np.append(steps, values[left].sum())
        return names, steps


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


def label(found, column):
    """The name of a column, with its words in the order of what they add on average, or its first
    and last date.
    """
    name, entries = found.feature_names[column], found.data[:, column]
    known = ~np.isnan(entries)
    if column in found.categories:
        codes = np.unique(entries[known])
        means = [found.values[entries == code, column].mean() for code in codes]
        rows = [np.flatnonzero(entries == code)[0] for code in codes[np.argsort(means)]]
        return f"{name}: {', '.join(found.entry(row, column) for row in rows)}"
    if column in found.dates and known.any():
        ends = [found.entry(of(entries), column) for of in (np.nanargmin, np.nanargmax)]
        return f"{name}: {' to '.join(ends)}"
    return name


def shades(found, column):
    """The values of a column between zero and one, by its 5 % and 95 % quantiles; NaN for words."""
    entries = np.asarray(found.data[:, column], dtype=float)
    if column in found.categories or np.isnan(entries).all():
        return np.full(entries.shape, np.nan)
    low, high = np.nanquantile(entries, [0.05, 0.95])
    return np.clip((entries - low) / ((high - low) or 1.0), 0.0, 1.0)
