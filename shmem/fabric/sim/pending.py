"""Private memory of operations that are not complete: what the program does to it between its calls, on `sim`.

Nobody sees an access to private memory. What an operation may still read is compared with what it was, what it is to
write with poison, whenever the PE calls; a difference is a store.
"""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...delivery.requests import Key
from ...memory import caller
from ..events import Access, Kind, Span

if TYPE_CHECKING:
    from .observed import Observed


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


class Private:
    """What is told of private memory: accesses by calls, and those that show."""

    def __init__(self, observed: Observed, n: int) -> None:
        self._observed = observed
        self._pending = [Pending() for _ in range(n)]  # by PE

    def span(self, address: int, nbytes: int) -> Span:
        """Private memory of the running task's PE."""
        return Span(("private", self._observed.own), address, address + nbytes)

    def access(self, kind: Kind, address: int, nbytes: int) -> None:
        """A call reads or writes private memory of the program."""
        if nbytes and not self._observed.hides:
            self._tell(kind, self.span(address, nbytes))

    def _tell(self, kind: Kind, at: Span, what: str = "") -> None:
        self._observed.events.append(Access(self._observed.task, caller(), kind, at, what))

    def loaded(self, pieces: Iterable[tuple[int, int]]) -> None:
        """A call has read memory of the program: the private part of it is told here."""
        for each in pieces:
            if self._observed.place(*each) is None:
                self.access(Kind.LOAD, *each)

    def late(self, ctx: int, target: int, memory: tuple[int, int], name: Hashable = None) -> None:
        """An operation on a context to a PE has memory of the program; one with a name until it is over by itself."""
        if self._observed.place(*memory) is None:
            self._pending[self._observed.own].source(ctx, target, *memory, name)

    def over(self, name: Hashable) -> None:
        """It has it no more."""
        self._pending[self._observed.own].over(name)

    def read(self, ctx: int, target: int | None) -> None:
        """As `Pending.read`."""
        self._pending[self._observed.own].read(ctx, target)

    def follow(self) -> None:
        """Compares the private memory of pending operations of the running task's PE."""
        if self._observed.runs:
            for address, nbytes in self._pending[self._observed.own].changes():
                self._changed(address, nbytes)

    def touched(self, key: Key, address: int, now: bytes, expected: bytes) -> None:
        """What a result is to be written to: the program must not, before it is complete."""
        if self._observed.runs and (found := self._pending[self._observed.own].touched(key, address, now, expected)):
            self._changed(*found)

    def _changed(self, address: int, nbytes: int) -> None:
        self._tell(Kind.STORE, self.span(address, nbytes), "store before this line")


def _differing(one: bytes, other: bytes) -> tuple[int, int]:
    """From the first to behind the last byte that differs."""
    at = [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    return at[0], at[-1] + 1
