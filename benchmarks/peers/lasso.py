"""Group lasso of a package on given features; prints JSON.

Arguments: the file (see `benchmarks.compare`), who, and how often the training is repeated.
"""

import json
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")


def main(path, who, repeats):
    with np.load(path) as file:
        data = {name: file[name] for name in file.files}
    make = {"celer": celer, "skglm": skglm}[who]
    Z, y = np.asfortranarray(data["Z"]), data["y"] - data["y"].mean()
    model, seconds = make(data), []
    model.fit(Z, y)  # compiles
    for _ in range(int(repeats)):
        model = make(data)
        began = time.perf_counter()
        model.fit(Z, y)
        seconds.append(time.perf_counter() - began)
    print()
    print(
        json.dumps(
            {
                "seconds": float(np.median(seconds)),
                "MB": _largest(),
                "coefficients": model.coef_.ravel().tolist(),
            }
        )
    )


def celer(data):
    from celer import GroupLasso

    groups = int(data["size"])
    return GroupLasso(groups=groups, alpha=float(data["alpha"]), fit_intercept=False)


def skglm(data):
    from skglm.estimators import GroupLasso

    groups = int(data["size"])
    return GroupLasso(groups=groups, alpha=float(data["alpha"]), fit_intercept=False)


def _largest():
    """Largest memory of this process so far."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


main(*sys.argv[1:])
