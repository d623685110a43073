"""Every bank method equals the plain computation on a stack of Gram matrices."""

import inspect
import pickle
import threading
import time

import joblib
import numpy as np
import pytest
from scipy import sparse

from conftest import MIXED, toy
from manykernels._threads import Threads, thread_count
from manykernels.banks import CombinationBank, TiledBank, families, make_bank, tiled
from manykernels.banks.base import Bank, SumBank
from manykernels.banks.dense import DenseBank
from manykernels.banks.families.distances import Chains
from manykernels.banks.kernel_set import KernelSet
from manykernels.banks.wrappers.centered import CenteredBank
from manykernels.banks.wrappers.parts import PartBank, SampledBank
from manykernels.banks.wrappers.shared import PassBatcher, SharedBank
from manykernels.combinations import Product
from manykernels.kernels import (
    RBF,
    FunctionKernel,
    Kernel,
    KernelCollection,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    paper_bank,
)
from manykernels.testing import check_bank

X, y = toy(90)
RNG = np.random.default_rng(0)
WEIGHT = RNG.integers(1, 4, len(X)).astype(float)
BETA = RNG.standard_normal((2, len(X))) * (RNG.random(len(X)) < 0.6)
NORMALIZATIONS = ["diagonal", "trace", "cosine", "center", None]
TOLERANCE = {np.float32: 2e-6, np.float64: 1e-12}


class Tanimoto(Kernel):
    """A user's kernel."""

    def block(self, A, B):
        dots = A @ B.T
        return dots / (np.square(A).sum(1)[:, None] + np.square(B).sum(1) - dots)


MASKS = RNG.random((300, 4)) < 0.6
MASKS[~MASKS.any(axis=1), 2] = True
GAMMAS = RNG.random(300) + 0.1

COLLECTIONS = {
    "mixed": KernelCollection(MIXED),
    "paper": paper_bank(X),
    "gammas of no common ratio": KernelCollection(
        [RBF(g, features=f) for g in (0.1, 0.17, 0.9, 7.7) for f in (None, 1, [0, 2])]
    ),
    "masked": KernelCollection.masked_rbf(GAMMAS, MASKS),
    "equal kernels": KernelCollection(
        [RBF(0.5), RBF(2.0), RBF(0.5), RBF(0.5, features=1), RBF(0.5, features=1)]
    ),
    "user's": KernelCollection(
        [
            Tanimoto(),
            FunctionKernel(lambda A, B: A @ B.T, features=[1, 2]),
            Polynomial(6, 0.1),
            RBF(0.5),
        ]
    ),
}


def plain_stack(collection, points, normalize, weight):
    """Normalized Gram matrices straight from the definition."""
    out = []
    for k in range(len(collection)):
        kernel = collection[k]
        A = points if kernel.features is None else points[:, np.atleast_1d(kernel.features)]
        K = kernel.block(A, A)
        share = weight / weight.sum()
        if normalize == "cosine":
            K = K / np.sqrt(np.outer(np.diag(K), np.diag(K)))
        if normalize == "center":
            P = np.eye(len(K)) - np.outer(np.ones(len(K)), share)
            K = P @ K @ P.T
        if normalize in ("diagonal", "center"):
            K = K / (share @ np.diag(K))
        if normalize == "trace":
            K = K / (weight @ np.diag(K))
        out.append(K)
    return np.stack(out)


@pytest.fixture(params=COLLECTIONS, scope="module")
def collection(request):
    return COLLECTIONS[request.param]


@pytest.mark.pairwise
@pytest.mark.parametrize("normalize", NORMALIZATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", ["auto", "dense"])
class TestAgainstTheStack:
    @pytest.fixture
    def pair(self, collection, normalize, dtype, storage):
        bank = make_bank(
            collection, X, normalize=normalize, sample_weight=WEIGHT, dtype=dtype, storage=storage
        )
        stack = plain_stack(collection, X, normalize, WEIGHT)
        return bank, stack, TOLERANCE[dtype] * np.abs(stack).max()

    def test_combine(self, pair):
        bank, stack, tol = pair
        weights = np.random.default_rng(1).random(bank.m)
        G = bank.combine(weights)
        assert G.dtype == bank.dtype
        np.testing.assert_allclose(G, np.tensordot(weights, stack, 1), atol=tol * weights.sum())
        rows = np.array([5, 80, 17])
        np.testing.assert_allclose(
            bank.combine(weights, rows),
            np.tensordot(weights, stack[:, rows], 1),
            atol=tol * weights.sum(),
        )

    def test_quad(self, pair):
        bank, stack, tol = pair
        expected = sum((stack @ b) @ b for b in BETA)
        np.testing.assert_allclose(
            bank.quadratic_forms(BETA), expected, atol=tol * np.abs(BETA).sum() ** 2
        )
        np.testing.assert_allclose(
            bank.quadratic_forms(BETA[0]),
            (stack @ BETA[0]) @ BETA[0],
            atol=tol * np.abs(BETA).sum() ** 2,
        )

    def test_products(self, pair):
        bank, stack, tol = pair
        np.testing.assert_allclose(
            bank.products(BETA[1]), stack @ BETA[1], atol=tol * np.abs(BETA).sum()
        )
        expected = np.stack([stack @ b for b in BETA], axis=1)
        np.testing.assert_allclose(bank.products(BETA), expected, atol=tol * np.abs(BETA).sum())

    def test_lines(self, pair):
        bank, stack, tol = pair
        chosen, points = np.array([5, 80, 17, 3, 4, 5]), np.array([7, 0, 89, 44])
        lines = bank.kernel_rows(chosen, points)
        assert lines.dtype == bank.dtype
        assert lines.flags.c_contiguous
        np.testing.assert_allclose(
            lines, stack[:, chosen][:, :, points].transpose(1, 0, 2), atol=tol
        )

    def test_columns_diagonal_traces(self, pair):
        bank, stack, tol = pair
        chosen = np.array([3, 50])
        np.testing.assert_allclose(bank.columns(chosen), stack[:, :, chosen], atol=tol)
        np.testing.assert_allclose(bank.diagonal(), np.diagonal(stack, axis1=1, axis2=2), atol=tol)
        np.testing.assert_allclose(
            bank.traces(), np.trace(stack, axis1=1, axis2=2), atol=tol * len(X)
        )


@pytest.mark.parametrize("normalize", NORMALIZATIONS)
def test_cross_of_training_points_is_the_training_bank(collection, normalize):
    bank = make_bank(collection, X, normalize=normalize, sample_weight=WEIGHT)
    rows, support = np.array([4, 30, 31]), np.array([1, 2, 60, 61])
    cross = bank.cross(X[rows])
    weights = np.random.default_rng(1).random(bank.m)
    np.testing.assert_allclose(
        cross.combine(weights), bank.combine(weights)[rows], atol=1e-12 * weights.sum()
    )
    np.testing.assert_allclose(cross.products(BETA), bank.products(BETA)[:, :, rows], atol=1e-10)
    np.testing.assert_allclose(
        cross.decision(weights, BETA), (bank.combine(weights)[rows] @ BETA.T).T, atol=1e-10 * bank.m
    )
    some = bank.cross(X[rows], support)
    np.testing.assert_allclose(
        some.combine(weights),
        bank.combine(weights)[np.ix_(rows, support)],
        atol=1e-12 * weights.sum(),
    )
    np.testing.assert_allclose(
        some.decision(weights, BETA[0, support]),
        bank.combine(weights)[np.ix_(rows, support)] @ BETA[0, support],
        atol=1e-10,
    )
    with pytest.raises(ValueError, match="new points"):
        some.quadratic_forms(BETA[:, support])


@pytest.mark.parametrize("normalize", NORMALIZATIONS)
def test_sparse_points_give_the_same_bank(normalize):
    points = np.where(X > 0, X, 0.0)
    collection = paper_bank(points)
    dense = make_bank(collection, points, normalize=normalize)
    bank = make_bank(collection, sparse.csr_array(points), normalize=normalize)
    weights = np.random.default_rng(1).random(bank.m)
    np.testing.assert_allclose(
        bank.combine(weights), dense.combine(weights), atol=1e-11 * weights.sum()
    )
    np.testing.assert_allclose(bank.quadratic_forms(BETA), dense.quadratic_forms(BETA), atol=1e-9)
    cross = bank.cross(sparse.csr_array(points[:5]))
    np.testing.assert_allclose(
        cross.combine(weights), dense.combine(weights)[:5], atol=1e-11 * weights.sum()
    )


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (7, 5), (16, 1000), (64, 13)])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_tile_size_and_threads_change_nothing(monkeypatch, rows, cols, n_jobs):
    collection = KernelCollection(MIXED)
    before = make_bank(collection, X)
    weights = np.random.default_rng(1).random(before.m)
    expected = before.combine(weights), before.quadratic_forms(BETA), before.products(BETA)
    monkeypatch.setattr(tiled, "ROWS", rows)
    monkeypatch.setattr(tiled, "COLS", cols)
    bank = make_bank(collection, X, n_jobs=n_jobs)
    for value, reference in zip(
        (bank.combine(weights), bank.quadratic_forms(BETA), bank.products(BETA)),
        expected,
        strict=True,
    ):
        np.testing.assert_allclose(value, reference, rtol=1e-12, atol=1e-12)


def test_kernels_of_one_distance_share_a_family():
    bank = make_bank(paper_bank(X), X)
    assert isinstance(bank, TiledBank)
    kinds = sorted(type(family).__name__ for family in bank.families)
    assert kinds == [
        "DistanceGaussians",
        "DotPolynomials",
        "FeatureGaussians",
        "FeaturePolynomials",
    ]
    gaussians = next(f for f in bank.families if isinstance(f, families.FeatureGaussians))
    assert gaussians.chains.shape == (4, 20)  # ten widths of ratio four: nineteen places, padded


def test_chains_sort_any_gammas():
    gammas = np.array([4.0, 1.0, 3.0, 2.0, 6.0, 1.0, 2.0**40])
    groups = np.array([0, 0, 0, 0, 0, 1, 0])
    chains = Chains(gammas, groups)
    np.testing.assert_allclose(chains.base[chains.row] * 2.0**chains.place, gammas)
    np.testing.assert_array_equal(chains.group[chains.row], groups)
    assert len(chains.base) == 4
    weights = np.arange(1.0, 8.0)
    np.testing.assert_allclose(chains.gather(chains.tabulate(weights, np.float64)), weights)


def test_float32_far_from_zero_keeps_its_digits():
    shifted = X + 1e5
    kernels = KernelCollection([RBF(0.5, features=1), RBF(0.5), RBF(0.5, features=[0, 1])])
    weights = np.ones(3)
    near, far = (
        make_bank(kernels, points, dtype=np.float32).combine(weights) for points in (X, shifted)
    )
    np.testing.assert_allclose(near, far, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "kernel", [RBF(0.5), RBF(0.5, features=0), RBF(0.5, features=[0, 1])], ids=repr
)
def test_outliers_and_clusters_keep_the_digits_of_the_rest(kernel, dtype):
    outlier, clusters = X.copy(), X.copy()
    outlier[0, 0] = 1e9
    clusters[:40, 0] += 1e8
    for points in (outlier, clusters):
        A = points if kernel.features is None else points[:, np.atleast_1d(kernel.features)]
        K = make_bank(KernelCollection([kernel]), points, dtype=dtype).combine([1.0])
        np.testing.assert_allclose(K, kernel.block(A, A), atol=1e-5)


@pytest.mark.parametrize("far", [1e3, 1e6, 1e12])
def test_values_far_from_others_and_alone_do_not_ask_for_float64(far):
    """A category that a few rows have, and one that has a neighbor where float32 has no digits."""
    points = X[:, :1].copy()
    points[[3, 7]] = far
    points[5] = -far
    kernels = KernelCollection([RBF(gamma, features=0) for gamma in (0.1, 0.5, 7.0)])
    for storage in ("fly", "dense"):
        bank = make_bank(kernels, points, dtype=np.float32, storage=storage)
        assert bank.dtype == np.float32
        grams = [RBF(gamma).block(points, points) for gamma in (0.1, 0.5, 7.0)]
        np.testing.assert_allclose(bank.columns(np.arange(len(X))), grams, atol=2e-6)
        beta = np.linspace(-1.0, 1.0, len(X))
        np.testing.assert_allclose(bank.products(beta), grams @ beta, atol=2e-4)
    points[9] = far + 1.0
    assert make_bank(kernels, points, dtype=np.float32).dtype == np.float64


@pytest.mark.parametrize("scale", [1e20, 1e-20, 1e100, 1e-100])
def test_units_do_not_matter_for_scaled_gammas(scale):
    kernels = KernelCollection([RBF(), RBF(features=[0, 2]), RBF(features=1), Laplacian()])
    plain, scaled = (
        make_bank(kernels, points, dtype=np.float32).columns(np.arange(5))[:3]
        for points in (X, X * scale)
    )
    np.testing.assert_allclose(scaled, plain, atol=1e-5)


def test_gamma_scale_out_of_range_is_said():
    with pytest.raises(ValueError, match="rescale"):
        make_bank(KernelCollection([RBF()]), X * 1e200)


def test_repeated_rows_and_columns():
    bank = make_bank(KernelCollection(MIXED), X)
    full = bank.combine(np.ones(bank.m))
    np.testing.assert_allclose(bank.combine(np.ones(bank.m), rows=[3, 3]), full[[3, 3]], atol=1e-12)
    np.testing.assert_allclose(bank.columns([3, 3]).sum(axis=0), full[:, [3, 3]], atol=1e-12)


def test_masked_bank_with_a_huge_value_in_a_feature_that_is_left_out():
    points = X.copy()
    points[0, 1] = 1e30
    bank = make_bank(
        KernelCollection.masked_rbf([0.5], np.array([[True, False, True, True]])),
        points,
        dtype=np.float32,
    )
    np.testing.assert_allclose(
        bank.combine([1.0]), RBF(0.5).block(X[:, [0, 2, 3]], X[:, [0, 2, 3]]), atol=1e-5
    )


def test_dense_and_sparse_points_may_be_mixed():
    shifted = X + 3.0
    for train, new in ((shifted, sparse.csr_array(shifted)), (sparse.csr_array(shifted), shifted)):
        for kernels in (KernelCollection(MIXED), COLLECTIONS["masked"]):
            bank = make_bank(kernels, train)
            weights = np.ones(bank.m)
            np.testing.assert_allclose(
                bank.cross(new).combine(weights), bank.combine(weights), atol=1e-10 * bank.m
            )
            assert bank.same_data(train)


def test_sparse_points_with_entries_in_parts():
    columns = np.repeat(np.tile(np.arange(4), len(X)), 2)
    halves = sparse.csr_array(
        (np.repeat(X.ravel() / 2, 2), columns, np.arange(len(X) + 1) * 8), shape=X.shape
    )
    for parts, plain in (
        (KernelCollection([RBF()]), KernelCollection([RBF()])),
        (paper_bank(halves), paper_bank(X)),
    ):
        weights = np.ones(len(plain))
        np.testing.assert_allclose(
            make_bank(parts, halves).combine(weights),
            make_bank(plain, X).combine(weights),
            atol=1e-9,
        )


def test_no_threads_are_left_behind():
    before = threading.active_count()
    bank = make_bank(KernelCollection(MIXED), X, n_jobs=4)
    bank.combine(np.ones(bank.m))
    for _ in range(100):
        if threading.active_count() <= before:
            break
        time.sleep(0.01)
    assert threading.active_count() <= before


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda A, B: np.full((len(A), len(B)), np.nan), "NaN"),
        (lambda A, B: np.tanh(A @ B.T - 0.5), "not positive semidefinite"),
        (lambda A, B: A @ B.T + np.arange(len(B)), "not symmetric"),
    ],
)
@pytest.mark.parametrize("memory_budget", [10, 10**9])
def test_kernels_of_users_are_checked(kernel, message, memory_budget):
    with pytest.raises(ValueError, match=message):
        make_bank(KernelCollection([kernel]), X, memory_budget=memory_budget)


def test_what_centering_leaves_nothing_of_is_said():
    with pytest.warns(UserWarning, match="Nothing is left of 1 kernels after centering"):
        make_bank(KernelCollection([Linear(), RBF()]), X + 1e6, normalize="center")


@pytest.mark.parametrize(
    ("points", "options", "message"),
    [
        (np.full((3, 2), np.nan), {}, "NaN"),
        (np.ones(3), {}, "two dimensions"),
        (np.ones((3, 2), complex), {}, "real numbers"),
        (np.ones((3, 2)), {"sample_weight": np.ones(4)}, "one entry per point"),
        (np.ones((3, 2)), {"sample_weight": -np.ones(3)}, "not negative"),
        (np.ones((3, 2)), {"dtype": np.float16}, "float32 or float64"),
    ],
)
def test_bad_points(points, options, message):
    with pytest.raises(ValueError, match=message):
        make_bank(KernelCollection([RBF(1.0)]), points, **options)


def test_bad_new_points_and_coefficients():
    bank = make_bank(KernelCollection(MIXED), X)
    with pytest.raises(ValueError, match="5 features, the bank was fitted on 4"):
        bank.cross(np.ones((2, 5)))
    with pytest.raises(ValueError, match="one entry per point"):
        bank.quadratic_forms(np.ones(7))


def test_precomputed_agrees_with_the_kernel_and_is_not_copied(tmp_path):
    kernels = KernelCollection(MIXED)
    reference = make_bank(kernels, X)
    order = np.random.default_rng(3).permutation(len(X))
    grams = []
    for k in range(len(MIXED)):
        K = reference.combine(np.eye(len(MIXED))[k])[np.ix_(np.argsort(order), np.argsort(order))]
        path = tmp_path / f"{k}.npy"
        np.save(path, K)
        grams.append(np.load(path, mmap_mode="r"))
    bank = make_bank(KernelCollection([Precomputed(K) for K in grams]), order[:, None])
    weights = np.random.default_rng(1).random(bank.m)
    np.testing.assert_allclose(bank.combine(weights), reference.combine(weights), atol=1e-12)
    np.testing.assert_allclose(
        bank.quadratic_forms(BETA), reference.quadratic_forms(BETA), atol=1e-9
    )
    assert all(family.kernel.K is K for family, K in zip(bank.families, grams, strict=True))


def test_expensive_kernels_are_computed_once_if_they_fit():
    calls = []

    def kernel(A, B):
        calls.append(len(A) * len(B))
        return A @ B.T

    bank = make_bank(KernelCollection([kernel]), X)
    held = sum(calls)
    bank.combine([1.0])
    bank.quadratic_forms(BETA)
    assert sum(calls) == held
    lean = make_bank(KernelCollection([kernel]), X, memory_budget=10)
    np.testing.assert_allclose(lean.combine([1.0]), bank.combine([1.0]), rtol=1e-12)
    assert sum(calls) > held


class TestOddKernels:
    @pytest.mark.parametrize("factor", [1e300, 1e-300, 1e200, 1e-200])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("normalize", ["diagonal", "trace", "cosine", "center"])
    def test_scale_does_not_matter(self, factor, dtype, normalize):
        K = RBF(0.5).block(X, X) + 0.5
        index = np.arange(len(X))[:, None]
        plain = make_bank(
            KernelCollection([Precomputed(K)]), index, dtype=dtype, normalize=normalize
        )
        extreme = make_bank(
            KernelCollection([Precomputed(K * factor)]), index, dtype=dtype, normalize=normalize
        )
        np.testing.assert_allclose(extreme.combine([1.0]), plain.combine([1.0]), rtol=1e-5)
        np.testing.assert_allclose(
            extreme.quadratic_forms(BETA), plain.quadratic_forms(BETA), rtol=1e-4
        )

    def test_zero_kernel_is_left_out_with_a_warning(self):
        with pytest.warns(UserWarning, match="is zero on the training data"):
            bank = make_bank(KernelCollection([Linear(), RBF(1.0)]), np.zeros((4, 2)))
        assert bank.quadratic_forms(np.ones(4))[0] == 0.0
        assert np.isfinite(bank.combine([1.0, 1.0])).all()

    @pytest.mark.parametrize(
        "kernel", [lambda A, B: -A @ B.T, lambda A, B: -np.abs(A[:, :1] - B[:, 0])]
    )
    def test_kernel_below_zero_is_no_zero_kernel(self, kernel):
        with pytest.raises(ValueError, match="not positive semidefinite"):
            make_bank(KernelCollection([RBF(1.0), kernel]), X)

    def test_overflowing_kernel_is_left_out_with_a_warning(self):
        with pytest.warns(UserWarning, match="overflows"):
            bank = make_bank(KernelCollection([Polynomial(3), RBF(1e-240)]), X * 1e120)
        assert np.isfinite(bank.combine([1.0, 1.0])).all()

    @pytest.mark.parametrize("scale", [1e60, 1e-60])
    def test_large_and_small_data(self, scale):
        bank = make_bank(
            KernelCollection([Linear(), Linear(features=1), Polynomial(2, coef0=0.0)]),
            X * scale,
            dtype=np.float32,
        )
        reference = make_bank(
            KernelCollection([Linear(), Linear(features=1), Polynomial(2, coef0=0.0)]), X
        )
        np.testing.assert_allclose(
            bank.combine(np.ones(3)), reference.combine(np.ones(3)), atol=1e-4
        )

    @pytest.mark.filterwarnings("ignore:Nothing is left")
    def test_constant_kernel_vanishes_when_centered(self):
        bank = make_bank(
            KernelCollection([Precomputed(np.ones((5, 5))), Precomputed(np.eye(5))]),
            np.arange(5)[:, None],
            normalize="center",
        )
        np.testing.assert_allclose(bank.combine([1.0, 0.0]), 0.0, atol=1e-12)
        assert bank.combine([0.0, 1.0])[0, 0] == pytest.approx(1.0)


def test_pickle_keeps_the_bank():
    bank = make_bank(KernelCollection(MIXED), X, n_jobs=2)
    weights = np.ones(bank.m)
    bank.combine(weights)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(bank)).combine(weights), bank.combine(weights)
    )


def test_same_data():
    bank = make_bank(KernelCollection(MIXED), X)
    assert bank.same_data(X.copy())
    assert not bank.same_data(X[:-1])
    assert not bank.same_data(X + 1e-12)
    assert bank.same_data(sparse.csr_array(X))  # which a fit may have made an array of
    assert not bank.same_data(sparse.csr_array(X + 1e-12))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalize": "unit"}, "normalize must be"),
        ({"storage": "disk"}, "storage must be"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_bad_options(collection, options, message):
    with pytest.raises(ValueError, match=message):
        make_bank(collection, X, **options)


def test_masks_of_other_width():
    with pytest.raises(ValueError, match="masks are over 4 features, but X has 3"):
        make_bank(COLLECTIONS["masked"], X[:, :3])


def test_thread_count(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    everything = thread_count()
    assert thread_count(3) == 3
    assert thread_count(-1) == everything
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert thread_count() == 1


PRECOMPUTED = KernelCollection([Precomputed(RBF(g).block(X, X)) for g in (0.1, 1.0, 3.0)])


BANKS = {
    "tiled": (COLLECTIONS["user's"], {}),
    "paper": (COLLECTIONS["paper"], {}),
    "masked": (COLLECTIONS["masked"], {}),
    "dense": (COLLECTIONS["mixed"], {"storage": "dense"}),
    "dense masked": (COLLECTIONS["masked"], {"storage": "dense"}),
    "centered": (COLLECTIONS["mixed"], {"normalize": "center"}),
    "centered dense": (COLLECTIONS["mixed"], {"normalize": "center", "storage": "dense"}),
    "cosine": (COLLECTIONS["user's"], {"normalize": "cosine"}),
}


class TestTheProtocol:
    """What is asked of anything that holds kernels is answered by every bank."""

    @pytest.fixture(params=BANKS)
    def bank(self, request):
        collection, options = BANKS[request.param]
        return make_bank(collection, X, **options)

    def test_holds_its_kernels(self, bank):
        assert bank.is_sum
        assert not bank.needs_grams
        assert len(bank) == bank.m == len(bank.kernels) == len(bank.names) == len(bank.groups)
        assert bank.scales.shape == (bank.m,)
        again = bank.collection()
        assert len(again) == bank.m
        assert list(again.groups) == list(bank.groups)
        for k in (0, bank.m - 1):
            kernel, columns = bank.kernels[k], bank.columns_of(k)
            assert again[k] == kernel
            if kernel.features is None:
                assert columns is None
            else:
                np.testing.assert_array_equal(columns, np.atleast_1d(kernel.features))

    def test_subset_has_the_chosen_kernels(self, bank):
        chosen = np.array([bank.m - 1, 0, 2])
        some = bank.take_kernels(chosen, 3.0)
        rows, weights = np.array([4, 80, 17]), np.array([0.2, 0.5, 1.0])
        assert some.m == 3
        assert [some.names[i] for i in range(3)] == [bank.names[k] for k in chosen]
        whole = 3.0 * bank.columns(np.arange(bank.n))[chosen]
        tol = 1e-12 * np.abs(whole).max()
        np.testing.assert_allclose(some.columns(rows), whole[:, :, rows], atol=tol)
        np.testing.assert_allclose(some.combine(weights), np.tensordot(weights, whole, 1), atol=tol)
        np.testing.assert_allclose(
            some.quadratic_forms(BETA), 3.0 * bank.quadratic_forms(BETA)[chosen], atol=1e-8
        )
        np.testing.assert_allclose(some.diagonal(), 3.0 * bank.diagonal()[chosen], atol=tol)
        np.testing.assert_allclose(some.scales, 3.0 * bank.scales[chosen])
        new = X[:5] + 0.1
        np.testing.assert_allclose(
            some.cross(new, rows).combine(weights),
            3.0 * np.tensordot(weights, bank.cross(new, rows).columns(np.arange(3))[chosen], 1),
            atol=tol,
        )

    def test_precomputed_kernels_are_known_behind_every_wrapper(self):
        index = np.arange(len(X))[:, None]
        for options in ({}, {"storage": "dense"}, {"normalize": "center"}):
            bank = make_bank(PRECOMPUTED, index, **options)
            assert bank.needs_grams
            assert bank.with_categories({}).needs_grams
            np.testing.assert_allclose(
                bank.take_kernels([2, 0]).combine([0.3, 0.7]),
                bank.combine([0.7, 0.0, 0.3]),
                atol=1e-12,
            )

    def test_a_combination_has_no_kernels(self):
        bank = CombinationBank(Product().fit(X))
        assert not bank.is_sum
        assert len(bank.kernels) == 0
        assert bank.collection() is None
        assert not bank.needs_grams
        assert not hasattr(bank, "quadratic_forms")
        assert bank.with_categories({}) is bank


def _capabilities():
    """Names of what a bank says of itself besides its kernels: where, how and how well it works."""
    names = {
        name
        for base in (Bank, SumBank)
        for name in (*vars(base), *inspect.get_annotations(base))
        if not name.startswith("_") and not callable(getattr(SumBank, name, None))
    }
    return sorted(names - set(dir(KernelSet)) - {"persistent"})


# What a wrapper says otherwise than the bank inside of it, and why.
SAYS_OTHERWISE = {
    "centered": {
        "streams": "products are held, whose means are subtracted",
        "cheap_sweeps": "likewise",
    },
    "fold": {
        "n": "some of the points",
        "n_rows": "some of the points",
        "shares_passes": "problems of one fold share theirs by the bank of all points",
        "streams": "products come with those of all points",
        "cheap_sweeps": "likewise",
        "cheap_subsets": "folds have all kernels",
    },
    "sampled": {
        "shares_passes": "it is there for one problem",
        "cheap_sweeps": "it has few kernels",
        "cheap_subsets": "it is a subset already",
    },
    "shared": {
        "own_threads": "other problems compute beside it",
        "shares_passes": "it is how passes are shared",
        "streams": "products are what passes share",
        "cheap_sweeps": "likewise",
        "cheap_subsets": "a subset would not share passes",
    },
    "held": {
        "streams": "matrices are in memory",
        "cheap_sweeps": "likewise",
        "cheap_subsets": "a subset is a copy of matrices",
        "shares_passes": "a matrix product serves many outputs",
    },
    "missing": {},
}


def _value(bank, capability):
    value = getattr(bank, capability)
    return value.count if isinstance(value, Threads) else value


def _wrapped(name, bank):
    shares = np.full(len(X), 1.0 / len(X))
    return {
        "centered": lambda: CenteredBank.from_shares(bank, shares),
        "fold": lambda: PartBank(bank, np.arange(0, len(X), 2), np.ones(bank.m)),
        "sampled": lambda: SampledBank(bank, 2),
        "shared": lambda: SharedBank(bank, PassBatcher(bank), 0),
        "held": lambda: DenseBank.from_bank(bank),
        "missing": lambda: make_bank(bank.collection(), X, missing="mean", n_jobs=3),
    }[name]()


class TestWrappers:
    """A bank around a bank passes on what the other can do, or says why not."""

    def test_capabilities_are_found(self):
        assert {
            "threads",
            "dtype",
            "is_remote",
            "streams",
            "starts",
            "prefers_factor_space",
        } <= set(_capabilities())

    # subsets of features have no views that points may lack
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            (name, kind)
            for name in SAYS_OTHERWISE
            for kind in ("tiled", "masked")
            if (name, kind) != ("missing", "masked")
        ],
    )
    def test_capabilities_are_passed_on(self, name, kind):
        masked = KernelCollection.masked_rbf([0.1, 0.5, 1.0], np.ones((3, X.shape[1]), bool))
        bank = make_bank(masked if kind == "masked" else KernelCollection(MIXED), X, n_jobs=3)
        wrapped = _wrapped(name, bank)
        different = {
            capability
            for capability in _capabilities()
            if _value(wrapped, capability) != _value(bank, capability)
        }
        assert different <= set(SAYS_OTHERWISE[name])

    @pytest.mark.parametrize("name", ["centered", "fold", "sampled", "shared", "held", "missing"])
    def test_algebra_may_use_all_threads(self, name, monkeypatch):
        asked = []
        monkeypatch.setattr(Threads, "algebra", lambda self: asked.append(self.count))
        bank = make_bank(KernelCollection(MIXED), X, n_jobs=3)
        _wrapped(name, bank).algebra()
        assert asked == ([] if name == "shared" else [3])  # where others compute beside it

    @pytest.mark.parametrize("name", ["centered", "fold"])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_laws(self, name, dtype):
        check_bank(_wrapped(name, make_bank(KernelCollection(MIXED), X, dtype=dtype)))

    def test_centered_kernels_of_several_weights(self):
        bank = make_bank(KernelCollection(MIXED), X, normalize="center")
        weights = np.random.default_rng(0).random((3, bank.m))
        np.testing.assert_allclose(
            bank.combine_each(weights), [bank.combine(row) for row in weights], atol=1e-12
        )


def test_copies_by_joblib_know_that_rows_are_columns(tmp_path):
    """It keeps the values of arrays, and not which of them are the same."""
    masks = np.ones((3, X.shape[1]), bool)
    banks = [
        make_bank(KernelCollection(MIXED), X),
        make_bank(KernelCollection(MIXED), X, storage="dense"),
        make_bank(KernelCollection.masked_rbf([0.1, 0.5, 1.0], masks), X),
        make_bank(KernelCollection(MIXED), X, normalize="center"),
    ]
    for bank in banks:
        joblib.dump(bank, tmp_path / "bank.joblib")
        again = joblib.load(tmp_path / "bank.joblib")
        assert again.symmetric
        np.testing.assert_array_equal(again.quadratic_forms(BETA), bank.quadratic_forms(BETA))
