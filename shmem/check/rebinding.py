"""One PE's version of what belongs to the program: its modules' functions and classes, and functions made in functions.

What can be found under its name in the program's modules is found there in the PE's copies. A function that can't
(nested, a lambda) is made again over the PE's globals. Its defaults and closure stay the very same, shared by all PEs
and never reset: a list in a closure is how a caller collects. Only what a closure holds of the program itself,
functions, classes and modules, becomes the PE's, so that a nested helper sees the globals of the function that calls
it. Objects, and methods bound to them, are taken as they are and work with the caller's globals, unless they are
globals of the program themselves.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from .ownership import Names

_MISSING = object()
_NAMED = (FunctionType, type, functools._lru_cache_wrapper)
_DATA = (list, dict, set, deque, bytearray, np.ndarray)


class Own:
    """One PE's versions. `originals`: the namespaces of the program's modules, by name; `copies`: the PE's modules;
    `code`: what a function that is made again runs, by its own code."""

    def __init__(
        self, originals: Mapping[str, Names], copies: Mapping[str, ModuleType],
        code: Callable[[CodeType], CodeType] | None = None,
    ) -> None:  # fmt: skip
        self._code = code or (lambda code: code)
        self._modules = {name: (originals[name], copies[name]) for name in originals.keys() & copies.keys()}
        self._bound = {id(names): vars(copy) for names, copy in self._modules.values()}
        self._made: dict[int, tuple[Any, Any]] = {}  # by id of the original, which is kept with it

    def bind(self, names: Names, copy: Names) -> None:
        """Functions over these globals get a copy of them that is no module's."""
        self._bound[id(names)] = copy

    def has(self, value: Any) -> bool:
        """Whether the PE has a version of its own of a function, class, module or what is made of them."""
        if isinstance(value, functools.partial):
            return self.has(value.func)
        if isinstance(value, MethodType):
            return isinstance(value.__self__, type) and self.has(value.__self__)
        return self._rebinds(value) or self._found(value) is not _MISSING

    def __call__(self, value: Any) -> Any:
        """The PE's version of a value, or the value itself where it has none."""
        if id(value) not in self._made:
            made = self._version(value) if self.has(value) else value
            self._made[id(value)] = value, made
        return self._made[id(value)][1]

    def program(self, function: Any) -> Any:
        """As for any value; and of an object that is a global of the program, the PE's."""
        names, copy = self._modules.get(getattr(function, "__module__", None) or "", (None, None))
        for name, value in (names or {}).items():
            if value is function and hasattr(copy, name):
                return getattr(copy, name)
        return self(function)

    def _version(self, value: Any) -> Any:
        if isinstance(value, functools.partial):
            given = {key: self(one) for key, one in value.keywords.items()}
            return type(value)(self(value.func), *map(self, value.args), **given)
        if isinstance(value, MethodType):
            return getattr(self(value.__self__), value.__name__)
        found = self._found(value)
        return self._again(value) if found is _MISSING else found

    def _rebinds(self, value: Any) -> bool:
        return isinstance(value, FunctionType) and id(value.__globals__) in self._bound

    def _found(self, value: Any) -> Any:
        """What the PE's copy of a module has where the module has the value."""
        if isinstance(value, ModuleType):
            names, copy = self._modules.get(vars(value).get("__name__", ""), (None, None))
            return copy if names is vars(value) else _MISSING
        if not isinstance(value, _NAMED) or value.__module__ not in self._modules:
            return _MISSING
        names, copy = self._modules[value.__module__]
        return _look_up(vars(copy), value.__qualname__) if _look_up(names, value.__qualname__) is value else _MISSING

    def _again(self, function: FunctionType) -> FunctionType:
        """A function over the PE's globals."""
        closure = function.__closure__ or ()
        cells = [CellType() if self.has(_content(cell)) else cell for cell in closure]
        names = self._bound[id(function.__globals__)]
        code = self._code(function.__code__)
        made = FunctionType(code, names, function.__name__, function.__defaults__, tuple(cells))
        functools.update_wrapper(made, function, updated=())
        made.__kwdefaults__ = function.__kwdefaults__
        made.__dict__.clear()
        made.__dict__.update(function.__dict__)
        self._made[id(function)] = function, made  # its own closure may hold it
        for cell, original in zip(cells, closure, strict=True):
            if cell is not original:
                cell.cell_contents = self(original.cell_contents)
        return made


def _look_up(names: Mapping[str, Any], qualname: str) -> Any:
    first, *rest = qualname.split(".")
    value = names.get(first, _MISSING)
    for part in rest:
        value = getattr(value, part, _MISSING)
    return value


def copied_globals(function: FunctionType, own: Own) -> Names:
    """A PE's copy of the globals of a function that no file can make again; `own` then knows it.

    Functions of the same globals are bound to the copy, and data that the function uses are copied (a notebook may
    hold much else); classes and all else are shared.
    """
    names = function.__globals__
    copy = dict(names)
    own.bind(names, copy)
    versions = {key: own(value) for key, value in names.items() if own.has(value)}
    copy.update(versions)
    memo: dict[int, Any] = {}
    for key in _used(function) & names.keys() - versions.keys():
        value = names[key]
        if isinstance(value, _DATA) or type(value).__module__ == names.get("__name__"):
            with suppress(Exception):  # of any kind: what can't be copied stays as it is
                copy[key] = _copied(value, own, memo)
    return copy


def _copied(value: Any, own: Own, memo: dict[int, Any]) -> Any:
    """As deepcopy, with the PE's versions of functions in lists, tuples and dicts."""
    if own.has(value):
        return own(value)
    if id(value) not in memo and type(value) is list:
        made: Any = memo.setdefault(id(value), [])
        made.extend(_copied(one, own, memo) for one in value)
    elif id(value) not in memo and type(value) is dict:
        made = memo.setdefault(id(value), {})
        made.update((_copied(key, own, memo), _copied(one, own, memo)) for key, one in value.items())
    elif type(value) is tuple:
        return tuple(_copied(one, own, memo) for one in value)
    return memo[id(value)] if id(value) in memo else deepcopy(value, memo)


def _used(function: FunctionType) -> set[str]:
    """The global names that a function uses, itself or through functions of the same globals."""
    names, found, seen = function.__globals__, set[str](), set[int]()
    todo: list[Any] = [function]
    while todo:
        value = todo.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, (list, tuple)):
            todo += value
        elif isinstance(value, dict) and value is not names:
            todo += value.values()
        elif isinstance(value, FunctionType) and value.__globals__ is names:
            used = set(_names_in(value.__code__))
            found |= used
            todo += [*map(names.get, used), *map(_content, value.__closure__ or ())]
    return found


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return None
