"""Groups of columns, what they weigh and what they contribute, and views that are missing."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score
from sklearn.preprocessing import StandardScaler

from conftest import data_folder, toy
from manykernels import MKLClassifier, MKLClassifierCV, MKLRegressor, load, save
from manykernels.banks import make_bank
from manykernels.kernels import (
    RBF,
    FunctionKernel,
    Hamming,
    KernelCollection,
    Laplacian,
    Linear,
    Spectrum,
    on_groups,
    vector,
)
from manykernels.lowrank import IncompleteCholesky, Nystroem

X, y = toy(60)
FRAME = pd.DataFrame(X, columns=["age", "dose", "gene 1", "gene 2"])
GROUPS = {"clinical": ["age", "dose"], "mrna": ["gene 1", "gene 2"]}


def polars_frame(frame):
    return pytest.importorskip("polars").from_pandas(frame)


class TestOnGroups:
    def test_default_kernels(self):
        bank = on_groups(GROUPS)
        assert bank.groups == ["clinical"] * 4 + ["mrna"] * 4
        assert bank.kernels[:4] == [
            *(RBF("median", ("age", "dose"), factor) for factor in (0.125, 0.5)),
            RBF("near", ("age", "dose")),
            Linear(features=("age", "dose")),
        ]
        assert bank.names()[0] == "clinical: RBF(gamma=0.125 median) on age, dose"

    @pytest.mark.parametrize(
        "columns", [[2, 3], slice(2, 4), FRAME.columns[2:], np.array([False, False, True, True])]
    )
    def test_ways_to_say_columns(self, columns):
        expected = MKLClassifier(on_groups(GROUPS), p=2.0).fit(FRAME, y).decision_function(FRAME)
        model = MKLClassifier(on_groups({"clinical": slice(2), "mrna": columns}), p=2.0).fit(
            FRAME, y
        )
        np.testing.assert_array_equal(model.decision_function(FRAME), expected)

    def test_kernels_for_all_or_some(self):
        assert on_groups(GROUPS, Laplacian()).kernels == [
            Laplacian(features=tuple(columns)) for columns in GROUPS.values()
        ]
        bank = on_groups(GROUPS, {"mrna": [RBF(0.5), Linear()]})
        assert bank.groups == ["clinical"] * 4 + ["mrna"] * 2
        assert bank[4] == RBF(0.5, features=("gene 1", "gene 2"))
        function = on_groups({"all": slice(None)}, [np.dot])[0]
        assert function == FunctionKernel(np.dot, features=slice(None))

    @pytest.mark.parametrize(
        ("groups", "kernels", "error", "message"),
        [
            ([["age"]], None, TypeError, "mapping"),
            ({}, None, TypeError, "mapping"),
            ({"a": None}, None, ValueError, "Group 'a' has no columns"),
            (
                GROUPS,
                {"protein": Linear()},
                ValueError,
                r"kernels for \['protein'\], which are not among the groups",
            ),
            (GROUPS, RBF(features=[0]), ValueError, "features of its own"),
            (GROUPS, "rbf", TypeError, "A kernel must be a Kernel"),
            (GROUPS, np.eye(3), TypeError, r"array of shape \(3, 3\): write Precomputed\(K\)"),
        ],
    )
    def test_bad_groups(self, groups, kernels, error, message):
        with pytest.raises(error, match=message):
            on_groups(groups, kernels)

    def test_categories_among_the_columns(self):
        frame = FRAME.assign(
            dose=np.where(FRAME["dose"] > 0, "high", "low"), sex=np.where(X[:, 3] > 0, "f", "m")
        )
        groups = {"clinical": ["age", "dose"], "kinds": ["sex"], "mrna": ["gene 1", "gene 2"]}
        model = MKLClassifier(clone(MKLClassifier(on_groups(groups))).kernels).fit(frame, y)
        assert model.kernel_names_[0] == "clinical: Hamming on dose"
        assert model.kernel_names_[1].endswith(" on age")
        assert model.bank_.groups == ["clinical"] * 5 + ["kinds"] + ["mrna"] * 4
        with pytest.raises(ValueError, match=r"Group 'clinical': Laplacian.*needs numbers"):
            MKLClassifier(on_groups(groups, {"clinical": Laplacian()})).fit(frame, y)

    def test_factor_of_gamma(self):
        scale = RBF().resolved(X, None).gamma
        assert RBF(factor=4.0).resolved(X, None) == RBF(4.0 * scale)
        assert RBF(0.5, factor=4.0).resolved(None, None) == RBF(2.0)
        np.testing.assert_array_equal(RBF(0.5, factor=4.0).block(X, X), RBF(2.0).block(X, X))
        with pytest.raises(ValueError, match="factor > 0"):
            make_bank(KernelCollection([RBF(factor=0.0)]), X)


class TestMedianWidths:
    """``gamma="median"``, by hand and in estimators."""

    @pytest.mark.parametrize("sparse_table", [False, True])
    @pytest.mark.parametrize(("kernel", "metric"), [(RBF, "sqeuclidean"), (Laplacian, "cityblock")])
    def test_by_hand(self, kernel, metric, sparse_table):
        table = np.where(np.abs(X) < 1.0, 0.0, X)
        table[:30] = 0.0  # equal rows do not count
        distances = pdist(table, metric)
        expected = 2.0 / np.quantile(distances[distances > 0], 0.5, method="inverted_cdf")
        points = sparse.csr_array(table) if sparse_table else table
        resolved = kernel("median", factor=2.0).resolved(points, None)
        assert resolved == kernel(pytest.approx(expected))

    def test_rows_that_come_twice_and_weights(self):
        counts = np.random.default_rng(1).integers(1, 4, len(X))
        repeated = np.repeat(X, counts, axis=0)
        gamma = RBF("median").resolved(X, counts).gamma
        assert gamma == pytest.approx(RBF("median").resolved(repeated, None).gamma)
        assert gamma == RBF("median").resolved(X, 2 * counts).gamma

    def test_a_sample_is_near_all(self):
        points = np.random.default_rng(0).standard_normal((3000, 20))
        expected = 1.0 / np.median(pdist(points[:1500], "sqeuclidean"))
        assert RBF("median").resolved(points, None).gamma == pytest.approx(expected, rel=0.05)
        assert RBF("median") == RBF("median")  # and nothing is remembered of it
        half_of_scale = 0.5 * RBF("scale").resolved(points, None).gamma
        assert expected == pytest.approx(half_of_scale, rel=0.1)

    def test_sparse_points_are_made_dense_in_the_sample_only(self, monkeypatch):
        seen = []
        monkeypatch.setattr(vector, "dense", lambda A: seen.append(A.shape) or A.toarray())
        points = sparse.random_array((5000, 40), density=0.1, random_state=0, format="csr")
        RBF("median").resolved(points, None)
        assert seen == [(vector.MEDIAN_SAMPLE, 40)]

    def test_odd_samples_change_little(self):
        odd = X.copy()
        odd[0] = 1e4
        change = [
            RBF(gamma).resolved(X, None).gamma / RBF(gamma).resolved(odd, None).gamma
            for gamma in ("median", "scale")
        ]
        assert change[0] < 1.2
        assert change[1] > 1e4

    def test_equal_points(self):
        assert RBF("median", factor=3.0).resolved(np.ones((5, 2)), None).gamma == 3.0
        assert RBF("median").resolved(np.ones((1, 2)), None).gamma == 1.0

    @pytest.mark.parametrize("points", [np.eye(4) * 1e200, np.eye(4) * 1e-155])
    def test_out_of_range(self, points):
        with pytest.raises(ValueError, match="gamma='median' is out of range"):
            make_bank(KernelCollection([RBF("median")]), points)

    def test_unknown_words(self):
        with pytest.raises(ValueError, match="gamma > 0, 'scale', 'median' or 'near', got 'mean'"):
            make_bank(KernelCollection([RBF("mean")]), X)

    def test_widths_of_a_group_are_computed_once(self, monkeypatch):
        calls = []
        real = vector.distance_quantiles
        monkeypatch.setattr(
            vector, "distance_quantiles", lambda *given: calls.append(1) or real(*given)
        )
        bank = make_bank(on_groups(GROUPS), X, feature_names=list(FRAME.columns))
        assert len(calls) == len(GROUPS)
        gammas = [kernel.gamma for kernel in bank.kernels[:3]]
        np.testing.assert_allclose(np.divide(gammas, gammas[0]), [1.0, 4.0, 32.0])
        assert bank.kernels[1] == on_groups(GROUPS)[1].resolved(X[:, :2], None)

    def test_folds_see_their_training_rows_only(self):
        """Every fold of the grid has the widths of its training rows, as a plain fit would."""
        cv = KFold(3, shuffle=True, random_state=0)
        grid = MKLClassifierCV(on_groups(GROUPS), Cs=[1.0], ps=[2.0], cv=cv, tol=1e-7)
        grid.set_params(exhaustive=True)
        held_out = grid.fit(FRAME, y).oof_decision_
        for train, test in cv.split(X):
            model = MKLClassifier(on_groups(GROUPS), p=2.0, tol=1e-7)
            model.fit(FRAME.iloc[train], y[train])
            np.testing.assert_allclose(
                model.decision_function(FRAME.iloc[test]), held_out[test], atol=1e-4
            )

    def test_model_files(self, tmp_path):
        model = MKLClassifier(on_groups(GROUPS, [RBF("median", factor=2.0)]), p=2.0).fit(FRAME, y)
        save(model, tmp_path / "model.mk")
        again = load(tmp_path / "model.mk")
        assert again.kernels.kernels == model.kernels.kernels
        assert again.kernels[0].gamma == "median"
        assert again.kernel_names_ == model.kernel_names_
        np.testing.assert_array_equal(
            again.decision_function(FRAME), model.decision_function(FRAME)
        )


def contributions_by_hand(model, grams):
    """``sum_c w_kc beta_c' K_k beta_c`` over its sum, from Gram matrices of all training rows."""
    weights = np.broadcast_to(model.kernel_weights_, (len(model.dual_coef_), len(grams)))
    parts = np.zeros(len(grams))
    for w, beta in zip(weights, model.dual_coef_, strict=True):
        parts += [
            w[k] * beta @ K[np.ix_(model.support_, model.support_)] @ beta
            for k, K in enumerate(grams)
        ]
    return parts / parts.sum()


class TestContributions:
    KERNELS = (RBF(0.5), Linear(), RBF(2.0, features=[0, 1]))

    def grams(self):
        return list(make_bank(KernelCollection(self.KERNELS), X).columns(np.arange(len(X))))

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"normalize": "cosine"},
            {"approximation": Nystroem(60, cutoff=0.0), "tol": 1e-7},
            {"approximation": IncompleteCholesky(60, tol=0.0), "tol": 1e-7},
        ],
        ids=str,
    )
    def test_by_hand(self, options):
        model = MKLClassifier(list(self.KERNELS), p=2.0, **options).fit(X, y)
        bank = make_bank(
            KernelCollection(self.KERNELS), X, normalize=options.get("normalize", "diagonal")
        )
        expected = contributions_by_hand(model, bank.columns(np.arange(len(X))))
        np.testing.assert_allclose(model.kernel_contributions_, expected, atol=1e-4)

    @pytest.mark.parametrize("share_weights", [True, False])
    @pytest.mark.parametrize(
        "approximation", [None, Nystroem(60, cutoff=0.0)], ids=["exact", "nystroem"]
    )
    def test_several_classes(self, share_weights, approximation):
        labels = np.digitize(X[:, 0], [-0.5, 0.5])
        model = MKLClassifier(
            list(self.KERNELS),
            p=2.0,
            share_weights=share_weights,
            approximation=approximation,
            tol=1e-6,
        )
        expected = contributions_by_hand(model.fit(X, labels), self.grams())
        np.testing.assert_allclose(model.kernel_contributions_, expected, atol=1e-4)

    def test_decision_function_has_these_parts(self):
        model = MKLRegressor(list(self.KERNELS), p=2.0, C=10.0).fit(X, X[:, 0] * X[:, 1])
        K = sum(w * K for w, K in zip(model.kernel_weights_, self.grams(), strict=True))[
            np.ix_(model.support_, model.support_)
        ]
        beta = model.dual_coef_[0]
        alone = [
            w * model.bank_.quadratic_forms(model.result_.beta)[k]
            for k, w in enumerate(model.kernel_weights_)
        ]
        np.testing.assert_allclose(np.sum(alone), beta @ K @ beta, rtol=1e-4)

    def test_not_computed_before_it_is_asked_for(self):
        model = MKLClassifier(list(self.KERNELS)).fit(X, y)
        assert model._contributions is None
        assert model.kernel_contributions_ is model.kernel_contributions_
        first = model.kernel_contributions_
        assert model.set_params(C=100.0).fit(X, y).kernel_contributions_ is not first

    def test_products_have_none(self):
        model = MKLClassifier(combination="product").fit(X, y)
        assert not hasattr(model, "kernel_contributions_")
        assert "contribution" not in model.weights_frame()
        assert sum(model.group_weights_.values()) == pytest.approx(1.0)


class TestTables:
    def test_shares_of_groups(self):
        model = MKLClassifier(on_groups(GROUPS), p=2.0).fit(FRAME, y)
        frame = model.weights_frame()
        assert list(frame.columns) == [
            *("kernel", "group", "weight", "share", "contribution", "remark")
        ]
        assert frame["weight"].is_monotonic_decreasing
        for column, shares in (
            ("share", model.group_weights_),
            ("contribution", model.group_contributions_),
        ):
            assert shares == pytest.approx(frame.groupby("group")[column].sum().to_dict())
            assert sum(shares.values()) == pytest.approx(1.0)

    def test_groups_are_found(self):
        points, labels = toy(200)  # the labels depend on the first two columns alone
        model = MKLClassifier(on_groups(GROUPS)).fit(
            pd.DataFrame(points, columns=FRAME.columns), labels
        )
        assert model.group_contributions_["clinical"] > 0.9

    def test_kernels_without_a_group_stand_for_themselves(self):
        model = MKLClassifier([RBF(0.5), Linear()], p=2.0).fit(X, y)
        assert list(model.group_weights_) == model.kernel_names_
        assert list(model.weights_frame()["group"]) == ["", ""]

    def test_polars(self):
        pl = pytest.importorskip("polars")
        model = MKLClassifier(on_groups(GROUPS), p=2.0).fit(FRAME, y)
        frame = model.weights_frame(backend="polars")
        assert isinstance(frame, pl.DataFrame)
        assert frame.to_dict(as_series=False) == model.weights_frame().to_dict("list")
        with pytest.raises(ValueError, match="use 'pandas' or 'polars'"):
            model.weights_frame(backend="arrow")


class TestMissingViews:
    def broken(self):
        frame = FRAME.copy()
        frame.loc[:9, ["gene 1", "gene 2"]] = np.nan
        frame.loc[20, "gene 2"] = np.nan
        return frame

    def test_columns_absent_in_training(self):
        with pytest.raises(ValueError, match=r"Group 'mrna': Unknown column names \['gene 2'\]"):
            MKLClassifier(on_groups(GROUPS)).fit(FRAME.drop(columns="gene 2"), y)

    def test_columns_absent_in_prediction(self):
        model = MKLClassifier(on_groups(GROUPS)).fit(FRAME, y)
        message = (
            r"(?s)now missing.*Group 'mrna' lacks 2 of its 2 columns: 'gene 1', 'gene 2'"
            r".*give these columns"
        )
        with pytest.raises(ValueError, match=message):
            model.predict(FRAME[["age", "dose"]])

    @pytest.mark.parametrize(
        "groups", [GROUPS, {"clinical": [0, 1], "mrna": slice(2, 4)}], ids=["names", "indices"]
    )
    def test_values_missing(self, groups):
        kernels = on_groups(groups)
        message = (
            r"(?s)contains NaN.*Group 'mrna' has missing values in 11 of 60 rows, in 10 of them all"
            r": columns '?gene 1'?, '?gene 2'?, first in row \d+\..*impute"
        )
        with pytest.raises(ValueError, match=message) as caught:
            MKLClassifier(kernels).fit(self.broken(), y)
        assert "clinical" not in str(caught.value)
        assert "HistGradientBoosting" not in str(caught.value)
        with pytest.raises(ValueError, match=message):
            MKLClassifier(kernels).fit(FRAME, y).predict(self.broken())

    @pytest.mark.parametrize("convert", [pd.DataFrame, pd.DataFrame.convert_dtypes, polars_frame])
    def test_every_way_to_say_missing(self, convert):
        frame = convert(self.broken().assign(sex=np.where(X[:, 3] > 0, "f", "m")))
        kernels = {"mrna": RBF(features=["gene 1", "gene 2"]), "sex": Hamming("sex")}
        with pytest.raises(
            ValueError, match=r"Group 'mrna' has missing values in 11 of 60 rows, in 10 of them all"
        ):
            MKLClassifier(kernels).fit(frame, y)

    def test_no_advice_without_groups(self):
        with pytest.raises(ValueError, match="contains NaN") as caught:
            MKLClassifier([RBF()]).fit(self.broken(), y)
        assert "Group" not in str(caught.value)


def views(name):
    """A data set of several views as one frame, its groups, and labels; skips without it."""
    where = data_folder() / f"{name}.npz"
    if not where.exists():
        pytest.skip(
            f"data set {name} is not here ({where}); set MANYKERNELS_DATA to the folder that has it"
        )
    with np.load(where) as archive:
        parts = {
            view: pd.DataFrame(archive[f"X_{view}"].astype(float)).add_prefix(f"{view} ")
            for view in archive["views"].tolist()
        }
        labels = archive["y"].astype(int)
    frame = pd.concat(parts.values(), axis=1)
    return frame, {view: list(part.columns) for view, part in parts.items()}, labels


@pytest.mark.parametrize(
    ("name", "rows", "least"), [("tcga_breast", 150, 0.95), ("mfeat", 300, 0.95)]
)
def test_real_views(name, rows, least):
    frame, groups, labels = views(name)
    chosen = np.random.default_rng(0).permutation(len(frame))[:rows]
    frame, labels = frame.iloc[chosen], labels[chosen]
    frame = StandardScaler().set_output(transform="pandas").fit_transform(frame)
    model = MKLClassifier(on_groups(groups), p=1.33)
    assert cross_val_score(model, frame, labels, cv=3).mean() > least
    shares = model.fit(frame, labels).group_contributions_
    assert set(shares) == set(groups)
    assert sum(shares.values()) == pytest.approx(1.0)
    lost = next(iter(groups))
    with pytest.raises(
        ValueError,
        match=f"Group '{lost}' lacks {len(groups[lost])} of its {len(groups[lost])} columns",
    ):
        model.predict(frame.drop(columns=groups[lost]))


def test_strings_as_a_view():
    rng = np.random.default_rng(0)
    frame = FRAME.assign(sequence=["".join(rng.choice(list("ACGT"), 30)) for _ in range(60)])
    bank = on_groups(GROUPS | {"promoter": "sequence"}, {"promoter": [Spectrum(2), Spectrum(3)]})
    model = MKLClassifier(bank, p=2.0).fit(frame, y)
    assert model.kernel_names_[-1] == "promoter: Spectrum(k=3) on sequence"
    assert model.group_weights_["promoter"] > 0
