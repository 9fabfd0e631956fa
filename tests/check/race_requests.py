"""Random programs of two PEs with queue pairs and much else, longer than any search could explore (`nic_programs`)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import shmem
from shmem import nic

from .nic_programs import DO, Drawn, Op, State


def _from(opcode: nic.Opcode, **more: Any) -> Callable[[State, nic.QueuePair, int], Any]:
    """A request whose local memory is the other word."""

    def do(state: State, qp: nic.QueuePair, y: int) -> None:
        qp.post(nic.WorkRequest(opcode, state.words[1 - y : 2 - y], state.remote[y], **more))

    return do


def _receive(state: State, qp: nic.QueuePair, y: int) -> None:
    qp.post_recv(state.words[y : y + 1])


def _store(state: State, qp: nic.QueuePair, y: int) -> None:
    state.words[y] = state.one()[0]


def _await(state: State, qp: nic.QueuePair, y: int) -> None:
    for _ in range(3):
        if shmem.test(state.words[y : y + 1], ">=", 1):
            return
        shmem.spin()


def _get(state: State, qp: nic.QueuePair, y: int) -> None:
    shmem.get(state.source, state.words[y : y + 1], qp.pe)


MORE: dict[str, Callable[[State, nic.QueuePair, int], Any]] = {
    "from": _from(nic.WRITE), "from_fenced": _from(nic.WRITE, fence=True), "into": _from(nic.READ),
    "faa_into": _from(nic.FAA, value=1), "cas_into": _from(nic.CAS, value=1, signaled=False), "to": _receive,
    "send_from": lambda state, qp, y: qp.post(nic.WorkRequest(nic.SEND, state.words[y : y + 1])),
    "imm_from": _from(nic.WRITE_IMM, imm=1), "store": _store, "await": _await, "get": _get,
    "set": lambda state, qp, y: shmem.atomic_set(state.words[y : y + 1], 1, qp.pe),
    "fetch_add": lambda state, qp, y: shmem.atomic_fetch_add(state.words[y : y + 1], 1, qp.pe),
    "look": lambda state, qp, y: shmem.test(state.words[y : y + 1], ">=", 1),
    "fetch_own": lambda state, qp, y: shmem.atomic_fetch(state.words[y : y + 1], shmem.my_pe()),
    "pe_quiet": lambda state, qp, y: shmem.pe_quiet([qp.pe]),
    "one": lambda state, qp, y: state.saw(state.cqs[0].wait(1)),
}  # fmt: skip
NAMES = [*MORE, *sorted(set(DO) - {"close", "also_close", "close_pair", "ring", "state", "spin"}), "one", "one"]


def longer(rng: random.Random) -> Drawn:
    """Some operations of each PE."""
    names = rng.sample(NAMES, rng.choice([6, 10, 16])) + rng.choice([["one"], ["one", "send_from", "to"]])

    def ops() -> tuple[Op, ...]:
        return tuple((rng.choice(names), rng.randrange(2), rng.randrange(2)) for _ in range(rng.randint(3, 7)))

    return Drawn((ops(), ops()), 64, 7, rng.random() < 0.3, rng.choice([1, 2]), 64, rng.choice([0, 1, 2]))


def told(rng: random.Random) -> Drawn:
    """PE 0 sends a word and tells of it, PE 1 looks whether it was told: what races depends on what it finds."""
    data = rng.choice(["write", "write", "unsignaled", "faa", "relax", "from"]), 0, 0
    flag = rng.choice(["write", "set", "faa", "strong", "imm", "fetch_add"]), rng.randrange(2), 1
    between = [(rng.choice(["poll", "fence", "quiet", "shmem_quiet", "one"]), 0, 0)] if rng.random() < 0.8 else []
    notify = [("notify", 0, 0)]
    sent = rng.choice([[data, *between, flag], [data, *between, flag], notify, [flag, *between, data]])
    if rng.random() < 0.4:
        sent += [("poll", 0, 0), ("store", 0, 1)]
    look, then = rng.choice(["look", "look", "poll_recv", "fetch_own"]), rng.choice(["load", "store"])
    return Drawn((tuple(sent), ((look, 0, 1), (then, 0, 0))), 64, 7, False, 2, 64, 1)
