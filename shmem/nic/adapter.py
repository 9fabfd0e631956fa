"""The adapter of a PE, on fabrics that have one."""

from __future__ import annotations

from ..errors import StateError
from ..runtime import PE
from .engine import Engine


def engine_of(pe: PE) -> Engine:
    """The engine of a PE's queue pairs. Raises StateError on a fabric that has none."""
    engine = pe.fabric.nic()
    if engine is None:
        raise StateError("this fabric has no queue pairs: run the program with --fabric sim", pe=pe.me)
    return engine
