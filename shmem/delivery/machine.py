"""The state machine of delivery: which events may happen now, and what each does.

A `Machine` is the memory of a job with everything in flight. `post` puts a request in flight, `enabled` lists the
events that may happen next, `fire` makes one of them happen. Who chooses between them (a search, a seeded generator, a
reader) is no affair of this module; nor is what a program does, beyond `load` and `store`, which are its plain accesses
to symmetric memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from ..errors import ArgumentError
from .admission import admit
from .ahead import next_events
from .atomics import updated
from .completions import COUNTER, Completion, ReceiveQueue, Ring
from .memory import Memory
from .moves import joined, ranges_of
from .profiles import Profile
from .queues import QueueState
from .receiving import accept, flush, give_up
from .requests import BELLS, BESIDE, FAULTS, Act, Event, Key, Kind, Place, Request, Stage
from .tables import EFFECTS, Rules
from .tags import Call, Tags
from .views import Views, shows

OK = "ok"


def _overlay(data: bytearray, place: Place, request: Request) -> None:
    """Lays what a request brings over the bytes of a place, where they overlap."""
    lo, hi = max(place.lo, request.at.lo), min(place.hi, request.at.hi)
    if lo < hi:
        data[lo - place.lo : hi - place.lo] = request.data[lo - request.at.lo : hi - request.at.lo]


class Machine:
    """Memory and what is in flight, under a profile."""

    tags: Tags | None = None  # who wrote the bytes, where somebody may ask
    watched = False  # a fetching atomic sees who made the value: races are judged

    def __init__(self, profile: Profile, memory: Memory) -> None:
        if (profile.repeat or profile.lost_ack) and profile.program_order:
            raise ArgumentError(f"profile {profile.name}: an ordered machine loses nothing, and delivers nothing twice")
        if profile.reader == "lazy" and profile.program_order:
            raise ArgumentError(f"profile {profile.name}: on an ordered, coherent machine what is placed is visible")
        self.profile = profile
        self.rules = Rules(profile)
        self.views = Views(memory) if profile.reader == "lazy" else None
        self.memory = memory
        self.flight: dict[Key, Request] = {}  # in the order posted
        self.posted: dict[int, int] = {}  # requests by PE
        self.completions: dict[Hashable, list[Completion]] = {}  # by completion queue
        self.queue_pairs: dict[Hashable, QueueState] = {}
        self.rings: dict[Hashable, Ring] = {}  # completion queues that have an end
        self.takers: dict[Hashable, ReceiveQueue] = {}  # receive queues with buffers
        self.receives: dict[int, int] = {}  # receives without, by PE; a PE that is missing has enough
        self.received: dict[int, list[Completion]] = {}
        self.answers: dict[Key, bytes] = {}  # results that a program waits for
        self.failed: dict[Key, Event] = {}  # requests that failed or were flushed, and the events that ended them
        self.known: dict[Key, Request] = {}  # all that was ever posted: what of it never changes
        self.ahead: dict[Key, Sequence[Event]] = {}  # the next events of requests that wait for nobody
        self.behind: dict[tuple[int, int], list[Key]] = {}  # by PE and memory: what a fence has put before later stores
        self.forwarding = profile.program_order or profile.stores != "coherent"

    # ---- what programs do ----

    def load(self, pe: int, place: Place) -> bytes:
        """What a plain load of a PE gives of symmetric memory: its own stores are always there."""
        return self.look(pe, self.plain(pe, place))

    def plain(self, pe: int, place: Place) -> Place:
        """What a plain load of a PE reads: the memory, or the PE's view of it."""
        lazy = self.views is not None and place.space == pe
        return Place(("view", pe), place.lo, place.hi) if lazy else place

    def look(self, pe: int, place: Place) -> bytes:
        """What is in memory, or in a PE's own view of it, with the stores of that PE that are still to be placed."""
        if self.views is None and not self.forwarding:
            return self.memory.read(place)
        if place.space == ("view", pe):
            assert self.views is not None
            place = Place(pe, place.lo, place.hi)
            data = bytearray(self.views.read(place))
        else:
            data = bytearray(self.memory.read(place))
        for request in self.of(pe):
            if request.target == place.space and self.forwards(request):
                _overlay(data, place, request)
        return bytes(data)

    def forwards(self, request: Request) -> bool:
        """Whether its PE already sees what a request has yet to place."""
        mine = request.kind is Kind.STORE or (self.profile.program_order and request.kind is Kind.WRITE)
        return mine and request.read and not request.bad and not request.reached(Stage.PLACED)

    def queue_pair(self, name: Hashable, cq: Hashable, depth: int) -> QueueState:
        """The queue pair of a name, a new one if there is none; depth: of that, in blocks."""
        if name not in self.queue_pairs:
            profile = self.profile
            self.queue_pairs[name] = QueueState(cq, depth, on_error=profile.on_error, lossy=profile.lost_doorbell)
        return self.queue_pairs[name]

    def store(self, pe: int, place: Place, data: bytes, call: Call | None = None) -> None:
        """A plain store of a PE to symmetric memory; call: what it is part of, where there are tags."""
        if self.profile.stores == "coherent" and (self.views is None or place.space == pe):
            self.set(place, data)
            if self.tags is not None and call is not None:
                self.tags.own(place, call)
            return
        assert isinstance(place.space, int)  # a heap, of another PE where the store goes through `ptr`
        request = Request(self.name(pe), Kind.STORE, ("cpu", pe), place.space, place, (), data=data, call=call)
        self.post(request)
        if self.profile.stores == "coherent":
            for i in range(len(request.units)):
                self.fire(Event(request.key, Act.PLACE, i))

    def set(self, place: Place, data: bytes) -> None:
        """Changes memory so that all see it at once, the PE whose memory it is in as well."""
        if self.views is not None:
            self.views.own(place, data)
        self.memory.write(place, data)

    def name(self, pe: int) -> Key:
        """The key of the next request of a PE."""
        number = self.posted.get(pe, 0)
        self.posted[pe] = number + 1
        return pe, number

    def post(self, request: Request) -> None:
        """Puts a request in flight: finds what it has to wait for, and starts it as far as nothing can interfere."""
        profile, atomic = self.profile, request.kind is Kind.ATOMIC
        if self.tags is not None and request.call is None:
            request.call = self.tags.call(request.pe, request.kind.name.lower())
        unit = 1 << 62 if atomic else profile.unit
        pieces = (request.result, *request.rest) if request.result is not None else ()
        request.cut(unit, pieces)
        redone = profile.lost_ack and request.kind is Kind.READ  # then its units may be read in any order
        request.ascending = (request.ascending or profile.units == "ascending") and not redone
        request.read = request.source is None
        request.worded = request.word is None
        plain = request.update is None or request.update.op in ("set", "fetch") or profile.program_order
        request.split = atomic and not plain
        request.fetched = not request.split
        request.repeats = profile.repeat and request.kind is Kind.WRITE
        request.gates = tuple(
            [
                (other.key, stage, mine)
                for other in self.rules.concerning(request, self.before(request))
                for stage, mine in self.rules.between(other, request)
                if not other.reached(stage)
            ]
        )
        request.held = frozenset(mine for _, _, mine in request.gates)
        if request.ring:
            request.retired = False
            request.told = not request.tells
            request.accepted = not request.needs_receive
            self.queue_pairs[request.queue].add(request)
        self.flight[request.key] = self.known[request.key] = request
        if not request.units:  # perhaps it has nothing to do
            self._end(request)

    def before(self, request: Request) -> Iterable[Request]:
        """What is in flight that a new request may have to wait for."""
        return self.of(request.pe)

    def of(self, pe: int) -> Iterable[Request]:
        """What a PE has in flight, in the order posted."""
        return [each for each in self.flight.values() if each.key[0] == pe]

    def pending(self, pe: int, queue: Hashable | None, target: int | None = None) -> list[Request]:
        """What `unfinished` gives."""
        return list(self.unfinished(pe, queue, target))

    def unfinished(self, pe: int, queue: Hashable | None, target: int | None = None) -> Iterator[Request]:
        """What `quiet` on a queue (of the requests to `target`) waits for: what has not had its whole effect, own
        stores included. Where fences miss the queues, a quiet of all targets waits for stores only."""
        missed = self.profile.engine_scoped and target is None
        for each in self.of(pe):
            mine = not missed and each.queue == queue and target in (None, each.target)
            if (mine or each.kind is Kind.STORE) and not each.reached(Stage.ANSWERED):
                yield each

    def fence(self, pe: int, queue: Hashable, default: bool = False) -> None:
        """`shmem.fence`: what was posted on a context takes effect before what is posted from now on."""
        for request in self.of(pe):
            if request.kind is Kind.STORE or request.queue == queue or (default and request.ring):
                request.fenced = request.fenced or not self.profile.engine_scoped or request.kind is Kind.STORE
                request.spread = request.fenced and default and self._asked(request)
                keys = self.behind.setdefault((pe, request.target), [])
                if request.fenced and request.kind in EFFECTS and request.key not in keys:
                    keys.append(request.key)

    def holds_back(self, pe: int, space: int) -> bool:
        """Whether a store of a PE that takes effect at once still has to wait for what a fence has put before it."""
        flight = (self.flight.get(key) for key in self.behind.get((pe, space), ()))
        return any(each is not None and not each.reached(Stage.PLACED) for each in flight)

    def _asked(self, request: Request) -> bool:
        return not request.ring or request.key <= self.queue_pairs[request.queue].asked

    # ---- what the network does ----

    def enabled(self) -> Sequence[Event]:
        """The events that may happen next, in a fixed order."""
        ahead = self.ahead
        parts = [ahead.get(key) or next_events(self, request) for key, request in self.flight.items()]
        return joined([*self._beside(), *parts] if self.queue_pairs or self.views is not None else parts)

    def _beside(self) -> list[Sequence[Event]]:
        """What may be shown, and which doorbells may arrive."""
        shown = [] if self.views is None else [self.views.enabled()]
        return [*shown, *(queue.bell_events() for queue in self.queue_pairs.values())]

    def pends(self, event: Event) -> bool:
        """Whether there is such an event still to come, perhaps not yet possible."""
        if event.act is Act.SHOW:
            return self.views is not None and self.views.find(event) is not None
        if event.act in (Act.BELL, Act.LOSE):  # on its way, be the request flushed
            return event in self.queue_pairs[self.known[event.key].queue].bell_events()
        return event.key in self.flight

    def unseen(self, pe: int) -> bool:
        """Whether anything was placed in the memory of a PE that its plain loads may not give yet: until that is over,
        the PE can't acquire."""
        return self.views is not None and bool(self.views.unseen.get(pe))

    def busy(self, word: Place) -> bool:
        """Whether an atomic on a word has read it and not yet placed the new value."""
        return any(
            each.split and each.fetched and not each.placed
            and each.at.space == word.space and each.at.lo < word.hi and word.lo < each.at.hi
            for each in self.flight.values()
        )  # fmt: skip

    def covered(self, request: Request, among: Iterable[Request]) -> list[Request]:
        """What a receive completion covers besides its own request: requests that must be placed before it. Those of
        its queue that tell their target are told of before it, too: such a queue completes its receives in order."""
        which = self.profile.receive_covers
        return [
            each
            for each in among
            if which != "own" and each.pe == request.pe and each.key < request.key and each.kind is not Kind.READ
            and (which == "all" or each.queue == request.queue)
        ]  # fmt: skip

    def completes_at(self, request: Request) -> Stage:
        """The stage that a completion of a request tells of: no more than the profile promises."""
        if request.kind in (Kind.READ, Kind.ATOMIC):
            return Stage.ANSWERED
        return Stage.PLACED if self.profile.completion in ("placed", "visible") else Stage.SOURCE

    @staticmethod
    def executed_at(request: Request) -> Stage:
        """The stage at which the target has a request, whether or not anybody is told."""
        return Stage.PLACED if request.kind in (Kind.READ, Kind.ATOMIC) else Stage.SOURCE

    def fire(self, event: Event) -> tuple[object, ...]:
        """Makes an event happen, which must be enabled. Returns what it made possible."""
        if event.act in BESIDE:
            return (event, *self._ring(event)) if event.act in BELLS else self._show(event)
        request = self.flight[event.key]
        self.ahead.pop(event.key, None)
        _FIRE[event.act](self, request, event.unit)
        self._end(request)
        return (event,)

    def _ring(self, event: Event) -> Iterable[object]:
        queue = self.queue_pairs[self.known[event.key].queue]
        return queue.bell(self.flight, event.act is Act.LOSE)

    def _show(self, event: Event) -> tuple[object, ...]:
        assert self.views is not None
        piece = self.views.find(event)
        assert piece is not None
        self.views.show(piece)
        if self.tags is not None:
            self.tags.show(event)
        return (event,)

    def deliver(self) -> None:
        """Lets all that is in flight arrive, in the order of `enabled`, but for what may go wrong. Units of a request
        that follow one another there are placed in one go."""
        while (event := self._first()) is not None:
            request = self.flight.get(event.key)
            if self.views is not None or request is None or event.act not in _SWEEP or request.repeats or request.rest:
                self.fire(event)
                continue
            self.ahead.pop(event.key, None)
            left = request.full ^ request.placed if event.act is Act.PLACE else request.placed & ~request.landed
            for first, end in ranges_of(left):
                _SWEEP[event.act](self, request, first, end)
            self._end(request)

    def _first(self) -> Event | None:
        """The first event that may happen next and is no fault."""
        parts = chain(self._beside(), (next_events(self, request) for request in self.flight.values()))
        return next((event for part in parts for event in part if event.act not in FAULTS), None)

    def _end(self, request: Request) -> None:
        if request.keep and request.reached(Stage.ANSWERED) and request.key in self.flight:
            self.answers[request.key] = request.data
        if request.over:
            self.flight.pop(request.key, None)

    def _source(self, request: Request, unit: int) -> None:
        assert request.source is not None
        request.data = b"".join(
            self.look(request.pe, place) if place.space == request.pe else self.memory.read(place)
            for place in (request.source, *request.rest)
        )
        request.read = True

    def _place(self, request: Request, unit: int, end: int = 0) -> None:
        """Places a unit, or all up to `end`."""
        last = max(end - 1, unit)
        lo, hi = request.units[unit][0], request.units[last][1]
        there = Place(request.at.space, lo, hi)
        request.placed |= (2 << last) - (1 << unit)
        at = lo - request.at.lo
        if request.split:
            assert request.update is not None
            self._arrive(request, Act.PLACE, 0, there, updated(request.data, request.update))
        elif request.kind in (Kind.READ, Kind.ATOMIC):
            forwarded = self.profile.program_order and request.kind is Kind.READ  # all before an atomic is placed
            old = self.look(request.pe, there) if forwarded else self.memory.read(there)
            request.data = request.data.ljust(request.at.hi - request.at.lo, b"\0")
            request.data = request.data[:at] + old + request.data[at + hi - lo :]
            if request.update is not None and request.update.op != "fetch":
                self._arrive(request, Act.PLACE, unit, there, updated(old, request.update))
        elif request.kind is not Kind.SEND or request.receive is not None:
            self._arrive(request, Act.PLACE, unit, there, request.data[at : at + hi - lo])

    def _arrive(self, request: Request, act: Act, unit: int, place: Place, data: bytes) -> None:
        """Changes memory by an event of a request."""
        shown = None
        if self.views is not None and isinstance(place.space, int):
            if request.own(place):
                self.views.own(place, data)
            else:
                event = Event(request.key, act, unit)
                self.views.come(event, place, data)
                shown = shows(event)
        self.memory.write(place, data)
        if self.tags is not None:
            self.tags.arrive(place, request.call, shown)

    def _again(self, request: Request, unit: int) -> None:
        lo, hi = request.units[unit]
        data = request.data[lo - request.at.lo : hi - request.at.lo]
        self._arrive(request, Act.AGAIN, unit, Place(request.at.space, lo, hi), data)
        request.again |= 1 << unit

    def _fetch(self, request: Request, unit: int) -> None:
        request.data = self.memory.read(request.at)
        request.fetched = True

    def _word(self, request: Request, unit: int) -> None:
        assert request.word is not None
        assert request.word_update is not None
        data = updated(self.memory.read(request.word), request.word_update)
        self._arrive(request, Act.WORD, 0, request.word, data)
        request.worded = True

    def _land(self, request: Request, unit: int, end: int = 0) -> None:
        last = max(end - 1, unit)
        lo, hi = request.units[unit][0] - request.at.lo, request.units[last][1] - request.at.lo
        self._arrive(request, Act.LAND, unit, request.landing(lo, hi), request.data[lo:hi])
        request.landed |= (2 << last) - (1 << unit)

    def _receive(self, request: Request, unit: int) -> None:
        size = request.at.hi - request.at.lo
        told = Completion(OK, request.key, request.queue, size, request.immediate, request.receive)
        if request.taker is None:
            self.received.setdefault(request.target, []).append(told)
        else:
            self.tell(self.takers[request.taker].cq, told)
        request.told = True

    def _retire(self, request: Request, unit: int) -> None:
        queue = self.queue_pairs[request.queue]
        queue.retire(request)
        request.retired = True
        if request.signaled or request.bad:
            self._tell(request, request.bad or OK)
        if request.bad:
            self._failed(request)
            self.failed[request.key] = Event(request.key, Act.RETIRE, 0)
            self.flight.pop(request.key)

    def _failed(self, request: Request) -> None:
        if self.queue_pairs[request.queue].failed:
            flush(self, request.queue, request.key)

    def _tell(self, request: Request, status: str) -> None:
        told = Completion(status, request.key, request.queue, request.at.hi - request.at.lo)
        self.tell(self.queue_pairs[request.queue].cq, told)

    def tell(self, cq: Hashable, told: Completion) -> None:
        """Writes an entry of a completion queue."""
        if (ring := self.rings.get(cq)) is not None:
            room = ring.add(told)
            self.memory.write(Place(cq, 0, COUNTER), ring.counter)
            if not room:
                return
        self.completions.setdefault(cq, []).append(told)

    def _untold(self, request: Request, unit: int) -> None:
        self.queue_pairs[request.queue].untold(request, self.flight)
        request.retired = True
        self._tell(request, "retry")
        self._failed(request)
        if request.kind in (Kind.READ, Kind.ATOMIC):  # its answer does not come
            self.failed[request.key] = Event(request.key, Act.UNTOLD, 0)
            self.flight.pop(request.key)

    # ---- for a search ----

    def copy(self) -> Machine:
        """The same state, apart."""
        other = object.__new__(type(self))
        other.profile, other.rules, other.memory = self.profile, self.rules, self.memory.copy()
        other.views = None if self.views is None else self.views.copy(other.memory)
        other.behind = {where: list(keys) for where, keys in self.behind.items()}
        other.flight = {key: request.copy() for key, request in self.flight.items()}
        other.posted = dict(self.posted)
        other.completions = {cq: list(told) for cq, told in self.completions.items()}
        other.queue_pairs = {name: queue.copy() for name, queue in self.queue_pairs.items()}
        other.rings = {cq: replace(ring) for cq, ring in self.rings.items()}
        other.takers = {name: taker.copy() for name, taker in self.takers.items()}
        other.receives = dict(self.receives)
        other.received = {pe: list(told) for pe, told in self.received.items()}
        other.ahead, other.forwarding = dict(self.ahead), self.forwarding
        other.answers, other.failed = dict(self.answers), dict(self.failed)
        other.known = {**self.known, **other.flight}
        return other

    def digest(self) -> tuple[object, ...]:
        """All that can still matter, as a hashable value."""
        return (
            self.memory.digest(),
            tuple(sorted((key, each.digest()) for key, each in self.flight.items())),
            tuple((cq, tuple(told)) for cq, told in sorted(self.completions.items(), key=repr)),
            tuple((name, queue.digest()) for name, queue in self.queue_pairs.items()),
            tuple((cq, ring.digest()) for cq, ring in self.rings.items()),
            tuple((name, taker.digest()) for name, taker in self.takers.items()),
            tuple(sorted(self.receives.items())),
            tuple((pe, tuple(told)) for pe, told in sorted(self.received.items())),
            tuple(sorted(self.answers.items())),
            () if self.views is None else self.views.digest(),
            () if self.tags is None else self.tags.digest(),
        )


_FIRE: dict[Act, Callable[[Machine, Request, int], None]] = {
    Act.ACCEPT: accept,
    Act.SOURCE: Machine._source,
    Act.FETCH: Machine._fetch,
    Act.PLACE: Machine._place,
    Act.WORD: Machine._word,
    Act.LAND: Machine._land,
    Act.RECEIVE: Machine._receive,
    Act.RETIRE: Machine._retire,
    Act.GIVE_UP: give_up,
    Act.AGAIN: Machine._again,
    Act.UNTOLD: Machine._untold,
    Act.ADMIT: admit,
}
_SWEEP: dict[Act, Callable[[Machine, Request, int, int], None]] = {Act.PLACE: Machine._place, Act.LAND: Machine._land}
