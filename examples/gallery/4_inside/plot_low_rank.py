"""Low rank: how many landmarks are enough?
========================================

Beyond some hundred thousand points, exact kernels cost too much. Nyström's method describes every
point by its similarity to some landmarks. How good that is depends on the rank: the error of the
kernels falls with it, and the accuracy comes close to that of the exact kernels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from manykernels import MKLClassifier
from manykernels.banks import ResolvedKernels
from manykernels.kernels import RBF, KernelCollection
from manykernels.lowrank import Nystroem, quality

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y > 4, random_state=0)
kernels = [RBF(gamma) for gamma in (0.01, 0.03, 0.1)]
on_points = ResolvedKernels.from_data(KernelCollection(kernels), X_train)

# %%
# ``quality`` compares the factors with the kernels on a sample of the points.
ranks, scores, errors = (10, 20, 40, 80, 160), [], []
for rank in ranks:
    low = Nystroem(rank, random_state=0)
    model = MKLClassifier(kernels, p=1.33, C=10, loss="squared_hinge", approximation=low)
    scores.append(model.fit(X_train, y_train).score(X_test, y_test))
    errors.append(quality(low.fit(on_points, X_train), on_points, X_train))
    print(f"rank {rank:3}: accuracy {scores[-1]:.1%}, error of the kernels {errors[-1].max():.1%}")
exact = MKLClassifier(kernels, p=1.33, C=10, loss="squared_hinge").fit(X_train, y_train)
print(f"exact:    accuracy {exact.score(X_test, y_test):.1%}")

# %%
# The certificate of a low-rank model is about the low-rank problem: it says nothing about the
# distance to the exact one. Raise the rank until the score stays the same.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.plot(ranks, scores, "o-", label="Nyström")
left.axhline(exact.score(X_test, y_test), color="black", ls="--", lw=1, label="exact kernels")
left.set(xscale="log", xlabel="rank", ylabel="accuracy on other digits")
left.legend(frameon=False)
for k, kernel in enumerate(kernels):
    right.plot(ranks, np.array(errors)[:, k], "o-", label=f"gamma = {kernel.gamma:g}")
right.set(xscale="log", yscale="log", xlabel="rank", ylabel="relative error of the kernel")
right.legend(frameon=False)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
