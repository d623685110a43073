"""How many sources are enough?
============================

With ``p=1`` a model leaves sources out: the smaller C, the fewer are left. A path lets them enter
one by one, and held-out folds say where to stop.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, path
from manykernels.datasets import load_multiple_features
from manykernels.display import PathDisplay
from manykernels.kernels import RBF, on_groups

digits = load_multiple_features()
mixed = np.random.default_rng(0).permutation(len(digits.target))  # they are sorted
X = StandardScaler().fit_transform(digits.data)[mixed]
y = np.where(digits.target[mixed] % 2 == 0, "even", "odd")

# %%
# Even or odd? Six descriptions of every digit, one Gaussian on each.
kernels = on_groups(digits.groups, RBF("median"))
steps = path(MKLClassifier(kernels, p=1.0), X, y, max_groups=6)
print(steps.frame().to_string(index=False, float_format="{:.3g}".format))

# %%
# ``choose`` gives the best model on held-out folds, and the simplest within one standard error of
# it.
choice = steps.choose(X, y, scoring="roc_auc")
print(choice)

# %%
figure, (above, below) = plt.subplots(
    2, 1, figsize=(8, 5.4), layout="constrained", height_ratios=[3, 1.4], sharex=True
)
PathDisplay.from_path(steps, choice=choice, ax=[above, below])
plt.show()
