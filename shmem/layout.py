"""Line formats of the protocols whose data carry their flags, as data.

A message is cut into lines of equal size. A line holds payload at the places `pieces`, the flag at the places `flags`
and zeros elsewhere. Lines are stored and loaded in *cells*, aligned 8-byte words; what a path must promise about
their order, and which reader rule that permits, is a protocol's to declare: a layout only says what is done.
`lines.py` moves messages in these formats, `framing.py` says the same in plain Python.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from operator import index
from weakref import WeakValueDictionary

import numpy as np

from .errors import ArgumentError
from .plain import whole_number
from .records import LINES, RUNS_MAX, Records
from .views import address_of

CELL = 8
LINE_MAX = 65536
STEP_MAX = 1 << 31


class Order(IntEnum):
    """In which order the cells of a line are stored."""

    ANY = 0  # unordered: every cell carries its own flag
    FLAG_LAST = 1  # cells with a flag after all others, with release


class Reader(IntEnum):
    """How a receiver loads flag and data; every rule but SAME_LOAD relies on the order of the stores."""

    SAME_LOAD = 0  # each cell with its own flag, the data from the load whose flag matched
    FLAG_FIRST = 1  # flags of a group with acquire until they match, then its data
    RELOAD = 2  # all of a group until its flags match, then its data once more
    SINGLE_PASS = 3  # each cell once, in any line: never enough; here to show that


@dataclass(frozen=True)
class Cells:
    """`n` equal cells of a line from byte `at` on. Cell i holds `width` bytes of the line's payload, from its byte
    `start` + i * width on, at byte `shift` of the cell; flag * `unit` are the bits of the flag, `mask` covers them."""

    at: int
    n: int
    start: int
    width: int
    shift: int
    unit: int
    mask: int

    def continued_by(self, cell: Cells) -> bool:
        """Whether a single cell behind these belongs to them."""
        alike = (self.width, self.shift, self.unit, self.mask) == (cell.width, cell.shift, cell.unit, cell.mask)
        return alike and cell.start == (self.start + self.n * self.width if self.width else self.start)


def _need(condition: bool, what: str) -> None:
    if not condition:
        raise ArgumentError(f"no layout of lines: {what}")


def _whole(values: object) -> bool:
    """Whether these are integers."""
    return isinstance(values, (tuple, list)) and all(isinstance(one, (int, np.integer)) for one in values)


@dataclass(frozen=True)
class Layout:
    """The format of a line, and how it is stored and loaded.

    name: of the format, for messages. line: bytes of a line, a multiple of 8. pieces: (offset, bytes) of the payload
    in a line, ascending. flags: offsets of the flag, which is repeated at each; flag_bytes: 1, 2, 4 or 8, aligned. What
    neither names is stored as zero. order, reader: see there. group: how many lines have their flags
    seen before the data of any is loaded, 0 = all of a message (FLAG_FIRST and RELOAD). align: alignment of every
    line, a power of two from 8 up. pitch: bytes from one line to the next, 0 = line. short: if not 0, the last line
    ends early: its payload, rounded up to a multiple of this, then at once what follows the payload in a full line.

    Raises ArgumentError for places outside the line, that overlap or are not aligned, and for a cell with
    payload in two pieces, or without a flag of its own where the reader takes both from one load.
    """

    name: str
    line: int
    pieces: tuple[tuple[int, int], ...]
    flags: tuple[int, ...]
    flag_bytes: int = 4
    order: Order = Order.FLAG_LAST
    reader: Reader = Reader.FLAG_FIRST
    group: int = 1
    align: int = 8
    pitch: int = 0
    short: int = 0

    def __hash__(self) -> int:
        return hash((self.name, self.pitch))  # of all fields it would take longer than what is looked up by it

    def __post_init__(self) -> None:
        self._check_kinds()
        step = self.pitch or self.line
        _need(0 < self.line <= LINE_MAX and self.line % CELL == 0, f"a line of {self.line} bytes")
        _need(self.align >= CELL and self.align & (self.align - 1) == 0, f"an alignment of {self.align}")
        _need(step >= self.line and step % self.align == 0, f"lines of {self.line} bytes, {step} apart")
        _need(self.flag_bytes in (1, 2, 4, 8), f"a flag of {self.flag_bytes} bytes")
        _need(bool(self.pieces) and bool(self.flags) and self.group >= 0, "it needs payload, a flag and a group >= 0")
        _need(all(at % self.flag_bytes == 0 for at in self.flags), "a flag that is not aligned")
        self._check_places()
        self._check_short()
        own = all(cell.mask for cell in self.cells if cell.width)
        _need(self.reader is not Reader.SAME_LOAD or own, "SAME_LOAD with a cell that has payload but no flag")

    def _check_kinds(self) -> None:
        for name in ("line", "flag_bytes", "group", "align", "pitch", "short"):
            whole_number(getattr(self, name), name, None)
        _need(isinstance(self.name, str), f"name={self.name!r}, which is no text")
        _need(isinstance(self.order, Order), f"order={self.order!r}, which is no Order")
        _need(isinstance(self.reader, Reader), f"reader={self.reader!r}, which is no Reader")
        _need(_whole(self.flags), f"flags={self.flags!r}, which are no offsets")
        pairs = isinstance(self.pieces, (tuple, list)) and all(_whole(one) and len(one) == 2 for one in self.pieces)
        _need(pairs, f"pieces={self.pieces!r}, which are no pairs (offset, bytes)")
        _need(max(self.pitch, self.group) < STEP_MAX, f"pitch={self.pitch}, group={self.group}: too large")

    def _check_places(self) -> None:
        _need(list(self.pieces) == sorted(self.pieces), "pieces that are not in ascending order")
        end = 0
        for at, nbytes in sorted([*self.pieces, *((at, self.flag_bytes) for at in self.flags)]):
            _need(nbytes > 0 and end <= at, f"places that overlap or are empty at byte {at}")
            end = at + nbytes
        _need(end <= self.line, f"a place that ends at byte {end} of a line of {self.line}")

    def _check_short(self) -> None:
        if self.short:
            at, nbytes = self.pieces[0]
            _need(self.short > 0 and self.short % CELL == 0 and nbytes % self.short == 0, f"short={self.short}")
            _need(at == 0 and len(self.pieces) == 1 and not self.pitch, "a short last line, but not payload, then flag")

    @cached_property
    def data(self) -> int:
        """Payload bytes of a full line."""
        return sum(nbytes for _, nbytes in self.pieces)

    @cached_property
    def step(self) -> int:
        """Bytes from one line to the next."""
        return self.pitch or self.line

    def lines(self, nbytes: int) -> int:
        """Lines that a payload of `nbytes` takes; none for no payload."""
        return -(-whole_number(nbytes, "nbytes", None, 0) // self.data)

    def last_cut(self, nbytes: int) -> int:
        """By how many bytes the last line of a payload is shorter than a line."""
        if not self.short or whole_number(nbytes, "nbytes", None, 0) % self.data == 0:
            return 0
        return self.data - -(-(nbytes % self.data) // self.short) * self.short

    def wire_bytes(self, nbytes: int) -> int:
        """Bytes that a payload of `nbytes` takes on the wire: its lines, whatever lies between them left out."""
        return self.lines(nbytes) * self.line - self.last_cut(nbytes)

    def span(self, nbytes: int, lines: int | None = None) -> int:
        """Bytes of memory from the first to the end of the last of a payload's lines (or of as many as given)."""
        count = self.lines(nbytes) if lines is None else whole_number(lines, "lines", None, 0)
        return (count - 1) * self.step + self.line - self.last_cut(nbytes) if count else 0

    def capacity(self, nbytes: int) -> int:
        """The largest payload whose lines lie in `nbytes` of memory."""
        full, rest = divmod(whole_number(nbytes, "nbytes", None, 0), self.step)
        if rest >= self.line:
            full, rest = full + 1, 0
        tail = rest - (self.line - self.data)
        return full * self.data + (max(0, tail // self.short * self.short) if self.short else 0)

    def apart(self, pitch: int) -> Layout:
        """The same format with `pitch` bytes from one line to the next."""
        return replace(self, pitch=pitch)

    @cached_property
    def cells(self) -> tuple[Cells, ...]:
        """The line as runs of equal cells, ascending. Raises ArgumentError if it is too irregular for the C core."""
        runs: list[Cells] = []
        at = 0
        while at < self.line:
            cell = self._cell(at, runs[-1].start + runs[-1].n * runs[-1].width if runs else 0)
            n = self._alike(at)
            at += n * CELL
            if runs and runs[-1].continued_by(cell):
                cell, n = runs[-1], runs.pop().n + n
            runs.append(replace(cell, n=n))
        _need(len(runs) <= RUNS_MAX, f"{len(runs)} runs of equal cells, more than {RUNS_MAX}")
        return tuple(runs)

    def _alike(self, at: int) -> int:
        """How many cells from byte `at` on are alike: within one piece or none, without a flag."""
        edges = [edge for low, nbytes in self.pieces for edge in (low, low + nbytes) if edge > at]
        end = min([self.line, *edges, *(flag for flag in self.flags if flag >= at)])
        return max(1, (end - at) // CELL)

    def _cell(self, at: int, start: int) -> Cells:
        """The cell at byte `at`, whose payload begins at byte `start` of the line's."""
        parts = [(max(low, at), min(low + nbytes, at + CELL)) for low, nbytes in self.pieces]
        inside = [(low, high) for low, high in parts if low < high]
        _need(len(inside) <= 1, f"two pieces of payload in the cell at byte {at}")
        low, high = inside[0] if inside else (at, at)
        unit = sum(1 << 8 * (flag - at) for flag in self.flags if at <= flag < at + CELL)
        mask = unit * ((1 << 8 * self.flag_bytes) - 1)
        return Cells(at, 1, start, high - low, low - at, unit, mask)

    @cached_property
    def descriptor(self) -> Records:
        """The layout as the C core takes it: one `LINES` record, which lives as long as the layout."""
        one: Records = np.zeros(1, LINES)
        one["line"], one["step"], one["data"], one["tail"] = self.line, self.step, self.data, self.short
        one["order"], one["reader"], one["group"], one["runs"] = self.order, self.reader, self.group, len(self.cells)
        for i, run in enumerate(self.cells):
            one["cells"][0, i] = (run.unit, run.mask, run.at, run.n, run.start, run.width, run.shift)
        return one

    @cached_property
    def address(self) -> int:
        """Where `descriptor` lies in memory."""
        at = address_of(self.descriptor)
        _BY_ADDRESS[at] = self
        return at

    def check_flag(self, flag: object) -> int:
        """`flag` as an int; raises OverflowError if it needs more than `flag_bytes`, ArgumentError for no integer."""
        try:
            value = index(flag)  # type: ignore[arg-type]
        except TypeError:
            raise ArgumentError(f"a flag is an integer, not {flag!r}") from None
        if not 0 <= value < 1 << 8 * self.flag_bytes:
            raise OverflowError(f"flag {value} does not fit the {self.flag_bytes} bytes of {self.name}")
        return value


# Of those whose address was asked for: a record names its layout by it.
_BY_ADDRESS: WeakValueDictionary[int, Layout] = WeakValueDictionary()


def by_address(address: int) -> Layout:
    """The layout whose `address` that is."""
    return _BY_ADDRESS[address]


# Packets {u32 data, u32 flag}, and lines of two of them.
LL = Layout("LL", 8, ((0, 4),), (4,), order=Order.ANY, reader=Reader.SAME_LOAD)
LL16 = Layout("LL16", 16, ((0, 4), (8, 4)), (4, 12), order=Order.ANY, reader=Reader.SAME_LOAD, align=16)
# Slots of an all-to-all with epochs: LL16's line; parts of an element lie `pitch` slots apart (`LLA2A.apart`).
LLA2A = Layout("LLA2A", 16, ((0, 4), (8, 4)), (4, 12), order=Order.ANY, reader=Reader.SAME_LOAD, align=16)
# Data words and a u64 flag: 15 of them, or 7 in lines of 64 bytes. Groups of 16 lines are polled together.
LL128 = Layout("LL128", 128, ((0, 120),), (120,), 8, reader=Reader.RELOAD, group=16, align=128)
LL64 = Layout("LL64", 64, ((0, 56),), (56,), 8, reader=Reader.RELOAD, group=16, align=64)
# 480 data bytes and a field of 32 whose first u32 is the round; the flags of all blocks come first.
BLOCK512 = Layout("BLOCK512", 512, ((0, 480),), (480,), group=0, align=512)
# 4080 data bytes and a tag of 16 whose first u32 counts; the last tile is short. Its twin keeps all tags in place.
EAGER_TILE = Layout("EAGER_TILE", 4096, ((0, 4080),), (4080,), align=4096, short=16)
EAGER_TILE_FIXED = Layout("EAGER_TILE_FIXED", 4096, ((0, 4080),), (4080,), align=4096)
LAYOUTS = (LL, LL16, LLA2A, LL128, LL64, BLOCK512, EAGER_TILE, EAGER_TILE_FIXED)
