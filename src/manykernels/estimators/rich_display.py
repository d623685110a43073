"""What notebooks show of fitted estimators."""

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .._html import MOST, Markup, element, result_html, table
from .._shares import heaviest, mean_shares
from .._words import count, percent


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
    result = getattr(estimator, "result_", None)
    outcome = result_html(result) if result is not None else ""
    return element("div", Markup(outcome), table(["kernel", "share of weight"], _rows(estimator)))


def _rows(estimator):
    share, names = mean_shares(estimator.kernel_weights_), estimator.bank_.names
    shown, left = heaviest(share, MOST)
    rows = [[str(names[k]), percent(float(share[k]))] for k in shown]
    if np.count_nonzero(share[left]):
        rows.append([count(left.size, "other"), percent(float(share[left].sum()))])
    return rows
