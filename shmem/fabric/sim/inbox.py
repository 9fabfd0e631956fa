"""Which `put_lines` a reader of lines took: the lines put to each place, and the verdict on a message that was read.

A line is meant to be the earliest of its sender that was put to that place with that flag and is not taken yet; all its
bytes must be that call's. Whoever takes a call again, and nothing of it that is new, has taken an old message for a new
one. Lines that were written otherwise (`put`, `get`, stores through `ptr`) are judged as far as those calls reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...delivery.tags import Call, Message, Written
from ...framing import shape_of, shapes_of
from ...layout import CELL, Layout
from .verdicts import failure, verdict

if TYPE_CHECKING:
    from .fabric import SimFabric
    from .tasks import TaskKey

Sent = dict[tuple[int, int, int], list[Call]]  # by PE, offset of a line with payload, and flag


def note(sent: Sent, pe: int, call: Call, message: Message) -> None:
    """A call puts lines to a PE."""
    call.what, call.message = "put_lines", message
    layout = message.layout
    assert isinstance(layout, Layout)
    for i in range(layout.lines(message.nbytes)):
        sent.setdefault((pe, message.at + i * layout.step, message.flag), []).append(call)


@dataclass
class Poll:
    """A message that was read, before the reader gets it."""

    fabric: SimFabric
    layout: Layout
    offset: int
    flag: int
    nbytes: int
    # who wrote a cell, by its offset: when its flag was seen, and when its payload was loaded
    flags: dict[int, list[Written]] = field(default_factory=dict)
    data: dict[int, list[Written]] = field(default_factory=dict)

    def check(self, task: TaskKey) -> None:
        """Raises AcceptError for a message that a task must not take, else notes that it has taken it."""
        lines = [(start, found, self._writer(found[0])) for start, found in self._lines()]
        new = {call for start, _, call in lines if call is not None and (task, start) not in call.taken}
        for i, (start, found, call) in enumerate(lines):
            kind, wrong, meant = self._judge(start, found, call if call in new else None)
            if wrong is not None:
                what = f"line {i} of {len(lines)} ({self.layout.name}, flag {self.flag})"
                raise failure(self.fabric, kind, what if meant is None else f"{what} of {meant}", wrong)
        for start, _, call in lines:
            if call is not None and call.number:
                call.taken.add((task, start))

    def _lines(self) -> Iterator[tuple[int, list[Written]]]:
        """Where each line starts, and who wrote the bytes that the reader relied on, those of the flags first."""
        for i, shape in enumerate(shapes_of(self.layout, self.nbytes)):
            start = self.offset + i * self.layout.step
            found = [part for at, size in shape.flags for part in _of(self.flags, start + at, size)]
            for at, size in shape.pieces:
                found += _of(self.data, start + at, size)
            yield start, found

    def _writer(self, flag: Written) -> Call | None:
        """The call that the first flag of a line is of; None if it is no flag of any."""
        call = flag.mark.call
        if call is None or (call.pe == self.fabric.me and not call.number):
            return None
        return None if call.message is not None and not _has_flag(call.message, flag.lo) else call

    def _judge(self, start: int, found: list[Written], call: Call | None) -> tuple[str, Written | None, Call | None]:
        """The verdict on a line, the bytes that tell it, and the call that was meant. call: that the flag is of, None
        if that is no new message."""
        sent = self.fabric.job.sent.get((self.fabric.me, start, self.flag), [])
        sent[:] = [one for one in sent if not one.taken]
        if call is not None:
            earlier = [] if self.fabric.crowded or call.message is None else sent
            meant = next((one for one in earlier if one.pe == call.pe and one.number < call.number), call)
            return *self._verdict(meant, found), meant
        for meant in sorted(sent, key=lambda one: (one.pe, one.number)):  # on its way, or wiped
            kind, wrong = self._verdict(meant, found)
            if kind != "stale":
                return kind or "torn", wrong or found[0], meant
        return "stale", found[0], None

    def _verdict(self, meant: Call, found: list[Written]) -> tuple[str, Written | None]:
        """The verdict if a call was meant."""
        me = self.fabric.me
        if {part.mark.call for part in found} == {meant}:
            return "", None
        its = (Written(at, hi, mark) for lo, hi, mark in found if (at := meant.first(me, lo, hi)) is not None)
        return verdict(
            its,
            lambda one: one is meant,
            lambda one: one.pe == meant.pe and one.number > meant.number,
        )


def _of(cells: dict[int, list[Written]], first: int, n: int) -> list[Written]:
    """Who wrote n bytes of cells."""
    end, found = first + n, []
    for at in range(first // CELL * CELL, end, CELL):
        for lo, hi, mark in cells[at]:
            if lo < end and first < hi and n:
                found.append(Written(lo if lo > first else first, hi if hi < end else end, mark))
    return found


def _has_flag(message: Message, at: int) -> bool:
    """Whether a message has (part of) a flag at an offset of the heap."""
    layout = message.layout
    assert isinstance(layout, Layout)
    i, inside = divmod(at - message.at, layout.step)
    last = i == layout.lines(message.nbytes) - 1
    shape = shape_of(layout, layout.last_cut(message.nbytes) if last else 0)
    return any(place <= inside < place + size for place, size in shape.flags)
