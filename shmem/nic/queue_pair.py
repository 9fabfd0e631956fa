"""Queue pairs: a send queue, which is a ring of blocks, and a receive queue, to one other PE."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ArgumentError, CompletionError, InvalidPE, QueueFull, QueueStateError
from ..plain import whole_number
from ..rma import reach
from ..runtime import Local, current
from ..views import Array, address_of, check_array, check_live, check_target
from ..waiting import until
from .adapter import check_life, engine_of
from .completion_queue import CompletionQueue
from .engine import FOR_EVER, Pair, Told
from .many import WorkRequests
from .requests import Requests
from .rings import WQE, write_wqe
from .work import ATOMICS, Opcode, WorkRequest, opcode_of
from .wqes import check_segment, wqe_of

DEPTH_MAX = 1 << 15


class QueuePair(Local):
    """A reliable connection to the queue pair that PE `pe` has to this one, with the same `index`.

    send_cq, recv_cq: where ends of requests and receives are told; None: both in one. depth: of the send queue, in
    blocks of 64 bytes, a power of two. rnr_retry: what happens where a request finds no receive at its target: 7 waits
    for ever, anything below may give up (`rnr_retry`). A WRITE, READ or atomic needs no queue pair at the target.
    Raises InvalidPE, ArgumentError, QueueStateError for a second one with the same index.

    One thread at a time may post. Sources: verbs (ibv_create_qp), URMA jetties.
    """

    def __init__(
        self, pe: int, send_cq: CompletionQueue, recv_cq: CompletionQueue | None = None, depth: int = 64,
        index: int = 0, *, rnr_retry: int = 6,
    ) -> None:  # fmt: skip
        self._pe = current()
        self._engine = engine_of(self._pe)
        me = self._pe.me
        self.pe = reach(self._pe, pe)
        self.depth, retries = whole_number(depth, "depth", me), whole_number(rnr_retry, "rnr_retry", me)
        if not 1 <= self.depth <= DEPTH_MAX or self.depth & (self.depth - 1):
            raise ArgumentError(f"depth={depth}: a power of two from 1 to {DEPTH_MAX} is needed", pe=me)
        if not 0 <= retries <= FOR_EVER:
            raise ArgumentError(f"rnr_retry={rnr_retry}: 0 to {FOR_EVER} are possible", pe=me)
        self.send_cq, self.recv_cq = send_cq, send_cq if recv_cq is None else recv_cq
        for cq in (self.send_cq, self.recv_cq):
            if not isinstance(cq, CompletionQueue):
                raise ArgumentError(f"{cq!r} is no completion queue", pe=me)
            cq.check()
        self.index = whole_number(index, "index", me)
        wanted = Pair(self.pe, self.index, self.send_cq.name, self.recv_cq.name, self.depth, retries)
        self.name: Hashable = self._engine.open_pair(wanted)
        for cq in (self.send_cq, self.recv_cq):
            cq.serve(self)
        self._sq = np.zeros(self.depth, WQE)  # where the engine has no ring
        self._requests = Requests()
        self._kept: dict[int, list[Array]] = {}  # local memory of requests and receives that are not over
        self._closed = False
        self.error: CompletionError | None = None  # the first failure that the program was told of

    # ---- post ----

    def post(self, wr: WorkRequest) -> int:
        """Posts a work request and rings the doorbell, unless it says not to. Returns its wr_id: 0, 1, 2, ...

        On return nothing need have happened; inline local memory may be reused, any other not before a completion of
        this request or a later one. Raises ArgumentError, DtypeError, FreedBlock for a request that can't be posted,
        QueueFull where the ring has no room, QueueStateError once closed: then nothing was posted. On a queue pair in
        the state "error" it is accepted and comes back as "flush".
        """
        wr_id = self._post(wr)
        if wr.doorbell:
            self._engine.ring(self.name)
        return wr_id

    def post_many(self, wrs: Iterable[WorkRequest] | WorkRequests, doorbell: str = "batch") -> Sequence[int]:
        """Posts work requests, with one doorbell for all ("batch") or one for "each". Returns their wr_ids.

        wrs: single ones, or `WorkRequests` of one kind, whose entries are built from arrays by one call where the
        fabric has rings of its own.
        It stops at the first that can't be posted and raises as `post` does, with the wr_ids of those before it, whose
        doorbell was rung, as `posted`. What the requests say of doorbells does not count.
        """
        if not isinstance(doorbell, str) or doorbell not in ("batch", "each"):
            raise ArgumentError(f"doorbell={doorbell!r}: 'batch' or 'each'", pe=self._pe.me)
        if isinstance(wrs, WorkRequests):
            if self._engine.rings:
                return self._post_arrays(wrs, doorbell == "each")
            wrs = wrs.one_by_one(self._pe.me)
        if not isinstance(wrs, Iterable):
            raise ArgumentError(f"{wrs!r} is no list of work requests", pe=self._pe.me)
        posted: list[int] = []
        try:
            for wr in wrs:
                posted.append(self._post(wr))
                if doorbell == "each":
                    self._engine.ring(self.name)
        except Exception as error:
            error.posted = posted  # type: ignore[attr-defined]
            raise
        finally:
            if posted and doorbell == "batch":
                self._engine.ring(self.name)
        return posted

    def _post_arrays(self, wrs: WorkRequests, each: bool) -> Sequence[int]:
        """Posts what there is room for. Raises QueueFull for the rest, with the wr_ids of those before as `posted`."""
        me = self._pe.me
        self._check()
        check_live(self._pe, wrs.check(me), "local")
        check_segment(wrs.remote, self.pe, me)
        self._check_own()
        heads, pieces = wrs.heads(me, self._engine.local_fault(address_of(wrs.local), wrs.local.nbytes))
        pi, _ = self._engine.positions(self.name)
        n = self._engine.post_many(self.name, heads, pieces, each)
        ids = self._requests.add(n, wrs.opcode, pi)
        if n:
            self._kept[ids[-1]] = [wrs.local]
        if n < len(heads):
            error = QueueFull(f"the send queue to PE {self.pe} had room for {n} of {len(heads)} requests", pe=me)
            error.posted = ids  # type: ignore[attr-defined]
            raise error
        return ids

    def _check_own(self) -> None:
        profile = self._engine.profile
        if self.pe == self._pe.me and not profile.self_send:
            raise InvalidPE(f"profile {profile.name} takes no request to the own PE", pe=self._pe.me)

    def _post(self, wr: WorkRequest) -> int:
        me = self._pe.me
        self._check()
        if not isinstance(wr, WorkRequest):
            raise ArgumentError(f"{wr!r} is no work request", pe=me)
        code, profile = opcode_of(wr.opcode, me), self._engine.profile
        arrays = wr.arrays(me)
        wr.check(me, arrays)
        for each in arrays:
            check_live(self._pe, each, "local")
        self._check_own()
        if code in ATOMICS and profile.write_atomic == "none":
            raise ArgumentError(f"profile {profile.name}: its adapters have no atomics", pe=me)
        wqe = wqe_of(wr, arrays, self.pe, me)
        pi, ci = self._engine.positions(self.name)
        used = (pi - ci) % (1 << 32)
        fits = self._engine.rings or used + wqe.blocks <= self.depth  # who has a ring looks there
        number = self._engine.post(self.name, wqe) if fits else -1
        if number < 0:
            raise self._full(used, wqe.blocks)
        self._requests.add(1, code, pi, wqe.blocks)
        self._kept[number] = arrays
        if not self._engine.rings:
            write_wqe(self._sq, pi, number, wqe)
        return number

    def _full(self, used: int, blocks: int) -> QueueFull:
        cure = "take completions first" if blocks <= self.depth else "it never fits"
        return QueueFull(
            f"the send queue to PE {self.pe} has {self.depth} blocks, {used} in use, and the request needs {blocks}: "
            f"{cure}",
            pe=self._pe.me,
        )

    def post_recv(self, array: Array) -> int:
        """Posts a receive: the buffer that the next SEND goes to, and what a WRITE_IMM takes one of. Returns its wr_id,
        counted apart from those of requests.

        array: C-contiguous, in the symmetric heap or in a registered segment; of no elements for WRITE_IMM. It may not
        be touched before its completion, which comes to `recv_cq`.
        """
        me = self._pe.me
        self._check()
        check_target(check_array(array, "array", me), "array", me)
        if not array.flags.c_contiguous:
            raise ArgumentError("a receive buffer must be C-contiguous", pe=me)
        check_live(self._pe, array, "array")
        number = self._engine.post_receive(self.name, address_of(array), array.nbytes)
        self._kept[-1 - number] = [array]
        return number

    def doorbell(self) -> None:
        """Rings for all that was posted. Harmless where there is nothing."""
        self._check()
        self._engine.ring(self.name)

    # ---- what became of it ----

    @property
    def state(self) -> str:
        """ "ready"; "suspended" or "error" after a failure, as the profile says; "reset" once closed."""
        return "reset" if self._closed else self._engine.state(self.name)

    @property
    def positions(self) -> tuple[int, int]:
        """Producer and consumer position: how many blocks were ever posted, and how many of them were given back.
        They only grow (mod 2^32); block k lies in slot `k % depth`, and `depth - (producer - consumer)` are free."""
        return self._engine.positions(self.name)

    @property
    def sq(self) -> npt.NDArray[Any]:
        """The ring of the send queue: a structured array [depth] of 64-byte blocks (`nic.WQE`), a copy."""
        copy: npt.NDArray[Any] = self._engine.blocks(self.name) if self._engine.rings else self._sq.copy()
        return copy

    def quiet(self, *, timeout: float | None = None) -> None:
        """Waits until everything posted on this queue pair is over and visible to all PEs; takes its completions.

        Raises CompletionError for the first request that failed, or was flushed, and was not told of before: by a
        completion that was taken, or a quiet that raised. The ring has room again all the same. ShmemTimeout: requests
        may have been posted and never rung.
        """
        self._check()
        told: list[Told] = []

        def step(limit_s: float) -> Any:
            status, found = self._engine.drain(self.name, limit_s)
            told.extend(found)
            return status

        until(self._pe, step, lambda: f"the queue pair to PE {self.pe}", lambda: f"its state {self.state}", timeout)
        for each in told:
            self.note(each)
        if failed := [each for each in told if each.status != "ok" and not each.raised]:
            first = self.error is not None and self.error.wr_id == failed[0].number
            raise self.error if first and self.error is not None else self._failure(failed[0])

    def reset(self, *, timeout: float | None = None) -> None:
        """Makes it ready and empty again, as after an error: positions 0, requests that have not ended are dropped.
        What is on its way still ends first."""
        self._check()
        until(
            self._pe, lambda s: self._engine.reset(self.name, s), lambda: f"the queue pair to PE {self.pe}",
            lambda: "requests in flight", timeout,
        )  # fmt: skip
        self._sq[:] = 0
        self.error = None
        self._kept.clear()

    def close(self) -> None:
        """Ends it. Raises QueueStateError while requests on it are unfinished; on `nic` also while a request of the
        peer has taken a receive whose completion is still to come: no quiet of the sender tells of that."""
        if self._closed:
            return
        if not self._engine.close_pair(self.name):
            text = f"the queue pair to PE {self.pe} has unfinished requests, or a receive that is taken and not told of"
            raise QueueStateError(text, pe=self._pe.me)
        self._closed = True
        self._kept.clear()
        for cq in (self.send_cq, self.recv_cq):
            cq.leave(self)

    def _check(self) -> None:
        check_life(self._pe)
        if self._closed:
            raise QueueStateError(f"the queue pair to PE {self.pe} is closed", pe=self._pe.me)

    # ---- for completion queues ----

    def note(self, told: Told) -> None:
        """A completion of this queue pair was taken: local memory of its request, and of those before it, is free."""
        if told.received:
            self._kept.pop(-1 - told.number, None)
            return
        if told.status != "ok" and self.error is None:
            self.error = self._failure(told)
        for number in [number for number in self._kept if 0 <= number <= told.number]:
            del self._kept[number]
        self._requests.forget(told.number - max(self.depth, self.send_cq.depth))  # those are in no ring any more

    def _failure(self, told: Told) -> CompletionError:
        text = f"request {told.number} to PE {self.pe} ended with {told.status}"
        return CompletionError(text, wr_id=told.number, status=told.status, pe=self.pe)

    def opcode(self, told: Told) -> Opcode:
        """What a completion is of."""
        return Opcode.RECEIVE if told.received else self._requests.opcode(told.number)

    def entry(self, told: Told) -> int:
        """The position of the last block of a request, of a receive its number."""
        return told.number if told.received else self._requests.last_block(told.number)

    @property
    def receives(self) -> int:
        """How many receives are posted and not told of."""
        return sum(number < 0 for number in self._kept)

    def described(self, number: int, rung: bool) -> str:
        """A request that is outstanding, in words."""
        text = f"request {number} ({self._requests.opcode(number).name}) to PE {self.pe}"
        return text if rung else f"{text}, which no doorbell was rung for"

    def described_receives(self) -> str:
        """The receives that are posted, in words."""
        return f"{self.receives} receives posted for PE {self.pe}"
