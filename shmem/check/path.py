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

Piece = tuple[Space, int | None]  # of memory; None: a wide touch


class Steps:
    """An index of the steps on a path."""

    def __init__(self) -> None:
        self._near: defaultdict[Piece, list[int]] = defaultdict(list)
        self._given: defaultdict[object, list[int]] = defaultdict(list)  # by what they gave, and by move
        self._entries: list[list[list[int]]] = []  # of each step: the lists that it is in

    def add(self, move: Move, where: Iterable[Piece], gives: Iterable[object]) -> None:
        """One more step."""
        at = len(self._entries)
        entries = [self._given[thing] for thing in {move, *gives}] + [self._near[piece] for piece in where]
        for entry in entries:
            entry.append(at)
        self._entries.append(entries)

    def remove(self) -> None:
        """Takes off the last step."""
        for entry in self._entries.pop():
            entry.pop()

    def near(self, where: Iterable[Piece]) -> list[int]:
        """The steps that may touch the same bytes, the last first."""
        found: list[list[int]] = []
        for piece in where:
            wide = piece[0], None
            if piece == wide:
                found += [steps for (space, _), steps in self._near.items() if space == piece[0]]
            else:
                found += [steps for each in (piece, wide) if (steps := self._near.get(each))]
        return found[0][::-1] if len(found) == 1 else sorted(set().union(*found), reverse=True)

    def before(self, move: Move, needs: Iterable[object]) -> list[int]:
        """The last step of the move's task, and those that gave what it needs."""
        given = self._given
        return [steps[-1] for thing in (move, *needs) if (steps := given.get(thing))]


def pieces(touches: Iterable[Touch]) -> list[Piece]:
    """Where touches are looked up."""
    found: list[Piece] = []
    for touch in touches:
        space, lo, hi = touch.place
        first, last = lo >> GRANULE, (hi - 1 if hi > lo else lo) >> GRANULE
        if last - first < WIDE:
            found += [(space, piece) for piece in range(first, last + 1)]
        else:
            found.append((space, None))
    return found
