"""Pictures of records, as SVG that comes out the same every time."""

from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[1] / "figures"
STYLE = {
    "svg.hashsalt": "manykernels",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
}


def panels(name, titles, draw, labels, width=3.1, height=2.5):
    """One picture of a panel for each title; ``draw(axes, title)`` fills it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with plt.rc_context(STYLE):
        figure, row = plt.subplots(
            1,
            len(titles),
            figsize=(width * len(titles) + 0.3, height),
            squeeze=False,
            layout="constrained",
        )
        for axes, title in zip(row[0], titles, strict=True):
            draw(axes, title)
            axes.set(title=title, xlabel=labels[0])
        row[0][0].set_ylabel(labels[1])
        FOLDER.mkdir(exist_ok=True)
        figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
        plt.close(figure)
    return f"![{name}](figures/{name}.svg)\n"


def lines(name, rows, panel, series, x, y, labels=None, log=(True, True), marker="."):
    """A panel for each value of a column, a line for each value of another."""
    titles = list(dict.fromkeys(str(row[panel]) for row in rows))

    def draw(axes, title):
        mine = [row for row in rows if str(row[panel]) == title]
        for label in dict.fromkeys(row[series] for row in mine):
            own = [row for row in mine if row[series] == label]
            axes.plot([row[x] for row in own], [row[y] for row in own], marker=marker, label=label)
        for which, scale in zip("xy", log, strict=True):
            if scale:
                logarithmic(axes, which)
        axes.legend()

    return panels(name, titles, draw, labels or (x, y))


def logarithmic(axes, which):
    """A logarithmic axis with plain numbers, few of them over many decades."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set(**{f"{which}scale": "log"})
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    axis = axes.xaxis if which == "x" else axes.yaxis
    subs = (1.0,) if high > 50 * low else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def weights(name, rows):
    """The five largest weights against seconds, a panel for each set and method."""
    keys = dict.fromkeys((row["set"], row["method"]) for row in rows)
    titles = {f"{one}, {method}": (one, method) for one, method in keys}

    def draw(axes, title):
        own = [row for row in rows if (row["set"], row["method"]) == titles[title]]
        axes.plot([row["seconds"] for row in own], [row["weights"] for row in own], marker=".")
        logarithmic(axes, "x")

    return panels(name, list(titles), draw, ("seconds", "weight"), width=2.4)


def critical_difference(name, found):
    """Mean ranks on a line; bars join what does not differ at 5 %."""
    order = np.argsort(found.means, kind="stable")
    k = len(order)

    def draw(axes, title):
        axes.grid(False)
        axes.set_xlim(k + 0.1, 0.9)  # the best is on the right
        axes.set_ylim(-0.6 - 0.5 * ((k + 1) // 2), 1.3)
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.set_yticks([])
        axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.spines["top"].set_visible(True)
        axes.plot([1, 1 + found.critical], [1.0, 1.0], color="black", linewidth=2)
        axes.text(
            1 + found.critical / 2, 1.08, f"critical difference {found.critical:.2f}", ha="center"
        )
        for place, which in enumerate(order):
            right = place < (k + 1) // 2
            level = -0.5 * (place if right else k - 1 - place) - 0.6
            end = 1.0 if right else float(k)
            mean = found.means[which]
            axes.plot([mean, mean, end], [1.3, level, level], color="gray", linewidth=0.8)
            side = "left" if right else "right"
            axes.text(
                end,
                level + 0.05,
                f"{found.names[which]} {mean:.2f}",
                ha="right" if side == "left" else "left",
                va="bottom",
            )
        for step, group in enumerate(found.cliques()):
            means = [found.means[found.names.index(one)] for one in group]
            height = 0.5 - 0.14 * step
            axes.plot([min(means) - 0.04, max(means) + 0.04], [height] * 2, color="black", lw=3)

    title = f"mean rank over {found.count} data sets"
    return panels(name, [title], draw, ("", ""), width=6.5, height=2.6 + 0.1 * k)
