"""Records: what a job found, as a file, and whether it was found with the files of today."""

import ast
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path

from ..report.markdown import record_text

BENCHMARKS = Path(__file__).parents[1]
CHECKOUT = BENCHMARKS.parent
PACKAGE = CHECKOUT / "src" / "manykernels"
RESULTS = BENCHMARKS / "results"
TABLES = ("SPLIT", "NEEDS", "GUESSED")  # of `plan`, which change no outcome
UNSEEN = ("kind", "type_comment", "type_ignores", "ctx")  # fields that change nothing


@dataclass(frozen=True)
class Job:
    """One part of one benchmark at one size, or the piece of it for one value of a constant."""

    benchmark: str
    part: str
    size: str
    piece: str = ""

    def __str__(self):
        piece = re.sub(r"\W+", "_", self.piece)
        return "-".join(filter(None, (self.benchmark, self.part, piece)))

    @property
    def whole(self):
        """The name of the part, without the piece."""
        return f"{self.benchmark}-{self.part}"

    @property
    def path(self):
        return RESULTS / self.size / f"{self}.json"

    @cached_property
    def key(self):
        """Changes with whatever the outcome may depend on: the package, the benchmark, the size;
        not with the machine, nor with the version of Python.
        """
        return self.key_of(None)

    def key_of(self, modules):
        """The key if of the package only some modules had a part in it, given in words that are
        apart by spaces; all if None.
        """
        digest = hashlib.sha256(f"{self} {self.size} {package_digest(modules)}".encode())
        for path in benchmark_files(self.benchmark):
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
    status: str  # "done", "skipped" (it needs what is not here), "cut" (by time) or "failed"
    reason: str = ""
    piece: str = ""
    seed: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0  # of all threads and children: less a matter of neighbours
    peak_mb: float = 0.0
    machine: dict = field(default_factory=dict)
    versions: dict = field(default_factory=dict)
    constants: dict = field(default_factory=dict)
    modules: str | None = None  # that were loaded; None: all count
    kept: str = ""  # what changed since in files that were loaded, and why the figures hold
    title: str = ""
    rows: object = None

    @property
    def job(self):
        return Job(self.benchmark, self.part, self.size, self.piece)

    def save(self):
        """The JSON is written whole or not at all; the Markdown says the same to people. Figures
        are not replaced by a reason why there are none.
        """
        path, before = self.job.path, load(self.job)
        if self.status != "done" and before is not None and before.status == "done":
            return
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


def state(job):
    """What there is of a job: "fresh" (done, and no file that it loaded has changed), "stale",
    "skipped", "cut", "failed" or "missing".
    """
    record = load(job)
    if record is None:
        return "missing"
    if record.status == "done":
        return "fresh" if record.key == job.key_of(record.modules) else "stale"
    return record.status


@cache
def code(path, size):
    """What a file does, in letters that are the same in every version of Python: without comments,
    docstrings and layout, and in the full size without the constants of the quick one.
    """
    tree = ast.parse(path.read_text())
    left_out = (*TABLES, *(["QUICK"] if size == "full" else []))
    tree.body = [node for node in tree.body if not _assigns(node, left_out)]
    return _text(tree)


def _text(node):
    """A tree of code in letters; `ast.dump` and `ast.unparse` differ between versions of Python."""
    if isinstance(node, list):
        return "[" + ",".join(_text(part) for part in node if not _is_words(part)) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.JoinedStr):  # 3.12 ends a format with nothing, the others do not
        node.values = [part for part in node.values if getattr(part, "value", None) != ""]
    fields = ((name, value) for name, value in ast.iter_fields(node) if name not in UNSEEN)
    told = (f"{name}={_text(value)}" for name, value in sorted(fields) if value not in (None, []))
    return f"{type(node).__name__}({','.join(told)})"


def _assigns(node, names):
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names


def _is_words(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@cache
def package_digest(modules=None):
    """Of the whole package, or of some modules."""
    digest = hashlib.sha256()
    if modules is None:
        paths = package_files()
    else:
        paths = [PACKAGE / f"{name}.py" for name in modules.split()]
    for path in paths:
        text = code(path, "") if path.exists() else "gone"
        digest.update(f"{path.relative_to(PACKAGE).as_posix()} {text}".encode())
    return digest.hexdigest()


@cache
def package_files():
    return sorted(PACKAGE.rglob("*.py"))


def modules_loaded():
    """The modules of the package that this process has loaded, in words that are apart by spaces;
    None if others worked for it.
    """
    if _has_started_others():
        return None
    paths = {Path(getattr(one, "__file__", None) or "/") for one in list(sys.modules.values())}
    own = [path.relative_to(PACKAGE) for path in package_files() if path in paths]
    return " ".join(path.with_suffix("").as_posix() for path in own)


def _has_started_others():
    """Whether this process has, or had, processes of its own, which may have loaded more."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    tasks = Path("/proc/self/task").glob("*/children")
    return used.ru_utime + used.ru_stime > 0.0 or any(one.read_text().strip() for one in tasks)


@cache
def benchmark_files(name):
    """Of a benchmark: its module, and the others of this folder that it imports, or that those
    import; and of the tests, if it imports some.
    """
    found, todo = set(), [name]
    while todo:
        paths = [BENCHMARKS / f"{(one := todo.pop())}.py", CHECKOUT / "tests" / f"{one}.py"]
        paths += sorted((BENCHMARKS / one).glob("*.py"))  # a folder
        for path in paths:
            if path.exists() and path not in found and one != "harness":
                found.add(path)
                todo += _imported(path)
    return sorted(found, key=lambda path: path.relative_to(CHECKOUT).as_posix())


def _imported(path):
    """First names of what a file imports that may be files of this folder, or of the tests."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module is None:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 1:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name == "crossing")


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


def named(commit):
    """The name of a commit that is given as Git takes it."""
    return _git("rev-parse", "--short=10", commit)


def changed_since(commit):
    """Files of the package and of the benchmarks that differ from those of a commit."""
    return _git("diff", "--name-only", commit, "--", "src", "benchmarks/*.py").splitlines()


def _git(*arguments):
    command = ["git", "-C", str(CHECKOUT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
