"""Run all jobs of a size, or some: ``python -m benchmarks.harness --size quick``."""

import argparse
import datetime
import itertools
import multiprocessing
import os
import queue
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..common import describe_machine
from ..report.write import write
from .job import in_child
from .plan import chosen, why_not
from .records import CHECKOUT, Record, commit, is_current, load

LIMIT = {"quick": 300, "full": 4 * 3600}  # seconds of a job
WIDTH = 24
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
# a server that imports once what all jobs import, and forks a process for each
CONTEXT = multiprocessing.get_context("forkserver")
IMPORTED = (
    "benchmarks.harness.job",
    "manykernels.estimators",
    "manykernels.solvers",
    "sklearn.svm",
)


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.harness", description=__doc__)
    parser.add_argument("names", nargs="*", help="BENCHMARK or BENCHMARK-PART; all by default")
    parser.add_argument("--size", choices=tuple(LIMIT), default="quick")
    parser.add_argument("--again", action="store_true", help="also what has a record already")
    parser.add_argument(
        "--at-once",
        type=int,
        default=1,
        help="jobs that run beside each other, each on its share of the cores",
    )
    parser.add_argument("--logs", type=Path, default=Path("out") / "logs")
    given = parser.parse_args()
    folders = [str(CHECKOUT), str(CHECKOUT / "src"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))  # for scripts of the jobs
    cores = shares(given.at_once)
    if len(cores) > 1:
        os.environ.update(dict.fromkeys(THREADS, str(len(cores[0]))))
    CONTEXT.set_forkserver_preload(list(IMPORTED))
    jobs = chosen(given.names, given.size)
    todo = jobs if given.again else [job for job in jobs if not is_current(job)]
    print(f"{len(jobs)} jobs, {len(jobs) - len(todo)} of them done on these files already")
    failed = run(todo, given.logs / given.size, cores)
    write()
    if failed:
        sys.exit(f"{len(failed)} failed: {', '.join(map(str, failed))}; see {given.logs}")


def shares(count):
    """The cores of this process in so many shares."""
    cores = sorted(os.sched_getaffinity(0))
    if not 1 <= count <= len(cores):
        raise SystemExit(f"--at-once must be 1 to {len(cores)}, the number of cores, got {count}.")
    size = len(cores) // count
    return [cores[i * size : (i + 1) * size] for i in range(count)]


def run(jobs, logs, cores):
    """Run jobs, one at a time on each share of the cores; those that failed."""
    logs.mkdir(parents=True, exist_ok=True)
    bar, free = Bar(len(jobs)), queue.SimpleQueue()
    for share in cores:
        free.put(share)

    def fails(job):
        bar.show(job)
        reason, status = why_not(job), "skipped"
        if reason is None:
            mine = free.get()
            reason, status = execute(job, logs / f"{job}.log", mine), "failed"
            free.put(mine)
        if reason:
            note(job, status, reason)
        bar.advance(job, f"{status}: {reason}" if reason else "done")
        return reason is not None and status == "failed"

    with ThreadPoolExecutor(len(cores)) as crew:
        try:
            failed = list(crew.map(fails, jobs))
        except KeyboardInterrupt:
            os._exit(130)  # without waiting for the jobs, which end with this process
    return list(itertools.compress(jobs, failed))


def execute(job, log, cores):
    """Run a job in a process of its own; what went wrong, or None."""
    partial = log.with_name(f"{job}.{job.key}.partial").resolve()
    child = CONTEXT.Process(target=in_child, args=(job, str(log.resolve()), partial, cores))
    child.start()
    child.join(LIMIT[job.size])
    if child.exitcode is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.join()
        return f"took longer than {LIMIT[job.size]} s"
    if child.exitcode == 0:
        partial.unlink(missing_ok=True)
        return None
    lines = log.read_text().strip().splitlines()
    return (lines or [f"ended with {child.exitcode}"])[-1]


def note(job, status, reason):
    """A record that says why there are no figures."""
    Record(
        benchmark=job.benchmark,
        part=job.part,
        size=job.size,
        key=job.key,
        commit=commit(),
        date=datetime.date.today().isoformat(),
        status=status,
        reason=reason,
        machine=describe_machine(),
    ).save()


class Bar:
    """How many jobs are done, and how long the others should take by what they took before."""

    def __init__(self, count):
        self.count, self.done, self.began = count, 0, time.perf_counter()
        self.lively, self._lock = sys.stderr.isatty(), threading.Lock()

    def show(self, job):
        if self.lively:
            with self._lock:
                self._line(f"{job} …", "\r")

    def advance(self, job, outcome):
        record = load(job)
        seconds = f" in {record.seconds:.1f} s" if outcome == "done" and record else ""
        with self._lock:
            self.done += 1
            self._line(f"{job} {outcome}{seconds}", "\n")

    def _line(self, text, end):
        filled = WIDTH * self.done // max(self.count, 1)
        gone = time.perf_counter() - self.began
        clock = f"{int(gone) // 60}:{int(gone) % 60:02d}"
        line = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {self.done}/{self.count} {clock} {text}"
        if self.lively:
            line = line.ljust(shutil.get_terminal_size().columns - 1)
        print(line, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
