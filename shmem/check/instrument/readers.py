"""Which calls are known to read, or to write, all of an array that they are given.

Of any other call nothing is said: it may keep the array, look at its shape, or hand it on, and a function of the
instrumented file tells by its own lines. So no access is told that does not happen.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from ...fabric.events import Kind

PRINTED_MAX = 1000  # elements: NumPy shows of a larger array its ends only
Touched = tuple[Kind, Any]

_NUMBERS = ("int", "float", "complex", "bool")  # of arrays of one element, whose errors are theirs else
_ALL = ("list", "tuple", "set", "frozenset", "sum", "min", "max", "sorted")  # one by one, if they are elements
_SHOWN = ("print", "str", "repr", "format")
_NUMPY = """
    all allclose amax amin any argmax argmin argsort argwhere array array_equal array_equiv array_repr array_str
    average bincount concatenate convolve copy corrcoef count_nonzero cov cross cumprod cumsum diff digitize dot
    dstack einsum flatnonzero histogram hstack inner interp intersect1d isclose isin kron linspace max
    mean median min nan_to_num nonzero outer pad percentile prod ptp quantile repeat roll round sort stack std sum
    tensordot tile trace union1d unique var vdot vstack where
"""
_METHODS = """
    all any argmax argmin argsort conjugate copy cumprod cumsum dot flatten item max mean min nonzero prod ptp repeat
    round searchsorted std sum tobytes tolist trace var
"""
_WRITING = ("fill", "sort", "partition")


def _ids(names: Any, space: Any) -> frozenset[int]:
    return frozenset(id(getattr(space, name)) for name in names if hasattr(space, name))


_OF_NUMPY, _OF_ARRAYS = _ids(_NUMPY.split(), np), frozenset(_METHODS.split())
_OF_NUMBERS, _OF_ALL, _OF_SHOWN = (_ids(names, builtins) for names in (_NUMBERS, _ALL, _SHOWN))


def is_numeric(value: Any) -> bool:
    """Whether NumPy, and nobody else, works on an array and this."""
    return isinstance(value, (bool, int, float, complex, np.generic, np.ndarray))


def touched(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Iterator[Touched]:
    """The arrays that a call reads or writes."""
    if isinstance(function, np.ufunc):
        yield from _ufunc(function, args, keywords)
    elif type(function) is BuiltinFunctionType and type(function.__self__) is np.ndarray:
        yield from _method(function.__self__, function.__name__, args, keywords)
    elif id(function) in _OF_NUMPY:
        if not (function is np.array and keywords.get("copy") in (False, None) and "copy" in keywords):
            yield from _numpy(args, keywords)
    elif function is np.copyto:
        yield from zip((Kind.STORE, Kind.LOAD), args, strict=False)
    else:
        yield from _builtin(function, args)


def _arrays(values: Any) -> Iterator[Any]:
    """The arrays among some values, and in lists of them."""
    for value in values:
        if type(value) in (list, tuple):
            yield from (each for each in value if type(each) is np.ndarray)
        elif type(value) is np.ndarray:
            yield value


def _numpy(args: tuple[Any, ...], keywords: dict[str, Any]) -> Iterator[Touched]:
    yield from ((Kind.LOAD, each) for each in _arrays(args))
    for name, value in keywords.items():
        yield from ((Kind.STORE if name == "out" else Kind.LOAD, each) for each in _arrays([value]))


def _ufunc(function: np.ufunc, args: tuple[Any, ...], keywords: dict[str, Any]) -> Iterator[Touched]:
    if "where" in keywords:
        return  # parts of them
    yield from _numpy(args[: function.nin], {key: each for key, each in keywords.items() if key == "out"})
    yield from ((Kind.STORE, each) for each in _arrays(args[function.nin :]))


def _method(array: Any, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Iterator[Touched]:
    if (name in _OF_ARRAYS and not (name == "item" and args)) or (name == "astype" and keywords.get("copy", True)):
        yield Kind.LOAD, array
        yield from _numpy(args, keywords)
    elif name in _WRITING:
        yield Kind.STORE, array


def _builtin(function: Any, args: tuple[Any, ...]) -> Iterator[Touched]:
    for array in args:
        if type(array) is not np.ndarray:
            continue
        numbers = array.size == 1 and id(function) in _OF_NUMBERS
        each = array.ndim == 1 and id(function) in _OF_ALL
        if numbers or each or (array.size <= PRINTED_MAX and id(function) in _OF_SHOWN):
            yield Kind.LOAD, array
