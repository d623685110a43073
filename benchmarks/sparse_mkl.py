"""The sets, the split, the kernels and the alternating method of Sparse MKL (Bertsimas, Iglesias
and Johnson, TMLR 2025), rebuilt from the paper and from what its authors provide.

Columns are standardized by the training rows, missing numbers are zeros. The published split is
that of their program, ``shuffle(1:N)`` of Julia after ``Random.seed!(123)``: with it the published
objectives come out to six digits at the published weights. The factor of 0.01 in the polynomials is
in their program and not in the paper.

The two sigmoids are not positive definite, and a sum with such a kernel is no SVM: it has no
optimum that anyone could prove. Here they are clipped: negative eigenvalues of the training matrix
count as zero, and rows of new points are projected on what is left. Published solutions never give
them weight, so that the eight definite kernels alone are the like for like.
"""

import csv
import hashlib
import struct
from typing import NamedTuple

import numpy as np
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.svm import SVC

from manykernels.regularizers import SimplexRidge

from .common import DATA

FOLDER = DATA / "sparse_mkl"
WORD = 2**64 - 1
SEED, TRAIN = 123, 0.8
DEGREES, WIDTHS, SIGMOIDS, LAPLACIAN, GAMMA = (2, 3, 5), (0.5, 0.3, 0.1), (0.5, 0.7), 0.3, 0.01
DEFINITE = (0, 1, 2, 3, 4, 5, 6, 9)
ROUNDS, PATIENCE, DECREASE = 50, 3, 1e-2  # of the alternating method


class Layout(NamedTuple):
    """Columns of numbers, the column of labels, what is positive there, and lines of a header;
    ``not`` before a label means all others.
    """

    columns: list[int]
    label: int
    positive: str
    header: int = 0


LAYOUTS = {
    "iris": Layout([0, 1], 4, "Iris-setosa"),
    "wine": Layout(list(range(1, 14)), 0, "1"),
    "breastcancer": Layout(list(range(2, 32)), 1, "M"),
    "ionosphere": Layout(list(range(34)), 34, "g"),
    "banknote": Layout(list(range(4)), 4, "1"),
    "heart": Layout(list(range(13)), 13, "not 0"),
    "haberman": Layout(list(range(3)), 3, "1"),
    "mammographic": Layout(list(range(5)), 5, "1"),
    "parkinsons": Layout([*range(1, 17), *range(18, 24)], 17, "1", 1),
}


def published():
    """The rows of ``published.csv`` by name of the set, numbers as numbers."""
    with (FOLDER / "published.csv").open() as stream:
        rows = {row.pop("dataset"): row for row in csv.DictReader(stream)}
    return {
        name: {key: _number(value) for key, value in row.items() if key != "weights"}
        for name, row in rows.items()
    }


def read(name):
    """Points and labels of ±1."""
    layout = LAYOUTS[name]
    with (FOLDER / f"{name}.csv").open() as stream:
        rows = [row for row in csv.reader(stream) if row][layout.header :]
    X = np.array([[_number(row[column]) or 0.0 for column in layout.columns] for row in rows])
    same = np.array([row[layout.label].strip() == layout.positive.split()[-1] for row in rows])
    return X, np.where(same != layout.positive.startswith("not"), 1.0, -1.0)


def _number(text):
    try:
        return float(text)
    except ValueError:
        return None


def standardized(X, train, test):
    """Training and test rows in standard deviations of the training rows."""
    mean, spread = X[train].mean(axis=0), X[train].std(axis=0, ddof=1)
    spread[spread == 0.0] = 1e-8
    return (X[train] - mean) / spread, (X[test] - mean) / spread


def published_split(n):
    """Training and test rows of the published results."""
    order = _shuffled(n)
    return np.split(order, [int(TRAIN * n)])


def _shuffled(n):
    """The numbers up to n in the order of Julia's shuffle: exchanges from the last place down, with
    numbers of xoshiro256++ that are rejected where they are too large.
    """
    state = list(struct.unpack("<4Q", hashlib.sha256(struct.pack("<I", SEED)).digest()))
    order, mask = np.arange(n), 2 ** int(np.ceil(np.log2(n))) - 1
    for place in range(n, 1, -1):
        if mask >> 1 == place:
            mask >>= 1
        other = n
        while other >= place:
            other = (_next(state) >> 12) & mask
        order[[place - 1, other]] = order[[other, place - 1]]
    return order


def _next(state):
    """The next number of xoshiro256++ (Blackman and Vigna), which moves its state."""
    a, b, c, d = state
    result = (_rotated((a + d) & WORD, 23) + a) & WORD
    c, d = c ^ a, d ^ b
    state[:] = [a ^ d, b ^ c, c ^ ((b << 17) & WORD), _rotated(d, 45)]
    return result


def _rotated(word, places):
    return ((word << places) | (word >> (64 - places))) & WORD


def kernels(train, test):
    """Matrices of the ten kernels between training rows, (10, n, n), and between test and training
    rows, (10, n_test, n); sigmoids clipped.
    """
    grams, cross = (np.stack(_matrices(rows, train)) for rows in (train, test))
    for place in (7, 8):
        values, vectors = np.linalg.eigh(grams[place])
        kept = vectors[:, values > 0.0]
        grams[place] = (kept * values[values > 0.0]) @ kept.T
        cross[place] = cross[place] @ kept @ kept.T
    return (grams + grams.swapaxes(1, 2)) / 2.0, cross


def _matrices(A, B):
    products = A @ B.T
    return [
        products,
        *((GAMMA * products + 1.0) ** degree for degree in DEGREES),
        *(rbf_kernel(A, B, gamma) for gamma in WIDTHS),
        *(np.tanh(gamma * products + 1.0) for gamma in SIGMOIDS),
        laplacian_kernel(A, B, LAPLACIAN),
    ]


def alternating(grams, y, k, C, ridge, seed):
    """The objective of the alternating method from k random kernels: an SVM for fixed weights, then
    the best weights for fixed coefficients, until the objective no longer falls.
    """
    rng, best, failures = np.random.default_rng(seed), np.inf, 0
    weights = np.zeros(len(grams))
    weights[rng.permutation(len(grams))[:k]] = 1.0 / k
    regularizer = SimplexRidge(ridge)
    for _ in range(ROUNDS):
        beta = _svm(np.tensordot(weights, grams, 1), y, C)
        forms = (grams @ beta) @ beta
        value = np.abs(beta).sum() - 0.5 * weights @ forms + ridge * weights @ weights
        failures = failures + 1 if best - value < DECREASE else 0
        best = min(best, value)
        if failures == PATIENCE:
            break
        largest = np.argsort(-forms, kind="stable")[:k]
        weights = np.zeros(len(grams))
        weights[largest] = regularizer.weights(forms[largest])
    return float(best)


def _svm(K, y, C):
    found = SVC(C=C, kernel="precomputed", tol=1e-5).fit(K, y)
    beta = np.zeros(len(y))
    beta[found.support_] = found.dual_coef_[0]
    return beta
