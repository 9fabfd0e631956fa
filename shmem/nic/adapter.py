"""The adapter of a PE, on fabrics that have one."""

from __future__ import annotations

from ..errors import StateError
from ..plain import whole_number
from ..runtime import PE, current, started
from .engine import Engine


def engine_of(pe: PE) -> Engine:
    """The engine of a PE's queue pairs. Raises StateError on a fabric that has none."""
    engine = pe.fabric.nic()
    if engine is None:
        raise StateError("this fabric has no queue pairs: run the program with --fabric sim or nic", pe=pe.me)
    return engine


def step(n: int = 1) -> int:
    """Moves what is in flight by up to n events, and returns how many there were: the whole adapter of a PE whose
    SHMEMU_PROGRESS is "manual".

    Raises ArgumentError, StateError on a fabric whose deliveries are not the program's to choose (`sim`) or without
    queue pairs.
    """
    pe = current()
    count = whole_number(n, "n", pe.me, least=0)
    return engine_of(pe).step(count)


def check_life(pe: PE) -> None:
    """Raises StateError for what was made before a finalize, or in a job that has ended."""
    if started() is not pe:
        raise StateError("this was made before finalize, or in a job that has ended: make it again", pe=pe.me)
