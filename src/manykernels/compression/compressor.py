"""A fitted model with fewer points, and how often it says what the model said."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..estimators.base import MKLEstimator
from ..estimators.checks import RandomState, check_choice
from ..estimators.data.decision import ExpansionDecision
from ..kernels.points import is_sparse
from ..thresholds import thresholds
from .fitting import coefficients, values
from .grams import compress_grams
from .judgment import (
    LEAST_ROWS,
    MOST_TESTED,
    Likeness,
    Shares,
    Target,
    file_size,
    judged,
    spreads,
    tell,
    with_decision,
)
from .kernels import MissingKernels, PointKernels, kernels_of
from .rows import MOST_ROWS, Sample, Source, known_rows, local_means, single, stacked, unmixed
from .search import NotReached, Search

KINDS = ("auto", "free", "support", "synthetic")
# Spread of the parts of kernels that are left out, together, as a part of that of the scores.
NEGLIGIBLE = 0.01
PARTS = 2**24  # values of all kernels at rows, on which their parts are judged
TIMED_ROWS, REPEATS = 1000, 5  # of measuring microseconds


def compress(
    model: Any,
    X: Any,
    *,
    agreement: float | None = None,
    n_points: int | None = None,
    n_bytes: int | None = None,
    microseconds: float | None = None,
    points: str = "auto",
    tolerance: float | None = None,
    random_state: RandomState = None,
):
    """A fitted model with fewer points that says nearly the same, for less memory and time.

    Points are chosen from those of the model, or moved to where few of them serve best; then
    coefficients and intercepts are fitted again, to the model's own scores at rows of X and at rows
    between them. No targets are needed. Kernels whose part of the decision is negligible go. A
    third of X is used for nothing but the judgment in ``compression_``.

    Parameters
    ----------
    model : fitted MKLClassifier, MKLRegressor, MKLOneClass, one of the tuned estimators, or \
Pipeline that ends in one
        It stays as it is.
    X : table as for `predict`
        Rows such as the model will see, thirty or more, best some thousand; labels are not needed.
        Rows that the model was not trained on are better: at training rows it is surer than at
        others, so that agreement there says too much. For precomputed kernels the matrices
        K(rows, train) of all kernels, or sample indices.
    agreement : float
        Share of rows with the same label: as few points as reach it on rows that are held out for
        this choice. Of regression, the share of rows whose scores differ by at most `tolerance`.
        0.99 unless another target is given.
    n_points : int
        The number of points.
    n_bytes : int
        The largest size of the file that `save` writes.
    microseconds : float
        Time to predict a row, in batches of a thousand on this machine, as it is now.
    points : {"auto", "free", "support", "synthetic"}
        ``"free"`` points begin at points of the model and are moved; ``"support"`` ones are some of
        the model's own, which are rows of the training data; ``"synthetic"`` ones begin at means of
        ten rows of X and are moved, so that the model holds no row of the training data (see
        SECURITY.md for what that does not protect). ``"auto"`` is ``"free"`` where kernels have
        slopes along the points and a dense point is not far larger than a sparse one, and
        ``"support"`` otherwise.
    tolerance : float
        For regression: differences, in standard deviations of the model's scores, up to which
        scores agree. 0.1 by default.
    random_state : int or RandomState, optional
        Of the parts of X and the rows in between.

    Returns
    -------
    fitted estimator of the same class, or Pipeline
        With the attribute ``compression_``, a `manykernels.result.Compression`. ``support_`` and
        ``dual_coef_`` are its own points, ``result_`` is that of the training. What was learned on
        held-out folds for ``predict_set`` and ``predict_interval`` is not kept.

    Raises
    ------
    ValueError
        If nothing can be gained, with the reason.

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLClassifier, compress
    >>> X = np.random.default_rng(0).normal(size=(900, 2))
    >>> model = MKLClassifier(C=10).fit(X[:300], X[:300, 0] > X[:300, 1] ** 2)
    >>> small = compress(model, X[300:], n_points=10, random_state=0)
    >>> small.compression_.points, small.compression_.agreement > 0.9
    (10, True)
    """
    wanted = Target.of(agreement, n_points, n_bytes, microseconds)
    check_choice("points", points, KINDS)
    if hasattr(model, "steps"):
        return _compress_last(model, X, wanted, points, tolerance, random_state)
    model = model.ordinary() if hasattr(model, "ordinary") else model
    if not isinstance(model, MKLEstimator):
        raise TypeError(
            "An MKL estimator or a pipeline that ends in one is needed (of a search, its "
            f"best_estimator_), got {type(model).__name__}."
        )
    check_is_fitted(model)
    random = np.random.default_rng(check_random_state(random_state).randint(2**31))
    likeness = Likeness.of(model, tolerance)
    grams = model.decision_.grams_of(X)
    if grams is not None:
        return compress_grams(model, grams, wanted, points, likeness, random)
    return _Compressor(model, X, wanted, points, likeness, random).compressed()


def _compress_last(pipeline, X, wanted, points, tolerance, random_state):
    """A pipeline whose last step is compressed."""
    check_is_fitted(pipeline)
    rows = pipeline[:-1].transform(X) if len(pipeline.steps) > 1 else X
    target = {name: value for name, value in wanted._asdict().items() if value is not None}
    *before, (name, last) = pipeline.steps
    options = {"points": points, "tolerance": tolerance, "random_state": random_state}
    small = type(pipeline)([*before, (name, compress(last, rows, **target, **options))])
    if hasattr(pipeline, "extra_"):
        small.extra_ = pipeline.extra_
    return small


class _Compressor:
    """One call of `compress`, for rows of features."""

    def __init__(self, model, X, wanted, points, likeness, random):
        self.model, self.wanted, self.likeness, self.random = model, wanted, likeness, random
        self.decision = model.decision_
        self.rows, self.categories = model._read_new(X)
        self.kernels = kernels_of(model)
        self.own = self._own_points()
        self.known = known_rows(self.rows, self.kernels.points)
        self.shares = Shares.of(self.known, wanted.agreement is not None, random)
        self.kind, self.undecided = self._kind(points), points == "auto"

    def compressed(self):
        fit = self._rows(self.shares.fit, 5 * MOST_ROWS)
        given = Sample(fit, self.decision.scores(fit, self.categories), self.categories)
        self.agrees = self.likeness.judge(given.scores)
        self.kernels = self.kernels.take(_heard(self.kernels, self.decision, given))
        source = self._source(fit)
        most = self._most(source)
        choice = None
        if self.wanted.agreement is not None:
            rows = self._rows(self.shares.choice, MOST_TESTED)
            choice = Sample(rows, self.decision.scores(rows, self.categories), self.categories)
        found = self._found(source, choice, most)
        small = self._settled(single(found, source.rows), source, choice)
        while self.wanted.n_bytes is not None and file_size(small) > self.wanted.n_bytes:
            found = found[: -max(1, found.shape[0] // 20)]
            if not found.shape[0]:
                raise ValueError(_too_little(self.wanted.n_bytes, file_size(small)))
            small = self._settled(single(found, source.rows), source, choice)
        return self._judged(small)

    def _found(self, source, choice, most):
        """The points."""
        of = choice, self.agrees, self._candidates(source), most, self.wanted.agreement or 1.0
        search = Search(self.kernels, source, *of)
        if self._stays:
            return search.chosen()
        try:
            return search.moved()
        except NotReached:
            if not self.undecided:
                raise
        self.kind = "support"
        return replace(search, candidates=self.own).chosen()

    # the parts of the statement

    def _own_points(self):
        """The points of the model that its predictions are made of, or X if it has none."""
        points = self.kernels.points
        if points is None:
            return self.rows
        points = points[self.decision.points] if self._expands else points
        if isinstance(self.kernels, MissingKernels):
            whole = ~np.isnan(points).any(axis=1)
            points = points[whole] if whole.any() else self.kernels.points
            points = points[~np.isnan(points).any(axis=1)]
            if not len(points):
                raise ValueError(
                    "Nothing can be gained: no training row has all views, and points that lack "
                    "some need all training rows."
                )
        return points

    @property
    def _expands(self):
        return isinstance(self.decision, ExpansionDecision)

    @property
    def _points_before(self):
        if self._expands:
            return int(self.decision.support.size)
        return 0 if self.kernels.points is None else int(self.kernels.points.shape[0])

    def _kind(self, points):
        movable = bool(self.kernels.movable.any())
        wide = is_sparse(self.own) and not _pays_dense(self.own)
        if points == "auto":
            points = "free" if movable and not wide else "support"
        if points == "free" and not movable:
            raise ValueError(
                "points='free' needs kernels with slopes along the points (RBF, Laplacian, Linear, "
                "Polynomial, Product) and no missing views: use points='support'."
            )
        if points == "synthetic":
            self._check_synthetic()
        return points

    def _check_synthetic(self):
        spec = getattr(self.kernels, "spec", None)
        if self.decision.bank.needs_grams or any(
            kernel.reads == "strings" for kernel in getattr(spec, "kernels", ())
        ):
            raise ValueError(
                "points='synthetic' needs columns of which a mean can be taken, not precomputed "
                "kernels or strings: use points='support'."
            )

    @property
    def _stays(self):
        """True if points are where they were found."""
        return self.kind == "support" or not self.kernels.movable.any()

    def _rows(self, chosen, most):
        return self.rows[chosen[:most]]

    def _source(self, fit):
        """Rows to fit at: given ones, and those that the model has."""
        tables = [fit]
        if self.kernels.points is not None and self.kind != "synthetic":
            tables.append(self.kernels.points)
        rows = stacked(tables)
        if not self._stays and is_sparse(rows):
            rows = rows.toarray()
        return Source(
            self.decision, rows, self.categories, self.random, not self.decision.bank.needs_grams
        )

    def _candidates(self, source):
        if self.kind != "synthetic":
            own = self.own
            return own.toarray() if is_sparse(own) and not self._stays else own
        rows = source.rows.toarray() if is_sparse(source.rows) else source.rows
        rows = rows[~np.isnan(rows).any(axis=1)]
        seeds = rows[self.random.permutation(len(rows))[:MOST_ROWS]]
        codes = unmixed(rows, self.categories)
        return self._without_rows(np.unique(local_means(rows, seeds, codes), axis=0))

    def _without_rows(self, points):
        """Points that are no rows of X or of the training set."""
        points = points[~(known_rows(points, self.rows) | known_rows(points, self.kernels.points))]
        if not len(points):
            raise ValueError(
                "points='synthetic': all means of rows are rows themselves, as where there are "
                "categories or repeated rows alone. Use points='support'."
            )
        return points

    # how many points

    def _most(self, source):
        """The largest number of points that is a gain, or that is asked for."""
        before = self._points_before
        most = before - 1 if self._expands else source.rows.shape[0]
        if self._expands and before < 2:
            raise ValueError(f"Nothing can be gained: the model has {before} points.")
        if self.wanted.n_points is not None:
            most = int(self.wanted.n_points)
        elif self.wanted.n_bytes is not None:
            whole = file_size(self.model)
            if whole is None:
                raise ValueError(
                    "n_bytes is for models that `save` can write; give another target."
                )
            most = self._affordable(file_size, self.wanted.n_bytes)
            if self._expands and whole > self.wanted.n_bytes:  # for more than its points
                most = min(most, before - 1)
        elif self.wanted.microseconds is not None:
            most = self._affordable(self._time, self.wanted.microseconds)
        if self._expands and most >= before:
            raise ValueError(
                f"Nothing can be gained: the model has {before} points, and {most} were allowed."
            )
        return most

    def _affordable(self, cost, budget):
        """How many points a budget is enough for."""
        rows = self.own.toarray() if is_sparse(self.own) and not self._stays else self.own
        few, many = 1, min(rows.shape[0], 65)
        prices = [cost(self._trial(single(rows[:count], rows))) for count in (few, many)]
        each = (prices[1] - prices[0]) / max(many - few, 1)
        if prices[0] > budget:
            raise ValueError(_too_little(budget, prices[0]))
        return few + int((budget - prices[0]) / max(each, 1e-12))

    def _trial(self, points):
        outputs = len(self.decision.intercept)
        return self._assembled(points, np.ones((outputs, points.shape[0])), np.zeros(outputs))

    def _time(self, model):
        """Microseconds that a row takes in batches, the least of some."""
        rows, seconds = self.rows[:TIMED_ROWS], []
        for _ in range(REPEATS):
            start = time.perf_counter()
            model.decision_.scores(rows, self.categories)
            seconds.append(time.perf_counter() - start)
        return 1e6 * min(seconds) / rows.shape[0]

    # the model that they make

    def _settled(self, points, source, choice):
        """The model with these points, its coefficients fitted to all rows but those of the
        test.
        """
        if self.kind == "synthetic":  # rounding, or columns that do not move, may make a row
            points = self._without_rows(points)
        sample = source.draw(2 * MOST_ROWS)
        if choice is not None:
            rows = stacked([sample.rows, choice.rows])
            scores = np.concatenate([sample.scores, choice.scores], axis=1)
            sample = Sample(rows, scores, self.categories)
        K = self.kernels.between(sample.rows, points, self.categories)
        return self._assembled(points, *coefficients(K, sample.scores))

    def _assembled(self, points, beta, intercept):
        kernels, own, entries = self.kernels.with_few_strings(points)
        weights = kernels.weights if self.decision.weights.ndim == 2 else kernels.weights[0]
        of = kernels.bank(own), weights, intercept, self.decision.n_fit
        decision = ExpansionDecision(*of, np.arange(own.shape[0]), beta, whole=False)
        small = with_decision(self.model, decision, kernels.numbers)
        if entries:
            names = self.model._column_names()
            changed = {names[f]: known for f, known in entries.items()}
            small.categories_ = self.model.categories_ | changed
        self.latest = points, beta, intercept
        return small

    def _judged(self, small):
        test = self._rows(self.shares.test, MOST_TESTED)
        before = self.decision.scores(test, self.categories)
        points, *fit = self.latest
        after = values(self.kernels.between(test, points, self.categories), *fit)
        known = int(self.known[self.shares.test].sum())
        small.compression_ = judged(
            self.model, small, before, after, self.agrees, known, self.kind
        )._replace(
            fitted=int(self.shares.fit.size + self.shares.choice.size),
            points_before=self._points_before,
        )
        _check_gain(small.compression_)
        tell(small.compression_, self.wanted)
        return small


def _check_gain(found):
    """Raise for a model whose file is no smaller, as those on low-rank factors may be."""
    known = found.bytes is not None and found.bytes_before is not None
    if known and found.bytes >= found.bytes_before:
        raise ValueError(
            f"Nothing can be gained: with {found.points} points the file takes {found.bytes:,} "
            f"bytes, and that of the model {found.bytes_before:,}. Ask for less agreement or fewer "
            "points, or leave the model as it is."
        )


def _pays_dense(points):
    """True if dense float32 points are not far larger than sparse ones."""
    stored = 12 * points.nnz / max(points.shape[0], 1)
    return 4 * points.shape[1] <= thresholds().dense_point_bytes * stored


def _too_little(budget, least):
    return f"A model with a single point takes {least:.4g}, more than {budget:.4g}."


def _heard(kernels: PointKernels, decision: Any, sample: Sample) -> np.ndarray:
    """Kernels without which scores stay nearly what they are: those that are left out spread, all
    together, by a hundredth of what the scores do.
    """
    m = kernels.numbers.size
    if not decision.bank.is_sum or m < 2:
        return np.arange(m)
    rows = sample.rows[: max(LEAST_ROWS, PARTS // (decision.bank.m * len(sample.scores)))]
    members = np.zeros((m, decision.bank.m), dtype=bool)
    members[np.arange(m), kernels.numbers] = True
    parts = decision.parts(rows, members, sample.categories)
    parts = parts - parts.mean(axis=2, keepdims=True)
    limit = NEGLIGIBLE * spreads(sample.scores)
    order = np.argsort((parts.std(axis=2) / limit).max(axis=1))
    left = np.cumsum(parts[order], axis=0).std(axis=2)
    count = int(np.argmax((left > limit).any(axis=1)))  # the first that is too many
    return np.sort(order[min(count, m - 1) :])
