"""The weights of the kernels as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .axes import axes, shortened
from .facts import Row, Shares, fitted_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator

LONGEST = 60  # letters of a kernel's name
LONGEST_BAR = 2.0  # of all others, in lengths of the heaviest kernel
NUMBERED = 12  # outputs whose shares are written into the cells


class KernelWeightsDisplay:
    """Kernels by their share of the weight, heaviest first, colored by group.

    Kernels that say nothing about other points and only regularize (`silent_kernels_`) have a bar
    of their own, with their share of everything; the others share the rest.

    Where every output has its own weights (``share_weights=False``) there is a column of cells for
    each instead of bars.

    Parameters
    ----------
    rows : list of Row
        The kernels to show; the last may stand for all others.
    outputs : list of str
        Names of the outputs with weights of their own; empty if they share them.
    total : int
        How many kernels there are.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, after `plot`
    """

    def __init__(
        self, rows: list[Row], outputs: Sequence[str] = (), total: int | None = None
    ) -> None:
        self.rows, self.outputs, self.total = rows, list(outputs), total

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        max_kernels: int = 20,
        ax: Axes | None = None,
        **options: Any,
    ) -> KernelWeightsDisplay:
        """Draw the kernels of a fitted estimator.

        Parameters
        ----------
        estimator : fitted MKL estimator, or a pipeline or search that ends in one
        max_kernels : int
            The heaviest that get a line of their own.
        ax : matplotlib axes, optional
        options
            For ``barh``, or ``imshow`` where every output has its own weights.

        Returns
        -------
        KernelWeightsDisplay
        """
        shares = Shares(fitted_model(estimator))
        return cls(shares.kernels(max_kernels), shares.outputs, shares.m).plot(ax, **options)

    def plot(self, ax: Axes | None = None, **options: Any) -> KernelWeightsDisplay:
        """Draw, on new axes if none are given."""
        names = [shortened(row.name, LONGEST) for row in self.rows]
        self.ax_ = axes(
            ax,
            height=1.2 + 0.3 * max(len(names), 3),
            width=4.5 + 0.08 * max(map(len, names), default=0),
        )
        self.figure_ = self.ax_.figure
        if self.outputs:
            self._cells(options)
        else:
            self._bars(options)
        self.ax_.set_yticks(np.arange(len(names)), names)
        for label, row in zip(self.ax_.get_yticklabels(), self.rows, strict=True):
            label.set_style("italic" if row.stands_for else "normal")
        used, total = sum(row.used for row in self.rows), self.total or len(self.rows)
        self.ax_.set_title(
            f"{used:,} of {total:,} kernels have weight", loc="left", fontsize="medium"
        )
        return self

    def _bars(self, options):
        places, named = np.arange(len(self.rows)), {row.group: row.color for row in self.rows}
        named.pop("", None)
        fill = [row.color for row in self.rows]
        bars = self.ax_.barh(places, self._lengths(), **({"color": fill, "height": 0.7} | options))
        for bar, row in zip(bars, self.rows, strict=True):
            if bar.get_width() < row.share:
                bar.set(hatch="//", edgecolor="w")  # cut
        self.ax_.bar_label(
            bars,
            [row.weight for row in self.rows],
            padding=4,
            fontsize="small",
            color="0.35",
        )
        regularized = any(row.stands_for == "regularization" for row in self.rows)
        label = "share of the weight" + " without regularization" * regularized
        self.ax_.set(xlabel=label, ylim=(len(self.rows) - 0.4, -0.6))
        self.ax_.margins(x=0.12)
        self.ax_.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        self.ax_.tick_params(axis="y", length=0)
        if len(named) > 1 and "color" not in options:
            from matplotlib.patches import Patch

            self.ax_.legend(
                handles=[Patch(color=color, label=group) for group, color in named.items()],
                loc="lower right",
                frameon=False,
            )

    def _lengths(self):
        """Lengths of the bars; a million others together are not drawn longer than would leave the
        rest visible.
        """
        heaviest = max((row.share for row in self.rows if not row.stands_for), default=1.0)
        return [
            min(row.share, LONGEST_BAR * heaviest) if row.stands_for else row.share
            for row in self.rows
        ]

    def _cells(self, options):
        table = np.array([row.shares for row in self.rows]).reshape(
            len(self.rows), len(self.outputs)
        )
        image = self.ax_.imshow(
            table, **({"aspect": "auto", "cmap": "Blues", "vmin": 0.0} | options)
        )
        self.ax_.set_xticks(
            np.arange(len(self.outputs)), self.outputs, rotation=0 if len(self.outputs) <= 6 else 60
        )
        self.ax_.tick_params(length=0)
        bar = self.figure_.colorbar(
            image, ax=self.ax_, label="share of the output's weight", shrink=0.9, pad=0.02
        )
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        if len(self.outputs) > NUMBERED:
            return
        for (i, j), share in np.ndenumerate(table):
            if share >= 0.005:
                dark = share > 0.6 * table.max()
                self.ax_.text(
                    j,
                    i,
                    f"{share:.0%}",
                    ha="center",
                    va="center",
                    fontsize="small",
                    color="w" if dark else "0.2",
                )
