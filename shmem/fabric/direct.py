"""The `direct` fabric: PEs are processes of one host, a put is a store into the peer's part of a shared window.

All of it is in the C core; this file turns its calls into the interface. Everything posted is complete when `submit`
returns, so `fence` and `complete` only order stores on weakly ordered CPUs and wake waiters of the own PE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..enums import CMP, SIGNAL
from ..records import Records
from .interface import Caps, Condition, Level, Members, Status

FOREVER_S = 9e9  # what C takes as "no limit"


def nanoseconds(timeout_s: float) -> int:
    """A timeout in seconds as C takes it."""
    return int(max(0.0, min(timeout_s, FOREVER_S)) * 1e9)


class DirectFabric:
    """Loads and stores on the windows of the other PEs. `segments` are the addresses of all segments here."""

    caps = Caps(whole=8, in_order=True, wakes=True, clock="monotonic")

    def __init__(
        self, me: int, segments: Sequence[int], heap_bytes: int, cores: int, survive: bool, isa: int, keep: object
    ) -> None:
        from .._native import _core, _hot

        self.lib: Any = _core.lib
        self.ffi: Any = _core.ffi
        self._hot: Any = _hot
        self.me, self.n, self.heap_bytes = me, len(segments), heap_bytes
        self.isa = isa
        self.lib.sm_select_isa(isa)
        self._keep = keep  # the window: its memory must not go before the arrays over it
        self.pe: Any = self.lib.sm_open(me, self.n, list(segments), heap_bytes, cores, survive)
        if self.pe == self.ffi.NULL:
            raise MemoryError("no memory for the tables of the direct fabric")
        self.bulk_bytes = int(self.lib.sm_bulk_bytes(self.pe))  # from here on the copies of a batch bypass the cache
        self._segments = list(segments)
        self.heap = self._view(me)
        self.lib.sm_announce(self.pe)

    def _view(self, pe: int) -> npt.NDArray[np.uint8]:
        start = self._segments[pe] + self.lib.sm_head_bytes()
        memory = self.ffi.buffer(self.ffi.cast("char *", start), self.heap_bytes)
        return np.frombuffer(memory, dtype=np.uint8)

    def bind(self, on: bool, barrier_all: int = 0, sync_all: int = 0) -> None:
        """Lets the C fronts of the hot calls work on this PE, or stops them. Takes the fingerprints of two of them."""
        address = int(self.ffi.cast("uintptr_t", self.pe)) if on else 0
        self._hot.bind(address, CMP, SIGNAL, self.isa, barrier_all, sync_all)

    def peer(self, pe: int) -> npt.NDArray[np.uint8] | None:
        """The heap of a PE; from now on its waiters look at their words every millisecond."""
        self.lib.sm_set_viewed(self.pe, pe)
        return self._view(pe)

    def queue(self, options: int = 0) -> int:
        """Always 0: nothing is ever pending, so that all contexts share one queue."""
        return 0

    def submit(self, q: int, ops: Records, start: int = 0, timeout_s: float = 0.0) -> tuple[Status, int]:
        """Runs the records in order. The GIL is released meanwhile."""
        status, done = self._hot.run_at(
            int(self.ffi.cast("uintptr_t", self.pe)), self._hot.address(ops), len(ops), start, nanoseconds(timeout_s)
        )
        return Status(status), done

    def fence(self, q: int) -> None:
        """A full memory fence; wakes the own PE's waiters."""
        self.lib.sm_fence(self.pe)

    def complete(self, q: int, level: Level, pes: Sequence[int] | None = None) -> None:
        """As fence: everything posted is complete already."""
        self.lib.sm_quiet(self.pe)

    def wait(self, condition: Condition, timeout_s: float) -> Status:
        """Spins briefly, then sleeps on a futex of the own header."""
        word = self.ffi.cast("char *", self._segments[self.me] + self.lib.sm_head_bytes() + condition.offset)
        if timeout_s <= 0:
            held = self.lib.sm_test(word, condition.kind, condition.cmp, condition.value)
            return Status.OK if held else Status.TIMEOUT
        return Status(
            self.lib.sm_wait(self.pe, word, condition.kind, condition.cmp, condition.value, nanoseconds(timeout_s))
        )

    def barrier(self, members: Members, call: int, timeout_s: float) -> Status:
        """A counter in the leader's header; the last to arrive wakes all others with one system call."""
        leader, n = members.pes[0], len(members.pes)
        return Status(self.lib.sm_barrier(self.pe, members.slot, leader, n, call, nanoseconds(timeout_s)))

    def entered(self, pe: int, slot: int) -> int:
        """How many barriers of a slot a PE has entered: tells who is missing."""
        return int(self.lib.sm_entered(self.pe, pe, slot))

    def call_text(self, pe: int) -> Any:
        """The 512 bytes in a PE's header in which it shows its collective call after a mismatch."""
        return self.ffi.buffer(self.lib.sm_call_text(self.pe, pe), 512)

    def mark_live(self, offset: int, nbytes: int, live: bool) -> None:
        """Tells the C fronts which part of the heap is allocated."""
        self.lib.sm_mark_live(self.pe, offset, nbytes, live)

    def dead(self, *, look: bool) -> list[int]:
        """The PEs known to be dead; with `look` after looking at every process."""
        found = self.lib.sm_find_dead(self.pe) if look else self.lib.sm_any_dead(self.pe)
        if not found:
            return []
        return [pe for pe in range(self.n) if self.lib.sm_alive(self.pe, pe) == 3]

    def counts(self) -> dict[str, int]:
        """Since init, of this PE: sleeps entered, wake calls made, waiters those woke, and wake-ups missed (waits that
        found their word only when the cap of a sleep was over: a store that wakes nobody, or a fault)."""
        counts = self.ffi.new("sm_counts *")
        self.lib.sm_counts_read(self.pe, counts)
        return {name: int(getattr(counts, name)) for name in ("sleeps", "wakes", "woken", "missed")}

    def close(self) -> None:
        """The C fronts stop; windows and tables stay, since arrays and the exit handler use them."""
        self.bind(False)
