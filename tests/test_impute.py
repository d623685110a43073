"""Missing numbers and words that are imputed, and columns of dates."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    group_importance,
    load,
    plan,
    save,
)
from manykernels.estimators.data.impute import weighted_median
from manykernels.kernels import RBF, Hamming, Linear, on_groups
from manykernels.lowrank import Nystroem

pl = pytest.importorskip("polars")

RNG = np.random.default_rng(0)
WHOLE = RNG.normal(size=(80, 4))
Y = (WHOLE[:, 0] + WHOLE[:, 1] ** 2 > 0.8).astype(int)
X = np.where(RNG.random(WHOLE.shape) < 0.2, np.nan, WHOLE)
KERNELS = [RBF(0.5), Linear(features=[0, 1]), RBF(1.0, features=[2, 3])]
SITE = RNG.choice(["north", "south", None], 80)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(site=SITE)


def filled(X, training=X):
    return np.where(np.isnan(X), np.nanmedian(training, axis=0), X)


class TestNumbers:
    @pytest.mark.parametrize("kernels", ["auto", KERNELS], ids=["auto", "given"])
    @pytest.mark.filterwarnings("ignore:The factors")
    @pytest.mark.parametrize("approximation", [None, Nystroem(80)], ids=["exact", "nystroem"])
    def test_as_with_an_imputer_before(self, kernels, approximation):
        """Also at rows of which nothing is known; the order of the rows is another."""
        options = {"approximation": approximation, "tol": 1e-8, "p": 2.0}
        new = np.array([[np.nan, 1.0, 2.0, np.nan], [np.nan] * 4])
        model = MKLClassifier(kernels, missing="impute", **options).fit(X[:60], Y[:60])
        twin = MKLClassifier(kernels, **options).fit(filled(X[:60], X[:60]), Y[:60])
        np.testing.assert_allclose(model.feature_medians_, np.nanmedian(X[:60], axis=0))
        for rows in (X, new):
            expected = twin.decision_function(filled(rows, X[:60]))
            np.testing.assert_allclose(model.decision_function(rows), expected, atol=1e-3)

    def test_a_complete_table_gives_the_plain_model(self):
        model = MKLClassifier(missing="impute").fit(WHOLE, Y)
        plain = MKLClassifier().fit(WHOLE, Y)
        expected = plain.decision_function(WHOLE)
        np.testing.assert_array_equal(model.decision_function(WHOLE), expected)
        assert np.isfinite(model.decision_function(X)).all()

    @pytest.mark.parametrize("kernels", ["whole", KERNELS], ids=["whole", "given"])
    def test_every_fold_has_its_own_medians(self, kernels):
        folds, costs = StratifiedKFold(3), [0.1, 1.0]
        options = {"missing": "impute", "tol": 1e-6}
        tuned = MKLClassifierCV(kernels, Cs=costs, ps=[2.0], cv=folds, rule="best", **options)
        tuned.set_params(exhaustive=True).fit(X, Y)
        search = GridSearchCV(MKLClassifier(kernels, p=2.0, **options), {"C": costs}, cv=folds)
        found = search.fit(X, Y).cv_results_
        expected = [[found[f"split{fold}_test_score"][c] for c in range(2)] for fold in range(3)]
        np.testing.assert_allclose(tuned.scores_[:, :, 0], expected)
        assert tuned.predict_proba(X).shape == (80, 2)

    def test_weights_are_repetitions(self):
        weight = np.arange(80) % 3
        weighted = MKLClassifier(missing="impute").fit(X, Y, weight)
        repeated = MKLClassifier(missing="impute").fit(X.repeat(weight, 0), Y.repeat(weight))
        np.testing.assert_allclose(weighted.feature_medians_, repeated.feature_medians_)
        np.testing.assert_array_equal(weighted.decision_function(X), repeated.decision_function(X))

    def test_medians_by_hand(self):
        values = np.array([3.0, 1.0, np.nan, 2.0, 10.0])
        assert weighted_median(values, np.ones(5)) == 2.5
        assert weighted_median(values, np.array([1.0, 5.0, 9.0, 1.0, 1.0])) == 1.0
        assert weighted_median(np.full(3, np.nan), np.ones(3)) == 0.0

    def test_other_estimators_and_tools(self):
        targets = WHOLE[:, 0] + WHOLE[:, 1]
        assert MKLRegressor(missing="impute").fit(X, targets).score(X, targets) > 0.5
        assert set(MKLOneClass(missing="impute").fit(X).predict(X)) == {1, -1}
        assert MKLClassifier(missing="impute", p="auto").fit(X, Y).p_ >= 1.0
        groups = MKLClassifier(on_groups({"u": [0, 1], "v": [2, 3]}), missing="impute")
        assert len(group_importance(groups, X, Y, cv=2).groups) == 2
        assert "kernels" in str(plan(MKLClassifier(missing="impute"), X, Y))

    def test_holes_of_sparse_tables_are_refused(self):
        with pytest.raises(ValueError, match="need a dense one"):
            MKLClassifier(missing="impute").fit(sparse.csr_array(X), Y)
        assert MKLClassifier(missing="impute").fit(sparse.dok_array(WHOLE), Y).n_iter_ > 0

    def test_the_error_names_the_way_out(self):
        with pytest.raises(ValueError, match=r"80 rows and 4 of 4 columns .*missing='impute'"):
            MKLClassifier().fit(X, Y)


class TestWords:
    @pytest.mark.parametrize("convert", [pd.DataFrame, pl.from_pandas])
    def test_missing_words_are_a_category(self, convert, tmp_path):
        model = MKLClassifier(missing="impute").fit(convert(FRAME), Y)
        assert model.categories_ == {"site": ["", "north", "south"]}
        named = FRAME.assign(site=FRAME["site"].fillna("none"))
        twin = MKLClassifier(missing="impute").fit(convert(named), Y)
        expected = twin.decision_function(convert(named))
        np.testing.assert_allclose(model.decision_function(convert(FRAME)), expected, atol=1e-9)
        save(model, tmp_path / "model.mk")
        again = load(tmp_path / "model.mk")
        np.testing.assert_array_equal(again.feature_medians_, model.feature_medians_)
        values = model.decision_function(convert(FRAME))
        np.testing.assert_allclose(again.decision_function(convert(FRAME)), values)

    def test_new_in_prediction(self):
        known = FRAME[FRAME["site"].notna()]
        model = MKLClassifier([Hamming(features=["site"])], missing="impute")
        model.fit(known, Y[known.index])
        new = known[:2].assign(site=[None, "east"])
        first, second = model.decision_function(new)
        assert first == second  # equal to none


DATES = pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(80) % 40, "D")


class TestDates:
    @pytest.mark.parametrize("convert", [pd.DataFrame, pl.from_pandas])
    def test_are_days(self, convert, tmp_path):
        late = (np.arange(80) % 40 > 20).astype(int)
        frame = convert(pd.DataFrame({"a": WHOLE[:, 0], "seen": DATES}))
        with pytest.warns(UserWarning, match="days since 1970-01-01, in 'seen'"):
            model = MKLClassifier().fit(frame, late)
        days = convert(pd.DataFrame({"a": WHOLE[:, 0], "seen": 19723.0 + np.arange(80) % 40}))
        twin = MKLClassifier().fit(days, late)
        expected = twin.decision_function(days)
        np.testing.assert_allclose(model.decision_function(frame), expected)
        save(model, tmp_path / "model.mk")
        assert load(tmp_path / "model.mk").date_columns_ == ["seen"]
        np.testing.assert_allclose(load(tmp_path / "model.mk").decision_function(frame), expected)
        np.testing.assert_allclose(model.decision_function(days), expected)
        with pytest.raises(ValueError, match="'seen' held no dates in training"):
            twin.predict(frame)
        words = convert(pd.DataFrame({"a": WHOLE[:, 0], "seen": "2024-01-01"}))
        with pytest.raises(ValueError, match="'seen' held dates in training, and holds words"):
            model.predict(words)

    def test_of_the_day_and_missing(self):
        frame = pl.DataFrame({"day": DATES.date.tolist(), "a": X[:, 0]}).with_columns(
            day=pl.when(pl.int_range(80) % 9 > 0).then("day")
        )
        with pytest.warns(UserWarning, match="'day'"):
            model = MKLClassifier(missing="impute").fit(frame, Y)
        there = np.arange(80)[np.arange(80) % 9 > 0]
        assert model.feature_medians_[0] == np.median(19723 + there % 40)
        with pytest.warns(UserWarning, match="'day'"), pytest.raises(ValueError, match="NaN"):
            MKLClassifier().fit(frame, Y)

    def test_durations_are_refused(self):
        frame = pd.DataFrame({"a": WHOLE[:, 0], "for": DATES - DATES[0]})
        with pytest.raises(ValueError, match="dates or times"):
            MKLClassifier().fit(frame, Y)
