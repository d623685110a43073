"""How often scMKL selects each group of columns, over random splits and penalties; prints JSON.

Arguments: a file with the table ``X``, labels ``y`` and groups (``members`` and ``offsets``), the
number of splits, and the number of random frequencies per group.
"""

import contextlib
import io
import json
import sys
import warnings
from itertools import pairwise

import numpy as np
import scmkl

warnings.simplefilter("ignore")
ALPHAS = np.round(np.linspace(2.2, 0.05, 10), 2)


def main(path, splits, frequencies):
    with np.load(path) as file:
        X, y, ends, members = (file[name] for name in ("X", "y", "offsets", "members"))
    names = np.array([f"column {f}" for f in range(X.shape[1])])
    groups = {f"group {g}": names[members[a:b]] for g, (a, b) in enumerate(pairwise(ends))}
    counts = dict.fromkeys(groups, 0)
    for seed in range(int(splits)):
        train = np.random.default_rng(seed).random(len(y)) < 0.8
        with contextlib.redirect_stdout(io.StringIO()):
            cells = scmkl.create_adata(
                X,
                feature_names=names,
                cell_labels=np.where(y > 0, "one", "other"),
                group_dict=groups,
                split_data=np.where(train, "train", "test"),
                scale_data=False,
                D=int(frequencies),
                random_state=seed,
            )
            batch = min(100, int(train.sum()))
            cells = scmkl.calculate_z(scmkl.estimate_sigma(cells, batch_size=batch))
            found = scmkl.run(cells, ALPHAS, metrics=["AUROC"])
        for alpha in ALPHAS:
            for group in found["Selected_groups"][alpha]:
                counts[group] += 1
    total = int(splits) * len(ALPHAS)
    print(json.dumps([counts[group] / total for group in groups]))


main(*sys.argv[1:])
