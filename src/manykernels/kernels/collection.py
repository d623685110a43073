"""A collection of kernels before it meets data."""

import copy
import numbers
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._html import collection_html
from .base import Kernel
from .callable import FunctionKernel
from .vector import RBF


class KernelCollection:
    """Many kernels, in order and with names; `manykernels.banks.make_bank` puts them on data.

    Parameters
    ----------
    kernels : iterable of kernels, or mapping from group name to a kernel or several
        Each is a `Kernel` or a function ``f(A, B)`` that returns a block of values.

    Attributes
    ----------
    kernels : sequence of Kernel
    groups : list of str
        The group of each kernel, empty for a kernel without one.
    """

    def __init__(self, kernels: "Kernels") -> None:
        self.kernels, self.groups = _listed(kernels)

    @classmethod
    def of(cls, kernels: "Kernels | KernelCollection") -> "KernelCollection":
        """The collection itself, or one of what `KernelCollection` takes."""
        return kernels if isinstance(kernels, KernelCollection) else KernelCollection(kernels)

    @classmethod
    def from_lists(cls, kernels: Sequence[Kernel], groups: Sequence[str]) -> "KernelCollection":
        """The collection of some kernels and the group of each.

        Parameters
        ----------
        kernels : sequence of Kernel
        groups : sequence of str
        """
        collection = KernelCollection(kernels)
        collection.groups = list(groups)
        return collection

    @classmethod
    def masked_rbf(cls, gammas: ArrayLike, masks: ArrayLike) -> "MaskedCollection":
        """Gaussian kernels on arbitrary feature subsets, stored as arrays: ``exp(-gammas[k] |x -
        y|^2 over masks[k])``.

        Parameters
        ----------
        gammas : array of shape (m,)
            Positive.
        masks : bool array of shape (m, n_features)
        """
        return MaskedCollection(gammas, masks)

    def __len__(self) -> int:
        return len(self.kernels)

    def __getitem__(self, k: int) -> Kernel:
        return self.kernels[k]

    def names(self, feature_names: Sequence[str] | None = None) -> Sequence[str]:
        """One readable name per kernel, ``group: kernel`` where groups were given."""
        prefixes = [f"{group}: " if group else "" for group in self.groups]
        return [
            prefix + kernel.name(feature_names)
            for prefix, kernel in zip(prefixes, self.kernels, strict=True)
        ]

    def for_columns(
        self, n_features: int, feature_names: Sequence[str] | None, categories: Iterable[int]
    ) -> "KernelCollection":
        """The kernels for a table with these columns, some of which hold categories; here, whatever
        they are.
        """
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} kernels)"

    def _repr_html_(self) -> str:
        return collection_html(self)


class MaskedCollection(KernelCollection):
    """Gaussian kernels on feature subsets as two arrays; ``collection[k]`` makes a kernel. Made by
    `KernelCollection.masked_rbf`.

    Parameters
    ----------
    gammas : array of shape (m,)
    masks : bool array of shape (m, n_features)
    """

    def __init__(self, gammas: ArrayLike, masks: ArrayLike) -> None:
        gammas = np.ascontiguousarray(gammas, dtype=float)
        masks = np.asarray(masks)
        if masks.ndim != 2 or gammas.shape != masks.shape[:1]:
            raise ValueError(
                f"masked_rbf needs gammas (m,) and masks (m, n_features), got {gammas.shape}, "
                f"{masks.shape}."
            )
        if gammas.size == 0:
            raise ValueError("The list of kernels is empty.")
        if not (np.isfinite(gammas).all() and (gammas > 0).all()):
            raise ValueError("masked_rbf needs finite gammas above zero.")
        if masks.dtype != bool:
            raise ValueError(f"masked_rbf needs boolean masks, got {masks.dtype}.")
        self.gammas = gammas
        self.n_features = masks.shape[1]
        self.packed = np.packbits(masks, axis=1)

    @property
    def groups(self) -> list[str]:
        return [""] * len(self)

    @property
    def kernels(self) -> Sequence[Kernel]:
        """The kernels, each made when it is asked for."""
        return _Kernels(self)

    def masks(self, chosen: slice | np.ndarray = slice(None)) -> np.ndarray:
        """The masks of the chosen kernels, as booleans."""
        return np.unpackbits(self.packed[chosen], axis=1, count=self.n_features).astype(bool)

    def check_columns(self, n_features: int) -> None:
        """Raise unless the masks are over so many columns."""
        if n_features != self.n_features:
            raise ValueError(
                f"The masks are over {self.n_features} features, but X has {n_features}."
            )

    def __len__(self) -> int:
        return self.gammas.size

    def __getitem__(self, k: int) -> RBF:
        if not isinstance(k, numbers.Integral):
            raise TypeError(f"A kernel is chosen by its number, got {k!r}.")
        k = range(len(self))[k]
        return RBF(
            gamma=float(self.gammas[k]),
            features=tuple(np.flatnonzero(self.masks(slice(k, k + 1))[0]).tolist()),
        )

    def take_kernels(self, kernels: Sequence[int] | np.ndarray) -> Self:
        """The collection of some of the kernels, by their numbers."""
        chosen = copy.copy(self)
        chosen.gammas, chosen.packed = self.gammas[kernels], self.packed[kernels]
        return chosen

    def names(self, feature_names: Sequence[str] | None = None) -> Sequence[str]:
        """One readable name per kernel, made when it is asked for: a million take a minute."""
        return _Names(self, feature_names)


class _Made(Sequence):
    """One thing per kernel of a collection, made when it is asked for."""

    def __init__(self, collection: KernelCollection) -> None:
        self._collection = collection

    @abstractmethod
    def _made(self, k: int) -> Any: ...

    def __len__(self) -> int:
        return len(self._collection)

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return [self[place] for place in range(len(self))[k]]
        return self._made(k)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]


class _Kernels(_Made):
    """The kernels themselves."""

    def _made(self, k: int) -> Kernel:
        return self._collection[k]

    def __repr__(self) -> str:
        return f"<{len(self)} kernels>"


class _Names(_Made):
    """Their names."""

    def __init__(self, collection: KernelCollection, feature_names: Sequence[str] | None) -> None:
        super().__init__(collection)
        self._feature_names = feature_names

    def _made(self, k: int) -> str:
        return self._collection[k].name(self._feature_names)

    def __repr__(self) -> str:
        return f"<names of {len(self)} kernels>"


Some = Kernel | Callable | Iterable[Kernel | Callable]
Kernels = KernelCollection | Some | Mapping[str, Some]


def _listed(kernels: Any) -> tuple[Any, Any]:
    """Flat lists of kernels and of their group names."""
    if isinstance(kernels, KernelCollection):
        return _several(kernels), list(kernels.groups)
    if isinstance(kernels, Mapping):
        pairs = [
            (kernel, str(group)) for group, some in kernels.items() for kernel in _several(some)
        ]
    else:
        pairs = [(kernel, "") for kernel in _several(kernels)]
    if not pairs:
        raise ValueError("The list of kernels is empty.")
    return [_as_kernel(kernel) for kernel, _ in pairs], [group for _, group in pairs]


def _several(kernels: Any) -> list[Any]:
    """A flat list of one kernel, or of several."""
    if isinstance(kernels, KernelCollection):
        return [kernels[k] for k in range(len(kernels))]
    if isinstance(kernels, Kernel | str) or callable(kernels):
        return [kernels]
    if isinstance(kernels, np.ndarray) and kernels.ndim == 2:
        _refuse_array(kernels)
    if not isinstance(kernels, Iterable) or isinstance(kernels, Iterator):
        raise TypeError(
            "kernels must be 'auto', a list of kernels, a mapping or a KernelCollection, got "
            f"{kernels!r}."
        )
    return list(kernels)


def _refuse_array(kernel: Any) -> None:
    if isinstance(kernel, np.ndarray):
        raise TypeError(
            f"A kernel must be a Kernel object, got an array of shape {kernel.shape}: write "
            "Precomputed(K) for a Gram matrix, and fit with the numbers of the rows as the only "
            "column, np.arange(len(K))[:, None]."
        )


def _as_kernel(kernel: Any) -> Kernel:
    if isinstance(kernel, Kernel):
        return kernel
    if callable(kernel) and not isinstance(kernel, type):
        return FunctionKernel(kernel)
    _refuse_array(kernel)
    names = (
        " Write RBF(gamma=0.5), Linear() or another class of manykernels.kernels; a name is taken "
        "in the place of all kernels only, as in kernels='rbf 1' or kernels='linear'."
    )
    raise TypeError(
        f"A kernel must be a Kernel object or a function of two blocks of rows, got {kernel!r}."
        f"{names if isinstance(kernel, str) else ''}"
    )
