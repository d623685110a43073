"""What the records say in a few sentences, losses first, each made of figures of the full size."""

from typing import NamedTuple

import numpy as np

from .ranks import ranks
from .rivals import METHODS, OURS, as_precise
from .words import GOAL


class Said(NamedTuple):
    """A sentence, and whether others win in any of the problems that it is about."""

    text: str
    others_win: bool


def short(found):
    """A list of what was found, and what could not be said for want of records."""
    others, ours, missing = [], [], []
    for part, sentence in SENTENCES:
        missing += found.lacking(part)
        if rows := found.full(part):
            said = sentence(rows)
            (others if said.others_win else ours).append(f"* {said.text} (`{part}`)\n")
    lines = ["**Where others win**\n\n", *others, "\n**Where ours wins**\n\n", *ours, "\n"]
    if missing:
        named = "; ".join(dict.fromkeys(missing))
        lines.append(f"**Not said here**, since there are no figures of the full size: {named}.\n")
    return "".join(lines)


def span(values, sign="times"):
    """Smallest and largest of some ratios."""
    low, high = min(values), max(values)
    return f"{low:.2f} to {high:.2f} {sign}" if len(values) > 1 else f"{low:.2f} {sign}"


def averaging(rows):
    newton = [row for row in rows if row["solver"] == "newton"]
    slower = [row for row in newton if row["ratio"] > 1.0]
    text = (
        "Computing the same kernels by scikit-learn, averaging them and training one SVC is faster "
        f"than learning their weights in {len(slower)} of {len(newton)} problems of the papers "
        "(hinge, C = 100, gap 1e-3; kernels are computed in both); learning takes "
        f"{np.median([row['ratio'] for row in newton]):.2f} times as long in the median, "
        f"{max(row['ratio'] for row in newton):.2f} times at worst."
    )
    return Said(text, bool(slower))


def grams(rows):
    rows, who = [row for row in rows if not row.get("failed")], {}
    sets = dict.fromkeys(row["set"] for row in rows)
    for name in sets:
        own = {row["who"]: row for row in rows if row["set"] == name}
        if OURS not in own:
            continue
        for peer, row in own.items():
            if not peer.startswith("ours"):
                faster, better = who.setdefault(peer, [0, 0])
                faster += row["seconds"] < own[OURS]["seconds"]
                better += row["accuracy %"] > own[OURS]["accuracy %"] + 1e-9
                who[peer] = [faster, better]
    said = ", ".join(
        f"{peer} is faster on {faster} and more accurate on {better}"
        for peer, (faster, better) in who.items()
    )
    text = f"With the same kernels and C = 10, on {len(sets)} sets beside ours with p = 1: {said}."
    return Said(text, any(map(any, who.values())))


def one_fit(rows):
    sizes = {}
    for row in rows:
        sizes.setdefault(_round(row["rows"]), []).append(row["p = 1 / SVC"])
    said = "; ".join(f"{size:,} rows {span(ratios)}" for size, ratios in sorted(sizes.items()))
    text = f"One fit at the defaults takes longer than `SVC()`, on 2 cores: {said} as long."
    return Said(text, True)


def _round(count):
    """To one digit, since a set may have a few rows less than were asked for."""
    return int(float(f"{count:.1g}")) if count >= 5000 else count


def grid_search(rows):
    slower = [row for row in rows if row["ratio"] > 1.0]
    text = (
        "A grid of 8 C, 4 p and 5 folds is slower than one of as many `SVC()` on "
        f"{len(slower)} of {len(rows)} sets: {span([row['ratio'] for row in rows])} as long."
    )
    return Said(text, bool(slower))


def accuracy(rows):
    said = []
    for ours, rivals in (
        ("MKL", ("SVC", "forest", "boosting", "logistic", "equal weights")),
        ("MKL tuned", ("SVC tuned",)),
    ):
        for rival in rivals:
            better = sum(row[rival] > row[ours] + 1e-9 for row in rows)
            worse = sum(row[rival] < row[ours] - 1e-9 for row in rows)
            said.append(f"{rival} beats {ours} on {better} sets and loses on {worse}")
    return Said(f"Accuracy at the defaults, {len(rows)} sets: " + "; ".join(said) + ".", True)


def nested(rows):
    result = ranks(METHODS, [[row[name] for name in METHODS] for row in rows])
    means = sorted(zip(result.means, result.names, strict=True))
    plain = sum(row["uniform"] > row["l1"] + 1e-9 for row in rows)
    boosting = sum(row["boosting"] > row["l1"] + 1e-9 for row in rows)
    text = (
        f"Everything tuned, {result.count} sets: equal weights are more accurate than p = 1 on "
        f"{plain}, boosting on {boosting}; mean ranks "
        + ", ".join(f"{name} {mean:.2f}" for mean, name in means)
        + f"; less than {result.critical:.2f} apart may be chance."
    )
    return Said(text, plain + boosting > 0)


def group_lasso(rows):
    said, wins = [], 0
    for who in ("celer", "skglm"):
        ratios = [
            mine["seconds"] / theirs["seconds"]
            for theirs, mine in as_precise(rows)
            if theirs["who"] == who
        ]
        if ratios:
            won = sum(ratio > 1.0 for ratio in ratios)
            wins += won
            said.append(
                f"{who} is faster in {won} of {len(ratios)} problems (ours takes {span(ratios)} as "
                "long)"
            )
    text = "Group lasso, to a certified gap no larger than theirs: " + ", ".join(said) + "."
    return Said(text, wins > 0)


def paths(rows):
    said, wins = [], 0
    for who in ("adelie", "celer", "skglm"):
        theirs = [row for row in rows if row["who"] == who]
        ratios = [row["ours to theirs"] for row in theirs if "failed" not in row]
        if ratios:
            won, none = sum(ratio > 1.0 for ratio in ratios), len(theirs) - len(ratios)
            wins += won
            said.append(
                f"{who} takes less processor time on {won} of {len(ratios)} tables (ours takes "
                f"{span(ratios)} as long)" + (f", and gives up on {none}" if none else "")
            )
    text = "Group lasso over a hundred penalties, gaps of 1e-3: " + ", ".join(said) + "."
    return Said(text, wins > 0)


def torchkm(rows):
    theirs = next(row for row in rows if "TorchKM" in row["grid"])
    quickest = min((row for row in rows if row is not theirs), key=lambda row: row["seconds"])
    text = (
        "A grid of 10 C and 5 folds on a9a, one Gaussian of low rank on a GPU: TorchKM takes "
        f"{theirs['seconds']:.1f} s to {theirs['accuracy']:.1f} %, ours at the quickest "
        f"{quickest['seconds']:.1f} s to {quickest['accuracy']:.1f} %."
    )
    faster = theirs["seconds"] < quickest["seconds"]
    return Said(text, faster or theirs["accuracy"] > quickest["accuracy"])


def torchkm_alone(rows):
    largest = max(row["n"] for row in rows)
    theirs, *ours = (row for row in rows if row["n"] == largest)
    text = (
        f"Rank {theirs['rank']} on {largest:,} points of Covertype, one fit on a GPU: TorchKM, one "
        f"Gaussian and two folds as well, takes {theirs['seconds']:.1f} s to "
        f"{theirs['accuracy']:.1f} %, ours "
        + " and ".join(
            f"{row['seconds']:.1f} s to {row['accuracy']:.1f} % (Gaussians: {row['kernels']})"
            for row in ours
        )
        + "."
    )
    faster = any(theirs["seconds"] < row["seconds"] for row in ours)
    return Said(text, faster or any(theirs["accuracy"] > row["accuracy"] for row in ours))


def scmkl(rows):
    said, wins = [], 0
    best = {row["cells"]: row["best AUROC"] for row in rows if row["path"] == "scMKL"}
    for path in dict.fromkeys(row["path"] for row in rows if row["path"] != "scMKL"):
        own = [row for row in rows if row["path"] == path]
        lower = sum(row["best AUROC"] < best[row["cells"]] - 5e-4 for row in own)
        wins += lower + sum(row["times as fast"] < 1.0 for row in own)
        said.append(
            f"{path.removeprefix('ours, ')} {span([1 / row['times as fast'] for row in own])} "
            f"its processor time, a lower AUROC in {lower} of {len(own)}"
        )
    text = "A path of ten models on cells and gene sets, beside scMKL's: " + "; ".join(said) + "."
    return Said(text, wins > 0)


def large_products(rows):
    cut = sum(row["ended"] == "interrupted" for row in rows)
    text = (
        f"Products of kernels on the papers' large sets, on 2 cores: {len(rows) - cut} of "
        f"{len(rows)} fits end within the limit on seconds; products have no certificate."
    )
    return Said(text, cut > 0)


def texts(rows):
    by_name = {row["model"]: row for row in rows}
    linear, model = by_name["LinearSVC"], by_name["MKL"]
    right, beside = (100 * row["accuracy"] for row in (model, linear))
    text = (
        f"Sparse texts of {linear['classes']} classes: the default model takes "
        f"{model['ratio']:.1f} times as long as `LinearSVC`, and tells {right:.1f} % of new texts "
        f"right, beside {beside:.1f} %."
    )
    return Said(text, model["ratio"] > 1.0 or linear["accuracy"] > model["accuracy"])


def papers_sums(rows):
    done = [row for row in rows if row["solver"] == "newton" and row["largest gap"] <= GOAL]
    every = [row for row in rows if row["solver"] == "newton"]
    spg = {(row["set"], row["p"]): row for row in rows if row["solver"] == "spg"}
    ratios = [row["seconds"] / spg[row["set"], row["p"]]["seconds"] for row in every]
    slower = sum(ratio > 1.0 for ratio in ratios)
    text = (
        f"The default solver certifies a gap of 1e-3 in {len(done)} of {len(every)} of the papers' "
        f"small problems, in {np.median(ratios):.2f} times the seconds of SPG-GMKL here in the "
        f"median; it is slower in {slower}, {max(ratios):.2f} times at worst."
    )
    return Said(text, False)


def large_sums(rows):
    text = (
        "Fifty exact Gaussians on the large sets, C = 1, gap 1e-2: "
        f"{span([row['ratio'] for row in rows])} the seconds of one SVC on the same rows ("
        + ", ".join(f"{row['set']}, p = {row['p']:g}: {row['seconds']:.1f} s" for row in rows)
        + ")."
    )
    return Said(text, any(row["ratio"] > 1.0 for row in rows))


def million(rows):
    largest = max(rows, key=lambda row: row["kernels"])
    text = (
        f"{largest['kernels']:,} Gaussians on 208 points, p = 1.33, C = 100: "
        f"{largest['seconds']:.0f} s to a gap of {largest['gap']:.1e} in {largest['mb']:.0f} MB "
        f"(paper: 105.62 hours in 2012)."
    )
    return Said(text, False)


SENTENCES = (
    ("small-folds", averaging),
    ("compare-grams", grams),
    ("fits-rows", one_fit),
    ("fits-grids", grid_search),
    ("fits-texts", texts),
    ("defaults-classes", accuracy),
    ("pays-nested", nested),
    ("compare-lasso", group_lasso),
    ("compare-path", paths),
    ("gpu_grids-peers", torchkm),
    ("gpu_lowrank-peers", torchkm_alone),
    ("groups-scmkl", scmkl),
    ("large-products", large_products),
    ("small-folds", papers_sums),
    ("large-large", large_sums),
    ("million-ball", million),
)
