"""The minimum of a convex piecewise linear function: the intercept of losses with corners."""

import numpy as np

from .rbf import fast

FAR = 1e300  # beyond all numbers; compilers that reorder sums know no infinity


@fast
def flat_point(kinks, jumps, slope):
    """The minimizer of a convex piecewise linear function: its slope begins at ``slope`` and jumps
    up at the kinks. Found like a median, by halves, without sorting.
    """
    values, sizes, count, flat = np.empty(kinks.size), np.empty(kinks.size), 0, 0.0
    for i in range(kinks.size):
        if jumps[i] > 0.0:
            values[count], sizes[count] = kinks[i], jumps[i]
            flat += 1e-12 * jumps[i]
            count += 1
    begin, end, after = 0, count, FAR  # the kink is among these, and the next one at `after`
    while end - begin > 0:
        pivot, at = values[begin + (end - begin) // 2], 0.0
        # smaller kinks to the front, equal ones behind them
        small = begin
        for i in range(begin, end):
            if values[i] < pivot:
                at += sizes[i]
                values[i], values[small] = values[small], values[i]
                sizes[i], sizes[small] = sizes[small], sizes[i]
                small += 1
        if slope + at >= -flat and small > begin:
            end, after = small, pivot
            continue
        equal = small
        for i in range(small, end):
            if values[i] == pivot:
                at += sizes[i]
                values[i], values[equal] = values[equal], values[i]
                sizes[i], sizes[equal] = sizes[equal], sizes[i]
                equal += 1
        # the last condition: values that are no numbers
        if slope + at >= -flat or equal in (end, small):
            if abs(slope + at) > flat:
                return pivot
            for i in range(equal, end):
                after = min(after, values[i])
            return 0.5 * (pivot + after) if after < FAR else pivot
        begin, slope = equal, slope + at
    return 0.0
