"""Names for what the parameters of estimators may be."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..banks import Bank
from ..callbacks import Callback
from ..kernels import Kernel, KernelCollection
from ..result import Record
from .checkpoints import Checkpoint


class Named(Protocol):
    """An AnnData, or what has numbers and names as it has."""

    @property
    def X(self) -> Any: ...

    @property
    def obs_names(self) -> Any: ...

    @property
    def var_names(self) -> Any: ...


Points = ArrayLike | sparse.spmatrix | sparse.sparray | Sequence[str] | Named
Kernels = (
    Literal["auto", "whole"]
    | Kernel
    | Sequence[Kernel | Callable[..., ArrayLike]]
    | Mapping[str, Any]
    | KernelCollection
    | Bank
)
Normalization = Literal["diagonal", "trace", "cosine", "center"] | None
Missing = Literal["error", "mean", "scaled"]
RandomState = int | np.random.RandomState | None
CheckpointLike = str | os.PathLike[str] | Checkpoint | None
Callbacks = Sequence[Callback | Callable[[Record], Any]] | None
