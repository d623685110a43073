"""The estimators on a Dask cluster of a few worker processes, all on this machine.

``passes``: what a request costs besides its work. The same parts are asked three questions: one of
nothing, one that sends and returns what a pass does but computes nothing, and the pass itself. The
first is scheduling, the second less the first transfer, the third less the second work.
``sonar``: 10^5 kernels with one and two workers of one thread each.
``covertype``: low rank from a Parquet store, with workers whose memory is below the size of the
factors, beside a fit on one machine.
``faults``: fits, by kernels, by points and of MWUMKL, each by a client of its own, during which a
worker is killed with SIGKILL at a random moment: every other one in the time from the making of the
client to the end of the registration of the worker plugin, the others in all of the time.
``cuts``: fits by kernels and by points, behind the rule of ``cut="auto"``.
``model``: passes of both cuts with one, two and four workers, a model of their time, and what it
says of more: a projection.
``report``: Dask's own performance report of a fit by kernels.

What was learned: a round trip is some messages of the scheduler, so its price is per part and not
per byte until answers are megabytes; the client's own work (SVM, quadratic programs) is what more
workers do not take over. The scheduler gives parts that are quick to make to the worker that holds
what they have in common, where all passes are then made: a report showed three parts of four on one
of two workers. Now each worker is asked to make its own.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.preprocessing import MinMaxScaler

import manykernels as mk
from manykernels import dask as mkd
from manykernels.banks import make_bank
from manykernels.dask.cluster import Cluster, SetThreads
from manykernels.dask.kernels import KernelsBank
from manykernels.kernels import RBF
from manykernels.kernels.vector import dense
from manykernels.lowrank import Nystroem
from manykernels.problem import Problem
from manykernels.regularizers import PNormBall
from manykernels.regularizers.base import Curvature

from .common import load, read, table
from .million import kernels as masked

OUT = Path("out")  # for the report
NORMS, KERNELS, FEWER = (1.33, 1.0), 100_000, 20_000  # of sonar, and for single passes
ROUNDS, REPEATS = 40, 3  # of requests and of passes, of which the median is taken
RANK, GAMMAS, HELD_OUT = 100, (0.5, 2.0, 8.0, 32.0, 128.0), 20_000
ROWS = None  # of Covertype, all by default
MEMORY, WORKERS = 1000, 4  # MB of each
KILLS, CREW = 50, 3
PROCESSES = True  # whether a cluster is made of them
FITS = {  # during which workers are killed
    "kernels": {"p": 1.33, "tol": 1e-6},
    "points": {
        "loss": "squared_hinge",
        "tol": 1e-6,
        "approximation": Nystroem(20, random_state=0),
    },
    "mwu": {"p": 1.0, "solver": "mwu", "C": 1.0, "tol": 0.1},
}
WAYS = tuple(FITS)
SHAPES = ((1500, 60, 60), (4000, 60, 60), (1500, 120, 100))  # points, kernels, rank
ON_A_MODEL = (10, 100, 1000)  # workers of the projection


@contextlib.contextmanager
def cluster(workers, megabytes=0):
    """A client of so many workers, which have imported what they need; they and the scheduler are
    processes of their own, or PROCESSES is not set.
    """
    from distributed import Client, LocalCluster
    from distributed.deploy.subprocess import SubprocessCluster

    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    # a limit is that of a process
    memory = {"memory_limit": megabytes * 2**20 if PROCESSES else 0}
    inside = {"processes": False, "protocol": "tcp://", "host": "127.0.0.1"}
    with (
        SubprocessCluster(**options, worker_kwargs=memory)
        if PROCESSES
        else LocalCluster(**options, **memory, **inside) as made,
        Client(made) as client,
    ):
        if workers:
            client.wait_for_workers(workers, timeout=120)
            client.run(_ready)
        yield client


def _ready():
    import manykernels.dask  # noqa: F401

    return os.getpid()


# questions of a part, for `passes`


def nothing(bank):
    """An answer without work or weight."""
    return 0.0


def echo(bank, beta, factor, told):
    """What `newton_sums` sends and returns, without its work."""
    from manykernels.banks.base import Sums

    n, t = bank.n, len(beta)
    return Sums(np.zeros((n, n), bank.dtype), np.zeros((t, t, n, n)), np.zeros((t, n)))


def _median(function, rounds):
    function()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def passes():
    """Scheduling, transfer and work of a pass of Newton's method, by kernels."""
    rows = [*_by_kernels((1, 2)), *_by_kernels((2,), parts=2)]
    bank, weights, beta, J = _sweep()
    local = _median(lambda: bank.newton_sums(weights, beta, J), 1)
    table(f"A pass over {bank.m:,} kernels on {bank.n} points, one thread a worker", rows)
    print(f"on one machine, one thread: {1e3 * local:.0f} ms")
    return {"rows": rows, "local_ms": 1e3 * local}


def _sweep():
    """A bank, and what a pass of Newton's method is told."""
    X, _ = load("sonar")
    bank = make_bank(masked(FEWER), X, dtype=np.float32, n_jobs=1)
    rng = np.random.default_rng(0)
    weights, beta = rng.random(bank.m), rng.standard_normal((1, bank.n))
    return bank, weights, beta, Curvature(weights, -0.1, weights)


def sonar():
    """Whole fits with one and with two workers: sonar, 100,000 kernels, C = 100, unit trace."""
    X, y = load("sonar")
    options = {"C": 100.0, "normalize": "trace"}
    rows, seconds = [], {}
    for p in NORMS:
        for workers in (1, 2):
            with cluster(workers) as client:
                mkd.MKLClassifier(masked(600), p=p, client=client, n_jobs=1, **options).fit(X, y)
                model = mkd.MKLClassifier(masked(KERNELS), p=p, client=client, n_jobs=1, **options)
                began = time.perf_counter()
                model.fit(X, y)
                seconds[workers] = time.perf_counter() - began
            result = model.result_
            rows.append(
                {
                    "p": p,
                    "workers": workers,
                    "seconds": seconds[workers],
                    "efficiency": seconds[1] / (workers * seconds[workers]),
                    "passes": result.counters.kernel_passes,
                    "gap": result.duality_gap,
                    "objective": result.objective,
                }
            )
        plain = mk.MKLClassifier(masked(KERNELS), p=p, n_jobs=1, **options)
        began = time.perf_counter()
        plain.fit(X, y)
        rows.append(
            {
                "p": p,
                "workers": "none",
                "seconds": time.perf_counter() - began,
                "efficiency": np.nan,
                "passes": plain.result_.counters.kernel_passes,
                "gap": plain.result_.duality_gap,
                "objective": plain.result_.objective,
            }
        )
    table(f"sonar, {KERNELS:,} kernels, one thread each", rows)
    return rows


def covertype():
    """Squared hinge, p = 1.33, C = 10, rank 100, from Parquet on workers that could not hold the
    factors alone, and on one machine.
    """
    found = read("covtype")
    if found is None:
        return None
    X, y = MinMaxScaler().fit_transform(dense(found[0])), found[1]
    order = np.random.default_rng(0).permutation(len(y))[:ROWS]
    test, train = order[:HELD_OUT], order[HELD_OUT:]
    names = [f"f{f}" for f in range(X.shape[1])]
    given = {
        "kernels": [RBF(gamma=gamma) for gamma in GAMMAS],
        "p": 1.33,
        "C": 10.0,
        "loss": "squared_hinge",
        "approximation": Nystroem(RANK, random_state=0),
        "cache_size": 8000,
    }
    factors = len(train) * RANK * len(GAMMAS) * 4 / 2**20
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        frame = pd.DataFrame(X[train].astype(np.float32), columns=names).assign(label=y[train])
        store = Path(folder) / "covertype.parquet"
        store.mkdir()
        for number, part in enumerate(np.array_split(np.arange(len(frame)), 4 * WORKERS)):
            frame.iloc[part].to_parquet(store / f"{number:03d}.parquet")
        del frame
        with cluster(WORKERS, MEMORY) as client:
            model = mkd.MKLClassifier(**given, client=client)
            rows.append(_fitted(f"{WORKERS} workers", model, (str(store), "label"), X, y, test))
            used = client.run(_peak)
            rows[-1]["largest worker MB"] = max(used.values())
    plain = mk.MKLClassifier(**given)
    data = pd.DataFrame(X[train].astype(np.float32), columns=names), y[train]
    rows.append(_fitted("one machine", plain, data, X, y, test))
    rows[-1]["largest worker MB"] = np.nan
    table(
        f"Covertype, {len(train):,} points, factors of {factors:.0f} MB, workers of {MEMORY} MB",
        rows,
    )
    return rows


def _fitted(name, model, data, X, y, test):
    began = time.perf_counter()
    model.fit(*data)
    seconds = time.perf_counter() - began
    held_out = pd.DataFrame(X[test].astype(np.float32), columns=list(model.feature_names_in_))
    return {
        "where": name,
        "seconds": seconds,
        "objective": model.result_.objective,
        "gap": model.result_.duality_gap,
        "accuracy": model.score(held_out, y[test]),
    }


def _peak():
    from .common import megabytes

    return megabytes("VmHWM")


class Crew:
    """Workers that are processes of their own: a killed one is replaced by a new one.

    A nanny's would come back by themselves, but not always: of those that were killed while another
    was starting, some did not.
    """

    def __init__(self, address, count):
        self.address = address
        self.all = [self._started() for _ in range(count)]

    def _started(self):
        command = [sys.executable, "-m", "distributed.cli.dask_worker", self.address]
        command += ["--nthreads", "1", "--memory-limit", "0", "--no-nanny", "--no-dashboard"]
        return subprocess.Popen([*command, "--host", "127.0.0.1"], stderr=subprocess.DEVNULL)

    def kill(self, number):
        """End a worker with SIGKILL."""
        self.all[number].kill()

    def replace(self, number):
        """Start a worker in the place of a killed one."""
        self.all[number].wait()
        self.all[number] = self._started()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in self.all:
            process.kill()
            process.wait()


def faults():
    """Workers that are killed at a random moment, from the making of a client on."""
    X, y = load("sonar")
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    small = [RBF(gamma=g) for g in (0.001, 0.01, 0.1)]
    small += [RBF(features=[f]) for f in range(X.shape[1])]
    rng, rows, usual = np.random.default_rng(0), [], {}
    with (
        cluster(0) as watching,
        Crew(watching.scheduler.address, CREW) as crew,
    ):
        watching.wait_for_workers(CREW, timeout=120)
        watching.run(_ready)
        for way in WAYS:
            fits = [_seconds_of(small, way, watching, X, y) for _ in range(2)]
            usual[way] = min(fits, key=lambda fit: fit[0])
        for attempt in range(4 * KILLS):
            if len(rows) == KILLS:
                break
            way, victim = WAYS[len(rows) % len(WAYS)], int(rng.integers(CREW))
            watching.wait_for_workers(CREW, timeout=120)
            seconds, registered, undisturbed = usual[way]
            if attempt % 2:  # a new worker registers the plugin once it has imported what it needs
                watching.run(_ready)
            moment = rng.uniform(0.0, seconds if attempt % 2 else registered)
            timer = threading.Timer(moment, crew.kill, (victim,))
            timer.start()
            seconds, registered, model = _seconds_of(small, way, watching, X, y)
            timer.cancel()
            timer.join()
            if moment >= seconds:  # it was over before
                continue
            crew.replace(victim)
            result, optimum = model.result_, undisturbed.result_.objective
            rows.append(
                {
                    "way": way,
                    "killed after s": moment,
                    "registered after s": registered,
                    "fit s": seconds,
                    "gap": result.duality_gap,
                    "certified": bool(result.duality_gap <= model.tol),
                    "difference": abs(result.objective - optimum) / abs(optimum),
                }
            )
    summary = [
        {
            "way": way,
            "kills": len(of),
            "before registration ended": sum(
                row["killed after s"] <= row["registered after s"] for row in of
            ),
            "certified": sum(row["certified"] for row in of),
            "largest difference": max(row["difference"] for row in of),
            "tol": FITS[way]["tol"],
            "usual s": usual[way][0],
            "longest s": max(row["fit s"] for row in of),
        }
        for way in WAYS
        if (of := [row for row in rows if row["way"] == way])
    ]
    table(f"A worker of {CREW} is killed, a new client each time", summary)
    return {"summary": summary, "fits": rows}


def _seconds_of(kernels, way, watching, X, y):
    """Seconds of a fit by a new client, to the end of the registration of the plugin and to its
    end, and the model. The scheduler forgets the plugin, so that the next client registers it, too.
    """
    from distributed import Client

    began = time.perf_counter()
    with Client(watching.scheduler.address, set_as_default=False) as client:
        model = mkd.MKLClassifier(kernels, **FITS[way], client=client)
        Cluster(client, model.timeout)
        registered = time.perf_counter() - began
        model.fit(X, y)
        seconds = time.perf_counter() - began
    with contextlib.suppress(OSError):  # the scheduler tells a killed worker, too
        watching.unregister_worker_plugin(SetThreads.name)
    return seconds, registered, model


def model():
    """Work, transfer and scheduling of both cuts, and a projection."""
    measured = [row for cut in (_by_kernels, _by_points) for row in cut()]
    table("Passes of both cuts", measured)
    rows = []
    for cut, unit, size in (("kernels", "kernels", 10**7), ("points", "points", 10**8)):
        of = [row for row in measured if row["cut"] == cut]
        base = next(row for row in of if row["workers"] == 2)
        per_part = base["scheduling ms"] / base["parts"]
        cores = min(2, os.cpu_count())
        for workers in (1, 2, 4, *ON_A_MODEL):
            here = workers <= 4
            parts = max(4, 2 * workers)
            work = base["core ms"] * (1.0 if here else size / base["size"])
            work /= min(workers, cores) if here else workers
            # Gram matrices are added up in a tree; weights of all kernels go out from the client
            grows = 1.0 if here else size / base["size"]
            levels = max(1.0, np.log2(parts) / 2.0) if cut == "points" else grows
            predicted = work + per_part * parts + base["transfer ms"] * levels
            seen = next((row["pass ms"] for row in of if row["workers"] == workers), np.nan)
            rows.append(
                {
                    "cut": cut,
                    "workers": workers,
                    unit: base["size"] if here else size,
                    "work ms": work,
                    "scheduling ms": per_part * parts,
                    "transfer ms": base["transfer ms"] * levels,
                    "model ms": predicted,
                    "seen ms": seen,
                }
            )
        table(f"A pass by {cut}: model and, from 10 workers on, projection", rows[-6:])
    return {"measured": measured, "projection": rows}


def _row(cut, workers, parts, size, idle, echoed, whole):
    cores = min(workers, 2, os.cpu_count())
    return {
        "cut": cut,
        "workers": workers,
        "parts": parts,
        "size": size,
        "scheduling ms": 1e3 * idle,
        "transfer ms": 1e3 * max(echoed - idle, 0.0),
        "overhead ms": 1e3 * echoed,
        "core ms": 1e3 * max(whole - echoed, 0.0) * cores,
        "pass ms": 1e3 * whole,
    }


def _by_kernels(counts=(1, 2, 4), parts=None):
    bank, weights, beta, J = _sweep()
    for workers in counts:
        with cluster(workers) as client:
            placed = KernelsBank(bank, Cluster(client, 600.0), parts)
            told = [placed._of_parts(values) for values in (weights, J.diagonal, J.vector)]
            each = list(zip(*told, strict=True))
            idle = _median(lambda p=placed: p.parts.total(nothing), ROUNDS)
            echoed = _median(
                lambda p=placed, e=each: p.parts.total(echo, beta, J.factor, each=e), ROUNDS
            )
            whole = _median(lambda p=placed: p.newton_sums(weights, beta, J), REPEATS)
            yield _row("kernels", workers, len(placed.parts), bank.m, idle, echoed, whole)


def echo_sums(bank, loss, u, b, aims):
    """What the sums of Newton's method in rounds return, without their work."""
    from manykernels.solvers.lowrank.distributed import Sums

    t, q = u.shape
    return Sums(np.zeros((t, q + 1, q + 1)), np.zeros((t, q + 1)), np.zeros(3))


def _by_points():
    rng, n = np.random.default_rng(0), 40_000
    X = rng.standard_normal((n, 10))
    y = np.where(X[:, 0] > 0, 1, -1)
    given = [RBF(gamma=0.05), RBF(gamma=0.2)]
    for workers in (1, 2, 4):
        with cluster(workers) as client:
            estimator = mkd.MKLClassifier(
                given,
                loss="squared_hinge",
                approximation=Nystroem(200, random_state=0),
                client=client,
            )
            prepared = estimator._data(X, y, None)
            bank = prepared.bank
            problem = Problem(
                bank,
                prepared.targets,
                prepared.cost,
                PNormBall(1.33),
                estimator._loss(),
            )
            look = bank.look(problem)
            at = np.zeros((1, bank.width)), np.zeros(1)
            idle = _median(lambda p=bank.parts: p.total(nothing), ROUNDS)
            echoed = _median(
                lambda look=look, at=at: look.parts.total(
                    echo_sums, look.loss, *at, each=look.aims.futures
                ),
                ROUNDS,
            )
            whole = _median(lambda look=look, at=at: look.sums(*at), REPEATS)
            yield _row("points", workers, len(bank.parts), n, idle, echoed, whole)


def cuts():
    """Both cuts with fewer, about as many and more columns of factors than points."""
    rng, rows = np.random.default_rng(0), []
    with cluster(2) as client:
        for n, m, rank in SHAPES:
            X = rng.standard_normal((n, 60))
            y = np.where((X[:, :3] ** 2).sum(axis=1) + rng.standard_normal(n) > 3.0, 1, -1)
            columns = [[f % 60, (7 * f + 1) % 60] for f in range(m)]
            given = {
                "kernels": [RBF(0.1 + 0.01 * f, features=own) for f, own in enumerate(columns)],
                "p": 1.33,
                "loss": "squared_hinge",
                "approximation": Nystroem(rank, random_state=0),
            }
            auto = mkd.MKLClassifier(**given, client=client)._way(X, n)
            for cut in ("kernels", "points"):
                model = mkd.MKLClassifier(**given, cut=cut, client=client)
                began = time.perf_counter()
                model.fit(X, y)
                rows.append(
                    {
                        "points": n,
                        "columns": m * rank,
                        "cut": cut,
                        "by default": cut == auto,
                        "seconds": time.perf_counter() - began,
                        "gap": model.result_.duality_gap,
                    }
                )
    table("Two workers, low-rank kernels, squared hinge", rows)
    return rows


def report():
    """Dask's performance report of a fit by kernels, in ``out/dask-report.html``."""
    from distributed import performance_report

    X, y = load("sonar")
    given = {"p": 1.33, "C": 100.0, "normalize": "trace", "n_jobs": 1}
    OUT.mkdir(exist_ok=True)
    with cluster(2) as client:
        mkd.MKLClassifier(masked(600), **given, client=client).fit(X, y)
        with performance_report(OUT / "dask-report.html", mode="inline"):
            model = mkd.MKLClassifier(masked(FEWER), **given, client=client).fit(X, y)
    row = {"kernels": FEWER, "workers": 2, "gap": model.result_.duality_gap}
    table(f"A fit with its report, {OUT / 'dask-report.html'}", [row])
    return [row]


STEPS = {run.__name__: run for run in (passes, sonar, covertype, faults, cuts, model, report)}
NEEDS = {"": ("distributed",)}
GUESSED = {
    "passes": 120,
    "sonar": 150,
    "covertype": 200,
    "faults": 900,
    "cuts": 60,
    "model": 200,
    "report": 60,
}
QUICK = {
    "PROCESSES": False,
    "NORMS": (1.33,),
    "KERNELS": 2000,
    "FEWER": 2000,
    "ROUNDS": 10,
    "RANK": 20,
    "ROWS": 30_000,
    "HELD_OUT": 5000,
    "WORKERS": 2,
    "KILLS": 2,
    "WAYS": ("kernels", "points"),
    "SHAPES": ((300, 20, 10), (300, 20, 30)),
}
