"""The history of a fit as lines to draw."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .facts import output_names

MOST_POINTS = 500  # of a line: a screen shows no more


class Run(NamedTuple):
    """One run of a solver.

    Attributes
    ----------
    name : str
        Of the output, where every output has its own weights; else empty.
    iterations, seconds, svm_solves, kernels_used, gaps, objectives : (steps,) arrays
        Gaps are infinite for formulations without one.
    """

    name: str
    iterations: np.ndarray
    seconds: np.ndarray
    svm_solves: np.ndarray
    kernels_used: np.ndarray
    gaps: np.ndarray
    objectives: np.ndarray

    @property
    def best_gaps(self):
        """The smallest gap so far, (steps,): what the fit would have returned."""
        return np.fmin.accumulate(self.gaps)


def runs(estimator):
    """The runs of a fit, one per output with its own weights; empty where no history was kept."""
    history = getattr(getattr(estimator, "result_", None), "history", None) or []
    begins = [
        place
        for place, record in enumerate(history)
        if place == 0 or record.iteration <= history[place - 1].iteration
    ]
    parts = [history[begin:end] for begin, end in pairwise([*begins, len(history)])]
    names = (
        output_names(estimator)
        if len(parts) == len(estimator.intercept_) > 1
        else range(1, len(parts) + 1)
    )
    return [
        _run(str(name) if len(parts) > 1 else "", part)
        for name, part in zip(names, parts, strict=True)
    ]


def has_gap(lines):
    """Whether any of the runs has a gap to draw."""
    return any(np.isfinite(run.gaps).any() for run in lines)


def from_zero(lines, against):
    """Whether an axis may begin at zero: not if all of the way is at its end, as after loops were
    compiled for long.
    """
    begin, end = (
        min(getattr(run, against)[0] for run in lines),
        max(getattr(run, against)[-1] for run in lines),
    )
    return bool(begin < 0.6 * end)


def _run(name, records):
    places = np.unique(np.linspace(0, len(records) - 1, min(len(records), MOST_POINTS)).astype(int))
    fields = ("iteration", "seconds", "svm_solves", "kernels_used", "gap", "objective")
    return Run(
        name,
        *(
            np.array([getattr(records[place], field) for place in places], dtype=float)
            for field in fields
        ),
    )
