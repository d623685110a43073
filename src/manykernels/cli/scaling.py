"""Features in units of their standard deviation: learned from the training data, and kept in the
model's file.
"""

from dataclasses import asdict, dataclass

import numpy as np
from scipy import sparse


@dataclass
class Scaling:
    """Subtracts means and divides by standard deviations.

    Attributes
    ----------
    scale : list of float
        One per column; one where the column is constant.
    mean : list of float, or None
        Sparse rows are not centered: their zeros stay zeros.
    columns : list of str, or None
        The columns of a data frame that hold numbers; the others are left alone. None for arrays.
    """

    scale: list
    mean: list | None = None
    columns: list | None = None

    @classmethod
    def of(cls, X):
        """That of the rows of a data frame, an array or a sparse matrix."""
        columns = (
            [name for name in X.columns if X[name].dtype.kind in "fiu"]
            if hasattr(X, "columns")
            else None
        )
        values = X if columns is None else X[columns]
        with np.errstate(all="ignore"):  # whoever trains judges values that are not finite
            if sparse.issparse(values):
                mean, square = (
                    np.asarray(part.mean(axis=0)).ravel()
                    for part in (values, values.multiply(values))
                )
                deviation, mean = np.sqrt(np.maximum(square - mean**2, 0.0)), None
            else:
                values = np.asarray(values, dtype=float)
                mean, deviation = values.mean(axis=0).tolist(), values.std(axis=0)
        return cls(np.where(deviation > 0, deviation, 1.0).tolist(), mean, columns)

    def apply(self, X):
        """The rows in these units; the same kind of table."""
        scale = np.asarray(self.scale)
        if self.columns is not None:
            X = X.copy()
            for name, m, s in zip(self.columns, self.mean, self.scale, strict=True):
                X[name] = (X[name] - m) / s
            return X
        if self.mean is None:
            return X @ sparse.diags_array(1.0 / scale) if sparse.issparse(X) else X / scale
        return ((X.toarray() if sparse.issparse(X) else X) - np.asarray(self.mean)) / scale

    def as_dict(self):
        """Plain lists, for a model's file."""
        return asdict(self)
