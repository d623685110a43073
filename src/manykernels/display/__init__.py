"""Pictures (matplotlib), the report in one HTML file, and what notebooks show."""

from .convergence import ConvergenceDisplay
from .groups import ImportanceDisplay, StabilityDisplay
from .heatmap import KernelHeatmapDisplay
from .path import PathDisplay
from .report import report
from .shapley import BeeswarmDisplay, WaterfallDisplay
from .sparsity import SparsityDisplay
from .tuning import TuningDisplay
from .weights import KernelWeightsDisplay

__all__ = [
    "BeeswarmDisplay",
    "ConvergenceDisplay",
    "ImportanceDisplay",
    "KernelHeatmapDisplay",
    "KernelWeightsDisplay",
    "PathDisplay",
    "SparsityDisplay",
    "StabilityDisplay",
    "TuningDisplay",
    "WaterfallDisplay",
    "report",
]
