"""Whatever a table looks like, every bank computes what its kernels say.

Tables come in any order of memory, type and kind, with columns of all sorts; a contiguous float64
copy and the formulas of the kernels, written out here, are the measure.
"""

import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from conftest import THOROUGH
from manykernels import MKLClassifier
from manykernels.banks import CombinationBank, ResolvedKernels, make_bank
from manykernels.combinations import PolynomialMixture, Product
from manykernels.kernels import RBF, Hamming, KernelCollection, Laplacian, Linear, Polynomial
from manykernels.lowrank import IncompleteCholesky, Nystroem
from manykernels.testing import check_bank

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
MANY = 60 if THOROUGH else 12
TOLERANCE = {np.float64: 1e-8, np.float32: 2e-5}
NORMALIZATIONS = ["diagonal", "trace", "cosine", "center", None]


# ---- tables


def _column(kind, n, rng):
    """Some columns of a kind, (n, any number)."""
    if kind == "one-hot":
        return np.eye(rng.integers(2, 12))[rng.integers(0, 2, n)]
    if kind == "0/1":
        return (rng.random((n, rng.integers(1, 12))) < 0.4).astype(float)
    if kind == "whole":
        return rng.integers(-5, 6, (n, rng.integers(1, 4))).astype(float)
    if kind == "constant":
        return np.full((n, 1), rng.choice([0.0, 1.0, -3.0, 0.7]))
    if kind == "far":
        return 1000.0 + rng.standard_normal((n, 1))
    if kind == "few":
        return np.where(rng.random((n, 3)) < 0.2, rng.standard_normal((n, 3)), 0.0)
    return rng.standard_normal((n, rng.integers(1, 4)))


KINDS = ["one-hot", "0/1", "whole", "constant", "far", "few", "numbers"]


def _values(kinds, n, rng):
    """Columns of these kinds, some of them twice."""
    X = np.hstack([_column(kind, n, rng) for kind in kinds])
    twice = rng.integers(0, X.shape[1], rng.integers(0, 3))
    return np.hstack([X, X[:, twice]])


def _strided(X):
    room = np.full((2 * X.shape[0], 3 * X.shape[1]), 7).astype(X.dtype)
    room[::2, 1::3] = X
    return room[::2, 1::3]


def _read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "strided": _strided,
    "upside down": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "columns backwards": lambda X: np.asfortranarray(X[:, ::-1])[:, ::-1],
    "read-only": _read_only,
    "part": lambda X: np.pad(X, ((0, 1), (2, 0)))[:-1, 2:],
}


def _with_zeros(X):
    """All entries are stored, those that are zero, too."""
    rows, cols = np.indices(X.shape)
    return sparse.coo_array((X.ravel(), (rows.ravel(), cols.ravel())), X.shape).tocsr()


def _unsorted(X):
    """Entries of a row from the last to the first."""
    S = sparse.csr_array(X)
    for start, stop in zip(S.indptr[:-1], S.indptr[1:], strict=True):
        S.indices[start:stop] = S.indices[start:stop][::-1].copy()
        S.data[start:stop] = S.data[start:stop][::-1].copy()
    S.has_sorted_indices = False
    return S


def _long_indices(X):
    S = sparse.csr_array(X)
    return sparse.csr_array(
        (S.data, S.indices.astype(np.int64), S.indptr.astype(np.int64)), S.shape
    )


SPARSE = {
    "CSR": sparse.csr_array,
    "CSR matrix": sparse.csr_matrix,
    "CSC": sparse.csc_array,
    "CSC matrix": sparse.csc_matrix,
    "explicit zeros": _with_zeros,
    "unsorted": _unsorted,
    "unsorted CSC": lambda X: _unsorted(X.T).T,
    "long indices": _long_indices,
    "COO": sparse.coo_array,
}
FORMS = LAYOUTS | SPARSE
TYPES = ["float64", "float32", "int8", "int64", "bool", "uint8", ">f8"]


def _formed(X, form, dtype):
    """The table in this form, and its contiguous float64 twin."""
    if dtype == "bool":
        X = X != 0
    elif np.dtype(dtype).kind in "iu":
        X = np.clip(np.round(X), 0 if dtype == "uint8" else -128, 127)
    X = X.astype(dtype)
    if X.dtype.byteorder == ">" and form in SPARSE:
        X = X.astype(float)  # scipy has no such
    return FORMS[form](X), np.ascontiguousarray(X, dtype=float)


# ---- kernels


def _features(kind, width, rng):
    """A choice among columns."""
    some = rng.choice(width, rng.integers(1, width + 1), replace=False)
    if kind == "slice":
        start = int(rng.integers(0, width))
        return slice(start, None, int(rng.integers(1, 4)))
    if kind == "backwards":
        return slice(None, None, -1)
    if kind == "single":
        return int(some[0])
    if kind == "last":
        return -1
    if kind == "mask":
        return np.isin(np.arange(width), some)
    return {"all": None, "list": some.tolist(), "array": some}[kind]


CHOICES = ["all", "list", "array", "slice", "backwards", "single", "last", "mask"]
GAMMAS = [0.03, 0.5, 2.0]


def _kernel(kind, features, rng):
    if kind == "linear":
        return [Linear(features)]
    if kind == "polynomial":
        return [Polynomial(int(rng.integers(1, 5)), 0.1, float(rng.integers(0, 2)), features)]
    if kind == "Hamming":
        return [Hamming(features)]
    if kind == "widths":  # so many that a table is used
        return [RBF(gamma, features) for gamma in np.geomspace(0.01, 5.0, 7)]
    if kind == "scaled":
        return [RBF(features=features), Laplacian(features=features)]
    return [{"Gaussian": RBF, "Laplacian": Laplacian}[kind](rng.choice(GAMMAS), features)]


KERNELS = [
    "Gaussian",
    "Gaussian",
    "Laplacian",
    "linear",
    "polynomial",
    "Hamming",
    "widths",
    "scaled",
]


def _seen(kernel, X):
    features = kernel.features
    if features is None:
        return X
    return X[:, np.atleast_1d(features) if not isinstance(features, slice) else features]


def _block(kernel, A, B, train):
    """A kernel between points by its formula, pair by pair."""
    A, B, train = (_seen(kernel, points) for points in (A, B, train))
    differences = A[:, None, :] - B[None, :, :]
    if isinstance(kernel, (RBF, Laplacian)):
        variance = train.var(axis=0).sum()
        if isinstance(kernel.gamma, str):
            gamma = kernel.factor / variance if variance > 1e-18 else kernel.factor
        else:
            gamma = kernel.gamma
        power = 2 if isinstance(kernel, RBF) else 1
        return np.exp(-gamma * (np.abs(differences) ** power).sum(axis=2))
    if isinstance(kernel, Hamming):
        return (differences == 0).mean(axis=2)
    dots = (A[:, None, :] * B[None, :, :]).sum(axis=2)
    if isinstance(kernel, Linear):
        return dots
    return (kernel.gamma * dots + kernel.coef0) ** kernel.degree


def _normalized(kernel, A, train, normalize):
    """A kernel between points and the training points, normalized on the latter."""
    K, square = _block(kernel, A, train, train), _block(kernel, train, train, train)
    diagonal, n = np.diagonal(square), len(train)
    if not diagonal.any():
        return np.zeros_like(K)
    if normalize == "cosine":
        own = np.array([_block(kernel, a[None], a[None], train)[0, 0] for a in A])
        return K * _inverse_roots(own)[:, None] * _inverse_roots(diagonal)
    if normalize == "center":
        K = K - K.mean(axis=1)[:, None] - square.mean(axis=0) + square.mean()
        variance = diagonal.mean() - square.mean()
        left = variance > 1e-9 * abs(square.mean())
        return K / variance if left else np.zeros_like(K)
    return K / {"diagonal": diagonal.mean(), "trace": diagonal.mean() * n, None: 1.0}[normalize]


def _inverse_roots(diagonal):
    return np.array([1.0 / np.sqrt(value) if value > 0 else 0.0 for value in diagonal])


# ---- what is drawn


@st.composite
def tables(draw):
    """A table with its twin, new points with theirs, and some random numbers."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    n, n_new = draw(st.sampled_from([2, 3, 5, 9, 20, 70])), draw(st.integers(1, 5))
    X = _values(kinds, n + n_new, rng)
    X[-1] = X[0]  # a new point that is an old one
    dtype = draw(st.sampled_from(TYPES))
    train, new = (draw(st.sampled_from(sorted(FORMS))) for _ in range(2))
    return _formed(X[:n], train, dtype), _formed(X[n:], new, dtype), rng


@st.composite
def kernel_lists(draw, width, rng):
    """A few kernels on groups of so many columns."""
    chosen = draw(
        st.lists(
            st.tuples(st.sampled_from(KERNELS), st.sampled_from(CHOICES)), min_size=1, max_size=4
        )
    )
    return [
        kernel
        for kind, choice in chosen
        for kernel in _kernel(kind, _features(choice, width, rng), rng)
    ]


def _agree(given, expected, tol, size=1e-30):
    """To a part of the largest entry, or of a size: what is far below it, rounding has eaten."""
    given = np.asarray(given, dtype=float)
    assert given.shape == expected.shape
    np.testing.assert_allclose(
        given, expected, rtol=tol, atol=tol * np.abs(expected).max(initial=size)
    )


def _check_square(bank, grams, tol):
    """A bank of training points: against the Gram matrices, and in itself."""
    _agree(bank.columns(np.arange(bank.n)), grams, tol)
    check_bank(bank)


def _check_cross(bank, grams, rng, tol, size):
    """A bank with other points as rows, of kernels of a size."""
    weights, beta = rng.random(bank.m), rng.standard_normal((2, bank.n))
    K, rows = np.tensordot(weights, grams, 1), np.arange(bank.n_rows)[::-2]
    _agree(bank.columns(np.arange(bank.n)), grams, tol, size)
    _agree(bank.combine(weights), K, tol, size)
    _agree(bank.combine(weights, rows), K[rows], tol, size)
    _agree(bank.decision(weights, beta), beta @ K.T, tol, size)
    _agree(bank.products(beta), np.einsum("kij,tj->kti", grams, beta), tol, size)


def _check(bank, grams, new, between, rng, tol):
    """A bank, its parts, and its kernels at new points."""
    _check_square(bank, grams, tol)
    chosen = rng.choice(bank.m, rng.integers(1, bank.m + 1), replace=False)
    points = rng.choice(bank.n, rng.integers(1, bank.n + 1), replace=False)
    some, few, size = bank.take_kernels(chosen, 0.5), bank.take_points(points), np.abs(grams).max()
    for part, kernels, half in ((bank, slice(None), 1.0), (some, chosen, 0.5)):
        if part is not None:
            values = half * between[kernels]
            _check_cross(part.cross(new), values, rng, 10 * tol, size)
            _check_cross(part.cross(new, points), values[:, :, points], rng, 10 * tol, size)
    if some is not None:
        _check_square(some, 0.5 * grams[chosen], tol)
    if few is not None:
        _check_square(few, grams[:, points][:, :, points], tol)


def _grams(listed, A, train, normalize):
    return np.stack([_normalized(kernel, A, train, normalize) for kernel in listed])


@settings(max_examples=MANY)
@given(
    drawn=tables(),
    data=st.data(),
    normalize=st.sampled_from(NORMALIZATIONS),
    dtype=st.sampled_from(sorted(TOLERANCE, key=str)),
    storage=st.sampled_from(["auto", "fly", "dense"]),
)
def test_sums(drawn, data, normalize, dtype, storage):
    """Kernels tile by tile or held, centered or not."""
    (X, plain), (new, plain_new), rng = drawn
    listed = data.draw(kernel_lists(plain.shape[1], rng))
    bank = make_bank(KernelCollection(listed), X, normalize=normalize, dtype=dtype, storage=storage)
    grams, between = (_grams(listed, A, plain, normalize) for A in (plain, plain_new))
    tol = 1e-6 if normalize == "center" else TOLERANCE[bank.dtype.type]
    _check(bank, grams, new, between, rng, tol)
    assert bank.same_data(plain) or sparse.issparse(X)


@settings(max_examples=MANY)
@given(
    drawn=tables(),
    normalize=st.sampled_from(NORMALIZATIONS),
    dtype=st.sampled_from(sorted(TOLERANCE, key=str)),
    storage=st.sampled_from(["auto", "dense"]),
)
def test_masked(drawn, normalize, dtype, storage):
    """Gaussians on subsets of the columns, which may be empty."""
    (X, plain), (new, plain_new), rng = drawn
    masks = rng.random((rng.integers(1, 6), plain.shape[1])) < 0.5
    gammas = rng.choice(GAMMAS, len(masks))
    collection = KernelCollection.masked_rbf(gammas, masks)
    bank = make_bank(collection, X, normalize=normalize, dtype=dtype, storage=storage)
    listed = [RBF(gamma, mask) for gamma, mask in zip(gammas, masks, strict=True)]
    grams, between = (_grams(listed, A, plain, normalize) for A in (plain, plain_new))
    tol = 1e-6 if normalize == "center" else TOLERANCE[bank.dtype.type]
    _check(bank, grams, new, between, rng, tol)


@settings(max_examples=MANY)
@given(
    drawn=tables(),
    data=st.data(),
    normalize=st.sampled_from(["diagonal", "trace", "cosine", None]),
    method=st.sampled_from([Nystroem, IncompleteCholesky]),
)
def test_factors(drawn, data, normalize, method):
    """As many landmarks as points: nothing is left out but rounding."""
    (X, plain), (new, plain_new), rng = drawn
    listed = data.draw(kernel_lists(plain.shape[1], rng))
    on_points = ResolvedKernels.from_data(KernelCollection(listed), X, normalize=normalize)
    approximation = (
        Nystroem(len(plain), cutoff=0.0) if method is Nystroem else method(len(plain), 0.0)
    )
    bank = approximation.fit(on_points, X, dtype=np.float64)
    grams = _grams(listed, plain, plain, normalize)
    _check_square(bank, grams, 1e-5)
    # a kernel between a new point and an old one is exact where all the old ones are landmarks
    between = _grams(listed, plain_new, plain, normalize)
    _agree(bank.cross(new).columns(np.arange(bank.n)), between, 1e-3)


@settings(max_examples=MANY)
@given(drawn=tables(), combination=st.sampled_from(["features", "groups", "polynomials"]))
def test_products(drawn, combination):
    """Kernels that are not sums."""
    (X, plain), (new, plain_new), rng = drawn
    labels = rng.integers(0, 2, plain.shape[1]).tolist()
    made = {
        "features": Product(),
        "groups": Product(labels),
        "polynomials": PolynomialMixture(2, 1.0),
    }[combination]
    bank = CombinationBank(made.fit(X))
    weights = np.where(rng.random(bank.m) < 0.3, 0.0, rng.random(bank.m))
    places = np.array([list(dict.fromkeys(labels)).index(label) for label in labels])
    spread = weights[places] if combination == "groups" else weights

    def expected(A, B):
        if combination == "polynomials":
            return (1.0 + (A * spread) @ B.T) ** 2
        return np.exp(-(np.square(A[:, None] - B[None]) * spread).sum(axis=2))

    K, rows = expected(plain, plain), np.arange(bank.n)[::-2]
    _agree(bank.combine(weights), K, 1e-7)
    _agree(bank.combine(weights, rows), K[rows], 1e-7)
    _agree(bank.combined_diagonal(weights), np.diagonal(K), 1e-7)
    beta = rng.standard_normal((2, bank.n))
    _agree(bank.decision(weights, beta), beta @ K, 1e-6)
    support = np.arange(bank.n)[::2]
    _agree(bank.cross(new).combine(weights), expected(plain_new, plain), 1e-7)
    few = bank.cross(new, support)
    _agree(few.combine(weights), expected(plain_new, plain)[:, support], 1e-7)


@settings(max_examples=MANY)
@given(
    drawn=tables(),
    data=st.data(),
    normalize=st.sampled_from(NORMALIZATIONS[:-1]),  # a kernel of 1e15 leaves others no digits
    approximation=st.sampled_from([None, Nystroem(100, cutoff=1e-3)]),
)
def test_a_classifier_sees_the_same(drawn, data, normalize, approximation):
    """The estimator gives the same decisions for a table and for its plain copy."""
    assume(approximation is None or normalize != "center")
    (X, plain), (new, plain_new), rng = drawn
    listed = data.draw(kernel_lists(plain.shape[1], rng))
    y = np.resize(["a", "b"], len(plain))
    model = MKLClassifier(
        listed,
        p=2.0,
        normalize=normalize,
        tol=1e-6,
        max_iter=50,
        approximation=approximation,
    )
    scores, labels = [], []
    for train, test in ((X, new), (plain, plain_new)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = model.fit(train, y)
        scores.append(fitted.decision_function(test))
        labels.append(fitted.predict(test))
    size = max(1.0, np.abs(scores[1]).max())
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-3 * size)
    clear = np.abs(scores[1]) > 1e-3 * size
    np.testing.assert_array_equal(labels[0][clear], labels[1][clear])
