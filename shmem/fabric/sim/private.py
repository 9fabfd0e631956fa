"""What a run on `sim` tells of private memory: accesses by calls, by lines of the program that say so, and changes.

What no line has told of is found by comparison (`pending`), and counts as a store before the line that calls then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenlet import getcurrent

from ...delivery.requests import Key, Place
from ...memory import caller
from ..events import Access, Kind, Span, Task
from ..events import Event as Told
from .pending import Pending

if TYPE_CHECKING:
    from .tasks import Job


class PrivateMemory:
    """The part of `Observed` that is about private memory."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.events: list[Told] = []
        self._pending = [Pending() for _ in range(job.program.n)]  # by PE

    @property
    def task(self) -> Task:
        """The task that runs."""
        assert self._job.running is not None
        return self._job.running.key

    @property
    def _own(self) -> int | None:
        return None if self._job.running is None else self._job.running.pe

    def _hidden(self, place: Place | None = None) -> bool:
        """Whether the program did not do this."""
        raise NotImplementedError

    def private(self, kind: Kind, address: int, nbytes: int) -> None:
        """A call reads or writes private memory of the program."""
        if nbytes and not self._hidden():
            self.events.append(Access(self.task, caller(), kind, self._private(address, nbytes)))

    def _private(self, address: int, nbytes: int) -> Span:
        return Span(("private", self._own), address, address + nbytes)

    def follow(self) -> None:
        """Compares the private memory of pending operations of the running task's PE."""
        if self._own is not None:
            for address, nbytes in self._pending[self._own].changes():
                self._changed(address, nbytes)

    def touched(self, key: Key, address: int, now: bytes, expected: bytes) -> None:
        """What a result is to be written to: the program must not, before it is complete."""
        if self._own is not None and (found := self._pending[self._own].touched(key, address, now, expected)):
            self._changed(*found)

    def may_matter(self, lo: int, hi: int) -> bool:
        """Whether the running task, if it is who asks, has an operation with private memory between two addresses."""
        running = self._job.running
        return running is not None and running.thread is getcurrent() and self._pending[running.pe].any_in(lo, hi)

    def touches(self, kind: Kind, address: int, nbytes: int) -> None:
        """A line of the program is about to load or store private memory."""
        if kind is Kind.STORE and self._own is not None:
            self._pending[self._own].stored(address, address + nbytes)
        self.private(kind, address, nbytes)

    def _changed(self, address: int, nbytes: int) -> None:
        what = "store before this line"
        self.events.append(Access(self.task, caller(), Kind.STORE, self._private(address, nbytes), what))
