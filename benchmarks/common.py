"""What benchmarks share: clocks, tables, the machine, real data."""

import contextlib
import inspect
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy import sparse

ABSENT = set()  # data that were asked for and are not here
DATA = Path(os.environ.get("MANYKERNELS_DATA", Path(__file__).parents[2] / "shared" / "data"))


def best_of(function, repeats=5):
    """Shortest of several runs, in seconds: on a shared machine the others measure neighbours."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def median_of(function, repeats=3, warm=1):
    """Median of several runs, in seconds, after some that compile and fill caches."""
    for _ in range(warm):
        function()
    return float(np.median([best_of(function, 1) for _ in range(repeats)]))


def in_turns(functions, repeats=5):
    """Shortest run of each function, taken in turns so that a slow moment meets all of them."""
    times = np.array([[best_of(function, 1) for function in functions] for _ in range(repeats)])
    return times.min(axis=0)


def until(seconds):
    """A watcher that ends a run, as Ctrl-C would, when this many seconds from now have passed."""
    end = time.perf_counter() + seconds

    def watch(record):
        if time.perf_counter() > end:
            raise KeyboardInterrupt

    return watch


@contextlib.contextmanager
def at_most(seconds):
    """End what runs inside as Ctrl-C would, which leaves a fitted estimator, after this many whole
    seconds.
    """

    def stop(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fit_within(seconds, model, X, y):
    """Seconds, gap and end of a fit that is ended as by Ctrl-C after so many whole seconds; without
    a gap if that is before there is a model.
    """
    began = time.perf_counter()
    try:
        with at_most(seconds):
            model.fit(X, y)
    except KeyboardInterrupt:
        found = {"ended": f"no model after {seconds} s"}
    else:
        found = _ended(model)
    return {"seconds": time.perf_counter() - began} | found


def _ended(model):
    """Gap and end of a model; nothing of one of another package."""
    result = getattr(model, "result_", None)
    if result is None:
        return {}
    return {"gap": float(result.duality_gap), "ended": result.status.name.lower()}


def run_parts(name, parts, wanted, out, full=False):
    """Run those parts (functions by name) that are wanted, all by default, and keep what they
    return.
    """
    for unknown in set(wanted or ()) - parts.keys():
        raise SystemExit(f"{name} has no part {unknown}: there are {', '.join(parts)}")
    chosen = {part: run for part, run in parts.items() if not wanted or part in wanted}
    results = {part: call(run, full) for part, run in chosen.items()}
    save("-".join([name, *chosen]) if wanted else name, results, out)
    return results


def call(part, full):
    """What a part returns, which is told whether all of it is wanted if it asks."""
    return part(full) if "full" in inspect.signature(part).parameters else part()


def once(label, function, *arguments):
    """What a function returns, kept in the file that ``MANYKERNELS_PARTIAL`` names if one is
    named: a job that was killed begins with what it had.
    """
    named = os.environ.get("MANYKERNELS_PARTIAL")
    if not named:
        return function(*arguments)
    path = Path(named)
    kept = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    for line in kept:
        if line["label"] == label:
            return line["value"]
    value = function(*arguments)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        stream.write(json.dumps({"label": label, "value": value}) + "\n")
    return value


def megabytes(field):
    """``VmRSS`` (now) or ``VmHWM`` (largest so far) of this process; ru_maxrss would begin at the
    size of the parent.
    """
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field)) / 1024


def in_new_process(code, **environment):
    """The JSON that a script prints on its last line, run in a fresh interpreter."""
    env = {**os.environ, **environment}
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    return json.loads(out.stdout.strip().splitlines()[-1])


def file_of(name):
    """The file of a data set, or None where it is not here."""
    path = DATA / f"{name}.npz"
    if path.exists():
        return path
    ABSENT.add(name)
    print(f"skipped {name}: {path} is not here (set MANYKERNELS_DATA to the folder of data sets)")
    return None


def read(name):
    """A real data set as it is: X and y, and those of its own test part if it has one; None where
    it is not here.
    """
    path = file_of(name)
    if path is None:
        return None
    parts = []
    with np.load(path) as archive:
        for suffix in ("", "_test"):
            if f"indptr{suffix}" in archive:
                arrays = (archive[f"{field}{suffix}"] for field in ("data", "indices", "indptr"))
                parts.append(
                    sparse.csr_array(tuple(arrays), shape=tuple(archive[f"shape{suffix}"])).astype(
                        float
                    )
                )
            elif f"X{suffix}" in archive:
                parts.append(archive[f"X{suffix}"].astype(float))
            if f"y{suffix}" in archive:
                parts.append(archive[f"y{suffix}"].astype(float))
    return parts


def load(name):
    """A dense data set, standardized, without its test part, or None where it is not here."""
    parts = read(name)
    if parts is None:
        return None
    X, y = parts[:2]
    X = X.toarray() if sparse.issparse(X) else X
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0), y


def table(title, rows):
    """Print rows (mappings) as an aligned table."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_cell(row.get(c, "")) for c in columns] for row in rows]
    widths = [max(len(c), *(len(line[i]) for line in cells)) for i, c in enumerate(columns)]
    print(f"\n{' '.join(title.split())}")
    for line in [columns, ["-" * w for w in widths], *cells]:
        print(
            "  ".join(
                text.rjust(w) if i else text.ljust(w)
                for i, (text, w) in enumerate(zip(line, widths, strict=True))
            )
        )


def _cell(value):
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def exponent(sizes, seconds):
    """Of the power of the size that fits the seconds best."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def save(name, results, out):
    """Write results with a description of the machine to ``out/NAME.json``."""
    machine = describe_machine()
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{name}.json"
    path.write_text(json.dumps({"machine": machine, "results": results}, indent=1))
    print(f"\n{machine['processor']}, {machine['cores']} cores; kept in {path}")


def describe_machine():
    """What the figures were measured on."""
    with open("/proc/meminfo") as lines:
        kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("MemTotal"))
    usable = len(os.sched_getaffinity(0))
    return {
        "python": platform.python_version(),
        "processor": _processor(),
        "cores": usable if usable == os.cpu_count() else f"{usable} of {os.cpu_count()}",
        "GB": round(kilobytes / 2**20),
    }


def _processor():
    """As ``lscpu`` calls it, which knows processors that the kernel numbers only."""
    lscpu = shutil.which("lscpu")
    lines = []
    if lscpu:
        lines = subprocess.run([lscpu], capture_output=True, text=True).stdout.splitlines()
    names = [line.split(":")[1].strip() for line in lines if line.startswith("Model name")]
    return names[0] if names else platform.processor() or platform.machine()
