"""``device="auto"``, whether or not there is a GPU."""

import numpy as np
import pytest

from conftest import toy
from manykernels import MKLClassifier
from manykernels.banks import make_bank
from manykernels.banks.torch import place
from manykernels.banks.torch.device import Device
from manykernels.combinations import PolynomialMixture
from manykernels.kernels import RBF, KernelCollection, Linear

pytestmark = pytest.mark.device
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
RNG = np.random.default_rng(0)
X, Y = toy(80)


def test_the_rule():
    def bank(n, gammas):
        kernels = KernelCollection([RBF(gamma) for gamma in gammas])
        return make_bank(kernels, RNG.random((n, 3)), dtype=np.float32)

    two = (0.5, 1.0)
    assert not place.pays(bank(2000, two))
    assert place.pays(bank(9000, two))
    many = 10.0 ** np.linspace(-2, 0, 700)  # which the host looks up in a table
    subsets = KernelCollection.masked_rbf(np.ones(40), np.ones((40, 3), dtype=bool))
    assert not place.pays(make_bank(subsets, RNG.random((500, 3)), dtype=np.float32))
    assert place.pays(make_bank(subsets, RNG.random((1000, 3)), dtype=np.float32))
    assert not place.pays(bank(1000, many))
    assert place.pays(bank(2100, many))


def test_a_gpu_is_asked_for_only_where_it_pays(monkeypatch):
    asked = []
    monkeypatch.setattr(place, "gpu_is_here", lambda: asked.append(1) or False)
    MKLClassifier(device="auto").fit(X, Y)
    assert not asked
    monkeypatch.setattr(place, "SIZES", place.Sizes(clear_gain=0))
    model = MKLClassifier([RBF(1.0), Linear()], device="auto").fit(X, Y)
    assert asked
    assert not model.bank_.on_device


def test_a_gpu_that_is_here_is_taken(monkeypatch):
    """PyTorch on the CPU stands for the GPU."""
    monkeypatch.setattr(place, "gpu_is_here", lambda: True)
    monkeypatch.setattr(place, "SIZES", place.Sizes(clear_gain=0))
    monkeypatch.setattr(place, "Device", lambda name: Device("torch"))
    monkeypatch.setattr(place, "LEAST", 0)
    options = {"kernels": [RBF(1.0), Linear()], "p": 1.5}
    there = MKLClassifier(**options, device="auto").fit(X, Y)
    assert there.bank_.on_device
    here = MKLClassifier(**options).fit(X, Y)
    assert there.result_.objective == pytest.approx(here.result_.objective, rel=2e-3)
    monkeypatch.setattr(place, "SIZES", place.Sizes(clear_gain=2**60))
    assert not MKLClassifier(**options, device="auto").fit(X, Y).bank_.on_device


def test_without_pytorch(monkeypatch):
    monkeypatch.setattr(place, "find_spec", lambda name: None)
    assert not place.gpu_is_here()


def test_where_only_the_cpu_goes(monkeypatch):
    """Fitted banks, rows that lack views and combinations are no error."""
    monkeypatch.setattr(place, "gpu_is_here", lambda: True)
    monkeypatch.setattr(place, "SIZES", place.Sizes(clear_gain=0))
    bank = make_bank(KernelCollection([RBF(1.0), Linear()]), X)
    assert MKLClassifier(bank, device="auto").fit(X, Y).bank_ is not None
    holes = X.copy()
    holes[:5, 0] = np.nan
    kernels = [RBF(1.0, features=[f]) for f in range(X.shape[1])]
    MKLClassifier(kernels, missing="mean", device="auto").fit(holes, Y)
    model = MKLClassifier(combination=PolynomialMixture(), device="auto", max_iter=2)
    assert not model.fit(X, Y).bank_.on_device
