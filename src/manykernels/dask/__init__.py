"""The estimators on a Dask cluster.

``from manykernels.dask import MKLClassifier`` takes the place of ``from manykernels import
MKLClassifier``: the same parameters and attributes, with the work on the workers of the current
`dask.distributed.Client`. Needs ``pip install manykernels[dask]``.
"""

from .cluster import ClusterError
from .estimators import MKLClassifier, MKLClassifierCV, MKLRegressor, MKLRegressorCV

__all__ = ["ClusterError", "MKLClassifier", "MKLClassifierCV", "MKLRegressor", "MKLRegressorCV"]
