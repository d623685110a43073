"""New rows that need no checks but that their numbers are finite: the quick way to read them."""

import numpy as np


def plain_rows(model, X):
    """New rows as numbers and the entries that codes in them stand for, by column; None where it
    takes more than this to read them, or to say what is wrong with them.

    Arrays are plain if training rows were one, too, and data frames if they have the columns of the
    training rows in their order, without dates.

    Parameters
    ----------
    model : fitted estimator or Predictor
    X : rows as users give them
    """
    names = getattr(model, "feature_names_in_", None)
    found, known = X, {}
    if type(X) is not np.ndarray:
        if names is None or getattr(model, "date_columns_", None):
            return None
        found, known = _of_frame(model, X, names)
    elif names is not None or getattr(model, "categories_", None):
        return None
    if found is None or found.ndim != 2 or found.dtype.kind not in "fiub":
        return None
    if found.shape[0] == 0 or found.shape[1] != model.n_features_in_:
        return None
    found = found.astype(np.float64, copy=False)
    finite = np.isfinite(found)
    if hasattr(model, "feature_medians_"):  # which stand for missing numbers
        finite |= np.isnan(found)
    return (found, known) if finite.all() else None


def _of_frame(model, X, names):
    """The numbers of a data frame, and the entries that codes stand for; None for any other
    table.
    """
    import narwhals as nw

    from .frames import DATES, encoded, through_narwhals

    frame, names = through_narwhals(X), list(names)
    if not isinstance(frame, nw.DataFrame) or list(frame.columns) != names:
        return None, {}
    if any(type_ in DATES for type_ in frame.schema.dtypes()):
        return None, {}
    rule = "impute" if hasattr(model, "feature_medians_") else "error"
    try:
        numbers, known = encoded(X, model.categories_, names, rule)
    except ValueError:  # whoever reads it with all checks says so
        return None, {}
    return numbers, {f: known[name] for f, name in enumerate(names) if name in known}
