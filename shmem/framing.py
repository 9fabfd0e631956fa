"""What lines are, in plain Python: which stores write a message, in which order, and which loads read it.

This is the specification of the C kernel behind `put_lines` and `poll_lines`, with one load and one store of an 8-byte
cell at a time, so that a fabric without real memory can place and interleave them one by one. It works on
the pieces and flags of a layout, the kernel on runs of equal cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from .layout import CELL, Layout, Order, Reader
from .views import Array

Bytes = npt.NDArray[np.uint8]
Store = tuple[int, int, bool]  # offset from the first line, the 8 bytes as a number, whether with release
Load = Callable[[int, bool], int]  # of the cell at an offset, with acquire or not
Places = tuple[tuple[int, int], ...]  # in a line, as (offset, bytes)


def as_bytes(array: Array) -> Bytes:
    """The bytes of a C-contiguous array of any fixed-size dtype."""
    return array.reshape(-1).view(np.uint8)


def stores(payload: Array, layout: Layout, flag: int, lines: int | None = None) -> Iterator[Store]:
    """The stores of a message, in their order. `lines`: how many to write, default those that the payload takes; more
    of them carry zeros. Bytes behind the payload's end are zeros, too."""
    data = as_bytes(payload).tobytes()
    last = layout.order is Order.FLAG_LAST
    for i, (cut, image) in enumerate(images(data, layout, flag, lines)):
        flagged = flagged_cells(layout, cut)
        cells = range(0, layout.line - cut, CELL)
        if last:
            cells = [*(at for at in cells if at not in flagged), *flagged]  # type: ignore[assignment]
        for at in cells:
            yield i * layout.step + at, int.from_bytes(image[at : at + CELL], "little"), last and at in flagged


def images(data: bytes, layout: Layout, flag: int, lines: int | None = None) -> Iterator[tuple[int, bytes]]:
    """The lines of a message: by how many bytes each is shorter than a full one, and its bytes. `lines`: as in
    `stores`."""
    for i, cut in enumerate(cuts_of(layout, len(data), lines)):
        yield cut, _image(data[i * layout.data : (i + 1) * layout.data], layout, flag, cut)


def cuts_of(layout: Layout, nbytes: int, lines: int | None = None) -> list[int]:
    """By how many bytes each line of a payload is shorter than a full one: none but the last ever is."""
    count = layout.lines(nbytes)
    cuts = [0] * (count - 1) + [layout.last_cut(nbytes)] * min(count, 1)
    return cuts if lines is None else [*cuts, *[0] * (lines - count)][:lines]


def _image(part: bytes, layout: Layout, flag: int, cut: int) -> bytes:
    """The bytes of a line; what follows the payload moves up by `cut`."""
    line, done = bytearray(layout.line), 0
    for at, nbytes in layout.pieces:
        piece = part[done : done + nbytes]
        line[at : at + len(piece)] = piece
        done += nbytes
    for at in layout.flags:
        line[at : at + layout.flag_bytes] = flag.to_bytes(layout.flag_bytes, "little")
    if cut:
        del line[layout.data - cut : layout.data]
    return bytes(line)


@lru_cache
def flag_places(layout: Layout, cut: int) -> Places:
    """Where the flags of a line are."""
    return tuple((at - cut, layout.flag_bytes) for at in layout.flags)


@lru_cache
def piece_places(layout: Layout, cut: int) -> Places:
    """Where the payload of a line is."""
    return tuple((at, nbytes - cut) for at, nbytes in layout.pieces if nbytes > cut)  # only one piece is ever cut


def _cells_of(places: Places) -> tuple[int, ...]:
    """The cells that these bytes lie in, ascending."""
    found = {at // CELL * CELL for start, nbytes in places for at in range(start, start + nbytes)}
    return tuple(sorted(found))


@lru_cache
def flagged_cells(layout: Layout, cut: int) -> tuple[int, ...]:
    """The cells of a line that hold a flag, ascending."""
    return _cells_of(flag_places(layout, cut))


@lru_cache
def piece_cells(layout: Layout, cut: int) -> tuple[int, ...]:
    """The cells of a line that hold payload, ascending."""
    return _cells_of(piece_places(layout, cut))


def read_lines(load: Load, layout: Layout, flag: int, nbytes: int, again: Callable[[], bool]) -> bytes | None:
    """A message of `nbytes` by the layout's reader rule. Where a flag is missing `again()` is asked (and may wait)
    before the line is looked at once more; None if it answers no."""
    payload: list[bytes] = []
    for group in groups(layout, nbytes):
        single = []
        for i, cut in group:
            while True:
                line = _load_line(load, layout, i, cut, layout.reader is not Reader.FLAG_FIRST)
                if all(line[at : at + size] == flag.to_bytes(size, "little") for at, size in flag_places(layout, cut)):
                    break
                if not again():
                    return None
            single.append(payload_of(line, layout, cut))
        if layout.reader in (Reader.FLAG_FIRST, Reader.RELOAD):
            single = [payload_of(_load_line(load, layout, i, cut, True, flags=False), layout, cut) for i, cut in group]
        payload += single
    return b"".join(payload)[:nbytes]


def groups(layout: Layout, nbytes: int) -> Iterator[list[tuple[int, int]]]:
    """The lines of a payload by groups whose flags are seen before their data are loaded: (number, by how many bytes it
    is shorter than a full one)."""
    lines = list(enumerate(cuts_of(layout, nbytes)))
    size = layout.group or max(len(lines), 1)
    for first in range(0, len(lines), size):
        yield lines[first : first + size]


def _load_line(load: Load, layout: Layout, i: int, cut: int, data: bool, flags: bool = True) -> bytes:
    """The cells of a line that hold payload or flags, each loaded once, in ascending order; zeros for the others."""
    flagged = flagged_cells(layout, cut) if flags else ()
    cells = {*flagged, *(piece_cells(layout, cut) if data else ())}
    line = bytearray(layout.line - cut)
    for at in sorted(cells):
        line[at : at + CELL] = load(i * layout.step + at, at in flagged).to_bytes(CELL, "little")
    return bytes(line)


def payload_of(line: bytes, layout: Layout, cut: int) -> bytes:
    """What a line carries."""
    return b"".join(line[at : at + nbytes] for at, nbytes in piece_places(layout, cut))


def pack_lines(memory: Bytes, payload: Array, layout: Layout, flag: int, lines: int | None = None) -> None:
    """What `put_lines` leaves in the target's bytes, `memory`."""
    for at, bits, _ in stores(payload, layout, flag, lines):
        memory[at : at + CELL] = np.frombuffer(bits.to_bytes(CELL, "little"), np.uint8)


def unpack_lines(memory: Bytes, layout: Layout, flag: int, nbytes: int) -> Bytes | None:
    """What `poll_lines` takes out of `memory`: a payload of `nbytes`, None while a flag is missing."""

    def load(at: int, acquire: bool) -> int:
        return int.from_bytes(memory[at : at + CELL].tobytes(), "little")

    found = read_lines(load, layout, flag, nbytes, lambda: False)
    return None if found is None else np.frombuffer(found, np.uint8)


def missing_flag(memory: Bytes, layout: Layout, flag: int, nbytes: int) -> str:
    """The first line whose flags are not all `flag`, and what stands there: for messages."""
    for i, cut in enumerate(cuts_of(layout, nbytes)):
        for at, size in flag_places(layout, cut):
            start = i * layout.step + at
            seen = int.from_bytes(memory[start : start + size].tobytes(), "little")
            if seen != flag:
                return f"flag {seen} in line {i} of {layout.lines(nbytes)}"
    return f"flag {flag} in all {layout.lines(nbytes)} lines"
