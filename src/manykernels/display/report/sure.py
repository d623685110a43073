"""How sure it is which groups matter, from models of parts of the rows."""

from ..._html import element, table
from ..._words import count, number, percent, thousandths
from .page import facts, section

MOST = 30  # groups in a table


def sure_section(story):
    """What `stability` and `group_importance` found; nothing if neither was given."""
    parts = []
    if story.stability is not None:
        parts += _stable(story.stability)
    if story.importance is not None:
        parts += _important(story.importance)
    return section("How sure it is which groups matter", *parts) if parts else None


def _stable(found):
    stable = found.stable()
    words = (
        f"Of {count(len(found.groups), 'group')}, {len(stable)} were selected by at least "
        f"{percent(found.threshold)} of {count(len(found.weights), 'model')} of half the rows. Of "
        f"groups that a model selects no more often than a blind choice would, at most "
        f"{found.expected_false():.2g} are expected among them. Groups that no model selects are "
        "left out."
    )
    frame = found.frame()
    frame = frame[(frame["frequency"] > 0.0) | (frame["weight"] > 0.0)]
    rows = [
        [
            f"{row['group']}{' ●' if row['stable'] else ''}",
            percent(row["frequency"]),
            percent(row["weight"]),
            _between(row["weight low"], row["weight high"]),
            percent(row["contribution"]),
            _between(row["contribution low"], row["contribution high"]),
        ]
        for _, row in frame.head(MOST).iterrows()
    ]
    head = [
        "group (● stable)",
        "selected",
        "weight",
        "95 % of halves",
        "decision",
        "95 % of halves",
    ]
    return [
        element("h3", "Selected on halves of the rows"),
        element("p", words),
        table(head, rows),
        _scores(found),
    ]


def _important(found):
    what = "mixed up" if found.method == "permutation" else "left out of the training"
    after = {"holm": "Holm", "fdr": "Benjamini and Hochberg"}.get(found.correction)
    corrected = "" if after is None else f", corrected after {after}"
    words = (
        f"How much the score at held-out rows drops if a group is {what}, over "
        f"{count(len(found.drops), 'split')}, and how probable that is if the group says nothing "
        f"that the others do not say{corrected}. Groups without weight are left out."
    )
    frame = found.frame()
    frame = frame[(frame["p"] < 1.0) | (frame["drop"] != 0.0)]
    rows = [
        [
            row["group"],
            thousandths(row["drop"]),
            f"{thousandths(row['low'])} to {thousandths(row['high'])}",
            f"{row['p']:.2g}",
            f"{row['adjusted p']:.2g}",
        ]
        for _, row in frame.head(MOST).iterrows()
    ]
    return [
        element("h3", "Added to the held-out score"),
        element("p", words),
        table(["group", "drop", "95 % interval", "p", "corrected p"], rows),
        _scores(found),
    ]


def _scores(found):
    return facts(
        [
            (
                "score at held-out rows",
                f"{number(found.scores.mean())} ± {found.scores.std():.2g} (standard deviation "
                "between splits)",
            ),
            ("the same without looking at the data", number(found.baseline)),
        ]
    )


def _between(low, high):
    return f"{percent(low)} – {percent(high)}"
