"""After the fit: packed decisions, what loading imports, pickles, logs, threads."""

from dataclasses import replace

import numpy as np
import pytest

from manykernels.banks import TiledBank, make_bank
from manykernels.estimators.data.decision import ExpansionDecision
from manykernels.kernels import (
    RBF,
    FunctionKernel,
    Hamming,
    KernelCollection,
    Laplacian,
    Linear,
    Polynomial,
)
from manykernels.thresholds import lowered

N, FEATURES = 40, 5
# what few rows go through, and many, with and without tables
FEW, MANY, TABLES = (
    {"uncompiled_entries": 2**40},
    {"uncompiled_entries": 0, "rows_per_node": 10**9},
    {"uncompiled_entries": 0, "rows_per_node": 0},
)
COLUMN_GAUSSIANS = [RBF(gamma, [f]) for f in range(3) for gamma in (0.3, 5.0)]
SETS = {
    "columns": COLUMN_GAUSSIANS,
    "all columns": [RBF(0.1), RBF(2.0), RBF(0.7, [0, 2]), Laplacian(0.4), Laplacian(1.0, [1])],
    "polynomials": [
        Linear(),
        Linear([1]),
        Linear([0, 3]),
        Polynomial(2),
        Polynomial(3, coef0=0.0, features=[4]),
        Polynomial(1, gamma=2.0),
        Polynomial(5, gamma=0.1),
    ],
    "others": [
        Hamming([0, 1], weights=[1.0, 3.0]),
        Hamming(),
        FunctionKernel(lambda A, B: (1.0 + A @ B.T) ** 2),
        RBF(1.0),
    ],
    "binary": [RBF(0.5), RBF(0.1, [0, 1, 2]), Linear()],
    "far away": [RBF(1e3), Laplacian(1e3), RBF(1e3, [0])],
}


def rows(name, count, seed):
    X = np.random.default_rng(seed).standard_normal((count, FEATURES))
    if name in ("binary", "others"):
        return (X > 0).astype(float) + (name == "others") * (X > 1)
    return X * 1e4 + 1e6 if name == "far away" else X


@pytest.mark.parametrize("normalize", ["diagonal", "trace", "cosine", "variance", None])
@pytest.mark.parametrize("name", SETS)
def test_packed_decisions_are_those_of_the_bank(name, normalize):
    kernels, X = SETS[name], rows(name, N, 0)
    if normalize == "variance" and name == "far away":
        pytest.skip("kernels that are the identity on the training rows")
    rng = np.random.default_rng(1)
    new = np.concatenate([rows(name, 12, 2), X[:3], 30.0 * rows(name, 1, 3)])
    bank = make_bank(KernelCollection(kernels), X, normalize=normalize)
    assert type(bank) is TiledBank
    support = np.sort(rng.permutation(N)[:25])
    for t, each in ((1, False), (3, False), (3, True)):
        weights = rng.random((t, len(kernels)) if each else len(kernels))
        weights[..., 0] = 0.0  # left out
        decision = ExpansionDecision(
            bank, weights, rng.standard_normal(t), N, support, rng.standard_normal((t, 25))
        )
        packed, present = decision._packed, without_packing(decision).scores(new)
        assert packed is not None
        scale = np.abs(present) + np.abs(decision.beta).sum()
        for way in (FEW, MANY, TABLES):
            with lowered(**way):
                found = decision.scores(new)
            np.testing.assert_array_less(np.abs(found - present), 2e-12 * scale)


def without_packing(decision):
    """The decision as the bank computes it."""
    twin = replace(decision)
    vars(twin)["_packed"] = None
    return twin
