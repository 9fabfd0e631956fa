"""What a recorded run writes: the stream of this PE, its clock, and who speaks.

All threads of a PE write one program: whoever comes first in its stream comes first. What another PE may learn of goes
by times alone.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..fabric.direct import DirectFabric, clock_bytes
from ..fabric.events import Kind
from ..memory import caller
from ..runtime import here
from .heap import RecordingHeap, Spans
from .stream import ALLOCATED, Frame, Stream, access

Range = tuple[int, int]  # addresses: first byte, behind the last


class Recorder(DirectFabric):
    """As `direct`, without its C fronts; has the stream and what is written to it."""

    heap: RecordingHeap
    heaps = RecordingHeap

    def __init__(
        self, me: int, n: int, window: Callable[[int, int], list[int]], cores: int, survive: bool, isa: str,
        path: str, run: str, **more: Any,
    ) -> None:  # fmt: skip
        super().__init__(me, n, window, cores, survive, isa, **more)
        self.caps = replace(self.caps, locks=self._locked, unrecorded=self._unrecorded)
        self._path, self._run = path, run
        self._writing = threading.RLock()
        self._speaks = threading.local()
        self._time = self.ffi.new("uint64_t *")
        self._done = self.ffi.new("int64_t *")
        self._same: set[object] = set()  # accesses since the last frame of another kind

    def attach(self, nbytes: int) -> RecordingHeap:
        """As ever; behind the heap lie the clocks."""
        super().attach(nbytes + clock_bytes())
        self.lib.sm_clocks_at(self.pe, nbytes)
        about = {"pe": self.me, "n": self.n, "run": self._run, "bases": self.heap.bases, "nbytes": nbytes}
        self.stream = Stream(self._path, about)
        atexit.register(self._ends)
        return self.heap

    def _ends(self) -> None:
        with self._writing:
            self._landed()
            self.stream.close(self.now_there())

    def close(self) -> None:
        """Ends the stream."""
        atexit.unregister(self._ends)
        self._ends()
        super().close()

    def bind(self, on: bool, barrier_all: int = 0, sync_all: int = 0, one_host: bool = True) -> None:
        """The C fronts tell nobody what they do: they stay off."""
        super().bind(False)

    def learn(self, name: str, arguments: tuple[Any, Any, Any, Any], plan: Any) -> None:
        """As those."""

    # ---- what is written ----

    def now_there(self) -> int:
        """The time of this PE's clock."""
        return int(self._time[0])

    def _landed(self) -> list[Range]:
        """Writes what has landed since the last call; the program is later than that from here on. The addresses of
        results that have come. Here all is over as it is called."""
        return []

    def where(self) -> str:
        """The line of the program that calls, or launched what runs."""
        return getattr(self._speaks, "line", None) or caller()

    def speaks_for(self, line: str) -> None:
        """The calling thread runs what was launched at a line."""
        self._speaks.line = line

    def _write(self, kind: Frame, payload: bytes, flags: int = 0, q: int = 0, time: int | None = None) -> int:
        if self._same:
            self._same.clear()
        if self.stream.closed:
            return 0
        return self.stream.frame(kind, self._time[0] if time is None else time, payload, flags, q)

    @contextlib.contextmanager
    def _unrecorded(self) -> Iterator[None]:
        """Meanwhile the loads of this thread are none of the program's."""
        self._speaks.silent = True
        try:
            yield
        finally:
            self._speaks.silent = False

    def loaded(self, address: int, data: bytes) -> None:
        """Writes the load of a few bytes at an address, unless the same line has found the same there."""
        if getattr(self._speaks, "silent", False):
            return
        where = self.where()
        key = where, address, data
        if key not in self._same:
            span = self.heap.find(address, len(data))
            with self._writing:
                if span[0] == self.me:  # it may look for a flag: it is later than who has set it
                    self._time[0] = self.lib.sm_clocks_look(self.pe, span[1], len(data), self._time[0])
                self._add(Frame.ACCESS, where, Kind.LOAD, [span], "")
                self._same.add(key)

    def accessed(self, kind: Kind, spans: Spans, what: str = "", frame: Frame = Frame.ACCESS) -> None:
        """Writes an access, unless the same line has made it since the last call: it would be judged as that one."""
        where = self.where()
        key = where, kind, what, tuple(spans), frame
        with self._writing:
            if key not in self._same:
                self._add(frame, where, kind, spans, what)
                self._same.add(key)

    def _add(self, frame: Frame, where: str, kind: Kind, spans: Spans, what: str) -> None:
        if not self.stream.closed:
            payload = access(self.stream.text(where), kind, self.stream.text(what), spans)
            self.stream.frame(frame, self._time[0], payload)

    def _locked(self, offset: int, held: bool) -> None:
        with self._writing:
            token = self.stream.text(f"lock {offset}")
            self._write(Frame.ACQUIRE if held else Frame.RELEASE, token.to_bytes(4, "little"))

    def mark_live(self, offset: int, nbytes: int, live: bool) -> None:
        """An allocation has a name in reports."""
        super().mark_live(offset, nbytes, live)
        pe = here().current
        if live and pe is not None and pe.fabric is self:
            made = pe.heap.allocation(offset)
            with self._writing:
                text, where = self.stream.text(made.text), self.stream.text(made.where)
                self._write(Frame.ALLOCATED, ALLOCATED.pack(offset, made.nbytes, text, where))
