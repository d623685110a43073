"""Two bounds that close in
========================

The optimum is not known while a solver runs, but it is known to lie between two numbers. This draws
both from the history of a run: the objective above, the dual value below.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier
from manykernels.datasets import load_sonar
from manykernels.kernels import paper_bank

X, y = load_sonar(return_X_y=True)
X = StandardScaler().fit_transform(X)
model = MKLClassifier(
    paper_bank(X), p=1.33, C=100, normalize="trace", solver="group_lasso", tol=1e-3
).fit(X, y)
exact = MKLClassifier(paper_bank(X), p=1.33, C=100, normalize="trace", tol=1e-7).fit(X, y)
optimum = exact.result_.certificate.primal
print(model.result_)
print(f"optimum {optimum:.6f}, known to one part in {1 / exact.result_.duality_gap:.0e}")

# %%
# The gap is relative to the objective, so that the bound below is objective · (1 − gap).
history = model.result_.history
above = np.array([record.objective for record in history])
below = above * (1 - np.array([record.gap for record in history]))
rounds = np.arange(1, len(history) + 1)
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ax.fill_between(rounds, below, above, alpha=0.25, label="where the optimum must lie")
ax.plot(rounds, above, label="objective (primal)")
ax.plot(rounds, below, label="dual value")
ax.axhline(optimum, color="black", lw=1, ls="--", label="the optimum, found by another solver")
ax.set(xlabel="round of MKLGL", ylabel="value", xscale="log")
ax.set_title("What a certificate proves")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
