"""Which examination of a patient matters?
=======================================

270 patients, and what four kinds of examination found: their history, measurements at rest, a test
under exercise, and imaging. Numbers and categories are mixed; groups of columns need no more than
their names. How much does the model rely on each, at patients that it has not seen?
"""

import matplotlib.pyplot as plt

from manykernels import MKLClassifier, group_importance
from manykernels.datasets import load_heart
from manykernels.display import ImportanceDisplay
from manykernels.kernels import on_groups

heart = load_heart(as_frame=True)
X, y = heart.data, heart.target_names[heart.target]
numbers = X.select_dtypes("number").columns
X[numbers] = (X[numbers] - X[numbers].mean()) / X[numbers].std()
print(X.iloc[:3, :4].to_string())

# %%
# Gaussians of three widths and a linear kernel on the numbers of every group, and
# :class:`~manykernels.kernels.Hamming` on its categories.
model = MKLClassifier(on_groups(heart.groups), p=1.33, C=0.3).fit(X, y)
for group, share in model.group_contributions_.items():
    print(f"{group:15} makes {share:.0%} of the decision")

# %%
# ``group_importance`` trains on some patients and mixes up what one examination says of the others:
# the drop of the score is what the model relies on it for.
found = group_importance(model, X, y, scoring="roc_auc", random_state=0)
print(found)

# %%
figure, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
ImportanceDisplay.from_importance(found, ax=ax)
ax.set_xlabel("drop of the AUROC if an examination is mixed up")
plt.show()
