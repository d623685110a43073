"""Which measurements of a digit does a mail sorter need? From raw files to the last figure.

Six files hold six descriptions of the same 400 handwritten digits, each of which costs time to
compute. The script joins them, tunes a model, asks which descriptions matter and how sure that is,
finds the best two, predicts digits that lack one, and writes a report and a small model, which
the command line then applies. `docs/case.md` tells the story with these lines and what they print.

    python examples/case_digits.py            # prints, and writes into out/case
    python examples/case_digits.py --record   # also what docs/case.md shows, and docs/case.png

The digits come with the library (UCI Multiple Features, CC BY 4.0), so nothing else is needed.
"""

import contextlib
import hashlib
import io
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    compress,
    explain,
    load,
    report,
    save,
    sparsity_path,
    stability,
)
from manykernels.datasets import load_multiple_features
from manykernels.display import ImportanceDisplay, SparsityDisplay
from manykernels.kernels import on_groups

ROOT = Path(__file__).resolve().parents[1]
RAW = ROOT / "out" / "case"
RECORD, PICTURE = ROOT / "docs" / "case_output.txt", ROOT / "docs" / "case.png"


def write_raw_files():
    """What six programs would leave: a file each, its rows in an order of its own."""
    digits = load_multiple_features(as_frame=True)
    names = pd.Index([f"scan{i:03}" for i in range(len(digits.target))], name="scan")
    RAW.mkdir(parents=True, exist_ok=True)
    for seed, (view, columns) in enumerate(digits.groups.items()):
        table = digits.data[columns].set_index(names).sample(frac=1, random_state=seed)
        table.to_csv(RAW / f"{view}.csv")
    digits.target.set_axis(names).rename("digit").to_csv(RAW / "labels.csv")
    return list(digits.groups)


def the_case():
    # --- join
    views = {view: pd.read_csv(RAW / f"{view}.csv", index_col="scan") for view in VIEWS}
    labels = pd.read_csv(RAW / "labels.csv", index_col="scan")["digit"]
    X = pd.concat(views.values(), axis=1, join="inner").loc[labels.index]
    groups = {view: list(table.columns) for view, table in views.items()}
    train, test, y, y_test = train_test_split(
        X, labels, train_size=0.6, stratify=labels, random_state=0
    )
    print(X.shape, {view: len(columns) for view, columns in groups.items()})
    print(f"{len(train)} digits to learn from, {len(test)} kept away")

    # --- tune
    model = MKLClassifierCV(on_groups(groups), Cs=6, ps=[1, 2], random_state=0).fit(train, y)
    print(f"C = {model.C_:.3g}, p = {model.p_}, accuracy on held-out folds {model.best_score_:.3f}")
    print(f"{model.result_.status.name}, gap {model.result_.duality_gap:.0e}")

    # --- beside
    grid = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": ["scale", 1e-4, 3e-4, 1e-3, 3e-3]}
    svc = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid).fit(train, y)
    mean = MKLClassifierCV(on_groups(groups), Cs=6, ps=[np.inf], random_state=0).fit(train, y)
    print("accuracy on the 160 digits that were kept away")
    print(f"  learned weights      {model.score(test, y_test):.3f}")
    print(f"  mean of kernels      {mean.score(test, y_test):.3f}")
    print(f"  tuned SVC            {svc.score(test, y_test):.3f}")
    for view, columns in groups.items():
        alone = MKLClassifier(on_groups({view: columns}), C=10).fit(train[columns], y)
        print(f"  {view + ' alone':21}{alone.score(test[columns], y_test):.3f}")

    # --- explain
    plain = MKLClassifier(on_groups(groups), C=model.C_, p=model.p_)
    found = explain(plain.fit(train, y), train, y, random_state=0)
    print(found)

    # --- stability
    halves = stability(plain, train, y, n_resamples=40, max_groups=2, random_state=0)
    print(halves.frame()[["group", "frequency", "stable"]].to_string(index=False))
    print(
        f"expected among the stable by chance: at most {halves.expected_false():.2f} descriptions"
    )

    # --- exactly
    steps = sparsity_path(plain, train, y, k=4, cv=3)
    for k, fitted, score in zip(steps.k, steps, steps.scores.mean(axis=0), strict=True):
        best = [view for view, share in fitted.group_weights_.items() if share]
        print(k, f"{score:.3f}", f"{fitted.score(test, y_test):.3f}", *best)

    # --- missing
    robust = clone(plain).set_params(missing="scaled").fit(train, y)
    without = {}
    for view, columns in groups.items():
        lacking = test.copy()
        lacking[columns] = np.nan
        without[view] = robust.score(lacking, y_test)
        print(f"accuracy without {view:15} {without[view]:.3f}")

    # --- report
    final = clone(plain).set_params(max_groups=2).fit(train, y)
    title = "Which measurements does a mail sorter need?"
    page = report(final, test, y_test, path=RAW / "report.html", title=title, explanation=found)
    print(page.name, f"{page.stat().st_size / 1e6:.1f} MB")

    # --- compress
    small = compress(final, test, agreement=0.97, random_state=0)
    print(small.compression_)
    for name, kept in (("model.mk", final), ("small.mk", small)):
        save(kept, RAW / name)
        print(name, f"{(RAW / name).stat().st_size / 1e3:.0f} kB", end="  ")
        print(f"accuracy {load(RAW / name).score(test, y_test):.3f}")

    # --- shell
    test.head(5).to_csv(RAW / "new.csv")
    command = "predict small.mk new.csv --out labels_new.csv"
    subprocess.run([sys.executable, "-m", "manykernels", *command.split()], cwd=RAW, check=True)
    print((RAW / "labels_new.csv").read_text().strip())
    print("truth", *y_test.head(5))

    # --- figure
    figure, places = plt.subplot_mosaic(
        [["adds", "best", "lack"], ["adds", "scores", "lack"]],
        figsize=(14, 4.6),
        layout="constrained",
    )
    ImportanceDisplay.from_importance(found.importance, ax=places["adds"])
    places["adds"].set(title="What each adds to the others", xlabel="drop if it is mixed up")
    SparsityDisplay.from_path(steps, ax=[places["best"], places["scores"]])
    places["best"].set_title("How many are enough?")
    right = places["lack"]
    right.barh(list(without)[::-1], list(without.values())[::-1], color="#3a6ea5")
    right.axvline(robust.score(test, y_test), color="#888888", linestyle="--", linewidth=1)
    right.set(xlim=(0.8, 1.0), xlabel="accuracy", title="Digits that lack one description")
    right.spines[["top", "right"]].set_visible(False)
    figure.savefig(RAW / "case.png", dpi=80)


class Tee(io.StringIO):
    """Keeps what is printed, and prints it."""

    def write(self, text):
        sys.__stdout__.write(text)
        return super().write(text)


if __name__ == "__main__":
    VIEWS = write_raw_files()
    with contextlib.redirect_stdout(Tee()) as printed:
        the_case()
    if "--record" in sys.argv[1:]:
        digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
        RECORD.write_text(f"examples/case_digits.py {digest}\n{printed.getvalue()}", "utf-8")
        PICTURE.write_bytes((RAW / "case.png").read_bytes())
