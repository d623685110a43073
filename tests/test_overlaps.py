"""Kernels of bits and of counts: what two rows share."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse

from manykernels import MKLClassifier, MKLRegressor, load, save
from manykernels.banks import TiledBank, make_bank
from manykernels.kernels import RBF, KernelCollection, MinMax, Tanimoto, on_groups
from manykernels.lowrank import Nystroem
from manykernels.testing import check_kernel
from reference import shared_part

RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(0.3, (70, 83)).astype(float)  # no whole number of octets
COUNTS[[4, 9]] = 0.0
BITS = (COUNTS > 0.0).astype(float)
MANY = (RNG.random((40, 900)) < 0.7).astype(float)  # more ones than an octet counts
INSTANCES = {
    "bits": (Tanimoto(), BITS),
    "many bits": (Tanimoto(), MANY),
    "one column": (Tanimoto(), BITS[:, :1]),
    "counts": (MinMax(), COUNTS),
    "large counts": (MinMax(), 1e5 * COUNTS),
    "fractions": (MinMax(), 0.37 * COUNTS),
}
ALONE = pytest.mark.parametrize("name", INSTANCES)


@ALONE
class TestLaws:
    def test_values(self, name):
        kernel, X = INSTANCES[name]
        for A, B in ((X, X), (X[:7], X), (X, X[30:]), (X[4:5], X)):
            expected = shared_part(A, B)
            np.testing.assert_allclose(kernel.block(A, B), expected, rtol=1e-12)
            np.testing.assert_allclose(kernel.few_rows(A, B), expected, rtol=1e-12)
            given = sparse.csr_array(A), sparse.csr_array(B)
            np.testing.assert_allclose(kernel.block(*given), expected, rtol=1e-12)

    def test_is_a_kernel(self, name):
        kernel, X = INSTANCES[name]
        check_kernel(kernel, X)
        assert pickle.loads(pickle.dumps(kernel)) == kernel
        assert copy.deepcopy(kernel) == kernel

    def test_points_that_are_laid_out_are_the_points(self, name):
        kernel, X = INSTANCES[name]
        whole, laid_out = kernel.block(X, X), kernel.laid_out(X)
        for rows, cols in ((np.array([3, 9, 4]), np.arange(20)), (slice(5, 30), np.array([1]))):
            block = kernel.block(laid_out[rows], laid_out[cols])
            np.testing.assert_array_equal(block, whole[rows][:, cols])
            np.testing.assert_array_equal(kernel.block(X[rows], laid_out[cols]), block)


def test_counts_of_bits_are_bits():
    np.testing.assert_allclose(MinMax().block(BITS, BITS), Tanimoto().block(BITS, BITS), rtol=1e-15)


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array], ids=["array", "CSR"])
@pytest.mark.parametrize(
    ("kernel", "X", "message"),
    [
        (Tanimoto(), COUNTS, r"Tanimoto needs bits, entries of 0 and 1 \(MinMax .*, got 2"),
        (Tanimoto(), BITS - 0.5, "Tanimoto needs bits.*got -?0.5.*not standardized"),
        (MinMax(), -COUNTS, "MinMax needs counts, numbers of at least zero, got -[12]"),
    ],
)
def test_other_points_are_refused(kernel, X, message, wrap):
    with pytest.raises(ValueError, match=message):
        MKLRegressor([kernel]).fit(wrap(X), X[:, 0])
    model = MKLRegressor([kernel]).fit(wrap(BITS), COUNTS[:, 0])
    with pytest.raises(ValueError, match=message):
        model.predict(wrap(X))


SHARED = on_groups(
    {"bits": range(83), "counts": range(83, 166)}, {"bits": Tanimoto(), "counts": MinMax()}
)
TABLE = np.hstack([BITS, COUNTS])
VALUES = COUNTS[:, :3].sum(axis=1) + 0.1 * RNG.standard_normal(70)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array], ids=["array", "CSR"])
@pytest.mark.parametrize("storage", ["auto", "dense"])
def test_banks_hold_them(storage, wrap, dtype):
    X = wrap(TABLE)
    bank = make_bank(SHARED, X, normalize=None, storage=storage, dtype=dtype)
    stack, tol = np.stack([shared_part(BITS, BITS), shared_part(COUNTS, COUNTS)]), 1e-6
    weights, beta = np.array([0.3, 2.0]), RNG.standard_normal((2, 70))
    np.testing.assert_allclose(bank.combine(weights), np.tensordot(weights, stack, 1), atol=tol)
    expected = np.stack([stack @ b for b in beta], axis=1)
    np.testing.assert_allclose(bank.products(beta), expected, atol=1e2 * tol)
    expected = sum((stack @ b) @ b for b in beta)
    np.testing.assert_allclose(bank.quadratic_forms(beta), expected, rtol=1e-4)
    rows = bank.kernel_rows(np.array([5, 8]), np.arange(70))
    np.testing.assert_allclose(rows, stack[:, [5, 8]].transpose(1, 0, 2), atol=tol)
    if storage == "auto":
        assert type(bank) is TiledBank
        assert not bank.held  # nothing of the size n x n


@pytest.mark.parametrize("normalize", ["diagonal", "variance", "trace", "cosine", "center", None])
def test_models_predict_and_are_kept(normalize, tmp_path):
    cost = 700.0 if normalize == "trace" else 10.0  # diagonals of 1 / 70
    model = MKLRegressor(SHARED, normalize=normalize, C=cost).fit(TABLE, VALUES)
    assert model.score(TABLE, VALUES) > 0.8
    found = model.predict(TABLE)
    np.testing.assert_allclose(model.predict(TABLE[:1]), found[:1], rtol=1e-5, atol=1e-5)
    points = sparse.csr_array(TABLE)
    same = MKLRegressor(SHARED, normalize=normalize, C=cost).fit(points, VALUES)
    np.testing.assert_allclose(same.predict(points), found, rtol=1e-3, atol=1e-3)
    save(model, tmp_path / "model.mk")
    np.testing.assert_allclose(load(tmp_path / "model.mk").predict(TABLE), found, rtol=1e-6)


def test_all_points_as_landmarks_are_the_kernel(tmp_path):
    exact = MKLRegressor(SHARED, C=10.0, tol=1e-5).fit(TABLE, VALUES)
    model = MKLRegressor(SHARED, C=10.0, tol=1e-5, approximation=Nystroem(70)).fit(TABLE, VALUES)
    np.testing.assert_allclose(model.predict(TABLE), exact.predict(TABLE), atol=0.02)
    save(model, tmp_path / "model.mk")
    kept = load(tmp_path / "model.mk").predict(sparse.csr_array(TABLE))
    np.testing.assert_allclose(kept, model.predict(TABLE), rtol=1e-6)


def test_the_view_that_matters_has_the_weight():
    noise = (RNG.random((70, 64)) < 0.3).astype(float)
    X, labels = np.hstack([noise, BITS]), COUNTS[:, :4].sum(axis=1) > 1
    groups = on_groups({"noise": range(64), "bits": range(64, 147)}, Tanimoto())
    weights = MKLClassifier(groups).fit(X, labels).group_weights_
    assert weights["bits"] > 5.0 * weights["noise"]


@pytest.mark.device
@pytest.mark.parametrize("normalize", ["diagonal", "cosine", "center"])
def test_on_a_device(normalize):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    kernels = KernelCollection([Tanimoto(range(83)), MinMax(range(83, 166)), RBF(0.1)])
    host = make_bank(kernels, TABLE, normalize=normalize)
    there = make_bank(kernels, TABLE, normalize=normalize, device="torch")
    weights, beta = RNG.random(3), RNG.standard_normal((2, 70))
    np.testing.assert_allclose(there.combine(weights), host.combine(weights), atol=1e-10)
    np.testing.assert_allclose(there.products(beta), host.products(beta), atol=1e-9)
    np.testing.assert_allclose(there.quadratic_forms(beta), host.quadratic_forms(beta), rtol=1e-9)
    model = MKLRegressor(kernels, device="torch", normalize=normalize).fit(TABLE, VALUES)
    here = MKLRegressor(kernels, normalize=normalize).fit(TABLE, VALUES)
    np.testing.assert_allclose(model.predict(TABLE), here.predict(TABLE), atol=0.05)
    with pytest.raises(ValueError, match="Tanimoto needs bits"):
        make_bank(KernelCollection([Tanimoto()]), TABLE, device="torch").combine(np.ones(1))


def test_columns_first():
    """A sparse matrix by columns, as users of the kernel itself may have."""
    counts = sparse.csc_matrix(COUNTS)
    np.testing.assert_allclose(
        MinMax().block(counts, counts[:7]), MinMax().block(COUNTS, COUNTS[:7]), rtol=1e-12
    )
