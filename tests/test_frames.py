"""Data frames of pandas and polars, with strings and categories among their columns."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, MKLOneClass, MKLRegressor, path
from manykernels.estimators.data.frames import learned_categories
from manykernels.kernels import RBF, Hamming, KernelCollection, Linear, Spectrum, paper_bank
from manykernels.lowrank import Nystroem
from reference import share_of_equal_entries

pl = pytest.importorskip("polars")


def patients(n=60, seed=0):
    """A frame of every kind of column, and labels that depend on one number and one category."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(60.0, 10.0, n),
            "stage": pd.Categorical(
                rng.choice(["I", "II", "III"], n), categories=["III", "II", "I"], ordered=True
            ),
            "smoker": rng.random(n) > 0.5,
            "site": rng.choice(["lung", "breast"], n),
            "dose": rng.integers(0, 5, n),
        }
    )
    return frame, np.where((frame["stage"] == "III") ^ (frame["age"] > 60), "ill", "well")


FRAME, LABELS = patients()
KERNELS = {
    "numbers": RBF(features=["age", "dose"]),
    "kinds": [Hamming(["stage", "site"]), Hamming("smoker")],
}


def fitted(X=FRAME, **options):
    return MKLClassifier(KERNELS, **{"p": 2.0, **options}).fit(X, LABELS)


class TestSameResults:
    def test_pandas_polars_and_arrays(self):
        expected = fitted().decision_function(FRAME)
        polars = pl.from_pandas(FRAME)
        np.testing.assert_array_equal(fitted(polars).decision_function(polars), expected)
        table = FRAME.to_numpy(dtype=object)
        kernels = {"numbers": RBF(features=[0, 4]), "kinds": [Hamming([1, 3]), Hamming(2)]}
        model = MKLClassifier(kernels, p=2.0).fit(table, LABELS)
        np.testing.assert_array_equal(model.decision_function(table), expected)
        np.testing.assert_array_equal(model.decision_function(table.tolist()), expected)

    def test_trained_on_one_kind_of_frame_predicts_on_the_other(self):
        polars = pl.from_pandas(FRAME)
        np.testing.assert_array_equal(
            fitted().decision_function(polars), fitted(polars).decision_function(FRAME)
        )

    def test_codes_by_hand(self):
        codes = FRAME.assign(
            stage=FRAME["stage"].map({"I": 7, "II": 1, "III": 3}).astype(int),
            site=(FRAME["site"] == "lung").astype(int),
        )
        by_hand = fitted(codes, tol=1e-8).decision_function(codes)
        np.testing.assert_allclose(fitted(tol=1e-8).decision_function(FRAME), by_hand, atol=1e-6)

    @pytest.mark.parametrize("dtype", ["category", "string", object])
    def test_dtypes_of_strings(self, dtype):
        other = FRAME.assign(
            stage=FRAME["stage"].astype(str).astype(dtype), site=FRAME["site"].astype(dtype)
        )
        np.testing.assert_array_equal(
            fitted(other).decision_function(other), fitted().decision_function(FRAME)
        )

    @pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["II", "I", "III"]), pl.String])
    def test_dtypes_of_polars(self, dtype):
        other = pl.from_pandas(FRAME.assign(stage=FRAME["stage"].astype(str))).with_columns(
            pl.col("stage").cast(dtype)
        )
        np.testing.assert_array_equal(
            fitted(other).decision_function(other), fitted().decision_function(FRAME)
        )

    def test_order_of_categories_means_nothing(self):
        model = fitted()
        other = FRAME.assign(
            stage=pd.Categorical(FRAME["stage"].astype(str), categories=["new", "I", "III", "II"])
        )
        np.testing.assert_array_equal(
            model.decision_function(other), model.decision_function(FRAME)
        )
        few = other.iloc[[3, 7]]
        np.testing.assert_allclose(
            model.decision_function(few), model.decision_function(FRAME)[[3, 7]], rtol=1e-12
        )

    def test_order_of_rows_means_nothing(self):
        mixed = np.random.default_rng(1).permutation(len(FRAME))
        model = MKLClassifier(KERNELS, p=2.0).fit(FRAME.iloc[mixed], LABELS[mixed])
        np.testing.assert_array_equal(
            model.decision_function(FRAME), fitted().decision_function(FRAME)
        )


class TestCategories:
    def test_what_is_learned(self):
        categories = fitted().categories_
        assert categories == {"stage": ["I", "II", "III"], "site": ["breast", "lung"]}
        assert json.loads(json.dumps(categories)) == categories
        assert MKLClassifier([RBF()]).fit(FRAME[["age", "dose"]], LABELS).categories_ == {}

    def test_numbers_and_intervals_as_categories(self):
        frame = pd.DataFrame({"code": pd.Categorical([3, 1, 3, 2]), "bin": pd.cut([1, 2, 3, 4], 2)})
        learned = learned_categories(frame)
        assert learned["code"] == [1, 2, 3]
        assert len(learned["bin"]) == 2
        assert json.loads(json.dumps(learned)) == learned
        mixed = np.array([["a", np.int64(3)], [np.str_("b"), "3"]], dtype=object)
        assert learned_categories(mixed) == {"x0": ["a", "b"], "x1": [3, "3"]}

    @pytest.mark.parametrize("approximation", [None, Nystroem(60)], ids=["exact", "nystroem"])
    def test_unseen_categories_equal_nothing(self, approximation):
        model = MKLClassifier([Hamming(["stage", "site"])], tol=1e-7, approximation=approximation)
        model.fit(FRAME[["stage", "site"]], LABELS)
        new = pd.DataFrame({"stage": ["IV", "IV", "I"], "site": ["lung", "skin", "skin"]})
        train = FRAME[["stage", "site"]].astype(str).to_numpy()
        K = share_of_equal_entries(new.to_numpy(), train[model.support_])
        expected = K @ (model.dual_coef_[0] * model.kernel_weights_[0]) + model.intercept_[0]
        np.testing.assert_allclose(model.decision_function(new), expected, atol=1e-5)
        assert model.decision_function(new)[1] == pytest.approx(model.intercept_[0])

    def test_auto(self):
        model = MKLClassifier(p=1.33, C=10.0).fit(FRAME, LABELS)
        names = model.kernel_names_
        assert names[-3:] == ["Hamming on stage", "Hamming on site", "Hamming on stage, site"]
        assert len(names) == 6 + 3 + 3  # on all columns of numbers, on each, of categories
        assert any(name.endswith(" on age, smoker, dose") for name in names)
        assert model.score(FRAME, LABELS) > 0.85

    @pytest.mark.parametrize("convert", [pd.DataFrame, pl.from_pandas])
    def test_auto_without_numbers(self, convert):
        model = MKLClassifier().fit(convert(FRAME[["stage", "site"]]), LABELS)
        assert model.kernel_names_ == [
            "Hamming on stage",
            "Hamming on site",
            "Hamming on stage, site",
        ]

    def test_auto_leaves_names_out(self):
        frame = FRAME.assign(name=[f"patient {i}" for i in range(len(FRAME))])
        with pytest.warns(
            UserWarning, match=r"columns \['name'\].*hardly ever come twice.*Spectrum"
        ):
            model = MKLClassifier().fit(frame, LABELS)
        assert not any("name" in kernel for kernel in model.kernel_names_)

    def test_paper_bank_without_categories_is_as_it_was(self):
        X = FRAME[["age", "dose"]].to_numpy()
        assert paper_bank(X).kernels == paper_bank(X, categorical=[]).kernels
        assert len(paper_bank(X)) == 13 * 3


class TestErrors:
    @pytest.mark.parametrize(
        ("kernels", "message"),
        [
            (
                [RBF()],
                r"RBF\(gamma=scale\) needs numbers, but \['stage', 'site'\] hold strings or "
                r"categories: use Hamming",
            ),
            (
                {"view": Linear(features=["age", "site"])},
                r"Group 'view': Linear needs numbers, but \['site'\]",
            ),
            (
                [Spectrum(features="age")],
                r"Spectrum\(k=3\) needs strings, but \['age'\] hold numbers",
            ),
            (
                KernelCollection.masked_rbf(np.ones(40), np.ones((40, 5), bool)),
                "masked bank needs numbers",
            ),
        ],
    )
    def test_kernels_that_cannot_read_a_column(self, kernels, message):
        with pytest.raises(ValueError, match=message):
            MKLClassifier(kernels).fit(FRAME, LABELS)

    def test_combinations_need_numbers(self):
        with pytest.raises(ValueError, match="combination='product' needs numbers"):
            MKLClassifier(combination="product").fit(FRAME, LABELS)

    def test_kmeans_of_codes(self):
        with pytest.raises(ValueError, match="strings or categories: use landmarks='uniform'"):
            fitted(approximation=Nystroem(5, landmarks="kmeans"))

    @pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
    def test_missing_category(self, missing):
        frame = FRAME.assign(site=FRAME["site"].astype(object))
        frame.loc[[2, 5], "site"] = missing
        with pytest.raises(ValueError, match="'site' has missing values in 2 of 60 rows"):
            fitted(frame)
        with pytest.raises(ValueError, match="'site' has missing values in 2 of 60 rows"):
            fitted().predict(frame)

    def test_missing_category_of_polars(self):
        frame = pl.from_pandas(FRAME).with_columns(site=pl.lit(None, dtype=pl.String))
        with pytest.raises(ValueError, match="'site' has missing values in 60 of 60 rows"):
            fitted().predict(frame)

    @pytest.mark.parametrize("convert", [pd.DataFrame, pl.from_pandas])
    def test_columns_by_name(self, convert):
        model = fitted(convert(FRAME))
        assert list(model.feature_names_in_) == list(FRAME.columns)
        with pytest.raises(ValueError, match="same order"):
            model.predict(convert(FRAME[FRAME.columns[::-1]]))
        with pytest.raises(ValueError, match=r"unseen at fit time:\n- extra"):
            model.predict(convert(FRAME.assign(extra=1.0)))
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            model.predict(FRAME.to_numpy(dtype=object))

    def test_strings_where_numbers_were(self):
        with pytest.raises(ValueError, match=r"'age' must hold numbers: .*str"):
            fitted().predict(FRAME.assign(age="old"))

    def test_durations_of_polars(self):
        frame = pl.from_pandas(FRAME).with_columns(age=pl.duration(days=1))
        with pytest.raises(ValueError, match="dates or times"):
            fitted(frame)


class TestTools:
    @pytest.mark.parametrize("convert", [pd.DataFrame, pl.from_pandas])
    def test_cross_validation(self, convert):
        frame, labels = patients(90)
        model = MKLClassifier(KERNELS, p=2.0)
        scores = cross_val_score(model, convert(frame), labels, cv=3)
        assert scores.mean() > 0.7
        search = GridSearchCV(model, {"C": [0.1, 10.0]}, cv=3).fit(convert(frame), labels)
        assert search.best_params_ == {"C": 10.0}

    def test_choice_of_p(self):
        assert fitted(pl.from_pandas(FRAME), p="auto").p_ in (
            1.0,
            1.1,
            1.33,
            2.0,
            4.0,
            float("inf"),
        )

    def test_path(self):
        for model in path(MKLClassifier(KERNELS), FRAME, LABELS, C=[1.0, 10.0]):
            assert model.categories_["site"] == ["breast", "lung"]
            assert model.predict(FRAME).shape == (60,)

    def test_pipeline(self):
        scaled = make_column_transformer(
            (StandardScaler(), ["age", "dose"]),
            remainder="passthrough",
            verbose_feature_names_out=False,
        ).set_output(transform="pandas")
        model = make_pipeline(scaled, MKLClassifier(KERNELS, C=10.0)).fit(FRAME, LABELS)
        assert list(model[-1].feature_names_in_[:2]) == ["age", "dose"]
        assert model.score(FRAME, LABELS) > 0.75

    def test_pickle(self):
        model = fitted()
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(
            again.decision_function(FRAME), model.decision_function(FRAME)
        )

    def test_sample_weights_and_repeated_rows(self):
        counts = np.random.default_rng(0).integers(0, 3, len(FRAME))
        weighted = MKLClassifier(KERNELS, p=2.0).fit(FRAME, LABELS, sample_weight=counts)
        rows = np.repeat(np.arange(len(FRAME)), counts)
        repeated = MKLClassifier(KERNELS, p=2.0).fit(FRAME.iloc[rows], LABELS[rows])
        np.testing.assert_allclose(
            weighted.decision_function(FRAME), repeated.decision_function(FRAME), atol=1e-9
        )

    def test_other_estimators(self):
        numbers = FRAME["age"].to_numpy() + 10.0 * (FRAME["stage"] == "III").to_numpy()
        assert MKLRegressor(KERNELS, C=100.0).fit(FRAME, numbers).score(FRAME, numbers) > 0.8
        assert set(MKLOneClass(KERNELS, nu=0.2).fit(FRAME).predict(FRAME)) == {-1, 1}
