"""A bank of Gaussian kernels on arbitrary feature subsets, a million of them as easily as ten."""

import numpy as np

from .._loops.exponentials import add_kernels, dot_kernels, take_powers
from .._loops.rbf import LOG2_E
from ..kernels.points import as_points
from ..kernels.vector import dense
from .base import Bank, as_outputs, mirror, support_of

LARGEST = 1e30
KERNELS, PAIRS = 256, 2048  # of a chunk: its exponents (2 MB in float32) stay in the second-level cache


class MaskedBank(Bank):
    """Gaussians ``exp(-gamma_k sum_f mask_kf (x_f - y_f)^2)``, from two arrays.

    The exponents of a chunk of kernels on a block of pairs are one matrix product, ``(gammas * masks) @ F``, where F holds
    the squared feature differences of the pairs.

    Parameters
    ----------
    collection : MaskedKernelBank
    left, right : float arrays of points; the same object for the training bank
    normalise : str or None
        Its diagonals are one, so only ``"trace"`` changes anything.
    """

    def __init__(self, collection, left, right, normalise, dtype, threads, scale):
        self.collection, self.left, self.right = collection, left, right
        self.m, self.n_rows, self.n = len(collection), left.shape[0], right.shape[0]
        self.normalise, self.scale = normalise, scale
        self.dtype, self.threads = np.dtype(dtype), threads

    @property
    def symmetric(self):
        return self.left is self.right

    @property
    def names(self):
        return self.collection.names()

    @property
    def groups(self):
        return self.collection.groups

    def _factors(self, kernels):
        """Exponent per squared feature difference, (kernels, n_features), in base two."""
        gammas = self.collection.gammas[kernels] * LOG2_E
        return (self.collection.masks(kernels) * gammas[:, None]).astype(self.dtype)

    def _differences(self, rows, cols):
        """Squared feature differences of all pairs, (n_features, rows * cols)."""
        differences = self.left[rows].T[:, :, None] - self.right[cols].T[:, None, :]
        # bounded, since an infinite difference in a feature that a mask leaves out would make 0 times infinity of it
        squares = np.minimum(np.square(differences), LARGEST)
        return squares.astype(self.dtype).reshape(self.left.shape[1], -1)

    def combine(self, weights, rows=None):
        weights = np.asarray(weights, dtype=float) * self.scale
        active = np.flatnonzero(weights)
        triangle = rows is None and self.symmetric
        rows = np.arange(self.n_rows) if rows is None else np.asarray(rows)
        out = np.zeros((rows.size, self.n), dtype=self.dtype)

        def fill(part):
            stop = part.stop if triangle else self.n
            line = np.zeros((part.stop - part.start) * stop, dtype=self.dtype)
            differences = self._differences(rows[part], np.arange(stop))
            for kernels in _chunks(active):
                add_kernels(self._factors(kernels) @ differences, weights[kernels].astype(self.dtype), line)
            out[part, :stop] = line.reshape(-1, stop)

        self.threads.map(fill, self._row_blocks(rows.size))
        if triangle:
            mirror(out)
        return out

    def quad(self, beta):
        self._needs_square("quad")
        beta = as_outputs(beta, self.n)
        support = support_of(beta)
        B = np.tril(2.0 * (beta[:, support].T @ beta[:, support]), -1)
        diagonal = np.square(beta).sum()
        blocks = (
            (self._differences(support[part], support[: part.stop]), B[part, : part.stop].astype(self.dtype).ravel())
            for part in self._row_blocks(support.size)
        )
        out = np.full(self.m, diagonal)
        for differences, b in blocks:

            def sums(kernels, differences=differences, b=b):
                total = np.zeros(kernels.stop - kernels.start)
                dot_kernels(self._factors(kernels) @ differences, b, total)
                out[kernels] += total

            self.threads.map(sums, _slices(self.m))
        return out * self.scale

    def products(self, beta):
        outputs = as_outputs(beta, self.n)
        support = support_of(outputs)
        coefficients = outputs[:, support].T
        out = np.empty((self.m, outputs.shape[0], self.n_rows))

        def multiply(kernels):
            factors = self._factors(kernels)
            for part in self._row_blocks(self.n_rows):
                values = np.exp2(-(factors @ self._differences(np.arange(self.n_rows)[part], support)))
                block = values.reshape(factors.shape[0], -1, support.size) @ coefficients
                out[kernels, :, part] = block.transpose(0, 2, 1)

        self.threads.map(multiply, _slices(self.m))
        out *= self.scale
        return out if np.ndim(beta) == 2 else out[:, 0]

    def columns(self, chosen):
        chosen = np.asarray(chosen)
        out = np.empty((self.m, self.n_rows, chosen.size))
        for kernels in _slices(self.m):
            exponents = self._factors(kernels) @ self._differences(np.arange(self.n_rows), chosen)
            out[kernels] = np.exp2(-exponents).reshape(-1, self.n_rows, chosen.size)
        return out * self.scale

    def lines(self, chosen, points):
        self._needs_square("lines")
        out = np.empty((len(chosen), self.m, len(points)), dtype=self.dtype)

        def fill(kernels, lines, first):
            out[:, kernels] = lines[:, first : first + kernels.stop - kernels.start]

        self._visit(chosen, points, fill)
        return out

    def visit_lines(self, chosen, visitor):
        self._visit(chosen, np.arange(self.n), visitor)

    def _visit(self, chosen, points, visitor):
        """`visit_lines` over some points."""
        differences = [self._differences(np.array([i]), points) for i in chosen]

        def fill(kernels):
            factors = self._factors(kernels)
            lines = np.empty((len(differences), factors.shape[0], len(points)), dtype=self.dtype)
            for line, squares in zip(lines, differences, strict=True):
                np.matmul(factors, squares, out=line)
            take_powers(lines.reshape(-1, len(points)), self.scale)
            visitor(kernels, lines, 0)

        self.threads.map(fill, _slices(self.m, max(KERNELS, KERNELS * PAIRS // max(len(chosen) * len(points), 1))))

    def diagonal(self):
        self._needs_square("diagonal")
        return np.broadcast_to(self.scale, (self.m, self.n))

    def combined_diagonal(self, weights):
        return np.full(self.n, self.scale * np.sum(weights))

    def refined(self):
        if self.dtype == np.float64:
            return None
        return MaskedBank(self.collection, self.left, self.right, self.normalise, np.float64, self.threads, self.scale)

    def cross(self, X_new, support=None):
        X_new = as_points(X_new, like=self.right)
        right = self.right if support is None else self.right[support]
        return MaskedBank(self.collection, X_new, right, self.normalise, np.float64, self.threads, self.scale)

    def same_data(self, X):
        return np.array_equal(dense(X), self.right)

    def _row_blocks(self, size):
        step = max(1, PAIRS // self.n)
        return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def _slices(size, step=None):
    step = step or KERNELS
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def _chunks(chosen):
    return (chosen[part] for part in _slices(chosen.size))
