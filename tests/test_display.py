"""Pictures, and what notebooks show."""

import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.text import Text
from sklearn import config_context
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conftest import MIXED, toy
from manykernels import (
    KernelCollection,
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    path,
)
from manykernels._words import percent
from manykernels.banks import make_bank
from manykernels.display import (
    ConvergenceDisplay,
    KernelHeatmapDisplay,
    KernelWeightsDisplay,
    PathDisplay,
    TuningDisplay,
)
from manykernels.display.facts import Shares, fitted_model
from manykernels.display.path import spread
from manykernels.kernels import RBF, Linear, on_groups
from manykernels.lowrank import Nystroem
from manykernels.regularizers import L1

matplotlib.use("Agg")

X, y = toy(60)
THREE = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
GROUPS = {
    "left": [RBF(0.5, features=[0, 1]), Linear(features=[0])],
    "right": [RBF(0.5, features=[2, 3])],
}


@pytest.fixture(scope="module")
def grouped():
    return MKLClassifier(GROUPS, p=1.5).fit(X, y)


@pytest.fixture(scope="module")
def per_class():
    return MKLClassifier(MIXED, p=1.5, share_weights=False).fit(X, THREE)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def drawn(display):
    """Draw for good: mistakes in labels and layouts show only then."""
    display.figure_.canvas.draw()
    assert display.ax_.figure is display.figure_
    return display


class TestWeights:
    def test_heaviest_first_in_the_colors_of_their_groups(self, grouped):
        display = drawn(KernelWeightsDisplay.from_estimator(grouped))
        lengths = [bar.get_width() for bar in display.ax_.patches]
        frame = grouped.weights_frame()
        np.testing.assert_allclose(lengths, frame["share"])
        assert [label.get_text() for label in display.ax_.get_yticklabels()] == frame[
            "kernel"
        ].tolist()
        colors = [bar.get_facecolor() for bar in display.ax_.patches]
        for i, j in ((0, 1), (0, 2), (1, 2)):
            assert (colors[i] == colors[j]) == (frame["group"].iloc[i] == frame["group"].iloc[j])
        assert {text.get_text() for text in display.ax_.get_legend().get_texts()} == {
            "left",
            "right",
        }

    def test_a_million_kernels(self, monkeypatch):
        """Only the names that are shown are made: a million take a minute."""
        rng = np.random.default_rng(0)
        collection = KernelCollection.masked_rbf(
            rng.uniform(0.1, 1, 10**6), rng.random((10**6, 4)) < 0.5
        )
        few = MKLClassifier([RBF(1.0)]).fit(X, y)
        few.bank_, few.kernel_weights_ = make_bank(collection, X), rng.random(10**6)
        made, view = [], type(collection).__getitem__
        monkeypatch.setattr(
            type(collection), "__getitem__", lambda self, k: made.append(k) or view(self, k)
        )
        display = drawn(KernelWeightsDisplay.from_estimator(few, max_kernels=5))
        assert len(made) == 5
        assert [row.count for row in display.rows] == [1, 1, 1, 1, 1, 10**6 - 5]
        assert display.rows[0].share == pytest.approx(
            few.kernel_weights_.max() / few.kernel_weights_.sum()
        )
        assert sum(row.share for row in display.rows) == pytest.approx(1.0)
        assert display.ax_.get_yticklabels()[-1].get_text() == "999,995 others"

    def test_weights_per_class_are_cells(self, per_class):
        display = drawn(KernelWeightsDisplay.from_estimator(per_class, max_kernels=3))
        cells = display.ax_.images[0].get_array()
        assert cells.shape == (5, 3)  # three, all others, and what regularizes
        np.testing.assert_allclose(cells[:-1].sum(axis=0), 1.0)
        assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["a", "b", "c"]

    def test_given_axes_and_no_weight_at_all(self):
        with pytest.warns(match="All kernel weights are zero"):
            model = MKLClassifier(MIXED, regularizer=L1(1e9)).fit(X, y)
        _, ax = plt.subplots()
        display = drawn(KernelWeightsDisplay.from_estimator(model, ax=ax))
        assert display.ax_ is ax
        assert ax.get_title(loc="left") == "0 of 8 kernels have weight"


class TestConvergence:
    def test_gap_on_a_logarithmic_axis(self, grouped):
        display = drawn(ConvergenceDisplay.from_estimator(grouped, against="iterations"))
        x, gaps = display.ax_.lines[0].get_data()
        assert display.ax_.get_yscale() == "log"
        assert len(x) == len(grouped.result_.history)
        assert gaps[-1] == pytest.approx(grouped.result_.duality_gap)
        assert (np.diff(gaps) <= 0).all()

    def test_a_line_per_class(self, per_class):
        display = drawn(ConvergenceDisplay.from_estimator(per_class))
        assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["a", "b", "c"]
        assert sum(len(run.gaps) for run in display.lines) == len(per_class.result_.history)

    def test_without_a_gap_the_objective_is_drawn(self):
        model = MKLClassifier(combination="product").fit(X, y)
        display = drawn(ConvergenceDisplay.from_estimator(model))
        assert display.ax_.get_ylabel() == "objective"
        assert display.ax_.lines[0].get_ydata()[-1] == pytest.approx(model.result_.objective)
        with pytest.raises(ValueError, match="has no duality gap; use show='objective'"):
            ConvergenceDisplay.from_estimator(model, show="gap")

    def test_bad_choices_and_lost_history(self, grouped):
        with pytest.raises(ValueError, match="against='days' is not known"):
            ConvergenceDisplay.from_estimator(grouped, against="days")
        with pytest.raises(ValueError, match="show='all' is not known"):
            ConvergenceDisplay.from_estimator(grouped, show="all")
        with pytest.raises(ValueError, match="has no history"):
            ConvergenceDisplay([]).plot()


class TestPath:
    def test_shares_against_p(self):
        models = path(MKLClassifier(MIXED), X, y, p=[1, 2, np.inf])
        display = drawn(PathDisplay.from_path(models, max_kernels=3))
        assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["1", "2", "∞"]
        totals = sum(line.get_ydata() for line in display.ax_.lines)
        np.testing.assert_allclose(totals, 1.0)
        assert display.others[-1] == pytest.approx(5 / 8)

    def test_from_estimator_against_C(self):
        display = drawn(PathDisplay.from_estimator(MKLClassifier(MIXED), X, y, C=[0.1, 1.0, 10.0]))
        assert display.ax_.get_xscale() == "log"
        np.testing.assert_array_equal(display.values, [0.1, 1.0, 10.0])

    def test_groups_with_scores(self):
        groups = {"first": [0, 1], "second": [2, 3], "third": [0, 3]}
        models = path(MKLClassifier(on_groups(groups)), X, y, max_groups=3)
        choice = models.choose(X, y, cv=2)
        display = drawn(PathDisplay.from_path(models, choice=choice))
        assert set(display.names) <= set(groups)
        np.testing.assert_array_equal(display.counts, models.n_groups())
        np.testing.assert_allclose(display.shares.sum(axis=1) + display.others, 1.0)
        assert {text.get_text() for text in display.ax_.texts} == set(display.names)
        labels = display.score_ax_.get_legend().get_texts()
        assert [label.get_text().split(":")[0] for label in labels] == [
            "best",
            "simplest within\none standard error",
        ]
        _, pair = plt.subplots(2)
        assert drawn(PathDisplay.from_path(models, choice=choice, ax=pair)).score_ax_ is pair[1]
        alone = drawn(PathDisplay.from_path(models, choice=choice, ax=plt.subplots()[1]))
        assert alone.score_ax_ is None
        again = PathDisplay.from_estimator(MKLClassifier(on_groups(groups)), X, y, max_groups=3)
        np.testing.assert_allclose(again.values, models.costs)

    def test_names_do_not_cover_each_other(self):
        """A plain sum of eight kernels ends with all of them at one height."""
        display = drawn(PathDisplay.from_path(path(MKLClassifier(MIXED), X, y, p=[2.0, np.inf])))
        # of the words alone, without the line that leads to them
        boxes = [Text.get_window_extent(text) for text in display.ax_.texts]
        assert len(boxes) == 8
        for place, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[:place])

    def test_spread(self):
        heights = np.array([5.0, 0.0, 0.0, 5.1, 20.0])
        moved = spread(heights, 2.0)
        assert np.diff(np.sort(moved)).min() >= 2.0 - 1e-12
        assert moved.min() >= 0.0
        np.testing.assert_array_equal(np.argsort(moved), [2, 1, 0, 3, 4])
        assert moved[4] == 20.0

    def test_one_parameter_at_a_time(self):
        models = path(MKLClassifier(GROUPS), X, y, C=[1.0, 2.0], p=[1.0, 2.0])
        with pytest.raises(ValueError, match="varies both C and p"):
            PathDisplay.from_path(models)
        assert PathDisplay.from_path([model for model in models if model.p == 2]).parameter == "C"
        with pytest.raises(ValueError, match="differ in C or p, got 1"):
            PathDisplay.from_path(models[:1])
        choice = path(MKLClassifier(GROUPS), X, y, C=[1.0, 2.0]).choose(X, y, cv=2)
        with pytest.raises(ValueError, match="this path varies p"):
            PathDisplay.from_path([model for model in models if model.C == 2], choice=choice)


class TestHeatmap:
    def test_sorted_by_class(self, grouped):
        display = drawn(KernelHeatmapDisplay.from_estimator(grouped, X, y))
        order = np.argsort(y, kind="stable")
        np.testing.assert_array_equal(display.labels, y[order])
        expected = gram(grouped, X)
        # the order within a class is that of the bank, so only sorted blocks can be compared
        for side in (-1, 1):
            block = display.K[np.ix_(display.labels == side, display.labels == side)]
            np.testing.assert_allclose(
                np.sort(block, None),
                np.sort(expected[np.ix_(y == side, y == side)], None),
                atol=1e-5,
            )

    def test_without_labels_and_of_one_kernel(self, grouped, per_class):
        K = drawn(KernelHeatmapDisplay.from_estimator(grouped, kernel=0)).K
        np.testing.assert_allclose(np.diagonal(K), 1.0, atol=1e-6)
        assert drawn(
            KernelHeatmapDisplay.from_estimator(grouped, kernel=grouped.kernel_names_[0])
        ).K.shape == (60, 60)
        display = drawn(KernelHeatmapDisplay.from_estimator(per_class, max_points=20))
        assert display.K.shape == (20, 20)
        assert set(display.labels) <= {"a", "b", "c"}

    @pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
    def test_classes_are_those_that_the_model_predicts(self, multiclass):
        model = MKLClassifier(MIXED, C=0.1, multiclass=multiclass).fit(X, THREE)
        labels = KernelHeatmapDisplay.from_estimator(model).labels
        np.testing.assert_array_equal(labels, np.sort(model.predict(X)))

    @pytest.mark.parametrize(
        "model", [MKLRegressor(MIXED), MKLOneClass(MIXED), MKLClassifier(combination="product")]
    )
    def test_other_models(self, model):
        target = X[:, 0] if isinstance(model, MKLRegressor) else y
        drawn(KernelHeatmapDisplay.from_estimator(model.fit(X, target)))
        assert (
            np.unique(drawn(KernelHeatmapDisplay.from_estimator(model, X, target)).labels).size == 2
        )

    def test_low_rank(self):
        model = MKLClassifier(MIXED, approximation=Nystroem(60)).fit(X, y)
        with pytest.raises(ValueError, match="keeps no training points"):
            KernelHeatmapDisplay.from_estimator(model)
        K = drawn(KernelHeatmapDisplay.from_estimator(model, X, y)).K
        exact = MKLClassifier(MIXED).fit(X, y)
        exact.kernel_weights_ = model.kernel_weights_
        order = np.argsort(y, kind="stable")
        np.testing.assert_allclose(K, gram(exact, X)[np.ix_(order, order)], atol=1e-3)

    def test_bad_input(self, grouped):
        with pytest.raises(ValueError, match="not the data that this model was trained on"):
            KernelHeatmapDisplay.from_estimator(grouped, X + 1.0, y)
        with pytest.raises(ValueError, match="Give X and y"):
            KernelHeatmapDisplay.from_estimator(grouped, X)
        with pytest.raises(ValueError, match="no kernel named 'none'"):
            KernelHeatmapDisplay.from_estimator(grouped, kernel="none")


def gram(model, X):
    """The learned kernel in the order of X."""
    return make_bank(KernelCollection(model.kernels), X).combine(model.kernel_weights_)


class TestContributions:
    @pytest.mark.parametrize("approximation", [None, Nystroem(60)])
    @pytest.mark.parametrize("share_weights", [True, False])
    def test_parts_of_the_squared_length(self, approximation, share_weights):
        model = MKLClassifier(
            MIXED, p=1.5, share_weights=share_weights, approximation=approximation
        ).fit(X, THREE)
        bank = make_bank(KernelCollection(MIXED), X)
        beta = np.zeros((3, 60))
        beta[:, model.support_] = model.dual_coef_
        d = np.broadcast_to(model.kernel_weights_, (3, 8))
        forms = np.array([[b @ bank.combine(np.eye(8)[k]) @ b for k in range(8)] for b in beta])
        expected = (d * forms).sum(axis=0)
        np.testing.assert_allclose(
            model.kernel_contributions_, expected / expected.sum(), atol=1e-4
        )

    def test_masked_banks_compute_only_what_has_weight(self):
        rng = np.random.default_rng(0)
        masks = rng.random((300, 4)) < 0.6
        model = MKLClassifier(
            KernelCollection.masked_rbf(rng.uniform(0.1, 2, 300), masks), p=1
        ).fit(X, y)
        parts = model.kernel_contributions_
        assert parts.sum() == pytest.approx(1.0)
        np.testing.assert_array_equal(parts > 0, model.kernel_weights_ > 0)


def test_models_inside_others(grouped):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), MKLClassifier(GROUPS)), {"mklclassifier__C": [1.0]}, cv=2
    ).fit(X, y)
    assert fitted_model(search) is search.best_estimator_[-1]
    assert fitted_model(grouped) is grouped
    with pytest.raises(TypeError, match=r"An MKL estimator is needed .* got StandardScaler"):
        fitted_model(StandardScaler())


def test_groups_add_up(grouped):
    shares = Shares(grouped, with_contributions=True)
    frame = grouped.weights_frame()
    for row in shares.groups():
        assert row.share == pytest.approx(frame.loc[frame["group"] == row.name, "share"].sum())
    assert sum(row.contribution for row in shares.groups()) == pytest.approx(1.0)
    assert [row.name for row in shares.groups(1)][1] == "1 other group"


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (0.348, "34.8 %"),
        (1.0, "100 %"),
        (0.0, "0 %"),
        (0.00021, "0.021 %"),
        (1e-12, "< 0.0001 %"),
        (np.nan, "–"),
    ],
)
def test_percentages_are_short(share, words):
    assert percent(share) == words


class TestNotebooks:
    def test_the_outcome_is_below_the_diagram(self, grouped):
        plain, fitted = MKLClassifier(GROUPS)._repr_html_(), grouped._repr_html_()
        assert "sk-top-container" in plain
        assert "sk-top-container" in fitted
        assert "at most" in fitted
        assert "at most" not in plain
        assert grouped.kernel_names_[0] in fitted
        assert "at most" in grouped._repr_mimebundle_()["text/html"]
        with config_context(display="text"):
            assert not hasattr(grouped, "_repr_html_")
            assert set(grouped._repr_mimebundle_()) == {"text/plain"}

    def test_names_are_escaped(self):
        model = MKLClassifier({"<b>bold</b>": [RBF(1.0)]}).fit(X, y)
        for shown in (
            model._repr_html_(),
            model.bank_._repr_html_(),
            KernelCollection(model.kernels)._repr_html_(),
        ):
            assert "<b>bold" not in shown.split("</style>")[-1]
            assert "&lt;b&gt;bold" in shown

    def test_huge_things_stay_short(self, grouped):
        masks = np.ones((10**6, 4), dtype=bool)
        collection = KernelCollection.masked_rbf(np.ones(10**6), masks)
        bank = make_bank(collection, X)
        for thing in (collection, bank, grouped.result_):
            assert len(repr(thing)) < 200
            assert len(thing._repr_html_()) < 5000
        assert "999,990 more" in bank._repr_html_()
        assert grouped.result_.status.value in grouped.result_._repr_html_()


def test_matplotlib_is_named_when_it_is_missing(grouped, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"manykernels\[plot\]"):
        ConvergenceDisplay.from_estimator(grouped)


class TestTuning:
    @pytest.fixture(scope="class")
    def tuned(self):
        model = MKLClassifierCV(MIXED, Cs=[0.1, 1.0, 10.0], ps=[1.0, np.inf], cv=3)
        return model.set_params(exhaustive=True).fit(X, y)

    def test_scores_and_errors(self, tuned):
        display = drawn(TuningDisplay.from_estimator(tuned))
        np.testing.assert_allclose(display.means, tuned.scores_.mean(axis=0))
        expected = tuned.scores_.std(axis=0, ddof=1) / np.sqrt(3)
        np.testing.assert_allclose(display.errors, expected, atol=1e-12)
        labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert set(labels) == {"p = 1", "p = ∞", "chosen"}
        (ring,) = [line for line in display.ax_.lines if line.get_label() == "chosen"]
        assert ring.get_xdata() == [tuned.C_]
        assert ring.get_ydata() == [pytest.approx(tuned.best_score_)]

    def test_a_grid_that_was_broken_off(self, tuned):
        part = MKLClassifierCV(MIXED, Cs=[0.1, 1.0, 10.0], ps=[1.0, np.inf], cv=3).fit(X, y)
        part.scores_[1:, 2] = np.nan
        part.scores_[:, 1, 1] = np.nan
        display = drawn(TuningDisplay.from_estimator(make_pipeline(part)))
        assert np.isnan(display.means[1, 1])
        assert display.errors[2, 0] == 0.0

    def test_others(self, grouped):
        with pytest.raises(TypeError, match="MKLClassifierCV"):
            TuningDisplay.from_estimator(grouped)
