"""Whether new rows are like earlier ones, as each kernel of a model sees them."""

from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from ...banks import MissingBank, ResolvedKernels
from ..data.frames import as_table, rows_of, through_narwhals


class KernelDrift(NamedTuple):
    """How much two sets of rows differ in the eyes of one kernel.

    Attributes
    ----------
    name : str
        Of the kernel.
    weight : float
        The largest that it has in any output.
    excess : float
        The squared distance between the means of the two sets in the kernel's feature space, beyond
        what it is on average if rows change sides at random, in standard deviations.
    p_value : float
        Share of these random divisions, and of the true one, that are at least as far apart.
    """

    name: str
    weight: float
    excess: float
    p_value: float


def kernel_drift(
    model: Any,
    reference: Any,
    X: Any,
    *,
    n_permutations: int = 199,
    max_rows: int = 500,
    random_state: Any = None,
) -> list[KernelDrift]:
    """Kernels of a fitted model for which new rows differ from earlier ones, most first.

    For every kernel that has weight, the two-sample test of Gretton et al. (JMLR 2012): the maximum
    mean discrepancy between the two sets, and how often random divisions of the same rows have a
    larger one. No targets are needed. If both sets come from one distribution, a p-value is below
    0.01 once in a hundred times; with m kernels, compare with 0.01 / m.

    Parameters
    ----------
    model : fitted MKLClassifier, MKLRegressor or MKLOneClass
        With exact kernels or an approximation; of a pipeline the last step, with rows as the steps
        before make them.
    reference : rows as the model takes them
        Of the time when all was well, such as rows that were held out from the training.
    X : rows of the same columns
        New ones.
    n_permutations : int
        Random divisions. The least p-value is one over their number and one.
    max_rows : int
        Rows of each set that are looked at, drawn at random from more.
    random_state : int or RandomState, optional

    Examples
    --------
    >>> import numpy as np
    >>> from manykernels import MKLClassifier, kernel_drift
    >>> X = np.random.default_rng(0).standard_normal((300, 3))
    >>> model = MKLClassifier().fit(X[:100], X[:100, 0] > 0)
    >>> kernel_drift(model, X[100:200], X[200:], random_state=0)[0].p_value > 0.01
    True
    >>> kernel_drift(model, X[100:200], X[200:] + 1.0, random_state=0)[0].p_value
    0.005
    """
    rng = check_random_state(random_state)
    reference, X = (_sample(as_table(rows), max_rows, rng) for rows in (reference, X))
    pooled, categories = model._read_new(_together(reference, X))
    weights = np.atleast_2d(model.kernel_weights_).max(axis=0)
    used = np.flatnonzero(weights)
    n, count = reference.shape[0], pooled.shape[0]
    signs = np.where(np.arange(count) < n, 1.0 / n, -1.0 / (count - n))
    divisions = np.stack([signs, *(rng.permutation(signs) for _ in range(n_permutations))])
    spec, found = _spec(model), []
    spec = spec.with_categories(categories) if categories else spec
    for k in used.tolist():
        kernel = ResolvedKernels(spec).take_kernels([k])
        gram = kernel.between(pooled, pooled).combine(np.ones(1))
        apart = ((divisions @ gram) * divisions).sum(axis=1)
        usual, spread = apart[1:].mean(), apart[1:].std()
        excess = (apart[0] - usual) / spread if spread > 0.0 else 0.0
        # equal but for rounding counts as equal
        p_value = np.mean(apart >= apart[0] - 1e-12 * np.abs(gram).max())
        found.append(KernelDrift(spec.names[k], float(weights[k]), float(excess), float(p_value)))
    return sorted(found, key=lambda one: (one.p_value, -one.excess))


def _sample(rows, most, rng):
    """At most so many rows."""
    count = rows.shape[0]
    return rows if count <= most else rows_of(rows, np.sort(rng.permutation(count)[:most]))


def _together(first, second):
    """Two tables of one kind as one, the rows of the first before those of the second."""
    if sparse.issparse(first):
        return sparse.vstack([first, second]).tocsr()
    frames = [through_narwhals(table) for table in (first, second)]
    if all(isinstance(frame, nw.DataFrame) for frame in frames):
        return nw.concat(frames).to_native()
    return np.concatenate([np.asarray(first), np.asarray(second)])


def _spec(model):
    """The kernels of a model, to be evaluated at any rows."""
    bank = model.bank_
    inner = getattr(bank, "on_points", getattr(bank, "bank", bank))
    spec = getattr(inner, "spec", None)
    if spec is None or isinstance(bank, MissingBank) or bank.needs_grams:
        raise ValueError(
            "Drift by kernel needs a sum of kernels of feature vectors, rows that lack nothing; "
            "there is none for missing='mean' or 'scaled', for precomputed kernels, and for "
            "combinations other than sums."
        )
    return spec
