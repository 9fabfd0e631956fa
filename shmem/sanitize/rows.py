"""What records that stay inside a PE read and write: rows, casts and folds (`fabric/sim/local.py`)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..records import ROWS, TERM, Cast, Element, Op

Range = tuple[int, int]  # address, bytes
_CASTS = {
    Cast.BF16_TO_F32: (2, 4), Cast.F32_TO_BF16: (4, 2), Cast.BF16_TO_F8: (2, 1), Cast.F32_TO_F8: (4, 1),
    Cast.F8_TO_BF16: (1, 2), Cast.F8_TO_F32: (1, 4),
}  # fmt: skip
_SIZES = {
    Element.I8: 1, Element.U8: 1, Element.I16: 2, Element.U16: 2, Element.I32: 4, Element.U32: 4, Element.I64: 8,
    Element.U64: 8, Element.F32: 4, Element.F64: 8, Element.LONG_DOUBLE: 16, Element.C64: 8, Element.C128: 16,
    Element.C_LONG_DOUBLE: 32, Element.BF16: 2, Element.F16: 2,
}  # fmt: skip


def _table(address: int, dtype: np.dtype[Any], n: int) -> npt.NDArray[Any]:
    return np.frombuffer(ctypes.string_at(address, n * dtype.itemsize), dtype)


def _numbers(address: int, n: int) -> list[int]:
    found: list[int] = _table(address, np.dtype(np.int64), n).tolist() if address else list(range(n))
    return found


def _copy_rows(op: Any, bases: list[int]) -> tuple[Iterator[Range], Iterator[Range]]:
    detail = _table(int(op["aux"]), ROWS, 1)[0]
    n, width = int(op["n"]), int(detail["width"])

    def rows(at: int, numbers: int, stride: int) -> Iterator[Range]:
        return ((at + i * stride, width) for i in _numbers(numbers, n))

    sides = [
        rows(int(op[at]), int(detail[f"{side}_rows"]), int(detail[f"{side}_stride"]))
        for at, side in (("src", "source"), ("dst", "target"))
    ]
    return sides[0], sides[1]


def _reduce_rows(op: Any, bases: list[int]) -> tuple[Iterator[Range], Iterator[Range]]:
    detail = _table(int(op["aux"]), ROWS, 1)[0]
    n, nbytes, terms = int(op["n"]), 2 * int(detail["width"]), int(detail["terms"])
    src, dst, stride = int(op["src"]), int(op["dst"]), int(detail["target_stride"])

    def reads() -> Iterator[Range]:
        for name in ("bias0", "bias1"):
            if address := int(detail[name]):
                yield address, nbytes * n
        for offset in _numbers(int(detail["source_rows"]), n * terms) if terms else []:
            if offset >= 0:
                yield src + offset, nbytes

    return reads(), ((dst + i * stride, nbytes) for i in range(n))


def _cast(op: Any, bases: list[int]) -> tuple[Iterator[Range], Iterator[Range]]:
    n, sizes = int(op["n"]), _CASTS[Cast(int(op["flags"]))]
    return iter([(int(op["src"]), n * sizes[0])]), iter([(int(op["dst"]), n * sizes[1])])


def _reduce(op: Any, bases: list[int]) -> tuple[Iterator[Range], Iterator[Range]]:
    nbytes, terms = int(op["n"]) * _SIZES[Element(int(op["width"]))], int(op["value"])
    own = _table(int(op["aux"]), TERM, terms).tolist() if terms else []
    return iter([(bases[pe] + offset, nbytes) for pe, offset in own]), iter([(int(op["dst"]), nbytes)])


_RANGES: dict[int, Callable[[Any, list[int]], tuple[Iterator[Range], Iterator[Range]]]] = {
    Op.COPY_ROWS: _copy_rows, Op.REDUCE_ROWS: _reduce_rows, Op.CAST: _cast, Op.REDUCE: _reduce,
}  # fmt: skip


def touched(op: Any, bases: list[int]) -> tuple[Iterator[Range], Iterator[Range]]:
    """The ranges (address, bytes) that a record reads, and those that it writes. bases: of the heaps of all PEs."""
    return _RANGES[int(op["op"])](op, bases)


def is_local(code: int) -> bool:
    """Whether a record stays inside its PE."""
    return code in _RANGES
