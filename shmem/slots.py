"""The slots of teams: which of the numbered barriers in every PE's header belong to which team.

A slot is one number for all members of a team; the same number may serve other teams of other PEs. State of one PE,
safe to use from several threads; that the members of a new team take the same slot is the affair of `splits.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

SLOTS = 64
WORLD, SHARED = 0, 1  # slots of the two teams that always exist
NOBODY = -1


@dataclass(frozen=True)
class Membership:
    """What a team handle stands for, at one PE. Teams of equal slot and members are told apart by `serial`."""

    slot: int
    pes: tuple[int, ...] = ()  # numbers of the job, in the order of the team; unused for WORLD and SHARED
    num_contexts: int = 0
    serial: int = 0  # different for each team of a process
    split_shared: bool = False  # made by splits of TEAM_SHARED

    @property
    def shared(self) -> bool:
        """Whether its atomics are of the domain of TEAM_SHARED; else of that of TEAM_WORLD."""
        return self.split_shared or self.slot == SHARED


class Slots:
    """The teams that this PE is a member of, by slot."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._used: dict[int, Membership | None] = {WORLD: None, SHARED: None}

    @property
    def free(self) -> int:
        """The free slots, one bit each."""
        with self._lock:
            return ((1 << SLOTS) - 1) & ~sum(1 << slot for slot in self._used)

    def take(self, teams: Sequence[Membership]) -> bool:
        """Gives each team its slot; false, and nothing is taken, if one is no longer free."""
        with self._lock:
            if any(team.slot in self._used for team in teams):
                return False
            self._used.update({team.slot: team for team in teams})
            return True

    def give_back(self, teams: Sequence[Membership]) -> None:
        """The slots of the teams are free again."""
        with self._lock:
            for team in teams:
                del self._used[team.slot]

    def teams(self) -> list[Membership]:
        """The live teams, in the order of their slots."""
        with self._lock:
            return [team or Membership(slot) for slot, team in sorted(self._used.items())]

    def live(self, team: Membership) -> bool:
        """Whether that team exists: it was made here and not destroyed."""
        return team.slot in (WORLD, SHARED) or (team.slot != NOBODY and self._used.get(team.slot) == team)


def choose(teams: Sequence[Sequence[int]], free: Mapping[int, int], turn: int = 0) -> list[int] | None:
    """A slot for each team, free at all its members: the lowest, or the one `turn` places on. None if there is none.

    free: the free slots of each PE, one bit each. Whoever computes this from the same numbers finds the same.
    """
    left = dict(free)
    chosen = []
    for pes in teams:
        common = reduce(and_, (left[pe] for pe in pes))
        slots = [slot for slot in range(SLOTS) if common >> slot & 1]
        if not slots:
            return None
        slot = slots[turn % len(slots)]
        chosen.append(slot)
        left.update({pe: left[pe] & ~(1 << slot) for pe in pes})
    return chosen
