"""Which description of a digit tells the digits apart?
====================================================

The same 400 handwritten digits were described in six ways: pixels, Fourier coefficients, moments
and more. A model with kernels on every description says which it uses.
"""

import matplotlib.pyplot as plt
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
    StandardScaler(), MKLClassifier(on_groups(digits.groups, kernels), p=1.0, C=10)
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
# The description that is best alone need not be the one that the others need most.
views = sorted(digits.groups, key=learned.group_weights_.get)
figure, (left, right) = plt.subplots(
    1, 2, figsize=(7.5, 4.6), layout="constrained", sharey=True, width_ratios=[3, 2]
)
left.barh(views, [learned.group_weights_[view] for view in views], color="#3a6ea5")
left.set_title("share of the weight\nin a model of all six", fontsize=12)
right.barh(views, [alone[view] for view in views], color="#b8b8b8")
right.set_title("accuracy of a model\nof one alone", fontsize=12)
right.bar_label(right.containers[0], fmt="{:.0%}", padding=-34)
right.set(xlim=(0, 1), xticks=[])
left.xaxis.set_major_formatter("{x:.0%}")
left.tick_params(axis="y", labelsize=12)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
