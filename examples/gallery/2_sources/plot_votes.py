"""Words in the place of numbers
=============================

How 435 members of the House of Representatives voted in 1984. The table holds words, and a kernel
counts the questions on which two members agree. Which topic tells the parties apart, and would
another half of the members say the same?
"""

import matplotlib.pyplot as plt

from manykernels import MKLClassifier, stability
from manykernels.datasets import load_house_votes
from manykernels.display import StabilityDisplay
from manykernels.kernels import Hamming

votes = load_house_votes(as_frame=True)
party = votes.target_names[votes.target]
print(votes.data.iloc[:3, :4].to_string())

# %%
# One kernel for each question, so that each can be judged by itself.
kernels = {question: Hamming(features=[question]) for question in votes.feature_names}
model = MKLClassifier(kernels, p=1.0, C=1).fit(votes.data, party)
print(model.result_)

# %%
# Fifty halves of the members: how often does each question get weight? With at most three questions
# a model, chance alone seldom makes one stable.
found = stability(model, votes.data, party, n_resamples=50, max_groups=3, random_state=0)
print(found)

# %%
figure, ax = plt.subplots(figsize=(9, 3.8), layout="constrained")
StabilityDisplay.from_stability(found, max_groups=8, ax=ax)
plt.show()
