"""Models as ONNX graphs, which run without Python.

Importing this module tells skl2onnx of the estimators, so that ``skl2onnx.to_onnx(pipeline)``
converts pipelines with them as any other. Needs ``pip install manykernels[onnx]``.
"""

try:
    from .convert import to_onnx
except ImportError as error:
    raise ImportError(
        f"ONNX graphs are written with skl2onnx, and {error.name!r} is not installed: pip install "
        "manykernels[onnx]."
    ) from error

__all__ = ["to_onnx"]
