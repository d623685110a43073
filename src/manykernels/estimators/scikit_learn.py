"""scikit-learn's own callbacks (``set_callbacks``, from release 1.9 on), told through our own."""

import copy

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .._html import MOST, Markup, element, result_html, table
from .._shares import heard_shares, heaviest
from .._words import count, percent
from ..result import Result, Status

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing: this release of scikit-learn has no callbacks."""

    def with_callbacks(method):
        """The method as it is."""
        return method


class Bridge:
    """A callback of ours that speaks to scikit-learn's: a task for the fit, and one in it for every
    iteration.

    Parameters
    ----------
    X, y, sample_weight
        What `fit` was called with.

    Attributes
    ----------
    run : Run
        The fit, once it is under way.
    """

    def __init__(self, X, y, sample_weight):
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.data, self.run = {"X": X, "y": y, "metadata": metadata}, None

    def on_fit_begin(self, estimator):
        self.context = estimator._init_callback_context(max_subtasks=None)
        self.context.call_on_fit_task_begin(estimator=estimator, **self.data)

    def on_iteration(self, estimator, record):
        task = self.context.subcontext(task_name=f"{record.stage} iteration".strip())
        task.call_on_fit_task_begin(estimator=estimator, **self.data)
        return task.call_on_fit_task_end(
            estimator=estimator,
            **self.data,
            reconstruction_attributes=lambda: _current(estimator, self.run),
        )

    def on_fit_end(self, estimator, result):
        if result is not None:
            self.context.call_on_fit_task_end(
                estimator=estimator, **self.data, reconstruction_attributes=lambda: {}
            )


def bridges(estimator, X, y, sample_weight):
    """The bridge to the callbacks that were set, if some were."""
    return [Bridge(X, y, sample_weight)] if getattr(estimator, "_skl_callbacks", None) else []


def _current(estimator, run):
    """Attributes of the model at the best iterate so far, None where outputs have weights of their
    own.
    """
    if run.best is None or not estimator.share_weights:
        return None
    state, best = run.best
    model = copy.copy(estimator)
    result = Result(
        best.weights,
        best.beta,
        best.certificate.intercept,
        Status.STOPPED,
        best.certificate,
        n_iter=0,
        counters=state.counters,
    )
    model._keep(result, state.bank, run.prepared)
    model.other_results_ = []
    return vars(model)


# --- what notebooks show of fitted estimators -----------------------------------------------------


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
    names = estimator.bank_.names
    share, regularization = heard_shares(estimator.kernel_weights_, estimator._is_silent)
    shown, left = heaviest(share, MOST)
    rows = [[str(names[k]), percent(float(share[k]))] for k in shown]
    if np.count_nonzero(share[left]):
        rows.append([count(left.size, "other"), percent(float(share[left].sum()))])
    if regularization:
        rows.append(["regularization", f"{percent(regularization)} of all"])
    return rows
