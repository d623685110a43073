"""Tables that keep the names of their rows and columns beside the numbers: AnnData, and whatever
else has ``X``, ``var_names`` and ``obs_names``.

Nothing here imports anndata; who has such an object has it already.
"""

from functools import cached_property

import numpy as np
from scipy import sparse


class Annotated:
    """Numbers with named columns: a data frame that may be sparse.

    Parameters
    ----------
    matrix : (n, n_features) array or sparse matrix
    names : (n_features,) array of str
    """

    def __init__(self, matrix, names):
        self.matrix, self.names = matrix, names

    @property
    def shape(self):
        return self.matrix.shape

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, rows):
        return Annotated(self.matrix[rows], self.names)

    @cached_property
    def header(self):
        """A data frame of these columns without rows, of which scikit-learn learns their names."""
        import pandas as pd  # which whoever made the names has

        return pd.DataFrame(np.empty((0, len(self.names))), columns=pd.Index(self.names))


def is_annotated(X):
    """Whether X is an AnnData or looks like one; raise for a MuData, which is several."""
    if not (hasattr(X, "obs_names") and hasattr(X, "var_names")):
        return False
    if hasattr(X, "mod"):
        raise TypeError(
            "A MuData is several tables: make one of them with manykernels.omics.views(mdata), and "
            "give that."
        )
    return True


def as_annotated(X):
    """The matrix ``X`` of an AnnData, in memory, with its ``var_names``."""
    if X.X is None:
        raise ValueError(
            "This AnnData has no X; put the numbers there, or choose layers or obsm with "
            "manykernels.omics.views."
        )
    return Annotated(in_memory(X.X), unique_names(X.var_names, "var_names"))


def in_memory(matrix):
    """A matrix that may lie in a file as an array or a CSR array."""
    if hasattr(matrix, "to_memory"):  # anndata's sparse matrices in files
        matrix = matrix.to_memory()
    elif type(matrix).__module__.split(".")[0] in ("h5py", "zarr"):
        matrix = matrix[...]
    return sparse.csr_array(matrix) if sparse.issparse(matrix) else np.asarray(matrix)


def unique_names(names, what):
    """Names as an array of str; raise if one comes twice, which would make it ambiguous."""
    names = np.array([str(name) for name in names], dtype=object)
    distinct, counts = np.unique(names.astype(str), return_counts=True)
    twice = distinct[counts > 1].tolist()
    if twice:
        listed = ", ".join(map(repr, twice[:5])) + (" …" if len(twice) > 5 else "")
        raise ValueError(
            f"{what} must be unique, but {len(twice)} come more than once: {listed}; rename them, "
            f"with {what}_make_unique() for one."
        )
    return names
