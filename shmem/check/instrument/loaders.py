"""Importing a module with its source instrumented, in place of the loader that it was found with.

Python's own loader of source files is replaced, and pytest's, whose rewriting of assertions is done first: what it puts
in is instrumented like the rest. A module of any other loader, which may change its code in its way, stays as it is.
Nothing is cached in files. The module ends up with the loader that it had.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

from .hooks import install
from .transform import instrumented

_PYTEST = "_pytest.assertion.rewrite"
Rewrite = Callable[[ast.Module, bytes, str], None]


def compiled(source: bytes | str, path: str, rewrite: Rewrite | None = None) -> CodeType:
    """The instrumented code of a module; rewrite: what is done to its tree before. Raises SyntaxError.

    Warnings of the compiler are left to those who import the module as it is.
    """
    install()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source, path)
        if rewrite is not None:
            rewrite(tree, source if isinstance(source, bytes) else source.encode(), path)
        return compile(instrumented(tree), path, "exec", dont_inherit=True)


def _rewrite_of(loader: Any) -> Rewrite | None:
    """What pytest does to the tree of a module that it loads; None if it is not pytest's loader."""
    pytests = sys.modules.get(_PYTEST)
    if pytests is None or type(loader).__module__ != _PYTEST:
        return None
    return lambda tree, source, path: pytests.rewrite_asserts(tree, source, path, loader.config)


class Instrumented:
    """The code of one program's file, made once for all PEs."""

    def __init__(self) -> None:
        self._code: CodeType | None = None
        self._functions: dict[tuple[Any, ...], list[CodeType]] = defaultdict(list)

    def spec(self, spec: ModuleSpec) -> ModuleSpec:
        """The spec of a module, made to instrument it where that can be done; changed in place."""
        if type(spec.loader) is SourceFileLoader or _rewrite_of(spec.loader) is not None:
            spec.loader = _Loader(self, spec.loader)
        return spec

    def code(self, loader: Any, path: str) -> CodeType:
        """The code of the module."""
        if self._code is None:
            self._code = compiled(loader.get_data(path), path, _rewrite_of(loader))
            for each in _within(self._code):
                self._functions[_place(each)].append(each)
        return self._code

    def of(self, code: CodeType) -> CodeType:
        """The instrumented code of a function of the file, where that is known; else the same."""
        found = self._functions.get(_place(code), [])
        return found[0] if len(found) == 1 else code


def _within(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _within(constant)


def _place(code: CodeType) -> tuple[Any, ...]:
    return code.co_filename, code.co_firstlineno, code.co_name, code.co_freevars


class _Loader(Loader):
    """Loads one module."""

    def __init__(self, code: Instrumented, loader: Any) -> None:
        self._code, self._loader = code, loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As Python asks."""
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Runs the module."""
        spec = module.__spec__
        assert spec is not None
        assert spec.origin is not None
        spec.loader = module.__loader__ = self._loader
        exec(self._code.code(self._loader, spec.origin), vars(module))
