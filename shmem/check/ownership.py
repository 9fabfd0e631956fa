"""What of a running interpreter is the user's program, and what is libraries.

A module is the user's if its source lies neither in the standard library nor among installed packages, and is none of
ours and none of pytest's. Extension modules are libraries wherever they lie: their state is not Python's to copy.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib.machinery import EXTENSION_SUFFIXES
from types import FunctionType, ModuleType
from typing import Any

from ..memory import OURS

Names = dict[str, Any]  # the namespace of a module

_TOOLS = frozenset({"pytest", "_pytest", "__main__"})  # a program in __main__ is asked for by itself
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_LIBRARY = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(os.__file__)}
_FOLDERS = tuple(os.path.join(os.path.realpath(folder), "") for folder in (*_LIBRARY, *OURS))


@cache
def _users_path(path: str) -> bool:
    real = os.path.realpath(path)
    if os.path.join(real, "").startswith(_FOLDERS) or real.endswith(tuple(EXTENSION_SUFFIXES)):
        return False
    return _INSTALLED.isdisjoint(real.split(os.sep))


def is_users(name: str, names: Mapping[str, Any]) -> bool:
    """Whether the module of that name, with that namespace, is the user's; never `__main__`."""
    if name.partition(".")[0] in _TOOLS:
        return False
    file = names.get("__file__")
    if isinstance(file, str):
        return _users_path(file)
    folders = list(names.get("__path__") or ())  # a package without a file of its own
    return bool(folders) and all(map(_users_path, folders))


def file_of(names: Mapping[str, Any]) -> str | None:
    """The file from which a module with that namespace can be made again. None where there is none, or where the
    namespace is not that of a module: a notebook, `python -c`, `exec`."""
    name, file = names.get("__name__"), names.get("__file__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    if getattr(module, "__dict__", None) is not names or not isinstance(file, str):
        return None
    importable = name != "__main__" and names.get("__spec__") is not None
    return file if importable or os.path.isfile(file) else None


def namespace(function: Callable[..., Any]) -> Names:
    """The globals of a callable: of the module that defines it, or its class."""
    if isinstance(function, partial):
        return namespace(function.func)
    name = getattr(function, "__module__", None) or ""
    if isinstance(function, FunctionType) and (function.__globals__.get("__name__") == name or name not in sys.modules):
        return function.__globals__  # else it was made by a decorator of a library
    return getattr(sys.modules.get(name), "__dict__", {})


def _home(value: object) -> object:
    """The name of the module that a value is, or in which it was defined."""
    if isinstance(value, ModuleType):
        return vars(value).get("__name__")
    return value.__module__ if isinstance(value, (FunctionType, type)) else None


def reachable(start: Names, modules: Mapping[str, Names]) -> set[str]:
    """Which of the modules a namespace refers to by its values, directly or through each other."""
    found: set[str] = set()
    todo = [start]
    while todo:
        for value in list(todo.pop().values()):
            name = _home(value)
            if isinstance(name, str) and name in modules and name not in found:
                found.add(name)
                todo.append(modules[name])
    return found
