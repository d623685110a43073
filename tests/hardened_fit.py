"""Import, load, predict and fit, as a user who owns nothing and can write nowhere.

Arguments: a file to load a model from, or to save one to where there is none.
"""

import sys
from pathlib import Path

import numpy as np

import manykernels

X = np.random.default_rng(0).standard_normal((40, 3))
y = X[:, 0] * X[:, 1] > 0
path = Path(sys.argv[1])
if not path.exists():
    manykernels.save(manykernels.MKLClassifier().fit(X, y), path)
model = manykernels.load(path)
labels = model.predict(X)
fitted = manykernels.MKLClassifier().fit(X, y)
assert (fitted.predict(X) == labels).all()
print(manykernels.__file__)
