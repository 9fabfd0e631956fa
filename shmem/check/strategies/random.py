"""Executions in which every move is drawn from those possible, all alike."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from ..bounds import Bounds, Ended
from ..found import Found
from ..system import System
from .walk import walk


def search(start: Callable[[], System], bounds: Bounds, seed: int, ended: Ended) -> Found:
    """One execution after the other, each with a stream of its own."""

    def choices(i: int) -> Callable[[list[Any]], int]:
        rng = random.Random(f"{seed}.{i}")
        return lambda moves: rng.randrange(len(moves))

    return walk(start, bounds, ended, choices)
