"""Rows that lack whole views
==========================

Patients without proteomics, sensors that were off: with ``missing="scaled"`` such rows are trained
on and predicted. Here digits lose some of their six descriptions at random; beside it, what filling
the columns with their means would give, and what is left if incomplete rows are thrown away.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier
from manykernels.datasets import load_multiple_features
from manykernels.kernels import RBF, on_groups

digits = load_multiple_features()
X = StandardScaler().fit_transform(digits.data)
kernels = on_groups(digits.groups, RBF("median"))


def with_holes(rate, seed):
    """Every digit keeps one description and loses each of the others with this probability."""
    rng, table = np.random.default_rng(seed), X.copy()
    kept = rng.integers(len(digits.groups), size=len(X))
    for view, columns in enumerate(digits.groups.values()):
        gone = (rng.random(len(X)) < rate) & (kept != view)
        table[np.ix_(gone, columns)] = np.nan
    return table


# %%
# Columns are standardized, so that zero is their mean.
rates, splits = (0.0, 0.2, 0.4, 0.6), 3
scores = {'missing="scaled"': [], "filled with means": [], "complete rows only": []}
for rate in rates:
    rows = {name: [] for name in scores}
    for seed in range(splits):
        table = with_holes(rate, seed)
        train, test, y, y_test = train_test_split(
            table, digits.target, stratify=digits.target, random_state=seed
        )
        model = MKLClassifier(kernels, p=2, C=10, missing="scaled", tol=1e-2)
        rows['missing="scaled"'].append(model.fit(train, y).score(test, y_test))
        model = MKLClassifier(kernels, p=2, C=10, tol=1e-2)
        filled = model.fit(np.nan_to_num(train), y)
        rows["filled with means"].append(filled.score(np.nan_to_num(test), y_test))
        whole = ~np.isnan(train).any(axis=1)
        if np.unique(y[whole]).size == 10:
            model.fit(train[whole], y[whole])
            rows["complete rows only"].append(model.score(np.nan_to_num(test), y_test))
    for name, found in rows.items():
        scores[name].append(np.mean(found) if len(found) == splits else np.nan)
    print(rate, {name: f"{means[-1]:.3f}" for name, means in scores.items()})

# %%
# Complete rows end where too few are left to see every digit.
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for name, means in scores.items():
    ax.plot(rates, means, "o-", label=name)
ax.set(xlabel="probability that a description is missing", ylabel="accuracy on other digits")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
