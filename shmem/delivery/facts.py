"""What a search has to know of a move: the bytes it reads or changes, and what makes it possible.

A move is an event of the delivery or a step of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .admission import before, state_of, waits
from .atomics import updated
from .completions import COUNTER
from .fates import alternative as alternative
from .fates import forked as forked
from .machine import Machine
from .receiving import flushes, places
from .requests import BELLS, BESIDE, Act, Event, Kind, Place, Request, Stage
from .views import placing

Move = Any  # hashable, and the same in every run: the number of a task, or an `Event`


Undone = list[tuple[Place, bytes]]  # writes taken back, the last first: what was there before each
# Whether a step that waits could happen if some writes had not been made.
Could = Callable[[Undone], bool]


class Touch(NamedTuple):
    """Bytes that a step reads or changes. `silent`: it writes what is there already. `old`: what a write replaces, None
    where that is not known. `marks`: of a read, that it sees who wrote the bytes; of a write, that it changes that."""

    place: Place
    writes: bool
    silent: bool = False
    old: bytes | None = None
    marks: bool = False

    def conflicts(self, other: Touch) -> bool:
        """Whether the order of the two can be seen."""
        space, lo, hi = self.place
        its, first, end = other.place
        if hi <= first or end <= lo or space != its:
            return False
        if self.writes and other.writes:
            return True
        write = self if self.writes else other
        return write.writes and (not write.silent or (self.marks and other.marks))


def touches(machine: Machine, event: Event) -> tuple[Touch, ...]:
    """The bytes that an enabled event reads or changes; what is counted instead of stored has a place as well."""
    if event.act in BESIDE:
        bells = event.act in BELLS
        return (
            (Touch(Place(("bells", machine.known[event.key].queue), 0, 1), True),) if bells else _shown(machine, event)
        )
    request = machine.flight[event.key]
    found = _placing(machine, request, event.unit) if event.act in _PLACES else _touches(machine, request, event)
    if machine.profile.lost_ack and request.ring:  # a failure comes before or after all that it may keep from happening
        found = (*found, Touch(Place(("failure", request.queue), 0, 1), event.act in (Act.RETIRE, Act.UNTOLD)))
    if machine.views is None or event.act not in (Act.PLACE, Act.AGAIN, Act.WORD, Act.LAND):
        return found
    beside = [_beside(machine, each.place, request.own(each.place)) for each in found if each.writes]
    return (*found, *(touch for each in beside for touch in each))


def _shown(machine: Machine, event: Event) -> tuple[Touch, ...]:
    assert machine.views is not None
    piece = machine.views.find(event)
    assert piece is not None
    old = machine.views.read(piece.at)
    view = Place(("view", piece.at.space), piece.at.lo, piece.at.hi)
    return (Touch(view, True, old == piece.data, old, marks=True), *_beside(machine, piece.at, False))


def _beside(machine: Machine, place: Place, own: bool) -> tuple[Touch, ...]:
    """What a change of a PE's memory changes of what that PE sees: its view, or how much of it is behind."""
    if machine.views is None or not isinstance(place.space, int):
        return ()
    if own:
        return (Touch(Place(("view", place.space), place.lo, place.hi), True),)
    unseen = Place(("unseen", place.space), place.lo, place.hi)
    return (Touch(unseen, True, old=machine.views.counts(place)),)


def stores(machine: Machine, pe: int, place: Place, data: bytes | None = None) -> tuple[Touch, ...]:
    """What a store touches that changes memory at once."""
    old = machine.memory.read(place)
    return (Touch(place, True, old == data, old, marks=True), *_beside(machine, place, place.space == pe))


def acquires(machine: Machine, pe: int) -> tuple[Touch, ...]:
    """What an acquire of a PE touches: it waits until nothing of the PE's memory is unseen."""
    return (Touch(Place(("unseen", pe), 0, len(machine.memory.spaces[pe])), False),)


def could_acquire(machine: Machine, pe: int, undone: Undone) -> bool:
    """Whether a PE could acquire if some changes had not been made."""
    assert machine.views is not None
    places = [place for place, _ in undone if place.space == ("unseen", pe)]
    places += [piece.at for piece in machine.views.unseen.get(pe, [])]
    return not any(
        any(without(undone, Place(("unseen", pe), lo, hi), machine.views.counts(Place(pe, lo, hi))))
        for _, lo, hi in places
    )


def _touches(machine: Machine, request: Request, event: Event) -> tuple[Touch, ...]:
    act = event.act
    looks = tuple(Touch(state_of(each), False) for each in request.segments)
    if act is Act.ADMIT:
        return looks
    if act in (Act.ACCEPT, Act.GIVE_UP):
        taker = request.target if request.taker is None else request.taker
        return (receiving(machine, taker, act is Act.ACCEPT), *looks)
    if act is Act.SOURCE:
        assert request.source is not None
        return tuple(Touch(place, False) for place in (request.source, *request.rest))
    if act is Act.RECEIVE and request.taker is None:
        return (Touch(Place(("received", request.target), 0, 1), True),)
    if act is Act.RECEIVE:
        return (_tells(machine, machine.takers[request.taker].cq),)
    if act in (Act.RETIRE, Act.UNTOLD):
        silent = act is Act.RETIRE and not request.signaled and not request.bad
        queue = machine.queue_pairs[request.queue]
        told = _tells(machine, queue.cq, silent)
        if (act is Act.RETIRE and not request.bad) or (taker := flushes(machine, queue)) is None:
            return (told,)
        more = (_tells(machine, taker.cq),) if taker.posted and taker.cq != queue.cq else ()
        return (told, Touch(places(queue.receives), True), *more)
    if act is Act.WORD:
        assert request.word is not None
        return (Touch(request.word, True, old=machine.memory.read(request.word)),)
    if act is Act.FETCH:
        return (
            Touch(request.at, False),
            Touch(Place(("atomics", request.at.space), request.at.lo, request.at.hi), True),
        )
    assert act is Act.LAND
    lo, hi = request.units[event.unit]
    first, last = lo - request.at.lo, hi - request.at.lo
    return (_write(machine, request.landing(first, last), request.data[first:last], request.call),)


def _placing(machine: Machine, request: Request, unit: int) -> tuple[Touch, ...]:
    """What the placement of a unit touches, the first or the second one."""
    lo, hi = request.units[unit]
    there = Place(request.at.space, lo, hi)
    if request.split:
        assert request.update is not None
        return (_write(machine, there, updated(request.data, request.update), request.call),)
    if request.kind is Kind.READ or (request.update is not None and request.update.op == "fetch"):
        return (Touch(there, False, marks=machine.watched),)
    if request.update is not None:
        return (Touch(there, True, old=machine.memory.read(there)),)
    at = request.at.lo
    return (_write(machine, there, request.data[lo - at : hi - at], request.call),)


def receiving(machine: Machine, taker: Hashable, takes: bool) -> Touch:
    """What taking a receive, or looking for one, touches: the one that is next."""
    queue = machine.takers.get(taker)
    next_one = 0 if queue is None else queue.taken
    return Touch(places(taker, next_one, next_one + 1), takes)


def _tells(machine: Machine, cq: Hashable, silent: bool = False) -> Touch:
    """What an entry of a completion queue touches. silent: there is none, but who looks at the queue pair sees it."""
    place = Place(cq, 0, COUNTER)
    if cq not in machine.rings:
        return Touch(place, True)
    old = machine.memory.read(place)
    return Touch(place, True, silent, old, marks=silent)


def _write(machine: Machine, place: Place, data: bytes, call: Any) -> Touch:
    old = machine.memory.read(place)
    silent = old == data
    marks = silent and machine.tags is not None and not machine.tags.same(place, call)
    return Touch(place, True, silent, old, marks)


# Which events a gate of a stage holds back, besides those that follow from them.
_GATED = {Stage.PLACED: (Act.FETCH, Act.PLACE, Act.WORD), Stage.ANSWERED: (Act.LAND,)}


def gated(act: Act, stage: Stage) -> bool:
    """Whether what keeps a request from a stage keeps it from this step."""
    return (stage is Stage.SOURCE and act is not Act.ADMIT) or act in _GATED.get(stage, ())


def reached(machine: Machine, request: Request, stage: Stage) -> list[Event]:
    """The events without which others would have to wait for a stage of a request: what ended it, if it failed."""
    failed = machine.failed.get(request.key)
    return request.events(stage) if failed is None else [failed]


_PLACES = (Act.PLACE, Act.AGAIN)


def causes(machine: Machine, event: Event) -> list[Event]:
    """The events without which this one would not be enabled."""
    request = machine.known[event.key]
    act = event.act
    found = [
        cause
        for key, stage, mine in request.gates
        if gated(act, mine)
        for cause in reached(machine, machine.known[key], stage)
    ]
    if act is Act.ADMIT:
        others = waits(machine, request)
        return [*before(machine, request), *(cause for each in others for cause in reached(machine, *each))]
    if request.segments and act is not Act.SOURCE:
        found.append(Event(event.key, Act.ADMIT, 0))
    if request.needs_receive and act > Act.ACCEPT:
        found += request.events(Stage.ACCEPTED)
    if request.source is not None and act > Act.SOURCE:
        found += request.events(Stage.SOURCE)
    if act is Act.PLACE:
        if request.split:
            found.append(Event(event.key, Act.FETCH, 0))
        elif request.ascending:
            found += [Event(event.key, Act.PLACE, i) for i in range(event.unit)]
    elif act is Act.SHOW:
        assert machine.views is not None
        found += [placing(event), *machine.views.before(event)]
    elif act is Act.AGAIN:
        found.append(Event(event.key, Act.PLACE, event.unit))
        found += [Event(event.key, Act.AGAIN, i) for i in range(event.unit) if request.ascending]
    elif act is Act.WORD:
        found += [Event(event.key, Act.PLACE, i) for i in range(len(request.units))]
    elif act is Act.LAND:
        found.append(Event(event.key, Act.PLACE, event.unit))
    elif act is Act.RECEIVE:
        found += request.events(Stage.PLACED)
        covered = machine.covered(request, machine.known.values())
        found += [cause for each in covered for cause in reached(machine, each, Stage.PLACED)]
        told = [each.key for each in covered if each.tells and each.queue == request.queue]
        found += [Event(key, Act.RECEIVE, 0) for key in told]
    elif act in (Act.RETIRE, Act.UNTOLD):
        retired = act is Act.RETIRE
        found += request.events(machine.completes_at(request) if retired else machine.executed_at(request))
        same = [each for each in machine.known.values() if each.ring and each.queue == request.queue]
        earlier = [each.key for each in same if each.key < request.key]
        found += [Event(key, how, 0) for key in earlier for how in (Act.RETIRE, Act.UNTOLD)]
        found.append(Event(event.key, Act.GIVE_UP, 0))
    return found


def without(undone: Undone, place: Place, data: bytes) -> bytes:
    """The bytes at a place, `data` now, if some writes had not been made."""
    found = bytearray(data)
    for (space, first, end), old in undone:
        lo, hi = max(first, place.lo), min(end, place.hi)
        if space == place.space and lo < hi:
            found[lo - place.lo : hi - place.lo] = old[lo - first : hi - first]
    return bytes(found)


@dataclass(slots=True)
class Facts:
    """What a search knows of a move."""

    move: Move
    touches: tuple[Touch, ...]
    needs: Callable[[], Iterable[object]]  # of what earlier moves made possible: what it could not do without
    could: Could | None = None  # of a step that waits for values in memory
    locks: bool = False  # it keeps others of its kind out
    unlocks: bool = False  # until this

    def conflicts(self, other: Facts) -> bool:
        """Whether the order of the two can be seen."""
        for mine in self.touches:
            for its in other.touches:
                if mine.conflicts(its):
                    return True
        return False


def event_facts(machine: Machine, event: Event) -> Facts:
    """What is known of an enabled event."""
    if event.act in BELLS:
        return Facts(event, touches(machine, event), lambda: (("bell", event.key, event.unit),))
    request, places = machine.known[event.key], event.act is Act.PLACE
    locks = event.act is Act.FETCH or (places and request.sets)
    unlocks = places and (request.split or request.sets)
    return Facts(event, touches(machine, event), lambda: _needs(machine, event), None, locks, unlocks)


def _needs(machine: Machine, event: Event) -> list[object]:
    rung = [("rung", event.key)] if machine.known[event.key].ring else []
    return [("posted", event.key), *rung, *causes(machine, event)]


def fenced(machine: Machine, pe: int, space: int) -> list[Event]:
    """The events without which a store of a PE to a memory would have to wait (`Machine.holds_back`)."""
    before = (machine.known.get(key) for key in machine.behind.get((pe, space), ()))
    return [event for each in before if each is not None for event in reached(machine, each, Stage.PLACED)]


def completed(
    machine: Machine, pe: int, queue: Hashable, target: int | None,
    stage: Stage = Stage.ANSWERED, kinds: Sequence[Kind] = tuple(Kind),
) -> list[Event]:  # fmt: skip
    """The events without which a completion of what a PE posted on a queue (to a PE) would not be over; its own stores
    count as well."""
    reached = not machine.profile.engine_scoped or target is not None
    return [
        event
        for each in machine.known.values()
        if each.pe == pe and each.kind in kinds
        and (each.kind is Kind.STORE or (reached and each.queue == queue and target in (None, each.target)))
        for event in each.events(stage)
    ]  # fmt: skip
