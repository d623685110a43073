"""``device="auto"``, whether or not there is a GPU."""

import numpy as np
import pytest

from conftest import toy
from manykernels import MKLClassifier, MKLClassifierCV
from manykernels.banks import make_bank
from manykernels.banks.torch import place
from manykernels.banks.torch.device import Device
from manykernels.combinations import PolynomialMixture
from manykernels.estimators.search import batches
from manykernels.kernels import RBF, KernelCollection, Linear
from manykernels.lowrank import Nystroem

pytestmark = pytest.mark.device
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
RNG = np.random.default_rng(0)
X, Y = toy(80)


@pytest.fixture
def started(monkeypatch):
    """A function that says whether the process has used a GPU before; it has not."""

    def say(value=True):
        monkeypatch.setattr(place, "gpu_has_started", lambda: value)

    say(False)
    return say


def rbf_bank(n, gammas, **options):
    kernels = KernelCollection([RBF(gamma, **options) for gamma in gammas])
    return make_bank(kernels, RNG.random((n, 3)), dtype=np.float32)


def subsets_bank(n, m):
    kernels = KernelCollection.masked_rbf(np.ones(m), np.ones((m, 3), dtype=bool))
    return make_bank(kernels, RNG.random((n, 3)), dtype=np.float32)


def test_the_rule(started):
    two, many = (0.5, 1.0), 10.0 ** np.linspace(-2, 0, 700)  # which the host looks up in a table
    assert not place.pays(rbf_bank(7000, two))
    assert place.pays(rbf_bank(9000, two))
    assert not place.pays(subsets_bank(500, 40))
    assert place.pays(subsets_bank(1000, 40))
    assert not place.pays(rbf_bank(1000, many))
    assert place.pays(rbf_bank(2100, many))


def test_without_the_import_of_pytorch_less_pays(started):
    started()
    assert not place.pays(rbf_bank(1500, (0.5, 1.0)))
    assert place.pays(rbf_bank(2100, (0.5, 1.0)))
    assert place.pays(subsets_bank(300, 40))


def test_factors_of_few_columns_stay(started):
    """The host solves in the space of so few columns; kernels of all columns are computed."""
    started()
    assert not place.pays(rbf_bank(9000, (0.5, 1.0), features=[0]))
    assert place.pays(rbf_bank(9000, (0.5, 1e4), features=[0]))  # too narrow to be a factor
    assert place.pays(rbf_bank(9000, (0.5, 1.0), features=[0, 1]))


def test_factors(started, monkeypatch):
    """Those that are turned into factors of a common space cost the host more."""
    monkeypatch.setattr(place, "gpu_is_here", lambda: True)
    monkeypatch.setattr(place, "Device", lambda name: Device("torch"))
    assert not place.device_for_factors("auto", 8000, 1000, alike=True)
    assert place.device_for_factors("auto", 30_000, 1000)
    started()
    assert place.device_for_factors("auto", 8000, 1000, alike=True)
    assert not place.device_for_factors("auto", 8000, 1000)
    assert not place.device_for_factors("auto", 8000, 250, alike=True)


def test_grids(started, monkeypatch):
    monkeypatch.setattr(place, "gpu_is_here", lambda: True)
    assert not place.grid_pays(20, 1000)
    assert place.grid_pays(20, 2000)
    started()
    assert not place.grid_pays(20, 300)
    assert place.grid_pays(20, 1000)


def test_a_grid_goes_to_a_gpu_that_has_started(started, monkeypatch, lower):
    """PyTorch on the CPU stands for the GPU."""
    for module in (place, batches):
        monkeypatch.setattr(module, "Device", lambda name: Device("torch"))
    monkeypatch.setattr(place, "gpu_is_here", lambda: True)
    lower(device_entries_of_grids=100)
    options = {"kernels": [RBF(1.0), Linear()], "Cs": [0.1, 1.0], "ps": [1.0], "cv": 2}
    raced = MKLClassifierCV(**options, device="auto").fit(X, Y)
    here = MKLClassifierCV(**options, exhaustive=True).fit(X, Y)
    there = MKLClassifierCV(**options, exhaustive=True, device="auto").fit(X, Y)
    assert "lockstep" in str(raced.plan_)
    assert "lockstep" in str(there.plan_)
    assert "lockstep" not in str(here.plan_)
    assert "enough entries" in there.plan_.place.why
    np.testing.assert_allclose(there.scores_, here.scores_, atol=0.03)
    lower(device_entries_of_grids=2**60)
    there = MKLClassifierCV(**options, device="auto").fit(X, Y)
    assert "lockstep" not in str(there.plan_)


def test_low_rank_grids_wait_for_a_gpu_that_has_started(started, monkeypatch):
    monkeypatch.setattr(batches, "Device", lambda name: Device("torch"))
    monkeypatch.setattr(batches, "gpu_has_started", lambda: False)
    options = {"kernels": [RBF(1.0), RBF(0.1)], "Cs": [0.1, 1.0], "ps": [1.0], "cv": 2}
    options |= {"approximation": Nystroem(10), "device": "auto"}
    assert "lockstep" not in str(MKLClassifierCV(**options).fit(X, Y).plan_)
    monkeypatch.setattr(batches, "gpu_has_started", lambda: True)
    assert "lockstep" in str(MKLClassifierCV(**options).fit(X, Y).plan_)


def test_a_gpu_is_asked_for_only_where_it_pays(monkeypatch, lower):
    asked = []
    monkeypatch.setattr(place, "gpu_is_here", lambda: asked.append(1) or False)
    MKLClassifier(device="auto").fit(X, Y)
    assert not asked
    lower(device_entries=0)
    model = MKLClassifier([RBF(1.0), Linear()], device="auto").fit(X, Y)
    assert asked
    assert not model.bank_.on_device


def test_a_gpu_that_is_here_is_taken(monkeypatch, lower):
    """PyTorch on the CPU stands for the GPU."""
    monkeypatch.setattr(place, "gpu_is_here", lambda: True)
    lower(device_entries=0)
    monkeypatch.setattr(place, "Device", lambda name: Device("torch"))
    options = {"kernels": [RBF(1.0), Linear()], "p": 1.5}
    there = MKLClassifier(**options, device="auto").fit(X, Y)
    assert there.bank_.on_device
    here = MKLClassifier(**options).fit(X, Y)
    assert there.result_.objective == pytest.approx(here.result_.objective, rel=2e-3)
    lower(device_entries=2**60)
    assert not MKLClassifier(**options, device="auto").fit(X, Y).bank_.on_device


def test_without_pytorch(monkeypatch):
    monkeypatch.setattr(place, "find_spec", lambda name: None)
    assert not place.gpu_is_here()


def test_where_only_the_cpu_goes(monkeypatch, lower):
    """Fitted banks, rows that lack views and combinations are no error."""
    monkeypatch.setattr(place, "gpu_is_here", lambda: True)
    lower(device_entries=0)
    bank = make_bank(KernelCollection([RBF(1.0), Linear()]), X)
    assert MKLClassifier(bank, device="auto").fit(X, Y).bank_ is not None
    holes = X.copy()
    holes[:5, 0] = np.nan
    kernels = [RBF(1.0, features=[f]) for f in range(X.shape[1])]
    MKLClassifier(kernels, missing="mean", device="auto").fit(holes, Y)
    model = MKLClassifier(combination=PolynomialMixture(), device="auto", max_iter=2)
    assert not model.fit(X, Y).bank_.on_device
