"""Exact Shapley values, against sums over all coalitions."""

import importlib.util
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    load,
    save,
    shapley_values,
)
from manykernels.combinations import PolynomialMixture, Product
from manykernels.estimators.answers.shapley import PowerGame, ProductGame
from manykernels.kernels import (
    RBF,
    FunctionKernel,
    Hamming,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Spectrum,
    on_groups,
)
from manykernels.lowrank import Nystroem, RandomFourier
from reference import power_game, product_game, shapley_by_coalitions

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 6))
LABELS = np.digitize(X[:, 0] + X[:, 1] * X[:, 2], [-0.5, 0.5])
MIXED = [
    *(RBF(factor=4.0), RBF(features=[0, 1, 4]), Laplacian(features=[2, 3]), Linear()),
    *(Polynomial(degree=3, gamma=0.2, features=[1, 2, 3, 5]), RBF(features=[2])),
]


@given(
    seed=st.integers(0, 2**31),
    columns=st.integers(1, 12),
    size=st.sampled_from([0.01, 1.0, 30.0]),
    background=st.integers(0, 2),
    squared=st.booleans(),
    degree=st.integers(1, 6),
)
def test_games_equal_the_sum_over_all_coalitions(seed, columns, size, background, squared, degree):
    rng = np.random.default_rng(seed)
    rows, points, others = (rng.normal(size=(n, columns)) for n in (1, 2, background))
    rates, coefficients = size * rng.random(columns), rng.normal(size=(2, 2))
    small = rates / size / columns
    games = {
        ProductGame(rates, squared): (product_game, (rates, squared)),
        PowerGame(small, 0.5, degree): (power_game, (small, 0.5, degree)),
    }
    for game, (make, parameters) in games.items():
        out = np.zeros((1, 2, columns))
        game.add(rows, others, points, coefficients, out)
        each = [
            [shapley_by_coalitions(make(x, z, others, *parameters), columns) for z in points]
            for x in rows
        ]
        expected = np.einsum("cj,ijf->icf", coefficients, np.array(each))
        np.testing.assert_allclose(out, expected, rtol=0, atol=1e-12)


def test_many_columns_need_few_nodes_or_many():
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=(2, 1, 400))
    nodes, weights = np.polynomial.legendre.leggauss(200)  # exact for 400 columns
    t = 0.5 * nodes[:, None] + 0.5
    for rate in (1e-3, 0.1, 10.0):
        out = np.zeros((1, 1, 400))
        ProductGame(np.full(400, rate), True).add(x, x[:0], z, np.ones((1, 1)), out)
        e = np.expm1(-rate * np.square(x - z))[0]
        factors = 1.0 + t * e
        rest = np.exp(np.log(factors).sum(axis=1, keepdims=True) - np.log(factors))
        np.testing.assert_allclose(out[0, 0], e * (0.5 * weights @ rest), rtol=0, atol=2e-14)


class TestModels:
    def test_the_background_has_the_game_of_mixed_rows(self):
        model = MKLClassifier(MIXED, p=2.0).fit(X, LABELS > 0)
        background, row = X[20:23], X[3]

        def value(coalitions):
            mixed = [np.where(coalitions, row, other) for other in background]
            return np.mean([model.decision_function(rows) for rows in mixed], axis=0)

        found = shapley_values(model, X[3:4], background=background)
        expected = shapley_by_coalitions(value, X.shape[1])
        np.testing.assert_allclose(found.values[0], expected, rtol=0, atol=1e-10)
        np.testing.assert_allclose(found.base_values[0], value(np.zeros((1, 6), bool))[0])

    def test_sparse_rows_and_background(self):
        model = MKLClassifier([RBF(0.5)]).fit(X, LABELS > 0)
        dense = shapley_values(model, X[:4], background=X[5:8])
        rows, others = sparse.csr_array(X[:4]), sparse.csr_array(X[5:8])
        found = shapley_values(model, rows, background=others)
        np.testing.assert_allclose(found.values, dense.values, atol=1e-12)

    def test_columns_are_left_out_without_a_background(self):
        model = MKLClassifier([RBF(gamma=0.3), Linear()], p=2.0, normalize=None).fit(X, LABELS > 0)
        row, points = X[3], model.bank_.right[model.decision_.support]
        wide, linear = model.kernel_weights_

        def value(coalitions):
            gaussian = np.exp(-0.3 * coalitions @ np.square(row - points).T)
            return (wide * gaussian + linear * coalitions @ (row * points).T) @ (
                model.decision_.beta[0]
            ) + model.intercept_[0]

        found = shapley_values(model, X[3:4])
        expected = shapley_by_coalitions(value, X.shape[1])
        np.testing.assert_allclose(found.values[0], expected, rtol=0, atol=1e-10)
        np.testing.assert_allclose(found.base_values[0], value(np.zeros((1, 6), bool))[0])

    @pytest.mark.parametrize(
        "model",
        [
            MKLClassifier(),
            pytest.param(
                MKLClassifier(MIXED, p=2.0, normalize="center", share_weights=False),
                marks=pytest.mark.long,
            ),
            pytest.param(
                MKLClassifier(MIXED, p=2.0, normalize="variance", multiclass="ovo"),
                marks=pytest.mark.long,
            ),
            MKLClassifier(combination=Product(groups=[0, 0, 1, 1, 2, 2], starts=1)),
            pytest.param(
                MKLClassifier(combination=PolynomialMixture(degree=2, starts=1)),
                marks=pytest.mark.long,
            ),
            MKLClassifier(MIXED, p=2.0, approximation=Nystroem(rank=20), tol=1e-6),
            MKLClassifierCV(on_groups({"a": [0, 1], "b": [2, 3, 4, 5]}), Cs=[1.0], ps=[2], cv=3),
            MKLOneClass(),
        ],
        ids=lambda model: f"{type(model).__name__}-{getattr(model, 'normalize', '')}",
    )
    @pytest.mark.filterwarnings("ignore")
    def test_values_add_up_to_the_decision(self, model):
        model.fit(X, LABELS)
        rows, low_rank = X[:7] + 0.1, model.approximation is not None
        for background in (None, X[:3]):
            found = shapley_values(model, rows, background=background)
            scores = model._scores(rows)
            decision = scores[0] if len(scores) == 1 else scores.T
            atol = 1e-5 if low_rank else 1e-10
            np.testing.assert_allclose(found.decision, decision, rtol=0, atol=atol)
            assert found.values.shape == (7, 6, *decision.shape[1:])

    def test_targets_of_a_regression_and_a_pipeline(self):
        y = np.stack([X[:, 0], X[:, 1] ** 2], axis=1)
        model = make_pipeline(StandardScaler(), MKLRegressor()).fit(X, y)
        found = shapley_values(model, X[:5])
        np.testing.assert_allclose(found.decision, model.predict(X[:5]), atol=1e-10)
        assert found.output("target 1").mean_sizes().argmax() == 1

    @pytest.mark.parametrize("normalize", ["diagonal", "center"])
    @pytest.mark.parametrize("missing", ["mean", "scaled"])
    def test_rows_that_lack_views(self, missing, normalize):
        Z, groups = X.copy(), {"a": [0, 1], "b": [2, 3, 4, 5]}
        Z[::3, :2], Z[1::4, 2:] = np.nan, np.nan
        Z = Z[~np.isnan(Z).all(axis=1)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = MKLClassifier(on_groups(groups), missing=missing, normalize=normalize)
            model.fit(Z, LABELS[: len(Z)])
        found = shapley_values(model, Z)
        np.testing.assert_allclose(found.decision, model.decision_function(Z), atol=1e-10)
        assert not found.values[np.isnan(Z)].any()
        assert found.values.any()
        with pytest.raises(ValueError, match="a part of the view"):
            shapley_values(model, Z, background=Z[:2])

    def test_words_and_categories(self, tmp_path):
        pd = pytest.importorskip("pandas")
        words = np.array(["aab", "bba", "bbb"])
        table = pd.DataFrame({"kind": pd.Categorical(words[LABELS]), "word": words[LABELS - 1]})
        table["number"] = X[:, 0]
        kernels = [Hamming(["kind"]), Spectrum(k=2, features="word"), RBF(features=["number"])]
        model = MKLClassifier(kernels, p=2.0).fit(table, LABELS)
        found = shapley_values(model, table)
        np.testing.assert_allclose(found.decision, model.decision_function(table), atol=1e-10)
        save(model, tmp_path / "model.mk")
        again = shapley_values(load(tmp_path / "model.mk"), table)
        np.testing.assert_allclose(again.values, found.values, atol=1e-12)
        assert found.feature_names == ["kind", "word", "number"]
        assert [found.entry(0, f) for f in (0, 1)] == [table["kind"][0], table["word"][0]]

    @pytest.mark.filterwarnings("ignore")
    def test_pictures_show_words_and_dates_and_name_class_and_game(self):
        pytest.importorskip("matplotlib").use("agg")
        pd = pytest.importorskip("pandas")
        from manykernels.display import BeeswarmDisplay, WaterfallDisplay

        days = pd.to_datetime("2001-03-01") + pd.to_timedelta(LABELS, unit="D")
        table = pd.DataFrame({"kind": np.array(["oak", "fir", "elm"])[LABELS], "day": days})
        model = MKLClassifier().fit(table, LABELS)
        fall = WaterfallDisplay.from_estimator(model, table, background=table[:3], output="2")
        lines = {tick.get_text() for tick in fall.ax_.get_yticklabels()}
        assert lines == {f"kind = {table['kind'][0]}", f"day = {days[0].date()}"}
        assert fall.ax_.get_xlabel() == (
            "decision, 2 (one of 3)\nunknown columns as in 3 background rows"
        )
        swarm = BeeswarmDisplay(shapley_values(model, table)).plot()
        lines = [tick.get_text() for tick in swarm.ax_.get_yticklabels()]
        assert sorted(lines)[0] == "day: 2001-03-01 to 2001-03-03"
        assert set(sorted(lines)[1].split(": ")[1].split(", ")) == {"oak", "fir", "elm"}
        assert "0 (one of 3)\nunknown columns left out" in swarm.ax_.get_xlabel()
        with pytest.raises(ValueError, match="There is no output 3"):
            BeeswarmDisplay(shapley_values(model, table), output=3)

    @pytest.mark.parametrize(
        ("model", "match"),
        [
            (MKLClassifier([FunctionKernel(lambda a, b: a @ b.T)]), "no product or sum"),
            (MKLClassifier([Polynomial(degree=7)]), "degree 7"),
            (MKLClassifier([Linear()], normalize="cosine"), "normalize='cosine'"),
            (MKLClassifier([RBF()], approximation=RandomFourier(rank=20)), "random features"),
        ],
    )
    def test_refusals_name_the_kernel(self, model, match):
        model.fit(X, LABELS)
        with pytest.raises(ValueError, match=match):
            shapley_values(model, X)

    def test_matrices_have_no_columns(self):
        model = MKLClassifier([Precomputed(X @ X.T)]).fit(np.arange(60)[:, None], LABELS)
        with pytest.raises(ValueError, match="no product or sum"):
            shapley_values(model, np.arange(60)[:, None])

    def test_pictures_have_a_line_for_each_column(self):
        pytest.importorskip("matplotlib").use("agg")
        from manykernels.display import BeeswarmDisplay, WaterfallDisplay

        model = MKLClassifier().fit(X, LABELS)
        found = shapley_values(model, X)
        swarm = BeeswarmDisplay.from_estimator(model, X, output="1", max_features=4)
        assert len(swarm.ax_.collections) == 4
        fall = WaterfallDisplay.from_estimator(model, X, row=3, output=2, max_features=4)
        ends = [bar.get_x() + bar.get_width() for bar in fall.ax_.patches]
        assert len(ends) == 5
        np.testing.assert_allclose(ends[-1], found.decision[3, 2])

    @pytest.mark.skipif(importlib.util.find_spec("shap") is None, reason="needs shap")
    def test_an_explanation_of_shap(self):
        found = shapley_values(MKLClassifier().fit(X, LABELS), X[:4])
        explanation = found.to_shap()
        assert explanation.shape == (4, 6, 3)
        np.testing.assert_array_equal(explanation.base_values, found.base_values)
