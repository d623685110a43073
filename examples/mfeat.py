"""Which of six ways to describe a handwritten digit tells the digits apart?

2000 digits, each as Fourier coefficients, profile correlations, Karhunen-Loève coefficients, pixel
averages, Zernike moments and morphology; every digit has kernel weights of its own. Writes
out/mfeat.html. Usage: python examples/mfeat.py [mfeat.npz]
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, report
from manykernels.kernels import RBF

VIEWS = {
    "fou": "Fourier",
    "fac": "profiles",
    "kar": "Karhunen-Loève",
    "pix": "pixels",
    "zer": "Zernike",
    "mor": "morphology",
}
here = Path(__file__).resolve().parents[1]
archive = np.load(
    sys.argv[1] if len(sys.argv) > 1 else here.parent / "shared" / "data" / "mfeat.npz"
)
views = {
    name: pd.DataFrame(archive[f"X_{short}"]).add_prefix(f"{name} ")
    for short, name in VIEWS.items()
}
X, y = pd.concat(views.values(), axis=1), archive["y_multi"]

kernels = {}
for view, table in views.items():
    columns = list(table.columns)
    kernels[view] = [RBF(scale / len(columns), features=columns) for scale in (0.1, 0.3, 1.0)]

X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=0.3, stratify=y, random_state=0
)
scaler = StandardScaler().set_output(transform="pandas").fit(X_train)
model = MKLClassifier(kernels, p=1.1, C=10, share_weights=False).fit(
    scaler.transform(X_train), y_train
)

print(model.result_)
print(
    f"accuracy on {len(y_test)} other digits: {model.score(scaler.transform(X_test), y_test):.1%}"
)
title = "Handwritten digits from six views"
print(
    "report:",
    report(model, scaler.transform(X_test), y_test, path=here / "out" / "mfeat.html", title=title),
)
