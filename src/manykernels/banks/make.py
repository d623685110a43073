"""Putting a collection of kernels on data: which bank, in which precision."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from .._threads import Threads, thread_count
from ..kernels.collection import KernelCollection
from ..kernels.overlaps import Overlap
from ..kernels.points import as_points, has_holes
from ..kernels.precomputed import Precomputed, check_gram
from ..kernels.vector import dense
from .base import SumBank
from .compute import Compute, Points
from .dense import DenseBank
from .masked import MaskedBank
from .missing import MissingBank, Part, points_of
from .spec import NORMALIZATIONS, PAIRWISE, BankSpec, MaskedSpec, Training, spec_from_data
from .tiled import TiledBank
from .torch import moved_to_device
from .views import RULES, Views
from .wrappers.centered import CenteredBank

STORAGES = ("auto", "dense", "fly")
# Rows on which a kernel that is not held is checked. With more of them fewer faults stay unseen.
CHECKED_ROWS = 256
FLOAT32_ERROR = 1e-4  # in an exponent
FARTHEST = 4.5  # distance times the root of gamma, at which a Gaussian is below 2e-9
FLOAT32_PEAK = 1e30  # above, the entries of a kernel do not fit into float32 with room for sums


def make_bank(
    collection: KernelCollection,
    X: Any,
    *,
    normalize: str | None = "diagonal",
    sample_weight: ArrayLike | None = None,
    feature_names: Sequence[str] | None = None,
    categories: Mapping[int, list] | None = None,
    dtype: DTypeLike = np.float64,
    storage: str = "auto",
    memory_budget: int = 2**30,
    n_jobs: int | None = None,
    device: str = "cpu",
    missing: str = "error",
) -> SumBank:
    """Put kernels on data.

    Parameters
    ----------
    collection : KernelCollection
    X : array, CSR matrix or DataFrame of shape (n, n_features)
    normalize : {"diagonal", "variance", "trace", "cosine", "center", None}
        Divide each kernel by its mean diagonal, its variance in feature space, its trace, the roots
        of its diagonal, center it in feature space (then mean diagonal one), or leave it.
    sample_weight : (n,) array, optional
        How often each point counts in those means.
    feature_names : sequence of str, optional
        Names of the columns of X; by default those of a DataFrame.
    categories : dict from column to list, optional
        For columns of X that hold codes, the strings or categories that the codes are indices of.
        Estimators make them.
    dtype : float64 or float32
        Of tiles and combined kernels; sums are float64. Centered kernels are always float64.
    storage : {"auto", "dense", "fly"}
        ``"dense"`` holds all Gram matrices. ``"auto"`` computes on the fly what is cheap and holds
        the matrices of kernels given by a function or class of the user's, while they fit into
        `memory_budget` bytes.
    memory_budget : int
    n_jobs : int, optional
        Threads; by default as many as there are cores.
    device : str
        Where the work on pairs of points is done; see `manykernels.banks.torch.moved_to_device`.
    missing : {"error", "mean", "scaled"}
        Whether points may lack all columns of a kernel, which are then NaN, and what is made of
        such points; see `manykernels.banks.missing`. For kernels on the CPU.

    Returns
    -------
    SumBank
    """
    _check_options(storage, normalize, dtype, missing)
    if feature_names is None and hasattr(X, "columns"):
        feature_names = [str(name) for name in X.columns]
    X = as_points(X, missing=missing != "error")
    training = Training(X, _checked_weights(sample_weight, X.shape[0]), feature_names, categories)
    # what is left of a wide kernel after centering is less than float32 can hold
    compute = Compute(np.float64 if normalize == "center" else dtype, Threads(thread_count(n_jobs)))
    if missing != "error":
        if device not in ("cpu", "auto"):
            raise ValueError(f"device={device!r} is for points that have everything.")
        views = Views.of(collection, X.shape[1], feature_names, missing)
        held = memory_budget if storage == "auto" else 0
        lacking = _missing_bank(collection, normalize, training, views, compute, held)
        return DenseBank.from_bank(lacking) if storage == "dense" else lacking
    spec = spec_from_data(collection, normalize, training)
    bank: SumBank
    if isinstance(spec, MaskedSpec):
        bank = MaskedBank(spec, Points.square(dense(X)), compute)
    else:
        bank = tiled(spec, X, compute, memory_budget if storage == "auto" else 0)
    if storage == "dense":
        bank = DenseBank.from_bank(bank)
    bank = cast(SumBank, moved_to_device(bank, device))
    if normalize == "center":
        return CenteredBank.from_shares(bank, training.weights / training.weights.sum())
    return bank


def _missing_bank(
    collection: Any, normalize: Any, training: Any, views: Any, compute: Any, memory_budget: int
) -> Any:
    """The bank of points that may lack views: a bank for every set of kernels that the same points
    have.
    """
    X, weights = training.X, training.weights
    presence = views.presence(X)
    views.check_training(presence)
    complete = not has_holes(X)
    patterns, of_view = np.unique(presence, axis=1, return_inverse=True)
    of_kernel = of_view.ravel()[views.of_kernel]
    if not complete:
        has = [np.flatnonzero(pattern) for pattern in patterns.T]
        training = training._replace(rows=[has[number] for number in of_kernel])
    spec = BankSpec.from_data(collection, normalize, training)
    sizes, parts = views.sizes(presence), []
    for number, pattern in enumerate(patterns.T):
        kernels = np.flatnonzero(of_kernel == number)
        columns = np.arange(X.shape[1])
        if not complete:
            seen = [views.columns[view] for view in np.unique(views.of_kernel[kernels])]
            columns = np.unique(np.concatenate(seen))
        points = points_of(X, np.flatnonzero(pattern), columns)
        some = spec.take_kernels(kernels).on_columns(columns)
        bank: SumBank = tiled(some, points, compute, memory_budget // len(patterns.T))
        shares = weights[pattern] / weights[pattern].sum()
        if normalize == "center":
            bank = CenteredBank.from_shares(bank, shares, kernels)
        parts.append(Part.of_training(bank, kernels, columns, pattern * sizes, shares))
    return MissingBank(spec, views, parts)


def _check_options(storage: Any, normalize: Any, dtype: DTypeLike, missing: Any) -> None:
    if missing not in ("error", *RULES):
        raise ValueError(f"missing must be one of {('error', *RULES)}, got {missing!r}.")
    if storage not in STORAGES:
        raise ValueError(f"storage must be one of {STORAGES}, got {storage!r}.")
    if normalize not in NORMALIZATIONS:
        raise ValueError(f"normalize must be one of {NORMALIZATIONS}, got {normalize!r}.")
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}.")


def tiled(spec: BankSpec, X: Any, compute: Compute, memory_budget: int) -> TiledBank:
    """The bank of kernels that were resolved and normalized before, on the fly.

    Parameters
    ----------
    spec : BankSpec
    X : points, as `as_points` gives them
    compute : Compute
        In float64 whatever it says, where float32 does not hold every kernel.
    memory_budget : int
        Bytes for the matrices of kernels that users' code computes.
    """
    held = _hold(spec, X, memory_budget)
    if compute.dtype == np.float32 and not _float32_will_do(spec, X):
        compute = replace(compute, dtype=np.float64)
    return TiledBank(spec, Points.square(X), compute, held)


def _checked_weights(sample_weight: Any, n: int) -> Any:
    """Sample weights as an (n,) array, or None."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=float)
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must have one entry per point, ({n},), got shape {weights.shape}."
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError("sample_weight must be finite, not negative and not all zero.")
    return weights


def _float32_will_do(spec: Any, X: Any) -> bool:
    """True if float32 holds every kernel: its size, and for narrow Gaussians the differences of
    features that spread wide.
    """
    peak = max(
        (spec.diagonal(k, X).max() for k in spec.alive if not spec.kernels[k].unit_diagonal),
        default=0.0,
    )
    if peak > FLOAT32_PEAK:
        return False
    gaussians = [
        (spec.columns[k][0], spec.kernels[k].gamma) for k in spec.alive if spec.on_one_feature(k)
    ]
    if not gaussians:
        return True
    features, gammas = np.array([f for f, _ in gaussians]), np.array([g for _, g in gaussians])
    used = np.unique(features)
    columns, places = dense(X[:, used]), np.searchsorted(used, features)
    centers = np.median(columns, axis=0)
    # the exponent gamma (x - y)^2 of a pair that counts is off by at most about 9 sqrt(gamma) times
    # the rounding of x
    errors = 2.0 * FARTHEST * np.sqrt(gammas) * np.finfo(np.float32).eps
    farthest = np.abs(columns - centers).max(axis=0)[places]
    if float((gammas * farthest**2).max()) > FLOAT32_PEAK:
        return False
    return all(
        errors[k] * _reach(columns[:, places[k]], centers[places[k]], gammas[k]) < FLOAT32_ERROR
        for k in np.flatnonzero(errors * farthest >= FLOAT32_ERROR)
    )


def _reach(column: np.ndarray, center: float, gamma: float) -> float:
    """The largest distance from the center among the values that have another value so near that
    the Gaussian of the two is not zero. Equal values have no difference however they are rounded:
    a rare category of a one-hot column is far from the center, and alone there.
    """
    values = np.unique(column)
    gaps = np.r_[np.inf, np.diff(values), np.inf]
    is_near = np.minimum(gaps[:-1], gaps[1:]) * np.sqrt(gamma) < FARTHEST
    return float(np.abs(values[is_near] - center).max(initial=0.0))


def _hold(spec: Any, X: Any, memory_budget: Any) -> Any:
    """Gram matrices of the kernels that users' code computes, as many as fit. All are checked, the
    others on a sample.
    """
    size, held = 8 * X.shape[0] ** 2, cast(dict[int, Precomputed], {})
    for k in spec.alive:
        kernel = spec.kernels[k]
        if type(kernel) in PAIRWISE or isinstance(kernel, (Precomputed, Overlap)):
            continue
        A = spec.seen(k, X)
        if (len(held) + 1) * size > memory_budget:
            A = A[
                np.unique(
                    np.linspace(0, X.shape[0] - 1, min(CHECKED_ROWS, X.shape[0])).astype(np.intp)
                )
            ]
            check_gram(
                np.asarray(kernel.block(A, A), dtype=float),
                f"The Gram matrix of kernel {k} ({spec.names[k]})",
            )
            continue
        gram = np.asarray(kernel.block(A, A), dtype=float)
        check_gram(gram, f"The Gram matrix of kernel {k} ({spec.names[k]})")
        factors = spec.factors(k, Points.square(A))
        held[k] = Precomputed(gram if factors is None else gram * np.outer(*factors))
    return held
