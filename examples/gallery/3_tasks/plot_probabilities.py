"""C, p and probabilities in one call
==================================

:class:`~manykernels.MKLClassifierCV` tries a grid of C and p that follows the data, on held-out
folds, trains on everything, and calibrates probabilities on the folds.
"""

import matplotlib.pyplot as plt
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import brier_score_loss
from sklearn.model_selection import train_test_split

from manykernels import MKLClassifierCV
from manykernels.display import TuningDisplay

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)

# %%
# Three values of p and six of C on five folds are ninety models; they share their kernels.
model = MKLClassifierCV("whole", Cs=6, ps=(1.0, 1.33, 4.0), random_state=0).fit(X_train, y_train)
probability = model.predict_proba(X_test)[:, 1]
print(f"C = {model.C_:.3g}, p = {model.p_:g}, accuracy {model.score(X_test, y_test):.1%}")
print(f"Brier score {brier_score_loss(y_test, probability):.3f}")

# %%
# Left, the scores of the grid with standard errors. Right, how often rows with a given probability
# are benign: points on the diagonal are probabilities that can be believed.
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
TuningDisplay.from_estimator(model, ax=left)
CalibrationDisplay.from_predictions(
    y_test, probability, n_bins=6, strategy="quantile", ax=right, name="manykernels"
)
plt.show()
