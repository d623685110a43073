"""The weights along a path of C or p as a picture."""

import numpy as np

from .axes import OTHERS, PALETTE, axes, shortened
from .facts import Shares, fitted_model

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

    def __init__(self, parameter, values, names, shares, others):
        self.parameter, self.values, self.names, self.shares, self.others = (
            parameter,
            values,
            names,
            shares,
            others,
        )

    @classmethod
    def from_estimator(cls, estimator, X, y, *, C=None, p=None, max_kernels=8, ax=None, **options):
        """Train the estimator along C or p and draw; see `manykernels.path`.

        Parameters
        ----------
        estimator : MKL estimator
        X, y : as for its `fit`
        C, p : sequence of floats
            One of the two.
        max_kernels, ax, options
            As for `from_path`.
        """
        from ..estimators import path

        return cls.from_path(
            path(estimator, X, y, C=C, p=p), max_kernels=max_kernels, ax=ax, **options
        )

    @classmethod
    def from_path(cls, models, *, max_kernels=8, ax=None, **options):
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

    def plot(self, ax=None, **options):
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
