"""Which groups matter, the first section: weights beside what held-out rows say."""

import numpy as np

from ..._html import element, table
from ..._words import count, percent, thousandths
from ...estimators.answers.contributions import regularization_name
from ...estimators.answers.explanation import words_on_equal_weights
from ...estimators.answers.importance import fitted_importance
from . import charts
from .page import section

TITLE, MOST = "Which groups matter", 30
MOST_KERNELS, MOST_MIXED = 2000, 50  # of a model that is looked at, and groups that are mixed up
ASK = "manykernels.explain(model, X, y), with the rows to train on, and give it as explanation="


def matter_section(story):
    """What `explain` found, or else what one fitted model tells; nothing for a single group, for
    kernels that are not added up, and where there is no target.
    """
    if story.explanation is not None:
        return _explained(story, story.explanation)
    looked_at = story.is_sum and story.shares.m <= MOST_KERNELS and not hasattr(story.model, "nu")
    if not looked_at or len(story.model.group_weights_) == 1:
        return None
    words = words_on_equal_weights(story.shares.weights[:, ~story.shares.silent])
    equal = [element("p", words)] if words else []
    found = _mixed_up(story)
    if found is None:
        return section(TITLE, element("p", _words_without_data(story)), _table(story), *equal)
    words = (
        f"The drop is that of the score on the {count(len(story.predicted), 'point')} given to "
        "this report if what a group says of them is mixed up, and p how probable that is if the "
        f"group says nothing that the others do not say, corrected for "
        f"{count(len(found.groups), 'group')}. It is that of one model: for intervals, and for how "
        f"often a group helps on halves of the rows, run {ASK}."
    )
    drops, used = found.drops[0], np.array(list(story.model.group_weights_.values())) > 0.0
    order = np.lexsort((-drops, found.adjusted > 0.05))
    return section(
        TITLE,
        _chart(story, [(found.groups[g], drops[g], None) for g in order if used[g]]),
        element("p", words),
        _table(story, found, order),
        *equal,
    )


def _explained(story, found):
    head, lines = found.rows()
    bars = [(found.groups[g], found.drops[g], found.intervals[g]) for g in range(len(found.groups))]
    words = [element("p", sentence) for sentence in found.summary()]
    return section(TITLE, _chart(story, bars), table(head, lines), *words)


def _mixed_up(story):
    """The importance of the groups at the rows given; None without rows that the model has not
    seen, with targets that it knows, and for many groups.
    """
    if story.X is None or story.y is None or story.trained_on:
        return None
    if sum(share > 0.0 for share in story.model.group_weights_.values()) > MOST_MIXED:
        return None
    classes = getattr(story.model, "classes_", None)
    if classes is not None and not np.isin(np.asarray(story.y), classes).all():
        return None
    return fitted_importance(story.model, story.rows, story.y)


def _words_without_data(story):
    given = "The data given to this report are those of the training. " if story.trained_on else ""
    return (
        f"{given}Shares say what the model uses, and not what it needs: groups that say the same "
        "share the weight, or one of them has all of it. How much the score at held-out rows drops "
        "without a group is missing here: give X and y that the model was not trained on, where "
        f"at most {MOST_MIXED} groups have weight, or run {ASK}."
    )


def _table(story, found=None, order=None):
    weights = story.model.group_weights_
    decision = getattr(story.model, "group_contributions_", None)
    names = list(weights)
    if found is None:
        order = np.argsort([-(decision or weights)[name] for name in names], kind="stable")
    head = ["group", "share of weight", *(["share of decision"] if decision is not None else [])]
    head += ["drop", "p"] if found is not None else []
    rows = []
    for g in order[:MOST]:
        row = [names[g], percent(weights[names[g]])]
        row += [percent(decision[names[g]])] if decision is not None else []
        row += (
            [thousandths(found.drops[0, g]), f"{found.adjusted[g]:.2g}"]
            if found is not None
            else []
        )
        rows.append(row)
    if weights.regularization:
        row = [regularization_name(names), f"{percent(weights.regularization)} of all"]
        row += [f"{percent(decision.regularization)} of all"] if decision is not None else []
        rows.append([*row, *[""] * (len(head) - len(row))])
    return table(head, rows)


def _chart(story, bars):
    """Drops of the score, (group, drop, interval or None), most important first."""
    shown = bars[:MOST]
    if not shown:
        return ""
    caption = "Lines are 95 % intervals." if shown[0][2] is not None else None
    colors = [story.shares.color(name) for name, _, _ in shown]
    return story.charts.place(
        charts.drops(shown, colors),
        "Drop of the score at held-out rows without each group, most important first.",
        caption,
    )
