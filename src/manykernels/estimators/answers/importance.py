"""What each group of kernels adds to the score at rows that were held out."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import false_discovery_control, norm, t
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit, check_cv
from sklearn.utils import check_consistent_length, check_random_state

from ..checks import Points, RandomState, check_choice, check_weights
from ..data.frames import data_frame
from ..search.scoring import HeldOutRows
from ..search.splits import checked_splits, refuse_weightless_tests
from .resampling import Groups, Resample, plain, refit, resampled

SPLITS, HELD_OUT = 10, 1 / 3  # random splits by default, and the part of the rows they hold out
MIXED = 10  # times that a group is mixed up for its score
MANY = 2000  # held-out rows from which on the distribution of a sum over mixed rows is normal
PERMUTATIONS, CHUNK = 9999, 2**22  # by default, and entries of permutations that are held at a time
METHODS = ("permutation", "leave_out")
CORRECTIONS = ("holm", "fdr", None)


@dataclass(eq=False)
class Importance:
    """What each group adds to the held-out score. Made by `group_importance`.

    Attributes
    ----------
    groups : list of str
    drops : (n_splits, g) array
        Of the score, without the group.
    p_values : (g,) array
        Of the hypothesis that a group says nothing about the target that the others do not say.
    adjusted : (g,) array
        The same, corrected for the number of groups.
    correction : str or None
    method : str
    scores : (n_splits,) array
        With all groups.
    baseline : float
        The score of always answering with the commonest class, or the mean.
    held_out : float
        Rows that were held out for each that was trained on, on average.
    """

    groups: list[str]
    drops: np.ndarray
    p_values: np.ndarray
    adjusted: np.ndarray
    correction: str | None
    method: str
    scores: np.ndarray
    baseline: float
    held_out: float

    def intervals(self, level: float = 0.95) -> np.ndarray:
        """Intervals of the mean drops, (g, 2); NaN for a single split.

        Splits share rows, so that their drops vary less than those of other rows would: the
        variance of the mean is ``(1 / n_splits + n_test / n_train)`` times that between splits
        (Nadeau and Bengio, Machine Learning 52, 2003).
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1, got {level!r}.")
        return intervals_of(self.drops, self.held_out, level)

    def frame(self, backend: str = "pandas") -> Any:
        """The groups as a table, most important first: mean and standard deviation of the drop of
        the score over the splits, 95 % interval of the mean, p-value, corrected p-value.

        Parameters
        ----------
        backend : {"pandas", "polars"}
        """
        means = self.drops.mean(axis=0)
        order, intervals = np.lexsort((-means, self.p_values)), self.intervals()
        columns = {
            "group": np.array(self.groups, dtype=object),
            "drop": means,
            "std": self.drops.std(axis=0),
            "low": intervals[:, 0],
            "high": intervals[:, 1],
            "p": self.p_values,
            "adjusted p": self.adjusted,
        }
        return data_frame({name: values[order] for name, values in columns.items()}, backend)

    def __repr__(self) -> str:
        found = [self.groups[g] for g in np.argsort(self.adjusted) if self.adjusted[g] <= 0.05]
        named = ", ".join(found[:5]) + (", …" if len(found) > 5 else "")
        return (
            f"<Importance: {len(found)} of {len(self.groups)} groups with corrected p at most 0.05"
            f"{': ' + named if found else ''}; score {self.scores.mean():.3g} ± "
            f"{self.scores.std():.2g}, baseline {self.baseline:.3g}>"
        )


def group_importance(
    model: Any,
    X: Points,
    y: ArrayLike,
    *,
    method: Literal["permutation", "leave_out"] = "permutation",
    cv: Any = None,
    scoring: Any = None,
    n_permutations: int | None = None,
    correction: Literal["holm", "fdr"] | None = "holm",
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = 0,
) -> Importance:
    """What each group of kernels adds to the score at rows that were held out, and whether that may
    be chance.

    Parameters
    ----------
    model : MKL estimator, or a scikit-learn pipeline that ends in one
        Fitted or not; a cross-validated one must have chosen its C and p. The steps before it are
        fitted on the training rows of each split.
    X, y, sample_weight
        As for `fit`.
    method : {"permutation", "leave_out"}
        ``"permutation"`` mixes up what the group says of the held-out rows, in the same models: how
        much they rely on it. ``"leave_out"`` trains without the group: what the others cannot make
        up for. Groups that say the same share their importance in the first and have none in the
        second.
    cv : int, splitter or iterable, optional
        As scikit-learn has it; ten random splits that hold out a third of the rows by default.
    scoring : str or callable, optional
        As scikit-learn has it; the estimator's own by default. An area under the curve
        (``"roc_auc"``) makes smaller steps than accuracy.
    n_permutations : int, optional
        For p-values, which cannot be below ``1 / (n_permutations + 1)``, and over several splits
        twice that. By default 9999 for fewer than 2000 held-out rows, and beyond the limit of
        infinitely many: a normal distribution.
    correction : {"holm", "fdr"} or None
        For many groups: Holm's, with which the probability of any false group is bounded, or that
        of Benjamini and Hochberg, which bounds the expected share of false ones.
    random_state : int, RandomState or None
        Of the splits and permutations.

    Returns
    -------
    Importance

    Notes
    -----
    The p-value of a split belongs to the partial correlation of the target with what the group adds
    to the decision values of the held-out rows, given what the model says without the group; it is
    one-sided, and comes from mixing up the residuals of the target (Freedman and Lane, Journal of
    Business and Economic Statistics 1, 1983). If the target has nothing to do with the data it is
    uniform. Over several splits, which are not independent, it is twice the median, which is valid
    and rather large (van de Wiel, Berkhof and van Wieringen, Biostatistics 10, 2009). A group
    without weight has the value one. Rows count alike in p-values, but for those of weight zero,
    which do not count.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLClassifier, group_importance
    >>> from manykernels.kernels import on_groups
    >>> X = np.random.default_rng(0).normal(size=(80, 6))
    >>> groups = {"first": [0, 1], "second": [2, 3], "third": [4, 5]}
    >>> found = group_importance(MKLClassifier(on_groups(groups)), X, X[:, 2] > 0)
    >>> found.groups[found.drops.mean(axis=0).argmax()]
    'second'
    """
    check_consistent_length(X, y, sample_weight)
    check_choice("method", method, METHODS)
    check_choice("correction", correction, CORRECTIONS)
    if n_permutations is not None and n_permutations < 1:
        raise ValueError(f"n_permutations must be at least 1, got {n_permutations!r}.")
    rng, classes = check_random_state(random_state), is_classifier(plain(model))
    splits = held_out_splits(cv, y, sample_weight, classes, rng)
    many = resampled(model, X, y, sample_weight, splits)
    rows = HeldOutRows(many, check_scoring(many.template, scoring))
    models = many.refits([Resample(split) for split in range(len(splits))])
    return importance_of(rows, models, rng, method, n_permutations, correction)


def held_out_splits(cv, y, sample_weight, classes, rng):
    """The splits that hold out rows: those of `cv`, or random ones."""
    if cv is None:
        kind = StratifiedShuffleSplit if classes else ShuffleSplit
        cv = kind(SPLITS, test_size=HELD_OUT, random_state=rng.randint(2**31 - 1))
    labels = np.asarray(y)
    return _splits(cv, labels, check_weights(sample_weight, labels) > 0.0, classes)


def importance_of(rows, models, rng, method, n_permutations=None, correction="holm"):
    """The `Importance` of the groups in models of the first splits.

    Parameters
    ----------
    rows : HeldOutRows
    models : list of Refit
    rng : RandomState
    method, n_permutations, correction
        As for `group_importance`.
    """
    many = rows.many
    used = [many.groups.heard @ one.weights > 0.0 for one in models]
    without = {}
    if method == "leave_out":
        jobs = [
            Resample(split, int(g)) for split, any_ in enumerate(used) for g in np.flatnonzero(any_)
        ]
        without = dict(zip(jobs, many.refits(jobs), strict=True))
    shape = len(models), len(many.groups.names)
    drops, p_values, scores = np.zeros(shape), np.ones(shape), np.zeros(len(models))
    for split, one in enumerate(models):
        scores[split] = rows.score(split, one.scores)
        target, kept = _targets(many, many.splits[split][1]), []
        for g in np.flatnonzero(used[split]):
            if method == "leave_out":
                rest = without[Resample(split, int(g))].scores
                lower = rows.score(split, rest)
            else:
                rest = one.scores - one.parts[g]
                lower = mixed_up(rows, split, rest, one.parts[g], rng)
            drops[split, g] = scores[split] - lower
            kept.append(_residuals(target, one.scores - rest, rest))
        p_values[split, used[split]] = _p_values(kept, n_permutations, rng)
    combined = p_values[0] if len(models) == 1 else 2.0 * np.median(p_values, axis=0)
    combined = np.minimum(combined, 1.0)
    chosen = range(len(models))
    return Importance(
        groups=many.groups.names,
        drops=drops,
        p_values=combined,
        adjusted=_corrected(combined, correction),
        correction=correction,
        method=method,
        scores=scores,
        baseline=rows.baseline(chosen),
        held_out=_held_out(many.splits[: len(models)]),
    )


def intervals_of(drops, held_out, level=0.95):
    """Intervals of the means of drops (n_splits, g), (g, 2); see `Importance.intervals`."""
    count, means = len(drops), drops.mean(axis=0)
    if count < 2:
        return np.full((means.size, 2), np.nan)
    spread = drops.std(axis=0, ddof=1) * np.sqrt(1.0 / count + held_out)
    reach = t.ppf(0.5 + 0.5 * level, count - 1) * spread
    return np.column_stack([means - reach, means + reach])


def _held_out(splits):
    """Rows that are held out for each that is trained on, on average."""
    return float(np.mean([len(test) / len(train) for train, test in splits]))


class FittedRows:
    """A fitted model at rows that it has not seen, as a `Resampling` of one split that is trained.

    Parameters
    ----------
    model : fitted MKL estimator
    X, y : as for `score`
    """

    def __init__(self, model, X, y):
        self.template, self.y = model, np.asarray(y)
        self.weight, everything = np.ones(len(self.y)), np.arange(len(self.y))
        self.splits = [(everything, everything)]
        self.groups = Groups.of(model.bank_, model._is_silent)
        parts = model._parts(X, self.groups.parts)
        self.refit = refit(model.kernel_weights_, None, parts, model.intercept_)


def fitted_importance(model: Any, X: Points, y: ArrayLike, random_state: RandomState = 0):
    """The `Importance` of the groups of a fitted sum of kernels at rows that it was not trained on,
    mixing up what each says of them; without an interval, since there is one model.
    """
    rng, rows = check_random_state(random_state), FittedRows(model, X, y)
    judge = HeldOutRows(rows, check_scoring(model, None))
    return importance_of(judge, [rows.refit], rng, "permutation")


def mixed_up(rows, split, rest, part, rng, times=MIXED):
    """The mean score at the rows of a split if what a group says of them is mixed up."""
    orders = [rng.permutation(rest.shape[1]) for _ in range(times)]
    return np.mean([rows.score(split, rest + part[:, order]) for order in orders])


def _splits(cv, y, counted, classes):
    """The splits of rows that count; those that are given may have others, which are left out."""
    rows = np.flatnonzero(counted)
    if cv is not None and not isinstance(cv, numbers.Integral) and not hasattr(cv, "split"):
        pairs = checked_splits(cv, counted.astype(float))
        refuse_weightless_tests(pairs, counted)
        return [(train[counted[train]], test[counted[test]]) for train, test in pairs]
    splitter = check_cv(cv, y[rows], classifier=classes)
    return [
        (rows[train], rows[test]) for train, test in splitter.split(np.zeros(rows.size), y[rows])
    ]


def _targets(many, test):
    """What the outputs should say of some rows, (t, n): sides of classes, or numbers."""
    y = many.y[test]
    if not is_classifier(many.template):
        return y.reshape(len(y), -1).T.astype(float)
    labels = many.template.classes_
    sides = zip(*many.template._sides(), strict=True)
    return np.array(
        [
            np.isin(y, labels[ours]).astype(float) - np.isin(y, labels[theirs])
            for ours, theirs in sides
        ]
    )


def _residuals(target, added, rest):
    """What the rest leaves of a target, and of what a group adds; all (t, n)."""
    return tuple(
        np.array([_without(one, other) for one, other in zip(rows, rest, strict=True)])
        for rows in (target, added)
    )


def _p_values(pairs, count, rng):
    """Of the correlation of residuals (t, n) of a target and of what a group adds, for every group:
    how often it is as large if those of the target are mixed up.
    """
    if not pairs:
        return np.empty(0)
    found = np.array([np.sum(left * own) for left, own in pairs])
    lengths = np.array([np.linalg.norm(left) * np.linalg.norm(own) for left, own in pairs])
    n = pairs[0][0].shape[1]
    if count is None and n >= MANY:
        spreads = np.array([_spread(left, own) for left, own in pairs])
        scaled = np.divide(found, spreads, out=np.full(found.size, -np.inf), where=spreads > 0.0)
        return norm.sf(scaled)
    count, above = PERMUTATIONS if count is None else count, np.ones(len(pairs))
    for first in range(0, count, max(1, CHUNK // n)):
        some = min(max(1, CHUNK // n), count - first)
        order = np.argsort(rng.random_sample((some, n)), axis=1)
        for g, (left, own) in enumerate(pairs):
            mixed = sum(row[order] @ mine for row, mine in zip(left, own, strict=True))
            above[g] += np.sum(mixed >= found[g] - 1e-12 * lengths[g])
    return above / (count + 1.0)


def _spread(left, own):
    """Standard deviation over all orders of the rows of ``left`` of the sum of products with
    ``own``; both (t, n), with means of zero.
    """
    return np.sqrt(np.sum((left @ left.T) * (own @ own.T)) / (left.shape[1] - 1.0))


def _without(values, other):
    """What is left of values (n,) after a line in other ones."""
    left, slopes = values - values.mean(), other - other.mean()
    length = np.linalg.norm(slopes)
    if length > 1e-12 * np.abs(other).max(initial=0.0):
        slopes = slopes / length
        left = left - slopes * (slopes @ left)
    return np.where(np.abs(left) > 1e-12 * np.abs(values).max(initial=0.0), left, 0.0)


def _corrected(p_values, correction):
    if correction is None:
        return p_values
    if correction == "fdr":
        return false_discovery_control(p_values, method="bh")
    order, count = np.argsort(p_values, kind="stable"), p_values.size
    steps = np.maximum.accumulate(p_values[order] * (count - np.arange(count)))
    out = np.empty(count)
    out[order] = np.minimum(steps, 1.0)
    return out
