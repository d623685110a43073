"""What all MKL estimators share: the way from data to a solved problem, and back to decision values."""

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from .._canonical import canonical_rows, fixed_rows
from ..banks import Bank, make_bank
from ..kernels import KernelBank, Precomputed, paper_bank
from ..problem import Problem
from ..solvers import choose_solver, drive
from .checks import choose_regulariser, memory_budget, refuse_odd_arrays

FLOAT32_TOL = 1e-5  # gaps below this need kernels in float64


class Prepared(NamedTuple):
    """Training data on the way from `fit`'s arguments to a problem.

    Attributes
    ----------
    bank : Bank
        The kernels on the distinct rows.
    targets : (t, n) array
    cost : (n,) array
        Of each distinct row when C is one.
    distinct : which rows are distinct, and how often they come
    """

    bank: Bank
    targets: np.ndarray
    cost: np.ndarray
    distinct: object


class MKLEstimator(BaseEstimator):
    """Base of the estimators; subclasses say what the targets are."""

    def _read(self, X, y):
        refuse_odd_arrays("X", X)
        refuse_odd_arrays("y", y)
        return validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])

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
        if isinstance(self.kernels, Bank):
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
        return make_bank(
            kernels,
            X,
            normalise=self.normalise,
            sample_weight=sample_weight,
            dtype=np.float64 if self.tol < FLOAT32_TOL else np.float32,
            n_jobs=self.n_jobs,
            feature_names=getattr(self, "feature_names_in_", None),
            memory_budget=memory_budget(self.cache_size),
        )

    def _prepare(self, X, targets, distinct, factors):
        """Kernels, targets (t, n) and costs for C = 1 of the distinct rows; factors (n,) on C."""
        bank = self._bank(X[distinct.rows], distinct.weight)
        return Prepared(bank, targets, distinct.weight * factors, distinct)

    def _solve(self, prepared, start=None):
        """Solve for the weights, from an earlier result if there is one, and keep the outcome."""
        problem = Problem(
            prepared.bank,
            prepared.targets,
            self.C * prepared.cost,
            choose_regulariser(self.p_ if self.p == "auto" else self.p, self.regulariser),
            start=start,
            memory_budget=memory_budget(self.cache_size),
        )
        solver = choose_solver(self.solver, problem)
        watch = _print_record if self.verbose else None
        self.result_ = drive(solver, problem, tol=self.tol, max_iter=self.max_iter, watch=watch)
        self.bank_ = problem.bank  # in float64 if float32 was too coarse for the tolerance
        self._keep(prepared.distinct)
        self._warn()
        return self

    def _keep(self, distinct):
        result = self.result_
        self.kernel_weights_ = result.weights
        self.intercept_ = result.intercept
        self.n_iter_ = result.n_iter
        beta = distinct.spread(result.beta)
        self.support_ = np.flatnonzero(beta.any(axis=0))
        self.dual_coef_ = beta[:, self.support_]
        self._n_fit = beta.shape[1]
        self._bank_support = np.flatnonzero(result.beta.any(axis=0))

    def _warn(self):
        status, gap = self.result_.status, self.result_.duality_gap
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
            weights = self.kernel_weights_ * self.bank_.spec.scales
            scores = np.repeat(self.intercept_[:, None], grams[0].shape[0], axis=1)
            for w, K in zip(weights, grams, strict=True):
                if w:
                    scores += w * (self.dual_coef_ @ K[:, self.support_].T)
            return scores
        refuse_odd_arrays("X", X)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32])
        with threadpool_limits(1, user_api="blas"):
            cross = self.bank_.cross(X, self._bank_support)
            return cross.decision(self.kernel_weights_, self.result_.beta[:, self._bank_support]) + self.intercept_[:, None]

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
        """The kernels as a table, heaviest first: name, group, weight and share of the total weight (a pandas DataFrame)."""
        check_is_fitted(self)
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("weights_frame() returns a pandas DataFrame: install pandas, or manykernels[frames].") from error
        weights = self.kernel_weights_
        total = weights.sum()
        frame = pd.DataFrame(
            {
                "kernel": self.bank_.names,
                "group": self.bank_.groups,
                "weight": weights,
                "share": weights / total if total > 0 else weights,
            }
        )
        return frame.sort_values("weight", ascending=False, kind="stable")

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
