"""Copies of estimators that share what costs time: kernels, and what was learned from data."""


def unfitted(estimator):
    """An unfitted estimator with the same parameters; scikit-learn's `clone` would copy a fitted
    bank.
    """
    return type(estimator)(**estimator.get_params(deep=False))


def like(template, **parameters):
    """A twin with the attributes that the template learned from the data."""
    model = unfitted(template).set_params(**parameters)
    vars(model).update(
        {name: value for name, value in vars(template).items() if name.endswith("_")}
    )
    return model
