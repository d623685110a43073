"""Our models, p = 1, with given numbers of groups, each fitted alone, on a file of cells; prints
JSON.

A path over many C says up to which of them a model has so many groups, or the nearest number. Then
the model of each is fitted anew, and timed with all that it needs: scaling and features. Arguments:
the file (see `benchmarks.cells.save`), the columns of random features per set, the loss, and the
numbers of groups, with commas.
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
COSTS = np.logspace(-3, 2, 40)


def main(file_name, columns, loss, counts):
    with np.load(file_name) as file:
        X = sparse.csr_matrix(
            (file["data"], file["indices"], file["indptr"]), shape=tuple(file["shape"])
        )
        y, train, ends, members = (file[name] for name in ("y", "train", "offsets", "members"))
    groups = {f"set {k}": members[a:b] for k, (a, b) in enumerate(pairwise(ends))}
    kernels = on_groups(groups, [RBF("median", factor=0.5)])  # exp(-d^2 / 2 sigma^2), as scMKL's
    model = MKLClassifier(kernels, p=1.0, loss=loss, approximation=RandomFourier(int(columns)))
    scaler = StandardScaler(with_mean=False).fit(X[train])  # as scMKL scales the genes
    models = path(model, scaler.transform(X[train]), y[train], C=COSTS)
    used = np.array([np.count_nonzero(one.kernel_weights_) for one in models])
    found = []
    for count in map(int, counts.split(",")):
        off = abs(used - count)
        places = np.flatnonzero(off == off.min())
        # where all sets have weight, there is no last one
        model.set_params(C=float(COSTS[places[0 if count == len(groups) else -1]]))
        began = time.process_time()
        scaled = StandardScaler(with_mean=False).fit(X[train]).transform(X)
        model.fit(scaled[train], y[train])
        score = roc_auc_score(y[~train], model.decision_function(scaled[~train]))
        found.append(
            {
                "one fit": time.process_time() - began,
                "groups": int(np.count_nonzero(model.kernel_weights_)),
                "AUROC": float(score),
                "gap": model.result_.certificate.gap,
            }
        )
    print(json.dumps(found))


main(*sys.argv[1:])
