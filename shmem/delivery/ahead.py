"""What may happen next to a request in flight.

What a request waits for are its gates, the queue pair that it is on, receives at the target, and other atomics on its
word. One that waits for nobody keeps its next events in `Machine.ahead`, until one of them happens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from .admission import admission, ended
from .moves import joined, run_of
from .requests import PLACED, SOURCE, Act, Event, Key, Request, Stage

if TYPE_CHECKING:
    from .machine import Machine

_STAGES = tuple(Stage)


def next_events(machine: Machine, request: Request) -> Sequence[Event]:
    """The events of a request that may happen next."""
    if (known := machine.ahead.get(request.key)) is not None:
        return known
    found = joined(list(_parts(machine, request)))
    if _alone(machine, request):
        machine.ahead[request.key] = found  # until one of them happens
    return found


def _alone(machine: Machine, request: Request) -> bool:
    """Whether what a request may do next is no affair of others, from here on."""
    if request.ring or request.split or request.sets or not (request.accepted and request.told):
        return False
    return not request.gates or _open(machine, request, *_STAGES)


def _open(machine: Machine, request: Request, *stages: Stage) -> bool:
    """Whether nothing keeps a request from some stages. A gate that is open stays so: in a long queue, where a request
    has one for each before it, those at the front are not looked at again."""
    if request.held.isdisjoint(stages):
        return True
    gates, flight, first = request.gates, machine.flight, request.opened
    while first < len(gates) and not _shut(flight, *gates[first]):
        first += 1
    request.opened = first
    return not any(gates[at][2] in stages and _shut(flight, *gates[at]) for at in range(first, len(gates)))


def _shut(flight: Mapping[Key, Request], key: Key, reached: Stage, mine: Stage) -> bool:
    other = flight.get(key)
    return other is not None and not other.reached(reached)


def _parts(machine: Machine, request: Request) -> Iterator[Sequence[Event]]:
    key = request.key
    if request.ring and (special := machine.queue_pairs[request.queue].special(request)) is not None:
        yield special
        return
    if request.segments:
        yield admission(machine, request)
    if not request.accepted:
        if _open(machine, request, Stage.SOURCE) and not ended(machine, request):
            if receives(machine, request):
                yield [Event(key, Act.ACCEPT, 0)]
            elif not request.denied:
                yield [Event(key, Act.GIVE_UP, 0)]
        return
    if not request.read:
        if _open(machine, request, Stage.SOURCE):
            yield [Event(key, Act.SOURCE, 0)]
        return
    if request.repeats:
        yield _second(request)
    if not request.admitted:
        return
    placed, full = request.placed, request.full
    if placed != full and _open(machine, request, SOURCE, PLACED):
        if not request.fetched:
            if not machine.busy(request.at):
                yield [Event(key, Act.FETCH, 0)]
            return
        if request.sets and machine.busy(request.at):
            return
        left = full ^ placed
        yield run_of(key, Act.PLACE, left & -left if request.ascending else left)
    elif placed == full and not request.worded and _open(machine, request, Stage.SOURCE, Stage.PLACED):
        yield [Event(key, Act.WORD, 0)]
    if request.result is not None and _open(machine, request, Stage.ANSWERED):
        yield run_of(key, Act.LAND, placed & ~request.landed)
    if not request.told and _may_tell(machine, request):
        yield [Event(key, Act.RECEIVE, 0)]
    if request.ring and _complete(machine, request):
        yield [Event(key, Act.RETIRE, 0)]
    if machine.profile.lost_ack and request.ring and _complete(machine, request, machine.executed_at(request)):
        yield [Event(key, Act.UNTOLD, 0)]


def receives(machine: Machine, request: Request) -> bool:
    """Whether there is a receive for a request."""
    if request.taker is None:
        return machine.receives.get(request.target, 1) > 0
    taker = machine.takers.get(request.taker)
    return taker is not None and bool(taker.posted)


def _second(request: Request) -> Sequence[Event]:
    """The second deliveries that may happen: any time after the first, whatever was posted or fenced since."""
    left = request.full ^ request.again
    return run_of(request.key, Act.AGAIN, (left & -left if request.ascending else left) & request.placed)


def _may_tell(machine: Machine, request: Request) -> bool:
    covered = machine.covered(request, machine.flight.values())
    placed = all(each.reached(Stage.PLACED) for each in (request, *covered))
    return placed and all(each.told for each in covered if each.queue == request.queue)


def _complete(machine: Machine, request: Request, stage: Stage | None = None) -> bool:
    """Whether a completion (of a stage) may be written now, in the order posted."""
    if request.retired or machine.queue_pairs[request.queue].waiting[0] != request.key:
        return False
    return _open(machine, request, Stage.SOURCE) and request.reached(
        machine.completes_at(request) if stage is None else stage
    )
