"""How sure it is which groups of kernels matter: selection frequencies over halves of the rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils import check_consistent_length, check_random_state

from ..._callers import user_stacklevel
from ..checks import Points, RandomState, check_weights
from ..data.frames import data_frame
from ..search.scoring import HeldOutRows
from .resampling import Resample, plain, resampled

LEAST = 2  # rows of a class that can be halved


@dataclass(eq=False)
class Stability:
    """Models of halves of the rows. Made by `stability`.

    Attributes
    ----------
    groups : list of str
    frequencies : (g,) array
        How often each group was selected.
    threshold : float
        Frequency from which on a group counts as stable.
    weights, contributions : (n_resamples, g) arrays
        Shares of the groups in the weight, and in the squared norm of the function.
    whole_weights, whole_contributions : (g,) arrays
        The same of the model of all rows.
    scores : (n_resamples,) array
        Of every model on the other half.
    baseline : float
        The score of always answering with the commonest class, or the mean.
    mean_selected : float
        Groups that a model selects.
    """

    groups: list[str]
    frequencies: np.ndarray
    threshold: float
    weights: np.ndarray
    contributions: np.ndarray
    whole_weights: np.ndarray
    whole_contributions: np.ndarray
    scores: np.ndarray
    baseline: float
    mean_selected: float

    def stable(self, threshold: float | None = None) -> list[str]:
        """Groups that were selected at least so often, most frequent first."""
        threshold = self.threshold if threshold is None else threshold
        order = np.argsort(-self.frequencies, kind="stable")
        return [self.groups[g] for g in order if self.frequencies[g] >= threshold - 1e-12]

    def expected_false(self, threshold: float | None = None, *, unimodal: bool = True) -> float:
        """A bound on the expected number of stable groups that a model of half the rows selects no
        more often than a blind choice of as many groups would; see `false_selections`.
        """
        threshold = self.threshold if threshold is None else threshold
        pairs = len(self.weights) // 2
        return false_selections(
            self.mean_selected, len(self.groups), threshold, pairs, unimodal=unimodal
        )

    def intervals(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Intervals of the shares of weight and of contribution, two (g, 2) arrays.

        Quantiles over the halves. A mean over half the rows, drawn without putting back, varies
        around that of all rows as that of all rows does around the truth, so that they are as wide
        as those of a bootstrap.
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must be between 0 and 1, got {level!r}.")
        ends = [0.5 - 0.5 * level, 0.5 + 0.5 * level]
        return np.quantile(self.weights, ends, axis=0).T, np.quantile(
            self.contributions, ends, axis=0
        ).T

    def frame(self, level: float = 0.95, backend: str = "pandas") -> Any:
        """The groups as a table, most frequent first: frequency, whether stable, shares of weight
        and contribution in the model of all rows with their intervals.

        Parameters
        ----------
        level : float
            Of the intervals.
        backend : {"pandas", "polars"}
        """
        weight, contribution = self.intervals(level)
        order = np.lexsort((-self.whole_contributions, -self.frequencies))
        columns = {
            "group": np.array(self.groups, dtype=object),
            "frequency": self.frequencies,
            "stable": self.frequencies >= self.threshold - 1e-12,
            "weight": self.whole_weights,
            "weight low": weight[:, 0],
            "weight high": weight[:, 1],
            "contribution": self.whole_contributions,
            "contribution low": contribution[:, 0],
            "contribution high": contribution[:, 1],
        }
        return data_frame({name: values[order] for name, values in columns.items()}, backend)

    def __repr__(self) -> str:
        stable = self.stable()
        named = ", ".join(stable[:5]) + (", …" if len(stable) > 5 else "")
        return (
            f"<Stability: {len(stable)} of {len(self.groups)} groups in at least "
            f"{self.threshold:.0%} of {len(self.weights)} halves"
            f"{': ' + named if stable else ''}; at most {self.expected_false():.2g} of them by "
            f"chance; score {self.scores.mean():.3g} ± {self.scores.std():.2g}, baseline "
            f"{self.baseline:.3g}>"
        )


def stability(
    model: Any,
    X: Points,
    y: ArrayLike,
    *,
    n_resamples: int = 100,
    max_groups: int | None = None,
    threshold: float = 0.75,
    scoring: Any = None,
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = 0,
) -> Stability:
    """How often groups of kernels are selected when half of the rows are left out.

    The rows are halved at random n_resamples / 2 times, class by class, and a model is trained on
    either half (complementary pairs: Shah and Samworth, Journal of the Royal Statistical Society B
    75, 2013). All models share the kernels, so that a hundred cost as much as a few fits. Widths
    that follow the data follow all rows. Kernels that say nothing about other points select no
    group, and shares are of the others (see `MKLClassifier.group_weights_`).

    Parameters
    ----------
    model : MKL estimator, or a scikit-learn pipeline that ends in one
        Fitted or not; a cross-validated one must have chosen its C and p. The steps before it are
        fitted on each half, which then has kernels of its own.
    X, y, sample_weight
        As for `fit`.
    n_resamples : int
        Models, an even number.
    max_groups : int, optional
        A model selects the groups that have weight, and of those only so many with the largest
        contributions. The fewer, the smaller the number of false selections that the bound allows.
        Needed for p > 1, where every group has weight.
    threshold : float
        Above one half: groups that are selected at least so often are stable.
    scoring : str or callable, optional
        As scikit-learn has it, for the score of every model on the other half.
    random_state : int, RandomState or None
        Of the halves.

    Returns
    -------
    Stability

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLClassifier, stability
    >>> from manykernels.kernels import on_groups
    >>> X = np.random.default_rng(0).normal(size=(80, 6))
    >>> groups = {"first": [0, 1], "second": [2, 3], "third": [4, 5]}
    >>> model = MKLClassifier(on_groups(groups), C=0.1)
    >>> found = stability(model, X, X[:, 2] > 0, n_resamples=10, max_groups=1)
    >>> dict(zip(found.groups, (found.frequencies > 0.9).tolist()))
    {'first': False, 'second': True, 'third': False}
    """
    if n_resamples < 4 or n_resamples % 2:
        raise ValueError(f"n_resamples must be an even number of at least 4, got {n_resamples!r}.")
    if not 0.5 < threshold <= 1.0:
        raise ValueError(f"threshold must be above 0.5 and at most 1, got {threshold!r}.")
    check_consistent_length(X, y, sample_weight)
    if max_groups is not None and max_groups < 1:
        raise ValueError(f"max_groups must be at least 1, got {max_groups!r}.")
    twin = plain(model)
    if max_groups is None and not twin.p == 1.0 and twin.regularizer is None:
        raise ValueError(
            f"With p = {twin.p:g} every group has weight: train with p=1, or say how many a model "
            "selects (max_groups)."
        )
    splits = halves_of(y, sample_weight, n_resamples // 2, is_classifier(twin), random_state)
    many = resampled(model, X, y, sample_weight, splits)
    rows = HeldOutRows(many, check_scoring(many.template, scoring))
    models = many.refits([Resample(split) for split in range(n_resamples)])
    found = stability_of(rows, models, 0, threshold, max_groups)
    if max_groups is None and (found.frequencies == 1.0).all():
        warnings.warn(
            "Every model selects every group, so that frequencies say nothing: lower C, or say how "
            "many groups a model selects (max_groups).",
            stacklevel=user_stacklevel(),
        )
    return found


def halves_of(y, sample_weight, pairs, by_class, random_state):
    """Pairs of `halves` of the rows that count."""
    labels = np.asarray(y)
    counted = np.flatnonzero(check_weights(sample_weight, labels) > 0.0)
    parts = halves(labels[counted], pairs, by_class, random_state)
    return [(counted[train], counted[test]) for train, test in parts]


def stability_of(rows, models, first, threshold=0.75, max_groups=None):
    """The `Stability` of the groups in models of halves.

    Parameters
    ----------
    rows : HeldOutRows
    models : list of Refit
    first : int
        Number of the first of their splits.
    threshold, max_groups
        As for `stability`.
    """
    groups, whole = rows.many.groups, rows.many.of_all_rows()
    weights = np.array([groups.weights(one) for one in models])
    parts = np.array([groups.contributions(one) for one in models])
    selected = weights > 0.0
    if max_groups is not None:
        selected &= _largest(parts, max_groups)
    return Stability(
        groups=groups.names,
        frequencies=selected.mean(axis=0),
        threshold=float(threshold),
        weights=weights,
        contributions=parts,
        whole_weights=groups.weights(whole),
        whole_contributions=groups.contributions(whole),
        scores=np.array([rows.score(first + h, one.scores) for h, one in enumerate(models)]),
        baseline=rows.baseline(range(first, first + len(models))),
        mean_selected=float(selected.sum(axis=1).mean()),
    )


def false_selections(
    selected: float, groups: int, threshold: float, pairs: int, *, unimodal: bool = True
) -> float:
    """A bound on the expected number of groups that are selected at least with the frequency
    `threshold`, although a model of half the rows selects them with a probability of at most
    ``selected / groups``, which is that of a blind choice.

    Theorems 1 and 2 of Shah and Samworth (2013). The first asks for nothing; the second for
    frequencies of such groups whose distribution has one mode, and is about twice as sharp.

    Parameters
    ----------
    selected : float
        Groups that a model selects, on average.
    groups : int
    threshold : float
        Above one half.
    pairs : int
        Pairs of halves.
    unimodal : bool
        Whether to use the second.
    """
    blind = selected / groups
    # frequencies are multiples of one over the number of models
    threshold = np.ceil(threshold * 2 * pairs - 1e-9) / (2 * pairs)
    if threshold <= 0.5:
        return float(groups)
    bound = 1.0 / (2.0 * threshold - 1.0)
    from_here = min(0.5 + blind**2, 0.5 + 0.5 / pairs + 0.75 * blind**2)
    if unimodal and blind <= 1.0 / np.sqrt(3.0) and threshold > from_here:
        if threshold <= 0.75:
            sharper = 0.5 / (2.0 * threshold - 1.0 - 0.5 / pairs)
        else:
            sharper = 4.0 * (1.0 - threshold + 0.5 / pairs) / (1.0 + 1.0 / pairs)
        if sharper > 0.0:
            bound = min(bound, sharper)
    return float(min(bound * blind * selected, groups))


def halves(y, pairs, by_class, random_state):
    """Pairs of halves of the rows, each the training rows once and held out once; by class where y
    holds classes. A row that is too many belongs to neither.
    """
    rng, splits = check_random_state(random_state), []
    strata = [np.arange(len(y))]
    if by_class:
        _, codes = np.unique(y, return_inverse=True)
        strata = [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]
    if min(map(len, strata)) < LEAST:
        raise ValueError("Every class needs at least two rows to be halved.")
    for _ in range(pairs):
        first, second, odd = [], [], []
        for rows in strata:
            mixed, half = rng.permutation(rows), len(rows) // 2
            first.append(mixed[:half])
            second.append(mixed[half : 2 * half])
            odd.extend(mixed[2 * half :])
        for place, row in enumerate(odd[: len(odd) - len(odd) % 2]):
            (first, second)[place % 2].append([row])
        one, other = (np.sort(np.concatenate(part).astype(np.intp)) for part in (first, second))
        splits += [(one, other), (other, one)]
    return splits


def _largest(amounts, count):
    """Which of each row are among the largest, a (n, g) bool array; the first of equals."""
    order = np.argsort(-amounts, axis=1, kind="stable")[:, :count]
    out = np.zeros(amounts.shape, dtype=bool)
    np.put_along_axis(out, order, True, axis=1)
    return out
