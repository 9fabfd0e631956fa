"""What may not go yet: blocks of the heap, contexts and teams that a batch in flight uses, and locks that are in use.

Whether something is in use is known to one PE; where the call that would end it is collective, all PEs learn of it
(`barriers.agree`). Work of the program's other threads is not looked at, but for locks.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from .errors import ContextError, LockError, ShmemError, StateError, TeamError
from .lock_queue import Step
from .runtime import PE
from .streams import in_flight

if TYPE_CHECKING:
    from .contexts import Context
    from .teams import Team

WAIT_FIRST = "wait for its event, or close the stream, first"


def block_in_use(pe: PE, start: int, end: int, moves: bool) -> ShmemError | None:
    """Why these bytes of the heap can't be given back, or move: StateError for a batch in flight that reads or writes
    them, LockError for a lock in them that another thread waits for or, if they move, that is held."""
    for batch, _ in in_flight(pe):
        if start < end and batch._names(pe.heap.base + start, end - start):
            text = f"a batch in flight on a stream of PE {pe.me} uses the block at heap offset {start:#x}"
            return StateError(f"{text}: {WAIT_FIRST}", pe=pe.me)
    for node, place in pe.locks.items():
        if start <= node < end and (place.user is not None or (moves and place.step is Step.HELD)):
            how = "holds" if place.user is None else "is in a call on"
            return LockError(f"PE {pe.me} {how} the lock at heap offset {node:#x}, which can't go meanwhile", pe=pe.me)
    return None


def forget_locks(pe: PE, start: int, end: int) -> None:
    """Locks in these bytes of the heap are no more, held or not."""
    for gone in [node for node in pe.locks if start <= node < end]:
        del pe.locks[gone]


def context_in_use(pe: PE, contexts: Collection[Context]) -> ContextError | None:
    """Why one of these contexts can't be destroyed: a batch in flight that was launched on it."""
    for _, q in in_flight(pe):
        if any(q == one.q for one in contexts):
            return ContextError(f"a batch in flight on a stream of PE {pe.me} uses the context: {WAIT_FIRST}", pe=pe.me)
    return None


def team_in_use(pe: PE, team: Team) -> ShmemError | None:
    """Why a team can't be destroyed: a batch in flight that meets on it, or was launched on a context of it."""
    for batch, _ in in_flight(pe):
        if batch._meets(team):
            return TeamError(f"a batch in flight on a stream of PE {pe.me} meets on {team!r}: {WAIT_FIRST}", pe=pe.me)
    return context_in_use(pe, [one for one in pe.contexts if one.team == team])
