"""The parties of an execution: tasks, and chains of deliveries.

The delivery agent of a PE's requests to a target on a queue is one party where the profile orders all that it does.
What it does in any order falls into several chains, each of events that come one after the other in every execution. So
no two moves of a party are ever possible at once (but where a thing may go in two ways). A chain is taken up by the
first event seen that must come after its last one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from ...delivery.facts import Move, causes, gated
from ...delivery.machine import Machine
from ...delivery.requests import Act, Event, Key


class Parties:
    """Whose each move of an execution is."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._of: dict[Event, Event] = {}  # a chain has the name of its first event
        self._tails: dict[int, dict[Key, set[Event]]] = {}  # the last events of chains, by PE and request
        self._earlier: dict[Key, list[Key]] = {}  # requests of which something comes before something of this one

    def of(self, move: Move) -> Hashable:
        """A task, or a chain of deliveries."""
        if not isinstance(move, Event):
            task: Hashable = move
            return task
        if move not in self._of:
            self._of[move] = self._chain(move)
        return self._of[move]

    def _chain(self, event: Event) -> Event:
        if event.act in (Act.BELL, Act.LOSE):
            return Event(event.key, Act.BELL, event.unit)
        tails = self._tails.setdefault(event.key[0], {})
        before = next((each for each in self._before(event, tails) if each in tails.get(each.key, ())), None)
        if before is not None:
            tails[before.key].remove(before)
            if not tails[before.key]:
                del tails[before.key]
        tails.setdefault(event.key, set()).add(event)
        return event if before is None else self._of[before]

    def _before(self, event: Event, tails: dict[Key, set[Event]]) -> Iterator[Event]:
        """Events that come before this one in every execution."""
        machine = self._machine
        yield from causes(machine, event)
        request = machine.known[event.key]
        if event.key not in self._earlier:
            others = [machine.known[key] for key in tails if key < event.key]
            self._earlier[event.key] = [each.key for each in others if machine.rules.between(each, request)]
        for key in self._earlier[event.key]:
            for stage, mine in machine.rules.between(machine.known[key], request):
                if gated(event.act, mine):
                    stages = machine.known[key].events(stage)
                    yield from [each for each in tails.get(key, ()) if each in stages]
