"""How many points, and which: chosen from the model's own, or moved to where they serve best."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._pulse import pulse
from .fitting import coefficients, greedy, moved, values
from .judgment import is_reached
from .kernels import PointKernels
from .rows import MOST_ROWS, Sample, Source

CANDIDATES = 2000  # points to choose from, at most. More make the choice slower.
FEW_CANDIDATES = 300  # the same for each round of points that are then moved
FIRST = 8  # points of the first round
GROWTH = 1.3  # from round to round. Less makes more rounds, and fewer points too many.
ITERATIONS = 60  # of moving the points, in each round
# Values of kernels between the rows of a sample and all candidates. More take more memory.
VALUES = 2**25


class NotReached(ValueError):
    """No model of fewer points agrees often enough."""

    @classmethod
    def at(cls, points: int, share: float, wanted: float) -> "NotReached":
        """For so many points, which agree with the model at this share of the rows."""
        return cls(
            f"Nothing can be gained: {points} points agree with the model at {share:.2%} of the "
            f"rows that were held out for the choice, less than {wanted:.2%}. Ask for less "
            "agreement, give more rows, or leave the model as it is."
        )


@dataclass
class Search:
    """Points in whose kernels a function follows the scores of a model.

    Attributes
    ----------
    kernels : PointKernels
    source : Source
        Of rows to fit at.
    choice : Sample or None
        Rows on which a number of points is judged, where an agreement is wanted.
    agrees : callable
        Rows at which two sets of scores mean the same, of which the second are the model's.
    candidates : table
        Points to choose from.
    most : int
        The largest number of points.
    agreement : float
        Share of these rows; without any, there are as many points as there may be.
    """

    kernels: PointKernels
    source: Source
    choice: Sample | None
    agrees: Callable[[np.ndarray, np.ndarray], np.ndarray]
    candidates: Any
    most: int
    agreement: float

    def chosen(self) -> Any:
        """Some of the candidates: as few as agree often enough."""
        pool = self._pool(CANDIDATES)
        sample = self._sample(pool.shape[0])
        K = self.kernels.between(sample.rows, pool, sample.categories)
        order = greedy(K, sample.scores, min(self.most, pool.shape[0]))
        if self.choice is None:
            return pool[order]
        tried, share = sizes(len(order)), 0.0
        low, high = -1, len(tried)  # the places of one that fails, and of one that does not
        while high - low > 1:
            pulse()
            # a size that may do costs little to try, and all sizes much
            place = (low + high) // 2
            some = order[: tried[place]]
            fit = coefficients(K[:, :, some], sample.scores)
            agrees = self._agreeing(pool[some], fit)
            share = max(share, float(agrees.mean()))
            low, high = (low, place) if is_reached(agrees, self.agreement) else (place, high)
        if high == len(tried):
            raise NotReached.at(len(order), share, self.agreement)
        return pool[order[: tried[high]]]

    def moved(self) -> np.ndarray:
        """Points anywhere: rounds of more of them, each moved together with those before, at other
        rows.
        """
        points, share = None, 0.0
        while points is None or len(points) < self.most:
            sample = self._sample(FEW_CANDIDATES)
            points = moved(self.kernels, sample, self._grown(points, sample), ITERATIONS)
            if self.choice is not None:
                K = self.kernels.between(sample.rows, points, sample.categories)
                agrees = self._agreeing(points, coefficients(K, sample.scores))
                share = float(agrees.mean())
                if is_reached(agrees, self.agreement):
                    return points
        if self.choice is not None:
            raise NotReached.at(len(points), share, self.agreement)
        return points

    def _grown(self, points, sample):
        """More points, where those there are leave most to say."""
        pool = np.asarray(self._pool(FEW_CANDIDATES))
        before = 0 if points is None else len(points)
        wanted = min(self.most, max(FIRST, int(np.ceil(GROWTH * before))))
        everything = pool if points is None else np.concatenate([points, pool])
        K = self.kernels.between(sample.rows, everything, sample.categories)
        added = greedy(K, sample.scores, wanted - before, before)
        if len(added) < wanted - before:  # the candidates say no more than the points do
            self.most = before + len(added)
        return everything[[*range(before), *added]]

    def _agreeing(self, points, fit):
        """The rows of the choice at which a fit agrees with the model, (n,) bools."""
        K = self.kernels.between(self.choice.rows, points, self.choice.categories)
        return self.agrees(values(K, *fit), self.choice.scores)

    def _sample(self, points):
        """Rows to fit so many points at."""
        most = VALUES // max(1, points * len(self.kernels.weights))
        return self.source.draw(max(200, min(MOST_ROWS, most)))

    def _pool(self, most):
        count = self.candidates.shape[0]
        if count <= most:
            return self.candidates
        return self.candidates[np.sort(self.source.random.permutation(count)[:most])]


def sizes(most: int) -> list[int]:
    """Numbers of points that are tried, ascending."""
    found = [1]
    while found[-1] < most:
        found.append(min(most, max(found[-1] + 1, int(1.1 * found[-1]))))
    return found
