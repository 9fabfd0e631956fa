"""Ways to choose among the moves: each is a small search over executions, which are lists of choices.

`exhaustive` tries every order that can be told apart, `eager` every order; `random`, `pct` and `delay` sample.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..bounds import Bounds, Ended
from ..found import Found
from ..system import System
from . import delay, pct, random, whole

__all__ = ["STRATEGIES", "Strategy"]


class Strategy(Protocol):
    """A search from a start, within bounds; `ended` sees every execution and may end it all."""

    def __call__(self, start: Callable[[], System], bounds: Bounds, seed: int, ended: Ended) -> Found: ...


STRATEGIES: dict[str, Strategy] = {
    "exhaustive": whole.exhaustive,
    "eager": whole.eager,
    "random": random.search,
    "pct": pct.search,
    "delay": delay.search,
}
