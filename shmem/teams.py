"""Teams: ordered groups of PEs that a collective call runs on.

A team is a slot (its number in the heap header, where its barrier words are) and its members. TEAM_WORLD and
TEAM_INVALID are constants of the module, made before a job exists; so who is a member of TEAM_WORLD, and
which PE asks, is looked up when it is asked and never stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import runtime
from .errors import TeamError


@dataclass(frozen=True)
class Team:
    """A group of PEs, numbered within the team from 0 in the order of `pes`.

    Two teams are equal if they have the same slot and members. TEAM_INVALID is false, all others are true.
    """

    slot: int  # 0: all PEs of the job; below 0: no team at all
    members: tuple[int, ...] = ()  # unused for slot 0

    def __bool__(self) -> bool:
        return self.slot >= 0

    def __repr__(self) -> str:
        if self.slot <= 0:
            return "TEAM_INVALID" if self.slot < 0 else "TEAM_WORLD"
        return f"Team({self.slot}, {self.members})"

    @property
    def pes(self) -> tuple[int, ...]:
        """The members as numbers of the whole job, in the order of the team. Raises TeamError if invalid."""
        if self.slot < 0:
            raise TeamError("the team is TEAM_INVALID", pe=_asking())
        return tuple(range(runtime.current().n)) if self.slot == 0 else self.members

    def my_pe(self) -> int:
        """The number of this PE within the team (OpenSHMEM 1.6, 9.4, shmem_team_my_pe).

        Raises TeamError if the team is invalid or this PE is no member of it.
        """
        pes, me = self.pes, runtime.current().me
        if me not in pes:
            raise TeamError(f"PE {me} is no member of {self!r}", pe=me)
        return pes.index(me)

    def n_pes(self) -> int:
        """How many PEs the team has (OpenSHMEM 1.6, 9.4, shmem_team_n_pes). Raises TeamError if invalid."""
        return len(self.pes)


TEAM_WORLD = Team(0)
TEAM_INVALID = Team(-1)


def resolve(team: Team | None) -> Team:
    """The team that an argument `team=` of a collective means: None is TEAM_WORLD.

    Raises TeamError for an invalid team, one without this PE, and what is no team at all.
    """
    if team is None:
        return TEAM_WORLD
    if not isinstance(team, Team):
        raise TeamError(f"{team!r} is not a team", pe=_asking())
    team.my_pe()
    return team


def _asking() -> int | None:
    running = runtime.started()
    return None if running is None else running.me
