"""The slow oracle: every step of a PE and every delivery is a choice, all are tried.

It knows nothing of which steps commute; with `digest` it goes on from each state once. Every faster search is judged
by whether it finds the same outcomes.
"""

from __future__ import annotations

from collections.abc import Callable

from ..delivery.facts import Move
from .found import Found
from .system import System, Trail


def search(
    start: Callable[[], System], *, digest: Callable[[System], object] | None = None, states_max: int = 2_000_000
) -> Found:
    """All executions from a start on, depth first. digest: all that can still matter of a state, as a hashable value;
    None: nothing is remembered."""
    found = Found()
    seen: set[object] = set()
    trail = Trail(start)
    todo: list[list[Move]] = []  # what is left to try after each of the moves made

    def enter() -> None:
        found.states += 1
        todo.append(trail.here().moves())
        if not todo[-1]:
            found.end(trail.here().outcome())

    enter()
    while todo:
        if not todo[-1]:
            todo.pop()
            continue
        if found.states > states_max:
            found.complete = False
            break
        trail.back(len(todo) - 1)
        trail.forward(todo[-1].pop(0))
        if digest is not None:
            state = digest(trail.here())
            if state in seen:
                continue
            seen.add(state)
        enter()
    trail.close()
    return found
