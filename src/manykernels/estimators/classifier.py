"""Classification by multiple kernel learning."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from ..combinations import Combination
from ..losses import LOSSES, Loss
from ..lowrank import Approximation
from ..regularizers import Regularizer
from ..solvers import Solver
from . import outcomes
from .answers.contributions import ExplainsItself
from .base import MKLEstimator
from .checks import (
    Callbacks,
    CheckpointLike,
    Kernels,
    Missing,
    Normalization,
    Points,
    RandomState,
    Scale,
    available_if,
    check_bool,
    check_choice,
    check_parameters,
    check_weights,
    choose_loss,
    class_factors,
)
from .copies import all_or_nothing
from .data.prepare import Targets, distinct_rows, prepare
from .scikit_learn import with_callbacks


def knows_probabilities(estimator):
    """Whether decision values are log-odds of classes; raise AttributeError if not."""
    loss = estimator.loss
    loss = LOSSES.get(loss) if isinstance(loss, str) else loss
    if not getattr(loss, "gives_log_odds", False):
        raise AttributeError(
            f"There are no probabilities with loss={estimator.loss!r}: use loss='logistic', or "
            "MKLClassifierCV."
        )
    if estimator.multiclass != "ovr":
        raise AttributeError("There are no probabilities of votes: they need multiclass='ovr'.")
    return True


class MKLClassifier(ClassifierMixin, ExplainsItself, MKLEstimator):
    """Support vector classification with a learned combination of kernels.

    Learns weights d >= 0 of the kernels together with an SVM on ``sum_k d_k K_k``, or on another
    combination. Several classes are treated one against the rest or one against one, with one
    shared set of weights or with their own. The result of a sum carries a certificate: a proven
    bound on the distance to the optimum.

    Parameters
    ----------
    kernels : "auto", "whole", list of kernels, mapping from group to kernels, or KernelCollection
        ``"auto"`` is `auto_bank` on columns in units of their own spread, so that the model is the
        same in meters and in millimeters: Gaussians of five widths and a linear kernel on all
        columns, a Gaussian on each (of at most 500), and `Hamming` for categories; ``"whole"`` is
        the same without kernels on single columns, and ``"linear"``, ``"rbf 1/8"``, …, ``"rbf 2"``
        are one of those alone. Kernels that are given see the columns as they
        are (see `scale`). `on_groups` makes kernels for groups of columns,
        `paper_bank` is that of the papers.
    combination : {"sum", "product"} or Combination
        ``"product"`` is ``exp(-sum_k d_k (x_k - z_k)^2)`` with one weight per feature (see
        `manykernels.combinations`). It is not convex: several starts are tried, the best is kept,
        and there is no certificate.
    p : float or "auto"
        Norm of the weights, 1 (sparse) to infinity (plain sum of kernels); short for
        ``regularizer=PNormBall(p)``. ``"auto"`` chooses p on held-out folds, at the given C, and
        then trains on everything.
    regularizer : Regularizer, optional
    max_kernels, max_groups : int, optional
        The largest number of kernels, or of groups of kernels (a kernel without a group is one by
        itself), that get weight: the best such subset, with proof. ``result_`` then has the
        certificate of the problem with this limit, and ``result_.subsets`` says how many subsets
        were ruled out. It takes a search, in which `max_iter` counts problems that are solved;
        Ctrl-C or ``callbacks=[EarlyStop(seconds=60)]`` end it with what is proven. One of the two,
        for sums of kernels with ``p`` (not ``"auto"``), or with `SquaredPNorm`, `ElasticNet` or
        `SimplexRidge`; outputs with weights of their own have a subset each.
    C : float
        Cost of an error, as in scikit-learn's SVC.
    loss : {"hinge", "squared_hinge", "logistic", "hard_margin"} or Loss
        ``"logistic"`` makes decision values log-odds, and so gives probabilities; every training
        row is then a support vector. ``"hard_margin"`` allows no error on the training data,
        whatever C; it needs p = 1 and two classes or ``share_weights=False``.
    solver : str or Solver
        "auto", "newton", "spg", "pgd", "smo", "group_lasso", "mwu", "mirror", "simple", "silp",
        "alignment" or "uniform"; for approximations also "primal" (smooth losses), "interior"
        and "multipliers" (losses with corners; the latter for many points), "blocks" (p = 1, many
        groups of columns) and "gfb". The logistic loss is not for "smo", "mwu", "interior",
        "multipliers" and "gfb". ``"auto"`` follows the table
        `manykernels.solvers.AUTO`: Newton's method on the dual where it fits (a smooth conjugate or
        the simplex, and memory for a combined kernel), else SPG-GMKL or MKLGL; with ten thousand
        points or more, weights come from a sample of them first. "alignment" and "uniform" set the
        weights by a rule and train one SVM.
    approximation : Approximation, optional
        Low-rank factors in place of the kernels, such as ``Nystroem(rank=200)`` (see
        `manykernels.lowrank`), for very many points. The certificate is then with respect to the
        approximated kernels. With ``combination="product"`` it is `RandomFourier`.
    tol : float
        Relative duality gap to reach, whatever the solver. Below 1e-5, kernels are computed in
        float64. A solver that is too slow for it ends with a warning that says how far it came and
        which solver gets there: "mwu" is good for 1e-2 unless C is large, and most others of the
        papers may be too slow for p = 1 and a large C.
    max_iter : int, optional
        Iterations at most; rounds for "mwu". By default as many as are worth waiting for: what the
        solver does then counts in passes over the kernels, not in seconds, so that a fit always
        ends in the same way. A number given here is all that ends a run early.
    class_weight : mapping, "balanced" or None
    share_weights : bool
        Whether all outputs of a problem with several classes have the same kernel weights, or each
        its own.
    multiclass : {"ovr", "ovo"}
        One output per class, against the rest, or one per pair of classes.
    normalize : {"diagonal", "variance", "trace", "cosine", "center", None}
        ``"diagonal"`` gives every kernel mean diagonal one, so that C means what it means in SVC;
        ``"variance"`` unit variance in feature space (the mean diagonal less the mean entry, over
        the pairs of at most 256 rows, and no less than a thousandth of the mean diagonal), so that
        narrow kernels are not larger than wide ones;
        ``"trace"`` (unit trace) is the papers' choice and goes with C of 100 and more; ``"cosine"``
        divides by the roots of the diagonal; ``"center"`` moves the mean to the origin of feature
        space and then gives mean diagonal one.
    scale : {"auto", "standard", None}
        Whether kernels see columns of numbers in standard deviations from their mean, both learned
        on the training rows (``feature_means_`` and ``feature_spreads_``); sparse tables are
        divided only, and so stay sparse. ``"auto"`` does it for the kernels that the library
        chooses: ``"auto"``, ``"whole"`` and, in `on_groups`, the columns of groups without kernels
        of your own; ``"standard"`` for any.
    missing : {"error", "impute", "mean", "scaled"}
        What becomes of missing values, in training and in prediction. ``"impute"`` takes the
        median of the training rows for a missing number, and missing words for a category of their
        own. The other two are for rows that lack whole views, NaN in all columns that a kernel
        sees: ``"mean"`` takes such a row to be at the mean, in the feature space of the
        kernel, of the training rows that have the view. ``"scaled"`` besides multiplies what its
        other views say by the number of views over that of the views it has. Widths, normalization
        and means are of the rows that have a view. Missing values inside a view are an error with
        these, and they are for exact sums of kernels on the CPU.
    cache_size : float, optional
        Memory for a combined kernel in MB, a quarter of the machine's by default. A kernel that
        does not fit is computed row by row as needed. Where all Gram matrices together take at most
        a quarter of it, and no more than 512 MB, they are held; otherwise they are computed on the
        fly.
    device : str
        Where the work on pairs of points is done: ``"cpu"``, ``"cuda"`` or ``"cuda:1"`` for a GPU
        (with PyTorch), ``"torch"`` for PyTorch on the CPU. Problems that a GPU would not make
        faster stay on the CPU. ``"auto"`` is a GPU if PyTorch finds one and the problem is one
        that it makes faster (2^27 values of kernels at pairs of points, or for low rank 2^30
        products of entries; `python -m benchmarks gpu --part auto` shows where it does), the CPU
        otherwise; folds, grids and resamples that share their kernels stay on the CPU. Low-rank
        factors that do not fit into the memory of a GPU, or into the part of it that
        ``torch.cuda.set_per_process_memory_fraction`` allows, stream through it.
    n_jobs : int, optional
        Threads; all cores by default.
    random_state : int or RandomState, optional
        For the folds of ``p="auto"`` and the starts of combinations.
    checkpoint : path or Checkpoint, optional
        A file that keeps the best weights so far while `fit` runs: every 30 seconds, at the end, at
        Ctrl-C and at SIGTERM, which then ends the process with 143. `fit` goes on from the file if
        it is there, and refuses one of other data or parameters; ``max_iter``, ``tol``, ``solver``
        and what says how to compute may change. The file stays when the fit ends, so that a fit
        that is run again ends at once.
    callbacks : list, optional
        Functions of a `Record`, or objects with methods of `manykernels.callbacks.Callback`, called
        for every iteration; one that returns True ends the fit.
    verbose : int
        1 for a line that follows the fit on a terminal, 2 for a printed line per iteration.

    Attributes
    ----------
    kernel_weights_ : (m,) array, (n_outputs, m) where the outputs do not share them
        Weights of the normalized kernels.
    kernel_names_ : list of str
    kernel_contributions_ : (m,) array
        Share of each kernel in the squared norm of the decision function; computed when it is asked
        for.
    group_weights_, group_contributions_ : GroupShares
        Share of each group of kernels in the weights and in the contributions, dicts that sum to
        one; a kernel without a group is one by itself. Those of `silent_kernels_` belong to no
        group: their share of all is the attribute ``regularization``.
    dual_coef_ : (n_outputs, n_support) array
        Signed dual coefficients, as in SVC; one output for two classes.
    support_ : (n_support,) indices of the support vectors in the training data
    intercept_ : (n_outputs,) array
    classes_ : array
    result_ : Result
        Status, objective, relative duality gap, history and counters; ``resumed`` if it began from
        a checkpoint, ``missing`` if rows may lack views.
    other_results_ : list of Result
        Of the other starts of a combination, best first.
    bank_ : KernelSet
        The kernels on the distinct training rows (a Bank), or what computes low-rank factors of any
        rows (a FeatureMap).
    decision_ : Decision
        What predicts: an expansion in kernels over the support vectors, or a product with low-rank
        factors; ``decision_.scores`` are the decision values of checked points.
    n_iter_ : int
    p_, p_scores_ : float, mapping from p to mean score on held-out folds
        For ``p="auto"``.
    silent_kernels_ : dict
        Numbers of the kernels that are nearly the ``"identity"`` on the training rows, which say
        nothing about new points and only regularize, and of those that are ``"constant"``; not
        there if that would have taken long to find out.
    n_features_in_ : int
    feature_names_in_ : array of str, for data frames
    feature_means_, feature_spreads_ : (n_features,) arrays
        What columns are measured from, and in; see `scale`.
    feature_medians_ : (n_features,) array
        For ``missing="impute"``: what stands for missing numbers.
    categories_ : dict from column to list
        What the columns of strings and categories held in training; a column without a name is
        ``"x0"``, ``"x1"`` …, and missing words are ``""`` with ``missing="impute"``.
    date_columns_ : list of str
        Columns of a data frame that held dates, which are read as days since 1970-01-01.

    Notes
    -----
    Probabilities are to be had with ``loss="logistic"``, from `MKLClassifierCV`, whose are
    calibrated on held-out rows, or with this estimator in scikit-learn's
    ``CalibratedClassifierCV``.

    Equal rows are merged and weighted before training, so a row repeated twice and a row of
    weight two are the same, and the result does not depend on the order of the rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from manykernels import MKLClassifier
    >>> from manykernels.kernels import on_groups
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifier(on_groups({"sepal": [0, 1], "petal": [2, 3]})).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> max(model.group_weights_, key=model.group_weights_.get)
    'petal'
    >>> model.result_.status.name, model.result_.duality_gap < 1e-3
    ('OPTIMAL', True)
    """

    _learned = (*MKLEstimator._learned, "classes_")

    @property
    def _tuned_type(self):
        from .cross_validated import MKLClassifierCV

        return MKLClassifierCV

    def __init__(
        self,
        kernels: Kernels = "auto",
        *,
        combination: str | Combination = "sum",
        p: float | Literal["auto"] = 1.0,
        regularizer: Regularizer | None = None,
        max_kernels: int | None = None,
        max_groups: int | None = None,
        C: float = 1.0,
        loss: str | Loss = "hinge",
        solver: str | Solver = "auto",
        approximation: Approximation | None = None,
        tol: float = 1e-3,
        max_iter: int | None = None,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        share_weights: bool = True,
        multiclass: Literal["ovr", "ovo"] = "ovr",
        normalize: Normalization = "diagonal",
        scale: Scale = "auto",
        missing: Missing = "error",
        cache_size: float | None = None,
        device: str = "cpu",
        n_jobs: int | None = None,
        random_state: RandomState = None,
        checkpoint: CheckpointLike = None,
        callbacks: Callbacks = None,
        verbose: int = 0,
    ):
        self.kernels = kernels
        self.combination = combination
        self.p = p
        self.regularizer = regularizer
        self.max_kernels = max_kernels
        self.max_groups = max_groups
        self.C = C
        self.loss = loss
        self.solver = solver
        self.approximation = approximation
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.share_weights = share_weights
        self.multiclass = multiclass
        self.normalize = normalize
        self.scale = scale
        self.missing = missing
        self.cache_size = cache_size
        self.device = device
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.callbacks = callbacks
        self.verbose = verbose

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Points, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn kernel weights and the classifier.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            For `Precomputed` kernels, the column of sample indices. Columns of strings and
            categories are for kernels that read them, such as `Hamming` and `Spectrum`; new
            categories are welcome in prediction and equal to none of these. A list of strings is
            one column.
        y : (n_samples,) array of labels
        sample_weight : (n_samples,) array, optional
            Factor on C for each row; zero leaves the row out.
        """
        check_parameters(self)
        return self._fit(X, y, sample_weight)

    def _data(self, X, y, sample_weight, kernels=None):
        """Check and encode the data; the result does not depend on C or p."""
        check_bool("share_weights", self.share_weights)
        check_choice("multiclass", self.multiclass, ("ovr", "ovo"))
        X, y = self._check_data(X, y)
        sample_weight = check_weights(sample_weight, X)
        self.classes_, codes = _encode(y, sample_weight)
        distinct = distinct_rows(self, X, codes, sample_weight)
        codes = codes[distinct.rows]
        factors = class_factors(self.class_weight, self.classes_, codes, distinct.weight)
        positive, negative = self._sides()
        targets = np.stack([np.where(np.isin(codes, side), 1.0, -1.0) for side in positive])
        member = np.stack(
            [np.isin(codes, [*a, *b]) for a, b in zip(positive, negative, strict=True)]
        )
        cost = member * (distinct.weight * factors[codes])
        return prepare(self, X, distinct, Targets(targets, cost), kernels)

    def _check_data(self, X, y):
        X, y = self._read(X, y)
        check_classification_targets(y)
        return X, y

    def _sides(self):
        """The classes on either side of every output, as codes."""
        count = self.classes_.size
        if count == 2:
            return [[1]], [[0]]
        if self.multiclass == "ovo":
            pairs = list(combinations(range(count), 2))
            return [[b] for _, b in pairs], [[a] for a, _ in pairs]
        return [[c] for c in range(count)], [
            [other for other in range(count) if other != c] for c in range(count)
        ]

    def _loss(self):
        return choose_loss(self.loss, ("hinge", "squared_hinge", "logistic", "hard_margin"))

    def _output_names(self):
        if self.multiclass == "ovo" or self.classes_.size == 2:
            positive, negative = self._sides()
            return [
                f"{self.classes_[b[0]]} / {self.classes_[a[0]]}"
                for b, a in zip(positive, negative, strict=True)
            ]
        return [str(label) for label in self.classes_]

    def decision_function(self, X: Points) -> np.ndarray:
        """Signed distance to the boundary, (n_samples,) for two classes, else (n_samples,
        n_classes); log-odds of the class with ``loss="logistic"``.

        One against one, it is the number of pairs that a class wins, with the distances deciding
        between equals.

        Parameters
        ----------
        X : as for `fit`
            For `Precomputed` kernels, the column of sample indices, or the matrices K(test, train)
            of all kernels.
        """
        return self._by_class(self._scores(X))

    def predict(self, X: Points) -> np.ndarray:
        """The predicted class of each row, (n_samples,): where there is `predict_proba` the
        likeliest, the first of equals; otherwise that of `decision_function`, the second of two
        classes where it is positive, the largest of several.

        Parameters
        ----------
        X : as for `decision_function`
        """
        return self.classes_from_scores(self._scores(X))

    @available_if(knows_probabilities)
    def predict_proba(self, X: Points) -> np.ndarray:
        """Probability of every class, (n_samples, n_classes), for ``loss="logistic"`` and
        ``multiclass="ovr"``.

        Those of several classes, each against the rest, are divided by their sum. Classes that
        weigh more (``class_weight``) are more likely by as much.

        Parameters
        ----------
        X : as for `decision_function`
        """
        return self._probabilities(self._scores(X))

    @available_if(knows_probabilities)
    def predict_log_proba(self, X: Points) -> np.ndarray:
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : as for `decision_function`
        """
        return self._log_probabilities(self._scores(X))

    def _probabilities(self, scores):
        return np.exp(self._log_probabilities(scores))

    def _log_probabilities(self, scores):
        """Of log-odds (t, n), (n, n_classes)."""
        return outcomes.log_probabilities(scores)

    def classes_from_scores(self, scores: np.ndarray) -> np.ndarray:
        """The class of each point, (n,), as in `predict`.

        Parameters
        ----------
        scores : (t, n) array
            Of all outputs: of every class, or of every pair of classes.
        """
        if hasattr(self, "predict_proba"):
            return self.classes_[self._probabilities(scores).argmax(axis=1)]
        return self._classes_by_margin(scores)

    def _classes_by_margin(self, scores):
        return self.classes_[outcomes.likeliest(self._by_class(scores))]

    def _by_class(self, scores):
        return outcomes.values_by_class(scores, self.classes_.size, self.multiclass)


def _encode(y, sample_weight):
    """Classes among the rows that count, and the code of each row (0 for rows that do not)."""
    classes = np.unique(y[sample_weight > 0])
    if classes.size < 2:
        raise ValueError(
            f"A classifier needs at least two classes; y has 1 class: {classes.tolist()}."
        )
    codes = np.minimum(np.searchsorted(classes, y), classes.size - 1)
    return classes, codes
