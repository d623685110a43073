"""Sections on the fit: weights, certificate, convergence."""

import numpy as np

from ..._html import element, table
from ..._words import certified, count, number, percent
from ...result import Status
from ..facts import Surface
from ..runs import has_gap, runs
from . import charts
from .page import facts, folded, section

SHOWN, LISTED = 15, 50  # kernels in the chart, and in the table


def weights_section(story):
    """Groups and kernels by weight and by their part in the decision."""
    shares, known = story.shares, story.shares.contribution is not None
    if not shares.used:
        return section(
            "Which kernels matter",
            element("p", "No kernel has weight: the regularizer outweighs what they explain."),
        )
    groups = shares.groups()
    parts = [element("p", _weights_words(story, known)), *_silent(story), *_missing(story)]
    if len(groups) > 1:
        parts += [element("h3", "By group"), _chart(story, groups, "Share of the weight by group")]
        parts.append(folded("Table of the groups", _groups_table(groups, known)))
    parts.append(element("h3", "By kernel" if story.is_sum else "By weight"))
    parts.append(
        _chart(story, shares.kernels(SHOWN), "Share of the weight by kernel, heaviest first")
    )
    listed = shares.kernels(LISTED)
    heaviest = count(
        sum(not row.stands_for for row in listed), "kernel" if story.is_sum else "weight"
    )
    parts.append(folded(f"Table of the heaviest {heaviest}", _kernels_table(listed, shares)))
    return section("Which kernels matter", *parts)


def _silent(story):
    """A word on kernels with weight that say nothing about new points."""
    words = story.model._words_on_silence()
    if not words:
        return []
    said = "They are listed as regularization, with their share of all; the others share the rest."
    return [element("p", f"{words} {said}")]


def _missing(story):
    """What was assumed of rows that lack views."""
    missing = None if story.result is None else story.result.missing
    if missing is None or not missing.incomplete:
        return []
    words = (
        f"{missing.incomplete} of {count(missing.rows, 'training row')} lack whole views. In these "
        "they are taken to be at the mean of the rows that have the view, in the feature space of "
        "each kernel"
        + ("." if missing.rule == "mean" else ", and what their other views say counts for them.")
    )
    rows = [
        [view, f"{lacking:,}", percent(lacking / missing.rows)]
        for view, lacking in missing.lacking.items()
    ]
    return [
        element("p", words),
        folded("Table of the missing views", table(["view", "rows", "share of rows"], rows)),
    ]


def tuning_section(story):
    """How C and p were chosen; nothing for a model that was not tuned."""
    if not hasattr(story.model, "Cs_"):
        return None
    scores = Surface.of(story.model)
    cost, norm = scores.chosen
    words = (
        f"{len(scores.costs)} values of C and {len(scores.norms)} of p were tried on "
        f"{count(len(story.model.scores_), 'fold')}. Chosen: C = {number(scores.costs[cost])}, "
        f"p = {number(scores.norms[norm])}, mean score {scores.means[cost, norm]:.4f} ± "
        f"{scores.errors[cost, norm]:.4f} (standard error). The score of the best of many is a "
        "little too good."
    )
    best = np.argsort(-np.nan_to_num(scores.means.ravel(), nan=-np.inf), kind="stable")[:LISTED]
    kernels = np.nanmean(story.model.n_kernels_, axis=0)
    rows = [
        [
            number(scores.costs[i]),
            number(scores.norms[j]),
            f"{scores.means[i, j]:.4f} ± {scores.errors[i, j]:.4f}",
            f"{kernels[i, j]:.1f}",
        ]
        for i, j in (divmod(int(place), len(scores.norms)) for place in best)
        if np.isfinite(scores.means[i, j])
    ]
    return section(
        "How C and p were chosen",
        element("p", words),
        story.charts.place(
            charts.surface(scores),
            "Mean score on held-out folds against C, a line for every p.",
            "Bars are standard errors over the folds; the ring is what was chosen. Scores far "
            "below it are cut off.",
        ),
        folded(
            "Table of the scores, best first",
            table(["C", "p", "mean score ± standard error", "kernels with weight"], rows),
        ),
    )


def _chart(story, rows, label):
    """Bars, or cells where every output has its own weights."""
    outputs = story.shares.outputs
    if not outputs:
        cut = "The bar of the others is cut." if charts.is_cut(rows) else None
        return story.charts.place(charts.bars(rows), f"{label}.", cut)
    return story.charts.place(charts.cells(rows, outputs), f"{label}, one column per output.")


def _weights_words(story, known):
    of = " of the normalized kernels" if story.is_sum else ""
    words = f"Bars are shares of the weight{of}."
    if story.shares.outputs:
        words = (
            "Every output has weights of its own; shares are of the weight within an output, and "
            "their mean in tables."
        )
    if known:
        where = "Tables also say" if story.shares.outputs else "Pale bars show"
        return (
            f"{words} {where} how much of the decision comes from there: the part of the squared "
            "length of the decision "
            "function. A kernel may have much weight and yet decide little."
        )
    if not story.is_sum:
        return (
            f"{words} The kernels are not added up, so the decision cannot be divided among them."
        )
    return (
        f"{words} The parts in the decision are left out: the training points were not kept with "
        "this model."
    )


def _groups_table(groups, known):
    head = [
        "group",
        "kernels",
        "with weight",
        "share of weight",
        *(["share of decision"] if known else []),
    ]
    rows = [
        [
            g.name,
            f"{g.count:,}",
            f"{g.used:,}",
            g.weight,
            *([g.decision] if known else []),
        ]
        for g in groups
    ]
    return table(head, rows)


def _kernels_table(rows, shares):
    known = shares.contribution is not None
    outputs = shares.outputs if len(shares.outputs) <= 12 else []
    head = ["kernel", "share of weight", *(["share of decision"] if known else []), *outputs]
    lines = []
    for row in rows:
        per_output = [percent(share) for share in row.shares] if outputs else []
        lines.append(
            [
                row.name,
                row.weight,
                *([row.decision] if known else []),
                *per_output,
            ]
        )
    return table(head, lines)


def certificate_section(story):
    """How the fit ended and what is proven about it."""
    result = story.result
    if result is None:
        return section(
            "How close to the optimum",
            element("p", "The outcome of the fit was not kept with this model."),
        )
    ended = element(
        "p",
        element("b", result.status.name.replace("_", " ").capitalize() + ". "),
        result.message,
    )
    status = element("div", ended, class_="status" if result.status.converged else "status open")
    parts = [status, element("p", certified(result))]
    if story.model.decision_.approximate:
        parts.append(
            element(
                "p",
                "The proof is about the approximated kernels that were asked for, not about the "
                "exact ones.",
            )
        )
    if result.status is Status.FIXED_WEIGHTS:
        parts.append(
            element(
                "p", "The weights were not learned; the gap is what learning them could still gain."
            )
        )
    return section("How close to the optimum", *parts, _bounds(result.certificate, story.model))


def _bounds(certificate, model):
    bounded, others = np.isfinite(certificate.gap), getattr(model, "other_results_", None)
    return facts(
        [
            ("objective (primal)", number(certificate.primal, 8)),
            ("proven lower bound (dual)", number(certificate.dual, 8) if bounded else None),
            (
                "relative gap",
                percent(max(certificate.gap, 0.0)) if bounded else "none for this formulation",
            ),
            ("tolerance asked for", percent(model.tol) if bounded else None),
            ("other starts tried", len(others) if others else None),
        ]
    )


def convergence_section(story):
    """Gap and objective against time."""
    lines = runs(story.model)
    if not lines:
        return section(
            "How the fit went", element("p", "The history of the fit was not kept with this model.")
        )
    if all(run.seconds.size == 1 for run in lines):
        return section("How the fit went", element("p", "It took one step."), _steps_table(lines))
    parts = []
    if has_gap(lines):
        caption = (
            "The smallest gap so far against time. Training ends when it is below the tolerance."
        )
        parts.append(
            story.charts.place(
                charts.gaps(lines, story.model.tol),
                "Relative duality gap against seconds.",
                caption,
            )
        )
    if any(np.isfinite(run.objectives).any() for run in lines):  # a hard margin may have none
        parts.append(
            story.charts.place(
                charts.objectives(lines),
                "Objective against seconds.",
                "The objective at each step.",
            )
        )
    parts.append(folded("Table of the steps", _steps_table(lines)))
    return section("How the fit went", *parts)


def _steps_table(lines, most=25):
    head = ["step", "seconds", "objective", "relative gap", "kernels with weight", "SVM solves"]
    rows = []
    for run in lines[:4]:
        places = np.unique(
            np.linspace(0, run.iterations.size - 1, min(run.iterations.size, most)).astype(int)
        )
        for i in places:
            gap = f"{run.gaps[i]:.2g}" if np.isfinite(run.gaps[i]) else "–"
            step = f"{run.name + ': ' if run.name else ''}{run.iterations[i]:.0f}"
            work = [number(float(run.kernels_used[i])), number(float(run.svm_solves[i]))]
            rows.append(
                [step, f"{run.seconds[i]:.3f}", number(float(run.objectives[i]), 6), gap, *work]
            )
    return table(head, rows)
