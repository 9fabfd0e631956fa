"""Every PE has its own copy of the program's modules, as every process of a job has.

The PEs of a job on `sim` live in one process, yet a global that one of them sets is no affair of the others. `Copies`
imports the program's modules once per PE, under their own names, while those of the caller are out of `sys.modules`, so
that import hooks work as ever. Import must be repeatable, and calls of `shmem` at import run outside of the job.
"""

from __future__ import annotations

import functools
import importlib
import io
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from ..errors import StateError
from .ownership import Names, file_of, is_users, namespace, reachable
from .rebinding import Own, copied_globals
from .residents import Residents
from .snapshots import Snapshot

if TYPE_CHECKING:
    from .instrument.loaders import Instrumented

MAIN = "__mp_main__"  # what a copy of __main__ is called, as by multiprocessing: what is guarded does not run


class Copies:
    """The modules of a program, once for each of n PEs. Raises what importing them raises.

    A module is copied if it is the user's (`ownership`) and the program's modules import it or refer to it. A program
    in `__main__` is run again from its file under the name `__mp_main__`. One that no file can make again (a notebook,
    `python -c`, `exec`) works on a copy of its globals, in which its functions are bound to that copy and data are
    copied; its classes are shared. `rebinding` says what becomes of nested functions, partials, methods and objects.
    Programs of libraries have no copies. The PEs' classes are not the caller's: an instance of the one is none of the
    other. No other thread may import anything between `enter` and `leave`. Going from PE to PE is cheap; leave only
    where the caller's code is to run. Raises StateError where importing the program makes copies of it again.
    instrument: the module that defines the function tells of accesses to private arrays.
    """

    _importing = False  # one of them

    def __init__(self, function: Callable[..., Any], n: int, instrument: bool = False) -> None:
        self._function = function
        self._instrumented = _instrumented() if instrument else None
        self._names = names = namespace(function)
        name, file = names.get("__name__", ""), file_of(names)
        self._main = _code(file) if file is not None and name == "__main__" else None
        inner = _innermost(function)
        self._no_file = inner if file is None and inner is not None and inner.__globals__ is names else None
        by_import = file is not None and (self._main is not None or is_users(name, names))
        self._active = by_import or self._no_file is not None
        self._residents = Residents(n, self._main is not None)
        self._after_import: list[dict[str, Any]] = []
        self._functions: list[Callable[..., Any]] = []
        self._snapshots: list[Snapshot] = []
        if self._active:
            self._make({key: vars(module) for key, module in self._residents.users().items()})

    def function(self, pe: int) -> Callable[..., Any]:
        """A PE's version of the function."""
        return self._functions[pe] if self._active else self._function

    def enter(self, pe: int | None) -> int | None:
        """Makes `sys.modules` give a PE's copies, or the caller's modules for None; returns whose it gave before."""
        return self._residents.enter(pe) if self._active else None

    def leave(self) -> None:
        """Makes `sys.modules` give the caller's modules."""
        self.enter(None)

    def reset(self) -> None:
        """Puts the globals of all copies back to what they were after import, and leaves.

        What a PE has imported since is forgotten, and will be imported again.
        """
        self.leave()
        for pe, snapshot in enumerate(self._snapshots):
            self._residents.of[pe] = dict(self._after_import[pe])
            if snapshot.pickles:
                self.enter(pe)
            snapshot.restore()
        self.leave()

    def _make(self, originals: dict[str, Names]) -> None:
        """Imports everything, PE by PE. originals: the namespaces of the user's modules, by name."""
        if Copies._importing:
            raise StateError("the program checks itself when imported: do that under `if __name__ == '__main__':`")
        wanted = reachable(self._names, originals)
        if self._no_file is None:
            wanted.add(self._names["__name__"])
        order = [name for name in reversed(originals) if name in wanted]  # who imports others is done after them
        shared = {id(value) for names in [self._names, *originals.values()] for value in list(names.values())}
        finder = _Known(originals, self._names.get("__name__"), self._instrumented)
        sys.meta_path.insert(0, finder)
        Copies._importing = True
        try:
            for pe in range(len(self._residents.of)):
                self._residents.enter(pe)
                self._import(order)
                self._residents.note()
                self._take(self._residents.of[pe], originals, shared)
        finally:
            Copies._importing = False
            sys.meta_path.remove(finder)
            self._residents.enter(None)

    def _import(self, order: Sequence[str]) -> None:
        if self._main is not None:
            module = ModuleType(MAIN)
            vars(module).update({key: self._names.get(key) for key in ("__file__", "__package__", "__spec__")})
            sys.modules["__main__"] = sys.modules[MAIN] = module
            exec(self._main, vars(module))
        for name in order:
            importlib.import_module(name)

    def _take(self, modules: Mapping[str, ModuleType], originals: Mapping[str, Names], shared: Collection[int]) -> None:
        """Makes of a PE's modules its version of the function, and notes what they hold."""
        own = Own(originals, modules, self._instrumented.of if self._instrumented else None)
        spaces = list(map(vars, modules.values()))
        owned = {*modules, *(space["__name__"] for space in spaces)}
        if self._no_file is not None:
            spaces.append(copied_globals(self._no_file, own))
            owned.add(self._names.get("__name__", ""))
        self._functions.append(own.program(self._function))
        self._after_import.append(dict(modules))
        self._snapshots.append(Snapshot(spaces, owned, shared))


class _Known:
    """Finds the caller's modules where they were found before, on the path or not. main: the one to be instrumented."""

    def __init__(self, modules: Mapping[str, Names], main: str | None, instrumented: Instrumented | None) -> None:
        self._modules, self._main, self._instrumented = modules, main, instrumented

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """What the import system asks."""
        spec = self._spec(name)
        return self._instrumented.spec(spec) if spec and self._instrumented and name == self._main else spec

    def _spec(self, name: str) -> ModuleSpec | None:
        names = self._modules.get(name, {})
        spec = names.get("__spec__")
        if spec is None and "__file__" in names:
            return spec_from_file_location(name, names["__file__"])
        return copy(spec) if spec is not None and spec.name == name else None


def _instrumented() -> Instrumented:
    from .instrument.loaders import Instrumented

    return Instrumented()


def _innermost(function: Callable[..., Any]) -> FunctionType | None:
    while isinstance(function, functools.partial):
        function = function.func
    return function if isinstance(function, FunctionType) else None


def _code(file: str) -> CodeType:
    with io.open_code(file) as source:
        return compile(source.read(), file, "exec", dont_inherit=True)
