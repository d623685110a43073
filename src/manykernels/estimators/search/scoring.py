"""Scores of decision values that are at hand, by scikit-learn's scorers."""

import inspect

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.utils.metaestimators import available_if

from ..classifier import knows_probabilities


def takes_weights(scorer):
    """Whether a scorer can weigh rows; an estimator's own `score` does."""
    judge = getattr(scorer, "_score_func", scorer)
    return type(scorer).__name__ == "_PassthroughScorer" or (
        "sample_weight" in inspect.signature(judge).parameters
    )


def refuse_probabilities(scorer, model):
    """Raise if a scorer asks for probabilities that there will not be."""
    response = getattr(scorer, "_response_method", "")
    if is_classifier(model) and response == "predict_proba":
        try:
            knows_probabilities(model)
        except AttributeError as error:
            raise ValueError(
                "This score needs probabilities, and those of decision values are made when C and "
                "p are chosen: use one of decision values, such as 'roc_auc', or loss='logistic'."
            ) from error


class HeldOut(BaseEstimator):
    """A model as scorers want it, that knows its answers for the held-out rows."""

    def __init__(self, model=None, scores=None):
        self.model, self.scores = model, scores
        if hasattr(model, "classes_"):
            self.classes_ = model.classes_


class HeldOutClassifier(ClassifierMixin, HeldOut):
    def predict(self, X):
        # calibration comes after the choice of C and p, which scores decide
        return self.model._classes_by_margin(self.scores)

    def decision_function(self, X):
        return self.model._by_class(self.scores)

    @available_if(lambda self: knows_probabilities(self.model))
    def predict_proba(self, X):
        return np.exp(self.model._log_probabilities(self.scores))

    def score(self, X, y, sample_weight=None):
        # accuracy, without scikit-learn's checks, which take longer than all else here
        return float(np.average(self.predict(X) == y, weights=sample_weight))


class HeldOutRegressor(RegressorMixin, HeldOut):
    def predict(self, X):
        return self.model._shaped(self.scores)


class HeldOutRows:
    """Scores of the models of a `Resampling` at rows that were held out.

    Parameters
    ----------
    many : Resampling
    scorer : callable
    """

    def __init__(self, many, scorer):
        refuse_probabilities(scorer, many.template)
        self.many, self.scorer = many, scorer
        weighs = np.ptp(many.weight[many.weight > 0.0]) > 0.0
        self._weighs = weighs and takes_weights(scorer)
        self._kind = HeldOutClassifier if is_classifier(many.template) else HeldOutRegressor

    def score(self, split, scores):
        """Of decision values (t, n_test) at the rows that a split holds out."""
        test = self.many.splits[split][1]
        y, model = self.many.y[test], self._kind(self.many.template, scores)
        given = {"sample_weight": self.many.weight[test]} if self._weighs else {}
        return float(self.scorer(model, np.zeros((len(y), 1)), y, **given))

    def baseline(self, splits):
        """The mean score, over some splits, of answers that are the same for all rows: the
        commonest class of the training rows, or their mean.
        """
        found = []
        for split in splits:
            train, test = self.many.splits[split]
            answer = self._commonest(self.many.y[train], self.many.weight[train])
            found.append(self.score(split, np.repeat(answer[:, None], len(test), axis=1)))
        return float(np.mean(found))

    def _commonest(self, y, weight):
        if not is_classifier(self.many.template):
            return np.average(y.reshape(len(y), -1), axis=0, weights=weight)
        template = self.many.template
        shares = np.array([weight[y == label].sum() for label in template.classes_])
        sides = zip(*template._sides(), strict=True)
        return np.array([shares[ours].sum() - shares[theirs].sum() for ours, theirs in sides])
