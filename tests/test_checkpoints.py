"""Checkpoints: a fit that was ended, by whatever, goes on and ends where it would have ended."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from conftest import examples, toy
from manykernels import (
    Checkpoint,
    KernelCollection,
    MKLClassifier,
    MKLOneClass,
    MKLRegressor,
    load,
    path,
    save,
)
from manykernels._files import CannotWrite, CorruptFile, read
from manykernels.banks import make_bank
from manykernels.combinations import Product
from manykernels.estimators.checkpoints import Journal, OtherProblem
from manykernels.estimators.data.fingerprints import fingerprint
from manykernels.kernels import RBF, Kernel, Linear, Precomputed
from manykernels.lowrank import Nystroem
from manykernels.problem import Problem
from manykernels.regularizers import L1, PNormBall, SquaredPNorm
from manykernels.result import Certificate, Record, Status
from manykernels.run_state import RunState
from manykernels.solvers import SPG, Iterate, Newton, drive, solve
from manykernels.solvers.wrappers import FromIterate, FromPoints
from test_model_files import damage

X, y = toy(60)
three = np.digitize(X[:, 0], [-0.5, 0.5])
target = X[:, 0] * X[:, 1]
KERNELS = [RBF(0.1), RBF(2.0), Linear(), RBF(0.5, features=[0, 1])]
MASKED = KernelCollection.masked_rbf(
    np.tile([0.3, 0.7, 1.0], 12),
    np.tile(np.array([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 0, 1]], dtype=bool), (12, 1)),
)
MODELS = {
    "newton": (MKLClassifier(KERNELS, C=10.0, solver="newton"), y),
    "spg": (MKLClassifier(KERNELS, C=10.0, solver="spg"), y),
    "silp": (MKLClassifier(KERNELS, C=10.0, solver="silp"), y),
    "group lasso": (
        MKLClassifier(KERNELS, C=10.0, regularizer=SquaredPNorm(1.0), solver="group_lasso"),
        y,
    ),
    "sample": (
        MKLClassifier(KERNELS, C=10.0, solver=FromPoints(SPG(), lambda problem: Newton(), size=30)),
        y,
    ),
    "masked": (MKLClassifier(MASKED), y),
    "shared": (MKLClassifier(KERNELS, C=10.0), three),
    "per class": (MKLClassifier(KERNELS, C=10.0, share_weights=False), three),
    "low rank": (MKLClassifier(KERNELS, C=10.0, approximation=Nystroem(20)), y),
    "regressor": (MKLRegressor(KERNELS, C=10.0), target),
    "one class": (MKLOneClass(KERNELS, p=2.0, solver="spg"), None),
    "product": (MKLClassifier(combination=Product(starts=2), regularizer=L1(), random_state=0), y),
    "uniform": (MKLClassifier(KERNELS, C=10.0, solver="uniform"), y),
}


def stop_at(iteration):
    return lambda record: record.iteration >= iteration


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.mk"


@pytest.mark.parametrize("name", MODELS)
class TestGoingOn:
    def test_ends_at_the_same_objective(self, name, file):
        model, targets = clone(MODELS[name][0]), MODELS[name][1]
        whole = clone(model).fit(X, targets).result_
        model.set_params(checkpoint=Checkpoint(file, every=0.0))
        first = clone(model).set_params(callbacks=[stop_at(2)]).fit(X, targets).result_
        again = model.fit(X, targets).result_
        assert again.status.converged
        # of several starts another one may be the best in the end
        assert any(one.resumed is not None for one in (again, *model.other_results_))
        assert again.status is whole.status
        tol = 1e-3 if np.isfinite(whole.duality_gap) else 0.02
        assert again.objective == pytest.approx(whole.objective, rel=2 * tol)
        allowed = max(abs(first.certificate.absolute_gap) * (1 + 1e-6), tol * abs(again.objective))
        assert abs(again.certificate.absolute_gap) <= allowed

    def test_a_finished_fit_ends_at_once(self, name, file):
        model, targets = clone(MODELS[name][0]).set_params(checkpoint=file), MODELS[name][1]
        done = model.fit(X, targets)
        result, predicted = done.result_, done.predict(X)
        again = model.fit(X, targets)
        assert again.result_.status is result.status
        assert again.result_.counters.svm_solves == 0
        assert again.result_.objective == pytest.approx(result.objective, rel=1e-5)
        assert np.mean(again.predict(X) == predicted) == 1.0 or isinstance(model, MKLRegressor)


class TestWhatIsKept:
    def test_a_smaller_tolerance_goes_on(self, file):
        model = MKLClassifier(KERNELS, C=10.0, checkpoint=file).fit(X, y)
        finer = MKLClassifier(
            KERNELS, C=10.0, checkpoint=file, tol=1e-7, solver="spg", n_jobs=1, max_iter=1000
        ).fit(X, y)
        assert finer.result_.duality_gap <= 1e-7
        assert finer.result_.resumed.gap == model.result_.duality_gap
        assert "resumed" in str(finer.result_)

    def test_rows_in_another_order_are_the_same_problem(self, file):
        MKLClassifier(KERNELS, checkpoint=file).fit(X, y)
        order = np.random.default_rng(0).permutation(60)
        assert (
            MKLClassifier(KERNELS, checkpoint=file)
            .fit(X[order], y[order])
            .result_.counters.svm_solves
            == 0
        )

    def test_p_is_chosen_once(self, file, monkeypatch):
        model = MKLClassifier(KERNELS, p="auto", checkpoint=file).fit(X, y)
        monkeypatch.setattr("manykernels.estimators.base.choose_p", None)
        again = clone(model).fit(X, y)
        assert again.p_ == model.p_
        assert again.p_scores_ == model.p_scores_

    def test_is_written_every_so_often(self, file):
        sizes = []
        model = MKLClassifier(KERNELS, C=10.0, solver="spg", checkpoint=Checkpoint(file, every=1e6))
        model.set_params(
            callbacks=[lambda record: sizes.append(len(read(file, "checkpoint")[0]))]
        ).fit(X, y)
        assert set(sizes) == {0}  # not before its time
        assert len(read(file, "checkpoint")[0]) == 2  # but at the end
        sizes.clear()
        file.unlink()
        (file.parent / "run.mk.previous").unlink()
        model.set_params(checkpoint=Checkpoint(file, every=0.0)).fit(X, y)
        assert set(sizes) == {2}

    def test_what_was_found_too_early_is_written_later(self, file, monkeypatch):
        now = [0.0]
        monkeypatch.setattr("manykernels.estimators.checkpoints.time.monotonic", lambda: now[0])
        kept = Journal(Checkpoint(file, every=30.0), {})
        kept.open()
        best = Iterate(np.ones(2), np.zeros((1, 3)), Certificate(1.0, 0.5, 0.5, np.zeros(1), 0.0))
        for now[0], sections in ((10.0, 0), (20.0, 0), (31.0, 1)):
            kept.keep("whole", best, Record(3, 1.0, 0.5, 1, 2, now[0]), None)
            assert len(read(file, "checkpoint")[1]["sections"]) == sections
        before = file.stat().st_mtime_ns
        now[0] = 100.0
        kept.keep("whole", best, Record(9, 1.0, 0.5, 1, 2, 100.0), None)
        assert file.stat().st_mtime_ns == before  # nothing new

    def test_models_say_that_they_were_resumed(self, file):
        MKLClassifier(KERNELS, checkpoint=file).fit(X, y)
        model = MKLClassifier(KERNELS, checkpoint=file).fit(X, y)
        save(model, file.parent / "model.mk")
        assert load(file.parent / "model.mk").result_.resumed == model.result_.resumed

    def test_ended_before_anything_was_found(self, file):
        def interrupted(problem):
            raise KeyboardInterrupt

        model = MKLClassifier(KERNELS, checkpoint=file)
        solver = SPG()
        solver.init = interrupted
        with pytest.warns(ConvergenceWarning, match="Interrupted"):
            clone(model).set_params(solver=solver).fit(X, y)
        assert set(read(file, "checkpoint")[1]["sections"]) == {"whole"}
        assert model.fit(X, y).result_.resumed is None

    def test_says_so(self, file, caplog, capsys):
        model = MKLClassifier(KERNELS, checkpoint=file).fit(X, y)
        with caplog.at_level("INFO", logger="manykernels"):
            model.fit(X, y)
        assert "Going on from the checkpoint" in caplog.text
        assert capsys.readouterr().err == ""
        model.set_params(verbose=2).fit(X, y)
        assert "Going on from the checkpoint" in capsys.readouterr().err

    def test_a_solver_that_gets_stuck_begins_anew(self):
        class Stuck(SPG):
            """Stalls at once unless it begins from the beginning."""

            def step(self, run, state, tol):
                state = super().step(run, state, tol)
                if run.start.beta.any():
                    return state._replace(iterate=state.iterate._replace(ended=Status.STALLED))
                return state

        def problem():
            return Problem(
                make_bank(KernelCollection(KERNELS), X), y, np.full(60, 10.0), PNormBall(1)
            )

        half = solve(problem(), SPG(), max_iter=3)
        whole, again = RunState(problem(), start=half), RunState(problem(), start=half)
        beginning = RunState(problem()).start
        assert drive(Stuck(), whole).status is Status.STALLED
        result = drive(FromIterate(Stuck(), beginning), again)
        assert result.status is Status.OPTIMAL

    @pytest.mark.parametrize("part", [0.3, 0.5, 0.8])
    def test_going_on_costs_less_than_starting_anew(self, part):
        kernels = [RBF(g, features=f) for g in (0.1, 1.0, 10.0) for f in range(X.shape[1])]
        bank = make_bank(KernelCollection(kernels), X)
        problem = Problem(bank, y, np.full(60, 10.0), PNormBall(1.33))
        fresh = solve(problem, SPG(), tol=1e-5)
        some = solve(problem, SPG(), tol=1e-5, max_iter=int(part * fresh.n_iter))
        beginning, run = RunState(problem).start, RunState(problem, start=some)
        resumed = drive(FromIterate(SPG(), beginning), run, tol=1e-5)
        assert resumed.status is Status.OPTIMAL
        assert resumed.counters.svm_solves < fresh.counters.svm_solves

    def test_ctrl_c_is_written(self, file):
        def interrupt(record):
            if record.iteration == 4:
                raise KeyboardInterrupt

        model = MKLClassifier(KERNELS, C=10.0, solver="spg", checkpoint=Checkpoint(file, every=1e6))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            interrupted = clone(model).set_params(callbacks=[interrupt]).fit(X, y).result_
        again = model.fit(X, y).result_
        assert again.resumed.gap == interrupted.duality_gap
        assert again.status is Status.OPTIMAL

    def test_paths_have_none(self, file):
        with pytest.raises(ValueError, match="no checkpoints"):
            path(MKLClassifier(KERNELS, checkpoint=file), X, y, C=[1.0, 2.0])


def squares(A, B):
    return (A @ B.T) ** 2


def cubes(A, B):
    return (A @ B.T + 1.0) ** 3


class Power(Kernel):
    def __init__(self, power):
        self.power = power

    def block(self, A, B):
        return (A @ B.T + 1.0) ** self.power


class TestOtherProblems:
    def test_numbers_of_other_types_are_the_same(self, file):
        MKLClassifier(KERNELS, C=1, p=2, checkpoint=file).fit(X, y)
        again = MKLClassifier(KERNELS, C=np.float64(1.0), p=2.0, checkpoint=file).fit(X, y)
        assert again.result_.resumed is not None

    @pytest.mark.parametrize(
        ("change", "named"),
        [
            ({"C": 2.0}, "C"),
            ({"p": 2.0}, "p"),
            ({"kernels": KERNELS[:3]}, "kernels"),
            ({"kernels": [*KERNELS[:3], RBF(0.5, features=[0, 2])]}, "kernels"),
            ({"normalize": "trace"}, "normalize"),
            ({"loss": "squared_hinge"}, "loss"),
            ({"regularizer": SquaredPNorm(1.0)}, "regularizer"),
            ({"class_weight": {1.0: 2.0}}, "class_weight, data"),
            ({"approximation": Nystroem(5)}, "approximation"),
            ({"share_weights": False}, "share_weights"),
        ],
        ids=str,
    )
    def test_of_other_parameters_are_refused(self, change, named, file):
        MKLClassifier(KERNELS, checkpoint=file).fit(X, y)
        before = file.read_bytes()
        with pytest.raises(OtherProblem, match=f": {named} changed since. Delete it"):
            MKLClassifier(**{"kernels": KERNELS, "checkpoint": file} | change).fit(X, y)
        assert file.read_bytes() == before

    @pytest.mark.parametrize("what", ["X", "y", "sample_weight", "rows"])
    def test_of_other_data_are_refused(self, what, file):
        MKLClassifier(KERNELS, checkpoint=file).fit(X, y)
        changed, labels, weight = X.copy(), y.copy(), np.ones(60)
        if what == "X":
            changed[0, 0] += 1e-12
        elif what == "y":
            labels[0] *= -1
        elif what == "sample_weight":
            weight[0] = 2.0
        else:
            changed, labels, weight = X[:-1], y[:-1], weight[:-1]
        with pytest.raises(OtherProblem, match="data changed"):
            MKLClassifier(KERNELS, checkpoint=file).fit(changed, labels, sample_weight=weight)

    def test_sparse_data(self, file):
        few = sparse.csr_array(np.where(X > 0.5, X, 0.0))
        MKLClassifier([RBF(), Linear()], checkpoint=file).fit(few, y)
        assert MKLClassifier([RBF(), Linear()], checkpoint=file).fit(few, y).result_.resumed
        few.data[0] += 1.0
        with pytest.raises(OtherProblem, match="data"):
            MKLClassifier([RBF(), Linear()], checkpoint=file).fit(few, y)

    def test_kernels_of_the_users(self):
        def marks(kernels):
            model = MKLClassifier(kernels)
            model.n_features_in_ = 4
            return fingerprint(model, X, y, y)["kernels"]

        same = marks([squares])
        assert marks([squares]) == same
        assert marks([cubes]) != same
        assert marks([Power(2)]) == marks([Power(2)]) != marks([Power(3)])
        # one name, other values
        assert len({marks([lambda A, B, k=k: (A @ B.T + 1.0) ** k]) for k in (1, 2, 3)}) == 3
        K = X @ X.T
        assert (
            marks(make_bank(KernelCollection(KERNELS), X))
            == marks(make_bank(KernelCollection(KERNELS), X))
            != marks(make_bank(KernelCollection(KERNELS), 2 * X))
        )
        assert (
            marks([Precomputed(K)])
            == marks([Precomputed(K.copy())])
            != marks([Precomputed(K + 1.0)])
        )

    def test_an_estimator_of_another_kind(self, file):
        MKLOneClass(KERNELS, checkpoint=file).fit(X)
        with pytest.raises(OtherProblem, match="estimator"):
            MKLClassifier(KERNELS, checkpoint=file).fit(X, y)


@pytest.fixture(scope="module")
def journal(tmp_path_factory):
    """A checkpoint and the one before it, of a fit that was stopped."""
    folder = tmp_path_factory.mktemp("journal")
    model = MKLClassifier(
        KERNELS, C=10.0, solver="spg", checkpoint=Checkpoint(folder / "run.mk", every=0.0)
    )
    model.set_params(callbacks=[stop_at(3)]).fit(X, y)
    return folder, read(folder / "run.mk", "checkpoint")[1]["marks"]


class TestDamage:
    @settings(
        max_examples=examples(80),
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(
        kind=st.sampled_from(
            ["cut", "flip", "zeros", "noise", "append", "insert", "remove", "header"]
        ),
        place=st.floats(0, 1),
        size=st.integers(1, 600),
        seed=st.integers(0, 2**31),
    )
    def test_the_one_before_is_used(self, kind, place, size, seed, journal, tmp_path):
        folder, marks = journal
        good = (folder / "run.mk").read_bytes()
        data = damage(kind, place, size, seed, good)
        (tmp_path / "run.mk").write_bytes(data)
        shutil.copy(folder / "run.mk.previous", tmp_path / "run.mk.previous")
        opened = Journal(tmp_path / "run.mk", marks)
        if data == good:
            opened.open()
            return
        with pytest.warns(UserWarning, match=r"run\.mk\.previous"):
            opened.open()
        assert set(opened.sections) == {"whole"}
        assert (tmp_path / "run.mk").read_bytes() == data  # nothing is touched yet
        opened.write()
        # not the damaged one
        assert (tmp_path / "run.mk.previous").read_bytes() == (
            folder / "run.mk.previous"
        ).read_bytes()
        assert read(tmp_path / "run.mk", "checkpoint")[1]["sections"].keys() == {"whole"}

    def test_in_a_fit(self, file):
        model = MKLClassifier(KERNELS, C=10.0, solver="spg", checkpoint=Checkpoint(file, every=0.0))
        clone(model).set_params(callbacks=[stop_at(3)]).fit(X, y)
        file.write_bytes(file.read_bytes()[:-1])
        with pytest.warns(UserWarning, match="Going on from the checkpoint before"):
            model.fit(X, y)
        assert model.result_.status is Status.OPTIMAL
        assert model.result_.resumed

    def test_a_crash_between_the_two_renames(self, file):
        model = MKLClassifier(KERNELS, C=10.0, checkpoint=file).fit(X, y)
        os.replace(file, file.parent / "run.mk.previous")
        with pytest.warns(UserWarning, match="Going on from the checkpoint before"):
            assert clone(model).fit(X, y).result_.resumed

    @pytest.mark.parametrize(
        "data", [b"", b"my only copy of the results", b"\0" * 1000], ids=["empty", "text", "zeros"]
    )
    def test_foreign_files_are_not_overwritten(self, data, file):
        file.write_bytes(data)
        with pytest.raises(CorruptFile, match="delete"):
            MKLClassifier(KERNELS, checkpoint=file).fit(X, y)
        assert file.read_bytes() == data

    def test_models_are_not_overwritten(self, file):
        save(MKLClassifier(KERNELS).fit(X, y), file)
        with pytest.raises(CorruptFile, match="holds a model"):
            MKLClassifier(KERNELS, checkpoint=file).fit(X, y)


class TestWriting:
    def test_a_bad_path_shows_before_any_work(self, tmp_path):
        seen = []
        for bad in (tmp_path / "none" / "run.mk", "/proc/run.mk"):
            with pytest.raises(CannotWrite, match="Could not write"):
                MKLClassifier(KERNELS, checkpoint=bad, callbacks=[seen.append]).fit(X, y)
        assert seen == []

    def test_a_disk_that_gets_full_does_not_end_the_fit(self, file, monkeypatch):
        MKLClassifier(KERNELS, C=10.0, checkpoint=file, max_iter=1000, callbacks=[stop_at(1)]).fit(
            X, y
        )
        before = read(file, "checkpoint")[1]

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.warns(UserWarning, match="disk is full"):
            model = MKLClassifier(KERNELS, C=10.0, checkpoint=Checkpoint(file, every=0.0)).fit(X, y)
        assert model.result_.status is Status.OPTIMAL
        assert read(file, "checkpoint")[1] == before


# One process imports and compiles; its children train and are ended. A thread would not survive a
# fork, hence n_jobs=1.
SCRIPT = """
    import json, os, random, signal, sys, time, warnings
    import numpy as np
    from manykernels import Checkpoint, MKLClassifier
    from manykernels.kernels import RBF, Linear
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 4))
    y = np.where(X[:, 0] + rng.standard_normal(100) > 0, 1, -1)
    kernels = [RBF(gamma) for gamma in (0.01, 0.1, 1.0)] + [Linear(features=[f]) for f in range(4)]

    def fit(file, tol=1e-6, every=0.0, **options):
        checkpoint = None if file is None else Checkpoint(file, every)
        options |= {"C": 30.0, "solver": "spg", "tol": tol, "checkpoint": checkpoint, "n_jobs": 1}
        model = MKLClassifier(kernels, **options)
        return model.fit(X, y).result_

    def child(file, **options):
        pid = os.fork()
        if pid == 0:
            fit(file, **options)
            os._exit(0)
        return pid

    def terminate(record):
        if record.iteration == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    folder, moments, codes = sys.argv[1], random.Random(0), []
    whole = fit(folder + "/whole.mk")
    pid = child(folder + "/terminated.mk", tol=1e-12, every=1e6, callbacks=[terminate])
    code = os.waitpid(pid, 0)[1]
    for _ in range(5):
        tick, ticked = os.pipe()
        pid = child(folder + "/killed.mk", callbacks=[lambda record: os.write(ticked, b".")])
        # iterations, and then a moment somewhere in the next one
        for _ in range(moments.randint(2, 6)):
            os.read(tick, 1)
        time.sleep(moments.uniform(0.0, 0.01))
        os.kill(pid, signal.SIGKILL)
        codes.append(os.waitpid(pid, 0)[1])
    result = fit(folder + "/killed.mk")
    told = {"whole": whole.objective, "objective": result.objective}
    told |= {"gap": result.duality_gap, "resumed": bool(result.resumed)}
    print(json.dumps(told | {"terminated": os.waitstatus_to_exitcode(code), "killed": codes}))
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """What became of trainings that were ended by signals."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    folder = tmp_path_factory.mktemp("signals")
    program = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(folder)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=120)
    (said,) = done.stderr.splitlines()
    assert said.startswith("Terminated. What was reached is in the checkpoint")
    return json.loads(done.stdout) | {"folder": folder}


class TestSignals:
    def test_sigterm_writes_and_exits_with_143(self, ended):
        assert ended["terminated"] == 143
        section = read(ended["folder"] / "terminated.mk", "checkpoint")[1]["sections"]["whole"]
        assert section["ended"] == "INTERRUPTED"
        assert section["iteration"] == 5

    def test_killed_again_and_again(self, ended):
        assert signal.SIGKILL in ended["killed"]
        assert ended["resumed"]
        assert ended["gap"] <= 1e-6
        assert ended["objective"] == pytest.approx(ended["whole"], rel=2e-6)

    def test_the_old_handler_comes_back(self, file):
        handler = signal.getsignal(signal.SIGTERM)
        inside = []
        look = [lambda record: inside.append(signal.getsignal(signal.SIGTERM))]
        MKLClassifier(KERNELS, checkpoint=file, callbacks=look).fit(X, y)
        assert inside[0] is not handler
        assert signal.getsignal(signal.SIGTERM) is handler
        inside.clear()
        MKLClassifier(KERNELS, callbacks=look).fit(X, y)
        assert inside[0] is handler

    def test_not_in_a_thread(self, file):
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as pool:
            model = pool.submit(MKLClassifier(KERNELS, checkpoint=file).fit, X, y).result()
        assert model.result_.status is Status.OPTIMAL
