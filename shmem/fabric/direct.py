"""The `direct` fabric: PEs are processes of one host, a put is a store into the peer's part of a shared window.

All of it is in the C core; this file turns its calls into the interface. Everything posted is complete when `submit`
returns, so `fence` and `complete` only order stores on weakly ordered CPUs and wake waiters of the own PE.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..enums import CMP, SIGNAL
from ..errors import ContextError
from ..records import FINALIZE, Conditions, Records, fingerprint
from .interface import CONTEXTS, Caps, Counter, Fabric, Level, Members, Status

SPIN_S = 50e-6
FOREVER_S = 9e9  # what C takes as "no limit"
ISA = {"auto": 0, "portable": 1, "avx2": 2, "neon": 3}


def nanoseconds(timeout_s: float) -> int:
    """A timeout in seconds as C takes it."""
    return int(max(0.0, min(timeout_s, FOREVER_S)) * 1e9)


def head_bytes() -> int:
    """What a segment has before its heap."""
    from .._native import _core

    return int(_core.lib.sm_head_bytes())


def clock_bytes() -> int:
    """What a heap has behind it where a run is recorded."""
    from .._native import _core

    return int(_core.lib.sm_clocks_bytes())


class DirectHeap:
    """The heaps of all PEs, as windows of this process.

    The memory of each has an owner, to which every array over it leads: when nobody refers to it any more, the memory
    is unmapped here. Until `let_go` something does, also while Python ends: a daemon thread may be copying.
    """

    def __init__(self, fabric: DirectFabric, segments: Sequence[int], nbytes: int) -> None:
        ffi, lib = fabric.ffi, fabric.lib
        head = int(lib.sm_head_bytes())
        self._fabric, self._nbytes = fabric, nbytes
        self.owners = [ffi.gc(ffi.cast("char *", segment + head), lib.sm_unmap_heap) for segment in segments]
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.owners))
        self._own = weakref.ref(self.owners[fabric.me])
        self.base = segments[fabric.me] + head
        self.memory: npt.NDArray[np.uint8] = np.frombuffer(ffi.buffer(self.owners[fabric.me], nbytes), np.uint8)

    def peer(self, pe: int) -> memoryview:
        """The heap of a PE; from now on its waiters look at their words every millisecond."""
        self._fabric.lib.sm_set_viewed(self._fabric.pe, pe)
        return memoryview(self._fabric.ffi.buffer(self.owners[pe], self._nbytes))

    def let_go(self) -> None:
        """Nobody here needs the heaps any more; the program's arrays do."""
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(self.owners))
        self.memory, self.owners = self.memory[:0].copy(), []

    @property
    def mapped(self) -> bool:
        """Whether the own heap is."""
        return self._own() is not None

    def seen(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Plain arrays."""
        return array

    def raw(self, offset: int, nbytes: int) -> memoryview:
        """The memory itself."""
        return self.memory[offset : offset + nbytes].data

    def fill(self, offset: int, nbytes: int, value: int) -> None:
        """Sets all bytes of a part."""
        self.memory[offset : offset + nbytes] = value

    def move(self, target: int, source: int, nbytes: int) -> None:
        """Copies a part into another."""
        self.memory[target : target + nbytes] = self.memory[source : source + nbytes]


class NativeJob:
    """Records given to a native thread."""

    def __init__(self, fabric: DirectFabric, q: int, ops: Records, timeout_s: float) -> None:
        self._fabric, self._ops = fabric, ops
        self.job: Any = fabric.ffi.new("sm_job *")
        self.job.ops = fabric.ffi.cast("sm_op *", fabric.hot.address(ops))
        self.job.n, self.job.q, self.job.timeout_ns = len(ops), q, nanoseconds(timeout_s)

    @property
    def status(self) -> Status:
        """How the records ended; valid once `wait` gave OK."""
        return Status(self.job.status)

    @property
    def at(self) -> int:
        """The record at which they stopped."""
        return int(self.job.done)

    def wait(self, timeout_s: float) -> Status:
        """Sleeps on the job's own word."""
        return Status(self._fabric.lib.sm_job_wait(self._fabric.pe, self.job, nanoseconds(timeout_s)))


class NativeExecutor:
    """A thread of the C core."""

    def __init__(self, fabric: DirectFabric) -> None:
        self._fabric = fabric
        self._stream: Any = fabric.lib.sm_stream_open(fabric.pe)
        if self._stream == fabric.ffi.NULL:
            raise MemoryError("no thread for a stream")

    def launch(self, q: int, ops: Records, timeout_s: float) -> NativeJob:
        """Hands the records to the thread."""
        job = NativeJob(self._fabric, q, ops, timeout_s)
        if self._fabric.lib.sm_stream_launch(self._stream, job.job):
            raise MemoryError("no memory for the jobs of a stream")
        return job

    def close(self) -> None:
        """Ends the thread; a job that waits goes on for 0.1 s at most."""
        self._fabric.lib.sm_stream_close(self._stream)


class DirectFabric:
    """Loads and stores on the windows of the other PEs.

    `window` is collective: given the bytes of a header and of a heap it answers with the address here of a segment of
    each PE.
    """

    heap: DirectHeap
    pe: Any  # the core's view of the job
    heaps: type[DirectHeap] = DirectHeap

    def __init__(
        self, me: int, n: int, window: Callable[[int, int], list[int]], cores: int, survive: bool, isa: str
    ) -> None:
        from .._native import _core, _hot

        self.lib: Any = _core.lib
        self.ffi: Any = _core.ffi
        self.hot: Any = _hot
        self.me, self.n, self.isa = me, n, ISA[isa]
        self.caps = Caps(whole=8, in_order=True, wakes=True, clock="monotonic", peer_stores=lambda pe: True)
        self._window, self._cores, self._survive = window, cores, survive
        self._queues = list(range(CONTEXTS, 0, -1))  # free ones, the lowest last
        self.inner = CONTEXTS + 1
        self.frees = 0
        self.meet_bytes = 1 << 11 if n <= cores else 1 << 15  # with more PEs than cores a barrier means sleeping
        self.lib.sm_select_isa(self.isa)

    def attach(self, nbytes: int) -> DirectHeap:
        """A segment for each PE of the host. Headers and tables live as long as the process."""
        segments = self._window(int(self.lib.sm_head_bytes()), nbytes)
        self.pe = self.lib.sm_open(self.me, self.n, segments, nbytes, self._cores, self._survive)
        if self.pe == self.ffi.NULL:
            raise MemoryError("no memory for the tables of the direct fabric")
        self.bulk_bytes = int(self.lib.sm_bulk_bytes(self.pe))  # from here on the copies of a batch bypass the cache
        self.spill_bytes = int(self.lib.sm_spill_bytes(self.pe))
        self._address = int(self.ffi.cast("uintptr_t", self.pe))
        self.heap = self.heaps(self, segments, nbytes)
        self.lib.sm_announce(self.pe)
        return self.heap

    def start(self, settings: Settings, in_job: bool) -> None:
        """Binds the C fronts, and tells the exit handler of a job how it ends."""
        checked = settings.check_symmetry
        if in_job:
            limit = nanoseconds(settings.timeout_s)
            self.lib.sm_exit_arm(self.pe, fingerprint(FINALIZE) if checked else 0, limit)
        self._in_job = in_job
        barrier_all, sync_all = (fingerprint(text) if checked else 0 for text in ("barrier_all()", "sync_all()"))
        self._fronts = barrier_all, sync_all, min(settings.hosts_emulated, self.n) == 1
        self.bind(True, *self._fronts)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """While other PEs run in this process: the C fronts leave the hot calls to Python."""
        self.bind(False)
        try:
            yield
        finally:
            self.bind(True, *self._fronts)

    def bind(self, on: bool, barrier_all: int = 0, sync_all: int = 0, one_host: bool = True) -> None:
        """Lets the C fronts of the hot calls work on this PE, or stops them. Takes the fingerprints of two of them, and
        whether all PEs pass for one host. Views of other heaps lead to the owners as long as they work."""
        owners = self.heap.owners if on else []
        self.hot.bind(self._address if on else 0, CMP, SIGNAL, self.isa, barrier_all, sync_all, one_host, owners)

    def queue(self) -> int:
        """A counter of what was posted: nothing is ever under way."""
        if not self._queues:
            raise ContextError(f"{CONTEXTS} contexts exist already: destroy one first", pe=self.me)
        return self._queues.pop()

    def release(self, q: int) -> None:
        """Completes what the queue counts."""
        self.lib.sm_complete(self.pe, q)
        self._queues.append(q)

    def pending(self, q: int) -> int:
        """Records posted since the last quiet, whose completion the program may not rely on."""
        return int(self.lib.sm_pending(self.pe, q))

    def submit(
        self, q: int, ops: Records, start: int = 0, timeout_s: float = 0.0, reached: Counter | None = None
    ) -> tuple[Status, int]:
        """Runs the records in order. The GIL is released meanwhile."""
        cell = 0 if reached is None else self.hot.address(reached)
        status, done = self.hot.run_at(
            self._address, q, self.hot.address(ops), len(ops), start, nanoseconds(timeout_s), cell
        )
        return Status(status), done

    def learn(self, name: str, arguments: tuple[Any, Any, Any, Any], plan: Any) -> None:
        """Lets the C front of a collective replay a plan for the same (target, source, root, size) on all PEs."""
        first, second = plan.records
        self.hot.learn(name, *arguments, plan, self.hot.address(first), self.hot.address(second), len(first))

    def refuse(self, status: Status) -> None:
        """No call ends with one of those."""

    def executor(self) -> NativeExecutor:
        """A native thread."""
        return NativeExecutor(self)

    def gang(self, n: int, work: Callable[[int], None]) -> None:
        """Threads will do."""

    def hold(self, q: int, array: npt.NDArray[Any]) -> None:
        """Nothing is read or written later than when it is posted."""

    def nic(self) -> None:
        """No adapter: stores go into the memory of the peers."""

    def fence(self, q: int) -> None:
        """A full memory fence; wakes the own PE's waiters."""
        self.lib.sm_fence(self.pe)

    def complete(self, q: int, level: Level, pes: Sequence[int] | None = None, timeout_s: float | None = None) -> None:
        """As fence: everything posted is complete already."""
        if level is Level.VISIBLE and pes is None:
            self.lib.sm_complete(self.pe, q)
        else:
            self.lib.sm_quiet(self.pe)

    def wait(self, any_of: Conditions, timeout_s: float) -> tuple[Status, int]:
        """Spins briefly, then sleeps on a futex of the own header."""
        words = self.ffi.cast("sm_condition *", self.hot.address(any_of))
        if timeout_s <= 0:
            held = int(self.lib.sm_test_any(self.pe, words, len(any_of)))
            return (Status.TIMEOUT if held < 0 else Status.OK), held
        which = self.ffi.new("int64_t *")
        status = self.lib.sm_wait_any(self.pe, words, len(any_of), nanoseconds(timeout_s), which)
        return Status(status), int(which[0])

    def test(self, all_of: Conditions) -> npt.NDArray[np.bool_]:
        """Loads each word once."""
        held = np.empty(len(all_of), np.bool_)
        words = self.ffi.cast("sm_condition *", self.hot.address(all_of))
        self.lib.sm_test_each(self.pe, words, len(all_of), self.ffi.cast("uint8_t *", self.hot.address(held)))
        return held

    def barrier(self, members: Members, call: int, timeout_s: float) -> Status:
        """A counter in the leader's header; the last to arrive wakes all others with one system call."""
        leader, n = members.pes[0], len(members.pes)
        return Status(self.lib.sm_barrier(self.pe, members.slot, leader, n, call, nanoseconds(timeout_s)))

    def disown(self) -> None:
        """Clears the owner of this thread's barriers."""
        self.lib.sm_disown(self.pe)

    def team(self, members: Members) -> None:
        """Tells the core whose death a barrier of the slot can't outlive."""
        if self.lib.sm_team(self.pe, members.slot, list(members.pes), len(members.pes)):
            raise MemoryError("no memory for the members of a team")

    def show(self, slot: int, value: int) -> None:
        """A word in the own header."""
        self.lib.sm_note(self.pe, slot, value)

    def shown(self, pe: int, slot: int) -> int:
        """A word in a PE's header."""
        return int(self.lib.sm_noted(self.pe, pe, slot))

    def entered(self, pe: int, slot: int) -> int:
        """How many barriers of a slot a PE has entered: tells who is missing."""
        return int(self.lib.sm_entered(self.pe, pe, slot))

    def rounds(self, members: Members) -> int:
        """How many barriers of the leader's slot are complete."""
        return int(self.lib.sm_rounds(self.pe, members.slot, members.pes[0]))

    def unfinished(self, slot: int) -> int | None:
        """The fingerprint of a barrier of a slot that this PE has entered and not left; None if there is none."""
        call = self.ffi.new("uint64_t *")
        return int(call[0]) if self.lib.sm_unfinished(self.pe, slot, call) else None

    def call_text(self, pe: int) -> Any:
        """The 512 bytes in a PE's header in which it shows its collective call after a mismatch."""
        return self.ffi.buffer(self.lib.sm_call_text(self.pe, pe), 512)

    def mark_live(self, offset: int, nbytes: int, live: bool) -> None:
        """Tells the C fronts which part of the heap is allocated."""
        self.frees += not live
        self.lib.sm_mark_live(self.pe, offset, nbytes, live)

    def dead(self, *, look: bool) -> list[int]:
        """The PEs known to be dead; with `look` after looking at every process."""
        found = self.lib.sm_find_dead(self.pe) if look else self.lib.sm_any_dead(self.pe)
        if not found:
            return []
        return [pe for pe in range(self.n) if self.lib.sm_alive(self.pe, pe) == 3]

    def counts(self) -> dict[str, int]:
        """Since init, of this PE: sleeps entered, wake calls made, waiters those woke, and wake-ups missed (waits that
        found their word only when the cap of a sleep was over: a store that wakes nobody, or a fault; or a PE that
        stood between its store and the wake, unless the sleeps are made long with `sm_set_cap`)."""
        counts = self.ffi.new("sm_counts *")
        self.lib.sm_counts_read(self.pe, counts)
        return {name: int(getattr(counts, name)) for name in ("sleeps", "wakes", "woken", "missed")}

    def close(self) -> None:
        """The C fronts stop; headers and tables stay, since the exit handler uses them."""
        self.bind(False)
        self.lib.sm_retire(self.pe)
        if self._in_job:
            self.lib.sm_exit_state(2)

    def leave_dead(self) -> None:
        """Survive mode: marks this PE dead for the others; no MPI call follows."""
        self.lib.sm_set_alive(self.pe, 3)
        self.lib.sm_exit_state(3)

    def say_at_exit(self, text: str) -> None:
        """What the exit handler prints if the program ends well."""
        self.lib.sm_exit_say(text.encode())

    def now(self) -> float:
        """Time of this machine."""
        return time.perf_counter()

    def compute(self, seconds: float) -> None:
        """What a program does takes its time by itself."""

    def spin(self) -> None:
        """Sleeps for a moment."""
        time.sleep(SPIN_S)


if TYPE_CHECKING:
    from ..config import Settings

    _conforms: type[Fabric] = DirectFabric
