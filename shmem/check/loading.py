"""`FILE::FUNCTION`: the function of a Python file, imported apart from everything else."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

from .. import config, runtime
from ..errors import ArgumentError

NAMES_MAX = 8


def parted(text: str) -> tuple[str, str]:
    """File and function that a text names; without a function it is `main`."""
    file, _, name = text.partition("::")
    return file, name or "main"


def load(text: str) -> Callable[..., Any]:
    """Imports the file (as its folder would: that is on `sys.path`) and returns the function.

    Raises ArgumentError if there is no such file or function, or if the file can't be imported: then it says at which
    of its lines.
    """
    file, name = parted(text)
    if not os.path.isfile(file):
        raise ArgumentError(f"there is no file {file}")
    found = getattr(_imported(file), name, None)
    if not callable(found):
        raise ArgumentError(f"{file} has no function {name}{_others(file)}")
    function: Callable[..., Any] = found
    return function


def _module_name(file: str) -> str:
    return f"shmemu_check_{os.path.splitext(os.path.basename(file))[0]}"


def _imported(file: str) -> ModuleType:
    path, name = os.path.abspath(file), _module_name(file)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ArgumentError(f"{file} is no Python file: its name does not end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look there
    if os.path.dirname(path) not in sys.path:
        sys.path.insert(0, os.path.dirname(path))
    settings = replace(config.read(warn=False), fabric="sim")
    before = runtime.switch(runtime.Process(settings=settings))  # a file that begins to communicate is told not to
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ArgumentError(f"{_place(file, path, error)}: {type(error).__name__}: {_text(error)}") from None
    finally:
        runtime.switch(before)
    return module


def _place(file: str, path: str, error: BaseException) -> str:
    """The line of the file at which it went wrong."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{file if error.filename == path else error.filename}:{error.lineno}"
    lines = [each.lineno for each in traceback.extract_tb(error.__traceback__) if each.filename == path]
    return f"{file}:{lines[-1]}" if lines else file


def _text(error: BaseException) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)


def _others(file: str) -> str:
    """The functions that it has."""
    module = sys.modules[_module_name(file)]
    own = [name for name, each in vars(module).items() if getattr(each, "__module__", None) == module.__name__]
    names = [name for name in own if callable(vars(module)[name])]
    if not names:
        return ": there is none in it"
    return f": it has {', '.join(names[:NAMES_MAX])}{' and others' if len(names) > NAMES_MAX else ''}"
