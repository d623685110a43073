"""Which of three omics views tells the subtypes of breast cancer apart, and does one do without?

150 tumours of The Cancer Genome Atlas with 200 mRNAs, 184 miRNAs and 142 proteins each, and 70 more
whose proteins were never measured. A path with p = 1 lets the views enter one after the other, and
cross-validation says which are needed; `explain` mixes up one view at a time and says what each
adds that the others do not have. One learns that mRNA does most of it, that proteins add a little
and miRNA nothing that the others lack, and that the model still serves the 70 tumours without
proteins (missing="scaled"). Writes out/tcga_breast.png, and a report, out/tcga_breast.html.
Usage: python examples/tcga_breast.py [tcga_breast.npz]
"""

import os
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

from manykernels import MKLClassifier, explain, path, report
from manykernels.display import ImportanceDisplay, PathDisplay
from manykernels.kernels import on_groups

matplotlib.use("Agg")
import matplotlib.pyplot as plt

here = Path(__file__).resolve().parents[1]
folder = Path(os.environ.get("MANYKERNELS_DATA", here.parent / "shared" / "data"))
data = Path(sys.argv[1]) if sys.argv[1:] else folder / "tcga_breast.npz"
if not data.exists():
    sys.exit(f"{data} is not here: give the file, or set MANYKERNELS_DATA to the folder with it.")
VIEWS = {"mrna": "mRNA", "mirna": "miRNA", "protein": "protein"}


def tumours(archive, suffix=""):
    """All views side by side, in units of the training tumours; a view that was not measured is
    missing.
    """
    views = []
    for short, view in VIEWS.items():
        known = archive[f"X_{short}"]
        rows = archive.get(f"X{suffix}_{short}")
        if rows is None:
            rows = np.full((len(archive[f"y{suffix}"]), known.shape[1]), np.nan)
        units = (rows - known.mean(axis=0)) / known.std(axis=0)
        views.append(pd.DataFrame(units).add_prefix(f"{view} "))
    labels = np.array(["Basal", "Her2", "LumA"])[archive[f"y{suffix}_multi"]]
    return pd.concat(views, axis=1), labels


archive = dict(np.load(data))
X, y = tumours(archive)
X_other, y_other = tumours(archive, "_test")
columns = {view: [c for c in X.columns if c.startswith(f"{view} ")] for view in VIEWS.values()}

model = MKLClassifier(on_groups(columns), p=1.0, loss="squared_hinge", missing="scaled")
steps = path(model, X, y, max_groups=3)
print(steps.frame().to_string(index=False, float_format="{:.3g}".format))
choice = steps.choose(X, y)
print(choice)
chosen = choice.best
print(chosen.result_)
print(f"accuracy on {len(y_other)} tumours without proteins: {chosen.score(X_other, y_other):.1%}")
found = explain(chosen, X, y)
print(found)

figure, places = plt.subplot_mosaic(
    [["weights", "importance"], ["scores", "importance"]],
    figsize=(12, 5.6),
    height_ratios=[3, 1.6],
    width_ratios=[1.25, 1],
    layout="constrained",
)
PathDisplay.from_path(steps, choice=choice, ax=[places["weights"], places["scores"]])
places["weights"].set_title("Views enter one by one: how many are enough?", pad=14)
ImportanceDisplay.from_importance(found.importance, ax=places["importance"])
places["importance"].set(
    title="What each adds to the others", xlabel="drop of accuracy if a view is mixed up"
)
picture = here / "out" / "tcga_breast.png"
picture.parent.mkdir(exist_ok=True)
figure.savefig(picture, dpi=80)
print("picture:", picture)
page, title = here / "out" / "tcga_breast.html", "Breast cancer subtypes from three omics views"
print("report:", report(chosen, X_other, y_other, path=page, title=title, explanation=found))
