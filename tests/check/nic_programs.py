"""Random programs of two PEs with queue pairs, whose ends are found by the fast search and by the slow one.

What PEs do before their first operation is done in one order, so that the slow search has a chance.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import shmem
from shmem import nic, runtime
from shmem.check.bounds import Bounds
from shmem.check.exploration import prepare
from shmem.check.found import Found
from shmem.check.strategies import STRATEGIES
from shmem.check.surroundings import live
from shmem.delivery.profiles import NAMED, Profile, varied
from shmem.delivery.requests import Event
from shmem.errors import ShmemError
from shmem.fabric.sim import Job

PROFILES: dict[str, Profile] = {
    **{name: NAMED[name] for name in ("rc_strict", "rc_relaxed", "udma", "srd", "tso")},
    "openshmem": varied("openshmem", unit=8), "scoped": NAMED["udma_engine_scoped"],
    "lost_ack": varied("rc_relaxed", lost_ack=True), "lost_doorbell": varied("udma", lost_doorbell=True),
    "suspend": varied("udma", on_error="suspend"), "go_on": varied("udma", on_error="go_on"),
    "strict_go_on": varied("rc_strict", on_error="go_on"), "strict_suspend": varied("rc_strict", on_error="suspend"),
    "lazy": varied("rc_strict", reader="lazy"), "repeat": varied("udma", repeat=True),
}  # fmt: skip
Op = tuple[str, int, int]  # what, on which queue pair, to which word


@dataclass(frozen=True)
class Drawn:
    """A program: what each PE does, and how its queues are made."""

    ops: tuple[tuple[Op, ...], ...]
    cq: int = 8
    retry: int = 6
    apart: bool = False  # receives are told in a queue of their own
    pairs: int = 1
    depth: int = 64
    posted: int = 0  # receives, before anything else


def drawn(rng: random.Random) -> Drawn:
    """Few operations, so that all orders of them can be tried."""
    sizes = rng.choice([(3, 1), (2, 2), (2, 1), (1, 2), (3, 0), (2, 1), (1, 1)])
    names = rng.sample(sorted(DO), rng.choice([3, 5, 8]))  # a part of all, more of each
    ops = tuple(tuple((rng.choice(names), rng.randrange(2), rng.randrange(2)) for _ in range(size)) for size in sizes)
    return Drawn(
        ops, rng.choice([1, 2, 8, 8]), rng.choice([0, 6, 7]), rng.random() < 0.4, rng.choice([1, 1, 2]),
        rng.choice([2, 4, 64]), rng.choice([0, 0, 1, 2]),
    )  # fmt: skip


@dataclass
class State:
    """What a PE has."""

    words: Any
    segments: list[nic.Segment]
    remote: list[nic.Segment]
    cqs: list[nic.CompletionQueue]  # of requests, of receives
    pairs: list[nic.QueuePair]
    source: Any
    value: int = 0
    buffers: list[Any] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)

    def one(self) -> Any:
        """A word of its own."""
        self.value += 1
        return np.array([self.value], np.uint64)

    def buffer(self) -> Any:
        """A word for a result, which is looked at in the end."""
        self.buffers.append(np.zeros(1, np.uint64))
        nic.register(self.buffers[-1], "")
        return self.buffers[-1]

    def do(self, what: Callable[[State, nic.QueuePair, int], Any], qp: nic.QueuePair, y: int) -> None:
        """One operation, or what it raises."""
        try:
            what(self, qp, y)
        except ShmemError as error:
            self.seen.append((type(error).__name__, getattr(error, "wr_id", None), getattr(error, "status", None)))

    def saw(self, told: list[nic.Completion]) -> None:
        """Notes completions."""
        self.seen.append([(c.status, c.wr_id, int(c.opcode), self.pairs.index(c.qp), c.nbytes, c.imm) for c in told])


def _post(opcode: nic.Opcode, **more: Any) -> Callable[[State, nic.QueuePair, int], Any]:
    def do(state: State, qp: nic.QueuePair, y: int) -> None:
        qp.post(nic.WorkRequest(opcode, state.one(), state.remote[y], inline=True, **more))

    return do


def _result(opcode: nic.Opcode, **more: Any) -> Callable[[State, nic.QueuePair, int], Any]:
    def do(state: State, qp: nic.QueuePair, y: int) -> None:
        qp.post(nic.WorkRequest(opcode, state.buffer(), state.remote[y], **more))

    return do


def _local(state: State, qp: nic.QueuePair, y: int) -> None:
    """The source changes at once, and once more when others have made steps."""
    state.source[0] += 1
    qp.post(nic.WorkRequest(nic.WRITE, state.source, state.remote[y]))
    state.source[0] += 1


def _notify(state: State, qp: nic.QueuePair, y: int) -> None:
    there, word = state.remote[y], state.remote[1 - y]
    qp.post(nic.WorkRequest(nic.WRITE_NOTIFY, state.one(), there, inline=True, notify=(word, 0, 9)))


def _send(state: State, qp: nic.QueuePair, y: int) -> None:
    qp.post(nic.WorkRequest(nic.SEND, state.one(), inline=True, signaled=bool(y)))


def _recv(state: State, qp: nic.QueuePair, y: int) -> None:
    buffer = state.buffer()
    qp.post_recv(buffer if y else buffer[:0])


def _many(state: State, qp: nic.QueuePair, y: int) -> None:
    wrs = [nic.WorkRequest(nic.WRITE, state.one(), each, inline=True) for each in state.remote]
    qp.post_many(wrs, "each" if y else "batch")


def _spin(state: State, qp: nic.QueuePair, y: int) -> None:
    for _ in range(3):
        if told := state.cqs[y].poll():
            return state.saw(told)
        shmem.spin()
    return None


DO: dict[str, Callable[[State, nic.QueuePair, int], Any]] = {
    "write": _post(nic.WRITE), "unsignaled": _post(nic.WRITE, signaled=False), "local": _local, "many": _many,
    "unrung": _post(nic.WRITE, doorbell=False), "bad": _post(nic.WRITE, offset=8, signaled=False),
    "imm": _post(nic.WRITE_IMM, imm=3), "read": _result(nic.READ), "faa": _result(nic.FAA, value=2),
    "fenced": _result(nic.FAA, value=2, fence=True), "strong": _post(nic.WRITE, order="strong"),
    "relax": _post(nic.WRITE, order="relax"), "notify": _notify, "send": _send, "recv": _recv, "spin": _spin,
    "poll": lambda state, qp, y: state.saw(state.cqs[0].poll(1 if y else 16)),
    "poll_recv": lambda state, qp, y: state.saw(state.cqs[1].poll()),
    "wait": lambda state, qp, y: state.saw(state.cqs[y].wait(1)),
    "now": lambda state, qp, y: state.saw(state.cqs[y].wait(1, timeout=0)),
    "quiet": lambda state, qp, y: qp.quiet(), "shmem_quiet": lambda state, qp, y: shmem.quiet(),
    "fence": lambda state, qp, y: shmem.fence(), "bell": lambda state, qp, y: qp.doorbell(),
    "state": lambda state, qp, y: state.seen.append(qp.state), "reset": lambda state, qp, y: qp.reset(),
    "ring": lambda state, qp, y: state.seen.append(state.cqs[y].ring["owner"].tolist()),
    "close": lambda state, qp, y: state.segments[y].close(),
    "also_close": lambda state, qp, y: state.segments[y].close(),
    "close_pair": lambda state, qp, y: qp.close(),
    "load": lambda state, qp, y: state.seen.append(int(state.words[y])),
    "put": lambda state, qp, y: shmem.put(state.words[y : y + 1], state.one(), qp.pe),
}  # fmt: skip


def program(made: Drawn, more: Mapping[str, Callable[[State, nic.QueuePair, int], Any]] | None = None) -> Any:
    """What a PE runs; more: other operations. What it has seen is its outcome."""
    me = shmem.my_pe()
    words = shmem.zeros(2, np.uint64)
    segments = [nic.register(words[i : i + 1]) for i in range(2)]
    remote = [nic.import_segment(each, 1 - me) for each in segments]
    cqs = [nic.CompletionQueue(made.cq), nic.CompletionQueue(made.cq)]
    if not made.apart:
        cqs[1] = cqs[0]
    pairs = [nic.QueuePair(1 - me, *cqs, depth=made.depth, index=i, rnr_retry=made.retry) for i in range(made.pairs)]
    state = State(words, segments, remote, cqs, pairs, np.full(1, 20 + me, np.uint64), 10 * me)
    nic.register(state.source, "")
    for _ in range(made.posted):
        pairs[0].post_recv(state.buffer())
    shmem.barrier_all()
    job: Any = runtime.current().world
    job.job.begin(me)
    for what, x, y in made.ops[me]:
        state.do({**DO, **(more or {})}[what], pairs[x % made.pairs], y)
    return state.seen, [each.tolist() for each in state.buffers]


class Begun(Job):
    """A job in which nothing is tried before all PEs have begun."""

    def __init__(self, program: Any) -> None:
        self.begun: set[int] = set()
        super().__init__(program)

    def begin(self, pe: int) -> None:
        """A PE has come to its first operation."""
        self.begun.add(pe)

    def moves(self) -> Any:
        """What may happen next."""
        moves = super().moves()
        if len(self.begun) == self.program.n:
            return moves
        tasks = [move for move in moves if not isinstance(move, Event)]
        return ([move for move in tasks if move not in self.begun] or tasks)[:1]


def ends(made: Drawn, profile: Profile, strategy: str, executions: int) -> Found:
    """All ends of a program, if there are not too many executions."""
    whole = prepare(program, 2, profile, (made,))
    with live(whole):
        return STRATEGIES[strategy](lambda: Begun(whole), Bounds(executions=executions), 0, lambda system, moves: False)


def compared(made: Drawn, profile: Profile, executions: int) -> bool | None:
    """Whether both searches found all ends, which must be the same; None if only the fast one did, and the slow one
    nothing else."""
    fast = ends(made, profile, "exhaustive", executions)
    if not fast.complete:
        return False
    slow = ends(made, profile, "eager", executions)
    fast_ends, slow_ends = ({each.what for each in found.outcomes} for found in (fast, slow))
    assert slow_ends <= fast_ends, f"{profile.name} {made}\n  only eager: {sorted(map(repr, slow_ends - fast_ends))}"
    if not slow.complete:
        return None
    assert slow_ends == fast_ends, f"{profile.name} {made}\n  only fast: {sorted(map(repr, fast_ends - slow_ends))}"
    return True
