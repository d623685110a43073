"""Low rank on one GPU: all points of Covertype, five Gaussians, Nyström's method.

``ranks``: squared hinge, C = 10, p = 1.33, rank 500, 1000 and 2000, to a gap of 1e-2: seconds from
the data in NumPy arrays to the fitted model, after a fit of few points that warms up; certified
gap, accuracy on 20,000 held-out points, peak memory of the device.

``hinge``: the same ranks at the default tolerance of 1e-3 and with the default loss, the hinge, for
p = 1, the default, and p = 2.

``losses``: rank 500 with the hinge, p = 1, p = 2, the logistic loss and eight outputs (cover type
and wilderness area).

``streaming``: rank 500 with a third of the memory that the factors take, beside all of it.

``sums``: error of the Gram matrix of the factors against float64, in float32 by blocks and at once.

``profile``: rank 500 to 2000 with a clock around the parts of a fit, which waits for the device and
so takes a little longer.

``peers``: TorchKM's Nyström SVM with one Gaussian and 500 landmarks, and ours of one and of five.

Without a GPU PyTorch on the CPU takes a small part of it, to see that it runs.
"""

import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from functools import cache
from unittest.mock import patch

import numpy as np
from sklearn.preprocessing import MinMaxScaler

from manykernels import MKLClassifier
from manykernels.kernels import RBF
from manykernels.kernels.vector import dense
from manykernels.lowrank import Nystroem

from .common import at_most, read, table

GAMMAS = (0.5, 1.0, 2.0, 4.0, 8.0)
HELD_OUT, WARM, SMALL = 20_000, 20_000, 4000
PEER_SECONDS = 120
GIGABYTE = 2**30
# what the clock is around, by the name of the part
PARTS = {
    "distinct rows": ("manykernels.estimators.data.prepare", "canonical_rows"),
    "landmarks": ("manykernels.lowrank.approximations.Nystroem", "features_there"),
    "making factors": ("manykernels.lowrank.base", "device_factors"),
    "small space": ("manykernels.estimators.data.prepare", "reduced"),
    "Gram matrices": ("manykernels.banks.torch.factors.DeviceFactorBank", "_gram"),
    "Cholesky": ("manykernels.banks.lowrank.systems.Rooted", "__init__"),
    "substitution": ("manykernels.banks.lowrank.systems.Rooted", "solve"),
    "V c": ("manykernels.banks.torch.factors.DeviceFactorBank", "values"),
    "V' beta": ("manykernels.banks.torch.factors.DeviceFactorBank", "correlate"),
    "certificate": ("manykernels.problem.Problem", "certificate"),
    "line search": ("manykernels.solvers.lowrank.primal.PrimalNewton", "_length"),
    "preparing": ("manykernels.estimators.classifier", "prepare"),
    "stepping": ("manykernels.estimators.session.FitSession", "solve"),
}


@cache
def has_gpu():
    import torch

    return torch.cuda.is_available()


@cache
def covertype():
    """Training and held-out points, as the trial with plain PyTorch split them."""
    parts = read("covtype")
    if parts is None:
        return None
    X, y = MinMaxScaler().fit_transform(dense(parts[0])), parts[1]
    order = np.random.default_rng(0).permutation(len(y))
    test, train = order[:HELD_OUT], order[HELD_OUT:]
    if not has_gpu():
        test, train = test[:1000], train[:SMALL]
    return X[train], y[train], X[test], y[test]


def eight_classes(X, y):
    """Cover type and wilderness area together."""
    return 2 * X[:, 10:14].argmax(axis=1) + (y > 0)


def ranks():
    return (500, 1000, 2000) if has_gpu() else (20,)


def classifier(rank, **more):
    options = {
        "kernels": [RBF(gamma) for gamma in GAMMAS],
        "approximation": Nystroem(rank),
        "loss": "squared_hinge",
        "C": 10.0,
        "p": 1.33,
        "tol": 1e-2,
        "device": "cuda" if has_gpu() else "torch",
        "verbose": 2,
    }
    return MKLClassifier(**options | more)


def fitted(model, X, y, X_test, y_test, limit=0):
    """A row of a table for a fit, and its model; ended as by Ctrl-C after so many seconds, if a
    limit is given.
    """
    _forget()
    began = time.perf_counter()
    with at_most(limit):  # 0: never
        model.fit(X, y)
    seconds = time.perf_counter() - began
    result = model.result_
    row = {
        "rank": model.approximation.rank,
        "n": len(y),
        "loss": model.loss,
        "p": model.p,
        "seconds": seconds,
        "solver s": result.counters.seconds,
        "gap": result.duality_gap,
        "objective": result.objective,
        "iterations": result.n_iter,
        "ended": result.status.name.lower(),
        "peak GB": _peak(),
    }
    began = time.perf_counter()
    row["accuracy"] = 100 * model.score(X_test, y_test)
    row["predict s"] = time.perf_counter() - began
    print(row, flush=True)
    return row, model


def _forget():
    if has_gpu():
        import torch

        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _peak():
    if not has_gpu():
        return float("nan")
    import torch

    return torch.cuda.max_memory_allocated() / GIGABYTE


def warm_up(rank, **more):
    """A fit of few points, in which libraries are loaded and loops compiled."""
    X, y, *_ = covertype()
    classifier(rank, **more).fit(X[:WARM], y[:WARM])


def by_rank():
    """Covertype, five Gaussians of low rank, squared hinge, p = 1.33, C = 10, a gap of 1e-2."""
    if covertype() is None:
        return []
    rows = []
    for rank in ranks():
        warm_up(rank)
        rows.append(fitted(classifier(rank), *covertype())[0])
    table("Covertype, five Gaussians, squared hinge, C = 10, p = 1.33", rows)
    return rows


def by_rank_at_defaults():
    """Covertype, five Gaussians of low rank, C = 10, all else at the defaults but for p = 2."""
    if covertype() is None:
        return []
    rows = []
    for p in (1.0, 2.0):
        for rank in ranks():
            options = {"loss": "hinge", "tol": 1e-3, "p": p}
            warm_up(rank, **options)
            rows.append(fitted(classifier(rank, **options), *covertype())[0])
    table("Covertype, five Gaussians, hinge, C = 10, a gap of 1e-3", rows)
    return rows


def by_loss():
    """Covertype, five Gaussians of rank 500, several losses and p, C = 10, a gap of 1e-2."""
    if covertype() is None:
        return []
    X, y, X_test, y_test = covertype()
    rows, rank = [], ranks()[0]
    for more in ({"loss": "hinge"}, {"p": 1.0}, {"p": 2.0}, {"loss": "logistic"}):
        warm_up(rank, **more)
        rows.append(fitted(classifier(rank, **more), *covertype())[0])
    of = eight_classes(X, y), eight_classes(X_test, y_test)
    for loss in ("squared_hinge", "hinge"):
        rows.append(fitted(classifier(rank, loss=loss), X, of[0], X_test, of[1])[0])
        rows[-1]["loss"] = f"{loss}, {np.unique(of[0]).size} outputs"
    table(f"Covertype, five Gaussians of rank {rank}, C = 10", rows)
    return rows


def streaming():
    """Factors in a third of the memory that they take, squared hinge, p = 1.33, C = 10."""
    if covertype() is None:
        return []
    rank = ranks()[0]
    bytes_of_factors = 4 * len(covertype()[1]) * rank * len(GAMMAS)
    warm_up(rank)
    rows = [{"memory": "all"} | fitted(classifier(rank), *covertype())[0]]
    with limited(bytes_of_factors / 3):
        rows.append({"memory": "a third"} | fitted(classifier(rank), *covertype())[0])
    rows[1]["objective apart"] = abs(rows[1]["objective"] / rows[0]["objective"] - 1.0)
    rows[0]["objective apart"] = 0.0
    table("Factors in a third of the memory that they take", rows)
    return rows


@contextmanager
def limited(size):
    """No more memory of the device than so many bytes."""
    if not has_gpu():
        from manykernels.banks.torch.device import Sizes

        with patch("manykernels.banks.torch.device.SIZES", Sizes(assumed_bytes=size)):
            yield
        return
    import torch

    _forget()
    total = torch.cuda.mem_get_info()[1]
    torch.cuda.set_per_process_memory_fraction(size / total)
    try:
        yield
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def sums():
    """Errors of Gram matrices, relative to the smallest number that is added to their diagonal, one
    over twice the cost.
    """
    if covertype() is None:
        return []
    import torch

    from manykernels.banks import ResolvedKernels
    from manykernels.banks.torch.device import Device
    from manykernels.banks.torch.factors import DeviceFactorBank, _add_gram, _mirror
    from manykernels.kernels import KernelCollection

    X, device = covertype()[0], Device("cuda" if has_gpu() else "torch")
    on_points = ResolvedKernels.from_data(KernelCollection([RBF(g) for g in GAMMAS]), X)
    bank = Nystroem(100 if has_gpu() else 10).fit(on_points, X, device=device)
    V = bank.store.factors
    scale = torch.full((len(V),), 20.0, dtype=torch.float64, device=V.device)

    def blocked(rows, dtype):
        out = torch.zeros((V.shape[1],) * 2, dtype=torch.float64, device=V.device)
        for start in range(0, len(V), rows):
            part = slice(start, start + rows)
            scaled = V[part].to(dtype) * scale[part, None].sqrt().to(dtype)
            _add_gram(out, scaled, scaled)
        _mirror(out)
        return out

    assert isinstance(bank, DeviceFactorBank)
    exact, rows = blocked(8192, torch.float64), []
    ways = {"all at once": len(V), "65,536 rows": 65_536, "8,192 rows": 8192, "1,024 rows": 1024}
    for name, size in ways.items():
        _forget()
        began = time.perf_counter()
        found = blocked(size, torch.float32)
        _forget()
        seconds = time.perf_counter() - began
        error = torch.linalg.eigvalsh(found - exact).abs().max()
        lowest = torch.linalg.eigvalsh(found)[0]
        rows.append(
            {
                "float32": name,
                "error": float(error),
                "relative": float(error / exact.trace()),
                "smallest eigenvalue + 1": float(lowest) + 1.0,
                "seconds": seconds,
            }
        )
    began = time.perf_counter()
    blocked(65_536, torch.float64)
    _forget()
    exactly = {"float32": "(float64)", "error": 0.0, "relative": 0.0}
    lowest = float(torch.linalg.eigvalsh(exact)[0]) + 1.0
    exactly |= {"smallest eigenvalue + 1": lowest, "seconds": time.perf_counter() - began}
    rows.append(exactly)
    table("The Gram matrix of 500 columns times 20: errors in its eigenvalues", rows)
    return rows


class Clock:
    """Seconds of parts of a fit, without those of the parts inside."""

    def __init__(self):
        self.seconds, self.calls, self.inside = defaultdict(float), defaultdict(int), []

    def around(self, name, function):
        def timed(*args, **options):
            began = self._now()
            self.inside.append(0.0)
            try:
                return function(*args, **options)
            finally:
                seconds = self._now() - began
                self.seconds[name] += seconds - self.inside.pop()
                self.calls[name] += 1
                if self.inside:
                    self.inside[-1] += seconds

        return timed

    @staticmethod
    def _now():
        if has_gpu():
            import torch

            torch.cuda.synchronize()
        return time.perf_counter()


@contextmanager
def clocked():
    """A clock around all the `PARTS`."""
    from importlib import import_module

    clock = Clock()
    with ExitStack() as stack:
        for name, (place, function) in PARTS.items():
            module, _, last = place.rpartition(".")
            owner = getattr(import_module(module), last) if last[0].isupper() else None
            owner = import_module(place) if owner is None else owner
            wrapped = vars(owner)[function]
            static = isinstance(wrapped, staticmethod)
            timed = clock.around(name, wrapped.__func__ if static else wrapped)
            stack.enter_context(
                patch.object(owner, function, staticmethod(timed) if static else timed)
            )
        yield clock


def profile():
    """Where the seconds go, squared hinge, p = 1.33, C = 10."""
    if covertype() is None:
        return []
    rows = []
    for rank in ranks():
        warm_up(rank)
        with clocked() as clock:
            row, _ = fitted(classifier(rank), *covertype())
        rest = row["seconds"] - sum(clock.seconds.values())
        parts = {name: clock.seconds[name] for name in PARTS} | {"rest": rest}
        for name, seconds in parts.items():
            calls = clock.calls[name]
            rows.append({"rank": rank, "part": name, "calls": calls, "seconds": seconds})
        table(f"Rank {rank}: where the seconds go", rows[-len(parts) :])
    return rows


def peers():
    """TorchKM's Nyström SVM with one Gaussian, which also fits two folds, and ours with one and
    with five, hinge, C = 10, all else at the defaults.
    """
    from torchkm.estimators import TorchKMSVC

    if covertype() is None:
        return []
    X, y, X_test, y_test = covertype()
    rank, rows, device = ranks()[0], [], "cuda" if has_gpu() else "cpu"
    sizes = (100_000, len(y)) if has_gpu() else (1000,)
    for n in sizes:
        model = TorchKMSVC(Cs=[10.0], cv=2, device=device, low_rank=True, num_landmarks=rank)
        _forget()
        began = time.perf_counter()
        row = {"by": "TorchKM", "rank": rank, "n": n, "kernels": 1}
        try:
            with at_most(PEER_SECONDS):
                model.fit(X[:n], y[:n])
            row |= {"seconds": time.perf_counter() - began, "peak GB": _peak()}
            row["accuracy"] = 100 * float(np.mean(model.predict(X_test) == y_test))
        except (KeyboardInterrupt, RuntimeError, ValueError) as error:
            row |= {"seconds": time.perf_counter() - began, "peak GB": _peak()}
            row["accuracy"] = f"{type(error).__name__} {str(error)[:60]}"
        rows.append(row)
        print(row, flush=True)
    for kernels in (RBF("median"),), tuple(map(RBF, GAMMAS)):
        options = {"kernels": list(kernels), "loss": "hinge", "p": 1.0, "tol": 1e-3}
        warm_up(rank, **options)
        for n in sizes:
            row, _ = fitted(classifier(rank, **options), X[:n], y[:n], X_test, y_test)
            shown = {key: row[key] for key in ("seconds", "peak GB", "accuracy", "gap")}
            rows.append({"by": "ours", "rank": rank, "n": n, "kernels": len(kernels)} | shown)
    table("Nyström's method on Covertype, beside TorchKM", rows)
    return rows


STEPS = {
    "ranks": by_rank,
    "hinge": by_rank_at_defaults,
    "profile": profile,
    "losses": by_loss,
    "streaming": streaming,
    "sums": sums,
    "peers": peers,
}
NEEDS = {"": ("GPU", "covtype.npz"), "peers": ("torchkm",)}
GUESSED = {
    "ranks": 120,
    "hinge": 60,
    "profile": 120,
    "losses": 120,
    "streaming": 60,
    "sums": 30,
    "peers": 260,
}
QUICK = {"HELD_OUT": 1000}
