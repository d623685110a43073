"""Records: what a job found, as a file."""

import ast
import hashlib
import json
import os
import re
import subprocess
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from ..report.markdown import record_text

BENCHMARKS = Path(__file__).parents[1]
CHECKOUT = BENCHMARKS.parent
RESULTS = BENCHMARKS / "results"
IMPORTED = re.compile(r"^from (?:benchmarks)?\.(\w*) ?import (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Job:
    """One part of one benchmark at one size."""

    benchmark: str
    part: str
    size: str

    def __str__(self):
        return f"{self.benchmark}-{self.part}"

    @property
    def path(self):
        return RESULTS / self.size / f"{self}.json"

    @property
    def key(self):
        """Changes with whatever the outcome may depend on: the package, the benchmark, the size."""
        digest = hashlib.sha256(f"{self} {self.size}".encode())
        for path in [*package_files(), *benchmark_files(self.benchmark)]:
            digest.update(f"{path.name} {code(path, self.size)}".encode())
        return digest.hexdigest()[:16]


@dataclass
class Record:
    """What a job found."""

    benchmark: str
    part: str
    size: str
    key: str
    commit: str
    date: str
    status: str  # "done", "empty" (without its data, say), "skipped" or "failed"
    reason: str = ""
    seed: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0  # of all threads and children: less a matter of neighbours
    peak_mb: float = 0.0
    machine: dict = field(default_factory=dict)
    versions: dict = field(default_factory=dict)
    constants: dict = field(default_factory=dict)
    title: str = ""
    rows: object = None

    @property
    def job(self):
        return Job(self.benchmark, self.part, self.size)

    def save(self):
        """The JSON is written whole or not at all; the Markdown says the same to people."""
        path = self.job.path
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".part")
        draft.write_text(json.dumps(asdict(self), indent=1) + "\n")
        draft.replace(path)
        path.with_suffix(".md").write_text(record_text(self))


def load(job):
    """The record of a job; None if there is none."""
    if not job.path.exists():
        return None
    return Record(**json.loads(job.path.read_text()))


def every(size):
    """All records of a size by name."""
    paths = sorted((RESULTS / size).glob("*.json"))
    return {path.stem: Record(**json.loads(path.read_text())) for path in paths}


def is_current(job):
    """Whether there is a record of these very files, and nothing went wrong."""
    record = load(job)
    return record is not None and record.status != "failed" and record.key == job.key


@cache
def code(path, size):
    """What a file does: its text without comments, docstrings and layout, and in the full size
    without the constants of the quick one.
    """
    tree = ast.parse(path.read_text())
    if size == "full":
        tree.body = [node for node in tree.body if not _is_quick(node)]
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and _is_words(body[0]):
            node.body = body[1:]
    return ast.unparse(tree)


def _is_quick(node):
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "QUICK"


def _is_words(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@cache
def package_files():
    return sorted((CHECKOUT / "src" / "manykernels").rglob("*.py"))


def benchmark_files(name, seen=()):
    """Of a benchmark: its module, the others of this folder that it imports, and `common`."""
    path = BENCHMARKS / f"{name}.py"
    if not path.exists():  # a folder, or a name from elsewhere
        return sorted((BENCHMARKS / name).glob("*.py"))
    found = {path}
    for module, names in IMPORTED.findall(path.read_text()):
        for other in [module] if module else re.findall(r"\w+", names):
            if other not in seen:
                found.update(benchmark_files(other, (*seen, name, other)))
    return sorted(found)


@cache
def commit():
    """The commit that is checked out, with a plus if the source differs from it;
    ``MANYKERNELS_COMMIT`` names it for a copy that is no checkout of it.
    """
    if "MANYKERNELS_COMMIT" in os.environ:
        return os.environ["MANYKERNELS_COMMIT"]
    try:
        name = _git("rev-parse", "--short=10", "HEAD")
        changed = _git("status", "--porcelain", "--", "src", "benchmarks/*.py")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name + "+" if changed else name


def _git(*arguments):
    command = ["git", "-C", str(CHECKOUT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
