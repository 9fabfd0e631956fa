"""What there is to see of an engine, in objects of the same classes as the Python machine's."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from .completions import Completion, Receive
from .engine import STATUSES, Engine
from .mirrors import NativeQueue
from .requests import Kind, Place, Request, Stage

STAGES = tuple(Stage)
_FLAGS = ("read", "rung", "admitted", "accepted", "denied", "fetched", "worded", "told", "retired", "fenced", "spread",
          "ascending", "split", "repeats")  # fmt: skip


class Mirrored(Engine):
    """A machine whose engine decides what happens, and which follows it."""

    def call(self, name: str, *arguments: Any) -> int:
        """A call of the engine that changes it; the mirror follows. Raises what `_checked` does."""
        self._push()
        code = self._checked(getattr(self.lib, name)(self.net, *arguments) or 0, name)
        self.follow()
        return code

    def _push(self) -> None:
        """Tells the engine what a program has taken from completion queues with an end."""
        for name, ring in self.rings.items():
            cq, taken = self._cq(name), self.ffi.new("int64_t *")
            self.lib.sm_net_entries(self.net, cq, taken, self.ffi.new("int *"))
            self.lib.sm_net_take(self.net, cq, ring.taken - taken[0])

    def follow(self) -> None:
        """Makes the mirror what the engine is."""
        self._follow_requests()
        view = self.ffi.new("sm_queue_view *")
        for queue in self.queue_pairs.values():
            assert isinstance(queue, NativeQueue)
            self._checked(self.lib.sm_net_queue_view(self.net, queue.number, view))
            queue.follow(view)
        self._follow_answers()
        for name, cq in self._cq_ids.items():
            self._drain(name, cq)
        for name in self.takers:
            self._follow_taker(name)
        for pe in self._receives:
            self._receives[pe] = self.lib.sm_net_receives(self.net, pe)

    def _follow_requests(self) -> None:
        view, slot, before = self.ffi.new("sm_request_view *"), -1, self.flight
        self.flight = {}
        while (slot := self.lib.sm_net_next(self.net, slot, view)) >= 0:
            request = self.flight[view.pe, view.number] = before[view.pe, view.number]
            self._follow_request(request, view)

    def _follow_request(self, request: Request, view: Any) -> None:
        for name in _FLAGS:
            setattr(request, name, bool(getattr(view, name)))
        words = (view.units + 63) // 64 * 8
        request.placed, request.landed, request.again = (
            int.from_bytes(self.ffi.buffer(bits, words), "little") for bits in (view.placed, view.landed, view.again)
        )
        request.data = bytes(self.ffi.buffer(view.data, view.ndata)) if view.ndata else b""
        request.gates = tuple(
            ((gate.pe, gate.number), STAGES[gate.stage], STAGES[gate.mine]) for gate in view.gates[0 : view.ngates]
        ) if view.ngates else ()  # fmt: skip
        request.bad = STATUSES[view.bad]
        if view.receive >= 0 and request.receive is None:
            request.receive = view.receive
            if request.kind is Kind.SEND and not request.bad:
                request.at = self._named(view.at)
                request.cut(self.profile.unit)
        assert view.units == len(request.units)

    def _named(self, place: Any) -> Place:
        [space] = [name for name, number in self._space_ids.items() if number == place.space]
        return Place(space, place.lo, place.hi)

    def _follow_answers(self) -> None:
        pe, number = self.ffi.new("int32_t *"), self.ffi.new("int64_t *")
        data, size = bytearray(), 0
        while size >= 0:
            data = bytearray(size)
            size = self.lib.sm_net_answer(self.net, pe, number, self.ffi.from_buffer(data), len(data))
            if 0 <= size <= len(data):
                self.answers[pe[0], number[0]] = bytes(data[:size])

    def _drain(self, name: Hashable, cq: int) -> None:
        """Takes over the new entries of a completion queue; those of one without an end are taken from it."""
        taken, overrun = self.ffi.new("int64_t *"), self.ffi.new("int *")
        written = self.lib.sm_net_entries(self.net, cq, taken, overrun)
        new = [self._completion(self.lib.sm_net_entry(self.net, cq, i)) for i in range(self._drained[cq], written)]
        self._drained[cq] = written
        if new and isinstance(name, tuple) and name[0] == "received":
            self.received.setdefault(name[1], []).extend(new)
        elif new:
            self.completions.setdefault(name, []).extend(new)
        if (ring := self.rings.get(name)) is None:
            self.lib.sm_net_take(self.net, cq, len(new))
        else:
            ring.written, ring.overrun = written, bool(overrun[0])
            ring.last = [*ring.last, *new][-ring.depth :]

    def _completion(self, entry: Any) -> Completion:
        key, queue = (entry.pe, entry.number), self.known[entry.pe, entry.number].queue
        return Completion(
            STATUSES[entry.status], key, queue, entry.nbytes, entry.immediate if entry.has_immediate else None,
            entry.receive if entry.receive >= 0 else None,
        )  # fmt: skip

    def _follow_taker(self, name: Hashable) -> None:
        view, taker = self.ffi.new("sm_taker_view *"), self.takers[name]
        self._checked(self.lib.sm_net_taker_view(self.net, self._taker(name), view))
        items = view.receives[0 : view.posted] if view.posted else ()
        taker.posted, taker.taken = [Receive(each.number, self._named(each.place)) for each in items], view.taken
        failed = (view.failed_pe, view.failed_number)
        taker.failed = None if view.failed_queue < 0 else (self.known[failed].queue, failed)
