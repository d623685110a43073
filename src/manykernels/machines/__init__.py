"""Machines: solvers of the SVM with one fixed kernel."""

from .base import Machine, MachineResult
from .blocked import BlockedMachine, KernelRows
from .dense import DenseMachine

__all__ = ["BlockedMachine", "DenseMachine", "KernelRows", "Machine", "MachineResult"]
