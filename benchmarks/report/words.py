"""What the sections on papers share."""

NO_DATA = {
    **dict.fromkeys(("KDDCup04", "Real-Sim", "RCV1"), "no copy of the data set was found"),
    "covtype": "on a GPU: `gpu --part covertype`",
    "sonar, 10^6 kernels": "in the full size: `million`; on a GPU: `gpu --part sonar`",
}
GOAL = 1e-3


def heading(paper, what):
    return f"### {paper.short}, {what}\n"


def source(paper):
    return f"{paper.citation}. Figures of the paper: {paper.year}, {paper.machine}.\n"


def stopped(rows, column):
    """How many rows have a gap above the goal."""
    return sum(row[column] is not None and row[column] > GOAL for row in rows)
