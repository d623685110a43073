"""How sure it is which groups matter: models of parts of the rows, and what they say."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    group_importance,
    stability,
)
from manykernels.display import ImportanceDisplay, StabilityDisplay
from manykernels.estimators.answers.importance import _corrected, _p_values, _residuals
from manykernels.estimators.answers.resampling import Resample, Resampling
from manykernels.estimators.answers.stability import false_selections, halves
from manykernels.kernels import RBF, Linear, Precomputed, on_groups
from manykernels.lowrank import Nystroem
from manykernels.regularizers import PNormBall

matplotlib.use("Agg")

GROUPS = {"signal": [0, 1], "weak": [2, 3], "noise a": [4, 5], "noise b": [6, 7]}
KERNELS = on_groups(GROUPS, [RBF(0.5), Linear()])


def table(n=120, seed=0, strength=1.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    f = strength * (X[:, 0] + X[:, 1]) + 0.3 * strength * X[:, 2] + rng.normal(size=n)
    return X, np.where(f > 0, "case", "control"), f


X, y, f = table()


class TestRefits:
    """Models that share a bank are those that would be trained alone."""

    @pytest.mark.parametrize("p", [1.0, 1.33])
    @pytest.mark.parametrize("normalize", ["diagonal", "trace"])
    def test_parts_of_the_rows(self, p, normalize):
        model = MKLClassifier(KERNELS, p=p, tol=1e-6, normalize=normalize)
        splits = halves(y, 2, True, 0)
        many = Resampling(model, X, y, None, splits)
        for (train, test), one in zip(
            splits, many.refits([Resample(s) for s in range(4)]), strict=True
        ):
            alone = MKLClassifier(KERNELS, p=p, tol=1e-6, normalize=normalize)
            alone.fit(X[train], y[train])
            assert_allclose(one.scores[0], alone.decision_function(X[test]), atol=5e-3)
            assert_allclose(one.weights, alone.kernel_weights_, atol=5e-3)
            assert_allclose(one.norms, alone.decision_.squared_norms(), rtol=2e-2, atol=1e-3)

    @pytest.mark.parametrize("approximation", [None, Nystroem(rank=30, random_state=0)])
    def test_without_a_group(self, approximation):
        model = MKLClassifier(KERNELS, p=1.33, tol=1e-6, approximation=approximation)
        train, test = halves(y, 1, True, 0)[0]
        many = Resampling(model, X, y, None, [(train, test)])
        one = many.refits([Resample(0, 1)])[0]
        others = {name: columns for name, columns in GROUPS.items() if name != "weak"}
        kernels = on_groups(others, [RBF(0.5), Linear()])
        alone = MKLClassifier(kernels, p=1.33, tol=1e-6, approximation=approximation)
        alone.fit(X[train], y[train])
        assert not one.parts[1].any()
        assert not one.weights[2:4].any()
        assert_allclose(one.scores[0], alone.decision_function(X[test]), atol=5e-3)

    def test_several_classes_and_weights(self):
        rng = np.random.default_rng(1)
        three, weight = rng.integers(0, 3, len(X)), rng.integers(1, 3, len(X)).astype(float)
        model = MKLClassifier(KERNELS, p=2.0, tol=1e-6, share_weights=False)
        splits = halves(three, 1, True, 0)
        many = Resampling(model, X, three, weight, splits)
        one = many.refits([Resample(0)])[0]
        train, test = splits[0]
        alone = MKLClassifier(KERNELS, p=2.0, tol=1e-6, share_weights=False)
        alone.fit(X[train], three[train], weight[train])
        assert_allclose(one.scores.T, alone.decision_function(X[test]), atol=5e-3)
        assert_allclose(one.norms, alone.decision_.squared_norms(), rtol=2e-2, atol=1e-3)

    def test_widths_follow_all_rows(self):
        """So that all models share the kernels."""
        model = MKLClassifier(on_groups(GROUPS, [RBF("scale")]), p=1.0)
        many = Resampling(model, X, y, None, halves(y, 3, True, 0))
        whole = MKLClassifier(on_groups(GROUPS, [RBF("scale")]), p=1.0).fit(X, y)
        assert {id(fold.table) for fold in many._folds} == {id(many._folds[0].table)}
        for fold in many._folds:
            assert [k.gamma for k in fold.spec.kernels] == [k.gamma for k in whole.bank_.kernels]

    def test_rows_that_lack_views(self):
        """Are trained one by one, with every model's own means."""
        holes, rng = X.copy(), np.random.default_rng(2)
        for columns in list(GROUPS.values())[1:]:
            holes[np.ix_(rng.random(len(X)) < 0.2, columns)] = np.nan
        model = MKLClassifier(KERNELS, p=1.33, missing="mean")
        train, test = halves(y, 1, True, 0)[0]
        one = Resampling(model, holes, y, None, [(train, test)]).refits([Resample(0)])[0]
        alone = MKLClassifier(KERNELS, p=1.33, missing="mean").fit(holes[train], y[train])
        assert_allclose(one.scores[0], alone.decision_function(holes[test]), atol=1e-6)
        found = group_importance(model, holes, y, cv=2, n_permutations=99)
        assert found.drops.mean(axis=0).argmax() == 0

    @pytest.mark.parametrize("solver", ["uniform", "alignment"])
    def test_weights_by_a_rule(self, solver):
        """A group that is left out takes no weight from the others."""
        model, (train, test) = MKLClassifier(KERNELS, solver=solver), halves(y, 1, True, 0)[0]
        one = Resampling(model, X, y, None, [(train, test)]).refits([Resample(0, 0)])[0]
        others = {name: columns for name, columns in GROUPS.items() if name != "signal"}
        alone = MKLClassifier(on_groups(others, [RBF(0.5), Linear()]), solver=solver)
        alone.fit(X[train], y[train])
        assert_allclose(one.scores[0], alone.decision_function(X[test]), atol=1e-6)

    def test_rows_left_without_a_view(self):
        """If a group is left out, rows that have no other do not train."""
        holes = X.copy()
        holes[:15, 2:] = np.nan
        kernels = on_groups({"signal": [0, 1], "others": range(2, 8)}, [RBF(0.5), Linear()])
        model = MKLClassifier(kernels, p=1.33, missing="mean")
        found = group_importance(model, holes, y, cv=2, n_permutations=99, method="leave_out")
        assert found.drops.mean(axis=0).argmax() == 0

    def test_columns_that_are_constant_in_a_half(self):
        sparse_one = X.copy()
        sparse_one[:, 5] = 0.0
        sparse_one[7, 5] = 1.0
        model = MKLClassifier(approximation=Nystroem(20, random_state=0), p=1.0)
        with pytest.raises(ValueError, match="constant in a part of the rows"):
            stability(model, sparse_one, y, n_resamples=4)
        assert len(stability(MKLClassifier(p=1.0), sparse_one, y, n_resamples=4).groups) > 8

    def test_tuned_models_keep_their_kernels(self):
        rng = np.random.default_rng(0)
        A = rng.normal(size=(70, 4))
        model = MKLClassifierCV(Cs=[0.1, 1.0], ps=[1.0], cv=3, refit=False)
        model.fit(A, np.square(A).sum(axis=1) > 3.4)
        for kernels, count in (("whole", 6), ("auto", 10)):
            model.kernels_ = kernels
            many = Resampling(model, A, np.square(A).sum(axis=1) > 3.4, None, [])
            assert len(many.groups.names) == count

    def test_rows_of_weight_zero_do_not_count(self):
        junk = np.array([*y, *["junk"] * 20], dtype=object).astype(str)
        wider, weight = np.vstack([X, X[:20]]), np.repeat([1.0, 0.0], [len(X), 20])
        model = MKLClassifier(KERNELS, p=1.0, C=0.1)
        one = stability(model, X, y, n_resamples=6)
        two = stability(model, wider, junk, n_resamples=6, sample_weight=weight)
        assert_array_equal(one.scores, two.scores)
        assert one.baseline == two.baseline
        for cv in (None, [(np.arange(60), np.arange(60, 140))]):
            some = None if cv is None else [(cv[0][0], cv[0][1][:60])]
            plain = group_importance(model, X, y, cv=some, n_permutations=99)
            found = group_importance(
                model, wider, junk, cv=cv, n_permutations=99, sample_weight=weight
            )
            assert_allclose(found.scores, plain.scores)
            assert_allclose(found.baseline, plain.baseline)

    def test_scores_are_weighted(self):
        weight = np.where(y == "case", 5.0, 1.0)
        found = stability(MKLClassifier(KERNELS, p=1.0), X, y, n_resamples=4, sample_weight=weight)
        share = weight[y == "case"].sum() / weight.sum()
        assert_allclose(found.baseline, share, atol=0.02)

    def test_scores_of_probabilities(self):
        model = MKLClassifier(KERNELS, p=1.33, loss="logistic")
        found = group_importance(model, X, y, cv=2, scoring="neg_log_loss", n_permutations=99)
        assert found.drops.mean(axis=0).argmax() == 0
        with pytest.raises(ValueError, match="loss='logistic'"):
            group_importance(MKLClassifier(KERNELS), X, y, cv=2, scoring="neg_log_loss")

    def test_kernels_of_one_name(self):
        grams = [np.outer(X[:, k], X[:, k]) for k in range(3)]
        model = MKLClassifier([Precomputed(K) for K in grams], p=1.33)
        model.fit(np.arange(len(X))[:, None], y)
        assert list(model.group_weights_) == ["Precomputed", "Precomputed (2)", "Precomputed (3)"]
        assert len(model.group_decisions([K[:5] for K in grams])) == 3

    def test_little_memory(self):
        whole = stability(MKLClassifier(KERNELS, p=1.0, tol=1e-5), X, y, n_resamples=8)
        small = MKLClassifier(KERNELS, p=1.0, tol=1e-5, cache_size=0.3)
        assert_allclose(stability(small, X, y, n_resamples=8).weights, whole.weights, atol=0.02)


class TestParts:
    """What groups add to decision values."""

    @pytest.mark.parametrize(
        "model",
        [
            MKLClassifier(KERNELS, p=1.33),
            MKLClassifier(KERNELS, p=1.33, approximation=Nystroem(rank=20, random_state=0)),
            MKLClassifier(KERNELS, p=1.33, normalize="center"),
            MKLRegressor(KERNELS, p=2.0),
        ],
    )
    def test_they_sum_to_the_whole(self, model):
        is_regressor = isinstance(model, MKLRegressor)
        model.fit(X[:80], f[:80] if is_regressor else y[:80])
        parts = model.group_decisions(X[80:])
        assert list(parts) == list(GROUPS)
        whole = model.predict(X[80:]) if is_regressor else model.decision_function(X[80:])
        assert_allclose(sum(parts.values()) + model.intercept_[0], whole, atol=1e-5)

    @pytest.mark.parametrize("share", [True, False])
    def test_several_classes(self, share):
        three = np.arange(len(X)) % 3
        model = MKLClassifier(KERNELS, p=2.0, share_weights=share).fit(X, three)
        parts = model.group_decisions(X[:10])
        assert parts["signal"].shape == (10, 3)
        total = sum(parts.values()) + model.intercept_
        assert_allclose(total, model.decision_function(X[:10]), atol=1e-5)

    def test_matrices(self):
        grams = [X[:, [k]] @ X[:, [k]].T for k in range(3)]
        model = MKLClassifier([Precomputed(K) for K in grams], p=1.33)
        model.fit(np.arange(len(X))[:, None], y)
        parts = model.group_decisions([K[:5] for K in grams])
        assert_allclose(
            sum(parts.values()) + model.intercept_[0],
            model.decision_function([K[:5] for K in grams]),
            atol=1e-5,
        )

    def test_products_have_none(self):
        model = MKLClassifier(combination="product").fit(X[:40], y[:40])
        with pytest.raises(AttributeError, match="no sum"):
            model.group_decisions(X[:3])


class TestFeatures:
    """What single columns contribute."""

    @pytest.mark.parametrize(
        "options",
        [{}, {"approximation": Nystroem(rank=20, random_state=0)}, {"normalize": "center"}],
    )
    def test_linear_kernels(self, options):
        model = MKLClassifier(on_groups(GROUPS, [Linear()]), p=1.33, **options).fit(X, y)
        frame = model.feature_contributions().sort_values("feature")
        assert_allclose(frame["contribution"].sum(), 1.0)
        f = model.decision_function(X)
        slopes = np.linalg.lstsq(np.column_stack([X, np.ones(len(X))]), f, rcond=None)[0][:-1]
        assert_allclose(frame["loading"], slopes, atol=1e-3 * np.abs(slopes).max())
        whole = model.group_contributions_
        by_name = dict(zip(frame["feature"], frame["contribution"], strict=True))
        for group, columns in GROUPS.items():
            assert_allclose(sum(by_name[f"x{c}"] for c in columns), whole[group], atol=1e-3)
        assert set(model.feature_contributions()["feature"][:2]) == {"x0", "x1"}

    def test_single_columns_and_units(self):
        model = MKLClassifier().fit(X * 100.0, y)
        frame = model.feature_contributions()
        weights = model.weights_frame()
        mixed = weights["contribution"][weights["kernel"].str.contains("RBF.*all")].sum()
        assert_allclose(frame["contribution"].sum() + mixed, 1.0)
        near = MKLClassifier().fit(X, y).feature_contributions().set_index("feature")["loading"]
        far = frame.set_index("feature")["loading"]
        assert_allclose(100.0 * far[near.index], near, atol=0.01)

    def test_several_outputs(self):
        three = np.digitize(f, [-1.0, 1.0])
        frame = MKLClassifier(on_groups(GROUPS, [Linear()])).fit(X, three).feature_contributions()
        assert list(frame.columns[2:]) == ["loading 0", "loading 1", "loading 2"]
        Y = np.column_stack([f, X[:, 4]])
        frame = MKLRegressor(on_groups(GROUPS, [Linear()])).fit(X, Y).feature_contributions()
        assert list(frame.columns[2:]) == ["loading target 0", "loading target 1"]
        model = MKLClassifier(on_groups(GROUPS, [Linear()]), normalize="cosine").fit(X, y)
        with pytest.raises(AttributeError, match="cosine"):
            model.feature_contributions()


class TestStability:
    def test_signal_and_noise(self):
        found = stability(MKLClassifier(KERNELS, p=1.0, C=0.1), X, y, n_resamples=20, max_groups=2)
        by_name = dict(zip(found.groups, found.frequencies, strict=True))
        assert by_name["signal"] == 1.0
        assert max(by_name["noise a"], by_name["noise b"]) < 0.75
        assert found.stable()[0] == "signal"
        assert found.scores.mean() > found.baseline + 0.2
        assert found.mean_selected <= 2.0
        frame = found.frame()
        assert frame["group"][0] == "signal"
        assert (frame["weight low"] <= frame["weight high"]).all()
        assert "signal" in repr(found)

    def test_shares(self):
        found = stability(MKLClassifier(KERNELS, p=1.0), X, y, n_resamples=6)
        model = MKLClassifier(KERNELS, p=1.0).fit(X, y)
        assert_allclose(found.whole_weights, list(model.group_weights_.values()), atol=5e-3)
        assert_allclose(
            found.whole_contributions, list(model.group_contributions_.values()), atol=5e-3
        )
        assert_allclose(found.weights.sum(axis=1), 1.0)
        assert_allclose(found.contributions.sum(axis=1), 1.0)
        assert_array_equal(found.frequencies, (found.weights > 0).mean(axis=0))

    def test_same_from_run_to_run(self):
        one, other = (
            stability(MKLClassifier(KERNELS, p=1.0), X, y, n_resamples=8) for _ in range(2)
        )
        assert_array_equal(one.weights, other.weights)

    def test_regression(self):
        found = stability(MKLRegressor(KERNELS, p=1.0), X, f, n_resamples=10, max_groups=1)
        assert found.stable() == ["signal"]
        assert found.baseline < 0.05 < found.scores.mean()

    def test_a_word_where_all_are_selected(self):
        model = MKLClassifier(KERNELS, regularizer=PNormBall(2.0))
        with pytest.warns(UserWarning, match="frequencies say nothing"):
            stability(model, X, y, n_resamples=4)

    def test_tuned(self):
        model = MKLClassifierCV(KERNELS, Cs=[0.1], ps=[1.0], cv=3)
        with pytest.raises(ValueError, match="fitted first"):
            stability(model, X, y)
        found = stability(model.fit(X, y), X, y, n_resamples=6)
        assert found.frequencies[0] == 1.0

    def test_duplicates_share(self):
        """Two copies of a group have together what one has."""
        twice = {**GROUPS, "signal again": [0, 1]}
        kernels = on_groups(twice, [RBF(0.5), Linear()])
        one = stability(MKLClassifier(KERNELS, p=1.33), X, y, n_resamples=8, max_groups=2)
        two = stability(MKLClassifier(kernels, p=1.33), X, y, n_resamples=8, max_groups=2)
        assert_allclose(two.weights[:, 0], two.weights[:, 4], atol=1e-2)
        both = two.contributions[:, 0] + two.contributions[:, 4]
        assert (both >= one.contributions[:, 0] - 0.02).all()

    def test_noise_raises_nobody(self):
        """Another group of noise does not make the others more frequent beyond chance."""
        rng = np.random.default_rng(3)
        wider = np.hstack([X, rng.normal(size=(len(X), 2))])
        kernels = on_groups({**GROUPS, "noise c": [8, 9]}, [RBF(0.5), Linear()])
        before = stability(MKLClassifier(KERNELS, p=1.0, C=0.1), X, y, n_resamples=40)
        after = stability(MKLClassifier(kernels, p=1.0, C=0.1), wider, y, n_resamples=40)
        chance = 2.0 * np.sqrt(0.25 / 20)  # twice the spread of a share of twenty pairs
        assert (after.frequencies[:4] <= before.frequencies + chance).all()

    def test_halves(self):
        labels = np.array([0] * 7 + [1] * 5 + [2] * 4)
        for one, other in halves(labels, 3, True, 0):
            assert not np.intersect1d(one, other).size
            assert one.size == other.size == 8
            assert set(labels[one]) == set(labels[other]) == {0, 1, 2}
        numbers = halves(np.arange(9.0), 1, False, 0)
        assert len(numbers) == 2
        assert len(numbers[0][0]) == 4
        with pytest.raises(ValueError, match="at least two rows"):
            halves(np.array([0, 0, 1]), 1, True, 0)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"n_resamples": 5}, "even number"),
            ({"threshold": 0.5}, "above 0.5"),
            ({"max_groups": 0}, "at least 1"),
        ],
    )
    def test_refusals(self, options, words):
        with pytest.raises(ValueError, match=words):
            stability(MKLClassifier(KERNELS, p=1.0), X, y, **options)

    def test_refusals_of_models(self):
        with pytest.raises(ValueError, match="max_groups"):
            stability(MKLClassifier(KERNELS, p=2.0), X, y)
        with pytest.raises(ValueError, match="one group"):
            stability(MKLClassifier({"all": [RBF(1.0)]}, p=1.0), X, y)
        with pytest.raises(TypeError, match="classifier or regressor"):
            stability(object(), X, y)
        with pytest.raises(TypeError, match="MKLOneClass"):
            stability(MKLOneClass(KERNELS), X, y)


class TestBound:
    """Shah and Samworth's theorems."""

    def test_first(self):
        assert_allclose(false_selections(10, 200, 0.75, 50, unimodal=False), 100 / 200 / 0.5)

    @pytest.mark.parametrize(
        ("threshold", "factor"), [(0.6, 0.5 / (0.2 - 0.01)), (0.9, 4 * (0.1 + 0.01) / 1.02)]
    )
    def test_second(self, threshold, factor):
        assert_allclose(false_selections(10, 200, threshold, 50), factor * 100 / 200)

    def test_never_above_the_first(self):
        for threshold in np.linspace(0.51, 1.0, 30):
            for selected in (1.0, 5.0, 30.0):
                first = false_selections(selected, 40, threshold, 50, unimodal=False)
                assert false_selections(selected, 40, threshold, 50) <= first + 1e-12

    def test_exact_distribution(self):
        """Groups that are selected blindly: the expected number of stable ones is below."""
        rng, pairs, groups, selected = np.random.default_rng(0), 25, 30, 4
        count = 0
        for _ in range(200):
            chosen = np.zeros((2 * pairs, groups), dtype=bool)
            for row in chosen:
                row[rng.permutation(groups)[:selected]] = True
            count += (chosen.mean(axis=0) >= 0.6).sum()
        assert count / 200 <= false_selections(selected, groups, 0.6, pairs)


class TestImportance:
    @pytest.mark.parametrize("method", ["permutation", "leave_out"])
    def test_signal_and_noise(self, method):
        found = group_importance(
            MKLClassifier(KERNELS, p=1.33),
            X,
            y,
            method=method,
            scoring="roc_auc",
            n_permutations=999,
        )
        assert found.adjusted[0] < 0.05
        assert found.adjusted[2:].min() > 0.05
        assert found.drops.mean(axis=0).argmax() == 0
        assert (found.adjusted >= found.p_values).all()
        assert found.frame()["group"][0] == "signal"
        assert "signal" in repr(found)
        assert_allclose(found.baseline, 0.5)

    def test_copies(self):
        """A group that another says too is relied on, and not missed."""
        rng = np.random.default_rng(5)
        wider = np.hstack([X, X[:, :2] + 1e-3 * rng.normal(size=(len(X), 2))])
        kernels = on_groups({**GROUPS, "copy": [8, 9]}, [RBF(0.5), Linear()])
        model = MKLClassifier(kernels, p=2.0)
        mixed = group_importance(model, wider, y, scoring="roc_auc", cv=3, n_permutations=99)
        without = group_importance(
            model, wider, y, scoring="roc_auc", cv=3, n_permutations=99, method="leave_out"
        )
        both = mixed.drops.mean(axis=0)[[0, 4]]
        assert both.min() > 0.01
        assert np.abs(without.drops.mean(axis=0)[[0, 4]]).max() < 0.5 * both.min()

    def test_regression_of_two_targets(self):
        Y = np.column_stack([f, X[:, 4] + 0.1 * f])
        found = group_importance(MKLRegressor(KERNELS, p=2.0), X, Y, cv=3, n_permutations=199)
        assert found.p_values[0] < 0.05
        assert found.p_values[3] > 0.05

    def test_approximation(self):
        model = MKLClassifier(KERNELS, p=1.33, approximation=Nystroem(rank=20, random_state=0))
        found = group_importance(model, X, y, cv=2, n_permutations=99)
        assert found.drops.mean(axis=0).argmax() == 0

    def test_three_classes(self):
        three = np.digitize(f, [-1.0, 1.0])
        splits = StratifiedKFold(3, shuffle=True, random_state=0)
        found = group_importance(MKLClassifier(KERNELS, p=1.33), X, three, cv=splits)
        assert found.drops.mean(axis=0).argmax() == 0
        assert found.p_values[0] < 0.01

    def test_groups_without_weight(self):
        model = MKLClassifier(KERNELS, p=1.0, C=0.05)
        found = group_importance(model, X, y, cv=[(np.arange(80), np.arange(80, 120))])
        fitted = MKLClassifier(KERNELS, p=1.0, C=0.05).fit(X[:80], y[:80])
        unused = np.array(list(fitted.group_weights_.values())) == 0.0
        assert unused.any()
        assert (found.p_values[unused] == 1.0).all()
        assert not found.drops[:, unused].any()

    def test_refusals(self):
        model = MKLClassifier(KERNELS)
        with pytest.raises(ValueError, match="method"):
            group_importance(model, X, y, method="guess")
        with pytest.raises(ValueError, match="correction"):
            group_importance(model, X, y, correction="none")
        with pytest.raises(ValueError, match="n_permutations"):
            group_importance(model, X, y, n_permutations=0)
        cases, others = np.flatnonzero(y == "case"), np.flatnonzero(y == "control")
        with pytest.raises(ValueError, match="class 'control'"):
            group_importance(model, X, y, cv=[(cases, others)])


class TestPValues:
    def test_uniform_where_the_target_says_nothing(self):
        """Also where the group and the rest are correlated, and in the normal limit."""
        rng, n, found, limit = np.random.default_rng(0), 60, [], []
        rest = rng.normal(size=(1, n))
        added = 0.7 * rest + rng.normal(size=(1, n))
        for _ in range(300):
            target = rng.choice([-1.0, 1.0], size=(1, n))
            pair = [_residuals(target, added, rest)]
            found.append(_p_values(pair, 199, np.random.RandomState(rng.integers(2**31)))[0])
        assert kstest(found, "uniform").pvalue > 0.01
        rest = rng.normal(size=(1, 2000))
        added = 0.7 * rest + rng.normal(size=(1, 2000))
        for _ in range(300):
            target = rng.choice([-1.0, 1.0], size=(1, 2000))
            limit.append(_p_values([_residuals(target, added, rest)], None, None)[0])
        assert kstest(limit, "uniform").pvalue > 0.01

    def test_limit_of_many_permutations(self):
        rng = np.random.default_rng(0)
        left, own = rng.normal(size=(2, 2, 3000))
        left -= left.mean(axis=1, keepdims=True)
        own = own - own.mean(axis=1, keepdims=True) + 0.02 * left
        limit = _p_values([(left, own)], None, None)[0]
        counted = _p_values([(left, own)], 1999, np.random.RandomState(0))[0]
        assert 0.001 < limit < 0.6
        assert_allclose(limit, counted, atol=0.03)

    def test_holm(self):
        assert_allclose(_corrected(np.array([0.01, 0.04, 0.03]), "holm"), [0.03, 0.06, 0.06])
        assert_allclose(_corrected(np.array([0.01, 0.04, 0.03]), "fdr"), [0.03, 0.04, 0.04])
        assert_allclose(_corrected(np.array([0.9, 0.8]), "holm"), [1.0, 1.0])

    @pytest.mark.long
    def test_permuted_labels(self):
        """From labels to p-values: one split gives uniform ones, several give none too small."""
        model, rng, one, several = MKLClassifier(KERNELS, p=1.33), np.random.default_rng(0), [], []
        for _ in range(60):
            mixed = rng.permutation(y)
            rows = rng.permutation(len(X))
            once = [(rows[:80], rows[80:])]
            one += list(group_importance(model, X, mixed, cv=once, n_permutations=99).p_values[:1])
            found = group_importance(model, X, mixed, cv=3, n_permutations=99).p_values
            several.append(found[1])
        assert kstest(one, "uniform").pvalue > 0.01
        assert np.mean(np.array(several) <= 0.1) <= 0.1 + 2.5 * np.sqrt(0.09 / 60)


class TestPictures:
    def test_stability(self):
        found = stability(MKLClassifier(KERNELS, p=1.0, C=0.1), X, y, n_resamples=10)
        display = StabilityDisplay.from_stability(found, max_groups=3)
        bars = [patch.get_width() for patch in display.ax_.patches]
        assert_allclose(bars, np.sort(found.frequencies)[::-1][:3])
        assert display.ax_.get_yticklabels()[0].get_text() == "signal"
        display.figure_.canvas.draw()

    @pytest.mark.parametrize("method", ["permutation", "leave_out"])
    def test_importance(self, method):
        model = MKLClassifier(KERNELS, p=1.33)
        found = group_importance(model, X, y, cv=2, n_permutations=99, method=method)
        display = ImportanceDisplay.from_importance(found)
        bars = [patch.get_width() for patch in display.ax_.patches]
        assert_allclose(np.sort(bars), np.sort(found.drops.mean(axis=0)))
        assert "signal" in display.ax_.get_yticklabels()[0].get_text()
        display.figure_.canvas.draw()


def test_rows_without_weight_change_nothing():
    """Also not the units of the columns, which all parts share."""
    far = np.vstack([X, np.full((4, X.shape[1]), 1e6)])
    labels, weight = np.r_[y, y[:4]], np.r_[np.ones(len(y)), np.zeros(4)]
    model = MKLClassifier("whole")
    one = stability(model, X, y, n_resamples=4, random_state=0)
    other = stability(model, far, labels, n_resamples=4, sample_weight=weight, random_state=0)
    np.testing.assert_allclose(one.whole_weights, other.whole_weights, atol=1e-3)


def test_steps_that_choose_other_columns_are_refused():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(80, 4)), columns=list("abcd"))
    labels = (frame["a"] + frame["b"] + frame["c"] > 0).astype(int)
    select = SelectKBest(k=2).set_output(transform="pandas")
    with pytest.raises(ValueError, match="choose other columns in parts of the rows"):
        group_importance(make_pipeline(select, MKLClassifier()), frame, labels, random_state=0)
