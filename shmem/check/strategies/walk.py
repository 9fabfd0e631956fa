"""One execution after the other, each from the start: what sampling strategies have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..bounds import Bounds, Ended
from ..executions import Choose, Possible, Usual, run
from ..found import Found
from ..system import System


def several(choose: Choose) -> Choose:
    """Asks only where there are several moves."""

    def chosen(moves: Sequence[Any]) -> int:
        return choose(moves) if len(moves) > 1 else 0

    return chosen


def one(
    start: Callable[[], System], bounds: Bounds, found: Found, ended: Ended, choose: Choose,
    order: Callable[[], Possible] = Usual,
) -> bool:  # fmt: skip
    """Runs one execution, whose moves stand in an order; whether the search is to end. One that the time is too short
    for does not count."""
    system = start()
    made, _, cut = run(system, choose, bounds.moves, stop=bounds.late, order=order())
    found.states += len(made)
    if bounds.late() and system.moves():
        system.close()
        return True
    found.cut += cut
    found.end(system.outcome())
    stop = ended(system, made)
    system.close()
    return stop or bounds.met(found)


def walk(
    start: Callable[[], System], bounds: Bounds, ended: Ended, choices: Callable[[int], Choose],
    order: Callable[[], Possible] = Usual,
) -> Found:  # fmt: skip
    """Runs executions until a bound is met. choices(i): what chooses in the i-th. order: in which moves stand to be
    chosen from.

    Never complete: that nothing was found says only how often it was looked.
    """
    found = Found(complete=False)
    stop = False
    while not stop:
        stop = one(start, bounds, found, ended, choices(found.executions), order)
    return found
