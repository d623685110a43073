"""What all MKL estimators share: the way from data to a solved problem, and back to decision values."""

import warnings
from itertools import chain
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from .._canonical import canonical_rows, fixed_rows
from ..banks import Bank, CombinationBank, FactorBank, KernelsOnPoints, make_bank
from ..banks.threads import Threads, thread_count
from ..display.notebook import RichDisplay
from ..kernels import KernelBank, Precomputed, paper_bank
from ..kernels.points import as_points
from ..problem import Problem
from ..result import Status, merged
from ..solvers import choose_solver, drive
from .checks import choose_combination, choose_regulariser, memory_budget, refuse_odd_arrays

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
    """

    bank: Bank
    targets: np.ndarray
    cost: np.ndarray
    distinct: object
    offset: object = 0.0

    @property
    def outputs(self):
        return range(len(self.targets))

    def part(self, c):
        """The same with one output alone."""
        cost = self.cost if self.cost.ndim == 1 else self.cost[c]
        return self._replace(targets=self.targets[c : c + 1], cost=cost)


class MKLEstimator(RichDisplay, BaseEstimator):
    """Base of the estimators; subclasses say what the targets are."""

    def _read(self, X, y="no_validation", **options):
        """X, and y if there is one, as checked arrays."""
        refuse_odd_arrays("X", X)
        refuse_odd_arrays("y", y)
        return validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], **options)

    def _distinct(self, X, codes, sample_weight):
        """Rows to train on: canonical, unless a fitted bank fixes them."""
        if not isinstance(self.kernels, Bank):
            return canonical_rows(X, codes, sample_weight)
        if not self.kernels.same_data(X):
            raise ValueError(
                f"This bank was fitted on other data ({self.kernels.n} points); pass the same X to fit, "
                "or give the kernels themselves, not a fitted bank."
            )
        return fixed_rows(sample_weight)

    def _bank(self, X, sample_weight):
        """The kernels on the training rows."""
        combination = choose_combination(self.combination)
        if combination is not None:
            return self._combination_bank(combination, X)
        if isinstance(self.kernels, Bank):
            if self.approximation is not None:
                raise ValueError("An approximation needs the kernels themselves, not a fitted bank.")
            if self.normalise != self.kernels.normalise:
                raise ValueError(
                    f"normalise={self.normalise!r}, but the bank was fitted with normalise={self.kernels.normalise!r}."
                )
            return self.kernels
        if isinstance(self.kernels, str):
            if self.kernels != "auto":
                raise ValueError(f"kernels={self.kernels!r} is not known; use 'auto', kernels, a mapping or a KernelBank.")
            kernels = paper_bank(X, sample_weight)
        else:
            kernels = self.kernels if isinstance(self.kernels, KernelBank) else KernelBank(self.kernels)
        on_points = {
            "normalise": self.normalise,
            "sample_weight": sample_weight,
            "feature_names": getattr(self, "feature_names_in_", None),
        }
        on_machine = {
            "dtype": np.float64 if self.tol < FLOAT32_TOL else np.float32,
            "n_jobs": self.n_jobs,
            "memory_budget": memory_budget(self.cache_size),
        }
        if self.approximation is not None:
            kernels = KernelsOnPoints(kernels, X, **on_points)
            return self.approximation.fit(kernels, X, **on_machine, verbose=self.verbose)
        return make_bank(kernels, X, **on_points, **on_machine)

    def _combination_bank(self, combination, X):
        """The bank of a kernel that is not a sum."""
        if not (isinstance(self.kernels, str) and self.kernels == "auto"):
            raise ValueError(
                f"kernels={self.kernels!r} are for sums of kernels; combination={self.combination!r} makes its own: leave "
                "kernels='auto'."
            )
        if self.approximation is not None:
            raise ValueError("Approximations are for sums of kernels; with a combination leave approximation=None.")
        if self.normalise not in ("diagonal", None):
            raise ValueError(f"normalise={self.normalise!r} is for sums of kernels; a combination is taken as it is.")
        names = getattr(self, "feature_names_in_", None)
        return CombinationBank(combination.fit(X), feature_names=names, n_jobs=self.n_jobs)

    def _prepare(self, X, targets, distinct, cost, offset=0.0):
        """Kernels, targets (t, n) and costs for C = 1 of the distinct rows, (n,) or (t, n)."""
        return Prepared(self._bank(X[distinct.rows], distinct.weight), targets, cost, distinct, offset)

    def _solve(self, prepared, start=None):
        """Solve for the weights, from an earlier result if there is one, and keep the outcome."""
        if getattr(self, "weights", "shared") == "per_class":
            parts = self._results_per_output(prepared, start)
            results, banks, others = zip(*parts, strict=True)
            self.result_, self.bank_, self.other_results_ = merged(results), banks[-1], list(chain(*others))
        else:
            self.result_, self.bank_, self.other_results_ = self._best_result(prepared, start, self.max_iter)
        self._keep(prepared)
        self._warn()
        return self

    def _results_per_output(self, prepared, start):
        """What `_best_result` gives for every output; after Ctrl-C the others get one SVM at their first weights."""
        parts, steps = [], self.max_iter
        for c in prepared.outputs:
            parts.append(self._best_result(prepared.part(c), None if start is None else start.part(c), steps))
            if parts[-1][0].status is Status.INTERRUPTED:
                steps = 0
        return parts

    def _best_result(self, prepared, start, max_iter):
        """Result, bank (in float64 if float32 was too coarse for the tolerance), and the results of other starts."""
        found = []
        rng = check_random_state(self.random_state)
        starts = getattr(prepared.bank, "starts", 1)
        if starts < 1:
            raise ValueError(f"starts must be at least 1, got {starts!r}.")
        for attempt in range(1 if start is not None or max_iter == 0 else starts):
            problem = self._problem(prepared, start)
            if attempt:  # the first start is that of the combination itself
                weights, beta = problem.start
                problem.start = problem.regulariser.project(weights * rng.uniform(0.0, 2.0, weights.size)), beta
            solver = choose_solver(self.solver, problem)
            watch = _print_record if self.verbose else None
            result = drive(solver, problem, tol=self.tol, max_iter=max_iter, watch=watch)
            found.append((result, problem.bank))
            if result.status is Status.INTERRUPTED:
                break
        found.sort(key=lambda pair: pair[0].objective)
        return *found[0], [result for result, _ in found[1:]]

    def _problem(self, prepared, start):
        return Problem(
            prepared.bank,
            prepared.targets,
            getattr(self, "C", 1.0) * prepared.cost,
            choose_regulariser(self.p_ if self.p == "auto" else self.p, self.regulariser),
            loss=self._loss(),
            start=start,
            memory_budget=memory_budget(self.cache_size),
        )

    def _keep(self, prepared):
        result, distinct = self.result_, prepared.distinct
        self.kernel_weights_ = result.weights
        self.intercept_ = result.intercept + prepared.offset
        self.n_iter_ = max(result.n_iter, 1)  # the first weights were a round too, even if they were the best
        beta = distinct.spread(result.beta)
        self.support_ = np.flatnonzero(beta.any(axis=0))
        self.dual_coef_ = beta[:, self.support_]
        self._n_fit = beta.shape[1]
        self._bank_support = np.flatnonzero(result.beta.any(axis=0))
        self._coefficients = None
        if isinstance(self.bank_, FactorBank):  # landmarks and coefficients are all that is needed from now on
            weights = np.broadcast_to(result.weights, (len(result.beta), result.weights.shape[-1]))
            parts = [self.bank_.coefficients(w, b[None]) for w, b in zip(weights, result.beta, strict=True)]
            self._coefficients, self.bank_ = np.concatenate(parts), self.bank_.features

    def _warn(self):
        status, gap = self.result_.status, self.result_.duality_gap
        if status.converged and not self.kernel_weights_.any():
            warnings.warn(
                "All kernel weights are zero: the regulariser outweighs what the kernels explain. Weaken it or raise C.",
                ConvergenceWarning,
                stacklevel=4,
            )
        if not status.converged:
            warnings.warn(
                f"{status.value} The relative duality gap is {gap:.2g}, the tolerance {self.tol:g}. "
                "Allow more iterations (max_iter), a larger tol, a larger p or a smaller C.",
                ConvergenceWarning,
                stacklevel=4,
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
        refuse_odd_arrays("X", X)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        if self._coefficients is not None:
            return self._factor_scores(X)
        if self._bank_support.size == 0:
            return np.repeat(self.intercept_[:, None], X.shape[0], axis=1)
        with threadpool_limits(1, user_api="blas"):
            cross = self.bank_.cross(X, self._bank_support)
            beta = self.result_.beta[:, self._bank_support]
            if self.kernel_weights_.ndim == 1:
                return cross.decision(self.kernel_weights_, beta) + self.intercept_[:, None]
            scores = [cross.decision(w, b) for w, b in zip(self.kernel_weights_, beta, strict=True)]
            return np.stack(scores) + self.intercept_[:, None]

    def _factor_scores(self, X):
        """Decision values through low-rank factors, a block of points at a time."""
        scores, blocks = np.empty((len(self.intercept_), X.shape[0])), range(0, X.shape[0], FACTOR_ROWS)

        def fill(start):
            part = slice(start, start + FACTOR_ROWS)
            scores[:, part] = self._coefficients @ self.bank_.block(as_points(X[part])).T

        with threadpool_limits(1, user_api="blas"):
            Threads(thread_count(self.n_jobs)).map(fill, blocks)
        return scores + self.intercept_[:, None]

    def _cross_grams(self, X):
        """Matrices K(test, train) given in place of X for precomputed kernels, checked; None for ordinary X."""
        spec = getattr(getattr(self.bank_, "bank", self.bank_), "spec", None)
        kernels = spec.kernels if spec is not None else []
        if self.n_features_in_ != 1 or not kernels or not all(isinstance(kernel, Precomputed) for kernel in kernels):
            return None
        if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] != 1:
            X = [X]
        elif not (isinstance(X, (list, tuple)) and all(np.ndim(K) == 2 for K in X)) and np.ndim(X) != 3:
            return None
        grams = [np.asarray(K) for K in X]
        if len(grams) != len(kernels):
            raise ValueError(f"There are {len(kernels)} precomputed kernels, but {len(grams)} test matrices were given.")
        for k, K in enumerate(grams):
            if K.shape[0] != grams[0].shape[0]:
                raise ValueError(f"Test matrix {k} has {K.shape[0]} rows, the first has {grams[0].shape[0]}.")
            if K.shape[1] != self._n_fit:
                raise ValueError(
                    f"Test matrix {k} has shape {K.shape}; K(test, train) is needed, with one column for each of the "
                    f"{self._n_fit} training samples in the order given to fit (K(test, test) will not do)."
                )
            if not np.isfinite(K).all():
                raise ValueError(f"Test matrix {k} holds NaN or infinite values.")
        if self.bank_.normalise in ("cosine", "center"):
            raise ValueError(
                f"normalise={self.bank_.normalise!r} needs more of new samples than K(test, train): pass sample indices."
            )
        return grams

    def weights_frame(self):
        """The kernels as a table, heaviest first: name, group, weight and share of the total weight (a pandas DataFrame).

        Where every class has its own weights, these are their means, and there is a column for each class.
        """
        check_is_fitted(self)
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("weights_frame() returns a pandas DataFrame: install pandas, or manykernels[frames].") from error
        weights = np.atleast_2d(self.kernel_weights_).mean(axis=0)
        total = weights.sum()
        columns = {"kernel": self.bank_.names, "group": self.bank_.groups, "weight": weights}
        columns["share"] = weights / total if total > 0 else weights
        if self.kernel_weights_.ndim == 2:
            columns |= {f"weight {name}": row for name, row in zip(self._output_names(), self.kernel_weights_, strict=True)}
        return pd.DataFrame(columns).sort_values("weight", ascending=False, kind="stable")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _print_record(record):
    print(
        f"iteration {record.iteration:4d}  objective {record.objective:.6g}  gap {record.gap:.2e}  "
        f"kernels {record.kernels_used}  SVM solves {record.svm_solves}  {record.seconds:.1f} s",
        flush=True,
    )
