"""Mutants: small faults put into the source one at a time, and whether the tests notice them.

The faults are cosmic-ray's: another arithmetic operator or comparison, a number that is off by one,
a condition turned round, a loop left out. Of all of them a sample is taken, of each file in
proportion to what it has. Whether a mutant is in the sample depends on its own function alone, so
that two states of the code which differ elsewhere are judged by the same mutants.

A mutant lives in a copy of the source and the tests, never in the checkout, and meets the tests of
its file in a process forked from one that has already imported everything but this package. All of
them take an hour of processors, and a run that was ended goes on.
"""

import hashlib
import importlib
import math
import multiprocessing
import os
import re
import resource
import shlex
import shutil
import signal
import sys
import tempfile
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numba
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from threadpoolctl import threadpool_limits

from .common import once, table

CHECKOUT = Path(__file__).parents[1]
COUNT, SEED = 300, 0
WORKERS = os.cpu_count() or 1
SLACK, MORE = 3.0, 10.0  # CPU time a mutant may take: a multiple of that of the tests, and seconds
PATIENCE = 20  # seconds on the clock for each of these, for a mutant that waits instead of working
MEMORY = 8 * 2**30  # bytes of addresses, so that a mutant cannot take the machine with it
IMPORTED = ("cvxpy", "pandas", "scipy.optimize", "sklearn.kernel_ridge", "sklearn.svm")

# One or two faults for each place: the opposite, and for an order the same without its border.
ARITHMETIC = "Add_Sub|Sub_Add|Mul_Div|Div_Mul|FloorDiv_Mul|Pow_Mul|BitAnd_BitOr|BitOr_BitAnd"
ORDER = "Lt_(LtE|GtE)|LtE_(Lt|Gt)|Gt_(GtE|LtE)|GtE_(Gt|Lt)|Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is"
OPERATORS = re.compile(
    rf"ReplaceBinaryOperator_({ARITHMETIC})|ReplaceComparisonOperator_({ORDER})"
    r"|ReplaceUnaryOperator_Delete_.*|Replace(True|False|And|Or|Break|Continue)With.*"
    r"|AddNot|NumberReplacer|ExceptionReplacer|ZeroIterationForLoop"
)


class Part(NamedTuple):
    """Files of the package, the tests that they meet, and which of these: some seconds of them."""

    sources: str
    tests: tuple[str, ...]
    chosen: str = ""

    def options(self):
        """As pytest takes them."""
        return [*(f"tests/test_{name}" for name in self.tests), "-k", self.chosen]


PARTS = (
    Part(
        "run_state.py",
        ("problem.py", "losses.py", "newton_streamed.py", "hard_cases.py"),
        "not reach and not several_targets and not hold_the_products and not TestChoices",
    ),
    Part(
        "problem.py",
        ("problem.py", "losses.py", "newton_streamed.py", "hard_cases.py"),
        "not reach and not several_targets and not hold_the_products and not TestChoices",
    ),
    Part(
        "regularizers/*.py",
        (
            "solvers.py::test_reweight_minimizes",
            "testing.py",
            "regularizers.py",
            "newton_streamed.py::TestParts",
            "subsets.py::test_every_k_equals_enumeration",
            "subsets.py::test_as_many_as_there_are_is_the_plain_problem",
        ),
    ),
    Part(
        "losses.py",
        ("losses.py", "machines.py", "hard_cases.py::TestScales", "multiplicative.py"),
        "not several and not approaches and not TestEngines and (not reach or newton and 1.33)",
    ),
    Part(
        "solvers/newton.py",
        (
            "hard_cases.py::test_newton_counts_its_kernels",
            "newton_streamed.py",
            "solvers.py::test_reaches_the_optimum",
        ),
        "not hold_the_products and (streamed or counts or newton and PNormBall and not 3.0)",
    ),
)


class Mutant(NamedTuple):
    """One fault; ``name`` says where it is without line numbers, ``occurrence`` is cosmic-ray's."""

    part: Part
    source: Path
    line: int
    name: str
    operator: str
    occurrence: int

    def rank(self):
        """A random number that belongs to the name."""
        return hashlib.sha256(f"{SEED} {self.name}".encode()).hexdigest()


def mutants_of(part, source):
    """All mutants of a file."""
    tree = get_ast(source.read_text())
    for operator in filter(lambda name: OPERATORS.fullmatch(name.split("/")[1]), operator_names()):
        find = get_operator(operator)().mutation_positions
        places = ((node, start) for node in ast_nodes(tree) for start, _ in find(node))
        seen = Counter()
        for occurrence, (node, (line, _)) in enumerate(places):
            name = f"{source.stem} {_function(node)} {operator.split('/')[1]}"
            seen[name] += 1
            yield Mutant(part, source, line, f"{name} {seen[name]}", operator, occurrence)


def _function(node):
    """The dotted name of the function that a node is in."""
    names = []
    while node := node.parent:
        if node.type in ("funcdef", "classdef"):
            names.append(node.name.value)
    return ".".join(reversed(names)) or "module"


def sample(mutants, count):
    """So many mutants, of each file in proportion to what it has, in the order of the files."""
    share, chosen = min(1.0, count / len(mutants)), []
    for source in dict.fromkeys(mutant.source for mutant in mutants):
        own = [mutant for mutant in mutants if mutant.source == source]
        chosen += sorted(own, key=Mutant.rank)[: math.ceil(share * len(own) - 0.5)]
    return chosen


class Copy:
    """The source and the tests in a folder of their own, with what is compiled already."""

    def __init__(self, folder):
        self.folder = Path(folder)
        for name in ("src", "tests"):
            shutil.copytree(CHECKOUT / name, self.folder / name)
        shutil.copy2(CHECKOUT / "pyproject.toml", self.folder)

    def place(self, source):
        return self.folder / source.relative_to(CHECKOUT)

    def run(self, part, seconds=math.inf):
        """Exit status of the tests, or minus the signal that ended them, and the CPU time taken."""
        pid = os.fork()
        if pid == 0:
            self._child(part, seconds)
        _, status, used = os.wait4(pid, 0)
        return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime

    def _child(self, part, seconds):
        status = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(1, 2)
            os.chdir(self.folder)
            os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # these tests need none
            sys.path[:0] = [str(self.folder / "src"), str(self.folder / "tests")]
            for name in [name for name in sys.modules if name.split(".")[0] == "manykernels"]:
                del sys.modules[name]  # that of the checkout, which is no mutant
            if seconds < math.inf:
                sys.dont_write_bytecode = True  # mutants written within a second look the same
                limit = math.ceil(seconds)
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                signal.alarm(PATIENCE * limit)
            status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *part.options()])
        finally:
            os._exit(status)


def unmutated(copy, part):
    """CPU time of the tests on the source as it is, when all is compiled."""
    copy.run(part)
    status, seconds = copy.run(part)
    if status:
        raise SystemExit(
            f"The tests of {part.sources} must pass on the source as it is, but pytest ended with "
            f"{status}: run pytest {shlex.join(part.options())}"
        )
    return seconds


def meet(copy, mutant, seconds):
    """What became of a mutant: a line of the outcome."""
    text = mutant.source.read_text()
    mutated = mutate_code(text, get_operator(mutant.operator)(), mutant.occurrence)
    place = copy.place(mutant.source)
    place.write_text(mutated)
    status, used = copy.run(mutant.part, SLACK * seconds + MORE)
    shutil.copy2(mutant.source, place)
    lines = zip(text.splitlines(), mutated.splitlines(), strict=False)
    was, now = next(((a, b) for a, b in lines if a != b), ("", ""))
    fate = "survived" if status == 0 else "killed"
    return {
        "file": str(mutant.source.relative_to(CHECKOUT)),
        "line": mutant.line,
        "name": mutant.name,
        "was": was.strip(),
        "now": now.strip(),
        "outcome": "timed out" if status in (-signal.SIGXCPU, -signal.SIGALRM) else fate,
        "seconds": used,
    }


def _meet_all(mutants, seconds):
    """Some mutants, one after the other, in a copy of their own."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        copy = Copy(folder)
        for part in dict.fromkeys(mutant.part for mutant in mutants):
            copy.run(part)  # compiles
        for mutant in mutants:
            rows.append(once(mutant.name, meet, copy, mutant, seconds[mutant.part]))
            line = "{outcome:9} {seconds:6.1f} s  {file}:{line}  {name}"
            print(line.format(**rows[-1]), flush=True)
    return rows


def summary(rows, key):
    """Counts of outcomes for each value of a key, and for all."""
    counts = []
    for value in [*dict.fromkeys(row[key] for row in rows), "all"]:
        own = [row["outcome"] for row in rows if value in (row[key], "all")]
        tally = {outcome: own.count(outcome) for outcome in ("killed", "timed out", "survived")}
        noticed = 1.0 - tally["survived"] / len(own)
        counts.append({key: value, "sampled": len(own), **tally, "noticed": f"{noticed:.1%}"})
    return counts


def prepare():
    """Do here once what every child would do again."""
    for name in IMPORTED:
        importlib.import_module(name)
    numba.njit(lambda x: x)(0.0)  # the first call of all fills numba's tables of types


def sampled():
    """Mutants of a sample, and whether the tests notice them."""
    prepare()
    package = CHECKOUT / "src" / "manykernels"
    mutants = [
        mutant
        for part in PARTS
        for source in sorted(package.glob(part.sources))
        for mutant in mutants_of(part, source)
    ]
    chosen = sample(mutants, COUNT)
    print(f"{len(chosen)} of {len(mutants)} mutants")
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        copy = Copy(folder)
        seconds = {part: once(f"{part.sources} alone", unmutated, copy, part) for part in PARTS}
        table("the tests alone", [{"file": p.sources, "seconds": s} for p, s in seconds.items()])
    shares = [(chosen[k::WORKERS], seconds) for k in range(WORKERS)]
    with multiprocessing.get_context("fork").Pool(WORKERS) as pool:
        rows = list(chain.from_iterable(pool.starmap(_meet_all, shares)))
    order = {mutant.name: place for place, mutant in enumerate(chosen)}
    rows.sort(key=lambda row: order[row["name"]])
    for row in rows:
        if row["outcome"] == "survived":
            print("\n{file}:{line}  {name}\n    {was}\n    {now}".format(**row))
    table("mutants that the tests noticed", summary(rows, "file"))
    print(f"\n{sum(row['seconds'] for row in rows):.0f} s of CPU time")
    return {"by file": summary(rows, "file"), "mutants": rows}


STEPS = {"sampled": sampled}
NEEDS = {"": ("cosmic_ray",)}
GUESSED = {"sampled": 1200}
QUICK = {"COUNT": 2, "PARTS": PARTS[2:3]}
