"""Lines on `sim`: a message is one WRITE (one a line where lines lie apart), and a reader takes cell after cell.

`framing` says in plain Python what lines are; here its polling loops are waits, so that no state is spent on a look
that finds nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...delivery.facts import Touch, Undone
from ...delivery.requests import Place
from ...delivery.tags import Message, marks, told
from ...errors import AcceptError
from ...framing import cut_of, flag_places, flagged_cells, payload_of, piece_cells, read_lines, stores
from ...layout import CELL, Layout, Reader, by_address
from ..interface import Status
from .inbox import Poll
from .tasks import Step

if TYPE_CHECKING:
    from .fabric import SimFabric
    from .records import Fields


def put(fabric: SimFabric, q: int, op: Fields, write: Callable[..., Any]) -> None:
    """Posts the lines of a payload, which is read at once."""
    layout = by_address(op.aux)
    payload = np.frombuffer(fabric.heap.read(op.src, op.n), np.uint8)
    span = layout.span(op.n, op.cond)
    image = bytearray(span)
    for at, bits, _ in stores(payload, layout, op.value, op.cond):
        image[at : at + CELL] = bits.to_bytes(CELL, "little")
    apart = layout.step > layout.line
    for first in range(0, span, layout.step if apart else max(span, 1)):
        data = bytes(image[first : first + layout.line if apart else span])
        write(fabric, q, op.pe, (op.dst + first, op.dst + first + len(data)), data=data)
        if first == 0:
            fabric.calls.lines(Message(layout, op.value, op.dst, op.n), op.pe)


def poll(fabric: SimFabric, op: Fields, timeout_s: float) -> Status:
    """Takes a payload out of lines by the layout's reader rule; TIMEOUT if it may not wait and a flag is missing."""
    layout = by_address(op.aux)
    reader = _Reader(fabric, layout, op.src, op.value, op.n)
    found = reader.once() if timeout_s <= 0 or layout.reader is Reader.SINGLE_PASS else reader.waiting()
    if found is None:
        return Status.TIMEOUT
    if fabric.job.tags is not None:
        reader.check()
    fabric.heap.write(op.dst, found)
    return Status.OK


class _Reader:
    """One message to be read."""

    def __init__(self, fabric: SimFabric, layout: Layout, offset: int, flag: int, nbytes: int) -> None:
        self.fabric, self.layout, self.offset, self.flag, self.nbytes = fabric, layout, offset, flag, nbytes
        self.poll = Poll(fabric, layout, offset, flag, nbytes)
        self._wanted = flag.to_bytes(layout.flag_bytes, "little")
        self._shape = functools.cache(lambda cut: (flag_places(layout, cut), flagged_cells(layout, cut)))

    def check(self) -> None:
        """Raises AcceptError if what was read is not the message that was meant."""
        task = self.fabric.job.running
        assert task is not None
        try:
            self.poll.check(task.key)
        except AcceptError as error:
            task.told = hash((task.told, error.kind, str(error)))
            raise

    def _take(self, place: Place, flags: bool) -> object:
        """Notes who wrote a cell that is loaded; returns what there is to tell of it."""
        if self.fabric.job.tags is None:
            return None
        found = self.poll.data[place.lo] = marks(self.fabric.machine, self.fabric.me, place)
        if flags:
            self.poll.flags[place.lo] = found
        return told(found)

    def _load(self, at: int, flags: bool) -> bytes:
        return self.fabric.look(
            [self._cell(at)], "load of a cell", plain=False, take=lambda place: self._take(place, flags)
        )[0]

    def _cell(self, at: int) -> Place:
        return Place(self.fabric.me, self.offset + at, self.offset + at + CELL)

    def once(self) -> bytes | None:
        """Looks at each line once."""

        def load(at: int, flags: bool) -> int:
            return int.from_bytes(self._load(at, flags), "little")

        return read_lines(load, self.layout, self.flag, self.nbytes, lambda: False)

    def waiting(self) -> bytes:
        """Waits for the flags line by line, a group at a time, then loads what the reader rule says."""
        layout, parts = self.layout, []
        count = layout.lines(self.nbytes)
        group = layout.group or max(count, 1)
        for first in range(0, count, group):
            lines = range(first, min(first + group, count))
            cuts = [cut_of(layout, self.nbytes, i) for i in lines]
            seen = [self._flags(i, cut) for i, cut in zip(lines, cuts, strict=True)]
            for i, cut, line in zip(lines, cuts, seen, strict=True):
                if layout.reader is not Reader.SAME_LOAD:
                    for at in piece_cells(layout, cut):
                        line[at : at + CELL] = self._load(i * layout.step + at, False)
                parts.append(payload_of(bytes(line), layout, cut))
        return b"".join(parts)[: self.nbytes]

    def _flags(self, i: int, cut: int) -> bytearray:
        """Waits until the flags of a line are all there; returns the line with the cells that hold them."""
        layout, wanted, without = self.layout, self._wanted, self.fabric.without
        flags, cells = self._shape(cut)
        places = [(at, self._cell(i * layout.step + at)) for at in cells]

        def line(undone: Undone) -> bytearray:
            found = bytearray(layout.line - cut)
            for at, place in places:
                found[at : at + CELL] = without(undone, place)
            return found

        def could(undone: Undone) -> bool:
            now = line(undone)
            return all(now[at : at + size] == wanted for at, size in flags)

        def take() -> tuple[object, ...]:
            return bytes(line([])), *(self._take(place, True) for _, place in places)

        touches = tuple(Touch(place, False, marks=True) for _, place in places)
        what = f"flag {self.flag} in line {i} of {layout.name}"
        step = Step(what, take, lambda: could([]), lambda: touches, could=could, takes=True)
        return bytearray(self.fabric.do(step)[0])
