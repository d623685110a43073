"""What single columns add to the decision, from Shapley values that were given."""

import numpy as np

from ..._html import element, table
from ..._words import count, number
from ..shapley import label, shades
from . import charts
from .page import section

MOST, MOST_ROWS, MOST_LINES = 15, 150, 30  # columns and rows of a chart, columns of a table


def columns_section(story):
    """What `shapley_values` found; nothing if it was not given."""
    found = story.shapley
    if found is None:
        return None
    several = found.values.ndim == 3
    words = (
        f"Shapley values of {count(len(found.feature_names), 'column')} at "
        f"{count(len(found.values), 'row')}: how much the decision at a row changes with a column, "
        f"over all orders in which columns may become known ({found.game}). They are exact, and "
        "with the base value they add up to the decision."
    )
    parts = [element("p", words)]
    for output in found.output_names if several else [None]:
        parts.append(_chart(story, found.output(output)))
    frame = found.frame().head(MOST_LINES)
    head = ["column", *frame.columns[1:]]
    rows = [[row.iloc[0], *map(number, row.iloc[1:])] for _, row in frame.iterrows()]
    return section("What the columns add", *parts, table(head, rows))


def _chart(story, found):
    """The largest columns of one output, at some of the rows."""
    rows = np.unique(np.linspace(0, len(found.values) - 1, MOST_ROWS).astype(int))
    shown = np.argsort(-found.mean_sizes(), kind="stable")[:MOST]
    columns = [(label(found, f), found.values[rows, f], shades(found, f)[rows]) for f in shown]
    of = f", {found.output_names[0]}" if len(found.output_names) == 1 else ""
    title = f"what the column adds to the decision{of}"
    return story.charts.place(charts.swarms(columns, title), f"{title.capitalize()}, at each row.")
