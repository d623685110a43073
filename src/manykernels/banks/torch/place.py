"""Which banks go to a device."""

import re

from ..combination import CombinationBank
from ..factors import FactorBank
from ..masked import MaskedBank
from ..tiled import TiledBank
from .device import Device

NAMES = "'cpu', 'cuda', 'cuda:0', ..., or 'torch' for PyTorch on the CPU"
LEAST = 2**30  # values of kernels at pairs of points, below which the host is as fast
MANY = 1000  # kernels of one distance, which the host looks up in a table


def check_device(name):
    """Raise unless `device` is the name of one."""
    if not (isinstance(name, str) and re.fullmatch(r"cpu|torch|cuda(:\d+)?", name)):
        raise ValueError(f"device={name!r} is not known; use {NAMES}.")


def on_device(bank, name):
    """The bank on a device; the bank itself if it is one that the host computes as fast.

    Parameters
    ----------
    bank : Bank
    name : str
        ``"cpu"`` for the host without PyTorch; ``"torch"``, PyTorch on the CPU, takes small banks,
        too.
    """
    if name == "cpu":
        return bank
    device = Device(name)
    device.torch  # noqa: B018  (an error now, if it is not there)
    if name != "torch" and not _large(bank):
        return bank
    if type(bank) is TiledBank:
        return _tiled(bank, device)
    if type(bank) is MaskedBank:
        return _masked(bank, device)
    if type(bank) is FactorBank:
        return _factors(bank, device)
    if type(bank) is CombinationBank:
        return _product(bank, device)
    return bank


def _large(bank):
    if isinstance(bank, FactorBank):
        return bank.n * bank.width**2 >= LEAST
    return bank.m * bank.n**2 >= LEAST and not (bank.cheap_sweeps and bank.m > MANY)


def _tiled(bank, device):
    from .tiled import DeviceTiledBank

    return DeviceTiledBank(
        bank.spec, bank.left, bank.right, bank.dtype, bank.threads, bank.held, device
    )


def _masked(bank, device):
    from .masked import DeviceMaskedBank

    parts = (
        bank.collection,
        bank.left,
        bank.right,
        bank.normalize,
        bank.dtype,
        bank.threads,
        bank.scale,
    )
    return DeviceMaskedBank(*parts, device)


def _product(bank, device):
    from ...combinations import Product
    from .product import DeviceProductBank

    if type(bank.combination) is not Product:
        raise ValueError(
            f"device={device.name!r} is for sums and products of kernels, not for "
            f"{bank.combination!r}: use 'cpu'."
        )
    options = {"feature_names": bank._feature_names, "n_jobs": bank.threads.count, "device": device}
    return DeviceProductBank(bank.combination, **options)


def _factors(bank, device):
    from .factors import DeviceFactorBank

    return DeviceFactorBank(bank.factors, bank.offsets, bank.features, bank.threads, device=device)
