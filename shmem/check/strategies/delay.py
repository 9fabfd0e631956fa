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
from .walk import one, several

DELAYS_MAX = 3
Choices = dict[int, int]  # those that are not 0, by which of the choices they are


def search(
    start: Callable[[], System], bounds: Bounds, seed: int, ended: Ended, delays_max: int = DELAYS_MAX
) -> Found:  # fmt: skip
    """All executions with up to so many delays. `complete` only if there are no others."""
    found = Found(complete=False)
    level: list[tuple[Choices, int]] = [({}, 0)]  # and how many delays they are
    for delays in range(delays_max + 1):
        waiting = []
        for choices, spent in level:
            if spent != delays:
                waiting.append((choices, spent))
                continue
            widths: list[int] = []
            stop = _execution(start, bounds, found, ended, choices, widths)
            for i in range(max(choices, default=-1) + 1, len(widths)):
                most = min(widths[i] - 1, delays_max - spent)
                waiting += [({**choices, i: k}, spent + k) for k in range(1, most + 1)]
            if stop:
                return found
        level, found.delays = waiting, delays
    return found


def _execution(
    start: Callable[[], System], bounds: Bounds, found: Found, ended: Ended, choices: Choices, widths: list[int]
) -> bool:
    """Runs one, and notes how many moves were possible wherever there was a choice; whether the search is to end."""

    def choose(moves: Sequence[Any]) -> int:
        widths.append(len(moves))
        return choices.get(len(widths) - 1, 0)

    return one(start, bounds, found, ended, several(choose))
