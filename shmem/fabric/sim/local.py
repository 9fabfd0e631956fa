"""Records that stay inside a PE, on `sim`: rows, casts and folds, in NumPy.

Each row is loaded in one step and stored in one. The arithmetic is that of the C core: see `Batch`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ...delivery.requests import Place
from ...records import ROWS, TERM, Cast, Element, Fold

if TYPE_CHECKING:
    from .fabric import SimFabric
    from .records import Fields

_BF16 = np.dtype(ml_dtypes.bfloat16)
_CASTS: dict[Cast, tuple[Any, Any]] = {
    Cast.BF16_TO_F32: (_BF16, np.float32), Cast.F32_TO_BF16: (np.float32, _BF16),
    Cast.BF16_TO_F8: (_BF16, ml_dtypes.float8_e4m3fn), Cast.F32_TO_F8: (np.float32, ml_dtypes.float8_e4m3fn),
    Cast.F8_TO_BF16: (ml_dtypes.float8_e4m3fn, _BF16), Cast.F8_TO_F32: (ml_dtypes.float8_e4m3fn, np.float32),
}  # fmt: skip
_ELEMENTS: dict[Element, Any] = {
    Element.I8: np.int8, Element.U8: np.uint8, Element.I16: np.int16, Element.U16: np.uint16, Element.I32: np.int32,
    Element.U32: np.uint32, Element.I64: np.int64, Element.U64: np.uint64, Element.F32: np.float32,
    Element.F64: np.float64, Element.LONG_DOUBLE: np.longdouble, Element.C64: np.complex64,
    Element.C128: np.complex128, Element.C_LONG_DOUBLE: np.clongdouble, Element.BF16: _BF16, Element.F16: np.float16,
}  # fmt: skip
_FOLDS: dict[Fold, Callable[[Any, Any], Any]] = {
    Fold.SUM: np.add, Fold.PROD: np.multiply, Fold.MIN: np.minimum, Fold.MAX: np.maximum,
    Fold.AND: np.bitwise_and, Fold.OR: np.bitwise_or, Fold.XOR: np.bitwise_xor,
}  # fmt: skip


def _structure(address: int, dtype: np.dtype[Any], n: int = 1) -> npt.NDArray[Any]:
    return np.frombuffer(ctypes.string_at(address, n * dtype.itemsize), dtype)


def _numbers(address: int, n: int) -> list[int]:
    """n row numbers (or offsets); 0, 1, 2, ... where there is no table."""
    return _structure(address, np.dtype(np.int64), n).tolist() if address else list(range(n))


def copy_rows(fabric: SimFabric, op: Fields) -> None:
    """Row i of `width` bytes from source to target."""
    detail = _structure(op.aux, ROWS)[0]
    width = int(detail["width"])
    to, of = (_numbers(int(detail[name]), op.n) for name in ("target_rows", "source_rows"))
    for target, source in zip(to, of, strict=True):
        data = fabric.heap.read(op.src + source * int(detail["source_stride"]), width)
        fabric.heap.write(op.dst + target * int(detail["target_stride"]), data)


def reduce_rows(fabric: SimFabric, op: Fields) -> None:
    """Row i of target: fp32 zero, the rows of the biases, the terms in order, rounded once."""
    detail = _structure(op.aux, ROWS)[0]
    width, terms = int(detail["width"]), int(detail["terms"])
    offsets = _numbers(int(detail["source_rows"]), op.n * terms) if terms else []
    for i in range(op.n):
        total = np.zeros(width, np.float32)
        for name in ("bias0", "bias1"):
            if address := int(detail[name]):
                total = total + _floats(fabric, address + 2 * width * i, width)
        for offset in offsets[i * terms : (i + 1) * terms]:
            if offset >= 0:
                total = total + _floats(fabric, op.src + offset, width)
        fabric.heap.write(op.dst + i * int(detail["target_stride"]), total.astype(_BF16).tobytes())


def _floats(fabric: SimFabric, address: int, n: int) -> npt.NDArray[np.float32]:
    return np.frombuffer(fabric.heap.read(address, 2 * n), _BF16).astype(np.float32)


def cast(fabric: SimFabric, op: Fields) -> None:
    """n elements of another dtype."""
    source, target = (np.dtype(one) for one in _CASTS[Cast(op.flags)])
    data = np.frombuffer(fabric.heap.read(op.src, op.n * source.itemsize), source)
    with np.errstate(all="ignore"):
        made = data.astype(np.float32).astype(target)
    fabric.heap.write(op.dst, made.tobytes())


def reduce(fabric: SimFabric, op: Fields) -> None:
    """Folds arrays of several PEs, one after the other; small floats in fp32, rounded once at the end."""
    element, fold = Element(op.width), Fold(op.flags)
    dtype = np.dtype(_ELEMENTS[element])
    inner = np.dtype(np.float32) if element in (Element.BF16, Element.F16) else dtype
    total = np.zeros(op.n, inner)
    terms = _structure(op.aux, TERM, op.value).tolist() if op.value else []
    with np.errstate(all="ignore"):
        for i, (pe, offset) in enumerate(terms):
            place = Place(pe, offset, offset + op.n * dtype.itemsize)
            one = np.frombuffer(fabric.load(place, "reduce"), dtype).astype(inner)
            total = one if i == 0 else _FOLDS[fold](total, one)
        fabric.heap.write(op.dst, total.astype(dtype).tobytes())
