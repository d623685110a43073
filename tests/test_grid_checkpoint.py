"""A grid that is killed goes on where it was."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from altered import Sound, altered
from manykernels import Checkpoint, MKLClassifierCV, MKLRegressorCV
from manykernels._files import CorruptFile, read, write
from manykernels.estimators.checkpoints import OtherProblem
from manykernels.estimators.search import folds, tuning
from manykernels.kernels import RBF, Linear

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=60) > 0.5, "up", "down")
GRID = {"Cs": [0.1, 1.0, 10.0], "ps": [1.0, 2.0], "cv": 3, "exhaustive": True}
KERNELS = [RBF(0.2), RBF(2.0, features=[0]), Linear()]


def model(path, **options):
    return MKLClassifierCV(KERNELS, **GRID | options, checkpoint=Checkpoint(path, every=0.0))


@pytest.fixture
def counted(monkeypatch):
    """How many problems are solved, and a number after which Ctrl-C is pressed."""
    state, solved = {"count": 0, "most": np.inf}, tuning._solved

    def one(*of):
        if state["count"] >= state["most"]:
            raise KeyboardInterrupt
        state["count"] += 1
        return solved(*of)

    monkeypatch.setattr(tuning, "_solved", one)
    return state


class TestResume:
    def test_nothing_is_computed_twice(self, tmp_path, counted):
        path = tmp_path / "grid.mk"
        whole = MKLClassifierCV(KERNELS, **GRID).fit(X, y)
        counted.update(count=0, most=12)
        with pytest.warns(ConvergenceWarning, match="broken off"):
            model(path).fit(X, y)
        first = counted["count"]
        assert 0 < first <= 12
        counted.update(count=0, most=np.inf)
        again = model(path).fit(X, y)
        assert counted["count"] <= 18 - 6  # a batch that was broken off is computed again
        np.testing.assert_allclose(again.scores_, whole.scores_)
        assert (again.C_, again.p_) == (whole.C_, whole.p_)
        counted.update(count=0)
        np.testing.assert_array_equal(model(path).fit(X, y).scores_, again.scores_)
        assert counted["count"] == 0

    def test_another_score_may_choose(self, tmp_path, counted):
        path = tmp_path / "grid.mk"
        model(path).fit(X, y)
        counted.update(count=0)
        other = model(path, scoring="roc_auc", rule="one_standard_error").fit(X, y)
        expected = MKLClassifierCV(KERNELS, **GRID, scoring="roc_auc").fit(X, y)
        assert counted["count"] == 18  # only those of the one without a file
        np.testing.assert_allclose(other.scores_, expected.scores_, atol=1e-6)

    @pytest.mark.parametrize(
        ("options", "what"),
        [
            ({"Cs": [0.1, 1.0]}, "C and p"),
            ({"cv": 4}, "cv"),
            ({"tol": 1e-5}, "tol"),
            ({"max_iter": 3}, "max_iter"),
            ({"normalize": "trace"}, "normalize"),
            ({"loss": "squared_hinge"}, "loss"),
        ],
    )
    def test_other_grids_are_refused(self, tmp_path, options, what):
        model(tmp_path / "grid.mk").fit(X, y)
        with pytest.raises(OtherProblem, match=what):
            model(tmp_path / "grid.mk", **options).fit(X, y)

    def test_other_data_are_refused(self, tmp_path):
        model(tmp_path / "grid.mk").fit(X, y)
        with pytest.raises(OtherProblem, match="data"):
            model(tmp_path / "grid.mk").fit(X + 1.0, y)

    def test_a_file_of_another_kind(self, tmp_path):
        path = tmp_path / "grid.mk"
        path.write_bytes(b"nonsense")
        with pytest.raises(CorruptFile):
            model(path).fit(X, y)

    @pytest.mark.parametrize("task", ["classes", "pairs", "regression"])
    def test_altered_files_are_refused_or_sound(self, tmp_path, task):
        """With one thing altered and a sound checksum."""
        file, labels = tmp_path / "grid.mk", np.array(["a", "b", "c"])
        grid = {"Cs": [1.0], "ps": [1.0], "cv": 2, "refit": False, "checkpoint": file}
        targets = X[:, 0] if task == "regression" else labels[np.digitize(X[:, 0], [-0.5, 0.5])]
        kind = MKLRegressorCV if task == "regression" else MKLClassifierCV
        more = {"multiclass": "ovo"} if task == "pairs" else {}
        tuned, refused = kind(KERNELS, **grid, **more).fit(X, targets), 0
        sound = Sound(*read(file, "grid"), None)
        file.with_name("grid.mk.previous").unlink(missing_ok=True)
        for seed in range(40):
            arrays, content, _ = altered(sound, np.random.default_rng(seed))
            write(file, arrays, content, "grid")
            try:
                tuned.fit(X, targets)
            except (CorruptFile, OtherProblem):
                refused += 1
            assert np.isfinite(tuned.scores_).all() if hasattr(tuned, "scores_") else True
            file.with_name("grid.mk.previous").unlink(missing_ok=True)
        assert refused > 20

    def test_regression_and_folds_one_by_one(self, tmp_path, monkeypatch):
        file = tmp_path / "grid.mk"
        regressor = MKLRegressorCV(KERNELS, **GRID, normalize="center", checkpoint=file)
        first = regressor.fit(X, X[:, 0]).scores_
        paths = []
        monkeypatch.setattr(tuning, "path", lambda *of, **more: paths.append(1))
        np.testing.assert_array_equal(regressor.fit(X, X[:, 0]).scores_, first)
        assert not paths

    def test_errors_lose_nothing(self, tmp_path, counted, monkeypatch):
        file, solved = tmp_path / "grid.mk", tuning._solved

        def fails(*of):
            if counted["count"] >= 12:
                raise RuntimeError("the disk is gone")
            return solved(*of)

        lazy = MKLClassifierCV(KERNELS, **GRID, checkpoint=file)  # writes every 30 seconds
        monkeypatch.setattr(tuning, "_solved", fails)
        with pytest.raises(RuntimeError, match="disk"):
            lazy.fit(X, y)
        monkeypatch.setattr(tuning, "_solved", solved)
        counted.update(count=0)
        lazy.fit(X, y)
        assert 0 < counted["count"] < 18

    def test_a_whole_grid_costs_nothing_more(self, tmp_path, monkeypatch):
        model(tmp_path / "grid.mk", refit=False).fit(X, y)
        monkeypatch.setattr(folds, "tiled", lambda *of: pytest.fail("kernels are computed"))
        model(tmp_path / "grid.mk", refit=False).fit(X, y)


PROGRAM = """
import numpy as np, sys, time
from manykernels import Checkpoint, MKLClassifierCV
from manykernels.estimators.search import tuning
from manykernels.kernels import RBF, Linear
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3))
y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=60) > 0.5, "up", "down")
solved = tuning._solved
def slow(run, fold, start, *of):
    if start is not None:
        sys.stdout.write("going\\n")  # in one piece
        sys.stdout.flush()
        time.sleep(0.3 if sys.argv[2] == "slow" else 0.0)
    return solved(run, fold, start, *of)
tuning._solved = slow
model = MKLClassifierCV([RBF(0.2), RBF(2.0, features=[0]), Linear()], Cs=[0.1, 0.5, 2.0],
                        ps=[1.0, 2.0], cv=6, exhaustive=True,
                        checkpoint=Checkpoint(sys.argv[1], every=0.0))
model.fit(X, y)
print("done", model.C_, model.p_)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs POSIX signals")
@pytest.mark.parametrize("kind", ["SIGTERM", pytest.param("SIGKILL", marks=pytest.mark.long)])
def test_killed_processes_go_on(tmp_path, kind):
    program, path = tmp_path / "program.py", tmp_path / "grid.mk"
    program.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, str(program), str(path)]
    with subprocess.Popen(
        [*command, "slow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline().strip() == "going"
        time.sleep(0.5)
        os.kill(process.pid, getattr(signal, kind))
        _, words = process.communicate(timeout=60)
    if kind == "SIGTERM":
        assert process.returncode == 128 + signal.SIGTERM
        assert "run again to go on" in words
    done = subprocess.run([*command, "fast"], capture_output=True, text=True, check=True)
    assert done.stdout.count("going") < 24  # of C and folds that begin from a smaller C
    assert "done" in done.stdout
