"""Looking at a learned kernel
===========================

A kernel is a table of similarities. Sorted by class, the learned sum shows blocks where a single
kernel shows stripes.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier
from manykernels.display import KernelHeatmapDisplay

X, y = load_wine(return_X_y=True, as_frame=True)
X = StandardScaler().set_output(transform="pandas").fit_transform(X)
model = MKLClassifier(p=1.0, C=10).fit(X, y)
names = model.kernel_names_
print(model.result_)

# %%
# Left, a Gaussian on one column; right, the sum with the learned weights.
single = next(k for k, name in enumerate(names) if "alcohol" in name)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
KernelHeatmapDisplay.from_estimator(model, X, y, kernel=single, ax=left)
KernelHeatmapDisplay.from_estimator(model, X, y, ax=right)
plt.show()
