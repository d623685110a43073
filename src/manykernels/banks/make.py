"""Putting a collection of kernels on data: which bank, in which precision."""

import numpy as np

from .._threads import Threads, thread_count
from ..kernels.collection import MaskedCollection
from ..kernels.points import as_points
from ..kernels.precomputed import Precomputed, check_gram
from ..kernels.vector import dense
from .centered import CenteredBank
from .codes import refuse_categories
from .dense import DenseBank
from .masked import MaskedBank
from .spec import BankSpec
from .tiled import PAIRWISE, TiledBank
from .torch import on_device

NORMALIZATIONS = ("diagonal", "trace", "cosine", "center", None)
STORAGES = ("auto", "dense", "fly")
SAMPLE = 256  # rows on which a kernel that is not held is checked
FLOAT32_ERROR = 1e-4  # in an exponent
FLOAT32_PEAK = 1e30  # above, the entries of a kernel do not fit into float32 with room for sums


def make_bank(
    collection, X, *, normalize="diagonal", sample_weight=None, dtype=np.float64, n_jobs=None, storage="auto",
    feature_names=None, memory_budget=2**30, device="cpu", categories=None,
):  # fmt: skip
    """Put kernels on data.

    Parameters
    ----------
    collection : KernelCollection
    X : array, CSR matrix or DataFrame of shape (n, n_features)
    normalize : {"diagonal", "trace", "cosine", "center", None}
        Divide each kernel by its mean diagonal, its trace, the roots of its diagonal, center it in
        feature space (then mean diagonal one), or leave it.
    sample_weight : (n,) array, optional
        How often each point counts in those means.
    dtype : float64 or float32
        Of tiles and combined kernels; sums are float64. Centered kernels are always float64.
    storage : {"auto", "dense", "fly"}
        ``"dense"`` holds all Gram matrices. ``"auto"`` computes on the fly what is cheap and holds
        the matrices of kernels given by a function or class of the user's, while they fit into
        `memory_budget` bytes.
    categories : dict from column to list, optional
        For columns of X that hold codes, the strings or categories that the codes are indices of.
        Estimators make them.

    device : str
        Where the work on pairs of points is done; see `manykernels.banks.device.on_device`.

    Returns
    -------
    Bank
    """
    if storage not in STORAGES:
        raise ValueError(f"storage must be one of {STORAGES}, got {storage!r}.")
    if normalize not in NORMALIZATIONS:
        raise ValueError(f"normalize must be one of {NORMALIZATIONS}, got {normalize!r}.")
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}.")
    if feature_names is None and hasattr(X, "columns"):
        feature_names = [str(name) for name in X.columns]
    X = as_points(X)
    sample_weight = _checked_weights(sample_weight, X.shape[0])
    if normalize == "center":
        # what is left of a wide kernel after centering is less than float32 can hold
        dtype = np.float64
    if isinstance(collection, MaskedCollection):
        refuse_categories(categories, "A masked bank")
        bank = _masked(collection, X, normalize, sample_weight, dtype, n_jobs)
    else:
        spec = BankSpec(collection, X, normalize, sample_weight, feature_names, categories)
        bank = _tiled(spec, X, dtype, n_jobs, memory_budget if storage == "auto" else 0)
    if storage == "dense":
        bank = DenseBank(bank.columns(np.arange(bank.n)).astype(bank.dtype), bank)
    bank = on_device(bank, device)
    if normalize == "center":
        shares = np.ones(bank.n) if sample_weight is None else sample_weight
        return CenteredBank(bank, shares / shares.sum())
    return bank


def _masked(collection, X, normalize, sample_weight, dtype, n_jobs):
    if X.shape[1] != collection.n_features:
        raise ValueError(
            f"The masks are over {collection.n_features} features, but X has {X.shape[1]}."
        )
    X = dense(X)
    total = X.shape[0] if sample_weight is None else np.sum(sample_weight)
    scale = 1.0 / total if normalize == "trace" else 1.0
    return MaskedBank(collection, X, X, normalize, dtype, Threads(thread_count(n_jobs)), scale)


def _tiled(spec, X, dtype, n_jobs, memory_budget):
    held = _hold(spec, X, memory_budget)
    if dtype == np.float32 and not _float32_will_do(spec, X):
        dtype = np.float64
    return TiledBank(spec, X, X, dtype, Threads(thread_count(n_jobs)), held)


def _checked_weights(sample_weight, n):
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


def _float32_will_do(spec, X):
    """Whether float32 holds every kernel: its size, and for narrow Gaussians the differences of
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
    columns = dense(X[:, used])
    reach = np.abs(columns - np.median(columns, axis=0)).max(axis=0)[
        np.searchsorted(used, features)
    ]
    # the exponent gamma (x - y)^2 of a pair that counts is off by at most about 9 sqrt(gamma) times
    # the rounding of x
    return float((9.0 * np.sqrt(gammas) * reach * np.finfo(np.float32).eps).max()) < FLOAT32_ERROR


def _hold(spec, X, memory_budget):
    """Gram matrices of the kernels that users' code computes, as many as fit. All are checked, the
    others on a sample.
    """
    size, held = 8 * X.shape[0] ** 2, {}
    for k in spec.alive:
        kernel = spec.kernels[k]
        if type(kernel) in PAIRWISE or isinstance(kernel, Precomputed):
            continue
        A = spec.seen(k, X)
        if (len(held) + 1) * size > memory_budget:
            A = A[
                np.unique(np.linspace(0, X.shape[0] - 1, min(SAMPLE, X.shape[0])).astype(np.intp))
            ]
            check_gram(
                np.asarray(kernel.block(A, A), dtype=float),
                f"The Gram matrix of kernel {k} ({spec.names[k]})",
            )
            continue
        gram = np.asarray(kernel.block(A, A), dtype=float)
        check_gram(gram, f"The Gram matrix of kernel {k} ({spec.names[k]})")
        factors = spec.factors(k, A, A)
        held[k] = Precomputed(gram if factors is None else gram * np.outer(*factors))
    return held
