"""Copies of estimators that share what costs time: kernels, and what was learned from data."""

from functools import cache, wraps

from sklearn.base import BaseEstimator


def unfitted(estimator):
    """An unfitted estimator with the same parameters; scikit-learn's `clone` would copy a fitted
    bank.
    """
    return type(estimator)(**estimator.get_params(deep=False))


def all_or_nothing(fit):
    """A fit that raises leaves the estimator as it was before: fitted by an earlier one, or not."""

    @wraps(fit)
    def whole(self, *given, **named):
        before = dict(vars(self))
        try:
            return fit(self, *given, **named)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return whole


def like(template, **parameters):
    """A twin with the attributes that the template learned from the data."""
    kind = type(template)
    if kind.get_params is BaseEstimator.get_params:
        model = kind(**{name: getattr(template, name) for name in _names(kind)} | parameters)
    else:
        model = unfitted(template).set_params(**parameters)
    vars(model).update(
        {name: value for name, value in vars(template).items() if name.endswith("_")}
    )
    return model


@cache
def _names(kind):
    """Names of an estimator's parameters; to read them from its signature takes a while."""
    return tuple(kind._get_param_names())
