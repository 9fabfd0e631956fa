"""Private memory of operations that are not complete: what the program does to it between its calls, on `sim`.

Nobody sees an access to private memory. What an operation may still read is compared with what it was, what it is to
write with poison, whenever the PE calls; a difference is a store.
"""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from ...delivery.requests import Key


@dataclass
class _Source:
    """Memory that an operation may still read."""

    ctx: int
    target: int
    address: int
    data: bytes
    name: Hashable = None  # of an operation that is over by itself


class Pending:
    """The private memory of one PE's operations."""

    def __init__(self) -> None:
        self._sources: list[_Source] = []
        self._touched: set[Key] = set()  # results that the program has written to

    def source(self, ctx: int, target: int, address: int, nbytes: int, name: Hashable = None) -> None:
        """An operation on a context to a PE reads memory late."""
        self._sources.append(_Source(ctx, target, address, ctypes.string_at(address, nbytes), name))

    def over(self, name: Hashable) -> None:
        """An operation needs its memory no more."""
        self._sources = [each for each in self._sources if each.name != name]

    def read(self, ctx: int, target: int | None) -> None:
        """What was posted on a context to a PE (None: to all) has read its sources: they may lie elsewhere now."""
        self._sources = [
            each for each in self._sources if each.ctx != ctx or (target is not None and each.target != target)
        ]

    def changes(self) -> Iterator[tuple[int, int]]:
        """Address and bytes of what has changed since the last look."""
        for each in self._sources:
            now = ctypes.string_at(each.address, len(each.data))
            if now != each.data:
                lo, hi = _differing(each.data, now)
                each.data = now
                yield each.address + lo, hi - lo

    def touched(self, key: Key, address: int, now: bytes, expected: bytes) -> tuple[int, int] | None:
        """Address and bytes of what the program has written to a result; told once."""
        if now == expected or key in self._touched:
            return None
        self._touched.add(key)
        lo, hi = _differing(expected, now)
        return address + lo, hi - lo


def _differing(one: bytes, other: bytes) -> tuple[int, int]:
    """From the first to behind the last byte that differs."""
    at = [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    return at[0], at[-1] + 1
