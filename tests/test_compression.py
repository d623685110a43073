"""Models with fewer points: what they promise, and for which models."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    compress,
    load,
    save,
)
from manykernels.compression import compressor, search
from manykernels.compression.compressor import _Compressor
from manykernels.compression.fitting import coefficients, greedy, values
from manykernels.compression.judgment import Likeness, Shares, Target, tell
from manykernels.compression.kernels import kernels_of
from manykernels.compression.rows import known_rows
from manykernels.kernels import (
    RBF,
    Hamming,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Tanimoto,
    on_groups,
)
from manykernels.lowrank import Nystroem
from manykernels.result import Compression, binomial_bound

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(420, 3))
SIDE = X[:, 0] + np.sin(2.0 * X[:, 1])
Y = (SIDE > 0.0).astype(int)
TRAIN, ROWS, NEW = slice(0, 100), slice(100, 350), slice(350, 420)
KERNELS = [RBF(0.3), RBF(1.0), Linear(features=[0])]


def fitted(estimator=None, y=Y, table=X):
    return (estimator or MKLClassifier(KERNELS)).fit(table[TRAIN], y[TRAIN])


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch):
    """Fits at few rows, in few iterations."""
    monkeypatch.setattr(search, "MOST_ROWS", 500)
    monkeypatch.setattr(search, "ITERATIONS", 15)
    monkeypatch.setattr(compressor, "MOST_ROWS", 500)


@pytest.fixture(scope="module")
def model():
    return fitted()


def test_bound_of_clopper_and_pearson():
    for successes, trials in ((0, 5), (3, 10), (298, 300), (300, 300)):
        bound = binomial_bound(successes, trials, 0.95)
        # the smallest probability that is not ruled out by so many successes or more
        if successes:
            assert stats.binom.sf(successes - 1, trials, bound) == pytest.approx(0.05)
        else:
            assert bound == 0.0


@pytest.mark.parametrize(
    "kernels",
    [
        [RBF(0.5), RBF(2.0, features=[1]), Linear(), Polynomial(2, features=[0, 2])],
        [Laplacian(0.4), RBF(0.3)],
    ],
)
def test_slopes_along_points(kernels):
    own = kernels_of(fitted(MKLClassifier(kernels, p=2)))
    rows, points = X[ROWS][:40], X[TRAIN][:4] + 0.01
    placement = own.placement(rows, points, None)
    along = RANDOM.normal(size=(1, 40, 4)).astype(np.float32)
    K = placement.kernels(points)
    np.testing.assert_allclose(K, own.between(rows, points), rtol=1e-4, atol=1e-5)
    slopes = placement.slopes(along, 3)
    for place in ((0, 0), (1, 1), (3, 2)):
        ends = []
        for step in (-1e-3, 1e-3):
            there = points.copy()
            there[place] += step
            ends.append(float((own.between(rows, there) * along).sum()))
        assert slopes[place] == pytest.approx((ends[1] - ends[0]) / 2e-3, rel=1e-2, abs=1e-3)


def test_greedy_takes_the_candidate_that_leaves_least():
    K = RANDOM.normal(size=(1, 30, 8))
    scores = RANDOM.normal(size=(2, 30))
    scores -= scores.mean(axis=1)[:, None]
    scores /= scores.std(axis=1)[:, None]

    def left(some):
        return np.square(values(K[:, :, some], *coefficients(K[:, :, some], scores)) - scores).sum()

    order = greedy(K, scores, 3)
    for size in range(3):
        best = min(range(8), key=lambda j: left([*order[:size], j]))
        assert order[size] == best
    assert greedy(K, scores, 2, first=1)[0] == min(range(1, 8), key=lambda j: left([0, j]))


@pytest.mark.parametrize("points", ["free", "support", "synthetic"])
def test_points(model, points, tmp_path):
    small = compress(model, X[ROWS], n_points=8, points=points, random_state=0)
    found = small.compression_
    assert type(small) is MKLClassifier
    assert found.points == small.bank_.n == 8
    assert found.kind == points
    assert found.points_before == model.support_.size
    own = known_rows(small.bank_.right, X[TRAIN].astype(np.float32).astype(float))
    assert own.all() == (points == "support")
    assert own.any() == (points == "support")
    # what it says of itself is what it does, and its file does the same
    assert np.mean(small.predict(X[NEW]) == model.predict(X[NEW])) > 0.8
    save(small, tmp_path / "small.mk")
    again = load(tmp_path / "small.mk")
    np.testing.assert_array_equal(again.decision_function(X[NEW]), small.decision_function(X[NEW]))
    assert again.compression_ == found
    assert (tmp_path / "small.mk").stat().st_size - found.bytes < 500
    assert not hasattr(small.fit(X[TRAIN], Y[TRAIN]), "compression_")


def test_the_judgment_is_on_rows_that_nothing_else_saw(model, monkeypatch):
    seen = []
    drawn = _Compressor._rows
    monkeypatch.setattr(
        _Compressor, "_rows", lambda self, some, most: seen.append(some) or drawn(self, some, most)
    )
    found = compress(model, X[ROWS], agreement=0.9, random_state=0).compression_
    fit, choice, test = seen
    assert np.array_equal(np.sort(np.concatenate(seen)), np.arange(250))
    assert (found.rows, found.fitted) == (test.size, fit.size + choice.size)
    assert found.bound() < found.agreement
    assert f"{found.bound():.2%}" in str(found)


def test_training_rows_are_not_judged_while_there_are_others(model):
    known = known_rows(X, X[TRAIN])
    shares = Shares.of(known, True, np.random.default_rng(0))
    assert not known[shares.test].any()
    with pytest.warns(UserWarning, match="training rows"):
        compress(model, X[TRAIN], n_points=5, random_state=0)


def test_targets(model, monkeypatch):
    monkeypatch.setattr(_Compressor, "_time", lambda self, model: 0.5 * model.bank_.n)
    small = compress(model, X[ROWS], microseconds=4.0, points="support", random_state=0)
    assert small.compression_.points == 8
    small = compress(model, X[ROWS], n_bytes=2600, points="support", random_state=0)
    assert 2200 < small.compression_.bytes <= 2600
    small = compress(model, X[ROWS], n_bytes=3600, random_state=0)  # more than 46 points need
    assert small.compression_.points == 46
    with pytest.raises(ValueError, match="One target"):
        compress(model, X[ROWS], n_points=3, agreement=0.9)
    with pytest.raises(ValueError, match="single point takes"):
        compress(model, X[ROWS], n_bytes=10)
    with pytest.raises(ValueError, match="Nothing can be gained"):
        compress(model, X[ROWS], n_points=10_000)
    with pytest.raises(ValueError, match="30 rows"):
        compress(model, X[ROWS][:20], n_points=3)
    with pytest.raises(ValueError, match="tolerance is for regression"):
        compress(model, X[ROWS], n_points=3, tolerance=0.2)
    with pytest.raises(TypeError, match="best_estimator_"):
        compress(StandardScaler().fit(X), X)


def test_regression_agrees_within_a_tolerance():
    one = fitted(MKLRegressor(KERNELS), np.stack([SIDE, X[:, 2]], axis=1))
    scores = np.array([[0.0, 1.0, 2.0], [0.0, 10.0, 20.0]])
    agrees = Likeness.of(one, 0.5).judge(scores)
    off = scores + np.array([[0.3, 0.5, 0.0], [0.0, 0.0, 4.5]])
    assert agrees(off, scores).tolist() == [True, False, False]
    few, more = (
        compress(one, X[ROWS], n_points=size, random_state=0).compression_ for size in (5, 30)
    )
    assert more.difference < 0.5 * few.difference


LACKING = np.where((np.arange(420)[:, None] % 3 == 0) & (np.arange(3) == 2), np.nan, X)
MIXED = pd.DataFrame(X, columns=list("abc")).assign(kind=np.where(X[:, 2] > 0, "u", "v"))
THREE = np.digitize(SIDE, [-0.7, 0.7])
MODELS = {
    "several classes": (MKLClassifier(KERNELS), X, THREE),
    "weights of their own": (MKLClassifier(KERNELS, share_weights=False), X, THREE),
    "one-class": (MKLOneClass(KERNELS), X, Y),
    "centered": (MKLClassifier(KERNELS, normalize="center"), X, Y),
    "cosine": (MKLClassifier([Polynomial(2), RBF(1.0)], normalize="cosine"), X, Y),
    "product": (MKLClassifier(combination="product"), X, Y),
    "low rank": (MKLClassifier(KERNELS, approximation=Nystroem(rank=50)), X, Y),
    "pipeline": (make_pipeline(StandardScaler(), MKLClassifier(KERNELS)), X, Y),
    "categories": (MKLClassifier([RBF(0.5, features=["a", "b"]), Hamming(["kind"])]), MIXED, Y),
    "sparse": (MKLClassifier(KERNELS), sparse.csr_array(X), Y),
    "views": (MKLClassifier(on_groups({"a": [0, 1], "b": [2]}), missing="scaled"), LACKING, Y),
    "tuned": (MKLClassifierCV(KERNELS, Cs=[1.0], ps=[1], cv=2), X, Y),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model(name, tmp_path):
    estimator, table, y = MODELS[name]
    one = estimator.fit(table[TRAIN], y[TRAIN])
    small = compress(one, table[ROWS], n_points=12, random_state=0)
    last = small[-1] if name == "pipeline" else small
    assert last.compression_.points == last.bank_.n == 12
    assert last.compression_.agreement > 0.75
    assert np.mean(small.predict(table[NEW]) == one.predict(table[NEW])) > 0.75
    save(small, tmp_path / "small.mk")
    again = load(tmp_path / "small.mk")
    np.testing.assert_array_equal(again.predict(table[NEW]), small.predict(table[NEW]))
    if name == "tuned":
        assert small.predict_proba(table[NEW]).shape == (70, 2)
        with pytest.raises(ValueError, match="not known"):
            small.predict_set(table[NEW])


def test_precomputed_kernels_need_fewer_columns():
    K = RBF(0.5).block(X, X)
    index = np.arange(420)[:, None]
    one = MKLClassifier([Precomputed(K[TRAIN, TRAIN])]).fit(index[TRAIN], Y[TRAIN])
    small = compress(one, [K[ROWS, TRAIN]], n_points=12, random_state=0)
    columns = K[NEW, TRAIN].copy()
    expected = small.predict([columns])
    columns[:, np.setdiff1d(np.arange(100), small.support_)] = 7.0
    np.testing.assert_array_equal(small.predict([columns]), expected)
    assert small.support_.size == 12
    with pytest.raises(ValueError, match="points='support'"):
        compress(one, [K[ROWS, TRAIN]], n_points=12, points="free")
    by_number = MKLClassifier([Precomputed(K)]).fit(index[TRAIN], Y[TRAIN])
    assert compress(by_number, index[ROWS], n_points=12).predict(index[NEW]).size == 70


def test_kernels_that_add_nothing_go():
    table = np.c_[X, 1e-3 * RANDOM.normal(size=420)]
    kernels = [RBF(0.5, features=[0, 1]), Linear(features=[3])]
    one = MKLClassifier(kernels, normalize=None, p=np.inf).fit(table[TRAIN], Y[TRAIN])
    small = compress(one, table[ROWS], n_points=8, random_state=0)
    assert (small.compression_.kernels, small.compression_.kernels_before) == (1, 2)
    assert small.kernel_names_ == one.kernel_names_[:1]


def test_nothing_is_gained_where_too_much_is_asked(model, monkeypatch):
    monkeypatch.setattr(search, "is_reached", lambda *_: False)
    for points in ("free", "support", "auto"):
        with pytest.raises(ValueError, match="Nothing can be gained") as raised:
            compress(model, X[ROWS], points=points, random_state=0)
        assert raised.value.__context__ is None  # once, whatever was tried


@pytest.mark.parametrize(("agreeing", "why"), [(98, "by chance"), (80, "were too few")])
def test_less_than_was_asked_is_told(agreeing, why):
    found = Compression(5, 50, 1, 1, 10, 100, 100, agreeing, 0, 0.1, 0.2, 100, "free")
    with pytest.warns(UserWarning, match=why):
        tell(found, Target.of(0.99, None, None, None))


def test_as_much_as_was_asked_is_not():
    found = Compression(5, 50, 1, 1, 10, 100, 100, 99, 0, 0.1, 0.2, 100, "free")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tell(found, Target.of(0.99, None, None, None))


def test_there_is_nothing_between_bits():
    bits = (np.random.default_rng(0).random((300, 64)) < 0.2).astype(float)
    labels = bits[:, :5].sum(axis=1) > 1
    model = MKLClassifier([Tanimoto()]).fit(bits[:150], labels[:150])
    small = compress(model, bits[150:], agreement=0.9, random_state=0)
    assert small.compression_.points < model.support_.size
    assert small.predict(bits[:5]).shape == (5,)
