"""What is in flight where there is time: ports that take one message after the other, and when each arrives.

A request leaves its PE by a port, arrives by one, and is answered. At each of these times the events of the delivery
machine that belong there happen, as far as the machine lets them: so what is read is right under every profile, and
time only says in which order. What has to wait for another request is looked at again when that moves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...delivery.completions import COUNTER
from ...delivery.memory import Memory
from ...delivery.model import Class, Link
from ...delivery.profiles import Profile
from ...delivery.requests import Act, Key, Kind, Place, Request, Stage
from ...delivery.timed import TimedMachine

if TYPE_CHECKING:
    from .clock import Clock

_AT_TARGET = frozenset({Act.SOURCE, Act.ADMIT, Act.ACCEPT, Act.FETCH, Act.PLACE, Act.WORD, Act.RECEIVE, Act.AGAIN})
_AT_SENDER = _AT_TARGET | {Act.LAND, Act.RETIRE}
Again = Callable[[Request], None]


@dataclass
class Traffic:
    """What went over the links of a class. A get is two messages; acknowledgements and barriers are none."""

    messages: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Message:
    """A request, or its answer, on its way."""

    request: Request
    n: int  # bytes
    to: int
    kind: Class
    link: Link
    rail: int
    arrives: Again


class Network:
    """The ports of all PEs, and the delivery machine behind them."""

    def __init__(self, clock: Clock, profile: Profile) -> None:
        self.clock, self.model = clock, clock.model
        self.machine = TimedMachine(profile, Memory(), self._posted)
        # An order that a queue pair does not keep by itself is kept by completions.
        kept = profile.program_order or (profile.requests == "post" and profile.stripes == 1)
        self.fence_waits = not kept and not profile.engine_scoped
        self.traffic: dict[Class, Traffic] = {}
        self._out: dict[tuple[int, Class, int], float] = {}  # when the port of a PE, for a class, a rail, is free
        self._in: dict[tuple[int, Class, int], float] = {}
        self._queues: dict[int, dict[object, int]] = {}  # of a PE, numbered by their first use
        self._held: dict[Key, list[tuple[Again, Request]]] = {}  # until a request moves
        self._stuck: list[tuple[Again, Request]] = []  # until a doorbell rings, or a receive is posted
        self._untold: dict[int, list[Request]] = {}  # of a PE: there, but the target is told after earlier ones
        self.unforeseen = 0  # events that no time was given to

    def _posted(self, request: Request) -> None:
        if request.kind is Kind.STORE:
            self.clock.at(self.clock.mine, self._stored, request)
        else:
            self.clock.spend(self._link(request.pe, request.target)[1].overhead_us)
            self.clock.at(self.clock.mine, self._leaves, request)

    def _link(self, one: int, other: int) -> tuple[Class, Link]:
        kind = self.model.between(one, other)
        return kind, self.model.link(kind)

    def _keeps(self, request: Request, stage: Stage, again: Again) -> bool:
        """Whether another request keeps this one from a stage; it is then looked at again when that moves."""
        key = self.machine.blocker(request, stage)
        if key is not None:
            self._held.setdefault(key, []).append((again, request))
        return key is not None

    def _moved(self, request: Request) -> None:
        for again, other in self._held.pop(request.key, ()):
            self.clock.at(self.clock.now, again, other)
        self.clock.look(request.pe)

    def _stored(self, request: Request) -> None:
        if request.key in self.machine.flight and not self._keeps(request, Stage.PLACED, self._stored):
            self._takes_effect(request)
            self._moved(request)

    def _leaves(self, request: Request) -> None:
        """It is the turn of a request at its port."""
        if not self._is_asked_for(request):
            self._stuck.append((self._leaves, request))
            return
        if self._keeps(request, Stage.SOURCE, self._leaves) or self._waits_elsewhere(request):
            return
        n = 0 if request.kind is Kind.READ else request.at.hi - request.at.lo
        if request.word is not None:
            n += request.word.hi - request.word.lo
        self._send(request, n, request.pe, request.target, self._arrives)

    def _is_asked_for(self, request: Request) -> bool:
        """Whether the adapter looks at it: its doorbell has come, or a failure before it flushes it."""
        return request.rung or (bool(request.bad) and self.machine.queue_pairs[request.queue].failed)

    def _waits_elsewhere(self, request: Request) -> bool:
        """What another queue pair has to have done first is waited for at the sender."""
        for key, _, _ in request.gates:
            other = self.machine.flight.get(key)
            if other is not None and other.stripe != request.stripe:
                self._held.setdefault(key, []).append((self._leaves, request))
                return True
        return False

    def _send(self, request: Request, n: int, of: int, to: int, arrives: Again) -> None:
        kind, link = self._link(of, to)
        queues = self._queues.setdefault(request.pe, {})
        rail = (queues.setdefault(request.queue, len(queues)) + request.stripe) % link.rails
        traffic = self.traffic.setdefault(kind, Traffic())
        traffic.messages += 1
        traffic.bytes += n
        start = max(self.clock.now, self._out.get((of, kind, rail), 0.0))
        self._out[of, kind, rail] = start + link.bytes_us(n) + link.gap_us
        message = Message(request, n, to, kind, link, rail, arrives)
        if start > self.clock.now:
            self.clock.at(start, self._flies, message)
        else:
            self._flies(message)

    def _flies(self, message: Message) -> None:
        """The first byte leaves. Those of one class are under way equally long: here the order of arrival is known."""
        link, port, n = message.link, (message.to, message.kind, message.rail), message.n
        if not message.request.read:
            self.clock.at(self.clock.now + link.bytes_us(n), self._reads, message.request)
        last = max(self.clock.now + link.latency_us, self._in.get(port, 0.0)) + link.bytes_us(n)
        self._in[port] = last + link.gap_us
        self.clock.at(last, message.arrives, message.request)

    def _reads(self, request: Request) -> None:
        self.machine.advance(request, (Act.SOURCE,))
        self._moved(request)

    def _arrives(self, request: Request) -> None:
        if self._keeps(request, Stage.PLACED, self._arrives):
            return
        self._takes_effect(request)
        if not (request.accepted or request.bad):
            self._stuck.append((self._arrives, request))
            return
        self._moved(request)
        if request.kind is Kind.READ or request.result is not None or request.keep:
            self._send(request, request.at.hi - request.at.lo, request.target, request.pe, self._answered)
        else:
            link = self._link(request.target, request.pe)[1]
            self.clock.at(self.clock.now + link.latency_us, self._answered, request)

    def _takes_effect(self, request: Request) -> None:
        self.machine.advance(request, _AT_TARGET)
        if request.kind is not Kind.READ:
            self.clock.wrote(request.at)
        if request.word is not None:
            self.clock.wrote(request.word)
        if request.tells:
            self._untold.setdefault(request.pe, []).append(request)
        if request.pe in self._untold:
            self._tell(request.pe)

    def _tell(self, pe: int) -> None:
        for request in self._untold.pop(pe):
            self.machine.advance(request, (Act.RECEIVE,))
            if not request.told:
                self._untold.setdefault(pe, []).append(request)
            self.clock.look(request.target)
            if (taker := self.machine.takers.get(request.taker)) is not None:
                self.clock.wrote(Place(taker.cq, 0, COUNTER))

    def _answered(self, request: Request) -> None:
        if self._keeps(request, Stage.ANSWERED, self._answered):
            return
        if request.result is not None or request.ring:
            self.machine.advance(request, _AT_SENDER)
        self.machine.answer(request)
        if request.result is not None:
            self.clock.wrote(request.result)
        if request.ring:
            self._retire(request.queue)
        self._moved(request)

    # ---- queue pairs ----

    def _retire(self, name: object) -> None:
        """Completes in order what was held up by an earlier one."""
        queue, flight = self.machine.queue_pairs[name], self.machine.flight
        while queue.waiting and (first := flight[queue.waiting[0]]) and (first.acked or first.bad):
            self.machine.advance(first, (Act.RETIRE,))
            if queue.waiting[:1] == [first.key]:
                break
            self._moved(first)
        self.clock.wrote(Place(queue.cq, 0, COUNTER))
        if (taker := self.machine.takers.get(queue.receives)) is not None:  # they may be flushed
            self.clock.wrote(Place(taker.cq, 0, COUNTER))

    def went_on(self) -> None:
        """A program has made a step: doorbells arrive, and what had to wait for one or for a receive is looked at."""
        if not (self._stuck or self.machine.queue_pairs):
            return
        for queue in self.machine.queue_pairs.values():
            while event := next((each for each in queue.bell_events() if each.act is Act.BELL), None):
                self.machine.fire(event)
        stuck, self._stuck = self._stuck, []
        for again, request in stuck:
            able = self._is_asked_for(request) if again == self._leaves else self.machine.has_receive(request)
            if not able:
                self._stuck.append((again, request))
            else:
                self.clock.at(self.clock.now, again, request)

    def moves_all_the_same(self) -> bool:
        """Nothing is due: a request without a receive gives up, or what no time was given to happens; whether there was
        anything."""
        if (event := self.machine.left_over()) is None:
            return False
        request = self.machine.known.get(event.key)
        self.machine.fire(event)
        if event.act is Act.GIVE_UP and request is not None:
            self._retire(request.queue)
        else:
            self.unforeseen += 1
        if request is not None:
            self._moved(request)
        return True
