"""kernels="auto": the same model in any units, and kernels that say nothing are named."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    load,
    path,
    save,
)
from manykernels.banks import make_bank
from manykernels.banks.divided import divided
from manykernels.banks.torch.tiled import DeviceTiledBank
from manykernels.display.facts import training_rows
from manykernels.estimators.data.silent import silent_kernels
from manykernels.estimators.data.units import in_units
from manykernels.kernels import RBF, KernelCollection, Linear, Precomputed, auto_bank, on_groups

rng = np.random.default_rng(0)
X = rng.normal(size=(80, 4))
y = np.where(X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=80) > 0, 1, 0)
UNITS, ORIGIN = np.array([1e-3, 1.0, 1e3, 1e6]), np.array([5.0, -3.0, 1e3, 0.0])
OTHER = X * UNITS + ORIGIN


class TestUnits:
    @pytest.mark.parametrize("options", [{}, {"p": 2.0}, {"C": 10.0, "loss": "squared_hinge"}])
    def test_metres_and_millimetres(self, options):
        one, other = (MKLClassifier(**options, tol=1e-6).fit(T, y) for T in (X, OTHER))
        np.testing.assert_allclose(one.kernel_weights_, other.kernel_weights_, atol=1e-3)
        new = rng.normal(size=(50, 4))
        np.testing.assert_allclose(
            one.decision_function(new), other.decision_function(new * UNITS + ORIGIN), atol=1e-3
        )

    def test_means_and_spreads_are_those_of_the_training_rows(self):
        weights = rng.integers(0, 3, 80)
        model = MKLClassifier().fit(OTHER, y, sample_weight=weights)
        rows = np.repeat(OTHER, weights, axis=0)
        np.testing.assert_allclose(model.feature_means_, rows.mean(axis=0))
        np.testing.assert_allclose(model.feature_spreads_, rows.std(axis=0))

    def test_given_kernels_see_the_table_as_it_is(self):
        model = MKLClassifier([RBF(0.3), Linear()]).fit(X, y)
        assert not hasattr(model, "feature_spreads_")
        model.set_params(kernels="auto").fit(X, y)
        assert hasattr(model, "feature_spreads_")
        model.set_params(kernels=[RBF(0.3)]).fit(X, y)
        assert not hasattr(model, "feature_spreads_")

    def test_warning_of_columns_that_are_far_apart(self, recwarn):
        with pytest.warns(UserWarning, match="x3: .*x0: .*the largest decide"):
            MKLClassifier([RBF(0.3)]).fit(OTHER, y)
        frame = pd.DataFrame(OTHER, columns=list("abcd"))
        with pytest.warns(UserWarning, match="c: .*b: "):
            MKLClassifier([Linear(features=["b", "c"])]).fit(frame, y)
        recwarn.clear()
        MKLClassifier([RBF(0.3, features=[f]) for f in range(4)]).fit(OTHER, y)
        MKLClassifier().fit(OTHER, y)
        MKLClassifier([RBF(0.3)]).fit(X, y)
        assert not [w for w in recwarn if "largest decide" in str(w.message)]

    def test_sparse_tables_stay_sparse(self):
        table = sparse.random_array((80, 30), density=0.2, rng=rng).tocsr()
        model = MKLClassifier().fit(table, y)
        assert not model.feature_means_.any()
        dense = model.decision_function(table.toarray())
        np.testing.assert_allclose(model.decision_function(table), dense, atol=1e-6)
        trained_dense = MKLClassifier().fit(table.toarray(), y)
        np.testing.assert_allclose(
            trained_dense.decision_function(table),
            trained_dense.decision_function(table.toarray()),
        )

    def test_categories_keep_their_codes(self):
        frame = pd.DataFrame({"size": OTHER[:, 2], "kind": rng.choice(["a", "b", "c"], 80)})
        model = MKLClassifier().fit(frame, y)
        assert model.feature_means_[1] == 0.0
        assert model.feature_spreads_[1] == 1.0
        assert model.predict(frame).shape == (80,)

    @pytest.mark.parametrize("model", [MKLClassifier(), MKLRegressor(), MKLClassifierCV(Cs=2)])
    def test_files(self, model, tmp_path):
        model.fit(OTHER, y)
        save(model, tmp_path / "model.mk")
        again = load(tmp_path / "model.mk")
        np.testing.assert_array_equal(model.predict(OTHER), again.predict(OTHER))
        np.testing.assert_array_equal(model.feature_spreads_, again.feature_spreads_)

    def test_paths(self):
        for model in path(MKLClassifier(), OTHER, y, C=[0.1, 1.0], p=[1.0, 2.0]):
            alone = MKLClassifier(C=model.C, p=model.p).fit(OTHER, y)
            np.testing.assert_allclose(
                model.decision_function(OTHER), alone.decision_function(OTHER), atol=0.1
            )


GROUPS = {"near": [0, 1], "far": [2, 3]}


class TestScale:
    def test_default_kernels_of_groups(self):
        one, other = (MKLClassifier(on_groups(GROUPS), tol=1e-6).fit(T, y) for T in (X, OTHER))
        np.testing.assert_allclose(one.kernel_weights_, other.kernel_weights_, atol=1e-3)
        np.testing.assert_allclose(other.feature_means_, OTHER.mean(axis=0))
        own = MKLClassifier(on_groups(GROUPS, [Linear()]))
        assert not hasattr(own.fit(X, y), "feature_spreads_")

    def test_groups_with_and_without_kernels_of_their_own(self):
        """Kernels that were given see columns as they are, whatever the other groups do."""
        (first, columns), *rest = GROUPS.items()
        mixed = on_groups(GROUPS, {first: [Linear()]})
        model = MKLClassifier(mixed, tol=1e-6).fit(X, y)
        assert (model.feature_means_[columns] == 0.0).all()
        assert (model.feature_spreads_[columns] == 1.0).all()
        others = [f for _, chosen in rest for f in np.arange(X.shape[1])[chosen]]
        np.testing.assert_allclose(model.feature_spreads_[others], X[:, others].std(axis=0))
        same = model.decision_function(X)
        scaled = (X - model.feature_means_) / model.feature_spreads_
        model = MKLClassifier(mixed, scale=None, tol=1e-6).fit(scaled, y)
        np.testing.assert_allclose(model.decision_function(scaled), same, atol=1e-5)
        left = mixed.without(first)
        assert not left.own
        assert list(left.columns) == [group for group, _ in rest]

    def test_kernels_of_ones_own(self):
        kernels = [RBF(0.3), Linear(features=[0, 1])]
        scaled = StandardScaler().fit_transform(OTHER)
        model = MKLClassifier(kernels, scale="standard", tol=1e-6).fit(OTHER, y)
        same = MKLClassifier(kernels, tol=1e-6).fit(scaled, y)
        np.testing.assert_allclose(
            model.decision_function(OTHER), same.decision_function(scaled), atol=5e-3
        )

    def test_none(self):
        raw = MKLClassifier(on_groups(GROUPS), scale=None).fit(X, y)
        assert not hasattr(raw, "feature_spreads_")
        own = MKLClassifier(auto_bank(X)).fit(X, y)
        made = MKLClassifier(scale=None).fit(X, y)
        np.testing.assert_allclose(own.decision_function(X), made.decision_function(X), atol=1e-6)

    def test_rows_without_a_group(self, tmp_path):
        """Means and spreads are those of the rows that have the group."""
        table = OTHER.copy()
        table[:20, 2:] = np.nan
        model = MKLClassifier(on_groups(GROUPS), missing="mean").fit(table, y)
        np.testing.assert_allclose(model.feature_means_, np.nanmean(table, axis=0))
        np.testing.assert_allclose(model.feature_spreads_, np.nanstd(table, axis=0))
        save(model, tmp_path / "model.mk")
        np.testing.assert_array_equal(
            model.predict(table), load(tmp_path / "model.mk").predict(table)
        )

    def test_refusals(self):
        with pytest.raises(ValueError, match="numbers of samples"):
            MKLClassifier([Precomputed(X @ X.T)], scale="standard").fit(np.arange(80)[:, None], y)
        with pytest.raises(ValueError, match="fitted bank"):
            MKLClassifier(make_bank(KernelCollection([RBF(0.3)]), X), scale="standard").fit(X, y)
        with pytest.raises(ValueError, match="scale"):
            MKLClassifier(scale="robust").fit(X, y)


class TestVariance:
    def test_unit_variance(self):
        """The mean diagonal less the mean entry is one, for weighted rows too."""
        weights = rng.integers(1, 4, 80).astype(float)
        kernels = KernelCollection([RBF(0.1), RBF(2.0), Linear(), RBF(0.5, features=[1])])
        bank = make_bank(kernels, X, normalize="variance", sample_weight=weights)
        share = weights / weights.sum()
        variance = bank.diagonal() @ share - bank.products(share) @ share
        np.testing.assert_allclose(variance, 1.0, rtol=1e-5)

    def test_a_sample_of_many_rows(self):
        many = rng.normal(size=(3000, 4))
        bank = make_bank(KernelCollection([RBF(0.3), Linear()]), many, normalize="variance")
        share = np.full(3000, 1.0 / 3000)
        variance = bank.diagonal() @ share - bank.products(share) @ share
        np.testing.assert_allclose(variance, 1.0, rtol=0.1)

    def test_constant_kernels_are_left_out(self):
        with pytest.warns(UserWarning, match="is constant on the training data; it is left out"):
            bank = make_bank(KernelCollection([RBF(0.3), RBF(1e-15)]), X, normalize="variance")
        assert bank.scales[1] == 0.0

    def test_the_optimum_of_centered_kernels(self):
        kernels = [RBF(0.1), RBF(1.0), Linear()]
        one, other = (
            MKLClassifier(kernels, normalize=how, tol=1e-6).fit(X, y)
            for how in ("variance", "center")
        )
        np.testing.assert_allclose(one.kernel_weights_, other.kernel_weights_, atol=1e-3)
        np.testing.assert_allclose(one.decision_function(X), other.decision_function(X), atol=5e-3)


class TestDisplay:
    def test_training_data_are_known_again(self):
        model = MKLClassifier().fit(OTHER, y)
        rows = training_rows(model, OTHER, y)
        assert rows is not None
        assert model.bank_.same_data(in_units(model, OTHER[rows]))
        assert training_rows(model, OTHER + 1.0, y) is None


class TestDevice:
    def test_the_device_is_used(self, monkeypatch):
        pytest.importorskip("torch")
        called, products = [], DeviceTiledBank.products
        monkeypatch.setattr(
            DeviceTiledBank, "products", lambda self, b: called.append(1) or products(self, b)
        )
        MKLClassifier(device="torch").fit(X, y)
        assert called


class TestBank:
    def test_nothing_to_make_kernels_of(self):
        frame = pd.DataFrame({"id": [f"patient {i}" for i in range(80)], "site": 1.0})
        with (
            pytest.warns(UserWarning, match="hardly ever"),
            pytest.raises(ValueError, match="No column says anything"),
        ):
            MKLClassifier().fit(frame, y)

    @pytest.mark.parametrize("kind", [MKLRegressor, MKLOneClass])
    def test_one_sample(self, kind):
        """A row that is repeated is one sample; kernels that are given can do with it."""
        points, targets = np.tile([[1.0, 2.0]], (3, 1)), np.full(3, 7.0)
        with pytest.raises(ValueError, match="two or more different rows, and got 1 sample"):
            kind().fit(points, targets)
        model = kind([RBF(1.0)]).fit(points, targets)
        assert model.predict(points[:1]) == (7.0 if kind is MKLRegressor else 1)

    def test_kernels_follow_the_columns(self):
        assert len(auto_bank(X)) == 6 + 4
        assert [kernel.gamma * 4 for kernel in auto_bank(X).kernels[:5]] == [
            *(0.125, 0.25, 0.5, 1.0, 2.0)
        ]
        assert len(auto_bank(X[:, :1])) == 6
        wide = rng.normal(size=(30, 501))
        assert len(auto_bank(wide)) == 6
        assert len(auto_bank(wide[:, :500])) == 506

    def test_constant_columns_have_no_kernel(self):
        table = np.hstack([X, np.ones((80, 2))])
        kernels = auto_bank(table)
        assert len(kernels) == 10
        assert all(set(kernel.features) <= set(range(4)) for kernel in kernels.kernels)
        assert len(auto_bank(sparse.csr_array(table))) == 10
        model = MKLClassifier().fit(table, y)
        assert not any(len(found) for found in model.silent_kernels_.values())

    def test_points_are_similar_to_some_others(self):
        """However many columns, the median similarity is neither one nor zero."""
        for d in (2, 30, 300):
            points = np.random.default_rng(d).normal(size=(60, d))
            for K in make_bank(auto_bank(points), points).columns(np.arange(60))[:5]:
                assert 0.01 < np.median(K) < 0.95


class TestSilent:
    def bank(self, *kernels):
        return make_bank(KernelCollection(list(kernels)), X)

    def test_what_says_nothing(self):
        constant = np.ones((80, 1))
        table = np.hstack([X, constant])
        kernels = [RBF(1e3), RBF(0.1), Linear(), RBF(1.0, features=[4]), RBF(1e-9)]
        found = silent_kernels(make_bank(KernelCollection(kernels), table))
        assert found["identity"].tolist() == [0]
        assert found["constant"].tolist() == [3, 4]

    def test_kernels_as_their_factors(self):
        wide = [RBF(g, features=[c]) for c in range(2) for g in (1e-9, 0.5)]
        table = np.hstack([np.random.default_rng(0).normal(size=(300, 2)), np.ones((300, 1))])
        table = np.hstack([table, 2000.0 + np.arange(300)[:, None] % 3])  # years vary
        years = Linear(features=[3])
        kernels = [*wide, RBF(1e3), Linear(features=[2]), RBF(2.0, features=[2]), RBF(1e-9), years]
        bank = make_bank(KernelCollection(kernels), table)
        plain, parts = silent_kernels(bank), silent_kernels(divided(bank))
        assert plain["constant"].tolist() == parts["constant"].tolist() == [0, 2, 5, 6, 7]
        assert plain["identity"].tolist() == parts["identity"].tolist() == [4]

    def test_many_small_similarities_are_not_nothing(self):
        """A typical point has no near neighbor, but a thousand far ones."""
        points = np.random.default_rng(1).normal(size=(1500, 3))
        found = silent_kernels(make_bank(KernelCollection([RBF(1.0)]), points))
        assert found["identity"].size == 0

    def test_points_at_the_origin_are_no_identity(self):
        """A linear kernel of counts, of which most are zero."""
        counts = np.zeros((60, 1))
        counts[::3] = 1.0 + np.arange(20)[:, None]
        found = silent_kernels(make_bank(KernelCollection([Linear()]), counts))
        assert found["identity"].size == 0
        counts[1:] = 0.0  # what is compared with all points is at the origin
        found = silent_kernels(make_bank(KernelCollection([Linear()]), counts))
        assert found["constant"].size == 0

    def test_who_hears_of_it(self, tmp_path):
        table, labels = load_breast_cancer(return_X_y=True)
        table = StandardScaler().fit_transform(table)
        kernels = [RBF(32.0), RBF(0.01), Linear()]
        with pytest.warns(UserWarning, match="1 kernel is nearly the identity"):
            model = MKLClassifier(kernels, p=2.0, C=10.0).fit(table, labels)
        frame = model.weights_frame()
        assert frame.set_index("kernel").remark["RBF(gamma=32) on all features"] == "identity"
        assert (frame.remark != "").sum() == 1
        save(model, tmp_path / "model.mk")
        again = load(tmp_path / "model.mk").weights_frame()
        assert again.remark.tolist() == frame.remark.tolist()

    def test_not_where_it_has_no_weight(self, recwarn):
        model = MKLClassifier([RBF(1e4), Linear()], C=1e-3).fit(X, np.where(X[:, 0] > 0, 1, 0))
        assert model.kernel_weights_[0] == 0.0
        assert model.silent_kernels_["identity"].tolist() == [0]
        assert not [w for w in recwarn if "identity" in str(w.message)]

    def test_defaults_are_heard(self, recwarn):
        """No default kernel is silent on ordinary tables."""
        table, labels = load_breast_cancer(return_X_y=True)
        model = MKLClassifier().fit(table, labels)
        assert not any(len(kernels) for kernels in model.silent_kernels_.values())
        assert not [w for w in recwarn if "identity" in str(w.message)]


class TestTargets:
    """MKLRegressor follows the spread of the targets."""

    target = 3.0 * X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=80)

    @pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared"])
    def test_any_units(self, loss):
        one = MKLRegressor(loss=loss, tol=1e-6).fit(X, self.target)
        other = MKLRegressor(loss=loss, tol=1e-6).fit(X, 1000.0 * self.target + 7.0)
        np.testing.assert_allclose(
            1000.0 * one.predict(X) + 7.0, other.predict(X), rtol=1e-3, atol=1.0
        )

    def test_what_auto_is(self):
        spread = self.target.std()
        auto = MKLRegressor(tol=1e-6).fit(X, self.target)
        given = MKLRegressor(C=spread, epsilon=0.1 * spread, tol=1e-6).fit(X, self.target)
        np.testing.assert_allclose(auto.predict(X), given.predict(X), atol=1e-6)
        assert auto.target_spreads_ == pytest.approx([spread])

    def test_several_targets_have_costs_of_their_own(self):
        both = np.column_stack([self.target, 1e4 * X[:, 2]])
        model = MKLRegressor(p=2.0).fit(X, both)
        scores = 1.0 - ((model.predict(X) - both) ** 2).sum(axis=0) / both.var(axis=0) / len(both)
        assert scores.min() > 0.5

    @pytest.mark.parametrize("constant", [0.0, 0.1, 1.0])
    def test_a_constant_target_says_nothing_of_the_others(self, constant):
        large = 1000.0 * self.target
        alone = MKLRegressor(p=2.0).fit(X, large)
        beside = MKLRegressor(p=2.0).fit(X, np.column_stack([large, np.full(80, constant)]))
        np.testing.assert_allclose(beside.target_spreads_, alone.target_spreads_[0])
        np.testing.assert_allclose(beside.predict(X)[:, 1], constant, atol=1e-6)
        np.testing.assert_allclose(beside.predict(X)[:, 0], alone.predict(X), atol=50.0)
        assert MKLRegressor().fit(X, np.full(80, constant)).target_spreads_ == [1.0]

    def test_a_path_over_p_alone(self):
        models = path(MKLRegressor(), X, self.target, p=[1.0, 2.0])
        assert [model.C for model in models] == ["auto", "auto"]
        numbers = path(MKLRegressor(), X, self.target, C=[0.1, 1.0], p=[2.0])
        alone = MKLRegressor(C=1.0, p=2.0).fit(X, self.target)
        np.testing.assert_allclose(numbers[-1].predict(X), alone.predict(X), atol=0.05)

    def test_other_words(self):
        with pytest.raises(ValueError, match="numbers for C"):
            path(MKLRegressor(), X, self.target, C="auto")
        for options in ({"C": "much"}, {"epsilon": "little"}):
            with pytest.raises(ValueError, match="must be a number or 'auto'"):
                MKLRegressor(**options).fit(X, self.target)


def test_without_labels_width_decides():
    """Why MKLOneClass learns no weights by default: the distance from the origin chooses the widest
    kernel, and the smallest ball at unit variance the narrowest, whatever the data.
    """
    gammas = [0.01, 0.1, 1.0, 10.0]
    for points in (X, rng.uniform(size=(80, 3)), rng.standard_t(3, size=(80, 2))):
        kernels = KernelCollection([RBF(gamma) for gamma in gammas])
        weights = MKLOneClass(kernels, p=1.0, nu=0.2).fit(points).kernel_weights_
        assert np.argmax(weights) == 0
        assert weights[0] > 0.99
        bank = make_bank(kernels, points)
        radii = []
        for K in bank.columns(np.arange(len(points))):
            K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
            radii.append(np.diag(K).max() / np.diag(K).mean())  # of the ball around the mean
        assert np.argmin(radii) == 3
