"""Queue pairs on `nic`: rings in shared memory, and the adapter of this PE that reads them.

A post writes into the ring; a doorbell tells the adapter how far it may read. Where completions are taken from a ring
in another order than they lie in it (`drain` takes those of one queue pair), the others wait here.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ...delivery.engine import STATUSES
from ...errors import CompletionError, CompletionQueueOverrun, HeapExhausted, QueueFull, QueueStateError
from ...nic.engine import Pair, Told, Wqe
from ...nic.rings import STATUSES as TOLD
from ...nic.rings import WQE
from ...nic.work import ATOMICS, ORDERS
from ..direct import nanoseconds
from ..interface import Status
from .segments import NicSegments

if TYPE_CHECKING:
    from .fabric import NicFabric

RECEIVES = 1024  # of a queue pair at a time
BATCH = 64  # entries of a completion queue taken at once
NO_ROOM, OVERRUN = -11, -12
_LOCAL = STATUSES.index("loc_access")


@dataclass
class Queue:
    """A completion queue of this PE."""

    depth: int
    offset: int
    backlog: deque[Any] = field(default_factory=deque)  # taken from the ring, not by the program
    out: Any = None


@dataclass
class Own:
    """A queue pair of this PE."""

    made: Pair
    receives: int = 0  # posted
    bounces: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # of private buffers: offset, address, bytes
    told: int = -1  # the last failure that a quiet has raised for
    live: bool = True


class NicEngine(NicSegments):
    """The adapter of one PE, as `shmem.nic` has it."""

    rings = True

    def __init__(self, fabric: NicFabric) -> None:
        super().__init__(fabric)
        self._cqs: dict[int, Queue] = {}
        self._own: dict[int, Own] = {}

    def _checked(self, code: int, what: str) -> int:
        if code == Status.NO_MEMORY:
            raise MemoryError(f"no memory for {what}")
        if code == NO_ROOM:
            raise HeapExhausted(f"no room for {what}", asked=1, free=0, largest_free=0, pe=self.me)
        return code

    def step(self, n: int) -> int:
        """Events of this PE's adapter."""
        return self._checked(int(self.lib.sm_nic_step(self.adapter, n)), "the requests of an adapter")

    # ---- queues ----

    def open_cq(self, depth: int) -> int:
        """A completion queue in the arena."""
        what = f"a completion queue of depth {depth}"
        offset = self.arena.take(self.ffi.sizeof("sm_cq_ring") + 64 * depth, what)
        cq = self._checked(self.lib.sm_nic_open_cq(self.adapter, offset, depth), what)
        self._cqs[cq] = Queue(depth, offset, out=self.ffi.new("sm_cq_entry[]", BATCH))
        return cq

    def open_pair(self, pair: Pair) -> int:
        """A queue pair in the arena."""
        if any(own.live and (own.made.pe, own.made.index) == (pair.pe, pair.index) for own in self._own.values()):
            raise QueueStateError(f"there is a queue pair {pair.index} to PE {pair.pe} already", pe=self.me)
        what = f"a queue pair of depth {pair.depth}"
        sq = self.arena.take(self.ffi.sizeof("sm_sq_ring") + 64 * pair.depth, what)
        rq = self.arena.take(self.ffi.sizeof("sm_rq_ring") + 32 * RECEIVES, what)
        options = self.ffi.new(
            "sm_pair_options *",
            {
                "peer": pair.pe, "index": pair.index, "cq": pair.send_cq, "retries": pair.rnr_retry, "sq": sq, "rq": rq,
                "receives": self._cqs[_number(pair.recv_cq)].offset, "depth": pair.depth, "rq_depth": RECEIVES,
            },
        )  # fmt: skip
        number = self._checked(self.lib.sm_nic_open_pair(self.adapter, options), what)
        self._own[number] = Own(pair)
        return number

    def close_pair(self, pair: Hashable) -> bool:
        """Takes it away, if it is idle. Its memory stays: other adapters may still look at it."""
        own = self._own[_number(pair)]
        self.fabric.progress()
        if self.lib.sm_nic_close_pair(self.adapter, pair):
            return False
        own.live = False
        return True

    def positions(self, pair: Hashable) -> tuple[int, int]:
        """Where the ring is."""
        pi, ci = self.ffi.new("uint32_t *"), self.ffi.new("uint32_t *")
        self.lib.sm_nic_positions(self.adapter, pair, pi, ci)
        return int(pi[0]), int(ci[0])

    # ---- post ----

    def post(self, pair: Hashable, wqe: Wqe) -> int:
        """A request in the ring."""
        head, key = self._head(wqe)
        if wqe.data is not None:
            body = wqe.data
        else:
            pieces = self.ffi.new("sm_piece[]", [(address, nbytes, 0) for address, nbytes in wqe.pieces])
            body = bytes(self.ffi.buffer(pieces)) if wqe.pieces else b""
        number = int(self.lib.sm_nic_post(self.adapter, pair, head, key, self.ffi.from_buffer(body), len(body)))
        return -1 if number == NO_ROOM else number

    def _head(self, wqe: Wqe) -> tuple[Any, int]:
        """The first block of a request, and the key of the segment that a notification goes to."""
        remote, notify = wqe.remote, wqe.notify
        head = {
            "opcode": wqe.opcode, "blocks": wqe.blocks, "is_signaled": wqe.signaled, "is_inline": wqe.data is not None,
            "fence": wqe.fence, "order": ORDERS.index(wqe.order), "nbytes": wqe.nbytes,
            "immediate": wqe.immediate or 0, "pieces": 0 if wqe.data is not None else len(wqe.pieces),
            "bad": _LOCAL if self.wrong_memory(wqe) else 0, "has_remote": remote is not None,
            "has_notify": notify is not None,
        }  # fmt: skip
        if remote is not None:
            head |= {"key": remote.key & 0xFFFFFFFF, "offset": _signed(remote.offset)}
        if wqe.opcode in ATOMICS or notify is not None:
            compare = wqe.compare if notify is None else notify.offset % (1 << 64)
            head |= {"operand": wqe.operand, "compare": compare}
        return self.ffi.new("sm_wqe *", head), 0 if notify is None else notify.key & 0xFFFFFFFF

    def local_fault(self, address: int, nbytes: int) -> int:
        """Memory that is neither symmetric nor registered."""
        return 0 if self.known(address, nbytes) else _LOCAL

    def post_many(self, pair: Hashable, heads: npt.NDArray[Any], pieces: npt.NDArray[Any], each: bool) -> int:
        """Requests in the ring, by one call."""
        first, second = self.ffi.from_buffer("sm_wqe[]", heads), self.ffi.from_buffer("sm_piece[]", pieces)
        return int(self.lib.sm_nic_post_many(self.adapter, pair, first, second, len(heads), each))

    def blocks(self, pair: Hashable) -> npt.NDArray[Any]:
        """The ring in shared memory; what a request has behind its first block is shown by that one."""
        made = np.zeros(self._own[_number(pair)].made.depth, WQE)
        self.lib.sm_nic_blocks(self.adapter, pair, self.ffi.from_buffer("sm_wqe[]", made))
        return made

    def ring(self, pair: Hashable) -> None:
        """A doorbell."""
        self.lib.sm_nic_doorbell(self.adapter, pair)

    def post_receive(self, pair: Hashable, address: int, nbytes: int) -> int:
        """A buffer for what comes: private memory gets it when its completion is taken."""
        own = self._own[_number(pair)]
        if nbytes and not self.known(address, nbytes):
            raise QueueStateError("a receive buffer must be symmetric or registered memory", pe=self.me)
        number, lo, in_arena = own.receives, address - self.fabric.heap.base, False
        if not nbytes:
            lo = 0
        elif not self.fabric.in_own_heap(address, nbytes):
            lo, in_arena = self.arena.take(nbytes, f"a private receive buffer of {nbytes} bytes"), True
        entry = self.ffi.new("sm_rq_entry *", (number, in_arena, lo, lo + nbytes))
        if self.lib.sm_nic_receive(self.adapter, pair, entry):
            if in_arena:
                self.arena.give(lo)
            text = f"{RECEIVES} receives are posted on a queue pair already: take completions first"
            raise QueueFull(text, pe=self.me)
        if in_arena:
            own.bounces[number] = lo, address, nbytes
        own.receives += 1
        return number

    # ---- completions ----

    def _poll(self, cq: Hashable, most: int, takes: bool) -> list[Any]:
        """Entries from the ring itself. Raises CompletionQueueOverrun."""
        queue, found = self._cqs[_number(cq)], list[Any]()
        while len(found) < most:
            n = int(self.lib.sm_nic_poll(self.adapter, cq, queue.out, min(most - len(found), BATCH), takes))
            if n == OVERRUN:
                raise CompletionQueueOverrun(
                    f"more completions came than the completion queue of depth {queue.depth} holds; some are lost",
                    pe=self.me,
                )
            found += [self._told(queue.out[i]) for i in range(n)]
            if n < BATCH:
                break
        return found

    def _told(self, entry: Any) -> tuple[Told, int]:
        """An entry, and the last block of its request."""
        pair, received = int(entry.pair), bool(entry.received)
        number, failed = int(entry.wr_id), self._own[pair].told
        immediate = int(entry.immediate) if entry.has_immediate else None
        told = Told(
            pair, number, received, TOLD[entry.status], int(entry.nbytes), immediate, not received and number <= failed
        )
        return told, int(entry.entry)

    def _taken(self, told: Told) -> Told:
        """The program has it: a private buffer gets what came."""
        own = self._own[_number(told.pair)]
        if told.received and (bounce := own.bounces.pop(told.number, None)) is not None:
            offset, address, nbytes = bounce
            came = min(told.nbytes, nbytes) if told.status == "ok" else 0
            ctypes.memmove(address, self.arena.base + offset, came)
            self.arena.give(offset)
        return told

    def poll(self, cq: Hashable, most: int) -> list[Told]:
        """What is there, in the order in which it came."""
        backlog, found = self._cqs[_number(cq)].backlog, list[Told]()
        while backlog and len(found) < most:
            told, entry = backlog.popleft()
            if not told.received:
                self.lib.sm_nic_reclaim(self.adapter, told.pair, entry)
            found.append(self._taken(told))
        return found + [self._taken(told) for told, _ in self._poll(cq, most - len(found), True)]

    def wait(self, cq: Hashable, n: int, timeout_s: float) -> tuple[Status, list[Told]]:
        """Sleeps until there are n, and takes them."""
        missing = n - len(self._cqs[_number(cq)].backlog)
        if missing > 0:
            status = Status(self.lib.sm_nic_await(self.adapter, cq, missing, nanoseconds(timeout_s)))
            if status is not Status.OK:
                return status, []
        return Status.OK, self.poll(cq, n)

    def _slots(self, queue: Queue) -> tuple[Any, Any]:
        """A completion queue as it lies in memory."""
        ring = self.ffi.cast("sm_cq_ring *", self.arena.base + queue.offset)
        return ring, self.ffi.cast("sm_cq_entry *", ring + 1)

    def _shown(self, slot: Any) -> Told:
        entry = self.ffi.new("sm_cq_entry *", slot)
        entry.pair -= self.fabric.first_pair
        return self._told(entry[0])[0]

    def _untaken(self, cq: Hashable) -> list[Told]:
        """What a program would get, left where it is."""
        queue = self._cqs[_number(cq)]
        ring, slots = self._slots(queue)
        found, at = [told for told, _ in queue.backlog], int(ring.taken)
        while len(found) < queue.depth and slots[at % queue.depth].owner == (at // queue.depth + 1) % 2:
            found.append(self._shown(slots[at % queue.depth]))
            at += 1
        return found

    def outstanding(self, cq: Hashable) -> tuple[int, list[tuple[Hashable, int, bool]]]:
        """What there is, and what else may come."""
        left: list[tuple[Hashable, int, bool]] = []
        for number, own in self._own.items():
            if own.live and own.made.send_cq == cq:
                left += [(number, wr_id, True) for wr_id in self.fabric.in_flight(number)]
                ids = self.ffi.new("uint64_t[]", own.made.depth)
                n = self.lib.sm_nic_unrung(self.adapter, number, ids, own.made.depth)
                left += [(number, int(ids[i]), False) for i in range(n)]
        return len(self._untaken(cq)), left

    def entries(self, cq: Hashable) -> tuple[Sequence[Told], int]:
        """What is in the ring, taken or not."""
        queue = self._cqs[_number(cq)]
        self.fabric.progress()
        ring, slots = self._slots(queue)
        written = int(ring.written)
        return [self._shown(slots[i % queue.depth]) for i in range(max(0, written - queue.depth), written)], written

    def state(self, pair: Hashable) -> str:
        """What a failure has made of it."""
        self.fabric.progress()
        return ("ready", "suspended", "error")[self.lib.sm_nic_state(self.adapter, pair)]

    # ---- quiet, reset ----

    def drain(self, pair: Hashable, timeout_s: float) -> tuple[Status, list[Told]]:
        """Waits until nothing is left of it."""
        status = Status(self.lib.sm_nic_drain(self.adapter, pair, nanoseconds(min(timeout_s, 0.1))))
        if status is not Status.OK:
            return status, []
        queue = self._cqs[_number(self._own[_number(pair)].made.send_cq)]
        backlog = queue.backlog
        backlog += self._poll(self._own[_number(pair)].made.send_cq, queue.depth, False)
        mine = [each for each, _ in backlog if each.pair == pair and not each.received]
        rest = [each for each in backlog if each[0].pair != pair or each[0].received]
        backlog.clear()
        backlog.extend(rest)
        return Status.OK, [_raised(each, self._own[_number(pair)].told) for each in mine]

    def settle(self, pes: Sequence[int] | None, slice_s: float) -> Status:
        """`shmem.quiet` of the default context: what was rung for. Raises CompletionError for a failure that the
        program was not told of."""
        for pe in [-1] if pes is None else sorted(set(pes)):
            status = Status(self.lib.sm_nic_settle(self.adapter, pe, nanoseconds(slice_s)))
            if status is not Status.OK:
                return status
        if pes is None and self.profile.engine_scoped:
            return Status.OK
        for number, own in self._own.items():
            if own.live and (pes is None or own.made.pe in pes):
                self._raise_failure(number, own)
        return Status.OK

    def settle_all(self, settle: Callable[[], None]) -> None:
        """Has a quiet raise for what is bad. If it does not, since another call told of that or the completion queue
        has overrun, the adapter asks for none because of it any more."""
        bad = {number: self.lib.sm_nic_bad(self.adapter, number) for number in self._own}
        settle()
        for number, last in bad.items():
            self.lib.sm_nic_told(self.adapter, number, last)

    def _raise_failure(self, number: int, own: Own) -> None:
        mine = [each for each in self._untaken(own.made.send_cq) if each.pair == number and not each.received]
        bad = [each for each in mine if each.status != "ok" and each.number > own.told]
        if bad:
            own.told = bad[-1].number
            self.lib.sm_nic_told(self.adapter, number, own.told + 1)
            text = f"request {bad[0].number} to PE {own.made.pe} ended with {bad[0].status}"
            raise CompletionError(text, wr_id=bad[0].number, status=bad[0].status, pe=own.made.pe)

    def reset(self, pair: Hashable, timeout_s: float) -> Status:
        """Empties it, once what moves has ended."""
        status = Status(self.lib.sm_nic_reset(self.adapter, pair, nanoseconds(min(timeout_s, 0.1))))
        own = self._own[_number(pair)]
        if status is Status.OK:
            for offset, _, _ in own.bounces.values():
                self.arena.give(offset)
            own.bounces.clear()
        return status


def _number(name: Hashable) -> int:
    assert isinstance(name, int)
    return name


def _signed(offset: int) -> int:
    return (offset + (1 << 63)) % (1 << 64) - (1 << 63)


def _raised(told: Told, last: int) -> Told:
    """A completion of which a quiet has raised."""
    raised = not told.received and told.number <= last
    return Told(told.pair, told.number, told.received, told.status, told.nbytes, told.immediate, raised)
