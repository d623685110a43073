"""Which groups of kernels matter: weights, held-out scores and halves of the rows in one table."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components
from sklearn.base import is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils import check_consistent_length, check_random_state

from ..._html import element
from ..._html import table as html_table
from ..._words import count, number, percent, thousandths
from ..checks import Points, RandomState, check_choice, is_limited
from ..data.frames import data_frame
from ..search.scoring import HeldOutRows
from .contributions import regularization_name
from .importance import (
    METHODS,
    Importance,
    held_out_splits,
    importance_of,
    intervals_of,
    mixed_up,
)
from .resampling import Resample, plain, resampled
from .stability import Stability, halves_of, stability_of

SURE = 0.05  # corrected p-value up to which there is evidence
MIXED = 3  # times that a group is mixed up in each half
LISTED, WIDTH = 20, 100  # groups that are printed, and columns of the sentences below them
EQUAL = 1e-3  # relative difference of weights that are the same
ALIKE = 0.75  # correlation of kernels, or of parts of the decision, from which on groups are alike
NAMED, WEIGHTY = 4, 0.05  # of groups that are alike: names, and their share of the decision
IDLE = 0.1  # share of the weight from which on it is told that held-out rows do not miss a group
RELIES = 0.9  # of what all of some groups cost, from which on one of them is what the model uses
SAMPLE, MOST = 48, 2**20  # rows whose kernels are compared, and values in a row of all kernels


class Alike(NamedTuple):
    """Groups that say much the same of the rows, so that each can make up for another.

    Attributes
    ----------
    groups : list of str
        Those that decide most first.
    drop : float
        Of the held-out score if all of them are mixed up at once, the mean over the splits.
    interval : (2,) array
        Its 95 % interval.
    largest : float
        The largest drop of one of them.
    """

    groups: list[str]
    drop: float
    interval: np.ndarray
    largest: float

    def __str__(self) -> str:
        *names, last = self.groups
        if len(self.groups) > NAMED:
            names, last = names[:NAMED], count(len(self.groups) - NAMED, "other")
        means = "each can make up for another"
        if self.largest >= RELIES * self.drop:
            means = "a model without the one that this model relies on could do with another"
        return (
            f"{', '.join(names)} and {last} say much the same of these rows: weight may be "
            f"split among them, or given to one of them by chance, and {means}. Mixing up all of "
            f"them costs {thousandths(self.drop)}, one of them at most "
            f"{thousandths(self.largest)}."
        )


@dataclass(eq=False)
class Explanation:
    """Which groups matter, most reliable first. Made by `explain`.

    Groups whose corrected p-value is at most 0.05 come first, those whose absence costs most before
    the others; then the rest by p-value, and by their share of the decision where that is equal.

    Attributes
    ----------
    groups : list of str
        In this order, as are all arrays.
    weights, contributions : (g,) arrays
        Shares of the weight and of the decision in the model of all rows, among kernels that say
        something about other points.
    drops : (g,) array
        Of the held-out score without the group, the mean over the splits.
    intervals : (g, 2) array
        95 % intervals of the drops.
    p_values, adjusted : (g,) arrays
        Of the hypothesis that a group says nothing about the target that the others do not say, as
        they are and corrected for the number of groups.
    selected : (g,) array
        Share of the halves whose model gives the group weight.
    helped : (g,) array
        Share of the halves whose model also scores lower on the other half if the group is mixed
        up. A group that says nothing, but has weight, is at about one half.
    regularization : float
        Share of all weight on kernels that say nothing about other points.
    alike : list of Alike
        Groups that say much the same, and what they are worth together.
    notes : list of str
        What the numbers cannot tell here.
    importance : Importance
    stability : Stability
    """

    groups: list[str]
    weights: np.ndarray
    contributions: np.ndarray
    drops: np.ndarray
    intervals: np.ndarray
    p_values: np.ndarray
    adjusted: np.ndarray
    selected: np.ndarray
    helped: np.ndarray
    regularization: float
    alike: list[Alike]
    notes: list[str]
    importance: Importance
    stability: Stability

    def to_frame(self, backend: str = "pandas") -> Any:
        """The groups as a table, most reliable first.

        Parameters
        ----------
        backend : {"pandas", "polars"}
            Whose DataFrame to make.
        """
        columns = {
            "group": self.groups,
            "weight": self.weights,
            "decision": self.contributions,
            "drop": self.drops,
            "low": self.intervals[:, 0],
            "high": self.intervals[:, 1],
            "p": self.p_values,
            "adjusted p": self.adjusted,
            "selected": self.selected,
            "helped": self.helped,
        }
        return data_frame(columns, backend)

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """Head and lines of the table as words, for people: the first groups that have weight in
        some model, and what regularizes.
        """
        selects = self._selects()
        head = ["group", "weight", "decision", "drop", "95 % interval", "p"]
        head += [*(["selected"] if selects else []), "helped"]
        lines = []
        for g in self.used()[:LISTED]:
            low, high = self.intervals[g]
            line = [self.groups[g], percent(self.weights[g]), percent(self.contributions[g])]
            line += [thousandths(self.drops[g])]
            line += [f"{thousandths(low)} to {thousandths(high)}" if np.isfinite(low) else "–"]
            line += [f"{self.adjusted[g]:.2g}"]
            line += [f"{100 * self.selected[g]:.0f} %"] if selects else []
            lines.append([*line, f"{100 * self.helped[g]:.0f} %"])
        if self.regularization:
            words = [regularization_name(self.groups), f"{percent(self.regularization)} of all"]
            lines.append([*words, *[""] * (len(head) - len(words))])
        return head, lines

    def summary(self) -> list[str]:
        """Sentences on what the table says, and on what it cannot say."""
        found, splits = self.importance, len(self.importance.drops)
        what = "mixed up" if found.method == "permutation" else "left out of the training"
        used, unused = len(self.used()), len(self.groups) - len(self.used())
        halves = f"share of {len(self.stability.weights)} halves of the rows"
        of_halves = (
            f"selected, helped: {halves} whose model gives the group weight, and in which it helps "
            "with the other half."
            if self._selects()
            else f"helped: {halves} in which the group helps with the other half."
        )
        return [
            *([f"{count(used - LISTED, 'other group')} below these."] if used > LISTED else []),
            *([f"{count(unused, 'group')} without weight in any model."] if unused else []),
            f"drop: of the score at held-out rows if the group is {what}, over "
            f"{count(splits, 'split')}; the score is {number(found.scores.mean())} ± "
            f"{found.scores.std():.2g}, and {number(found.baseline)} without looking at the data. "
            f"p is {'' if found.correction else 'not '}corrected for "
            f"{count(len(self.groups), 'group')}. {of_halves}",
            *self.notes,
        ]

    def _selects(self) -> bool:
        """Whether halves differ in the groups that have weight; if not, no column says so."""
        return not (self.selected == 1.0).all()

    def used(self) -> np.ndarray:
        """Numbers of the groups that have weight in some model, most reliable first."""
        return np.flatnonzero((self.weights > 0.0) | (self.selected > 0.0) | (self.drops != 0.0))

    def __repr__(self) -> str:
        head, lines = self.rows()
        widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
        made = [
            "  ".join(
                [line[0].ljust(widths[0])]
                + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
            ).rstrip()
            for line in [head, *lines]
        ]
        words = [line for text in self.summary() for line in textwrap.wrap(text, WIDTH)]
        return "\n".join([*made, *words])

    def _repr_html_(self) -> str:
        head, lines = self.rows()
        words = [element("p", sentence) for sentence in self.summary()]
        return element("div", html_table(head, lines), *words)


def explain(
    model: Any,
    X: Points,
    y: ArrayLike,
    *,
    method: Literal["permutation", "leave_out"] = "permutation",
    cv: Any = None,
    n_halves: int = 20,
    scoring: Any = None,
    n_permutations: int | None = None,
    correction: Literal["holm", "fdr"] | None = "holm",
    sample_weight: ArrayLike | None = None,
    random_state: RandomState = 0,
) -> Explanation:
    """Which groups of kernels matter, and how sure that is, in one table.

    For each group, or each kernel where there are no groups: its share of the weight and of the
    decision in the model of all rows; how much the score at held-out rows drops without it, with an
    interval and a p-value (`group_importance`); how often it is selected, and how often it helps,
    on halves of the rows (`stability`). Where the weights cannot tell, a sentence says so: all
    weights the same, groups that say the same, kernels that only regularize, scores no better than
    without the data.

    It trains a model of all rows, one for each of ten splits that hold out a third of the rows, and
    one for each of 20 halves; with ``method="leave_out"`` also one for each split and group. They
    share their kernels: seconds for some hundred rows. Behind the steps of a pipeline each part has
    kernels of its own.

    Parameters
    ----------
    model : MKL estimator, or a scikit-learn pipeline or search that ends in one
        Fitted or not. A cross-validated one must have chosen its C and p, once for all parts; if
        that was on these rows, scores are a little too good. The steps before it are fitted on the
        training rows of each part.
    X, y, sample_weight
        As for `fit`: the rows to train on.
    method, cv, scoring, n_permutations, correction
        As for `group_importance`.
    n_halves : int
        Models of halves, an even number of at least 4.
    random_state : int, RandomState or None
        Of splits, halves and permutations.

    Returns
    -------
    Explanation

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLClassifier, explain
    >>> from manykernels.kernels import on_groups
    >>> X = np.random.default_rng(0).normal(size=(80, 6))
    >>> groups = {"first": [0, 1], "second": [2, 3], "third": [4, 5]}
    >>> found = explain(MKLClassifier(on_groups(groups)), X, X[:, 2] > 0)
    >>> found.groups[0], bool(found.adjusted[0] < 0.05)
    ('second', True)
    """
    check_consistent_length(X, y, sample_weight)
    check_choice("method", method, METHODS)
    if n_halves < 4 or n_halves % 2:
        raise ValueError(f"n_halves must be an even number of at least 4, got {n_halves!r}.")
    rng, classes = check_random_state(random_state), is_classifier(plain(model))
    splits = held_out_splits(cv, y, sample_weight, classes, rng)
    halves = halves_of(y, sample_weight, n_halves // 2, classes, rng)
    many = resampled(model, X, y, sample_weight, [*splits, *halves])
    rows = HeldOutRows(many, check_scoring(many.template, scoring))
    models = many.refits([Resample(split) for split in range(len(splits) + n_halves)])
    of_splits, of_halves = models[: len(splits)], models[len(splits) :]
    importance = importance_of(rows, of_splits, rng, method, n_permutations, correction)
    stability = stability_of(rows, of_halves, len(splits))
    helped = _helped(rows, of_halves, len(splits), rng)
    alike = _alike(rows, of_splits, importance, rng)
    drops, decision = importance.drops.mean(axis=0), stability.whole_contributions
    evident = importance.adjusted <= SURE
    order = np.lexsort((-decision, np.where(evident, -drops, importance.p_values), ~evident))
    return Explanation(
        groups=[importance.groups[g] for g in order],
        weights=stability.whole_weights[order],
        contributions=decision[order],
        drops=drops[order],
        intervals=importance.intervals()[order],
        p_values=importance.p_values[order],
        adjusted=importance.adjusted[order],
        selected=stability.frequencies[order],
        helped=helped[order],
        regularization=many.groups.regularization(many.of_all_rows()),
        alike=alike,
        notes=[
            *_notes(many, importance),
            *_idle_weight(importance, stability.whole_weights, alike, many.template),
            *map(str, alike),
        ],
        importance=importance,
        stability=stability,
    )


def _helped(rows, models, first, rng):
    """How often a group has weight in a half, and lowers the score on the other if it is mixed up,
    (g,).
    """
    out = np.zeros(len(rows.many.groups.names))
    for split, one in enumerate(models, start=first):
        score = rows.score(split, one.scores)
        for g in np.flatnonzero(rows.many.groups.heard @ one.weights > 0.0):
            rest = one.scores - one.parts[g]
            out[g] += mixed_up(rows, split, rest, one.parts[g], rng, MIXED) < score
    return out / len(models)


# --- what the numbers cannot tell -----------------------------------------------------------------


def _notes(many, importance):
    whole, notes = many.of_all_rows(), []
    regularization = many.groups.regularization(whole)
    if regularization:
        notes.append(
            f"{percent(regularization)} of all weight is on kernels that say nothing about other "
            "rows and only regularize; the groups share the rest."
        )
    equal = words_on_equal_weights(whole.weights[many.groups.heard.any(axis=0)])
    notes += [equal] if equal else []
    if is_limited(many.template):
        notes.append(
            f"The number of sources with weight is limited ({_limit(many.template)}): a group "
            "without weight may say something, too."
        )
    scores = importance.scores
    if scores.mean() <= importance.baseline + 2.0 * scores.std() / np.sqrt(len(scores)):
        notes.append(
            "The model is no better at held-out rows than an answer that does not look at the "
            "data: nothing here says which groups matter."
        )
    return notes


def _limit(template):
    """The limit on kernels or groups, as it was asked for."""
    name = "max_groups" if template.max_kernels is None else "max_kernels"
    return f"{name}={getattr(template, name)}"


def _idle_weight(importance, weights, alike, template):
    """A sentence on groups that have weight, and that held-out rows do not miss."""
    evident, covered = importance.adjusted <= SURE, {g for one in alike for g in one.groups}
    idle = [
        g
        for g in np.argsort(-weights)
        if weights[g] >= IDLE and not evident[g] and importance.groups[g] not in covered
    ]
    if not idle or not evident.any():
        return []
    named = ", ".join(f"{importance.groups[g]} ({percent(weights[g])})" for g in idle[:NAMED])
    advice = "with a smaller C they often lose it"
    if is_limited(template):
        advice = f"sparsity_path says whether fewer than {_limit(template)} are enough"
    return [
        f"Weight that held-out rows do not miss: {named}. Such kernels may do no more than make "
        f"the fit smoother; {advice}."
    ]


def words_on_equal_weights(weights):
    """A sentence where all weights of kernels (m,) or (t, m) are the same; empty if not."""
    if not weights.size or np.ptp(weights) > EQUAL * weights.max() or weights.max() == 0.0:
        return ""
    return (
        "All kernels have the same weight, as with p = inf, so that shares of the weight count "
        "kernels and tell no group from another: read the drop."
    )


def _alike(rows, models, importance, rng):
    """Groups that say much the same, a list of `Alike`: whose kernels are alike, or, where they
    have weight, whose parts of the decision are; without those that decide little.
    """
    many, out = rows.many, []
    decision = many.groups.contributions(many.of_all_rows())
    kernels = _kernel_correlations(many.bank, many.groups.heard)
    alike = np.maximum(kernels, _part_correlations(models)) >= ALIKE
    number, labels = connected_components(alike, directed=False)
    for label in range(number):
        like = np.flatnonzero(labels == label)
        if like.size == 1 or decision[like].sum() < WEIGHTY:
            continue
        like = like[np.argsort(-decision[like], kind="stable")]
        together = np.empty((len(models), 1))
        for split, one in enumerate(models):
            part = one.parts[like].sum(axis=0)
            lower = mixed_up(rows, split, one.scores - part, part, rng)
            together[split] = importance.scores[split] - lower
        largest = importance.drops.mean(axis=0)[like].max()
        names = [importance.groups[g] for g in like]
        (interval,) = intervals_of(together, importance.held_out)
        out.append(Alike(names, float(together.mean()), interval, float(largest)))
    return out


def _part_correlations(models):
    """Of what groups add to the decision values of held-out rows, (g, g), the mean over models;
    zero where a group has no weight.
    """
    return np.mean([_correlations(one.parts) for one in models], axis=0)


def _kernel_correlations(bank, heard):
    """Of the kernels of groups at pairs of different rows, (g, g); zeros where that would take
    long, or there are only factors.
    """
    if not hasattr(bank, "kernel_rows") or bank.m * bank.n > MOST:
        return np.zeros((len(heard), len(heard)))
    everything, blocks = np.arange(bank.n), []
    for point in np.unique(np.linspace(0, bank.n - 1, SAMPLE).astype(int)):
        row = heard @ bank.kernel_rows(np.array([point]), everything)[0].astype(float)  # (g, n)
        others = np.delete(row, point, axis=1)
        row[:, point] = others.mean(axis=1)  # a row is like itself by any kernel
        blocks.append(row)
    table = np.stack(blocks, axis=1)  # (g, rows, n)
    return _correlations(table - table.mean(axis=1, keepdims=True))


def _correlations(values):
    """Of the rows of values (g, t, n) over n and t, each of the t centered, (g, g)."""
    centered = values - values.mean(axis=2, keepdims=True)
    flat = centered.reshape(len(values), -1)
    lengths = np.linalg.norm(flat, axis=1)
    flat = np.divide(flat, lengths[:, None], out=np.zeros_like(flat), where=lengths[:, None] > 0.0)
    return flat @ flat.T
