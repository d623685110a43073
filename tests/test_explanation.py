"""Which groups matter: kernels that only regularize told apart, and everything in one table."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLRegressor,
    explain,
    group_importance,
    load,
    save,
    stability,
)
from manykernels.display.facts import Shares
from manykernels.kernels import RBF, Linear, on_groups

GROUPS = {"signal": [0, 1], "weak": [2, 3], "noise": [4, 5]}
KERNELS = on_groups(GROUPS, [RBF(0.5), Linear()])
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 6))
f = 1.5 * (X[:, 0] + X[:, 1]) + 0.8 * X[:, 2] + RNG.normal(size=120)
y = np.where(f > 0, "case", "control")


def silent(**options):
    """A model in which an identity, called as no group is, has weight."""
    kernels = {"signal": [Linear(features=[0, 1]), RBF(1e4)], "(regularization)": [Linear([2, 3])]}
    return MKLClassifier(kernels, p=2.0, **options)


@pytest.mark.filterwarnings("ignore:1 kernel is nearly the identity")
class TestRegularization:
    """Kernels that say nothing about other points belong to no group."""

    @pytest.mark.parametrize("share_weights", [True, False])
    def test_groups_share_the_rest(self, share_weights, tmp_path):
        labels = np.digitize(f, [-1.0, 1.0])
        model = silent(share_weights=share_weights).fit(X, labels)
        whole = np.atleast_2d(model.kernel_weights_)
        whole = (whole / whole.sum(axis=1, keepdims=True)).mean(axis=0)
        found = model.group_weights_
        assert list(found) == ["signal", "(regularization)"]
        assert_allclose(sum(found.values()), 1.0)
        assert_allclose(found.regularization, whole[1])
        assert "regularization" in repr(found)
        contributions = model.kernel_contributions_
        assert_allclose(model.group_contributions_.regularization, contributions[1])
        assert_allclose(
            list(model.group_contributions_.values()),
            contributions[[0, 2]] / contributions[[0, 2]].sum(),
        )
        save(model, tmp_path / "model.mk")
        assert load(tmp_path / "model.mk").group_weights_.regularization == found.regularization

    def test_tables_and_pictures(self):
        model = silent().fit(X, y)
        frame = model.weights_frame().set_index("kernel")
        name = "(regularization) (2)"  # since a group has the first
        assert frame["group"].tolist().count(name) == 1
        sums = frame.groupby("group")[["share", "contribution"]].sum()
        assert sums["share"].drop(name).to_dict() == pytest.approx(model.group_weights_)
        assert sums["contribution"][name] == pytest.approx(
            model.group_contributions_.regularization
        )
        shares = Shares(model)
        for rows in (shares.groups(), shares.kernels(5)):
            assert [row.name for row in rows if row.stands_for] == [name]
            assert rows[-1].weight.endswith("of all")
            assert_allclose(sum(row.share for row in rows[:-1]), 1.0)

    def test_models_of_parts(self):
        """Selection and importance of a group come from what it says."""
        kernels = {"signal": [Linear(features=[0, 1])], "nothing": [RBF(1e4, features=[4, 5])]}
        found = explain(MKLClassifier(kernels, p=2.0), X, y, cv=3, n_halves=4)
        assert_array_equal(found.weights, [1.0, 0.0])
        assert found.regularization > 0.1
        assert_array_equal(found.selected, [1.0, 0.0])
        assert found.drops[1] == 0.0
        assert "only regularize" in found.notes[0]


class TestExplain:
    def test_signal_before_noise(self):
        model = MKLClassifier(KERNELS, p=1.33)
        found = model.explain(X, y, scoring="roc_auc", cv=5, n_halves=4)
        assert found.groups == ["signal", "weak", "noise"]
        assert found.adjusted[0] < 0.01
        assert found.intervals[0, 0] > 0.1
        assert found.intervals[2, 0] < 0.0 < found.intervals[2, 1]
        assert found.helped[0] == 1.0
        fitted = model.fit(X, y)
        shares = [fitted.group_weights_[group] for group in found.groups]
        assert_allclose(found.weights, shares, atol=5e-3)
        frame = found.to_frame()
        assert frame["group"].tolist() == found.groups
        assert frame["drop"].tolist() == found.drops.tolist()
        assert str(found).splitlines()[1].startswith("signal")
        assert "<td>signal</td>" in found._repr_html_()
        (note,) = found.notes
        assert "do not miss" in note
        assert "noise" in note
        assert "signal" not in note

    def test_a_limit_is_what_decides_who_has_weight(self):
        model = MKLClassifier(KERNELS, p=1.33, max_groups=3)
        limit, idle = explain(model, X, y, scoring="roc_auc", cv=5, n_halves=4).notes
        assert "limited (max_groups=3)" in limit
        assert "whether fewer than max_groups=3" in idle
        assert "smaller C" not in idle

    def test_as_the_parts_that_it_is_made_of(self):
        """The same splits give the same drops as `group_importance`."""
        splits = [(np.arange(80), np.arange(80, 120)), (np.arange(40, 120), np.arange(40))]
        model = MKLClassifier(KERNELS, p=1.33, tol=1e-6)
        found = explain(model, X, y, cv=splits, n_halves=4, method="leave_out")
        alone = group_importance(model, X, y, cv=splits, method="leave_out")
        assert_allclose(found.importance.scores, alone.scores, atol=1e-9)
        assert_allclose(found.importance.drops, alone.drops, atol=0.026)  # of one row

    def test_equal_weights(self):
        found = explain(MKLClassifier(KERNELS, p=np.inf), X, y, cv=3, n_halves=4)
        assert any("same weight" in note for note in found.notes)
        assert found.groups[0] == "signal"
        assert "selected" not in str(found)  # neither the column nor what it says

    @pytest.mark.parametrize("p", [1.0, 2.0])
    def test_copies(self, p):
        """Groups that say the same are named, and what they are worth together is said."""
        wider = np.hstack([X, X[:, :2] + 0.01 * RNG.normal(size=(120, 2))])
        kernels = on_groups({**GROUPS, "copy": [6, 7]}, [RBF(0.5), Linear()])
        found = explain(MKLClassifier(kernels, p=p), wider, y, cv=3, n_halves=4)
        (together,) = found.alike
        assert sorted(together.groups) == ["copy", "signal"]
        assert together.drop > max(together.largest, 0.1)
        assert together.interval[0] < together.drop < together.interval[1]
        assert any("say much the same" in note for note in found.notes)

    def test_nothing_to_learn(self):
        labels = np.random.default_rng(4).permutation(y)  # of which no fold is guessed by chance
        model = MKLClassifier(KERNELS)
        found = explain(model, X, labels, cv=3, n_halves=4, random_state=0)
        assert any("no better at held-out rows" in note for note in found.notes)
        assert (found.adjusted > 0.05).all()

    def test_regression_and_tuned_models(self):
        found = MKLRegressor(KERNELS, p=1.33).explain(X, f, n_halves=4)
        assert found.groups[0] == "signal"
        tuned = MKLClassifierCV(KERNELS, Cs=[0.3], ps=[1.33], cv=3)
        with pytest.raises(ValueError, match="fitted first"):
            tuned.explain(X, y)
        assert tuned.fit(X, y).explain(X, y, cv=3, n_halves=4).groups[0] == "signal"

    def test_refusals(self):
        with pytest.raises(ValueError, match="n_halves must be an even number"):
            explain(MKLClassifier(KERNELS), X, y, n_halves=5)
        with pytest.raises(ValueError, match="method='guess'"):
            explain(MKLClassifier(KERNELS), X, y, method="guess")


class Counting(TransformerMixin, BaseEstimator):
    """A step that keeps the rows which it was fitted on, in a list that its clones share."""

    seen: list = []  # noqa: RUF012

    def fit(self, X, y=None):
        self.seen.append(np.asarray(X))
        self.fitted_ = True
        return self

    def transform(self, X):
        return X


class TestPipelines:
    """Steps before the model are fitted on the training rows of every part."""

    def test_fitted_on_training_rows(self):
        Counting.seen.clear()
        splits = [(np.arange(80), np.arange(80, 120)), (np.arange(40, 120), np.arange(40))]
        model = make_pipeline(Counting(), MKLClassifier(KERNELS))
        group_importance(model, X, y, cv=splits, n_permutations=99)
        everything, *parts = Counting.seen
        assert len(everything) == 120
        for (train, _), rows in zip(splits, parts, strict=True):
            assert_array_equal(rows, X[train])

    @pytest.mark.parametrize("method", ["permutation", "leave_out"])
    def test_scores_of_pipelines(self, method):
        """Frames go through, and scores are those of the pipeline itself."""
        columns = {"signal": ["a", "b"], "weak": ["c", "d"], "noise": ["e", "f"]}
        frame = pd.DataFrame(100.0 * X, columns=list("abcdef"))
        kernels = on_groups(columns, [RBF(0.5), Linear()])
        model = make_pipeline(StandardScaler(), MKLClassifier(kernels, p=1.33))
        model.set_output(transform="pandas")
        split = np.arange(80), np.arange(80, 120)
        found = group_importance(model, frame, y, cv=[split], method=method, n_permutations=99)
        score = model.fit(frame[:80], y[:80]).score(frame[80:], y[80:])
        assert_allclose(found.scores, [score])
        assert found.drops[0].argmax() == 0

    def test_all_of_it(self):
        model = make_pipeline(StandardScaler(), MKLClassifier(KERNELS, C=0.1))
        found = stability(model, X, y, n_resamples=6, max_groups=1)
        assert found.stable() == ["signal"]
        table = explain(model, X, y, cv=3, n_halves=4)
        assert table.groups[0] == "signal"
        fitted = model.fit(X, y)[-1]
        assert_allclose(table.weights, [fitted.group_weights_[g] for g in table.groups], atol=5e-3)


def test_a_model_explains_itself_in_a_process_that_imported_nothing_else():
    code = (
        "import numpy as np; from manykernels import MKLClassifier\n"
        "X = np.random.default_rng(0).normal(size=(40, 2)); y = X[:, 0] > 0\n"
        "print(MKLClassifier('whole').fit(X, y).explain(X, y, n_halves=4, cv=2))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
