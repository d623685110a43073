"""Which description of a digit tells the digits apart?
====================================================

The same 400 handwritten digits were described in six ways: pixels, Fourier coefficients, moments
and more. Which of them does a model need, and do its weights say so?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, explain
from manykernels.datasets import load_multiple_features
from manykernels.kernels import RBF, Linear, on_groups

digits = load_multiple_features()
X, y = digits.data, digits.target

# %%
# ``on_groups`` puts these three kernels on each description; widths follow the median distance.
kernels = [RBF("median"), RBF("median", factor=0.25), Linear()]
model = make_pipeline(
    StandardScaler(), MKLClassifier(on_groups(digits.groups, kernels), p=1.33, C=10)
)

# %%
# ``explain`` trains on parts of the digits, and mixes up what one description says of the others:
# the drop of the accuracy is what the model relies on it for. It says in words where weights cannot
# tell, as here, where three descriptions say much the same.
found = explain(model, X, y, cv=5, n_halves=10)
print(found)

# %%
# Beside the model of all six, one model for each alone.
alone = {}
for view, columns in digits.groups.items():
    whole = {view: range(len(columns))}
    single = make_pipeline(
        StandardScaler(),
        MKLClassifier(on_groups(whole, kernels), p=1.33, C=10),
    )
    alone[view] = cross_val_score(single, X[:, columns], y, cv=3).mean()
    print(f"{view:15} alone: {alone[view]:.1%}")

# %%
# Five of the six have about the same weight, and the model relies on them to different degrees. A
# description that is good alone is missed little where others say what it says, so that the last
# line mixes up all of those at once; one that is poor alone may say what no other does.
(like,) = found.alike
names = [*found.groups, " +\n".join(like.groups)]
drops = np.array([*found.drops, like.drop])
reach = np.abs(np.vstack([found.intervals, like.interval]).T - drops)
places = np.array([*range(len(found.groups)), len(found.groups) + 0.6])
figure, (left, middle, right) = plt.subplots(
    1, 3, figsize=(8.6, 4.6), layout="constrained", sharey=True, width_ratios=[3, 2, 2]
)
error = {"ecolor": "#1d1d1d", "capsize": 3, "elinewidth": 1}
colors = ["#3a6ea5"] * len(found.groups) + ["#9db7d5"]
left.barh(places, drops, xerr=reach, color=colors, error_kw=error)
left.set_title("drop of the accuracy\nif it is mixed up", fontsize=12)
left.set_yticks(places, names, fontsize=11)
left.invert_yaxis()
left.xaxis.set_major_formatter("{x:.0%}")
middle.barh(places[:-1], found.weights, color="#b8b8b8")
middle.set_title("share of\nthe weight", fontsize=12)
right.barh(places[:-1], [alone[view] for view in found.groups], color="#b8b8b8")
right.set_title("accuracy of a model\nof it alone", fontsize=12)
for ax in (middle, right):
    ax.bar_label(ax.containers[0], fmt="{:.0%}", padding=-34)
    ax.set_xticks([])
for ax in (left, middle, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
