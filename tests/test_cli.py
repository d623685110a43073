"""The command ``manykernels``, mostly in this process."""

import csv
import errno
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import tomllib
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_diabetes, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import manykernels
from manykernels import MKLClassifier, MKLRegressor
from manykernels.cli import _catalog, _output, _training
from manykernels.cli._input import choose_task
from manykernels.cli._pipeline import kernels_from, prepared_columns
from manykernels.cli.app import app
from manykernels.display.facts import Surface
from manykernels.estimators.search import tuning
from manykernels.kernels import RBF, Linear, Polynomial
from manykernels.lowrank import Nystroem
from manykernels.readers import read_table, tables, write_libsvm
from manykernels.solvers import loop

IRIS, SPECIES = load_iris(return_X_y=True)
NAMES = ["a", "b", "c", "d"]
FEW = ["--kernels", "rbf,linear"]


def run(*words, code=0):
    """The result of a command that must end with this exit code."""
    result = CliRunner().invoke(app, [str(word) for word in words], prog_name="manykernels")
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def folder(tmp_path):
    """A folder with the irises in every format."""
    frame = pd.DataFrame(IRIS, columns=NAMES).assign(kind=SPECIES)
    frame.to_csv(tmp_path / "iris.csv", index=False)
    frame.to_parquet(tmp_path / "iris.parquet")
    np.savez(tmp_path / "iris.npz", X=IRIS, y=SPECIES)
    write_libsvm(tmp_path / "iris.libsvm", IRIS, SPECIES)
    return tmp_path


def trained(folder, *options, data="iris.csv", code=0):
    """The pipeline that these options make, and what was printed."""
    result = run(
        "train", folder / data, "--out", folder / "model.mk", "--json", *options, code=code
    )
    return manykernels.load(folder / "model.mk"), json.loads(result.stdout)


def predicted(*words):
    """What ``predict`` prints, as a table."""
    return pd.read_csv(io.StringIO(run("predict", *words).stdout))


class TestTrainAndPredict:
    def test_any_name_of_a_column(self, tmp_path):
        frame = pd.DataFrame(IRIS, columns=["self", "b", "c", "d"]).assign(kind=SPECIES)
        frame.to_csv(tmp_path / "iris.csv", index=False)
        assert trained(tmp_path, *FEW)[1]["converged"]

    @pytest.mark.parametrize("options", [(), ("--tune",), ("--rank", "20")])
    def test_a_plan_and_nothing_more(self, folder, options):
        text = run("train", folder / "iris.csv", "--plan", *options).stdout
        assert text.startswith(("150 points", "120 points", "149 points", "119 points"))
        assert "\nsolver" in text
        found = json.loads(run("train", folder / "iris.csv", "--plan", "--json", *options).stdout)
        assert found["solver"]["what"] in " ".join(text.split())
        assert not (folder / "model.mk").exists()
        run("train", folder / "iris.csv", *options, code=2)

    def test_novelties_have_no_score(self, folder):
        manykernels.save(manykernels.MKLOneClass().fit(IRIS), folder / "model.mk")
        found = json.loads(
            run("predict", folder / "model.mk", folder / "iris.libsvm", "--json").stdout
        )
        assert "score" not in found
        assert set(found["predictions"]) <= {-1, 1}

    @pytest.mark.parametrize("data", ["iris.csv", "iris.parquet", "iris.npz", "iris.libsvm"])
    def test_same_as_in_python(self, folder, data):
        scaler = StandardScaler().fit(IRIS)
        X = scaler.transform(IRIS)
        model = MKLClassifier(kernels_from("rbf,linear", X), p=1.33, tol=1e-6).fit(X, SPECIES)
        _, outcome = trained(folder, *FEW, "--p", "1.33", "--tol", "1e-6", data=data)
        assert outcome["objective"] == pytest.approx(model.result_.objective, rel=2e-6)
        predicted = json.loads(
            run("predict", folder / "model.mk", folder / data, "--scores", "--json").stdout
        )
        np.testing.assert_allclose(
            predicted["decision_values"], model.decision_function(X), atol=2e-3
        )
        assert predicted["predictions"] == np.argmax(predicted["decision_values"], axis=1).tolist()
        assert (
            outcome["scores"]["training"]
            == predicted["score"]
            == np.mean(predicted["predictions"] == SPECIES)
        )

    def test_tuned(self, folder):
        pd.read_csv(folder / "iris.csv").iloc[::3].to_csv(folder / "few.csv", index=False)
        pipeline, outcome = trained(folder, *FEW, "--tune", data="few.csv")
        model = pipeline[-1]
        assert outcome["tuned"]["C"] == model.C_
        assert float(outcome["tuned"]["p"]) == model.p_  # infinity is a word in JSON
        assert len(outcome["tuned"]["scores"]) == 5
        assert pipeline.predict_proba(pd.DataFrame(IRIS, columns=NAMES)).shape == (150, 3)
        table = run("train", folder / "few.csv", "-o", folder / "m", "--tune", *FEW).stdout
        found = Surface.of(pipeline)
        # as in the report
        words = (
            f"{found.means[found.chosen]:.4f} ± {found.errors[found.chosen]:.4f} (standard error"
        )
        assert words in " ".join(table.split())
        wrong = run_train(folder, "--tune", "--C", "3", code=2)
        assert "leave --p and --C out" in wrong.stderr
        found = predicted(folder / "m", folder / "iris.csv", "--scores", "--probabilities")
        names = [f"{what}:{label}" for what in ("score", "probability") for label in range(3)]
        assert found.columns.tolist() == ["label", *names]
        assert len(found) == 150
        np.testing.assert_allclose(found[names[3:]].sum(axis=1), 1.0)
        trained(folder, *FEW)
        wrong = run("predict", folder / "model.mk", folder / "iris.csv", "--probabilities", code=1)
        assert "--tune" in wrong.stderr

    def test_probabilities_without_tuning(self, folder):
        model, _ = trained(folder, *FEW, "--loss", "logistic")
        found = predicted(folder / "model.mk", folder / "iris.csv", "--probabilities")
        expected = model.predict_proba(pd.DataFrame(IRIS, columns=NAMES))
        np.testing.assert_allclose(found.drop(columns="label"), expected, atol=1e-6)

    def test_labels_go_to_a_file(self, folder):
        trained(folder, *FEW)
        result = run(
            "predict", folder / "model.mk", folder / "iris.csv", "--out", folder / "labels.csv"
        )
        assert result.stdout == ""
        assert "accuracy 0.9" in result.stderr
        labels = pd.read_csv(folder / "labels.csv")
        assert labels.columns.tolist() == ["label"]
        assert np.mean(labels["label"] == SPECIES) > 0.9

    def test_the_standard_output_by_name(self, folder, monkeypatch):
        monkeypatch.chdir(folder)
        trained(folder, *FEW)
        given = "predict", "model.mk", "iris.csv"
        for more in ([], ["--json"]):
            assert run(*given, *more, "--out", "-").stdout == run(*given, *more).stdout
        assert not (folder / "-").exists()

    def test_kernels_are_computed_once(self, folder, monkeypatch):
        rows, scores = [], MKLClassifier._scores
        monkeypatch.setattr(
            MKLClassifier, "_scores", lambda model, X: rows.append(len(X)) or scores(model, X)
        )
        model, _ = trained(folder, *FEW, "--loss", "logistic")
        rows.clear()
        found = predicted(
            folder / "model.mk", folder / "iris.csv", "--scores", "--probabilities"
        ).to_numpy()
        assert rows.count(150) == 1  # of few rows, to see whether the file is sound
        X = pd.DataFrame(IRIS, columns=NAMES)
        np.testing.assert_array_equal(found[:, 0], model.predict(X))
        np.testing.assert_allclose(found[:, 1:4], model.decision_function(X), atol=1e-6)
        np.testing.assert_allclose(found[:, 4:], model.predict_proba(X), atol=1e-6)

    def test_decimal_commas(self, folder):
        """In training and prediction alike, with one line that says so."""
        _, outcome = trained(folder, *FEW)
        frame = pd.DataFrame(IRIS, columns=NAMES)
        options = {"sep": "\t", "decimal": ",", "index": False}
        frame.assign(kind=SPECIES).to_csv(folder / "commas.tsv", **options)
        expected = run("predict", folder / "model.mk", folder / "iris.csv").stdout
        done = run("train", folder / "commas.tsv", "-o", folder / "model.mk", "--json", *FEW)
        assert json.loads(done.stdout)["objective"] == outcome["objective"]
        assert manykernels.load(folder / "model.mk")[-1].categories_ == {}
        for result in (done, run("predict", folder / "model.mk", folder / "commas.tsv")):
            (line,) = [line for line in result.stderr.splitlines() if "decimal" in line]
            assert line.endswith("in 'a', 'b', 'c', 'd'.")
        assert result.stdout == expected

    def test_a_full_disk_leaves_the_old_predictions(self, folder, monkeypatch):
        def fail(_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        trained(folder, *FEW)
        out = folder / "labels.csv"
        out.write_text("old")
        monkeypatch.setattr(os, "fsync", fail)
        given = "predict", folder / "model.mk", folder / "iris.csv", "--out", out
        assert "disk is full" in run(*given, code=1).stderr
        assert out.read_text() == "old"

    @pytest.mark.skipif(sys.platform == "win32", reason="there are no such files there")
    def test_predictions_for_a_pipe(self, folder, capfd):
        trained(folder, *FEW)
        os.mkfifo(folder / "pipe")
        reader = os.open(folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        given = "predict", folder / "model.mk", folder / "iris.csv"
        run(*given, "--out", folder / "pipe")
        expected = run(*given).stdout
        assert os.read(reader, 2**16).decode() == expected
        os.close(reader)
        # the standard output is written to, wherever it goes
        run(*given, "--out", "/dev/stdout")
        assert capfd.readouterr().out == expected

    def test_labels_with_breaks_of_lines(self, folder):
        names = np.array(["one\ntwo", "a\rb", 'x, "y"'])
        frame = pd.DataFrame(IRIS, columns=NAMES).assign(kind=names[SPECIES])
        frame.to_parquet(folder / "odd.parquet")
        model, _ = trained(folder, *FEW, data="odd.parquet")
        written = run("predict", folder / "model.mk", folder / "odd.parquet", "--scores").stdout
        header, *rows = csv.reader(io.StringIO(written, newline=""))
        assert header == ["label", *(f"score:{name}" for name in model.classes_)]
        expected = model.predict(frame.drop(columns="kind"))
        assert [row[0] for row in rows] == expected.tolist()
        found = pd.read_csv(io.StringIO(written))
        assert found["label"].tolist() == expected.tolist()

    def test_two_classes_have_one_score(self, folder):
        np.savez(folder / "two.npz", X=IRIS[:100], y=SPECIES[:100])
        trained(folder, *FEW, data="two.npz")
        found = predicted(folder / "model.mk", folder / "two.npz", "--scores")
        assert found.columns.tolist() == ["label", "score:1"]
        assert ((found["score:1"] > 0) == (found["label"] == 1)).all()

    def test_columns_are_found_by_name(self, folder):
        trained(folder, *FEW)
        expected = run("predict", folder / "model.mk", folder / "iris.csv").stdout
        frame = (
            pd.read_csv(folder / "iris.csv")
            .drop(columns="kind")[["d", "b", "a", "c"]]
            .assign(other="x")
        )
        frame.to_csv(folder / "new.csv", index=False)
        assert run("predict", folder / "model.mk", folder / "new.csv").stdout == expected
        assert run("predict", folder / "model.mk", folder / "iris.libsvm").stdout == expected
        frame.drop(columns="b").to_csv(folder / "new.csv", index=False)
        assert (
            "lacks the columns 'b'; it has 'd', 'a', 'c', 'other'"
            in run("predict", folder / "model.mk", folder / "new.csv", code=1).stderr
        )

    def test_where_indices_begin_is_remembered(self, folder, rng):
        X = sparse.random_array((60, 30), density=0.1, rng=rng, format="csr")
        y = np.where(np.asarray(X[:, [1, 2, 3]].sum(axis=1)).ravel() > 0.1, 1, -1)
        write_libsvm(folder / "train.svm", X, y, zero_based=True)
        model, _ = trained(folder, *FEW, data="train.svm")
        rows = np.flatnonzero((X[:, [0]].toarray() == 0).ravel())
        # no index 0 in this file
        write_libsvm(folder / "new.svm", X[rows], y[rows], zero_based=True)
        predicted = json.loads(
            run("predict", folder / "model.mk", folder / "new.svm", "--json").stdout
        )
        assert predicted["predictions"] == model.predict(X[rows]).tolist()

    def test_no_score_from_labels_that_mean_nothing(self, folder):
        trained(folder, *FEW)
        write_libsvm(folder / "new.svm", IRIS, np.full(150, 99))
        assert "score" not in json.loads(
            run("predict", folder / "model.mk", folder / "new.svm", "--json").stdout
        )

    def test_models_that_were_saved_in_python(self, folder):
        manykernels.save(MKLClassifier([RBF(), Linear()]).fit(IRIS, SPECIES), folder / "model.mk")
        labels = predicted(folder / "model.mk", folder / "iris.npz")["label"]
        assert np.mean(np.array(labels, dtype=int) == SPECIES) > 0.9

    def test_pipelines_that_were_saved_in_python(self, folder):
        pipeline = make_pipeline(StandardScaler(), MKLClassifier([RBF(), Linear()]))
        manykernels.save(pipeline.fit(IRIS, SPECIES), folder / "model.mk")
        expected = pipeline.predict(IRIS).tolist()
        for data in ("iris.npz", "iris.libsvm"):
            assert predicted(folder / "model.mk", folder / data)["label"].tolist() == expected

    def test_words_beside_numbers(self, folder):
        """Numbers are scaled, words reach the kernels, and columns are found by name."""
        frame = pd.DataFrame(IRIS, columns=NAMES).assign(big=SPECIES == 2)
        frame.insert(1, "word", np.array(["x", "y", "z"])[(SPECIES + np.arange(150) % 2) % 3])
        frame.assign(kind=SPECIES).to_csv(folder / "words.csv", index=False)
        model, outcome = trained(folder, data="words.csv")
        assert outcome["data"]["standardized"]
        assert model[-1].categories_ == {"word": ["x", "y", "z"]}
        expected = model.predict(frame)
        frame[frame.columns[::-1]].to_csv(folder / "new.csv", index=False)
        labels = predicted(folder / "model.mk", folder / "new.csv")["label"].tolist()
        assert labels == expected.tolist()

    def test_a_model_that_is_not_there(self, folder):
        for command in ("predict", "report"):
            result = run(command, folder / "none.mk", folder / "iris.csv", code=1)
            assert "There is no model" in result.stderr
            assert "Errno" not in result.stderr

    def test_regression(self, folder):
        X, y = load_diabetes(return_X_y=True)
        np.savez(folder / "diabetes.npz", X=X[:200], y=y[:200])
        model, outcome = trained(
            folder, *FEW, "--C", "10", "--epsilon", "5", "--holdout", "0.25", data="diabetes.npz"
        )
        assert isinstance(model[-1], MKLRegressor)
        assert (outcome["task"], outcome["measure"], outcome["data"]["rows"]) == (
            "regression",
            "R²",
            150,
        )
        assert outcome["scores"]["held out"] > 0.2
        assert model[-1].epsilon == 5.0
        assert (
            "regression does not have"
            in run(
                "predict", folder / "model.mk", folder / "diabetes.npz", "--scores", code=1
            ).stderr
        )
        assert (
            "--class-weight is for classification"
            in run_train(folder, "--class-weight", "balanced", data="diabetes.npz").stderr
        )
        assert "--epsilon is for regression" in run_train(folder, "--epsilon", "1").stderr


def run_train(folder, *options, data="iris.csv", code=1):
    return run("train", folder / data, "--out", folder / "model.mk", *FEW, *options, code=code)


def interrupt_cell(monkeypatch, place, number):
    """Send a signal when a cell of the grid is done, by its place in time."""
    monkeypatch.undo()
    cell, places = tuning.made_cell, itertools.count()

    def interrupt(*given):
        if next(places) == place:
            os.kill(os.getpid(), number)
        return cell(*given)

    monkeypatch.setattr(tuning, "made_cell", interrupt)


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "name", "value"),
        [
            (["--C", "7"], "C", 7.0),
            (["--p", "inf"], "p", float("inf")),
            (["--p", "auto"], "p", "auto"),
            (["--loss", "squared_hinge"], "loss", "squared_hinge"),
            (["--loss", "logistic"], "loss", "logistic"),
            (["--solver", "spg"], "solver", "spg"),
            (["--normalize", "trace"], "normalize", "trace"),
            (["--normalize", "none"], "normalize", None),
            (["--rank", "20", "--seed", "3"], "approximation", Nystroem(rank=20, random_state=3)),
            (["--tol", "0.01"], "tol", 0.01),
            (["--max-iter", "400"], "max_iter", 400),
            (["--class-weight", "balanced"], "class_weight", "balanced"),
            (["--n-jobs", "1"], "n_jobs", 1),
            (["--seed", "5"], "random_state", 5),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else None,
    )
    def test_reach_the_estimator(self, folder, options, name, value):
        model, _ = trained(folder, *FEW, *options)
        assert model[-1].get_params(deep=False)[name] == value

    def test_standardize(self, folder):
        assert not trained(folder, *FEW, "--no-standardize")[1]["data"]["standardized"]
        write_libsvm(
            folder / "sparse.svm", sparse.diags_array(np.arange(1.0, 31.0)), np.arange(30) % 2
        )
        assert not trained(folder, *FEW, data="sparse.svm")[1]["data"]["standardized"]
        model, outcome = trained(folder, *FEW, "--standardize", data="sparse.svm")
        assert outcome["data"]["standardized"]
        assert not model[0].with_mean

    def test_scores(self, folder):
        _, outcome = trained(folder, *FEW, "--cv", "3", "--test", folder / "iris.npz")
        assert outcome["scores"]["test"] > 0.9
        assert len(outcome["scores"]["cross-validated"]) == 3
        _, outcome = trained(folder, *FEW, "--holdout", "0.2")
        assert outcome["data"]["rows"] == 120
        assert list(outcome["scores"]) == ["held out"]

    def test_number_of_features(self, folder):
        write_libsvm(folder / "test.svm", np.hstack([IRIS, IRIS]), SPECIES)
        options = ["--test", folder / "test.svm"]
        assert "beyond the 4 features" in run_train(folder, *options, data="iris.libsvm").stderr
        assert (
            trained(folder, *FEW, *options, "--n-features", "8", data="iris.libsvm")[
                0
            ].n_features_in_
            == 8
        )

    def test_target_and_task(self, folder):
        model, outcome = trained(folder, *FEW, "--target", "a")
        assert outcome["task"] == "regression"
        assert list(model.feature_names_in_) == ["b", "c", "d", "kind"]
        assert trained(folder, *FEW, "--task", "regression")[1]["task"] == "regression"

    def test_checkpoint_and_report(self, folder):
        pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
        trained(
            folder,
            *FEW,
            "--checkpoint",
            folder / "run.mk",
            "--report",
            folder / "page.html",
            "--test",
            folder / "iris.npz",
        )
        assert "<html" in (folder / "page.html").read_text()
        run(
            "report",
            folder / "model.mk",
            folder / "iris.csv",
            "--out",
            folder / "other.html",
            "--title",
            "Irises",
        )
        assert "Irises" in (folder / "other.html").read_text()

    def test_a_report_that_fails_leaves_the_model(self, folder, monkeypatch):
        resource = pytest.importorskip("resource")
        monkeypatch.setattr(resource, "getrlimit", lambda _: (10 * 2**30, 10 * 2**30))
        wrong = run_train(folder, "--report", folder / "page.html")
        assert f"the model was written to {folder / 'model.mk'}" in wrong.stderr
        assert "limited to 10.0 GiB" in wrong.stderr
        manykernels.load(folder / "model.mk")

    def test_quiet(self, folder):
        result = run_train(folder, "--quiet", code=0)
        assert (result.stdout, result.stderr) == ("", "")

    def test_table(self, folder):
        text = run_train(folder, "--holdout", "0.2", code=0).stdout
        for word in (
            "120 rows, 4 features, standardized",
            "3 classes",
            "OPTIMAL",
            "duality gap",
            "RBF(gamma=",
            "accuracy, held out",
        ):
            assert word in text


class TestHowItEnds:
    def test_version_and_completion(self):
        assert run("--version").stdout.split() == ["manykernels", manykernels.__version__]
        result = CliRunner().invoke(
            app,
            prog_name="manykernels",
            env={
                "_MANYKERNELS_COMPLETE": "complete_bash",
                "COMP_WORDS": "manykernels tr",
                "COMP_CWORD": "1",
            },
        )
        assert result.stdout.split() == ["train"]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--C", "-1"], "C must be a finite number above 0"),
            (["--p", "0.5"], "p must be"),
            (["--p", "two"], "--p must be a number"),
            (["--solver", "sgd"], "Unknown solver 'sgd'"),
            (["--loss", "squared"], "does not suit"),
            (["--kernels", "gauss"], "--kernels 'gauss' is not known"),
            (["--kernels", "none.json"], "No such file"),
            (["--target", "z"], "has no column 'z'"),
            (["--test", "missing.csv"], "There is no file missing.csv"),
            (["--out", "nowhere/model.mk"], "does not exist; make it first"),
            (
                ["--task", "regression", "--target", "word"],
                "Regression needs numbers as targets, got 'x'",
            ),
            (["--drop", "z"], "lacks the columns 'z'"),
            (["--columns", "a,z"], "lacks the columns 'z'"),
            (["--groups-column", "z"], "has no column 'z' of groups"),
            (["--groups-column", "a", "--p", "auto"], "--p auto makes folds of its own"),
        ],
    )
    def test_errors_are_one_line(self, folder, monkeypatch, options, message):
        monkeypatch.chdir(folder)
        frame = pd.DataFrame(IRIS, columns=NAMES).assign(kind=SPECIES)
        frame.assign(word="x").to_csv("words.csv", index=False)
        data = "words.csv" if "word" in options else "iris.csv"
        result = run("train", data, "--out", "model.mk", *FEW, *options, code=1)
        (line,) = result.stderr.splitlines()
        assert line.startswith("error: ")
        assert message in line
        assert result.stdout == ""

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--C", "-1"], "C must be"),
            (["--p", "two"], "--p must be a number"),
            (["--tol", "0"], "tol must be"),
            (["--loss", "squared", "--task", "classification"], "does not suit"),
            (["--loss", "none"], "does not suit"),
            (["--solver", "sgd"], "Unknown solver 'sgd'"),
            (["--kernels", "gauss"], "--kernels 'gauss' is not known"),
            (["--kernels", "none.json"], "No such file"),
            (["--device", "tpu"], "tpu"),
            (["--task", "classification", "--epsilon", "1"], "--epsilon is for regression"),
            (["--class-weight", "balanced", "--epsilon", "1"], "--epsilon is for regression"),
            (["--test", "none.csv"], "There is no file none.csv"),
        ],
    )
    def test_options_are_looked_at_before_the_data(self, tmp_path, monkeypatch, options, message):
        monkeypatch.chdir(tmp_path)
        assert message in run("train", "missing.csv", "--out", "m", *options, code=1).stderr

    def test_text_in_a_column_of_numbers(self, folder):
        trained(folder, *FEW)
        frame = pd.DataFrame(IRIS, columns=NAMES).astype({"b": object})
        frame.loc[2:, "b"] = "45 m"
        frame.to_csv(folder / "new.csv", index=False)
        wrong = run("predict", folder / "model.mk", folder / "new.csv", code=1).stderr
        assert "column 'b' holds '45 m' in row 3, and the model was trained on numbers" in wrong

    def test_debug_shows_where(self, folder):
        result = CliRunner().invoke(app, ["train", "missing.csv", "--out", "model.mk", "--debug"])
        assert isinstance(result.exception, FileNotFoundError)

    @pytest.mark.parametrize(
        "words",
        [
            ["learn"],
            ["train"],
            ["train", "x.csv"],
            ["train", "x.csv", "--out", "m", "--cv", "1"],
            ["predict", "m"],
        ]
        + [
            ["train", "x.csv", "--out", "m", *more]
            for more in (["--holdout", "2"], ["--holdout", "0.2", "--test", "y.csv"])
        ],
        ids=" ".join,
    )
    def test_wrong_usage(self, words):
        run(*words, code=2)

    def test_columns_beyond_any_memory(self, folder):
        (folder / "wide.libsvm").write_text("1 1:0.5 2000000000:1\n0 2:0.5\n" * 4)
        parts = {"data": [1.0], "indices": [2**62 - 1], "indptr": [0, 1, 1], "shape": [2, 2**62]}
        np.savez(folder / "wide.npz", y=[0, 1], **parts)
        for data, width in (("wide.libsvm", 2 * 10**9), ("wide.npz", 2**62)):
            for options in ([], ["--kernels", "auto"], ["--standardize"], ["--tune"]):
                wrong = run_train(folder, *options, data=data).stderr
                assert f"has {width:,} columns" in wrong
        trained(folder, data="iris.libsvm")
        wrong = run("predict", folder / "model.mk", folder / "wide.npz", code=1)
        assert f"has {2**62:,} features, the model was trained on 4" in wrong.stderr

    def test_not_converged(self, folder):
        options = ["--tol", "1e-12", "--max-iter", "1", "--solver", "spg", "--kernels", "auto"]
        _, outcome = trained(folder, *options, code=3)
        assert (outcome["status"], outcome["converged"]) == ("MAX_ITER", False)
        assert "not converged" in run_train(folder, *options, "--quiet", code=3).stderr

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    @pytest.mark.skipif(sys.platform == "win32", reason="signals are sent differently there")
    def test_signals_keep_the_model(self, folder, monkeypatch, number, code):
        record = loop._record

        def interrupt(iteration, *rest):
            if iteration == 1:
                os.kill(os.getpid(), number)
            return record(iteration, *rest)

        monkeypatch.setattr(loop, "_record", interrupt)
        model, outcome = trained(folder, "--tol", "1e-12", code=code)
        assert outcome["status"] == model[-1].result_.status.name == "INTERRUPTED"
        # the first fold ends the command
        run_train(folder, "--cv", "2", "--tol", "1e-12", code=code)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL

    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    @pytest.mark.skipif(sys.platform == "win32", reason="signals are sent differently there")
    def test_signals_end_a_grid(self, folder, monkeypatch, number, code):
        interrupt_cell(monkeypatch, 3, number)
        # folds that were not reached have no score
        table = number == signal.SIGINT
        done = run_train(folder, "--tune", *([] if table else ["--json"]), code=code)
        assert f"part of the grid that was finished; the model was written to {folder}" in (
            " ".join(done.stderr.split())
        )
        model = manykernels.load(folder / "model.mk")
        assert model.predict(pd.DataFrame(IRIS, columns=NAMES)).size == 150
        if table:
            assert "on one held-out fold" in " ".join(done.stdout.split())
        else:
            outcome = json.loads(done.stdout)
            assert outcome["interrupted"]
            assert None in outcome["tuned"]["scores"]
            assert outcome["scores"] == {}

    @pytest.mark.skipif(sys.platform == "win32", reason="signals are sent differently there")
    def test_a_signal_in_the_grid_of_a_fold(self, folder, monkeypatch):
        interrupt_cell(monkeypatch, 3, signal.SIGINT)
        done = run_train(folder, "--tune", "--cv", "2", code=130)
        assert "no model was written" in done.stderr

    @pytest.mark.skipif(sys.platform == "win32", reason="signals are sent differently there")
    def test_a_signal_before_there_is_a_model(self, folder, monkeypatch):
        interrupt_cell(monkeypatch, 0, signal.SIGINT)
        done = run_train(folder, "--tune", code=130)
        assert f"no model was written to {folder / 'model.mk'}" in " ".join(done.stderr.split())
        assert not (folder / "model.mk").exists()

    @pytest.mark.skipif(sys.platform == "win32", reason="signals are sent differently there")
    def test_a_signal_after_the_model_was_written(self, folder, monkeypatch):
        monkeypatch.setattr(_training, "measured", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        done = run_train(folder, code=130)
        assert f"the model was written to {folder / 'model.mk'}" in " ".join(done.stderr.split())
        assert (folder / "model.mk").exists()

    def test_a_process_of_its_own(self, folder):
        command = [sys.executable, "-m", "manykernels"]
        words = ["train", folder / "iris.csv", "--out", folder / "model.mk", "--json", *FEW]
        done = subprocess.run([*command, *words], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["converged"]

    @pytest.mark.skipif(sys.platform == "win32", reason="pipes break differently there")
    @pytest.mark.parametrize(
        "words",
        [
            ["--help"],
            ["datasets", "list", "--json"],
            ["datasets"],
            ["predict", "model.mk", "iris.csv"],
        ],
        ids=" ".join,
    )
    def test_a_reader_that_has_had_enough(self, folder, words):
        if "model.mk" in words:
            trained(folder, *FEW)
        with subprocess.Popen(
            [sys.executable, "-m", "manykernels", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
        ) as process:
            process.stdout.close()
            assert process.stderr.read() == ""
        assert process.returncode == 141

    @pytest.mark.skipif(sys.platform == "win32", reason="signals are sent differently there")
    @pytest.mark.parametrize(
        "module",
        [
            "typer",
            pytest.param("manykernels.cli.app", marks=pytest.mark.long),
            "numpy",
            pytest.param("numba", marks=pytest.mark.long),
            pytest.param("pandas", marks=pytest.mark.long),
        ],
    )
    def test_a_signal_while_modules_are_imported(self, folder, module):
        trained(folder, *FEW)
        words = ["manykernels", "predict", "model.mk", "iris.csv"]
        code = f"""
            import os, signal, sys

            class Finder:
                def find_spec(name, path=None, target=None):
                    if name == {module!r}:
                        os.kill(os.getpid(), signal.SIGINT)

            sys.meta_path.insert(0, Finder)
            sys.argv = {words}
            from manykernels.cli import main
            main()
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            capture_output=True,
            text=True,
            cwd=folder,
        )
        assert (done.returncode, done.stdout) == (130, "")
        (line,) = done.stderr.splitlines()
        assert line in (
            "interrupted while starting: nothing was written.",
            "interrupted: the command was not done.",
        )

    @pytest.mark.parametrize("words", [["--help"], ["predict", "--help"], ["datasets"]])
    def test_nothing_slow_is_imported_for_words_alone(self, folder, words):
        code = f"""
            import sys
            from manykernels.cli.app import app
            app({words}, standalone_mode=False)
            print({{"numpy", "sklearn", "pandas", "numba"}} & sys.modules.keys(), file=sys.stderr)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            capture_output=True,
            text=True,
            env={**os.environ, "MANYKERNELS_DATA": str(folder)},
        )
        assert done.stderr.strip() == "set()"

    def test_without_its_packages(self):
        code = "import sys; sys.modules['typer'] = None; from manykernels.cli import main; main()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 1
        assert "pip install 'manykernels[cli]'" in done.stderr
        assert "Traceback" not in done.stderr

    def test_the_script_that_an_installation_makes(self):
        text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
        module, function = tomllib.loads(text)["project"]["scripts"]["manykernels"].split(":")
        assert callable(getattr(import_module(module), function))


class TestDatasets:
    def test_list(self, monkeypatch, folder):
        monkeypatch.delenv("MANYKERNELS_DATA", raising=False)
        assert "breast_cancer" in run("datasets").stdout
        assert run("datasets", "list").stdout == run("datasets").stdout
        monkeypatch.setenv("MANYKERNELS_DATA", str(folder))
        names = [
            row["source"]
            for row in json.loads(run("datasets", "list", "--json").stdout)["datasets"]
        ]
        assert names.count("MANYKERNELS_DATA") == 0  # iris is scikit-learn's
        (folder / "iris.csv").rename(folder / "flowers.csv")
        facts = json.loads(run("datasets", "info", "flowers", "--json").stdout)
        assert facts == {
            "name": "flowers",
            "rows": 150,
            "features": 4,
            "task": "classification",
            "classes": {"0": 50, "1": 50, "2": 50},
        }
        monkeypatch.setenv("MANYKERNELS_DATA", str(folder / "nothing"))
        assert "which is not there" in run("datasets", code=1).stderr

    def test_info(self):
        assert "setosa (50)" in run("datasets", "info", "iris").stdout
        assert "25.0, 346.0" in run("datasets", "info", "diabetes").stdout
        assert "democrat (267)" in run("datasets", "info", "house_votes").stdout
        assert "mine (111)" in run("datasets", "info", "sonar").stdout
        assert "There is no data set 'roses'" in run("datasets", "info", "roses", code=1).stderr

    @pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "npz", "libsvm", "txt"])
    def test_export(self, tmp_path, ending):
        run("datasets", "export", "iris", tmp_path / f"iris.{ending}")
        data = read_table(tmp_path / f"iris.{ending}")
        X = data.X.toarray() if sparse.issparse(data.X) else np.asarray(data.X)
        np.testing.assert_array_equal(X, IRIS)
        words = {"setosa": 0, "versicolor": 1, "virginica": 2}
        assert [words.get(label, label) for label in data.y.tolist()] == SPECIES.tolist()

    def test_bench(self):
        outcome = json.loads(run("bench", "iris", "--points", "60", "--json").stdout)
        assert len(outcome["methods"]) == 6
        assert all(method["accuracy"] > 0.7 for method in outcome["methods"][:3])
        assert {method["columns"] for method in outcome["methods"]} == {
            *("as they are", "+ 3 shuffled")
        }
        plain = json.loads(run("bench", "iris", "--copies", "0", "--json").stdout)
        assert len(plain["methods"]) == 3
        assert "shuffled" in run("bench", "iris", "--points", "60").stdout
        assert "no classes" in run("bench", "diabetes", code=1).stderr


class TestParts:
    def test_endings_of_data_sets(self):
        assert _catalog.ENDINGS == tables.ENDINGS

    def test_an_infinite_norm_as_json(self, capsys):
        found = SimpleNamespace(best_index_=(0, 0), scores_=np.ones((2, 1, 1)), C_=1.0, p_=np.inf)
        tuned = _output._tuned(found)
        _output.print_json(tuned)
        assert json.loads(capsys.readouterr().out) == {"C": 1.0, "p": "inf", "scores": [1.0, 1.0]}
        assert dict(_output._choice(tuned))["chosen"].startswith("C = 1, p = inf;")

    def test_kernels(self, tmp_path):
        X = pd.DataFrame(IRIS[:, :3], columns=["a", "b", "c"]).assign(color="red")
        gaussians = kernels_from("rbf", IRIS)
        assert [kernel.gamma * IRIS.var(axis=0).sum() for kernel in gaussians] == pytest.approx(
            2.0 ** np.arange(-5, 5)
        )
        with pytest.warns(UserWarning, match="do not see the columns 'color'"):
            assert {kernel.features for kernel in kernels_from("rbf,poly,laplacian", X)} == {
                ("a", "b", "c")
            }
        assert [kernel.degree for kernel in kernels_from("poly,poly5", IRIS)] == [2, 3, 5]
        file = tmp_path / "kernels.json"
        file.write_text(
            '{"one": [{"kind": "RBF", "gamma": 0.5, "features": ["a", "b"]}], '
            '"two": {"kind": "polynomial", "degree": 2}}'
        )
        assert kernels_from(str(file), X) == {
            "one": [RBF(0.5, features=("a", "b"))],
            "two": [Polynomial(2)],
        }
        file.write_text('[{"kind": "linear"}]')
        assert kernels_from(str(file), X) == [Linear()]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[", "not JSON"),
            ('[{"kind": "gauss"}]', "one of .*rbf"),
            ("[3]", "got 3"),
            ('[{"kind": "rbf", "width": 1}]', "does not fit"),
        ],
    )
    def test_bad_kernel_files(self, tmp_path, text, message):
        (tmp_path / "kernels.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            kernels_from(str(tmp_path / "kernels.json"), IRIS)

    @pytest.mark.parametrize(
        "kind",
        [np.asarray, sparse.csr_array, lambda X: pd.DataFrame(X, columns=NAMES).assign(word="x")],
    )
    def test_scaling(self, kind):
        X = IRIS.copy()
        X[:, 3] = 2.0  # a constant column
        scaled = prepared_columns(kind(X), True).fit_transform(kind(X))
        if hasattr(scaled, "columns"):
            assert (scaled.pop("word") == "x").all()
        dense = scaled.toarray() if sparse.issparse(scaled) else np.asarray(scaled, dtype=float)
        center = 0.0 if sparse.issparse(scaled) else X.mean(axis=0)
        np.testing.assert_allclose(dense, (X - center) / [*X[:, :3].std(axis=0), 1.0], atol=1e-12)

    @pytest.mark.parametrize(
        ("y", "task"),
        [
            (np.array(["p", "q"]), "classification"),
            (np.array([True, False]), "classification"),
            (np.array([1.0, -1.0, 1.0]), "classification"),
            (np.array([0.5, 1.0]), "regression"),
            (np.arange(100), "regression"),
        ],
    )
    def test_task(self, y, task):
        assert choose_task(y) == task
