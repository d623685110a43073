"""Every record of the full size that no section of its own shows: a new part of a benchmark needs
no line here.
"""

from .markdown import table

MOST = 40  # rows of a table in the page


def rest(found, shown):
    """Tables of all parts but those that were shown, by benchmark."""
    lines, before = [], None
    for name, records in found.records.items():
        done = [one for one in records if one.status == "done" and one.size == "full"]
        if name in shown or not done:
            continue
        if done[0].benchmark != before:
            before = done[0].benchmark
            lines.append(f"### {before}\n")
        for title, rows in found.tables(name).items():
            lines.append(f"{title}:\n\n" if title else "")
            lines.append(shortened(rows, done))
        lines.append(found.origin())
    return "\n".join(lines)


def shortened(rows, records):
    """A table, or where it is if it is long."""
    if len(rows) <= MOST:
        return table(rows)
    links = ", ".join(link(record) for record in records)
    return f"{len(rows)} rows, of which the first {MOST // 4} are here; all are in {links}.\n\n" + (
        table(rows[: MOST // 4])
    )


def link(record):
    return f"[{record.job}](results/{record.size}/{record.job}.md)"
