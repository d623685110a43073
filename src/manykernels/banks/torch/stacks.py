"""Kernels of a fold on a device, for many problems at once: all of them as one tensor of matrices,
or as their factors side by side.
"""

from typing import Any

import numpy as np

SMALLEST = 1e-13  # curvature of a direction that no kernel with weight has, as a part of the mean


class MatrixStack:
    """All Gram matrices of a fold.

    Parameters
    ----------
    matrices : (m, n, n) float64 tensor
        Between training points.
    held_out : (m, n_test, n) float64 tensor
        Between the rows that were held out and the training points.
    """

    is_exact = True

    def __init__(self, matrices: Any, held_out: Any) -> None:
        self.matrices, self.held_out = matrices, held_out
        self.m, self.n = matrices.shape[:2]

    def products(self, beta: Any) -> Any:
        """``K_k beta_b``, (B, m, n)."""
        return _multiplied(self.matrices, beta)

    def combined(self, weights: Any) -> Any:
        """The combined kernels of all weights, (B, n, n)."""
        return (weights @ self.matrices.view(self.m, -1)).view(-1, self.n, self.n)

    def values(self, weights: Any, beta: Any) -> Any:
        """Decision values at the rows that were held out, (B, n_test)."""
        return (weights[:, None] @ _multiplied(self.held_out, beta))[:, 0]


def _multiplied(matrices: Any, beta: Any) -> Any:
    m, rows, n = matrices.shape
    return (matrices.reshape(-1, n) @ beta.T).view(m, rows, -1).permute(2, 0, 1)


class FactorStack:
    """The low-rank factors of a fold, ``V_k = Q P_k'`` in a small space where they have one.

    Parameters
    ----------
    device : Device
    basis : (n, q) float64 tensor
        Q, of the training points.
    directions : (r, q) float64 tensor
        P.
    held_out : (n_test, r) float64 tensor
        Factors of the rows that were held out.
    offsets : (m + 1,) int
        Where the columns of each kernel begin.
    """

    is_exact = False

    def __init__(
        self, device: Any, basis: Any, directions: Any, held_out: Any, offsets: Any
    ) -> None:
        self.torch, self.basis, self.directions = device.torch, basis, directions
        self.held_out, self.n, widths = held_out, len(basis), np.diff(offsets)
        self.m = widths.size
        kernel_of = np.repeat(np.arange(self.m), widths)
        self.kernel_of = device.indices(kernel_of)
        self.member = device.put((kernel_of[:, None] == np.arange(self.m)).astype(float))  # (r, m)

    def _moments(self, beta: Any) -> Any:
        return (beta @ self.basis) @ self.directions.T

    def _spread(self, moments: Any) -> Any:
        """The moments of every kernel in the small space, (B, q, m)."""
        return (self.directions.T[None] * moments[:, None]) @ self.member

    def products(self, beta: Any) -> Any:
        """``K_k beta_b``, (B, m, n)."""
        return self._spread(self._moments(beta)).transpose(1, 2) @ self.basis.T

    def values(self, weights: Any, beta: Any) -> Any:
        """Decision values at the rows that were held out, (B, n_test)."""
        return (weights[:, self.kernel_of] * self._moments(beta)) @ self.held_out.T

    def system(self, weights: Any, beta: Any, bend: Any, diagonal: Any) -> Any:
        """What solves ``diag + Q S Q'`` of every problem, by the formula of Sherman, Morrison and
        Woodbury.
        """
        torch, Q, P = self.torch, self.basis, self.directions
        spread = self._spread(self._moments(beta))
        pulled = (spread @ bend.vector[:, :, None])[:, :, 0]
        S = P.T @ (weights[:, self.kernel_of, None] * P)
        S += (spread * bend.diagonal[:, None]) @ spread.transpose(1, 2)
        S += (bend.factor[:, None] * pulled)[:, :, None] * pulled[:, None]
        own = S.diagonal(dim1=1, dim2=2)
        own += SMALLEST * own.mean(1, keepdim=True)
        root = torch.linalg.cholesky_ex(S)[0]
        gram = torch.stack([(Q / one[:, None]).T @ Q for one in diagonal])
        inner = root.transpose(1, 2) @ gram @ root
        inner.diagonal(dim1=1, dim2=2).add_(1.0)
        inner = torch.linalg.cholesky_ex(inner)[0]

        def solve(right: Any) -> Any:
            scaled = right / diagonal[:, :, None]
            short = root.transpose(1, 2) @ (Q.T @ scaled)
            short = root @ torch.cholesky_solve(short, inner)
            return scaled - (Q @ short) / diagonal[:, :, None]

        return solve
