"""Choosing features by a product of kernels
=========================================

A product of one Gaussian for each feature, ``exp(-Σ d_f (x_f - z_f)²)``, sees how features act
together, which a sum over single features cannot. An l1 penalty makes the weights of the others
small, and :class:`~manykernels.MKLFeatureSelector` keeps the rest.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_selection import f_classif
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from manykernels import MKLFeatureSelector

# %%
# The class is whether a point lies inside a ring in two of twenty features; the means of both
# classes are the same in every feature.
rng = np.random.default_rng(0)
X = rng.normal(size=(250, 20))
y = X[:, 3] ** 2 + X[:, 12] ** 2 + 0.3 * rng.normal(size=250) > 1.4

selector = MKLFeatureSelector(random_state=0).fit(X, y)
print("kept:", selector.get_support(indices=True))

# %%
# Features are kept that have twice the weight of any permuted copy of a feature. In a pipeline the
# choice is made on the training folds alone.
chosen = make_pipeline(MKLFeatureSelector(random_state=0), SVC(C=10))
print(f"SVC on all 20 features    {cross_val_score(SVC(C=10), X, y, cv=3).mean():.2f}")
print(f"SVC on the chosen ones    {cross_val_score(chosen, X, y, cv=3).mean():.2f}")

# %%
figure, (above, below) = plt.subplots(2, 1, figsize=(8, 4.6), layout="constrained", sharex=True)
above.bar(range(20), selector.weights_, color="#3a6ea5")
above.set_title("Weights of the product: features 3 and 12")
below.bar(range(20), f_classif(X, y)[0], color="#999999")
below.set_title("F statistic of each feature by itself sees nothing")
below.set(xlabel="feature", xticks=range(20))
for ax in (above, below):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
