"""A queue pair as the delivery model knows it: ring accounting, doorbells, order of completion, error and flush.

Blocks are counted as the hardware does: free-running 32-bit positions, `pi - ci + blocks <= depth`; polling a
completion gives back all blocks up to and including those of its request.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

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
    on_error: str = "error"  # what a failure does to the requests after it: flush, stop, or go on
    stopped: Key | None = None  # suspended: nothing after this request moves
    receives: Hashable = None  # its receive queue, where that has buffers
    patient: bool = False  # waits for a receive at the target for ever
    lossy: bool = False  # one of its doorbells may be lost
    lost: bool = False  # one was
    bells: list[tuple[Key, int]] = field(default_factory=list)  # on their way: up to which request, and a number
    bells_rung: int = 0
    asked: Key = (-1, -1)  # the last request that the program has rung for

    def room(self, blocks: int) -> bool:
        """Whether so many blocks may be posted."""
        return (self.pi - self.ci) % POSITIONS + blocks <= self.depth

    def add(self, request: Request) -> None:
        """Posts a request; there is room. It waits for a doorbell if it says so (`rung` is False)."""
        self.pi = (self.pi + request.blocks) % POSITIONS
        self.waiting.append(request.key)
        self.held.append((request.key, request.blocks))
        if self.doomed:
            request.bad = "flush"
        if request.bad:
            self._fails(request.key)
        if not request.rung:
            self.silent.append(request.key)

    def ring(self, flight: dict[Key, Request]) -> list[object]:
        """A doorbell: all that is posted is rung, at once or when it arrives. Returns what that made possible."""
        self.asked = max([self.asked, *self.silent[-1:]])
        if not self.lossy:
            return self._rung(self.silent[-1:], flight)
        if not self.silent:
            return []
        self.bells.append((self.silent[-1], self.bells_rung))
        self.bells_rung += 1
        return [("bell", *self.bells[-1])]

    def _rung(self, last: list[Key], flight: dict[Key, Request]) -> list[object]:
        found = [key for key in self.silent if [key] <= last]
        for key in found:
            self.silent.remove(key)
            if key in flight:  # and not flushed
                flight[key].rung = True
        return [("rung", key) for key in found]

    def bell(self, flight: dict[Key, Request], lost: bool) -> list[object]:
        """The first doorbell on its way arrives, or is lost: a later one rings for it as well."""
        last, _ = self.bells.pop(0)
        if lost:
            self.lost = True
            return []
        return self._rung([last], flight)

    def bell_events(self) -> list[Event]:
        """What may happen to the first doorbell on its way. One in the life of a queue is lost."""
        return [
            Event(key, act, number)
            for key, number in self.bells[:1]
            for act in ((Act.BELL,) if self.lost else (Act.BELL, Act.LOSE))
        ]

    def _fails(self, key: Key) -> None:
        """A request is bound to fail."""
        if self.on_error == "error":
            self.doomed = True
        elif self.on_error == "suspend":
            self.stopped = key if self.stopped is None else min(key, self.stopped)

    def special(self, request: Request) -> tuple[Event, ...] | None:
        """The events of a request that is not rung, or bound to fail, to be flushed or to wait; None for any other."""
        if self.stopped is not None and request.key > self.stopped:
            return ()
        if request.bad and (request.rung or self.failed):
            first = self.waiting[0] == request.key
            return (Event(request.key, Act.RETIRE, 0),) if first else ()
        return None if request.rung else ()

    def rests(self, key: Key, rung: bool) -> bool:
        """Whether a request does not move any more, since the queue is suspended; rung: or nobody has rung
        for it, and no failure flushes it."""
        if self.stopped is not None and key > self.stopped:
            return True
        return rung and not self.failed and self.asked < key in self.silent

    def doom(self, request: Request, status: str, flight: dict[Key, Request]) -> None:
        """A request turns out to fail: what was posted after it is flushed, or stops, or goes on."""
        request.bad = status
        self._fails(request.key)
        if self.on_error != "error":
            return
        self._flush(request, flight)

    def _flush(self, request: Request, flight: dict[Key, Request]) -> None:
        for key in self.waiting[self.waiting.index(request.key) + 1 :]:
            flight[key].bad = "flush"

    def untold(self, request: Request, flight: dict[Key, Request]) -> None:
        """Takes the first request off as failed, though its target has it: what it does there goes on."""
        self._fails(request.key)
        if self.on_error == "error":
            self._flush(request, flight)
            self.failed = True
        self.waiting.pop(0)

    def retire(self, request: Request) -> None:
        """Takes the first request off; a failure puts the queue into the state ERROR, if that is what it does."""
        assert self.waiting[0] == request.key
        self.waiting.pop(0)
        self.failed = self.failed or (bool(request.bad) and self.on_error == "error")

    def poll(self, key: Key) -> None:
        """A completion was polled: gives back the blocks up to its request's."""
        while self.held and self.held[0][0] <= key:
            self.ci = (self.ci + self.held.pop(0)[1]) % POSITIONS

    def reset(self) -> None:
        """Back to the state READY, empty."""
        self.pi = self.ci = 0
        self.waiting, self.held, self.silent, self.doomed, self.failed = [], [], [], False, False
        self.bells, self.stopped, self.asked = [], None, (-1, -1)

    def copy(self) -> QueueState:
        """The same state, apart."""
        return replace(
            self, waiting=list(self.waiting), held=list(self.held), silent=list(self.silent), bells=list(self.bells)
        )

    def digest(self) -> tuple[object, ...]:
        """All that can still matter."""
        used = (self.pi - self.ci) % POSITIONS
        lists = tuple(self.waiting), tuple(self.held), tuple(self.silent), tuple(self.bells)
        return self.cq, used, lists, self.doomed, self.failed, self.stopped, self.lost, self.asked
