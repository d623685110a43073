"""Checks of parameters and data that scikit-learn's own validation does not make."""

import functools
import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils import check_array, check_consistent_length, check_random_state

from ..banks import Bank
from ..banks.torch.place import check_device
from ..banks.views import RULES, refuse_masks
from ..callbacks import Callback, check_callbacks
from ..combinations import COMBINATIONS, Combination
from ..kernels import Kernel, KernelCollection
from ..losses import LOSSES, Loss
from ..lowrank import Approximation
from ..regularizers import AtMost, PNormBall, Regularizer
from ..result import Record
from .checkpoints import Checkpoint
from .data.frames import column_types

LARGEST = 1e36  # cost or target; a hundredth of the largest number of float32


class available_if:
    """A method that is there if `check` raises no AttributeError, which says what to do. That of
    scikit-learn's decorator of this name only says that there is no such method.
    """

    def __init__(self, check: Callable[[Any], Any]) -> None:
        self.check = check

    def __call__(self, method: Callable) -> "available_if":
        self.method = method
        functools.update_wrapper(self, method)
        return self

    def __get__(self, estimator: Any, owner: type | None = None) -> Any:
        if estimator is None:
            return self.method
        self.check(estimator)
        return MethodType(self.method, estimator)


def check_parameters(estimator):
    """Raise for a parameter out of its range."""
    check_device(estimator.device)
    if not (estimator.approximation is None or isinstance(estimator.approximation, Approximation)):
        raise TypeError(
            "approximation must be None or an object such as Nystroem(rank=200), got "
            f"{estimator.approximation!r}."
        )
    check_missing(estimator)
    check_choice("scale", estimator.scale, ("auto", "standard", None))
    check_callbacks(estimator.callbacks)
    check_checkpoint(estimator.checkpoint)
    for name in estimator._automatic:
        if estimator._is_auto(name) and getattr(estimator, name) != "auto":
            given = getattr(estimator, name)
            raise ValueError(f"{name} must be a number or 'auto', got {given!r}.")
    if hasattr(estimator, "C") and not estimator._is_auto("C"):
        check_real("C", estimator.C)
    check_real("tol", estimator.tol)
    if estimator.cache_size is not None:
        check_real("cache_size", estimator.cache_size)
    if estimator.max_iter is not None and not (
        isinstance(estimator.max_iter, numbers.Integral) and estimator.max_iter >= 0
    ):
        raise ValueError(f"max_iter must be a whole number or None, got {estimator.max_iter!r}.")
    check_random_state(estimator.random_state)
    check_limit(estimator)


def check_limit(estimator):
    """Raise unless the number of kernels or groups is one that can be had."""
    given = {
        name: getattr(estimator, name)
        for name in ("max_kernels", "max_groups")
        if getattr(estimator, name) is not None
    }
    for name, value in given.items():
        if isinstance(value, bool) or not (isinstance(value, numbers.Integral) and value >= 1):
            raise ValueError(f"{name} must be None or a whole number of at least 1, got {value!r}.")
    if len(given) == 2:
        raise ValueError(
            "Give max_kernels or max_groups, not both: a search counts one or the other."
        )
    if given and estimator.p == "auto":
        raise ValueError(
            "p='auto' chooses p by many fits, and every one would be a search with "
            f"{next(iter(given))}: give a number for p."
        )


def check_missing(estimator):
    """Raise if rows may lack views, but other parameters need all of them."""
    missing = estimator.missing
    check_choice("missing", missing, ("error", "impute", *RULES))
    if missing not in RULES:
        return
    if estimator.approximation is not None or estimator.device not in ("cpu", "auto"):
        name = "approximation" if estimator.approximation is not None else "device"
        raise ValueError(
            f"missing={missing!r} is for exact kernels on the CPU, and there is "
            f"{name}={getattr(estimator, name)!r}: leave missing='error', or {name} as it is by "
            "default."
        )
    if estimator.combination != "sum":
        raise ValueError(
            f"missing={missing!r} is for sums of kernels; combination={estimator.combination!r} "
            "needs every column: leave missing='error'."
        )
    if isinstance(estimator.kernels, Bank):
        raise ValueError(f"missing={missing!r} needs the kernels themselves, not a fitted bank.")
    refuse_masks(estimator.kernels)


def check_checkpoint(checkpoint):
    """Raise unless the parameter is None, a path or a Checkpoint."""
    if isinstance(checkpoint, Checkpoint):
        checkpoint, every = checkpoint.path, checkpoint.every
        if not isinstance(every, numbers.Real) or not every >= 0:
            raise ValueError(
                f"A checkpoint is written every so many seconds, 0 or more, got every={every!r}."
            )
    if not isinstance(checkpoint, (str, os.PathLike, type(None))):
        raise TypeError(f"checkpoint must be None, a path or a Checkpoint, got {checkpoint!r}.")


def check_real(name, value):
    """Raise unless a parameter is a finite number above zero."""
    if not isinstance(value, numbers.Real) or not np.isfinite(value) or value <= 0:
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}.")


def check_not_negative(name, value):
    """Raise unless a parameter is a finite number, zero or above."""
    if not isinstance(value, numbers.Real) or not np.isfinite(value) or value < 0:
        raise ValueError(f"{name} must be a finite number, 0 or more, got {value!r}.")


def check_sizes(costs, targets):
    """Raise for costs of points or targets that are too large for sums in float32."""
    if np.max(np.abs(targets)) > LARGEST:
        raise ValueError(
            f"The targets are up to {np.max(np.abs(targets)):.3g} in size, and solvers work with "
            f"{LARGEST:.0e} at most: give them in larger units."
        )
    if np.max(costs) > LARGEST:
        raise ValueError(
            f"C times the weight of a row is {np.max(costs):.3g}, and solvers work with "
            f"{LARGEST:.0e} at most: give a smaller C, or divide sample_weight and class_weight by "
            "a number; only their product with C matters."
        )


def choose_regularizer(p, regularizer):
    """The regularizer that the parameters ask for: ``p`` is short for `PNormBall`."""
    if regularizer is None:
        if isinstance(p, bool) or not isinstance(p, numbers.Real) or not p >= 1:
            hint = " Give it as regularizer=." if isinstance(p, Regularizer) else ""
            raise ValueError(
                "p must be 'auto' or a number of at least 1 (below 1 the problem is not convex), "
                f"got {p!r}.{hint}"
            )
        return PNormBall(p)
    if p not in (1.0, np.inf):  # the defaults
        raise ValueError(
            f"Give p={p!r} or regularizer={regularizer!r}, not both: p is short for PNormBall(p)."
        )
    if not isinstance(regularizer, Regularizer):
        raise TypeError(
            f"regularizer must be a Regularizer object such as PNormBall(2), got {regularizer!r}."
        )
    return regularizer


def is_limited(estimator):
    """Whether an estimator asks for a limit on kernels or groups."""
    return estimator.max_kernels is not None or estimator.max_groups is not None


def limited(estimator, regularizer):
    """A regularizer with the limit on kernels or groups that an estimator asks for."""
    if not is_limited(estimator):
        return regularizer
    by_group = estimator.max_kernels is None
    return AtMost(
        int(estimator.max_groups if by_group else estimator.max_kernels), regularizer, by_group
    )


def choose_combination(combination):
    """A Combination from its name, or the object itself; None for the sum."""
    if isinstance(combination, str):
        if combination == "sum":
            return None
        if combination in COMBINATIONS:
            return COMBINATIONS[combination]()
    elif isinstance(combination, Combination):
        return combination
    names = ", ".join(map(repr, ["sum", *COMBINATIONS]))
    raise ValueError(
        f"combination={combination!r} is not known; use {names} or a Combination object."
    )


def choose_loss(loss, names, **parameters):
    """A Loss from one of the names that suit the estimator, or the object itself."""
    if isinstance(loss, str) and loss in names:
        return LOSSES[loss](**parameters.get(loss, {}))
    if isinstance(loss, Loss):
        allowed = tuple(LOSSES[name] for name in names)
        # a loss of the user's own suits where its targets are of the same kind
        is_own = not isinstance(loss, tuple(LOSSES.values()))
        if isinstance(loss, allowed) or (is_own and loss.separates == allowed[0].separates):
            return loss
    raise ValueError(
        f"loss={loss!r} does not suit this estimator; use {' or '.join(map(repr, names))}."
    )


def check_bool(name, value):
    """Raise unless a parameter is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, got {value!r}.")


def check_choice(name, value, choices):
    """Raise unless a parameter is one of a few strings."""
    if value not in choices:
        raise ValueError(f"{name}={value!r} is not known; use {' or '.join(map(repr, choices))}.")


def refuse_odd_arrays(name, array, types=None):
    """Raise for arrays that NumPy would turn into plain numbers without a word.

    `types` are the `column_types` of a data frame, where they are known already.
    """
    if np.ma.isMaskedArray(array) and np.ma.getmaskarray(array).any():
        raise ValueError(
            f"{name} is a masked array with masked entries; fill them or drop their rows first."
        )
    types = column_types(array) if types is None else types
    if types is None:
        times = getattr(getattr(array, "dtype", None), "kind", None) in ("M", "m")
    else:
        times = any(type_.is_temporal() for type_ in types)
    if times:
        raise ValueError(
            f"{name} holds dates or times; turn them into numbers first, such as days since a "
            "start."
        )


def check_weights(sample_weight, X):
    """Sample weights as (n,) floats, ones by default; raise for negative or missing ones."""
    n = X.shape[0]
    if sample_weight is None:
        return np.ones(n)
    if isinstance(sample_weight, numbers.Real):
        sample_weight = np.full(n, float(sample_weight))
    refuse_odd_arrays("sample_weight", sample_weight)
    sample_weight = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if sample_weight.ndim != 1:
        raise ValueError(
            f"Sample weights must be 1D array or scalar, got shape {sample_weight.shape}."
        )
    check_consistent_length(X, sample_weight)
    if (sample_weight < 0).any():
        raise ValueError("sample_weight has negative entries; weights must be zero or more.")
    if not sample_weight.any():
        raise ValueError("All sample weights are zero: nothing is left to learn from.")
    return sample_weight


def class_factors(class_weight, classes, codes, sample_weight):
    """One factor on C per class: ones, those of a mapping, or ``"balanced"`` so that every class
    weighs the same.
    """
    if class_weight is None:
        return np.ones(classes.size)
    if isinstance(class_weight, str) and class_weight == "balanced":
        totals = np.bincount(codes, weights=sample_weight, minlength=classes.size)
        return sample_weight.sum() / (classes.size * totals)
    if not hasattr(class_weight, "items"):
        raise ValueError(
            "class_weight must be None, 'balanced' or a mapping from class to weight, got "
            f"{class_weight!r}."
        )
    known = {label: place for place, label in enumerate(classes.tolist())}
    factors = np.ones(classes.size)
    for label, factor in class_weight.items():
        if label not in known:
            raise ValueError(
                f"class_weight names the class {label!r}, which is not in y; y has "
                f"{classes.tolist()}."
            )
        check_real(f"class_weight[{label!r}]", factor)
        factors[known[label]] = factor
    return factors


def memory_budget(cache_size):
    """Bytes for a combined kernel: `cache_size` in MB, or a quarter of this machine's memory."""
    if cache_size is not None:
        return int(cache_size * 2**20)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    except (AttributeError, ValueError, OSError):
        return 2**30


# --- names for what the parameters of estimators may be -------------------------------------------


class Named(Protocol):
    """An AnnData, or what has numbers and names as it has."""

    @property
    def X(self) -> Any: ...

    @property
    def obs_names(self) -> Any: ...

    @property
    def var_names(self) -> Any: ...


Points: TypeAlias = ArrayLike | sparse.spmatrix | sparse.sparray | Sequence[str] | Named
Kernels = (
    Literal["auto", "whole"]
    | Kernel
    | Sequence[Kernel | Callable[..., ArrayLike]]
    | Mapping[str, Any]
    | KernelCollection
    | Bank
)
Normalization = Literal["diagonal", "variance", "trace", "cosine", "center"] | None
Scale = Literal["auto", "standard"] | None
Missing = Literal["error", "impute", "mean", "scaled"]
RandomState = int | np.random.RandomState | None
CheckpointLike = str | os.PathLike[str] | Checkpoint | None
Callbacks = Sequence[Callback | Callable[[Record], Any]] | None
