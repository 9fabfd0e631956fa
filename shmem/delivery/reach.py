"""What the default context reaches besides its own puts: the work requests of its PE's queue pairs.

`quiet`, `pe_quiet` and barriers wait for all that a doorbell was rung for; `fence` orders that with what is posted
later, on whatever queue. Where a profile's fences miss the queue pairs only `pe_quiet` reaches them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .requests import Act, Event, Key, Request, Stage

if TYPE_CHECKING:
    from .machine import Machine


def missed(machine: Machine, target: int | None) -> bool:
    """Whether a quiet (of the requests to a PE) does not reach the queue pairs."""
    return machine.profile.engine_scoped and target is None


def left(machine: Machine, pe: int, target: int | None = None) -> bool:
    """Whether something that a PE has rung a doorbell for (to a PE) is not over yet."""
    return any(
        not each.reached(Stage.ANSWERED) if each.retired else not machine.queue_pairs[each.queue].rests(each.key, True)
        for each in machine.of(pe)
        if each.ring and target in (None, each.target)
    )


def ends(requests: Iterable[Request]) -> list[Event]:
    """The events without which work requests would not be over."""
    return [event for each in requests for event in (*each.events(Stage.ANSWERED), *_retired(each.key))]


def _retired(key: Key) -> list[Event]:
    return [Event(key, how, 0) for how in (Act.RETIRE, Act.UNTOLD)]


def posted(machine: Machine, pe: int, target: int | None = None) -> Iterable[Request]:
    """The work requests that a PE ever posted (to a PE)."""
    return (each for each in machine.known.values() if each.ring and each.pe == pe and target in (None, each.target))
