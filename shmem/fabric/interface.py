"""The interface that every fabric implements and that is all `shmem` knows of it.

A fabric gives each PE a heap, takes operation records (`shmem.records`), and says when they have reached which point
in the life of a transfer. Blocking methods return a `Status` after at most the time they were given, so that one
place (`shmem.waiting`) owns deadlines, notices and the death of peers. Ordering is a fabric's own affair: it gives
what `caps` says and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..records import Kind, Records


class Status(IntEnum):
    """How a blocking step of a fabric ended."""

    OK = 0
    TIMEOUT = -1  # the time given is over; call again to go on
    INTERRUPTED = -2  # a signal handler ran; call again to go on
    DIED = -3  # a peer was found dead
    MISMATCH = -4  # a barrier in which the PEs made different collective calls
    BAD_OP = -5  # a record that this fabric does not know


class Level(IntEnum):
    """How far `complete` has to bring posted operations (DESIGN: the life of a transfer)."""

    SOURCE = 0  # sources reusable
    RESULT = 1  # results of gets and fetching atomics are in place
    VISIBLE = 2  # at the target, for every reader


@dataclass(frozen=True)
class Caps:
    """What a fabric promises beyond OpenSHMEM."""

    whole: int  # bytes of the largest aligned block that is placed in one step
    in_order: bool  # requests to one PE take effect in the order posted
    wakes: bool  # a store by a peer wakes a sleeping waiter
    clock: str  # "monotonic" or "virtual"


@dataclass(frozen=True)
class Members:
    """The PEs of a barrier: its words are those of `slot` in the header of the leader, the first PE."""

    slot: int
    pes: tuple[int, ...]


@dataclass(frozen=True)
class Condition:
    """One own word (an offset in the heap) and the comparison it shall satisfy; `value` is its bit pattern."""

    offset: int
    kind: Kind
    cmp: int
    value: int


class Fabric(Protocol):
    """How the bytes of one PE travel."""

    caps: Caps
    me: int
    n: int
    heap: npt.NDArray[np.uint8]  # the own symmetric heap

    def peer(self, pe: int) -> npt.NDArray[np.uint8] | None:
        """The heap of a PE as memory of this process, None where loads and stores do not reach."""

    def queue(self, options: int = 0) -> int:
        """A new queue, one per context. Queue 0, of the default context, always exists."""

    def submit(self, q: int, ops: Records, start: int = 0, timeout_s: float = 0.0) -> tuple[Status, int]:
        """Posts records from `start` on. Returns the status and the number of the record at which it stopped:
        after TIMEOUT or INTERRUPTED (a WAIT or BARRIER record) the caller submits again from there."""

    def fence(self, q: int) -> None:
        """What was posted on `q` before takes effect before what is posted after, per target PE."""

    def complete(self, q: int, level: Level, pes: Sequence[int] | None = None) -> None:
        """Returns when what was posted on `q` (to `pes`, None = all) has reached `level`."""

    def wait(self, condition: Condition, timeout_s: float) -> Status:
        """Sleeps until the own word satisfies the condition."""

    def barrier(self, members: Members, call: int, timeout_s: float) -> Status:
        """Arrives at a barrier and waits for the others. `call` is the fingerprint of the collective call (0 is
        compared with nothing). After TIMEOUT or INTERRUPTED the same call goes on with it. Completes nothing."""

    def close(self) -> None:
        """Ends this PE's use of the fabric. Arrays over the heap stay readable."""
