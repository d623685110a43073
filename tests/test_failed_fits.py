"""A fit that raises leaves the estimator as it was."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from conftest import toy
from manykernels import MKLClassifier, MKLClassifierCV, MKLOneClass, MKLRegressor, MKLRegressorCV

X, Y = toy(60)
ESTIMATORS = (
    MKLClassifier(),
    MKLRegressor(),
    MKLOneClass(),
    MKLClassifierCV(Cs=2, cv=2),
    MKLRegressorCV(Cs=2, cv=2),
)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("reason", ["solver", "interrupt"])
def test_the_earlier_model_answers_as_before(estimator, reason, monkeypatch):
    model = type(estimator)(**estimator.get_params()).fit(X, Y)
    before, known = model.predict(X), set(vars(model))
    if reason == "solver":
        model.set_params(solver="none of this name")
        raised = ValueError
    else:

        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("manykernels.estimators.base.FitSession.begin", interrupted)
        monkeypatch.setattr("manykernels.estimators.search.tuned.Tuned._solved", interrupted)
        raised = KeyboardInterrupt
    with pytest.raises(raised):
        model.fit(1000.0 * X[:40] + 5.0, np.where(X[:40, 0] > 0, 7.0, 8.0))
    np.testing.assert_array_equal(model.predict(X), before)
    assert set(vars(model)) == known


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_without_an_earlier_model_it_is_not_fitted(estimator):
    model = type(estimator)(**estimator.get_params()).set_params(solver="none of this name")
    with pytest.raises(ValueError, match="solver"):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert vars(model).keys() == vars(type(model)()).keys()
