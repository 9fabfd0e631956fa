"""The fabric of a recorded run: `direct`, and a stream of what this PE does.

What never blocks runs in the core, which takes the locks and the time of the words concerned (`clocks.c`); the frame is
written before, and gets the times as they are taken. What blocks is written when it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..fabric.events import Kind
from ..fabric.handles import context, is_lock
from ..fabric.interface import Counter, Level, Members, Status
from ..fabric.pending import Pending
from ..framing import shapes_of
from ..layout import CELL, Reader, by_address
from ..records import NBI, Conditions, Op, Records
from ..records import Kind as Word
from .executor import ThreadExecutor
from .heap import merged
from .recorder import Range, Recorder
from .rows import is_local, touched
from .stream import INNER, NO_STORES, PRIVATE, RECORDS, WORD, Frame, access

APART = (Op.WAIT, Op.BARRIER, Op.PUT_LINES, Op.POLL_LINES)  # run one by one
FOLLOWED_BYTES = 1 << 16  # private memory of an operation that is not complete is compared up to this size


class RecordingFabric(Recorder):
    """As `direct`; each call also adds to the stream."""

    def __init__(
        self, me: int, n: int, window: Callable[[int, int], list[int]], cores: int, survive: bool, isa: str,
        path: str, run: str, **more: Any,
    ) -> None:  # fmt: skip
        super().__init__(me, n, window, cores, survive, isa, path, run, **more)
        self._pending = Pending()
        self._teams: dict[int, tuple[int, ...]] = {}
        self._renewed: dict[tuple[int, tuple[int, ...]], int] = {}  # how often a team had a slot
        self._rounds: dict[tuple[int, tuple[int, ...]], int] = {}
        self._arrived: set[int] = set()  # slots of barriers that were entered and not left

    def executor(self) -> Any:
        """A Python thread."""
        return ThreadExecutor(self)

    # ---- records ----

    def submit(
        self, q: int, ops: Records, start: int = 0, timeout_s: float = 0.0, reached: Counter | None = None
    ) -> tuple[Status, int]:
        """Runs the records in order."""
        at, n = start, len(ops)
        apart = [i for i, code in enumerate(ops["op"][start:].tolist(), start) if code in APART]
        status = Status.OK
        self._follow()
        for end in (*apart, n):
            if at < end:
                status, at = self._together(q, ops, at, end)
            if status is Status.OK and at < n:
                status = self._alone(q, ops[at : at + 1], timeout_s)
                at += status is Status.OK
            if reached is not None:
                reached[0] = at
            if status is not Status.OK:
                break
        return status, at

    def _together(self, q: int, ops: Records, at: int, end: int) -> tuple[Status, int]:
        """Runs records that never block."""
        part, cast, n = ops[at:end], self.ffi.cast, end - at
        address, where, (domain, stores) = self.hot.address(ops), self.where(), context(q)
        flags = (INNER if q == self.inner else 0) | (0 if stores else NO_STORES)
        with self._writing:
            text = self.stream.text
            head = RECORDS.pack(text(where), n, text(domain), 0)
            if (n == 1 and self._is_amo_on_lock(part)) or self.stream.closed:
                place, kept = self.hot.address(np.zeros(n, np.uint64)), self.ffi.NULL
            else:
                part = part.copy()
                part["id"] = 0  # for the numbers of what lands later
                times = self._write(Frame.RECORDS, head + bytes(WORD * n) + part.tobytes(), flags, q) + RECORDS.size
                place = self.stream.base + times
                kept = cast("sm_op *", place + WORD * n - ops.itemsize * at)
            self._done[0] = at
            numbers = cast("uint64_t *", place - WORD * at)
            status = self.lib.sm_clocks_run(
                self.pe, q, cast("sm_op *", address), end, self._done, self._time, numbers, kept
            )
            done = self._done[0]
            self._landed()
            self._also(q, ops[at:done])
        return Status(status), done

    def _is_amo_on_lock(self, one: Records) -> bool:
        return int(one["op"][0]) == Op.AMO and is_lock(int(one["dst"][0]))

    def _also(self, q: int, ops: Records) -> None:
        """What of records that have run is not written in them."""
        for op in ops if len(ops) == 1 else ops[(ops["op"] >= Op.COPY_ROWS) | (ops["flags"] & NBI > 0)]:
            if is_local(int(op["op"])):
                reads, writes = touched(op, self.heap.bases)
                self._ranges(Kind.LOAD, reads, q)
                self._ranges(Kind.STORE, writes, q)
            elif op["flags"] & NBI and q != self.inner:
                self._hold_private(q, op)

    def _ranges(self, kind: Kind, ranges: Any, q: int) -> None:
        spans = merged(self.heap.find(*each) for each in ranges)
        if spans := [each for each in spans if q != self.inner or each[0] == self.me]:
            self.accessed(kind, spans)

    def _hold_private(self, q: int, op: Any) -> None:
        """Private memory of an operation: what the program does to it until that is complete shows by its bytes."""
        code = int(op["op"])
        if code in (Op.PUT, Op.PUT_SIGNAL, Op.GET, Op.AMO):
            address = int(op["dst" if code == Op.GET else "src"])
            nbytes = int(op["width" if code == Op.AMO else "n"])
            if address and 0 < nbytes <= FOLLOWED_BYTES and self.heap.find(address, nbytes)[0] == PRIVATE:
                self._pending.source(q, int(op["pe"]), address, nbytes)

    def _follow(self) -> None:
        for lo, hi in self._changed():
            self.accessed(Kind.STORE, [(PRIVATE, lo, hi)], what="store before this line")

    def _changed(self) -> Iterator[Range]:
        """Private memory of operations that are not complete, where the program has changed it."""
        return ((address, address + nbytes) for address, nbytes in self._pending.changes())

    def _alone(self, q: int, op: Records, timeout_s: float) -> Status:
        """Runs a record that blocks, or that is written in another form."""
        one = op[0]
        code = int(one["op"])
        if code == Op.BARRIER:
            return self._barrier_record(q, one, timeout_s)
        if code == Op.PUT_LINES:
            return self._put_lines(q, op)
        status, _ = super().submit(q, op, 0, timeout_s)
        if status is Status.OK and code == Op.WAIT:
            width = 8 if Word(int(one["width"])) in (Word.I64, Word.U64) else 4
            for i in range(int(one["n"])):
                self._waited(int(one["dst"]) + i * width, width)
        elif status is Status.OK:
            self._took_lines(one)
        return status

    def _barrier_record(self, q: int, op: Any, timeout_s: float) -> Status:
        slot = int(op["width"])
        members = Members(slot, self._teams.get(slot, tuple(range(self.n))))
        call = int(op["value"])
        if q == self.inner:
            if slot not in self._arrived:
                super().complete(q, Level.VISIBLE)
            return self._meets(members, call, timeout_s, False)
        if slot not in self._arrived:
            self.complete(q, Level.VISIBLE)
        return self.barrier(members, call, timeout_s)

    def _put_lines(self, q: int, op: Records) -> Status:
        one = op[0]
        layout, dst, pe = by_address(int(one["aux"])), int(one["dst"]), int(one["pe"])
        sizes = [shape.nbytes for shape in shapes_of(layout, int(one["n"]), int(one["cond"]))]
        if layout.step == layout.line:
            sizes = [sum(sizes)]
        where = self.where()
        source = self.heap.find(int(one["src"]), int(one["n"]))
        with self._writing:
            self.accessed(Kind.LOAD, [source])
            times, kept = np.zeros(1, np.uint64), op.copy()
            kept["id"] = self._done[0] = 0
            cast, address = self.ffi.cast, self.hot.address
            status = self.lib.sm_clocks_run(
                self.pe, q, cast("sm_op *", address(op)), 1, self._done, self._time, cast("uint64_t *", address(times)),
                cast("sm_op *", address(kept)),
            )  # fmt: skip
            spans = [(pe, dst + i * layout.step, dst + i * layout.step + size) for i, size in enumerate(sizes)]
            lines = access(self.stream.text(where), Kind.PUT_LINE, 0, spans, int(kept["id"][0]))
            self._write(Frame.LINES, lines, 0, q, int(times[0]))
            self._landed()
            return Status(status)

    def _took_lines(self, op: Any) -> None:
        layout, at, n = by_address(int(op["aux"])), int(op["src"]), int(op["n"])
        spans = [(self.me, at, at + layout.span(n))]
        with self._writing:
            self._time[0] = self.lib.sm_clocks_look(self.pe, at, layout.span(n), self._time[0])
            self.accessed(Kind.POLL_LINE, spans, what=Kind.POLL_LINE.value)
            # Cells of 8 bytes are placed whole here, and in the order of addresses.
            if layout.reader is not Reader.SINGLE_PASS or layout.line <= CELL:
                self.accessed(Kind.POLL_LINE, spans, frame=Frame.TAKEN)
            self.accessed(Kind.STORE, [self.heap.find(int(op["dst"]), n)])

    # ---- order and completion ----

    def fence(self, q: int) -> None:
        """As ever."""
        super().fence(q)
        if q != self.inner:
            with self._writing:
                self._write(Frame.FENCE, b"", 0 if context(q)[1] else NO_STORES, q)

    def complete(self, q: int, level: Level, pes: Sequence[int] | None = None, timeout_s: float | None = None) -> None:
        """As ever."""
        self._follow()
        super().complete(q, level, pes, timeout_s)
        with self._writing:
            self._landed()
            if q == self.inner:
                return
            for target in [None] if pes is None else pes:
                number = PRIVATE if target is None else target
                self._write(Frame.QUIET, number.to_bytes(4, "little", signed=True) + bytes([level]), 0, q)
                if level is not Level.RESULT:
                    self._pending.complete(q, target, True, True)

    # ---- waiting ----

    def _waited(self, offset: int, nbytes: int, look: bool = True) -> None:
        """An own word was seen."""
        with self._writing:
            if look:
                self._time[0] = self.lib.sm_clocks_look(self.pe, offset, nbytes, self._time[0])
            if not is_lock(offset):
                spans = [(self.me, offset, offset + nbytes)]
                self._write(Frame.WAITED, access(self.stream.text(self.where()), Kind.WAIT, 0, spans))

    def wait(self, any_of: Conditions, timeout_s: float) -> tuple[Status, int]:
        """As ever."""
        if timeout_s <= 0:
            held = self.test(any_of)
            return (Status.OK, int(held.argmax())) if held.any() else (Status.TIMEOUT, -1)
        status, which = super().wait(any_of, timeout_s)
        if status is Status.OK:
            self._waited(int(any_of["offset"][which]), _width(any_of[which]))
        return status, which

    def test(self, all_of: Conditions) -> npt.NDArray[np.bool_]:
        """As ever."""
        held = np.empty(len(all_of), np.bool_)
        cast, address = self.ffi.cast, self.hot.address
        with self._writing:
            self._time[0] = self.lib.sm_clocks_test(
                self.pe, cast("sm_condition *", address(all_of)), len(all_of), cast("uint8_t *", address(held)),
                self._time[0],
            )  # fmt: skip
            for one, holds in zip(all_of, held.tolist(), strict=True):
                at, nbytes = int(one["offset"]), _width(one)
                if holds:
                    self._waited(at, nbytes, False)
                elif not is_lock(at):
                    self.accessed(Kind.WAIT, [(self.me, at, at + nbytes)], what=Kind.WAIT.value)
        return held

    # ---- barriers ----

    def team(self, members: Members) -> None:
        """As ever; tokens of barriers know which team of a slot they are of."""
        super().team(members)
        key = members.slot, members.pes
        self._teams[members.slot] = members.pes
        self._renewed[key] = self._renewed.get(key, 0) + 1
        self._rounds.pop(key, None)
        self._arrived.discard(members.slot)

    def barrier(self, members: Members, call: int, timeout_s: float) -> Status:
        """As ever."""
        return self._meets(members, call, timeout_s, True)

    def _meets(self, members: Members, call: int, timeout_s: float, told: bool) -> Status:
        key, slot, leader = (members.slot, members.pes), members.slot, members.pes[0]
        with self._writing:
            self._landed()
            if slot not in self._arrived:
                self._arrived.add(slot)
                if told:
                    self._rounds[key] = self._rounds.get(key, 0) + 1
                    self._write(Frame.MEET, self._token(members, self.me))
                self.lib.sm_clocks_arrive(self.pe, leader, slot, self._time[0])
        status = super().barrier(members, call, timeout_s)
        if status in (Status.OK, Status.MISMATCH):
            with self._writing:
                self._arrived.discard(slot)
                self._time[0] = max(self._time[0], self.lib.sm_clocks_met(self.pe, leader, slot)) + 1
                if told:
                    self._write(Frame.ACQUIRE, b"".join(self._token(members, pe) for pe in members.pes))
        return status

    def _token(self, members: Members, pe: int) -> bytes:
        """Names the arrival of a PE. Two rounds are told apart: nobody is further from another."""
        key = members.slot, members.pes
        text = f"{members.slot} {members.pes} {self._renewed.get(key, 0)} {self._rounds[key] % 2} {pe}"
        return self.stream.text(text).to_bytes(4, "little")


def _width(condition: Any) -> int:
    return 8 if Word(int(condition["kind"])) in (Word.I64, Word.U64) else 4
