"""What all MKL estimators share: the way from data to a solved problem, and back to decision
values.
"""

import warnings
from itertools import chain
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from .._callers import outside
from .._canonical import canonical_rows, fixed_rows
from .._threads import Threads, thread_count
from ..banks import Bank, CombinationBank, FactorBank, KernelsOnPoints, make_bank
from ..banks.basis import reduced
from ..banks.codes import refuse_categories, with_categories
from ..banks.torch import on_device
from ..kernels import KernelCollection, Precomputed, paper_bank
from ..kernels.points import as_points
from ..problem import Problem
from ..result import Status, merged
from ..solvers import choose_solver, drive
from .checks import choose_combination, choose_regularizer, memory_budget
from .contributions import TellsWeights
from .fingerprints import fingerprint
from .inputs import ReadsTables
from .paths import choose_p
from .rich_display import RichDisplay
from .running import Run
from .scikit_learn import CallbackSupportMixin, bridges

FLOAT32_TOL = 1e-5  # gaps below this need kernels in float64
FACTOR_ROWS = 4096  # points whose factors are held at a time in prediction


class Prepared(NamedTuple):
    """Training data on the way from `fit`'s arguments to a problem.

    Attributes
    ----------
    bank : Bank
        The kernels on the distinct rows.
    targets : (t, n) array
    cost : (n,) or (t, n) array
        Of each distinct row when C is one.
    distinct : which rows are distinct, and how often they come
    offset : float or (t,) array
        What was subtracted from the targets.
    marks : dict, optional
        The fingerprint of the problem, for its checkpoint.
    """

    bank: Bank
    targets: np.ndarray
    cost: np.ndarray
    distinct: object
    offset: object = 0.0
    marks: dict | None = None

    @property
    def outputs(self):
        return range(len(self.targets))

    def part(self, c):
        """The same with one output alone."""
        cost = self.cost if self.cost.ndim == 1 else self.cost[c]
        return self._replace(targets=self.targets[c : c + 1], cost=cost)


class MKLEstimator(ReadsTables, TellsWeights, CallbackSupportMixin, RichDisplay, BaseEstimator):
    """Base of the estimators; subclasses say what the targets are."""

    def _distinct(self, X, codes, sample_weight):
        """Rows to train on: canonical, unless a fitted bank fixes them."""
        if not isinstance(self.kernels, Bank):
            return canonical_rows(X, codes, sample_weight)
        if not self.kernels.same_data(X):
            raise ValueError(
                f"This bank was fitted on other data ({self.kernels.n} points); pass the same X to "
                "fit, "
                "or give the kernels themselves, not a fitted bank."
            )
        return fixed_rows(sample_weight)

    def _bank(self, X, sample_weight):
        """The kernels on the training rows."""
        categories = self._by_column(self.categories_)
        combination = choose_combination(self.combination)
        if combination is not None:
            return self._combination_bank(combination, X)
        if isinstance(self.kernels, Bank):
            if self.approximation is not None:
                raise ValueError(
                    "An approximation needs the kernels themselves, not a fitted bank."
                )
            if self.device != "cpu":
                raise ValueError(
                    f"device={self.device!r} needs the kernels themselves, not a fitted bank."
                )
            if self.normalize != self.kernels.normalize:
                raise ValueError(
                    f"normalize={self.normalize!r}, but the bank was fitted with "
                    f"normalize={self.kernels.normalize!r}."
                )
            return self.kernels
        if isinstance(self.kernels, str):
            if self.kernels != "auto":
                raise ValueError(
                    f"kernels={self.kernels!r} is not known; use 'auto', kernels, a mapping or a "
                    "KernelCollection."
                )
            kernels = paper_bank(X, sample_weight, list(categories), self._column_names())
        else:
            kernels = (
                self.kernels
                if isinstance(self.kernels, KernelCollection)
                else KernelCollection(self.kernels)
            )
            kernels = kernels.for_columns(
                X.shape[1], getattr(self, "feature_names_in_", None), categories
            )
        on_points = {
            "normalize": self.normalize,
            "sample_weight": sample_weight,
            "feature_names": getattr(self, "feature_names_in_", None),
            "categories": categories,
        }
        on_machine = {
            "dtype": np.float64 if self.tol < FLOAT32_TOL else np.float32,
            "n_jobs": self.n_jobs,
            "memory_budget": memory_budget(self.cache_size),
        }
        if self.approximation is not None:
            kernels = KernelsOnPoints(kernels, X, **on_points)
            bank = self.approximation.fit(kernels, X, **on_machine, verbose=self.verbose)
            return (
                reduced(bank, on_machine["memory_budget"])
                if self.device == "cpu"
                else on_device(bank, self.device)
            )
        return make_bank(kernels, X, **on_points, **on_machine, device=self.device)

    def _combination_bank(self, combination, X):
        """The bank of a kernel that is not a sum."""
        if not (isinstance(self.kernels, str) and self.kernels == "auto"):
            raise ValueError(
                f"kernels={self.kernels!r} are for sums of kernels; "
                f"combination={self.combination!r} makes its own: leave "
                "kernels='auto'."
            )
        if self.approximation is not None:
            raise ValueError(
                "Approximations are for sums of kernels; with a combination leave "
                "approximation=None."
            )
        if self.normalize not in ("diagonal", None):
            raise ValueError(
                f"normalize={self.normalize!r} is for sums of kernels; a combination is taken as "
                "it is."
            )
        refuse_categories(self.categories_, f"combination={self.combination!r}")
        names = getattr(self, "feature_names_in_", None)
        return on_device(
            CombinationBank(combination.fit(X), feature_names=names, n_jobs=self.n_jobs),
            self.device,
        )

    def _prepare(self, X, targets, distinct, cost, offset=0.0):
        """Kernels, targets (t, n) and costs for C = 1 of the distinct rows, (n,) or (t, n)."""
        X = X[distinct.rows]
        prepared = Prepared(self._bank(X, distinct.weight), targets, cost, distinct, offset)
        if self.checkpoint is None:
            return prepared
        return prepared._replace(marks=fingerprint(self, X, targets, cost))

    def _fit(self, X, y, sample_weight):
        """Everything after the checks of the parameters."""
        with Run(self, bridges(self, X, y, sample_weight)) as run:
            prepared = self._data(X, y, sample_weight)
            run.begin(prepared)
            self._choose(X, y, sample_weight, run)
            self._solve(prepared, run)
        return self

    def _choose(self, X, y, sample_weight, run):
        """Parameters that are chosen on held-out data; a checkpoint remembers them."""
        chosen = {} if run.journal is None else run.journal.notes
        if "p" in chosen and self.p == "auto":
            self.p_, self.p_scores_ = (
                float(chosen["p"]),
                {float(p): score for p, score in chosen["p_scores"]},
            )
            return
        choose_p(self, X, y, sample_weight)
        if run.journal is not None and self.p == "auto":
            run.journal.notes = {
                "p": str(self.p_),
                "p_scores": [[str(p), score] for p, score in self.p_scores_.items()],
            }
            run.journal.write()

    def _solve(self, prepared, run, start=None):
        """Solve for the weights, from an earlier result if there is one, and keep the outcome."""
        if getattr(self, "weights", "shared") == "per_class":
            parts = self._results_per_output(prepared, run, start)
            results, banks, others = zip(*parts, strict=True)
            self.result_, self.bank_, self.other_results_ = (
                merged(results),
                banks[-1],
                list(chain(*others)),
            )
        else:
            self.result_, self.bank_, self.other_results_ = self._best_result(
                prepared, run, start, self.max_iter
            )
        self._keep(prepared)
        run.result = self.result_
        self._warn()

    def _results_per_output(self, prepared, run, start):
        """What `_best_result` gives for every output; after Ctrl-C the others get one SVM at their
        first weights.
        """
        parts, steps, names = [], self.max_iter, self._output_names()
        for c in prepared.outputs:
            begin = None if start is None else start.part(c)
            parts.append(self._best_result(prepared.part(c), run, begin, steps, names[c]))
            if parts[-1][0].status.broken_off:
                steps = 0
        return parts

    def _best_result(self, prepared, run, start, max_iter, stage=""):
        """Result, bank (in float64 if float32 was too coarse for the tolerance), and the results of
        other starts.
        """
        found = []
        rng = check_random_state(self.random_state)
        starts = getattr(prepared.bank, "starts", 1)
        if starts < 1:
            raise ValueError(f"starts must be at least 1, got {starts!r}.")
        for attempt in range(1 if start is not None or max_iter == 0 else starts):
            problem = self._problem(prepared, start)
            if attempt:  # the first start is that of the combination itself
                weights, beta = problem.start
                problem.start = (
                    problem.regularizer.project(weights * rng.uniform(0.0, 2.0, weights.size)),
                    beta,
                )
            where = ", ".join(
                [stage] * bool(stage) + [f"start {attempt + 1} of {starts}"] * (starts > 1)
            )
            solver, before, options = run.watched(
                where, problem, choose_solver(self.solver, problem)
            )
            result = drive(solver, problem, tol=self.tol, max_iter=max_iter, **options)
            run.finished(where, result, solver, before)
            found.append((result, problem.bank))
            if result.status.broken_off:
                break
        found.sort(key=lambda pair: pair[0].objective)
        return *found[0], [result for result, _ in found[1:]]

    def _problem(self, prepared, start):
        return Problem(
            prepared.bank,
            prepared.targets,
            getattr(self, "C", 1.0) * prepared.cost,
            choose_regularizer(self.p_ if self.p == "auto" else self.p, self.regularizer),
            loss=self._loss(),
            start=start,
            memory_budget=memory_budget(self.cache_size),
        )

    def _keep(self, prepared):
        result, distinct = self.result_, prepared.distinct
        self.kernel_weights_ = result.weights
        self.intercept_ = result.intercept + prepared.offset
        # the first weights were a round too, even if they were the best
        self.n_iter_ = max(result.n_iter, 1)
        beta = distinct.expand(result.beta)
        self.support_ = np.flatnonzero(beta.any(axis=0))
        self.dual_coef_ = beta[:, self.support_]
        self._n_fit = beta.shape[1]
        self._bank_support = np.flatnonzero(result.beta.any(axis=0))
        self._coefficients = self._norms = self._contributions = None
        # landmarks and coefficients are all that is needed from now on
        if isinstance(self.bank_, FactorBank):
            weights = np.broadcast_to(result.weights, (len(result.beta), result.weights.shape[-1]))
            parts = [
                self.bank_.coefficients(w, b[None])
                for w, b in zip(weights, result.beta, strict=True)
            ]
            self._norms = np.stack([self.bank_.squared_norms(part) for part in parts])
            self._coefficients, self.bank_ = (
                self.bank_.lasting(np.concatenate(parts)),
                self.bank_.features,
            )

    def _warn(self):
        status, gap = self.result_.status, self.result_.duality_gap
        if status.converged and not self.kernel_weights_.any():
            warnings.warn(
                "All kernel weights are zero: the regularizer outweighs what the kernels explain. "
                "Weaken it or raise C.",
                ConvergenceWarning,
                stacklevel=outside(),
            )
        # whoever stops a fit knows that it is not done
        if not status.converged and status is not Status.STOPPED:
            advice = (
                ""
                if status.broken_off
                else " Allow more iterations (max_iter), a larger tol, a larger p or a smaller C."
            )
            warnings.warn(
                f"{status.value} The relative duality gap is {gap:.2g}, the tolerance "
                f"{self.tol:g}.{advice}",
                ConvergenceWarning,
                stacklevel=outside(),
            )

    @property
    def kernel_names_(self):
        """One readable name per kernel."""
        check_is_fitted(self)
        return self.bank_.names

    def _scores(self, X):
        """Decision values of every output, (t, n_new)."""
        check_is_fitted(self)
        grams = self._cross_grams(X)
        if grams is not None:
            weights = np.atleast_2d(self.kernel_weights_) * self.bank_.spec.scales
            scores = np.repeat(self.intercept_[:, None], grams[0].shape[0], axis=1)
            for w, K in zip(weights.T, grams, strict=True):
                if w.any():
                    scores += w[:, None] * (self.dual_coef_ @ K[:, self.support_].T)
            return scores
        X, categories = self._read_new(X)
        bank = with_categories(self.bank_, categories) if categories else self.bank_
        if self._coefficients is not None:
            return self._factor_scores(X, bank)
        if self._bank_support.size == 0:
            return np.repeat(self.intercept_[:, None], X.shape[0], axis=1)
        with threadpool_limits(1, user_api="blas"):
            cross = bank.cross(X, self._bank_support)
            beta = self.result_.beta[:, self._bank_support]
            if self.kernel_weights_.ndim == 1:
                return cross.decision(self.kernel_weights_, beta) + self.intercept_[:, None]
            scores = [cross.decision(w, b) for w, b in zip(self.kernel_weights_, beta, strict=True)]
            return np.stack(scores) + self.intercept_[:, None]

    def _factor_scores(self, X, features):
        """Decision values through low-rank factors, a block of points at a time."""
        scores, blocks = (
            np.empty((len(self.intercept_), X.shape[0])),
            range(0, X.shape[0], FACTOR_ROWS),
        )

        def fill(start):
            part = slice(start, start + FACTOR_ROWS)
            scores[:, part] = self._coefficients @ features.block(as_points(X[part])).T

        with threadpool_limits(1, user_api="blas"):
            Threads(thread_count(self.n_jobs)).map(fill, blocks)
        return scores + self.intercept_[:, None]

    def _cross_grams(self, X):
        """Matrices K(test, train) given in place of X for precomputed kernels, checked; None for
        ordinary X.
        """
        spec = getattr(getattr(self.bank_, "bank", self.bank_), "spec", None)
        kernels = spec.kernels if spec is not None else []
        if (
            self.n_features_in_ != 1
            or not kernels
            or not all(isinstance(kernel, Precomputed) for kernel in kernels)
        ):
            return None
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] != 1:
            X = [X]
        elif (
            not (isinstance(X, (list, tuple)) and all(np.ndim(K) == 2 for K in X))
            and np.ndim(X) != 3
        ):
            return None
        grams = [np.asarray(K) for K in X]
        if len(grams) != len(kernels):
            raise ValueError(
                f"There are {len(kernels)} precomputed kernels, but {len(grams)} test matrices "
                "were given."
            )
        for k, K in enumerate(grams):
            if K.shape[0] != grams[0].shape[0]:
                raise ValueError(
                    f"Test matrix {k} has {K.shape[0]} rows, the first has {grams[0].shape[0]}."
                )
            if K.shape[1] != self._n_fit:
                raise ValueError(
                    f"Test matrix {k} has shape {K.shape}; K(test, train) is needed, with one "
                    "column for each of the "
                    f"{self._n_fit} training samples in the order given to fit (K(test, test) will "
                    "not do)."
                )
            if not np.isfinite(K).all():
                raise ValueError(f"Test matrix {k} holds NaN or infinite values.")
        if self.bank_.normalize in ("cosine", "center"):
            raise ValueError(
                f"normalize={self.bank_.normalize!r} needs more of new samples than K(test, "
                "train): pass sample indices."
            )
        return grams

    def save(self, path, *, extra=None):
        """Write the fitted model to a file that `manykernels.load` reads.

        The file holds numbers and texts only, with a checksum: loading it runs no code of the
        file's. It is written in one step, so that a crash or a full disk leaves the file that was
        there before. Kernels given by functions or by classes of your own cannot be stored so; use
        pickle, joblib or skops for them. Of `Precomputed` kernels the Gram matrices are not stored:
        the loaded model predicts from the matrices K(test, train).

        Parameters
        ----------
        path : path
        extra : dict, optional
            More to keep with the model, such as how the data were scaled; anything that JSON can
            hold. After loading it is the attribute ``extra_``.
        """
        from ..persistence.models import save

        check_is_fitted(self)
        save(self, path, extra)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags
