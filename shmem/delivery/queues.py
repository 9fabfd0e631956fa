"""A queue pair as the delivery model knows it: ring accounting, doorbells, order of completion, error and flush.

Blocks are counted as the hardware does: free-running 32-bit positions, `pi - ci + blocks <= depth`; polling a
completion gives back all blocks up to and including those of its request.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from .requests import Act, Event, Key, Request

POSITIONS = 1 << 32
ENOUGH = 1 << 15


@dataclass(slots=True)
class QueueState:
    """One queue pair."""

    cq: Hashable  # where its completions go
    depth: int = ENOUGH  # blocks
    pi: int = 0
    ci: int = 0
    waiting: list[Key] = field(default_factory=list)  # posted and not retired
    held: list[tuple[Key, int]] = field(default_factory=list)  # their blocks, until a completion is polled
    silent: list[Key] = field(default_factory=list)  # posted and not rung
    doomed: bool = False  # a request on it is bound to fail: what is posted after that moves nothing
    failed: bool = False  # it has: the state ERROR

    def room(self, blocks: int) -> bool:
        """Whether so many blocks may be posted."""
        return (self.pi - self.ci) % POSITIONS + blocks <= self.depth

    def add(self, request: Request, blocks: int = 1) -> None:
        """Posts a request; there is room. It waits for a doorbell if it says so (`rung` is False)."""
        self.pi = (self.pi + blocks) % POSITIONS
        self.waiting.append(request.key)
        self.held.append((request.key, blocks))
        if self.doomed:
            request.bad = "flush"
        self.doomed = self.doomed or bool(request.bad)
        if not request.rung:
            self.silent.append(request.key)

    def ring(self, flight: dict[Key, Request]) -> None:
        """A doorbell: all that is posted is rung."""
        for key in self.silent:
            flight[key].rung = True
        self.silent.clear()

    def special(self, request: Request) -> tuple[Event, ...] | None:
        """The events of a request that is not rung, or bound to fail or to be flushed; None for any other."""
        if request.bad and (request.rung or self.failed):
            first = self.waiting[0] == request.key
            return (Event(request.key, Act.RETIRE, 0),) if first else ()
        return None if request.rung else ()

    def doom(self, request: Request, status: str, flight: dict[Key, Request]) -> None:
        """A request turns out to fail: what was posted after it is flushed."""
        request.bad, self.doomed = status, True
        for key in self.waiting[self.waiting.index(request.key) + 1 :]:
            flight[key].bad = "flush"

    def retire(self, request: Request) -> None:
        """Takes the first request off; a failure puts the queue into the state ERROR."""
        assert self.waiting[0] == request.key
        self.waiting.pop(0)
        self.failed = self.failed or bool(request.bad)

    def poll(self, key: Key) -> None:
        """A completion was polled: gives back the blocks up to its request's."""
        while self.held:
            first, blocks = self.held.pop(0)
            self.ci = (self.ci + blocks) % POSITIONS
            if first == key:
                return

    def reset(self) -> None:
        """Back to the state READY, empty."""
        self.pi = self.ci = 0
        self.waiting, self.held, self.silent, self.doomed, self.failed = [], [], [], False, False

    def copy(self) -> QueueState:
        """The same state, apart."""
        lists = list(self.waiting), list(self.held), list(self.silent)
        return QueueState(self.cq, self.depth, self.pi, self.ci, *lists, self.doomed, self.failed)

    def digest(self) -> tuple[object, ...]:
        """All that can still matter."""
        used = (self.pi - self.ci) % POSITIONS
        return self.cq, used, tuple(self.waiting), tuple(self.held), tuple(self.silent), self.doomed, self.failed
