"""Pipelines in model files: the loaded one takes raw rows and predicts as it did."""

import contextlib
import json
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest, SelectPercentile, VarianceThreshold, f_regression
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC

from conftest import toy
from manykernels import MKLClassifier, MKLFeatureSelector, MKLOneClass, MKLRegressor, load, save
from manykernels._files import CorruptFile, read, write
from manykernels.kernels import RBF, Hamming, Linear, Precomputed
from manykernels.lowrank import Nystroem
from manykernels.persistence import CannotSave
from manykernels.regularizers import L1
from test_model_files import _mutated, header, opened

X, y = toy(60)
RAW = X * [1.0, 50.0, 0.01, 1.0] + [0.0, 1000.0, 5.0, -3.0]
HOLES = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, RAW)
FEW = sparse.csr_array(np.where(X > 0.3, RAW, 0.0))
KERNELS = [RBF(), Linear()]
ADDRESS = re.compile(" at 0x[0-9a-f]+")


def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(RAW, columns=["a", "b", "c", "d"])
    table["kind"] = rng.choice(["u", "v", "w"], 60)
    table["size"] = pd.Categorical(rng.choice(["small", "large"], 60))
    return table


FRAME = frame()


def columns(remainder="drop", scaler=None):
    return ColumnTransformer(
        [
            ("numbers", scaler or StandardScaler(), ["a", "b", "c"]),
            ("kinds", OneHotEncoder(handle_unknown="ignore"), ["kind", "size"]),
        ],
        remainder=remainder,
    )


def selected():
    return ColumnTransformer(
        [
            ("numbers", StandardScaler(), make_column_selector(dtype_include=np.number)),
            ("texts", OrdinalEncoder(dtype=np.int32), make_column_selector("kind|size")),
        ]
    )


def kept_as_frame():
    return ColumnTransformer(
        [("numbers", StandardScaler(), slice(0, 4)), ("rest", "passthrough", ["kind", "size"])],
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")


MODELS = {
    "scaled": (make_pipeline(StandardScaler(), MKLClassifier(KERNELS)), RAW),
    "minmax": (make_pipeline(MinMaxScaler(clip=True), MKLClassifier(KERNELS)), RAW),
    "max abs, sparse": (make_pipeline(MaxAbsScaler(), MKLClassifier(KERNELS)), FEW),
    "scaled, sparse": (make_pipeline(StandardScaler(with_mean=False), MKLClassifier(KERNELS)), FEW),
    "robust": (make_pipeline(RobustScaler(), Normalizer(), MKLClassifier(KERNELS)), RAW),
    "imputed": (
        make_pipeline(SimpleImputer(add_indicator=True), StandardScaler(), MKLClassifier(KERNELS)),
        HOLES,
    ),
    "selected": (
        make_pipeline(
            VarianceThreshold(), SelectKBest(k=3), StandardScaler(), MKLClassifier(KERNELS)
        ),
        RAW,
    ),
    "percentile": (
        make_pipeline(SelectPercentile(f_regression, percentile=50), MKLClassifier(KERNELS)),
        X,
    ),
    "own selector": (
        make_pipeline(
            StandardScaler(),
            MKLFeatureSelector(threshold=1e-3, max_iter=5),
            MKLClassifier(KERNELS),
        ),
        RAW,
    ),
    "principal": (make_pipeline(StandardScaler(), PCA(3), MKLClassifier(KERNELS)), RAW),
    "functions": (
        make_pipeline(
            FunctionTransformer(), FunctionTransformer(np.square), MKLClassifier(KERNELS)
        ),
        X,
    ),
    "logarithms": (
        make_pipeline(
            MinMaxScaler((1, 2)), FunctionTransformer(np.log), PCA(2), MKLClassifier(KERNELS)
        ),
        RAW,
    ),
    "an empty column": (
        make_pipeline(SimpleImputer(), StandardScaler(), MKLClassifier(KERNELS)),
        np.where(np.arange(4) == 2, np.nan, HOLES),
    ),
    "passthrough": (Pipeline([("none", "passthrough"), ("model", MKLClassifier(KERNELS))]), X),
    "alone": (Pipeline([("model", MKLClassifier(KERNELS))]), X),
    "nested": (make_pipeline(StandardScaler(), make_pipeline(PCA(2), MKLClassifier(KERNELS))), RAW),
    "union": (
        make_pipeline(
            FeatureUnion([("a", StandardScaler()), ("b", Binarizer())]), MKLClassifier(KERNELS)
        ),
        RAW,
    ),
    "columns": (make_pipeline(columns(), MKLClassifier(KERNELS)), FRAME),
    "columns, remainder": (make_pipeline(columns(MinMaxScaler()), MKLClassifier(KERNELS)), FRAME),
    "columns, pipeline": (
        make_pipeline(
            columns(scaler=make_pipeline(SimpleImputer(), RobustScaler())), MKLClassifier(KERNELS)
        ),
        FRAME,
    ),
    "columns, chosen": (make_pipeline(selected(), MKLClassifier(KERNELS)), FRAME),
    "pandas within": (
        make_pipeline(
            kept_as_frame(),
            MKLClassifier({"n": RBF(features=["a", "b"]), "k": Hamming(features=["kind"])}),
        ),
        FRAME,
    ),
    "regressor": (make_pipeline(StandardScaler(), MKLRegressor(KERNELS)), RAW),
    "one class": (make_pipeline(StandardScaler(), MKLOneClass(KERNELS, p=2.0)), RAW),
    "low rank": (
        make_pipeline(StandardScaler(), MKLClassifier(KERNELS, approximation=Nystroem(10))),
        RAW,
    ),
    "product": (
        make_pipeline(
            StandardScaler(),
            MKLClassifier(combination="product", regularizer=L1(0.3), random_state=0),
        ),
        RAW,
    ),
}


def decisions(model, points):
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    return (
        model.predict(points) if isinstance(last, MKLRegressor) else model.decision_function(points)
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
def test_predicts_raw_rows_as_before(name, tmp_path):
    model, points = MODELS[name]
    model = sklearn.base.clone(model).fit(points, y)
    save(model, tmp_path / "m.mk", extra={"task": "any"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = load(tmp_path / "m.mk")
    assert isinstance(loaded, Pipeline)
    assert loaded.extra_ == {"task": "any"}
    # support vectors alone are summed in another order
    np.testing.assert_allclose(
        decisions(loaded, points), decisions(model, points), rtol=1e-10, atol=1e-11
    )
    np.testing.assert_array_equal(loaded.predict(points), model.predict(points))
    assert ADDRESS.sub("", repr(loaded)) == ADDRESS.sub("", repr(model))
    assert list(loaded.named_steps) == list(model.named_steps)
    save(loaded, tmp_path / "again.mk")
    np.testing.assert_array_equal(
        decisions(load(tmp_path / "again.mk"), points), decisions(loaded, points)
    )
    np.testing.assert_array_equal(
        decisions(pickle.loads(pickle.dumps(loaded)), points), decisions(loaded, points)
    )


def test_new_categories_and_rows_of_other_order(tmp_path):
    model = make_pipeline(columns(), MKLClassifier(KERNELS)).fit(FRAME, y)
    save(model, tmp_path / "m.mk")
    new = FRAME[FRAME.columns[::-1]].assign(kind="never seen")[::-1]
    np.testing.assert_allclose(
        load(tmp_path / "m.mk").decision_function(new), model.decision_function(new), atol=1e-12
    )


def test_output_of_scalers_stays_a_frame(tmp_path):
    scaler = StandardScaler().set_output(transform="pandas")
    model = make_pipeline(scaler, MKLClassifier([RBF(features="a"), Linear(features=["b", "d"])]))
    table = FRAME[["a", "b", "c", "d"]]
    model.fit(table, y)
    save(model, tmp_path / "m.mk")
    loaded = load(tmp_path / "m.mk")
    pd.testing.assert_frame_equal(loaded[0].transform(table), model[0].transform(table))
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))


def test_a_model_has_no_save():
    assert not hasattr(MKLClassifier(), "save")


class Shift(TransformerMixin, BaseEstimator):
    """A step of the user's."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X + 1.0


class MyScaler(StandardScaler):
    """A subclass that could do anything."""


class TestRefused:
    @pytest.mark.parametrize(
        ("model", "message"),
        [
            (make_pipeline(Shift(), MKLClassifier(KERNELS)), "cannot hold Shift"),
            (make_pipeline(MyScaler(), MKLClassifier(KERNELS)), "cannot hold MyScaler"),
            (
                make_pipeline(QuantileTransformer(n_quantiles=5), MKLClassifier(KERNELS)),
                "cannot hold Quantile",
            ),
            (make_pipeline(FunctionTransformer(abs), MKLClassifier(KERNELS)), "holds no code"),
            (make_pipeline(FunctionTransformer(lambda A: A), MKLClassifier(KERNELS)), "no code"),
            (make_pipeline(StandardScaler(), SVC()), "SVC, in which the pipeline ends, is not"),
            (make_pipeline(StandardScaler()), "StandardScaler, in which the pipeline ends"),
            (make_pipeline(StandardScaler(), MKLClassifier([lambda A, B: A @ B.T])), "no code"),
            (SVC(), "SVC is not an estimator of this library"),
            (MKLFeatureSelector(max_iter=1), "MKLFeatureSelector predicts nothing.*last step"),
            (
                GridSearchCV(MKLClassifier(KERNELS), {"C": [1.0]}, cv=2),
                "save the GridSearchCV's best_estimator_",
            ),
        ],
        ids=range(11),
    )
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_before_anything_is_written(self, model, message, tmp_path):
        model = sklearn.base.clone(model).fit(RAW, y)
        with pytest.raises(CannotSave, match=message):
            save(model, tmp_path / "m.mk")
        assert list(tmp_path.iterdir()) == []

    def test_unfitted_and_without_steps(self, tmp_path):
        with pytest.raises(ValueError, match="not fitted"):
            save(make_pipeline(StandardScaler(), MKLClassifier()), tmp_path / "m.mk")
        with pytest.raises(CannotSave, match="int is not an estimator"):
            save(7, tmp_path / "m.mk")

    def test_precomputed_kernels_at_indices(self, tmp_path):
        kernels = [Precomputed(X @ X.T + np.eye(60))]
        model = make_pipeline(FunctionTransformer(), MKLClassifier(kernels, normalize="cosine"))
        model.fit(np.arange(60)[:, None], y)
        with pytest.raises(CannotSave, match="Gram matrices"):
            save(model, tmp_path / "m.mk")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The bytes of a sound file of a pipeline."""
    path = tmp_path_factory.mktemp("good") / "m.mk"
    save(make_pipeline(columns(), MKLClassifier(KERNELS)).fit(FRAME, y), path)
    return path.read_bytes()


def changed(good, change):
    """The file with other content and the right checksum."""
    entries, content, data = opened(good)
    content = change(content) or content
    return header(entries, data, content=json.dumps(content))


def step(content, place):
    """The description of a step of the pipeline."""
    return content["parameters"]["steps"][place]["tuple"][1]["estimator"]


class TestStrangers:
    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda c: step(c, 0).update(estimator="SVC"), "'SVC' is not an estimator"),
            (lambda c: step(c, 0).update(estimator="Popen"), "'Popen' is not an estimator"),
            (lambda c: step(c, 0)["learned"].update(transform="x"), "cannot have learned"),
            (lambda c: step(c, 0)["learned"].update(__class__="x"), "cannot have learned"),
            (lambda c: step(c, 0)["learned"].update(verbose=True), "cannot have learned"),
            (lambda c: step(c, 0)["learned"].update(n_features_in_=-1), "number of columns"),
            (lambda c: step(c, 0)["learned"].update(n_features_in_=5), "name for every column"),
            (
                lambda c: step(c, 0)["learned"].update(
                    feature_names_in_={"objects": [[FRAME.shape[1]], list(range(FRAME.shape[1]))]}
                ),
                "names that are no text",
            ),
            (
                lambda c: c["parameters"]["steps"][0]["tuple"].__setitem__(0, 7),
                "a step without a name",
            ),
            (
                lambda c: step(c, 0)["learned"]["transformers_"][-2]["tuple"].__setitem__(
                    1, "passthrough"
                ),
                "another step than it was given",
            ),
            (lambda c: step(c, 0)["learned"].update(f_={"function": "os.system"}), "os.system"),
            (lambda c: step(c, 0)["learned"].update(f_={"type": "Popen"}), "Popen"),
            (lambda c: step(c, 0)["learned"].update(f_={"dtype": "V8"}), "hold numbers"),
            (lambda c: step(c, 0)["parameters"].update(shell=True), "shell"),
            (lambda c: c["parameters"]["steps"].pop(), "is not an estimator of this library"),
            (lambda c: c["parameters"].update(steps=[]), "is not an estimator of this library"),
        ],
        ids=range(16),
    )
    def test_content_that_lies(self, change, message, good, tmp_path):
        (tmp_path / "m.mk").write_bytes(changed(good, lambda c: change(c) and None))
        with pytest.raises(CorruptFile, match=message):
            load(tmp_path / "m.mk")

    @pytest.mark.parametrize(
        ("first", "name", "value", "message"),
        [
            (StandardScaler(), "mean_", [1e308, -1e308, 1e308, 0.0], "finite, or too large"),
            (MinMaxScaler(), "min_", [1e308, -1e308, 1e308, 0.0], "finite, or too large"),
            (PCA(), "components_", [[1e308] * 4] * 4, "finite, or too large"),
            (SimpleImputer(), "statistics_", ["x"] * 4, "could not convert"),
        ],
        ids=["mean", "minimum", "components", "text"],
    )
    def test_steps_that_fit_no_row(self, first, name, value, message, tmp_path):
        """What they have learned is of the right shape."""
        model = make_pipeline(first, MKLClassifier([Linear()])).fit(X, y)
        save(model, tmp_path / "m.mk")
        arrays, content = read(tmp_path / "m.mk", "model")
        kind = {"strings": [[4], "object", value]} if value[0] == "x" else {}
        if np.ndim(value) == 1:
            step(content, 0)["learned"][name] = kind or {"array": ["float64", value]}
        else:
            arrays[step(content, 0)["learned"][name]["tensor"][1]] = np.array(value)
        write(tmp_path / "m.mk", arrays, content, "model")
        with pytest.raises(CorruptFile, match=message):
            load(tmp_path / "m.mk")

    @settings(
        max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(seed=st.integers(0, 2**31))
    def test_sound_checksums_over_changed_content(self, seed, good, tmp_path):
        """The worst is an error when loading or predicting."""
        rng = np.random.default_rng(seed)
        (tmp_path / "m.mk").write_bytes(changed(good, lambda c: _mutated(c, rng)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                model = load(tmp_path / "m.mk")
            except CorruptFile:
                return
            with contextlib.suppress(
                ArithmeticError, AttributeError, LookupError, TypeError, ValueError
            ):
                model.predict(FRAME)

    def test_another_release_of_scikit_learn(self, good, tmp_path):
        other = changed(good, lambda c: c.update({"scikit-learn": "0.1"}))
        (tmp_path / "m.mk").write_bytes(other)
        with pytest.warns(UserWarning, match=r"fitted with scikit-learn 0\.1, and this is"):
            load(tmp_path / "m.mk")

    def test_the_release_is_in_the_file(self, good, tmp_path):
        (tmp_path / "m.mk").write_bytes(good)
        assert read(tmp_path / "m.mk", "model")[1]["scikit-learn"] == sklearn.__version__
