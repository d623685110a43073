"""
Which description of a digit tells the digits apart?
====================================================

The same 500 handwritten digits were described in six ways: pixels, Fourier coefficients, moments and
more. A model with kernels on every description says which it uses, and how much of the decision each
one makes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier
from manykernels.datasets import load_multiple_features
from manykernels.kernels import on_groups

digits = load_multiple_features()
train, test, y_train, y_test = train_test_split(
    digits.data, digits.target, train_size=0.3, stratify=digits.target, random_state=0
)

# %%
# ``on_groups`` puts Gaussians of four widths and a linear kernel on each description.
model = make_pipeline(StandardScaler(), MKLClassifier(on_groups(digits.groups), p=1.0, C=10))
model.fit(train, y_train)
learned = model[-1]
print(learned.result_)
print(f"{model.score(test, y_test):.1%} of {len(y_test)} other digits are right")

# %%
# Beside the model of all six, one model for each alone.
alone = {}
for view, columns in digits.groups.items():
    single = make_pipeline(StandardScaler(), MKLClassifier(on_groups({view: range(len(columns))}), C=10))
    alone[view] = single.fit(train[:, columns], y_train).score(test[:, columns], y_test)
    print(f"{view:15} alone: {alone[view]:.1%}")

# %%
# Weight and contribution differ: a kernel may weigh much and do little. The description that is best
# alone is not the one that adds most to the others.
views = list(digits.groups)
figure, ax = plt.subplots(figsize=(9, 4), layout="constrained")
at = np.arange(len(views))
ax.bar(at - 0.2, [learned.group_weights_[v] for v in views], 0.38, label="share of the weight")
ax.bar(
    at + 0.2,
    [learned.group_contributions_[v] for v in views],
    0.38,
    label="share of the decision",
)
ax.set_xticks(at, [f"{view}\n(alone {alone[view]:.0%})" for view in views])
ax.set_title("Six descriptions of the same digits: what the model uses")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
