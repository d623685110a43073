"""Putting a collection of kernels on data: which bank, in which precision."""

import numpy as np
from scipy import sparse

from ..kernels.collection import MaskedKernelBank
from ..kernels.precomputed import Precomputed
from .centred import CentredBank
from .dense import DenseBank
from .masked import MaskedBank
from .spec import NORMALISATIONS, BankSpec
from .threads import Threads, thread_count
from .tiled import PAIRWISE, TiledBank

STORAGES = ("auto", "dense", "fly")
FLOAT32_PEAK = 1e30  # above, the entries of a kernel do not fit into float32 with room for sums


def make_bank(
    collection, X, *, normalise="diagonal", sample_weight=None, dtype=np.float64, n_jobs=None, storage="auto",
    feature_names=None, memory_budget=2**30,
):  # fmt: skip
    """Put kernels on data.

    Parameters
    ----------
    collection : KernelBank
    X : array, CSR matrix or DataFrame of shape (n, n_features)
    normalise : {"diagonal", "trace", "cosine", "center", None}
        Divide each kernel by its mean diagonal, its trace, the roots of its diagonal, centre it in feature space (then
        mean diagonal one), or leave it.
    sample_weight : (n,) array, optional
        How often each point counts in those means.
    dtype : float64 or float32
        Of tiles and combined kernels; sums are float64. Centred kernels are always float64.
    storage : {"auto", "dense", "fly"}
        ``"dense"`` holds all Gram matrices. ``"auto"`` computes on the fly what is cheap and holds the matrices of kernels
        given by a function or class of the user's, while they fit into `memory_budget` bytes.

    Returns
    -------
    Bank
    """
    if storage not in STORAGES:
        raise ValueError(f"storage must be one of {STORAGES}, got {storage!r}.")
    if feature_names is None and hasattr(X, "columns"):
        feature_names = [str(name) for name in X.columns]
    X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got shape {X.shape}.")
    X = X if X.dtype == np.float64 else X.astype(np.float64)
    if normalise == "center":
        dtype = np.float64  # what is left of a wide kernel after centring is less than float32 can hold
    if isinstance(collection, MaskedKernelBank):
        bank = _masked(collection, X, normalise, sample_weight, dtype, n_jobs)
    else:
        bank = _tiled(collection, X, normalise, sample_weight, dtype, n_jobs, feature_names, storage, memory_budget)
    if storage == "dense":
        bank = DenseBank(bank.columns(np.arange(bank.n)).astype(bank.dtype), bank)
    if normalise == "center":
        shares = np.ones(bank.n) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        return CentredBank(bank, shares / shares.sum())
    return bank


def _masked(collection, X, normalise, sample_weight, dtype, n_jobs):
    if normalise not in NORMALISATIONS:
        raise ValueError(f"normalise must be one of {NORMALISATIONS}, got {normalise!r}.")
    if X.shape[1] != collection.n_features:
        raise ValueError(f"The masks are over {collection.n_features} features, but X has {X.shape[1]}.")
    X = X.toarray() if sparse.issparse(X) else X
    total = X.shape[0] if sample_weight is None else np.sum(sample_weight)
    scale = 1.0 / total if normalise == "trace" else 1.0
    return MaskedBank(collection, X, X, normalise, dtype, Threads(thread_count(n_jobs)), scale)


def _tiled(collection, X, normalise, sample_weight, dtype, n_jobs, feature_names, storage, memory_budget):
    spec = BankSpec(collection, X, normalise, sample_weight, feature_names)
    if max((spec.diagonal(k, X).max() for k in spec.alive), default=0.0) > FLOAT32_PEAK:
        dtype = np.float64
    held = _hold(spec, X, memory_budget) if storage == "auto" else {}
    return TiledBank(spec, X, X, dtype, Threads(thread_count(n_jobs)), held)


def _hold(spec, X, memory_budget):
    """Gram matrices of the kernels that are dear to compute, as many as fit."""
    size = 8 * X.shape[0] ** 2
    held = {}
    for k in spec.alive:
        if type(spec.kernels[k]) in PAIRWISE or isinstance(spec.kernels[k], Precomputed):
            continue
        if (len(held) + 1) * size > memory_budget:
            break
        A = spec.seen(k, X)
        gram = np.asarray(spec.kernels[k].block(A, A), dtype=float)
        factors = spec.factors(k, A, A)
        held[k] = Precomputed(gram if factors is None else gram * np.outer(*factors))
    return held
