"""Segments that may end, and which requests are let into them.

A segment is a byte of memory under its name, 1 once it has ended. The adapter of the target looks at it once for the
whole of a request, before anything of it is placed or acknowledged; one that takes a receive is looked at when it takes
it. Requests of one queue pair are looked at in the order posted, so what comes behind one that is refused moves
nothing. A segment ends when all that was let in is placed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from .requests import Act, Event, Place, Request, Stage

if TYPE_CHECKING:
    from .machine import Machine


def state_of(segment: Hashable) -> Place:
    """The byte that tells whether a segment has ended."""
    return Place(segment, 0, 1)


def begin(machine: Machine, segment: Hashable) -> None:
    """A new segment."""
    machine.memory.spaces[segment] = bytearray(1)


def end(machine: Machine, segment: Hashable) -> None:
    """Ends one. What has not been let in will be refused."""
    machine.memory.write(state_of(segment), b"\1")


def ended(machine: Machine, request: Request) -> bool:
    """Whether a segment that a request goes to has ended."""
    return any(machine.memory.read(state_of(each)) != b"\0" for each in request.segments)


def in_use(machine: Machine, segment: Hashable) -> bool:
    """Whether something that was let in has still to be placed."""
    return any(segment in each.segments and _inside(machine, each) for each in machine.flight.values())


def _inside(machine: Machine, request: Request) -> bool:
    let_in = request.admitted and request.accepted and not request.bad
    over = request.reached(Stage.PLACED) and (not request.repeats or request.again == request.full)
    return let_in and not over and not machine.queue_pairs[request.queue].rests(request.key, False)


def admission(machine: Machine, request: Request) -> list[Event]:
    """The look at the segments of a request, where it may happen now."""
    if request.admitted and (request.accepted or not ended(machine, request)):
        return []
    if first_of(machine, request) is not request or not _there(machine, request):
        return []
    return [Event(request.key, Act.ADMIT, 0)]


def first_of(machine: Machine, request: Request) -> Request:
    """The first request of a queue pair up to this one that is still to be looked at."""
    if in_turn(machine):
        for key in machine.queue_pairs[request.queue].waiting:
            other = machine.flight[key]
            if key < request.key and not (other.admitted or other.bad):
                return other
    return request


def in_turn(machine: Machine) -> bool:
    """Whether requests are looked at in the order posted. Where a queue pair goes on after a failure, nothing is lost
    with one that is refused, and what comes in any order is looked at in any."""
    profile = machine.profile
    return profile.on_error != "go_on" or profile.requests in ("post", "program")


def waits(machine: Machine, request: Request) -> list[tuple[Request, Stage]]:
    """What others must have reached before a request has come to its target: those that take a receive have one, which
    may never be there; and on an ordered machine all that it waits for."""
    found = []
    for key, stage, _ in request.gates:
        other = machine.known.get(key)  # where there is time, what is over may be forgotten
        if other is not None and (machine.profile.program_order or other.needs_receive):
            found.append((other, stage if machine.profile.program_order else Stage.ACCEPTED))
    return found


def _there(machine: Machine, request: Request) -> bool:
    return all(other.reached(stage) or other.key not in machine.flight for other, stage in waits(machine, request))


def admit(machine: Machine, request: Request, unit: int) -> None:
    """Lets a request in, or refuses it."""
    if ended(machine, request):
        machine.queue_pairs[request.queue].doom(request, "rem_access", machine.flight)
    else:
        request.admitted = True


def before(machine: Machine, request: Request) -> list[Event]:
    """The looks at other requests that come before the one at this."""
    if not in_turn(machine):
        return []
    same = (each for each in machine.known.values() if each.segments and each.queue == request.queue)
    return [Event(each.key, Act.ADMIT, 0) for each in same if each.key < request.key]
