"""MWUMKL by kernels on a cluster: what parts remember between rounds.

The share of a part after a round is made by a task from the share before it and the round, so that
a lost one is made again from the last time that products were made anew.
"""

import numpy as np

from ..solvers.supersteps import Move, Share, begin, moved
from .cluster import Parts


class PartShares:
    """The shares of the kernels of all parts.

    Parameters
    ----------
    parts : Parts
        Banks, each of some of the kernels.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def begin(self, *of):
        """As `Shares.begin`."""
        self.shares = self.parts.made("products", begin, *of)
        return self._answer()

    def move(self, move: Move):
        """As `Shares.move`."""
        self.shares = self.parts.made("move", _moved, move, each=self.shares.futures)
        return self._answer()

    def _answer(self):
        forms, sums, totals = zip(*self.shares.ask(said), strict=True)
        return np.concatenate(forms), sum(sums), sum(totals)


def _moved(bank, move, share):
    return moved(bank, share, move)


def said(share: Share) -> tuple:
    """The answer of a share."""
    return share.answer
