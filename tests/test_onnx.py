"""Graphs of ONNX say what their models say."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import manykernels.kernels
from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLFeatureSelector,
    MKLOneClass,
    MKLRegressor,
    MKLRegressorCV,
)
from manykernels.combinations import Combination, PolynomialMixture, Product
from manykernels.kernels import (
    RBF,
    Hamming,
    Kernel,
    KernelCollection,
    Laplacian,
    Linear,
    MinMax,
    Polynomial,
    Precomputed,
    Spectrum,
    Tanimoto,
    on_groups,
)
from manykernels.lowrank import IncompleteCholesky, Nystroem, RandomFourier

skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from manykernels.onnx import pairs, to_onnx  # noqa: E402
from manykernels.onnx.tables import gaussian_table  # noqa: E402
from manykernels.onnx.terms import REASONS, WRITERS  # noqa: E402

rng, ROWS = np.random.default_rng(0), 30
# columns far from zero, of different sizes, and one of kinds; what float32 holds
X = rng.standard_normal((ROWS, 4)) * [1.0, 10.0, 0.1, 0.0] + [0.0, 2000.0, 0.0, 0.0]
X[:, 3] = rng.integers(0, 3, ROWS)
X = X.astype(np.float32).astype(float)
TWO = np.where(X[:, 0] + 0.1 * (X[:, 1] - 2000.0) > 0, "yes", "no")
THREE = np.digitize(X[:, 0] + X[:, 3], [0.5, 1.5]) + 5
VALUES = 3.0 + X[:, 0] * X[:, 3]
NEW = np.concatenate([X[:10], 1.02 * X[10:]]).astype(np.float32)

MIXED = [
    *(RBF(factor=factor) for factor in (0.5, 4.0)),
    *(RBF(features=f) for f in (0, 1)),
    RBF(features=[0, 2]),
    Laplacian(),
    Linear(),
    Linear(features=[2]),
    Polynomial(2),
    Polynomial(3, 0.5, 0.1, features=[0, 2]),
    Hamming(features=[3]),
    Hamming(features=[1, 3], weights=[1.0, 3.0]),
]
MASKS = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1]], dtype=bool)
KERNELS = {
    "auto": "auto",
    "groups": on_groups({"a": [0, 1], "b": [2, 3]}),
    "masked": KernelCollection.masked_rbf(np.tile([0.1, 1.0, 1.0], 12), np.tile(MASKS, (12, 1))),
    **{type(kernel).__name__: [kernel] for kernel in MIXED},
}
SCALED = {"scale": "standard", "p": np.inf}


def outputs(graph, **inputs):
    session = runtime.InferenceSession(graph.SerializeToString())
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def check(model, y):
    """Train on X, and compare everything that the graph says of new rows."""
    model.fit(X, y)
    compare(model, NEW, outputs(to_onnx(model), X=NEW))


def compare(model, rows, found, digits=1e-5):
    wanted = {
        "variable": lambda: model.predict(rows).reshape(len(rows), -1),
        "scores": lambda: model.decision_function(rows),
        "probabilities": lambda: model.predict_proba(rows),
    }
    assert ("probabilities" in found) == hasattr(model, "predict_proba")
    for name, values in found.items():
        if name == "label":
            np.testing.assert_array_equal(values, model.predict(rows))
        else:
            right = wanted[name]()
            assert values.shape == right.shape
            np.testing.assert_allclose(values, right, atol=digits, rtol=digits)


# those of one kernel alone say again what models of all of them say
RARE = ("Laplacian", "Linear", "Polynomial", "trace", "variance", "None", "Cholesky", "two targets")


def cases(table):
    """Rows of a table by their names."""
    rare = {name: pytest.mark.long for name in table if name.removeprefix("normalize=") in RARE}
    return [
        pytest.param(values, id=name, marks=rare.get(name, ())) for name, values in table.items()
    ]


def test_what_rows_share():
    counts = rng.poisson(0.4, (ROWS, 40)).astype(float)
    counts[[3, 7]] = 0.0
    table = np.hstack([counts, counts[::-1] > 0.0])
    kernels = [MinMax(range(40)), Tanimoto(range(40, 80)), Tanimoto(range(45, 60))]
    for normalize in ("diagonal", "cosine"):
        model = MKLClassifier(kernels, p=2.0, normalize=normalize).fit(table, TWO)
        rows = table[::-1].astype(np.float32)
        compare(model, rows, outputs(to_onnx(model), X=rows))


@pytest.mark.parametrize("kernels", cases(KERNELS))
def test_every_kernel(kernels):
    check(MKLClassifier(kernels), TWO)


ESTIMATORS = {
    "two classes": (MKLClassifier(MIXED, **SCALED), TWO),
    "far columns": (MKLClassifier([RBF(), RBF(0.1), RBF(0.1, features=1)], p=2.0), TWO),
    "narrow": (MKLClassifier([RBF(1e7, features=0), RBF(features=0)], p=np.inf), TWO),
    "three classes": (MKLClassifier(MIXED, **SCALED), THREE),
    "one against one": (MKLClassifier(MIXED, multiclass="ovo", **SCALED), THREE),
    "own weights": (MKLClassifier(MIXED, share_weights=False, **SCALED), THREE),
    "log-odds": (MKLClassifier(MIXED, loss="logistic", **SCALED), TWO),
    "log-odds of three": (MKLClassifier(MIXED, loss="logistic", **SCALED), THREE),
    "large C": (MKLClassifier(MIXED[:4], C=1e5, **SCALED), TWO),
    "regression": (MKLRegressor(MIXED, **SCALED), VALUES),
    "two targets": (MKLRegressor(MIXED, **SCALED), np.stack([VALUES, X[:, 1]], axis=1)),
    "nothing to learn": (MKLRegressor(), np.ones(ROWS)),
    "one class": (MKLOneClass(MIXED, scale="standard"), None),
    **{
        f"normalize={rule}": (MKLClassifier(MIXED, normalize=rule, **SCALED), THREE)
        for rule in ("trace", "variance", "cosine", "center", None)
    },
    "Nyström": (MKLClassifier(MIXED, approximation=Nystroem(10), **SCALED), THREE),
    "Cholesky": (MKLClassifier(MIXED, approximation=IncompleteCholesky(10), **SCALED), TWO),
    "Fourier": (MKLRegressor(MIXED[:5], approximation=RandomFourier(20), **SCALED), VALUES),
    "product": (MKLClassifier(combination=Product(["a", "a", "b", "c"]), scale="standard"), TWO),
    "mixture": (MKLClassifier(combination=PolynomialMixture(), scale="standard"), TWO),
}


@pytest.mark.parametrize("case", cases(ESTIMATORS))
@pytest.mark.filterwarnings("ignore:The factors have", "ignore:1 kernel is nearly the identity")
def test_every_estimator(case):
    check(*case)


def test_many_sets_of_columns_are_a_loop(monkeypatch):
    monkeypatch.setattr(pairs, "MOST_SETS", 0)
    check(MKLClassifier([*MIXED, Laplacian(features=[0, 3])], **SCALED), THREE)
    graph = to_onnx(MKLRegressor([RBF(features=[0, 1]), RBF()]).fit(X, VALUES))
    assert [node.op_type for node in graph.graph.node].count("Scan") == 1


@pytest.mark.parametrize(
    ("calibration", "y"),
    [
        pytest.param("sigmoid", TWO, id="sigmoid"),
        pytest.param("isotonic", THREE, id="isotonic"),
        pytest.param("sigmoid", THREE, id="sigmoid of three", marks=pytest.mark.long),
        pytest.param("isotonic", TWO, id="isotonic of two", marks=pytest.mark.long),
    ],
)
def test_tuned_classifiers(calibration, y):
    check(MKLClassifierCV("whole", Cs=[1.0], ps=[1], cv=2, calibration=calibration), y)


def test_tuned_regressors():
    check(MKLRegressorCV("whole", Cs=[1.0], ps=[1], cv=2), VALUES)


def test_inputs_of_float64_keep_their_digits():
    model = MKLClassifier(MIXED, loss="logistic", **SCALED).fit(X, THREE)
    rows = X + 1e-3 * rng.standard_normal(X.shape)
    rows[:, [1, 3]] = X[:, [1, 3]]
    found = outputs(to_onnx(model, rows), X=rows)
    assert found["scores"].dtype == np.float64
    compare(model, rows, found, 1e-9)


def test_missing_numbers():
    holes = pd.DataFrame({"a": X[:, 0], "kind": pd.Categorical(X[:, 3] + 5.0)})
    holes.loc[::4, "a"] = np.nan
    model = MKLClassifier(missing="impute", p=np.inf).fit(holes, TWO)
    holes.loc[0, "kind"] = np.nan
    found = outputs(to_onnx(model, X[:, :2]), X=holes.to_numpy(dtype=float))
    compare(model, holes, found)


def test_rows_with_nan_and_far_rows_leave_others_alone():
    model = MKLClassifier([RBF(features=0), RBF()], p=2.0).fit(X, TWO)
    rows = NEW[:4].copy()
    rows[1, 0], rows[2] = np.nan, 1e30
    found = outputs(to_onnx(model), X=rows)["scores"]
    good = [0, 2, 3]
    assert np.isnan(found[1])
    np.testing.assert_allclose(found[good], model.decision_function(rows[good]), atol=1e-5)


def frame():
    own = np.random.default_rng(1)  # the same whatever other tests have drawn: classes may tie
    colors = np.array(["red", "blue", ""])[own.integers(0, 3, ROWS)]
    sizes = pd.Categorical(own.integers(1, 4, ROWS))
    return pd.DataFrame({"a": X[:, 0], "color": colors, "b": X[:, 2], "size": sizes})


KINDS = [Hamming(features=["color", "size"], weights=[1.0, 2.0]), Hamming(features=["color"])]


@pytest.mark.parametrize("kernels", ["auto", KINDS], ids=["auto", "kinds"])
def test_texts_and_categories(kernels):
    table = frame()
    model = MKLClassifier(kernels, p=np.inf).fit(table, THREE)
    new = table[:10].copy()
    new.loc[0, "color"] = "never seen"
    inputs = {name: new[[name]].to_numpy(dtype=np.float32) for name in ("a", "b", "size")}
    inputs["color"] = new[["color"]].to_numpy(dtype=object)
    compare(model, new, outputs(to_onnx(model), **inputs))
    with pytest.raises(ValueError, match="'color' held texts in training"):
        to_onnx(model, X)


def test_pipelines_convert_as_any_other():
    table = frame()[["a", "color", "b"]]
    first = make_column_transformer((StandardScaler(), ["a", "b"]), (OneHotEncoder(), ["color"]))
    model = make_pipeline(first, MKLFeatureSelector(threshold=1e-3), MKLClassifier(loss="logistic"))
    model.fit(table, THREE)
    inputs = {name: table[[name]].to_numpy() for name in table}
    compare(model, table, outputs(to_onnx(model, table), **inputs))
    found = outputs(skl2onnx.to_onnx(model, table), **inputs)
    assert found["output_label"].tolist() == model.predict(table).tolist()
    first, right = found["output_probability"][0], model.predict_proba(table)[0]
    np.testing.assert_allclose([first[label] for label in model.classes_], right, atol=1e-5)


class Own(RBF):
    """A kernel that may compute anything."""


class OwnCombination(Combination):
    def gram(self, weights, rows, cols):
        return (rows * weights) @ cols.T

    def gradient(self, weights, beta):
        return np.square(beta @ self.X).sum(axis=0)


GRAM = Precomputed(X @ X.T + np.eye(ROWS))
REFUSED = {
    "Own": (MKLClassifier([Own(0.1)]), X),
    "OwnCombination": (MKLClassifier(combination=OwnCombination(), scale="standard"), X),
    "dot": (MKLClassifier([manykernels.kernels.FunctionKernel(np.inner, title="dot")]), X),
    "Precomputed": (MKLClassifier([GRAM]), np.arange(ROWS)[:, None]),
    "Spectrum": (MKLClassifier([Spectrum(2)]), np.array([["ab"], ["ba"], ["abb"]] * 10)),
    "missing='mean'": (MKLClassifier(on_groups({"a": [0], "b": [2]}), missing="mean"), X),
}


@pytest.mark.parametrize(("name", "model", "table"), [(k, *v) for k, v in REFUSED.items()])
def test_what_cannot_be_converted_is_named(name, model, table):
    with pytest.raises(ValueError, match=f"{name}.* cannot be converted to ONNX: .*Train with"):
        to_onnx(model.fit(table, TWO))


def test_every_kernel_of_the_library_is_converted_or_has_a_reason():
    public = [getattr(manykernels.kernels, name) for name in manykernels.kernels.__all__]
    kinds = {kind for kind in public if isinstance(kind, type) and issubclass(kind, Kernel)}
    assert kinds - {Kernel} == WRITERS.keys() | REASONS.keys()


def test_tables_are_the_functions():
    points, coefficients = rng.standard_normal(50), rng.standard_normal((2, 50))
    table = gaussian_table(3.0, points, coefficients)
    x = rng.uniform(-4.0, 4.0, 500)
    place = np.floor((x - table.start) / table.length).astype(int)
    u = 2.0 * ((x - table.start) / table.length - place) - 1.0
    powers = u ** np.arange(len(table.polynomials))[:, None]
    found = np.einsum("pn,pnt->tn", powers, table.polynomials[:, place])
    right = coefficients @ np.exp(-3.0 * (points[:, None] - x) ** 2)
    np.testing.assert_allclose(found, right, atol=1e-11 * np.abs(coefficients).sum())
    assert gaussian_table(1e9, points, coefficients) is None


def test_what_is_needed_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("manykernels.onnx")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(ImportError, match=r"pip install manykernels\[onnx\]"):
        import manykernels.onnx  # noqa: F401
