"""A run on `nic` as a timeline: what each PE calls, and the life of each of its transfers."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...delivery.requests import Act, Kind
from ...records import Conditions, Op, Records
from ...trace import perfetto
from ..direct import DirectHeap
from ..interface import Counter, Level, Members, Status
from .fabric import NicFabric
from .timeline import POSTED, Call, Happened, Seen, timeline

MARKS_MAX = 200_000  # of a PE; later ones are left out, and the file says so


class TracedFabric(NicFabric):
    """An adapter that writes down when it does what, and the calls of its PE."""

    watched = True

    def __init__(self, *job: Any, path: str, gather: Callable[[Any], list[Any] | None], **more: Any) -> None:
        super().__init__(*job, **more)
        self._path, self._gather = path, gather
        self._calls: list[Call] = []

    def attach(self, nbytes: int) -> DirectHeap:
        """From here on everything is written down."""
        heap = super().attach(nbytes)
        if self.lib.sm_net_log(self.lib.sm_nic_net(self.adapter), MARKS_MAX):
            raise MemoryError("no memory for a trace")
        return heap

    def _note(self, name: str, start: int) -> None:
        if len(self._calls) < MARKS_MAX:
            self._calls.append(Call(name, start, time.monotonic_ns()))

    def submit(
        self, q: int, ops: Records, start: int = 0, timeout_s: float = 0.0, reached: Counter | None = None
    ) -> tuple[Status, int]:
        """A call of the program."""
        began = time.monotonic_ns()
        try:
            return super().submit(q, ops, start, timeout_s, reached)
        finally:
            names = [Op(each).name.lower() for each in ops["op"][start : start + 3]]
            more = [] if len(ops) - start <= 3 else [f"and {len(ops) - start - 3} more"]
            self._note(", ".join(names + more), began)

    def fence(self, q: int) -> None:
        """A call of the program."""
        began = time.monotonic_ns()
        super().fence(q)
        self._note("fence", began)

    def complete(self, q: int, level: Level, pes: Sequence[int] | None = None, timeout_s: float | None = None) -> None:
        """A call of the program."""
        began = time.monotonic_ns()
        try:
            super().complete(q, level, pes, timeout_s)
        finally:
            self._note("quiet" if level is Level.VISIBLE else f"completion ({level.name.lower()})", began)

    def wait(self, any_of: Conditions, timeout_s: float) -> tuple[Status, int]:
        """A call of the program."""
        began = time.monotonic_ns()
        try:
            return super().wait(any_of, timeout_s)
        finally:
            self._note("wait" if timeout_s > 0 else "test", began)

    def test(self, all_of: Conditions) -> npt.NDArray[np.bool_]:
        """A call of the program."""
        began = time.monotonic_ns()
        try:
            return super().test(all_of)
        finally:
            self._note("test", began)

    def barrier(self, members: Members, call: int, timeout_s: float) -> Status:
        """A call of the program."""
        began = time.monotonic_ns()
        try:
            return super().barrier(members, call, timeout_s)
        finally:
            self._note("barrier", began)

    def _seen(self) -> Seen:
        n, more = self.ffi.new("uint64_t *"), self.ffi.new("int *")
        marks = self.lib.sm_net_logged(self.lib.sm_nic_net(self.adapter), n, more)
        found = [
            Happened(
                mark.ns, "posted" if mark.act == POSTED else Act(mark.act).name.lower(), mark.number,
                Kind(mark.kind).name.lower(), mark.target, mark.queue - self.first_pair, int(mark.wr_id),
                mark.space, mark.lo, mark.hi,
            )
            for mark in self.ffi.unpack(marks, int(n[0]))
        ]  # fmt: skip
        return Seen(self._calls, found, bool(more[0]) or len(self._calls) == MARKS_MAX)

    def close(self) -> None:
        """PE 0 writes what all have seen; a file that can't be written is told of."""
        everyone = self._gather(self._seen())
        if everyone is not None:
            about: dict[str, str | int] = {"profile": self.delivery.profile.name, "seed": str(self.delivery.seed)}
            try:
                perfetto.write(timeline(everyone, about), self._path)
            except OSError as error:
                sys.stderr.write(f"shmemu: the trace can't be written to {self._path}: {error.strerror}\n")
        super().close()
