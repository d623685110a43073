"""The figures that the README quotes, each computed from a record of the full size."""

from .markdown import number, table
from .short import span


def fits(rows, p):
    sizes = {}
    for row in rows:
        sizes.setdefault(row["rows"], []).append(row[f"{p} / SVC"])
    return "; ".join(f"{size:,} rows: {span(ratios)}" for size, ratios in sorted(sizes.items()))


def by(column, **wanted):
    """A function of rows: the values of a column, of rows that have some others."""

    def values(rows):
        return [row[column] for row in rows if all(row[k] == v for k, v in wanted.items())]

    return values


def several(template, *columns, **wanted):
    """A function of rows: some columns in a sentence, for each row that has given values."""

    def said(rows):
        chosen = [row for row in rows if all(row[k] == v for k, v in wanted.items())]
        return "; ".join(template.format(*(shown(row[c]) for c in columns)) for row in chosen)

    return said


def shown(value):
    return number(value) if isinstance(value, float) else str(value)


def spanned(column, sign, **wanted):
    """A function of rows: the range of a column."""
    values = by(column, **wanted)
    return lambda rows: span(values(rows), sign)


LATENCY = {"model": "default", "rows": 1}
FIGURES = (  # what, part, what to say of its rows
    ("`MKLClassifier()` beside `SVC()`", "fits-rows", lambda rows: fits(rows, "p = 1")),
    ("the same, p = 2", "fits-rows", lambda rows: fits(rows, "p = 2")),
    ("a grid beside one of as many `SVC()`", "fits-grids", spanned("ratio", "times")),
    (
        "`MKLClassifierCV()` beside a grid of 40 `SVC()`",
        "fits-searches",
        several("{} ({} rows): {} times", "set", "rows", "ratio"),
    ),
    ("one row, beside SVC", "serving-latency", several("{} times", "ratio", **LATENCY)),
    (
        "10,000 rows, beside SVC",
        "serving-many",
        several("{} s, SVC {} s", "s", "SVC s", model="default"),
    ),
    ("a new process", "serving-start", several("{}: {} s", "what", "s", **{"loops on disk": True})),
    (
        "fifty Gaussians on a9a, p = 1.33, gap 1e-2",
        "large-large",
        several("{} s, gap {}, one SVC {} s", "seconds", "gap", "SVC", set="a9a", p=1.33),
    ),
    (
        "rank 500 on all of Covertype, C = 10",
        "lowrank-corners",
        several("p = {}: {} s, gap {}, {} MB", "p", "seconds", "gap", "mb"),
    ),
    ("products, large sets, one GPU", "large-products_on_gpu", spanned("seconds", "s")),
    (
        "products by random features, Covertype, squared hinge, one GPU",
        "products-covertype",
        several("{} columns: {} s, {} %", "columns", "seconds", "accuracy", by="product"),
    ),
    *(
        (
            f"a million Gaussians, C = 100, p = {p}",
            f"million-{part}",
            several("{} s, gap {}, {} MB", "seconds", "gap", "mb", kernels=10**6),
        )
        for part, p in (("ball", "1.33"), ("simplex", "1"))
    ),
    (
        "exact Gaussians on all of Covertype, C = 10, one GPU",
        "gpu-covertype",
        several("gamma {}, p = {}, gap {}: {} s", "gamma", "p", "gap", "seconds", tol=1e-3),
    ),
    (
        "a path of ten C, beside scMKL's",
        "groups-scmkl",
        several("{} cells, {}: {} times as fast", "cells", "path", "times as fast"),
    ),
    (
        "a pass over kernels on Dask, two workers",
        "dask-passes",
        several(
            "{} parts: scheduling {} ms, transfer {} ms, work {} ms",
            *("parts", "scheduling ms", "transfer ms", "core ms"),
            workers=2,
        ),
    ),
)


def figures(found):
    """What can be quoted, and by which records; what has no record of the full size is left out."""
    rows = []
    for what, part, said in FIGURES:
        if mine := found.full(part) or found.full(part, "rows"):
            rows.append({"what": what, "figure": said(mine), "record": part})
    return table(rows)
