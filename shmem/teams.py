"""Teams: ordered groups of PEs that a collective call runs on.

A `Team` is a handle, as in C: it stands for a membership (`slots.py`), several handles may stand for the same, and once
that is destroyed all of them are like TEAM_INVALID. TEAM_WORLD and TEAM_SHARED are constants of the module, made before
a job exists; so who is a member, and which PE asks, is looked up when it is asked and never stored. How teams are made
and destroyed is in `splits.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from . import runtime
from .errors import DtypeError, TeamError
from .slots import NOBODY, SHARED, WORLD, Membership
from .views import Array

if TYPE_CHECKING:
    from .contexts import Ctx

_INVALID = Membership(NOBODY)
_NAMES = {NOBODY: "TEAM_INVALID", WORLD: "TEAM_WORLD", SHARED: "TEAM_SHARED"}


class Team:
    """A group of PEs, numbered within the team from 0.

    `Team(team)` is another handle of the same team, `Team()` one of none. Handles are equal if they stand for the same
    team; those of a destroyed team equal TEAM_INVALID and are false. They mean nothing to other PEs. As a context
    manager it destroys the team, unless that is predefined or the block raised (destroying is collective). Raises
    DtypeError for what is no team. shmem4py.
    """

    __slots__ = ("_made",)
    _made: Membership

    def __init__(self, team: Team | None = None) -> None:
        if team is not None and not isinstance(team, Team):
            raise DtypeError(f"{team!r} is not a team", pe=_asking())
        self._made = _INVALID if team is None else team._made

    @classmethod
    def _of(cls, made: Membership) -> Team:
        handle = cls()
        handle._made = made
        return handle

    def __reduce__(self) -> tuple[object, ...]:
        return Team._of, (self._made,)

    def _now(self) -> Membership:
        """What the handle stands for now: nobody, once the team is destroyed or its job finalised."""
        here = runtime.started()
        predefined = self._made.slot in _NAMES
        return self._made if predefined or (here is not None and here.slots.live(self._made)) else _INVALID

    def _live(self) -> Membership:
        made = self._now()
        if made.slot == NOBODY:
            gone = self._made.slot != NOBODY
            raise TeamError(f"{self!r} can't be used" if gone else "the team is TEAM_INVALID", pe=_asking())
        return made

    def __bool__(self) -> bool:
        return self._now().slot != NOBODY

    def __eq__(self, other: object) -> bool:
        return self._now() == other._now() if isinstance(other, Team) else NotImplemented

    def __hash__(self) -> int:
        return hash(Team)  # a team that is destroyed equals TEAM_INVALID from then on, so its hash must do so before

    def __repr__(self) -> str:
        made = self._made
        if made.slot in _NAMES:
            return _NAMES[made.slot]
        listed = ", ".join(map(str, made.pes[:16])) + (", ..." if len(made.pes) > 16 else "")
        return f"{'' if self else 'destroyed '}Team {made.slot} of PEs {listed}"

    @property
    def slot(self) -> int:
        """The number of the team, which is the same at all members. Raises TeamError if invalid."""
        return self._live().slot

    @property
    def pes(self) -> tuple[int, ...]:
        """The members as numbers of the whole job, in the order of the team. Raises TeamError if invalid."""
        made = self._live()
        if made.slot == WORLD:
            return runtime.current().members.pes
        return runtime.current().neighbours if made.slot == SHARED else made.pes

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

    def get_config(self) -> dict[str, int]:
        """What the team was made with: {"num_contexts": ...} (OpenSHMEM 1.6, 9.4, shmem_team_get_config).

        Raises TeamError if invalid.
        """
        return {"num_contexts": self._live().num_contexts}

    def translate_pe(self, pe: int | None = None, team: Team | None = None) -> int:
        """The number in `team` (default: the whole job) of the PE that has number `pe` (default: this PE's) here.

        Raises TeamError if a team is invalid or that PE is no member of `team`, InvalidPE for no number of this team.
        OpenSHMEM 1.6, 9.4 (shmem_team_translate_pe).
        """
        number = self.my_pe() if pe is None else pe
        there = TEAM_WORLD if team is None else team
        found = team_translate_pe(self, number, there)
        if found < 0:
            raise TeamError(f"PE {number} of {self!r} is no member of {there!r}", pe=_asking())
        return found

    def split_strided(
        self, start: int = 0, stride: int = 1, size: int | None = None, config: Mapping[str, int] | None = None,
        *, timeout: float | None = None, **kwargs: int,
    ) -> Team:  # fmt: skip
        """A new team of the members start, start + stride, ... of this one. Collective over this team.

        size: how many; default as many as there are. config: {"num_contexts": n}, or `num_contexts=n`. Otherwise as
        `team_split_strided`. OpenSHMEM 1.6, 9.4 (shmem_team_split_strided).
        """
        from .splits import team_split_strided

        merged = {**(config or {}), **kwargs} if config is None or isinstance(config, Mapping) else config
        return team_split_strided(self, start, stride, size, merged, timeout=timeout)

    def split_2d(
        self, xrange: int, xconfig: Mapping[str, int] | None = None, yconfig: Mapping[str, int] | None = None,
        *, timeout: float | None = None,
    ) -> tuple[Team, Team]:  # fmt: skip
        """The row and the column of this PE where the team is laid out in rows of `xrange`: (row, column).

        Collective over this team. As `team_split_2d`. OpenSHMEM 1.6, 9.4 (shmem_team_split_2d).
        """
        from .splits import team_split_2d

        return team_split_2d(self, xrange, xconfig, yconfig, timeout=timeout)

    def create_ctx(self, options: int = 0) -> Ctx:
        """A new context on which PE numbers are those of this team. As `team_create_ctx`.

        OpenSHMEM 1.6, 9.5 (shmem_team_create_ctx).
        """
        from .contexts import team_create_ctx

        return team_create_ctx(self, options)

    def sync(self, *, timeout: float | None = None) -> None:
        """Waits for all PEs of the team; as `team_sync`. OpenSHMEM 1.6, 9.10 (shmem_team_sync)."""
        from .barriers import team_sync

        team_sync(self, timeout=timeout)

    def destroy(self, *, timeout: float | None = None) -> None:
        """Destroys the team, as `team_destroy`, if it exists and is not predefined. Collective over it.

        A team that is destroyed already is left alone. Another handle of a predefined team becomes invalid.
        OpenSHMEM 1.6, 9.4 (shmem_team_destroy).
        """
        from .splits import team_destroy

        if self._made.slot in _NAMES:
            predefined = self is TEAM_WORLD or self is TEAM_SHARED
            self._made = self._made if predefined else _INVALID
        elif self:
            team_destroy(self, timeout=timeout)

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:  # else the others may not come to destroy it
            self.destroy()


TEAM_WORLD = Team._of(Membership(WORLD))
TEAM_SHARED = Team._of(Membership(SHARED))
TEAM_INVALID = Team()


def resolve(team: Team | None) -> Team:
    """The team that an argument `team=` of a collective means: None is TEAM_WORLD.

    Raises TeamError for an invalid team, one without this PE, and what is no team at all.
    """
    if team is None:
        return TEAM_WORLD
    checked(team).my_pe()
    return team


def checked(team: object) -> Team:
    """`team`; raises TeamError if it is no team at all."""
    if not isinstance(team, Team):
        raise TeamError(f"{team!r} is not a team", pe=_asking())
    return team


def team_my_pe(team: Team) -> int:
    """The number of this PE within a team. Raises TeamError if it is invalid. OpenSHMEM 1.6, 9.4 (shmem_team_my_pe)."""
    return checked(team).my_pe()


def team_n_pes(team: Team) -> int:
    """How many PEs a team has. Raises TeamError if it is invalid. OpenSHMEM 1.6, 9.4 (shmem_team_n_pes)."""
    return checked(team).n_pes()


def team_get_config(team: Team) -> dict[str, int]:
    """What a team was made with: {"num_contexts": ...}. Raises TeamError if it is invalid.

    OpenSHMEM 1.6, 9.4 (shmem_team_get_config).
    """
    return checked(team).get_config()


def team_translate_pe(src_team: Team, src_pe: int, dest_team: Team) -> int:
    """The number in `dest_team` of the PE that has number `src_pe` in `src_team`; -1 if it has none there.

    Raises TeamError for an invalid team, InvalidPE for what is no number of `src_team`. `Team.translate_pe` raises
    instead of -1. OpenSHMEM 1.6, 9.4 (shmem_team_translate_pe).
    """
    job, there = member(checked(src_team), src_pe), checked(dest_team).pes
    return there.index(job) if job in there else -1


def member(team: Team, number: object) -> int:
    """The number in the job of the PE that has `number` in a team. Raises InvalidPE, TeamError."""
    return runtime.current().check_pe(number, team.pes, f"{team!r}")


def team_ptr(team: Team, target: Array, pe: int) -> Array | None:
    """The same array in the heap of PE `pe` of a team, as `ptr`; None for TEAM_INVALID and PEs of other hosts.

    Raises InvalidPE for no number of the team, TeamError for a destroyed one, otherwise as `ptr`.
    OpenSHMEM 1.6, 9.1 (shmem_team_ptr).
    """
    from .arrays import ptr

    if checked(team)._made.slot == NOBODY:
        return None
    return ptr(target, member(team, pe))


def _asking() -> int | None:
    running = runtime.started()
    return None if running is None else running.me
