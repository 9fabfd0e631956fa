"""Plain arguments, whole numbers, truths, dtypes and arrays: what they mean, or the error that names them.

`me` is the number of the PE for the error, None where no PE asks.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from .errors import ArgumentError, DtypeError


def whole_number(value: object, name: str, me: int | None, least: int | None = None) -> int:
    """An integer, of Python's or NumPy's; raises DtypeError for anything else, ArgumentError below `least`."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise DtypeError(f"{name} is {value!r}: an integer is needed", pe=me) from None
    if least is not None and number < least:
        raise ArgumentError(f"{name} is {number}: must be at least {least}", pe=me)
    return number


def truth(value: object, name: str, me: int | None) -> bool:
    """Whether a value counts as true; raises DtypeError for one that is neither, such as an array of several."""
    try:
        return bool(value)
    except Exception as error:
        raise DtypeError(f"{name} is {value!r}, neither true nor false: {error}", pe=me) from None


def dtype_of(value: object, me: int | None) -> np.dtype[Any]:
    """The dtype that an argument means; raises DtypeError for none, and for elements of no fixed size."""
    try:
        kind: np.dtype[Any] = np.dtype(value)  # type: ignore[call-overload]
    except Exception as error:  # NumPy raises what it likes, SyntaxError for some texts
        raise DtypeError(f"dtype {value!r} means nothing: {error}", pe=me) from None
    if kind.hasobject or kind.itemsize == 0:
        raise DtypeError(f"dtype {kind} has elements of no fixed size", pe=me)
    return kind


def array_of(value: object, name: str, me: int | None, dtype: np.dtype[Any] | None = None) -> np.ndarray[Any, Any]:
    """`np.asarray`; raises ArgumentError for what makes no array, such as rows of different lengths."""
    try:
        return np.asarray(value, dtype)
    except Exception as error:
        raise ArgumentError(f"{name} makes no array{'' if dtype is None else f' of {dtype}'}: {error}", pe=me) from None
