"""Delay-bounded search (Emmi, Qadeer, Rakamaric 2011): the usual order, but for at most d moves that are passed over.

Executions with one delay come first, then those with two, and so on: what few deviations can cause is found early, and
is easy to read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..bounds import Bounds, Ended
from ..found import Found
from ..system import System
from .walk import one

DELAYS_MAX = 3


def search(
    start: Callable[[], System], bounds: Bounds, seed: int, ended: Ended, delays_max: int = DELAYS_MAX
) -> Found:  # fmt: skip
    """All executions with up to so many delays. `complete` only if there are no others."""
    found = Found(complete=False)
    level: list[tuple[list[int], int]] = [([], 0)]  # choices up to the last delay, and how many delays they are
    for delays in range(delays_max + 1):
        waiting = []
        for choices, spent in level:
            if spent != delays:
                waiting.append((choices, spent))
                continue
            widths: list[int] = []
            stop = _execution(start, bounds, found, ended, choices, widths)
            for i in range(len(choices), len(widths)):
                ahead = choices + [0] * (i - len(choices))
                waiting += [([*ahead, k], spent + k) for k in range(1, widths[i]) if spent + k <= delays_max]
            if stop:
                return found
        level = waiting
    return found


def _execution(
    start: Callable[[], System], bounds: Bounds, found: Found, ended: Ended, choices: list[int], widths: list[int]
) -> bool:
    """Runs one, and notes how many moves were possible wherever there was a choice; whether the search is to end."""

    def choose(moves: Sequence[Any]) -> int:
        widths.append(len(moves))
        return choices[len(widths) - 1] if len(widths) <= len(choices) else 0

    return one(start, bounds, found, ended, choose)[1]
