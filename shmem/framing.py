"""What lines are, in plain Python: which stores write a message, in which order, and which loads read it.

This is the specification of the C kernel behind `put_lines` and `poll_lines`, with one load and one store of an 8-byte
cell at a time, so that a fabric without real memory can place and interleave them one by one. It works on
the pieces and flags of a layout, the kernel on runs of equal cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Shape:
    """Where things are in a line of so many bytes, counted from its start."""

    nbytes: int
    flags: Places
    pieces: Places  # of payload
    flagged: tuple[int, ...]  # the cells that hold a flag, ascending
    filled: tuple[int, ...]  # those that hold payload


@lru_cache(1024)
def shape_of(layout: Layout, cut: int = 0, payload: int | None = None) -> Shape:
    """A line that is shorter than a full one by some bytes: what follows moves up. payload: of the room that it has for
    payload, so many bytes are used; nobody needs to look at the rest."""
    flags = tuple((at - cut, layout.flag_bytes) for at in layout.flags)
    pieces, left = [], layout.data if payload is None else payload
    for at, nbytes in layout.pieces:
        used = max(0, min(nbytes - cut, left))  # only one piece is ever cut
        left -= used
        pieces += [(at, used)] if used else []
    return Shape(layout.line - cut, flags, tuple(pieces), _cells_of(flags), _cells_of(pieces))


def _cells_of(places: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """The cells that these bytes lie in, ascending."""
    found = {at // CELL * CELL for start, nbytes in places for at in range(start, start + nbytes)}
    return tuple(sorted(found))


def shapes_of(layout: Layout, nbytes: int, lines: int | None = None) -> list[Shape]:
    """The lines of a payload, all full but perhaps the last. `lines`: how many, default those that it takes."""
    count = layout.lines(nbytes)
    shapes = [shape_of(layout)] * (count if lines is None else lines)
    if 0 < count <= len(shapes):
        shapes[count - 1] = shape_of(layout, layout.last_cut(nbytes), nbytes - (count - 1) * layout.data)
    return shapes


def stores(payload: Array, layout: Layout, flag: int, lines: int | None = None) -> Iterator[Store]:
    """The stores of a message, in their order. `lines`: how many to write, default those that the payload takes; more
    of them carry zeros. Bytes behind the payload's end are zeros, too."""
    last = layout.order is Order.FLAG_LAST
    for i, (shape, image) in enumerate(images(as_bytes(payload).tobytes(), layout, flag, lines)):
        cells = range(0, shape.nbytes, CELL)
        if last:
            cells = [*(at for at in cells if at not in shape.flagged), *shape.flagged]  # type: ignore[assignment]
        for at in cells:
            bits = int.from_bytes(image[at : at + CELL], "little")
            yield i * layout.step + at, bits, last and at in shape.flagged


def images(data: bytes, layout: Layout, flag: int, lines: int | None = None) -> Iterator[tuple[Shape, bytes]]:
    """The lines of a message, each with its bytes. `lines`: as in `stores`."""
    for i, shape in enumerate(shapes_of(layout, len(data), lines)):
        yield shape, _image(data[i * layout.data : (i + 1) * layout.data], shape, flag)


def _image(part: bytes, shape: Shape, flag: int) -> bytes:
    line, done = bytearray(shape.nbytes), 0
    for at, nbytes in shape.pieces:
        piece = part[done : done + nbytes]
        line[at : at + len(piece)] = piece
        done += nbytes
    for at, nbytes in shape.flags:
        line[at : at + nbytes] = flag.to_bytes(nbytes, "little")
    return bytes(line)


def read_lines(load: Load, layout: Layout, flag: int, nbytes: int, again: Callable[[], bool]) -> bytes | None:
    """A message of `nbytes` by the layout's reader rule. Where a flag is missing `again()` is asked (and may wait)
    before the line is looked at once more; None if it answers no."""
    payload: list[bytes] = []
    for group in groups(layout, nbytes):
        single = []
        for i, shape in group:
            while True:
                line = _load_line(load, i * layout.step, shape, layout.reader is not Reader.FLAG_FIRST)
                if all(line[at : at + size] == flag.to_bytes(size, "little") for at, size in shape.flags):
                    break
                if not again():
                    return None
            single.append(payload_of(line, shape))
        if layout.reader in (Reader.FLAG_FIRST, Reader.RELOAD):
            single = [
                payload_of(_load_line(load, i * layout.step, shape, True, flags=False), shape) for i, shape in group
            ]
        payload += single
    return b"".join(payload)


def groups(layout: Layout, nbytes: int) -> Iterator[list[tuple[int, Shape]]]:
    """The lines of a payload, with their numbers, by groups whose flags are seen before their data are loaded."""
    lines = list(enumerate(shapes_of(layout, nbytes)))
    size = layout.group or max(len(lines), 1)
    for first in range(0, len(lines), size):
        yield lines[first : first + size]


def _load_line(load: Load, start: int, shape: Shape, data: bool, flags: bool = True) -> bytes:
    """The cells of a line that hold payload or flags, each loaded once, in ascending order; zeros for the others."""
    flagged = shape.flagged if flags else ()
    cells = {*flagged, *(shape.filled if data else ())}
    line = bytearray(shape.nbytes)
    for at in sorted(cells):
        line[at : at + CELL] = load(start + at, at in flagged).to_bytes(CELL, "little")
    return bytes(line)


def payload_of(line: bytes | bytearray, shape: Shape) -> bytes:
    """What a line carries."""
    return b"".join([line[at : at + nbytes] for at, nbytes in shape.pieces])


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
    for i, shape in enumerate(shapes_of(layout, nbytes)):
        for at, size in shape.flags:
            start = i * layout.step + at
            seen = int.from_bytes(memory[start : start + size].tobytes(), "little")
            if seen != flag:
                return f"flag {seen} in line {i} of {layout.lines(nbytes)}"
    return f"flag {flag} in all {layout.lines(nbytes)} lines"
