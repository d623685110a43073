"""Callbacks see every iteration and can end a fit; progress is for terminals."""

import copy
import io
import logging
import pickle
import sys
import threading
import warnings
from typing import ClassVar

import numpy as np
import pytest
import scipy.linalg
from scipy.linalg import cho_solve
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from conftest import toy
from manykernels import MKLClassifier, MKLOneClass, MKLRegressor, _pulse, _threads, path
from manykernels.callbacks import Announcer, Callback, EarlyStop, Log, Progress, TimeLeft
from manykernels.combinations import Product
from manykernels.kernels import RBF, Linear
from manykernels.lowrank import Nystroem
from manykernels.regularizers import L1, LogDet
from manykernels.result import Record, Status
from manykernels.solvers import SPG, Newton
from manykernels.solvers.wrappers import FromPoints

X, y = toy(60)
three = np.digitize(X[:, 0], [-0.5, 0.5])
KERNELS = [RBF(0.1), RBF(2.0), Linear(), RBF(0.5, features=[0, 1])]


class Diary(Callback):
    """Writes down what it is told; stops when a stage has come to this iteration."""

    def __init__(self, stop_at=None):
        self.stop_at, self.heard = stop_at, []

    def on_fit_begin(self, estimator):
        self.heard.append(("begin", estimator.n_features_in_))

    def on_iteration(self, estimator, record):
        self.heard.append(("iteration", record))
        return record.iteration == self.stop_at

    def on_fit_end(self, estimator, result):
        self.heard.append(("end", result))

    @property
    def records(self):
        return [what for kind, what in self.heard if kind == "iteration"]


class TestProtocol:
    @pytest.mark.parametrize(
        "model", [MKLClassifier(KERNELS), MKLRegressor(KERNELS), MKLOneClass(KERNELS)], ids=repr
    )
    def test_the_whole_fit_is_told(self, model):
        diary = Diary()
        model.set_params(callbacks=[diary]).fit(X, y)
        assert diary.heard[0] == ("begin", 4)
        assert diary.heard[-1] == ("end", model.result_)
        assert diary.records == model.result_.history

    def test_plain_functions(self):
        seen = []
        model = MKLClassifier(KERNELS, callbacks=[seen.append]).fit(X, y)
        assert seen == model.result_.history

    def test_objects_with_some_methods(self):
        class OnlyEnd:
            def on_fit_end(self, estimator, result):
                self.result = result

        only = OnlyEnd()
        model = MKLClassifier(KERNELS, callbacks=[only]).fit(X, y)
        assert only.result is model.result_

    def test_a_failed_fit_is_told(self):
        diary = Diary()
        with pytest.raises(ZeroDivisionError):
            MKLClassifier(KERNELS, callbacks=[diary, lambda record: 1 / 0]).fit(X, y)
        assert diary.heard[-1] == ("end", None)

    def test_outputs_and_starts_are_named(self):
        diary = Diary()
        MKLClassifier(KERNELS, share_weights=False, callbacks=[diary]).fit(X, three)
        assert {record.stage for record in diary.records} == {"0", "1", "2"}
        diary = Diary()
        product = MKLClassifier(
            combination=Product(starts=2), regularizer=L1(), random_state=0, callbacks=[diary]
        )
        product.fit(X, y)
        assert {record.stage for record in diary.records} == {"start 1 of 2", "start 2 of 2"}

    def test_a_sample_is_seen(self):
        diary = Diary()
        solver = FromPoints(SPG(), lambda problem: Newton(), size=30)
        MKLClassifier(KERNELS, solver=solver, callbacks=[diary]).fit(X, y)
        assert diary.records[0].stage == "sample of 30 points"
        assert diary.records[-1].stage == ""

    def test_a_path_is_told_of_every_model(self):
        diary = Diary()
        models = path(MKLClassifier(KERNELS, callbacks=[diary]), X, y, C=[0.1, 1.0, 10.0])
        assert [what for kind, what in diary.heard if kind == "end"] == [
            model.result_ for model in models
        ]

    def test_estimators_with_callbacks_are_cloned_and_pickled(self):
        model = MKLClassifier(
            KERNELS, callbacks=[EarlyStop(seconds=60), Log(), Progress(), Diary()], verbose=1
        ).fit(X, y)
        for other in (clone(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert other.fit(X, y).result_.objective == model.result_.objective


class TestStopping:
    def test_keeps_the_best_and_does_not_warn(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = MKLClassifier(
                KERNELS, tol=1e-9, C=10.0, solver="spg", callbacks=[Diary(stop_at=3)]
            ).fit(X, y)
        result = model.result_
        assert result.status is Status.STOPPED
        assert not result.status.converged
        assert "Stopped by a callback" in result.status.value
        assert result.n_iter == 3
        assert result.certificate.absolute_gap <= min(
            r.gap * r.objective for r in result.history
        ) * (1 + 1e-9)
        assert model.score(X, y) > 0.6

    def test_an_optimum_at_the_same_moment_counts(self):
        last = MKLClassifier(KERNELS).fit(X, y).result_.n_iter
        assert (
            MKLClassifier(KERNELS, callbacks=[Diary(stop_at=last)]).fit(X, y).result_.status
            is Status.OPTIMAL
        )

    def test_truthy_answers_of_functions_do_not_stop(self):
        assert (
            MKLClassifier(KERNELS, callbacks=[lambda record: "done"]).fit(X, y).result_.status
            is Status.OPTIMAL
        )
        stopped = MKLClassifier(KERNELS, callbacks=[lambda record: np.bool_(True)]).fit(X, y)
        assert stopped.result_.status is Status.STOPPED

    def test_every_output_and_start_ends(self):
        model = MKLClassifier(KERNELS, share_weights=False, tol=1e-9, callbacks=[Diary(stop_at=2)])
        model.fit(X, three)
        assert model.result_.status is Status.STOPPED
        assert model.predict(X).shape == (60,)
        combination = Product(starts=3)
        model = MKLClassifier(
            combination=combination, regularizer=L1(), random_state=0, callbacks=[Diary(stop_at=2)]
        ).fit(X, y)
        assert model.result_.status is Status.STOPPED
        assert model.other_results_ == []

    def test_in_the_sample(self):
        solver = FromPoints(SPG(), lambda problem: SPG(), size=30)
        model = MKLClassifier(KERNELS, solver=solver, callbacks=[Diary(stop_at=1)], C=10.0).fit(
            X, y
        )
        assert model.result_.status is Status.STOPPED
        assert model.result_.n_iter == 0
        assert np.isfinite(model.result_.duality_gap)

    def test_a_path_ends(self):
        models = path(
            MKLClassifier(KERNELS, tol=1e-9, callbacks=[Diary(stop_at=1)]), X, y, C=[0.1, 1.0, 10.0]
        )
        assert len(models) == 1


class TestEarlyStop:
    @pytest.mark.parametrize("name", ["seconds", "patience", "decrease"])
    @pytest.mark.parametrize("value", [np.nan, -1, "60"])
    def test_no_number_of_at_least_zero(self, name, value):
        with pytest.raises(ValueError, match=f"{name} must be a number of at least 0, got"):
            EarlyStop(**{name: value})

    def test_seconds(self):
        assert (
            MKLClassifier(KERNELS, callbacks=[EarlyStop(seconds=0.0)]).fit(X, y).result_.n_iter == 0
        )
        assert (
            MKLClassifier(KERNELS, callbacks=[EarlyStop(seconds=1e6)]).fit(X, y).result_.status
            is Status.OPTIMAL
        )

    def test_patience(self):
        stop = EarlyStop(patience=3, decrease=0.1)
        stop.on_fit_begin(None)
        gaps = [1.0, 0.5, 0.49, 0.48, 0.3, 0.29, 0.28, 0.28]
        answers = [
            stop.on_iteration(None, Record(i, 1.0, gap, 0, 0, 0.0)) for i, gap in enumerate(gaps)
        ]
        assert answers == [False] * 7 + [True]
        assert stop.on_iteration(None, Record(0, 1.0, 5.0, 0, 0, 0.0, "another output")) is False

    def test_patience_without_a_gap(self):
        stop = EarlyStop(patience=2)
        stop.on_fit_begin(None)
        values = [10.0, 9.0, 8.99, 8.98]
        answers = [
            stop.on_iteration(None, Record(i, value, np.inf, 0, 0, 0.0))
            for i, value in enumerate(values)
        ]
        assert answers == [False, False, False, True]


def test_log(caplog):
    with caplog.at_level(logging.INFO, logger="manykernels"):
        model = MKLClassifier(KERNELS, callbacks=[Log()]).fit(X, y)
    told = [text for text in caplog.messages if text.startswith("iteration")]
    assert len(told) == len(model.result_.history)
    assert all("gap" in text for text in told)
    assert ["OPTIMAL" in text for text in caplog.messages[-2:]] == [False, True]  # once


def test_log_elsewhere(caplog):
    with caplog.at_level(logging.INFO, logger="mine"):
        MKLClassifier(KERNELS, callbacks=[Log("mine")]).fit(X, y)
    said = [text for name, _, text in caplog.record_tuples if name == "mine"]
    assert "OPTIMAL" in said[-1]


class Terminal(io.StringIO):
    def isatty(self):
        return True


class TestProgress:
    def test_quiet_where_there_is_no_terminal(self, capsys):
        MKLClassifier(KERNELS, verbose=1).fit(X, y)
        captured = capsys.readouterr()
        assert captured.out == captured.err == ""

    def test_a_line_on_a_terminal(self, monkeypatch, capsys):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setitem(sys.modules, "rich.console", None)
        MKLClassifier(KERNELS, verbose=1, solver="spg", C=10.0, tol=1e-6).fit(X, y)
        text = terminal.getvalue()
        assert text.count("\r") > 3
        assert text.count("\n") == 2  # the plan, and the last of the line
        assert " s + " in text  # what it took, and what is left
        assert "kernels" in text
        assert capsys.readouterr().out == ""

    def test_a_bar_with_rich(self, monkeypatch):
        pytest.importorskip("rich")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "160")
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        MKLClassifier(KERNELS, verbose=1, C=10.0).fit(X, y)
        assert "━" in terminal.getvalue()
        assert terminal.getvalue().rstrip().endswith("\x1b[?25h")  # the cursor is back

    def test_the_line_ends_when_the_fit_fails(self, monkeypatch):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setitem(sys.modules, "rich.console", None)

        def fail(record):
            if record.iteration == 1:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            MKLClassifier(KERNELS, verbose=1, callbacks=[fail]).fit(X, y)
        assert terminal.getvalue().endswith("\n")

    def test_time_left(self):
        left = TimeLeft(1e-4)
        assert left.after(Record(0, 1.0, 1.0, 0, 0, 0.0)) is None
        # two seconds for each power of ten
        assert left.after(Record(1, 1.0, 0.1, 0, 0, 2.0)) == pytest.approx(6.0)
        assert left.after(Record(2, 1.0, 0.01, 0, 0, 4.0)) == pytest.approx(4.0)
        assert left.after(Record(3, 1.0, 1e-5, 0, 0, 5.0)) == 0.0
        assert TimeLeft(1e-4).after(Record(0, 1.0, np.inf, 0, 0, 0.0)) is None


class TestScikitLearn:
    """The callbacks of scikit-learn itself, where it has them."""

    @pytest.fixture
    def callback(self):
        return pytest.importorskip(
            "sklearn.callback", reason="scikit-learn has callbacks from 1.9 on"
        )

    class Recorder:
        """Follows the protocol, and stops at an iteration."""

        def __init__(self, stop_at=None):
            self.heard, self.scores, self.stop_at = [], [], stop_at

        def setup(self, estimator, context):
            self.heard.append("setup")

        def teardown(self, estimator, context):
            self.heard.append("teardown")

        def on_fit_task_begin(self, estimator, context):
            self.heard.append(f"begin {context.task_name}")

        def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
            self.heard.append(f"end {context.task_name}")
            if fitted_estimator is not None:
                self.scores.append(fitted_estimator.score(X, y))
            return context.task_name == "iteration" and context.task_id == self.stop_at

    def test_every_iteration_is_a_task(self, callback):
        recorder = self.Recorder()
        model = MKLClassifier(KERNELS).set_callbacks(recorder).fit(X, y)
        steps = ["begin iteration", "end iteration"] * len(model.result_.history)
        assert recorder.heard == ["setup", "begin fit", *steps, "end fit", "teardown"]
        assert recorder.scores[-1] == model.score(X, y)
        assert len(recorder.scores) == len(model.result_.history) + 1

    def test_stops(self, callback):
        model = MKLClassifier(KERNELS, tol=1e-9).set_callbacks(self.Recorder(stop_at=2)).fit(X, y)
        assert model.result_.status is Status.STOPPED
        assert model.result_.n_iter == 2

    def test_is_torn_down_after_an_error(self, callback):
        recorder = self.Recorder()
        with pytest.raises(ZeroDivisionError):
            MKLClassifier(KERNELS, callbacks=[lambda record: 1 / 0]).set_callbacks(recorder).fit(
                X, y
            )
        assert recorder.heard[-1] == "teardown"

    def test_scores_of_low_rank_models(self, callback):
        recorder = self.Recorder()
        model = MKLClassifier(KERNELS, approximation=Nystroem(20)).set_callbacks(recorder).fit(X, y)
        assert recorder.scores[-1] == model.score(X, y)

    def test_inside_a_search(self, callback):
        from sklearn.model_selection import GridSearchCV

        monitor = callback.ScoringMonitor(scoring="accuracy")
        model = MKLClassifier(KERNELS).set_callbacks(monitor)
        GridSearchCV(model, {"C": [0.1, 1.0]}, cv=2).fit(X, y)
        assert len(monitor.get_logs(select="all")) >= 1


class Impatient(Callback):
    """Ends a fit at one of the first ticks."""

    def __init__(self, ticks=1):
        self.left = ticks

    def on_tick(self, estimator):
        self.left -= 1
        return self.left <= 0


class TestInsideAnIteration:
    """Callbacks are heard, and Ctrl-C is, while one SVM takes long."""

    FITS: ClassVar = {
        "one SVM": MKLClassifier(KERNELS, p=np.inf),
        "logistic": MKLClassifier(KERNELS, p=np.inf, loss="logistic"),
        "log-det": MKLClassifier(KERNELS, regularizer=LogDet()),
        "MWUMKL": MKLClassifier(KERNELS, solver="mwu", tol=1e-2),
        "SMO-MKL": MKLClassifier(KERNELS, solver="smo", p=2),
        "low rank": MKLClassifier(KERNELS, approximation=Nystroem(10)),
        "low rank, logistic": MKLClassifier(
            KERNELS, approximation=Nystroem(10), loss="logistic", p=2, solver="spg"
        ),
        "rows on demand": MKLClassifier(KERNELS, cache_size=0.01, solver="spg"),
        "squared": MKLRegressor(KERNELS, loss="squared", p=np.inf),
        "product": MKLClassifier(combination="product"),
    }

    @pytest.fixture(autouse=True)
    def quick_pulse(self, monkeypatch):
        monkeypatch.setattr(_pulse, "PULSE_INTERVAL", 0.0)
        monkeypatch.setattr(_threads, "LARGEST_CALL", 20)

    @pytest.mark.parametrize("name", FITS)
    def test_a_tick_ends_the_fit(self, name):
        model = clone(self.FITS[name]).set_params(callbacks=[Impatient()]).fit(X, y)
        assert model.result_.status is Status.STOPPED
        assert len(model.result_.history) <= 1
        assert np.isfinite(model.predict(X)).all()

    @pytest.mark.parametrize("name", FITS)
    def test_an_interrupt_at_a_tick_keeps_the_model(self, name):
        def interrupt(estimator):
            raise KeyboardInterrupt

        callback = Callback()
        callback.on_tick = interrupt
        with pytest.warns(ConvergenceWarning, match="Interrupted"):
            model = clone(self.FITS[name]).set_params(callbacks=[callback]).fit(X, y)
        assert np.isfinite(model.predict(X)).all()

    def test_other_outputs_get_their_svm(self):
        model = MKLClassifier(KERNELS, share_weights=False, callbacks=[Impatient()]).fit(X, three)
        assert model.result_.status is Status.STOPPED
        assert (np.abs(model.result_.beta[1:]).sum(axis=1) > 0.0).all()

    def test_a_fit_inside_of_a_callback_is_not_stopped(self):
        """A stop that is asked for while a callback trains a model is for the fit outside."""

        class Nesting(Callback):
            def __init__(self):
                self.ticks, self.inner = 0, []

            def on_iteration(self, estimator, record):
                self.inner.append(MKLClassifier(KERNELS).fit(X, y).result_.status)

            def on_tick(self, estimator):
                self.ticks += 1
                return bool(self.inner)

        nesting = Nesting()
        model = MKLClassifier(KERNELS, tol=1e-6, callbacks=[nesting]).fit(X, y)
        assert model.result_.status is Status.STOPPED
        assert set(nesting.inner) == {Status.OPTIMAL}

    def test_nobody_is_asked_who_does_not_want_to(self):
        assert Announcer(MKLClassifier(callbacks=[Diary(), print])).poll is None

    def test_seconds_are_looked_at_inside(self):
        stop = EarlyStop(seconds=0.0)
        stop.on_fit_begin(None)
        assert stop.on_tick(None)
        assert not EarlyStop(patience=3).on_tick(None)


def test_factorization_beside_a_pulse(monkeypatch):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((70, 90))
    H, right = A @ A.T, rng.standard_normal((70, 2))
    monkeypatch.setattr(_threads, "LARGEST_CALL", 20)
    for order in "CF":
        found = cho_solve(_threads.cholesky_factor(H.copy(order=order)), right)
        np.testing.assert_allclose(found, np.linalg.solve(H, right), rtol=1e-9)
    with pytest.raises(np.linalg.LinAlgError):
        _threads.cholesky_factor(H - 200.0 * np.eye(70))


def test_a_long_factorization_is_left_to_itself(monkeypatch):
    """One that would not end in hours."""
    going = threading.Event()

    def endless(*_, **__):
        going.wait(3600.0)

    def stop():
        raise KeyboardInterrupt

    monkeypatch.setattr(_threads, "LARGEST_CALL", 1)
    monkeypatch.setattr(scipy.linalg, "cho_factor", endless)
    monkeypatch.setattr(_pulse, "PULSE_INTERVAL", 0.0)
    with _pulse.listening(stop), pytest.raises(KeyboardInterrupt):
        _threads.cholesky_factor(np.eye(2))
    going.set()
