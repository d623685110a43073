"""The checkpoint of a grid: decision values of held-out rows for every C and p on every fold that
is through.

Scores are made from them anew, so that the next fit may choose by another score.
"""

import contextlib

import numpy as np
from sklearn.base import is_classifier

from ..checkpoints import Keeper, Termination
from ..data.fingerprints import fingerprint, mark
from .tuning import GridCell, GridIndex


class GridJournal(Keeper):
    """Keeps the cells of a grid.

    Parameters
    ----------
    checkpoint : Checkpoint, or the path
    tasks : list of Task
        The grid, for all kernels.
    X, y : checked arrays
        What is to be tuned on.

    Attributes
    ----------
    cells : dict from Place to Cell
        That were found in the file.
    """

    kind = "grid"

    def __init__(self, checkpoint, tasks, X, y):
        self.classes = np.unique(y) if is_classifier(tasks[0].template) else None
        super().__init__(checkpoint, _marks(tasks, X, y))
        self.cells: dict[GridIndex, GridCell] = {}
        self._shapes = [len(test) for _, test in tasks[0].splits]
        self._targets = 1 if y.ndim == 1 else y.shape[1]
        self._by_pairs = getattr(tasks[0].template, "multiclass", "ovr") == "ovo"
        self._known = {place for task in tasks for place in task.places()}

    def keep(self, cells):
        """Take note of cells, and write them if it is time."""
        self.cells = {place: cell for place, cell in cells.items() if cell.finished}
        if self.is_time:
            self.write()

    def _content(self):
        arrays, numbers = {}, {}
        for place, cell in self.cells.items():
            name = " ".join(map(str, place))
            arrays[f"{name} scores"] = cell.scores
            if cell.classes is not None:
                arrays[f"{name} classes"] = np.searchsorted(self.classes, cell.classes)
            numbers[name] = [cell.kernels, cell.groups]
        return arrays, {"marks": self.marks, "cells": numbers}

    def _adopt(self, arrays, content):
        marks = dict(content["marks"])
        if marks != self.marks:  # whoever checks them says so
            return marks
        for name, used in content["cells"].items():
            place, classes = GridIndex(*map(int, name.split())), arrays.get(f"{name} classes")
            scores = arrays[f"{name} scores"]
            if place not in self._known or not _is_pair(used):
                raise ValueError(f"cell {name!r} is not as it should be")
            if (classes is None) != (self.classes is None) or not self._are_sound(classes):
                raise ValueError(f"cell {name!r} has other classes")
            shape = self._outputs(classes), self._shapes[place.fold]
            if scores.shape != shape or scores.dtype.kind != "f" or not _in_range(scores):
                raise ValueError(f"cell {name!r} has other decision values")
            if classes is not None:
                classes = self.classes[classes]
            self.cells[place] = GridCell(scores, *used, True, classes)
        return marks

    def _are_sound(self, classes):
        """Whether these are numbers of at least two classes, ascending."""
        if classes is None:
            return True
        if classes.ndim != 1 or classes.dtype.kind not in "iu" or classes.size < 2:
            return False
        ascending = (np.diff(classes.astype(np.int64)) > 0).all()
        return bool(ascending and 0 <= classes[0] and classes[-1] < self.classes.size)

    def _outputs(self, classes):
        """How many outputs a model of some classes has, or of the targets."""
        if classes is None:
            return self._targets
        if self._by_pairs:
            return classes.size * (classes.size - 1) // 2
        return 1 if classes.size == 2 else classes.size


def _in_range(scores):
    """Whether decision values are such as kernels in float32 can give."""
    return bool((np.abs(scores) < np.finfo(np.float32).max).all())


def _is_pair(used):
    """Whether this is a number of kernels and one of groups."""
    return (
        isinstance(used, list)
        and len(used) == 2
        and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in used)
    )


def _marks(tasks, X, y):
    """What defines the cells of a grid: the data, the folds, and every parameter."""
    task = tasks[0]
    folds = [np.asarray(part) for split in task.splits for part in split]
    marks = fingerprint(task.template, X, y, task.sample_weight)
    marks["cv"] = mark(folds)
    # costs that are made from the data have digits that depend on the precision
    costs = [float(f"{cost:.6g}") for task in tasks for cost in task.costs]
    marks["C and p"] = mark([costs, task.norms])
    # cells are not certified again, as the result of a plain fit is
    marks |= {name: mark(getattr(task.template, name)) for name in ("tol", "max_iter", "solver")}
    # differ from cell to cell
    return {name: text for name, text in marks.items() if name not in ("C", "p")}


@contextlib.contextmanager
def kept(journal, cells):
    """A context in which cells are computed: they are in the file when it is left, however.

    Parameters
    ----------
    journal : GridJournal or None
    cells : dict from Place to Cell
        Gets those of the file; new ones are added to it.
    """
    if journal is None:
        yield
        return
    with Termination() as termination:
        journal.open()
        cells.update(journal.cells)
        try:
            yield
        finally:
            journal.keep(cells)
            journal.write()
    termination.farewell(journal.path)
