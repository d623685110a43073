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
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, report
from manykernels.kernels import RBF

VIEWS = {"fou": "Fourier", "fac": "profiles", "kar": "Karhunen-Loève"}
VIEWS |= {"pix": "pixels", "zer": "Zernike", "mor": "morphology"}
here = Path(__file__).resolve().parents[1]
data = sys.argv[1] if sys.argv[1:] else here.parent / "shared" / "data" / "mfeat.npz"
archive, views, kernels = np.load(data), [], {}
for short, view in VIEWS.items():
    views.append(pd.DataFrame(archive[f"X_{short}"]).add_prefix(f"{view} "))
    columns = list(views[-1].columns)
    kernels[view] = [RBF(scale / len(columns), features=columns) for scale in (0.1, 0.3, 1.0)]
X, y = pd.concat(views, axis=1), archive["y_multi"]
train, test, y_train, y_test = train_test_split(X, y, train_size=0.3, stratify=y, random_state=0)

model = make_pipeline(StandardScaler(), MKLClassifier(kernels, p=1.1, C=10, share_weights=False))
model.set_output(transform="pandas").fit(train, y_train)

print(model[-1].result_)
print(f"accuracy on {len(y_test)} other digits: {model.score(test, y_test):.1%}")
page, title = here / "out" / "mfeat.html", "Handwritten digits from six views"
print("report:", report(model, test, y_test, path=page, title=title))
