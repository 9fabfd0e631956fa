"""The fabric of a recorded run on `nic`: what an adapter carries out later, lands at times of its own.

The adapter takes the locks of the words concerned as it places bytes (`nic_clocks.c`), and keeps the times until they
are written here, at the next call; a process that is killed loses those of what has landed since.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ..errors import StateError
from ..fabric.interface import Counter, Status
from ..fabric.nic.fabric import NicFabric
from ..records import Conditions, Records
from .fabric import RecordingFabric
from .heap import RecordingHeap
from .recorder import Range
from .stream import LANDED, PRIVATE, Frame

AT_ONCE = 256  # landings that are fetched by one call


class RecordingNicFabric(RecordingFabric, NicFabric):
    """As `nic`; each call also adds to the stream."""

    watched = True

    def attach(self, nbytes: int) -> RecordingHeap:
        """As ever; from here on the adapter keeps its times."""
        heap = super().attach(nbytes)
        self._fetched = self.ffi.new("sm_landing[]", AT_ONCE)
        if self.lib.sm_nic_clocked(self.adapter):
            raise MemoryError("no memory for the times of an adapter")
        return heap

    def nic(self) -> NoReturn:
        """Raises StateError: the requests of queue pairs are not recorded."""
        raise StateError(
            "SHMEMU_SANITIZE does not record queue pairs: unset it, and use shmemu check --races on sim", pe=self.me
        )

    def submit(
        self, q: int, ops: Records, start: int = 0, timeout_s: float = 0.0, reached: Counter | None = None
    ) -> tuple[Status, int]:
        """As on `nic`."""
        status, done = super().submit(q, ops, start, timeout_s, reached)
        self.refuse(status)
        return status, done

    def test(self, all_of: Conditions) -> npt.NDArray[np.bool_]:
        """As ever, after a step of the adapter."""
        self.progress()
        return super().test(all_of)

    def _ends(self) -> None:
        while self.lib.sm_nic_step(self.adapter, 1 << 20) > 0:  # what is in flight as the program ends belongs to it
            pass
        super()._ends()

    def _landed(self) -> list[Range]:
        n, landed, brought = AT_ONCE, self._fetched, []
        while n == AT_ONCE:
            n = int(self.lib.sm_nic_landed(self.adapter, landed, AT_ONCE, self._time))
            if n < 0:
                raise MemoryError("no memory for the times of an adapter")
            rows: list[Any] = self.ffi.unpack(landed, n)
            brought += [(row.lo, row.hi) for row in rows if row.pe == PRIVATE]
            packed = [LANDED.pack(row.time, row.op, row.lo, row.hi, row.pe, row.act) for row in rows if row.pe >= 0]
            if packed:
                self._write(Frame.LANDED, b"".join(packed))
        for each in brought:
            self._pending.stored(*each)
        return brought

    def _changed(self) -> Iterator[Range]:
        with self._writing:
            self._landed()
            found = list(super()._changed())
            since = self._landed() if found else []  # a result may have come while the memory was looked at
        return (one for one in found if not any(lo < one[1] and one[0] < hi for lo, hi in since))
