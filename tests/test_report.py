"""The report in one HTML file, read as text and opened in a browser."""

import json
import os
import re
import runpy
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import manykernels
from conftest import MIXED, data_folder, toy
from manykernels import (
    KernelCollection,
    MKLClassifier,
    MKLClassifierCV,
    MKLFeatureSelector,
    MKLOneClass,
    MKLRegressor,
    MKLRegressorCV,
    group_importance,
    report,
    shapley_values,
    stability,
)
from manykernels._files import CannotWrite
from manykernels.display import KernelHeatmapDisplay
from manykernels.display.report import page as page_parts
from manykernels.kernels import RBF, Hamming, Linear, Precomputed, on_groups
from manykernels.lowrank import Nystroem
from manykernels.regularizers import L1

pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")

ROOT = Path(__file__).parents[1]
X, y = toy(60)
X_new, y_new = toy(40, seed=1)
SURE = on_groups({"first": [0, 1], "second": [2, 3]}, [RBF(0.5), Linear()])
THREE, THREE_NEW = (
    np.array(["a", "b", "c"])[np.digitize(points[:, 0], [-0.5, 0.5])] for points in (X, X_new)
)
EVIL = "<script>document.title = 'run'</script><img src=x onerror=\"document.title = 'run'\">"


class Text(HTMLParser):
    """What a person reads, without scripts and styles; tags must be closed in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.words, self.tags = [], [], []
        self.feed(page)
        assert self.open == []
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Writes a report, without the script that draws, and gives its text and its charts."""
    monkeypatch.setattr(page_parts, "_vega", lambda: "")

    def read(model, *data, **options):
        page = report(model, *data, path=tmp_path / "report.html", **options).read_text(
            encoding="utf-8"
        )
        charts = re.search(
            r'<script type="application/json" id="charts">(.*?)</script>', page, re.DOTALL
        )
        return Text(page), json.loads(charts[1])

    return read


def evil_model():
    frame = pd.DataFrame(X, columns=[EVIL, "b", "c", "d"])
    kernels = {EVIL: [RBF(0.5, features=[EVIL])], "plain": [RBF(0.5), Linear()]}
    return (
        MKLClassifier(kernels, p=1.5).fit(frame, np.where(y > 0, EVIL, "other")),
        frame,
        np.where(y > 0, EVIL, "other"),
    )


def rows_of(part):
    """All data in a chart, or in any part of one."""
    if isinstance(part, dict) and "values" in part and isinstance(part["values"], list):
        return [row for row in part["values"] if isinstance(row, dict)]
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return [row for one in inner for row in rows_of(one)]


def seen(charts, field):
    """Values of a field anywhere in the charts."""
    return [row[field] for row in rows_of(list(charts.values())) if field in row]


class TestText:
    def test_what_a_binary_classifier_says(self, read):
        model = MKLClassifier(
            {"one": [*MIXED[:5], MIXED[7]], "two": MIXED[5:7]}, p=1.33, C=3.0
        ).fit(X, y)
        page, charts = read(model, X_new, y_new, title="My title")
        assert f"{100 * model.score(X_new, y_new):.1f} % accuracy on 40 points" in page.text
        assert "My title MKLClassifier · 2 classes · 8 kernels" in page.text
        assert "On the 40 points given to this report." in page.text
        assert "proven, up to rounding, not estimated" in page.text
        assert "norm of the weights, p 1.33" in page.text
        assert f"SVM problems solved {model.result_.counters.svm_solves}" in page.text
        assert f"support vectors {model.support_.size} " in page.text
        assert "one 6 all" in page.text  # kernels and features of the groups
        assert "two 2 2" in page.text
        frame = model.weights_frame()
        heaviest = frame["kernel"][frame["remark"] == ""].iloc[0]
        assert heaviest in page.text
        assert heaviest in seen(charts, "name")
        assert len(charts) == 8  # drops, confusion, two curves, groups, kernels, gap, objective

    def test_training_data_are_called_so(self, read):
        page, _ = read(MKLClassifier(MIXED).fit(X, y), X, y)
        assert (
            "On the 60 points that the model was trained on. Expect less on new ones." in page.text
        )

    def test_confusion(self, read):
        model = MKLClassifier(MIXED).fit(X, THREE)
        _, charts = read(model, X_new, THREE_NEW)
        cells, predicted = rows_of(charts["chart-2"]), model.predict(X_new)
        assert len(cells) >= 9
        for cell in cells:
            count = int(np.sum((THREE_NEW == cell["true"]) & (predicted == cell["predicted"])))
            assert cell["words"] == (str(count) if count else "")

    @pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
    @pytest.mark.parametrize("share_weights", [True, False])
    def test_several_classes(self, read, multiclass, share_weights):
        model = MKLClassifier(MIXED, multiclass=multiclass, share_weights=share_weights).fit(
            X, THREE
        )
        page, charts = read(model, X_new, THREE_NEW)
        assert ("Every output has weights of its own" in page.text) == (not share_weights)
        if not share_weights:
            assert ("b / a" if multiclass == "ovo" else "b") in seen(charts, "output")

    def test_classes_that_were_not_trained_on(self, read):
        page, _ = read(
            MKLClassifier(MIXED).fit(X, THREE), X_new, np.where(THREE_NEW == "a", "new", THREE_NEW)
        )
        assert "new" in page.text

    def test_regression(self, read):
        model = MKLRegressor(MIXED, C=10.0).fit(X, X[:, 0] * X[:, 1])
        page, charts = read(model, X_new, X_new[:, 0] * X_new[:, 1])
        assert f"{model.score(X_new, X_new[:, 0] * X_new[:, 1]):.3f} R² on 40 points" in page.text
        assert "predicted value" in json.dumps(charts["chart-2"])

    def test_several_targets_and_no_truth(self, read):
        model = MKLRegressor(MIXED, loss="squared", p=2).fit(X, X[:, :2])
        page, _ = read(model, X_new, X_new[:, :2])
        assert "target 1" in page.text
        assert "2 targets" in page.text
        assert "R²" not in read(model, X_new)[0].text

    def test_novelties(self, read):
        model = MKLOneClass(MIXED, nu=0.2).fit(X)
        page, _ = read(model, X_new)
        assert f"outside {np.sum(model.predict(X_new) == -1)}" in page.text
        assert "share outside, ν 0.2" in page.text

    def test_low_rank(self, read):
        page, _ = read(
            MKLClassifier(MIXED, approximation=Nystroem(20), p=2).fit(X, y), X_new, y_new
        )
        assert "about the approximated kernels" in page.text
        assert "Pale bars show" in page.text

    def test_product_has_no_gap(self, read):
        page, charts = read(MKLClassifier(combination="product").fit(X, y), X_new, y_new)
        assert "has no duality gap" in page.text
        assert "cannot be divided among them" in page.text
        assert "relative duality gap" not in json.dumps(charts)
        assert "objective" in json.dumps(charts)

    def test_very_many_kernels(self, read):
        rng = np.random.default_rng(0)
        many = KernelCollection.masked_rbf(
            rng.uniform(0.1, 1, 12_000), rng.random((12_000, 4)) < 0.5
        )
        page, charts = read(MKLClassifier(many, p=1.33, max_iter=1, tol=0.5).fit(X[:20], y[:20]))
        assert "12,000 kernels" in page.text
        assert "others" in page.text
        assert len(json.dumps(charts)) < 50_000
        assert len(page.text) < 20_000

    def test_inside_a_pipeline_and_with_chosen_p(self, read):
        page, _ = read(
            make_pipeline(StandardScaler(), MKLClassifier(MIXED[:3], p="auto")).fit(X, y),
            X_new,
            y_new,
        )
        assert "How p was chosen" in page.text
        assert "mean score on held-out folds" in page.text

    def test_tuned(self, read):
        model = MKLClassifierCV(MIXED, Cs=[0.1, 1.0], ps=[1.0, 2.0], cv=3)
        text = read(model.fit(X, y), X, y)[0].text
        assert "How C and p were chosen" in text
        assert f"{model.best_score_:.4f}" in text
        assert "Brier score" in text
        truth = y == model.classes_[1]
        brier = np.mean((model.predict_proba(X)[:, 1] - truth) ** 2)
        assert f"{brier:.4f}" in text

    def test_which_groups_matter(self, read):
        """The first section: of an explanation, of held-out rows, or of the model alone."""
        model = MKLClassifier(SURE, p=1.33).fit(X, y)
        found = model.explain(X, y, cv=2, n_halves=4)
        page, charts = read(model, X_new, y_new, explanation=found)
        first, second = page.text.split("How well it does")[0], rows_of(charts["chart-1"])
        assert first.rindex("Which groups matter") < first.index(found.summary()[0])
        assert [row["drop"] for row in second[:2]] == pytest.approx(found.drops)
        page, charts = read(model, X_new, y_new)
        assert "for intervals, and for how often a group helps" in page.text
        colors = {
            row["name"]: row["color"] for row in rows_of(list(charts.values())) if "drop" in row
        }
        assert len(set(colors.values())) == 2
        shares = [row for row in rows_of(list(charts.values())) if row.get("name") in colors]
        assert all(row["color"] == colors[row["name"]] for row in shares)
        assert "Receiver operating characteristic" in page.text
        for data in ((), (X, y)):
            page, charts = read(model, *data)
            assert "give X and y that the model was not trained on" in page.text
            assert not seen(charts, "drop")
            assert not seen(charts, "curve")
        assert (
            "All kernels have the same weight" in read(model.set_params(p=np.inf).fit(X, y))[0].text
        )

    def test_curves(self, read):
        model = MKLClassifierCV(SURE, Cs=[1.0], ps=[1.33], cv=3).fit(X, THREE)
        _, charts = read(model, X_new, THREE_NEW)
        areas = [
            roc_auc_score(THREE_NEW == label, model.decision_function(X_new)[:, c])
            for c, label in enumerate(model.classes_)
        ]
        words = {f"{label}: area {area:.3f}" for label, area in zip("abc", areas, strict=True)}
        assert words <= set(seen(charts, "curve"))
        assert "predicted probability of each of 3 classes" in json.dumps(charts)
        model = MKLClassifierCV(SURE, Cs=[1.0], ps=[1.33], cv=3).fit(
            X, np.where(y > 0, "yes", "no")
        )
        _, charts = read(model, X_new, np.where(y_new > 0, "yes", "no"))
        assert "predicted probability of class yes" in json.dumps(charts)

    def test_how_sure(self, read):
        model = MKLClassifier(SURE, p=1.0).fit(X, y)
        found = stability(model, X, y, n_resamples=10)
        added = group_importance(model, X, y, cv=2, n_permutations=99)
        text = read(model, X, y, stability=found, importance=added)[0].text
        assert "How sure it is which groups matter" in text
        assert f"at most {found.expected_false():.2g} are expected" in text
        assert text.count("first") >= 4
        assert "Groups that no model selects are left out" in text
        assert "corrected after Holm" in text
        assert "95 % interval" in text
        assert "always the commonest class" in text
        assert "How sure" not in read(model, X, y)[0].text

    def test_what_the_columns_add(self, read):
        model = MKLClassifier(MIXED).fit(X, y)
        found = shapley_values(model, X_new)
        text, charts = read(model, X_new, y_new, shapley=found)
        assert "What the columns add" in text.text
        assert "what the column adds to the decision" in json.dumps(charts)
        assert "What the columns add" not in read(model, X_new, y_new)[0].text

    def test_probabilities_of_the_logistic_loss(self, read):
        model = MKLClassifier(MIXED, loss="logistic").fit(X, y)
        text = read(model, X_new, y_new)[0].text
        truth = y_new == model.classes_[1]
        brier = np.mean((model.predict_proba(X_new)[:, 1] - truth) ** 2)
        assert f"{brier:.4f}" in text
        assert "the logistic loss" in text
        assert "Brier" not in read(MKLClassifier(MIXED).fit(X, y), X_new, y_new)[0].text

    def test_tuned_regression_without_data(self, read):
        model = MKLRegressorCV(MIXED, Cs=[0.1, 1.0], ps=[1.0], cv=3).fit(X, X[:, 0])
        text = read(model)[0].text
        assert "How C and p were chosen" in text
        assert "Brier" not in text

    def test_kernels_that_say_nothing(self, read):
        with pytest.warns(UserWarning, match="identity"):
            model = MKLClassifier([RBF(1e4), RBF(0.1)], p=2.0).fit(X, y)
        assert "nearly the identity" in read(model)[0].text

    def test_a_feature_selector(self, read):
        page, _ = read(MKLFeatureSelector(strength=0.1).fit(X, y), X_new, y_new)
        assert "accuracy on 40 points" in page.text
        assert "weights above zero" in page.text

    def test_two_kernels_of_one_name(self, read):
        model = MKLClassifier([RBF(1.0), RBF(1.0), Linear()], p=2, share_weights=False).fit(
            X, THREE
        )
        _, charts = read(model)
        assert set(seen(charts, "place")) == {0, 1, 2}

    def test_matrices_in_place_of_data(self, read):
        model = MKLClassifier([Precomputed(X @ X.T)]).fit(np.arange(60)[:, None], y)
        assert "accuracy on 40 points" in read(model, [X_new @ X.T], y_new)[0].text

    def test_the_gap_is_said_of_the_objective(self, read):
        """The gap is relative to the objective, so it is no distance in parts of the optimum."""
        with pytest.warns(match="limit on iterations"):
            model = MKLClassifier(MIXED, max_iter=0).fit(X, y)
        page, charts = read(model)
        primal, dual = model.result_.certificate[:2]
        assert f"{100 * (primal - dual) / primal:.1f} % of it is left to gain" in page.text
        assert "It took one step." in page.text
        assert len(charts) == 1

    def test_precomputed(self, read):
        model = MKLClassifier([Precomputed(X @ X.T, title="mine")]).fit(np.arange(60)[:, None], y)
        assert "mine" in read(model, np.arange(60)[:, None], y)[0].text

    def test_no_kernel_has_weight(self, read):
        with pytest.warns(match="All kernel weights are zero"):
            model = MKLClassifier(MIXED, regularizer=L1(1e9)).fit(X, y)
        assert "No kernel has weight" in read(model, X, y)[0].text

    def test_what_is_missing_is_left_out(self, read):
        model = MKLClassifier(MIXED).fit(X, y)
        model.result_.history = []
        page, _ = read(model)
        assert "The history of the fit was not kept" in page.text
        assert "No data were given" in page.text
        del model.result_
        assert "The outcome of the fit was not kept" in read(model)[0].text

    def test_a_model_from_a_file(self, read, tmp_path):
        model = MKLClassifier(MIXED).fit(X, y)
        manykernels.save(model, tmp_path / "model.mk")
        page, charts = read(manykernels.load(tmp_path / "model.mk"), X, y)
        same, same_charts = read(model, X, y)
        assert len(charts) == len(same_charts)
        assert page.text.count("RBF") == same.text.count("RBF")

    @pytest.mark.parametrize("approximation", [None, Nystroem(20)], ids=["exact", "nystroem"])
    def test_the_model_is_as_before(self, read, approximation):
        frame = pd.DataFrame(
            {"size": X[:, 0], "kind": np.where(X[:, 1] > 0, "u", np.where(X[:, 2] > 0, "v", "w"))}
        )
        kernels = [RBF(features="size"), Hamming(features="kind")]
        model = MKLClassifier(kernels, approximation=approximation).fit(frame, y)
        before, some = model.decision_function(frame), frame["kind"] != "u"
        read(model, frame[some], y[some])
        KernelHeatmapDisplay.from_estimator(model, frame, y)
        assert model.categories_ == {"kind": ["u", "v", "w"]}
        np.testing.assert_array_equal(model.decision_function(frame), before)

    def test_all_names_are_escaped(self, read):
        model, frame, labels = evil_model()
        page, charts = read(model, frame, labels, title=EVIL)
        assert page.tags.count("script") == 3  # the data of the charts, Vega, ours
        assert "img" not in page.tags
        assert page.text.count("<script>document.title") > 3
        assert EVIL in seen(charts, "name")
        assert EVIL in seen(charts, "true")


class TestFile:
    def test_one_file_of_about_a_megabyte(self, tmp_path):
        path = report(MKLClassifier(MIXED).fit(X, y), path=tmp_path / "report.html")
        assert [file.name for file in path.parent.iterdir()] == ["report.html"]
        assert 5e5 < path.stat().st_size < 1.5e6
        assert path.stat().st_mode & 0o044 or os.umask(os.umask(0)) & 0o044

    def test_files_that_cannot_be_written(self, tmp_path):
        """As `save` has it, and before any work."""
        with pytest.raises(CannotWrite, match="does not exist; make it first"):
            report(MKLClassifier(MIXED).fit(X, y), path=tmp_path / "deep" / "report.html")
        with pytest.raises(CannotWrite, match="it is a folder"):
            report(MKLClassifier(MIXED).fit(X, y), path=tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_a_limit_on_addresses(self, tmp_path, monkeypatch):
        """The engine that prepares the charts would end the process."""
        resource = pytest.importorskip("resource")
        model, path = MKLClassifier(MIXED).fit(X, y), tmp_path / "report.html"
        monkeypatch.setattr(resource, "getrlimit", lambda _: (10 * 2**30, 10 * 2**30))
        with pytest.raises(MemoryError, match=r"limited to 10\.0 GiB: raise the limit"):
            report(model, path=path)
        assert not path.exists()
        monkeypatch.setattr(resource, "getrlimit", lambda _: (200 * 2**40, 200 * 2**40))
        assert report(model, path=path).exists()

    def test_a_failure_leaves_the_old_file(self, tmp_path, monkeypatch):
        model, path = MKLClassifier(MIXED).fit(X, y), tmp_path / "report.html"
        path.write_text("old")
        monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            report(model, path=path)
        assert path.read_text() == "old"
        assert [file.name for file in tmp_path.iterdir()] == ["report.html"]

    def test_bad_input(self, tmp_path):
        with pytest.raises(ValueError, match="y without X"):
            report(MKLClassifier(MIXED).fit(X, y), y=y, path=tmp_path / "report.html")
        with pytest.raises(TypeError, match="An MKL estimator is needed"):
            report(StandardScaler(), path=tmp_path / "report.html")
        with pytest.raises(Exception, match="not fitted yet"):
            report(MKLClassifier(), path=tmp_path / "report.html")

    def test_missing_packages_are_named(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "altair", None)
        with pytest.raises(ImportError, match=r"needs altair: .* manykernels\[report\]"):
            report(MKLClassifier(MIXED).fit(X, y), path=tmp_path / "report.html")
        monkeypatch.setitem(sys.modules, "vl_convert", None)
        with pytest.raises(ImportError, match=r"needs vl-convert-python: .* manykernels\[report\]"):
            page_parts._vega.__wrapped__()


@pytest.fixture(scope="module")
def browser():
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    if found is None:
        pytest.skip(
            "no Chromium on this machine to open the report in; install the package chromium"
        )
    with sync.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser, tmp_path):
    """Opens the report of a model and gives the page and all that it complained of or asked for."""
    contexts = []

    def visit(model, *data, width=1000, scheme="light", **options):
        path = report(model, *data, path=tmp_path / "report.html", **options)
        contexts.append(
            browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        )
        page, trouble, asked = contexts[-1].new_page(), [], []
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_function(
            "[...document.querySelectorAll('.chart')].every(chart => chart.dataset.drawn)"
        )
        return (
            page,
            trouble,
            [url for url in asked if url != path.as_uri() and not url.startswith("data:")],
        )

    yield visit
    for context in contexts:
        context.close()


MODELS = {
    "classes": (
        lambda: MKLClassifier({"one": MIXED[:3], "two": MIXED[3:]}).fit(X, THREE),
        (X_new, THREE_NEW),
    ),
    "per class": (
        lambda: MKLClassifier(MIXED, share_weights=False).fit(X, THREE),
        (X_new, THREE_NEW),
    ),
    "regression": (lambda: MKLRegressor(MIXED).fit(X, X[:, :2]), (X_new, X_new[:, :2])),
    "novelties": (lambda: MKLOneClass(MIXED).fit(X), (X_new,)),
    "product": (lambda: MKLClassifier(combination="product").fit(X, y), (X_new, y_new)),
}


@pytest.mark.browser
class TestBrowser:
    @pytest.mark.parametrize("name", MODELS)
    def test_charts_are_drawn_without_trouble(self, visit, name):
        model, data = MODELS[name]
        page, trouble, asked = visit(model(), *data)
        assert trouble == []
        assert asked == []
        charts = page.locator(".chart svg")
        assert charts.count() == page.locator(".chart").count() > 1
        for k in range(charts.count()):
            box = charts.nth(k).bounding_box()
            assert min(box["width"], box["height"]) > 40
            assert page.locator(".chart").nth(k).locator("svg path[d]").count() > 0

    def test_on_a_telephone_in_the_dark(self, visit):
        page, trouble, _ = visit(
            MODELS["classes"][0](), *MODELS["classes"][1], width=360, scheme="dark"
        )
        assert trouble == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        background, ink = page.evaluate(
            "(s => [s.backgroundColor, s.color])(getComputedStyle(document.documentElement))"
        )
        assert brightness(background) < 60 < 180 < brightness(ink)
        label = page.locator(".chart svg text").first.evaluate(
            "text => getComputedStyle(text).fill"
        )
        assert brightness(label) > 180

    def test_names_do_not_run(self, visit):
        model, frame, labels = evil_model()
        page, trouble, asked = visit(model, frame, labels, title=EVIL)
        assert trouble == []
        assert asked == []
        assert page.title() == EVIL
        assert page.locator("h1").inner_text() == EVIL
        assert page.locator("img").count() == 0

    def test_even_a_script_that_slipped_in_would_not_run(self, visit, tmp_path):
        page, _, _ = visit(MODELS["classes"][0]())
        path = tmp_path / "changed.html"
        slipped = "<main><script>document.title = 'run'</script>"
        path.write_text((tmp_path / "report.html").read_text().replace("<main>", slipped))
        assert slipped in path.read_text()
        page.goto(path.as_uri())
        assert page.title() != "run"


def brightness(color):
    return np.mean([float(part) for part in re.findall(r"[\d.]+", color)[:3]])


@pytest.mark.parametrize(
    ("name", "lines"), [("mfeat", 40), ("tcga_breast", 90), ("pbmc_hallmark", 90)]
)
def test_examples_are_short(name, lines):
    assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) < lines


@pytest.mark.long
def test_the_example_of_three_views_runs(tmp_path, monkeypatch, capsys):
    data = data_folder() / "tcga_breast.npz"
    if not data.exists():
        pytest.skip(
            f"data set tcga_breast is not here ({data}); set MANYKERNELS_DATA to the folder that "
            "has it"
        )
    (tmp_path / "examples").mkdir()
    # writes beside itself
    example = shutil.copy(ROOT / "examples" / "tcga_breast.py", tmp_path / "examples")
    monkeypatch.setattr(sys, "argv", [example, str(data)])
    runpy.run_path(str(example))
    assert "OPTIMAL" in capsys.readouterr().out
    assert "Breast cancer subtypes" in (tmp_path / "out" / "tcga_breast.html").read_text()
