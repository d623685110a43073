"""What a fitted estimator is, apart from the parameters of its constructor: what files keep."""

from typing import Any, NamedTuple

from ..banks import KernelHolder
from ..result import Result


class ModelState(NamedTuple):
    """Plain values, arrays, a bank and a result; an estimator gives it with `model_state` and takes
    it back with `restore`.

    Attributes
    ----------
    learned : dict
        Attributes by name.
    bank : KernelHolder
    decision : dict
        The `Decision.state`.
    result : Result
    """

    learned: dict[str, Any]
    bank: KernelHolder
    decision: dict[str, Any]
    result: Result
