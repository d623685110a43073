"""Axes to draw on, and the colors of all pictures."""

# dark enough on white and light enough on black; neighbours differ in lightness too
PALETTE = (
    "#3b7dd8",
    "#e07b39",
    "#2a9d74",
    "#c2508f",
    "#8a6fd1",
    "#b08900",
    "#d1495b",
    "#3aa6b9",
    "#7a8b3d",
    "#9c6b4e",
)
OTHERS = "#8c939c"


def color_of(groups):
    """A color for every group, in the order in which they come; grey for what has none."""
    named = [group for group in dict.fromkeys(groups) if group]
    colors = {group: PALETTE[place % len(PALETTE)] for place, group in enumerate(named)}
    return colors | {"": OTHERS if named else PALETTE[0]}


def pyplot():
    """Matplotlib's pyplot, or an error that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Pictures need matplotlib: install it, or manykernels[plot].") from error
    return plt


def axes(ax, height=4.8, width=7.0):
    """The given axes, or those of a new figure, without the frame that nobody reads."""
    if ax is None:
        _, ax = pyplot().subplots(figsize=(width, height), layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def shortened(text, longest):
    """A text cut in its middle, since names of kernels differ at both ends."""
    if len(text) <= longest:
        return text
    head = (longest - 1) * 2 // 3
    return f"{text[:head]}…{text[head + 1 - longest :]}"
