"""The weights along a path of C or p as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.isotonic import isotonic_regression

from .._shares import mean_shares
from .._words import count
from ..estimators import Choice, Path, path
from .axes import OTHERS, PALETTE, axes, pyplot, shortened
from .facts import Shares, fitted_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike
    from sklearn.base import BaseEstimator

LONGEST = 40
NARROWEST = 0.06  # of the width of the axes, between numbers of groups
SCORES = {"roc_auc": "AUROC", "r2": "R²"}


class PathDisplay:
    """Shares of the groups of kernels against C or p, or of the kernels where there are no groups;
    with scores on held-out folds below.

    Parameters
    ----------
    parameter : {"C", "p"}
    values : (steps,) array
    names : list of str
    shares : (steps, len(names)) array
    others : (steps,) array
        What all others have together.
    counts : (steps,) array, optional
        How many groups, or kernels, have weight.
    what : {"groups", "kernels"}
    choice : Choice, optional

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, after `plot`
    score_ax_ : matplotlib axes of the scores, or None
    """

    def __init__(
        self,
        parameter: str,
        values: np.ndarray,
        names: list[str],
        shares: np.ndarray,
        others: np.ndarray,
        counts: np.ndarray | None = None,
        what: str = "kernels",
        choice: Choice | None = None,
    ) -> None:
        self.parameter, self.values, self.names = parameter, values, names
        self.shares, self.others, self.counts = shares, others, counts
        self.what, self.choice = what, choice

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: Any,
        y: ArrayLike,
        *,
        C: Sequence[float] | None = None,
        p: Sequence[float] | None = None,
        max_groups: int | None = None,
        **options: Any,
    ) -> PathDisplay:
        """Train the estimator along C, p or the number of groups and draw; see `manykernels.path`.

        Parameters
        ----------
        estimator : MKL estimator
        X, y : as for its `fit`
        C, p : sequence of floats
        max_groups : int
            One of the three.
        options
            As for `from_path`.

        Returns
        -------
        PathDisplay
        """
        return cls.from_path(path(estimator, X, y, C=C, p=p, max_groups=max_groups), **options)

    @classmethod
    def from_path(
        cls,
        models: Iterable[BaseEstimator],
        *,
        choice: Choice | None = None,
        max_kernels: int = 10,
        ax: Axes | Sequence[Axes] | None = None,
        **options: Any,
    ) -> PathDisplay:
        """Draw a path that was trained before.

        Parameters
        ----------
        models : Path, or another sequence of fitted estimators with the same kernels
            Which differ in C or in p, not in both.
        choice : Choice, optional
            What ``Path.choose`` found: scores are drawn below, and what was chosen is marked.
        max_kernels : int
            Those that are heaviest anywhere on the path, groups or kernels, get a line of their
            own.
        ax : matplotlib axes, or two of them, optional
            The second is for the scores of the choice.
        options
            For matplotlib's ``plot``.

        Returns
        -------
        PathDisplay
        """
        models = [fitted_model(model) for model in models]
        parameter, values = _varied(models)
        if choice is not None and parameter != "C":
            raise ValueError(
                "Scores are drawn against C, and this path varies p: leave choice out."
            )
        steps = Path(models)
        if Shares(models[0]).grouped:
            names, shares, what = steps.groups, steps.group_weights(), "groups"
        else:
            names, what = models[0].bank_.names, "kernels"
            shares = np.stack([mean_shares(model.kernel_weights_) for model in models])
        shown = np.argsort(-shares.max(axis=0), kind="stable")[:max_kernels]
        shown = shown[shares[:, shown].any(axis=0)]
        others = np.delete(shares, shown, axis=1).sum(axis=1)
        names, counts = [names[k] for k in shown], np.count_nonzero(shares, axis=1)
        display = cls(parameter, values, names, shares[:, shown], others, counts, what, choice)
        return display.plot(ax, **options)

    def plot(self, ax: Axes | Sequence[Axes] | None = None, **options: Any) -> PathDisplay:
        """Draw, on new axes if none are given."""
        self.ax_, self.score_ax_ = self._axes(ax)
        self.figure_ = self.ax_.figure
        x = np.arange(len(self.values)) if self.parameter == "p" else self.values
        options = {"marker": "o", "markersize": 3, "linewidth": 1.8} | options
        names = [shortened(name, LONGEST) for name in self.names]
        colors = [PALETTE[place % len(PALETTE)] for place in range(len(names))]
        for name, share, color in zip(names, self.shares.T, colors, strict=True):
            self.ax_.plot(x, _where_used(share), label=name, **({"color": color} | options))
        ends = list(self.shares[-1])
        if self.others.max(initial=0.0) > 1e-3:
            names, colors, ends = (
                [*names, "all others"],
                [*colors, OTHERS],
                [*ends, self.others[-1]],
            )
            style = {"color": OTHERS, "linestyle": "--", "linewidth": 1}
            self.ax_.plot(x, _where_used(self.others), label=names[-1], **style)
        self._describe(x)
        if self.choice is not None:
            self._mark_choice()
            if self.score_ax_ is not None:
                self._draw_scores()
        self.figure_.draw_without_rendering()  # the layout says how much room there is
        name_ends(self.ax_, x[-1], ends, names, colors)
        return self

    def _axes(self, ax):
        """Axes of the shares, and of the scores below if there are any."""
        longest = min(LONGEST, max(map(len, self.names), default=0))
        width = 6.0 + 0.07 * longest
        if ax is None and self.choice is None:
            return axes(ax, width=width), None
        if ax is not None:
            upper, *lower = np.atleast_1d(ax)
            return axes(upper), axes(lower[0]) if lower else None
        _, (upper, lower) = pyplot().subplots(
            2, sharex=True, figsize=(width, 6.4), height_ratios=[3, 1.3], layout="constrained"
        )
        return axes(upper), axes(lower)

    def _describe(self, x):
        if self.parameter == "p":  # from 1 to infinity, so the values stand in their order
            self.ax_.set_xticks(x, [f"{value:g}".replace("inf", "∞") for value in self.values])
        else:
            _readable_log(self.ax_)
        self.ax_.set(ylabel="share of the weight", ylim=(-0.02, None))
        bottom = self.ax_ if self.score_ax_ is None else self.score_ax_
        words = "C: the larger, the closer to the training data" if self.parameter == "C" else "p"
        bottom.set_xlabel(words)
        self.ax_.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        if self.counts is not None:
            self._count(x)

    def _count(self, x):
        """Numbers of groups on top, where they change; several, as 4–6, where there is no room."""
        top = self.ax_.secondary_xaxis("top")
        places = self.ax_.transAxes.inverted().transform(
            self.ax_.transData.transform(np.column_stack([x, np.zeros(len(x))]))
        )[:, 0]
        shown: list[list[int]] = []  # steps that share a number
        for step, number in enumerate(self.counts):
            if shown and number == self.counts[step - 1]:
                continue
            if shown and places[step] - places[shown[-1][0]] < NARROWEST:
                shown[-1].append(step)
            else:
                shown.append([step])
        ranges = [sorted({int(self.counts[step]) for step in some}) for some in shown]
        words = [f"{low[0]}–{low[-1]}" if len(low) > 1 else str(low[0]) for low in ranges]
        top.set_xticks([x[some[0]] for some in shown], words)
        top.minorticks_off()
        top.spines["top"].set_visible(False)
        top.tick_params(labelsize="small")
        top.set_xlabel(f"{self.what} with weight")

    def _mark_choice(self):
        found = self.choice
        for model, words, style in (
            (found.best, "best", ":"),
            (found.simplest, "simplest within\none standard error", "-"),
        ):
            place = int(np.flatnonzero(found.costs == model.C)[0])
            groups = count(int(found.n_groups[place]), "group")
            text = f"{words}: {groups}\n{found.means[place]:.3f} ± {found.errors[place]:.3f}"
            look = {"color": "black", "linestyle": style, "linewidth": 1, "zorder": 0}
            for ax in filter(None, (self.ax_, self.score_ax_)):
                ax.axvline(model.C, label=text, **look)

    def _draw_scores(self):
        found, ax = self.choice, self.score_ax_
        means, errors = found.means, found.errors
        _readable_log(ax)
        ax.set_xlim(self.ax_.get_xlim())
        band = {"color": OTHERS, "alpha": 0.25, "linewidth": 0}
        ax.fill_between(found.costs, means - errors, means + errors, **band)
        ax.plot(found.costs, means, color="black", marker="o", markersize=3, linewidth=1.2)
        ax.set_ylabel(f"{SCORES.get(found.scoring, found.scoring)}, held out")
        ax.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.01, 0.5))


def _where_used(share):
    """Shares, but nothing where they stay zero, so that lines begin where they leave it."""
    used = np.pad(share > 0.0, 1)
    return np.where(used[1:-1] | used[:-2] | used[2:], share, np.nan)


def _readable_log(ax):
    """A logarithmic axis of x whose numbers a person reads: 0.02, 0.05, 0.1."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def _varied(models):
    """The parameter in which the models differ, and its values."""
    values = {name: [getattr(model, name, None) for model in models] for name in ("C", "p")}
    varied = [name for name, seen in values.items() if len(set(seen)) > 1]
    if len(varied) == 2:
        raise ValueError(
            "This path varies both C and p, and a picture has one axis for them: draw a part of "
            "it, such as "
            "[model for model in path if model.p == 2]."
        )
    if not varied:
        raise ValueError(
            f"A picture of a path needs models that differ in C or p, got {len(models)} that do "
            "not."
        )
    return varied[0], np.array(values[varied[0]], dtype=float)


# --- names at the right ends of lines, in the place of a legend: none covers another --------------


SIZE, LEADING = 8, 1.3  # points, and lines of text per size
AWAY = 14  # points from the end of a line to its name


def name_ends(ax, x, ends, names, colors):
    """Write the name of every line beside its last point.

    Parameters
    ----------
    ax : matplotlib axes
        Whose limits are set.
    x : float
        Where the lines end.
    ends : (k,) array
        The height of each line there.
    names : list of str
    colors : list of colors
    """
    from matplotlib.text import OffsetFrom

    low, high = ax.get_ylim()
    points = ax.get_window_extent().height * 72.0 / ax.figure.dpi
    levels = (np.asarray(ends, dtype=float) - low) / (high - low) * points
    # in points, so that they stay apart if the axes change their size
    corner = OffsetFrom(ax.patch, (1.0, 0.0), unit="points")
    for end, level, name, color in zip(
        ends, spread(levels, SIZE * LEADING), names, colors, strict=True
    ):
        ax.annotate(
            name,
            (x, end),
            (AWAY, level),
            textcoords=corner,
            color=color,
            fontsize=SIZE,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": color,
                "linewidth": 0.6,
                "alpha": 0.6,
                "shrinkA": 1,
                "shrinkB": 3,
                "relpos": (0.0, 0.5),
            },
        )


def spread(heights, distance):
    """Heights moved as little as possible, in squares, so that they are a distance apart and not
    below zero; of equals, the first is on top.
    """
    order = np.lexsort((-np.arange(heights.size), heights))
    steps = distance * np.arange(heights.size)
    out = np.empty_like(heights)
    out[order] = isotonic_regression(heights[order] - steps, y_min=0.0) + steps
    return out
