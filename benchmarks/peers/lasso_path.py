"""A path of group lasso of a package on given features; prints JSON.

Arguments: the file (see `benchmarks.compare`), who, the tolerance of the package, and a file for
the coefficients.
"""

import json
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")
MOST = 50_000  # epochs


def main(path, who, tol, out):
    with np.load(path) as file:
        data = {name: file[name] for name in file.files}
    Z, y = np.asfortranarray(data["Z"]), data["y"]
    solve = {"adelie": adelie, "celer": celer, "skglm": skglm}[who]
    solve(Z[:50], y[:50], data["alphas"][:3], int(data["size"]), 1e-2)  # compiles
    wall, cpu = time.perf_counter(), time.process_time()
    coefficients = solve(Z, y, data["alphas"], int(data["size"]), float(tol))
    found = {"seconds": time.perf_counter() - wall, "processor seconds": time.process_time() - cpu}
    np.save(out, coefficients)
    print()
    print(json.dumps(found))


def adelie(Z, y, alphas, size, tol):
    import adelie

    starts = np.arange(0, Z.shape[1], size)
    state = adelie.grpnet(
        np.asfortranarray(Z),
        adelie.glm.gaussian(y),
        groups=starts,
        penalty=np.ones(len(starts)),
        lmda_path=alphas,
        tol=tol,
        early_exit=False,
        intercept=False,
        progress_bar=False,
    )
    return state.betas.toarray()


def celer(Z, y, alphas, size, tol):
    from celer import celer_path

    options = {"groups": size, "tol": tol, "max_epochs": MOST}
    return celer_path(np.asfortranarray(Z), y, "grouplasso", alphas=alphas, **options)[1].T


def skglm(Z, y, alphas, size, tol):
    from skglm.estimators import GroupLasso

    model = GroupLasso(size, fit_intercept=False, warm_start=True, tol=tol, max_epochs=MOST)
    return np.stack([model.set_params(alpha=alpha).fit(Z, y).coef_ for alpha in alphas])


main(*sys.argv[1:])
