"""After the fit: packed decisions, predictions from files, pickles, logs, threads."""

import copy
import json
import logging
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kept_models
import manykernels
from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    Predictor,
    kernel_drift,
    load,
    save,
)
from manykernels._files.container import SCHEMA
from manykernels.banks import TiledBank, make_bank
from manykernels.estimators.data.decision import ExpansionDecision
from manykernels.kernels import (
    RBF,
    FunctionKernel,
    Hamming,
    KernelCollection,
    Laplacian,
    Linear,
    MinMax,
    Polynomial,
    Tanimoto,
    on_groups,
)
from manykernels.lowrank import Nystroem
from manykernels.thresholds import lowered
from test_model_files import decisions, opened

N, FEATURES = 40, 5
# what few rows go through, and many, with and without tables
FEW, MANY, TABLES = (
    {"uncompiled_entries": 2**40},
    {"uncompiled_entries": 0, "rows_per_node": 10**9},
    {"uncompiled_entries": 0, "rows_per_node": 0},
)
COLUMN_GAUSSIANS = [RBF(gamma, [f]) for f in range(3) for gamma in (0.3, 5.0)]
SETS = {
    "columns": COLUMN_GAUSSIANS,
    "all columns": [RBF(0.1), RBF(2.0), RBF(0.7, [0, 2]), Laplacian(0.4), Laplacian(1.0, [1])],
    "polynomials": [
        Linear(),
        Linear([1]),
        Linear([0, 3]),
        Polynomial(2),
        Polynomial(3, coef0=0.0, features=[4]),
        Polynomial(1, gamma=2.0),
        Polynomial(5, gamma=0.1),
    ],
    "others": [
        Hamming([0, 1], weights=[1.0, 3.0]),
        Hamming(),
        FunctionKernel(lambda A, B: (1.0 + A @ B.T) ** 2),
        RBF(1.0),
    ],
    "binary": [RBF(0.5), RBF(0.1, [0, 1, 2]), Linear()],
    "shared": [RBF(0.5), Tanimoto(), Tanimoto([0, 2, 3]), MinMax(), MinMax([1, 4])],
    "far away": [RBF(1e3), Laplacian(1e3), RBF(1e3, [0])],
}


def rows(name, count, seed):
    X = np.random.default_rng(seed).standard_normal((count, FEATURES))
    if name in ("binary", "others", "shared"):
        return (X > 0).astype(float) + (name == "others") * (X > 1)
    return X * 1e4 + 1e6 if name == "far away" else X


@pytest.mark.parametrize("normalize", ["diagonal", "trace", "cosine", "variance", None])
@pytest.mark.parametrize("name", [name for name in SETS if name != "far away"])
def test_packed_decisions(name, normalize):
    check_packed(name, normalize)


def test_packed_decisions_of_points_far_away():
    check_packed("far away", "diagonal")


def check_packed(name, normalize):
    """A packed decision says what its bank says, on every way."""
    kernels, X = SETS[name], rows(name, N, 0)
    rng = np.random.default_rng(1)
    far = 1.0 if name == "shared" else 30.0
    new = np.concatenate([rows(name, 12, 2), X[:3], far * rows(name, 1, 3)])
    bank = make_bank(KernelCollection(kernels), X, normalize=normalize)
    assert type(bank) is TiledBank
    support = np.sort(rng.permutation(N)[:25])
    for t, each in ((1, False), (3, False), (3, True)):
        weights = rng.random((t, len(kernels)) if each else len(kernels))
        weights[..., 0] = 0.0  # left out
        decision = ExpansionDecision(
            bank, weights, rng.standard_normal(t), N, support, rng.standard_normal((t, 25))
        )
        packed, present = decision._packed, without_packing(decision).scores(new)
        assert packed is not None
        scale = np.abs(present) + np.abs(decision.beta).sum()
        for way in (FEW, MANY, TABLES):
            with lowered(**way):
                found = decision.scores(new)
            np.testing.assert_array_less(np.abs(found - present), 2e-12 * scale)


def without_packing(decision):
    """The decision as the bank computes it."""
    twin = replace(decision)
    vars(twin)["_packed"] = None
    return twin


# --- models as they come out of fits --------------------------------------------------------------

X = np.random.default_rng(0).standard_normal((60, 4)) * [1.0, 10.0, 1.0, 1.0]
CODES = np.digitize(X[:, 0] + 0.1 * X[:, 1], [-0.7, 0.7])
SIDES = np.where(CODES > 0, "yes", "no")
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(e=np.where(X[:, 2] > 0, "up", "down"))
HOLES = FRAME.mask(np.random.default_rng(1).random(FRAME.shape) < 0.1)
VIEWS = np.where(np.arange(60)[:, None] % 5 == np.arange(4) // 2, np.nan, X)
GROUPS = on_groups({"first": [0, 1], "second": [2, 3]})
MODELS = {
    "two classes": (MKLClassifier(), X, SIDES, True),
    "several": (MKLClassifier(), X, CODES, True),
    "weights of their own": (MKLClassifier(share_weights=False), X, CODES, True),
    "pairs": (MKLClassifier(multiclass="ovo"), X, CODES, True),
    "logistic": (MKLClassifier(loss="logistic"), X, CODES, True),
    "tuned": (MKLClassifierCV(Cs=[1.0], ps=[1.0], kernels="whole", cv=2), X, SIDES, True),
    "targets": (MKLRegressor(), X, X[:, :2], True),
    "novelties": (MKLOneClass(), X, None, True),
    "frame": (MKLClassifier(missing="impute"), HOLES, SIDES, True),
    "pipeline": (make_pipeline(MKLClassifier()), X, SIDES, True),
    "two steps": (make_pipeline(StandardScaler(), MKLClassifier()), X, SIDES, False),
    "views": (MKLClassifier(GROUPS, missing="mean"), VIEWS, SIDES, False),
    "low rank": (MKLClassifier(GROUPS, approximation=Nystroem(8, random_state=0)), X, SIDES, False),
    "centered": (MKLClassifier(GROUPS, normalize="center"), X, SIDES, False),
}


@pytest.fixture(scope="module")
def fitted():
    known = {}

    def fit(name):
        if name not in known:
            model, rows, targets, _ = MODELS[name]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                known[name] = model.fit(rows, targets)
        return known[name]

    return fit


@pytest.mark.parametrize("name", MODELS)
def test_a_predictor_says_what_the_model_says(name, fitted, tmp_path):
    model, (_, rows, _, light) = fitted(name), MODELS[name]
    save(model, tmp_path / "model.mk", extra={"kept": 1})
    predictor = Predictor(tmp_path / "model.mk")
    assert predictor.is_light == light
    assert predictor.extra_ == {"kept": 1}
    for some in (rows[:1], rows[5:25]):
        found, wanted = predictor.predict(some), model.predict(some)
        if wanted.dtype.kind == "f":
            np.testing.assert_allclose(found, wanted, 1e-9, 1e-12)
        else:
            np.testing.assert_array_equal(found, wanted)
        for method in ("decision_function", "predict_proba"):
            assert hasattr(predictor, method) == hasattr(model, method)
            if hasattr(model, method):
                found = getattr(predictor, method)(some)
                np.testing.assert_allclose(found, getattr(model, method)(some), 1e-9, 1e-12)
    assert ("model" in vars(predictor)) == (not light)


KEPT = sorted(kept_models.FOLDER.glob("schema_*/*.mk"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.stem}")
@pytest.mark.filterwarnings("ignore:The pipeline of")  # of another release of scikit-learn
def test_files_of_every_version_of_the_format_are_read(path):
    model = load(path)
    rows, values = (np.array(model.extra_[name]) for name in ("rows", "values"))
    np.testing.assert_allclose(kept_models.answers(model, rows), values, 1e-7, 1e-9)
    np.testing.assert_allclose(kept_models.answers(Predictor(path), rows), values, 1e-7, 1e-9)


def test_every_version_of_the_format_has_files():
    kept = {path.parent.name for path in KEPT}
    assert kept == {f"schema_{version}" for version in range(1, SCHEMA + 1)}


def test_a_predictor_asks_the_estimator_where_it_must(fitted, tmp_path):
    save(fitted("two classes"), tmp_path / "model.mk")
    predictor = Predictor(tmp_path / "model.mk")
    with pytest.raises(ValueError, match="NaN"):
        predictor.predict(np.full((1, 4), np.nan))
    with pytest.raises(ValueError, match="4 features"):
        predictor.predict(np.ones((1, 3)))
    (tmp_path / "other.mk").write_bytes(b"no model")
    with pytest.raises(manykernels.persistence.CorruptFile):
        Predictor(tmp_path / "other.mk")


def test_predicting_imports_little(fitted, tmp_path):
    save(fitted("two classes"), tmp_path / "model.mk")
    script = (
        "import sys, numpy as np; from manykernels import Predictor; "
        f"Predictor({str(tmp_path / 'model.mk')!r}).predict(np.ones((3, 4))); "
        "print([name for name in ('sklearn', 'scipy', 'numba', 'pandas') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert said.stdout.strip() == "[]", said.stderr


@pytest.mark.parametrize("name", ["two classes", "several", "targets", "novelties", "frame"])
def test_a_pickle_holds_no_more_than_the_model_file(name, fitted, tmp_path):
    """As far as the file's content goes, which the file deflates and pickles do not."""
    model, rows = fitted(name), MODELS[name][1]
    save(model, tmp_path / "model.mk")
    model.predict(rows)
    planless = copy.copy(model)
    vars(planless).pop("plan_", None)  # which a file does not hold
    _, content, arrays = opened((tmp_path / "model.mk").read_bytes())
    assert len(pickle.dumps(planless)) <= len(arrays) + len(json.dumps(content))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(decisions(again, rows), decisions(model, rows), 1e-9, 1e-12)
    np.testing.assert_allclose(again.kernel_contributions_, model.kernel_contributions_)
    np.testing.assert_array_equal(again.dual_coef_, model.dual_coef_)
    if type(model.bank_) is TiledBank:  # which can do without points
        assert again.bank_.n == again.result_.beta.shape[1] == again.decision_.points.size
        assert not again.bank_.held
        assert copy.copy(model).bank_.n == copy.deepcopy(model).bank_.n == model.bank_.n
    save(again, tmp_path / "again.mk")
    once_more = decisions(load(tmp_path / "again.mk"), rows)
    np.testing.assert_allclose(once_more, decisions(model, rows), 1e-9, 1e-12)


def test_what_other_picklers_take_along(tmp_path):
    """Functions of a session go with cloudpickle, joblib maps arrays, and cycles are kept."""
    rows = np.random.default_rng(0).standard_normal((200, 4))
    model = MKLClassifier([RBF(1.0)], loss="logistic").fit(rows, rows[:, 0] > 0)
    joblib.dump(model, tmp_path / "m.joblib")
    mapped = joblib.load(tmp_path / "m.joblib", mmap_mode="r")
    assert isinstance(mapped.bank_.right, np.memmap)
    assert mapped.bank_.left is mapped.bank_.right
    np.testing.assert_array_equal(mapped.predict(X), model.predict(X))
    cloudpickle = pytest.importorskip("cloudpickle")
    model = MKLClassifier([FunctionKernel(lambda A, B: A @ B.T), RBF(0.1)]).fit(X, SIDES)
    model.itself_ = model
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(model)
    again = pickle.loads(cloudpickle.dumps(model))
    assert again.itself_ is again
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_threads_may_share_a_model(fitted, tmp_path):
    model = pickle.loads(pickle.dumps(fitted("several")))  # nothing is prepared yet
    save(model, tmp_path / "model.mk")
    predictor, wanted = Predictor(tmp_path / "model.mk"), fitted("several").decision_function(X)

    def ask(number):
        rows, of = np.arange(number % 7, 60, 1 + number % 5), (model, predictor)[number % 2]
        return rows, of.decision_function(X[rows])

    for way in (FEW, TABLES):
        with lowered(**way), ThreadPoolExecutor(8) as pool:
            for rows, found in pool.map(ask, range(80)):
                np.testing.assert_allclose(found, wanted[rows], 1e-9, 1e-12)


def test_what_is_logged(caplog, tmp_path):
    with caplog.at_level(logging.INFO, "manykernels"):
        model = MKLClassifier([RBF(1.0)], max_iter=1, tol=1e-12).fit(X, SIDES)
        save(model, tmp_path / "model.mk")
        load(tmp_path / "model.mk")
    said = [record.getMessage().split()[0] for record in caplog.records]
    assert said[0] == "plan:"
    assert said[-2:] == ["saved", "loaded"]
    assert {record.name for record in caplog.records} == {"manykernels"}


def test_drift_is_found_where_it_is():
    rng = np.random.default_rng(0)
    model = MKLClassifier(GROUPS, p=2.0).fit(X, SIDES)
    same, moved = rng.standard_normal((2, 50, 4)) * [1.0, 10.0, 1.0, 1.0]
    options = {"n_permutations": 99, "random_state": 0}
    assert min(one.p_value for one in kernel_drift(model, same, moved, **options)) > 0.01
    moved[:, 2:] += 1.0
    found = kernel_drift(model, same, moved, **options)
    assert found[0].p_value == 0.01
    assert found[0].name.startswith("second")
    assert min(one.p_value for one in found if one.name.startswith("first")) > 0.01
