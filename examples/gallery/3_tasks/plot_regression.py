"""Numbers in the place of classes
===============================

Progress of diabetes after a year from ten measurements. The same weights, the same certificate; the
loss is the ε-insensitive one, ε follows the spread of the targets, and C and p are chosen on
held-out folds.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.metrics import PredictionErrorDisplay
from sklearn.model_selection import train_test_split

from manykernels import MKLRegressorCV
from manykernels.display import KernelWeightsDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = MKLRegressorCV(Cs=6, ps=(1.0, 2.0)).fit(X_train, y_train)
print(model.result_)
print(f"R² on {len(y_test)} other patients: {model.score(X_test, y_test):.2f}")

# %%
figure, (left, right) = plt.subplots(
    1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=[3, 2]
)
KernelWeightsDisplay.from_estimator(model, max_kernels=10, ax=left)
PredictionErrorDisplay.from_estimator(model, X_test, y_test, kind="actual_vs_predicted", ax=right)
right.set_title("Other patients")
plt.show()
