"""Sharing memory with PyTorch: an array as a tensor and back, without a copy.

Symmetric arrays are plain ndarrays, so everything that takes those shares their memory: the buffer protocol, DLPack
(`np.from_dlpack`, `torch.from_dlpack`), `torch.from_numpy`. What those do not know are the small floats of ml_dtypes:
they go through integers of their width here. torch is imported by the first call and by nothing else. A tensor keeps
the array's memory mapped, but not its block allocated: after `free` it must not be used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from .errors import ArgumentError, DtypeError, LayoutError
from .views import Array

if TYPE_CHECKING:
    from torch import Tensor

# ml_dtypes and torch call them alike; both see them as integers of this width.
SMALL = {
    np.dtype(getattr(ml_dtypes, name)): (name, carrier)
    for name, carrier in (
        ("bfloat16", "uint16"), ("float8_e4m3fn", "uint8"), ("float8_e5m2", "uint8"), ("float8_e4m3fnuz", "uint8"),
        ("float8_e5m2fnuz", "uint8"), ("float8_e8m0fnu", "uint8"),
    )
}  # fmt: skip


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError:
        raise ImportError(
            "torch is not installed: install the extra shmemu[torch] (in a checkout: pip install '.[torch]')"
        ) from None


def to_torch(array: Array) -> Tensor:
    """An array as a CPU tensor over the same memory: stores to the one are seen in the other.

    array: any ndarray, symmetric or not, whose dtype torch has: bool, integers, float16, float32, float64, complex64,
    complex128, and of ml_dtypes bfloat16 and the 8-bit floats that torch knows. Any steps that are 0 or more and whole
    elements, as those of a field of a structure mostly are not. Raises DtypeError, LayoutError (steps), ArgumentError
    (read-only), ImportError without torch.
    """
    torch = _torch()
    if not isinstance(array, np.ndarray):
        raise DtypeError(f"a NumPy array is needed, not {type(array).__name__}")
    if not array.flags.writeable:
        raise ArgumentError("array is read-only, and no tensor is")
    if any(step < 0 for step in array.strides):
        raise LayoutError("array has a negative step, and no tensor has: numpy.ascontiguousarray makes a copy")
    name, carrier = SMALL.get(array.dtype, ("", ""))
    if array.itemsize and any(step % array.itemsize for step in array.strides):
        raise LayoutError(
            f"array has steps of {array.strides} bytes, not whole elements of {array.itemsize}, and no tensor has: "
            "numpy.ascontiguousarray makes a copy"
        )
    try:
        if not name:
            return torch.from_numpy(array)
        return torch.from_numpy(array.view(carrier)).view(getattr(torch, name))
    except (TypeError, AttributeError, ValueError) as error:
        raise DtypeError(f"torch has no tensors of dtype {array.dtype}: {error}") from None


def from_torch(tensor: Tensor) -> Array:
    """A CPU tensor as an ndarray over the same memory; symmetric if the tensor came from a symmetric array.

    Raises ArgumentError for a tensor on another device, of a sparse layout or a nested one, one that needs gradients
    (give it `tensor.detach()`) or still has to be conjugated or negated (`resolve_conj()`, `resolve_neg()`), DtypeError
    for a dtype that NumPy and ml_dtypes lack, and for what is no tensor.
    """
    torch = _torch()
    if not isinstance(tensor, torch.Tensor):
        raise DtypeError(f"a tensor is needed, not {type(tensor).__name__}")
    if tensor.requires_grad:
        raise ArgumentError("the tensor needs gradients, which NumPy can't keep: give tensor.detach()")
    _check_memory(tensor)
    for dtype, (name, carrier) in SMALL.items():
        if tensor.dtype == getattr(torch, name, None):
            return _shared(tensor.view(getattr(torch, carrier))).view(dtype)
    return _shared(tensor)


def _check_memory(tensor: Any) -> None:
    """Raises ArgumentError for a tensor whose elements do not lie in memory of this process as they are read."""
    if tensor.is_nested or tensor.device.type != "cpu" or tensor.layout != _torch().strided:
        kind = "nested" if tensor.is_nested else f"on {tensor.device}, of layout {tensor.layout}"
        raise ArgumentError(f"the tensor is {kind}: no memory to share")
    for name in ("conj", "neg"):
        if getattr(tensor, f"is_{name}")():
            raise ArgumentError(f"the tensor is a view that still has to be changed: give tensor.resolve_{name}()")


def _shared(tensor: Any) -> Array:
    try:
        shared: Array = tensor.numpy()
    except RuntimeError as error:  # a tensor without memory of a kind that is not looked for above
        raise ArgumentError(f"the tensor has no memory to share: {error}") from None
    except TypeError as error:
        raise DtypeError(f"NumPy has no arrays of dtype {tensor.dtype}: {error}") from None
    return shared
