"""Where completions go and where receives wait: completion queues, which can overrun, and receive queues of buffers.

A completion queue that was declared (`Machine.rings`) is a ring of so many entries, and has 8 bytes of memory under its
name that change with every entry: who polls looks at those. One that was not takes everything.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from .requests import Key, Place

COUNTER = 8  # bytes that tell how many entries were ever written, and whether one was lost
OVERRUN = 1 << 63


@dataclass(frozen=True, slots=True)
class Completion:
    """What a completion queue says of a request, or of a receive. Source: see `shmem.nic`."""

    status: str
    key: Key
    queue: Hashable
    nbytes: int
    immediate: int | None = None
    receive: int | None = None  # the number of the receive that was taken


@dataclass(slots=True)
class Ring:
    """One completion queue with so many entries."""

    depth: int
    written: int = 0
    taken: int = 0
    overrun: bool = False  # an entry was lost: the queue is broken
    last: list[Completion] = field(default_factory=list)  # the entries that are in the ring, taken or not

    def add(self, told: Completion) -> bool:
        """Writes an entry; returns whether there was room."""
        if self.written - self.taken >= self.depth:
            self.overrun = True
            return False
        self.written += 1
        self.last = [*self.last[1 - self.depth :], told] if self.depth > 1 else [told]
        return True

    @property
    def counter(self) -> bytes:
        """What its bytes of memory hold."""
        return (self.written | (OVERRUN if self.overrun else 0)).to_bytes(COUNTER, "little")

    def digest(self) -> tuple[object, ...]:
        """All that can still matter."""
        return self.written, self.taken, self.overrun, tuple(self.last)  # a program may look at the ring itself


@dataclass(frozen=True, slots=True)
class Receive:
    """A posted buffer."""

    number: int
    place: Place


@dataclass(slots=True)
class ReceiveQueue:
    """The receives of one queue pair."""

    cq: Hashable  # where it tells of what came
    posted: list[Receive] = field(default_factory=list)
    taken: int = 0
    failed: tuple[Hashable, Key] | None = None  # its queue pair, and the request: what is posted comes back as flush

    def take(self) -> Receive:
        """The next buffer; there is one."""
        self.taken += 1
        return self.posted.pop(0)

    def drop(self) -> list[Receive]:
        """Empties it; returns what was posted."""
        dropped, self.posted = self.posted, []
        self.taken += len(dropped)
        return dropped

    def copy(self) -> ReceiveQueue:
        """The same state, apart."""
        return replace(self, posted=list(self.posted))

    def digest(self) -> tuple[object, ...]:
        """All that can still matter."""
        return self.cq, tuple(self.posted), self.failed
