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
