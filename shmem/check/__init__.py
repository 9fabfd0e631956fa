"""Checking programs: the explorer and its strategies, the litmus language, reports of failures.

    from shmem.check import explore
    report = explore(program, n_pes=2, profile="udma")

and what a program says of its messages: `accept`, `tagged`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .accepting import Tag as Tag
from .accepting import accept as accept
from .accepting import tagged as tagged

if TYPE_CHECKING:
    from .exploration import explore as explore
    from .exploration import replay as replay
    from .report import Failure as Failure
    from .report import Report as Report

_PUBLIC = {"explore": "exploration", "replay": "exploration", "Failure": "report", "Report": "report"}


def __getattr__(name: str) -> Any:
    """Loads what is asked for: pytest's plugin and `shmem.spin` need none of it."""
    from importlib import import_module

    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_PUBLIC[name]}", __name__), name)
