"""What predictions need of a fitted bank or feature map, as plain values, and the bank that these
make.

Only the support vectors are kept of the training points, or the landmarks. Scales and parameters
such as ``gamma="scale"`` are kept as they came out of all the training points, and never computed
from the support vectors.
"""

import numpy as np
from scipy import sparse

from .._files import CorruptFile
from .._threads import Threads, thread_count
from ..banks import (
    CombinationBank,
    DenseBank,
    MaskedBank,
    MissingBank,
    ResolvedKernels,
    TiledBank,
)
from ..banks.compute import Compute, Points
from ..banks.lowrank.product import ProductMap
from ..banks.missing import Part, Side
from ..banks.spec import MaskedSpec
from ..banks.views import RULES, Views
from ..banks.wrappers.centered import CenteredBank, Centering
from ..combinations import Combination
from ..kernels.collection import MaskedCollection
from ..kernels.vector import dense
from ..lowrank import FourierMap, LandmarkMap
from .specs import (
    check_spec,
    describe_points,
    describe_spec,
    normalization,
    rebuild_points,
    rebuild_spec,
)
from .values import (
    CannotSave,
    check_array,
    check_indices,
    check_list,
    check_number,
    check_whole,
    require,
)


def describe(bank, support):
    """A fitted bank as a dictionary, and the points of it that are kept.

    Parameters
    ----------
    bank : Bank or FeatureMap
    support : (s,) indices of the support vectors

    Returns
    -------
    dict, (kept,) indices
    """
    bank = bank.source if isinstance(bank, DenseBank) else bank
    # banks on a device are stored as those of the host that they are
    for kind in type(bank).__mro__:
        if kind.__name__ in BANKS:
            return BANKS[kind.__name__][0](bank, support)
    raise CannotSave(f"A model on {bank!r} cannot be stored: use pickle, joblib or skops.")


def rebuild(described, columns, n_jobs):
    """The bank or feature map of a description, for points with these columns."""
    kind = described.get("kind")
    if not isinstance(kind, str) or kind not in BANKS:
        raise CorruptFile(f"The file holds an unknown kind of bank, {str(kind)[:40]!r}.")
    return BANKS[kind][1](described, columns, Threads(thread_count(n_jobs)))


def categories(bank):
    """The entries that codes in the points of a bank or feature map stand for, by column."""
    inner = bank.bank if isinstance(bank, CenteredBank) else getattr(bank, "on_points", bank)
    return getattr(getattr(inner, "spec", None), "categories", {})


def typical_points(bank, n_features):
    """A few rows like those that a bank or feature map was fitted on: its first point, the one with
    the largest entry, and zeros.
    """
    if isinstance(bank, MissingBank):
        return np.concatenate([_typical_of_part(part, n_features) for part in bank.parts])
    inner = bank.bank if isinstance(bank, CenteredBank) else bank
    points = getattr(inner, "landmarks", None) if hasattr(inner, "landmarks") else None
    points = getattr(inner, "right", points)
    zeros = sparse.csr_array((1, n_features)) if sparse.issparse(points) else None
    zeros = np.zeros((1, n_features)) if zeros is None else zeros
    if points is None:  # of random frequencies
        return zeros
    rows = points[[0, _largest_row(points)]]
    stack = sparse.vstack if sparse.issparse(points) else np.concatenate
    return stack([rows, zeros])


def _largest_row(points):
    """The number of the row with the largest entry."""
    sizes = abs(points).max(axis=1)
    return int(np.argmax(sizes.toarray() if sparse.issparse(sizes) else sizes))


def _typical_of_part(part, n_features):
    """The same for the rows that have the views of a part; they lack the others."""
    points = typical_points(part.bank, part.columns.size)
    rows = np.full((points.shape[0], n_features), np.nan)
    rows[:, part.columns] = dense(points)
    return rows


def _describe_tiled(bank, support):
    return {
        "kind": "TiledBank",
        **describe_spec(bank.spec),
        "points": describe_points(bank.right[support]),
    }, support


def _rebuild_tiled(described, columns, threads):
    points = rebuild_points(described["points"], columns.size)
    spec = rebuild_spec(described, columns)
    check_spec(spec, points)
    return TiledBank(spec, Points.square(points), Compute(threads=threads))


def _describe_masked(bank, support):
    points = describe_points(bank.right[support])
    described = {
        "collection": bank.collection(),
        "normalize": bank.normalize,
        "scale": float(bank.scale),
        "points": points,
    }
    return {"kind": "MaskedBank", **described}, support


def _rebuild_masked(described, columns, threads):
    points = rebuild_points(described["points"], columns.size)
    spec = _rebuild_masked_spec(described, described["scale"], columns)
    return MaskedBank(spec, Points.square(points), Compute(threads=threads))


def _describe_centered(bank, support):
    """All training points are kept: the mean of a new point's kernel over them is needed."""
    everything = np.arange(bank.n)
    inner, _ = describe(bank.bank, everything)
    return {"kind": "CenteredBank", "bank": inner, **bank.centering._asdict()}, everything


def _rebuild_centered(described, columns, threads):
    inner = described["bank"]
    require(inner["kind"] in CENTERED, "There is no such bank of centered kernels.")
    bank = BANKS[inner["kind"]][1](inner, columns, threads)
    return _centered(bank, described)


def _centered(bank, described):
    """A bank centered by the means of a description."""
    shapes = (bank.n,), (bank.m, bank.n), (bank.m,), (bank.m,)
    arrays = [
        check_array(described[name], "Means of the centered kernels", shape)
        for name, shape in zip(Centering._fields, shapes, strict=True)
    ]
    return CenteredBank(bank, Centering(*arrays))


def _describe_missing(bank, support):
    """All training points are kept, as for centered kernels: a new point is compared with the mean
    of those that have a view.
    """
    parts = [_describe_part(part) for part in bank.parts]
    described = {**describe_spec(bank.spec), "rule": bank.views.rule, "parts": parts}
    return {"kind": "MissingBank", **described}, np.arange(bank.n)


def _describe_part(part):
    centered = isinstance(part.bank, CenteredBank)
    points = (part.bank.bank if centered else part.bank).right
    return {
        "kernels": part.kernels,
        "columns": part.columns,
        "size": part.cols.size,
        "means": part.cols.means,
        "norms": part.norms,
        "shares": part.shares,
        "points": describe_points(points),
        "centering": part.bank.centering._asdict() if centered else None,
    }


def _rebuild_missing(described, columns, threads):
    spec, rule = rebuild_spec(described, columns), described["rule"]
    require(isinstance(rule, str) and rule in RULES, "There is no such rule for missing views.")
    parts = [
        _rebuild_part(part, spec, columns, threads)
        for part in check_list(described["parts"], "The parts of the kernels")
    ]
    require(parts, "There are no parts of the kernels.")
    kernels = np.sort(np.concatenate([part.kernels for part in parts]))
    require(np.array_equal(kernels, np.arange(spec.m)), "The parts do not have all kernels.")
    counts = {part.cols.size.size for part in parts}
    require(len(counts) == 1, "The parts of the kernels are for other points.")
    return MissingBank(spec, Views.from_columns(spec.columns, spec.groups, *columns, rule), parts)


def _rebuild_part(described, spec, columns, threads):
    kernels = _ascending(described["kernels"], "The kernels of a part", spec.m)
    chosen = _ascending(described["columns"], "The columns of a part", columns.size)
    everything = np.arange(columns.size)
    for k in kernels:
        seen = everything if spec.columns[k] is None else spec.columns[k]
        require(np.isin(seen, chosen).all(), "A kernel of a part sees other columns.")
    size = check_array(described["size"], "The sizes of the points", (None,))
    require(size.min(initial=0.0) >= 0.0, "The sizes of the points should not be negative.")
    at = np.flatnonzero(size)
    points = rebuild_points(described["points"], chosen.size)
    require(points.shape[0] == at.size, "A part has other points.")
    some = spec.take_kernels(kernels).on_columns(chosen)
    check_spec(some, points)
    bank = TiledBank(some, Points.square(points), Compute(threads=threads))
    means = check_array(described["means"], "The means of kernels", (kernels.size, at.size))
    norms = check_array(described["norms"], "The means of kernels", (kernels.size,))
    shares = described["shares"]
    if shares is None:  # of points that have all views, and so need no means of new rows
        require(at.size == size.size and (size == 1.0).all(), "There are no shares of the points.")
    else:
        check_array(shares, "The shares of the points", (at.size,))
    if described["centering"] is not None:
        bank = _centered(bank, described["centering"])
    return Part(bank, kernels, chosen, Side(at, size, means), norms, shares)


def _ascending(value, what, below):
    """The value, if it is an array of some ascending indices below a number."""
    check_indices(value, what, below)
    require(value.size > 0 and (np.diff(value) > 0).all(), f"{what} should be ascending.")
    return value


def _describe_combination(bank, support):
    center = getattr(bank.combination, "_center", None)
    described = {
        "combination": bank.combination,
        "center": center,
        "points": describe_points(bank.right[support]),
    }
    return {"kind": "CombinationBank", **described}, support


def _rebuild_combination(described, columns, threads):
    combination, center = described["combination"], described["center"]
    require(isinstance(combination, Combination), "The combination of kernels is none.")
    check_whole(combination.starts, "The starts of the combination", 1)
    combination = combination.fit(rebuild_points(described["points"], columns.size))
    require(
        hasattr(combination, "_center") == (center is not None),
        "The combination has no center, or too many.",
    )
    if center is not None:  # the median of all training points, not of the support vectors
        combination._center = check_array(center, "The center", (columns.size,))
    return CombinationBank(combination, feature_names=columns.names, n_jobs=threads.count)


def _describe_landmarks(features, support):
    kernels = features.on_points
    kernels_of = (
        {"collection": kernels.collection()} if kernels.is_masked else describe_spec(kernels.spec)
    )
    described = {
        "normalize": kernels.normalize,
        "scales": kernels.scales,
        "dtype": features.dtype.name,
    }
    landmarks = {
        "landmarks": describe_points(features.landmarks),
        "projections": features.projections,
    }
    return {
        "kind": "LandmarkMap",
        **kernels_of,
        **described,
        **landmarks,
        "chosen": features.chosen,
    }, support


def _rebuild_landmarks(described, columns, threads):
    landmarks = rebuild_points(described["landmarks"], columns.size)
    if "collection" in described:
        scale = check_array(described["scales"], "The scales of the kernels", (None,)).item(0)
        spec = _rebuild_masked_spec(described, scale, columns)
    else:
        spec = rebuild_spec(described, columns)
        check_spec(spec, landmarks)
    chosen, count = described["chosen"], landmarks.shape[0]
    own = [count] * spec.m  # landmarks of each kernel
    if chosen is not None:
        check_list(chosen, "The landmarks of the kernels", spec.m)
        own = [check_indices(some, "The landmarks of a kernel", count).size for some in chosen]
    projections = check_list(described["projections"], "The projections", spec.m)
    for P, rows in zip(projections, own, strict=True):
        check_array(P, "The projection of a kernel", (rows, None))
    dtype = _float_type(described["dtype"])
    return LandmarkMap(ResolvedKernels(spec), landmarks, projections, dtype, chosen)


def _describe_fourier(features, support):
    described = {
        **describe_spec(features.on_points.spec),
        "n_features": features.n_features,
        "frequencies": features.frequencies,
    }
    return {"kind": "FourierMap", **described, "dtype": features.dtype.name}, support


def _rebuild_fourier(described, columns, threads):
    n_features = columns.size
    require(described["n_features"] == n_features, "The frequencies are for other columns.")
    spec = rebuild_spec(described, columns)
    check_spec(spec, np.empty((0, n_features)))
    frequencies = check_list(described["frequencies"], "The sets of frequencies", spec.m)
    for F, seen in zip(frequencies, spec.columns, strict=True):
        rows = n_features if seen is None else seen.size
        check_array(F, "The frequencies of a kernel", (rows, None))
        require(F.shape[1] > 0, "A kernel has no frequencies.")
    dtype = _float_type(described["dtype"])
    return FourierMap(ResolvedKernels(spec), frequencies, dtype, n_features)


def _describe_product(features, support):
    described = {name: getattr(features, name) for name in ("group", "center", "frequencies")}
    described |= {"names": list(features.names), "dtype": features.dtype.name}
    return {"kind": "ProductMap", **described}, support


def _rebuild_product(described, columns, threads):
    names = check_list(described["names"], "The names of the weights")
    require(all(isinstance(name, str) for name in names), "The names of the weights are none.")
    group = check_indices(described["group"], "The groups of columns", len(names), columns.size)
    center = check_array(described["center"], "The center", (columns.size,))
    frequencies = check_array(described["frequencies"], "The frequencies", (columns.size, None))
    require(frequencies.shape[1] > 0, "A product has no frequencies.")
    return ProductMap(names, group, center, frequencies, _float_type(described["dtype"]))


def _rebuild_masked_spec(described, scale, columns):
    collection = described["collection"]
    good = isinstance(collection, MaskedCollection) and collection.n_features == columns.size
    require(good, "The masks of the kernels do not suit the points.")
    require(0.0 < check_number(scale, "The scale") < np.inf, "The scale is out of range.")
    return MaskedSpec(collection, normalization(described), scale)


def _float_type(name):
    require(name in ("float32", "float64"), "Factors should be float32 or float64.")
    return name


BANKS = {
    "TiledBank": (_describe_tiled, _rebuild_tiled),
    "MaskedBank": (_describe_masked, _rebuild_masked),
    "CenteredBank": (_describe_centered, _rebuild_centered),
    "MissingBank": (_describe_missing, _rebuild_missing),
    "CombinationBank": (_describe_combination, _rebuild_combination),
    "LandmarkMap": (_describe_landmarks, _rebuild_landmarks),
    "FourierMap": (_describe_fourier, _rebuild_fourier),
    "ProductMap": (_describe_product, _rebuild_product),
}
CENTERED = ("TiledBank", "MaskedBank")  # what may be centered
