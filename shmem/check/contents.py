"""How what an object holds is read and put back in its place, for every kind of object that `Snapshot` knows.

A put takes the thing and what was saved of it. Saved contents are shallow: what they refer to is put back by itself.
"""

from __future__ import annotations

import functools
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from importlib.machinery import ModuleSpec
from operator import is_
from pathlib import PurePath
from random import Random, SystemRandom
from re import Pattern
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any

import numpy as np

_MISSING = object()
_CONSTANT = (
    int, float, complex, str, bytes, type(None), range, slice, type(...), Enum, np.generic, np.dtype, PurePath, Pattern,
    Decimal, Fraction, date, time, timedelta, ModuleType, BuiltinFunctionType, CodeType, SystemRandom,
    GetSetDescriptorType, MemberDescriptorType, ModuleSpec,
)  # fmt: skip


# ---- putting back: put(thing, saved) ----


def _put_dict(thing: dict[Any, Any], saved: dict[Any, Any]) -> None:
    kind = OrderedDict if isinstance(thing, OrderedDict) else dict
    if len(thing) != len(saved) or not all(map(is_, kind.__iter__(thing), saved)):
        kind.clear(thing)
    kind.update(thing, saved)


def put_vars(thing: Any, saved: dict[str, Any]) -> None:
    """Of an instance or a function: its attributes."""
    if (now := vars(thing)) or saved:
        _put_dict(now, saved)


def put_slots(thing: Any, saved: dict[MemberDescriptorType, Any]) -> None:
    """Of an instance of a class with slots."""
    for slot, value in saved.items():
        if value is not _MISSING:
            slot.__set__(thing, value)
        elif slot_of(thing, slot) is not _MISSING:
            slot.__delete__(thing)


def put_class(thing: type, saved: dict[str, Any]) -> None:
    """Of a class: its attributes."""
    now = vars(thing)
    if len(now) == len(saved) and all(map(is_, now.values(), saved.values())):
        return
    for name in now.keys() - saved.keys():
        with suppress(AttributeError, TypeError):  # Python's own
            type.__delattr__(thing, name)
    for name, value in saved.items():
        if now.get(name, _MISSING) is not value:
            type.__setattr__(thing, name, value)


def put_defaults(thing: FunctionType, saved: list[Any]) -> None:
    """Of a function: its defaults."""
    thing.__defaults__ = tuple(saved)


def _put_cell(thing: CellType, saved: list[Any]) -> None:
    [thing.cell_contents] = saved


def _put_list(thing: list[Any], saved: list[Any]) -> None:
    list.__setitem__(thing, slice(None), saved)


def _put_set(thing: set[Any], saved: set[Any]) -> None:
    set.clear(thing)
    set.update(thing, saved)


def _put_deque(thing: deque[Any], saved: list[Any]) -> None:
    deque.clear(thing)
    deque.extend(thing, saved)


def _put_slice(thing: Any, saved: Any) -> None:
    thing[:] = saved


def _put_array(thing: np.ndarray[Any, Any], saved: np.ndarray[Any, Any]) -> None:
    thing.flags.writeable = True
    if thing.shape != saved.shape:
        thing.resize(saved.shape, refcheck=False)
    np.copyto(thing, saved)


def _put_stream(thing: np.random.BitGenerator, saved: Any) -> None:
    thing.state = saved


def put_cache(thing: functools._lru_cache_wrapper[Any], saved: None) -> None:
    """Of a function with a cache: nothing is left in it."""
    thing.cache_clear()


# ---- what there is to save ----


def slot_of(thing: Any, slot: MemberDescriptorType) -> Any:
    """What a slot holds; a value of its own where it is empty."""
    try:
        return slot.__get__(thing)
    except AttributeError:
        return _MISSING


def _save_dict(thing: dict[Any, Any]) -> dict[Any, Any]:
    return dict(OrderedDict.items(thing) if isinstance(thing, OrderedDict) else dict.items(thing))


Put = Callable[[Any, Any], None]
# By kind, the first that fits: how its content is saved, how it is put back, whether it may hold other objects.
CONTENTS: tuple[tuple[type, Callable[[Any], Any], Put, bool], ...] = (
    (dict, _save_dict, _put_dict, True),
    (list, list.copy, _put_list, True),
    (set, set, _put_set, True),
    (deque, list, _put_deque, True),
    (bytearray, bytes, _put_slice, False),
    (array, lambda thing: thing[:], _put_slice, False),
    (np.ndarray, np.ndarray.copy, _put_array, True),
    (CellType, lambda thing: [thing.cell_contents], _put_cell, True),
    (Random, Random.getstate, Random.setstate, False),
    (np.random.BitGenerator, lambda thing: thing.state, _put_stream, False),
    (np.random.RandomState, lambda thing: thing.get_state(legacy=False), np.random.RandomState.set_state, False),
)


def parts(thing: Any) -> Iterable[Any] | None:
    """What something holds that can't change itself; None for what may."""
    kind = type(thing)  # what a proxy says of itself is not asked
    if issubclass(kind, (tuple, frozenset)):
        return thing  # type: ignore[no-any-return]
    if issubclass(kind, (staticmethod, classmethod)):
        return (thing.__func__,)
    if issubclass(kind, property):
        return thing.fget, thing.fset, thing.fdel
    if issubclass(kind, functools.partial):
        return thing.func, *thing.args, thing.keywords
    if issubclass(kind, np.random.Generator):
        return (thing.bit_generator,)
    return () if issubclass(kind, _CONSTANT) or kind is object else None
