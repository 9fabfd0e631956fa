"""Raw blocks of the symmetric heap: collective allocation, reallocation and free (OpenSHMEM 1.6, 9.3).

Every PE makes the same calls with the same arguments in the same order; a PE that differs raises SymmetryError on all,
before anything was allocated. The call is compared in the barrier that every allocation has, then each PE allocates by
itself and gets the same offset. Memory never used before is zero and is not touched; reused memory is zeroed before a
second barrier, so that no early put is wiped. Arrays over such blocks are made in `arrays.py`.
"""

from __future__ import annotations

import os
import sys
from types import FrameType

import numpy as np

from . import log
from .barriers import agree, collective
from .bootstrap import PAGE
from .config import format_size
from .enums import MALLOC
from .errors import ArgumentError, DtypeError, FreedBlock, HeapExhausted, NotSymmetric
from .fabric.interface import Level
from .in_use import block_in_use, forget_locks
from .plain import truth, whole_number
from .runtime import PE, current
from .views import Array, address_of, from_before

LINE = 64  # what every block is aligned to at least
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OURS = tuple(os.path.join(_ROOT, name, "") for name in ("shmem", "protocols", "moe_ep"))


class _InOurs(dict[str, bool]):
    """Whether files lie in these packages, of those that were asked for."""

    def __missing__(self, file: str) -> bool:
        self[file] = file.startswith(OURS)
        return self[file]


_IN_OURS = _InOurs()


def caller(frame: FrameType | None = None) -> str:
    """'file.py:12' of the line outside these packages that called (this function, or the frame)."""
    frame, ours = frame or sys._getframe(1), _IN_OURS
    while ours[frame.f_code.co_filename] and (back := frame.f_back) is not None:
        frame = back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def allocate(pe: PE, nbytes: int, call: str, zero: bool, align: int = LINE, hints: int = 0) -> int:
    """Collective: the offset of a new block. Raises SymmetryError or HeapExhausted on every PE."""
    collective(pe, call)
    offset, fresh = _take(pe, nbytes, call, align, hints)
    if zero and not fresh:
        pe.heap.fill(offset, nbytes, 0)
        collective(pe, call)
    return offset


def _take(pe: PE, nbytes: int, call: str, align: int, hints: int) -> tuple[int, bool]:
    taken = pe.heap.take(nbytes, call, caller(), align, hints)
    if taken is None:
        stats, free = pe.heap.stats(), pe.heap.free_bytes
        raise HeapExhausted(
            f"{call} asks for {format_size(nbytes)}, but the heap of {format_size(stats.size)} has "
            f"{format_size(free)} free, at most {format_size(stats.largest_free)} of it in one piece: free something "
            "or start with a larger SHMEMU_HEAP_SIZE",
            asked=nbytes, free=free, largest_free=stats.largest_free, pe=pe.me,
        )  # fmt: skip
    log.debug("%s: %d bytes at heap offset %#x", call, nbytes, taken[0])
    return taken


def check_align(pe: PE, align: object) -> int:
    """The alignment that an argument means; None and 0 are the usual one. Raises ArgumentError."""
    if align is None:
        return LINE
    wanted = whole_number(align, "align", pe.me)
    if wanted & (wanted - 1) or not 0 <= wanted <= PAGE:
        raise ArgumentError(f"align={align}: must be a power of two up to {PAGE}, a page", pe=pe.me)
    return max(wanted, LINE)


def check_hints(pe: PE, hints: object) -> int:
    """The hints that an argument means, None being none. Raises ArgumentError."""
    if hints is None:
        return 0
    if type(hints) not in (int, MALLOC) or int(hints) & ~sum(MALLOC):  # type: ignore[call-overload]
        raise ArgumentError(f"hints={hints!r}: must be MALLOC_ATOMICS_REMOTE, MALLOC_SIGNAL_REMOTE or both", pe=pe.me)
    return int(hints)  # type: ignore[call-overload, no-any-return]


def extras(align: object, hints: int) -> str:
    """How the keywords of an allocation are written in the text of the call."""
    return (f", align={align}" if align else "") + (f", hints={hints}" if hints else "")


def malloc(nbytes: int) -> memoryview | None:
    """A new symmetric block of bytes, contents undefined. Collective; 0 bytes give None without a barrier.

    On return: every PE has entered the call. Raises SymmetryError, HeapExhausted, ArgumentError for a negative size.
    OpenSHMEM 1.6, 9.3 (shmem_malloc).
    """
    return _block(f"malloc({nbytes})", nbytes)


def calloc(count: int, size: int) -> memoryview | None:
    """A new symmetric block of `count * size` zero bytes. Collective; 0 bytes give None without a barrier.

    On return: the memory of every PE is zero. Raises as `malloc`. OpenSHMEM 1.6, 9.3 (shmem_calloc).
    """
    return _block(f"calloc({count}, {size})", _product(count, size), zero=True)


def align(alignment: int, nbytes: int) -> memoryview | None:
    """A new symmetric block at an address that is a multiple of `alignment`, on every PE. Otherwise as `malloc`.

    alignment: a power of two up to 4096 (a page: heaps of different PEs are mapped at different pages), else
    ArgumentError. OpenSHMEM 1.6, 9.3 (shmem_align).
    """
    me = current().me
    if whole_number(alignment, "alignment", me) == 0:
        raise ArgumentError(f"align({alignment}, {nbytes}): the alignment must be a power of two", pe=me)
    return _block(f"align({alignment}, {nbytes})", nbytes, align=alignment)


def malloc_with_hints(nbytes: int, hints: int) -> memoryview | None:
    """As `malloc`, telling what the block is for: MALLOC_ATOMICS_REMOTE, MALLOC_SIGNAL_REMOTE, both (`|`) or 0.

    Hints change no result; a fabric may place the block by them. Raises as `malloc`, ArgumentError for other hints.
    OpenSHMEM 1.6, 9.3 (shmem_malloc_with_hints).
    """
    return _block(f"malloc_with_hints({nbytes}, {check_hints(current(), hints)})", nbytes, hints=hints)


def alloc(
    count: int, size: int = 1, align: int | None = None, hints: int | None = None, clear: bool = True
) -> memoryview:
    """A new symmetric block of `count * size` bytes, zero if `clear`. Collective; an empty one too is a barrier.

    align, hints: as in `align` and `malloc_with_hints`. Raises as those. shmem4py.
    """
    pe, nbytes = current(), _product(count, size)
    zero, _ = truth(clear, "clear", pe.me), check_align(pe, align)
    call = f"alloc({count}, {size}{extras(align, check_hints(pe, hints))}{'' if zero else ', clear=False'})"
    block = _block(call, nbytes, zero, align, hints)
    if block is None:
        collective(pe, call)
        return memoryview(bytearray())
    return block


def _product(count: object, size: object) -> int:
    """count * size bytes; raises ArgumentError where one is negative."""
    pe = current()
    sides = whole_number(count, "count", pe.me), whole_number(size, "size", pe.me)
    if min(sides) < 0:
        raise ArgumentError(f"{count} times {size} bytes: negative", pe=pe.me)
    return sides[0] * sides[1]


def _block(
    call: str, nbytes: object, zero: bool = False, align: object = None, hints: object = None
) -> memoryview | None:
    pe = current()
    wanted = whole_number(nbytes, "nbytes", pe.me)
    if wanted < 0:
        raise ArgumentError(f"{call}: negative", pe=pe.me)
    aligned, hinted = check_align(pe, align), check_hints(pe, hints)
    if wanted == 0:
        return None
    return _bytes(pe, allocate(pe, wanted, call, zero, aligned, hinted), wanted)


def _bytes(pe: PE, offset: int, nbytes: int) -> memoryview:
    return pe.heap.raw(offset, nbytes)


def held_bytes(mem: object) -> Array:
    """What an allocation returned, as an array. Raises DtypeError for what is neither an array nor a memoryview."""
    if isinstance(mem, np.ndarray):
        return mem
    if not isinstance(mem, memoryview):
        raise DtypeError(f"a memoryview or an array is needed, not {type(mem).__name__}", pe=current().me)
    return np.asarray(mem)


def realloc(mem: memoryview | Array | None, nbytes: int) -> memoryview | None:
    """A block of `nbytes` with the contents of `mem`, which is freed. Collective.

    mem: what an allocation returned; None is `malloc`. nbytes: 0 is `free` and gives None. The first bytes, as many as
    both have, are kept, each PE's own, and so are alignment and hints; the rest is undefined. The block may lie
    elsewhere: views of `mem` must not be used any more. On return: every PE's contents are in place, so puts to it may
    begin. Raises SymmetryError, NotSymmetric, FreedBlock, StateError and LockError as `free`, LockError also where a
    block with a lock that is held would have to move, HeapExhausted as `malloc`; then mem is still there.
    OpenSHMEM 1.6, 9.3 (shmem_realloc).
    """
    pe = current()
    wanted = whole_number(nbytes, "nbytes", pe.me)
    held = None if mem is None else held_bytes(mem)
    if wanted < 0:
        raise ArgumentError(f"realloc to {nbytes} bytes: negative", pe=pe.me)
    if held is None or held.nbytes == 0:
        return _block(f"realloc(None, {wanted})", wanted)
    if wanted == 0:
        free(mem)
        return None
    offset = _same_block(pe, held, f"realloc({{}}, {wanted})", wanted)
    end = offset + pe.heap.room(offset)
    if pe.heap.shrink(offset, wanted, caller()):
        forget_locks(pe, offset + wanted, end)
        return _bytes(pe, offset, wanted)
    return _bytes(pe, _move(pe, offset, wanted), wanted)


def _move(pe: PE, offset: int, nbytes: int) -> int:
    """Copies a block into a larger one, which takes over all that is known of it."""
    old = pe.heap.allocation(offset)
    new, _ = _take(pe, nbytes, f"realloc({nbytes})", old.align, old.hints)
    pe.heap.move(new, offset, old.nbytes)
    if pe.heap.kept(offset):
        pe.heap.keep(new)
    collective(pe, f"realloc({nbytes}) moved")  # an early put would be overwritten by the copy
    _give_back(pe, offset)
    return new


def free(mem: Array | memoryview | None) -> None:
    """Frees a symmetric array or block. Collective, begins with a barrier of all PEs; None does nothing.

    mem: what the allocation returned, or an array that begins where it began. On return: transfers to it have been
    completed by the barrier, and the memory may be reused. Views of it must not be used any more; a lock in it is gone,
    held or not. Raises SymmetryError if the PEs free different blocks, NotSymmetric, FreedBlock for a block freed
    already or a view that begins inside one, DtypeError for what is no memory. Raises StateError while a batch in
    flight on a stream of this PE uses the block, LockError while another thread waits for a lock in it; the other PEs
    get SymmetryError then, and the block is still there. OpenSHMEM 1.6, 9.3 (shmem_free).
    """
    if mem is None:
        return
    pe, held = current(), held_bytes(mem)
    if held.nbytes == 0:
        collective(pe, "free(empty array)")
        return
    _give_back(pe, _same_block(pe, held, "free({})"))


def _same_block(pe: PE, held: Array, call: str, wanted: int = 0) -> int:
    """Collective: the offset of the live block that begins where `held` does, the same on all PEs, and which may go;
    with `wanted`, what lies beyond these bytes may, or all of it may move."""
    offset = address_of(held) - pe.heap.base
    problem = _why_not_free(pe, offset)
    if problem is not None:
        collective(pe, call.format("of what is no live block"))
        raise problem
    room = pe.heap.room(offset)
    moves = wanted > room
    pe.fabric.complete(0, Level.VISIBLE)
    busy = block_in_use(pe, offset + (0 if moves else wanted), offset + room, moves)
    agree(pe, pe.members, call.format(f"block at {offset:#x}"), busy)
    return offset


def _give_back(pe: PE, offset: int) -> None:
    nbytes = pe.heap.give_back(offset)
    log.debug("freed %d bytes at heap offset %#x", nbytes, offset)
    forget_locks(pe, offset, offset + nbytes)


def _why_not_free(pe: PE, offset: int) -> NotSymmetric | FreedBlock | None:
    if not 0 <= offset < pe.heap.size:
        if (old := from_before(pe, pe.heap.base + offset)) is not None:
            return NotSymmetric(f"what is to be freed {old}", pe=pe.me)
        return NotSymmetric(f"free of memory that is not in the symmetric heap of PE {pe.me}", pe=pe.me)
    try:
        pe.heap.check_block(offset)
    except FreedBlock:
        text = f"no live block begins at heap offset {offset:#x}: freed already, or a view into a block"
        return FreedBlock(text, pe=pe.me)
    return None
