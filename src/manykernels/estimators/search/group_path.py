"""The values of C at which models with p = 1 gain their groups, one after the other.

The number of groups is a matter of C: at a small one a single group is enough, and others enter as
C grows, or leave again. A climb goes up from the C at which the second group enters; where several
groups entered in one step, it halves the step (of log C) until they are told apart. Groups
that enter together, as copies of each other do, cannot be: they end as a `Jump`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

STEP = 10.0**0.25  # from one C to the next
LONG_STEP = 10.0**0.5  # after a step in which no group entered or left
DECADES = 5.0  # from the first C upward, at most
FAR, LOWER = 10.0, 2  # to smaller C if the first has several groups, and how often
NEAR = 1.02  # ratio of two C between which the second group enters
NEAREST = 1.003  # ratio of two C between which groups enter together; gaps tell no less
EXTRA = 6  # models for each group, to tell groups apart
FLAT = 1e-4  # relative growth of the objective in a step, below which no loss is left


class Jump(NamedTuple):
    """Groups that no C between two tells apart.

    Attributes
    ----------
    below, above : float
        C without and with them.
    groups : tuple of str
    """

    below: float
    above: float
    groups: tuple[str, ...]

    def __str__(self):
        named = ", ".join(self.groups[:4]) + (", …" if len(self.groups) > 4 else "")
        return f"{named} enter together between C = {self.below:.4g} and {self.above:.4g}"


class Step(NamedTuple):
    """A model on the way.

    Attributes
    ----------
    C : float
    used : frozenset of str
        Groups with weight.
    model : fitted estimator
    """

    C: float
    used: frozenset
    model: Any

    @property
    def count(self):
        return len(self.used)


class BrokenOff(Exception):
    """A model was ended from outside, and with it the climb."""


class GroupPathSearch:
    """Steps from one group to `max_groups`.

    Parameters
    ----------
    train : callable
        Makes a fitted model from C and the model of a smaller C, or None.
    used : callable
        The groups with weight of a model, as a frozenset.
    max_groups : int
    available : int
        Groups that there are.

    Attributes
    ----------
    steps : list of Step
        All that were made and have no more than `max_groups`, by C.
    jumps : list of Jump
    """

    def __init__(
        self,
        train: Callable[[float, Any], Any],
        used: Callable[[Any], frozenset],
        max_groups: int,
        available: int,
    ) -> None:
        self.train, self.used, self.max_groups = train, used, max_groups
        self.available, self.extra = available, EXTRA * max_groups
        self.steps: list[Step] = []
        self.jumps: list[Jump] = []

    def run(self, first: float) -> None:
        """GroupPathSearch from a C at which as few groups as possible have weight."""
        try:
            self._climb(first)
        except BrokenOff:
            self.steps.sort(key=lambda step: step.C)

    def _climb(self, first):
        low, highest = self._start(first), first * 10.0**DECADES
        size = STEP
        while low.count <= self.max_groups and not self._is_last(low, highest):
            high = self._step(low.C * size, low)
            size = LONG_STEP if high.used == low.used else STEP
            low = self._fill(low, high)
            if low is high and _is_flat(*self.steps[-2:]):
                break
        while self.steps and self.steps[-1].count > self.max_groups:
            self.steps.pop()

    def _start(self, first):
        """The last step with as few groups as the first, and the one after it, in which others
        entered; the latter, or the former if nothing enters.
        """
        low = high = self._lowest(first)
        highest = first * 10.0**DECADES
        while high.count <= low.count and not self._is_last(high, highest):
            low, high = high, self._step(high.C * STEP, high)
            if high.count <= low.count and _is_flat(low, high):
                break
        if high.count <= low.count:  # nothing enters
            low = high
        while high.C > NEAR * low.C:
            middle = self._step(np.sqrt(low.C * high.C), low)
            low, high = (low, middle) if middle.count > low.count else (middle, high)
        self.steps = [low]
        return low if high is low else self._fill(low, high)

    def _lowest(self, first):
        """The step with the fewest groups at the first C, or at smaller ones if it has several."""
        step = fewest = self._step(first, None)
        for _ in range(LOWER):
            if fewest.count == 1:
                break
            step = self._step(step.C / FAR, None)  # the groups of a larger C may do, but so may one
            fewest = min(fewest, step, key=lambda step: step.count)
        return fewest

    def _is_last(self, step, highest):
        return step.C >= highest or step.count == self.available

    def _fill(self, low, high):
        """Steps from `low` (which is there) to `high`, with steps between where groups entered
        together; the last of them, beyond which there may be too many groups.
        """
        entered = min(high.count, self.max_groups + 1) - low.count
        if entered > 1 and high.C > NEAREST * low.C and self.extra > 0:
            self.extra -= 1
            middle = self._fill(low, self._step(np.sqrt(low.C * high.C), low))
            return middle if middle.count > self.max_groups else self._fill(middle, high)
        if entered > 1:
            self.jumps.append(Jump(low.C, high.C, tuple(sorted(high.used - low.used))))
        self.steps.append(high)
        return high

    def _step(self, C, start):
        model = self.train(float(C), None if start is None else start.model)
        step = Step(float(C), self.used(model), model)
        if model.result_.status.broken_off:
            self.steps.append(step)
            raise BrokenOff
        return step


def _is_flat(low, high):
    """Whether no loss is left, so that a larger C changes nothing."""
    values = [step.model.result_.objective for step in (low, high)]
    return values[1] - values[0] <= FLAT * abs(values[1])
