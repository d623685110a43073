"""The curvature of a loss along the factors of single kernels, in the directions where it is a
diagonal.
"""

import numpy as np

from .._loops import factors as loops

ROWS = 8192  # of a block: with a few thousand columns in float32 it is some ten megabytes


class Spectra:
    """Eigenvalues and eigenvectors of ``V_k' diag(scale) V_k`` less what an intercept takes of it,
    kernel by kernel, computed when asked for.

    Parameters
    ----------
    bank : bank with `block` and `threads`
    scale : (n,) array
    """

    def __init__(self, bank, scale):
        self.bank, self.scale, self._found = bank, scale, {}

    def of(self, k):
        """Eigenvalues (q,), zero at least, and eigenvectors (q, q) of kernel k."""
        if k not in self._found:
            self._found[k] = self._eigen(self.bank.block(k))
        return self._found[k]

    def _eigen(self, V):
        """Of one kernel's factors.

        Their mean, weighted, is moved into the intercept: then its own curvature is apart from
        theirs.
        """
        total, scale = float(self.scale.sum()), self.scale
        means = np.zeros((1, V.shape[1]))
        loops.correlate(V, scale[None], means)
        means = (means / (total or 1.0)).astype(V.dtype)
        H, root = np.zeros((V.shape[1], V.shape[1])), np.sqrt(scale)[:, None].astype(V.dtype)
        for start in range(0, V.shape[0], ROWS):
            rows = slice(start, start + ROWS)
            part = (V[rows] - means) * root[rows]
            H += part.T @ part
        values, vectors = np.linalg.eigh(H)
        return np.maximum(values, 0.0), vectors
