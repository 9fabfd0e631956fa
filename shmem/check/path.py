"""What a search asks of the steps on its path: who touched these bytes, who made this possible, when did a task move.

Steps are numbered from the start; a step is added at the end and taken off there.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from ..delivery.facts import Move, Touch
from ..delivery.requests import Event

GRANULE = 6  # bits: bytes are looked up by pieces of 64
WIDE = 16  # a touch of more pieces is looked at by everybody


class Steps:
    """An index of the steps on a path."""

    def __init__(self) -> None:
        self._near: dict[Hashable, list[int]] = {}  # by piece of a space, and by space for the wide ones
        self._all: dict[Hashable, list[int]] = {}  # by space
        self._given: dict[object, list[int]] = {}
        self._moved: dict[Move, list[int]] = {}

    def add(self, at: int, move: Move, touches: Iterable[Touch], gives: Iterable[object]) -> None:
        """Step number `at`, behind all others."""
        for table, key in self._entries(move, touches, gives):
            table.setdefault(key, []).append(at)

    def remove(self, move: Move, touches: Iterable[Touch], gives: Iterable[object]) -> None:
        """Takes off the last step."""
        for table, key in self._entries(move, touches, gives):
            table[key].pop()

    def _entries(
        self, move: Move, touches: Iterable[Touch], gives: Iterable[object]
    ) -> Iterator[tuple[dict[object, list[int]], Hashable]]:
        for touch in touches:
            yield self._all, touch.place.space
            pieces = _pieces(touch)
            for piece in pieces or [None]:
                yield self._near, (touch.place.space, piece)
        for given in gives:
            yield self._given, given
        if not isinstance(move, Event):
            yield self._moved, move

    def near(self, touches: Iterable[Touch]) -> list[int]:
        """The steps that may touch the same bytes, the last first."""
        found: set[int] = set()
        for touch in touches:
            space, pieces = touch.place.space, _pieces(touch)
            if pieces is None:
                found.update(self._all.get(space, ()))
                continue
            found.update(self._near.get((space, None), ()))
            for piece in pieces:
                found.update(self._near.get((space, piece), ()))
        return sorted(found, reverse=True)

    def before(self, move: Move, needs: Iterable[object]) -> Iterator[int]:
        """The last step of the move's task, and those that gave what it needs."""
        if not isinstance(move, Event) and (steps := self._moved.get(move)):
            yield steps[-1]
        for need in needs:
            if steps := self._given.get(need):
                yield steps[-1]


def _pieces(touch: Touch) -> range | None:
    """The pieces that a touch lies in; None for a wide one."""
    first, last = touch.place.lo >> GRANULE, max(touch.place.hi - 1, touch.place.lo) >> GRANULE
    return range(first, last + 1) if last - first < WIDE else None
