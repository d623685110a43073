"""What a sweep over the kernels adds up, and the curvature of the dual that is made of it."""

from typing import Any, NamedTuple

import numpy as np

from ..machines import DenseMachine

ROWS = 256


class Sums(NamedTuple):
    """What `SumBank.sweep` adds up over the kernels, with the products ``M_kc = K_k beta_c``.

    Attributes
    ----------
    K : (n, n) combined kernel
    squares : (t, t, n, n)
        ``squares[c, e] = sum_k diagonal[k] outer(M_kc, M_ke)``.
    mixed : (t, n)
        ``sum_k vector[k] M_kc``.
    """

    K: np.ndarray
    squares: np.ndarray
    mixed: np.ndarray

    def times(self, beta: np.ndarray) -> np.ndarray:
        """``K beta_c`` of every output, (t, n)."""
        return np.stack([DenseMachine().multiply(self.K, b) for b in beta])

    def curved(self, c: int, factor: float, dtype: Any) -> Any:
        """``K + 2 squares[c, c] + 2 factor outer(mixed[c], mixed[c])`` as machines take it, in as
        few passes as it takes.
        """
        out, v = self.squares[c, c].astype(dtype), self.mixed[c]
        out *= dtype(2.0)
        out += self.K
        for start in range(0, v.size, ROWS):
            part = slice(start, start + ROWS)
            out[part] += np.outer(2.0 * factor * v[part], v).astype(dtype)
        return out

    def between(self, c: int, e: int, factor: float, change: np.ndarray) -> np.ndarray:
        """``(squares[c, e] + factor outer(mixed[c], mixed[e])) change``, (n,)."""
        return self.squares[c, e] @ change + factor * (self.mixed[e] @ change) * self.mixed[c]

    def host(self) -> "Sums":
        """The same in the memory of the host."""
        return self


def curved(K: np.ndarray, M: np.ndarray, J: Any) -> np.ndarray:
    """``K + 2 M' J M`` in the precision of K, for products M (k, n)."""
    rows = (M * np.sqrt(2.0 * J.diagonal)[:, None]).astype(K.dtype)
    out = rows.T @ rows
    out += K
    v = (J.vector @ M).astype(K.dtype)
    out += K.dtype.type(2.0 * J.factor) * np.outer(v, v)
    return out
