"""What is asked of a smaller model, and what is known of it: on rows that it was not fitted at."""

import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._callers import user_stacklevel
from ..estimators.checks import check_real
from ..estimators.copies import like
from ..persistence import CannotSave, save
from ..result import Compression, binomial_bound

LEAST_ROWS = 30  # with fewer, nothing can be fitted and judged on other rows
TESTED, CHOICE = 0.3, 0.25  # shares of the rows
MOST_TESTED = 20_000  # rows that are judged. More take longer and say hardly more.
# Confidence that rows agree often enough, at which the number of points is chosen. A larger one
# makes more points, and fewer models that miss what was asked for.
CONFIDENCE = 0.5
NEAR = 0.1  # of the spread of a regression's scores is no difference, unless `tolerance` is given


class Target(NamedTuple):
    """What is asked for, one of these."""

    agreement: float | None
    n_points: int | None
    n_bytes: int | None
    microseconds: float | None

    @classmethod
    def of(cls, agreement, n_points, n_bytes, microseconds):
        """The target that was given; raise if there are several."""
        target = cls(agreement, n_points, n_bytes, microseconds)
        given = {name: value for name, value in target._asdict().items() if value is not None}
        if len(given) > 1:
            raise ValueError(f"One target is needed, got {', '.join(given)}.")
        for name, value in given.items():
            check_real(name, value)
        if agreement is not None and agreement >= 1.0:
            raise ValueError(f"agreement must be between 0 and 1, got {agreement!r}.")
        if n_points is not None and n_points != int(n_points):
            raise ValueError(f"n_points must be a whole number, got {n_points!r}.")
        return target if given else target._replace(agreement=0.99)


def is_reached(agrees: np.ndarray, agreement: float) -> bool:
    """True if rows agree often enough: rather more often than not, of all rows like these. Where
    there are too few of them to say so, all must agree.
    """
    count, n = int(np.count_nonzero(agrees)), agrees.size
    return count == n or binomial_bound(count, n, CONFIDENCE) >= agreement


class Likeness(NamedTuple):
    """When two sets of scores mean the same.

    Attributes
    ----------
    model : fitted estimator
    tolerance : float
        For regression, in units of the spread of the model's scores.
    """

    model: Any
    tolerance: float

    @classmethod
    def of(cls, model, tolerance):
        """For a model; raise for a tolerance of labels."""
        labeled = hasattr(model, "classes_from_scores") or hasattr(model, "nu")
        if labeled and tolerance is not None:
            raise ValueError("tolerance is for regression: labels are the same, or not.")
        if tolerance is not None:
            check_real("tolerance", tolerance)
        return cls(model, NEAR if tolerance is None else tolerance)

    def judge(self, reference: np.ndarray) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Rows at which scores agree with the model's, whose spread is that of the reference (t,
        n).
        """
        model = self.model
        if hasattr(model, "classes_from_scores"):
            return lambda a, b: model.classes_from_scores(a) == model.classes_from_scores(b)
        if hasattr(model, "nu"):
            return lambda a, b: (a[0] >= 0.0) == (b[0] >= 0.0)
        bound = self.tolerance * spreads(reference)[:, None]
        return lambda a, b: (np.abs(a - b) <= bound).all(axis=0)


def spreads(scores: np.ndarray) -> np.ndarray:
    """Standard deviations of the scores of each output, (t,)."""
    found = scores.std(axis=1)
    return np.where(found > 0.0, found, 1.0)


class Shares(NamedTuple):
    """Rows of X by what they are for."""

    fit: np.ndarray
    choice: np.ndarray
    test: np.ndarray

    @classmethod
    def of(cls, known: np.ndarray, chooses: bool, random: np.random.Generator) -> "Shares":
        """Rows of the training set are for fitting, as far as there are others.

        Parameters
        ----------
        known : (n,) bools
            Which are rows of the training set.
        chooses : bool
            Whether the number of points is to be chosen.
        random : Generator
        """
        n = known.size
        if n < LEAST_ROWS:
            raise ValueError(
                f"X must have {LEAST_ROWS} rows or more, to fit and to judge on others; got {n}."
            )
        order = random.permutation(n)
        order = order[np.argsort(~known[order], kind="stable")]
        test = min(MOST_TESTED, int(TESTED * n))
        choice = min(MOST_TESTED, int(CHOICE * n)) if chooses else 0
        return cls(
            order[: n - test - choice], order[n - test - choice : n - test], order[n - test :]
        )


def with_decision(model: Any, decision: Any, numbers: np.ndarray) -> Any:
    """A fitted twin of a model that decides otherwise.

    Parameters
    ----------
    model : fitted estimator
    decision : ExpansionDecision
    numbers : (m,) int
        Its kernels among those of the model.
    """
    small = like(model)
    small.bank_, small.decision_, small.kernel_weights_ = decision.bank, decision, decision.weights
    small.intercept_, small.support_ = decision.intercept, decision.support
    small.dual_coef_ = decision.beta
    small.result_ = replace(
        model.result_,
        weights=decision.weights,
        beta=decision.beta,
        intercept=decision.intercept,
        history=[],
    )
    small.other_results_, small._contributions = [], None
    # the plan is that of the fit, and folds hold rows of the training data
    for name in ("held_out_folds_", "plan_"):
        vars(small).pop(name, None)
    if hasattr(model, "oof_decision_"):
        small.oof_decision_ = model.oof_decision_[:0]
    if hasattr(model, "silent_kernels_"):
        small.silent_kernels_ = {
            kind: np.flatnonzero(np.isin(numbers, kernels))
            for kind, kernels in model.silent_kernels_.items()
        }
    return small


def judged(
    model: Any,
    small: Any,
    before: np.ndarray,
    after: np.ndarray,
    agrees: Callable,
    known: int,
    kind: str,
) -> Compression:
    """What is known of a smaller model from rows that it was not fitted at.

    Parameters
    ----------
    model, small : fitted estimators
    before, after : (t, n) arrays
        Their scores.
    agrees : callable
    known : int
        How many of the rows are rows of the training set.
    kind : str
        Of the points.
    """
    differences = (after - before) / spreads(before)[:, None]
    used = np.atleast_2d(model.kernel_weights_).any(axis=0)
    return Compression(
        points=int(small.decision_.support.size),
        points_before=int(model.decision_.points.size),
        kernels=int(np.atleast_2d(small.kernel_weights_).any(axis=0).sum()),
        kernels_before=int(used.sum()),
        bytes=file_size(small),
        bytes_before=file_size(model),
        rows=int(before.shape[1]),
        agreeing=int(np.count_nonzero(agrees(after, before))),
        training_rows=known,
        difference=float(np.sqrt(np.mean(np.square(differences)))),
        largest_difference=float(np.abs(differences).max()),
        fitted=0,
        kind=kind,
    )


def tell(found: Compression, wanted: Target) -> None:
    """Warn of what should not be believed."""
    if wanted.agreement is not None and found.agreement < wanted.agreement:
        most = 1.0 - binomial_bound(found.rows - found.agreeing, found.rows, 0.95)
        why = (
            "the rows on which the number of points was chosen were too few"
            if most < wanted.agreement
            else "so many rows may say less by chance"
        )
        warnings.warn(
            f"On {found.rows} rows that were used for nothing else the models agree at "
            f"{found.agreement:.2%}, less than {wanted.agreement:.2%}: {why}. Give more rows, or "
            "ask for more agreement.",
            stacklevel=user_stacklevel(),
        )
    if found.training_rows > 0.5 * found.rows:
        warnings.warn(
            f"{found.training_rows} of the {found.rows} rows that the agreement is judged on are "
            "training rows, at which models are surer than at others: give rows that the model "
            "was not trained on.",
            stacklevel=user_stacklevel(),
        )


def file_size(model: Any) -> int | None:
    """Bytes of the file of a model; None if it cannot be saved."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        try:
            save(model, path)
        except CannotSave:
            return None
        return os.path.getsize(path)
