"""Private memory of operations that are not complete: what the program does to it between its calls.

Nobody sees an access to private memory, unless the program's lines tell of it. What an operation may still read is
compared with what it was, what it is to write with poison, whenever the PE calls; a difference is a store.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from ..delivery.requests import Key


@dataclass(eq=False)
class _Late:
    """Memory that an operation may still read or write to. One with a name is over by itself."""

    ctx: int
    target: int
    address: int
    nbytes: int
    name: Hashable
    is_result: bool
    data: bytes | None  # what it holds, where that is compared
    told: list[tuple[int, int]] = field(default_factory=list)  # addresses of what the program's own lines store there

    def meets(self, lo: int, hi: int) -> bool:
        """Whether it has bytes between two addresses."""
        return self.address < hi and lo < self.address + self.nbytes


class Pending:
    """The private memory of one PE's operations."""

    def __init__(self) -> None:
        self._late: list[_Late] = []
        self._touched: set[Key] = set()  # results that the program has written to

    def source(self, ctx: int, target: int, address: int, nbytes: int, name: Hashable = None) -> None:
        """An operation on a context to a PE reads memory late."""
        self._late.append(_Late(ctx, target, address, nbytes, name, False, ctypes.string_at(address, nbytes)))

    def result(
        self, ctx: int, target: int, address: int, nbytes: int, name: Hashable = None, compared: bool = False
    ) -> None:
        """An operation on a context to a PE writes to memory late; nobody takes that for a store of the program.
        compared: as sources are, instead of by `touched`."""
        self.stored(address, address + nbytes, of_results=False)
        data = ctypes.string_at(address, nbytes) if compared else None
        self._late.append(_Late(ctx, target, address, nbytes, name, True, data))

    def complete(self, ctx: int, target: int | None, sources: bool, results: bool) -> None:
        """What was posted on a context to a PE (None: to all) has read its sources, has written its results: they may
        lie elsewhere now."""
        self._end(
            lambda each: each.ctx == ctx and target in (None, each.target) and (results if each.is_result else sources)
        )

    def over(self, name: Hashable) -> None:
        """An operation needs its memory no more."""
        self._end(lambda each: each.name == name)

    def _end(self, over: Callable[[_Late], bool]) -> None:
        """Some are over. What a result has left where others lie is no store of the program, either."""
        ended = [each for each in self._late if over(each)]
        self._late = [each for each in self._late if each not in ended]
        for each in ended if self._late else ():
            if each.is_result:
                self.stored(each.address, each.address + each.nbytes)

    def changes(self) -> Iterator[tuple[int, int]]:
        """Address and bytes of what has changed since the last look, where that is compared, and was not told."""
        for each in self._late:
            if each.data is None:
                continue
            now = ctypes.string_at(each.address, each.nbytes)
            if now != each.data:
                at = _differing(each.data, now, each.address, each.told)
                each.data, each.told = now, []
                if at:
                    yield each.address + at[0], at[-1] + 1 - at[0]

    def touched(self, key: Key, address: int, now: bytes, expected: bytes) -> tuple[int, int] | None:
        """Address and bytes of what the program has written to a result, and did not tell; once."""
        if now == expected or key in self._touched:
            return None
        told = [stored for each in self._late if each.data is None for stored in each.told]
        if not (at := _differing(expected, now, address, told)):
            return None
        self._touched.add(key)
        return address + at[0], at[-1] + 1 - at[0]

    def any_in(self, lo: int, hi: int) -> bool:
        """Whether there is memory of an operation between two addresses."""
        return any(each.meets(lo, hi) for each in self._late)

    def stored(self, lo: int, hi: int, of_results: bool = True) -> None:
        """What is between two addresses is about to change, and that is told. of_results: of those, too."""
        for each in self._late:
            if each.meets(lo, hi) and (of_results or not each.is_result):
                each.told.append((lo, hi))


def _differing(one: bytes, other: bytes, address: int, told: list[tuple[int, int]]) -> list[int]:
    """Where the bytes from an address on differ, but for what lies between addresses that were told."""
    at = [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    return [i for i in at if not any(lo <= address + i < hi for lo, hi in told)]
