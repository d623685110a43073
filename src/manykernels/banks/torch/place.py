"""The choice of the banks that go to a device."""

import re
import sys
from dataclasses import replace
from importlib.util import find_spec
from math import isqrt
from typing import Any

import numpy as np

from ...combinations import Product
from ...machines.device import TOLERANCES as MACHINE_TOLERANCES
from ...thresholds import thresholds
from ..base import Bank
from ..combination import CombinationBank
from ..compute import Points
from ..divided import divided
from ..lowrank.factors import FactorBank
from ..masked import MaskedBank
from ..tiled import TiledBank
from .device import Device
from .factors import moved_to_device as _factors
from .masked import DeviceMaskedBank
from .product import DeviceProductBank
from .tiled import DeviceTiledBank

NAMES = "'cpu', 'auto', 'cuda', 'cuda:0', ..., or 'torch' for PyTorch on the CPU"


def check_device(name: Any) -> None:
    """Raise unless `device` is the name of one."""
    if not (isinstance(name, str) and re.fullmatch(r"cpu|auto|torch|cuda(:\d+)?", name)):
        raise ValueError(f"device={name!r} is not known; use {NAMES}.")


def moved_to_device(bank: Bank, name: str, small: bool = False) -> Bank:
    """The bank on a device; the bank itself if it is one that the host computes as fast.

    Parameters
    ----------
    bank : Bank
    name : str
        ``"cpu"`` for the host without PyTorch; ``"torch"``, PyTorch on the CPU, takes small banks,
        too; ``"auto"`` is a GPU, if one is here and `pays`, and the host otherwise.
    small : bool
        Whether a GPU takes small banks too, as it does where it has other work with them.
    """
    if name == "auto":
        name, small = ("cuda", True) if pays(bank) and gpu_is_here() else ("cpu", small)
    if name == "cpu":
        return bank
    device = Device(name)
    device.torch  # noqa: B018  (an error now, if it is not there)
    if isinstance(bank, CombinationBank) and type(bank.combination) is not Product:
        raise ValueError(
            f"device={device.name!r} is for sums and products of kernels, not for "
            f"{bank.combination!r}: use 'cpu'."
        )
    if not (small or name == "torch") and not _large(bank):
        return bank
    translated = _ON_DEVICE.get(type(bank))
    return bank if translated is None else translated(bank, device)


def device_for_factors(name: str, n: int, width: int, alike: bool = False) -> Device | None:
    """The device for factors of n points with so many columns; None if the host is as fast.

    Factors of kernels that are `alike`, since they see the same features, are turned into those of
    their common space, which costs the host more than what follows.
    """
    table, operations = thresholds(), n * width**2
    is_large = operations >= table.device_operations_on_factors
    if name == "auto":
        alike = alike and gpu_has_started()
        is_large = is_large and (alike or operations >= table.device_operations_by_default)
        name = "cuda" if is_large and gpu_is_here() else "cpu"
    if name == "cpu":
        return None
    device = Device(name)
    device.torch  # noqa: B018  (an error now, if it is not there)
    if name != "torch" and not is_large:
        return None
    device.tidy()
    return device


def gpu_is_here() -> bool:
    """True if PyTorch is installed and finds a GPU. To import it takes seconds: ask only where one
    would pay.
    """
    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def gpu_has_started() -> bool:
    """True if this process has used a GPU before: a fit that takes it need not import PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()


def pays(bank: Bank) -> bool:
    """True if a GPU is clearly faster for a bank than some cores, as ``python -m benchmarks gpu
    --part auto`` has it, with the import of PyTorch where that was not imported yet.
    """
    if isinstance(bank, CombinationBank) and type(bank.combination) is not Product:
        return False
    if isinstance(bank, FactorBank):
        return device_for_factors("auto", bank.n, bank.width) is not None
    times = 1 if gpu_has_started() else thresholds().device_start
    return type(bank) in _ON_DEVICE and _large(bank, times) and not _is_narrow(bank)


def grid_pays(kernels: int, n: int) -> bool:
    """The same for a grid, whose folds have so many kernels and training points."""
    table = thresholds()
    times = 1 if gpu_has_started() else table.device_start
    return kernels * n**2 >= times * table.device_entries_of_grids and gpu_is_here()


def _large(bank: Any, times: int = 1) -> bool:
    table = thresholds()
    if isinstance(bank, FactorBank):
        return bank.n * bank.width**2 >= table.device_operations_on_factors
    subsets = isinstance(bank, MaskedBank)
    least = table.device_entries_of_subsets if subsets else table.device_entries
    if bank.m * bank.n**2 < times * least:
        return False
    return not (bank.is_sum and bank.cheap_sweeps) or bank.n >= table.device_points_of_tables


def _is_narrow(bank: Any) -> bool:
    """True if all kernels are factors of so few columns that the host solves in their space: as
    they are on some of the points.
    """
    table = thresholds()
    if not isinstance(bank, TiledBank):
        return False
    step = -(-bank.n // table.device_points_of_samples)
    factors = divided(bank.take_points(np.arange(0, bank.n, step))).exact_factors()
    return factors is not None and table.points_per_exact_column * factors.width <= bank.n


def _tiled(bank: Any, device: Device) -> Any:
    compute = replace(bank.compute, device=device)
    return DeviceTiledBank(bank.spec, Points(bank.left, bank.right), compute, bank.held)


def _masked(bank: Any, device: Device) -> Any:
    compute = replace(bank.compute, device=device)
    return DeviceMaskedBank(bank.spec, Points(bank.left, bank.right), compute)


def _product(bank: Any, device: Device) -> Any:
    options = {"feature_names": bank.feature_names, "n_jobs": bank.threads.count}
    return DeviceProductBank(bank.combination, dtype=bank.dtype, device=device, **options)


# by exact type: a bank that is on a device already, or that wraps another, stays as it is
_ON_DEVICE = {
    TiledBank: _tiled,
    MaskedBank: _masked,
    FactorBank: _factors,
    CombinationBank: _product,
}


# --- what goes where on a device, in words --------------------------------------------------------


GIGABYTE = 2**30


def work_in_words(bank: Any) -> str:
    """The memory that a bank's work will take on its device."""
    device, n, itemsize = bank.device, bank.n, bank.dtype.itemsize
    if isinstance(bank, DeviceMaskedBank):
        rows = bank._chunks_for(n)[0].stop
        return f"products of {rows:,} kernels with all points at a time"
    whole = n**2 * itemsize
    stays = whole <= MACHINE_TOLERANCES.resident_share * device.free()
    if stays:
        return f"a combined kernel takes {whole / GIGABYTE:.2f} GB and stays there"
    most = isqrt(int(MACHINE_TOLERANCES.active_share * device.free() // itemsize))
    return (
        f"a combined kernel would take {whole / GIGABYTE:.0f} GB: that of {min(most, n):,} active "
        "points is held; where memory runs out, of half as many"
    )
