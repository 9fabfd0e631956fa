"""Queue pairs on `sim`: the adapter of one PE, as requests for the delivery machine.

A post, a doorbell, a fence are no choices: what they make possible is. What a program learns from a completion queue is
a look at its bytes (`delivery.completions`), so that a search tries it before and after each completion.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...delivery.completions import COUNTER, Completion, Receive, ReceiveQueue, Ring
from ...delivery.facts import Touch, completed
from ...delivery.queues import QueueState
from ...delivery.requests import Act, Event, Key, Kind, Order, Place, Request, Stage, Update
from ...errors import CompletionError, CompletionQueueOverrun, QueueStateError
from ...nic.engine import FOR_EVER, Pair, Told, Wqe
from ...nic.work import ATOMICS, SENDS, WRITES, Opcode
from ..interface import Status
from .memory import Late
from .segments import SimSegments
from .tasks import Step

if TYPE_CHECKING:
    from .fabric import SimFabric

_KINDS = {Opcode.READ: Kind.READ, Opcode.CAS: Kind.ATOMIC, Opcode.FAA: Kind.ATOMIC} | dict.fromkeys(SENDS, Kind.SEND)
_ORDERS = {"none": Order.NONE, "relax": Order.RELAX, "strong": Order.STRONG}
_RIGHT = {Kind.WRITE: "w", Kind.READ: "r", Kind.ATOMIC: "a"}


@dataclass
class Own:
    """A queue pair of this PE."""

    made: Pair
    taker: Hashable  # its receive queue
    there: Hashable  # that of its peer
    numbers: dict[Key, int]  # of requests
    buffers: dict[int, Late]  # private memory of receives
    posted: int = 0
    receives: int = 0
    told: Key | None = None  # the last failure that `shmem.quiet` has raised for
    live: bool = True  # not closed


class SimEngine(SimSegments):
    """The adapter of one PE."""

    def __init__(self, fabric: SimFabric) -> None:
        super().__init__(fabric)
        self.profile = fabric.profile
        self._own: dict[Hashable, Own] = {}
        for name, taker in self._machine.takers.items():
            if isinstance(name, tuple) and name[:2] == ("rq", self._me):  # of a life before a finalize
                taker.posted.clear()

    def end(self) -> None:
        """`finalize`: what was made here means nothing to whoever starts again."""
        self._run_out()
        self.forget()

    def _run_out(self) -> None:
        """Where no barrier reaches the queue pairs, what is still to come would otherwise not come at all, and a search
        not learn that it could have come before."""

        def left() -> bool:
            return any(self._left(pair, rung=True) for pair in self._own)

        if self.profile.engine_scoped and left():
            needs = lambda: [event for pair in self._own for event in self._ends(pair)]  # noqa: E731
            step = Step("the end of queue pairs", lambda: None, lambda: not left(), needs=needs, gives_up=True)
            self._fabric.do(step)

    # ---- queues ----

    def open_cq(self, depth: int) -> Hashable:
        """A completion queue."""
        name = "cq", self._me, len(self._machine.rings)
        self._machine.rings[name] = Ring(depth)
        self._machine.memory.spaces[name] = bytearray(COUNTER)
        return name

    def open_pair(self, pair: Pair) -> Hashable:
        """A queue pair."""
        if any(own.live and (own.made.pe, own.made.index) == (pair.pe, pair.index) for own in self._own.values()):
            raise QueueStateError(f"there is a queue pair {pair.index} to PE {pair.pe} already", pe=self._me)
        first = "qp", self._me, pair.pe, pair.index
        same = [each for each in self._machine.queue_pairs if isinstance(each, tuple) and each[:-1] == first]
        name = *first, len(same)
        self._machine.queue_pair(name, pair.send_cq, pair.depth).patient = pair.rnr_retry >= FOR_EVER
        taker, there = ("rq", self._me, pair.pe, pair.index), ("rq", pair.pe, self._me, pair.index)
        self._machine.takers[taker] = ReceiveQueue(pair.recv_cq)
        self._own[name] = Own(pair, taker, there, {}, {})
        return name

    def close_pair(self, pair: Hashable) -> bool:
        """Takes it away, if it is idle."""
        if self._state(pair).waiting:
            return False
        self._own[pair].live = False
        return True

    def _state(self, pair: Hashable) -> QueueState:
        return self._machine.queue_pairs[pair]

    def positions(self, pair: Hashable) -> tuple[int, int]:
        """Where the ring is."""
        return self._state(pair).pi, self._state(pair).ci

    # ---- post ----

    def post(self, pair: Hashable, wqe: Wqe) -> int:
        """A request for the machine."""
        fabric, own = self._fabric, self._own[pair]
        fabric.heap.follow()
        fabric.take_turn(pair, "post")
        key = self._machine.name(self._me)
        number, own.posted = own.posted, own.posted + 1
        own.numbers[key] = number
        request = self._request(key, pair, own, wqe)
        fabric.calls.begin()
        fabric.calls.sign(request, f"{wqe.opcode.name.lower()} request")
        self._machine.post(request)
        return number

    def _request(self, key: Key, pair: Hashable, own: Own, wqe: Wqe) -> Request:
        kind = _KINDS.get(wqe.opcode, Kind.WRITE)
        pe = own.made.pe
        at, bad = Place(("nowhere", pe), 0, wqe.nbytes), ""
        if wqe.remote is not None:
            at, bad = self._remote(pe, wqe.remote, _RIGHT[kind], kind is Kind.ATOMIC)
            if at.space == pe:
                self._fabric.job.segments[pe, wqe.remote.key].requests.add(key)
        more: dict[str, Any] = {}
        if wqe.notify is not None:
            word, wrong = self._remote(pe, wqe.notify, "w", True)
            bad = bad or wrong
            more |= {"word": word, "word_update": Update("set", wqe.operand, 0, 8)}
        if wqe.opcode in (Opcode.WRITE_IMM, *SENDS):
            more |= {"tells": True, "needs_receive": True, "taker": own.there, "immediate": wqe.immediate}
        if wqe.opcode in ATOMICS:
            op = "add" if wqe.opcode is Opcode.FAA else "compare_swap"
            more["update"] = Update(op, wqe.operand, wqe.compare, wqe.nbytes)
        bad = self._local_fault(wqe) or bad
        if not bad:
            more |= self._local(key, wqe)
        return Request(
            key, kind, pair, pe, at, (), ring=True, rung=False, blocks=wqe.blocks, signaled=wqe.signaled,
            fence=wqe.fence, order=_ORDERS[wqe.order], bad=bad, **more,
        )  # fmt: skip

    def _local(self, key: Key, wqe: Wqe) -> dict[str, Any]:
        """Where a request reads its source or leaves its result."""
        if wqe.data is not None:
            return {"data": wqe.data}
        if not wqe.pieces:
            return {}
        sends = wqe.opcode in (*WRITES, *SENDS)
        heap = self._fabric.heap
        first, *rest = [(heap.source if sends else heap.result)(key, *piece) for piece in wqe.pieces]
        return {"source" if sends else "result": first, "rest": tuple(rest)}

    def ring(self, pair: Hashable) -> None:
        """A doorbell."""
        self._fabric.take_turn(pair, "doorbell")
        self._fabric.in_time()
        for made in self._state(pair).ring(self._machine.flight):
            self._fabric.job.give(made)

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
        taker = self._machine.takers[own.taker]

        def touches() -> tuple[Touch, ...]:
            next_one = taker.taken + len(taker.posted)
            return (Touch(Place(("receives", own.taker), next_one, next_one + 1), True),)

        self._fabric.do(Step("post_recv", lambda: taker.posted.append(Receive(number, place)), touches=touches))
        return number

    # ---- completions ----

    def poll(self, cq: Hashable, most: int) -> list[Told]:
        """A look at the completion queue."""
        place = Place(cq, 0, COUNTER)

        def touches() -> tuple[Touch, ...]:
            return (Touch(place, self._contended(cq)),)

        seen = self._fabric.do(Step("poll_cq", lambda: self._machine.memory.read(place), touches=touches))
        found = self._take(cq, self._machine.completions.get(cq, [])[:most])
        if not found:
            self._fabric.looked([(place, seen)])
        return found

    def _contended(self, cq: Hashable) -> bool:
        """Whether it matters who takes first: the queue may overrun, or several tasks take from it."""
        ring = self._machine.rings[cq]
        coming = sum(
            self._machine.queue_pairs[each.queue].cq == cq for each in self._machine.flight.values() if each.ring
        )
        return self._fabric.crowded or ring.overrun or ring.written - ring.taken + coming > ring.depth

    def _take(self, cq: Hashable, entries: Sequence[Completion]) -> list[Told]:
        """Takes entries of a completion queue; their memory is the program's again."""
        ring, left = self._machine.rings[cq], self._machine.completions.get(cq, [])
        if ring.overrun:
            raise CompletionQueueOverrun(
                f"more completions came than the completion queue of depth {ring.depth} holds; some are lost",
                pe=self._me,
            )
        for each in entries:
            left.remove(each)
        ring.taken += len(entries)
        return [self._told(each, True) for each in entries]

    def _told(self, entry: Completion, takes: bool) -> Told:
        if entry.receive is not None:
            pair, own = self._receiver(entry)
            if takes and (late := own.buffers.pop(entry.receive, None)) is not None:
                self._fabric.heap.give_back(late, entry.nbytes if entry.status == "ok" else 0)
            return Told(pair, entry.receive, True, entry.status, entry.nbytes, entry.immediate)
        if takes:
            self._state(entry.queue).poll(entry.key)
            self._fabric.heap.hand_out(lambda request: request.queue == entry.queue and request.key <= entry.key)
        number = self._own[entry.queue].numbers[entry.key]
        return Told(entry.queue, number, False, entry.status, entry.nbytes, entry.immediate)

    def _receiver(self, entry: Completion) -> tuple[Hashable, Own]:
        """The queue pair that has taken a receive, the last of its name."""
        taker = self._machine.known[entry.key].taker
        return [(name, own) for name, own in self._own.items() if own.taker == taker][-1]

    def wait(self, cq: Hashable, n: int, timeout_s: float) -> tuple[Status, list[Told]]:
        """A step that may happen once there are so many."""
        ring, place = self._machine.rings[cq], Place(cq, 0, COUNTER)

        def entries() -> list[Completion]:
            return self._machine.completions.get(cq, [])[:n]

        def ready() -> bool:
            return ring.overrun or len(entries()) >= n

        def touches() -> tuple[Touch, ...]:
            return (Touch(place, True),) if self._contended(cq) else ()

        def needs() -> list[Event]:
            return [event for each in entries() for event in _origins(each)]

        if timeout_s <= 0 and not ready():
            return Status.TIMEOUT, []
        self._fabric.do(Step("a wait for completions", lambda: None, ready, touches, needs, takes=True))
        return Status.OK, self._take(cq, entries())

    def entries(self, cq: Hashable) -> tuple[list[Told], int]:
        """What is in the ring."""
        self._look(cq)
        ring = self._machine.rings[cq]
        return [self._told(each, False) for each in ring.last], ring.written

    def _look(self, cq: Hashable) -> None:
        place = Place(cq, 0, COUNTER)
        self._fabric.do(Step("a look at a queue", lambda: None, touches=lambda: (Touch(place, False),)))

    def state(self, pair: Hashable) -> str:
        """What a failure, which is told in the completion queue, has made of it."""
        self._look(self._own[pair].made.send_cq)
        state = self._state(pair)
        return "error" if state.failed else "suspended" if state.stopped is not None else "ready"

    # ---- quiet, fence, reset ----

    def _left(self, pair: Hashable, rung: bool = False) -> bool:
        """Whether anything of a queue pair is still to come. rung: of what a doorbell was rung for."""
        state = self._state(pair)
        if any(key for key in state.waiting if not state.rests(key, rung)):
            return True
        return any(
            each.queue == pair and each.retired and not each.reached(Stage.ANSWERED)
            for each in self._machine.flight.values()
        )

    def _ends(self, pair: Hashable) -> list[object]:
        """The events without which a queue pair would not be done."""
        pe = self._own[pair].made.pe
        mine = [key for key in self._own[pair].numbers if self._machine.known[key].queue == pair]
        return [
            *completed(self._machine, self._me, pair, pe),
            *(Event(key, how, 0) for key in mine for how in (Act.RETIRE, Act.UNTOLD)),
        ]

    def drain(self, pair: Hashable, timeout_s: float) -> tuple[Status, list[Told]]:
        """A step that may happen once all is over."""
        if timeout_s <= 0 and self._left(pair):
            return Status.TIMEOUT, []
        if self._fabric.crowded or self._left(pair):
            step = Step(
                "quiet of a queue pair", lambda: None, lambda: not self._left(pair), needs=lambda: self._ends(pair)
            )
            self._fabric.do(step)
        cq = self._own[pair].made.send_cq
        entries = [
            each for each in self._machine.completions.get(cq, []) if each.receive is None and each.queue == pair
        ]
        told = self._take(cq, entries)
        if own := list(self._own[pair].numbers):  # those without a completion as well
            self._state(pair).poll(own[-1])
            self._fabric.heap.hand_out(lambda request: request.queue == pair)
        self._fabric.acquire()
        return Status.OK, told

    def settle(self, pes: Sequence[int] | None) -> None:
        """`shmem.quiet` of the default context: waits for what was rung on all queue pairs (to some PEs). Raises
        CompletionError once for a queue pair that has failed and whose program was not told."""
        pairs = [name for name, own in self._own.items() if pes is None or own.made.pe in pes]
        if self.profile.engine_scoped and pes is None:
            return

        def left() -> bool:
            return any(self._left(pair, rung=True) for pair in pairs)

        if left():
            needs = lambda: [event for pair in pairs for event in self._ends(pair)]  # noqa: E731
            self._fabric.do(Step("quiet of queue pairs", lambda: None, lambda: not left(), needs=needs))
        for pair in pairs:
            self._raise_failure(pair)

    def _raise_failure(self, pair: Hashable) -> None:
        own = self._own[pair]
        entries = self._machine.completions.get(own.made.send_cq, [])
        bad = [each for each in entries if each.receive is None and each.queue == pair and each.status != "ok"]
        if own.told is not None:
            bad = [each for each in bad if each.key > own.told]
        if bad:
            own.told = bad[-1].key
            number = own.numbers[bad[0].key]
            text = f"request {number} to PE {own.made.pe} ended with {bad[0].status}"
            raise CompletionError(text, wr_id=number, status=bad[0].status, pe=own.made.pe)

    def fence(self) -> None:
        """`shmem.fence` of the default context reaches what was posted here."""
        for pair in self._own:
            self._machine.fence(self._me, pair)

    def reset(self, pair: Hashable, timeout_s: float) -> Status:
        """Drops what will not move any more, once the rest has ended."""
        state = self._state(pair)

        def moving() -> bool:
            return any(not state.rests(key, True) for key in state.waiting)

        if moving():
            step = Step("reset", lambda: None, lambda: not moving(), needs=lambda: self._ends(pair))
            self._fabric.do(step)
        for key in state.waiting:
            self._machine.flight.pop(key, None)
        state.reset()
        return Status.OK


def _origins(entry: Completion) -> list[Event]:
    """The events that may have written an entry."""
    acts = (Act.RETIRE, Act.UNTOLD) if entry.receive is None else (Act.RECEIVE, Act.ACCEPT)
    return [Event(entry.key, act, 0) for act in acts]
