"""Kernels of categories, strings and graphs, and kernel objects of other libraries."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import kernels as gp
from sklearn.model_selection import cross_val_score

from conftest import toy
from manykernels import MKLClassifier, MKLOneClass, MKLRegressor
from manykernels.banks import make_bank
from manykernels.kernels import (
    RBF,
    FunctionKernel,
    Hamming,
    KernelCollection,
    Precomputed,
    Spectrum,
)
from manykernels.lowrank import Nystroem
from reference import share_of_equal_entries, shared_substrings

X, y = toy(30)
CODES = np.random.default_rng(0).integers(0, 3, (25, 4)).astype(float)
WORDS = [
    "abracadabra",
    "cadabra",
    "brabra",
    "",
    "ab",
    "naïve café",
    "x" * 30,
    "abracadabra",
    "𝒜bra",
    "ra ra ra",
]
COLUMN = np.array(WORDS, dtype=object)[:, None]


def sequences(n=60, seed=0):
    """Random strings; those of the first class have a motif at a random place."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    strings = []
    for label in labels:
        letters = rng.choice(list("ACGT"), 40)
        if label:
            start = rng.integers(0, 30)
            letters[start : start + 6] = list("TATAAA")
        strings.append("".join(letters))
    return strings, np.where(labels, "promoter", "other")


INSTANCES = [
    (Hamming(), CODES),
    (Hamming(weights=(1.0, 0.0, 2.0, 0.5)), CODES),
    (Spectrum(1), COLUMN),
    (Spectrum(3), COLUMN),
    (Spectrum(2, normalized=False), COLUMN),
    (Spectrum(3).resolved(COLUMN[::2], None), COLUMN),
    (FunctionKernel(gp.ConstantKernel(2.0) * gp.Matern(1.5)), X),
]


@pytest.mark.parametrize(
    ("kernel", "points"), INSTANCES, ids=lambda part: getattr(part, "label", "")
)
class TestLaws:
    def test_symmetric_and_semidefinite(self, kernel, points):
        K = kernel.block(points, points)
        np.testing.assert_allclose(K, K.T, rtol=1e-12)
        assert np.linalg.eigvalsh(K)[0] > -1e-9 * np.abs(K).max() * len(K)

    def test_block_is_a_slice_of_the_whole(self, kernel, points):
        whole = kernel.block(points, points)
        np.testing.assert_allclose(
            kernel.block(points[1:5], points[3:]), whole[1:5, 3:], rtol=1e-12
        )
        np.testing.assert_allclose(
            kernel.block(points[::2], points[::2].copy()), whole[::2, ::2], rtol=1e-12
        )

    def test_diagonal(self, kernel, points):
        np.testing.assert_allclose(
            kernel.diagonal(points), np.diagonal(kernel.block(points, points)), rtol=1e-12
        )

    def test_is_a_value(self, kernel, points):
        assert pickle.loads(pickle.dumps(kernel)) == kernel
        assert copy.deepcopy(kernel) == kernel


@pytest.mark.parametrize("weights", [None, (1.0, 0.0, 2.0, 0.5)])
def test_hamming_by_hand(weights):
    expected = share_of_equal_entries(CODES, CODES[:7], weights)
    np.testing.assert_allclose(
        Hamming(weights=weights).block(CODES, CODES[:7]), expected, rtol=1e-12
    )


@pytest.mark.parametrize(
    "weights", [(1.0,), (1.0, -1.0, 1.0, 1.0), (0.0, 0.0, 0.0, 0.0), (1.0, np.nan, 1.0, 1.0)]
)
def test_bad_weights_of_columns(weights):
    with pytest.raises(ValueError, match="one weight of at least zero for each of its 4 columns"):
        make_bank(KernelCollection([Hamming(weights=weights)]), CODES)


class TestSpectrum:
    @pytest.mark.parametrize("k", [1, 2, 3, 7])
    def test_by_hand(self, k):
        plain = np.array([[shared_substrings(a, b, k) for b in WORDS] for a in WORDS])
        np.testing.assert_allclose(
            Spectrum(k, normalized=False).block(COLUMN, COLUMN), plain, rtol=1e-12
        )
        roots = np.sqrt(np.diagonal(plain))
        cosines = np.divide(
            plain,
            np.outer(roots, roots),
            out=np.zeros_like(plain),
            where=np.outer(roots, roots) > 0,
        )
        np.testing.assert_allclose(Spectrum(k).block(COLUMN, COLUMN), cosines, rtol=1e-12)

    def test_what_it_remembers_changes_nothing(self):
        trained = Spectrum(2).resolved(COLUMN[:5], None)
        for rows, cols in [
            (COLUMN, COLUMN[:5]),
            (COLUMN[:5], COLUMN),
            (COLUMN[5:], COLUMN[5:]),
            (COLUMN[:3], COLUMN[1:4]),
        ]:
            np.testing.assert_allclose(
                trained.block(rows, cols), Spectrum(2).block(rows, cols), rtol=1e-12
            )

    @pytest.mark.parametrize("k", [0, 2.5, "3"])
    def test_bad_length(self, k):
        with pytest.raises(ValueError, match="whole number k"):
            MKLClassifier([Spectrum(k)]).fit(*sequences(10))

    def test_bad_points(self):
        with pytest.raises(ValueError, match="one column"):
            Spectrum().block(COLUMN.repeat(2, axis=1), COLUMN)
        with pytest.raises(ValueError, match=r"needs strings, got 3\.0"):
            Spectrum().block(np.array([[3.0]]), COLUMN)

    def test_learns_a_motif(self):
        strings, labels = sequences(120)
        model = MKLClassifier([Spectrum(k) for k in (1, 3, 6)], C=10.0)
        assert cross_val_score(model, strings, labels, cv=3).mean() > 0.85
        assert model.fit(strings, labels).kernel_names_[2] == "Spectrum(k=6) on all features"

    @pytest.mark.parametrize(
        ("normalize", "approximation"),
        [
            ("diagonal", None),
            ("cosine", None),
            ("center", None),
            (None, None),
            ("diagonal", Nystroem(40, cutoff=0.0)),
        ],
        ids=str,
    )
    def test_prediction_equals_precomputed(self, normalize, approximation):
        strings, labels = sequences()
        column = np.array(strings, dtype=object)[:, None]
        kernels = [Spectrum(2), Spectrum(3, normalized=False)]
        options = {"normalize": normalize, "tol": 1e-7, "p": 2.0}
        model = MKLClassifier(kernels, approximation=approximation, **options).fit(
            strings[:40], labels[:40]
        )
        grams = [Precomputed(kernel.block(column, column)) for kernel in kernels]
        index = np.arange(60)[:, None]
        twin = MKLClassifier(grams, **options).fit(index[:40], labels[:40])
        np.testing.assert_allclose(
            model.decision_function(strings), twin.decision_function(index), atol=1e-5
        )

    def test_forms_of_the_column(self):
        strings, labels = sequences(40)
        column = np.array(strings, dtype=object)
        expected = MKLClassifier([Spectrum(3)]).fit(strings, labels).decision_function(strings)
        frames = pd.Series(strings), pd.DataFrame({"s": strings})
        for same in (
            column,
            column[:, None],
            column.astype(str),
            *frames,
            [[string] for string in strings],
        ):
            np.testing.assert_array_equal(
                MKLClassifier([Spectrum(3)]).fit(same, labels).decision_function(same), expected
            )

    def test_beside_numbers_in_one_array(self):
        strings, labels = sequences(40)
        table = np.empty((40, 2), dtype=object)
        table[:, 0], table[:, 1] = strings, np.arange(40.0) % 3
        model = MKLClassifier([Spectrum(3, features=0), RBF(features=1)]).fit(table, labels)
        rows = [[string, number] for string, number in table]
        np.testing.assert_array_equal(model.decision_function(rows), model.decision_function(table))
        assert model.categories_ == {"x0": sorted(set(strings))}

    def test_other_estimators(self):
        strings, _ = sequences(40)
        counts = np.array([string.count("TA") for string in strings], dtype=float)
        model = MKLRegressor([Spectrum(2)], C=100.0).fit(strings, counts)
        assert model.score(strings, counts) > 0.8
        inside = MKLOneClass([Spectrum(3)], nu=0.2).fit(strings).predict(["ACGT" * 10, "?!" * 20])
        assert inside[1] == -1

    def test_prediction_leaves_the_model_as_it_was(self):
        strings, labels = sequences(40)
        model = MKLClassifier([Spectrum(3)]).fit(strings, labels)
        before = pickle.dumps(model)
        model.predict(["TTTTTT", "ACGTACGT"])
        assert pickle.dumps(model) == before


def test_function_of_strings():
    strings, labels = sequences(40)

    def common_letters(A, B):
        return np.array([[len(set(a[0]) & set(b[0])) for b in B] for a in A], dtype=float)

    kernels = [Spectrum(3), FunctionKernel(common_letters, reads="strings")]
    model = MKLClassifier(kernels).fit(strings, labels)
    assert model.kernel_names_[1] == "common_letters on all features"
    with pytest.raises(ValueError, match="is not known; use 'numbers'"):
        MKLClassifier([FunctionKernel(common_letters, reads="text")]).fit(X, y)


class TestGaussianProcessKernels:
    KERNELS = (
        gp.RBF(1.5),
        gp.ConstantKernel(2.0) * gp.Matern(1.5),
        gp.RationalQuadratic() + gp.DotProduct(),
    )

    def test_in_a_list(self):
        model = clone(MKLClassifier(list(self.KERNELS), tol=1e-6, p=2.0)).fit(X, y)
        assert model.kernel_names_[0] == "RBF(length_scale=1.5) on all features"
        twin = MKLClassifier([Precomputed(kernel(X)) for kernel in self.KERNELS], tol=1e-6, p=2.0)
        index = np.arange(len(X))[:, None]
        np.testing.assert_allclose(
            model.decision_function(X), twin.fit(index, y).decision_function(index), atol=1e-4
        )

    def test_diagonal_is_theirs(self):
        class Counting(gp.DotProduct):
            calls = 0

            def diag(self, X):
                Counting.calls += 1
                return super().diag(X)

        kernel = FunctionKernel(Counting())
        np.testing.assert_allclose(kernel.diagonal(X), np.diagonal(kernel.block(X, X)))
        assert Counting.calls == 1

    def test_noise_is_refused(self):
        with pytest.raises(ValueError, match="WhiteKernel"):
            MKLClassifier([gp.RBF() + gp.WhiteKernel()]).fit(X, y)


def graphs(grakel, n=30, seed=0):
    """Rings with labelled vertices; those of the first class have chords."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(n):
        size = int(rng.integers(6, 10))
        edges = {(v, (v + 1) % size) for v in range(size)} | (
            {(v, (v + 2) % size) for v in range(3)} if i % 2 else set()
        )
        edges |= {(b, a) for a, b in edges}
        out.append(
            grakel.Graph(list(edges), node_labels={v: int(rng.integers(3)) for v in range(size)})
        )
    return out, np.arange(n) % 2


@pytest.mark.long  # its package is installed by `make test-all` alone
def test_grakel():
    grakel = pytest.importorskip("grakel")
    data, labels = graphs(grakel)
    makers = [
        grakel.WeisfeilerLehman(n_iter=2, base_graph_kernel=grakel.VertexHistogram, normalize=True),
        grakel.ShortestPath(),
    ]
    kernels = {
        type(maker).__name__: Precomputed(maker.fit_transform(data[:20])) for maker in makers
    }
    model = MKLClassifier(kernels, C=10.0).fit(np.arange(20)[:, None], labels[:20])
    scores = model.decision_function([maker.transform(data[20:]) for maker in makers])
    assert np.mean((scores > 0) == labels[20:]) >= 0.8
    assert set(model.group_weights_) == {"WeisfeilerLehman", "ShortestPath"}
    # one matrix over all graphs, with sample indices as X, gives the same where the kernel does not
    # depend on the others
    whole = {
        name: Precomputed(maker.fit_transform(data))
        for name, maker in zip(kernels, makers, strict=True)
    }
    again = MKLClassifier(whole, C=10.0).fit(np.arange(20)[:, None], labels[:20])
    np.testing.assert_allclose(
        again.decision_function(np.arange(20, 30)[:, None]), scores, atol=1e-6
    )
