"""What the records say in a few lines, each made of figures."""

import numpy as np

from .ranks import ranks
from .rivals import METHODS, as_precise, lost
from .words import GOAL


def short(found):
    """A list of what was found."""
    lines = [*_solvers(found), *_peers(found), *_lasso(found), *_pays(found)]
    return "".join(f"* {line}\n" for line in lines)


def _solvers(found):
    rows = [row for row in found.rows("small-folds") if row["solver"] == "newton"]
    done = [row for row in rows if row["largest gap"] <= GOAL]
    if done:
        sets = len({row["set"] for row in rows})
        size = found.records["small-folds"].size
        yield (
            f"Small sets, the papers' bank (size: {size}, sets: {sets}, problems: {len(rows)}): "
            "Newton's method on the dual comes to a certified gap of 1e-3 within the limit on "
            f"seconds in {len(done)}, and takes there "
            f"{np.median([row['ratio'] for row in done]):.2f} times as long in the median as "
            "averaging the same kernels by scikit-learn and training one SVC, "
            f"{max(row['ratio'] for row in done):.2f} times at worst (`small`)."
        )


def _peers(found):
    rows = [row for row in found.rows("compare-grams") if not row.get("failed")]
    if rows:
        peers = [row for row in rows if not row["who"].startswith("ours")]
        faster = sum("times as fast" in line for line in lost(rows))
        better = sum("more accurate" in line for line in lost(rows))
        yield (
            f"Peers on the same kernels and C, {len(peers)} lines on "
            f"{len({row['set'] for row in rows})} sets: faster than ours in {faster}, more "
            f"accurate in {better}; each is listed below (`compare`)."
        )


def _lasso(found):
    pairs = list(as_precise(found.rows("compare-lasso")))
    for who in ("celer", "skglm"):
        times = [
            theirs["seconds"] / mine["seconds"] for theirs, mine in pairs if theirs["who"] == who
        ]
        if times:
            yield (
                f"Group lasso, to a certified gap no larger than that of {who}: ours takes "
                f"{1 / np.median(times):.2f} times as long in the median of {len(times)} problems, "
                f"{1 / max(times):.2f} to {1 / min(times):.2f} times (`compare`)."
            )


def _pays(found):
    rows = found.rows("pays-nested")
    if rows:
        result = ranks(METHODS, [[row[name] for name in METHODS] for row in rows])
        means = sorted(zip(result.means, result.names, strict=True))
        said = ", ".join(f"{name} {mean:.2f}" for mean, name in means)
        yield (
            f"Mean ranks of tuned methods over {result.count} sets: {said}; less than "
            f"{result.critical:.2f} apart may be chance (`pays`)."
        )
