"""Run all jobs of a size, or some: ``python -m benchmarks.harness --size quick``."""

import argparse
import datetime
import multiprocessing
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from ..common import describe_machine
from ..report.write import write
from .job import in_child
from .plan import chosen, why_not
from .records import CHECKOUT, Record, commit, is_current, load

LIMIT = {"quick": 300, "full": 4 * 3600}  # seconds of a job
WIDTH = 24
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
    parser.add_argument("--logs", type=Path, default=Path("out") / "logs")
    given = parser.parse_args()
    folders = [str(CHECKOUT), str(CHECKOUT / "src"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))  # for scripts of the jobs
    CONTEXT.set_forkserver_preload(list(IMPORTED))
    jobs = chosen(given.names, given.size)
    todo = jobs if given.again else [job for job in jobs if not is_current(job)]
    print(f"{len(jobs)} jobs, {len(jobs) - len(todo)} of them done on these files already")
    failed = run(todo, given.logs / given.size)
    write()
    if failed:
        sys.exit(f"{len(failed)} failed: {', '.join(map(str, failed))}; see {given.logs}")


def run(jobs, logs):
    """Run jobs one after the other; those that failed."""
    logs.mkdir(parents=True, exist_ok=True)
    bar, failed = Bar(len(jobs)), []
    for job in jobs:
        bar.show(job)
        reason, status = why_not(job), "skipped"
        if reason is None:
            reason, status = execute(job, logs / f"{job}.log"), "failed"
        if reason:
            note(job, status, reason)
            failed += [job] if status == "failed" else []
        bar.advance(job, f"{status}: {reason}" if reason else "done")
    return failed


def execute(job, log):
    """Run a job in a process of its own; what went wrong, or None."""
    partial = log.with_name(f"{job}.{job.key}.partial").resolve()
    child = CONTEXT.Process(target=in_child, args=(job, str(log.resolve()), partial))
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
        self.lively = sys.stderr.isatty()

    def show(self, job):
        if self.lively:
            self._line(f"{job} …", "\r")

    def advance(self, job, outcome):
        self.done += 1
        record = load(job)
        seconds = f" in {record.seconds:.1f} s" if outcome == "done" and record else ""
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
