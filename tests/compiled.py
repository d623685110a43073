"""Fits that compile most loops, for ``python tests/compiled.py PART``; see `conftest`."""

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

from manykernels import (
    MKLClassifier,
    MKLClassifierCV,
    MKLOneClass,
    MKLRegressor,
    shapley_values,
)
from manykernels.banks import make_bank
from manykernels.combinations import Product
from manykernels.kernels import (
    RBF,
    KernelCollection,
    Laplacian,
    Linear,
    MinMax,
    Polynomial,
    Tanimoto,
    on_groups,
)
from manykernels.losses import HardMargin, Hinge
from manykernels.lowrank import Nystroem
from manykernels.problem import Problem
from manykernels.readers import read_libsvm
from manykernels.regularizers import L1, GeneralizedKL, PNormBall
from manykernels.solvers import MultiplicativeWeights, solve

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 4))
Y = np.where(X[:, 0] * X[:, 1] > 0, "a", "b")
MIXED = [RBF(0.5), RBF(2.0, features=[0]), Linear(), Polynomial(2), Laplacian(0.3), Polynomial(3)]
SUBSETS = KernelCollection.masked_rbf(np.geomspace(0.05, 2.0, 40), RNG.random((40, 4)) < 0.7)
NORMS = (1.0, 1.5, np.inf)


def kernels():
    """Exact kernels and their machines."""
    for tol in (1e-3, 1e-6):
        for loss in ("hinge", "squared_hinge", "logistic"):
            for p in NORMS:
                MKLClassifier(MIXED, loss=loss, p=p, tol=tol).fit(X, Y).predict(X)
        MKLClassifier(tol=tol).fit(X, Y).predict(X)
        MKLClassifier(tol=tol).fit((X > 0).astype(float), Y)
        MKLClassifier([RBF(g) for g in np.geomspace(0.01, 10.0, 30)], tol=tol).fit(X, Y)
        MKLRegressor(MIXED, tol=tol).fit(X, X[:, 0])
        MKLClassifier(MIXED, cache_size=0.01, tol=tol, solver="spg").fit(X, Y)
        MKLClassifier(MIXED, solver="smo", p=1.5, tol=tol).fit(X, Y)
    MKLRegressor(MIXED, loss="squared").fit(X, X[:, 0])
    MKLOneClass(MIXED).fit(X)
    for tol in (1e-3, 1e-6):
        many = MKLClassifier([RBF(g) for g in np.geomspace(0.01, 10.0, 97)], tol=tol)
        many.set_params(cache_size=0.01, solver="spg").fit(X, Y).predict(X)
    for loss in ("hinge", "squared_hinge", "hard_margin"):
        MKLClassifier([RBF(5.0), RBF(9.0)], solver="mwu", loss=loss, tol=0.1).fit(X, Y)
    MKLClassifier(MIXED, solver="smo", regularizer=GeneralizedKL()).fit(X, Y)
    MKLClassifier([Tanimoto(), MinMax(), RBF(0.5)]).fit((X > 0).astype(float), Y).predict(X > 0)


def factors():
    """Everything else."""
    for dtype in (np.float32, np.float64):
        bank = make_bank(KernelCollection([RBF(5.0), RBF(9.0)]), X, dtype=dtype)
        for loss in (Hinge(), HardMargin()):
            problem = Problem(bank, np.where(Y == "a", 1.0, -1.0), 1.0, PNormBall(1), loss=loss)
            solve(problem, MultiplicativeWeights(), tol=0.1)
    shapley_values(MKLClassifier(MIXED, p=2.0).fit(X, Y), X[:2])
    for loss in ("hinge", "squared_hinge", "logistic"):
        for solver in ("auto", "blocks"):
            MKLClassifier(MIXED, loss=loss, approximation=Nystroem(5), solver=solver).fit(X, Y)
    for tol in (1e-3, 1e-6):
        for p in NORMS:
            MKLClassifier(SUBSETS, p=p, tol=tol).fit(X, Y).predict(X)
    MKLClassifier(combination=Product(starts=1), regularizer=L1()).fit(X, Y)
    MKLClassifierCV(MIXED, Cs=[0.1, 1.0], ps=[1.0, 2.0], cv=2).fit(X, Y).predict_proba(X)
    groups = on_groups({"first": [0, 1], "second": [2, 3]})
    lacking = np.where(np.arange(60)[:, None] % 5 == 0, [np.nan, np.nan, 0.0, 0.0], X)
    MKLClassifier(groups, missing="mean").fit(lacking, Y)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.svm"
        file.write_text("1 1:0.5 3:2\n-1 2:1e-3\n")
        read_libsvm(file)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"kernels": kernels, "factors": factors}[sys.argv[1]]()
