"""What models learned of the columns of their table, checked."""

import re

from .values import check_array, check_categories, check_list, check_mapping, check_whole, require

UNNAMED = re.compile("x(0|[1-9][0-9]{0,9})")  # columns of an array


def check_columns(learned):
    """Raise unless the columns of X are described."""
    check_mapping(learned, "What was learned", str)
    count = check_whole(learned["n_features_in_"], "The number of columns", 1)
    names = learned.get("feature_names_in_")
    if names is not None:
        check_array(names, "The names of the columns", (count,), "O")
        texts = all(isinstance(name, str) for name in names)
        require(texts and len(set(names)) == count, "The names of the columns are not names.")
    categories = check_categories(learned["categories_"], "Categories of the columns", str)
    require(len(by_column(learned)) == len(categories), "There are categories of no column.")
    dates = check_list(learned.get("date_columns_", []), "The columns of dates")
    known = () if names is None else names
    require(all(name in known for name in dates), "There are dates in no column.")


def by_column(learned):
    """The categories by the number of their column."""
    names, categories = learned.get("feature_names_in_"), learned["categories_"]
    if names is None:
        count = learned["n_features_in_"]
        found = {name: int(name[1:]) for name in categories if UNNAMED.fullmatch(name)}
        return {f: categories[name] for name, f in found.items() if f < count}
    return {f: categories[name] for f, name in enumerate(names) if name in categories}


def check_table(learned):
    """Raise unless what was learned of the columns fits them."""
    if "feature_medians_" in learned:
        columns = (learned["n_features_in_"],)
        check_array(learned["feature_medians_"], "The medians of the columns", columns)
    if "feature_means_" in learned or "feature_spreads_" in learned:
        columns = (learned["n_features_in_"],)
        check_array(learned["feature_means_"], "The means of the columns", columns)
        spreads = check_array(learned["feature_spreads_"], "The spreads of the columns", columns)
        require((spreads > 0.0).all(), "The spreads of the columns must be above zero.")
