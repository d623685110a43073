"""Scores of decision values that are at hand, by scikit-learn's scorers."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier


class HeldOut(BaseEstimator):
    """A model as scorers want it, that knows its answers for the held-out rows."""

    def __init__(self, model=None, scores=None):
        self.model, self.scores = model, scores
        if hasattr(model, "classes_"):
            self.classes_ = model.classes_


class HeldOutClassifier(ClassifierMixin, HeldOut):
    def predict(self, X):
        return self.model.classes_from_scores(self.scores)

    def decision_function(self, X):
        return self.model._by_class(self.scores)


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
        self.many, self.scorer = many, scorer
        self._kind = HeldOutClassifier if is_classifier(many.template) else HeldOutRegressor

    def score(self, split, scores):
        """Of decision values (t, n_test) at the rows that a split holds out."""
        y = self.many.y[self.many.splits[split][1]]
        model = self._kind(self.many.template, scores)
        return float(self.scorer(model, np.zeros((len(y), 1)), y))

    def baseline(self):
        """The mean score of answers that are the same for all rows: the commonest class of the
        training rows, or their mean.
        """
        found = []
        for split, (train, test) in enumerate(self.many.splits):
            answer = self._commonest(self.many.y[train])
            found.append(self.score(split, np.repeat(answer[:, None], len(test), axis=1)))
        return float(np.mean(found))

    def _commonest(self, y):
        if not is_classifier(self.many.template):
            return y.reshape(len(y), -1).mean(axis=0)
        template = self.many.template
        shares = np.array([np.mean(y == label) for label in template.classes_])
        sides = zip(*template._sides(), strict=True)
        return np.array([shares[ours].sum() - shares[theirs].sum() for ours, theirs in sides])
