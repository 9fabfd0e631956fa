"""Which bytes a view of memory covers: of the view itself, and of what an index selects.

Everything is worked out on plain arrays from strides and dtypes; no byte is touched. A range is (address, bytes). Bytes
of a structured element that no field covers (padding, fields left out by x[["a", "b"]]) are not part of it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..views import Array, address_of

Range = tuple[int, int]
Offsets = npt.NDArray[np.int64]
_ZERO = np.zeros(1, np.int64)
_ZERO.flags.writeable = False


@lru_cache(maxsize=256)
def spans(dtype: np.dtype[Any]) -> tuple[Range, ...]:
    """The (offset, bytes) of an element's values, ascending and merged; one that is the whole element for most."""
    if dtype.subdtype is not None:
        inner, shape = dtype.subdtype
        steps = range(0, dtype.itemsize, inner.itemsize or 1)
        return _union([(step + at, n) for step in steps for at, n in spans(inner)] if np.prod(shape) else [])
    if dtype.fields is None:
        return ((0, dtype.itemsize),)
    fields = [dtype.fields[name] for name in dtype.names or ()]
    return _union([(field[1] + at, n) for field in fields for at, n in spans(field[0])])


def _union(parts: list[Range]) -> tuple[Range, ...]:
    made: list[Range] = []
    for at, n in sorted(parts):
        if made and at <= made[-1][0] + made[-1][1]:
            first, before = made[-1]
            made[-1] = first, max(before, at + n - first)
        elif n:
            made.append((at, n))
    return tuple(made)


def is_whole(dtype: np.dtype[Any]) -> bool:
    """Whether every byte of an element belongs to its value."""
    return dtype.names is None or spans(dtype) == ((0, dtype.itemsize),)


class Order(NamedTuple):
    """How to turn a view so that its elements ascend in memory."""

    slices: tuple[slice, ...]
    axes: tuple[int, ...]

    def ascending(self, array: Array) -> Array:
        """An array of the view's shape, turned; of a repeated axis (stride 0) the last is left."""
        index: Any = (*self.slices, ...)  # the ellipsis keeps a 0-d array one
        turned: Array = array[index].transpose(self.axes)
        return turned

    def back(self, turned: Array, shape: tuple[int, ...]) -> Array:
        """The inverse: read-only where an axis is repeated."""
        index: Any = (*(slice(None, None, one.step) for one in self.slices), ...)
        array: Array = turned.transpose(np.argsort(self.axes))[index]
        return array if array.shape == shape else np.broadcast_to(array, shape)


def memory_order(view: Array) -> Order:
    """The order of a view's elements in memory."""
    slices = [
        slice(-1, None) if step == 0 and n > 1 else slice(None, None, -1 if step < 0 else None)
        for n, step in zip(view.shape, view.strides, strict=True)
    ]
    axes = sorted(range(view.ndim), key=lambda axis: -abs(view.strides[axis]))
    return Order(tuple(slices), tuple(axes))


def ranges_of(ascending: Array) -> list[Range]:
    """The bytes of a view whose strides fall from axis to axis, as few ranges as possible; none for an empty view."""
    if not ascending.nbytes:
        return []
    axes, parts = _blocks(ascending)
    starts = np.zeros(1, np.int64)
    for n, step in zip(ascending.shape[:axes], ascending.strides[:axes], strict=True):
        starts = (starts[:, None] + np.arange(n) * step).reshape(-1)
    return merged(starts + address_of(ascending), parts)


def _blocks(ascending: Array) -> tuple[int, tuple[Range, ...]]:
    """How many of the axes step from block to block, and the parts of a block: what the other axes cover."""
    block, axes = ascending.itemsize, ascending.ndim
    if not is_whole(ascending.dtype):
        return axes, spans(ascending.dtype)
    while axes and (ascending.shape[axes - 1] == 1 or ascending.strides[axes - 1] == block):
        axes -= 1
        block *= ascending.shape[axes]
    return axes, ((0, block),)


def merged(starts: Offsets, parts: tuple[Range, ...]) -> list[Range]:
    """The ranges of blocks that begin at `starts` and have these parts, neighbours joined."""
    if not len(starts) or not parts:
        return []
    begins = (starts[:, None] + [at for at, _ in parts]).reshape(-1)
    sizes = np.tile([n for _, n in parts], len(starts))
    first = np.append(0, np.flatnonzero(begins[1:] != begins[:-1] + sizes[:-1]) + 1)
    return list(zip(begins[first].tolist(), np.add.reduceat(sizes, first).tolist(), strict=True))


def selected(view: Array, index: Any) -> Any:
    """What `view[index]` selects, as offsets in bytes from its first element, in the shape of the result.

    Raises what indexing raises. The cost is that of the axes and the result, not of the view.
    """
    offsets = np.ndarray(view.shape, np.int64, _ZERO, 0, [0] * view.ndim)[index]
    for axis, (n, step) in enumerate(zip(view.shape, view.strides, strict=True)):
        along = np.arange(n or 1) * step
        steps = [along.itemsize if axis == other else 0 for other in range(view.ndim)]
        offsets += np.ndarray(view.shape, np.int64, along, 0, steps)[index]  # in place, or a 0-d array ends as a scalar
    return offsets


def distinct(offsets: Any) -> tuple[Offsets, Any, Any]:
    """Offsets ascending and each once; where each of them came first; and where in them each of the given is."""
    given = np.ravel(offsets)
    if (given[1:] > given[:-1]).all():
        return given, ..., ...
    places, first, inverse = np.unique(given, return_index=True, return_inverse=True)
    return places, first, inverse


def pack(elements: Array) -> bytes:
    """The value bytes of a 1-D array, element by element."""
    if is_whole(elements.dtype):
        return elements.tobytes()
    return _rows(elements)[:, _columns(elements.dtype)].tobytes()


def private(data: bytes, dtype: np.dtype[Any]) -> Array:
    """A read-only 1-D array of a copy of the bytes: NumPy forgets in places that an array is read-only."""
    made: Array = np.frombuffer(bytearray(data), dtype)
    made.flags.writeable = False
    return made


def unpack(data: bytes, dtype: np.dtype[Any], n: int) -> Array:
    """The inverse: a read-only 1-D array of n elements, padding zero."""
    if is_whole(dtype) and dtype.itemsize and n:
        return private(data, dtype)
    made: Array = np.zeros(n, dtype)
    if data:
        _rows(made)[:, _columns(dtype)] = np.frombuffer(data, np.uint8).reshape(n, -1)
    made.flags.writeable = False
    return made


def _rows(elements: Array) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(elements).view(np.uint8).reshape(len(elements), -1)


def _columns(dtype: np.dtype[Any]) -> npt.NDArray[np.int64]:
    return np.concatenate([np.arange(at, at + n) for at, n in spans(dtype)])
