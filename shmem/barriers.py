"""Barriers, and the check that all PEs make the same collective call.

The fingerprint of a call travels in the barrier that the call needs anyway. Only when the PEs find that they differ
does each show its call as text in its header, and after two more barriers every PE raises SymmetryError with
all of them.
"""

from __future__ import annotations

import time

from .errors import ShmemError, SymmetryError
from .fabric.interface import Level, Members, Status
from .front import fronted
from .records import REFUSED, fingerprint
from .runtime import PE, current
from .slots import WORLD
from .teams import Team, checked, resolve
from .waiting import check_reachable, deadline, until

BARRIER_ALL = "barrier_all()"
SYNC_ALL = "sync_all()"


def arrive(pe: PE, members: Members, call: str, timeout: float | None = None, *, refused: bool = False) -> None:
    """Meets all members in a barrier; `call` is compared between them. Completes nothing.

    refused: this PE takes no part in the call, so that all members raise, also where calls are not compared.
    Raises SymmetryError on every member if their calls differ, ShmemTimeout naming who is missing, PeerDied.
    """
    check_members(pe, members)
    check = fingerprint(call) if pe.settings.check_symmetry else REFUSED if refused else 0
    if meet(pe, members, check, call, timeout) is Status.MISMATCH:
        raise_differing(pe, members, call)


def agree(pe: PE, members: Members, call: str, problem: ShmemError | None, timeout: float | None = None) -> None:
    """As `arrive`, for a call that this PE can't take part in if it has a problem: it raises that, and every other
    member SymmetryError, which quotes it."""
    text = call if problem is None else f"{call}: {problem}"
    try:
        arrive(pe, members, text, timeout, refused=problem is not None)
    except SymmetryError as differing:
        if problem is not None:
            raise problem from differing
        raise
    if problem is not None:
        raise problem


def check_members(pe: PE, members: Members) -> None:
    """Raises PeerDied if one of them is known to be dead."""
    for dead in pe.fabric.dead(look=False):
        if dead in members.pes:
            check_reachable(pe, dead)


def meet(pe: PE, members: Members, check: int, call: str, timeout: float | None) -> Status:
    """The barrier itself, with a fingerprint: OK or MISMATCH. Raises ShmemTimeout, PeerDied."""
    return until(
        pe,
        lambda seconds: pe.fabric.barrier(members, check, seconds),
        lambda: awaited(pe, members, call),
        lambda: missing(pe, members),
        timeout,
        members.pes,
    )


def awaited(pe: PE, members: Members, call: str) -> str:
    """What a PE in a barrier waits for, in words: the team is named unless it is that of all PEs."""
    teams = [Team._of(made) for made in pe.slots.teams() if made.slot == members.slot != WORLD]
    return f"all PEs{''.join(f' of {team!r}' for team in teams)} in {call}"


def missing(pe: PE, members: Members) -> str:
    """Which members have not come to the barrier that this PE sits in, and in which other of its teams' they wait."""
    mine = pe.fabric.entered(pe.me, members.slot)
    absent = [other for other in members.pes if pe.fabric.entered(other, members.slot) < mine]
    listed = ", ".join(f"{other}{_elsewhere(pe, other, members.slot)}" for other in absent)
    return f"no arrival of PE {listed}" if absent else "all PEs there"


def _elsewhere(pe: PE, other: int, slot: int) -> str:
    """The barrier of another team in which a PE waits for this one, in brackets: it has entered more of them."""
    for team in (Team._of(made) for made in pe.slots.teams() if made.slot != slot):
        if other in team.pes and pe.fabric.entered(other, team.slot) > pe.fabric.entered(pe.me, team.slot):
            return f" (which has come to a barrier of {team!r})"
    return ""


def raise_differing(pe: PE, members: Members, call: str) -> None:
    """Exchanges the calls as text after a barrier found them to differ, and raises SymmetryError with them."""
    text = call.encode()[:510]
    pe.fabric.call_text(pe.me)[: len(text) + 1] = text + b"\0"
    meet(pe, members, 0, call, None)
    calls = {other: bytes(pe.fabric.call_text(other)).split(b"\0")[0].decode(errors="replace") for other in members.pes}
    meet(pe, members, 0, call, None)
    lines = "".join(f"\n  PE {other}: {made}" for other, made in calls.items())
    raise SymmetryError(f"the PEs made different collective calls:{lines}", calls=calls, pe=pe.me)


def collective(pe: PE, call: str, timeout: float | None = None) -> None:
    """Quiet and a barrier of all PEs, in the name of a collective call."""
    left = completed(pe, timeout)
    arrive(pe, pe.members, call, left)


def completed(pe: PE, timeout: float | None) -> float | None:
    """Quiet of the default context, before a barrier; what it leaves of the time."""
    if timeout is None:
        pe.fabric.complete(0, Level.VISIBLE)
        return None
    limit, began = deadline(pe, timeout), time.monotonic()
    pe.fabric.complete(0, Level.VISIBLE, None, limit)
    return max(0.0, limit - (time.monotonic() - began))


@fronted
def barrier_all(*, timeout: float | None = None) -> None:
    """Completes all transfers of the default context and waits for all PEs.

    On return: everything that any PE sent before its barrier is visible everywhere. timeout: seconds, default
    SHMEMU_TIMEOUT_S. Raises SymmetryError where another PE is in another collective call, ShmemTimeout naming the PEs
    missing, PeerDied. OpenSHMEM 1.6, 9.10 (shmem_barrier_all).
    """
    collective(current(), BARRIER_ALL, timeout)


@fronted
def sync_all(*, timeout: float | None = None) -> None:
    """Waits for all PEs. Completes no transfers; local stores made before are visible after.

    Errors as `barrier_all`. OpenSHMEM 1.6, 9.10 (shmem_sync_all).
    """
    pe = current()
    pe.fabric.fence(0)
    arrive(pe, pe.members, SYNC_ALL, timeout)


def barrier(team: Team | None = None, *, timeout: float | None = None) -> None:
    """Completes all transfers of the default context and waits for all PEs of a team (default: all).

    Errors as `barrier_all`, and TeamError for an invalid team. nvshmem4py's name; OpenSHMEM 1.6 has quiet and
    team_sync.
    """
    pe = current()
    left = completed(pe, timeout)
    arrive(pe, members_of(pe, team), "barrier()", left)


def sync(team: Team | None = None, *, timeout: float | None = None) -> None:
    """Waits for all PEs of a team (default: all). Completes no transfers.

    Errors as `barrier_all`, and TeamError for an invalid team. OpenSHMEM 1.6, 9.10 (shmem_team_sync).
    """
    pe = current()
    pe.fabric.fence(0)
    arrive(pe, members_of(pe, team), "sync()", timeout)


def team_sync(team: Team, *, timeout: float | None = None) -> None:
    """Waits for all PEs of a team. Completes no transfers; local stores made before are visible after.

    Errors as `barrier_all`, and TeamError for an invalid team. OpenSHMEM 1.6, 9.10 (shmem_team_sync).
    """
    sync(checked(team), timeout=timeout)


def members_of(pe: PE, team: Team | None) -> Members:
    """The barrier of a team; None is all PEs. Raises TeamError for an invalid team and one without this PE."""
    if team is None:
        return pe.members
    wanted = resolve(team)
    return Members(wanted.slot, wanted.pes)
