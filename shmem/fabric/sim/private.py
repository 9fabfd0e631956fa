"""What a run on `sim` tells of private memory: accesses by calls, by lines of the program that say so, and changes.

What no line has told of is found by comparison (`pending`), and counts as a store before the line that calls then.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from ...delivery.requests import Key
from ...memory import caller
from ..events import Access, Kind, Span
from ..pending import Pending

if TYPE_CHECKING:
    from .observed import Observed


class Private:
    """What was told of private memory so far."""

    def __init__(self, observed: Observed, n: int) -> None:
        self._observed = observed
        self._by_pe = [Pending() for _ in range(n)]

    @property
    def _pending(self) -> Pending:
        return self._by_pe[self._observed.own]

    def span(self, address: int, nbytes: int) -> Span:
        """Private memory of the running task's PE."""
        return Span(("private", self._observed.own), address, address + nbytes)

    # ---- accesses ----

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

    def may_matter(self, lo: int, hi: int) -> bool:
        """Whether the running task, if it is who asks, has an operation with private memory between two addresses."""
        return self._observed.asks and self._pending.any_in(lo, hi)

    def touches(self, kind: Kind, address: int, nbytes: int) -> None:
        """A line of the program is about to load or store private memory."""
        if kind is Kind.STORE and self._observed.runs:
            self._pending.stored(address, address + nbytes)
        self.access(kind, address, nbytes)

    # ---- operations that have memory ----

    def source(self, ctx: int, target: int, memory: tuple[int, int], name: Hashable = None) -> None:
        """An operation on a context to a PE reads memory late. One with a name is over by itself."""
        if self._observed.place(*memory) is None:
            self._pending.source(ctx, target, *memory, name)

    def result(
        self, ctx: int, target: int, memory: tuple[int, int], name: Hashable = None, compared: bool = False
    ) -> None:
        """An operation on a context to a PE writes to memory late, as `source`. compared: see `Pending.result`."""
        if self._observed.place(*memory) is None:
            self._pending.result(ctx, target, *memory, name, compared)

    def complete(self, ctx: int, target: int | None, sources: bool, results: bool) -> None:
        """As `Pending.complete`."""
        self._pending.complete(ctx, target, sources, results)

    def over(self, name: Hashable) -> None:
        """As `Pending.over`."""
        self._pending.over(name)

    # ---- what shows ----

    def follow(self) -> None:
        """Compares the private memory of pending operations of the running task's PE."""
        if self._observed.runs:
            for found in self._pending.changes():
                self._changed(*found)

    def touched(self, key: Key, address: int, now: bytes, expected: bytes) -> None:
        """What a result is to be written to: the program must not, before it is complete."""
        if self._observed.runs and (found := self._pending.touched(key, address, now, expected)):
            self._changed(*found)

    def _changed(self, address: int, nbytes: int) -> None:
        self._tell(Kind.STORE, self.span(address, nbytes), "store before this line")
