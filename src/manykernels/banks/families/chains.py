"""Sorting Gaussian widths into chains of ratio two (see `manykernels._loops.rbf`)."""

import numpy as np

from ..._loops.rbf import GROUP

NEGLIGIBLE = 1e-18  # relative weight: even a million of these are below the rounding of the sum
LONGEST_JUMP = 4  # places of a chain that may stay unused between two members


class Chains:
    """Gaussians ``exp(-gammas[l] D)`` as members of chains: member l is at ``(row[l], place[l])``.

    Attributes
    ----------
    base : (chains,) array
        The smallest gamma of each chain; the member at place j has ``base * 2^j``.
    group : (chains,) array
        Which distance the chain belongs to: members of different groups never share a chain.
    """

    def __init__(self, gammas, groups=None):
        gammas = np.asarray(gammas, dtype=float)
        groups = np.zeros(gammas.size, dtype=np.intp) if groups is None else np.asarray(groups)
        logs = np.log2(gammas)
        octave = np.floor(logs + 1e-10)
        residue = np.round(logs - octave, 9)
        order = np.lexsort((octave, residue, groups))
        starts = np.ones(order.size, dtype=bool)
        starts[1:] = (
            (np.diff(groups[order]) != 0)
            | (np.diff(residue[order]) != 0)
            | (np.diff(octave[order]) > LONGEST_JUMP)
        )
        row = np.cumsum(starts) - 1
        self.base, self.group = gammas[order][starts], groups[order][starts]
        self.row, self.place = np.empty((2, order.size), dtype=np.intp)
        self.row[order] = row
        self.place[order] = octave[order] - octave[order][starts][row]
        length = -(-(self.place.max() + 1) // GROUP) * GROUP
        self.shape = (self.base.size, int(length))

    def tabulate(self, weights, dtype):
        """Weights of the members as a (chains, length) table; zero where they are too small."""
        table = np.zeros(self.shape)
        np.add.at(table, (self.row, self.place), weights)
        # a weight of 1e-40, common when p is near 1, is a denormal float32 and makes the loops
        # twelve times slower
        table[np.abs(table) < NEGLIGIBLE * np.abs(table).max(initial=0.0)] = 0.0
        return table.astype(dtype)

    def gather(self, table):
        """The entries of a (chains, length, ...) table that belong to the members."""
        return table[self.row, self.place]
