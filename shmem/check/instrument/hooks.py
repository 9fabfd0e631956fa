"""What an instrumented line calls: tells the race detector of loads and stores, and hands its operands back.

No hook runs code of the program. Told are plain arrays in private memory, as the ranges of bytes that the operation
touches: a subscript that makes a view of them touches nothing.
"""

from __future__ import annotations

import builtins
import contextlib
import operator
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ... import runtime
from ...fabric.events import Kind
from ...fabric.sim.fabric import SimFabric
from ...tracked.places import distinct, memory_order, merged, ranges_of, selected, spans
from ...views import Array, address_of
from . import readers
from .names import FUNCTIONS

_LOAD, _STORE = Kind.LOAD, Kind.STORE
_NUMBERS, _SLICES = (int, np.integer), (slice, type(None), type(...))


class _Keys(threading.local):
    """Indices that were evaluated, and are about to be used."""

    def __init__(self) -> None:
        self.stack: list[Any] = []


_KEYS = _Keys()


def _whole(array: Array) -> list[tuple[int, int]]:
    return ranges_of(memory_order(array).ascending(array))


def _selected(array: Array, index: Any) -> list[tuple[int, int]]:
    """The bytes that an index selects; none of one that is wrong, or that only the program can evaluate."""
    if not all(map(_is_known, _parts(index))):
        return []
    try:
        part = array[index] if _makes_view(array, index) else None
        if type(part) is np.ndarray:
            return _whole(part)
        offsets = selected(array, index)
    except Exception:  # of any kind: the program is about to see it
        return []
    return merged(distinct(offsets)[0] + address_of(array), spans(array.dtype)) if array.itemsize else []


def _parts(index: Any) -> tuple[Any, ...]:
    return index if type(index) is tuple else (index,)


def _is_known(part: Any) -> bool:
    if type(part) is slice:
        return all(isinstance(each, (int, np.integer, type(None))) for each in (part.start, part.stop, part.step))
    if type(part) is list:
        return all(isinstance(each, (int, np.integer)) for each in part)
    return isinstance(part, (*_NUMBERS, *_SLICES)) or type(part) in (np.ndarray, np.bool_)


def _makes_view(array: Array, index: Any) -> bool:
    """Whether a subscript gives a view. Anything else gives an element, or a copy."""
    parts = _parts(index)
    numbers = [part for part in parts if isinstance(part, _NUMBERS) and type(part) is not bool]
    if len(numbers) + sum(isinstance(part, _SLICES) for part in parts) < len(parts):
        return False
    return len(numbers) < array.ndim or any(part is ... for part in parts) or array.dtype.names is not None


def _tell(kind: Kind, array: Any, index: Any = ...) -> None:
    """Tells of a load or store, if it can matter to anybody. index: of a part of it."""
    if type(array) is not np.ndarray or (pe := runtime.started()) is None or not isinstance(pe.fabric, SimFabric):
        return
    observed = pe.fabric.job.observed
    if observed is None or not observed.private.may_matter(*np.lib.array_utils.byte_bounds(array)):
        return
    for address, nbytes in _whole(array) if index is ... else _selected(array, index):
        observed.private.touches(kind, address, nbytes)


def _tell_index(index: Any) -> None:
    for part in _parts(index):
        _tell(_LOAD, part)


def _tell_value(array: Any, value: Any) -> None:
    """A value comes to elements of an array: it is read."""
    if array.dtype != object:
        _tell(_LOAD, value)


def load(array: Any, index: Any, /) -> Any:
    """`array[index]` is about to be loaded."""
    if isinstance(array, np.ndarray):
        _tell_index(index)
        if type(array) is np.ndarray and not _makes_view(array, index):
            _tell(_LOAD, array, index)
    return array


def load_key(array: Any, index: Any, /) -> Any:
    """As `load`; `key` gives the index."""
    _KEYS.stack.append(index)
    return load(array, index)


def store(array: Any, index: Any, value: Any = None, /) -> Any:
    """`array[index]` is about to be stored; value: what, where that was looked up."""
    if isinstance(array, np.ndarray):  # a tracked one says so as well
        _tell_index(index)
        _tell_value(array, value)
        _tell(_STORE, array, index)
    return array


def store_key(array: Any, index: Any, value: Any = None, /) -> Any:
    """As `store`; `key` gives the index."""
    _KEYS.stack.append(index)
    return store(array, index, value)


def key() -> Any:
    """The index that was evaluated last."""
    return _KEYS.stack.pop()


def pair(array: Any, index: Any, /) -> tuple[Any, Any]:
    """`array[index]` is about to be loaded, and stored later: by `then`."""
    if isinstance(array, np.ndarray):
        _tell_index(index)
        _tell(_LOAD, array, index)
    return array, index


def then(value: Any, element: tuple[Any, Any], /) -> Any:
    """What comes to an element of `pair` has been evaluated."""
    held, index = element
    if isinstance(held, np.ndarray):
        _tell_value(held, value)
        _tell(_STORE, held, index)
    elif type(held) in (list, dict) and type(index) in (int, str):  # what it holds changes in place
        with contextlib.suppress(LookupError):
            noted(held[index], value)
    return value


def inplace(array: Any, value: Any, /) -> Any:
    """`array += value`."""
    return noted(array, value)[1]


def noted(array: Any, value: Any, /) -> tuple[Any, Any]:
    """The operands of an operation in place."""
    if isinstance(array, np.ndarray):
        _tell(_LOAD, value)
        _tell(_LOAD, array)
        _tell(_STORE, array)
    elif readers.is_numeric(array):
        _tell(_LOAD, value)
    return array, value


def operands(one: Any, other: Any, /) -> tuple[Any, Any]:
    """The operands of an operator."""
    for each, beside in ((one, other), (other, one)):
        if type(each) is np.ndarray and readers.is_numeric(beside):
            _tell(_LOAD, each)
    return one, other


def beside(one: Any, other: Any, /) -> Any:
    """An operand of an operator, with the other."""
    return operands(one, other)[0]


def operand(one: Any, /) -> Any:
    """The operand of an operator."""
    _tell(_LOAD, one)
    return one


def iterated(array: Any, /) -> Any:
    """A loop over an array has its first element at once."""
    if type(array) is np.ndarray and array.ndim == 1 and len(array):
        _tell(_LOAD, array, 0)
    return array


def _call(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    for kind, array in readers.touched(function, args, keywords):
        _tell(kind, array)


def called(function: Any, /, *args: Any, **keywords: Any) -> Any:
    """A function is about to be called with these; gives the function."""
    _call(function, args, keywords)
    return function


def bound(function: Any, /, *args: Any, **keywords: Any) -> Any:
    """The same; gives the call. It is made without a frame of its own."""
    _call(function, args, keywords)
    return partial(function, *args, **keywords) if callable(function) else function


class _Unpacked:
    """`bound` for arguments that are unpacked: what is wrong with them is told of the function."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self.__module__ = getattr(function, "__module__", None)  # type: ignore[assignment]
        self.__qualname__ = getattr(function, "__qualname__", None)

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        return bound(self._function, *args, **keywords)


def unpacked(function: Any, /) -> Any:
    """What takes the arguments for a function."""
    return _Unpacked(function)


HOOKS: dict[str, Callable[..., Any]] = {
    "slice": slice, **{name: getattr(operator, name) for name in FUNCTIONS},
    **{each.__name__: each for each in (
        load, load_key, store, store_key, key, pair, then, inplace, noted, operands, beside, operand, iterated,
        called, bound, unpacked,
    )},
}  # fmt: skip


def install() -> None:
    """Puts the hooks where instrumented code finds them."""
    vars(builtins).update({f"@shmemu_{name}": hook for name, hook in HOOKS.items()})
