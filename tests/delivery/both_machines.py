"""Random programs of requests, run step by step by the Python machine and the native one.

A program posts at most six requests of three PEs, in any of the ways that contexts and queue pairs have, and does what
changes what they wait for: fences, doorbells, receives, segments that end, completions that are taken. Between its
steps whatever may happen next does, by one list of choices for both machines.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shmem.delivery import admission, reach, receiving
from shmem.delivery.completions import COUNTER, Receive, ReceiveQueue, Ring
from shmem.delivery.machine import Machine
from shmem.delivery.memory import Memory
from shmem.delivery.native import NativeMachine
from shmem.delivery.profiles import NAMED, Profile, varied
from shmem.delivery.requests import Event, Key, Kind, Order, Place, Request, Update

PES = 3
HEAP = 64
REQUESTS = 6
OPS = ("set", "swap", "add", "fetch", "compare_swap", "and", "or", "xor")
PROFILES: tuple[Profile, ...] = (
    *NAMED.values(),
    varied("openshmem", unit=8), varied("rc_strict", unit=4, units="ascending"), varied("udma", repeat=True),
    varied("rc_relaxed", lost_ack=True), varied("rc_strict", lost_ack=True, unit=4),
    varied("udma", lost_doorbell=True), varied("udma", on_error="suspend"), varied("rc_strict", on_error="go_on"),
    varied("srd", on_error="go_on", unit=2),
    replace(NAMED["rc_strict"], name="rc_strict(fences all)", fence_flag=frozenset({"read", "atomic", "write"})),
    varied("udma", repeat=True, units="ascending"), varied("rc_strict", stores="delayed"),
    varied("tso", unit=4, on_error="suspend"), varied("rc_relaxed", receive_covers="all", lost_doorbell=True),
)  # fmt: skip


def memory() -> Memory:
    """A heap of every PE, private memory, and the counters of completion queues."""
    made = Memory()
    for pe in range(PES):
        made.spaces[pe] = bytearray(range(pe, pe + HEAP))
        made.spaces["local", pe] = bytearray(range(100 + pe, 100 + pe + HEAP))
        made.spaces["nowhere", pe] = bytearray()
        made.spaces["cq", pe] = bytearray(COUNTER)
    return made


class Both:
    """The two machines."""

    def __init__(self, profile: Profile, depth: int = 0) -> None:
        self.python, self.native = Machine(profile, memory()), NativeMachine(profile, memory())
        for machine in (self.python, self.native):
            for pe in range(PES):
                if depth:
                    machine.rings["cq", pe] = Ring(depth)
                for number in range(2):
                    admission.begin(machine, ("segment", pe, number))

    def do(self, act: Callable[[Machine], Any]) -> Any:
        """Does a thing to both; what it gives is the same."""
        one, other = act(self.python), act(self.native)
        assert one == other
        return one

    def check(self) -> list[Event]:
        """Compares all there is to see of the two. Returns what may happen next."""
        events = list(self.python.enabled())
        assert self.native.enabled() == events
        for space, data in self.python.memory.spaces.items():
            assert self.native.memory.spaces[space] == data, space
        for one, other in zip(self.python.digest()[1:], self.native.digest()[1:], strict=True):
            assert one == other
        for pe in range(PES):
            for other in range(PES):
                assert self.python.holds_back(pe, other) == self.native.holds_back(pe, other)
                left = self.native.lib.sm_net_left(self.native.net, pe, other)
                assert reach.left(self.python, pe, other) == bool(left)
            assert reach.left(self.python, pe) == bool(self.native.lib.sm_net_left(self.native.net, pe, -1))
            self.native.pending(pe, ("ctx", pe, 0))
            for space in (0, 1):
                self.do(lambda machine, pe=pe, space=space: machine.look(pe, Place(space, 3, 30)))
        return events

    def copy(self) -> Both:
        """The same state, apart."""
        other = Both.__new__(Both)
        other.python, other.native = self.python.copy(), self.native.copy()
        return other


class Program:
    """A random program in the middle of being run."""

    def __init__(self, seed: object, profile: Profile | None = None) -> None:
        self.rng = rng = random.Random(f"native {seed}")
        self.profile = profile or rng.choice(PROFILES)
        self.both = Both(self.profile, rng.choice([0, 0, 1, 4]))
        self.posted = 0
        self.receives: Counter[Any] = Counter()
        self.seen: set[object] = set()  # kinds of events, and gates by the kinds of the two
        if rng.random() < 0.3:
            self.both.do(lambda machine: setattr(machine, "receives", {0: 1, 1: 0}))
        self.names = rng.sample(sorted(DO), 8)
        self.pe = rng.choice([None, 0])  # most programs are of one PE: its requests wait for each other

    # ---- requests ----

    def place(self, size: int, space: Any, aligned: int = 1) -> Place:
        """A random place."""
        lo = self.rng.randrange((HEAP - size) // aligned + 1) // 2 * aligned  # close together
        return Place(space, lo, lo + size)

    def update(self, width: int) -> Update:
        """A random atomic operation; a comparison that may hold."""
        word = int.from_bytes(bytes(range(8))[:width], "little")
        return Update(self.rng.choice(OPS), self.rng.randrange(1 << 8 * width), self.rng.choice([0, word]), width)

    def post(self, kind: Kind, pe: int, **more: Any) -> None:
        """Posts a request, one of its own on each machine."""
        ring = more.get("ring", False)
        key = self.both.do(lambda machine: machine.name(pe))
        self.posted += 1
        if ring:
            queue, blocks = more["queue"], more["blocks"]
            self.both.do(lambda machine: machine.queue_pair(queue, ("cq", pe), 6).receives)
            if not self.both.do(lambda machine: machine.queue_pairs[queue].room(blocks)):
                return

        def made() -> Request:
            given = {name: value for name, value in more.items() if name not in ("queue", "target", "at")}
            return Request(key, kind, more["queue"], more["target"], more["at"], (), **given)

        self.both.do(lambda machine: machine.post(made()))
        self.look_at(key)

    def look_at(self, key: Key) -> None:
        """Notes what a new request waits for."""
        known = self.both.native.known
        self.seen.update((known[other].kind, known[key].kind, stage, mine) for other, stage, mine in known[key].gates)

    def base(self, size: int, aligned: int = 1) -> dict[str, Any]:
        """Who posts, on which queue, to whom."""
        rng = self.rng
        pe = rng.randrange(PES) if self.pe is None else self.pe
        target = rng.choice([1, 1, 0, 2])
        return {"pe": pe, "target": target, "at": self.place(size, target, aligned)}

    def context(self, size: int, aligned: int = 1) -> dict[str, Any]:
        """A request of a context."""
        more = self.base(size, aligned)
        return {**more, "queue": ("ctx", more["pe"], self.rng.choice([0, 0, 1])), "stripe": self.rng.choice([0, 0, 1])}

    def pair(self, size: int, aligned: int = 1) -> dict[str, Any]:
        """A request of a queue pair."""
        rng, more = self.rng, self.base(size, aligned)
        segments = tuple(("segment", more["target"], rng.randrange(2)) for _ in range(rng.choice([0, 0, 1, 2])))
        return {
            **more, "queue": ("qp", more["pe"], more["target"], rng.choice([0, 0, 1])), "ring": True,
            "rung": rng.random() < 0.2, "signaled": rng.random() < 0.7, "fence": rng.random() < 0.4,
            "order": rng.choice(list(Order)), "blocks": rng.choice([1, 1, 2]), "segments": segments,
            "admitted": not segments, "bad": "rem_access" if rng.random() < 0.1 else "",
        }  # fmt: skip

    def payload(self, more: dict[str, Any]) -> dict[str, Any]:
        """What a request brings: data, or memory of its PE that is read late, in one place or several."""
        rng, size = self.rng, more["at"].hi - more["at"].lo
        if rng.random() < 0.5:
            return {**more, "data": rng.randbytes(size)}
        return {**more, **self.pieces("source", size, more["pe"])}

    def pieces(self, name: str, size: int, pe: int) -> dict[str, Any]:
        """Memory of a PE, private or not."""
        space = self.rng.choice([("local", pe), pe])
        first = size if self.rng.random() < 0.7 else self.rng.randrange(size + 1)
        sizes = [first] if first == size else [first, (size - first) // 2, size - first - (size - first) // 2]
        found = [self.place(each, space) for each in sizes]
        return {name: found[0], "rest": tuple(found[1:])}

    def word(self, more: dict[str, Any]) -> dict[str, Any]:
        """A flag that follows the data, or none."""
        if self.rng.random() < 0.6:
            return more
        update = Update(self.rng.choice(["set", "add"]), self.rng.randrange(1 << 64), 0, 8)
        return {**more, "word": self.place(8, more["target"], 8), "word_update": update}

    def size(self) -> int:
        """Bytes of a transfer."""
        return self.rng.choice([0, 1, 4, 8, 8, 13, 20])

    # ---- the steps of a program ----

    def do_put(self) -> None:
        more = self.word(self.payload(self.context(self.size())))
        first = (more["pe"], 0) if self.rng.random() < 0.3 else None
        self.post(Kind.WRITE, put=first, ascending=self.rng.random() < 0.3, **more)

    def do_get(self) -> None:
        more = self.context(size := self.size())
        kept = {"keep": True} if self.rng.random() < 0.5 else self.pieces("result", size, more["pe"])
        self.post(Kind.READ, **more, **kept)

    def do_atomic(self) -> None:
        width = self.rng.choice([4, 8])
        more = self.context(width, 8)
        kept: dict[str, Any] = self.rng.choice([{}, {"keep": True}, {"result": Place(("local", more["pe"]), 0, width)}])
        self.post(Kind.ATOMIC, update=self.update(width), **more, **kept)

    def do_store(self) -> None:
        more = self.base(self.rng.choice([1, 8, 8]), 4)
        data = self.rng.randbytes(more["at"].hi - more["at"].lo)
        self.posted += 1
        if not self.both.do(lambda machine: machine.holds_back(more["pe"], more["target"])):
            self.both.do(lambda machine: machine.store(more["pe"], more["at"], data))
            if self.both.python.forwarding:
                self.look_at((more["pe"], self.both.python.posted[more["pe"]] - 1))

    def do_write_request(self) -> None:
        self.post(Kind.WRITE, **self.word(self.payload(self.pair(self.size()))))

    def do_read_request(self) -> None:
        more = self.pair(size := self.size())
        self.post(Kind.READ, **more, **self.pieces("result", size, more["pe"]))

    def do_atomic_request(self) -> None:
        width = self.rng.choice([4, 8])
        more = self.pair(width, 8)
        self.post(Kind.ATOMIC, update=self.update(width), result=Place(("local", more["pe"]), 8, 8 + width), **more)

    def do_tell(self) -> None:
        """WRITE_IMM or SEND."""
        size, rng = self.rng.choice([0, 4, 8]), self.rng
        more = self.payload(self.pair(size))
        taker = rng.choice([None, ("rq", more["target"], more["pe"])])
        if send := rng.random() < 0.5:
            more["at"] = Place(("nowhere", more["target"]), 0, size if taker else 0)
            more["segments"], more["admitted"] = (), True
            if not taker:
                more |= {"data": b"", "source": None, "rest": ()}
        if taker:
            more["admitted"] = True
        self.post(
            Kind.SEND if send else Kind.WRITE, tells=True, needs_receive=True, taker=taker,
            immediate=rng.choice([None, 5]), **more,
        )  # fmt: skip

    def do_fence(self) -> None:
        pe, default = self.rng.randrange(PES) if self.pe is None else self.pe, self.rng.random() < 0.7
        queue = ("ctx", pe, 0 if default else 1)
        self.both.do(lambda machine: machine.fence(pe, queue, default))

    def do_doorbell(self) -> None:
        if names := list(self.both.python.queue_pairs):
            name = self.rng.choice(names)
            self.both.do(lambda machine: machine.queue_pairs[name].ring(machine.flight))

    do_doorbell_too = do_doorbell_again = do_doorbell

    def do_receive(self) -> None:
        """Posts a receive, on a queue that may be new."""
        rng = self.rng
        pe, sender = rng.choice([(1, 0), (1, 0), (0, 0), (2, 0), (0, 1)])
        name, number = ("rq", pe, sender), self.receives[pe, sender]
        self.receives[pe, sender] += 1
        place = self.place(rng.choice([0, 8, 8]), rng.choice([pe, ("local", pe)]))
        if number == 0:
            self.both.do(lambda machine: opened(machine, name, ("cq", pe)))
        if (qp := self.rng.choice([None, *self.both.python.queue_pairs])) is not None:
            self.both.do(lambda machine: paired(machine, qp, name, number % 2 == 1))
        self.both.do(lambda machine: posted(machine, name, Receive(number, place)))

    def do_drop(self) -> None:
        """Takes receives away, or resets a queue pair."""
        if takers := list(self.both.python.takers):
            name = self.rng.choice(takers)
            self.both.do(lambda machine: dropped(machine, name))
        elif pairs := list(self.both.python.queue_pairs):
            qp = self.rng.choice(pairs)
            self.both.do(lambda machine: reset(machine, qp))

    def do_end_segment(self) -> None:
        name = "segment", self.rng.choice([1, 1, 0]), self.rng.randrange(2)
        number = self.both.native._space(name)
        used = admission.in_use(self.both.python, name)
        assert used == bool(self.both.native.lib.sm_net_segment_used(self.both.native.net, number))
        if not used:
            self.both.do(lambda machine: admission.end(machine, name))

    def do_poll(self) -> None:
        """Takes completions."""
        for pe in range(PES):
            self.both.do(lambda machine, pe=pe: polled(machine, ("cq", pe)))

    def do_local(self) -> None:
        """Changes memory that is sent, or read."""
        data = self.rng.randbytes(8)
        self.both.do(lambda machine: machine.memory.write(Place(("local", 0), 8, 16), data))

    def run(self, steps: int = 400) -> None:
        """All of it. Copies go on where the originals were."""
        for _ in range(steps):
            events = self.both.check()
            if self.posted < REQUESTS and (not events or self.rng.random() < 0.4):
                DO[self.rng.choice(self.names)](self)
                self.posted += self.rng.random() < 0.2  # a program ends, whatever it does
                continue
            if not events:
                break
            if self.rng.random() < 0.05:
                self.both = self.both.copy()
            event = events[self.rng.randrange(len(events))]
            self.seen.add(event.act)
            self.both.do(lambda machine, event=event: machine.fire(event))
            if self.rng.random() < 0.1:
                DO[self.rng.choice(("do_poll", "do_doorbell"))](self)


DO: dict[str, Callable[[Program], None]] = {
    name: getattr(Program, name) for name in vars(Program) if name.startswith("do_")
}


def opened(machine: Machine, name: Any, cq: Any) -> None:
    """A new receive queue."""
    if isinstance(machine, NativeMachine):
        machine.open_taker(name, cq)
    else:
        machine.takers[name] = ReceiveQueue(cq)


def paired(machine: Machine, qp: Any, name: Any, patient: bool) -> None:
    """Gives a queue pair receives."""
    machine.queue_pairs[qp].receives, machine.queue_pairs[qp].patient = name, patient


def posted(machine: Machine, name: Any, receive: Receive) -> None:
    """Posts a receive."""
    if isinstance(machine, NativeMachine):
        machine.post_receive(name, receive)
    else:
        receiving.post(machine, machine.takers[name], receive)


def dropped(machine: Machine, name: Any) -> None:
    """Takes receives away."""
    if isinstance(machine, NativeMachine):
        machine.drop_receives(name)
    else:
        machine.takers[name].drop()
        machine.takers[name].failed = None


def reset(machine: Machine, qp: Any) -> None:
    """A queue pair starts anew."""
    queue = machine.queue_pairs[qp]
    if not isinstance(machine, NativeMachine):
        for key in queue.waiting:
            machine.flight.pop(key, None)
    queue.reset()


def polled(machine: Machine, cq: Any) -> list[Any]:
    """Takes all completions, as a fabric does."""
    told = machine.completions.get(cq, [])
    taken, told[:] = list(told), []
    if cq in machine.rings:
        machine.rings[cq].taken += len(taken)
    for each in taken:
        if each.receive is None:
            machine.queue_pairs[each.queue].poll(each.key)
    return taken
