"""Which of three omics views tells the subtypes of breast cancer apart?

150 tumours of The Cancer Genome Atlas with 200 mRNAs, 184 miRNAs and 142 proteins each; every view
has four kernels of its own. Writes out/tcga_breast.html.
Usage: python examples/tcga_breast.py [tcga_breast.npz]
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, report
from manykernels.kernels import RBF, Linear

here = Path(__file__).resolve().parents[1]
data = sys.argv[1] if sys.argv[1:] else here.parent / "shared" / "data" / "tcga_breast.npz"
archive, views, kernels = np.load(data), [], {}
for view in ("mrna", "mirna", "protein"):
    views.append(pd.DataFrame(archive[f"X_{view}"]).add_prefix(f"{view} "))
    columns = list(views[-1].columns)
    widths = [scale / len(columns) for scale in (0.1, 0.3, 1.0)]
    kernels[view] = [Linear(features=columns), *(RBF(gamma, features=columns) for gamma in widths)]
X, y = pd.concat(views, axis=1), np.array(["Basal", "Her2", "LumA"])[archive["y_multi"]]
train, test, y_train, y_test = train_test_split(X, y, test_size=1 / 3, stratify=y, random_state=0)

model = make_pipeline(StandardScaler(), MKLClassifier(kernels, p=1.33, C=10))
model.set_output(transform="pandas").fit(train, y_train)

print(model[-1].result_)
print({view: round(share, 3) for view, share in model[-1].group_weights_.items()})
print(f"accuracy on {len(y_test)} other tumours: {model.score(test, y_test):.1%}")
page, title = here / "out" / "tcga_breast.html", "Breast cancer subtypes from three omics views"
print("report:", report(model, test, y_test, path=page, title=title))
