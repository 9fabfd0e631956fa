"""The slow oracle: every step of a PE and every delivery is a choice, all are tried.

It knows nothing of which steps commute; with `digest` it goes on from each state once. Every faster search is judged
by whether it finds the same outcomes.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

from ..delivery.facts import Move
from .bounds import Bounds, Ended
from .found import Found
from .system import System, Trail


def search(
    start: Callable[[], System], *, digest: Callable[[System], object] | None = None, bounds: Bounds | None = None,
    ended: Ended = lambda system, moves: False,
) -> Found:  # fmt: skip
    """All executions from a start on, depth first. digest: all that can still matter of a state, as a hashable value;
    None: nothing is remembered."""
    found, bounds = Found(), bounds or Bounds()
    seen: set[bytes] = set()
    trail = Trail(start)
    todo: list[list[Move]] = []  # what is left to try after each of the moves made

    def enter() -> bool:
        """Whether the search is to end here."""
        found.states += 1
        todo.append(list(trail.here.moves()))
        if len(todo) > bounds.moves and todo[-1]:
            todo[-1], found.cut = [], found.cut + 1
        if todo[-1]:
            return bounds.met(found)
        found.end(trail.here.outcome())
        return ended(trail.here, trail.moves) or bounds.met(found)

    stop = enter()
    while todo and not stop:
        if not todo[-1]:
            todo.pop()
            continue
        trail.back(len(todo) - 1)
        trail.forward(todo[-1].pop(0))
        if digest is not None:
            state = blake2b(repr(digest(trail.here)).encode(), digest_size=16).digest()
            if state in seen:
                continue
            seen.add(state)
        stop = enter()
    found.complete = not any(todo) and not found.cut
    trail.close()
    return found
