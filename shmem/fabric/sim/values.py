"""What a program returned or raised, as values that outlive its run and can be compared."""

from __future__ import annotations

import operator
from collections.abc import Hashable
from typing import Any

import numpy as np

_SIMPLE = (type(None), bool, int, str, bytes)
_NAN = float("nan")  # one object: it is equal to itself in a tuple


def kept(value: Any) -> Any:
    """A value that may outlive the job: copies of symmetric arrays in it, which are loaded by the task that has them.
    Everything else is the same object."""
    if isinstance(value, np.ndarray):
        return value if issubclass(type(value), np.ndarray) else np.array(value)  # one whose accesses are seen
    if type(value) in (list, tuple):
        copies = [kept(one) for one in value]
        return value if all(map(operator.is_, copies, value)) else type(value)(copies)
    if type(value) is dict:
        copies = [kept(one) for one in value.values()]
        return value if all(map(operator.is_, copies, value.values())) else dict(zip(value, copies, strict=True))
    return value


def said(error: BaseException) -> str:
    """What an exception says."""
    try:
        return f"{type(error).__name__}: {error}".rstrip(": ")
    except Exception as wrong:
        return f"{type(error).__name__}, which can't be told ({type(wrong).__name__})"


def frozen(value: Any) -> Hashable:
    """A value that can be compared and hashed, for what a program returned. All NaN are the same."""
    if type(value) in (float, complex):
        return value if value == value else _NAN
    if type(value) in _SIMPLE:
        return value  # type: ignore[no-any-return]
    if isinstance(value, (np.ndarray, np.generic)):
        return frozen(value.tolist())
    if isinstance(value, (list, tuple)):
        return tuple(map(frozen, value))
    if isinstance(value, (set, frozenset)):
        return frozenset(frozen(one) for one in value)
    if isinstance(value, dict):
        return tuple((frozen(key), frozen(one)) for key, one in value.items())
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value  # type: ignore[no-any-return]
