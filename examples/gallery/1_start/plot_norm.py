"""From few kernels to all of them: the norm p
===========================================

``p`` says how the weights share. ``p=1`` keeps few kernels, ``p=2`` keeps all with different
weights, and ``p=inf`` is the plain sum. One call of :func:`manykernels.path` trains them all on
kernels that are computed once.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, path
from manykernels.datasets import load_sonar
from manykernels.kernels import on_groups

sonar = load_sonar()
X = StandardScaler().fit_transform(sonar.data)
norms = [1.0, 1.1, 1.33, 2.0, 4.0, 16.0]
models = path(MKLClassifier(on_groups(sonar.groups), C=10), X, sonar.target, p=norms)

# %%
# The share of each of 30 kernels, heaviest first, for every p.
for model in models:
    shares = np.sort(model.kernel_weights_ / model.kernel_weights_.sum())[::-1]
    used = np.count_nonzero(shares > 1e-3)
    print(
        f"p = {model.p:5}: {used:2} kernels with more than 0.1 %, "
        f"gap {model.result_.duality_gap:.0e}"
    )

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for place, model in enumerate(models):
    shares = np.sort(model.kernel_weights_ / model.kernel_weights_.sum())[::-1]
    color = plt.cm.viridis(place / len(norms))
    ax.plot(
        np.arange(1, shares.size + 1), shares, "o-", ms=3, color=color, label=f"p = {model.p:g}"
    )
ax.set(xlabel="kernels, heaviest first", ylabel="share of the total weight")
ax.set_title("The larger p, the more kernels share the weight")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
