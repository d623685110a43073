"""What became of gene sets and samples: found, missing, left out, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..estimators.data.frames import data_frame

SHOWN = 10  # lines of each kind that are printed


@dataclass(frozen=True)
class Match:
    """A gene set on a view.

    Attributes
    ----------
    group : str
        What the group of columns is called.
    gene_set, view : str
        The view is empty where the set was looked for in all of them together.
    size : int
        Genes of the set.
    columns : int
        Columns that are of one of its genes.
    missing : tuple of str
        Genes that no column is of.
    dropped : str
        Why there is no such group; empty if there is.
    """

    group: str
    gene_set: str
    view: str
    size: int
    columns: int
    missing: tuple[str, ...]
    dropped: str = ""

    @property
    def found(self) -> int:
        """Genes of the set that some column is of."""
        return self.size - len(self.missing)

    @property
    def fraction(self) -> float:
        """Share of its genes that were found."""
        return self.found / self.size if self.size else 0.0

    def __str__(self) -> str:
        text = f"{self.group}: {self.found} of {self.size} genes found ({self.fraction:.0%})"
        return f"{text}; dropped, {self.dropped}" if self.dropped else text


@dataclass(frozen=True)
class Report:
    """What was not found, and what was left out. Prints as lines; `frame` is a table.

    Attributes
    ----------
    matches : tuple of Match
        One for every gene set on every view.
    unlabeled : tuple of str
        Samples that were left out because they have no label.
    incomplete : tuple of str
        Samples that were left out because they lack a view.
    lacking : dict from view to int
        How many samples lack it, of those that were not left out.
    """

    matches: tuple[Match, ...] = ()
    unlabeled: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    lacking: dict[str, int] | None = None

    @property
    def dropped(self) -> tuple[Match, ...]:
        """The gene sets that are no groups."""
        return tuple(match for match in self.matches if match.dropped)

    def frame(self, backend: str = "pandas") -> Any:
        """A row for every gene set on every view.

        Parameters
        ----------
        backend : {"pandas", "polars"}
            Whose DataFrame to make.
        """
        rows = self.matches
        return data_frame(
            {
                "group": [row.group for row in rows],
                "gene_set": [row.gene_set for row in rows],
                "view": [row.view for row in rows],
                "size": [row.size for row in rows],
                "found": [row.found for row in rows],
                "fraction": [row.fraction for row in rows],
                "columns": [row.columns for row in rows],
                "dropped": [row.dropped for row in rows],
                "missing": [" ".join(row.missing) for row in rows],
            },
            backend,
        )

    def __str__(self) -> str:
        lines = self._on_sets() + [
            f"{view}: {count} samples lack it." for view, count in (self.lacking or {}).items()
        ]
        for samples, why in (
            (self.unlabeled, "have no label"),
            (self.incomplete, "lack a view"),
        ):
            if samples:
                lines.append(f"{len(samples)} samples {why} and were left out: {some(samples)}.")
        return "\n".join(lines) or "Nothing was left out."

    def _on_sets(self):
        if not self.matches:
            return []
        kept = [match for match in self.matches if not match.dropped]
        genes, found = (
            sum(getattr(match, name) for match in self.matches) for name in ("size", "found")
        )
        lines = [
            f"{len(kept)} of {len(self.matches)} gene sets are groups; {found} of {genes} genes "
            f"were found ({found / max(genes, 1):.0%})."
        ]
        poorest = sorted(kept, key=lambda match: match.fraction)
        for matches in (self.dropped, [match for match in poorest if match.missing]):
            lines += [f"  {match}" for match in matches[:SHOWN]]
            if len(matches) > SHOWN:
                lines.append(f"  … and {len(matches) - SHOWN} more (see frame())")
        return lines


def some(names, most=5):
    """The first few names."""
    names = list(names)
    return ", ".join(map(str, names[:most])) + (" …" if len(names) > most else "")
