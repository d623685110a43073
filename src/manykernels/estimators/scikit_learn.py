"""scikit-learn's own callbacks (``set_callbacks``, from release 1.9 on), told through our own."""

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before 1.9

    class CallbackSupportMixin:
        """Nothing: this release of scikit-learn has no callbacks."""

    def with_callbacks(method):
        """The method as it is."""
        return method


class Bridge:
    """A callback of ours that speaks to scikit-learn's: a task for the fit, and one in it for every iteration.

    Parameters
    ----------
    X, y, sample_weight
        What `fit` was called with.
    current : callable
        Gives the attributes of the model as it is now, or None.
    """

    def __init__(self, X, y, sample_weight, current):
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self.data, self.current = {"X": X, "y": y, "metadata": metadata}, current

    def on_fit_begin(self, estimator):
        self.context = estimator._init_callback_context(max_subtasks=None)
        self.context.call_on_fit_task_begin(estimator=estimator, **self.data)

    def on_iteration(self, estimator, record):
        task = self.context.subcontext(task_name=f"{record.stage} iteration".strip())
        task.call_on_fit_task_begin(estimator=estimator, **self.data)
        return task.call_on_fit_task_end(estimator=estimator, **self.data, reconstruction_attributes=self.current)

    def on_fit_end(self, estimator, result):
        if result is not None:
            self.context.call_on_fit_task_end(estimator=estimator, **self.data, reconstruction_attributes=lambda: {})


def bridges(estimator, X, y, sample_weight, current):
    """The bridge to the callbacks that were set, if some were."""
    return [Bridge(X, y, sample_weight, current)] if getattr(estimator, "_skl_callbacks", None) else []
