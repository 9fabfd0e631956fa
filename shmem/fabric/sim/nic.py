"""Queue pairs on `sim`: the adapter of one PE, as requests for the delivery machine.

A post, a doorbell, a fence are no choices: what they make possible is. What a program learns from a completion queue is
a look at its bytes (`delivery.completions`), so that a search tries it before and after each completion.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ...delivery import reach, receiving
from ...delivery.completions import COUNTER, Completion, Ring
from ...delivery.facts import Touch
from ...delivery.queues import QueueState
from ...delivery.requests import Event, Key, Kind, Order, Place, Request, Stage, Update
from ...errors import CompletionError, CompletionQueueOverrun, QueueStateError, StateError
from ...nic.engine import FOR_EVER, Pair, Told, Wqe
from ...nic.work import ATOMICS, SENDS, WRITES, Opcode
from ..interface import Status
from .receives import Own, SimReceives, origins
from .tasks import Step

if TYPE_CHECKING:
    from .fabric import SimFabric

_KINDS = {Opcode.READ: Kind.READ, Opcode.CAS: Kind.ATOMIC, Opcode.FAA: Kind.ATOMIC} | dict.fromkeys(SENDS, Kind.SEND)
_ORDERS = {"none": Order.NONE, "relax": Order.RELAX, "strong": Order.STRONG}
_RIGHT = {Kind.WRITE: "w", Kind.READ: "r", Kind.ATOMIC: "a"}


class SimEngine(SimReceives):
    """The adapter of one PE."""

    rings = False

    def __init__(self, fabric: SimFabric) -> None:
        super().__init__(fabric)
        self.profile = fabric.profile

    def end(self) -> None:
        """`finalize`: what was made here means nothing to whoever starts again."""
        self._run_out()
        self.forget()

    def _run_out(self) -> None:
        """Where no barrier reaches the queue pairs, what is still to come would otherwise not come at all, and a search
        not learn that it could have come before."""

        machine, me = self._machine, self._me
        if self.profile.engine_scoped and reach.left(machine, me):
            ready, needs = lambda: not reach.left(machine, me), lambda: reach.ends(reach.posted(machine, me))
            self._fabric.do(Step("the end of queue pairs", lambda: None, ready, needs=needs, gives_up=True))

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
        taker, there = ("rq", self._me, pair.pe, pair.index), ("rq", pair.pe, self._me, pair.index)
        state = self._machine.queue_pair(name, pair.send_cq, pair.depth)
        state.patient, state.receives = pair.rnr_retry >= FOR_EVER, taker
        self._own[name] = Own(pair, taker, there, self._open_receives(taker, pair.recv_cq), {}, {})
        return name

    def close_pair(self, pair: Hashable) -> bool:
        """Takes it away, if it is idle, once what has taken one of its receives is told of."""
        own = self._own[pair]
        self._look(own.made.send_cq, marks=True)
        if self._state(pair).waiting:
            return False
        own.live = False
        self._fabric.heap.hand_out(lambda request: request.queue == pair)
        self._empty("the end of a queue pair", own, lambda: self._drop_receives(own), lambda: True, list)
        self._settled(lambda request: request.queue == pair)
        return True

    def _empty(
        self, what: str, own: Own, run: Callable[[], None], ready: Callable[[], bool],
        needs: Callable[[], Sequence[object]],
    ) -> None:  # fmt: skip
        """A step that drops what a queue pair has, once nothing of it moves."""

        def still() -> bool:
            return ready() and not receiving.in_use(self._machine, own.taker)

        if own.receives or not ready():
            self._fabric.do(Step(what, run, still, lambda: self._all_receives(own), needs))
        else:
            run()
        self._give_back_receives(own)
        if self.told is not None:
            self.told.dropped(own.taker)

    def _settled(self, mine: Callable[[Request], bool]) -> None:
        """Tells a race detector that these requests are over, as far as they are."""
        if self.told is not None:
            self.told.settled(mine)

    def _state(self, pair: Hashable) -> QueueState:
        return self._machine.queue_pairs[pair]

    def positions(self, pair: Hashable) -> tuple[int, int]:
        """Where the ring is."""
        self._fabric.job.called()
        return self._state(pair).pi, self._state(pair).ci

    # ---- post ----

    def post(self, pair: Hashable, wqe: Wqe) -> int:
        """A request for the machine."""
        fabric, own = self._fabric, self._own[pair]
        fabric.job.called()
        fabric.heap.follow()
        fabric.take_turn(pair, "post")
        key = self._machine.name(self._me)
        number, own.posted = own.posted, own.posted + 1
        own.numbers[key] = number
        request = self._request(key, pair, own, wqe)
        fabric.calls.begin()
        fabric.calls.sign(request, f"{wqe.opcode.name.lower()} request")
        self._machine.post(request)
        if self.told is not None:
            self.told.posted(request, wqe)
        return number

    def _request(self, key: Key, pair: Hashable, own: Own, wqe: Wqe) -> Request:
        kind = _KINDS.get(wqe.opcode, Kind.WRITE)
        pe = own.made.pe
        at, bad, ends = Place(("nowhere", pe), 0, wqe.nbytes), "", tuple[Hashable, ...]()
        if wqe.remote is not None:
            at, bad, ends = self._remote(pe, wqe.remote, _RIGHT[kind], kind is Kind.ATOMIC)
        more: dict[str, Any] = {}
        if wqe.notify is not None:
            word, wrong, its = self._remote(pe, wqe.notify, "w", True)
            bad, ends = bad or wrong, (*ends, *its)
            more |= {"word": word, "word_update": Update("set", wqe.operand, 0, 8)}
        if wqe.opcode in (Opcode.WRITE_IMM, *SENDS):
            more |= {"tells": True, "needs_receive": True, "taker": own.there, "immediate": wqe.immediate}
        if wqe.opcode in ATOMICS:
            op = "add" if wqe.opcode is Opcode.FAA else "compare_swap"
            more["update"] = Update(op, wqe.operand, wqe.compare, wqe.nbytes)
        bad = self._local_fault(wqe) or bad
        if not bad:
            more |= {**self._local(key, wqe), "segments": ends, "admitted": not ends or "taker" in more}
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
        self._fabric.job.called()
        self._fabric.take_turn(pair, "doorbell")
        self._fabric.in_time()
        if self.told is not None:
            self.told.rung(self._state(pair).silent)
        for made in self._state(pair).ring(self._machine.flight):
            self._fabric.job.give(made)

    def step(self, n: int) -> int:
        """Deliveries are the search's."""
        raise StateError("on the fabric sim the search chooses what arrives when: nic.step is of nic", pe=self._me)

    def local_fault(self, address: int, nbytes: int) -> int:
        """Requests are looked at one by one here."""
        raise NotImplementedError

    def post_many(self, pair: Hashable, heads: npt.NDArray[Any], pieces: npt.NDArray[Any], each: bool) -> int:
        """Requests are posted one by one here."""
        raise NotImplementedError

    def blocks(self, pair: Hashable) -> npt.NDArray[Any]:
        """There is no ring but the one that is shown."""
        raise NotImplementedError

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
        machine = self._machine
        rung = [each for each in machine.flight.values() if each.ring]
        coming = sum(machine.queue_pairs[each.queue].cq == cq for each in rung)
        coming += sum(len(taker.posted) for taker in machine.takers.values() if taker.cq == cq)
        coming += sum(each.accepted and not each.told and machine.takers[each.taker].cq == cq for each in rung)
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
            return self._told_receive(entry, takes)
        if takes:
            self._state(entry.queue).poll(entry.key)
            if self.told is not None:
                self.told.completed(entry)
            self._fabric.heap.hand_out(lambda request: request.queue == entry.queue and request.key <= entry.key)
        own = self._own[entry.queue]
        raised = own.told is not None and entry.key <= own.told
        return Told(entry.queue, own.numbers[entry.key], False, entry.status, entry.nbytes, entry.immediate, raised)

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
            return [event for each in entries() for event in origins(each)]

        if timeout_s <= 0:
            self._look(cq)
            if not ready():
                return Status.TIMEOUT, []
        self._fabric.do(Step("a wait for completions", lambda: None, ready, touches, needs, takes=True))
        return Status.OK, self._take(cq, entries())

    def outstanding(self, cq: Hashable) -> tuple[int, list[tuple[Hashable, int, bool]]]:
        """What there is, and what else may come."""
        self._look(cq, marks=True)
        mine = [(name, own) for name, own in self._own.items() if own.live and own.made.send_cq == cq]
        left = [
            (name, own.numbers[key], key <= self._state(name).asked)
            for name, own in mine
            for key in self._state(name).waiting
        ]
        return len(self._machine.completions.get(cq, [])), left

    def entries(self, cq: Hashable) -> tuple[list[Told], int]:
        """What is in the ring."""
        self._look(cq)
        ring = self._machine.rings[cq]
        return [self._told(each, False) for each in ring.last], ring.written

    def _look(self, cq: Hashable, marks: bool = False) -> None:
        """A look at a completion queue. marks: at what ends without a completion as well."""
        touch = Touch(Place(cq, 0, COUNTER), False, marks=marks)
        self._fabric.do(Step("a look at a queue", lambda: None, touches=lambda: (touch,)))

    def state(self, pair: Hashable) -> str:
        """What a failure, which is told in the completion queue, has made of it."""
        self._look(self._own[pair].made.send_cq)
        state = self._state(pair)
        suspended = state.stopped is not None and state.stopped not in state.waiting
        return "error" if state.failed else "suspended" if suspended else "ready"

    # ---- quiet, fence, reset ----

    def _left(self, pair: Hashable) -> bool:
        """Whether anything of a queue pair is still to come."""
        state = self._state(pair)
        return any(
            not (each.reached(Stage.ANSWERED) if each.retired else state.rests(each.key, False))
            for each in self._machine.of(self._me)
            if each.queue == pair
        )

    def _ends(self, pair: Hashable) -> list[Event]:
        """The events without which a queue pair would not be done."""
        mine = reach.posted(self._machine, self._me, self._own[pair].made.pe)
        return reach.ends(each for each in mine if each.queue == pair)

    def drain(self, pair: Hashable, timeout_s: float) -> tuple[Status, list[Told]]:
        """A step that may happen once all is over."""
        if timeout_s <= 0:
            self._look(self._own[pair].made.send_cq, marks=True)
            if self._left(pair):
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
        self._settled(lambda request: request.queue == pair)
        self._fabric.acquire()
        return Status.OK, told

    def settle(self, pes: Sequence[int] | None) -> None:
        """`shmem.quiet` of the default context: waits for what was rung on all queue pairs (to some PEs). Raises
        CompletionError for a failure that the program was not told of."""
        machine, me, targets = self._machine, self._me, [None] if pes is None else sorted(set(pes))
        if pes is None and reach.missed(machine, None):
            return

        def left() -> bool:
            return any(reach.left(machine, me, pe) for pe in targets)

        def needs() -> list[Event]:
            return [event for pe in targets for event in reach.ends(reach.posted(machine, me, pe))]

        if left():
            self._fabric.do(Step("quiet of queue pairs", lambda: None, lambda: not left(), needs=needs))
        self._settled(lambda request: request.pe == me and (pes is None or request.target in pes))
        for pair, own in self._own.items():
            if pes is None or own.made.pe in pes:
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

    def reset(self, pair: Hashable, timeout_s: float) -> Status:
        """Drops what will not move any more, once the rest has ended."""
        state, own = self._state(pair), self._own[pair]

        def run() -> None:
            self._drop_receives(own)
            for key in state.waiting:
                self._machine.flight.pop(key, None)
            state.reset()

        def ready() -> bool:
            return all(state.rests(key, True) for key in state.waiting)

        self._empty("reset", own, run, ready, lambda: self._ends(pair))
        self._fabric.heap.hand_out(lambda request: request.queue == pair)
        self._settled(lambda request: request.queue == pair)
        return Status.OK
