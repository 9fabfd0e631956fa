"""Faults put into a running `shmem`, each of which the soak has to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import shmem
from shmem.heap import SymmetricHeap

EVERY = 40  # one call in so many goes wrong


def _sometimes(name: str, wrong: Callable[..., Any]) -> None:
    """From now on one call of `shmem.<name>` in EVERY is done by `wrong`, which gets the right function first."""
    right, calls = getattr(shmem, name), 0

    def call(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        return right(*args) if calls % EVERY else wrong(right, *args)

    setattr(shmem, name, call)


def dropped_put() -> None:
    """A put that does not happen."""
    _sometimes("put", lambda right, target, source, pe: None)


def stale_get() -> None:
    """A get that brings what the own array holds instead of the other PE's."""
    _sometimes("get", lambda right, target, source, pe: np.copyto(target, source))


def lost_add() -> None:
    """An atomic addition of nothing."""
    _sometimes("atomic_add", lambda right, target, value, pe: right(target, 0, pe))


def wrong_root() -> None:
    """A broadcast from the next PE: the same ones on all PEs, or the calls would differ."""
    right = shmem.broadcast

    def call(target: Any, source: Any, root: int, size: int, team: Any) -> None:
        right(target, source, (root + 1) % team.n_pes() if size % 10 == 9 else root, size, team)

    shmem.broadcast = call


def overlapping_allocation() -> None:
    """A block that begins 64 bytes into the one allocated before."""
    right, last, calls = SymmetricHeap.take, 0, 0

    def take(self: SymmetricHeap, nbytes: int, *rest: Any) -> Any:
        nonlocal last, calls
        calls += 1
        placed = right(self, nbytes, *rest)
        if placed is None or nbytes < 256:
            return placed
        wrong, last = last, placed[0]
        return (wrong + 64, placed[1]) if calls % 10 == 0 and wrong else placed

    SymmetricHeap.take = take  # type: ignore[method-assign]


PLANTS = {plant.__name__: plant for plant in (dropped_put, stale_get, lost_add, wrong_root, overlapping_allocation)}
