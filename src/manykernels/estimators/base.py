"""What all MKL estimators share: read the data, prepare, run, decide.

The three jobs have their own files: `prepare` (data to problem), `session` (problem to result) and
`decision` (result to scores).
"""

import copy
import time
import warnings
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._callers import user_stacklevel
from .._log import logger
from ..banks import KernelSet
from ..result import Result, Status
from .answers.contributions import TellsWeights
from .data.decision import make_decision, restored_decision
from .data.inputs import ReadsTables, ReadTable
from .scikit_learn import CallbackSupportMixin, RichDisplay, bridges
from .search.paths import choose_p
from .session import FitSession

# Rows that tell whether a kernel is the identity. More of them take longer.
LOOKED_AT = 50
# Value, as a part of the diagonal, below which two rows are not alike. Larger: more warnings.
NOT_ALIKE = 1e-3


class ModelState(NamedTuple):
    """Plain values, arrays, a bank and a result; an estimator gives it with `model_state` and takes
    it back with `restore`.

    Attributes
    ----------
    learned : dict
        Attributes by name.
    bank : KernelSet
    decision : dict
        The `Decision.state`.
    result : Result
    """

    learned: dict[str, Any]
    bank: KernelSet
    decision: dict[str, Any]
    result: Result


class MKLEstimator(ReadsTables, TellsWeights, CallbackSupportMixin, RichDisplay, BaseEstimator):
    """Base of the estimators; subclasses say what the targets are.

    They have a method ``_data(X, y, sample_weight)`` that gives a `Prepared`, and a method
    ``_loss()``.
    """

    _tuned_type: Any  # the estimator that chooses C and p for this one
    share_weights = True  # whether all outputs have the same kernel weights
    # at most so many kernels or groups with weight, of those estimators that have the parameters
    max_kernels: int | None = None
    max_groups: int | None = None

    # attributes that a model's state holds as they are
    _learned: tuple[str, ...] = (
        "n_features_in_",
        "feature_names_in_",
        "categories_",
        "date_columns_",
        "feature_medians_",
        "feature_means_",
        "feature_spreads_",
        "silent_kernels_",
        "p_",
        "p_scores_",
        "support_",
        "dual_coef_",
        "intercept_",
        "n_iter_",
        "compression_",
    )

    # parameters that may be "auto" in the place of a number
    _automatic: tuple[str, ...] = ()

    def _is_auto(self, name):
        return name in self._automatic and isinstance(vars(self).get(name), str)

    def _costs(self, cost):
        """Costs of the points, for those of a C of one."""
        return getattr(self, "C", 1.0) * cost

    def _placed(self, bank):
        """A bank of the training points, where its work is to be done."""
        return bank

    def _fit(self, X, y, sample_weight):
        """Everything after the checks of the parameters."""
        with FitSession(self, bridges(self, X, y, sample_weight)) as run:
            if self.p == "auto" and self._reads_at_once(X):
                X = ReadTable.read(self, X, y)
            prepared = self._data(X, y, sample_weight)
            run.begin(prepared)
            self._choose(X, y, sample_weight, run)
            prepared = run.at_hand(prepared)
            run.note_silent(prepared.bank)
            run.solve(prepared)
            self._finish(run)
            words = self._words_on_silence()
            if words:
                logger.warning(words)
                warnings.warn(words, stacklevel=user_stacklevel())
        return self

    def _reads_at_once(self, X):
        """True if `fit` may read its table before anything else."""
        return True

    def _choose(self, X, y, sample_weight, run):
        """Parameters that are chosen on held-out data; a checkpoint remembers them."""
        chosen = {} if run.journal is None else run.journal.notes
        if "p" in chosen and self.p == "auto":
            self.p_ = float(chosen["p"])
            self.p_scores_ = {float(p): score for p, score in chosen["p_scores"]}
            return
        choose_p(self, X, y, sample_weight)
        if run.journal is not None and self.p == "auto":
            run.journal.notes = {
                "p": str(self.p_),
                "p_scores": [[str(p), score] for p, score in self.p_scores_.items()],
            }
            run.journal.write()

    def _finish(self, run):
        """Keep the outcome of a run, and say if something is wrong with it."""
        self._keep(run.outcome.result, run.outcome.bank.persistent, run.prepared)
        self.other_results_, self.plan_ = run.outcome.others, run.plan
        self.result_.seconds = run.seconds
        run.result = self.result_
        logger.info("%s: %s", type(self).__name__, self.result_)
        self._warn(run.outcome.bank)

    def _timed(self, began):
        """The estimator, with all seconds since its fit began in the result, if it has one."""
        if hasattr(self, "result_"):
            self.result_.seconds = time.perf_counter() - began
        return self

    def _keep(self, result, bank, prepared):
        """The attributes of a model with this result."""
        result.missing = prepared.missing
        self.result_, self.kernel_weights_ = result, result.weights
        # the first weights were a round too, even if they were the best, unless none was allowed
        self.n_iter_ = result.n_iter if self.max_iter == 0 else max(result.n_iter, 1)
        beta = prepared.distinct.expand(result.beta)
        self.support_ = np.flatnonzero(beta.any(axis=0))
        self.dual_coef_ = beta[:, self.support_]
        self.decision_ = make_decision(
            result,
            bank,
            prepared.distinct,
            offset=prepared.offset,
            n_features=self.n_features_in_,
            n_jobs=self.n_jobs,
        )
        self.intercept_, self.bank_ = self.decision_.intercept, self.decision_.bank
        self._contributions = None
        for name in ("silent_kernels_", "compression_"):
            vars(self).pop(name, None)
        if prepared.silent is not None:
            self.silent_kernels_ = prepared.silent

    def _warn(self, bank):
        status = self.result_.status
        if status.converged and not bank.is_sum and _is_identity(bank, self.kernel_weights_):
            warnings.warn(
                "With these weights no row is like any other, so that nothing can be learned of "
                "them: columns are far too large for the widths that the fit began with. "
                "Standardize them.",
                ConvergenceWarning,
                stacklevel=user_stacklevel(),
            )
        if status.converged and not self.kernel_weights_.any():
            warnings.warn(
                "All kernel weights are zero: the regularizer outweighs what the kernels explain. "
                "Weaken it or raise C.",
                ConvergenceWarning,
                stacklevel=user_stacklevel(),
            )
        # whoever stops a fit knows that it is not done
        if not status.converged and status is not Status.STOPPED:
            logger.warning(self.result_.message)
            warnings.warn(self.result_.message, ConvergenceWarning, stacklevel=user_stacklevel())

    @property
    def kernel_names_(self) -> list[str]:
        """One readable name per kernel."""
        check_is_fitted(self)
        return self.bank_.names

    def _scores(self, X):
        """Decision values of every output, (t, n_new)."""
        if "decision_" not in vars(self):
            check_is_fitted(self)
        grams = self.decision_.grams_of(X)
        if grams is not None:
            return self.decision_.scores(grams)
        return self.decision_.scores(*self._read_new(X))

    def _parts(self, X, members):
        """Decision values by parts of the kernels, (g, t, n_new)."""
        check_is_fitted(self)
        grams = self.decision_.grams_of(X)
        if grams is not None:
            return self.decision_.parts(grams, members)
        X, categories = self._read_new(X)
        return self.decision_.parts(X, members, categories)

    def __getstate__(self):
        """The state of a pickle: training points that no prediction needs are left out, as they are
        in a model file; ``bank_`` and ``result_.beta`` are then of the support vectors.
        """
        state = super().__getstate__()
        decision = state.get("decision_")
        lean = None if decision is None else decision.lean()
        if lean is not None and lean is not decision:
            beta = state["result_"].beta[:, decision.points]
            # one array, which a pickle holds once
            beta = lean.beta if np.array_equal(beta, lean.beta) else beta
            result = replace(state["result_"], beta=beta)
            state |= {"decision_": lean, "bank_": lean.bank, "result_": result}
        return state

    def __copy__(self):
        twin = type(self).__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def __deepcopy__(self, memo):
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        vars(twin).update(copy.deepcopy(vars(self), memo))
        return twin

    def model_state(self, kept: np.ndarray | None = None) -> ModelState:
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

    def restore(self, state: ModelState) -> Self:
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
        tags.input_tags.allow_nan = self.missing != "error"
        return tags


def _is_identity(bank, weights):
    """Whether the kernels of all outputs are diagonal, as far as some of the points tell."""
    chosen = np.linspace(0, bank.n - 1, min(bank.n, LOOKED_AT)).astype(int)
    own = np.arange(len(chosen)), chosen
    for of_output in np.atleast_2d(weights):
        K = np.abs(bank.combine(of_output, chosen))
        largest, K[own] = K[own].max(), 0.0
        if K.max() >= NOT_ALIKE * largest:
            return False
    return bank.n > 1
