"""Keep records whose figures hold although files that their jobs loaded have changed."""

import subprocess
import sys
import tempfile

from .records import CHECKOUT, PACKAGE, benchmark_files, changed_since, load, named, state


def keep(jobs, since, why):
    """Of some jobs: those whose records were fresh at a commit and are stale now have their keys
    made anew; the records say which files changed, and why that does not matter.
    """
    since = named(since)
    stale = [job for job in jobs if state(job) == "stale"]
    was_fresh = fresh_at(since, jobs[0].size) if stale else set()
    changed = changed_since(since)
    for job in stale:
        if str(job) not in was_fresh:
            print(f"{job} was stale already at {since}")
            continue
        record = load(job)
        files = [name for name in changed if concerns(record, name)]
        record.kept = f"{record.kept} {', '.join(files)} changed after {since}: {why}".strip()
        record.key = job.key_of(record.modules)
        record.save()
        print(f"{job} is kept")


def concerns(record, name):
    """Whether the key of a record depends on a file, named from the folder of the checkout."""
    path = CHECKOUT / name
    if PACKAGE not in path.parents:
        return path in benchmark_files(record.benchmark)
    module = path.relative_to(PACKAGE).with_suffix("").as_posix()
    return record.modules is None or module in record.modules.split()


def fresh_at(commit, size):
    """Names of the jobs that had fresh records at a commit."""
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "-C", str(CHECKOUT), "archive", commit, "src", "benchmarks", "tests"],
            check=True,
            capture_output=True,
        )
        subprocess.run(["tar", "x", "-C", folder], input=archive.stdout, check=True)
        command = [sys.executable, "-m", "benchmarks.harness", "--list", "--size", size]
        listed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    lines = [line.split() for line in listed.stdout.splitlines()]
    return {words[2] for words in lines if words[0] == "fresh"}
