"""The weights along a path of C or p as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..estimators import path
from .axes import OTHERS, PALETTE, axes, shortened
from .facts import Shares, fitted_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike
    from sklearn.base import BaseEstimator

LONGEST = 56


class PathDisplay:
    """Shares of the kernels against C or p.

    Parameters
    ----------
    parameter : {"C", "p"}
    values : (steps,) array
    names : list of str
    shares : (steps, len(names)) array
    others : (steps,) array
        What all other kernels have together.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure, after `plot`
    """

    def __init__(
        self,
        parameter: str,
        values: np.ndarray,
        names: list[str],
        shares: np.ndarray,
        others: np.ndarray,
    ) -> None:
        self.parameter, self.values, self.names = parameter, values, names
        self.shares, self.others = shares, others

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: Any,
        y: ArrayLike,
        *,
        C: Sequence[float] | None = None,
        p: Sequence[float] | None = None,
        **options: Any,
    ) -> PathDisplay:
        """Train the estimator along C or p and draw; see `manykernels.path`.

        Parameters
        ----------
        estimator : MKL estimator
        X, y : as for its `fit`
        C, p : sequence of floats
            One of the two.
        options
            As for `from_path`.

        Returns
        -------
        PathDisplay
        """
        return cls.from_path(path(estimator, X, y, C=C, p=p), **options)

    @classmethod
    def from_path(
        cls,
        models: Iterable[BaseEstimator],
        *,
        max_kernels: int = 8,
        ax: Axes | None = None,
        **options: Any,
    ) -> PathDisplay:
        """Draw a path that was trained before.

        Parameters
        ----------
        models : Path, or another sequence of fitted estimators with the same kernels
            Which differ in C or in p, not in both.
        max_kernels : int
            Those that are heaviest anywhere on the path get a line of their own.
        ax : matplotlib axes, optional
        options
            For matplotlib's ``plot``.

        Returns
        -------
        PathDisplay
        """
        models = [fitted_model(model) for model in models]
        parameter, values = _varied(models)
        shares = np.stack([Shares(model).share for model in models])
        shown = np.argsort(-shares.max(axis=0), kind="stable")[:max_kernels]
        shown = shown[shares[:, shown].any(axis=0)]
        names = [models[0].bank_.names[k] for k in shown]
        others = shares.sum(axis=1) - shares[:, shown].sum(axis=1)
        return cls(parameter, values, names, shares[:, shown], np.maximum(others, 0.0)).plot(
            ax, **options
        )

    def plot(self, ax: Axes | None = None, **options: Any) -> PathDisplay:
        """Draw, on new axes if none are given."""
        self.ax_ = axes(ax, width=6.0 + 0.07 * min(LONGEST, max(map(len, self.names), default=0)))
        self.figure_ = self.ax_.figure
        x = np.arange(len(self.values)) if self.parameter == "p" else self.values
        options = {"marker": "o", "markersize": 4} | options
        for place, (name, share) in enumerate(zip(self.names, self.shares.T, strict=True)):
            self.ax_.plot(
                x,
                share,
                label=shortened(name, LONGEST),
                **({"color": PALETTE[place % len(PALETTE)]} | options),
            )
        if self.others.max(initial=0.0) > 1e-3:
            self.ax_.plot(
                x,
                self.others,
                label="all others together",
                color=OTHERS,
                linestyle="--",
                linewidth=1,
            )
        self._describe(x)
        return self

    def _describe(self, x):
        if self.parameter == "p":  # from 1 to infinity, so the values stand in their order
            self.ax_.set_xticks(x, [f"{value:g}".replace("inf", "∞") for value in self.values])
        else:
            self.ax_.set_xscale("log")
        self.ax_.set(xlabel=self.parameter, ylabel="share of the total weight", ylim=(-0.02, None))
        self.ax_.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        self.ax_.legend(
            frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.01, 1.0)
        )


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
