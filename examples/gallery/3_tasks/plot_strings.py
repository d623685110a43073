"""Strings: which length of substring matters?
===========================================

Sequences of letters, half of which hide the motif TATAAA somewhere, often with one letter wrong.
``Spectrum(k)`` compares strings by the substrings of k letters that they share; the weights say
which k tells the classes apart.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_score

from manykernels import MKLClassifier
from manykernels.kernels import Spectrum

rng = np.random.default_rng(0)
words, labels = [], np.arange(300) % 2
for label in labels:
    word = "".join(rng.choice(list("ACGT"), 60))
    at, wrong = (int(rng.integers(0, most)) for most in (54, 9))
    motif = "TATAAA"[:wrong] + "C" + "TATAAA"[wrong + 1 :] if wrong < 6 else "TATAAA"
    words.append(word[:at] + motif + word[at + 6 :] if label else word)

# %%
lengths = range(1, 7)
model = MKLClassifier([Spectrum(k) for k in lengths], p=1.33, normalize="center").fit(words, labels)
alone = [
    cross_val_score(MKLClassifier([Spectrum(k)], normalize="center"), words, labels, cv=3).mean()
    for k in lengths
]
together = cross_val_score(model, words, labels, cv=3).mean()
print(f"all lengths together: {together:.2f}; best alone: {max(alone):.2f}")

# %%
figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
ax.bar(lengths, model.kernel_weights_ / model.kernel_weights_.sum(), color="#3a6ea5")
ax.set(xlabel="letters in a substring", ylabel="share of the weight")
other = ax.twinx()
other.plot(lengths, alone, "o-", color="#c0504d", label="one length alone")
other.axhline(together, color="#c0504d", ls="--", label="all lengths, learned weights")
other.set(ylabel="accuracy, three folds", ylim=(0.4, 1.0))
other.legend(frameon=False, loc="upper left")
plt.show()
