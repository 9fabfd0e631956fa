"""A view of watched memory, and the four ways to reach its bytes: all of it or what an index selects, read or written.

Each is one step of the watch, or none if there is nothing to move. The view's own buffer is never read here: it holds
poison. What is read is a private copy, and read-only: whoever would write to it in the belief that it is the memory
itself is told so by NumPy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..heap import POISON
from ..views import Array, address_of
from .places import Range, distinct, memory_order, merged, pack, private, ranges_of, selected, spans, unpack


class Watch(Protocol):
    """The model that holds the true bytes. `shmem.tracked` calls nothing else."""

    def load(self, ranges: Sequence[Range]) -> bytes:
        """The bytes at (address, bytes) ranges, one after the other. One step."""

    def store(self, ranges: Sequence[Range], data: bytes) -> None:
        """Puts `data` there, one range after the other. One step."""


class Watched:
    """A plain view of a poisoned buffer and the watch over the true bytes."""

    __slots__ = ("__weakref__", "_at", "_plain", "_settled", "_watch")

    def __init__(self, plain: Array, watch: Watch) -> None:
        self._plain = plain
        self._watch = watch
        self._at = -1
        self._settled = False  # an operation in place has stored already, see `is_settled`

    @property
    def _address(self) -> int:
        """The address of the first element; `shmem.views.address_of` asks for it."""
        if self._at < 0:
            self._at = address_of(self._plain)
        return self._at


def read(view: Watched) -> Array:
    """The values, as a read-only copy in the view's order of memory."""
    view._settled = False
    plain = view._plain
    if plain.dtype.names is None and plain.flags.c_contiguous and plain.nbytes:
        data = view._watch.load([(view._address, plain.nbytes)])
        return private(data, plain.dtype).reshape(plain.shape)
    order = memory_order(plain)
    ascending = order.ascending(plain)
    ranges = ranges_of(ascending)
    data = view._watch.load(ranges) if ranges else b""
    elements = unpack(data, plain.dtype, ascending.size)
    return order.back(elements.reshape(ascending.shape), plain.shape)


def copied(view: Watched) -> Array:
    """The values, as a copy to write to."""
    values: Array = read(view).copy(order="K")
    return values


def read_element(view: Watched, offset: int) -> Any:
    """The scalar `offset` bytes from the first element, of a dtype without fields."""
    view._settled = False
    dtype = view._plain.dtype
    if not dtype.itemsize:
        return np.zeros(1, dtype)[0]
    return np.frombuffer(view._watch.load([(view._address + offset, dtype.itemsize)]), dtype)[0]


def write_element(view: Watched, offset: int, value: object) -> None:
    """Stores one scalar there. Raises as an assignment to an element."""
    check_writeable(view)
    one = np.empty(1, view._plain.dtype)
    one[0] = value
    if one.nbytes:
        view._watch.store([(view._address + offset, one.nbytes)], one.tobytes())


def write(view: Watched, values: Array) -> None:
    """Stores an array of the view's shape and dtype. Raises ValueError if the view is read-only."""
    check_writeable(view)
    plain = view._plain
    if plain.dtype.names is None and plain.flags.c_contiguous and plain.nbytes:
        view._watch.store([(view._address, plain.nbytes)], values.tobytes())
        return
    order = memory_order(plain)
    if ranges := ranges_of(order.ascending(plain)):
        view._watch.store(ranges, pack(order.ascending(values).reshape(-1)))


def check_writeable(view: Watched, what: str = "assignment destination") -> None:
    """Raises ValueError, in NumPy's words, if the view is read-only."""
    view._settled = False
    if not view._plain.flags.writeable:
        raise ValueError(f"{what} is read-only")


def gather(view: Watched, index: Any) -> Any:
    """What an advanced index (of plain arrays) selects, each byte loaded once: an array or a scalar of its own."""
    view._settled = False
    plain = view._plain
    offsets = selected(plain, index)
    places, _, inverse = distinct(offsets)
    ranges = merged(places + view._address, spans(plain.dtype)) if plain.itemsize else []
    elements = unpack(view._watch.load(ranges) if ranges else b"", plain.dtype, len(places))
    found = elements[inverse].reshape(np.shape(offsets))
    found = found.copy() if inverse is ... else found
    return found if isinstance(offsets, np.ndarray) else found[()]


def scatter(view: Watched, index: Any, value: object) -> None:
    """Stores to what an advanced index selects; of an element selected twice the last value counts.

    A private array of the same shape takes the assignment first, so that its rules and errors are NumPy's.
    """
    check_writeable(view)
    plain = view._plain
    stand_in: Array = np.empty(plain.shape, plain.dtype)
    stand_in[index] = value
    places, first, _ = distinct(selected(plain, index))
    if ranges := merged(places + view._address, spans(plain.dtype)) if plain.itemsize else []:
        view._watch.store(ranges, pack(np.atleast_1d(stand_in[index]).reshape(-1)[first]))


def is_settled(view: Watched, target: Array) -> bool:
    """Whether `view` comes from an operation in place on `target`, and nothing happened since.

    Python ends `a[2:5] *= 3` with an assignment of a[2:5] to itself, which must not be seen as a second access.
    """
    settled, view._settled = view._settled, False
    plain = view._plain
    if not settled or (plain.shape, plain.strides, plain.dtype) != (target.shape, target.strides, target.dtype):
        return False
    return address_of(plain) == address_of(target)


def unseen(memory: Array | Watched | Sequence[Range]) -> bool:
    """Whether memory of this process still holds nothing but poison: False tells of a write past the watch.

    memory: an array (a tracked one or a plain view of the same buffer), or ranges of (address, bytes).
    """
    plain = memory._plain if isinstance(memory, Watched) else memory
    if isinstance(plain, np.ndarray):
        ranges: Sequence[Range] = ranges_of(memory_order(plain).ascending(plain))
    else:
        ranges = plain
    return all(ctypes.string_at(address, n).count(POISON) == n for address, n in ranges)
