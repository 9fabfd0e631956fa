"""How a collective call runs: a plan, worked out once for its arguments, and run again whenever they come again.

A plan is two arrays of operation records, one for each half of the scratch memory; the number of barriers that the
team has behind it says which half a call uses. Nobody is ever two barriers ahead of another member, so what a half
shows is not overwritten while anybody may still read it. All members count the same barriers, whatever call they were
for and however it ended: that keeps them in step without a counter of its own.

A call that is given up (ShmemTimeout, Ctrl-C) stays entered, as a barrier does: the same call again goes on with it,
another one first waits for its barrier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..barriers import awaited, check_members, meet, missing, raise_differing
from ..errors import ArgumentError, StateError
from ..fabric.interface import Members, Status
from ..records import Records
from ..runtime import PE, current
from ..waiting import until

KEPT = 256  # plans
KEPT_BYTES = 1 << 19  # for each

After = Callable[[int, "float | None"], None]


@dataclass(frozen=True, eq=False)
class Plan:
    """The records of one collective call of this PE, by half; `after` is what Python has left to do (half, timeout)."""

    call: str
    members: Members
    records: tuple[Records, Records]
    keep: tuple[object, ...] = ()  # memory that the records point into
    after: After | None = None
    private_bytes: int = 0  # that `after` or the records need besides the program's arrays
    given: str = ""  # the call with what may differ between PEs
    in_place: tuple[tuple[int, int, bool], ...] = ()  # as in `Script.read_in_place`

    def resume(self, half: int, at: int, status: int) -> None:
        """Goes on where the C front stopped."""
        pe = current()
        if status == Status.MISMATCH:
            raise_differing(pe, self.members, self.call)
        _finish(pe, self, half, at, None)

    def leave(self, half: int, at: int) -> None:
        """Notes where the C front stopped, if `resume` raised before it could."""
        pe, slot = current(), self.members.slot
        left, entered = pe.left.get(slot), pe.fabric.entered(pe.me, slot)
        if left is None or left.entered != entered:
            pe.left[slot] = LeftOff(self, half, at, entered)


@dataclass(frozen=True)
class LeftOff:
    """Where a call was given up: the record, and how many barriers of its slot this PE had entered."""

    plan: Plan
    half: int
    at: int
    entered: int


def remember(pe: PE, key: object, plan: Plan) -> None:
    """Keeps a plan that takes no more than its share of memory; the one unused for longest goes."""
    if plan.private_bytes + plan.records[0].nbytes > KEPT_BYTES:
        return
    pe.plans[key] = plan
    if len(pe.plans) > KEPT:
        pe.plans.pop(next(iter(pe.plans)), None)


def recall(pe: PE, key: object) -> Plan | None:
    """The plan kept for these arguments."""
    plan = pe.plans.pop(key, None)
    if plan is not None:
        pe.plans[key] = plan
    return plan


def perform(pe: PE, plan: Plan, timeout: float | None) -> None:
    """Runs a plan. Raises SymmetryError on every member if their calls differ, ShmemTimeout, PeerDied."""
    members = plan.members
    check_members(pe, members)
    unfinished = pe.fabric.unfinished(members.slot)
    if unfinished is not None:
        left = pe.left.get(members.slot)
        entered = pe.fabric.entered(pe.me, members.slot)
        if left is not None and left.plan.call == plan.call and left.entered == entered:
            if left.plan.given != plan.given:
                raise ArgumentError(
                    f"{plan.given}: this PE has given up {left.plan.given} and must go on with that first", pe=pe.me
                )
            _finish(pe, left.plan, left.half, left.at, timeout)
            return
        if meet(pe, members, unfinished, plan.call, timeout) is Status.MISMATCH:
            raise_differing(pe, members, plan.call)
    if plan.in_place and (tell := pe.fabric.caps.in_place) is not None:
        tell(plan.in_place)
    _finish(pe, plan, pe.fabric.rounds(members) & 1, 0, timeout)


def _finish(pe: PE, plan: Plan, half: int, at: int, timeout: float | None) -> None:
    ops, members = plan.records[half], plan.members
    reached = np.array([at], np.int64)  # known even where a signal handler raises on the way out of `submit`

    def step(seconds: float) -> Status:
        return pe.fabric.submit(pe.fabric.inner, ops, int(reached[0]), seconds, reached)[0]

    try:
        texts = (lambda: awaited(pe, members, plan.call)), (lambda: missing(pe, members))
        status = until(pe, step, *texts, timeout, members.pes)
    except StateError:  # another thread is in the barrier, which is not this call's
        raise
    except BaseException:
        pe.left[members.slot] = LeftOff(plan, half, int(reached[0]), pe.fabric.entered(pe.me, members.slot))
        raise
    if status is Status.MISMATCH:
        raise_differing(pe, members, plan.call)
    if plan.after is not None:
        plan.after(half, timeout)
