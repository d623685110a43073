"""What estimators and model files ask of anything that holds kernels, each in one place."""

from ..banks import codes
from ..kernels import KernelCollection, Precomputed


def is_sum(holder):
    """Whether the combined kernel is the weighted sum of the kernels."""
    return getattr(holder, "linear", True)


def kernels(holder):
    """The resolved kernels; none for a combination, or where they are arrays only."""
    spec = _spec(holder)
    return () if spec is None else spec.kernels


def needs_grams(holder):
    """Whether some kernel is a Gram matrix of the user's."""
    return any(isinstance(kernel, Precomputed) for kernel in kernels(holder))


def scales(holder):
    """The factor that normalizes each kernel, (m,)."""
    return _spec(holder).scales


def with_categories(holder, categories):
    """The same for points whose codes stand for other entries."""
    return codes.with_categories(holder, categories) if categories else holder


def subset(bank, chosen):
    """The bank of some of the kernels; None where a bank cannot be cut down."""
    return bank.select(chosen) if hasattr(bank, "select") else None


def starts(bank):
    """How many starting points a search should try."""
    return getattr(bank, "starts", 1)


def collection(holder):
    """The kernels of a bank without their data."""
    inner = getattr(holder, "source", getattr(holder, "bank", holder))
    if hasattr(inner, "collection"):
        return inner.collection
    return KernelCollection(inner.spec.kernels)


def _spec(holder):
    """What a bank knows of its kernels, behind the banks that it may be made of."""
    while holder is not None:
        for name in ("spec", "_spec"):
            if getattr(holder, name, None) is not None:
                return getattr(holder, name)
        inner = (getattr(holder, name, None) for name in ("source", "bank", "kernels"))
        holder = next((one for one in inner if one is not None), None)
    return None
