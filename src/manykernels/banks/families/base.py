"""The base of families, and the family of a kernel by itself."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from ...kernels.vector import chosen_rows
from ..compute import Points
from ..kernel_set import Indices


class Tile(NamedTuple):
    """A rectangle of pairs: indices of its points, and how much of it counts.

    ``first`` is the offset of the diagonal: row i counts the columns ``j <= first + i``; it is the
    width of a tile that counts as a whole.
    """

    rows: np.ndarray
    cols: np.ndarray
    first: int


class Family(ABC):
    """Kernels that share their pairwise number; `members` are their places in the bank.

    Two methods are all that a family must have; the others have default forms in terms of `values`.
    """

    explicit = False  # True: `forms(a, b)` gives quadratic forms without visiting pairs
    tabulated = False  # True: `swept` sums over the members at the price of a few

    def __init__(self, members: Indices, dtype: Any) -> None:
        self.members = np.asarray(members, dtype=np.intp)
        self.dtype = dtype

    @abstractmethod
    def values(self, tile: Tile) -> np.ndarray:
        """Every member on the tile, (members, rows, cols)."""

    def prepared(self, weights: np.ndarray) -> Any:
        """The weights (members,) as `combine` takes them: computed once for many tiles."""
        return weights

    @abstractmethod
    def combine(self, prepared: Any, tile: Tile, out: np.ndarray) -> None:
        """``out += sum_l weights[l] K_l`` on the tile; what lies above the diagonal of a triangle
        may hold anything.
        """

    def write(self, tile: Tile, out: np.ndarray) -> None:
        """Every member on the tile into its place of ``out``, (rows, kernels of the bank, cols)."""
        out[:, self.members] = self.values(tile).transpose(1, 0, 2)

    def moments(self, *shape: int) -> np.ndarray:
        """An array of zeros for sums over tiles: `add_forms` for no shape, `add_products` for the
        shape (t, rows).
        """
        return np.zeros((self.members.size, *shape))

    def add_forms(self, B: np.ndarray, tile: Tile, moments: np.ndarray) -> None:
        """Add ``sum_ij B[i, j] K_l[i, j]``, in the family's own terms; B is zero outside the
        triangle.
        """
        moments += np.tensordot(self.values(tile), B, 2)

    def add_products(self, beta: np.ndarray, tile: Tile, moments: np.ndarray) -> None:
        """Add ``K_l beta``, in the family's own terms, with beta (t, cols)."""
        moments += (self.values(tile) @ beta.T).transpose(0, 2, 1)

    def gathered(self, moments: np.ndarray) -> np.ndarray:
        """The sums for each member, (members, ...)."""
        return moments


class OneKernel(Family):
    """Any kernel object by itself, through its `block`; ``factors`` multiply rows and columns
    (cosine normalization).
    """

    def __init__(
        self,
        member: int,
        kernel: Any,
        scale: float,
        points: Points,
        dtype: Any,
        factors: np.ndarray | None = None,
    ) -> None:
        super().__init__([member], dtype)
        self.kernel, self.scale, self.factors = kernel, scale, factors
        self.left, self.right = points

    def _block(self, tile: Tile) -> Any:
        points = chosen_rows(self.left, tile.rows), chosen_rows(self.right, tile.cols)
        block = self.kernel.block(*points)
        if self.scale != 1.0:
            block = block * self.scale
        if self.factors is not None:
            left, right = self.factors
            block = block * left[tile.rows, None] * right[tile.cols]
        return block

    def values(self, tile: Tile) -> np.ndarray:
        return self._block(tile)[None]

    def write(self, tile: Tile, out: np.ndarray) -> None:
        out[:, self.members[0]] = self._block(tile)

    def combine(self, prepared: Any, tile: Tile, out: np.ndarray) -> None:
        out += (prepared[0] * self._block(tile)).astype(self.dtype)
