"""Groups of columns: real views, and simulated ones of which it is known which matter.

``real`` has the sets that are beside the checkout, ``simulated`` tables with groups of known
relevance. A group is a block of columns that depend on a few latent factors and noise, as genes
depend on pathways; the label depends on the latent factors of some groups. The designs differ in
the number of groups, in how many columns each has, in how its columns are scaled, in whether the
label depends on the factors linearly, and in whether an irrelevant group is correlated with a
relevant one.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from .common import DATA

LATENT = 4  # factors of a group


class Views(NamedTuple):
    """A table, its labels, its groups of columns, and how relevant each is where that is known."""

    name: str
    X: np.ndarray
    y: np.ndarray
    groups: dict[str, list[int]]
    relevance: np.ndarray | None = None


class Design(NamedTuple):
    """A simulated study: columns and strength of every group, and what is special about it."""

    sizes: tuple[int, ...]
    strengths: tuple[float, ...]
    rows: int = 300
    shape: str = "linear"  # how labels depend on factors: linear, square
    units: str = "equal"  # of columns: equal, unit interval, mixed
    twins: tuple[tuple[int, int], ...] = ()  # irrelevant groups that follow relevant ones


DESIGNS = {
    "three omics": Design((200, 200, 200), (1.0, 0.6, 0.0), units="unit interval"),
    "small and large": Design((5, 20, 100, 400), (1.0, 0.0, 0.6, 0.0)),
    "large is noise": Design((10, 10, 500, 500), (1.0, 0.6, 0.0, 0.0)),
    "curved": Design((20, 20, 20, 20), (1.0, 0.6, 0.0, 0.0), shape="square"),
    "mixed units": Design((30, 30, 30, 30), (1.0, 0.6, 0.3, 0.0), units="mixed"),
    "correlated": Design((40, 40, 40, 40), (1.0, 0.6, 0.0, 0.0), twins=((2, 0),)),
    "many groups": Design((10,) * 20, (1.0, 0.8, 0.6, 0.4) + (0.0,) * 16),
    "few rows": Design((100, 100, 100), (1.0, 0.5, 0.0), rows=100),
}


def simulated(name, seed=0, rows=None):
    """A table of a design."""
    design, rng = DESIGNS[name], np.random.default_rng([seed, *name.encode()])
    n = rows or design.rows
    factors = rng.normal(size=(len(design.sizes), n, LATENT))
    for group, other in design.twins:
        factors[group] = 0.8 * factors[other] + 0.6 * factors[group]
    blocks, groups, first = [], {}, 0
    for g, size in enumerate(design.sizes):
        block = factors[g] @ rng.normal(size=(LATENT, size)) / np.sqrt(LATENT)
        block += rng.normal(size=(n, size))
        blocks.append(_in_units(block, design.units, rng))
        groups[f"group {g}"] = list(range(first, first + size))
        first += size
    signal = factors[:, :, 0]
    if design.shape == "square":
        signal = (np.square(signal) - 1.0) / np.sqrt(2.0)
    score = 3.0 * np.asarray(design.strengths) @ signal
    y = np.where(rng.random(n) < expit(score), 1, -1)
    return Views(name, np.hstack(blocks), y, groups, np.asarray(design.strengths))


def _in_units(block, units, rng):
    if units == "unit interval":
        return expit(rng.normal(scale=2.0, size=block.shape[1]) + 0.7 * block)
    if units == "mixed":
        return block * 10.0 ** rng.uniform(-2.0, 2.0, block.shape[1]) + rng.normal(
            scale=10.0, size=block.shape[1]
        )
    return block


def real(rows=None):
    """The sets with views that are here."""
    for name, labels in (("mfeat", "even"), ("mfeat", "small"), ("tcga_breast", "LumA")):
        path = DATA / f"{name}.npz"
        if path.exists():
            data = np.load(path)
            y = data["y_multi"] < 5 if labels == "small" else data["y"] > 0
            yield _sampled(_joined(f"{name} {labels}", data, np.where(y, 1, -1)), rows)
    for name in ("pbmc_dc_mono", "pbmc_t_rest"):
        path = DATA / f"{name}.npz"
        if path.exists():
            data = np.load(path)
            ends = zip(data["offsets"], data["offsets"][1:], strict=False)
            sets = [data["members"][first:last].tolist() for first, last in ends]
            groups = dict(zip(map(str, data["names"]), sets, strict=True))
            y = np.where(data["y"] > 0, 1, -1)
            yield _sampled(Views(name, data["X"].astype(float), y, groups), rows)


def _joined(name, data, y):
    groups, first, blocks = {}, 0, []
    for view in map(str, data["views"]):
        block = np.asarray(data[f"X_{view}"], dtype=float)
        groups[view] = list(range(first, first + block.shape[1]))
        first += block.shape[1]
        blocks.append(block)
    return Views(name, np.hstack(blocks), y, groups)


def _sampled(views, rows):
    if rows is None or rows >= len(views.y):
        return views
    chosen = np.random.default_rng(0).permutation(len(views.y))[:rows]
    return views._replace(X=views.X[chosen], y=views.y[chosen])
