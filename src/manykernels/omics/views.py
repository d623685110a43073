"""One table with groups of columns from an AnnData or a MuData."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from ..estimators.data.frames import unique_names
from .blocks import Source, absent_block, block_of, is_several, opened_data, sources_of
from .gmt import read_gmt
from .report import Match, Report, some

SHOWN = 6  # groups that are printed

Names = str | Iterable[str]
Sets = Mapping[str, Iterable[str]] | str | os.PathLike[str]


@dataclass(frozen=True)
class Column:
    """Where a column comes from: a table, and its name there."""

    source: Source
    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Views:
    """Samples, their columns in groups, and what is known of both. Made by `views`.

    Estimators take it in the place of X, and then know the columns by name; indexing by
    rows gives some of the samples, so that scikit-learn's splitters and searches take it, too.

    Attributes
    ----------
    X : (n, d) array or csr_array
        Every column once, in however many groups it is. Sparse if one of the tables is.
    y : (n,) array or None
        The labels.
    groups : dict from name to (s,) array of int
        Columns of each gene set, or of each view that has no gene sets; for `on_groups`.
    columns : (d,) array of str
        Their names; with the view before them, ``rna:CD3D``, for a MuData, for obsm, and where
        several tables of an AnnData have the same names.
    samples : (n,) array of str
    views : dict from name to (s,) array of int
        Columns of each view.
    present : (n, len(views)) array of bool
        Which sample has which view. Where it does not, X is NaN in all columns of the view; a
        sparse X stores each of these.
    report : Report
        What was not found and what was left out.
    origins : list of Column
        The table of each column, and its name there.
    labels : str or None
        The column of ``obs`` that y is.
    """

    X: Any
    y: np.ndarray | None
    groups: dict[str, np.ndarray]
    columns: np.ndarray
    samples: np.ndarray
    views: dict[str, np.ndarray]
    present: np.ndarray
    report: Report
    origins: list[Column] = field(default_factory=list)
    labels: str | None = None

    # what estimators ask of a table with names
    @property
    def obs_names(self) -> np.ndarray:
        return self.samples

    @property
    def var_names(self) -> np.ndarray:
        return self.columns

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    def __len__(self) -> int:
        return self.X.shape[0]

    def __getitem__(self, rows: Any) -> Views:
        if isinstance(rows, tuple):
            if len(rows) != 2 or rows[1] not in (Ellipsis, slice(None)):
                raise IndexError("Views are indexed by samples alone.")
            rows = rows[0]
        chosen = np.atleast_1d(np.arange(len(self))[rows])
        return replace(
            self,
            X=self.X[chosen],
            y=None if self.y is None else self.y[chosen],
            samples=self.samples[chosen],
            present=self.present[chosen],
        )

    def __repr__(self) -> str:
        n, d = self.shape
        kind = "dense"
        stored = getattr(self.X, "nnz", None)
        if stored is not None:
            kind = f"sparse, {stored / max(n * d, 1):.1%} stored"
        lines = [f"Views of {n} samples × {d} columns ({kind})"]
        lines += [
            f"  {view}: {columns.size} columns"
            + (f", {n - there} samples lack it" if there < n else "")
            for (view, columns), there in zip(
                self.views.items(), self.present.sum(axis=0).tolist(), strict=True
            )
        ]
        sized = [f"{group} ({columns.size})" for group, columns in self.groups.items()]
        lines.append(f"  {len(sized)} groups: {some(sized, SHOWN)}")
        if self.report.dropped:
            lines.append(f"  {len(self.report.dropped)} gene sets dropped: print(….report)")
        if self.y is not None:
            lines.append(f"  y: {_described(self.y)}")
        return "\n".join(lines)


def _described(y):
    if y.dtype.kind == "f":
        return f"{y.min():.4g} to {y.max():.4g}"
    classes, counts = np.unique(y, return_counts=True)
    return some((f"{label} ({count})" for label, count in zip(classes, counts, strict=True)), SHOWN)


def views(
    data: Any,
    *,
    labels: str | None = None,
    groups: Sets | Mapping[str, Sets] | None = None,
    layers: Names | Mapping[str, Names] | None = None,
    obsm: Names | Mapping[str, Names] | None = None,
    modalities: Names | None = None,
    gene_names: str | Mapping[str, str] | None = None,
    ignore_case: bool = False,
    min_size: int = 5,
    max_size: int | None = None,
    split: bool = True,
    unlabeled: Literal["error", "drop"] = "error",
    incomplete: Literal["keep", "drop"] = "keep",
    like: Views | None = None,
) -> Views:
    """The tables of an AnnData or MuData as one, with groups of columns for `on_groups`.

    ``v = views("cells.h5ad", labels="cell_type", groups="hallmark.gmt")`` and then
    ``MKLClassifier(on_groups(v.groups)).fit(v, v.y)``.

    Only columns that are in a group are read. Sparse tables stay sparse, and a gene that is in
    twenty sets is stored once. The samples of a MuData are brought together by their names.

    Parameters
    ----------
    data : AnnData, MuData or path
        In memory or backed by a file. A path ends in ``.h5ad`` or ``.h5mu``.
    labels : str, optional
        The column of ``obs`` that becomes y; ``modality:column`` for one that only a modality has.
    groups : mapping from name to genes, path of a GMT file, or mapping from view to these, optional
        Gene sets: every one becomes a group of columns. By view (``{"rna": "hallmark.gmt"}``),
        the other views are a group each; without, all views are.
    layers : str, list, or mapping from modality to these, optional
        Layers that are views; ``"X"`` stands for X itself, which is the only one by default.
    obsm : str, list, or mapping from modality to these, optional
        Entries of ``obsm`` that are views, each a group as a whole; for a MuData its own, or by
        modality those of the modalities.
    modalities : str or list, optional
        Of a MuData; all by default.
    gene_names : str, or mapping from modality to str, optional
        The column of ``var`` that has the names that gene sets use; ``var_names`` by default.
    ignore_case : bool
        Whether ``Cd3d`` is ``CD3D``.
    min_size, max_size : int, optional
        Gene sets with fewer or more columns are dropped, and reported.
    split : bool
        Whether a set on several views is a group on each (``rna:NAME``, ``protein:NAME``), or one
        on all of them.
    unlabeled : {"error", "drop"}
        What to do with samples whose label is missing.
    incomplete : {"keep", "drop"}
        What to do with samples that lack a view, such as a modality of a MuData: keep them with
        NaN, or leave them out.
    like : Views, optional
        Take the same columns and groups as these, such as those of the training samples for new
        ones, in whatever order the new data have them, and the same labels, where the new data have
        them for every sample. What chooses columns is then left out. A MuData may lack modalities
        as a whole: all samples then lack that view.

    Returns
    -------
    Views

    Raises
    ------
    ValueError
        Naming what is not there, and what is.
    ImportError
        Where a file is to be read without anndata or mudata.
    """
    _check_options(min_size, max_size, unlabeled, incomplete)
    choice = {
        "groups": groups,
        "layers": layers,
        "obsm": obsm,
        "modalities": modalities,
        "gene_names": gene_names,
    }
    given = [name for name, value in choice.items() if value is not None]
    if like is not None and given:
        raise ValueError(f"like= says what the columns are; leave out {some(given)}.")
    with opened_data(data) as found:
        if like is not None:
            plan = _same(found, like)
        else:
            sources = sources_of(found, layers, obsm, modalities)
            naming = Naming(gene_names, ignore_case)
            naming.check(sources)
            sizes = Sizes(min_size, max_size)
            plan = _planned(found, sources, groups, naming, sizes, split)
        if labels is None and like is not None:
            labels = _known_labels(found, like.labels, unlabeled)
        y, labeled = _labels(found, labels, unlabeled)
        made = _assembled(found, plan, y, labeled, incomplete == "drop")
        return replace(made, labels=labels)


def _check_options(min_size, max_size, unlabeled, incomplete):
    if not min_size >= 1 or (max_size is not None and not max_size >= min_size):
        raise ValueError(
            f"min_size must be at least 1, and max_size None or as large; got {min_size!r} and "
            f"{max_size!r}."
        )
    for name, value, known in (
        ("unlabeled", unlabeled, ("error", "drop")),
        ("incomplete", incomplete, ("keep", "drop")),
    ):
        if value not in known:
            raise ValueError(f"{name}={value!r} is not known; use {' or '.join(map(repr, known))}.")


class _Plan(NamedTuple):
    """What is to be read: columns of every table, their names, and groups of them."""

    blocks: list
    columns: list
    names: np.ndarray
    groups: dict
    matches: list

    @property
    def view_names(self):
        return [block.source.view for block in self.blocks]

    @property
    def places(self):
        """The columns of every view in the table."""
        ends = np.cumsum([len(columns) for columns in self.columns])
        return {
            view: np.arange(end - columns.size, end)
            for view, columns, end in zip(self.view_names, self.columns, ends, strict=True)
        }

    @property
    def origins(self):
        """Where every column comes from."""
        return [
            Column(block.source, name)
            for block, columns in zip(self.blocks, self.columns, strict=True)
            for name in block.names[columns]
        ]


def _planned(data, sources, groups, naming, sizes, split):
    blocks = [block_of(data, source) for source in sources]
    chosen, matches = choose(blocks, groups, naming, sizes, split, is_several(data))
    used = [
        np.unique(np.concatenate([[], *(some[k] for some in chosen.values() if k in some)]))
        for k in range(len(blocks))
    ]
    kept = [k for k, columns in enumerate(used) if columns.size]
    columns = [used[k].astype(np.intp) for k in kept]
    starts = dict(zip(kept, np.cumsum([0, *map(len, columns)]), strict=False))
    groups = {
        name: np.concatenate(
            [starts[k] + np.searchsorted(used[k], some[k]) for k in sorted(some)]
        ).astype(np.intp)
        for name, some in chosen.items()
    }
    blocks = [blocks[k] for k in kept]
    alone = not is_several(data) and sum(block.variables is not None for block in blocks) == 1
    names = [
        name if alone and block.variables is not None else f"{block.source.view}:{name}"
        for block, mine in zip(blocks, columns, strict=True)
        for name in block.names[mine]
    ]
    return _Plan(blocks, columns, unique_names(names, "The names of columns"), groups, matches)


def _same(data, like):
    """The plan that gives the columns of other views; samples may lack a modality, and so may all
    of them.
    """
    blocks, columns = [], []
    for chosen in like.views.values():
        source = like.origins[chosen[0]].source
        wanted = [like.origins[column].name for column in chosen]
        if source.modality and is_several(data) and source.modality not in data.mod:
            block = absent_block(data, source, wanted)
        else:
            block = block_of(data, source)
        places = {name: place for place, name in enumerate(block.names)}
        missing = [name for name in wanted if name not in places]
        if missing:
            raise ValueError(
                f"View {source.view!r} lacks {len(missing)} of the {len(wanted)} columns that are "
                f"needed: {some(missing)}."
            )
        blocks.append(block)
        columns.append(np.array([places[name] for name in wanted], dtype=np.intp))
    return _Plan(blocks, columns, like.columns, like.groups, list(like.report.matches))


def _known_labels(data, labels, unlabeled):
    """The labels of other views, if these data have them, too; nobody asked for them."""
    if labels is None:
        return None
    try:
        column = _label_column(data, labels)
    except ValueError:
        return None
    missing = column.isna()
    return None if missing.all() or (missing.any() and unlabeled == "error") else labels


def _labels(data, labels, unlabeled):
    """y, and the samples that are labeled; (None, all) if no labels are asked for."""
    if labels is None:
        return None, np.arange(data.n_obs)
    column = _label_column(data, labels)
    missing = column.isna().to_numpy()
    if missing.any() and unlabeled == "error":
        raise ValueError(
            f"The labels {labels!r} are missing in {np.count_nonzero(missing)} of {len(missing)} "
            f"samples ({some(column.index[missing])}): say unlabeled='drop' to leave them out."
        )
    if missing.all():
        raise ValueError(f"The labels {labels!r} are missing in all samples.")
    y = np.asarray(column[~missing].to_list())
    return y, np.flatnonzero(~missing)


def _label_column(data, labels):
    if labels in data.obs:
        return data.obs[labels]
    modality, _, name = labels.partition(":")
    if is_several(data) and modality in data.mod and name in data.mod[modality].obs:
        return data.mod[modality].obs[name].reindex(data.obs_names)
    raise ValueError(
        f"There is no column {labels!r} in obs for the labels; there is "
        f"{some(data.obs.columns, 10) or 'none'}."
    )


def _assembled(data, plan, y, samples, only_complete):
    parts = [
        block.read(columns, samples)
        for block, columns in zip(plan.blocks, plan.columns, strict=True)
    ]
    present = np.column_stack([~_empty_rows(part) for part in parts])
    names = unique_names(data.obs_names, "obs_names")
    unlabeled = tuple(np.delete(names, samples).tolist())
    names, incomplete = names[samples], ()
    if only_complete and not present.all():
        whole = present.all(axis=1)
        if not whole.any():
            raise ValueError("No sample has all views: say incomplete='keep', or name fewer views.")
        incomplete = tuple(names[~whole].tolist())
        parts, names, present = [part[whole] for part in parts], names[whole], present[whole]
        y = None if y is None else y[whole]
    counts = zip(plan.view_names, (~present).sum(axis=0), strict=True)
    lacking = {view: int(count) for view, count in counts if count}
    return Views(
        _stacked(parts),
        y,
        plan.groups,
        plan.names,
        names,
        plan.places,
        present,
        Report(tuple(plan.matches), unlabeled, incomplete, lacking),
        plan.origins,
    )


def _stacked(parts):
    """The tables side by side; sparse if one is."""
    if len(parts) == 1:
        return parts[0]
    if any(map(sparse.issparse, parts)):
        return sparse.csr_array(sparse.hstack(parts, format="csr"))
    return np.hstack(parts)


def _empty_rows(part):
    """Rows of NaN only."""
    if not sparse.issparse(part):
        return np.isnan(part).all(axis=1)
    missing = sparse.csr_array((np.isnan(part.data), part.indices, part.indptr), shape=part.shape)
    return np.asarray(missing.sum(axis=1)).ravel() == part.shape[1]


# --- gene sets on the columns of tables -----------------------------------------------------------


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
