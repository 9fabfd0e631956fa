"""Which reduction of which dtype is done how.

Integers, bools, floats from 32 bits on and complex numbers are folded in their own type; floats of 16 bits and less in
float32, rounded once at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ..enums import OP
from ..errors import DtypeError
from ..records import Element, Fold
from ..views import Array

_FOLDS = {OP.SUM: Fold.SUM, OP.PROD: Fold.PROD, OP.MIN: Fold.MIN, OP.MAX: Fold.MAX, OP.AND: Fold.AND, OP.OR: Fold.OR,
          OP.XOR: Fold.XOR}  # fmt: skip
_BOOLS = {Fold.SUM: Fold.OR, Fold.PROD: Fold.AND, Fold.MAX: Fold.OR, Fold.MIN: Fold.AND}


def _product(a: Array, b: Array) -> Array:
    """Rounds each real product by itself, where np.multiply of complex numbers fuses some if the CPU can."""
    if a.dtype.kind != "c":
        return np.multiply(a, b, dtype=a.dtype)
    made = np.empty_like(a)
    made.real = a.real * b.real - a.imag * b.imag
    made.imag = a.real * b.imag + a.imag * b.real
    return made


# Of equals min and max keep the first (+0.0 and -0.0 differ), of NaN the one found first: as the C core does.
_STEPS: dict[Fold, Callable[[Array, Array], Array]] = {
    Fold.SUM: np.add, Fold.PROD: _product, Fold.AND: np.bitwise_and, Fold.OR: np.bitwise_or, Fold.XOR: np.bitwise_xor,
    Fold.MIN: lambda a, b: np.where((a <= b) | (a != a), a, b),
    Fold.MAX: lambda a, b: np.where((a >= b) | (a != a), a, b),
}  # fmt: skip
_CODES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f", "d", "g", "F", "D", "G", ml_dtypes.bfloat16, "e")
_ELEMENTS = {np.dtype(code): element for code, element in zip(_CODES, Element, strict=True)}
_ELEMENTS[np.dtype("?")] = Element.U8

_ORDERED = frozenset((OP.SUM, OP.PROD, OP.MIN, OP.MAX))
_MEANT = {
    "b": frozenset(OP), "i": frozenset(OP), "u": frozenset(OP), "f": _ORDERED, "c": frozenset((OP.SUM, OP.PROD)),
    "m": frozenset((OP.SUM, OP.MIN, OP.MAX)), "M": frozenset((OP.MIN, OP.MAX)),
}  # fmt: skip


@dataclass(frozen=True)
class Folding:
    """A reduction of one dtype: `element` for the C core, None if the terms are folded here, `held` meanwhile."""

    fold: Fold
    element: Element | None
    held: np.dtype[Any]

    def fold_rows(self, rows: Array) -> Array:
        """[terms, n] -> [n]: the first row, then one after the other; no rows give zeros."""
        if len(rows) == 0:
            return np.zeros(rows.shape[1], rows.dtype)
        with np.errstate(all="ignore"):
            folded = rows[0].astype(self.held)
            for row in rows[1:]:
                folded = _STEPS[self.fold](folded, row.astype(self.held))
            made: Array = folded.astype(rows.dtype)
            return made


def folding(source: object, op: OP, name: str, me: int) -> Folding:
    """How `op` reduces an array. Raises DtypeError naming the routine and the dtype where it has no meaning."""
    dtype: np.dtype[Any] = np.dtype(getattr(source, "dtype", object))
    small = _small_float(dtype)
    kind = "f" if small else "i" if _small_integer(dtype) else dtype.kind
    if op not in _MEANT.get(kind, ()):
        raise DtypeError(f"{name} has no meaning for elements of dtype {dtype}", pe=me)
    fold = _FOLDS[op]
    if kind == "b":
        fold = _BOOLS.get(fold, fold)
    held = np.dtype(np.float32) if small else dtype.newbyteorder("=")
    return Folding(fold, _ELEMENTS.get(dtype), held)


def _small_float(dtype: np.dtype[Any]) -> bool:
    if dtype.kind != "V" or dtype.names is not None:
        return dtype.kind == "f" and dtype.itemsize <= 2  # fp8 e5m2 calls itself "f"
    try:
        return bool(ml_dtypes.finfo(dtype).bits <= 16)  # type: ignore[no-untyped-call]
    except ValueError:
        return False


def _small_integer(dtype: np.dtype[Any]) -> bool:
    if dtype.kind != "V" or dtype.names is not None:
        return False
    try:
        return bool(ml_dtypes.iinfo(dtype).bits <= 4)  # type: ignore[no-untyped-call]
    except ValueError:
        return False
