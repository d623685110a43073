"""Everything that people combine, at the sizes where fits take other ways than small ones.

The rows of the crossing table (``tests/crossing.py``), each with 12,000 and with 60,000 points:
the fit may take `SECONDS`, and then gets Ctrl-C. A row holds if it ends by itself, or obeys; if
what it leaves is finite; if the certificate, computed once more from the statement of the problem,
is what was claimed; and if the model predicts the same once it was saved and loaded. ``ways`` says
which of the table's ways were walked without lowered thresholds. Where rows do not hold, the error
is printed; the last line counts. Points are the first six columns of cod_rna, or random ones where
that is not here.

Rows whose Gram matrices would have to be given are left out at 60,000 points. Several rows run
beside each other, on two cores each.
"""

import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np

from .common import load, once, table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

SIZES = (12_000, 60_000)
SECONDS = 8
EVERY = {12_000: 1, 60_000: 6}  # of the rows are run
CORES = 2  # of a row
GUESSED = {"smaller": 1100, "larger": 400}
QUICK = {"SIZES": (400, 800), "SECONDS": 2, "EVERY": {400: 12, 800: 24}}


class _Alarm:
    """Ctrl-C after some seconds, and whether it came to that."""

    def __init__(self, seconds):
        self.seconds, self.rang = seconds, False

    def __enter__(self):
        signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        return self

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _ring(self, *_):
        self.rang = True
        raise KeyboardInterrupt


def _outcome(number, row, n, seconds):
    """What came of one row, as a line of the table."""
    import crossing

    case = crossing.case(row, n, points=_points(n))
    began, walked = time.perf_counter(), set()
    line = {"row": number, "n": n, "status": "", "s": 0.0, "heard after s": 0.0, "gap": np.nan}
    line["checked in s"] = 0.0
    try:
        with _Alarm(seconds) as alarm, crossing.every_way() as walked:
            try:
                model = crossing.fitted(case, n_jobs=CORES)
            except KeyboardInterrupt:  # a grid of which nothing is finished
                model = None
        line["s"] = time.perf_counter() - began
        if alarm.rang:  # from when it was due: compiled code that takes long puts it off
            line["heard after s"] = line["s"] - seconds
        line["status"] = "INTERRUPTED"
        if model is not None:
            line["status"] = model.result_.status.name
            walked |= crossing.planned_ways(model)
            line["gap"] = float(model.result_.duality_gap)
            began = time.perf_counter()
            crossing.check_model(case, model, crossing.AXES["tolerance"][row["tolerance"]])
            with tempfile.TemporaryDirectory() as folder:
                crossing.check_file(case, model, Path(folder))
            line["checked in s"] = time.perf_counter() - began
        line["holds"] = True
    except Exception:
        line["holds"] = False
        line["error"] = f"{row}\n{traceback.format_exc()}"
    return line | {"ways": ", ".join(sorted(walked))}


def _points(n):
    real = load("cod_rna")
    if real is None or len(real[0]) < n + 9:
        return None
    shuffled = np.random.default_rng(0).permutation(len(real[0]))
    return real[0][shuffled[: n + 9], :6]


def _kept(arguments):
    """What came of one row; a run that was ended goes on with the rows that it has not had."""
    number, _, n, _ = arguments
    return once(f"row {number} with {n} points", _outcome, *arguments)


def _run(n):
    import crossing

    rows, impossible = crossing.rows()
    chosen = [
        (number, row, n, SECONDS)
        for number, row in enumerate(rows)
        if number % EVERY[n] == 0 and not (n > 20_000 and row["kernels"] == "matrices")
    ]
    at_once = max(1, len(os.sched_getaffinity(0)) // CORES)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(CORES)
    with multiprocessing.get_context("spawn").Pool(at_once, maxtasksperchild=10) as pool:
        lines = []
        for line in pool.imap_unordered(_kept, chosen):
            if "error" in line:
                print(f"row {line['row']} does not hold: {line.pop('error')}", flush=True)
            lines.append(line)
            print(len(lines), line, flush=True)
    lines.sort(key=lambda line: line["row"])
    table(f"rows with {n:,} points, Ctrl-C after {SECONDS} s", lines)
    held = sum(line["holds"] for line in lines)
    ways = {way for line in lines for way in line["ways"].split(", ") if way}
    slowest = max(line["heard after s"] for line in lines)
    print(
        f"{held} of {len(lines)} rows hold; {crossing.count_pairs() - len(impossible)} pairs in "
        f"{len(rows)} rows, {len(impossible)} refused; {len(ways)} of {len(crossing.WAYS)} ways "
        f"walked; Ctrl-C heard after {slowest:.1f} s at most"
    )
    return lines


def smaller():
    """The first size."""
    return _run(SIZES[0])


def larger():
    """The second size."""
    return _run(SIZES[1])


STEPS = {"smaller": smaller, "larger": larger}
