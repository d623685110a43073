"""How well a model does on data that the report was given."""

import numpy as np
from scipy.stats import binomtest
from sklearn.metrics import auc, average_precision_score, precision_recall_curve, roc_curve

from ..._html import element, table
from ..._words import count, number, percent
from . import charts
from .page import facts, folded, section

MOST_CLASSES = 40  # of a confusion matrix that can be read
MOST_POINTS = 1500  # of a scatter plot
MOST_TARGETS = 4
MOST_CURVES, MOST_STEPS = 10, 300  # classes with a curve, and points of it
DRAWS = 200  # of the points, for intervals
BINS = 10  # groups of probabilities


def score(story):
    """The number to look at first, and what it is; None without data."""
    if story.X is None or (story.y is None and not hasattr(story.model, "nu")):
        return None
    n = count(len(story.predicted), "point")
    if hasattr(story.model, "classes_"):
        return percent(np.mean(story.predicted == np.asarray(story.y))), f"accuracy on {n}"
    if hasattr(story.model, "nu"):
        return percent(np.mean(story.predicted == 1)), f"of {n} inside"
    return f"{_r2(*_pairs(story)).mean():.3f}", f"R² on {n}"


def outcome_section(story):
    """Confusion matrix, residuals or scores; nothing without data."""
    if story.X is None:
        return section(
            "How well it does",
            element("p", "No data were given to this report to judge the model on."),
        )
    if hasattr(story.model, "nu"):
        parts = _novelties(story)
    elif story.y is None:
        parts = _without_truth(story)
    elif hasattr(story.model, "classes_"):
        parts = _classified(story)
    else:
        parts = _residuals(story)
    return section("How well it does", element("p", _which_data(story)), *parts)


def _which_data(story):
    n = count(len(story.predicted), "point")
    if story.trained_on:
        return f"On the {n} that the model was trained on. Expect less on new ones."
    return f"On the {n} given to this report."


def _classified(story):
    y, predicted, classes = np.asarray(story.y), story.predicted, story.model.classes_
    # y may hold classes that were not there in training
    names = np.unique(np.concatenate([classes, y]))
    i, j = np.searchsorted(names, y), np.searchsorted(names, predicted)
    counts = np.bincount(i * names.size + j, minlength=names.size**2).reshape(
        names.size, names.size
    )
    parts = []
    if names.size <= MOST_CLASSES:
        caption = (
            "Rows are true classes, columns what the model says; the stronger the color, the "
            "larger the part of the row."
        )
        parts.append(
            story.charts.place(
                charts.confusion(counts, names),
                "Confusion matrix.",
                caption,
                200 + 110 * names.size,
            )
        )
    known = _chances(np.diagonal(counts).sum(), counts.sum(), counts.sum(axis=1).max())
    by_class = _classes_table(counts, names)
    return [known, *parts, by_class, *_curves(story), *_probabilities(story)]


def _curves(story):
    """Receiver operating characteristic, and precision against recall, of points that the model
    was not trained on: of the second of two classes, or of each against the rest.
    """
    model, y = story.model, np.asarray(story.y)
    if story.trained_on or not hasattr(story.given, "decision_function"):
        return []
    scores = np.asarray(story.given.decision_function(story.X))
    scores = scores[:, None] if scores.ndim == 1 else scores
    classes = model.classes_[-scores.shape[1] :]
    shown = [c for c in range(classes.size) if 0 < np.sum(y == classes[c]) < y.size]
    if not shown or len(shown) > MOST_CURVES:
        return []
    roc, pr = [], []
    for c in shown:
        truth, name = y == classes[c], str(classes[c])
        wrong, found, _ = roc_curve(truth, scores[:, c])
        precision, recall, _ = precision_recall_curve(truth, scores[:, c])
        area, mean = auc(wrong, found), average_precision_score(truth, scores[:, c])
        roc.append((f"{name}: area {area:.3f}", *_thinned(wrong, found)))
        pr.append((f"{name}: mean {mean:.3f}", *_thinned(recall, precision)))
    return [
        element("h3", "Other thresholds"),
        story.charts.place(
            charts.curves(roc, ("others that are taken for it", "found"), diagonal=True),
            "Receiver operating characteristic.",
            "Receiver operating characteristic: the share of a class that is found against the "
            "share of the others that are taken for it, at every threshold; guessing is on the "
            "dashed line.",
            charts.WIDEST,
        ),
        story.charts.place(
            charts.curves(pr, ("found (recall)", "right (precision)"), diagonal=False),
            "Precision against recall.",
            "Precision against recall: how many of those that are taken for a class are of it; "
            "guessing has the share of the class.",
            charts.WIDEST,
        ),
    ]


def _thinned(x, y):
    """At most so many points of a curve, with its ends."""
    places = np.linspace(0, len(x) - 1, min(len(x), MOST_STEPS)).round().astype(int)
    return x[places], y[places]


def _chances(right, points, commonest):
    """Accuracy with an interval, and that of always saying the commonest class."""
    low, high = binomtest(int(right), int(points)).proportion_ci(method="wilson")
    return facts(
        [
            ("accuracy", percent(right / points)),
            ("95 % interval", f"{percent(low)} – {percent(high)}"),
            ("always the commonest class", percent(commonest / points)),
        ]
    )


def _probabilities(story):
    """Brier score and reliability, where there are probabilities of known classes."""
    model, y = story.model, np.asarray(story.y)
    source = _source(model)
    if source is None or not np.isin(y, model.classes_).all():
        return []
    found = np.asarray(story.given.predict_proba(story.X))
    truth = (y[:, None] == model.classes_[None]).astype(float)
    # of two classes one says it all
    shown = slice(1, None) if model.classes_.size == 2 else slice(None)
    of = f"class {model.classes_[1]}" if shown.start else f"each of {model.classes_.size} classes"
    said, was = found[:, shown].ravel(), truth[:, shown].ravel()
    parts = np.array_split(np.argsort(said, kind="stable"), min(BINS, max(2, said.size // 10)))
    means = [(said[part].mean(), was[part].mean(), part.size) for part in parts if part.size]
    error = sum(abs(a - b) * n for a, b, n in means) / said.size
    brier = float(np.mean(np.sum((found - truth) ** 2, axis=1)) / (2 if shown.start else 1))
    base = truth.mean(axis=0)
    constant = float(np.mean(np.sum((base - truth) ** 2, axis=1)) / (2 if shown.start else 1))
    return [
        element("h3", "Probabilities"),
        story.charts.place(
            charts.reliability(*zip(*means, strict=True), of),
            f"How often {of} came true against its predicted probability.",
            f"How often it was {of}, in groups of equally many predictions; on the dashed line "
            "they are right.",
        ),
        facts(
            [
                ("Brier score", f"{brier:.4f}"),
                ("the same for the shares of the classes", f"{constant:.4f}"),
                ("mean error of a probability", percent(error)),
                source,
            ]
        ),
    ]


def _source(model):
    """What makes decision values probabilities, as a fact; None if nothing does."""
    if hasattr(model, "calibration"):
        kind = getattr(model, "calibration_kind_", None)
        return None if kind is None else ("calibrated by", kind)
    return ("by", "the logistic loss") if hasattr(model, "predict_proba") else None


def _classes_table(counts, names, most=20):
    """Per class, the least well found first where there are many."""
    right, points, said = np.diagonal(counts), counts.sum(axis=1), counts.sum(axis=0)
    recall, precision = (
        np.divide(right, of, out=np.full(names.size, np.nan), where=of > 0) for of in (points, said)
    )
    order = (
        np.arange(names.size) if names.size <= most else np.argsort(recall, kind="stable")[:most]
    )
    rows = [[names[c], f"{points[c]:,}", percent(recall[c]), percent(precision[c])] for c in order]
    made = table(["class", "points", "recall", "precision"], rows)
    return (
        made
        if names.size <= most
        else element("div", element("p", f"The {most} classes that are found least:"), made)
    )


def _without_truth(story):
    predicted = story.predicted
    if not hasattr(story.model, "classes_"):
        return [
            story.charts.place(
                charts.histogram(predicted.ravel(), "predicted value"),
                "Histogram of the predictions.",
            )
        ]
    names, counts = np.unique(predicted, return_counts=True)
    return [
        table(
            ["predicted class", "points"],
            [[name, f"{n:,}"] for name, n in zip(names, counts, strict=True)],
        )
    ]


def _pairs(story):
    """True and predicted values, (n, targets) each."""
    return tuple(
        np.asarray(values, dtype=float).reshape(len(values), -1)
        for values in (story.y, story.predicted)
    )


def _r2(true, predicted):
    total = np.square(true - true.mean(axis=0)).sum(axis=0)
    return 1.0 - np.divide(
        np.square(true - predicted).sum(axis=0), total, out=np.ones_like(total), where=total > 0
    )


def _residuals(story):
    true, predicted = _pairs(story)
    names = [f"target {c}" for c in range(true.shape[1])] if true.shape[1] > 1 else ["target"]
    errors = predicted - true
    numbers = zip(
        names,
        np.sqrt(np.square(errors).mean(axis=0)),
        np.abs(errors).mean(axis=0),
        _r2(true, predicted),
        _r2_intervals(true, predicted),
        strict=True,
    )
    head = ["", "root mean squared error", "mean absolute error", "R²", "95 % interval"]
    step, shown = -(-len(true) // MOST_POINTS), slice(MOST_TARGETS)
    drawn = charts.scatter(true[::step, shown], predicted[::step, shown], names[shown])
    caption = "On the dashed line the prediction is right." + (
        f" One point in {step} is drawn." if step > 1 else ""
    )
    return [
        story.charts.place(drawn, "Predicted against true values.", caption),
        story.charts.place(
            charts.histogram(errors[:, shown].ravel(), "prediction minus true value"),
            "Histogram of the errors.",
        ),
        table(
            head,
            [
                [name, number(float(a)), number(float(b)), f"{r:.3f}", f"{low:.3f} – {high:.3f}"]
                for name, a, b, r, (low, high) in numbers
            ],
        ),
        element("p", "Always answering with the mean of these targets has an R² of 0."),
    ]


def _r2_intervals(true, predicted):
    """Intervals of R², one for each target, from points drawn with putting back."""
    rng, n = np.random.default_rng(0), len(true)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = [_r2(true[rows], predicted[rows]) for rows in rng.integers(0, n, (DRAWS, n))]
    return np.nanquantile(drawn, [0.025, 0.975], axis=0).T


def _novelties(story):
    scores = np.asarray(story.given.decision_function(story.X))
    caption = "Points left of the dashed line are outside: novelties."
    parts = [
        story.charts.place(charts.histogram(scores, "score"), "Histogram of the scores.", caption)
    ]
    outside = int((scores < 0).sum())
    pairs = [
        ("inside", f"{scores.size - outside:,}"),
        ("outside", f"{outside:,}"),
        ("median score", number(float(np.median(scores)))),
    ]
    worst = np.argsort(scores, kind="stable")[:10]
    rows = [[f"{row}", number(float(scores[row]))] for row in worst]
    return [
        *parts,
        facts(pairs),
        folded("The points that lie furthest outside", table(["row", "score"], rows)),
    ]
