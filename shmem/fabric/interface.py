"""The interface that every fabric implements and that is all `shmem` knows of it.

A fabric gives each PE a heap, takes operation records (`shmem.records`), and says when they have reached which point
in the life of a transfer. Blocking methods return a `Status` after at most the time they were given, so that one
place (`shmem.waiting`) owns deadlines, notices and the death of peers. Ordering is a fabric's own affair: it gives
what `caps` says and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ..records import Conditions, Records

if TYPE_CHECKING:
    from ..config import Settings
    from ..nic.engine import Engine

Counter = npt.NDArray[np.int64]  # of one element
CONTEXTS = 64  # of a PE at a time, besides the default one


class Status(IntEnum):
    """How a blocking step of a fabric ended."""

    OK = 0
    TIMEOUT = -1  # the time given is over; call again to go on
    INTERRUPTED = -2  # a signal handler ran; call again to go on
    DIED = -3  # a peer was found dead
    MISMATCH = -4  # a barrier in which the PEs made different collective calls
    BAD_OP = -5  # a record that this fabric does not know
    SKIPPED = -6  # a job of a stream that was not run, since an earlier one had failed
    CANCELLED = -7  # a job of a stream that was closed before it had ended
    BUSY = -8  # another thread of this PE is in a barrier of that slot; nothing was done
    STUCK = -9  # a request that a record waits for does not move
    NO_MEMORY = -10
    FAILED = -13  # a quiet found that a queue pair had failed


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
    peer_stores: Callable[[int], bool]  # whether loads and stores of this process reach the heap of that PE
    tags: bool = False  # it knows which call wrote a byte (`shmem.check.accept`)
    locks: Callable[[int, bool], None] | None = None  # is told that a lock is held, or about to be let go
    # is told (offset, bytes, whether they are written) of what a collective call does to the own arrays in place
    in_place: Callable[[Sequence[tuple[int, int, bool]]], None] | None = None
    joined: Callable[[bool], None] | None = None  # is told that a put with signal in several records begins, or is over
    unrecorded: Callable[[], AbstractContextManager[None]] | None = None  # loads meanwhile are not the program's


@dataclass(frozen=True)
class Members:
    """The PEs of a barrier: its words are those of `slot` in the header of the leader, the first PE."""

    slot: int
    pes: tuple[int, ...]


class Heap(Protocol):
    """The memory of one PE that the others reach: what `attach` gives."""

    memory: npt.NDArray[np.uint8]
    base: int  # address of its first byte in this process

    def peer(self, pe: int) -> memoryview | None:
        """The heap of a PE in this process, None where loads and stores do not reach. From then on its waiters expect
        stores that wake nobody."""

    def let_go(self) -> None:
        """Forgets the memory: from now on only the arrays over it keep it."""

    @property
    def mapped(self) -> bool:
        """Whether the own memory is there still."""

    def seen(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """An array over the heap of a PE as programs get it: itself, or one whose accesses are noticed."""

    def raw(self, offset: int, nbytes: int) -> memoryview:
        """A part as plain bytes."""

    def fill(self, offset: int, nbytes: int, value: int) -> None:
        """Sets all bytes of a part to one value."""

    def move(self, target: int, source: int, nbytes: int) -> None:
        """Copies a part into another, apart from it."""


class Job(Protocol):
    """Records that a stream runs, or has run."""

    @property
    def status(self) -> Status:
        """How they ended, once `wait` gave OK; SKIPPED after the failure of an earlier job."""

    @property
    def at(self) -> int:
        """The number of the record at which they are, or stopped."""

    def wait(self, timeout_s: float) -> Status:
        """Sleeps until the job is done."""


class Executor(Protocol):
    """What runs the jobs of one stream in order, while the program goes on."""

    def launch(self, q: int, ops: Records, timeout_s: float) -> Job:
        """Adds a job; `timeout_s` limits each from its own start. The records must live until it is done."""

    def close(self) -> None:
        """Ends the thread behind it. No job is begun any more; one that waits is given up, or ends some time."""


class Gang(Protocol):
    """Workers of a PE that run at the same time."""

    def run(self) -> None:
        """Runs all to their end."""

    def meet(self, limit_s: float) -> Status:
        """One of them waits for all: OK, TIMEOUT, or DIED where the meeting was broken."""

    def abort(self) -> None:
        """Nobody meets any more: who waits gets DIED."""


class Fabric(Protocol):
    """How the bytes of one PE travel."""

    caps: Caps
    me: int
    n: int
    inner: int  # the queue of the collectives, which complete nothing of the program's contexts
    meet_bytes: int  # copying so many bytes takes about as long as a barrier
    frees: int  # how often a block of the heap was given back
    bulk_bytes: int  # from so many on, the copies of a batch bypass the cache
    spill_bytes: int  # and those of a collective in which every PE gets so many

    def attach(self, nbytes: int) -> Heap:
        """Gives every PE a heap of `nbytes`, zero and not touched. Collective; once, before anything else."""

    def queue(self) -> int:
        """A new queue, one per context. Queue 0, of the default context, always exists. Raises ContextError past
        the limit."""

    def release(self, q: int) -> None:
        """Gives a queue back, complete, for the next context."""

    def pending(self, q: int) -> int:
        """How many records were posted on `q` since it was last completed (VISIBLE, to all)."""

    def submit(
        self, q: int, ops: Records, start: int = 0, timeout_s: float = 0.0, reached: Counter | None = None
    ) -> tuple[Status, int]:
        """Posts records from `start` on. Returns the status and the number of the record at which it stopped:
        after TIMEOUT or INTERRUPTED (a WAIT or BARRIER record) the caller submits again from there. `reached` gets
        that number as well, even where a signal handler raises before the caller has the result."""

    def hold(self, q: int, array: npt.NDArray[Any]) -> None:
        """An array that a nonblocking record, posted on `q` next, reads or writes: it lives until that is complete."""

    def learn(self, name: str, arguments: tuple[object, object, object, object], plan: object) -> None:
        """A collective of all PEs with these (target, source, root, size) is this plan: a native front may
        replay it. May do nothing."""

    def paused(self) -> AbstractContextManager[None]:
        """While it holds, other PEs run in this process (`sim`), and no call is taken for one of this PE."""

    def refuse(self, status: Status) -> None:
        """Raises what a status means that only some fabrics have: STUCK, NO_MEMORY, FAILED. Nothing for another."""

    def executor(self) -> Executor:
        """A new thread (or task) that runs records for a stream."""

    def gang(self, n: int, work: Callable[[int], None]) -> Gang | None:
        """Workers that run `work(0)` ... `work(n-1)`; None where threads will do."""

    def nic(self) -> Engine | None:
        """The adapter under the queue pairs of `shmem.nic`; None where there is none."""

    def fence(self, q: int) -> None:
        """What was posted on `q` before takes effect before what is posted after, per target PE."""

    def complete(self, q: int, level: Level, pes: Sequence[int] | None = None, timeout_s: float | None = None) -> None:
        """Returns when what was posted on `q` (to `pes`, None = all) has reached `level`. Raises ShmemTimeout where
        nothing moves it for so long, None = the fabric's own limit."""

    def wait(self, any_of: Conditions, timeout_s: float) -> tuple[Status, int]:
        """Sleeps until one of the own words satisfies its condition; with OK comes which one, the first in order."""

    def test(self, all_of: Conditions) -> npt.NDArray[np.bool_]:
        """Which of the own words satisfy their conditions now; acquires what those cover."""

    def barrier(self, members: Members, call: int, timeout_s: float) -> Status:
        """Arrives at a barrier and waits for the others. `call` is the fingerprint of the collective call (0 is
        compared with nothing). After TIMEOUT or INTERRUPTED the same call goes on with it. Completes nothing.
        A slot holds one barrier at a time: threads of a PE meet in teams of their own, or get BUSY."""

    def disown(self) -> None:
        """The calling thread does not go on with the barriers that it has entered: another one may."""

    def entered(self, pe: int, slot: int) -> int:
        """How many barriers of a slot a PE has entered: tells who is missing."""

    def rounds(self, members: Members) -> int:
        """How many barriers of these members are complete: the same for all that are in none."""

    def unfinished(self, slot: int) -> int | None:
        """The fingerprint of a barrier of a slot that this PE has entered and not left; None if there is none."""

    def team(self, members: Members) -> None:
        """Prepares the slot of a new team at this PE, one of its members: nobody is in a barrier of its last team, and
        the first of this one comes after all members have called this."""

    def show(self, slot: int, value: int) -> None:
        """Shows a word of 64 bits to the other members of a slot's team, until the next one; a barrier makes it
        visible."""

    def shown(self, pe: int, slot: int) -> int:
        """The word that a member of a slot's team shows."""

    def start(self, settings: Settings, in_job: bool) -> None:
        """Everything is attached: calls may come. in_job: other processes are to be told how this one ends."""

    def mark_live(self, offset: int, nbytes: int, live: bool) -> None:
        """A part of the heap was allocated, or freed."""

    def dead(self, *, look: bool) -> list[int]:
        """The PEs known to be dead; with `look` after looking at every process."""

    def call_text(self, pe: int) -> Any:
        """The 512 writable bytes in which a PE shows its collective call after a mismatch."""

    def counts(self) -> dict[str, int]:
        """Since init, of this PE: what it took to wait; see there."""

    def now(self) -> float:
        """Seconds, by the clock of `caps.clock`."""

    def compute(self, seconds: float) -> None:
        """The program is busy for so long: virtual clocks go on."""

    def spin(self) -> None:
        """One turn of a program's own polling loop."""

    def leave_dead(self) -> None:
        """Survive mode: marks this PE dead for the others."""

    def say_at_exit(self, text: str) -> None:
        """What is printed if the program ends well."""

    def close(self) -> None:
        """Ends this PE's use of the fabric. Arrays over the heap stay readable."""
