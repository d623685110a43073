"""Peers, and when learning weights pays."""

import numpy as np

from . import figures
from .markdown import cell, number, table
from .ranks import ranks

OURS = "ours, p = 1"
METHODS = ("uniform", "best single", "l1", "lp", "product", "SVC", "boosting")
LEARNED = ("l1", "lp")


def peers(found):
    rows = found.rows("compare-grams")
    text = "### The same kernels, points and C\n"
    text += (
        "Peers are given the Gram matrices, ours computes the kernels within its seconds. A gap "
        "is what `Problem.certificate` proves of somebody's weights in the problem of p = 1 or 2. "
        "Those who optimize something else (a mean, a margin distribution, ridge regression) are "
        "not wrong for having one.\n\n"
    )
    failed = [row for row in rows if row.get("failed")]
    text += table([row for row in rows if not row.get("failed")])
    if failed:
        text += "\nDid not run:\n\n" + table(failed, ["set", "who", "failed"])
    text += "\n**Where ours loses:**\n\n" + "\n".join(f"* {line}" for line in lost(rows)) + "\n"
    return text


def lost(rows):
    """Every line of the table in which somebody is faster or more often right than ours."""
    for name in dict.fromkeys(row["set"] for row in rows):
        own = {row["who"]: row for row in rows if row["set"] == name and not row.get("failed")}
        mine = {who: row for who, row in own.items() if who.startswith("ours")}
        best = max(row["accuracy %"] for row in mine.values())
        swift = min(row["seconds"] for row in mine.values())
        for who, row in own.items():
            if who in mine:
                continue
            what = []
            if row["seconds"] < swift:
                what.append(f"{swift / row['seconds']:.1f} times as fast as our faster one")
            if row["accuracy %"] > best + 1e-9:
                what.append(
                    f"{row['accuracy %'] - best:.1f} points more accurate than our better one"
                )
            if row["MB"] < min(one["MB"] for one in mine.values()):
                what.append("less memory")
            if what:
                yield f"{name}, {who}: {'; '.join(what)}"


def lasso(found):
    rows = found.rows("compare-lasso")
    text = "### Group lasso on the same random features\n"
    text += table(
        rows,
        [
            "set",
            "rows",
            "groups",
            "columns",
            "penalty",
            "who",
            "seconds",
            "MB",
            "groups used",
            "certified gap",
        ],
    )
    lines = [
        f"{theirs['set']}, penalty {theirs['penalty']:g}: {theirs['who']} is "
        f"{mine['seconds'] / theirs['seconds']:.1f} times as fast (certified gap "
        f"{cell(theirs['certified gap'])} against {cell(mine['certified gap'])})"
        for theirs, mine in as_precise(rows)
        if theirs["seconds"] < mine["seconds"]
    ]
    text += (
        "\nEach is compared with the quickest of ours whose certified gap is no larger, and with "
        "the most precise one if none is.\n"
    )
    text += "\n**Where ours loses:**\n\n" + "\n".join(f"* {line}" for line in lines or ["nowhere"])
    return text + "\n"


def as_precise(rows):
    """Pairs of a row of another package and one of ours for the same problem: the quickest whose
    gap is no larger, or the most precise.
    """
    problems = {}
    for row in rows:
        if "seconds" in row:
            problems.setdefault((row["set"], row["penalty"]), []).append(row)
    for some in problems.values():
        ours = [row for row in some if row["who"].startswith("ours")]
        for theirs in some:
            if ours and theirs not in ours:
                good = [row for row in ours if row["certified gap"] <= theirs["certified gap"]]
                precise = min(ours, key=lambda row: row["certified gap"])
                yield theirs, min(good, key=lambda row: row["seconds"], default=precise)


def scmkl(found):
    rows = found.rows("groups-scmkl")
    if not rows:
        return "### scMKL\nThere is no record of the benchmark `groups`, part `scmkl`.\n"
    columns = [
        "cells",
        "path",
        "seconds",
        "processor s",
        "times as fast",
        "MB",
        "of their memory",
        "best AUROC",
        "fewest groups with theirs",
        "largest gap",
    ]
    text = "### scMKL 0.5.1: paths of ten models on cells and gene sets\n" + table(rows, columns)
    lines = [
        f"{row['cells']} cells: best AUROC of {row['path']} {row['best AUROC']:.3f}, scMKL "
        f"{theirs['best AUROC']:.3f}"
        for row in rows
        for theirs in rows
        if theirs["path"] == "scMKL"
        and theirs["cells"] == row["cells"]
        and (row["best AUROC"] < theirs["best AUROC"] - 5e-4 or row["times as fast"] < 1.0)
    ]
    text += "\n**Where ours loses:**\n\n" + "\n".join(f"* {line}" for line in lines or ["nowhere"])
    return text + (
        "\n\nTorchKM runs on a GPU only: `python -m benchmarks gpu_lowrank --part peers` and "
        "`gpu_grids --part peers` on a machine that has one.\n"
    )


def pays(found):
    rows = found.rows("pays-nested")
    if not rows:
        return ""
    result = ranks(METHODS, [[row[name] for name in METHODS] for row in rows])
    shown = [
        {
            "set": row["set"],
            "rows": row["rows"],
            "columns": row["columns"],
            "kernels": row["kernels"],
        }
        | {name: 100 * row[name] for name in METHODS}
        for row in rows
    ]
    text = table(shown) + "\n" + table(summary(rows, result)) + "\n"
    if len(rows) > 3:
        text += figures.critical_difference("pays", result) + "\n"
    return text + verdict(rows, result) + "\n"


def summary(rows, result):
    lines = []
    for name, mean in sorted(zip(result.names, result.means, strict=True), key=lambda one: one[1]):
        scores = np.array([row[name] for row in rows])
        others = {rival: np.array([row[rival] for row in rows]) for rival in ("uniform", "SVC")}
        line = {"method": name, "mean accuracy %": 100 * scores.mean(), "mean rank": mean}
        for rival, theirs in others.items():
            if rival != name:
                wins, losses = np.sum(scores > theirs + 1e-9), np.sum(scores < theirs - 1e-9)
                line[f"wins : losses against {rival}"] = f"{wins} : {losses}"
        line["seconds in all"] = sum(row["seconds"][name] for row in rows)
        lines.append(line)
    return lines


def verdict(rows, result):
    """What the figures say, in words that are made of them."""
    means = dict(zip(result.names, result.means, strict=True))
    order = sorted(means, key=means.get)
    differ = [
        f"{better} and {worse}"
        for i, better in enumerate(order)
        for worse in order[i + 1 :]
        if means[worse] - means[better] > result.critical
    ]
    text = (
        f"Friedman's test over {result.count} sets: p = {number(result.p_value)}; Nemenyi's "
        f"critical difference of mean ranks at 5 %: {result.critical:.2f}. "
    )
    text += (
        f"Pairs that differ: {'; '.join(differ) or 'none'}; no others can be told apart by these "
        "data. "
    )
    text += f"The best mean rank has {order[0]} ({means[order[0]]:.2f}). "
    for name in LEARNED:
        gain = [100 * (row[name] - row["uniform"]) for row in rows]
        best, worst = int(np.argmax(gain)), int(np.argmin(gain))
        text += (
            f"Learned weights ({name}) against equal ones: {np.mean(gain):+.1f} points in the "
            f"mean, {gain[best]:+.1f} on {rows[best]['set']} at best, {gain[worst]:+.1f} on "
            f"{rows[worst]['set']} at worst. "
        )
    grouped = [row for row in rows if row["groups"]]
    if grouped:
        gain = np.mean([100 * (row["l1"] - row["uniform"]) for row in grouped])
        text += f"On the {len(grouped)} sets with views or gene sets, l1 has {gain:+.1f} points. "
    return text
