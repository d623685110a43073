"""What the records say, for the sections of the report."""

from dataclasses import dataclass

from ..harness.records import every
from .markdown import pieces


@dataclass
class Found:
    """Records by name: of the full size where there is one with rows, else of the quick one."""

    records: dict

    @classmethod
    def here(cls):
        quick, full = every("quick"), every("full")
        chosen = {
            name: full[name] if name in full and full[name].status == "done" else quick.get(name)
            for name in [*quick, *(name for name in full if name not in quick)]
        }
        return cls({name: record or full[name] for name, record in chosen.items()})

    def pieces(self, name):
        """Tables of a record, each with its name."""
        record = self.records.get(name)
        return [] if record is None else list(pieces(record.rows))

    def rows(self, name, piece=""):
        """Rows of the one table of a record, or of the named one."""
        return next((rows for title, rows in self.pieces(name) if title == piece), [])

    def index(self, name, *keys, piece=""):
        """Rows by the values of some columns."""
        return {tuple(row[key] for key in keys): row for row in self.rows(name, piece)}
