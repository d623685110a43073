"""What notebooks show of banks, results and fitted estimators."""

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .facts import Shares
from .page import Markup, element, table
from .words import certified, count, number, percent, seconds

MOST = 10  # lines of a table


class RichDisplay:
    """Adds the outcome of the fit below scikit-learn's own diagram of an estimator."""

    @property
    def _repr_html_(self):
        diagram = super()._repr_html_  # AttributeError where scikit-learn is told to show none
        return lambda: diagram() + fitted_html(self)

    def _repr_mimebundle_(self, **options):
        bundle = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] += fitted_html(self)
        return bundle


def fitted_html(estimator):
    """Status, gap and heaviest kernels of a fitted estimator; nothing before the fit."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return ""
    rows = [[row.name, percent(row.share)] for row in Shares(estimator).kernels(MOST)]
    result = getattr(estimator, "result_", None)
    outcome = result_html(result) if result is not None else ""
    return element("div", Markup(outcome), table(["kernel", "share of weight"], rows))


def result_html(result):
    """Status, certificate and work of a result."""
    status = element("b", result.status.name.replace("_", " ").capitalize())
    work = [
        count(int((result.weights != 0).sum()), "weight") + " above zero",
        count(result.n_iter, "iteration"),
        count(result.counters.svm_solves, "SVM solve"),
        seconds(result.counters.seconds),
    ]
    words = element("p", status, ": ", result.status.value, " ", certified(result))
    return element("div", words, element("p", " · ".join(work)))


def collection_html(collection):
    """The first kernels of a collection, or the sizes of its groups."""
    head = element(
        "p", element("b", type(collection).__name__), f": {count(len(collection), 'kernel')}"
    )
    return element("div", head, _kernels(collection.names(), collection.groups))


def bank_html(bank):
    """Sizes, normalization and the first kernels of a fitted bank."""
    rows = [
        ["kernels", f"{bank.m:,}"],
        ["training points", f"{bank.n:,}"],
        *([] if bank.symmetric else [["points as rows", f"{bank.n_rows:,}"]]),
        ["normalized by", bank.normalize],
        ["precision", bank.dtype],
        ["threads", number(bank.threads.count)],
    ]
    return element(
        "div",
        element("p", element("b", type(bank).__name__)),
        table(["", ""], rows),
        _kernels(bank.names, bank.groups),
    )


def _kernels(names, groups):
    """The first names; a million are never all asked for."""
    rows = [
        [k, names[k], groups[k] if groups[k] != names[k] else ""]
        for k in range(min(len(names), MOST))
    ]
    if len(names) > MOST:
        rows.append(["…", f"{len(names) - MOST:,} more", ""])
    return (
        table(["", "kernel", "group"], rows, numeric_from=3)
        if any(row[2] for row in rows)
        else _without_groups(rows)
    )


def _without_groups(rows):
    return table(["", "kernel"], [row[:2] for row in rows], numeric_from=2)
