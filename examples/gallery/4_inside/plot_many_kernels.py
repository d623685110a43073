"""Ten thousand kernels
====================

Gaussians of random widths on random subsets of columns, stored as two arrays, computed on the fly.
Time grows with their number, memory hardly does. A million of them take minutes
(``python -m benchmarks million``); here are ten thousand.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from manykernels import KernelCollection, MKLClassifier
from manykernels.datasets import load_sonar

X, y = load_sonar(return_X_y=True)
X = StandardScaler().fit_transform(X)
rng = np.random.default_rng(0)


def random_kernels(count):
    """Each sees three to twenty of the sixty bands."""
    masks = np.zeros((count, 60), dtype=bool)
    for mask in masks:
        mask[rng.permutation(60)[: rng.integers(3, 21)]] = True
    gammas = 10.0 ** rng.uniform(-1, 1, count) / masks.sum(axis=1)
    return KernelCollection.masked_rbf(gammas, masks)


# %%
counts, seconds = (100, 1000, 10_000), []
MKLClassifier(random_kernels(10), C=10).fit(X, y)  # compile first
for count in counts:
    kernels = random_kernels(count)
    began = time.perf_counter()
    model = MKLClassifier(kernels, C=10, p=1.0).fit(X, y)
    seconds.append(time.perf_counter() - began)
    used = np.count_nonzero(model.kernel_weights_)
    print(f"{count:6} kernels: {seconds[-1]:5.2f} s, {used:3} with weight, {model.result_}")

# %%
# The certificate is over all ten thousand. Bands that the weighted kernels see most are those that
# tell mines from rocks.
masks = np.array([np.isin(np.arange(60), kernels[k].features) for k in range(len(kernels))])
seen = (model.kernel_weights_[:, None] * masks).sum(axis=0)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8), layout="constrained")
left.plot(counts, seconds, "o-")
left.set(xscale="log", yscale="log", xlabel="kernels", ylabel="seconds")
right.bar(range(1, 61), seen / seen.sum(), color="#3a6ea5")
right.set(xlabel="band of frequency", ylabel="weight of kernels that see it")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
