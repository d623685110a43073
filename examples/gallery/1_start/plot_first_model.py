"""A first model, and what it says about itself
============================================

Nothing but defaults on the Wisconsin breast cancer data: which kernels got weight, and how fast the
proven distance to the optimum fell.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from manykernels import MKLClassifier
from manykernels.display import ConvergenceDisplay, KernelWeightsDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# ``kernels="auto"`` puts Gaussians of five widths and a linear kernel on all columns, and a
# Gaussian on each single column. Columns are measured in their own spread, so no scaler is needed.
model = MKLClassifier(tol=1e-4).fit(X_train, y_train)
print(model.result_)
print(f"{model.score(X_test, y_test):.1%} of {len(y_test)} other tumours are right")

# %%
# With ``p=1``, the default, few of the kernels keep weight.
print(model.weights_frame()[["kernel", "share", "contribution"]].head(6).to_string(index=False))

# %%
# The gap on the right is a certificate: no other weights, whoever finds them, have an objective
# that is better by more than that (see :doc:`/certificate`).
figure, (left, right) = plt.subplots(
    1, 2, figsize=(11, 4.4), layout="constrained", width_ratios=[3, 2]
)
KernelWeightsDisplay.from_estimator(model, max_kernels=12, ax=left)
ConvergenceDisplay.from_estimator(model, against="iterations", ax=right)
right.set_title("Proven distance to the optimum")
plt.show()
