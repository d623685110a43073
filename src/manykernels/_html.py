"""Pieces of HTML, and what notebooks show of collections, banks and results.

Every text is escaped here, so that no name of a kernel or class can be more than a name.
"""

import html

from ._words import certified, count, number, seconds

MOST = 10  # lines of a table


class Markup(str):
    """HTML that was made here; every other string is text."""

    __slots__ = ()


def text(value) -> Markup:
    """HTML for any value: itself if it was made here, else escaped."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def element(tag: str, *parts, **attributes) -> Markup:
    """``<tag attributes>parts</tag>``; ``class_`` is written class, ``aria_label`` aria-label."""
    words = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for name, value in attributes.items()
    )
    return Markup(f"<{tag}{words}>{''.join(map(text, parts))}</{tag}>")


def table(head, rows, numeric_from: int = 1) -> Markup:
    """A table; the columns from `numeric_from` on hold numbers and are set flush right."""
    align = [{} if place < numeric_from else {"class_": "number"} for place in range(len(head))]
    heads = [element("th", word, scope="col", **how) for word, how in zip(head, align, strict=True)]
    lines = [
        element("tr", *[element("td", cell, **how) for cell, how in zip(row, align, strict=True)])
        for row in rows
    ]
    whole = element("table", element("thead", element("tr", *heads)), element("tbody", *lines))
    return element("div", whole, class_="scroll", tabindex="0")


def result_html(result) -> Markup:
    """Status, certificate and work of a result."""
    status = element("b", result.status.name.replace("_", " ").capitalize())
    work = [
        count(int((result.weights != 0).sum()), "weight") + " above zero",
        count(result.n_iter, "iteration"),
        count(result.counters.svm_solves, "SVM solve"),
        seconds(result.seconds),
    ]
    words = element("p", status, ": ", result.message, " ", certified(result))
    missing = [element("p", f"Missing views: {result.missing}.")] if result.missing else []
    subsets = [element("p", f"Proven: {result.subsets}.")] if result.subsets else []
    return element("div", words, element("p", " · ".join(work)), *missing, *subsets)


def collection_html(collection) -> Markup:
    """The first kernels of a collection, or the sizes of its groups."""
    head = element(
        "p", element("b", type(collection).__name__), f": {count(len(collection), 'kernel')}"
    )
    return element("div", head, _kernels(collection.names(), collection.groups))


def bank_html(bank) -> Markup:
    """Sizes, normalization and the first kernels of a bank."""
    rows = [
        ["kernels", f"{bank.m:,}"],
        ["training points", f"{bank.n:,}"],
        *([] if bank.symmetric else [["points as rows", f"{bank.n_rows:,}"]]),
        ["normalized by", bank.normalize],
        ["precision", bank.dtype],
        ["threads", number(bank.threads.count)],
    ]
    return element(
        "div",
        element("p", element("b", type(bank).__name__)),
        table(["", ""], rows),
        _kernels(bank.names, bank.groups),
    )


def _kernels(names, groups):
    """The first names; a million are never all asked for."""
    rows = [
        [k, names[k], groups[k] if groups[k] != names[k] else ""]
        for k in range(min(len(names), MOST))
    ]
    if len(names) > MOST:
        rows.append(["…", f"{len(names) - MOST:,} more", ""])
    if any(row[2] for row in rows):
        return table(["", "kernel", "group"], rows, numeric_from=3)
    return table(["", "kernel"], [row[:2] for row in rows], numeric_from=2)
