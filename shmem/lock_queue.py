"""The queue of a lock, and where a PE stands in it: an MCS queue (Mellor-Crummey and Scott, 1991) that can be left.

The word of a lock has two halves. The upper one of PE 0's is the tail: the number of the last PE in the queue plus 1, 0
if the lock is free. The lower one of each PE's is its node, zero outside the queue: the number of the PE behind it plus
1, and three bits, which let a PE go at once whatever its neighbours do. A PE that GAVE_UP is passed over by whoever
hands it its TURN; a lock whose holder finds the PE behind not linked yet is PASSED to that one, which sees the bit when
it links, clears the node and has the lock. A node is used again only when it is zero.

Each step is one atomic, and what comes next follows from its result alone. A signal handler may raise between any two
instructions, so the step is noted before its atomic, whose result lands in memory of the step before the call returns:
`advance` goes on where the last call was left, and nothing is done twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum

import numpy as np

from .enums import CMP
from .errors import LockError, ShmemTimeout
from .fabric.interface import Level
from .records import RECORD, Amo, Kind, Op, Records, conditions, record
from .runtime import PE
from .views import address_of
from .waiting import check_reachable, until

HOME = 0  # the PE with the tail
TURN, GAVE_UP, PASSED = 1 << 30, 1 << 29, 1 << 28
NEXT = PASSED - 1
PASSING_S = 1.0  # how long a living holder may take to pass over a dead PE
_UNKNOWN = 0xFFFFFFFF  # no result of an atomic on a node or a tail


class Step(IntEnum):
    """What a PE is about to do to the words of a lock; from OUT on, where it rests."""

    ENTER = 0  # puts itself into the tail
    TRY = 1  # the same if the lock is free
    LINK = 2  # tells the PE in front who is behind it
    TAKE = 3  # clears the node through which the lock was passed on
    GIVE_UP = 4  # says in its own node that it is gone
    RETURN = 5  # takes that back
    LEAVE = 6  # empties the queue if nobody is behind
    PASS = 7  # leaves the lock to the PE behind, unless that has linked
    CLEAR = 8  # ends the use of a node
    HAND = 9  # tells the PE behind that its turn has come
    OUT = 10
    WAITING = 11  # in the queue
    HELD = 12
    GONE = 13  # out, but its node is in the queue still
    LEFT = 14  # out, and another PE is about to clear its node


_ATOMICS = {
    Step.ENTER: (4, Amo.SWAP), Step.TRY: (4, Amo.COMPARE_SWAP), Step.LINK: (0, Amo.OR), Step.TAKE: (0, Amo.SWAP),
    Step.GIVE_UP: (0, Amo.OR), Step.RETURN: (0, Amo.COMPARE_SWAP), Step.LEAVE: (4, Amo.COMPARE_SWAP),
    Step.PASS: (0, Amo.OR), Step.CLEAR: (0, Amo.SWAP), Step.HAND: (0, Amo.OR),
}  # fmt: skip
"""Which half of the word, by its offset, and the atomic."""

Call = list[bool]  # one call of a program, and whether it was begun: of one element, no two are the same
_claims = threading.RLock()  # threads of a PE share its place: one call at a time uses it


class Place:
    """The place of this PE in the queue of the lock at a heap offset. `wanted`: the program shall have the lock, or has
    it; else the PE is on its way out. `user`: the call that uses the place."""

    __slots__ = ("_conds", "_records", "_values", "node", "pes", "results", "step", "user", "wanted")

    def __init__(self, me: int, node: int) -> None:
        results, ops = np.full(len(_ATOMICS), _UNKNOWN, np.uint32), np.zeros(len(_ATOMICS), RECORD)
        ops["op"], ops["width"], ops["src"] = Op.AMO, 4, address_of(results) + 4 * np.arange(len(ops))
        for step, (half, amo) in _ATOMICS.items():
            ops["dst"][step], ops["flags"][step] = node + half, amo
        ops["value"][[Step.ENTER, Step.TRY, Step.LINK]] = me + 1
        ops["value"][[Step.GIVE_UP, Step.PASS, Step.HAND]] = GAVE_UP, PASSED, TURN
        ops["pe"][[Step.GIVE_UP, Step.RETURN]] = me
        self._records: list[Records] = [ops[step : step + 1] for step in _ATOMICS]
        self.results, self.pes = results.data, ops["pe"].data  # by step
        self._values, self._conds = ops["value"].data, ops["cond"].data
        self.node, self.step, self.wanted = node, Step.OUT, False
        self.user: Call | None = None

    def claim(self, pe: PE, call: Call, held: bool) -> None:
        """Makes `call` the one that uses the place: it is begun. Raises LockError if another one does, or if this PE
        holds the lock where it must not, or the other way round."""
        with _claims:
            if self.user is None and (self.wanted and self.step is Step.HELD) is held:
                self.user = call
                call[0] = True
                return
            busy = self.user is not None
        what = "is in another call on" if busy else "does not hold" if held else "holds"
        already = "" if busy or held else " already"
        raise LockError(f"PE {pe.me} {what} the lock at heap offset {self.node:#x}{already}", pe=pe.me)

    def begin(self, step: Step, pe: int = HOME) -> None:
        """Makes this the next step. It counts from the last line on: until then the step before is done again."""
        self.pes[step] = pe
        self.results[step] = _UNKNOWN
        self.step = step

    def begin_return(self, me: int, seen: int) -> None:
        self._conds[Step.RETURN], self._values[Step.RETURN] = seen, seen & ~GAVE_UP
        self.begin(Step.RETURN, me)

    def begin_leave(self, whose: int) -> None:
        """Lets the lock go in the name of the PE whose node has it."""
        self._conds[Step.LEAVE] = whose + 1
        self.pes[Step.CLEAR] = whose
        self.begin(Step.LEAVE)

    def swapped(self, step: Step) -> bool:
        """Whether the compare-and-swap of a step has stored."""
        return self.results[step] == self._conds[step]

    def atomic(self, pe: PE) -> int:
        """The result of the step's atomic, which is done unless it was."""
        if self.results[self.step] == _UNKNOWN:
            pe.fabric.submit(0, self._records[self.step])
        return self.results[self.step]


def advance(pe: PE, place: Place) -> None:
    """Goes on until the PE rests. Never blocks."""
    while place.step < Step.OUT:
        _FOLLOWING[place.step](pe, place, place.atomic(pe))


def _entered(pe: PE, place: Place, ahead: int) -> None:
    if ahead:
        place.begin(Step.LINK, ahead - 1)
    else:
        place.step = Step.HELD


def _tried(pe: PE, place: Place, tail: int) -> None:
    place.step = Step.OUT if tail else Step.HELD


def _linked(pe: PE, place: Place, ahead: int) -> None:
    if ahead & PASSED:
        place.begin(Step.TAKE, place.pes[Step.LINK])
    else:
        place.step = Step.WAITING


def _taken(pe: PE, place: Place, ahead: int) -> None:
    place.step = Step.HELD


def _given_up(pe: PE, place: Place, own: int) -> None:
    place.step = Step.HELD if own & TURN else Step.GONE


def _returned(pe: PE, place: Place, own: int) -> None:
    place.step = Step.WAITING if place.swapped(Step.RETURN) else Step.GONE


def _left(pe: PE, place: Place, tail: int) -> None:
    place.begin(Step.CLEAR if place.swapped(Step.LEAVE) else Step.PASS, place.pes[Step.CLEAR])


def _passed(pe: PE, place: Place, node: int) -> None:
    whose = place.pes[Step.CLEAR]
    if node & NEXT:
        place.begin(Step.CLEAR, whose)
    else:
        place.step = Step.LEFT if whose == pe.me else Step.OUT


def _cleared(pe: PE, place: Place, node: int) -> None:
    if place.swapped(Step.LEAVE):
        place.step = Step.OUT
    else:
        place.begin(Step.HAND, (node & NEXT) - 1)


def _handed(pe: PE, place: Place, behind: int) -> None:
    other = place.pes[Step.HAND]
    if behind & GAVE_UP or (pe.settings.on_death == "survive" and other in pe.fabric.dead(look=True)):
        place.begin_leave(other)
    else:
        place.step = Step.OUT


_FOLLOWING: tuple[Callable[[PE, Place, int], None], ...] = (
    _entered, _tried, _linked, _taken, _given_up, _returned, _left, _passed, _cleared, _handed,
)  # fmt: skip
"""What follows from the result of each step."""


def retreat(pe: PE, place: Place) -> None:
    """Goes on until this PE neither has the lock nor waits for it. What it held is released, after a quiet. Never
    blocks."""
    advance(pe, place)
    if place.step is Step.WAITING:
        place.begin(Step.GIVE_UP, pe.me)
        advance(pe, place)
    if place.step is Step.HELD:
        pe.fabric.complete(0, Level.VISIBLE)
        tell(pe, place, False)
        place.begin_leave(pe.me)
        advance(pe, place)


def tell(pe: PE, place: Place, held: bool) -> None:
    """Tells who watches this PE that it has the lock, or is about to let it go."""
    if pe.fabric.caps.locks is not None:
        pe.fabric.caps.locks(place.node, held)


def acquire(pe: PE, place: Place, limit: float) -> None:
    """Waits until this PE, which rests outside, has the lock. Raises ShmemTimeout, PeerDied, in the middle of it."""
    end = time.monotonic() + limit
    if place.step is Step.GONE:
        _return(pe, place)
    if place.step is Step.LEFT:
        _await(pe, place, CMP.EQ, 0, lambda: "its last place in the queue not cleared yet", end)
        place.step = Step.OUT
    if place.step is Step.OUT:
        place.begin(Step.ENTER)
        advance(pe, place)
    if place.step is Step.WAITING:
        if pe.settings.on_death == "survive":
            _check_holder(pe, place, end)
        _await(pe, place, CMP.GE, TURN, lambda: _before(pe, place), end)
        place.step = Step.HELD


def _check_holder(pe: PE, place: Place, end: float) -> None:
    """Raises PeerDied if the lock has died with its holder. Of others that are dead the holder takes no notice: it
    passes them over, and between two of its steps for that one of them stands at the head of the queue. So a dead PE
    there is the holder only if the turn has not come by some time later."""
    dead = pe.fabric.dead(look=True)
    if not dead or _ahead(pe, place)[-1] not in dead:
        return
    with suppress(ShmemTimeout):
        _await(pe, place, CMP.GE, TURN, lambda: _before(pe, place), min(end, time.monotonic() + PASSING_S))
        return
    check_reachable(pe, _ahead(pe, place)[-1])


def _return(pe: PE, place: Place) -> None:
    """Takes the old place again, unless the lock has come to it and was handed on: then the PE is outside."""
    while place.step is Step.GONE:
        own = look(pe, pe.me, place.node)
        if own & TURN:
            place.step = Step.LEFT
        elif own:
            place.begin_return(pe.me, own)
            advance(pe, place)
        else:
            place.step = Step.OUT


def attempt(pe: PE, place: Place) -> None:
    """Takes the lock if it is free. Never blocks."""
    if place.step is not Step.OUT and look(pe, pe.me, place.node):
        return  # somebody has the lock, or will in a moment
    place.step = Step.OUT
    if not look(pe, HOME, place.node + 4):
        place.begin(Step.TRY)
        advance(pe, place)


def look(pe: PE, other: int, half: int) -> int:
    """The half word at a heap offset of a PE, now."""
    seen = np.zeros(1, np.uint32)
    pe.fabric.submit(0, record(Op.AMO, pe=other, dst=half, src=address_of(seen), width=4, flags=Amo.FETCH))
    return int(seen[0])


def _await(pe: PE, place: Place, cmp: CMP, value: int, seen: Callable[[], str], end: float) -> None:
    """Sleeps until the own node satisfies a comparison."""
    condition = conditions([place.node], Kind.U32, cmp, [value])
    left = max(0.0, end - time.monotonic())
    what = f"the lock at heap offset {place.node:#x}"
    until(pe, lambda seconds: pe.fabric.wait(condition, seconds)[0], lambda: what, seen, left)


def _ahead(pe: PE, place: Place) -> list[int]:
    """This PE and those before it, up to the holder: from node to node, so each link was so at some moment."""
    ahead = {(look(pe, other, place.node) & NEXT) - 1: other for other in range(pe.n)}
    queue = [pe.me]
    while queue[-1] in ahead and len(queue) <= pe.n:
        queue.append(ahead[queue[-1]])
    return queue


def _before(pe: PE, place: Place) -> str:
    """Who stands before this PE, in words. The first is not called the holder: a PE that came a moment ago may not have
    told the one in front yet, and ends the chain of links then."""
    queue = _ahead(pe, place)
    if len(queue) == 1:
        return "no PE before this one in the queue"
    between = ", ".join(str(other) for other in queue[-2:0:-1])
    return f"PE {queue[-1]} at the head of its queue" + (f", and before this PE, PE {between}" if between else "")
