"""Gene sets in GMT text: a name, a description and genes on each line, with tabs between them."""

import os
from typing import IO, Literal

from ..readers.compressed import opened

EXCERPT = 40  # characters of a line that an error shows
COMPRESSED = (b"\x1f\x8b", b"BZh")  # how such files begin


def read_gmt(
    path: str | os.PathLike[str] | IO,
    *,
    duplicates: Literal["error", "merge", "rename"] = "error",
) -> dict[str, tuple[str, ...]]:
    """The gene sets of a GMT file, in its order.

    Descriptions are not kept. Blank lines, tabs at the end of a line, spaces around names, line
    ends of any system and a byte order mark are of no consequence; a gene that a set names twice
    is kept once.

    Parameters
    ----------
    path : path or file
        Names that end in ``.gz`` or ``.bz2`` are decompressed.
    duplicates : {"error", "merge", "rename"}
        What to do if two lines have the same name: refuse the file, take the genes of both, or call
        the second ``NAME (2)``.

    Returns
    -------
    dict from name to tuple of genes

    Raises
    ------
    ValueError
        Naming the line and what is wrong with it.
    """
    if duplicates not in ("error", "merge", "rename"):
        raise ValueError(
            f"duplicates={duplicates!r} is not known; use 'error', 'merge' or 'rename'."
        )
    where = "the file" if hasattr(path, "read") else os.fspath(path)
    sets: dict[str, tuple[str, ...]] = {}
    lines: dict[str, int] = {}
    for number, line in _lines(path, where):
        name, genes = _parsed(line, where, number)
        if name in sets and duplicates == "error":
            raise ValueError(
                f"{where}, line {number}: the set {name!r} is on line {lines[name]}, too; say "
                "duplicates='merge' or 'rename', or remove one."
            )
        if name in sets and duplicates == "merge":
            genes = sets[name] + genes
        elif name in sets:
            name = _free(name, sets)
        sets[name] = tuple(dict.fromkeys(genes))
        lines.setdefault(name, number)
    if not sets:
        raise ValueError(f"{where} holds no gene sets.")
    return sets


def _lines(path, where):
    """The numbers of the lines that are not blank, from 1, and their text."""
    with opened(path) as file:
        text = file.read()
    if isinstance(text, bytes):
        if text.startswith(COMPRESSED):
            raise ValueError(
                f"{where} is compressed, but its name does not end in .gz or .bz2: rename it."
            )
        text = _decoded(text, where)
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, line


def _decoded(content, where):
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        number = content[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{where}, line {number}: this is not UTF-8 text; got "
            f"{content[error.start : error.start + EXCERPT]!r}."
        ) from error


def _parsed(line, where, number):
    """The name and the genes of a line."""
    shown = repr(line[:EXCERPT]) + " …" * (len(line) > EXCERPT)
    name, *rest = (field.strip() for field in line.split("\t"))
    genes = tuple(gene for gene in rest[1:] if gene)
    if not rest:
        raise ValueError(
            f"{where}, line {number}: a set must be a name, a description and genes with tabs "
            f"between them, but there is no tab; got {shown}."
        )
    if not name:
        raise ValueError(f"{where}, line {number}: the set has no name; got {shown}.")
    if not genes:
        raise ValueError(
            f"{where}, line {number}: the set {name!r} has no genes (the second field is its "
            f"description); got {shown}."
        )
    return name, genes


def _free(name, taken):
    """The name with the first number that is not taken."""
    number = 2
    while f"{name} ({number})" in taken:
        number += 1
    return f"{name} ({number})"
