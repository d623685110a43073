"""Rows as Markdown."""

GIVEN = ("p", "C", "penalty", "share", "missing", "strength", "epsilon")


def table(rows, columns=None):
    """Rows (mappings) as a table; columns as given, or all that occur."""
    if not rows:
        return ""
    columns = columns or list(dict.fromkeys(key for row in rows for key in row))
    lines = [
        "| " + " | ".join(map(str, columns)) + " |",
        "|" + "|".join(["---", *["--:"] * (len(columns) - 1)]) + "|",
    ]
    for row in rows:
        cells = (cell(row.get(column, ""), is_given(column)) for column in columns)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def is_given(column):
    """Whether a column holds what somebody chose or printed, which is shown as it is."""
    return column.startswith("paper") or column in GIVEN


def cell(value, given=False):
    """A value for people: numbers to three digits, or as they are."""
    if value is None or value == "nan":
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.8g}" if given else number(value)
    if isinstance(value, list | dict):
        return str(value).replace("|", "/")
    return str(value).replace("|", "/").replace("\n", " ")


def number(value):
    """Three digits, without an exponent where it is easy to read without."""
    if value == 0.0:
        return "0"
    size = abs(value)
    if 1e-3 <= size < 1e5:
        digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
        return f"{value:,.{digits}f}"
    return f"{value:.1e}"


def pieces(rows, name=""):
    """The tables in what a part returned, each with its name: a list of rows, or tables by name."""
    if isinstance(rows, dict):
        if rows and all(not isinstance(value, list | dict) for value in rows.values()):
            yield name, [rows]
            return
        for key, value in rows.items():
            if isinstance(value, list | dict):
                yield from pieces(value, f"{name}, {key}" if name else key)
            else:
                yield f"{name}, {key}" if name else key, [{key: value}]
    elif isinstance(rows, list) and rows and isinstance(rows[0], dict):
        yield name, rows


def record_text(record):
    """A record as a page."""
    lines = [f"# {record.benchmark}, {record.part} ({record.size})", ""]
    lines += ["*Made by `python -m benchmarks.harness`; never edited.*", ""]
    if record.title:
        lines += [record.title, ""]
    if record.status != "done":
        lines += [f"**{record.status}**: {record.reason}", ""]
    for name, rows in pieces(record.rows):
        lines += [f"## {name}", ""] if name else []
        lines += [table(rows)]
    lines += [origin(record), ""]
    if record.constants:
        lines += ["Constants: " + ", ".join(f"{k} = {v}" for k, v in record.constants.items())]
    return "\n".join(lines) + "\n"


def origin(record):
    """Where figures come from."""
    machine, kept = record.machine, f" Kept: {record.kept}" if record.kept else ""
    return (
        f"{record.size} size, {record.seconds:.0f} s ({record.processor_seconds:.0f} s of the "
        f"processor), {record.peak_mb:.0f} MB at most, commit "
        f"{record.commit}, {record.date}, {machine.get('processor', '')}, "
        f"{machine.get('cores', '')} cores.{kept}"
    )
