"""Probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte 2010), over PEs and deliveries.

Every party (`parties`: a task, or a chain of deliveries, the form for partial orders of Ozkan and others 2018) has a
priority, drawn when it is first seen. The highest that can go on does; but at d - 1 choices, drawn as well, the party
about to go on falls to the bottom first, the k-th of them to the k-th place from there on down. A change counts as a
choice, so that two may come before the same move.

Say that it is enough for a failure to hold back one party from the start, and d - 1 others from some move of theirs on,
the later below the earlier. With n parties at most, the first has the lowest priority with at least 1/n; given all
priorities, each of the other moves is about to be made at one choice, which is drawn for it with 1/k if there are k
choices at most. So an execution has the failure with at least 1 / (n k^(d-1)); if fewer changes are enough as well,
since the others may lie behind the end. How many choices there are is learnt from the executions before.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ..bounds import Bounds, Ended
from ..executions import Choose
from ..found import Chance, Found
from ..system import System
from .parties import Parties
from .walk import walk

DEPTH = 3


def search(start: Callable[[], System], bounds: Bounds, seed: int, ended: Ended, depth: int = DEPTH) -> Found:
    """Executions by random priorities. `Found.chance` says what they promise for failures of up to that depth."""
    made: list[_Priorities] = []
    systems: list[System] = []
    parties, choices, drawn = 0, depth, 0  # the most so far, and how many executions drew from so many choices

    def learn() -> None:
        nonlocal parties, choices, drawn
        last = made.pop()
        parties, drawn = max(parties, last.parties), drawn + 1
        if last.moves + depth - 1 > choices:
            choices, drawn = last.moves + depth - 1, 0

    def started() -> System:
        systems[:] = [start()]
        return systems[0]

    def chosen(i: int) -> Choose:
        if made:
            learn()
        rng = random.Random(f"{seed}.{i}")
        made.append(_Priorities(rng, {rng.randrange(choices): k for k in range(1, depth)}))
        return lambda moves: made[0].choose(systems[0], moves)

    found = walk(started, bounds, ended, chosen)
    learn()
    found.chance = Chance(depth, parties, choices, drawn)
    return found


class _Priorities:
    """The priorities of one execution. changes: at which choice which change is made."""

    def __init__(self, rng: random.Random, changes: dict[int, int]) -> None:
        self._rng, self._changes = rng, changes
        self._parties: Parties | None = None
        self._of: dict[Hashable, float] = {}
        self._at = 0  # choices and changes so far
        self.moves = 0  # that were made where several were possible

    @property
    def parties(self) -> int:
        """How many have been seen."""
        return len(self._of)

    def choose(self, system: System, moves: Sequence[Any]) -> int:
        """The place of the move of the highest priority."""
        self._parties = self._parties or Parties(system.machine)
        those = [self._parties.of(move) for move in moves]
        for party in those:
            if party not in self._of:
                self._of[party] = self._rng.random()
        if len(moves) == 1:
            return 0
        best = self._best(those)
        while (change := self._changes.get(self._at)) is not None:
            self._of[those[best]] = -change
            self._at += 1
            best = self._best(those)
        self._at += 1
        self.moves += 1
        return best

    def _best(self, those: list[Hashable]) -> int:
        return max(range(len(those)), key=lambda k: self._of[those[k]])
