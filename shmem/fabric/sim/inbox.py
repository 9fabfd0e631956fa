"""Which `put_lines` a reader of lines took: the lines put to each place, and the verdict on a message that was read.

A line is meant to be the earliest of its sender that was put to that place with that flag and is not taken yet; all its
bytes must be that call's. Whoever takes a call again, and nothing of it that is new, has taken an old message for a new
one. Lines that were written otherwise (`put`, `get`, stores through `ptr`) are judged as far as those calls reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...delivery.tags import Call, Mark, Message
from ...framing import cut_of, flag_places, piece_places
from ...layout import CELL, Layout
from .verdicts import Byte, failure, verdict

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
    flags: dict[int, list[Mark]] = field(default_factory=dict)
    data: dict[int, list[Mark]] = field(default_factory=dict)

    def check(self, task: TaskKey) -> None:
        """Raises AcceptError for a message that a task must not take, else notes that it has taken it."""
        lines = [(start, cut, self._writer(start, cut)) for start, cut in self._lines()]
        new = {call for start, _, call in lines if call is not None and (task, start) not in call.taken}
        for i, (start, cut, call) in enumerate(lines):
            kind, byte, meant = self._judge(start, self._relied_on(i, start, cut), call if call in new else None)
            if byte is not None:
                what = f"line {i} of {len(lines)} ({self.layout.name}, flag {self.flag})"
                raise failure(self.fabric, kind, what if meant is None else f"{what} of {meant}", byte)
        for start, _, call in lines:
            if call is not None and call.number:
                call.taken.add((task, start))

    def _lines(self) -> Iterator[tuple[int, int]]:
        """Where each line starts, and by how much it is shorter than a full one."""
        for i in range(self.layout.lines(self.nbytes)):
            yield self.offset + i * self.layout.step, cut_of(self.layout, self.nbytes, i)

    def _flag(self, start: int, cut: int) -> list[Byte]:
        """The bytes of the flags of a line: offset and who wrote it."""
        return [byte for at, size in flag_places(self.layout, cut) for byte in _bytes(self.flags, start + at, size)]

    def _writer(self, start: int, cut: int) -> Call | None:
        """The call that the flag of a line is of; None if it is no flag of any."""
        at, mark = self._flag(start, cut)[0]
        call = mark.call
        if call is None or (call.pe == self.fabric.me and not call.number):
            return None
        return None if call.message is not None and not _has_flag(call.message, at) else call

    def _relied_on(self, i: int, start: int, cut: int) -> list[Byte]:
        """The bytes of a line that the reader relied on."""
        found = self._flag(start, cut)
        left = self.nbytes - i * self.layout.data
        for at, size in piece_places(self.layout, cut):
            found += _bytes(self.data, start + at, min(size, left))
            left = max(0, left - size)
        return found

    def _judge(self, start: int, found: list[Byte], call: Call | None) -> tuple[str, Byte | None, Call | None]:
        """The verdict on a line, a byte that tells it, and the call that was meant. call: that the flag is of, None if
        that is no new message."""
        sent = self.fabric.job.sent.get((self.fabric.me, start, self.flag), [])
        sent[:] = [one for one in sent if not one.taken]
        if call is not None:
            earlier = [] if self.fabric.crowded or call.message is None else sent
            meant = next((one for one in earlier if one.pe == call.pe and one.number < call.number), call)
            return *self._of(meant, found), meant
        for meant in sorted(sent, key=lambda one: (one.pe, one.number)):  # on its way, or wiped
            kind, byte = self._of(meant, found)
            if kind != "stale":
                return kind or "torn", byte or found[0], meant
        return "stale", found[0], None

    def _of(self, meant: Call, found: list[Byte]) -> tuple[str, Byte | None]:
        """The verdict if a call was meant."""
        return verdict(
            (byte for byte in found if meant.covers(self.fabric.me, byte[0])),
            lambda one: one is meant,
            lambda one: one.pe == meant.pe and one.number > meant.number,
        )


def _bytes(cells: dict[int, list[Mark]], first: int, n: int) -> list[Byte]:
    """n bytes of cells, as (offset, who wrote it)."""
    return [(at, cells[at // CELL * CELL][at % CELL]) for at in range(first, first + n)]


def _has_flag(message: Message, at: int) -> bool:
    """Whether a message has (part of) a flag at an offset of the heap."""
    layout = message.layout
    assert isinstance(layout, Layout)
    i, inside = divmod(at - message.at, layout.step)
    cut = cut_of(layout, message.nbytes, i)
    return any(place <= inside < place + size for place, size in flag_places(layout, cut))
