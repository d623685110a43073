"""Why this prediction, and what else could it be?
===============================================

:func:`~manykernels.shapley_values` shares the decision at a row out among its columns, exactly;
:meth:`~manykernels.MKLClassifierCV.predict_set` says which classes cannot be ruled out.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from manykernels import MKLClassifierCV, shapley_values
from manykernels.display import BeeswarmDisplay, WaterfallDisplay

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0)
model = MKLClassifierCV("whole", Cs=4, ps=(2.0,), random_state=0).fit(X_train, y_train)

# %%
# At this level 97 of 100 sets are to hold the true class. Most hold one class; rows with both, or
# with none, are those to look at.
sets = model.predict_set(X_test, confidence_level=0.97)
print(f"coverage {sets[np.arange(len(y_test)), y_test].mean():.1%}")
print("rows by the size of their set:", np.bincount(sets.sum(axis=1), minlength=3).tolist())

# %%
# What every column adds, at all rows and at the row that is nearest to the boundary. The values add
# up to the decision.
found = shapley_values(model, X_test)
nearest = int(np.abs(found.decision).argmin())
BeeswarmDisplay(found, max_features=10).plot()
WaterfallDisplay(found, row=nearest).plot()
plt.show()
