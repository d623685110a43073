"""Which description of a digit tells the digits apart?
====================================================

The same 400 handwritten digits were described in six ways: pixels, Fourier coefficients, moments
and more. A model with kernels on every description says which it uses, and how much of the decision
each one makes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier
from manykernels.datasets import load_multiple_features
from manykernels.kernels import RBF, Linear, on_groups

digits = load_multiple_features()
train, test, y_train, y_test = train_test_split(
    digits.data, digits.target, train_size=0.3, stratify=digits.target, random_state=0
)

# %%
# ``on_groups`` puts these three kernels on each description; widths follow the median distance.
kernels = [RBF("median"), RBF("median", factor=0.25), Linear()]
model = make_pipeline(
    StandardScaler(), MKLClassifier(on_groups(digits.groups, kernels), p=1.33, C=10)
)
model.fit(train, y_train)
learned = model[-1]
print(learned.result_)
print(f"{model.score(test, y_test):.1%} of {len(y_test)} other digits are right")

# %%
# Beside the model of all six, one model for each alone.
alone = {}
for view, columns in digits.groups.items():
    single = make_pipeline(
        StandardScaler(), MKLClassifier(on_groups({view: range(len(columns))}, kernels), C=10)
    )
    alone[view] = single.fit(train[:, columns], y_train).score(test[:, columns], y_test)
    print(f"{view:15} alone: {alone[view]:.1%}")

# %%
# Weight and contribution differ: a kernel may weigh much and do little (with ``p=1`` they are the
# same). And the description that is best alone need not be the one that the others need most.
views = sorted(digits.groups, key=learned.group_weights_.get)
figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
at = np.arange(len(views))
for shift, shares, what in (
    (0.2, learned.group_weights_, "share of the weight"),
    (-0.2, learned.group_contributions_, "share of the decision"),
):
    ax.barh(at + shift, [shares[view] for view in views], 0.38, label=what)
ax.set_yticks(at, [f"{view}\nalone {alone[view]:.0%}" for view in views], fontsize=12)
ax.set_title("Six descriptions of the same digits", fontsize=15)
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, fontsize=12, loc="lower right")
plt.show()
