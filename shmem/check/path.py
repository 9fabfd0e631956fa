"""What a search asks of the steps on its path: who touched these bytes, who made this possible, when did a task move.

Steps are numbered from the start; a step is added at the end and taken off there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ..delivery.facts import Move, Touch
from ..delivery.requests import Space

GRANULE = 3  # bits: bytes are looked up by pieces of 8, the word of most protocols
WIDE = 64  # a touch of more pieces is looked at by everybody


class Steps:
    """An index of the steps on a path."""

    def __init__(self) -> None:
        self._near: defaultdict[tuple[Space, int | None], list[int]] = defaultdict(list)  # by piece; None: wide ones
        self._given: defaultdict[object, list[int]] = defaultdict(list)  # by what they gave, and by move
        self._entries: list[list[list[int]]] = []  # of each step: the lists that it is in

    def add(self, move: Move, touches: Iterable[Touch], gives: Iterable[object]) -> None:
        """One more step."""
        at = len(self._entries)
        entries = [self._given[thing] for thing in {move, *gives}]
        for touch in touches:
            space = touch.place.space
            entries += [self._near[space, piece] for piece in _pieces(touch) or (None,)]
        for entry in entries:
            entry.append(at)
        self._entries.append(entries)

    def remove(self) -> None:
        """Takes off the last step."""
        for entry in self._entries.pop():
            entry.pop()

    def near(self, touches: Iterable[Touch]) -> list[int]:
        """The steps that may touch the same bytes, the last first."""
        found: list[list[int]] = []
        for touch in touches:
            space, pieces = touch.place.space, _pieces(touch)
            if pieces is None:
                found += [steps for (where, _), steps in self._near.items() if where == space]
            else:
                found += [steps for piece in (None, *pieces) if (steps := self._near.get((space, piece)))]
        return found[0][::-1] if len(found) == 1 else sorted(set().union(*found), reverse=True)

    def before(self, move: Move, needs: Iterable[object]) -> list[int]:
        """The last step of the move's task, and those that gave what it needs."""
        given = self._given
        return [steps[-1] for thing in (move, *needs) if (steps := given.get(thing))]


def _pieces(touch: Touch) -> range | None:
    """The pieces that a touch lies in; None for a wide one."""
    _, lo, hi = touch.place
    first, last = lo >> GRANULE, (hi - 1 if hi > lo else lo) >> GRANULE
    return range(first, last + 1) if last - first < WIDE else None
