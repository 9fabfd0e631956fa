"""One execution after the other, each from the start: what sampling strategies have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..bounds import Bounds, Ended
from ..executions import Usual
from ..found import Found
from ..system import System

Choose = Callable[[list[Any]], int]  # the place of the next move among those possible, which are several


def one(start: Callable[[], System], bounds: Bounds, found: Found, ended: Ended, choose: Choose) -> tuple[int, bool]:
    """Runs one execution. Returns how many moves it had, and whether the search is to end."""
    system, usual, made = start(), Usual(), list[Any]()
    while (moves := usual.moves(system)) and len(made) < bounds.moves:
        choice = choose(moves) if len(moves) > 1 else 0
        usual.made(moves, choice)
        made.append(moves[choice])
        system.perform(made[-1])
        found.states += 1
    found.cut += bool(moves)
    found.end(system.outcome())
    stop = ended(system, made)
    system.close()
    return len(made), stop or bounds.met(found)


def walk(
    start: Callable[[], System], bounds: Bounds, ended: Ended, choices: Callable[[int], Choose],
    after: Callable[[int], None] = lambda moves: None,
) -> Found:  # fmt: skip
    """Runs executions until a bound is met. choices(i): what chooses in the i-th. after: sees its length.

    Never complete: that nothing was found says only how often it was looked.
    """
    found = Found(complete=False)
    stop = False
    while not stop:
        length, stop = one(start, bounds, found, ended, choices(found.executions))
        after(length)
    return found
