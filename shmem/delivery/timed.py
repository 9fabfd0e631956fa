"""The delivery machine where time chooses: it finds what belongs to a PE without looking through all that is in flight.

What may happen and what it does is as in `machine`; who says when is the clock of `fabric.sim`. In a given order nobody
looks between the units of a request, so they are as large as a unit may be.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import replace

from .admission import first_of
from .ahead import next_events, receives
from .machine import Machine
from .memory import Memory
from .profiles import UNIT_MAX, Profile
from .requests import Act, Event, Key, Kind, Place, Request, Stage


class TimedMachine(Machine):
    """Memory and what is in flight. posted: told of each request once it is in flight."""

    def __init__(self, profile: Profile, memory: Memory, posted: Callable[[Request], None]) -> None:
        super().__init__(replace(profile, unit=UNIT_MAX, stripe_bytes=max(profile.stripe_bytes, UNIT_MAX)), memory)
        self._posted = posted
        self._of: dict[int, dict[Key, Request]] = {}  # in flight, by the PE that posted it
        self._to: dict[tuple[int, int], dict[Key, Request]] = {}  # and by the PE and its target

    def of(self, pe: int) -> Iterable[Request]:
        """What a PE has in flight."""
        return self._of.get(pe, {}).values()

    def before(self, request: Request) -> Iterable[Request]:
        """What is in flight that a new request may have to wait for: what goes to the same memory."""
        if self.profile.program_order:
            return self.of(request.pe)
        return self._to.get((request.pe, request.target), {}).values()

    def post(self, request: Request) -> None:
        """Puts a request in flight; the acknowledgement of what leaves the PE is still to come."""
        request.acked = request.kind is Kind.STORE
        super().post(request)
        if request.key in self.flight:
            self._of.setdefault(request.pe, {})[request.key] = request
            self._to.setdefault((request.pe, request.target), {})[request.key] = request
            self._posted(request)

    def _end(self, request: Request) -> None:
        super()._end(request)
        if request.key not in self.flight:
            self._of.get(request.pe, {}).pop(request.key, None)
            self._to.get((request.pe, request.target), {}).pop(request.key, None)
            if request.result is None and not request.ring:  # otherwise what it was is asked for later
                self.known.pop(request.key, None)

    def busy(self, word: Place) -> bool:
        """An atomic reads its word and places the new value in one go."""
        return False

    def blocker(self, request: Request, stage: Stage) -> Key | None:
        """A request that keeps this one from a stage; None if nothing does."""
        for key, reached, mine in request.gates:
            other = self.flight.get(key)
            if mine is stage and other is not None and not other.reached(reached):
                return key
        if stage is Stage.PLACED and request.segments and (first := first_of(self, request)) is not request:
            return first.key
        return None

    def advance(self, request: Request, acts: Container[Act]) -> None:
        """Makes all events of some kinds happen that a request can have now."""
        while request.key in self.flight:
            events = [event for event in next_events(self, request) if event.act in acts]
            for event in events:
                self.fire(event)
            if not events:
                break
        if self.views is not None:
            while shown := self.views.enabled():
                self.fire(shown[0])

    def has_receive(self, request: Request) -> bool:
        """Whether there is a receive for a request that needs one."""
        return request.accepted or receives(self, request)

    def answer(self, request: Request) -> None:
        """Its acknowledgement has come back."""
        request.acked = True
        self._end(request)

    def left_over(self) -> Event | None:
        """An event that may happen, but for those that are faults."""
        return next((event for event in self.enabled() if event.act not in (Act.LOSE, Act.UNTOLD)), None)
