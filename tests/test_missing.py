"""Rows that lack whole views: the kernels by explicit features, the models on them, and everything
that is refused.
"""

import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC
from sklearn.utils import get_tags

from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    load,
    path,
    save,
)
from manykernels.banks import MissingBank, make_bank
from manykernels.display import report
from manykernels.kernels import (
    RBF,
    FunctionKernel,
    Hamming,
    KernelCollection,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Spectrum,
    on_groups,
)
from manykernels.lowrank import Nystroem
from manykernels.testing import check_bank

VIEWS = {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6, 7]}
KERNELS = {
    "a": [RBF(features=[0, 1, 2]), Linear(features=[0, 1, 2])],
    "b": [RBF(0.4, features=[3, 4]), Polynomial(2, features=[4, 3])],
    "c": [RBF(features=[5, 6, 7]), Laplacian(0.3, features=[5, 6, 7])],
}
RULES = ("mean", "scaled")


def table(n, seed):
    """Rows before and after each lost each view with probability 0.3, but none all, and labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8)) + 0.5
    y = np.where(X[:, 0] * X[:, 1] + X[:, 3] + X[:, 5] > 0.8, 1, -1)
    Z = X.copy()
    for columns in VIEWS.values():
        Z[np.ix_(rng.random(n) < 0.3, columns)] = np.nan
    empty = np.isnan(Z).all(axis=1)
    Z[empty, :3] = X[empty, :3]
    return X, Z, y


X, Z, Y = table(60, 0)
_, NEW, Y_NEW = table(20, 1)
NEW[0, 3:] = np.nan  # one view alone
NEW[0, :3] = 0.2
WEIGHT = np.random.default_rng(2).uniform(0.5, 2.0, len(Z))


def features(kernel, Z, new, weight, normalize, rule, lacking):
    """Feature vectors of training rows and of new ones by the letter of the rule: a factor of the
    Gram matrix of all rows that have the view, normalized, means for the others, scaled.
    """
    both, n = np.vstack([Z, new]), len(Z)
    columns = list(kernel.features)
    has = ~np.isnan(both[:, columns]).any(axis=1)
    A, w = both[np.ix_(has, columns)], weight[has[:n]]
    trained = kernel.resolved(A[: len(w)], w)
    K = trained.block(A, A)
    diagonal = np.diagonal(K)[: len(w)]
    if normalize == "cosine":
        K = K / np.sqrt(np.outer(np.diagonal(K), np.diagonal(K)))
    elif normalize == "trace":
        K = K / (w @ diagonal / w.sum()) / weight.sum()
    elif normalize == "diagonal":
        K = K / (w @ diagonal / w.sum())
    values, vectors = np.linalg.eigh(K)
    F = vectors * np.sqrt(np.maximum(values, 0.0))
    mean = w @ F[: len(w)] / w.sum()
    if normalize == "center":
        F = F - mean
        F /= np.sqrt(w @ np.square(F[: len(w)]).sum(axis=1) / w.sum())
        mean = 0.0 * mean
    whole = np.tile(mean, (len(both), 1))
    size = 3.0 / (3.0 - lacking[has]) if rule == "scaled" else np.ones(has.sum())
    whole[has] += size[:, None] * (F - mean)
    return whole[:n], whole[n:]


def grams(Z, new, weight=None, normalize="diagonal", rule="mean"):
    """The kernels of training rows, and between new rows and these, (m, n, n) and (m, n_new, n)."""
    weight = np.ones(len(Z)) if weight is None else weight
    both = np.vstack([Z, new])
    lacking = sum(np.isnan(both[:, columns[0]]).astype(int) for columns in VIEWS.values())
    square, cross = [], []
    for kernel in KernelCollection(KERNELS).kernels:
        F, G = features(kernel, Z, new, weight, normalize, rule, lacking)
        square.append(F @ F.T)
        cross.append(G @ F.T)
    return np.array(square), np.array(cross)


class TestTheBank:
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("normalize", ["diagonal", "trace", "cosine", "center", None])
    def test_by_explicit_features(self, rule, normalize):
        bank = make_bank(
            KernelCollection(KERNELS), Z, normalize=normalize, sample_weight=WEIGHT, missing=rule
        )
        square, cross = grams(Z, NEW, WEIGHT, normalize, rule)
        size, everything = np.abs(square).max(), np.arange(len(Z))
        np.testing.assert_allclose(bank.columns(everything), square, atol=1e-9 * size)
        assert np.linalg.eigvalsh(bank.columns(everything)).min() > -1e-9 * size
        new, support = bank.cross(NEW), np.arange(len(Z))[5::3]
        np.testing.assert_allclose(new.columns(everything), cross, atol=1e-8 * size)
        some = bank.cross(NEW, support)
        weights, beta = np.arange(1.0, 7.0), np.linspace(-1, 2, support.size)
        combined = np.tensordot(weights, cross[:, :, support], 1)
        size = np.abs(combined).max() * support.size
        np.testing.assert_allclose(some.combine(weights), combined, atol=1e-8 * size)
        np.testing.assert_allclose(some.decision(weights, beta), combined @ beta, atol=1e-8 * size)
        expected = cross[:, :, support] @ beta
        np.testing.assert_allclose(some.products(beta), expected, atol=1e-8 * size)
        check_bank(bank)

    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("options", [{}, {"storage": "dense"}, {"dtype": np.float32}], ids=str)
    def test_laws(self, rule, options):
        bank = make_bank(KernelCollection(KERNELS), Z, missing=rule, **options)
        check_bank(bank)
        weights = np.random.default_rng(0).random((7, bank.m))
        np.testing.assert_allclose(
            bank.combine_each(weights), [bank.combine(w) for w in weights], atol=1e-4
        )

    def test_kernels_are_never_computed_at_rows_that_lack_them(self):
        def strict(A, B):
            assert np.isfinite(A).all()
            assert np.isfinite(B).all()
            return A @ B.T

        kernels = [FunctionKernel(strict, features=VIEWS[view]) for view in VIEWS]
        bank = make_bank(KernelCollection(kernels), Z, missing="mean", memory_budget=0)
        reference = [Linear(features=VIEWS[view]) for view in VIEWS]
        expected = make_bank(KernelCollection(reference), Z, missing="mean")
        np.testing.assert_allclose(
            bank.cross(NEW).combine([1, 2, 3]), expected.cross(NEW).combine([1, 2, 3]), atol=1e-12
        )

    def test_a_complete_table_is_its_own_bank(self):
        plain = make_bank(KernelCollection(KERNELS), X)
        bank = make_bank(KernelCollection(KERNELS), X, missing="scaled")
        weights, beta = np.arange(1.0, 7.0), np.linspace(-1, 2, len(X))
        np.testing.assert_array_equal(bank.combine(weights), plain.combine(weights))
        np.testing.assert_array_equal(bank.products(beta), plain.products(beta))
        assert bank.shares_passes == plain.shares_passes
        # a new row may lack what no training row lacks
        size = np.abs(grams(X, NEW)[1]).max()
        np.testing.assert_allclose(
            bank.cross(NEW).columns(np.arange(60)),
            grams(X, NEW, rule="scaled")[1],
            atol=1e-8 * size,
        )

    def test_knows_its_data_and_copies(self, tmp_path):
        bank = make_bank(KernelCollection(KERNELS), Z, missing="mean")
        assert bank.same_data(Z.copy())
        other = Z.copy()
        other[np.flatnonzero(~np.isnan(Z[:, 3]))[0], 3] += 1.0
        assert not bank.same_data(other)
        assert not bank.same_data(X)
        joblib.dump(bank, tmp_path / "bank")
        again = joblib.load(tmp_path / "bank")
        assert again.symmetric
        # sums of matrix libraries depend on how arrays lie in memory
        np.testing.assert_allclose(again.combine(np.ones(6)), bank.combine(np.ones(6)), rtol=1e-12)
        some = bank.take_kernels([4, 0], 2.0)
        assert some.names == [bank.names[4], bank.names[0]]
        np.testing.assert_allclose(
            some.cross(NEW).columns([3, 8]), 2.0 * bank.cross(NEW).columns([3, 8])[[4, 0]]
        )


class TestTheModel:
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("weight", [None, WEIGHT], ids=["equal", "weighted"])
    def test_certificate_and_decision_from_scratch(self, rule, weight):
        C = 3.0
        model = MKLClassifier(KERNELS, p=2.0, C=C, tol=1e-6, missing=rule).fit(Z, Y, weight)
        square, cross = grams(Z, NEW, weight, rule=rule)
        d, beta = model.kernel_weights_, np.zeros(len(Z))
        beta[model.support_] = model.dual_coef_[0]
        cost = C * (np.ones(len(Z)) if weight is None else weight)
        assert abs(beta.sum()) < 1e-6
        assert (Y * beta > -1e-8).all()
        assert (Y * beta < cost + 1e-6).all()
        assert np.linalg.norm(d) < 1 + 1e-9
        K = np.tensordot(d, square, 1)
        scores = K @ beta + model.intercept_[0]
        primal = 0.5 * beta @ K @ beta + cost @ np.maximum(0.0, 1.0 - Y * scores)
        dual = Y @ beta - 0.5 * np.linalg.norm((square @ beta) @ beta)
        assert primal == pytest.approx(model.result_.objective, rel=1e-6)
        assert -1e-6 < (primal - dual) / primal < 3e-6
        np.testing.assert_allclose(model.decision_function(Z), scores, atol=1e-6)
        expected = np.tensordot(d, cross, 1) @ beta + model.intercept_[0]
        np.testing.assert_allclose(model.decision_function(NEW), expected, atol=1e-6)

    @pytest.mark.parametrize("rule", RULES)
    def test_is_the_model_of_centered_kernels_that_are_zero(self, rule):
        """The intercept takes up the difference between a mean and the origin."""
        bank = make_bank(KernelCollection(KERNELS), Z, missing=rule)
        square, numbers = [], []
        for part in bank.parts:
            K = part.bank.columns(np.arange(part.bank.n))
            means = K.mean(axis=2)
            K = K - means[:, :, None] - means[:, None, :] + means.mean(axis=1)[:, None, None]
            square.append(np.zeros((len(K), len(Z), len(Z))))
            size = part.cols.size
            square[-1][np.ix_(range(len(K)), part.cols.at, part.cols.at)] = K
            square[-1] *= np.outer(size, size)
            numbers.append(part.kernels)
        square = np.concatenate(square)[np.argsort(np.concatenate(numbers))]
        exact = {"p": 2.0, "C": 3.0, "tol": 1e-8}
        ours = MKLClassifier(KERNELS, missing=rule, **exact).fit(Z, Y)
        centered = MKLClassifier([Precomputed(K) for K in square], normalize=None, **exact)
        index = np.arange(len(Z))[:, None]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the narrow ones are nearly the identity
            centered.fit(index, Y)
        assert ours.result_.objective == pytest.approx(centered.result_.objective, rel=1e-7)
        np.testing.assert_allclose(ours.kernel_weights_, centered.kernel_weights_, atol=1e-4)
        np.testing.assert_allclose(
            ours.decision_function(Z), centered.decision_function(index), atol=1e-3
        )
        # a row of which nothing is known gets the intercept of that model
        with pytest.warns(UserWarning, match=r"1 of 1 rows \(0\), which lack every view"):
            empty = ours.decision_function(np.full((1, 8), np.nan))
        np.testing.assert_allclose(empty, centered.intercept_, atol=1e-3)

    def test_one_kernel_is_an_svm_on_its_matrix(self):
        model = MKLClassifier({"a": KERNELS["a"][0], "b": KERNELS["b"][0]}, p=np.inf, C=2.0)
        model.set_params(missing="mean", tol=1e-7).fit(some := Z[known(Z)], Y[known(Z)])
        K = model.bank_.combine([1.0, 1.0])
        rows = order(model, some)
        svc = SVC(C=2.0, kernel="precomputed", tol=1e-8).fit(K, Y[known(Z)][rows])
        np.testing.assert_allclose(
            model.decision_function(some)[rows], svc.decision_function(K), atol=1e-4
        )

    @pytest.mark.parametrize(
        "make",
        [
            lambda **o: MKLClassifier(KERNELS, p=1.33, **o),
            lambda **o: MKLClassifier(**o),
            lambda **o: MKLRegressor(on_groups(VIEWS), **o),
            lambda **o: MKLOneClass(KERNELS, **o),
            lambda **o: MKLClassifier(KERNELS, normalize="center", **o),
            lambda **o: MKLClassifierCV(KERNELS, Cs=[0.1, 1.0], ps=[1.0, 2.0], cv=3, **o),
        ],
        ids=["classifier", "auto", "regressor", "one class", "centered", "cv"],
    )
    def test_complete_tables_give_the_plain_model(self, make):
        plain, model = make().fit(X, Y), make(missing="scaled").fit(X, Y)
        # a plain model may have factors of kernels, which round differently
        np.testing.assert_allclose(model.kernel_weights_, plain.kernel_weights_, atol=1e-3)
        np.testing.assert_allclose(model.dual_coef_, plain.dual_coef_, atol=1e-3)
        rows = X[:7] + 0.1
        np.testing.assert_allclose(model.predict(rows), plain.predict(rows), atol=1e-3)
        assert model.result_.missing == ("scaled", 60, 0, {})
        assert plain.result_.missing is None
        if isinstance(model, MKLClassifierCV):
            np.testing.assert_array_equal(model.scores_, plain.scores_)

    def test_weights_are_repetitions(self):
        """Equal rows are one, NaN or not, whatever the bits of the NaN."""
        times = np.random.default_rng(0).integers(1, 4, len(Z))
        repeated = np.repeat(Z, times, axis=0)
        holes = np.flatnonzero(np.isnan(repeated))
        repeated.ravel()[holes[::2]] = -np.array(np.nan)
        options = {"p": 2.0, "missing": "scaled", "tol": 1e-6}
        one = MKLClassifier(KERNELS, **options).fit(repeated, np.repeat(Y, times))
        other = MKLClassifier(KERNELS, **options).fit(Z, Y, times)
        np.testing.assert_array_equal(one.kernel_weights_, other.kernel_weights_)
        np.testing.assert_array_equal(one.decision_function(NEW), other.decision_function(NEW))
        assert one.bank_.n == len(Z)
        assert one.result_.missing.rows == times.sum()
        order = np.random.default_rng(1).permutation(len(Z))
        moved = MKLClassifier(KERNELS, **options).fit(Z[order], Y[order], times[order])
        np.testing.assert_array_equal(moved.decision_function(NEW), other.decision_function(NEW))

    def test_rows_without_weight_may_lack_everything(self):
        lost = np.vstack([Z, np.full((2, 8), np.nan)])
        weight = np.append(np.ones(len(Z)), [0.0, 0.0])
        model = MKLClassifier(KERNELS, missing="mean").fit(lost, np.append(Y, [1, -1]), weight)
        plain = MKLClassifier(KERNELS, missing="mean").fit(Z, Y)
        np.testing.assert_array_equal(model.kernel_weights_, plain.kernel_weights_)

    @pytest.mark.parametrize("solver", ["spg", "smo", "group_lasso"])
    def test_every_solver(self, solver):
        options = {"p": 1.5, "missing": "scaled", "tol": 1e-4}
        ours = MKLClassifier(KERNELS, **options).fit(Z, Y).result_
        other = MKLClassifier(KERNELS, solver=solver, **options).fit(Z, Y).result_
        apart = ours.certificate.absolute_gap + other.certificate.absolute_gap
        assert abs(ours.objective - other.objective) <= apart

    def test_without_memory_for_the_matrices(self):
        options = {"p": 2.0, "missing": "scaled", "tol": 1e-5}
        ours = MKLClassifier(KERNELS, **options).fit(Z, Y)
        slow = MKLClassifier(KERNELS, cache_size=1e-3, **options).fit(Z, Y)
        assert ours.result_.objective == pytest.approx(slow.result_.objective, rel=2e-5)

    def test_several_classes_and_targets(self):
        classes = np.digitize(np.nan_to_num(Z[:, 0]), [-0.2, 0.9])
        for share in (True, False):
            model = MKLClassifier(KERNELS, p=2.0, missing="mean", share_weights=share)
            assert model.fit(Z, classes).decision_function(NEW).shape == (20, 3)
            assert model.result_.missing.rows == 60
            assert model.kernel_contributions_.sum() == pytest.approx(1.0)
        targets = np.column_stack([Y, -2.0 * Y]).astype(float)
        model = MKLRegressor(KERNELS, missing="scaled", loss="squared").fit(Z, targets)
        assert model.predict(NEW).shape == (20, 2)

    def test_one_class_has_no_intercept_to_take_up_a_shift(self):
        """Rows that lack a view are at its mean, and not at the origin."""
        model = MKLOneClass(KERNELS, nu=0.3, missing="mean", tol=1e-6).fit(Z)
        _, cross = grams(Z, NEW)
        beta = np.zeros(len(Z))
        beta[model.support_] = model.dual_coef_[0]
        expected = np.tensordot(model.kernel_weights_, cross, 1) @ beta + model.intercept_[0]
        np.testing.assert_allclose(model.decision_function(NEW), expected, atol=1e-6 * len(Z))

    def test_paths_and_chosen_norms(self):
        models = path(MKLClassifier(KERNELS, missing="mean", tol=1e-5), Z, Y, C=[0.5, 1, 5, 9])
        for C, model in zip([0.5, 1, 5, 9], models, strict=True):
            alone = MKLClassifier(KERNELS, C=C, missing="mean", tol=1e-5).fit(Z, Y).result_
            assert model.result_.objective == pytest.approx(alone.objective, rel=2e-5)
        few = MKLClassifier(KERNELS["a"] + KERNELS["b"][:1], p="auto", missing="mean", tol=0.1)
        few.fit(Z[known(Z)][:16], Y[known(Z)][:16])
        assert few.p_ in few.p_scores_


def known(Z):
    """Rows that have one of the first two views."""
    return ~np.isnan(Z[:, [0, 3]]).all(axis=1)


def order(model, Z):
    """For every point of the model's bank, the row that it is."""
    points = np.full((model.bank_.n, 8), np.nan)
    for part in model.bank_.parts:
        points[np.ix_(part.cols.at, part.columns)] = part.bank.right
    seen = Z[:, :5]
    same = (points[:, None, :5] == seen) | (np.isnan(points[:, None, :5]) & np.isnan(seen))
    return same.all(axis=2).argmax(axis=1)


class TestTuning:
    @pytest.mark.parametrize("rule", RULES)
    def test_scores_are_those_of_a_search(self, rule):
        folds = StratifiedKFold(3, shuffle=True, random_state=0)
        options = {"missing": rule, "tol": 1e-6}
        ours = MKLClassifierCV(KERNELS, Cs=[0.3, 3.0], ps=[2.0], cv=folds, **options)
        ours.set_params(exhaustive=True).fit(Z, Y)
        search = GridSearchCV(
            MKLClassifier(KERNELS, **options), {"C": [0.3, 3.0], "p": [2.0]}, cv=folds
        ).fit(Z, Y)
        theirs = search.cv_results_["mean_test_score"]
        np.testing.assert_allclose(ours.scores_.mean(axis=0)[:, 0], theirs, atol=1e-12)
        assert ours.result_.missing.rule == rule
        assert ours.predict_proba(NEW).shape == (20, 2)

    def test_costs_from_the_data_and_a_checkpoint(self, tmp_path):
        options = {"Cs": 2, "ps": [2.0], "cv": 3, "missing": "mean"}
        first = MKLClassifierCV(KERNELS, checkpoint=tmp_path / "grid", **options).fit(Z, Y)
        again = MKLClassifierCV(KERNELS, checkpoint=tmp_path / "grid", **options).fit(Z, Y)
        np.testing.assert_array_equal(first.scores_, again.scores_)
        model = MKLClassifier(KERNELS, missing="mean", checkpoint=tmp_path / "fit").fit(Z, Y)
        assert (
            MKLClassifier(KERNELS, missing="mean", checkpoint=tmp_path / "fit")
            .fit(Z, Y)
            .result_.resumed
        )
        other = MKLClassifier(KERNELS, missing="scaled", checkpoint=tmp_path / "fit")
        with pytest.raises(ValueError, match="missing"):
            other.fit(Z, Y)
        assert model.result_.resumed is None

    def test_rows_are_counted_in_the_whole_table(self):
        broken = Z.copy()
        broken[59, :3] = [np.nan, 1.0, 1.0]
        with pytest.raises(ValueError, match=r"'a' has missing values .* 1 of 60 rows \(59\)"):
            MKLClassifierCV(KERNELS, Cs=[1.0], ps=[1.0], cv=3, missing="mean").fit(broken, Y)


class TestFiles:
    @pytest.mark.parametrize(
        ("rule", "normalize"), [("mean", "diagonal"), ("scaled", "center"), ("scaled", "cosine")]
    )
    def test_saved_models_predict_the_same(self, rule, normalize, tmp_path):
        model = MKLClassifier(KERNELS, normalize=normalize, missing=rule, tol=1e-6).fit(Z, Y)
        save(model, tmp_path / "model")
        again = load(tmp_path / "model")
        np.testing.assert_array_equal(again.decision_function(NEW), model.decision_function(NEW))
        assert again.result_.missing == model.result_.missing
        assert again.missing == rule
        np.testing.assert_allclose(again.kernel_contributions_, model.kernel_contributions_)
        copy = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copy.decision_function(NEW), model.decision_function(NEW))

    def test_a_model_of_complete_rows(self, tmp_path):
        model = MKLClassifierCV(KERNELS, Cs=[1.0], ps=[2.0], cv=3, missing="mean").fit(X, Y)
        save(model, tmp_path / "model")
        again = load(tmp_path / "model")
        np.testing.assert_array_equal(again.decision_function(NEW), model.decision_function(NEW))


def frames(convert):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(X[:, :5], columns=["u", "v", "w", "age", "dose"]).assign(
        stage=rng.choice(["I", "II", "III"], 60),
        text=["".join(rng.choice(list("acg"), 8)) for _ in X],
    )
    lacking = frame.copy()
    lacking.loc[:9, ["u", "v", "w"]] = np.nan
    lacking.loc[20:30, "stage"] = None
    lacking.loc[40:44, "text"] = None
    lacking.loc[40:50, ["age", "dose"]] = np.nan
    return convert(frame), convert(lacking)


def polars_frame(frame):
    pl = pytest.importorskip("polars")
    return pl.DataFrame(
        {name: [None if one != one else one for one in frame[name].tolist()] for name in frame}
    )


GROUPS = {"omics": ["u", "v", "w"], "clinical": ["age", "dose"], "stage": "stage", "seq": "text"}


class TestFrames:
    @pytest.mark.parametrize(
        "convert",
        [pd.DataFrame, pd.DataFrame.convert_dtypes, polars_frame],
        ids=lambda f: f.__name__,
    )
    def test_every_way_to_say_missing(self, convert, tmp_path):
        _, lacking = frames(convert)
        kernels = on_groups(GROUPS, {"seq": Spectrum(2), "stage": Hamming()})
        model = MKLClassifier(kernels, p=2.0, missing="mean").fit(lacking, Y)
        assert model.result_.missing.lacking == {
            "omics": 10,
            "clinical": 11,
            "stage": 11,
            "seq": 5,
        }
        assert model.result_.missing.incomplete == 32
        plain = MKLClassifier(kernels, p=2.0, missing="mean").fit(frames(pd.DataFrame)[1], Y)
        scores = plain.decision_function(frames(pd.DataFrame)[1])
        np.testing.assert_allclose(model.decision_function(lacking), scores, atol=1e-12)
        save(model, tmp_path / "model")
        np.testing.assert_allclose(load(tmp_path / "model").decision_function(lacking), scores)

    def test_new_categories_and_columns_of_nothing(self):
        frame, lacking = frames(pd.DataFrame)
        kernels = on_groups(GROUPS, {"seq": Spectrum(2)})
        model = MKLClassifier(kernels, missing="mean").fit(lacking, Y)
        new = frame.iloc[:5].assign(stage="IV", text=None)
        assert model.predict(new).shape == (5,)
        assert set(model.categories_["stage"]) == {"I", "II", "III"}
        complete = MKLClassifier(kernels, missing="mean", tol=1e-8).fit(frame, Y)
        plain = MKLClassifier(kernels, tol=1e-8).fit(frame, Y)
        np.testing.assert_allclose(
            complete.decision_function(frame), plain.decision_function(frame), atol=1e-4
        )
        with pytest.raises(ValueError, match="NaN where they are missing"):
            model.predict(new.drop(columns="text"))

    def test_categories_within_a_group_are_a_view(self):
        _, lacking = frames(pd.DataFrame)
        kernels = on_groups({"clinical": ["age", "dose", "stage"], "omics": ["u", "v", "w"]})
        model = MKLClassifier(kernels, missing="mean").fit(lacking, Y)
        assert model.result_.missing.lacking == {
            "clinical: stage": 11,
            "clinical: age, dose": 11,
            "omics": 10,
        }


class TestRefused:
    def test_by_default(self):
        with pytest.raises(ValueError, match=r"contains NaN(.|\n)*missing='mean'"):
            MKLClassifier(KERNELS).fit(Z, Y)
        with pytest.raises(ValueError, match="contains NaN"):
            MKLClassifier(KERNELS).fit(X, Y).predict(NEW)
        fitted = MKLClassifier(KERNELS).fit(X, Y).set_params(missing="mean")
        with pytest.raises(ValueError, match="contains NaN"):
            fitted.predict(NEW)

    def test_a_part_of_a_view(self):
        broken = Z.copy()
        broken[[4, 7], :3] = [[1.0, np.nan, 1.0], [2.0, np.nan, 1.0]]
        message = (
            r"'a' has missing values beside others in 2 of 60 rows \(4, 7\): column 'x1' lacks 2 "
            r"of 60 rows \(4, 7\).*on_groups"
        )
        with pytest.raises(ValueError, match=message):
            MKLClassifier(KERNELS, missing="mean").fit(broken, Y)
        model = MKLClassifier(KERNELS, missing="mean").fit(Z, Y)
        with pytest.raises(ValueError, match=message):
            model.predict(broken)
        frame = pd.DataFrame(broken, columns=[f"gene {f}" for f in range(8)])
        with pytest.raises(ValueError, match="column 'gene 1'"):
            MKLClassifier(KERNELS, missing="mean").fit(frame, Y)

    def test_rows_and_views_of_nothing(self):
        empty = Z.copy()
        empty[[3, 50]] = np.nan
        with pytest.raises(ValueError, match=r"2 of 60 rows \(3, 50\), which lack every view"):
            MKLClassifier(KERNELS, missing="scaled").fit(empty, Y)
        empty = X.copy()
        empty[:, 3:5] = np.nan
        with pytest.raises(ValueError, match="No training row has 'b'"):
            MKLClassifier(KERNELS, missing="mean").fit(empty, Y)

    def test_kernels_of_all_columns(self):
        with pytest.raises(ValueError, match=r"kernels='auto' makes .* on_groups"):
            MKLClassifier(missing="mean").fit(Z, Y)
        with pytest.raises(ValueError, match=r"'all features' has missing values .*on_groups"):
            MKLClassifier([RBF()], missing="mean").fit(Z, Y)
        model = MKLClassifier(missing="mean").fit(X, Y)
        with pytest.raises(ValueError, match=r"has missing values .*on_groups"):
            model.predict(NEW)

    def test_infinity_and_sparse_holes(self):
        broken = Z.copy()
        broken[0, 0] = np.inf
        with pytest.raises(ValueError, match="infinity"):
            MKLClassifier(KERNELS, missing="mean").fit(broken, Y)
        with pytest.raises(ValueError, match="need a dense one"):
            MKLClassifier(KERNELS, missing="mean").fit(sparse.csr_array(Z), Y)
        sparse_X = sparse.csr_array(np.where(X > 0.5, X, 0.0))
        model = MKLClassifier(KERNELS, missing="mean", tol=1e-7).fit(sparse_X, Y)
        plain = MKLClassifier(KERNELS, tol=1e-7).fit(sparse_X, Y)
        np.testing.assert_allclose(
            model.decision_function(sparse_X), plain.decision_function(sparse_X), atol=1e-3
        )

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"missing": "drop"}, "missing='drop' is not known"),
            ({"approximation": Nystroem(10)}, "exact kernels"),
            ({"device": "torch"}, "exact kernels"),
            ({"combination": "product", "kernels": "auto"}, "sums of kernels"),
            ({"kernels": make_bank(KernelCollection(KERNELS), X)}, "not a fitted bank"),
            (
                {"kernels": KernelCollection.masked_rbf([1.0], np.ones((1, 8), bool))},
                "masked_rbf need every column",
            ),
        ],
        ids=str,
    )
    def test_what_does_not_go_together(self, options, message):
        given = {"kernels": KERNELS, "missing": "mean"} | options
        with pytest.raises(ValueError, match=message):
            MKLClassifier(**given).fit(X, Y)


def test_tags_say_that_nan_is_allowed():
    assert not get_tags(MKLClassifier()).input_tags.allow_nan
    for kind in (MKLClassifier, MKLRegressor, MKLOneClass, MKLClassifierCV):
        assert get_tags(kind(missing="mean")).input_tags.allow_nan


def test_the_result_says_what_was_assumed():
    model = MKLClassifier(KERNELS, p=2.0, missing="mean").fit(Z, Y)
    missing = model.result_.missing
    assert missing.lacking == {
        view: int(np.isnan(Z[:, columns[0]]).sum()) for view, columns in VIEWS.items()
    }
    assert missing.incomplete == np.isnan(Z).any(axis=1).sum()
    assert f"{missing.incomplete} of 60 rows lack views" in str(model.result_)
    assert "Missing views" in model.result_._repr_html_()


@pytest.mark.long
def test_the_report_says_what_was_assumed(tmp_path):
    model = MKLClassifier(KERNELS, p=2.0, missing="scaled").fit(Z, Y)
    pytest.importorskip("vl_convert", reason="vl-convert-python is not installed")
    page = report(model, Z, Y, path=tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"{model.result_.missing.incomplete} of 60 training rows lack whole views" in page
    assert "what their other views say counts for them" in page
    assert "Table of the missing views" in page


def test_unused_columns_may_hold_anything():
    wide = np.column_stack([Z, np.full(60, np.nan)])
    wide[0, 8] = 1.0
    model = MKLClassifier(KERNELS, missing="mean").fit(wide, Y)
    plain = MKLClassifier(KERNELS, missing="mean").fit(Z, Y)
    assert model.result_.objective == pytest.approx(plain.result_.objective, rel=2e-3)


def test_widths_and_warnings_see_present_rows_only():
    apart = Z.copy()
    apart[:, 0] *= 1e5
    with pytest.warns(UserWarning, match=r"very different spreads \(x0"):
        MKLClassifier(KERNELS, missing="mean").fit(apart, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MKLClassifier(KERNELS, missing="mean", p=2.0).fit(Z, Y)
    has = ~np.isnan(Z[:, 0])
    assert model.bank_.kernels[0].gamma == pytest.approx(1.0 / Z[has, :3].var(axis=0).sum())
    assert isinstance(model.bank_, MissingBank)


def test_identity_kernels_are_found_among_present_rows():
    kernels = [RBF(1e4, features=[0, 1, 2]), RBF(features=[3, 4]), RBF(features=[5, 6, 7])]
    model = MKLClassifier(kernels, missing="mean", p=2.0)
    with pytest.warns(UserWarning, match="nearly the identity"):
        model.fit(Z, Y)
    np.testing.assert_array_equal(model.silent_kernels_["identity"], [0])
