"""What may happen next, as a sequence that is not written out: a transfer of a million units is one entry of it.

Units of one request that may be placed in any order are one `Run`; `Moves` are such and single moves one behind the
other. Neither changes, so a search keeps what was possible at a state for the price of the entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, overload

from .requests import Act, Event, Key

RUN_MIN = 16  # fewer units are written out


class Run(Sequence[Event]):
    """The events of one kind for some units of a request, which are the bits of `units`."""

    __slots__ = ("_length", "act", "key", "units")

    def __init__(self, key: Key, act: Act, units: int) -> None:
        self.key, self.act, self.units = key, act, units
        self._length = units.bit_count()

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, i: int) -> Event: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Event]: ...
    def __getitem__(self, i: int | slice) -> Event | Sequence[Event]:
        if isinstance(i, slice):
            return list(self)[i]
        if not 0 <= i < self._length:
            raise IndexError(i)
        return Event(self.key, self.act, nth_bit(self.units, i))

    def __iter__(self) -> Iterator[Event]:
        return (Event(self.key, self.act, unit) for unit in bits_of(self.units))

    def __contains__(self, move: object) -> bool:
        mine = isinstance(move, Event) and move.key == self.key and move.act is self.act
        return mine and bool(self.units >> move.unit & 1)  # type: ignore[attr-defined]


class Moves(Sequence[Any]):
    """Several sequences of moves, one behind the other."""

    __slots__ = ("_length", "parts")

    def __init__(self, parts: Sequence[Sequence[Any]]) -> None:
        self.parts, self._length = parts, sum(map(len, parts))

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, i: int) -> Any: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Any]: ...
    def __getitem__(self, i: int | slice) -> Any:
        if isinstance(i, slice):
            return list(self)[i]
        for part in self.parts:
            if i < len(part):
                return part[i]
            i -= len(part)
        raise IndexError(i)

    def __iter__(self) -> Iterator[Any]:
        return (move for part in self.parts for move in part)

    def __contains__(self, move: object) -> bool:
        return any(move in part for part in self.parts)


def joined(parts: Sequence[Sequence[Any]]) -> Sequence[Any]:
    """Sequences of moves one behind the other; a list where nothing in them is long."""
    parts = list(filter(None, parts))
    if len(parts) < 2:
        return parts[0] if parts else []
    return list(chain.from_iterable(parts)) if _LONG.isdisjoint(map(type, parts)) else Moves(parts)


_LONG = frozenset({Run, Moves})


def run_of(key: Key, act: Act, units: int) -> Sequence[Event]:
    """The events of one kind for the units that are bits of a number, ascending."""
    if units.bit_count() >= RUN_MIN:
        return Run(key, act, units)
    return [Event(key, act, unit) for unit in range(units.bit_length()) if units >> unit & 1]


def bits_of(units: int) -> Iterator[int]:
    """The places of the bits that are set, ascending."""
    text = bin(units)[:1:-1]
    at = text.find("1")
    while at >= 0:
        yield at
        at = text.find("1", at + 1)


def ranges_of(units: int) -> Iterator[tuple[int, int]]:
    """The bits that are set as ranges (first, end), ascending."""
    text = bin(units)[:1:-1] + "0"
    first = text.find("1")
    while first >= 0:
        end = text.find("0", first)
        yield first, end
        first = text.find("1", end)


def nth_bit(units: int, n: int) -> int:
    """The place of the bit that is set after n others."""
    at, width = 0, units.bit_length()
    while n:
        width = (width + 1) // 2
        low = units & ((1 << width) - 1)
        if (below := low.bit_count()) > n:
            units = low
        else:
            units, n, at = units >> width, n - below, at + width
    return at + (units & -units).bit_length() - 1
