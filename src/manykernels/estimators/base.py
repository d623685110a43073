"""What all MKL estimators share: the way from data to a solved problem, and back to decision
values.
"""

import warnings
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._callers import outside
from .._canonical import canonical_rows, fixed_rows
from ..banks import Bank, CombinationBank, KernelsOnPoints, make_bank
from ..banks.basis import reduced
from ..banks.codes import refuse_categories
from ..banks.torch import on_device
from ..kernels import KernelCollection, paper_bank
from ..problem import Problem
from ..result import Status, merged
from ..solvers import choose_solver, drive
from .checks import choose_combination, choose_regularizer, memory_budget
from .contributions import TellsWeights
from .decision import make_decision, restored_decision
from .fingerprints import fingerprint
from .inputs import ReadsTables
from .paths import choose_p
from .rich_display import RichDisplay
from .running import Run
from .scikit_learn import CallbackSupportMixin, bridges
from .state import ModelState

FLOAT32_TOL = 1e-5  # gaps below this need kernels in float64


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

    # attributes that a model's state holds as they are
    _learned = (
        "n_features_in_",
        "feature_names_in_",
        "categories_",
        "p_",
        "p_scores_",
        "support_",
        "dual_coef_",
        "intercept_",
        "n_iter_",
    )

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
        # the first weights were a round too, even if they were the best
        self.n_iter_ = max(result.n_iter, 1)
        beta = distinct.expand(result.beta)
        self.support_ = np.flatnonzero(beta.any(axis=0))
        self.dual_coef_ = beta[:, self.support_]
        self.decision_ = make_decision(
            result,
            self.bank_,
            distinct,
            offset=prepared.offset,
            n_features=self.n_features_in_,
            n_jobs=self.n_jobs,
        )
        self.intercept_, self.bank_ = self.decision_.intercept, self.decision_.bank
        self._contributions = None

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
        grams = self.decision_.grams_of(X)
        if grams is not None:
            return self.decision_.scores(grams)
        return self.decision_.scores(*self._read_new(X))

    def model_state(self, kept=None) -> ModelState:
        """What this fitted estimator is besides its parameters, for `restore`.

        Parameters
        ----------
        kept : (s,) int, optional
            The training points that the bank of the restored model will have, in ascending order,
            with ``decision_.points`` among them; all by default.
        """
        check_is_fitted(self)
        learned = {name: getattr(self, name) for name in self._learned if hasattr(self, name)}
        if kept is None:
            return ModelState(learned, self.bank_, self.decision_.state(), self.result_)
        decision = self.decision_.on_points(kept).state()
        result = replace(self.result_, beta=self.result_.beta[:, kept])
        return ModelState(learned, self.bank_, decision, result)

    def restore(self, state: ModelState):
        """Become the fitted estimator of a state; raise ValueError if its parts do not fit."""
        for name in self._learned:
            if name in state.learned:
                setattr(self, name, state.learned[name])
        self.bank_, self.result_, self.other_results_ = state.bank, state.result, []
        self.kernel_weights_ = state.result.weights
        self.decision_ = restored_decision(
            state.decision, self.bank_, self.kernel_weights_, self.intercept_
        )
        if self.dual_coef_.shape != (len(self.intercept_), self.support_.size):
            raise ValueError("its parts do not fit each other.")
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags
