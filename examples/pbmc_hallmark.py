"""Which gene sets tell dendritic cells from monocytes, how many are enough, and how sure is that?

369 blood cells (scanpy's pbmc68k_reduced) with the Hallmark gene sets of MSigDB, each a group of
kernels. A path with p = 1 lets the sets enter one after the other; cross-validation says how many
are enough (the fewest within one standard error of the best AUROC); halves of the cells say whether
other cells would have chosen the same sets. One learns that a single set tells most of it, that
five are about as good as ten, and which three of the names to believe. Writes
out/pbmc_hallmark.png.
Usage: python examples/pbmc_hallmark.py [folder with pbmc_dc_mono.npz and hallmark.gmt]
"""

import os
import sys
from pathlib import Path

import anndata as ad
import matplotlib
import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from manykernels import MKLClassifier, path, stability
from manykernels.display import PathDisplay, StabilityDisplay
from manykernels.kernels import on_groups
from manykernels.omics import read_gmt, views

matplotlib.use("Agg")
import matplotlib.pyplot as plt

here = Path(__file__).resolve().parents[1]
folder = Path(
    sys.argv[1]
    if sys.argv[1:]
    else os.environ.get("MANYKERNELS_DATA", here.parent / "shared" / "data")
)
cells_file, sets_file = folder / "pbmc_dc_mono.npz", folder / "hallmark.gmt"
for file in (cells_file, sets_file):
    if not file.exists():
        sys.exit(f"{file} is not here: give the folder that has it, or set MANYKERNELS_DATA.")

# as from a file of cells: views("cells.h5ad", labels="kind", groups="hallmark.gmt")
archive = np.load(cells_file)
kinds = np.array(["monocyte", "dendritic cell"])[archive["y"]]
cells = ad.AnnData(
    archive["X"],
    obs=pd.DataFrame({"kind": kinds}, index=[f"cell {i}" for i in range(len(kinds))]),
    var=pd.DataFrame(index=archive["genes"]),
)
sets = {
    name.removeprefix("HALLMARK_").replace("_", " ").lower(): genes
    for name, genes in read_gmt(sets_file).items()
}
seen = archive["train"]
train = views(cells[seen], labels="kind", groups=sets)
test = views(cells[~seen], labels="kind", like=train)
print(train)

model = MKLClassifier(on_groups(train.groups), p=1.0, class_weight="balanced")
steps = path(model, train, train.y, max_groups=10)
print(steps.frame().to_string(index=False, float_format="{:.3g}".format))
choice = steps.choose(train, train.y, scoring="roc_auc")
print(choice)
for name in ("best", "simplest"):
    chosen = getattr(choice, name)
    score = roc_auc_score(test.y == chosen.classes_[1], chosen.decision_function(test))
    print(f"AUROC of the {name} model on {len(test.y)} other cells: {score:.3f}")
most = int(choice.n_groups[choice.costs == choice.simplest.C][0])
found = stability(steps[-1], train, train.y, n_resamples=50, max_groups=most)
print(found)

figure, places = plt.subplot_mosaic(
    [["weights", "stability"], ["scores", "stability"]],
    figsize=(14, 6.4),
    height_ratios=[3, 1.3],
    width_ratios=[1.25, 1],
    layout="constrained",
)
PathDisplay.from_path(steps, choice=choice, ax=[places["weights"], places["scores"]])
places["weights"].set_title("Gene sets enter one by one: how many are enough?", pad=14)
StabilityDisplay.from_stability(found, max_groups=12, ax=places["stability"])
places["stability"].set_title(f"The {most} that halves of the cells choose")
picture = here / "out" / "pbmc_hallmark.png"
picture.parent.mkdir(exist_ok=True)
figure.savefig(picture, dpi=80)
print("picture:", picture)
