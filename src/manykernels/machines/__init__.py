"""Machines: solvers of the SVM with one fixed kernel."""

from .base import Machine, MachineResult
from .blocked import BlockedMachine, KernelRows
from .dense import DenseMachine
from .device import machine_for
from .factored import FactoredKernel, FactoredMachine
from .matrices import CurvedKernel

__all__ = [
    "BlockedMachine",
    "CurvedKernel",
    "DenseMachine",
    "FactoredKernel",
    "FactoredMachine",
    "KernelRows",
    "Machine",
    "MachineResult",
    "machine_for",
]
