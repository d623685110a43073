"""Bad input gets a clear error; odd input a warning and finite output."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from conftest import toy
from manykernels import (
    Checkpoint,
    MKLClassifier,
    MKLClassifierCV,
    MKLFeatureSelector,
    MKLOneClass,
    MKLRegressor,
)
from manykernels.banks import make_bank
from manykernels.callbacks import EarlyStop
from manykernels.kernels import RBF, KernelCollection, Linear, Precomputed
from manykernels.kernels.base import NumberedColumns
from manykernels.lowrank import Nystroem
from manykernels.regularizers import L1, PNormBall

X, y = toy(30)
KERNELS = [RBF(0.5), Linear()]
INDEX = np.arange(30)[:, None]


def broken(value):
    out = X.copy()
    out[3, 1] = value
    return out


@pytest.mark.parametrize("kernels", [["rbf"], [RBF(0.5), "linear"], {"all": "rbf"}])
def test_names_among_kernels(kernels):
    with pytest.raises(TypeError, match=r"Write RBF\(gamma=0.5\).* kernels='rbf 1'"):
        MKLClassifier(kernels).fit(X, y)


def test_what_gives_probabilities_is_said():
    model = MKLClassifier(KERNELS).fit(X, y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="use loss='logistic', or MKLClassifierCV"):
        model.predict_proba(X)


@pytest.mark.parametrize(
    ("data", "labels", "message"),
    [
        (broken(np.nan), y, "NaN"),
        (broken(np.inf), y, "infinity"),
        (X, np.ones(30), "1 class"),
        (X, np.array([]), r"0 sample|inconsistent"),
        (np.empty((0, 4)), np.array([]), "0 sample"),
        (X, y[:-1], "inconsistent"),
        (X[:, :0], y, "0 feature"),
        (X, y + 0.5 * np.arange(30), "Unknown label type|continuous"),
        (np.ma.masked_array(X, X > 1), y, "masked"),
        (X, np.ma.masked_array(y, y > 0), "masked"),
        (np.arange(30).astype("M8[D]")[:, None], y, "dates"),
        (pd.DataFrame({"for": pd.timedelta_range("1D", periods=30)}), y, "times"),
        (X.astype(complex), y, "[Cc]omplex"),
        (X[None], y, "dim"),
    ],
)
def test_bad_data(data, labels, message):
    with pytest.raises(ValueError, match=message):
        MKLClassifier(KERNELS).fit(data, labels)


@pytest.mark.parametrize(
    "made", [np.asarray, sparse.csr_array, lambda A: pd.DataFrame(A).add_prefix("x")]
)
def test_what_to_do_about_missing_values(made):
    message = (
        r"(?s)X contains NaN\.\n1 of 30 rows and 1 of 4 columns.*SimpleImputer.*on_groups.*missing="
    )
    for kernels in ("auto", KERNELS):
        with pytest.raises(ValueError, match=message):
            MKLClassifier(kernels).fit(made(broken(np.nan)), y)
    model = MKLClassifier(KERNELS).fit(made(X), y)
    with pytest.raises(ValueError, match=message):
        model.predict(made(broken(np.nan)))


@pytest.mark.parametrize("pair", [(np.arange(20),), np.arange(20), (1, 2, 3), 5, "ab"])
def test_splits_that_are_no_pairs(pair):
    with pytest.raises(ValueError, match=r"cv must give pairs of .* rows.*; split 1 is"):
        MKLClassifierCV(KERNELS, cv=[(np.arange(20), np.arange(20, 30)), pair]).fit(X, y)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"C": 0}, ValueError, "C must be"),
        ({"C": -1.0}, ValueError, "C must be"),
        ({"C": np.nan}, ValueError, "C must be"),
        ({"C": "1"}, ValueError, "C must be"),
        ({"p": 0.5}, ValueError, "at least 1"),
        ({"p": "2"}, ValueError, "at least 1"),
        ({"p": 2, "regularizer": PNormBall(2)}, ValueError, "not both"),
        ({"regularizer": "l1"}, TypeError, "Regularizer object"),
        ({"tol": 0}, ValueError, "tol must be"),
        ({"max_iter": -1}, ValueError, "max_iter"),
        ({"max_iter": 2.5}, ValueError, "max_iter"),
        ({"kernels": []}, ValueError, "empty"),
        ({"kernels": {}}, ValueError, "empty"),
        ({"kernels": "rbf"}, ValueError, "not known"),
        ({"kernels": [RBF(0.5, features="age")]}, ValueError, "no column names"),
        ({"kernels": [RBF(0.5, features=[9])]}, ValueError, "outside the 4 columns"),
        ({"normalize": "unit"}, ValueError, "normalize must be"),
        ({"solver": "sgd"}, ValueError, "Unknown solver"),
        ({"class_weight": "auto"}, ValueError, "class_weight"),
        ({"class_weight": {7: 1.0}}, ValueError, "not in y"),
        ({"class_weight": {1.0: -1.0}}, ValueError, "class_weight"),
        ({"cache_size": 0}, ValueError, "cache_size"),
        ({"n_jobs": 0}, ValueError, "n_jobs"),
        ({"combination": "product"}, ValueError, "are for sums of kernels"),
        ({"loss": "squared"}, ValueError, "does not suit this estimator"),
        ({"share_weights": "own"}, ValueError, "must be True or False"),
        ({"approximation": "nystroem"}, TypeError, "such as Nystroem"),
        ({"p": L1()}, ValueError, "Give it as regularizer="),
        ({"device": "gpu"}, ValueError, "use 'cpu', 'auto', 'cuda'"),
        ({"checkpoint": 7}, TypeError, "a path or a Checkpoint"),
        ({"checkpoint": Checkpoint("run.mk", every=-1)}, ValueError, "0 or more"),
        ({"callbacks": print}, TypeError, "must be a list"),
        ({"callbacks": [7]}, TypeError, "A callback is"),
        ({"callbacks": [EarlyStop]}, TypeError, "A callback is"),
        ({"solver": "gfb"}, ValueError, "give an approximation"),
        ({"solver": "primal"}, ValueError, "give an approximation"),
    ],
    ids=repr,
)
def test_bad_parameters(options, error, message):
    with pytest.raises(error, match=message):
        MKLClassifier(**{"kernels": KERNELS, **options}).fit(X, y)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.full(30, np.nan), "NaN"),
        (np.full(30, np.inf), "infinity"),
        (np.where(np.arange(30) == 4, -1.0, 1.0), "negative"),
        (np.ones(29), "inconsistent"),
        (np.ones((30, 2)), "1D"),
        (np.zeros(30), "zero"),
        (np.full(30, 1e200), "divide sample_weight"),
        (np.where(y > 0, 1.0, 0.0), "1 class"),
        (np.ma.masked_array(np.ones(30), np.arange(30) == 2), "masked"),
    ],
)
def test_bad_sample_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        MKLClassifier(KERNELS, loss="logistic").fit(X, y, sample_weight=weight)


def test_targets_out_of_range():
    with pytest.raises(ValueError, match="larger units"):
        MKLRegressor(KERNELS).fit(X, 1e50 * X[:, 0])


@pytest.mark.parametrize(
    ("K", "message"),
    [
        (np.ones((30, 29)), "square"),
        (np.triu(np.ones((30, 30))), "symmetric"),
        (-np.eye(30), "most negative eigenvalue is -1"),
        (np.full((30, 30), np.nan), "NaN"),
    ],
)
def test_bad_gram_matrices(K, message):
    with pytest.raises(ValueError, match=message):
        MKLClassifier([Precomputed(K)]).fit(INDEX, y)


def test_gram_matrix_passed_as_X():
    with pytest.raises(ValueError, match="one column of sample indices"):
        MKLClassifier([Precomputed(np.eye(30))]).fit(np.eye(30), y)


def test_bank_fitted_on_other_data():
    bank = make_bank(KernelCollection(KERNELS), X)
    with pytest.raises(ValueError, match="fitted on other data"):
        MKLClassifier(bank).fit(X + 1, y)
    with pytest.raises(ValueError, match="fitted with normalize='diagonal'"):
        MKLClassifier(bank, normalize="trace").fit(X, y)


@pytest.mark.parametrize("width", [2 * 10**9, 2**62])
@pytest.mark.parametrize(
    "model", [MKLClassifier(), MKLClassifier(KERNELS), MKLRegressor("whole"), MKLOneClass(),
              MKLClassifierCV(), MKLClassifier(approximation=Nystroem(2)), MKLFeatureSelector()],
    ids=["auto", "given", "whole", "one class", "tuned", "low rank", "selector"],
)  # fmt: skip
def test_more_columns_than_memory(model, width):
    """A few numbers may claim any number of columns."""
    table = sparse.csr_array(([1.0, 2.0, 3.0], ([0, 1, 2], [0, 5, width - 1])), shape=(6, width))
    with pytest.raises(ValueError, match=f"has {width:,} columns"):
        clone(model).fit(table, np.arange(6) % 2)


def test_names_of_many_columns_are_not_listed(monkeypatch):
    def fail(*_):
        raise AssertionError

    monkeypatch.setattr(NumberedColumns, "__iter__", fail)
    table = sparse.random_array((20, 10**6), density=1e-5, rng=0, format="csr")
    model = MKLClassifier().fit(table, np.arange(20) % 2)
    assert model.predict(table).shape == (20,)


def test_unknown_columns():
    frame = pd.DataFrame(X, columns=list("abcd"))
    with pytest.raises(ValueError, match=r"Unknown column names \['z'\]"):
        MKLClassifier([RBF(0.5, features=["a", "z"])]).fit(frame, y)


def test_bad_fit_leaves_the_old_model_as_it_was():
    clf = MKLClassifier(KERNELS).fit(X, y)
    before = clf.decision_function(X)
    with pytest.raises(ValueError, match="NaN"):
        clf.fit(broken(np.nan), y)
    np.testing.assert_array_equal(clf.decision_function(X), before)


ODD = {
    "zero": np.zeros((30, 30)),
    "constant": np.ones((30, 30)),
    "identity": np.eye(30),
    "1e300 identity": 1e300 * np.eye(30),
    "1e-300 linear": 1e-300 * (X @ X.T),
    "1e300 linear": 1e300 * (X @ X.T),
}
# every SVM on this one takes all the steps that it may
SLOW = ("1e300 linear", None)


@pytest.mark.parametrize(
    ("name", "normalize"),
    [
        pytest.param(*row, marks=pytest.mark.long if row == SLOW else ())
        for row in product(ODD, ["diagonal", "trace", "center", None])
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_odd_kernels_end_in_finite_output(name, normalize):
    odd = ODD[name]
    kernels = [Precomputed(odd), Precomputed(RBF(0.5).block(X, X))]
    for p in (1.0, 2.0):
        clf = MKLClassifier(kernels, p=p, normalize=normalize).fit(INDEX, y)
        assert np.isfinite(clf.decision_function(INDEX)).all()
        assert np.isfinite(clf.kernel_weights_).all()
    alone = MKLClassifier([Precomputed(odd)], normalize=normalize).fit(INDEX, y)
    assert np.isfinite(alone.decision_function(INDEX)).all()


def test_zero_kernel_is_named():
    with pytest.warns(UserWarning, match=r"Kernel 1 \(Precomputed\) is zero"):
        MKLClassifier([RBF(0.5, features=0), Precomputed(np.zeros((30, 30)), features=0)]).fit(
            INDEX, y
        )
