"""Every class its own weights
===========================

With ``share_weights=False`` each digit, against all others, has kernel weights of its own: what
tells an eight from the rest need not be what tells a one.
"""

import matplotlib.pyplot as plt
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier
from manykernels.datasets import load_multiple_features
from manykernels.display import KernelWeightsDisplay
from manykernels.kernels import RBF, on_groups

digits = load_multiple_features()
X = StandardScaler().fit_transform(digits.data)

# %%
# One Gaussian for each description keeps the picture small.
kernels = on_groups(digits.groups, RBF("median"))
model = MKLClassifier(kernels, p=1.1, C=10, share_weights=False).fit(X, digits.target)
print(model.kernel_weights_.shape, model.result_)

# %%
figure, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
KernelWeightsDisplay.from_estimator(model, ax=ax)
plt.show()
