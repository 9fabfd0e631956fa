"""Lines on `sim`: a message is one WRITE (one a line where lines lie apart), and a reader takes cell after cell.

`framing` says in plain Python what lines are; here its polling loops are waits, so that no state is spent on a look
that finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...delivery.facts import Touch, Undone
from ...delivery.profiles import Profile
from ...delivery.requests import Place
from ...delivery.tags import Message, told, written
from ...errors import AcceptError
from ...framing import Shape, groups, images, payload_of, read_lines
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
    parts = [line for _, line in images(fabric.heap.read(op.src, op.n), layout, op.value, op.cond)]
    if parts and layout.step == layout.line:
        parts = [b"".join(parts)]
    for i, data in enumerate(parts):
        first = op.dst + i * layout.step
        write(fabric, q, op.pe, (first, first + len(data)), data=data)
        if i == 0:
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
    if fabric.job.observed is not None:
        place = Place(fabric.me, op.src, op.src + layout.span(op.n))
        fabric.job.observed.polled(place, placed_whole(layout, fabric.profile))
    fabric.heap.write(op.dst, found)
    return Status.OK


def placed_whole(layout: Layout, profile: Profile) -> bool:
    """Whether who accepts a line may rely on its bytes, by what a profile promises: cells that carry their flags are
    placed in one step; or else lines are, or their cells in the order of addresses."""
    if layout.reader is Reader.SAME_LOAD:
        return profile.unit >= CELL
    return profile.unit >= layout.line or (profile.units == "ascending" and layout.reader is not Reader.SINGLE_PASS)


class _Reader:
    """One message to be read."""

    def __init__(self, fabric: SimFabric, layout: Layout, offset: int, flag: int, nbytes: int) -> None:
        self.fabric, self.layout, self.offset, self.flag, self.nbytes = fabric, layout, offset, flag, nbytes
        self.poll = Poll(fabric, layout, offset, flag, nbytes)

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
        found = self.poll.data[place.lo] = written(self.fabric.machine, self.fabric.me, place)
        if flags:
            self.poll.flags[place.lo] = found
        return told(found)

    def _load(self, at: int, flags: bool) -> bytes:
        return self.fabric.look(
            [self._place(at, CELL)], "load of a cell", plain=False, take=lambda place: self._take(place, flags)
        )[0]

    def _place(self, at: int, nbytes: int) -> Place:
        return Place(self.fabric.me, self.offset + at, self.offset + at + nbytes)

    def once(self) -> bytes | None:
        """Looks at each line once."""

        def load(at: int, flags: bool) -> int:
            return int.from_bytes(self._load(at, flags), "little")

        return read_lines(load, self.layout, self.flag, self.nbytes, lambda: False)

    def waiting(self) -> bytes:
        """Waits for the flags line by line, a group at a time, then loads what the reader rule says."""
        layout, parts = self.layout, []
        for group in groups(layout, self.nbytes):
            seen = [self._flags(i, shape) for i, shape in group]
            for (i, shape), line in zip(group, seen, strict=True):
                if layout.reader is not Reader.SAME_LOAD:
                    for at in shape.filled:
                        line[at : at + CELL] = self._load(i * layout.step + at, False)
                parts.append(payload_of(line, shape))
        return b"".join(parts)

    def _flags(self, i: int, shape: Shape) -> bytearray:
        """Waits until the flags of a line are all there; returns the line with the cells that hold them."""
        layout, fabric, start = self.layout, self.fabric, i * self.layout.step
        flags = [self._place(start + at, size) for at, size in shape.flags]
        loads = [self._place(start + at, CELL) for at in shape.flagged]
        wanted = [self.flag.to_bytes(layout.flag_bytes, "little")] * len(flags)

        def could(undone: Undone) -> bool:
            return [fabric.without(undone, flag) for flag in flags] == wanted

        def take() -> list[object]:
            return [fabric.without([], place) for place in loads] + [self._take(place, True) for place in loads]

        touches = tuple([Touch(place, False, marks=True) for place in loads])
        what = f"flag {self.flag} in line {i} of {layout.name}"
        step = Step(what, take, lambda: could([]), lambda: touches, could=could, takes=True)
        line = bytearray(shape.nbytes)
        for at, data in zip(shape.flagged, fabric.do(step), strict=False):
            line[at : at + CELL] = data
        return line
