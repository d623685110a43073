"""Names at the right ends of lines, in the place of a legend: none covers another."""

import numpy as np
from sklearn.isotonic import isotonic_regression

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
    low, high = ax.get_ylim()
    points = ax.get_window_extent().height * 72.0 / ax.figure.dpi
    heights = spread(np.asarray(ends, dtype=float), SIZE * LEADING * (high - low) / points, low)
    start = ax.transAxes.transform((1.0, 0.0))[0] - ax.transData.transform((x, low))[0]
    away = start * 72.0 / ax.figure.dpi + AWAY  # beyond the margin of the axes
    for end, height, name, color in zip(ends, heights, names, colors, strict=True):
        up = (height - end) / (high - low) * points
        ax.annotate(
            name,
            (x, end),
            (away, up),
            textcoords="offset points",
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


def spread(heights, distance, lowest):
    """Heights moved as little as possible, in squares, so that they are a distance apart and not
    below the lowest; of equals, the first is on top.
    """
    order = np.lexsort((-np.arange(heights.size), heights))
    steps = distance * np.arange(heights.size)
    out = np.empty_like(heights)
    out[order] = isotonic_regression(heights[order] - steps, y_min=lowest) + steps
    return out
