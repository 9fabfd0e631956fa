"""Strided transfers: iput, iget and their block forms (OpenSHMEM 1.6, 9.6).

Strides count elements, from the beginning of one element (or block) to that of the next. A strided transfer is a `put`
or `get` of a view with these steps, so that everything said of those holds here as well. Arrays are C-contiguous of any
shape, taken as one row of elements, or 1-D views with any step, whose strides multiply with the step of the view.
"""

from __future__ import annotations

import numpy as np

from .errors import LayoutError, SizeMismatch
from .front import fronted
from .plain import whole_number
from .rma import get_checked, put_checked
from .runtime import PE, current
from .views import Array, check_array, check_target


def _row(pe: PE, value: object, name: str) -> Array:
    """An array as one row of elements, without a copy."""
    array: Array = check_array(value, name, pe.me)
    array = array.view(np.ndarray)  # a subclass may have an idea of its own of what a row is; a tracked one stays so
    if array.flags.c_contiguous:
        return array.reshape(-1)
    if array.ndim != 1:
        raise LayoutError(
            f"{name} of shape {array.shape} and strides {array.strides} is neither C-contiguous nor 1-D", pe=pe.me
        )
    return array


def _elements(
    target: object, source: object, tst: object, sst: object, size: object
) -> tuple[Array, Array, object]:  # fmt: skip
    pe = current()
    to, what = _row(pe, target, "target"), _row(pe, source, "source")
    to, what = to[:: whole_number(tst, "tst", pe.me, 1)], what[:: whole_number(sst, "sst", pe.me, 1)]
    return to, what, min(len(to), len(what)) if size is None else size


def _blocks(pe: PE, row: Array, name: str, stride: int, bsize: int, nblocks: int) -> Array:
    """The blocks of a row, as one view of them."""
    if not bsize or not nblocks:
        return row[:0]
    end = (nblocks - 1) * stride + bsize if nblocks > 1 else bsize
    if end > len(row):
        raise SizeMismatch(f"{nblocks} blocks reach to element {end} of {name}, which has {len(row)}", pe=pe.me)
    if nblocks == 1:
        return row[:bsize]
    if bsize == 1:
        return row[:end:stride]
    raw = row[:end].view(f"V{row.itemsize}")  # sliding_window_view does not know every dtype
    return np.lib.stride_tricks.sliding_window_view(raw, bsize, writeable=True)[::stride].view(row.dtype)


def _stepped(blocks: Array) -> bool:
    """Whether the elements of the blocks lie apart, so that one record moves only one element of each."""
    return blocks.ndim == 2 and blocks.strides[1] != blocks.itemsize


def _all_blocks(
    target: object, source: object, tst: object, sst: object, bsize: object, nblocks: object
) -> tuple[Array, Array]:
    pe = current()
    size, n = whole_number(bsize, "bsize", pe.me, 0), whole_number(nblocks, "nblocks", pe.me, 0)
    least = max(1, size)  # blocks may not overlap
    to, from_ = whole_number(tst, "tst", pe.me, least), whole_number(sst, "sst", pe.me, least)
    return (
        _blocks(pe, _row(pe, target, "target"), "target", to, size, n),
        _blocks(pe, _row(pe, source, "source"), "source", from_, size, n),
    )


@fronted
def iput(
    target: Array, source: Array, pe: int, tst: int = 1, sst: int = 1, size: int | None = None, ctx: object = None
) -> None:
    """Copies element i * sst of source to element i * tst of target on PE `pe`, for i = 0 .. size - 1.

    target: symmetric, same dtype. tst, sst: strides in elements, from 1 up. size: elements moved, default the smaller
    of the two numbers of elements that the strides leave (len / stride, rounded up). On return: as `put`. Raises as
    `put`, ArgumentError (stride). OpenSHMEM 1.6, 9.6 (shmem_iput).
    """
    to, what, n = _elements(target, source, tst, sst, size)
    put_checked(to, what, pe, n, ctx)


@fronted
def iget(
    target: Array, source: Array, pe: int, tst: int = 1, sst: int = 1, size: int | None = None, ctx: object = None
) -> None:
    """Copies element i * sst of source on PE `pe` to element i * tst of target here, for i = 0 .. size - 1.

    source: symmetric. Otherwise as `iput`. On return: the data are in target. OpenSHMEM 1.6, 9.6 (shmem_iget).
    """
    to, what, n = _elements(target, source, tst, sst, size)
    get_checked(to, what, pe, n, ctx)


def ibput(
    target: Array, source: Array, pe: int, tst: int, sst: int, bsize: int, nblocks: int, ctx: object = None
) -> None:
    """Copies blocks of bsize elements: block i from element i * sst of source to element i * tst of target on PE `pe`.

    target: symmetric, same dtype. tst, sst: elements from the beginning of a block to that of the next, at least
    bsize. nblocks: how many. bsize 1 is `iput`. On return: as `put`. Raises as `put`, ArgumentError (a stride below
    bsize, a negative number), SizeMismatch where a block reaches beyond its array. OpenSHMEM 1.6, 9.6 (shmem_ibput).
    """
    to, what = _all_blocks(target, source, tst, sst, bsize, nblocks)
    packed = what.copy() if _stepped(to) or _stepped(what) else what
    for part, values in zip(to.T, packed.T, strict=True) if _stepped(to) else [(to, packed)]:
        put_checked(part, values, pe, None, ctx)


def ibget(
    target: Array, source: Array, pe: int, tst: int, sst: int, bsize: int, nblocks: int, ctx: object = None
) -> None:
    """Copies blocks of bsize elements: block i from element i * sst of source on PE `pe` to element i * tst of target.

    source: symmetric. Otherwise as `ibput`. On return: the data are in target. OpenSHMEM 1.6, 9.6 (shmem_ibget).
    """
    to, what = _all_blocks(target, source, tst, sst, bsize, nblocks)
    if not _stepped(to) and not _stepped(what):
        get_checked(to, what, pe, None, ctx)
        return
    check_target(to, "target", current().me)
    packed = np.empty(to.shape, to.dtype)
    for part, values in zip(packed.T, what.T, strict=True) if _stepped(what) else [(packed, what)]:
        get_checked(part, values, pe, None, ctx)
    to[...] = packed
