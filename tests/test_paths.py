"""Paths over C and p, and p chosen on held-out folds."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from conftest import MIXED, toy
from manykernels import MKLClassifier, path
from manykernels.banks import make_bank
from manykernels.kernels import RBF, KernelCollection, Linear, Precomputed
from manykernels.regularizers import SquaredPNorm
from manykernels.result import Status

X, y = toy(80)
COSTS, NORMS = [0.3, 3.0, 30.0], [2.0, 1.33, 1.0]


@pytest.fixture(scope="module")
def models():
    return path(MKLClassifier(MIXED, tol=1e-6), X, y, C=COSTS, p=NORMS)


class TestPath:
    def test_every_model_is_that_of_its_own_fit(self, models):
        assert [(model.p, model.C) for model in models] == [(p, C) for p in NORMS for C in COSTS]
        for model in models:
            alone = clone(model).fit(X, y)
            assert model.result_.status.name == "OPTIMAL"
            assert model.result_.objective == pytest.approx(alone.result_.objective, rel=2e-6)
            np.testing.assert_allclose(
                model.decision_function(X), alone.decision_function(X), atol=0.02
            )

    def test_models_share_their_kernels(self, models):
        assert len({id(model.bank_) for model in models}) == 1

    def test_warm_starts_save_work(self, models):
        """With a callback models are trained in turn, and begin where others ended."""
        costs, norms = (sorted({getattr(model, name) for model in models}) for name in "Cp")
        heard = MKLClassifier(MIXED, tol=1e-6, callbacks=[lambda record: None])
        in_turn = path(heard, X, y, C=costs, p=norms)
        cold = [clone(model).fit(X, y) for model in models]
        steps = [
            sum(model.result_.counters.machine_steps for model in some) for some in (in_turn, cold)
        ]
        assert steps[0] < steps[1]

    def test_scores_and_best(self, models):
        test = toy(200, seed=1)
        scores = models.scores(*test)
        np.testing.assert_array_equal(scores, [model.score(*test) for model in models])
        assert models.best(*test) is models[int(np.argmax(scores))]
        assert models.weights().shape == (9, len(MIXED))
        assert "9 models of MKLClassifier" in repr(models)

    def test_the_template_is_left_alone(self):
        template = MKLClassifier(MIXED)
        (model,) = path(template, X, y)
        assert (model.C, model.p) == (template.C, template.p)
        with pytest.raises(Exception, match="not fitted"):
            check_is_fitted(template)

    def test_several_classes_frames_and_weights(self):
        labels = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-0.4, 0.4])]
        frame = pd.DataFrame(X, columns=list("abcd"))
        weight = np.random.default_rng(0).integers(1, 3, len(X))
        kernels = [RBF(0.5, features=["a"]), Linear(features=["b", "c"])]
        models = path(MKLClassifier(kernels), frame, labels, C=[1, 10], sample_weight=weight)
        for model in models:
            alone = clone(model).fit(frame, labels, sample_weight=weight)
            assert (model.predict(frame) == alone.predict(frame)).mean() > 0.97
            assert list(model.feature_names_in_) == list("abcd")

    def test_a_fitted_bank(self):
        bank = make_bank(KernelCollection(MIXED), X, normalize="diagonal")
        models = path(MKLClassifier(bank), X, y, C=[1.0, 2.0])
        assert all(model.bank_ is bank for model in models)

    def test_other_regularizers(self):
        models = path(MKLClassifier(MIXED, regularizer=SquaredPNorm(2)), X, y, C=[1.0, 2.0])
        assert [model.C for model in models] == [1.0, 2.0]

    @pytest.mark.parametrize(
        ("grid", "message"), [({"C": [1, -1]}, "C must be"), ({"p": ["auto"]}, "numbers for p")]
    )
    def test_bad_grids(self, grid, message):
        with pytest.raises(ValueError, match=message):
            path(MKLClassifier(MIXED), X, y, **grid)


class TestAutoP:
    def test_follows_the_scores(self):
        clf = MKLClassifier(MIXED, p="auto", C=3.0, random_state=0).fit(X, y)
        assert clf.p_ in clf.p_scores_
        assert clf.p_scores_[clf.p_] == max(clf.p_scores_.values())
        again = MKLClassifier(MIXED, p=clf.p_, C=3.0).fit(X, y)
        np.testing.assert_allclose(clf.decision_function(X), again.decision_function(X), atol=1e-6)
        assert clf.p == "auto"

    def test_chooses_dense_weights_where_all_kernels_matter(self):
        rng = np.random.default_rng(0)
        A = rng.standard_normal((200, 20))
        clf = MKLClassifier(
            [Linear(features=[f]) for f in range(20)], p="auto", C=100.0, random_state=0
        )
        assert clf.fit(A, np.sign(A.mean(axis=1))).p_ >= 2

    def test_chooses_sparse_weights_where_one_kernel_matters(self):
        rng = np.random.default_rng(0)
        A = rng.standard_normal((120, 40))
        target = np.where(np.abs(A[:, 0]) > 0.7, 1, -1)
        clf = MKLClassifier(
            [RBF(1.0, features=[f]) for f in range(40)], p="auto", random_state=0
        ).fit(A, target)
        assert clf.p_ <= 1.33

    def test_refit_with_a_number_forgets_the_choice(self):
        clf = MKLClassifier(MIXED, p="auto", random_state=0).fit(X, y)
        clf.set_params(p=2.0).fit(X, y)
        assert np.linalg.norm(clf.kernel_weights_) == pytest.approx(1.0)

    def test_precomputed_and_weights_of_zero(self):
        K = X @ X.T
        weight = np.ones(len(X))
        weight[:10] = 0
        clf = MKLClassifier([Precomputed(K), Precomputed(K**2)], p="auto", random_state=0)
        clf.fit(np.arange(len(X))[:, None], y, sample_weight=weight)
        assert clf.support_.min() >= 10

    def test_frames_with_named_columns(self):
        frame = pd.DataFrame(X, columns=list("abcd"))
        clf = MKLClassifier(
            [RBF(0.5, features=["a", "b"]), Linear(features=["c"])], p="auto", random_state=0
        ).fit(frame, y)
        assert clf.score(frame, y) > 0.8

    def test_what_cannot_be_split(self):
        with pytest.raises(ValueError, match="at least two samples of every class"):
            MKLClassifier(MIXED, p="auto").fit(X, np.arange(len(X)) == 3)
        with pytest.raises(ValueError, match="not a bank fitted"):
            MKLClassifier(make_bank(KernelCollection(MIXED), X), p="auto").fit(X, y)
        with pytest.raises(ValueError, match="not both"):
            MKLClassifier(MIXED, p="auto", regularizer=SquaredPNorm(2)).fit(X, y)


def test_a_break_in_the_last_model_of_a_fold_ends_the_choice(monkeypatch):
    X, y = toy(40)
    fits = []

    def broken(*args, **options):
        found = path(*args, **options)
        fits.append(found)
        found[-1].result_.status = Status.INTERRUPTED
        return found

    monkeypatch.setattr("manykernels.estimators.search.paths.path", broken)
    with pytest.raises(KeyboardInterrupt):
        MKLClassifier([RBF(0.5), RBF(2.0)], p="auto").fit(X, y)
    assert len(fits) == 1
