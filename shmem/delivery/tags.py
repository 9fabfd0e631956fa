"""Ghost tags: beside every byte of symmetric memory, which call wrote it, and which wrote it before.

They are no part of the memory: no load returns them and nothing is decided by them, except whether bytes that a program
takes for a message are that message (`fabric.sim.verdicts`). A byte's place in its message follows from its address.
Where readers are lazy, what a PE sees of its own memory has tags of its own, which follow `views`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from .requests import Event, Place, Space

if TYPE_CHECKING:
    from .machine import Machine

PAGE = 1024


class Message(NamedTuple):
    """What a call puts as lines: a payload of `nbytes` in a format (`shmem.Layout`), the first line at offset `at`."""

    layout: object
    flag: int
    at: int
    nbytes: int


@dataclass(slots=True, eq=False)
class Call:
    """A call that writes: the `number`-th of its PE (0: its plain stores, all of them)."""

    pe: int
    number: int
    what: str
    where: str = ""  # the line of the program
    tag: int | None = None  # what the program calls the message that this is part of
    message: Message | None = None
    places: list[Place] = field(default_factory=list)  # that it writes
    taken: set[object] = field(default_factory=set)  # (task, offset) of lines that were accepted

    def __str__(self) -> str:
        if not self.number:
            return f"a store of PE {self.pe}"
        line = f", {os.path.basename(self.where)}" if self.where else ""
        named = "" if self.tag is None else f" of message {self.tag}"
        return f"a {self.what}{named} of PE {self.pe} (its call {self.number}{line})"

    def first(self, pe: int, lo: int, hi: int) -> int | None:
        """The first of some bytes of the heap of a PE that it writes."""
        found = [max(lo, place.lo) for place in self.places if place.space == pe and place.lo < hi and lo < place.hi]
        return min(found, default=None)


class Mark:
    """Who wrote a byte last, and what was there before; equal histories are one object where bytes are written
    together."""

    __slots__ = ("_next", "before", "call")

    def __init__(self, call: Call | None, before: Mark | None) -> None:
        self.call, self.before = call, before
        self._next: Mark | None = None

    def then(self, call: Call) -> Mark:
        """The byte after a call has written it."""
        if self.call is call:
            return self
        if self._next is None or self._next.call is not call:
            self._next = Mark(call, self)
        return self._next

    def calls(self) -> Iterator[Call]:
        """Those that wrote the byte, the last first."""
        at: Mark | None = self
        while at is not None and at.call is not None:
            yield at.call
            at = at.before

    @property
    def name(self) -> tuple[int, int]:
        """The last call as numbers, the same in every run."""
        return (-1, 0) if self.call is None else (self.call.pe, self.call.number)


NEVER = Mark(None, None)


class Written(NamedTuple):
    """Bytes that follow one another and have one mark."""

    lo: int
    hi: int
    mark: Mark


class Tags:
    """The tags of all symmetric memory."""

    def __init__(self) -> None:
        self._pages: dict[Space, dict[int, Mark | list[Mark]]] = {}  # a page whose bytes are alike is one mark
        self._numbers: dict[int, int] = {}  # calls so far, by PE
        self._stores: dict[int, Call] = {}
        self._unseen: dict[Event, tuple[Place, list[Call]]] = {}  # what will be shown, and who wrote it

    # ---- calls ----

    def call(self, pe: int, what: str, where: str = "", tag: int | None = None) -> Call:
        """The next call of a PE; where: a line of the program."""
        number = self._numbers[pe] = self._numbers.get(pe, 0) + 1
        return Call(pe, number, what, where, tag)

    def stores(self, pe: int) -> Call:
        """What plain stores of a PE are, unless they are part of a message."""
        return self._stores.setdefault(pe, Call(pe, 0, "store"))

    # ---- bytes ----

    def read(self, place: Place) -> list[Mark]:
        """The marks of the bytes at a place."""
        space = place.space
        if space not in self._pages and isinstance(space, tuple) and space[0] == "view":
            space = space[1]  # nothing was shown yet
        pages, found = self._pages.get(space, {}), list[Mark]()
        for page, lo, hi in _pieces(place):
            marks = pages.get(page, NEVER)
            found += marks[lo:hi] if isinstance(marks, list) else [marks] * (hi - lo)
        return found

    def same(self, place: Place, call: Call | None) -> bool:
        """Whether all bytes at a place were last written by a call."""
        return all(mark.call is call for mark in self.read(place))

    def _write(self, place: Place, calls: Sequence[Call]) -> None:
        """A call, of one or of one for each byte, has written the bytes at a place."""
        pages, done = self._pages.setdefault(place.space, {}), 0
        for page, lo, hi in _pieces(place):
            marks = pages.get(page, NEVER)
            if isinstance(marks, Mark) and len(calls) == 1 and hi - lo == PAGE:
                pages[page] = marks.then(calls[0])
                continue
            if isinstance(marks, Mark):
                marks = pages[page] = [marks] * PAGE
            old = marks[lo:hi]
            if len(calls) > 1:
                marks[lo:hi] = [mark.then(call) for mark, call in zip(old, calls[done:], strict=False)]
            elif old.count(old[0]) == len(old):
                marks[lo:hi] = [old[0].then(calls[0])] * len(old)
            else:
                marks[lo:hi] = [mark.then(calls[0]) for mark in old]
            done += hi - lo

    def arrive(self, place: Place, call: Call, event: Event | None) -> None:
        """A call has written bytes, which a lazy reader sees once they are shown, by `event`; None: at once."""
        if event is not None:
            self.come(event, place, call)
        elif isinstance(place.space, int):
            self.own(place, call)

    def own(self, place: Place, call: Call) -> None:
        """A call has written bytes that all see at once, a lazy reader as well: what was placed before, and is shown
        later, does not undo it."""
        self._write(place, [call])
        if ("view", place.space) in self._pages:
            self._write(Place(("view", place.space), place.lo, place.hi), [call])
            for at, calls in self._unseen.values():
                if at.space == place.space:
                    for i in range(max(at.lo, place.lo), min(at.hi, place.hi)):
                        calls[i - at.lo] = call

    def come(self, event: Event, place: Place, call: Call) -> None:
        """A call has written bytes that a lazy reader sees once they are shown, by `event`."""
        view = ("view", place.space)
        if view not in self._pages:
            old = self._pages.get(place.space, {})
            self._pages[view] = {page: list(m) if isinstance(m, list) else m for page, m in old.items()}
        if place.lo < place.hi:
            self._write(place, [call])
            self._unseen[event] = place, [call] * (place.hi - place.lo)

    def show(self, event: Event) -> None:
        """What was placed is seen."""
        place, calls = self._unseen.pop(event)
        self._write(Place(("view", place.space), place.lo, place.hi), calls)

    def digest(self) -> tuple[object, ...]:
        """Who wrote each byte last: with what is in flight, all that can still matter."""
        found: list[tuple[object, ...]] = []
        for space, pages in sorted(self._pages.items(), key=repr):
            for page, marks in sorted(pages.items()):
                found.append((space, page, names(_runs(marks if isinstance(marks, list) else [marks]))))
        for event, (_, calls) in sorted(self._unseen.items()):
            found.append(("unseen", event, names(_runs([NEVER.then(call) for call in calls]))))
        return tuple(found)


def written(machine: Machine, pe: int, place: Place) -> list[Written]:
    """Who wrote the bytes that `Machine.look` gives."""
    assert machine.tags is not None
    found = machine.tags.read(place)
    if not machine.forwarding:
        return _runs(found, place.lo)
    space = pe if place.space == ("view", pe) else place.space
    for request in machine.of(pe):
        if request.target == space and machine.forwards(request):
            for i in range(max(place.lo, request.at.lo), min(place.hi, request.at.hi)):
                found[i - place.lo] = found[i - place.lo].then(request.call)
    return _runs(found, place.lo)


def _runs(marks: Sequence[Mark], lo: int = 0) -> list[Written]:
    """The marks of bytes from `lo` on."""
    found = []
    for mark, alike in groupby(marks):
        hi = lo + len(list(alike))
        found.append(Written(lo, hi, mark))
        lo = hi
    return found


def _pieces(place: Place) -> list[tuple[int, int, int]]:
    """A place page by page: (page, first byte in it, end in it)."""
    first, last = place.lo // PAGE, (place.hi - 1) // PAGE
    if first == last and place.lo < place.hi:
        return [(first, place.lo - first * PAGE, place.hi - first * PAGE)]
    return [
        (page, max(place.lo - page * PAGE, 0), min(place.hi - page * PAGE, PAGE)) for page in range(first, last + 1)
    ]


def told(found: Sequence[Written]) -> int:
    """A digest of who wrote each byte last."""
    return hash(names(found))


def names(found: Sequence[Written]) -> tuple[tuple[int, int, int], ...]:
    """Who wrote each byte last, in numbers that are the same in every run: (first byte, PE, its call), ..."""
    told: list[tuple[int, int, int]] = []
    for lo, _, mark in found:
        name = mark.name
        if not told or name != told[-1][1:]:
            told.append((lo, *name))
    return tuple(told)
