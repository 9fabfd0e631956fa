"""The units of a long transfer, which are not written out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

UNITS_MAX = 1024  # fewer are a tuple, which is faster


class Units(Sequence[tuple[int, int]]):
    """The aligned pieces of a range of bytes (lo, hi), as pairs like it."""

    def __init__(self, lo: int, hi: int, unit: int) -> None:
        self.lo, self.hi, self.unit = lo, hi, unit
        self._length = -(-hi // unit) - lo // unit
        self.bits = (1 << self._length) - 1  # one for each

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, i: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[tuple[int, int]]: ...
    def __getitem__(self, i: int | slice) -> tuple[int, int] | Sequence[tuple[int, int]]:
        if isinstance(i, slice):
            return list(self)[i]
        if not 0 <= i < self._length:
            raise IndexError(i)
        start = (self.lo // self.unit + i) * self.unit
        return max(start, self.lo), min(start + self.unit, self.hi)
