"""Models with fewer points (`manykernels.compress`): how small, how fast, how faithful.

All sets of the medium and large tables of the data (one of each family), ten of them: trained on at
most 2,000 rows at the defaults, compressed with at most 6,000 rows without labels, judged on at
most 8,000 others (the second held-out part, which no step has seen).

``agreement``: as few points as agree at 99 % of rows. Points, bytes of the file and time of a row,
each before over after, accuracy before and after, the agreement on the rows that `compress` kept
for its judgment, its bound at 95 %, and the agreement on the second part, which the bound should
not exceed, at 19 sets of 20. ``accuracy``: a twentieth of the points, and what that does to
accuracy. ``kinds``: a fifth of the points, moved ones beside those that are some of the model's own
and those that are no rows of anybody's.

What was learned
----------------
* Least squares on the points alone, with coefficients that are optimal for any points (variable
  projection), needs a tenth of the iterations of moving both.
* The model can be asked anywhere: rows between rows and their neighbors keep few points from
  following the given rows alone.
"""

import warnings

import numpy as np

from manykernels import MKLClassifier, compress

from .common import in_turns, once, read, table

SETS = (
    *("mushrooms", "svmguide1", "letter", "magic", "poker"),
    *("a9a", "w8a", "cod_rna", "ijcnn1", "covtype"),
)
TRAIN, GIVEN, JUDGED = 2000, 6000, 8000
AGREEMENT, SMALLER, FIFTH = 0.99, 20, 5
TIMED = 2000


def rows_of(name):
    """Rows to train on, to compress with and to judge on, with their labels; None without the
    set.
    """
    data = read(name)
    if data is None:
        return None
    X, y = data[:2]
    order = np.random.default_rng(0).permutation(len(y))
    train = min(TRAIN, len(y) // 4)
    given = train + min(GIVEN, (len(y) - train) // 2)
    parts = order[:train], order[train:given], order[given : given + JUDGED]
    return [(X[rows], y[rows]) for rows in parts]


def compressed(name, **target):
    """One model, and what stands for it."""
    (X, y), (rows, _), (new, truth) = rows_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MKLClassifier().fit(X, y)
        if "smaller" in target:
            target = {"n_points": max(2, model.decision_.support.size // target["smaller"])} | {
                key: value for key, value in target.items() if key != "smaller"
            }
        try:
            small = compress(model, rows, random_state=0, **target)
        except ValueError as error:
            return {"set": name, "refused": str(error)}
    found, some = small.compression_, new[:TIMED]
    times = in_turns([lambda: model.decision_function(some), lambda: small.decision_function(some)])
    before, after = model.predict(new), small.predict(new)
    return {
        "set": name,
        "points": found.points_before,
        "left": found.points,
        "kind": found.kind,
        "points x": found.points_before / found.points,
        "bytes x": found.bytes_before / found.bytes,
        "faster x": times[0] / times[1],
        "accuracy": float(np.mean(before == truth)),
        "then": float(np.mean(after == truth)),
        "agreement": found.agreement,
        "bound": found.bound(),
        "second part": float(np.mean(before == after)),
        "difference": found.difference,
    }


def tried(title, **target):
    """A table of all sets, and what they say together."""
    rows = []
    for name in SETS:
        if rows_of(name) is not None:
            label = f"{title} {name} {target}"
            rows.append(once(label, lambda name=name: compressed(name, **target)))
    done = [row for row in rows if "refused" not in row]
    table(title, [{key: shown(value) for key, value in row.items()} for row in done])
    for row in rows:
        if "refused" in row:
            print(f"{row['set']}: {row['refused']}")
    summary = {
        "sets": len(rows),
        "refused": len(rows) - len(done),
        **{
            f"median {key}": float(np.median([row.get(key, 1.0) for row in rows]))
            for key in ("points x", "bytes x", "faster x")
        },
        "bound held": sum(row["second part"] >= row["bound"] for row in done),
        "accuracy lost, median": float(np.median([row["accuracy"] - row["then"] for row in done])),
        "within half a point": sum(row["accuracy"] - row["then"] <= 0.005 for row in done),
    }
    table(f"{title}: all", [{key: shown(value) for key, value in summary.items()}])
    return {"rows": rows, "summary": summary}


def shown(value):
    return f"{value:.4g}" if isinstance(value, float) else value


def agreement():
    """As few points as agree at 99 % of rows."""
    return tried("99 % agreement", agreement=AGREEMENT)


def accuracy():
    """A twentieth of the points."""
    return tried("a twentieth of the points", smaller=SMALLER)


def kinds():
    """A fifth of the points, of every kind."""
    of = ("auto", "support", "synthetic")
    return {kind: tried(f"a fifth, {kind}", smaller=FIFTH, points=kind) for kind in of}


GUESSED = {"agreement": 400, "accuracy": 200, "kinds": 500}
QUICK = {"SETS": ("svmguide1",), "TRAIN": 500, "GIVEN": 1000, "JUDGED": 1000}
STEPS = {"agreement": agreement, "accuracy": accuracy, "kinds": kinds}
