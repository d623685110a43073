"""Simulated cells: negative binomial counts of genes, two types of cells that differ in the genes
of some sets, and overlapping sets.
"""

import numpy as np
from scipy import sparse

BLOCK = 2000  # cells that are simulated together
SHIFT = 0.35  # of the logarithm of the means of a set's genes, standard deviation
DEPTH = 0.4  # of the logarithm of the sizes of cells
CAUSES = 6  # that the activities of correlated sets share
TYPES_APART = 4.0  # of the first cause, in its standard deviations
OWN_ACTIVITY = 0.2  # standard deviation of what is a set's own


def simulate(cells, genes=2000, sets=50, informative=5, rate=0.15, seed=0):
    """Logarithms of normalized counts as a sparse matrix, types of 0 and 1, and sets of genes.

    Parameters
    ----------
    cells, genes, sets : int
    informative : int
        The first so many sets differ between the types.
    rate : float
        Mean count of a gene: what part of the entries is not zero grows with it.
    seed : int
    """
    rng = np.random.default_rng(seed)
    base = rng.gamma(0.3, rate / 0.3, size=genes)
    most = min(200, genes // 2)
    members = [
        np.sort(rng.choice(genes, size=rng.integers(15, most), replace=False)) for _ in range(sets)
    ]
    shift = np.zeros(genes)
    for some in members[:informative]:
        shift[some] += rng.normal(0.0, SHIFT, size=some.size)
    y, blocks = rng.integers(0, 2, cells), []
    for start in range(0, cells, BLOCK):
        some = y[start : start + BLOCK]
        means = base * np.exp(np.outer(some, shift)) * rng.lognormal(0.0, DEPTH, (some.size, 1))
        blocks.append(sparse.csr_matrix(rng.negative_binomial(1.0, 1.0 / (1.0 + means))))
    counts = sparse.vstack(blocks).astype(np.float32).tocsr()
    return _logarithms(counts), y, {f"set {k}": some for k, some in enumerate(members)}


def correlated(cells, genes=500, sets=20, rate=1.0, seed=0):
    """Cells as `simulate` makes them, whose sets are active together as those of real cells are:
    overlapping sets follow programs that share a few causes, of which the type is one, so that
    every set tells something of the type and most of what the others tell.
    """
    rng = np.random.default_rng(seed)
    base = rng.gamma(0.5, rate / 0.5, size=genes)
    sizes = rng.integers(genes // 25, genes // 6, size=sets)
    members = [np.sort(rng.choice(genes, size=size, replace=False)) for size in sizes]
    loadings = np.zeros((sets, genes))
    for row, some in zip(loadings, members, strict=True):
        row[some] = rng.normal(0.0, SHIFT, size=some.size)
    y = rng.integers(0, 2, cells)
    causes = rng.normal(size=(cells, CAUSES))
    causes[:, 0] += TYPES_APART * (y - 0.5)
    activity = causes @ rng.normal(0.0, 1.0 / np.sqrt(CAUSES), size=(CAUSES, sets))
    activity += OWN_ACTIVITY * (rng.normal(size=(cells, sets)) + np.outer(y, rng.normal(size=sets)))
    means = base * np.exp(activity @ loadings) * rng.lognormal(0.0, DEPTH, (cells, 1))
    counts = rng.negative_binomial(1.0, 1.0 / (1.0 + means))
    groups = {f"set {k}": some for k, some in enumerate(members)}
    return _logarithms(sparse.csr_matrix(counts.astype(np.float32))), y, groups


def _logarithms(counts):
    """Logarithms of counts, each cell scaled to the median of all sizes."""
    totals = np.asarray(counts.sum(axis=1)).ravel()
    X = sparse.diags(np.median(totals) / np.maximum(totals, 1.0)) @ counts
    X.data = np.log1p(X.data)
    return X.tocsr().astype(np.float32)


def save(path, X, y, train, groups):
    """Write cells, their types, which are to train on, and sets of genes, for other processes."""
    members = list(groups.values())
    offsets = np.cumsum([0, *map(len, members)])
    arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    arrays |= {"y": y, "train": train, "members": np.concatenate(members), "offsets": offsets}
    np.savez(path, **arrays)
