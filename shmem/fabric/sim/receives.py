"""Receives of queue pairs on `sim`: buffers for what other PEs send. They go with their queue pair."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...delivery import receiving
from ...delivery.completions import COUNTER, Completion, Receive, ReceiveQueue
from ...delivery.facts import Touch
from ...delivery.requests import Act, Event, Key, Place
from ...errors import QueueStateError
from ...nic.engine import Pair, Told
from .memory import Late
from .segments import SimSegments
from .tasks import Step

if TYPE_CHECKING:
    from .fabric import SimFabric


@dataclass
class Own:
    """A queue pair of this PE."""

    made: Pair
    taker: Hashable  # its receive queue
    there: Hashable  # that of its peer
    first: int  # of its receives: how many that queue had before, in the hands of earlier queue pairs
    numbers: dict[Key, int]  # of requests
    buffers: dict[int, Late]  # private memory of receives
    posted: int = 0
    receives: int = 0
    told: Key | None = None  # the last failure that a quiet has raised for
    live: bool = True  # not closed


class SimReceives(SimSegments):
    """The receives of one PE."""

    def __init__(self, fabric: SimFabric) -> None:
        super().__init__(fabric)
        self.told = None if fabric.job.observed is None else fabric.job.observed.pairs  # a race detector
        self._own: dict[Hashable, Own] = {}
        for name, taker in self._machine.takers.items():
            if isinstance(name, tuple) and name[:2] == ("rq", self._me):  # of a life before a finalize
                taker.drop()

    def _open_receives(self, taker: Hashable, cq: Hashable) -> int:
        """An empty receive queue, for a new queue pair. Returns how many receives the one before had."""
        before = self._machine.takers.get(taker)
        self._machine.takers[taker] = made = ReceiveQueue(cq)
        made.taken = 0 if before is None else before.taken
        return made.taken

    def post_receive(self, pair: Hashable, address: int, nbytes: int) -> int:
        """A buffer for what comes."""
        own = self._own[pair]
        if nbytes and not self._known(address, nbytes):
            raise QueueStateError("a receive buffer must be symmetric or registered memory", pe=self._me)
        number, own.receives = own.receives, own.receives + 1
        place = Place(("nowhere", self._me), 0, 0)
        if nbytes:
            late = self._fabric.heap.buffer(address, nbytes)
            place = late.place
            if not isinstance(place.space, int):
                own.buffers[number] = late
        machine, taker, receive = self._machine, self._machine.takers[own.taker], Receive(own.first + number, place)

        def touches() -> tuple[Touch, ...]:
            mine = Touch(receiving.places(own.taker, receive.number, receive.number + 1), True)
            return (mine,) if taker.failed is None else (mine, Touch(Place(taker.cq, 0, COUNTER), True))

        if self.told is not None:
            self.told.receive(own.taker, receive.number, (address, nbytes))
        self._fabric.do(Step("post_recv", lambda: receiving.post(machine, taker, receive), touches=touches))
        return number

    def _drop_receives(self, own: Own) -> None:
        """They go with their queue pair, or its state; the memory is the program's again."""
        taker = self._machine.takers[own.taker]
        taker.drop()
        taker.failed = None

    def _give_back_receives(self, own: Own) -> None:
        """Of those that are gone without a completion, the memory is the program's again."""
        cq = self._machine.takers[own.taker].cq
        told = {each.receive for each in self._machine.completions.get(cq, [])}
        for number in [number for number in own.buffers if own.first + number not in told]:
            self._fabric.heap.give_back(own.buffers.pop(number), 0)

    def _all_receives(self, own: Own) -> tuple[Touch, ...]:
        """What to drop the receives of a queue pair touches."""
        return (Touch(receiving.places(own.taker), True),) if own.receives else ()

    def _receiver(self, entry: Completion) -> tuple[Hashable, Own]:
        """The queue pair that a completion of a receive is of."""
        if entry.status == "flush":
            return entry.queue, self._own[entry.queue]
        taker = self._machine.known[entry.key].taker
        assert entry.receive is not None
        return [(name, own) for name, own in self._own.items() if own.taker == taker and own.first <= entry.receive][-1]

    def _told_receive(self, entry: Completion, takes: bool) -> Told:
        """A receive that is over. takes: the program takes the completion, and has its memory again."""
        assert entry.receive is not None
        pair, own = self._receiver(entry)
        number = entry.receive - own.first
        if takes and (late := own.buffers.pop(number, None)) is not None:
            self._fabric.heap.give_back(late, entry.nbytes if entry.status == "ok" else 0)
        if takes and self.told is not None:
            self.told.received(own.taker, entry)
        return Told(pair, number, True, entry.status, entry.nbytes, entry.immediate)


def origins(entry: Completion) -> list[Event]:
    """The events that may have written an entry of a completion queue."""
    of_request = entry.receive is None or entry.status == "flush"
    return [Event(entry.key, act, 0) for act in ((Act.RETIRE, Act.UNTOLD) if of_request else (Act.RECEIVE, Act.ACCEPT))]
