"""Symmetric arrays: collective allocation in NumPy's terms, and where an array lies on other PEs (OpenSHMEM 1.6, 9.3).

An array is a plain ndarray over a block of the heap (`memory.py`, which has the rules of a collective allocation). An
array without elements takes no memory, but its allocation and its `free` are barriers like all others.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .barriers import collective
from .errors import ArgumentError, DtypeError, SizeMismatch
from .front import fronted
from .heap import HeapStats
from .memory import allocate, check_align, check_hints, extras, free, held_bytes
from .plain import array_of, dtype_of, truth
from .runtime import PE, current, pe_accessible
from .views import Array, address_of, check_array, symmetric

Shape = int | Sequence[int] | npt.NDArray[np.integer[Any]]


def sides_of(shape: Shape) -> tuple[int, ...]:
    """The lengths that a shape means; raises DtypeError, ArgumentError (negative)."""
    many = shape.ndim > 0 if isinstance(shape, np.ndarray) else isinstance(shape, Sequence)
    try:
        sides = tuple(map(operator.index, shape if many else [shape]))  # type: ignore[arg-type]
    except TypeError:
        raise DtypeError(f"shape {shape!r}: an integer or a sequence of integers is needed") from None
    if any(side < 0 for side in sides):
        raise ArgumentError(f"shape {shape}: negative")
    return sides


def _checked(pe: PE, dtype: npt.DTypeLike, order: str) -> np.dtype[Any]:
    kind = dtype_of(dtype, pe.me)
    if not isinstance(order, str) or order not in ("C", "F"):
        raise ArgumentError(f"order {order!r} is neither 'C' nor 'F'", pe=pe.me)
    return kind


def make(
    name: str, shape: Shape, dtype: npt.DTypeLike, order: str, align: object, hints: object, zero: bool
) -> Array:  # fmt: skip
    """Collective: a new array, in the name of a public function."""
    pe = current()
    kind, sides = _checked(pe, dtype, order), sides_of(shape)
    aligned, hinted = check_align(pe, align), check_hints(pe, hints)
    suffix = (", order='F'" if order == "F" else "") + extras(align, hinted)
    call = f"{name}({sides}, {kind}{suffix})"
    nbytes = math.prod(sides) * kind.itemsize
    if nbytes == 0:
        collective(pe, call)
        return pe.heap.array(0, sides, kind, order)
    return pe.heap.array(allocate(pe, nbytes, call, zero, aligned, hinted), sides, kind, order)


def empty(
    shape: Shape, dtype: npt.DTypeLike = float, order: str = "C", *, align: int | None = None, hints: int | None = None
) -> Array:
    """A new symmetric array whose contents are undefined. Collective.

    shape: int or ints. dtype: any of fixed size, those of ml_dtypes included. order: 'C' or 'F'; transfers take 'F'
    arrays only through their transpose (`x.T`). align: the address is a multiple of it on every PE (a power of two up
    to 4096). hints: as in `malloc_with_hints`. Returns an ndarray over the heap.
    On return: every PE has entered the call. Raises SymmetryError, HeapExhausted, DtypeError, ArgumentError. shmem4py.
    """
    return make("empty", shape, dtype, order, align, hints, zero=False)


def zeros(
    shape: Shape, dtype: npt.DTypeLike = float, order: str = "C", *, align: int | None = None, hints: int | None = None
) -> Array:
    """A new symmetric array of zeros. Collective.

    Arguments and errors as `empty`. On return: the memory of every PE is zero, so puts to it may begin. Pages
    never used before are not touched. shmem4py.
    """
    return make("zeros", shape, dtype, order, align, hints, zero=True)


def new_array(
    shape: Shape, dtype: npt.DTypeLike = float, order: str = "C", *, align: int | None = None,
    hints: int | None = None, clear: bool = True,
) -> Array:  # fmt: skip
    """As `zeros`, or as `empty` where `clear` is false. shmem4py."""
    zero = truth(clear, "clear", current().me)
    return make("new_array" if zero else "new_array without clear", shape, dtype, order, align, hints, zero)


def del_array(a: Array) -> None:
    """Frees a symmetric array, as `free`; raises DtypeError for what is no array. shmem4py."""
    free(check_array(a, "a", current().me))


def full(
    shape: Shape, fill_value: object, dtype: npt.DTypeLike | None = None, order: str = "C", *,
    align: int | None = None, hints: int | None = None,
) -> Array:  # fmt: skip
    """A new symmetric array filled with a value (each PE's own). Collective, ends in a barrier of all PEs.

    dtype: default that of fill_value. Otherwise as `empty`. shmem4py.
    """
    me = current().me
    value = array_of(fill_value, "fill_value", me)
    kind = value.dtype if dtype is None else dtype_of(dtype, me)
    try:
        fill = np.broadcast_to(value.astype(kind), sides_of(shape))
    except (TypeError, ValueError) as error:  # before anything is allocated
        what = f"fill_value {fill_value!r} does not fill shape {shape} of {kind}"
        raise ArgumentError(f"{what}: {error}", pe=me) from None
    array = make("full", shape, kind, order, align, hints, zero=False)
    array[...] = fill
    collective(current(), "full(...) filled")
    return array


def ones(
    shape: Shape, dtype: npt.DTypeLike = float, order: str = "C", *, align: int | None = None, hints: int | None = None
) -> Array:
    """A new symmetric array of ones. Collective, ends in a barrier of all PEs. Otherwise as `empty`. shmem4py."""
    array = make("ones", shape, dtype, order, align, hints, zero=False)
    array[...] = 1
    collective(current(), "ones(...) filled")
    return array


def array(
    obj: object, dtype: npt.DTypeLike | None = None, *, order: str = "K", align: int | None = None,
    hints: int | None = None,
) -> Array:  # fmt: skip
    """A new symmetric array with the contents of `obj` (each PE's own; same shape, dtype and order on all).

    order: 'K' and 'A' are 'F' where obj is a Fortran-contiguous array, else 'C'. Collective, ends in a barrier of all
    PEs. Otherwise as `empty`. shmem4py.
    """
    me = current().me
    source = array_of(obj, "obj", me, None if dtype is None else dtype_of(dtype, me))
    if isinstance(order, str) and order in ("K", "A"):
        order = "F" if source.flags.fnc else "C"
    new = make("array", source.shape, source.dtype, order, align, hints, zero=False)
    new[...] = source
    collective(current(), "array(...) filled")
    return new


def fromalloc(
    mem: memoryview | Array, shape: Shape | None = None, dtype: npt.DTypeLike | None = None, order: str = "C"
) -> Array:
    """A block from `malloc`, `alloc`, ... as an array. Local; the array is freed by `free`, as the block is.

    shape: default what fits; it must fill the block. dtype: default float64. Raises SizeMismatch, NotSymmetric,
    FreedBlock, DtypeError, ArgumentError. shmem4py.
    """
    pe = current()
    kind, held = _checked(pe, float if dtype is None else dtype, order), held_bytes(mem)
    sides = (held.nbytes // kind.itemsize,) if shape is None else sides_of(shape)
    if math.prod(sides) * kind.itemsize != held.nbytes:
        raise SizeMismatch(f"{held.nbytes} bytes are no {list(sides)} of {kind}", pe=pe.me)
    if not held.nbytes:
        return pe.heap.array(0, sides, kind, order)
    return pe.heap.array(symmetric(pe, held, held.size, "mem").offset, sides, kind, order)


def heap_stats() -> HeapStats:
    """Use of this PE's symmetric heap now: size, live, peak, blocks, largest_free, all but blocks in bytes. Ours."""
    return current().heap.stats()


def addr_accessible(addr: Array | memoryview, pe: int) -> bool:
    """Whether an array or block is symmetric and can be reached on PE `pe`. Raises DtypeError for what is no memory.

    OpenSHMEM 1.6, 9.1 (shmem_addr_accessible).
    """
    here, held = current(), held_bytes(addr)
    offset = address_of(held) - here.heap.base
    return pe_accessible(pe) and here.heap.live(offset, max(1, held.nbytes))


@fronted
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
    memory = here.heap.peer(there) if here.hosts[there] == here.hosts[here.me] else None
    if memory is None:
        return None
    view: Array = np.ndarray(own.shape, own.dtype, buffer=memory, offset=place.offset, strides=own.strides)
    return here.heap.seen(view)
