"""Which public functions of `shmem` ran on a PE: each is wrapped there, and notes its name when it returns.

Only calls from outside our packages count, and only those that returned: a test that sees a call refused has not run
it. The wrappers change nothing else: name, signature and docstring are the function's, and their code pretends to lie
in `shmem`, so that whoever looks for the line that called (`shmem.memory.caller`) passes over them.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

PACKAGES = ("shmem", "protocols", "moe_ep")
_WRAPPER = """
def wrapper(function, name, ran, ours, frame):
    def recorded(*args, **kwargs):
        __tracebackhide__ = True
        result = function(*args, **kwargs)
        if name not in ran and not frame(1).f_code.co_filename.startswith(ours):
            ran.add(name)
        return result
    return recorded
"""


def public(module: Any) -> Iterator[tuple[str, Any, str]]:
    """(name, owner, attribute) of each public function of the module and of its public classes.

    The name is `put` or `Ctx.create`; exceptions and enumerations have no functions of their own that need a run.
    """
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isroutine(value):
            yield name, module, name
        elif isinstance(value, type) and not issubclass(value, (BaseException, Enum)):
            for attribute, member in vars(value).items():
                inner = getattr(member, "__func__", member)
                called = inspect.isfunction(inner) or inspect.isbuiltin(inner)  # a cached property has no call
                if not attribute.startswith("_") and called:
                    yield f"{name}.{attribute}", value, attribute


class Calls:
    """The names of the functions that ran in this process."""

    def __init__(self) -> None:
        self._ran: set[str] = set()
        self._installed = False

    def install(self) -> None:
        """Wraps the public functions of `shmem` if that is imported, once."""
        shmem = sys.modules.get("shmem")
        if self._installed or not hasattr(shmem, "__all__"):  # not yet, or half imported
            return
        self._installed = True
        root = Path(str(shmem.__file__)).parent.parent
        ours = tuple(f"{root / package}/" for package in PACKAGES)
        scope: dict[str, Any] = {}
        exec(compile(_WRAPPER, f"{root / 'shmem' / 'recorded'}", "exec"), scope)
        for name, owner, attribute in list(public(shmem)):
            wrap = functools.partial(self._wrapped, scope["wrapper"], ours, name)
            member = vars(owner)[attribute]
            if isinstance(member, (staticmethod, classmethod)):
                setattr(owner, attribute, type(member)(wrap(member.__func__)))
            else:
                setattr(owner, attribute, wrap(member))

    def _wrapped(
        self, wrapper: Callable[..., Any], ours: tuple[str, ...], name: str, function: Callable[..., Any]
    ) -> Callable[..., Any]:
        return functools.wraps(function)(wrapper(function, name, self._ran, ours, sys._getframe))

    def fresh(self) -> list[str]:
        """The names of those that ran since this was last asked."""
        names = sorted(self._ran)
        self._ran.clear()
        return names
