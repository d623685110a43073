"""What there is to run, what it needs, and how long it should take.

A benchmark says so itself, in tables at the level of its module, which are read and not imported,
since some benchmarks import what is not installed everywhere:

``STEPS``
    Its parts by name.
``SPLIT``
    The constant (a tuple or a mapping) by whose values a part is cut into pieces in the full size,
    each a job of its own: ``{"ranks": "SETS"}``.
``NEEDS``
    What a part needs besides NumPy, SciPy, scikit-learn and Numba: ``"GPU"``, a package, another
    package in an environment of its own (see `benchmarks.peers`), a file of the data sets
    (``"covtype.npz"``) or a variable of the environment (``"$NAME"``). The part ``""`` is all.
``GUESSED``
    Seconds of a full part, or of each of its pieces, on two cores, as long as no record says it.
"""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from functools import cache

from ..common import DATA
from .records import BENCHMARKS, Job, benchmark_files, load


@cache
def _assigned(name):
    """What the module of a benchmark assigns, by name."""
    found = {}
    for node in ast.parse((BENCHMARKS / f"{name}.py").read_text()).body:
        for target in getattr(node, "targets", ()):
            if not isinstance(target, ast.Tuple):
                found[ast.unparse(target)] = node.value
            elif isinstance(node.value, ast.Tuple):
                found |= zip(map(ast.unparse, target.elts), node.value.elts, strict=True)
    return found


# in the order of the report: the papers' tables, peers, when it pays, everything else; benchmarks
# that are not named here come last
FIRST = (
    *("small", "large", "products", "million", "spg", "smo", "mklgl", "mwu", "lowrank"),
    *("compare", "groups", "proof", "shapley", "coverage", "compression", "pays", "defaults"),
    *("fits", "tuning"),
    *("auto", "edges", "foundations", "cross", "missing", "readers", "serving", "kill"),
    *("shape", "structure", "onnx_graphs", "versions", "mutants"),
    *("molecules",),
    *("dask", "gpu", "gpu_lowrank", "gpu_grids"),
)
MODULES = sorted(path.stem for path in BENCHMARKS.glob("*.py"))
ORDER = (
    *FIRST,
    *(name for name in MODULES if name not in FIRST and "STEPS" in _assigned(name)),
)
LIMIT = {"quick": 300, "full": 1200}  # seconds of a job
UNKNOWN = {"quick": 20, "full": 300}  # seconds of a job that never ran and has no guess


def jobs(size):
    """All jobs of a size."""
    return [
        Job(name, part, size, piece)
        for name in ORDER
        for part in parts(name)
        for piece in (pieces(name, part) if size == "full" else ("",))
    ]


def _table(name, which):
    node = _assigned(name).get(which)
    return {} if node is None else ast.literal_eval(node)


def parts(name):
    """Names of the parts of a benchmark."""
    node = _assigned(name).get("STEPS")
    if isinstance(node, ast.Dict):
        return [key.value for key in node.keys]
    if isinstance(node, ast.DictComp):
        return [part.id for part in node.generators[0].iter.elts]
    raise ValueError(f"{name} has no STEPS, the table of its parts.")


def split_by(name, part):
    """The constant that a part is cut by, or None."""
    return _table(name, "SPLIT").get(part)


def pieces(name, part):
    """Names of the pieces of a part in the full size, or one that is empty."""
    constant = split_by(name, part)
    if constant is None:
        return [""]
    node = _assigned(name)[constant]
    return [str(value) for value in _values(node)]


def _values(node):
    """Keys of a mapping, or values of a tuple, also where tuples are unpacked into it."""
    for one in node.keys if isinstance(node, ast.Dict) else node.elts:
        if isinstance(one, ast.Starred):
            yield from _values(one.value)
        else:
            yield ast.literal_eval(one)


def chosen(names, size):
    """Jobs by the names of benchmarks, of parts or of their pieces; all if none is named."""
    every = jobs(size)
    known = {name for job in every for name in (job.benchmark, job.whole, str(job))}
    for unknown in set(names) - known:
        raise SystemExit(f"There is no {unknown}: there are {', '.join(sorted(known))}")
    return [job for job in every if not names or {job.benchmark, job.whole, str(job)} & set(names)]


def expected(job):
    """Seconds that a job should take: those of its last record, or the mean of its other pieces, or
    its share of a record of the whole part, or those that were guessed.
    """
    record = load(job)
    if record is not None and record.status == "done":
        return record.seconds
    others = [Job(job.benchmark, job.part, job.size, p) for p in pieces(job.benchmark, job.part)]
    known = [one.seconds for other in others if (one := load(other)) and one.status == "done"]
    if known and job.piece:
        return sum(known) / len(known)
    whole = load(Job(job.benchmark, job.part, job.size))
    if whole is not None and whole.status == "done":
        return whole.seconds / len(others)
    guessed = _table(job.benchmark, "GUESSED") if job.size == "full" else {}
    return guessed.get(job.part, UNKNOWN[job.size])


def needs(job):
    """What a job needs besides what all jobs need."""
    table = _table(job.benchmark, "NEEDS")
    return (*table.get("", ()), *table.get(job.part, ()))


def goes_on(job):
    """Whether a job that was ended begins with what it had: it calls `common.once`, in its own file
    or in one that it imports and that has no parts of its own.
    """
    for path in benchmark_files(job.benchmark):
        text, own = path.read_text(), path.stem == job.benchmark
        calls = re.search(r"\bonce\(|\(once\)", text) and path.stem != "common"
        if calls and (own or "STEPS" not in text):
            return True
    return False


def on_gpu(job):
    return "GPU" in needs(job)


def why_not(job):
    """What a job needs and is not here, or None."""
    return next((f"needs {need}" for need in needs(job) if not is_here(need, job.size)), None)


@cache
def is_here(need, size="full"):
    """Whether there is something that a job needs. To make environments of peers takes longer than
    all of the quick jobs, so these use what a full run has made.
    """
    from .. import peers

    if need == "GPU":
        asked = "import sys, torch; sys.exit(not torch.cuda.is_available())"
        return subprocess.run([sys.executable, "-c", asked], capture_output=True).returncode == 0
    if need.startswith("$"):
        return need[1:] in os.environ
    if need.endswith(".npz"):
        return (DATA / need).exists()
    if need in peers.NEEDS:
        return peers.is_there(need, make=size == "full")
    return importlib.util.find_spec(need) is not None
