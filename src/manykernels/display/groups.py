"""How sure it is which groups matter, as pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..estimators import Importance, Stability
from .axes import OTHERS, PALETTE, axes, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LONGEST = 45  # letters of a group's name
SURE = 0.05  # corrected p-value


class StabilityDisplay:
    """How often each group was selected on halves of the rows, and its share of the contributions
    with an interval.

    Parameters
    ----------
    stability : Stability
    max_groups : int
        To show, most frequent first.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, after `plot`
    """

    def __init__(self, stability: Stability, max_groups: int = 20) -> None:
        self.stability, self.max_groups = stability, max_groups

    @classmethod
    def from_stability(
        cls,
        stability: Stability,
        *,
        max_groups: int = 20,
        ax: Axes | None = None,
        **options: Any,
    ) -> StabilityDisplay:
        """Draw what `manykernels.stability` found.

        Parameters
        ----------
        stability : Stability
        max_groups : int
        ax : matplotlib axes, optional
        options
            For matplotlib's ``barh``.

        Returns
        -------
        StabilityDisplay
        """
        return cls(stability, max_groups).plot(ax, **options)

    def plot(self, ax: Axes | None = None, **options: Any) -> StabilityDisplay:
        """Draw, on new axes if none are given."""
        found = self.stability
        order = np.lexsort((-found.whole_contributions, -found.frequencies))[: self.max_groups]
        stable = found.frequencies[order] >= found.threshold - 1e-12
        names = [shortened(found.groups[g], LONGEST) for g in order]
        self.ax_, places = _bars(ax, names, found.frequencies[order], stable, options)
        self.figure_ = self.ax_.figure
        _, intervals = found.intervals()
        middle = np.median(found.contributions, axis=0)[order]
        low, high = intervals[order].T
        self.ax_.errorbar(
            middle,
            places,
            xerr=[middle - low, high - middle],
            fmt="o",
            color="black",
            markersize=4,
            capsize=2,
            elinewidth=1,
            label="share of the decision, 95 % of halves",
        )
        self.ax_.axvline(
            found.threshold,
            color="black",
            linestyle="--",
            linewidth=1,
            label=f"stable: at most {found.expected_false():.2g} by chance",
        )
        self.ax_.set_xlim(0.0, 1.02)
        self.ax_.set_xlabel(f"selected in {len(found.weights)} halves of the rows")
        self.ax_.legend(frameon=False, fontsize="small", loc="lower right")
        return self


class ImportanceDisplay:
    """What each group adds to the held-out score: the mean over the splits, and every split.

    Parameters
    ----------
    importance : Importance
    max_groups : int
        To show, most important first.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, after `plot`
    """

    def __init__(self, importance: Importance, max_groups: int = 20) -> None:
        self.importance, self.max_groups = importance, max_groups

    @classmethod
    def from_importance(
        cls,
        importance: Importance,
        *,
        max_groups: int = 20,
        ax: Axes | None = None,
        **options: Any,
    ) -> ImportanceDisplay:
        """Draw what `manykernels.group_importance` found.

        Parameters
        ----------
        importance : Importance
        max_groups : int
        ax : matplotlib axes, optional
        options
            For matplotlib's ``barh``.

        Returns
        -------
        ImportanceDisplay
        """
        return cls(importance, max_groups).plot(ax, **options)

    def plot(self, ax: Axes | None = None, **options: Any) -> ImportanceDisplay:
        """Draw, on new axes if none are given."""
        found = self.importance
        means = found.drops.mean(axis=0)
        order = np.lexsort((-means, found.p_values))[: self.max_groups]
        labels = [
            f"{shortened(found.groups[g], LONGEST)}  (p = {found.adjusted[g]:.2g})" for g in order
        ]
        sure = found.adjusted[order] <= SURE
        self.ax_, places = _bars(ax, labels, means[order], sure, options)
        self.figure_ = self.ax_.figure
        for split in found.drops:
            self.ax_.plot(split[order], places, ".", color="black", markersize=3)
        self.ax_.axvline(0.0, color="black", linewidth=1)
        what = "mixed up" if found.method == "permutation" else "left out"
        self.ax_.set_xlabel(f"drop of the held-out score if the group is {what}")
        return self


def _bars(ax, names, lengths, sure, options):
    """Axes with a bar for every group, the first on top, colored where it is sure; and the places
    of the bars.
    """
    ax, places = axes(ax), np.arange(len(names))[::-1]
    colors = [PALETTE[0] if one else OTHERS for one in sure]
    ax.barh(places, lengths, **({"color": colors} | options))
    ax.set_yticks(places, names)
    return ax, places
