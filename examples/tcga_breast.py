"""Which of three omics views tells the subtypes of breast cancer apart?

150 tumours of The Cancer Genome Atlas with 200 mRNAs, 184 miRNAs and 142 proteins each; every view
has four kernels of its own. Writes out/tcga_breast.html. Usage: python examples/tcga_breast.py
[tcga_breast.npz]
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, report
from manykernels.kernels import RBF, Linear

here = Path(__file__).resolve().parents[1]
archive = np.load(
    sys.argv[1] if len(sys.argv) > 1 else here.parent / "shared" / "data" / "tcga_breast.npz"
)
views = {
    view: pd.DataFrame(archive[f"X_{view}"]).add_prefix(f"{view} ")
    for view in ("mrna", "mirna", "protein")
}
X, y = pd.concat(views.values(), axis=1), np.array(["Basal", "Her2", "LumA"])[archive["y_multi"]]

kernels = {}
for view, table in views.items():
    columns = list(table.columns)
    widths = [scale / len(columns) for scale in (0.1, 0.3, 1.0)]
    kernels[view] = [Linear(features=columns), *(RBF(gamma, features=columns) for gamma in widths)]

X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=1 / 3, stratify=y, random_state=0
)
scaler = StandardScaler().set_output(transform="pandas").fit(X_train)
model = MKLClassifier(kernels, p=1.33, C=10).fit(scaler.transform(X_train), y_train)

print(model.result_)
print(
    model.weights_frame()
    .groupby("group")["share"]
    .sum()
    .sort_values(ascending=False)
    .round(3)
    .to_string()
)
print(
    f"accuracy on {len(y_test)} other tumours: {model.score(scaler.transform(X_test), y_test):.1%}"
)
title = "Breast cancer subtypes from three omics views"
print(
    "report:",
    report(
        model, scaler.transform(X_test), y_test, path=here / "out" / "tcga_breast.html", title=title
    ),
)
