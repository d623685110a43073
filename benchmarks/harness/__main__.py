"""Run all jobs of a size, or some: ``python -m benchmarks.harness --size quick``."""

import argparse
import contextlib
import datetime
import importlib.util
import json
import multiprocessing
import os
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
from .keep import keep
from .plan import LIMIT, chosen, expected, goes_on, on_gpu, why_not
from .records import CHECKOUT, Record, commit, load, state

WIDTH = 24
AT_ONCE = {"quick": min(2, len(os.sched_getaffinity(0))), "full": 1}
NAMED = 8  # of the pieces that are finished
LEAST = 120  # seconds that are worth beginning what will not end
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
    given = arguments()
    folders = [str(CHECKOUT), str(CHECKOUT / "src"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))  # for scripts of the jobs
    jobs = chosen(given.names, given.size)
    if given.list:
        return listed(jobs)
    if given.keep:
        return keep(jobs, given.since, given.keep)
    cores = shares(given.at_once or AT_ONCE[given.size])
    if len(cores) > 1:
        os.environ.update(dict.fromkeys(THREADS, str(len(cores[0]))))
    CONTEXT.set_forkserver_preload(list(IMPORTED))
    todo = jobs if given.again else [job for job in jobs if state(job) != "fresh"]
    print(f"{len(jobs)} jobs, {len(jobs) - len(todo)} of them done on these files already")
    queue = Queue(todo, given.minutes, longest_first=len(cores) > 1)
    failed = run(queue, given.logs / given.size, cores)
    if queue.jobs:
        print(f"no time for {len(queue.jobs)}: {', '.join(map(str, queue.jobs))}")
    if importlib.util.find_spec("matplotlib"):
        write()
    if failed:
        sys.exit(f"{len(failed)} failed: {', '.join(map(str, failed))}; see {given.logs}")


def arguments():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.harness", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="BENCHMARK, BENCHMARK-PART or a piece of it; all by default"
    )
    parser.add_argument("--size", choices=tuple(LIMIT), default="quick")
    parser.add_argument(
        "--list", action="store_true", help="what is fresh, stale or missing; runs nothing"
    )
    parser.add_argument("--again", action="store_true", help="also what has a record already")
    parser.add_argument(
        "--at-once",
        type=int,
        help="jobs that run beside each other, each on its share of the cores; by default one, and "
        "two of the quick ones, which say that things run and not how fast they are",
    )
    parser.add_argument(
        "--minutes", type=float, help="begin only what should end within so many minutes"
    )
    parser.add_argument(
        "--keep",
        metavar="WHY",
        help="run nothing: keep records that were fresh at --since, and say why they hold",
    )
    parser.add_argument("--since", metavar="COMMIT", default="HEAD")
    parser.add_argument("--logs", type=Path, default=Path("out") / "logs")
    return parser.parse_args()


def listed(jobs):
    """Print what there is of every job, and how long all that is not fresh should take."""
    left = 0.0
    for job in jobs:
        what, record = state(job), load(job)
        seconds = expected(job)
        left += seconds if what not in ("fresh", "skipped") else 0.0
        took = "took" if record and record.status == "done" else "expected"
        why = f"  {record.reason}" if record and record.reason else ""
        print(f"{what:8} {job.size} {job!s:34} {took:8} {seconds:7.0f} s{why}")
    print(f"{left / 60:.0f} minutes of what is neither fresh nor skipped, one after the other")


def shares(count):
    """The cores of this process in so many shares."""
    cores = sorted(os.sched_getaffinity(0))
    if not 1 <= count <= len(cores):
        raise SystemExit(f"--at-once must be 1 to {len(cores)}, the number of cores, got {count}.")
    size = len(cores) // count
    return [cores[i * size : (i + 1) * size] for i in range(count)]


class Queue:
    """Jobs that are to run, and what is next: in their order, or the longest that fits into the
    time that is left, and if none does one that can go on another time; one at a time of those that
    need the GPU.

    Parameters
    ----------
    jobs : list of Job
    minutes : float, optional
        Time for all.
    longest_first : bool
        So that shares of cores are busy up to the end.
    """

    def __init__(self, jobs, minutes=None, longest_first=False):
        self.jobs, self.longest_first = list(jobs), longest_first
        self.end = time.monotonic() + (60.0 * minutes if minutes else float("inf"))
        self.gpu_is_taken, self._lock = False, threading.Lock()

    @property
    def left(self):
        """Seconds until all must have ended."""
        return self.end - time.monotonic()

    def limit(self, job):
        """Seconds that a job may take."""
        return min(LIMIT[job.size], max(self.left, 1.0))

    def take(self):
        """The next job; None if there is none that could begin now."""
        with self._lock:
            free = [job for job in self.jobs if not (on_gpu(job) and self.gpu_is_taken)]
            fit = [job for job in free if min(expected(job), LIMIT[job.size]) <= self.left]
            if not fit and self.left > LEAST:
                fit = [job for job in free if goes_on(job)]
            if not fit:
                return None
            job = max(fit, key=expected) if self.longest_first else fit[0]
            self.jobs.remove(job)
            self.gpu_is_taken |= on_gpu(job)
            return job

    def done(self, job):
        with self._lock:
            self.gpu_is_taken &= not on_gpu(job)


def run(queue, logs, cores):
    """Run jobs, one at a time on each share of the cores; those that failed."""
    logs.mkdir(parents=True, exist_ok=True)
    bar, failed = Bar(len(queue.jobs)), []

    def work(mine):
        while (job := queue.take()) is not None:
            bar.show(job)
            status, reason = "skipped", why_not(job)
            if reason is None:
                status, reason = execute(job, logs / f"{job}.log", mine, queue.limit(job))
            queue.done(job)
            if reason:
                note(job, status, reason)
            bar.advance(job, f"{status}: {reason}" if reason else status)
            if status == "failed":
                failed.append(job)

    with ThreadPoolExecutor(len(cores)) as crew:
        try:
            list(crew.map(work, cores))
        except KeyboardInterrupt:
            os._exit(130)  # without waiting for the jobs, which end with this process
    return failed


def execute(job, log, cores, limit):
    """Run a job in a process of its own: how it ended, and why if it was no success."""
    partial = log.with_name(f"{job}.{job.key}.partial").resolve()
    # without a GPU where none is needed: what a record says of cores should be of cores
    arguments = job, str(log.resolve()), partial, cores, on_gpu(job)
    child = CONTEXT.Process(target=in_child, args=arguments)
    child.start()
    child.join(limit)
    late = child.exitcode is None
    with contextlib.suppress(ProcessLookupError):  # with all that it started
        os.killpg(child.pid, signal.SIGKILL)
    child.join()
    if late:
        return "cut", f"ended by time after {limit:.0f} s; {made(partial)}"
    if child.exitcode == 0:
        partial.unlink(missing_ok=True)
        record = load(job)
        if state(job) == "stale":  # it made no rows, and figures of before are kept
            return "skipped", "it made no rows; what it had made before is kept"
        return record.status, record.reason
    lines = log.read_text().strip().splitlines()
    return "failed", (lines or [f"ended with {child.exitcode}"])[-1]


def made(partial):
    """What a job that was ended had made, with which the next run of it begins."""
    lines = partial.read_text().splitlines() if partial.exists() else []
    labels = [json.loads(line)["label"] for line in lines]
    if not labels:
        return "nothing of it was finished"
    named = ", ".join(labels[:NAMED]) + (", …" if len(labels) > NAMED else "")
    return f"the next run goes on; finished ({len(labels)}): {named}; all else is missing"


def note(job, status, reason):
    """A record that says why there are no figures."""
    Record(
        benchmark=job.benchmark,
        part=job.part,
        size=job.size,
        piece=job.piece,
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
