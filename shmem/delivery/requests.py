"""What is in flight: requests and the events of their lives.

A request is posted, reads its source, is placed unit by unit (or executed at the target and its result landed), and is
retired by a completion. Each step is one event; which may happen now is the affair of `machine`, in which order they
must is that of `tables`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from .units import UNITS_MAX, Units

Key = tuple[int, int]  # of a request: the PE that posted it, and which of its requests it is
Space = Hashable  # a memory: the number of a PE for its symmetric heap, anything else for a private one


class Kind(IntEnum):
    """What a request does. A STORE is one of the PE's own to its own symmetric memory, where profiles delay those."""

    STORE = 0
    WRITE = 1
    READ = 2
    ATOMIC = 3
    SEND = 4


class Stage(IntEnum):
    """How far a request is. READ and ATOMIC are PLACED when the target's memory was read or changed."""

    SOURCE = 0  # its source was read
    ACCEPTED = 1  # it has taken a receive at the target, or needs none
    PLACED = 2  # it has had all its effect on the target's memory
    ANSWERED = 3  # its result is in place, or it is PLACED; what comes twice has come twice
    RETIRED = 4  # the queue has given its place back


SOURCE, ACCEPTED, PLACED, ANSWERED, RETIRED = Stage  # a name is quicker to find than an attribute of an enum


class Act(IntEnum):
    """Kinds of events; the values order them where an order must be fixed."""

    ACCEPT = 0  # a receive at the target is taken
    SOURCE = 1  # the source is read
    FETCH = 2  # an atomic reads its word; until it has placed the new value, no other atomic does
    PLACE = 3  # one unit is placed, or read at the target
    WORD = 4  # the word that follows the data is updated
    LAND = 5  # one unit of a result arrives
    RECEIVE = 6  # the target is told of a SEND or WRITE_IMM
    RETIRE = 7  # the request is completed, in the order posted
    GIVE_UP = 8  # no receive was ever there
    AGAIN = 9  # one unit is placed a second time
    SHOW = 10  # what was placed is seen by the PE whose memory it is in (see `views`)
    BELL = 11  # a doorbell arrives; `key` is the last request that it rings, `unit` its number
    LOSE = 12  # or is lost
    UNTOLD = 13  # instead of RETIRE: acknowledgements were lost until the retries were used up
    ADMIT = 14  # the target's adapter looks whether the segments that it goes to are still there (see `admission`)


FAULTS = (Act.GIVE_UP, Act.LOSE, Act.UNTOLD)  # what a network does where something went wrong
BELLS = (Act.BELL, Act.LOSE)
BESIDE = (Act.SHOW, *BELLS)  # no steps of requests in flight


class Event(NamedTuple):
    """One step of a request; `unit` counts its units, and is 0 where there is but one such step."""

    key: Key
    act: Act
    unit: int


class Place(NamedTuple):
    """Where bytes are."""

    space: Space
    lo: int
    hi: int


class Update(NamedTuple):
    """What an atomic does to its word: the operation's name and its operands, unsigned."""

    op: str
    value: int
    cond: int
    width: int


class Order(IntEnum):
    """URMA's placement order flags."""

    NONE = 0
    RELAX = 1
    STRONG = 2


@dataclass(slots=True, eq=False)
class Request:
    """One request in flight. What follows `signaled` changes; the rest is fixed when it is posted."""

    key: Key
    kind: Kind
    queue: Hashable
    target: int  # PE
    at: Place  # at the target
    units: Sequence[tuple[int, int]]  # of `at`, each placed whole
    source: Place | None = None  # read late; None: `data` are there already
    update: Update | None = None  # of an ATOMIC
    word: Place | None = None  # a flag that follows the data, with its update
    word_update: Update | None = None
    result: Place | None = None  # of READ and ATOMIC
    rest: tuple[Place, ...] = ()  # of `source` or `result`, where it lies in several places
    keep: bool = False  # no place: the machine keeps the result for the program
    fence: bool = False
    order: Order = Order.NONE
    needs_receive: bool = False
    tells: bool = False  # the target gets a receive completion
    taker: Hashable = None  # the receive queue that it takes from; None: the target PE has one of its own
    segments: tuple[Hashable, ...] = ()  # that may end, of `at` and `word`
    blocks: int = 1  # that it has in its queue's ring
    immediate: int | None = None
    bad: str = ""  # the status it is bound to fail with
    ring: bool = False  # it is on a queue pair: retired by a completion
    signaled: bool = True
    stripe: int = 0  # which of the queue pairs that carry its queue
    put: Key | None = None  # of the first piece, where a put is carried in pieces
    ascending: bool = False
    call: Any = None  # the `tags.Call` that it is part of
    repeats: bool = False  # each of its units is placed twice
    split: bool = False  # an atomic against other atomics only: a plain store may come between its read and its write
    full: int = 0  # the bits of all units
    gates: tuple[tuple[Key, Stage, Stage], ...] = ()  # (other, its stage, my stage that must wait for it)
    held: frozenset[Stage] = frozenset()  # my stages in them
    opened: int = 0  # so many of them, the first ones, are known to be open
    data: bytes = b""
    read: bool = True  # the source was
    rung: bool = True
    admitted: bool = True  # to its segments, or it will be when it takes a receive
    accepted: bool = True
    denied: bool = False  # it has found no receive, and waits for one
    fetched: bool = True
    placed: int = 0  # bits of units,
    landed: int = 0
    again: int = 0
    worded: bool = True
    told: bool = True
    receive: int | None = None  # the number of the receive that it has taken
    retired: bool = True
    acked: bool = True  # where there is time: its acknowledgement, or answer, has come back
    fenced: bool = False  # its context has had a fence since
    spread: bool = False  # and that orders other queues of the default context as well

    @property
    def pe(self) -> int:
        """The PE that posted it."""
        return self.key[0]

    def landing(self, first: int, last: int) -> Place:
        """Where some bytes of the result go: they lie in one place."""
        assert self.result is not None
        for space, lo, hi in (self.result, *self.rest):
            if last <= hi - lo:
                return Place(space, lo + first, lo + last)
            first, last = first - (hi - lo), last - (hi - lo)
        raise AssertionError("a unit beyond the result")

    @property
    def sets(self) -> bool:
        """Whether it is an atomic that writes without reading: no other one of that word is half done meanwhile."""
        return self.kind is Kind.ATOMIC and not self.split and self.update is not None and self.update.op == "set"

    def own(self, place: Place) -> bool:
        """Whether it is a PE's store to its own memory."""
        return self.kind is Kind.STORE and place.space == self.pe

    @property
    def default(self) -> bool:
        """Whether calls on the default context reach it."""
        queue = self.queue
        return self.ring or (isinstance(queue, tuple) and queue[0] == "ctx" and queue[-1] in (0, ""))

    def cut(self, unit: int, pieces: Sequence[Place] = ()) -> None:
        """Cuts it into units; pieces: as in `units_of`."""
        self.units = units_of(self.at.lo, self.at.hi, unit, pieces)
        self.full = self.units.bits if type(self.units) is Units else (1 << len(self.units)) - 1

    def reached(self, stage: Stage) -> bool:
        """Whether it is at a stage."""
        if stage is SOURCE:
            return self.read
        if stage is ACCEPTED:
            return self.accepted
        if stage is RETIRED:
            return self.retired
        placed = self.accepted and self.placed == self.full and self.worded
        if stage is PLACED or not placed:
            return placed
        answered = self.result is None or self.landed == self.full
        return self.acked and answered and (not self.repeats or self.again == self.full)

    def events(self, stage: Stage) -> list[Event]:
        """The events that bring it to a stage."""
        found = []
        if stage is Stage.SOURCE and self.source is not None:
            found.append(Event(self.key, Act.SOURCE, 0))
        elif stage is Stage.ACCEPTED and self.needs_receive:
            found.append(Event(self.key, Act.ACCEPT, 0))
        elif stage is Stage.RETIRED:
            found.append(Event(self.key, Act.RETIRE, 0))
        elif stage in (Stage.PLACED, Stage.ANSWERED):
            units = range(len(self.units))
            if self.split:
                found.append(Event(self.key, Act.FETCH, 0))
            found += [Event(self.key, Act.PLACE, i) for i in units]
            if self.word is not None:
                found.append(Event(self.key, Act.WORD, 0))
            if stage is Stage.ANSWERED and self.result is not None:
                found += [Event(self.key, Act.LAND, i) for i in units]
            if stage is Stage.ANSWERED and self.repeats:
                found += [Event(self.key, Act.AGAIN, i) for i in units]
        return found

    @property
    def over(self) -> bool:
        """Whether nothing of it is still to come."""
        return self.retired and self.told and self.read and self.reached(ANSWERED)

    def copy(self) -> Request:
        """Its state now."""
        return copy(self)

    def digest(self) -> tuple[object, ...]:
        """All of it that can still matter."""
        return (
            self.key, self.kind, self.queue, self.at, self.source, self.update, self.word, self.word_update,
            self.result, self.rest, self.gates, self.data, self.read, self.rung, self.accepted, self.fetched,
            self.placed, self.landed, self.again, self.worded, self.told, self.retired, self.fenced, self.bad,
            self.order, self.signaled, self.receive, self.admitted, self.denied,
            self.spread,
        )  # fmt: skip


def units_of(lo: int, hi: int, unit: int, pieces: Sequence[Place] = ()) -> Sequence[tuple[int, int]]:
    """The aligned pieces of a range that are placed whole; of an empty range none. pieces: of a result in several
    places, at whose borders units end as well."""
    if len(pieces) <= 1 and (hi - lo) // unit > UNITS_MAX:
        return Units(lo, hi, unit)
    cuts = [lo, *range(lo // unit * unit + unit, hi, unit), hi]
    if len(pieces) > 1:
        borders = accumulate((piece.hi - piece.lo for piece in pieces), initial=lo)
        cuts = sorted({*cuts, *borders})
    return tuple(pairwise(cuts)) if hi > lo else ()
