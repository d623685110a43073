"""Mean ranks of several methods over several data sets, and which of them differ."""

from typing import NamedTuple

import numpy as np
from scipy.stats import friedmanchisquare, rankdata, studentized_range


class Ranks(NamedTuple):
    """Mean ranks (1 is best), Friedman's p-value, and Nemenyi's critical difference at 5 %."""

    names: list
    means: np.ndarray
    p_value: float
    critical: float
    count: int

    def cliques(self):
        """Runs of methods, from best to worst, whose ranks differ by less than the critical
        difference; those inside another are left out.
        """
        order = np.argsort(self.means, kind="stable")
        found = []
        for first in range(len(order)):
            near = self.means[order] <= self.means[order[first]] + self.critical
            last = int(np.flatnonzero(near)[-1])
            if last > first and not any(a <= first and last <= b for a, b in found):
                found.append((first, last))
        return [[self.names[k] for k in order[a : b + 1]] for a, b in found]


def ranks(names, scores):
    """Of scores (sets × methods), higher is better; Demšar, JMLR 2006.

    Two methods differ at 5 % if their mean ranks differ by ``q sqrt(k (k + 1) / 6N)``, with q the
    quantile of the studentized range over the root of two.
    """
    scores = np.asarray(scores, dtype=float)
    count, k = scores.shape
    table = np.array([rankdata(-np.round(line, 9)) for line in scores])
    quantile = studentized_range.ppf(0.95, k, np.inf) / np.sqrt(2.0)
    p_value = float(friedmanchisquare(*table.T).pvalue) if count > 1 and k > 2 else float("nan")
    critical = float(quantile * np.sqrt(k * (k + 1) / (6.0 * count)))
    return Ranks(list(names), table.mean(axis=0), p_value, critical, count)
