"""Data of molecular biology: AnnData, MuData and gene sets as one table with groups of columns.

``views`` makes the table, ``read_gmt`` reads gene sets, ``store`` writes what was learned back.
"""

from .gmt import read_gmt
from .report import Match, Report
from .store import store
from .views import Views, views

__all__ = ["Match", "Report", "Views", "read_gmt", "store", "views"]
