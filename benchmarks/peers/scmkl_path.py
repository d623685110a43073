"""scMKL's path of ten penalties on a file of cells, as its documentation runs it; prints JSON.

Arguments: the file (see `benchmarks.cells.save`) and the number of random frequencies per set.
"""

import json
import sys
import time
import warnings
from itertools import pairwise

import numpy as np
import scmkl
from scipy import sparse

warnings.simplefilter("ignore")
ALPHAS = np.round(np.linspace(2.2, 0.05, 10), 2)


def main(path, frequencies):
    with np.load(path) as file:
        X = sparse.csr_matrix(
            (file["data"], file["indices"], file["indptr"]), shape=tuple(file["shape"])
        )
        y, train, ends, members = (file[name] for name in ("y", "train", "offsets", "members"))
    genes = np.array([f"gene {i}" for i in range(X.shape[1])])
    groups = {f"set {k}": genes[members[a:b]] for k, (a, b) in enumerate(pairwise(ends))}
    wall, cpu = time.perf_counter(), time.process_time()
    cells = scmkl.create_adata(
        X.tocsc(),
        feature_names=genes,
        cell_labels=np.where(y > 0, "one", "other"),
        group_dict=groups,
        split_data=np.where(train, "train", "test"),
        D=int(frequencies),
    )
    cells = scmkl.calculate_z(scmkl.estimate_sigma(cells))
    before, each, models = time.process_time() - cpu, [], []
    for alpha in ALPHAS:  # none of them begins where another ended
        began = time.process_time()
        found = scmkl.run(cells, [alpha], metrics=["AUROC"])
        each.append(time.process_time() - began)
        models.append((found["Selected_groups"][alpha], found["Metrics"][alpha]["AUROC"]))
    print()
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - wall,
                "processor seconds": time.process_time() - cpu,
                "MB": _largest(),
                "columns": int(cells.uns["Z_train"].shape[1]),
                "groups": [len(groups) for groups, _ in models],
                "AUROC": [float(score) for _, score in models],
                "one fit": [before + one for one in each],
            }
        )
    )


def _largest():
    """Largest memory of this process so far."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


main(*sys.argv[1:])
