"""Kernels and collections of them."""

import copy
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import pairwise

from conftest import MIXED, toy
from manykernels.banks import make_bank
from manykernels.kernels import (
    RBF,
    FunctionKernel,
    KernelCollection,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    paper_bank,
)
from manykernels.kernels.base import resolve_features
from manykernels.kernels.vector import weighted_variance

X, y = toy(30)

INSTANCES = [
    RBF(0.7),
    Laplacian(0.4),
    Linear(),
    Polynomial(3, gamma=0.5, coef0=2.0),
    Polynomial(5),
    FunctionKernel(pairwise.rbf_kernel),
]


@pytest.mark.parametrize("kernel", INSTANCES, ids=lambda k: k.label)
class TestLaws:
    def test_symmetric_and_semidefinite(self, kernel):
        K = kernel.block(X, X)
        np.testing.assert_allclose(K, K.T, rtol=1e-12)
        assert np.linalg.eigvalsh(K)[0] > -1e-9 * np.abs(K).max() * len(K)

    def test_block_is_a_slice_of_the_whole(self, kernel):
        np.testing.assert_allclose(
            kernel.block(X[3:9], X[10:]), kernel.block(X, X)[3:9, 10:], rtol=1e-12
        )

    def test_diagonal(self, kernel):
        np.testing.assert_allclose(kernel.diagonal(X), np.diagonal(kernel.block(X, X)), rtol=1e-12)

    def test_is_a_value(self, kernel):
        assert pickle.loads(pickle.dumps(kernel)) == kernel
        assert copy.deepcopy(kernel) == kernel


@pytest.mark.parametrize("kernel", INSTANCES[:5], ids=lambda k: k.label)
def test_sparse_points(kernel):
    points = sparse.csr_array(np.where(X > 0, X, 0.0))
    dense = points.toarray()
    np.testing.assert_allclose(kernel.block(points, points), kernel.block(dense, dense), rtol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(points), kernel.diagonal(dense), rtol=1e-12)


def test_values_agree_with_scikit_learn():
    np.testing.assert_allclose(RBF(0.7).block(X, X[:4]), pairwise.rbf_kernel(X, X[:4], gamma=0.7))
    np.testing.assert_allclose(
        Laplacian(0.7).block(X, X[:4]), pairwise.laplacian_kernel(X, X[:4], gamma=0.7)
    )
    np.testing.assert_allclose(
        Polynomial(3, 0.5, 2.0).block(X, X),
        pairwise.polynomial_kernel(X, X, degree=3, gamma=0.5, coef0=2.0),
    )


def test_scale_is_that_of_svc():
    assert RBF().resolved(X, None).gamma == pytest.approx(1.0 / (X.shape[1] * X.var(axis=0).mean()))


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (None, None),
        (2, [2]),
        (-1, [3]),
        ([0, 2], [0, 2]),
        (slice(1, None), [1, 2, 3]),
        ("b", [1]),
        (["d", "a"], [3, 0]),
        (np.array([True, False, False, True]), [0, 3]),
    ],
)
def test_choice_of_features(features, expected):
    chosen = resolve_features(features, 4, ["a", "b", "c", "d"])
    assert (chosen is None and expected is None) or chosen.tolist() == expected


@pytest.mark.parametrize(
    ("features", "names", "message"),
    [
        ([4], None, "outside the 4 columns"),
        ("z", ["a", "b", "c", "d"], "Unknown column names.*'z'"),
        ("a", None, "no column names"),
        (slice(9, None), None, "selects none"),
        (slice("a", "b"), ["a", "b", "c"], "a slice counts columns"),
        ([True, False], None, "one entry per column"),
        ([0.5], None, "indices, names, booleans"),
        ([], None, "selects none"),
        ([[0, 1]], None, "flat list"),
    ],
)
def test_bad_choice_of_features(features, names, message):
    with pytest.raises(ValueError, match=message):
        resolve_features(features, 4, names)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (RBF(-1.0), "gamma > 0"),
        (RBF("wide"), "gamma > 0"),
        (Laplacian(np.nan), "gamma > 0"),
        (Polynomial(2, gamma=0.0), "gamma > 0"),
        (Polynomial(2, coef0=-1.0), "coef0 >= 0"),
        (Polynomial(0), "degree"),
        (Polynomial(1.5), "degree"),
        (Polynomial(None), "degree"),
        (Polynomial(2, None), "gamma > 0"),
        (RBF(None), "gamma > 0"),
    ],
)
def test_bad_parameters(kernel, message):
    with pytest.raises(ValueError, match=message):
        make_bank(KernelCollection([kernel]), X)


def test_weighted_variance_counts_rows():
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    repeated = np.repeat(X, weights, axis=0)
    np.testing.assert_allclose(weighted_variance(X, weights), repeated.var(axis=0))
    np.testing.assert_allclose(
        weighted_variance(sparse.csr_array(X), weights), repeated.var(axis=0)
    )
    assert weighted_variance(np.full((7, 1), 0.1))[0] == 0.0
    assert weighted_variance(sparse.csr_array(np.full((7, 1), 0.1)))[0] == 0.0


class TestCollections:
    def test_names(self):
        bank = KernelCollection(
            {
                "first": RBF(0.5, features=[0, 2]),
                "rest": [Linear(), Polynomial(2, features=slice(0, 2))],
            }
        )
        assert bank.names(["a", "b", "c", "d"]) == [
            "first: RBF(gamma=0.5) on a, c",
            "rest: Linear on all features",
            "rest: Polynomial(degree=2) on features [0:2]",
        ]
        assert bank.groups == ["first", "rest", "rest"]

    @pytest.mark.parametrize("empty", [[], {}, {"a": []}])
    def test_empty(self, empty):
        with pytest.raises(ValueError, match="empty"):
            KernelCollection(empty)

    @pytest.mark.parametrize("wrong", [["rbf"], [3], 7, [RBF], iter([RBF(1.0)])])
    def test_no_kernels(self, wrong):
        with pytest.raises(TypeError, match=r"[Kk]ernel"):
            KernelCollection(wrong)

    def test_masked_bank_as_a_list(self):
        masked = KernelCollection.masked_rbf([0.5, 1.0], np.ones((2, 4), bool))
        assert KernelCollection(masked).kernels == [masked[0], masked[1]]

    def test_names_tell_polynomials_apart(self):
        names = KernelCollection(
            [Polynomial(2), Polynomial(2, 0.1), Polynomial(2, 0.1, 5.0)]
        ).names()
        assert len(set(names)) == 3

    def test_functions_become_kernels(self):
        bank = KernelCollection([pairwise.rbf_kernel])
        assert bank.names() == ["rbf_kernel on all features"]

    def test_function_of_wrong_shape(self):
        with pytest.raises(ValueError, match="returned shape"):
            make_bank(KernelCollection([lambda A, B: np.zeros(3)]), X)

    def test_masked_is_two_arrays(self):
        rng = np.random.default_rng(0)
        gammas, masks = rng.random(1000) + 0.1, rng.random((1000, 60)) < 0.5
        bank = KernelCollection.masked_rbf(gammas, masks)
        assert len(bank) == 1000
        assert bank.packed.nbytes == 8 * 1000
        assert bank[17] == RBF(gammas[17], features=tuple(np.flatnonzero(masks[17])))
        assert bank[-1].gamma == gammas[-1]
        np.testing.assert_array_equal(bank.masks(), masks)

    @pytest.mark.parametrize(
        ("gammas", "masks", "message"),
        [
            ([1.0], np.ones((2, 3), bool), "gammas"),
            ([-1.0], np.ones((1, 3), bool), "above zero"),
            ([1.0], np.ones((1, 3)), "boolean"),
            ([], np.ones((0, 3), bool), "empty"),
        ],
    )
    def test_bad_masks(self, gammas, masks, message):
        with pytest.raises(ValueError, match=message):
            KernelCollection.masked_rbf(gammas, masks)

    def test_paper_bank(self):
        standard = (X - X.mean(axis=0)) / X.std(axis=0)
        bank = paper_bank(standard)
        assert len(bank) == 13 * 5
        widths = sorted(
            1 / np.sqrt(2 * k.gamma)
            for k in bank.kernels
            if isinstance(k, RBF) and k.features == (1,)
        )
        np.testing.assert_allclose(widths, 2.0 ** np.arange(-3, 7))
        assert [
            k.degree for k in bank.kernels if isinstance(k, Polynomial) and k.features is None
        ] == [1, 2, 3]

    def test_paper_bank_does_not_depend_on_units(self):
        a = make_bank(paper_bank(X), X).columns(np.arange(3))
        scaled = X * np.array([1.0, 1e3, 1e-3, 7.0])
        b = make_bank(paper_bank(scaled), scaled).columns(np.arange(3))
        np.testing.assert_allclose(a[: 13 * 4], b[: 13 * 4], rtol=1e-9, atol=1e-12)


class TestPrecomputed:
    def test_cloning_shares_the_matrix(self):
        kernel = Precomputed(np.eye(3))
        assert copy.deepcopy([kernel])[0].K is kernel.K
        assert clone(kernel, safe=False).K is kernel.K

    @pytest.mark.parametrize(
        ("K", "message"),
        [
            (np.ones((3, 4)), "square"),
            (np.ones(3), "square"),
            (np.triu(np.ones((3, 3))), "not symmetric"),
            (np.diag([1.0, 1.0, -0.5]), "most negative eigenvalue is -0.5"),
            (np.diag([1.0, 1.0, np.nan]), "NaN"),
            (np.diag([1.0, 1.0, np.inf]), "NaN or infinite"),
            (np.eye(3).astype(complex), "real numbers"),
        ],
    )
    def test_bad_matrices(self, K, message):
        with pytest.raises(ValueError, match=message):
            make_bank(KernelCollection([Precomputed(K)]), np.arange(3)[:, None])

    @pytest.mark.parametrize(
        ("index", "message"),
        [
            (np.zeros((3, 2)), "one column of sample indices"),
            (np.array([[0.5], [1.0], [2.0]]), "whole sample indices"),
            (np.array([[0], [1], [3]]), "has 3 rows"),
            (np.array([[0], [1], [-1]]), "from -1"),
        ],
    )
    def test_bad_indices(self, index, message):
        with pytest.raises(ValueError, match=message):
            make_bank(KernelCollection([Precomputed(np.eye(3))]), index)

    def test_index_column_among_features(self):
        K = X @ X.T
        both = np.column_stack([X, np.arange(len(X))])
        bank = make_bank(
            KernelCollection([RBF(0.5, features=slice(0, 4)), Precomputed(K, features=4)]),
            both,
            normalize=None,
        )
        np.testing.assert_allclose(bank.combine([0.0, 1.0]), K, rtol=1e-12)
        np.testing.assert_allclose(bank.combine([1.0, 0.0]), RBF(0.5).block(X, X), atol=1e-12)

    def test_lists_are_taken_and_sparse_matrices_refused(self):
        index = np.arange(3)[:, None]
        assert make_bank(KernelCollection([Precomputed(np.eye(3).tolist())]), index).combine(
            [1.0]
        ).shape == (3, 3)
        with pytest.raises(ValueError, match="dense matrix"):
            make_bank(KernelCollection([Precomputed(sparse.eye_array(3))]), index)

    def test_semidefinite_matrix_of_low_rank_is_accepted(self):
        K = (X[:, :1] @ X[:, :1].T).astype(np.float32)
        assert make_bank(KernelCollection([Precomputed(K)]), np.arange(len(X))[:, None]).m == 1


def test_mixed_instances_cover_every_family():
    assert {type(k) for k in MIXED} == {RBF, Linear, Polynomial, Laplacian}
