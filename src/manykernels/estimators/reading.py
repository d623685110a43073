"""From what users call X to arrays of numbers."""

import numpy as np
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import validate_data

from .categories import as_table, encoded, learned_categories, on_host
from .checks import refuse_odd_arrays
from .views import advice


class ReadsTables:
    """Checks X and y, and turns strings and categories into codes that are the same in training and
    prediction.
    """

    def _read(self, X, y="no_validation", **options):
        """X, and y if there is one, as checked arrays; strings and categories in X become codes."""
        X, y = as_table(X), on_host(y)
        refuse_odd_arrays("X", X)
        refuse_odd_arrays("y", y)
        categories = learned_categories(X)
        out = self._validated(X, y, categories, **options)[0]
        self.categories_ = categories
        return out

    def _read_new(self, X):
        """New points as a checked array, and the entries that codes in it stand for, by column."""
        X = as_table(X)
        refuse_odd_arrays("X", X)
        return self._validated(X, "no_validation", getattr(self, "categories_", {}), reset=False)

    def _validated(self, X, y, categories, reset=True, **options):
        """What scikit-learn makes of X and y, and the entries that codes stand for; errors say
        which group is in trouble.
        """
        options |= {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        try:
            if not categories:
                return validate_data(self, X, y, reset=reset, **options), {}
            validate_data(self, X, y, reset=reset, skip_check_array=True)
            X, known = encoded(X, categories, self._column_names())
            if isinstance(y, str) and y == "no_validation":
                return check_array(X, estimator=self, input_name="X", **options), self._by_column(
                    known
                )
            return check_X_y(X, y, estimator=self, **options), self._by_column(known)
        except ValueError as error:
            names = getattr(self, "feature_names_in_", None)
            raise ValueError(f"{error}{advice(self.kernels, X, names)}") from error

    def _by_column(self, categories):
        """Categories by the number of their column in place of its name."""
        return {
            f: categories[name] for f, name in enumerate(self._column_names()) if name in categories
        }

    def _column_names(self):
        return list(
            getattr(self, "feature_names_in_", [f"x{f}" for f in range(self.n_features_in_)])
        )
