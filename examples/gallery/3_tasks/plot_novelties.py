"""What is unlike the rest?
========================

:class:`~manykernels.MKLOneClass` learns where the data are. Three widths of the same Gaussian draw
three different borders; the sum of them takes a middle way.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from manykernels import MKLOneClass
from manykernels.kernels import RBF

X, _ = make_moons(300, noise=0.08, random_state=0)
odd = np.random.default_rng(0).uniform([-1.8, -1.3], [2.8, 1.8], size=(25, 2))
widths = {"narrow": [RBF(8.0)], "wide": [RBF(0.3)], "sum of three": [RBF(8.0), RBF(1.5), RBF(0.3)]}

# %%
# ``nu`` is the share of the training points that may lie outside.
models = {name: MKLOneClass(kernels, nu=0.05).fit(X) for name, kernels in widths.items()}
for name, model in models.items():
    found, lost = (model.predict(points) < 0 for points in (odd, X))
    print(f"{name:13} {found.sum():2} of {len(odd)} odd points, {lost.mean():.0%} of the others")

# %%
across, up = np.meshgrid(np.linspace(-1.8, 2.8, 90), np.linspace(-1.3, 1.8, 70))
figure, places = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained", sharey=True)
for ax, (name, model) in zip(places, models.items(), strict=True):
    values = model.decision_function(np.column_stack([across.ravel(), up.ravel()]))
    ax.contourf(across, up, values.reshape(across.shape), levels=12, cmap="Blues", alpha=0.7)
    ax.contour(across, up, values.reshape(across.shape), levels=[0.0], colors="black")
    ax.plot(*X.T, ".", ms=3, color="#3a6ea5")
    ax.plot(*odd.T, "x", ms=5, color="#c0504d")
    ax.set(title=name, xticks=[], yticks=[])
plt.show()
