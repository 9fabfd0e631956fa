"""The symmetric heap as the tests' plugin sees it: what a test left, and freeing what it forgot."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


class Leftovers:
    """Compares the heap after a test with the heap before it; without `shmem` imported there is none."""

    def __init__(self) -> None:
        self._before: list[Any] = []

    def mark(self) -> None:
        """Remembers what is allocated now."""
        self._before = _allocations()

    def _new(self) -> list[Any]:
        return [one for one in _allocations() if one not in self._before]

    def found(self) -> list[str]:
        """What is allocated now and was not at the mark: the call and the line that made it."""
        return [f"{one.text} at {one.where}" for one in self._new()]

    def free(self) -> None:
        """Collective: frees it."""
        import shmem

        heap = shmem.runtime.current().heap
        for one in self._new():
            shmem.free(heap.array(one.offset, (one.nbytes,), np.dtype(np.uint8)))


def _allocations() -> list[Any]:
    runtime = sys.modules.get("shmem.runtime")
    pe = runtime.started() if runtime is not None else None
    return pe.heap.allocations() if pe is not None else []
