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
from ..banks import CombinationBank, DenseBank, KernelsOnPoints, MaskedBank, TiledBank
from ..banks.centered import CenteredBank, Centering
from ..banks.compute import Compute, Points
from ..banks.spec import BankSpec, MaskedSpec
from ..kernels import Precomputed
from ..kernels.vector import dense
from ..lowrank import FourierMap, LandmarkMap
from .values import CannotSave


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


def rebuild(described, feature_names, n_jobs):
    """The bank or feature map of a description."""
    if described.get("kind") not in BANKS:
        raise CorruptFile(
            f"The file holds an unknown kind of bank, {str(described.get('kind'))[:40]!r}."
        )
    return BANKS[described["kind"]][1](described, feature_names, Threads(thread_count(n_jobs)))


def _describe_tiled(bank, support):
    return {
        "kind": "TiledBank",
        **_describe_spec(bank.spec),
        "points": _describe_points(bank.right[support]),
    }, support


def _rebuild_tiled(described, feature_names, threads):
    points = _rebuild_points(described["points"])
    spec = _rebuild_spec(described, points.shape[1], feature_names)
    return TiledBank(spec, Points.among(points), Compute(threads=threads))


def _describe_masked(bank, support):
    points = _describe_points(bank.right[support])
    described = {
        "collection": bank.collection(),
        "normalize": bank.normalize,
        "scale": float(bank.scale),
        "points": points,
    }
    return {"kind": "MaskedBank", **described}, support


def _rebuild_masked(described, feature_names, threads):
    points, collection = _rebuild_points(described["points"]), described["collection"]
    if points.shape[1] != collection.n_features:
        raise CorruptFile("The masks of the kernels do not suit the support vectors.")
    spec = MaskedSpec(collection, described["normalize"], described["scale"])
    return MaskedBank(spec, Points.among(points), Compute(threads=threads))


def _describe_centered(bank, support):
    """All training points are kept: the mean of a new point's kernel over them is needed."""
    everything = np.arange(bank.n)
    inner, _ = describe(bank.bank, everything)
    return {"kind": "CenteredBank", "bank": inner, **bank.centering._asdict()}, everything


def _rebuild_centered(described, feature_names, threads):
    bank = BANKS[described["bank"]["kind"]][1](described["bank"], feature_names, threads)
    arrays = Centering(**{name: described[name] for name in Centering._fields})
    if [np.shape(array) for array in arrays] != [(bank.n,), (bank.m, bank.n), (bank.m,), (bank.m,)]:
        raise CorruptFile("The means of the centered kernels do not have the right shapes.")
    return CenteredBank(bank, arrays)


def _describe_combination(bank, support):
    center = getattr(bank.combination, "_center", None)
    described = {
        "combination": bank.combination,
        "center": center,
        "points": _describe_points(bank.right[support]),
    }
    return {"kind": "CombinationBank", **described}, support


def _rebuild_combination(described, feature_names, threads):
    combination = described["combination"].fit(_rebuild_points(described["points"]))
    # the median of all training points, not of the support vectors
    if described["center"] is not None:
        combination._center = described["center"]
    return CombinationBank(combination, feature_names=feature_names, n_jobs=threads.count)


def _describe_landmarks(features, support):
    kernels = features.on_points
    kernels_of = (
        {"collection": kernels.collection()} if kernels.is_masked else _describe_spec(kernels.spec)
    )
    described = {
        "normalize": kernels.normalize,
        "scales": kernels.scales,
        "dtype": features.dtype.name,
    }
    landmarks = {
        "landmarks": _describe_points(features.landmarks),
        "projections": features.projections,
    }
    return {
        "kind": "LandmarkMap",
        **kernels_of,
        **described,
        **landmarks,
        "chosen": features.chosen,
    }, support


def _rebuild_landmarks(described, feature_names, threads):
    landmarks = _rebuild_points(described["landmarks"])
    if "collection" in described:
        scale = float(described["scales"][0])
        spec = MaskedSpec(described["collection"], described["normalize"], scale)
    else:
        spec = _rebuild_spec(described, landmarks.shape[1], feature_names)
    kernels = KernelsOnPoints(spec)
    projections, chosen = described["projections"], described["chosen"]
    if len(projections) != kernels.m or (chosen is not None and len(chosen) != kernels.m):
        raise CorruptFile("There is not one projection per kernel.")
    return LandmarkMap(kernels, landmarks, projections, described["dtype"], chosen)


def _describe_fourier(features, support):
    described = {
        **_describe_spec(features.on_points.spec),
        "n_features": features.n_features,
        "frequencies": features.frequencies,
    }
    return {"kind": "FourierMap", **described, "dtype": features.dtype.name}, support


def _rebuild_fourier(described, feature_names, threads):
    spec = _rebuild_spec(described, described["n_features"], feature_names)
    if len(described["frequencies"]) != spec.m:
        raise CorruptFile("There is not one set of frequencies per kernel.")
    kernels = KernelsOnPoints(spec)
    return FourierMap(
        kernels, described["frequencies"], described["dtype"], described["n_features"]
    )


def _describe_spec(spec):
    return {
        "kernels": spec.collection(),
        "normalize": spec.normalize,
        "scales": spec.scales,
        "categories": spec.categories,
    }


def _rebuild_spec(described, n_features, feature_names):
    collection, scales = described["kernels"], described["scales"]
    if np.shape(scales) != (len(collection),):
        raise CorruptFile("There is not one scale per kernel.")
    for kernel in collection.kernels:
        if not (isinstance(kernel, Precomputed) or kernel.needs_data):
            kernel.resolved(None, None)  # checks its parameters; all of them are numbers by now
    options = (described["normalize"], scales, n_features, feature_names, described["categories"])
    return BankSpec.from_resolved(collection, *options)


def _describe_points(points):
    if not sparse.issparse(points):
        return {"dense": dense(points)}
    points = sparse.csr_array(points)
    return {
        "data": points.data,
        "indices": points.indices,
        "indptr": points.indptr,
        "shape": list(points.shape),
    }


def _rebuild_points(described):
    if "dense" in described:
        points = described["dense"]
        if points.ndim != 2 or points.dtype.kind != "f":
            raise CorruptFile("The points of the model are not a table of numbers.")
        return points
    data, indices, indptr = (described[name] for name in ("data", "indices", "indptr"))
    points = sparse.csr_array((data, indices, indptr), shape=tuple(described["shape"]))
    points.check_format(full_check=True)
    return points


BANKS = {
    "TiledBank": (_describe_tiled, _rebuild_tiled),
    "MaskedBank": (_describe_masked, _rebuild_masked),
    "CenteredBank": (_describe_centered, _rebuild_centered),
    "CombinationBank": (_describe_combination, _rebuild_combination),
    "LandmarkMap": (_describe_landmarks, _rebuild_landmarks),
    "FourierMap": (_describe_fourier, _rebuild_fourier),
}
