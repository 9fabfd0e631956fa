"""The delivery machine in C, behind the interface of the Python one.

What may happen, and what it does, is decided by the engine (`shmem/_native/net.h`), on the very bytes of the memory.
What there is to see of it is mirrored into objects of the same classes after every call, for those who look at a
machine: a search, its facts, a litmus test. It is there for the comparison of the two and for litmus tests; a fabric of
processes talks to the engine itself. What the engine does not carry is refused: lazy readers, ghost tags. Time is the
affair of `timed`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from ..errors import ArgumentError
from .completions import Receive, ReceiveQueue
from .mirrored import Mirrored
from .mirrors import NativeQueue
from .queues import QueueState
from .requests import BELLS, FAULTS, Act, Event, Kind, Place, Request
from .tables import EFFECTS

ACTS = tuple(Act)


class NativeMachine(Mirrored):
    """Memory and what is in flight, under a profile: an engine in C, and its mirror.

    Raises ArgumentError for a profile that it does not carry, and for requests that mean nothing to it: atomics on what
    is no aligned word of 4 or 8 bytes, places beyond their spaces, data of another length than their place.
    """

    # ---- what programs do ----

    @property
    def receives(self) -> dict[int, int]:
        """Receives without buffers, by PE; set it as a whole."""
        return self._receives

    @receives.setter
    def receives(self, counts: dict[int, int]) -> None:
        self._receives = counts
        for pe in counts if hasattr(self, "net") else ():  # of a copy its engine knows
            self._receiver(pe)

    def queue_pair(self, name: Hashable, cq: Hashable, depth: int) -> QueueState:
        """The queue pair of a name, a new one if there is none; depth: of that, in blocks."""
        if name not in self.queue_pairs:
            assert isinstance(name, tuple)
            number = self._checked(self.lib.sm_net_queue(self.net, self._cq(cq), depth, 1))
            self._queue_ids[name] = number
            profile = self.profile
            made = NativeQueue(cq, depth, number, name[1], on_error=profile.on_error, lossy=profile.lost_doorbell)
            made.bind(self)
            self.queue_pairs[name] = made
        return self.queue_pairs[name]

    def pair(self, queue: NativeQueue) -> None:
        """A queue pair has got receives, or patience."""
        taker = self._taker(queue.receives)
        self._checked(self.lib.sm_net_pair(self.net, queue.number, taker, queue.patient), "a receive queue")

    def open_taker(self, name: Hashable, cq: Hashable, taken: int = 0) -> None:
        """A receive queue with buffers, empty; taken: receives that were taken from the one before it."""
        self.takers[name] = ReceiveQueue(cq)
        self.call("sm_net_open_taker", self._taker(name), self._cq(cq), taken)

    def post_receive(self, name: Hashable, receive: Receive) -> None:
        """Posts a buffer; it is in use until a completion tells of it."""
        place = self.ffi.new("sm_place *", self._at(receive.place))
        self.call("sm_net_receive", self._taker(name), receive.number, place)

    def drop_receives(self, name: Hashable) -> None:
        """Takes all buffers away, and a failure."""
        self.call("sm_net_drop", self._taker(name))

    def post(self, request: Request) -> None:
        """Puts a request in flight: finds what it has to wait for, and starts it as far as nothing can interfere."""
        if self.tags is not None:
            raise ArgumentError("the native machine has no ghost tags")
        if request.tells and request.taker is None and request.target not in self._receives:
            self._receiver(request.target)
        pieces = (request.result, *request.rest) if request.result is not None else ()
        request.cut(1 << 62 if request.kind is Kind.ATOMIC else self.profile.unit, pieces)
        made, alive = self._request(request)
        self._push()
        self._checked(self.lib.sm_net_post(self.net, made), f"the request {request.key}")
        del alive
        self.flight[request.key] = self.known[request.key] = request
        self.follow()

    def look(self, pe: int, place: Place) -> bytes:
        """What is in memory, with the stores of a PE that are still to be placed."""
        data = bytearray(place.hi - place.lo)
        there = self.ffi.new("sm_place *", self._at(place))
        self._checked(self.lib.sm_net_look(self.net, pe, there, self.ffi.from_buffer(data)), f"a look at {place}")
        return bytes(data)

    def unfinished(self, pe: int, queue: Hashable | None, target: int | None = None) -> Iterator[Request]:
        """What `quiet` on a queue (of the requests to `target`) waits for."""
        number = self._queue_ids.get(queue, -1)
        found = list(super().unfinished(pe, queue, target))
        counted = self.lib.sm_net_unfinished(self.net, pe, number, -1 if target is None else target)
        assert counted == len(found), f"the engine waits for {counted} requests, its mirror for {len(found)}"
        return iter(found)

    def fence(self, pe: int, queue: Hashable, default: bool = False) -> None:
        """`shmem.fence`: what was posted on a context takes effect before what is posted from now on."""
        self.call("sm_net_fence", pe, self._queue(queue), default)
        for request in self.of(pe):
            keys = self.behind.setdefault((pe, request.target), [])
            if request.fenced and request.kind in EFFECTS and request.key not in keys:
                keys.append(request.key)

    def holds_back(self, pe: int, space: int) -> bool:
        """Whether a store of a PE that takes effect at once still has to wait for what a fence has put before it."""
        return bool(self.lib.sm_net_holds_back(self.net, pe, space))

    # ---- what the network does ----

    def enabled(self) -> list[Event]:
        """The events that may happen next, in a fixed order."""
        self._push()
        n = self.lib.sm_net_enabled(self.net, 0, len(self._events), self._events)
        if n > len(self._events):
            self._events = self.ffi.new("sm_event[]", 2 * n)
            return self.enabled()
        return [Event((each.pe, each.number), ACTS[each.act], each.unit) for each in self._events[0:n]]

    def fire(self, event: Event) -> tuple[object, ...]:
        """Makes an event happen, which must be enabled. Returns what it made possible."""
        request, made = self.flight.get(event.key), self.ffi.new("sm_event *")
        made.pe, made.number, made.act, made.unit = *event.key, event.act, event.unit
        if event.act in BELLS:
            silent = list(self.queue_pairs[self.known[event.key].queue].silent)
            self.call("sm_net_fire", made)
            left = self.queue_pairs[self.known[event.key].queue].silent
            return (event, *(("rung", key) for key in silent if key not in left))
        self.call("sm_net_fire", made)
        assert request is not None
        untold = event.act is Act.UNTOLD and request.kind in (Kind.READ, Kind.ATOMIC)
        if untold or (event.act is Act.RETIRE and request.bad):
            self.failed[event.key] = Event(event.key, event.act, 0)
        return (event,)

    def deliver(self) -> None:
        """Lets all that is in flight arrive, in the order of `enabled`, but for what may go wrong."""
        while (event := next((each for each in self.enabled() if each.act not in FAULTS), None)) is not None:
            self.fire(event)

    # ---- for a search ----

    def copy(self) -> NativeMachine:
        """The same state, apart."""
        other = super().copy()
        assert isinstance(other, NativeMachine)
        for name in ("ffi", "lib", "_made", "_alive"):
            setattr(other, name, getattr(self, name))
        other._receives = dict(self._receives)
        for name in ("_space_ids", "_queue_ids", "_cq_ids", "_taker_ids", "_drained"):
            setattr(other, name, dict(getattr(self, name)))
        other._events = self.ffi.new("sm_event[]", len(self._events))
        other.net = other._owned(self.lib.sm_net_copy(self.net))
        for space, number in self._space_ids.items():
            self.lib.sm_net_move(other.net, number, other._base(space)[0])
        for queue in other.queue_pairs.values():
            assert isinstance(queue, NativeQueue)
            queue.bind(other)
        return other

    def digest(self) -> tuple[object, ...]:
        """All that can still matter, as a hashable value."""
        heaps = tuple((space, bytes(data[:])) for space, data in self.memory.spaces.items())
        return (heaps, *super().digest()[1:])
