"""Our path of ten C, p = 1, on a file of cells; prints JSON.

Arguments: the file (see `benchmarks.cells.save`), the columns of random features per set, or 0 for
exact kernels, the loss, and, if it is to end early, the number of groups after which, and the
megabytes for factors.
"""

import json
import sys
import time
import warnings
from itertools import pairwise

import numpy as np
from scipy import sparse
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from manykernels import MKLClassifier, path
from manykernels.kernels import RBF, on_groups
from manykernels.lowrank import RandomFourier

warnings.simplefilter("ignore")
COSTS = np.logspace(-3, 1, 10)


def main(file_name, columns, loss, most=None, room=None):
    with np.load(file_name) as file:
        X = sparse.csr_matrix(
            (file["data"], file["indices"], file["indptr"]), shape=tuple(file["shape"])
        )
        y, train, ends, members = (file[name] for name in ("y", "train", "offsets", "members"))
    groups = {f"set {k}": members[a:b] for k, (a, b) in enumerate(pairwise(ends))}
    approximation = RandomFourier(int(columns)) if int(columns) else None
    kernels = on_groups(groups, [RBF("median", factor=0.5)])  # exp(-d^2 / 2 sigma^2), as scMKL's
    options = {"approximation": approximation, "cache_size": None if room is None else float(room)}
    model = MKLClassifier(kernels, p=1.0, loss=loss, **options)
    path(model, X[:200], y[:200], C=COSTS[-2:])  # compiled, then
    wall, cpu = time.perf_counter(), time.process_time()
    X = StandardScaler(with_mean=False).fit(X[train]).transform(X)  # as scMKL scales the genes
    most = None if most is None else int(most)
    models = path(model, X[train], y[train], C=COSTS, max_groups=most)
    scores = [float(roc_auc_score(y[~train], one.decision_function(X[~train]))) for one in models]
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - wall,
                "processor seconds": time.process_time() - cpu,
                "MB": _largest(),
                "groups": [int(np.count_nonzero(one.kernel_weights_)) for one in models],
                "AUROC": scores,
                "gap": max(one.result_.certificate.gap for one in models),
            }
        )
    )


def _largest():
    """Largest memory of this process so far."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


main(*sys.argv[1:])
