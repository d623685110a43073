"""When does it pay to learn the weights?
======================================

Where all columns are good, the plain mean of the kernels is hard to beat. Among columns that say
nothing, learned weights win. Here the columns of the sonar data get company: shuffled copies of
themselves, which look the same and mean nothing.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from manykernels import MKLClassifier
from manykernels.datasets import load_sonar

X, y = load_sonar(return_X_y=True)
rng = np.random.default_rng(0)
folds = StratifiedKFold(5, shuffle=True, random_state=0)

# %%
# ``p=float("inf")`` is the plain sum of the same kernels; dividing C by their number makes it the
# mean.
copies = (0, 1, 3)
scores = {"learned weights": [], "mean of the same kernels": [], "SVC of scikit-learn": []}
for count in copies:
    wide = np.hstack([X, *(rng.permuted(X, axis=0) for _ in range(count))])
    kernels = wide.shape[1] + 6
    models = (
        MKLClassifier(C=10),
        MKLClassifier(C=10 / kernels, p=float("inf")),
        make_pipeline(StandardScaler(), SVC(C=10)),
    )
    for name, model in zip(scores, models, strict=True):
        scores[name].append(cross_val_score(model, wide, y, cv=folds))

for name, rows in scores.items():
    print(f"{name:26}", "  ".join(f"{row.mean():.3f} ± {row.std():.3f}" for row in rows))

# %%
# Five folds of 208 rows: differences of less than a bar's length mean little.
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for place, (name, rows) in enumerate(scores.items()):
    at = np.arange(len(copies)) + (place - 1) * 0.26
    means, errors = [row.mean() for row in rows], [row.std() / 5**0.5 for row in rows]
    ax.bar(at, means, 0.24, yerr=errors, capsize=3, label=name)
ax.set_xticks(range(len(copies)), ["as measured", "1 shuffled copy", "3 shuffled copies"])
ax.set(ylim=(0.5, 1.0), ylabel="accuracy on held-out folds")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(loc="upper right", ncols=3, frameon=False, fontsize="small")
plt.show()
