"""Tables as they come, from the command line: what is done with them, and what is said about it."""

import json
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import Pipeline

import manykernels
from manykernels import MKLClassifier, MKLClassifierCV, MKLRegressor
from manykernels.cli._doubts import doubts_of, unseen_categories
from manykernels.cli._input import Origin, Training
from manykernels.cli._measures import Answers, measured
from manykernels.cli._pipeline import fit, held_out, prepared_columns, splitter
from manykernels.kernels import Linear, Spectrum
from manykernels.readers import read_table
from test_cli import run

MESSY = Path(__file__).parent.parent / "examples" / "messy.py"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 3))
LABELS = np.array(["p", "q", "r"])[(X[:, 0] > 0) + 1 * (X[:, 1] > 1)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the two tables of the example."""
    folder = tmp_path_factory.mktemp("messy")
    with pytest.MonkeyPatch.context() as patch:
        names = [str(folder / "patients.csv"), str(folder / "new.csv")]
        patch.setattr("sys.argv", ["messy.py", *names])
        runpy.run_path(str(MESSY), run_name="__main__")
    return folder


class TestTheExample:
    def test_train_predict_and_report_at_the_first_attempt(self, folder):
        options = ["--out", folder / "model.mk", "--holdout", "0.25", "--json"]
        done = run("train", folder / "patients.csv", *options)
        for sentence in (
            "days since 1970-01-01, in 'first_visit', 'month'",
            "hold nothing are left out: 'comment'",
            "'age' (6 of 315 rows), 'first_visit' (5 of 315 rows), 'marker' (53 of 315 rows)",
            "category of their own: 'smoker' (30 of 315 rows)",
            "'patient_id' looks like an identifier",
            "'hospital' has words of fewer than 5 rows each: 'east', in 4 of 315",
            "15 of 315 rows are copies of others",
            "class 'dead' has 5 rows",
        ):
            assert sentence in done.stderr
        outcome = json.loads(done.stdout)
        assert len(outcome["doubts"]) == 7  # dates are said by the reader
        found, constant = outcome["measures"]["held out"], outcome["without_features"]["held out"]
        assert list(found) == ["accuracy", "balanced accuracy", "area under the ROC curve"]
        assert constant["balanced accuracy"] == pytest.approx(1 / 3)
        assert found["accuracy"] == outcome["scores"]["held out"]
        model = manykernels.load(folder / "model.mk")
        assert "missingindicator_marker" in model[-1].feature_names_in_
        assert "missingindicator_age" not in model[-1].feature_names_in_

        done = run("predict", folder / "model.mk", folder / "new.csv")
        assert len(done.stdout.splitlines()) == 106
        assert "'hospital': training had no 'west', which 3 of 105 rows hold" in done.stderr
        assert "balanced accuracy 0." in done.stderr
        pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
        done = run("report", folder / "model.mk", folder / "new.csv", "-o", folder / "page.html")
        assert "'west'" in done.stderr
        assert "<html" in (folder / "page.html").read_text()

    def test_without_the_identifier_and_for_numbers(self, folder):
        options = ["-o", folder / "model.mk", "--drop", "patient_id,month", "--target", "weight"]
        done = run("train", folder / "patients.csv", *options, "--cv", "2")
        assert "patient_id" not in done.stderr + done.stdout
        text = " ".join(done.stdout.split())
        assert "mean absolute error, cross-validated" in text
        assert "for the mean of the targets" in text

    def test_groups_of_rows(self, folder):
        frame = pd.read_csv(folder / "patients.csv").assign(patient_id=np.arange(315) // 5)
        frame.to_csv(folder / "visits.csv", index=False)
        options = ["-o", folder / "model.mk", "--holdout", "0.3", "--columns", "age,marker"]
        options += ["--groups-column", "patient_id"]
        outcome = json.loads(run("train", folder / "visits.csv", *options, "--json").stdout)
        assert outcome["data"]["features"] == 2
        assert outcome["data"]["rows"] % 5 == 0
        assert Origin.of(manykernels.load(folder / "model.mk")).feature_names == ["age", "marker"]
        frame.assign(patient_id=frame["patient_id"].where(frame.index > 0)).to_csv(
            folder / "visits.csv", index=False
        )
        done = run("train", folder / "visits.csv", *options, code=1)
        assert "1 rows have no entry in the column 'patient_id'" in done.stderr


class TestFolds:
    GROUPS = np.arange(90) // 3

    @pytest.mark.parametrize("task", ["classification", "regression"])
    def test_groups_stay_together(self, task):
        y = LABELS if task == "classification" else X[:, 0]
        data = Training(X, y, task, Origin(), self.GROUPS)
        cv = splitter(3, task, True, 0)
        for train, test in [held_out(data, 0.3, 0), *cv.split(X, y, self.GROUPS)]:
            assert not set(self.GROUPS[train]) & set(self.GROUPS[test])
            assert len(train) + len(test) == 90

    def test_a_class_of_one_row_is_to_train_on(self):
        y = LABELS.copy()
        y[7] = "once"
        train, test = held_out(Training(X, y, "classification", Origin()), 0.3, 0)
        assert 7 in train
        assert sorted([*train, *test]) == list(range(90))
        assert set(y[test]) == {"p", "q", "r"}

    def test_tuning_knows_the_groups(self):
        tuned = MKLClassifierCV([Linear()], Cs=[1.0], ps=[2.0], cv=GroupKFold(3))
        pipeline = Pipeline([("model", tuned)])
        assert fit(pipeline, X, LABELS, self.GROUPS)[-1].scores_.shape == (3, 1, 1)
        with pytest.raises(ValueError, match="groups"):
            fit(pipeline, X, LABELS)


class TestMeasures:
    def test_of_classes(self):
        model = MKLClassifier(loss="logistic").fit(X[:60], LABELS[:60])
        found, constant = measured(Answers.of(model, X[60:]), LABELS[60:], LABELS[:60])
        y, chances, said = LABELS[60:], model.predict_proba(X[60:]), model.predict(X[60:])
        values = model.decision_function(X[60:])
        areas = [metrics.roc_auc_score(y == label, values[:, c]) for c, label in enumerate("pqr")]
        assert found == pytest.approx(
            {
                "accuracy": np.mean(said == y),
                "balanced accuracy": metrics.balanced_accuracy_score(y, said),
                "area under the ROC curve": np.mean(areas),
                "Brier score": np.square(chances - (y[:, None] == list("pqr"))).sum(axis=1).mean(),
            }
        )
        assert pd.Series(LABELS[:60]).mode().tolist() == ["p"]
        assert constant["accuracy"] == np.mean(y == "p")

    def test_of_two_classes(self):
        y = X[:, 0] > 0
        model = MKLClassifier(loss="logistic").fit(X[:60], y[:60])
        found, constant = measured(Answers.of(model, X[60:]), y[60:], y[:60])
        chances = model.predict_proba(X[60:])[:, 1]
        assert found["Brier score"] == pytest.approx(metrics.brier_score_loss(y[60:], chances))
        share = np.full(30, np.mean(y[:60]))
        expected = metrics.brier_score_loss(y[60:], share)
        assert constant["Brier score"] == pytest.approx(expected)
        assert (
            "area under the ROC curve"
            not in measured(Answers.of(model, X[60:61]), y[60:61], y[:60])[0]
        )

    def test_of_numbers(self):
        model = MKLRegressor().fit(X[:60], X[:60, 0])
        found, constant = measured(Answers.of(model, X[60:]), X[60:, 0], X[:60, 0])
        assert found["R²"] == pytest.approx(model.score(X[60:], X[60:, 0]))
        error = np.mean(np.abs(X[60:, 0] - X[:60, 0].mean()))
        assert constant["mean absolute error"] == pytest.approx(error)

    def test_of_rows_that_tuning_held_out(self):
        model = MKLClassifierCV([Linear()], Cs=[1.0], ps=[2.0], cv=3).fit(X, LABELS)
        answers, known = Answers.held_out(model)
        assert known.all()
        np.testing.assert_array_equal(answers.values, model.oof_decision_)
        assert measured(answers, LABELS, LABELS)[0]["accuracy"] > 0.7


def doubts(**columns):
    frame = pd.DataFrame({"a": X[:, 0], **columns})
    return " ".join(doubts_of(frame, X[:, 0], "regression"))


class TestDoubts:
    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("n", np.arange(90)[::-1]),
            ("sampleId", RNG.permutation(90_000)[:90]),
            ("patient ID", np.arange(90) // 2),
            ("code", [f"{number:x}" for number in RNG.permutation(90_000)[:90]]),
            ("row", [None, *range(89)]),
        ],
    )
    def test_identifiers(self, name, values):
        assert f"{name!r} looks like an identifier" in doubts(**{name: values})

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("income", RNG.permutation(90_000)[:90]),
            ("id", np.arange(90) % 4),
            ("valid", np.arange(90) % 40),
            ("kidney", X[:, 1]),
        ],
    )
    def test_no_identifiers(self, name, values):
        assert "identifier" not in doubts(**{name: values})

    def test_repeated_rows_of_arrays(self):
        twice = np.vstack([X, X[:5]])
        assert "5 of 95 rows are copies" in doubts_of(twice, twice[:, 0], "regression")[0]
        twice[0, 0] = np.nan
        assert "1 in 1 of 3 columns" in doubts_of(twice, twice[:, 1], "regression")[0]

    def test_new_strings_are_no_surprise(self):
        words = pd.DataFrame({"word": ["ab", "abc", "bca", "aab", "xyz", "xxy", "zyx", "yz"]})
        model = MKLClassifier([Spectrum(1)]).fit(words, np.arange(8) // 4)
        assert unseen_categories(model, words.assign(word="xy")) == []

    def test_indicators_are_for_many_rows(self):
        frame = pd.DataFrame(X, columns=list("abc"))
        frame.loc[:3, "a"] = np.nan
        frame.loc[:30, "b"] = np.nan
        scaled = prepared_columns(frame, True).fit_transform(frame)
        assert list(scaled.columns) == ["a", "b", "c", "missingindicator_b"]
        assert prepared_columns(frame[["a", "c"]], False) is None


def test_the_example_is_read_alike_in_python(folder):
    with pytest.warns(UserWarning, match="days since"):
        data = read_table(folder / "patients.csv")
    assert set(data.dates) == {"first_visit", "month"}
