"""Whose modules of the program `sys.modules` holds: the caller's, or those of one PE.

While a PE is there all modules of the user are its own. It finds none of the caller's, imports for itself what it has
not got, and takes that along when it goes.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .ownership import is_users


def _mark() -> tuple[object, ...]:
    """Differs once something has been imported."""
    last = next(reversed(sys.modules))
    return len(sys.modules), last, sys.modules[last]


class Residents:
    """The modules of n PEs. `with_main`: `__main__` is the program's as well."""

    def __init__(self, n: int, with_main: bool) -> None:
        self.of: list[dict[str, Any]] = [{} for _ in range(n)]  # as in sys.modules, by PE
        self._with_main = with_main
        self._libraries: set[str] = set()  # names of modules that are not the user's
        self._callers: list[str] = []  # names of the caller's modules, at the mark
        self._mark: object = None
        self._hidden: dict[str, Any] = {}  # the caller's modules, while a PE is there
        self._pe: int | None = None

    def enter(self, pe: int | None) -> int | None:
        """Puts a PE's modules there, or the caller's for None; returns who was there."""
        before = self._pe
        if pe == before:
            return before
        if before is None:
            self._hide()
        else:
            self.note()
        mine = self._hidden if pe is None else self.of[pe]
        theirs = self._hidden if before is None else self.of[before]
        for name in theirs if pe is None else theirs.keys() - mine.keys():  # all: the caller's keep their order
            sys.modules.pop(name, None)
        sys.modules.update(mine)
        self._pe, self._mark = pe, _mark()
        return before

    def note(self) -> None:
        """Notes what the PE that is there has imported."""
        if self._pe is not None and _mark() != self._mark:
            self.of[self._pe], self._mark = self.users(), _mark()

    def _hide(self) -> None:
        if _mark() != self._mark:
            self._callers = list(self.users())
        self._hidden = {name: sys.modules[name] for name in self._callers if name in sys.modules}

    def users(self) -> dict[str, Any]:
        """The user's modules among those that are there, in their order."""
        found = {}
        for name in [name for name in sys.modules if name not in self._libraries]:
            module = sys.modules[name]
            main = name == "__main__" and self._with_main
            if main or (isinstance(module, ModuleType) and is_users(name, vars(module))):
                found[name] = module
            else:
                self._libraries.add(name)
        return found
