"""Executions in which every move is drawn from those possible, all alike."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from ..bounds import Bounds, Ended
from ..executions import Choose, Possible
from ..found import Found
from ..system import System
from .walk import several, walk


def drawn(seed: int, i: int) -> Choose:
    """What chooses in the i-th execution, which has a stream of its own."""
    rng = random.Random(f"{seed}.{i}")
    return several(lambda moves: rng.randrange(len(moves)))


def search(start: Callable[[], System], bounds: Bounds, seed: int, ended: Ended) -> Found:
    """One execution after the other."""
    return walk(start, bounds, ended, partial(drawn, seed), order=Possible)
