"""Cells of a grid that cannot win any more.

All cells have decision values at the same held-out rows, so that two of them are compared row by
row: what they have in common, which rows are hard, cancels. A cell is left out of the folds that
are still to come once its mean is below that of the best by more than some standard errors of the
difference. A cell that is left out wrongly was close to the best one.
"""

import numpy as np

# Standard errors of the difference to the best cell; larger: more cells go through all folds.
MOST_ERRORS = 2.0
# Folds after which the first cells are left out; larger: later, and with more certainty.
FIRST_FOLDS = 2
# Relative gap of cells: what it leaves is far below the standard error of a score. Larger: rougher
# decision values of held-out rows.
CELL_GAP = 1e-2
# Steps of Newton's method of a cell at most: most need 3 to 8, and those that need many have a C so
# large that their values at held-out rows have long settled. Larger: such cells take longer.
CELL_STEPS = 12


def rounds(folds: int, is_race: bool) -> list[range]:
    """The folds in the order in which they are solved; between two rounds cells may be left out."""
    if not is_race or folds <= FIRST_FOLDS:
        return [range(folds)]
    return [range(FIRST_FOLDS), *(range(fold, fold + 1) for fold in range(FIRST_FOLDS, folds))]


def hopeless(merits: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Which cells are below the best one by more than chance.

    Parameters
    ----------
    merits : (cells, rows) array
        Of every cell at held-out rows: whether it is right, or minus the square of its error; NaN
        for a cell that was left out before.
    weight : (rows,) array
        How often each row counts.

    Returns
    -------
    (cells,) bool
    """
    means = merits @ weight / weight.sum()
    out = ~np.isfinite(means)
    if out.all():
        return out
    best = merits[int(np.nanargmax(means))]
    shares = weight / weight.sum()
    behind = best - merits
    gap = behind @ shares
    variance = np.square(behind - gap[:, None]) @ shares
    # rows that count more make the mean less certain
    errors = np.sqrt(variance * np.square(shares).sum())
    return out | (gap > MOST_ERRORS * errors)
