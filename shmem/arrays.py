"""Collective allocation: symmetric arrays and raw blocks (OpenSHMEM 1.6, 9.3).

Every PE makes the same calls with the same sizes and dtypes in the same order; a PE that differs raises
SymmetryError on
all, before anything was allocated. The call is compared in the barrier that every allocation has, then each PE
allocates
by itself and gets the same offset. Memory never used before is zero and is not touched; reused memory is
zeroed before a
second barrier, so that no early put is wiped.
"""

from __future__ import annotations

import ctypes
import math
import operator
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .barriers import collective
from .config import format_size
from .errors import ArgumentError, DtypeError, FreedBlock, HeapExhausted, NotSymmetric
from .heap import HeapStats
from .runtime import PE, current, pe_accessible
from .views import Array, address_of, check_array, symmetric

Shape = int | Sequence[int]
_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OURS = tuple(os.path.join(_ROOT, name, "") for name in ("shmem", "protocols", "moe_ep"))


def caller() -> str:
    """'file.py:12' of the line outside these packages that called."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(OURS):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _allocate(pe: PE, nbytes: int, call: str, zero: bool, align: int = 64) -> int:
    """Collective: the offset of a new block. Raises SymmetryError or HeapExhausted on every PE."""
    collective(pe, call)
    taken = pe.heap.take(nbytes, call, caller(), align)
    if taken is None:
        stats, free = pe.heap.stats(), pe.heap.free_bytes
        raise HeapExhausted(
            f"{call} asks for {format_size(nbytes)}, but of the heap ({format_size(stats.size)}) only "
            f"{format_size(free)} are free, in one piece {format_size(stats.largest_free)}: free something or start "
            "with a larger SHMEMU_HEAP_SIZE",
            asked=nbytes, free=free, largest_free=stats.largest_free, pe=pe.me,
        )  # fmt: skip
    offset, fresh = taken
    if zero and not fresh:
        pe.heap.memory[offset : offset + nbytes] = 0
        collective(pe, call)
    return offset


def _shape(shape: Shape) -> tuple[int, ...]:
    try:
        sides = (operator.index(shape),) if hasattr(shape, "__index__") else tuple(operator.index(one) for one in shape)
    except TypeError:
        raise DtypeError(f"shape {shape!r}: an integer or a sequence of integers is needed") from None
    if any(side < 0 for side in sides):
        raise ArgumentError(f"shape {shape}: negative")
    return sides


def _new(name: str, shape: Shape, dtype: npt.DTypeLike, order: str, zero: bool) -> Array:
    pe = current()
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind.hasobject or kind.itemsize == 0:
        raise DtypeError(f"dtype {kind} has elements of no fixed size", pe=pe.me)
    if order not in ("C", "F"):
        raise ArgumentError(f"order {order!r} is neither 'C' nor 'F'", pe=pe.me)
    sides = _shape(shape)
    nbytes = math.prod(sides) * kind.itemsize
    suffix = ", order='F'" if order == "F" else ""
    call = f"{name}({sides}, {kind}{suffix})"
    if nbytes == 0:
        collective(pe, call)
        return pe.heap.array(0, sides, kind, order)
    return pe.heap.array(_allocate(pe, nbytes, call, zero), sides, kind, order)


def empty(shape: Shape, dtype: npt.DTypeLike = float, order: str = "C") -> Array:
    """A new symmetric array whose contents are undefined. Collective.

    shape: int or ints. dtype: any of fixed size, those of ml_dtypes included. Returns an ndarray over the heap.
    On return: every PE has entered the call. Raises SymmetryError, HeapExhausted, DtypeError, ArgumentError. shmem4py.
    """
    return _new("empty", shape, dtype, order, zero=False)


def zeros(shape: Shape, dtype: npt.DTypeLike = float, order: str = "C") -> Array:
    """A new symmetric array of zeros. Collective.

    Arguments and errors as `empty`. On return: the memory of every PE is zero, so puts to it may begin. Pages
    never used before are not touched. shmem4py.
    """
    return _new("zeros", shape, dtype, order, zero=True)


def full(shape: Shape, fill_value: object, dtype: npt.DTypeLike | None = None, order: str = "C") -> Array:
    """A new symmetric array filled with a value (each PE's own). Collective, ends in a barrier of all PEs.

    dtype: default that of fill_value. Otherwise as `empty`. shmem4py.
    """
    kind: np.dtype[Any] = np.asarray(fill_value).dtype if dtype is None else np.dtype(dtype)
    try:
        fill = np.broadcast_to(np.asarray(fill_value).astype(kind), _shape(shape))
    except (TypeError, ValueError) as error:  # before anything is allocated
        raise ArgumentError(f"fill_value {fill_value!r} does not fill shape {shape} of {kind}: {error}") from None
    array = _new("full", shape, kind, order, zero=False)
    array[...] = fill
    collective(current(), "full(...) filled")
    return array


def ones(shape: Shape, dtype: npt.DTypeLike = float, order: str = "C") -> Array:
    """A new symmetric array of ones. Collective, ends in a barrier of all PEs. Otherwise as `empty`. shmem4py."""
    array = _new("ones", shape, dtype, order, zero=False)
    array[...] = 1
    collective(current(), "ones(...) filled")
    return array


def array(obj: object, dtype: npt.DTypeLike | None = None, order: str = "C") -> Array:
    """A new symmetric array with the contents of `obj` (each PE's own; same shape and dtype on all).

    Collective, ends in a barrier of all PEs. Otherwise as `empty`. shmem4py.
    """
    source = np.asarray(obj, dtype)
    new = _new("array", source.shape, source.dtype, order, zero=False)
    new[...] = source
    collective(current(), "array(...) filled")
    return new


def malloc(nbytes: int) -> memoryview | None:
    """A new symmetric block of bytes, contents undefined. Collective; 0 bytes give None without a barrier.

    On return: every PE has entered the call. Raises SymmetryError, HeapExhausted. OpenSHMEM 1.6, 9.3 (shmem_malloc).
    """
    return _block(f"malloc({nbytes})", nbytes, zero=False)


def calloc(count: int, size: int) -> memoryview | None:
    """A new symmetric block of `count * size` zero bytes. Collective; 0 bytes give None without a barrier.

    On return: the memory of every PE is zero. Raises as `malloc`. OpenSHMEM 1.6, 9.3 (shmem_calloc).
    """
    if min(count, size) < 0:
        raise ArgumentError(f"calloc({count}, {size}): negative", pe=current().me)
    return _block(f"calloc({count}, {size})", count * size, zero=True)


def _block(call: str, nbytes: int, zero: bool) -> memoryview | None:
    pe = current()
    if nbytes < 0:
        raise ArgumentError(f"{call}: negative", pe=pe.me)
    if nbytes == 0:
        return None
    offset = _allocate(pe, nbytes, call, zero)
    return pe.heap.memory[offset : offset + nbytes].data


def free(mem: Array | memoryview | None) -> None:
    """Frees a symmetric array or block. Collective, begins with a barrier of all PEs; None does nothing.

    mem: what the allocation returned, or an array that begins where it began. On return: transfers to it
    have been completed by the barrier, and the memory may be reused. Views of it must not be used any more.
    Raises SymmetryError if the PEs free different blocks, NotSymmetric, FreedBlock for a block freed already
    or a view that
    begins inside one. OpenSHMEM 1.6, 9.3 (shmem_free).
    """
    if mem is None:
        return
    pe = current()
    held = mem if isinstance(mem, np.ndarray) else np.frombuffer(mem, np.uint8)
    if held.nbytes == 0:
        collective(pe, "free(empty array)")
        return
    offset = address_of(held) - pe.heap.base
    problem = _why_not_free(pe, offset)
    collective(pe, f"free(block at {offset:#x})" if problem is None else "free(of what is no live block)")
    if problem is not None:
        raise problem
    nbytes = pe.heap.give_back(offset)
    for gone in [lock for lock in pe.locks if offset <= lock < offset + nbytes]:
        del pe.locks[gone]


def _why_not_free(pe: PE, offset: int) -> NotSymmetric | FreedBlock | None:
    if not 0 <= offset < pe.heap.size:
        return NotSymmetric(f"free of memory that is not in the symmetric heap of PE {pe.me}", pe=pe.me)
    try:
        pe.heap.check_block(offset)
    except FreedBlock:
        text = f"no live block begins at heap offset {offset:#x}: freed already, or a view into a block"
        return FreedBlock(text, pe=pe.me)
    return None


def heap_stats() -> HeapStats:
    """Use of this PE's symmetric heap now: size, live, peak, blocks, largest_free, all but blocks in bytes. Ours."""
    return current().heap.stats()


def addr_accessible(addr: Array, pe: int) -> bool:
    """Whether an array is symmetric and can be reached on PE `pe`. OpenSHMEM 1.6, 9.1 (shmem_addr_accessible)."""
    here = current()
    offset = address_of(addr) - here.heap.base
    return pe_accessible(pe) and here.heap.live(offset, max(1, addr.nbytes))


def ptr(target: Array, pe: int) -> Array | None:
    """The same array in the heap of PE `pe`, as a view for loads and stores; None for a PE of another host.

    target: symmetric array, C-contiguous. Stores through the view are ordered by nobody and wake nobody: that PE's
    waiters look at their words every millisecond from now on. Raises NotSymmetric, FreedBlock, InvalidPE.
    OpenSHMEM 1.6, 9.1 (shmem_ptr).
    """
    here = current()
    there = here.check_pe(pe)
    own = check_array(target, "target", here.me)
    place = symmetric(here, own, own.size, "target")
    start = here.heap.peer(there) if here.hosts[there] == here.hosts[here.me] else None
    if start is None:
        return None
    memory = memoryview((ctypes.c_char * here.heap.size).from_address(start)).cast("B")
    view: Array = np.ndarray(own.shape, own.dtype, buffer=memory, offset=place.offset, strides=own.strides)
    return view
