"""The estimators on a cluster of two workers on this machine: the same answers as on one machine,
whatever happens to a worker.
"""

import pickle
import subprocess
import sys
import time
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris

pytest.importorskip("distributed")

import dask.array as da
import dask.dataframe as dd
from distributed import Client, LocalCluster, Status, get_worker
from distributed.comm import CommClosedError

import manykernels as mk
from manykernels import dask as mkd
from manykernels.banks import FactorBank, make_bank
from manykernels.dask import cluster as cluster_module
from manykernels.dask.cluster import Cluster
from manykernels.dask.estimators import choose_cut, factor_columns
from manykernels.dask.kernels import KernelsBank
from manykernels.dask.parts import Parts
from manykernels.kernels import RBF, KernelCollection, Linear, Precomputed
from manykernels.lowrank import IncompleteCholesky, Nystroem, RandomFourier
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.solvers import choose_solver, solve
from manykernels.testing import check_bank

KERNELS = [RBF(gamma=0.05), RBF(gamma=0.3), Linear(), *(RBF(features=[f]) for f in range(4))]
SETTINGS = {
    "threads_per_worker": 1,
    "dashboard_address": None,
    "host": "127.0.0.1",
    "memory_limit": 0,
}


@pytest.fixture(scope="module")
def client():
    with LocalCluster(n_workers=2, **SETTINGS) as cluster, Client(cluster) as client:
        yield client


# Each norm and each loss once; the others are long.
USUAL = {(1.0, "hinge"), (1.33, "squared_hinge"), (2.0, "logistic")}
NORMS_AND_LOSSES = [
    pytest.param(*one, marks=[] if one in USUAL else [pytest.mark.long])
    for one in product([1.0, 1.33, 2.0], ["hinge", "squared_hinge", "logistic"])
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 6))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.standard_normal(150) > 0.8, "yes", "no")
    return X, y


class TestByKernels:
    @pytest.mark.parametrize(("p", "loss"), NORMS_AND_LOSSES)
    def test_same_optimum(self, client, data, p, loss):
        there = mkd.MKLClassifier(KERNELS, p=p, loss=loss).fit(*data)
        here = mk.MKLClassifier(KERNELS, p=p, loss=loss).fit(*data)
        assert there.result_.status.converged
        assert there.result_.objective == pytest.approx(here.result_.objective, rel=1e-3)

    def test_several_classes(self, client):
        X, y = load_iris(return_X_y=True)
        there, here = (
            kind(KERNELS, p=1.33).fit(X, y) for kind in (mkd.MKLClassifier, mk.MKLClassifier)
        )
        assert there.result_.objective == pytest.approx(here.result_.objective, rel=1e-3)
        assert there.score(X, y) == here.score(X, y)

    @pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared"])
    def test_regression(self, client, data, loss):
        X = data[0]
        there, here = (
            kind(KERNELS, p=2.0, loss=loss).fit(X, X[:, 0])
            for kind in (mkd.MKLRegressor, mk.MKLRegressor)
        )
        assert there.result_.objective == pytest.approx(here.result_.objective, rel=1e-3)

    @pytest.mark.parametrize(
        "solver", ["spg", "smo", "group_lasso", pytest.param("mwu", marks=pytest.mark.long)]
    )
    def test_solvers(self, client, data, solver):
        p, tol = (1.0, 0.2) if solver == "mwu" else (1.33, 1e-2)
        there = mkd.MKLClassifier(KERNELS, p=p, C=0.3, solver=solver, tol=tol).fit(*data)
        here = mk.MKLClassifier(KERNELS, p=p, C=0.3).fit(*data)
        assert there.result_.status.converged
        assert there.result_.objective <= here.result_.objective / (1.0 - tol)

    def test_bank(self, client, data):
        bank = make_bank(KernelCollection(KERNELS), data[0][:40])
        check_bank(KernelsBank(bank, Cluster(client, 60.0), 3))

    def test_matrices_of_the_user(self, client, data):
        X, y = data
        grams = [X @ X.T, np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=2))]
        rows = np.arange(len(X))[:, None]
        there, here = (
            kind([Precomputed(K) for K in grams]).fit(rows, y)
            for kind in (mkd.MKLClassifier, mk.MKLClassifier)
        )
        assert there.result_.objective == pytest.approx(here.result_.objective, rel=1e-3)

    def test_grid(self, client, data):
        given = {"kernels": KERNELS, "Cs": [0.1, 1.0], "ps": [1.0, 2.0], "cv": 3}
        there = mkd.MKLClassifierCV(**given).fit(*data)
        here = mk.MKLClassifierCV(**given).fit(*data)
        np.testing.assert_allclose(there.scores_, here.scores_, atol=0.03)
        chances = there.predict_proba(data[0])
        assert chances.shape == (150, 2)
        np.testing.assert_array_equal(
            there.predict(data[0]), there.classes_[chances.argmax(axis=1)]
        )


@pytest.fixture(scope="module")
def made(client, data):
    """Factors by points on the cluster, and the same on one machine."""
    estimator = mkd.MKLClassifier(KERNELS, approximation=Nystroem(15, random_state=0))
    prepared = estimator._data(*data, None)
    features = prepared.bank.features
    bank = FactorBank(features.transform(data[0]), features.offsets, features)
    return prepared, bank


class TestByPoints:
    @pytest.mark.parametrize(("p", "loss"), NORMS_AND_LOSSES)
    def test_same_optimum(self, made, p, loss):
        prepared, bank = made
        loss = mk.MKLClassifier(loss=loss)._loss()
        aims = prepared.targets, prepared.cost, PNormBall(p), loss
        there, here = (
            solve(problem, choose_solver("auto", _run(problem)), tol=1e-3)
            for problem in (Problem(prepared.bank, *aims), Problem(bank, *aims))
        )
        assert there.status.converged
        assert there.objective == pytest.approx(here.objective, rel=1e-3)
        judged = Problem(bank, *aims).certificate(there.weights, there.beta)
        assert judged.gap <= 1.01e-3

    def test_bank(self, made):
        check_bank(made[0].bank)

    @pytest.mark.parametrize(
        "approximation",
        [
            Nystroem(15, random_state=3),
            pytest.param(Nystroem(15, "kmeans", random_state=3), marks=pytest.mark.long),
            pytest.param(Nystroem(15, "leverage", random_state=3), marks=pytest.mark.long),
            RandomFourier(15, random_state=3),
            pytest.param(IncompleteCholesky(15), marks=pytest.mark.long),
        ],
        ids=["uniform", "kmeans", "leverage", "frequencies", "pivots"],
    )
    def test_landmarks_of_one_machine(self, client, data, approximation):
        """Of the same statement: with rows that come twice, and rows without weight."""
        X, y = (np.concatenate([of, of[:20]]) for of in data)
        weight = np.where(np.arange(170) % 7 == 0, 0.0, 1.0 + np.arange(170) % 3)
        kernels = KERNELS[:2] if isinstance(approximation, RandomFourier) else KERNELS
        given = {"loss": "squared_hinge", "tol": 1e-6, "approximation": approximation}
        there = mkd.MKLClassifier(kernels, cut="points", **given).fit(X, y, weight)
        here = mk.MKLClassifier(kernels, **given).fit(X, y, weight)
        assert there.result_.objective == pytest.approx(here.result_.objective, rel=3e-6)
        np.testing.assert_allclose(there.decision_function(X), here.decision_function(X), atol=1e-2)
        found, expected = (vars(model.decision_.bank) for model in (there, here))
        name = "frequencies" if isinstance(approximation, RandomFourier) else "landmarks"
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)

    def test_several_classes(self, client):
        X, y = load_iris(return_X_y=True)
        model = mkd.MKLClassifier(
            [RBF(gamma=0.1), RBF(gamma=1.0)],
            loss="squared_hinge",
            approximation=Nystroem(20, random_state=0),
        ).fit(X, y)
        assert model.result_.status.converged
        assert model.score(X, y) > 0.95

    @pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared"])
    def test_regression(self, client, data, loss):
        X = data[0]
        given = {"p": 1.33, "loss": loss, "approximation": Nystroem(15, random_state=0)}
        model = mkd.MKLRegressor(KERNELS, **given).fit(X, X[:, :2])
        assert model.result_.status.converged
        assert model.score(X, X[:, :2]) > 0.9

    def test_grid(self, client, data):
        given = {"Cs": [0.1, 1.0], "ps": [1.33], "cv": 2, "loss": "squared_hinge"}
        model = mkd.MKLClassifierCV(
            KERNELS, **given, approximation=Nystroem(10, random_state=0)
        ).fit(*data)
        assert model.scores_.shape == (2, 2, 1)
        assert model.score(*data) > 0.8

    def test_multiplicative_weights(self, made):
        prepared, bank = made
        loss = mk.MKLClassifier(loss="squared_hinge")._loss()
        aims = prepared.targets, prepared.cost, PNormBall(1.0), loss
        there = solve(Problem(prepared.bank, *aims), choose_solver("mwu"), tol=0.1)
        assert there.status.converged
        assert Problem(bank, *aims).certificate(there.weights, there.beta).gap <= 0.1

    @pytest.mark.parametrize(
        "kind",
        [
            "array",
            "frame",
            pytest.param("parquet", marks=pytest.mark.long),
            pytest.param("zarr", marks=pytest.mark.long),
        ],
    )
    def test_tables_of_dask(self, client, data, kind, tmp_path):
        X, y = data
        names = [f"c{f}" for f in range(X.shape[1])]
        frame = dd.from_pandas(pd.DataFrame(X, columns=names).assign(label=y), npartitions=5)
        if kind == "array":
            table, target = da.from_array(X, chunks=(40, 3)), da.from_array(y, chunks=40)
        elif kind == "frame":
            table, target = frame.drop(columns=["label"]), frame["label"]
        elif kind == "parquet":
            frame.to_parquet(tmp_path / "t.parquet")
            table, target = str(tmp_path / "t.parquet"), "label"
        else:
            pytest.importorskip("zarr")
            da.from_array(X, chunks=(40, 3)).to_zarr(str(tmp_path / "t.zarr"))
            table, target = tmp_path / "t.zarr", y
        model = mkd.MKLClassifier(
            KERNELS, loss="squared_hinge", approximation=Nystroem(15, random_state=0)
        ).fit(table, target)
        assert model.result_.status.converged
        again = mkd.MKLClassifier(
            KERNELS, loss="squared_hinge", approximation=Nystroem(15, random_state=0)
        ).fit(X, y)
        assert model.result_.objective == pytest.approx(again.result_.objective, rel=1e-3)
        if kind in ("frame", "parquet"):
            assert list(model.feature_names_in_) == names

    def test_units_of_kernels_that_are_made(self, client, data):
        X, y = data
        model = mkd.MKLClassifier(
            loss="squared_hinge", approximation=Nystroem(10, random_state=0)
        ).fit(1000.0 * X + 5.0, y)
        assert model.score(1000.0 * X + 5.0, y) > 0.85


def _run(problem):
    from manykernels.run_state import RunState

    return RunState(problem)


class TestModels:
    def test_ordinary_without_a_cluster(self, client, data, tmp_path):
        model = mkd.MKLClassifier(KERNELS).fit(*data)
        plain = model.ordinary()
        assert type(plain) is mk.MKLClassifier
        np.testing.assert_array_equal(plain.predict(data[0]), model.predict(data[0]))
        mk.save(model, tmp_path / "model.mk")
        again = mk.load(tmp_path / "model.mk")
        assert type(again) is mk.MKLClassifier
        np.testing.assert_allclose(
            again.decision_function(data[0]), model.decision_function(data[0])
        )

    def test_by_points_without_a_cluster(self, client, data, tmp_path):
        given = {"loss": "squared_hinge", "approximation": Nystroem(15, random_state=0)}
        model = mkd.MKLClassifier(KERNELS, **given).fit(*data)
        mk.save(model, tmp_path / "model.mk")
        again = pickle.loads(pickle.dumps(model))
        for other in (model.ordinary(), mk.load(tmp_path / "model.mk"), again):
            np.testing.assert_allclose(
                other.decision_function(data[0]), model.decision_function(data[0])
            )

    def test_a_sample_of_the_rows(self, client, data, monkeypatch):
        monkeypatch.setattr("manykernels.dask.rows.SAMPLE", 60)
        frame = pd.DataFrame(data[0])  # whose columns are numbers
        given = {"loss": "squared_hinge", "approximation": Nystroem(15, random_state=0)}
        model = mkd.MKLClassifier(KERNELS, **given).fit(dd.from_pandas(frame, 4), data[1])
        assert model.result_.status.converged
        assert model.score(frame, data[1]) > 0.8

    def test_copies(self, client, data):
        model = mkd.MKLClassifier(KERNELS, client=client).fit(*data)
        twin = clone(model)
        assert twin.client is client
        assert not hasattr(twin, "result_")
        again = pickle.loads(pickle.dumps(model))
        assert again.client is None
        np.testing.assert_array_equal(again.predict(data[0]), model.predict(data[0]))

    def test_parameters(self):
        own = set(mkd.MKLClassifier._get_param_names()) - set(mk.MKLClassifier._get_param_names())
        assert own == {"client", "cut", "parts", "timeout"}
        assert "parts : int" in mkd.MKLClassifier.__doc__

    def test_what_does_not_go(self, client, data):
        X, y = data
        with pytest.raises(ValueError, match="low-rank"):
            mkd.MKLClassifier(KERNELS, cut="points").fit(X, y)
        with pytest.raises(ValueError, match="cut='rows' is not known"):
            mkd.MKLClassifier(KERNELS, cut="rows").fit(X, y)
        holes = X.copy()
        holes[140, 2] = np.nan
        model = mkd.MKLClassifier(KERNELS, approximation=Nystroem(5))
        with pytest.raises(ValueError, match="NaN"):
            model.fit(holes, y)
        with pytest.raises(ValueError, match="neither Parquet"):
            model.fit("table.csv", y)

    def test_rule_of_the_cut(self, client, data, monkeypatch):
        """By points, unless there are more columns than points and memory for matrices of these."""
        X, y = data
        few, many = Nystroem(10, random_state=0), Nystroem(60, random_state=0)
        for approximation, cut in ((None, "kernels"), (few, "points"), (many, "kernels")):
            model = mkd.MKLClassifier(KERNELS, approximation=approximation, loss="squared_hinge")
            assert model.fit(X, y).cut_ == cut
            assert model.result_.status.converged
        monkeypatch.setattr(Cluster, "memory", 4e5)
        assert choose_cut(150, 420, Cluster(client, 60.0)) == "points"
        assert factor_columns(many, "auto", 150, 6) == 60 * len(
            mk.MKLClassifier().fit(X, y).kernel_names_
        )

    def test_client_that_is_not_the_current_one(self, client, data, monkeypatch):
        monkeypatch.setattr("distributed.client._global_clients", {})
        address = client.scheduler.address
        assert mkd.MKLClassifier(KERNELS, client=address).fit(*data).result_.status.converged

    def test_workers_out_of_reach(self, client, data, monkeypatch):
        """Answers come by way of the scheduler."""
        nobody = "tcp://127.0.0.1:1"
        assert not client.sync(cluster_module._reached, client, nobody)
        monkeypatch.setitem(cluster_module._REACHES, client, False)
        assert mkd.MKLClassifier(KERNELS).fit(*data).result_.status.converged

    def test_no_client(self, monkeypatch):
        monkeypatch.setattr("manykernels.dask.cluster.get_client", _no_client)
        with pytest.raises(mkd.ClusterError, match="no Dask client"):
            Cluster.of(None, 1.0)


def _no_client():
    raise ValueError("No global client found")


class Processes:
    """A scheduler and workers, each in a process of its own, which may be killed."""

    def __init__(self, folder, workers):
        self.file, self.all = folder / "scheduler.json", []
        self.scheduler = self.start("scheduler", "--host", "127.0.0.1", "--port", "0")
        self.workers = [self.start_worker() for _ in range(workers)]

    def start(self, what, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *options]
        command += ["--scheduler-file", str(self.file), "--no-dashboard"]
        self.all.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        return self.all[-1]

    def start_worker(self):
        one = "--nthreads", "1", "--memory-limit", "0", "--no-nanny", "--host", "127.0.0.1"
        return self.start("worker", *one, "--local-directory", str(self.file.parent))

    def close(self):
        for process in reversed(self.all):
            process.kill()
            process.wait()


@pytest.fixture
def processes(tmp_path):
    cluster = Processes(tmp_path, 2)
    yield cluster
    cluster.close()


WAYS = {
    "kernels": {"p": 1.33, "tol": 1e-6},
    "points": {
        "loss": "squared_hinge",
        "tol": 1e-6,
        "approximation": Nystroem(15, random_state=0),
    },
    "mwu": {"p": 1.0, "solver": "mwu", "tol": 0.2},
}


class TestFaults:
    @pytest.mark.long
    def test_workers_come_and_go(self, data, processes):
        """Killed in the middle of a fit, retired, and new ones: every fit ends at its tolerance."""
        with Client(scheduler_file=str(processes.file)) as client:
            client.wait_for_workers(2, timeout=60)
            for number, given in enumerate(WAYS.values()):
                model = mkd.MKLClassifier(KERNELS, **given, client=client)
                victim = processes.workers[number]
                model.callbacks = [AtTheSecond(victim.kill)]
                processes.workers.append(processes.start_worker())
                model.fit(*data)
                assert model.callbacks[0].done
                assert victim.wait(timeout=10) != 0
                assert model.result_.status.converged
                assert model.result_.duality_gap <= model.tol
            model = mkd.MKLClassifier(KERNELS, **WAYS["kernels"], client=client)
            model.callbacks = [AtTheSecond(lambda: client.retire_workers(n=1))]
            assert model.fit(*data).result_.status.converged
            assert model.callbacks[0].done

    def test_a_worker_is_lost_while_plugins_are_registered(self, client, data, monkeypatch):
        """As seen from the client: the call fails, and the scheduler is there."""
        calls = []

        def fails(plugin):
            calls.append(plugin)
            raise CommClosedError("in <TCP (closed) Scheduler Broadcast>")

        monkeypatch.delitem(cluster_module._REACHES, client, raising=False)
        monkeypatch.setattr(client, "register_plugin", fails)
        assert mkd.MKLClassifier(KERNELS, client=client).fit(*data).result_.status.converged
        assert len(calls) == 1

    @pytest.mark.parametrize("moment", ["before", "while plugins are registered", "in a fit"])
    def test_a_client_that_is_closed(self, client, data, monkeypatch, moment):
        other = Client(client.scheduler.address, set_as_default=False)
        model = mkd.MKLClassifier(KERNELS, client=other)
        if moment == "before":
            other.close()
        elif moment == "in a fit":
            model.set_params(callbacks=[AtTheSecond(other.close)], tol=1e-7)
        else:
            register = other.register_plugin

            def closed(plugin):
                other.close()
                return register(plugin)

            monkeypatch.setattr(other, "register_plugin", closed)
        with pytest.raises(mkd.ClusterError, match="client is closed"):
            model.fit(*data)

    def test_a_scheduler_that_is_gone_while_plugins_are_registered(self, client, monkeypatch):
        def lost(*of, **options):
            raise CommClosedError("in <TCP (closed) Client->Scheduler>")

        monkeypatch.delitem(cluster_module._REACHES, client, raising=False)
        monkeypatch.setattr(client, "register_plugin", lost)
        monkeypatch.setattr(client, "sync", lost)
        with pytest.raises(mkd.ClusterError, match="is gone"):
            Cluster(client, 60.0)

    @pytest.mark.long
    def test_a_worker_is_paused(self, client, data):
        """As one whose memory is full: it takes no new tasks, and keeps what it has."""
        paused = next(iter(client.scheduler_info()["workers"]))
        model = mkd.MKLClassifier(KERNELS, **WAYS["kernels"], timeout=60.0)
        model.callbacks = [AtTheSecond(lambda: client.run(_set, "paused", workers=[paused]))]
        try:
            assert model.fit(*data).result_.status.converged
        finally:
            client.run(_set, "running", workers=[paused])
        assert model.callbacks[0].done

    @pytest.mark.long  # a minute is not enough on a machine that is slow by itself
    def test_tasks_of_a_paused_worker(self, client, monkeypatch):
        """Those that it was given before are given to others."""
        monkeypatch.setattr(cluster_module, "PULSE", 0.2)
        monkeypatch.setattr(cluster_module, "PAUSE", 0.5)
        paused = next(iter(client.scheduler_info()["workers"]))
        parts = Parts(
            Cluster(client, 60.0), "numbers", float, [(k,) for k in range(8)], spread=True
        )
        try:
            assert parts.ask(_pause, paused) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
        finally:
            client.run(_set, "running", workers=[paused])

    @pytest.mark.long
    def test_the_scheduler_is_killed(self, data, processes, tmp_path):
        given = {"kernels": KERNELS, "p": 1.33, "tol": 1e-7, "checkpoint": tmp_path / "fit.ckpt"}
        client = Client(scheduler_file=str(processes.file))
        client.wait_for_workers(1, timeout=60)
        model = mkd.MKLClassifier(**given, client=client)
        model.callbacks = [AtTheSecond(processes.scheduler.kill)]
        began = time.monotonic()
        with pytest.raises(mkd.ClusterError, match="is gone"):
            model.fit(*data)
        assert time.monotonic() - began < 60.0
        client.close()
        assert mk.MKLClassifier(**given).fit(*data).result_.resumed is not None

    def test_no_answer(self, client):
        cluster = Cluster(client, 1.0)
        parts = Parts(cluster, "sleeping", time.sleep, [(0.0,)])
        with pytest.raises(mkd.ClusterError, match="No part has answered"):
            parts.ask(_sleep, 7.0)

    def test_memory(self, client, data, monkeypatch):
        monkeypatch.setattr(Cluster, "memory", 3e6)
        X, y = np.tile(data[0], (40, 1)), np.tile(data[1], 40)
        model = mkd.MKLClassifier(KERNELS, approximation=Nystroem(15, random_state=0), parts=2)
        with pytest.raises(mkd.ClusterError, match=r"use workers of at least .* or give parts="):
            model.fit(X, y)
        monkeypatch.setattr(Cluster, "memory", 3e5)
        with pytest.raises(mkd.ClusterError, match="give fewer points or an approximation"):
            mkd.MKLClassifier(KERNELS).fit(X[:150] + np.arange(150.0)[:, None], y[:150])
        with pytest.warns(UserWarning, match="use 4 workers"):
            Cluster(client, 60.0).check_room(1.0, 6e5, "A part", "wait")

    def test_errors_of_tasks_are_their_own(self, client):
        parts = Parts(Cluster(client, 60.0), "opening", open, [("/no/such/file",)])
        with pytest.raises(FileNotFoundError):
            parts.ask(_sleep, 0.0)

    def test_progress_of_others_counts(self, client):
        """Parts that are made one after the other, each within the time."""
        parts = Parts(Cluster(client, 2.0), "slow", time.sleep, [(0.6,)] * 12)
        assert parts.total(_nothing) == 0.0


def _set(status, dask_worker):
    dask_worker.status = Status[status]


def _pause(part, address):
    worker = get_worker()
    if worker.address == address:
        worker.loop.add_callback(_set, "paused", worker)
        time.sleep(0.2)
    return part


def _nothing(part):
    return 0.0


def _sleep(part, seconds):
    time.sleep(seconds)


class AtTheSecond(mk.callbacks.Callback):
    """Does something at the second iteration."""

    def __init__(self, act):
        self.act, self.count, self.done = act, 0, False

    def on_iteration(self, estimator, record):
        self.count += 1
        if self.count == 2:
            self.act()
            self.done = True
