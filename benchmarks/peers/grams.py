"""A package on given Gram matrices, as its documentation runs it; prints JSON.

Arguments: the file (see `benchmarks.compare`), who, and how often the training is repeated. The
script runs in the environment of the package and imports nothing of ours, but for our own rows.
"""

import json
import sys
import time
import warnings

import numpy as np

warnings.simplefilter("ignore")
COSTS, GAMMAS = np.logspace(-1, 3, 9), (1e-3, 1e-2, 1e-1, "scale")
COMPONENTS, DRAWS, LONG = 50, 100, 5.0  # seconds that are not worth repeating


def main(path, who, repeats):
    with np.load(path) as file:
        data = {name: file[name] for name in file.files}
    train = TRAINERS[who](data)
    began = time.perf_counter()
    weights, predict = train()  # compiles and fills caches
    seconds = [time.perf_counter() - began]
    if seconds[0] < LONG:
        seconds = []
        for _ in range(int(repeats)):
            began = time.perf_counter()
            weights, predict = train()
            seconds.append(time.perf_counter() - began)
    accuracy = float(np.mean(predict() == data["y_test"]))
    found = {"seconds": float(np.median(seconds)), "MB": _largest(), "accuracy": accuracy}
    found["weights"] = None if weights is None else np.asarray(weights, dtype=float).tolist()
    print()
    print(json.dumps(found))


def averaged(data):
    """SVC of scikit-learn on the mean of the kernels."""
    from sklearn.svm import SVC

    m = len(data["K"])

    def train():
        machine = SVC(kernel="precomputed", C=float(data["C"])).fit(data["K"].mean(0), data["y"])
        return np.full(m, 1.0 / m), lambda: machine.predict(data["K_test"].mean(0))

    return train


def tuned(data):
    """SVC of scikit-learn with C and gamma by five folds."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    def train():
        search = GridSearchCV(SVC(), {"C": COSTS, "gamma": GAMMAS}, cv=5).fit(data["X"], data["y"])
        return None, lambda: search.predict(data["X_test"])

    return train


def nystroem(data):
    """LinearSVC of scikit-learn on Nyström features of every kernel side by side."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.svm import LinearSVC

    def train():
        maps = [
            (columns > 0, Nystroem(gamma=gamma, n_components=COMPONENTS, random_state=0))
            for gamma, columns in zip(data["gammas"], data["masks"], strict=True)
        ]
        Z = np.hstack([one.fit_transform(data["X"][:, own]) for own, one in maps])
        machine = LinearSVC(C=float(data["C"]) / len(maps)).fit(Z, data["y"])

        def predict():
            return machine.predict(np.hstack([f.transform(data["X_test"][:, c]) for c, f in maps]))

        return None, predict

    return train


def mklpy(algorithm):
    """An algorithm of MKLpy with scikit-learn's SVC."""

    def made(data):
        import torch
        from MKLpy import algorithms
        from sklearn.svm import SVC

        K, K_test = (list(torch.as_tensor(data[name])) for name in ("K", "K_test"))

        def train():
            learner = SVC(C=float(data["C"]))
            model = getattr(algorithms, algorithm)(learner=learner).fit(K, data["y"])
            return np.asarray(model.solution.weights), lambda: np.asarray(model.predict(K_test))

        return train

    return made


def himalaya(solver, options):
    """Multiple-kernel ridge regression of the labels; weights by cross-validation."""

    def made(data):
        from himalaya.kernel_ridge import MultipleKernelRidgeCV

        middle = float(data["y"].mean())

        def train():
            model = MultipleKernelRidgeCV(
                kernels="precomputed",
                solver=solver,
                solver_params=options | {"progress_bar": False},
                cv=5,
                random_state=0,
            ).fit(data["K"], data["y"] - middle)
            weights = np.exp(np.asarray(model.deltas_).reshape(len(data["K"]), -1)[:, 0])

            def predict():
                scores = np.asarray(model.predict(data["K_test"])).reshape(-1)
                return np.where(scores + middle > 0.0, 1.0, -1.0)

            return weights, predict

        return train

    return made


def ours(p):
    """MKLClassifier on the points: it computes the kernels itself."""

    def made(data):
        from manykernels import MKLClassifier
        from manykernels.kernels import RBF

        pairs = zip(data["gammas"], data["masks"], strict=True)
        kernels = [RBF(float(gamma), features=np.flatnonzero(mask)) for gamma, mask in pairs]

        def train():
            model = MKLClassifier(kernels, p=p, C=float(data["C"])).fit(data["X"], data["y"])
            return model.kernel_weights_, lambda: model.predict(data["X_test"])

        return train

    return made


def _largest():
    """Largest memory of this process so far."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024


TRAINERS = {
    "average": averaged,
    "tuned": tuned,
    "nystroem": nystroem,
    "AverageMKL": mklpy("AverageMKL"),
    "EasyMKL": mklpy("EasyMKL"),
    "gradient": himalaya("hyper_gradient", {}),
    "random": himalaya("random_search", {"n_iter": DRAWS, "alphas": np.logspace(-3, 3, 7)}),
    "l1": ours(1.0),
    "l2": ours(2.0),
}
main(*sys.argv[1:])
