"""Conditions of waits on `sim`: the words that they are of, and which bytes satisfy them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ...delivery.requests import Place
from ...enums import CMP
from ...records import Conditions, Kind

COMPARE: dict[int, Callable[[Any, Any], bool]] = {
    CMP.EQ: operator.eq, CMP.NE: operator.ne, CMP.GT: operator.gt,
    CMP.LE: operator.le, CMP.LT: operator.lt, CMP.GE: operator.ge,
}  # fmt: skip
_WORDS = {Kind.I32: (4, True), Kind.U32: (4, False), Kind.I64: (8, True), Kind.U64: (8, False)}
Word = tuple[Place, Callable[[bytes], bool]]


def words_of(pe: int, conditions: Conditions) -> list[Word]:
    """The words of a PE that conditions are of, each with what tells whether its bytes satisfy it."""
    return [_word(pe, *one.item()) for one in conditions]


def _word(pe: int, offset: int, bits: int, kind: int, cmp: int) -> Word:
    width, signed = _WORDS[Kind(kind)]
    wanted = int.from_bytes((bits & (1 << 8 * width) - 1).to_bytes(width, "little"), "little", signed=signed)
    how = COMPARE[cmp]
    place = Place(pe, offset, offset + width)
    return place, lambda data: how(int.from_bytes(data, "little", signed=signed), wanted)
