"""Model files: they predict as the model did, and nothing but a whole one is read."""

import contextlib
import copy
import errno
import io
import json
import os
import pickle
import re
import socket
import stat
import subprocess
import sys
import textwrap
import threading
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone

import manykernels
from conftest import examples, toy
from manykernels import KernelCollection, MKLClassifier, MKLOneClass, MKLRegressor
from manykernels._files import (
    CannotWrite,
    CorruptFile,
    container,
    read,
    replace_file,
    write,
    write_output,
)
from manykernels.banks import make_bank
from manykernels.combinations import Combination, PolynomialMixture, Product
from manykernels.kernels import (
    RBF,
    Hamming,
    Kernel,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Spectrum,
    on_groups,
)
from manykernels.losses import Logistic
from manykernels.lowrank import IncompleteCholesky, Nystroem, RandomFourier
from manykernels.persistence.specs import rebuild_points
from manykernels.persistence.values import CannotSave, known_classes
from manykernels.regularizers import L1, BlockNorm, ElasticNet, GeneralizedKL
from manykernels.solvers import SOLVERS, SPG

X, y = toy(60)
three = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.2 * X[:, 1], [-0.5, 0.5])]
target = X[:, 0] * X[:, 1] + 0.1 * X[:, 2]
KERNELS = [
    RBF(),
    Linear(features=[0, 1]),
    Polynomial(2, features=slice(1, 3)),
    Laplacian(0.3),
    RBF(2.0, features=0),
]
MASKED = KernelCollection.masked_rbf(
    np.tile([0.3, 0.7, 1.0], 12),
    np.tile(np.array([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 0, 1]], dtype=bool), (12, 1)),
)
FRAME = pd.DataFrame(X, columns=["x0", "x1", "x2", "x3"])
TWO = np.stack([target, X[:, 3]], axis=1)
LEARNED = (
    "dual_coef_",
    "support_",
    "intercept_",
    "classes_",
    "feature_names_in_",
    "n_features_in_",
    "n_iter_",
    "p_",
)
MODELS = {
    "auto": (MKLClassifier(), X, y),
    "no support": (MKLRegressor(KERNELS, epsilon=1e6), X, target),
    "ovr": (MKLClassifier(KERNELS, p=1.5), X, three),
    "ovo, per class": (
        MKLClassifier(KERNELS, multiclass="ovo", share_weights=False, class_weight={"a": 2.0}),
        X,
        three,
    ),
    "squared hinge": (
        MKLClassifier({"wide": KERNELS[:2], "narrow": KERNELS[2:]}, loss="squared_hinge"),
        X,
        y > 0,
    ),
    "logistic": (MKLClassifier(KERNELS, loss="logistic"), X, three),
    "logistic, nystroem": (
        MKLClassifier(KERNELS, loss=Logistic(), approximation=Nystroem(20)),
        X,
        y,
    ),
    "cosine": (MKLClassifier(KERNELS, normalize="cosine"), X, y.astype(int)),
    "trace": (MKLClassifier(KERNELS, normalize="trace", C=100.0), X, y),
    "center": (MKLClassifier(KERNELS, normalize="center"), X, y),
    "not normalized": (MKLClassifier(KERNELS, normalize=None), X, y),
    "sparse": (MKLClassifier([RBF(), Linear()]), sparse.csr_array(np.where(X > 1.3, X, 0)), y),
    "masked": (MKLClassifier(MASKED), X, y),
    "product": (MKLClassifier(combination="product", regularizer=L1(0.3), random_state=0), X, y),
    "groups": (MKLClassifier(combination=Product(["a", "a", "b", "b"], starts=1)), X, y),
    "polynomials": (MKLClassifier(combination=PolynomialMixture(starts=1), p=2), X, y),
    "nystroem": (MKLClassifier(KERNELS, approximation=Nystroem(20)), X, three),
    "nystroem, masked": (MKLClassifier(MASKED, approximation=Nystroem(10)), X, y),
    "nystroem, sparse": (
        MKLClassifier([RBF()], approximation=Nystroem(10)),
        sparse.csr_array(np.where(X > 0, X, 0)),
        y,
    ),
    "cholesky": (MKLClassifier(KERNELS, approximation=IncompleteCholesky(10)), X, y),
    "fourier": (
        MKLClassifier([RBF(), RBF(0.1, features=[1, 2])], approximation=RandomFourier(20)),
        X,
        y,
    ),
    "frame": (MKLClassifier([RBF(features="x1"), Linear(features=["x0", "x3"])]), FRAME, y),
    "regressor": (MKLRegressor(KERNELS, p=2.0, epsilon=0.01), X, target),
    "targets": (
        MKLRegressor(KERNELS, loss="squared", regularizer=GeneralizedKL(np.ones(5))),
        X,
        TWO,
    ),
    "one class": (MKLOneClass(KERNELS, nu=0.2, p=2.0), X, None),
    "one class, centered": (MKLOneClass(KERNELS, nu=0.2, p=2.0, normalize="center"), X, None),
    "elastic net": (
        MKLClassifier(KERNELS, regularizer=ElasticNet(0.1, 1.0), solver=SPG(nonmonotone=False)),
        X,
        y,
    ),
    "block norm": (
        MKLClassifier(KERNELS, regularizer=BlockNorm(["a", "a", "b", "b", "b"]), random_state=3),
        X,
        y,
    ),
    "no kernels left": (MKLClassifier(KERNELS, regularizer=L1(1e9)), X, y),
    "chosen p": (MKLClassifier(KERNELS[:2], p="auto", random_state=0), X, y),
}


@pytest.fixture(scope="module")
def fitted():
    """Models of the table, fitted when they are asked for."""
    known = {}

    def one(name):
        if name not in known:
            model, points, targets = MODELS[name]
            known[name] = clone(model).fit(points, targets)
        return known[name], MODELS[name][1]

    return one


def decisions(model, points):
    return (
        model.predict(points)
        if isinstance(model, MKLRegressor)
        else model.decision_function(points)
    )


@pytest.mark.parametrize("approximation", [None, Nystroem(15)], ids=["exact", "nystroem"])
def test_categories_and_strings_travel_along(approximation, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.standard_normal(60), "kind": rng.choice(["ab", "c"], 60)})
    frame["text"] = ["".join(rng.choice(list("acgt"), 8)) for _ in range(60)]
    y = np.where(
        frame["size"] + (frame["kind"] == "c") + frame["text"].str.contains("aa") > 0.7, 1, 0
    )
    kernels = {
        "size": RBF(features="size"),
        "kind": Hamming(features="kind"),
        "text": Spectrum(2, features="text"),
    }
    model = MKLClassifier(kernels, approximation=approximation).fit(frame, y)
    manykernels.save(model, tmp_path / "m.mk")
    loaded = manykernels.load(tmp_path / "m.mk")
    assert loaded.categories_ == model.categories_
    new = frame.assign(kind="never seen", text=frame["text"] + "gg")
    for points in (frame, new):
        np.testing.assert_allclose(
            loaded.decision_function(points), model.decision_function(points), rtol=1e-6, atol=1e-9
        )
    assert loaded.group_weights_ == pytest.approx(model.group_weights_)


def test_groups_can_be_fitted_again(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "a": rng.standard_normal(40),
            "b": rng.standard_normal(40),
            "kind": rng.choice(["u", "v"], 40),
        }
    )
    y = np.where(frame["a"] > 0, 1, 0)
    model = MKLClassifier(on_groups({"numbers": ["a", "b"], "kinds": ["kind"]})).fit(frame, y)
    manykernels.save(model, tmp_path / "m.mk")
    again = manykernels.load(tmp_path / "m.mk").fit(frame, y)
    np.testing.assert_allclose(
        again.decision_function(frame), model.decision_function(frame), rtol=1e-6
    )


def test_precomputed_models_tell_what_they_can(tmp_path):
    A, b = toy(30)
    model = MKLClassifier([Precomputed(A @ A.T), Precomputed(np.eye(30))]).fit(
        np.arange(30)[:, None], b
    )
    manykernels.save(model, tmp_path / "m.mk")
    loaded = manykernels.load(tmp_path / "m.mk")
    assert "kernel_contributions_" in dir(loaded)
    assert not hasattr(loaded, "kernel_contributions_")
    assert "contribution" not in loaded.weights_frame()
    assert "100 %" in loaded._repr_html_()


def test_other_estimators_are_refused(tmp_path):
    class Mine(MKLClassifier):
        pass

    with pytest.raises(CannotSave, match="Mine is not an estimator of this library"):
        manykernels.save(Mine([RBF()]).fit(*toy(30)), tmp_path / "m.mk")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
class TestRoundTrip:
    def test_predicts_as_before(self, name, fitted, tmp_path):
        model, points = fitted(name)
        manykernels.save(model, tmp_path / "m.mk", extra={"scaled by": [1.0, 2.0]})
        loaded = manykernels.load(tmp_path / "m.mk")
        if not sparse.issparse(points):
            points = points + 0.1
        np.testing.assert_allclose(
            decisions(loaded, points), decisions(model, points), rtol=1e-10, atol=1e-12
        )
        before, after = model.predict(points), loaded.predict(points)
        if before.dtype.kind == "f":
            np.testing.assert_allclose(after, before, rtol=1e-10, atol=1e-12)
        else:
            np.testing.assert_array_equal(after, before)
        assert loaded.extra_ == {"scaled by": [1.0, 2.0]}

    def test_attributes_are_there(self, name, fitted, tmp_path):
        model, _ = fitted(name)
        manykernels.save(model, tmp_path / "m.mk")
        loaded = manykernels.load(tmp_path / "m.mk")
        np.testing.assert_array_equal(loaded.kernel_weights_, model.kernel_weights_)
        assert loaded.result_.seconds == model.result_.seconds > model.result_.counters.seconds
        assert list(loaded.kernel_names_) == list(model.kernel_names_)
        # float32 or 64
        pd.testing.assert_frame_equal(
            loaded.weights_frame(), model.weights_frame(), rtol=1e-3, atol=1e-5
        )
        for name in (
            "dual_coef_",
            "support_",
            "intercept_",
            "classes_",
            "feature_names_in_",
            "n_features_in_",
            "n_iter_",
            "p_",
        ):
            if hasattr(model, name):
                np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
                assert (
                    np.asarray(getattr(loaded, name)).dtype
                    == np.asarray(getattr(model, name)).dtype
                )
        result = loaded.result_
        assert result.status is model.result_.status
        assert result.history == model.result_.history
        assert result.counters == model.result_.counters
        assert result.certificate[:3] == model.result_.certificate[:3]
        assert result.status.name in repr(result)
        assert repr(loaded.get_params()) == repr(model.get_params())
        assert loaded.unsaved_parameters_ == {}

    def test_a_loaded_model_can_be_saved_pickled_and_fitted(self, name, fitted, tmp_path):
        model, points = fitted(name)
        manykernels.save(model, tmp_path / "m.mk")
        loaded = manykernels.load(tmp_path / "m.mk")
        manykernels.save(loaded, tmp_path / "again.mk")
        again = pickle.loads(pickle.dumps(manykernels.load(tmp_path / "again.mk")))
        np.testing.assert_array_equal(decisions(again, points), decisions(loaded, points))
        refitted = clone(loaded).fit(points, MODELS[name][2])
        np.testing.assert_allclose(
            decisions(refitted, points), decisions(model, points), rtol=1e-10, atol=1e-10
        )


class TestContent:
    def test_only_support_vectors_are_kept(self, tmp_path):
        model = MKLClassifier(KERNELS, C=10.0).fit(X, y)
        manykernels.save(model, tmp_path / "m.mk")
        loaded = manykernels.load(tmp_path / "m.mk")
        assert loaded.bank_.n == model.support_.size < 60

    def test_other_tools_can_read_the_arrays(self, tmp_path):
        from safetensors.numpy import load_file

        model = MKLClassifier(KERNELS).fit(X, y)
        manykernels.save(model, tmp_path / "m.mk")
        assert any(
            array.shape == (model.support_.size, 4)
            for array in load_file(tmp_path / "m.mk").values()
        )

    def test_precomputed_kernels_predict_from_matrices(self, tmp_path):
        grams = [X @ X.T, np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2))]
        index = np.arange(60)[:, None]
        model = MKLClassifier(
            [Precomputed(K, title=f"source {k}") for k, K in enumerate(grams)]
        ).fit(index[:40], y[:40])
        manykernels.save(model, tmp_path / "m.mk")
        loaded = manykernels.load(tmp_path / "m.mk")
        tests = [K[40:, :40] for K in grams]
        np.testing.assert_array_equal(
            loaded.decision_function(tests), model.decision_function(tests)
        )
        assert loaded.kernel_names_ == ["source 0", "source 1"]
        with pytest.raises(ValueError, match=r"K\(test, train\)"):
            loaded.predict(index[40:])
        with pytest.raises(ValueError, match=r"Precomputed\(K\) again"):
            loaded.fit(index[:40], y[:40])
        assert os.path.getsize(tmp_path / "m.mk") < 20_000

    @pytest.mark.parametrize(
        "options",
        [{"normalize": "cosine"}, {"normalize": "center"}, {"approximation": Nystroem(5)}],
        ids=str,
    )
    def test_precomputed_kernels_that_need_indices_are_refused(self, options, tmp_path):
        model = MKLClassifier([Precomputed(X @ X.T + np.eye(60))], **options).fit(
            np.arange(60)[:, None], y
        )
        with pytest.raises(CannotSave, match="pickle"):
            manykernels.save(model, tmp_path / "m.mk")

    def test_a_fitted_bank_as_parameter(self, tmp_path):
        bank = make_bank(KernelCollection(KERNELS), X, storage="dense")
        model = MKLClassifier(bank).fit(X, y)
        manykernels.save(model, tmp_path / "m.mk")
        loaded = manykernels.load(tmp_path / "m.mk")
        np.testing.assert_allclose(
            loaded.decision_function(X), model.decision_function(X), rtol=1e-10
        )
        assert len(loaded.fit(X, y).kernel_weights_) == 5

    def test_what_is_of_one_run_is_left_out(self, tmp_path):
        model = MKLClassifier(
            KERNELS, random_state=np.random.RandomState(0), callbacks=[print]
        ).fit(X, y)
        manykernels.save(model, tmp_path / "m.mk")
        loaded = manykernels.load(tmp_path / "m.mk")
        assert loaded.callbacks is None
        assert "RandomState" in loaded.unsaved_parameters_["random_state"]

    def test_paths_in_parameters_become_texts(self, tmp_path):
        model = MKLClassifier(KERNELS, approximation=Nystroem(10, folder=tmp_path)).fit(X, y)
        manykernels.save(model, tmp_path / "m.mk")
        assert manykernels.load(tmp_path / "m.mk").approximation == Nystroem(
            10, folder=str(tmp_path)
        )

    def test_extra_must_be_json(self, tmp_path):
        model = MKLClassifier(KERNELS).fit(X, y)
        with pytest.raises(CannotSave, match="extra"):
            manykernels.save(model, tmp_path / "m.mk", extra={"f": print})
        with pytest.raises(CannotSave, match="extra"):
            manykernels.save(model, tmp_path / "m.mk", extra={"x": np.nan})
        assert list(tmp_path.iterdir()) == []

    def test_unfitted(self, tmp_path):
        with pytest.raises(ValueError, match="not fitted"):
            manykernels.save(MKLClassifier(), tmp_path / "m.mk")


class Mine(Kernel):
    def block(self, A, B):
        return A @ B.T


class MyRBF(RBF):
    pass


class MyCombination(Combination):
    def gram(self, weights, rows, cols):
        return (rows * weights) @ cols.T

    def gradient(self, weights, beta):
        return np.square(beta @ self.X).sum(axis=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "model",
    [
        MKLClassifier([lambda A, B: A @ B.T]),
        MKLClassifier([Mine()]),
        MKLClassifier([MyRBF(0.5)]),
        MKLClassifier(combination=MyCombination(), p=2, max_iter=5),
    ],
    ids=["function", "class", "subclass", "combination"],
)
def test_code_of_the_user_is_refused_before_anything_is_written(model, tmp_path):
    model = clone(model).fit(X, y)
    with pytest.raises(CannotSave, match="joblib or skops"):
        manykernels.save(model, tmp_path / "m.mk")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["ovo, per class", "center", "product", "nystroem", "masked", "regressor", "one class"]
)
@pytest.mark.parametrize(
    "kept",
    # the package skops is installed by `make test-all` alone
    ["pickle", "copy", "joblib", pytest.param("skops", marks=pytest.mark.long)],
)
def test_other_ways_to_keep_a_model(name, kept, fitted, tmp_path):
    model, points = fitted(name)
    if kept == "pickle":
        other = pickle.loads(pickle.dumps(model))
    elif kept == "copy":
        other = copy.deepcopy(model)
    elif kept == "joblib":
        joblib.dump(model, tmp_path / "m.joblib")
        other = joblib.load(tmp_path / "m.joblib")
    else:
        skops = pytest.importorskip("skops.io")
        skops.dump(model, tmp_path / "m.skops")
        trusted = skops.get_untrusted_types(file=tmp_path / "m.skops")
        other = skops.load(tmp_path / "m.skops", trusted=trusted)
    np.testing.assert_array_equal(decisions(other, points), decisions(model, points))


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The bytes of a sound file."""
    path = tmp_path_factory.mktemp("good") / "m.mk"
    manykernels.save(MKLClassifier(KERNELS).fit(X, y), path)
    return path.read_bytes()


def damage(kind, place, size, seed, data):
    """Damaged bytes; `place` is a part of the length."""
    at, data = int(place * (len(data) - 1)), bytearray(data)
    if kind == "cut":
        return bytes(data[:at])
    if kind == "flip":
        data[at] ^= 1 << (seed % 8)
    elif kind == "zeros":
        data[at : at + size] = bytes(len(data[at : at + size]))
    elif kind == "noise":
        data[at : at + size] = np.random.default_rng(seed).bytes(len(data[at : at + size]))
    elif kind == "append":
        data += np.random.default_rng(seed).bytes(size)
    elif kind == "insert":
        data[at:at] = bytes(size)
    elif kind == "remove":
        del data[at : at + size]
    elif kind == "header":
        data[:8] = np.random.default_rng(seed).integers(0, 2**63).tobytes()
    return bytes(data)


class TestDamage:
    @settings(
        max_examples=examples(120),
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(
        kind=st.sampled_from(
            ["cut", "flip", "zeros", "noise", "append", "insert", "remove", "header"]
        ),
        place=st.floats(0, 1),
        size=st.integers(1, 600),
        seed=st.integers(0, 2**31),
    )
    def test_is_always_found(self, kind, place, size, seed, good, tmp_path):
        data = damage(kind, place, size, seed, good)
        path = tmp_path / "m.mk"
        path.write_bytes(data)
        if data == good:  # zeros where there were zeros
            manykernels.load(path)
            return
        with pytest.raises(CorruptFile):
            manykernels.load(path)

    def test_in_every_part_of_the_header(self, good, tmp_path):
        for bit in range(0, 2400, 7):
            data = bytearray(good)
            data[bit // 8] ^= 1 << bit % 8
            (tmp_path / "m.mk").write_bytes(data)
            with pytest.raises(CorruptFile):
                manykernels.load(tmp_path / "m.mk")


def opened(file):
    """Entries of the header, content and arrays of the bytes of a file."""
    length = int.from_bytes(file[:8], "little")
    entries, data = json.loads(file[8 : 8 + length]), file[8 + length :]
    del entries["__metadata__"]
    start, end = entries["content"]["data_offsets"]
    return entries, json.loads(zlib.decompress(data[start:end])), data


def header(entries, data=b"", **texts):
    """A file of version 1 of the format with this header; the checksum is right."""
    import hashlib

    texts = {
        "format": "manykernels",
        "schema": "1",
        "version": "0",
        "kind": "model",
        "sha256": "0" * 64,
        "content": "{}",
    } | texts
    text = json.dumps({"__metadata__": texts, **entries}).encode()
    start = len(text).to_bytes(8, "little")
    checksum = hashlib.sha256(start + text + data).hexdigest()
    return start + text.replace(b"0" * 64, checksum.encode(), 1) + data


class Trap:
    """What a pickle could do."""

    def __reduce__(self):
        return print, ("this must never run",)


def pickled_array():
    buffer = io.BytesIO()
    np.save(buffer, np.array([Trap()], dtype=object), allow_pickle=True)
    return buffer.getvalue()


class TestStrangers:
    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"\0" * 100,
            pickle.dumps(Trap()),
            pickle.dumps(MKLClassifier()),
            pickled_array(),
            b"PK\x03\x04" + bytes(100),
            b"\x7fELF" + bytes(100),
            b"1,2,3\n4,5,6\n" * 20,
            (2**63).to_bytes(8, "little") + b"{}",
            (2).to_bytes(8, "little") + b"{}",
            (2).to_bytes(8, "little") + b"[]",
            (10**5).to_bytes(8, "little") + b"[" * 10**5,
            (10**5).to_bytes(8, "little") + b'{"a":' * 20_000,
        ],
        ids=range(13),
    )
    def test_foreign_files(self, data, tmp_path, capsys):
        (tmp_path / "m.mk").write_bytes(data)
        with pytest.raises(CorruptFile, match="not a file of manykernels"):
            manykernels.load(tmp_path / "m.mk")
        assert "never run" not in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("entries", "data"),
        [
            ({"a": {"dtype": "O", "shape": [1], "data_offsets": [0, 8]}}, bytes(8)),
            ({"a": {"dtype": ["F64"], "shape": [1], "data_offsets": [0, 8]}}, bytes(8)),
            ({"a": {"dtype": "F64", "shape": [2**40, 2**40], "data_offsets": [0, 8]}}, bytes(8)),
            ({"a": {"dtype": "F64", "shape": [2**32, 2**32], "data_offsets": [0, 0]}}, b""),
            ({"a": {"dtype": "F64", "shape": [-1], "data_offsets": [0, 8]}}, bytes(8)),
            ({"a": {"dtype": "F64", "shape": [True], "data_offsets": [0, 8]}}, bytes(8)),
            ({"a": {"dtype": "F64", "shape": [1.0], "data_offsets": [0, 8]}}, bytes(8)),
            ({"a": {"dtype": "F64", "shape": [1] * 64, "data_offsets": [0, 8]}}, bytes(8)),
            ({"a": {"dtype": "F64", "shape": [1], "data_offsets": [8, 16]}}, bytes(16)),
            ({"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}, bytes(16)),
            ({"a": {"dtype": "F64", "shape": [10**9], "data_offsets": [0, 8 * 10**9]}}, bytes(8)),
            ({k: {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]} for k in "ab"}, bytes(8)),
            ({"a": 1}, b""),
            ({"a": {"dtype": "F64"}}, b""),
        ],
        ids=range(14),
    )
    def test_headers_that_lie(self, entries, data, tmp_path):
        (tmp_path / "m.mk").write_bytes(header(entries, data))
        with pytest.raises(CorruptFile, match="damaged"):
            read(tmp_path / "m.mk", "model")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (zlib.compress(b"0" * 10**8, 9), "too long"),
            (zlib.compress(b"0" * 10**8, 9)[:1000], "too long"),
            (zlib.compress(b"{}", 0), "sound model"),
            (zlib.compress(b"{}")[:-1], "not complete"),
            (zlib.compress(b"{}") + b"{}", "not complete"),
            (zlib.compress(b"{"), "damaged"),
            (b"{}", "damaged"),
            (b"", "not complete"),
        ],
        ids=range(8),
    )
    def test_content_that_does_not_inflate(self, content, message, tmp_path):
        entry = {"dtype": "U8", "shape": [len(content)], "data_offsets": [0, len(content)]}
        file = header({"content": entry}, content, schema="2")
        (tmp_path / "m.mk").write_bytes(file)
        tracemalloc.start()
        try:
            with pytest.raises(CorruptFile, match=message):
                manykernels.load(tmp_path / "m.mk")
            assert tracemalloc.get_traced_memory()[1] < 30 * len(file) + 10**6
        finally:
            tracemalloc.stop()

    def test_content_is_bytes(self, tmp_path):
        for entries in (
            {},
            {"content": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}},
            {"content": {"dtype": "U8", "shape": [2, 4], "data_offsets": [0, 8]}},
        ):
            (tmp_path / "m.mk").write_bytes(header(entries, bytes(8 * len(entries)), schema="2"))
            with pytest.raises(CorruptFile, match="not complete"):
                manykernels.load(tmp_path / "m.mk")

    def test_what_deflates_too_well_is_stored(self, tmp_path):
        write(tmp_path / "m.mk", {}, [0] * 100_000, "model")
        assert read(tmp_path / "m.mk", "model") == ({}, [0] * 100_000)

    @pytest.mark.parametrize(
        ("texts", "message"),
        [
            ({"schema": "3"}, "install a release"),
            ({"kind": "checkpoint"}, "holds a checkpoint"),
            ({"content": "{"}, "damaged"),
            ({"content": "[" * 10**6}, "damaged"),
            ({"content": '{"a": 1, "a": 2}'}, "twice"),
            ({"content": "NaN"}, "not JSON"),
            ({"content": "{}"}, "sound model"),
            ({"content": "7"}, "sound model"),
            ({"content": '{"estimator": "os.system"}'}, "may hold"),
            (
                {
                    "content": '{"estimator": "MKLClassifier", "parameters": '
                    '{"kernels": {"object": ["Popen", {}]}}}'
                },
                "may hold",
            ),
            (
                {
                    "content": '{"estimator": "MKLClassifier", "parameters": '
                    '{"kernels": {"unpack": []}}}'
                },
                "Unknown kind",
            ),
            (
                {
                    "content": '{"estimator": "MKLClassifier", "parameters": {"p": '
                    + "[" * 50
                    + "]" * 50
                    + "}}"
                },
                "deeply",
            ),
            (
                {
                    "content": '{"estimator": "MKLClassifier", "parameters": '
                    '{"p": {"array": ["object", [1]]}}}'
                },
                "numbers",
            ),
        ],
        ids=range(13),
    )
    def test_content_that_lies(self, texts, message, tmp_path):
        (tmp_path / "m.mk").write_bytes(header({}, **texts))
        with pytest.raises(CorruptFile, match=message):
            manykernels.load(tmp_path / "m.mk")

    @settings(
        max_examples=examples(60),
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(seed=st.integers(0, 2**31))
    def test_sound_checksums_over_changed_content(self, seed, good, tmp_path):
        """Whoever can compute the checksum can write anything; the worst is an error when loading
        or predicting.
        """
        rng = np.random.default_rng(seed)
        entries, content, data = opened(good)
        content = _mutated(content, rng)
        (tmp_path / "m.mk").write_bytes(header(entries, data, content=json.dumps(content)))
        try:
            model = manykernels.load(tmp_path / "m.mk")
        except CorruptFile:
            return
        with contextlib.suppress(
            ArithmeticError, AttributeError, LookupError, TypeError, ValueError
        ):
            model.predict(X)

    def test_pipes_and_folders(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(CorruptFile, match="ordinary"):
            manykernels.load(tmp_path / "pipe")
        with pytest.raises(CorruptFile, match="ordinary"):
            manykernels.load(tmp_path)
        with pytest.raises(FileNotFoundError):
            manykernels.load(tmp_path / "nothing")

    def test_object_arrays_cannot_be_written(self, tmp_path):
        with pytest.raises(TypeError, match="object"):
            write(tmp_path / "m.mk", {"a": np.array([Trap()], dtype=object)}, {}, "model")
        assert list(tmp_path.iterdir()) == []


def _sparse_parts(**changes):
    S = sparse.csr_array(np.where(X > 0, X, 0.0))
    parts = {"data": S.data, "indices": S.indices, "indptr": S.indptr, "shape": list(S.shape)}
    return parts | {name: change(parts[name]) for name, change in changes.items()}


def _with(place, value):
    """A change of one entry of an array."""

    def change(array):
        array = np.array(array)
        array[place] = value
        return array

    return change


class TestAlteredFiles:
    """With a sound checksum: what does not fit is refused before it is used."""

    @pytest.mark.parametrize(
        "changes",
        [
            {"indptr": _with(-1, 0)},
            {"indptr": _with(0, 1)},
            {"indptr": _with(3, 10**6)},
            {"indptr": lambda array: array[:-1]},
            {"indptr": lambda array: array.astype(float)},
            {"indices": _with(2, 4)},
            {"indices": _with(2, -1)},
            {"indices": lambda array: array[:-1]},
            {"indices": lambda array: array[:, None]},
            {"data": lambda array: array[:-1]},
            {"data": _with(1, np.nan)},
            {"data": lambda array: array.astype(int)},
            {"shape": lambda shape: [shape[0] + 1, shape[1]]},
            {"shape": lambda shape: [shape[0], 2]},
            {"shape": lambda shape: [shape[0], -4]},
        ],
        ids=range(15),
    )
    def test_sparse_points(self, changes):
        """Of which scipy's own check believes too much: a last end of zero was a crash."""
        rebuild_points(_sparse_parts(), 4)
        with pytest.raises(CorruptFile):
            rebuild_points(_sparse_parts(**changes), 4)

    @pytest.mark.parametrize(
        ("name", "path", "value", "message"),
        [
            ("auto", "learned/classes_", "three", "classes should be an array"),
            ("auto", "learned/intercept_", [[0.1]], "intercepts should be an array"),
            ("auto", "learned/n_features_in_", 3, "other columns"),
            ("auto", "parameters/multiclass", "all", "multiclass='all' is not known"),
            ("auto", "parameters/C", -1.0, "C must be"),
            ("auto", "parameters/normalize", "unit", "normalize='unit' is not known"),
            ("auto", "bank/normalize", "unit", "normalized in no known way"),
            ("auto", "bank/kernels", [], "not a list of kernels"),
            ("auto", "decision/support", {"array": ["int64", [10**6]]}, "fit each other"),
            ("auto", "decision/n_fit", "x", "number of rows"),
            ("auto", "decision/whole", 7, "whole"),
            ("auto", "result/history", [], "history"),
            ("auto", "result/n_iter", 0.5, "number of iterations"),
            ("auto", "result/counters", {"dict": []}, "not complete"),
            ("frame", "learned/feature_names_in_", {"strings": [[1], "object", ["x0"]]}, "names"),
            ("frame", "learned/categories_", {"dict": [["x0", ["a"]]]}, "other codes"),
            ("frame", "learned/categories_", {"dict": [["z", ["a"]]]}, "no column"),
            ("nystroem", "bank/dtype", "float16", "float32 or float64"),
            ("nystroem", "bank/projections", [], "projections should be a list of 5"),
            ("nystroem", "decision/coefficients", {"array": ["float64", []]}, "coefficients"),
            ("fourier", "bank/n_features", 10**12, "other columns"),
            ("product", "bank/center", {"array": ["float64", [0.0]]}, "center"),
            ("product", "bank/combination", 3, "combination"),
            ("masked", "bank/scale", 0.0, "scale"),
            ("center", "bank/bank", {"dict": [["kind", "FourierMap"]]}, "centered"),
        ],
    )
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_says_what_does_not_fit(self, name, path, value, message, fitted, tmp_path):
        manykernels.save(fitted(name)[0], tmp_path / "m.mk")
        arrays, content = read(tmp_path / "m.mk", "model")
        part, key = path.split("/")
        if part == "parameters":
            content[part][key] = value
        else:
            entries = content[part]["dict"]
            entries[[entry[0] for entry in entries].index(key)][1] = value
        write(tmp_path / "m.mk", arrays, content, "model")
        with pytest.raises(CorruptFile, match=message):
            manykernels.load(tmp_path / "m.mk")

    @pytest.mark.parametrize(
        "name", ["auto", "center", "nystroem", "fourier", "product", "masked", "sparse"]
    )
    @pytest.mark.filterwarnings("ignore")
    def test_numbers_that_overflow_together(self, name, fitted, tmp_path):
        """Each is finite, and what a model makes of them must be so, or the file is refused."""
        model, points = fitted(name)[:2]
        manykernels.save(model, tmp_path / "m.mk")
        arrays, content = read(tmp_path / "m.mk", "model")
        refused = 0
        for key, array in arrays.items():
            if array.dtype != np.float64:
                continue
            for value in (1e308, -1e308):
                write(
                    tmp_path / "m.mk",
                    arrays | {key: np.full_like(array, value)},
                    content,
                    "model",
                )
                try:
                    found = manykernels.load(tmp_path / "m.mk").decision_function(points)
                except CorruptFile:
                    refused += 1
                else:
                    assert np.isfinite(found).all(), key
        assert refused > 0

    @pytest.mark.parametrize("count", [60, pytest.param(800, marks=pytest.mark.long)])
    def test_are_refused_or_predict(self, count):
        """In a process of its own, which a fault may end."""
        script = Path(__file__).with_name("altered.py")
        done = subprocess.run(
            [sys.executable, script, str(count)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert done.stdout.endswith("faults: 0\n"), done.stdout[-5000:]


def _mutated(content, rng):
    """The same with one value changed, dropped or put in the place of another."""
    places = []

    def visit(node):
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                visit(node[key])

    visit(content)
    node, key = places[rng.integers(len(places))]
    other, place = places[rng.integers(len(places))]
    change = rng.integers(4)
    if change == 0 and isinstance(node, dict):
        del node[key]
    elif change == 1:
        node[key] = json.loads(json.dumps(other[place]))
    else:
        node[key] = [None, -1, 10**12, "x", [], {}, 0.5, {"float": "nan"}][rng.integers(8)]
    return content


class TestWriting:
    @pytest.mark.parametrize("writer", [replace_file, write_output])
    def test_errors_of_the_content(self, writer, tmp_path):
        """What fails is another file that is read meanwhile, and it is named."""

        def parts():
            yield b"new"
            yield (tmp_path / "other").read_bytes()

        path = tmp_path / "m.mk"
        path.write_bytes(b"old")
        with pytest.raises(FileNotFoundError, match="other"):
            writer(path, parts())
        assert path.read_bytes() == b"old"
        assert [path.name for path in tmp_path.iterdir()] == ["m.mk"]

    @pytest.mark.skipif(sys.platform == "win32", reason="there are no such files there")
    def test_errors_of_the_content_of_a_device(self, tmp_path):
        parts = (path.read_bytes() for path in [tmp_path / "other"])
        with pytest.raises(FileNotFoundError, match="other"):
            write_output("/dev/null", parts)
        if os.path.exists("/dev/full"):
            with pytest.raises(CannotWrite, match="Could not write /dev/full: the disk is full"):
                write_output("/dev/full", [b"new"])

    def test_a_full_disk_leaves_the_old_file(self, tmp_path):
        script = f"""
            import resource, signal, numpy as np
            from manykernels._files import CannotWrite, write
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            path = {str(tmp_path / "m.mk")!r}
            write(path, {{"a": np.arange(10.0)}}, {{"which": "old"}}, "model")
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
            try:
                write(path, {{"a": np.arange(10000.0)}}, {{"which": "new"}}, "model")
            except CannotWrite as error:
                print(error)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "Could not write" in done.stdout
        assert "limit" in done.stdout
        assert read(tmp_path / "m.mk", "model")[1] == {"which": "old"}
        assert [path.name for path in tmp_path.iterdir()] == ["m.mk"]

    @pytest.mark.parametrize(
        ("code", "message"),
        [
            (errno.ENOSPC, "disk is full"),
            (errno.EROFS, "read-only"),
            (errno.EIO, "[Ii]nput/output"),
        ],
    )
    @pytest.mark.parametrize("where", ["os.fsync", "os.replace"])
    def test_errors_of_the_system(self, code, message, where, tmp_path, monkeypatch):
        path = tmp_path / "m.mk"
        write(path, {}, {"which": "old"}, "model")

        def fail(*_):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(where, fail)
        with pytest.raises(CannotWrite, match=message) as caught:
            write(path, {}, {"which": "new"}, "model")
        monkeypatch.undo()
        assert caught.value.errno == code
        assert str(path) in str(caught.value)
        assert read(path, "model")[1] == {"which": "old"}
        assert [path.name for path in tmp_path.iterdir()] == ["m.mk"]

    def test_folders_that_cannot_be_written(self, tmp_path):
        model = MKLClassifier(KERNELS).fit(X, y)
        with pytest.raises(CannotWrite, match="does not exist"):
            manykernels.save(model, tmp_path / "none" / "m.mk")
        with pytest.raises(CannotWrite, match="/proc"):
            manykernels.save(model, "/proc/m.mk")

    def test_ctrl_c_leaves_nothing_behind(self, tmp_path, monkeypatch):
        def interrupted(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / "m.mk", {}, {}, "model")
        assert list(tmp_path.iterdir()) == []

    def test_a_link_stays_a_link(self, tmp_path):
        (tmp_path / "real").mkdir()
        (tmp_path / "m.mk").symlink_to(tmp_path / "real" / "m.mk")
        write(tmp_path / "m.mk", {}, {"which": "new"}, "model")
        assert (tmp_path / "m.mk").is_symlink()
        assert read(tmp_path / "real" / "m.mk", "model")[1] == {"which": "new"}

    def test_leftovers_of_killed_processes_are_removed(self, tmp_path):
        names = [f".m.mk.{'0' * 15}{place}.tmp" for place in range(2)]
        for name in names:
            (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / names[0], (0, 0))
        write(tmp_path / "m.mk", {}, {}, "model")
        assert sorted(path.name for path in tmp_path.iterdir()) == [names[1], "m.mk"]

    @pytest.mark.skipif(sys.platform == "win32", reason="files are of fewer kinds there")
    @pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder", "loop"])
    def test_only_ordinary_files_are_replaced(self, kind, tmp_path, monkeypatch):
        path = tmp_path / "m.mk"
        monkeypatch.chdir(tmp_path)  # names of sockets are short
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as one:
            try:
                {
                    "pipe": lambda: os.mkfifo(path),
                    "socket": lambda: one.bind(path.name),
                    "device": lambda: os.mknod(path, stat.S_IFCHR, os.makedev(1, 3)),
                    "folder": path.mkdir,
                    "loop": lambda: path.symlink_to(path),
                }[kind]()
            except PermissionError:
                pytest.skip("only the administrator makes devices")
        before = os.lstat(path)
        with pytest.raises(CannotWrite, match=f"{kind}|leads back to itself"):
            write(path, {}, {}, "model")
        assert os.path.samestat(os.lstat(path), before)
        write(tmp_path / "other.mk", {}, {}, "model")
        if kind != "folder":  # nor where the file before is kept
            with pytest.raises(CannotWrite, match="give the name of a file"):
                write(tmp_path / "other.mk", {}, {}, "model", previous=path)
        assert os.path.samestat(os.lstat(path), before)
        assert sorted(one.name for one in tmp_path.iterdir()) == ["m.mk", "other.mk"]

    @pytest.mark.skipif(sys.platform == "win32", reason="there are no such permissions there")
    def test_permissions_are_kept(self, tmp_path):
        path, before = tmp_path / "m.mk", os.umask(0o027)
        try:
            write(path, {}, {}, "model")
            assert stat.S_IMODE(path.stat().st_mode) == 0o640
            for mode in (0o600, 0o604, 0o666):
                path.chmod(mode)
                write(path, {}, {}, "model")
                assert stat.S_IMODE(path.stat().st_mode) == mode
        finally:
            os.umask(before)

    @pytest.mark.skipif(sys.platform == "win32", reason="open files are not replaced there")
    def test_threads_write_and_read_at_once(self, tmp_path):
        path = tmp_path / "m.mk"
        write(path, {}, {"which": 0}, "model")
        start = threading.Barrier(4)

        def replace(which):
            start.wait()
            for size in range(15):
                write(path, {"a": np.zeros(1 + which * size)}, {"which": which}, "model")
                read(path, "model")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(replace, range(4)))
        assert [path.name for path in tmp_path.iterdir()] == ["m.mk"]

    def test_a_file_that_is_replaced_before_it_is_opened(self, tmp_path, monkeypatch):
        path = tmp_path / "m.mk"
        write(path, {}, {}, "model")

        def late(*given):
            write(path, {"a": np.zeros(100)}, {"which": "new"}, "model")
            return open(*given)

        monkeypatch.setattr(container, "open", late, raising=False)
        assert read(path, "model")[1] == {"which": "new"}

    def test_leftovers_of_another_process_with_this_number(self, tmp_path):
        (tmp_path / f".m.mk.{os.getpid()}.tmp").write_bytes(b"")
        write(tmp_path / "m.mk", {}, {}, "model")

    @pytest.mark.skipif(sys.platform == "win32", reason="stars are no names there")
    @pytest.mark.parametrize("name", ["a**b.mk", "[a.mk", "?"])
    def test_any_name(self, name, tmp_path):
        write(tmp_path / name, {}, {"which": name}, "model")
        assert read(tmp_path / name, "model")[1] == {"which": name}

    def test_long_names(self, tmp_path):
        path = tmp_path / ("a" * 255)
        for content in (b"old", b"new"):
            replace_file(path, [content])
        assert path.read_bytes() == b"new"
        assert os.listdir(tmp_path) == [path.name]

    def test_an_old_file_that_has_its_second_name_already(self, tmp_path):
        path, previous = tmp_path / "c", tmp_path / "c.old"
        replace_file(path, [b"1"])
        os.link(path, previous)
        replace_file(path, [b"2"], previous=previous)
        assert sorted(os.listdir(tmp_path)) == ["c", "c.old"]

    def test_every_writer_is_this_one(self):
        """Nothing else in the package opens files to write."""
        package = Path(manykernels.__file__).parent
        words = (r"\.write_(text|bytes)\(", r"\.to_(csv|parquet)\(path", r"savez?\w*\(path",
                 r"open\([^)]*[\"'][wax]b?\+?[\"']", r"FileIO|makedirs|\.mkdir\(")  # fmt: skip
        found = [
            path.relative_to(package).as_posix()
            for path in package.rglob("*.py")
            if any(re.search(word, path.read_text("utf-8")) for word in words)
        ]
        # Numba writes compiled loops, into a folder that is made for it
        assert sorted(found) == ["_files/atomic.py", "_loops/jit.py"]


def test_no_pickle_in_the_package():
    """The word is in advice only: nothing imports it."""
    package = Path(manykernels.__file__).parent
    sources = [*(package / "_files").glob("*.py"), *(package / "persistence").glob("*.py")]
    assert len(sources) > 5
    for path in sources:
        assert not any(
            line.strip().startswith(("import pickle", "from pickle"))
            for line in path.read_text().splitlines()
        )
        assert "allow_pickle=True" not in path.read_text()


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_every_solver_may_be_in_a_file(name):
    kind = type(SOLVERS[name]())
    assert known_classes()[kind.__name__] is kind
