"""The tables of an AnnData or a MuData, each with the rows and columns that it has; read when the
columns are known that are needed.
"""

import contextlib
import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse

from .._files import CorruptFile
from ..estimators.data.frames import in_memory, unique_names
from .report import some

ENTRIES = 2**24  # of a table in a file that are looked at at a time
MAIN = "X"  # what stands for the table itself among its layers


class Source(NamedTuple):
    """Where a table is: its view's name, the modality (empty in an AnnData), what it is and its
    key.
    """

    view: str
    modality: str
    kind: Literal["layers", "obsm"]
    key: str


@dataclass(frozen=True)
class Block:
    """A table: X, a layer, or an entry of obsm.

    Attributes
    ----------
    source : Source
    matrix : array, sparse matrix, data frame or a dataset in a file
    names : (d,) array of str
        Of its columns.
    variables : AnnData or None
        Whose ``var`` describes the columns; None for obsm.
    rows : (n,) int
        The row of each sample, -1 where it has none.
    """

    source: Source
    matrix: Any
    names: np.ndarray
    variables: Any
    rows: np.ndarray

    def genes(self, column):
        """What the columns are called in gene sets, empty where they have no such name."""
        if column is None:
            return self.names
        var = self.variables.var
        if column not in var:
            raise ValueError(
                f"gene_names={column!r} is no column of var{_of(self.source.modality)}; there is "
                f"{some(var.columns) or 'none'}."
            )
        missing = var[column].isna().to_numpy()
        named = ["" if gone else str(name) for name, gone in zip(var[column], missing, strict=True)]
        return np.array(named, dtype=object)

    def read(self, columns, samples):
        """Some columns of some samples, in memory: NaN where there is no row. Sparse stays so."""
        rows = self.rows[samples]
        table = _floats(_columns(self.matrix, columns, self.source.view), self.source.view)
        if np.array_equal(rows, np.arange(table.shape[0])):
            return table
        there = rows >= 0
        if there.all():
            return table[rows]
        # those without a row last, and then everybody in place
        absent = np.full((np.count_nonzero(~there), columns.size), np.nan, dtype=table.dtype)
        stack = sparse.vstack if sparse.issparse(table) else np.vstack
        absent = sparse.csr_array(absent) if sparse.issparse(table) else absent
        both = stack([table[rows[there]], absent])
        both = sparse.csr_array(both) if sparse.issparse(table) else both
        place = np.empty(rows.size, dtype=np.intp)
        place[np.concatenate([np.flatnonzero(there), np.flatnonzero(~there)])] = np.arange(
            rows.size
        )
        return both[place]


@contextlib.contextmanager
def opened_data(data):
    """An AnnData or MuData, from its file if a path was given."""
    if not isinstance(data, (str, os.PathLike)):
        yield _checked(data)
        return
    path = os.fspath(data)
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no file {path}.")
    ending = os.path.splitext(path)[1].lower()
    if ending not in (".h5ad", ".h5mu"):
        raise ValueError(
            f"{path}: files that end in {ending or 'nothing'} are not known; use .h5ad or .h5mu, "
            "or open it and give the object."
        )
    read = _h5ad_reader(path) if ending == ".h5ad" else _h5mu_reader(path)
    with _reading(path):
        found = read(path, backed="r")
    try:
        yield found
    except CorruptFile:
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    finally:
        found.file.close()


def _h5ad_reader(path):
    try:
        from anndata import read_h5ad
    except ImportError as error:
        raise _needs("anndata", path) from error
    return read_h5ad


def _h5mu_reader(path):
    try:
        from mudata import read_h5mu
    except ImportError as error:
        raise _needs("mudata", path) from error
    return read_h5mu


def _needs(package, path):
    return ImportError(f"Reading {path} needs {package}: install it, or manykernels[omics].")


@contextlib.contextmanager
def _reading(path):
    """A context in which a file is read: whatever h5py, anndata or mudata make of its damage, the
    error names the file.
    """
    try:
        yield
    except PermissionError:
        raise
    except MemoryError as error:
        raise OSError(
            errno.ENOMEM,
            f"it needs more memory than there is, or the sizes in it are damaged ({error}): name "
            "fewer columns, or write it again",
            path,
        ) from error
    except Exception as error:
        raise CorruptFile(
            f"{path} could not be read: it is damaged, cut short, or not what its name says "
            f"({type(error).__name__}: {error}). Write it again with anndata or mudata, or copy it "
            "again."
        ) from error


def _checked(data):
    if is_several(data) or all(hasattr(data, name) for name in ("obs", "var", "obsm", "layers")):
        return data
    raise TypeError(
        f"data must be an AnnData, a MuData or the path of a file of one, got {type(data).__name__}"
        "; other tables go to estimators and on_groups as they are."
    )


def is_several(data):
    """Whether data is a MuData."""
    return hasattr(data, "mod") and hasattr(data, "obs_names")


def sources_of(data, layers, obsm, modalities):
    """The tables that are asked for; see `views`."""
    if is_several(data):
        sources = _sources_of_several(data, layers, obsm, modalities)
    else:
        if modalities is not None:
            raise ValueError(f"modalities={modalities!r} are for a MuData, and this is an AnnData.")
        for name, chosen in (("layers", layers), ("obsm", obsm)):
            if isinstance(chosen, Mapping):
                raise ValueError(f"{name} by modality is for a MuData, and this is an AnnData.")
        sources = _sources("", listed(layers, (MAIN,)), listed(obsm, ()))
    if not sources:
        raise ValueError("No table was asked for: name layers ('X' for X itself), or obsm.")
    names = [source.view for source in sources]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"Several tables would be called {some(map(repr, sorted(twice)))}.")
    return sources


def _sources_of_several(data, layers, obsm, modalities):
    chosen = listed(modalities, data.mod)
    unknown = [name for name in chosen if name not in data.mod]
    for given in (layers, obsm):
        if isinstance(given, Mapping):
            unknown += [name for name in given if name not in chosen]
    if unknown:
        raise ValueError(
            f"There is no modality {some(map(repr, unknown))} among those chosen; the MuData has "
            f"{some(data.mod)}."
        )
    sources = []
    for name in chosen:
        kept = layers.get(name) if isinstance(layers, Mapping) else layers
        own = obsm.get(name) if isinstance(obsm, Mapping) else None
        sources += _sources(name, listed(kept, (MAIN,)), listed(own, ()))
    return sources + _sources("", (), () if isinstance(obsm, Mapping) else listed(obsm, ()))


def _sources(modality, layers, obsm):
    return [
        Source(
            modality if modality and key == MAIN and kind == "layers" else _joined(modality, key),
            modality,
            kind,
            key,
        )
        for kind, keys in (("layers", layers), ("obsm", obsm))
        for key in keys
    ]


def block_of(data, source):
    """A table of an AnnData or MuData."""
    several = is_several(data)
    if several and getattr(data, "axis", 0) == 1:
        raise ValueError(
            "This MuData shares variables (axis=1); views need one that shares samples."
        )
    if source.modality and (not several or source.modality not in data.mod):
        there = some(data.mod) if several else "none: it is an AnnData"
        raise ValueError(f"There is no modality {source.modality!r}; there is {there}.")
    if several and not source.modality and source.kind == "layers":
        raise ValueError(f"{source.view!r} is a table of an AnnData, and this is a MuData.")
    part = data.mod[source.modality] if source.modality else data
    rows = _aligned(data, part, source.modality) if source.modality else np.arange(data.n_obs)
    return (_table if source.kind == "layers" else _embedding)(part, source, rows)


def absent_block(data, source, names):
    """The table of a modality that a MuData lacks, so that every sample does."""
    nothing = np.empty((0, len(names)))
    return Block(source, nothing, np.array(names, dtype=object), None, np.full(data.n_obs, -1))


def _aligned(data, part, name):
    """The row of each sample in a modality, -1 where it is not there."""
    unique_names(part.obs_names, "obs_names")
    strange = part.obs_names[data.obs_names.get_indexer(part.obs_names) < 0]
    if len(strange):
        raise ValueError(
            f"Modality {name!r} has {len(strange)} samples that the MuData does not know "
            f"({some(strange)}): call its update() first."
        )
    return part.obs_names.get_indexer(data.obs_names)


def _table(part, source, rows):
    names = unique_names(part.var_names, "var_names")
    path = getattr(getattr(part, "file", None), "filename", None)
    if source.key == MAIN:
        with contextlib.nullcontext() if path is None else _reading(path):
            matrix = part.X
    elif source.key in part.layers:
        matrix = part.layers[source.key]
    else:
        others = [name for name in part.layers if name is not None]  # None is X itself
        raise ValueError(
            f"There is no layer {source.key!r}{_of(source.modality)}; there is "
            f"{some([MAIN, *others])}."
        )
    if matrix is None:
        raise ValueError(f"X is empty{_of(source.modality)}: choose layers or obsm.")
    return Block(source, matrix, names, part, rows)


def _embedding(part, source, rows):
    if source.key not in part.obsm:
        raise ValueError(
            f"There is no obsm {source.key!r}{_of(source.modality)}; there is "
            f"{some(part.obsm.keys()) or 'none'}."
        )
    matrix = part.obsm[source.key]
    matrix = matrix if len(matrix.shape) == 2 else np.asarray(matrix)[:, None]
    names = matrix.columns if hasattr(matrix, "columns") else range(matrix.shape[1])
    names = unique_names(names, f"The columns of obsm {source.key!r}")
    return Block(source, matrix, names, None, rows)


def _columns(matrix, columns, view):
    """Some columns of a table in memory, all rows of it."""
    if hasattr(matrix, "columns"):
        wrong = [str(n) for n, kind in matrix.dtypes.items() if kind.kind not in "fiub"]
        if wrong:
            raise ValueError(f"{view!r} must hold numbers, but the columns {some(wrong)} do not.")
        matrix = matrix.to_numpy(dtype=float, na_value=np.nan)
    path = _file_of(matrix)
    if path is None:
        table = in_memory(matrix)
        return table if columns.size == matrix.shape[1] else table[:, columns]
    with _reading(path):
        return _columns_of_file(matrix, columns)


def _file_of(matrix):
    """The path of the file that a matrix lies in; None for one in memory."""
    dataset = getattr(matrix, "group", matrix)  # anndata's sparse matrices are groups of h5py
    return dataset.file.filename if type(dataset).__module__.split(".")[0] == "h5py" else None


def _columns_of_file(matrix, columns):
    everything = columns.size == matrix.shape[1]
    if everything or getattr(matrix, "format", "csr") != "csr":
        table = _sound(in_memory(matrix))
        return table if everything else table[:, columns]
    step = max(1, ENTRIES // matrix.shape[1])
    parts = [
        _sound(in_memory(matrix[start : start + step]))[:, columns]
        for start in range(0, matrix.shape[0], step)
    ]
    return sparse.csr_array(sparse.vstack(parts)) if sparse.issparse(parts[0]) else np.vstack(parts)


def _sound(table):
    """A table of a file; raise if the indices of a sparse one lead out of it, which is not looked
    at again.
    """
    if sparse.issparse(table):
        table.check_format(full_check=True)
    return table


def _floats(table, view):
    if table.dtype.kind not in "fiub":
        raise ValueError(f"{view!r} must hold numbers, got {table.dtype}.")
    return table if table.dtype in (np.float64, np.float32) else table.astype(np.float64)


def listed(chosen, default):
    """A name or several as a list."""
    if chosen is None:
        return list(default)
    return [chosen] if isinstance(chosen, str) else list(chosen)


def _joined(*names):
    return ":".join(name for name in names if name)


def _of(modality):
    return f" of modality {modality!r}" if modality else ""
