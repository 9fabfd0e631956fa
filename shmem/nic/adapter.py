"""The adapter of a PE, on fabrics that have one."""

from __future__ import annotations

from ..errors import StateError
from ..runtime import PE, started
from .engine import Engine


def engine_of(pe: PE) -> Engine:
    """The engine of a PE's queue pairs. Raises StateError on a fabric that has none."""
    engine = pe.fabric.nic()
    if engine is None:
        raise StateError("this fabric has no queue pairs: run the program with --fabric sim or nic", pe=pe.me)
    return engine


def check_life(pe: PE) -> None:
    """Raises StateError for what was made before a finalize, or in a job that has ended."""
    if started() is not pe:
        raise StateError("this was made before finalize, or in a job that has ended: make it again", pe=pe.me)
