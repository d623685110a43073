"""Gene sets on the columns of tables."""

import os
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .gmt import read_gmt
from .report import Match, some


class Sizes(NamedTuple):
    """How many columns a group may have; no end if ``most`` is None."""

    least: int
    most: int | None

    def why_not(self, columns):
        """Why a group of so many columns is dropped; empty if it is not."""
        if columns < max(self.least, 1):
            return f"fewer than min_size={self.least} columns"
        if self.most is not None and columns > self.most:
            return f"{columns} columns are more than max_size={self.most}"
        return ""


class Naming(NamedTuple):
    """How genes are looked up: by which column of var, and whether large letters are small ones."""

    column: str | Mapping | None
    ignore_case: bool

    def check(self, sources):
        """Raise if names are given for modalities that are not there."""
        if not isinstance(self.column, Mapping):
            return
        known = {source.modality for source in sources}
        unknown = [name for name in self.column if name not in known]
        if unknown:
            there = sorted(filter(None, known))
            raise ValueError(
                f"gene_names is given for {unknown}, but "
                + (f"the modalities are {there}." if there else "this is no MuData: give a column.")
            )

    def of(self, block):
        """From gene to the columns of a table that are of it."""
        modality = block.source.modality
        column = self.column.get(modality) if isinstance(self.column, Mapping) else self.column
        places: dict[str, list[int]] = {}
        for place, gene in enumerate(block.genes(column)):
            if gene:
                places.setdefault(self.folded(gene), []).append(place)
        return places

    def folded(self, gene):
        """The gene as it is looked up."""
        return gene.casefold() if self.ignore_case else gene


Chosen = dict[str, dict[int, np.ndarray]]  # group -> number of a table -> columns of it


def choose(blocks, groups, naming, sizes, split, several):
    """Groups of columns: of every gene set, and of every table without gene sets as a whole.

    Parameters
    ----------
    blocks : list of Block
    groups : see `views`
    naming : Naming
    sizes : Sizes
    split : bool
        Whether a set on several tables is one group for each.
    several : bool
        Whether the tables are those of a MuData.

    Returns
    -------
    chosen : dict from group to dict from number of a table to columns
    matches : list of Match
    """
    by_view = _by_view(groups, blocks)
    named = [number for number, block in enumerate(blocks) if block.source.view in by_view]
    together = not split and not _nested(groups)
    chosen, matches = {}, []
    for numbers in [named] if together and named else [[number] for number in named]:
        sets = by_view[blocks[numbers[0]].source.view]
        view = "" if len(numbers) > 1 else blocks[numbers[0]].source.view
        prefix = f"{view}:" if view and (several or len(named) > 1) else ""
        places = {number: naming.of(blocks[number]) for number in numbers}
        for name, genes in sets.items():
            columns, missing = _found(genes, places, naming)
            count = sum(map(len, columns.values()))
            why = sizes.why_not(count)
            matches.append(Match(prefix + name, name, view, len(genes), count, missing, why))
            if not why:
                chosen[prefix + name] = columns
    if matches and not chosen:
        raise ValueError(_nothing(blocks, naming, matches))
    for number, block in enumerate(blocks):
        if number not in named:
            if block.source.view in chosen:
                raise ValueError(
                    f"{block.source.view!r} is a gene set and a table; rename the set."
                )
            if not len(block.names):
                raise ValueError(
                    f"The view {block.source.view!r} has no columns: give data with some, or name "
                    "the other layers, obsm or modalities."
                )
            chosen[block.source.view] = {number: np.arange(len(block.names))}
    return chosen, matches


def _found(genes, places, naming):
    """The columns of the genes in every table that has some, and the genes that none has."""
    columns = {
        number: sorted({place for gene in genes for place in known.get(naming.folded(gene), ())})
        for number, known in places.items()
    }
    missing = tuple(
        gene for gene in genes if not any(naming.folded(gene) in known for known in places.values())
    )
    return {number: np.array(some) for number, some in columns.items() if some}, missing


def _by_view(groups, blocks):
    """The gene sets of every table that has some."""
    described = [block.source.view for block in blocks if block.variables is not None]
    if groups is None:
        return {}
    if _nested(groups):
        unknown = [view for view in groups if view not in described]
        if unknown:
            raise ValueError(
                f"There are gene sets for {some(map(repr, unknown))}, but the tables of genes are "
                f"{some(described) or 'none'}."
            )
        return {view: _sets(sets) for view, sets in groups.items()}
    if not described:
        raise ValueError("Gene sets need X or layers: obsm has no genes.")
    return dict.fromkeys(described, _sets(groups))


def _nested(groups):
    """Whether gene sets are given by view."""
    return isinstance(groups, Mapping) and any(
        isinstance(sets, (Mapping, str, os.PathLike)) for sets in groups.values()
    )


def _sets(groups):
    """Gene sets as a dict from name to tuple of distinct genes."""
    if isinstance(groups, (str, os.PathLike)):
        return read_gmt(groups)
    if not isinstance(groups, Mapping) or not groups:
        raise TypeError(
            "groups must be a mapping from name to genes, the path of a GMT file, or one of these "
            f"for each view, got {groups!r}."
        )
    sets = {}
    for name, genes in groups.items():
        if isinstance(genes, str) or not all(isinstance(gene, str) for gene in genes):
            raise TypeError(f"The gene set {name!r} must be a list of names of genes.")
        sets[str(name)] = tuple(dict.fromkeys(genes))
    return sets


def _nothing(blocks, naming, matches):
    """Words for gene sets none of which is a group."""
    best = max(matches, key=lambda match: match.columns)
    block = next(
        block
        for block in blocks
        if block.variables is not None and best.view in ("", block.source.view)
    )
    genes = list(naming.of(block))
    return (
        f"None of the {len(matches)} gene sets is left: {best.group!r}, which fits best, has "
        f"{best.found} of {best.size} genes ({best.dropped}). It names genes such as "
        f"{some(best.missing, 2) or 'those'}, {block.source.view!r} such as {some(genes, 2)}: say "
        "gene_names= (a column of var, such as "
        f"{some(map(repr, block.variables.var.columns), 3) or 'none here'}), ignore_case=True or "
        "another size."
    )
