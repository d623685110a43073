"""MWUMKL by kernels on a cluster: what parts remember between rounds.

The share of a part after a round is made by a task from the share before it and the round, so that
a lost one is made again from the last time that products were made anew.
"""

import numpy as np

from ..solvers.supersteps import Move, Share, begin, moved
from .parts import Parts


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
        return self._answer(lambda: self.parts.made("products", begin, *of))

    def move(self, move: Move):
        """As `Shares.move`."""
        before = self.shares
        return self._answer(lambda: self.parts.made("move", _moved, move, each=before.futures))

    def _answer(self, make):
        """What the shares say that are made in the same round."""

        def ask():
            self.shares = make()
            return self.shares.asked(said), self.shares.futures

        forms, sums, totals = zip(*self.parts.cluster.round(ask), strict=True)
        return np.concatenate(forms), sum(sums), sum(totals)


def _moved(bank, move, share):
    return moved(bank, share, move)


def said(share: Share) -> tuple:
    """The answer of a share."""
    return share.answer
