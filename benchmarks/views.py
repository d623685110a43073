"""Groups of columns: real views, and simulated ones of which it is known which matter.

``real`` has the sets that are beside the checkout, ``simulated`` tables with groups of known
relevance. A group is a block of columns that depend on a few latent factors and noise, as genes
depend on pathways; labels depend on the first factor of some groups. The designs differ in the
number of groups, in how many columns each has, in the units of the columns, in whether labels
depend on the factors linearly, in how many groups matter, and in whether a group that does not is
correlated with one that does.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from .common import file_of

LATENT = 4  # factors of a group
STEEP = 3.0  # log-odds of a label for a factor of one and a strength of one


class Views(NamedTuple):
    """A table, its labels, its groups of columns, and how relevant each is where that is known."""

    name: str
    X: np.ndarray
    y: np.ndarray
    groups: dict[str, list[int]]
    relevance: np.ndarray | None = None


class Design(NamedTuple):
    """A simulated study.

    Attributes
    ----------
    sizes, strengths : columns of each group, and how much labels depend on it
    rows : int
    shape : {"linear", "square"}
        How labels depend on factors.
    units : {"equal", "unit interval", "mixed"}
        Of the columns.
    twins : pairs of groups
        The first follows the second.
    """

    sizes: tuple[int, ...]
    strengths: tuple[float, ...]
    rows: int = 300
    shape: str = "linear"
    units: str = "equal"
    twins: tuple[tuple[int, int], ...] = ()


DESIGNS = {
    "three omics": Design((200, 200, 200), (1.0, 0.6, 0.0), units="unit interval"),
    "small and large": Design((5, 20, 100, 400), (1.0, 0.0, 0.6, 0.0)),
    "large is noise": Design((10, 10, 500, 500), (1.0, 0.6, 0.0, 0.0)),
    "curved": Design((20, 20, 20, 20), (1.0, 0.6, 0.0, 0.0), shape="square"),
    "mixed units": Design((30, 30, 30, 30), (1.0, 0.6, 0.3, 0.0), units="mixed"),
    "correlated": Design((40, 40, 40, 40), (1.0, 0.6, 0.0, 0.0), twins=((2, 0),)),
    "many groups": Design((10,) * 20, (1.0, 0.8, 0.6, 0.4) + (0.0,) * 16),
    "few rows": Design((100, 100, 100), (1.0, 0.5, 0.0), rows=100),
    "all matter": Design((200, 200, 200), (1.0, 0.8, 0.6), units="unit interval"),
    "all matter, many": Design((30,) * 8, (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)),
    "all matter, curved": Design((20,) * 4, (1.0, 0.8, 0.6, 0.4), shape="square"),
}


def simulated(name, seed=0, rows=None):
    """A table of a design."""
    design, rng = DESIGNS[name], np.random.default_rng([seed, *name.encode()])
    n = rows or design.rows
    factors = rng.normal(size=(len(design.sizes), n, LATENT))
    for group, other in design.twins:
        factors[group] = 0.8 * factors[other] + 0.6 * factors[group]
    blocks = []
    for own, size in zip(factors, design.sizes, strict=True):
        block = own @ rng.normal(size=(LATENT, size)) / np.sqrt(LATENT)
        blocks.append(_in_units(block + rng.normal(size=(n, size)), design.units, rng))
    signal = factors[:, :, 0]
    if design.shape == "square":
        signal = (np.square(signal) - 1.0) / np.sqrt(2.0)
    score = STEEP * np.asarray(design.strengths) @ signal
    y = np.where(rng.random(n) < expit(score), 1, -1)
    named = {f"group {g}": block for g, block in enumerate(blocks)}
    return _joined(name, named, y)._replace(relevance=np.asarray(design.strengths))


def _in_units(block, units, rng):
    """Columns as a study may have measured them."""
    count = block.shape[1]
    if units == "unit interval":
        return expit(rng.normal(scale=2.0, size=count) + 0.7 * block)
    if units == "mixed":
        return block * 10.0 ** rng.uniform(-2.0, 2.0, count) + rng.normal(scale=10.0, size=count)
    return block


def real(rows):
    """The sets with views that are here, at most so many rows of each."""
    for read in (_digits, _tumors, _cells):
        for views in read():
            chosen = np.random.default_rng(0).permutation(len(views.y))[:rows]
            yield views._replace(X=views.X[chosen], y=views.y[chosen])


def _digits():
    if (data := _opened("mfeat")) is not None:
        blocks, digits = _blocks(data), data["y_multi"]
        yield _joined("mfeat even", blocks, np.where(data["y"] > 0, 1, -1))
        yield _joined("mfeat small", blocks, np.where(digits < 5, 1, -1))
        yield _joined("mfeat three or eight", blocks, np.where(np.isin(digits, (3, 8)), 1, -1))


def _tumors():
    if (data := _opened("tcga_breast")) is not None:
        for name, kind in (("Her2", 1), ("LumA", 2)):
            labels = np.where(data["y_multi"] == kind, 1, -1)
            yield _joined(f"tcga_breast {name}", _blocks(data), labels)


def _cells():
    for name in ("pbmc_dc_mono", "pbmc_t_rest"):
        if (data := _opened(name)) is not None:
            ends = zip(data["offsets"], data["offsets"][1:], strict=False)
            sets = [data["members"][first:last].tolist() for first, last in ends]
            groups = dict(zip(map(str, data["names"]), sets, strict=True))
            yield Views(name, data["X"].astype(float), np.where(data["y"] > 0, 1, -1), groups)


def _opened(name):
    path = file_of(name)
    return None if path is None else np.load(path)


def _blocks(data):
    return {str(view): np.asarray(data[f"X_{view}"], dtype=float) for view in data["views"]}


def _joined(name, blocks, y):
    """The table of some blocks of columns side by side."""
    ends = np.cumsum([block.shape[1] for block in blocks.values()]).tolist()
    pairs = zip([0, *ends], ends, strict=False)
    groups = {group: list(range(*pair)) for group, pair in zip(blocks, pairs, strict=True)}
    return Views(name, np.hstack(list(blocks.values())), y, groups)
