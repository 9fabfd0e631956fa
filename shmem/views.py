"""Where an array lies: in the symmetric heap or not, and in which pieces.

Every routine that takes a symmetric array asks here; every error about foreign memory, layout, size or dtype comes from
here. Two sides of a transfer are never both strided: a strided private side is staged through a contiguous copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .errors import ArgumentError, DtypeError, FreedBlock, LayoutError, NotSymmetric, SizeMismatch
from .plain import array_of
from .records import STRIDE_MAX, Kind, kind_of

if TYPE_CHECKING:
    from .runtime import PE

Array = npt.NDArray[Any]


class Place(NamedTuple):
    """`count` blocks of `block` bytes, `stride` bytes apart, the first at `offset` of the own heap (or, for private
    memory, at an address). A contiguous array is one block."""

    offset: int
    block: int
    stride: int
    count: int  # type: ignore[assignment]


def _address_finder() -> Callable[[Array], int]:
    """C's takes 0.1 us; NumPy's own takes 1.5, and 30 for structured dtypes."""
    try:
        from ._native import _hot
    except ImportError:
        return lambda array: int(getattr(array, "_address", None) or array.__array_interface__["data"][0])
    return _hot.address


address_of: Callable[[Array], int] = _address_finder()
"""The address of an array's first element; a tracked array (`shmem.tracked`) tells it as `_address`."""


def check_array(value: object, name: str, me: int) -> Array:
    """`value` if it is an array of fixed-size elements; raises DtypeError."""
    if not isinstance(value, np.ndarray):
        hint = "; x[3] of a 1-D array is a copy, x[3:4] is a view" if isinstance(value, np.generic) else ""
        raise DtypeError(f"{name} must be a NumPy array, not {type(value).__name__}{hint}", pe=me)
    dtype = value.dtype
    if dtype.hasobject or dtype.itemsize == 0:
        raise DtypeError(f"{name} has dtype {dtype}, whose elements are not of a fixed size", pe=me)
    return value


def check_target(array: Array, name: str, me: int) -> Array:
    """`array` if it may be written; raises ArgumentError for a read-only view."""
    if not array.flags.writeable:
        raise ArgumentError(f"{name} is read-only", pe=me)
    return array


def blocks(array: Array, size: int, name: str, me: int, base: int = 0) -> Place:
    """The first `size` elements of an array as blocks; `offset` is an address, counted from `base`.

    Raises LayoutError for anything but C-contiguous arrays, 1-D views with any step and row blocks of 2-D arrays.
    """
    item = array.itemsize
    start = address_of(array) - base
    if array.flags.c_contiguous or size == 0:
        return Place(start, size * item, 0, 1)
    if abs(array.strides[0]) <= STRIDE_MAX:
        if array.ndim == 1:
            return Place(start, item, array.strides[0], size)
        if array.ndim == 2 and array.strides[1] == item and size % array.shape[1] == 0:
            return Place(start, array.shape[1] * item, array.strides[0], size // array.shape[1])
    raise LayoutError(
        f"{name} of shape {array.shape} and strides {array.strides}: its elements lie apart in a way that can't be "
        "moved; C-contiguous arrays, 1-D views and row blocks of 2-D arrays can, with steps below 2 GiB "
        "(see numpy.ascontiguousarray)",
        pe=me,
    )


def symmetric(pe: PE, array: Array, size: int, name: str) -> Place:
    """The first `size` elements of a symmetric array as blocks of the own heap.

    Raises NotSymmetric for memory outside the heap and FreedBlock for a block that was freed.
    """
    at = blocks(array, size, name, pe.me, pe.heap.base)
    if size == 0:
        return Place(0, 0, 0, 1)
    low, high = sorted((at.offset, at.offset + (at.count - 1) * at.stride))
    if low < 0 or high + at.block > pe.heap.size:
        if (old := from_before(pe, at.offset + pe.heap.base)) is not None:
            raise NotSymmetric(f"{name} {old}", pe=pe.me)
        raise NotSymmetric(
            f"{name} is not symmetric: it lies outside the heap of PE {pe.me}; allocate it with shmem.zeros, "
            "shmem.empty, ... (an expression or a fancy index of a symmetric array is a private copy)",
            pe=pe.me,
        )
    if not pe.heap.live(low, high + at.block - low):
        raise FreedBlock(f"{name} lies in a block of the heap that was freed (offset {low:#x})", pe=pe.me)
    return at


def check_live(pe: PE, array: Array, name: str) -> None:
    """Raises FreedBlock for C-contiguous memory in the own heap that is not in a live block, NotSymmetric for memory of
    a heap that finalize has ended. Private memory is as good as any."""
    if not array.size:
        return
    at = address_of(array)
    if (old := from_before(pe, at)) is not None:
        raise NotSymmetric(f"{name} {old}", pe=pe.me)
    first = at - pe.heap.base
    if 0 <= first < pe.heap.size and not pe.heap.live(first, array.nbytes):
        raise FreedBlock(f"{name} lies in a block of the heap that was freed (offset {first:#x})", pe=pe.me)


def from_before(pe: PE, address: int) -> str | None:
    """What to say of an address in a heap that an earlier finalize ended; None for any other."""
    if not any(heap.had(address) for heap in pe.past):
        return None
    return "was allocated before finalize: it stays readable, but is not in the heap of now; allocate it again"


def word_at(pe: PE, array: object, what: str) -> tuple[Place, Kind]:
    """One aligned symmetric word of 32 or 64 bits and its kind.

    Raises DtypeError for other dtypes, SizeMismatch unless the array has exactly one element.
    """
    word = check_array(array, "the word", pe.me)
    kind = _word_kind(pe, word, what, what in ("wait", "test"))
    if word.size != 1:
        raise SizeMismatch(f"{what} takes one element, not {word.size}; x[3:4] is one element of x", pe=pe.me)
    place = symmetric(pe, word, 1, "the word")
    if place.offset % word.itemsize:
        raise LayoutError(f"{what} of a word at heap offset {place.offset:#x}, which is not aligned", pe=pe.me)
    return place, kind


def _word_kind(pe: PE, word: Array, what: str, integers: bool) -> Kind:
    kind = kind_of(word.dtype)
    if kind is None or (integers and kind >= Kind.F32):
        raise DtypeError(f"{what} of a word of dtype {word.dtype}: it takes 32- and 64-bit integers", pe=pe.me)
    return kind


def words_at(pe: PE, words: Array, what: str) -> tuple[npt.NDArray[np.int64], Kind]:
    """The heap offsets of all elements of a symmetric array of integer words, and their kind.

    Raises DtypeError for other dtypes, LayoutError for words that are not aligned.
    """
    kind = _word_kind(pe, words, what, True)
    place = symmetric(pe, words, words.size, "ivars")
    if place.offset % words.itemsize or place.stride % words.itemsize:
        raise LayoutError(f"{what}: words at heap offset {place.offset:#x}, which are not aligned", pe=pe.me)
    first = place.offset + place.stride * np.arange(place.count)
    return (first[:, None] + np.arange(0, place.block, words.itemsize)).reshape(-1), kind


def many_bits(values: object, dtype: np.dtype[Any], n: int, me: int) -> npt.NDArray[np.uint64]:
    """As `scalar_bits`, of n integers. Raises as that, and SizeMismatch for another number of them."""
    given = values if isinstance(values, np.ndarray) else np.asarray(values, object)  # keeps integers of any size
    if given.shape != (n,):
        raise SizeMismatch(f"values must be {n} integers, not {list(given.shape)}", pe=me)
    if given.dtype == dtype:
        return given.astype(np.int64 if dtype.kind == "i" else np.uint64).view(np.uint64)
    return np.array([scalar_bits(value, dtype, me) for value in given.tolist()], np.uint64)


def scalar_bits(value: object, dtype: np.dtype[Any], me: int) -> int:
    """The bits of a number as one word of `dtype`.

    Raises OverflowError for an integer out of range, DtypeError for a float given for an integer or no number.
    """
    if isinstance(value, (np.ndarray, np.generic)) and value.size == 1:
        value = value.item()
    if dtype.kind in "iu":
        if not isinstance(value, int):
            raise DtypeError(f"{value!r} is no integer, but the word has dtype {dtype}", pe=me)
        bits = 8 * dtype.itemsize
        low, high = (0, 1 << bits) if dtype.kind == "u" else (-1 << bits - 1, 1 << bits - 1)
        if not low <= value < high:
            raise OverflowError(f"{value} does not fit {dtype}")
        return value & ((1 << 64) - 1)
    if not isinstance(value, (int, float)):
        raise DtypeError(f"{value!r} is no number, but the word has dtype {dtype}", pe=me)
    raw = np.array([value], dtype)
    return int(raw.view(f"u{dtype.itemsize}")[0])


def count(size: object, source: Array, target: Array, me: int) -> int:
    """How many elements a transfer moves: `size`, by default all of the source.

    Raises DtypeError if the dtypes differ, SizeMismatch if an array is shorter.
    """
    if source.dtype != target.dtype:
        raise DtypeError(f"source has dtype {source.dtype}, target {target.dtype}; view both as uint8 for bytes", pe=me)
    n = source.size if size is None else size
    if not isinstance(n, (int, np.integer)) or n < 0:
        raise SizeMismatch(f"size={size!r}: must be a number of elements from 0 up", pe=me)
    if n > source.size or n > target.size:
        raise SizeMismatch(f"{n} elements asked for; source has {source.size}, target {target.size}", pe=me)
    return int(n)


def whole_numbers(values: object, n: int | None, name: str, pe: PE) -> npt.NDArray[np.int64]:
    """Integers as int64 [n]; raises DtypeError for other numbers, SizeMismatch for another length or beyond int64."""
    array = integers(values, name, pe)
    if array.ndim != 1 or (n is not None and len(array) != n):
        many = "a row of numbers" if n is None else f"one number for each of {n} blocks"
        raise SizeMismatch(f"{name} must be {many}, not of shape {list(array.shape)}", pe=pe.me)
    return array


def integers(values: object, name: str, pe: PE) -> npt.NDArray[np.int64]:
    """Integers as int64, of any shape; raises DtypeError for other numbers, SizeMismatch beyond int64."""
    array = array_of(values, name, pe.me)
    if array.dtype.kind not in "iu" and array.size:
        raise DtypeError(f"{name} must be integers, not {array.dtype}", pe=pe.me)
    if array.dtype == np.uint64 and array.max(initial=0) > np.iinfo(np.int64).max:
        raise SizeMismatch(f"{name} reaches beyond any array", pe=pe.me)
    return array.astype(np.int64, copy=False)
