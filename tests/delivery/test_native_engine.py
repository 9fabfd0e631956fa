"""What the engine does by itself: events drawn from a seed, atomics of several engines on one word, wake-ups."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from shmem._native import _core
from shmem.delivery.machine import Machine
from shmem.delivery.memory import Memory
from shmem.delivery.native import NativeMachine
from shmem.delivery.profiles import NAMED, Profile, varied
from shmem.delivery.requests import FAULTS, Kind, Place, Request, Update

WORD = (1 << 64) - 1


def numbers(seed: int) -> Iterator[int]:
    """The generator splitmix64."""
    while True:
        seed = seed + 0x9E3779B97F4A7C15 & WORD
        z = seed
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
        z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
        yield z ^ z >> 31


def filled(made: type[Machine], profile: Profile) -> Machine:
    """A machine with requests of all kinds, in which much may go wrong."""
    memory = Memory()
    for pe in range(2):
        memory.spaces[pe] = bytearray(range(64))
    here, queue = made(profile, memory), ("qp", 0, 1, 0)
    here.receives = {1: 1}
    here.queue_pair(queue, ("cq", 0), 64)
    sent: dict[str, Any] = {"source": Place(0, 0, 24)}
    for kind, at, more in (
        (Kind.WRITE, Place(1, 3, 27), sent),
        (Kind.ATOMIC, Place(1, 32, 40), {"update": Update("add", 3, 0, 8)}),
        (Kind.WRITE, Place(1, 0, 24), {**sent, "needs_receive": True, "tells": True}),
        (Kind.READ, Place(1, 0, 32), {"result": Place(0, 32, 64)}),
        (Kind.WRITE, Place(1, 8, 32), {**sent, "needs_receive": True, "tells": True}),
    ):
        here.post(Request(here.name(0), kind, queue, 1, at, (), ring=True, rung=False, **more))
        here.queue_pairs[queue].ring(here.flight)
    return here


@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("profile", [varied("rc_relaxed", lost_ack=True), varied("udma", lost_doorbell=True)])
def test_a_seed_draws_the_events(profile: Profile, faults: bool) -> None:
    ends = set()
    for seed in range(20):
        native, python = filled(NativeMachine, profile), filled(Machine, profile)
        assert isinstance(native, NativeMachine)
        drawn, state, n = numbers(seed), native.ffi.new("uint64_t *", seed), 0
        while events := [each for each in python.enabled() if faults or each.act not in FAULTS]:
            python.fire(events[next(drawn) % len(events)])
            n += 1
        assert native.lib.sm_net_step(native.net, 3, state, faults) == 3
        assert native.lib.sm_net_step(native.net, 1 << 40, state, faults) == n - 3
        native.follow()
        assert native.memory.spaces == python.memory.spaces
        assert native.digest()[1:] == python.digest()[1:]
        ends.add(repr(native.digest()))
    assert len(ends) > 5


@pytest.mark.parametrize("writes", [1, 2, 5])
def test_the_digest_tells_orders_apart_however_they_came_about(writes: int) -> None:
    """Of two writes, each two events, there are six orders, and so many digests; of five there are many."""
    profile, digests, orders = NAMED["udma"], dict[Any, set[int]](), dict[int, set[Any]]()
    for seed in range(24):
        python = some_writes(Machine, profile, writes)
        drawn, events, passed, over = numbers(seed), list[Any](), set[Any](), list(python.flight)
        while possible := [each for each in python.enabled() if each.act not in FAULTS]:
            events.append(possible[next(drawn) % len(possible)])
            if events[-1].key != next(key for key in over if key in python.flight):
                passed.add(events[-1].key)
            python.fire(events[-1])
        for steps in ([1] * len(events), [len(events)], [2, 1 << 40]):
            native = some_writes(NativeMachine, profile, writes)
            assert isinstance(native, NativeMachine)
            state, counted = native.ffi.new("uint64_t *", seed), native.ffi.new("uint64_t *")
            for most in steps:
                native.lib.sm_net_step(native.net, most, state, False)
            digest = native.lib.sm_net_drawn(native.net, counted)
            assert counted[0] == len(passed)
            digests.setdefault(tuple(events), set()).add(digest)
            orders.setdefault(digest, set()).add(tuple(events))
    assert {len(each) for each in [*digests.values(), *orders.values()]} == {1}
    assert len(digests) == {1: 1, 2: 6}[writes] if writes < 5 else len(digests) > 15


def some_writes(made: type[Machine], profile: Profile, n: int) -> Machine:
    """A machine with writes of 8 bytes in flight, whose sources are still to be read."""
    memory = Memory()
    memory.spaces[0], memory.spaces[1] = bytearray(8), bytearray(8 * n)
    here = made(profile, memory)
    for i in range(n):
        at = Place(1, 8 * i, 8 * i + 8)
        here.post(Request(here.name(0), Kind.WRITE, ("ctx", 0), 1, at, (), source=Place(0, 0, 8), read=False))
    return here


def test_without_a_seed_the_first_event_happens() -> None:
    """A shorter way to the same: it does not look at what comes after the first."""
    profile = varied("rc_relaxed", lost_ack=True)
    native, python = filled(NativeMachine, profile), filled(Machine, profile)
    assert isinstance(native, NativeMachine)
    for _ in range(4):
        python.fire(next(each for each in python.enabled() if each.act not in FAULTS))
    assert native.lib.sm_net_step(native.net, 4, native.ffi.NULL, False) == 4
    native.follow()
    assert native.digest()[1:] == python.digest()[1:]


def test_atomics_of_two_engines_are_atomic() -> None:
    """Each engine has a thread and adds to one word; where an atomic is not two events it is one of the processor's."""
    memory, rounds, each = bytearray(8), 15, 1000
    engines = [NativeMachine(NAMED["openshmem"], Memory()) for _ in range(2)]
    for engine in engines:
        engine.net = whole(engine)
        engine.lib.sm_net_space(engine.net, engine.ffi.from_buffer(memory), 8)
        engine.lib.sm_net_queue(engine.net, -1, 0, 0)
    gate = threading.Barrier(2)

    def run(engine: NativeMachine, pe: int) -> None:
        made = engine.ffi.new("sm_request *")
        made.pe, made.kind, made.target, made.taker, made.put = pe, Kind.ATOMIC, 1, -1, -1
        made.at, made.segments = (0, 0, 8), (-1, -1)
        made.source.space = made.result.space = made.word.space = -1
        made.update, made.flags = (3, 8, 1, 0), engine.lib.SM_REQ_ADMITTED  # an addition of 1
        for lap in range(rounds):
            for i in range(each):
                made.number = lap * each + i
                assert engine.lib.sm_net_post(engine.net, made) == 0
            gate.wait()
            assert engine.lib.sm_net_step(engine.net, each, engine.ffi.NULL, 0) == each

    threads = [threading.Thread(target=run, args=(engine, pe)) for pe, engine in enumerate(engines)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert int.from_bytes(memory, "little") == 2 * rounds * each


def whole(machine: NativeMachine) -> Any:
    """An engine of the same profile whose atomics are one event."""
    machine._made = machine.ffi.new("sm_net_profile *", machine._made[0])
    machine._made.halves = 0
    return machine._owned(machine.lib.sm_net_open(machine._made, 256))


def test_a_long_unit_is_placed_from_its_beginning_on() -> None:
    """Who reads backwards while numbers are placed, one over the other, never sees a later one behind an earlier."""
    nbytes, rounds, laps = 4096, 8, 600
    memory = Memory()
    memory.spaces[1] = bytearray(nbytes)
    here, words = NativeMachine(varied("rc_strict", unit=nbytes), memory), memoryview(memory.spaces[1]).cast("Q")
    here.lib.sm_net_queue(here.net, -1, 0, 0)
    step = here.lib.sm_net_step
    space, made = here._space(1), here.ffi.new("sm_request *")
    made.kind, made.target, made.taker, made.put, made.ndata = Kind.WRITE, 1, -1, -1, nbytes
    made.at, made.segments, made.flags = (space, 0, nbytes), (-1, -1), here.lib.SM_REQ_ADMITTED
    made.source.space = made.result.space = made.word.space = -1
    for first in range(0, rounds * laps, laps):
        for number in range(first, first + laps):
            data = here.ffi.new("uint64_t[]", [number + 1] * (nbytes // 8))
            made.number, made.data = number, data
            assert here.lib.sm_net_post(here.net, made) == 0
        done: list[int] = []
        thread = threading.Thread(target=lambda done=done: done.append(step(here.net, laps, here.ffi.NULL, 0)))  # type: ignore[misc]
        thread.start()
        while not done:
            seen = [words[i] for i in range(len(words) - 1, -1, -1)]
            assert seen == sorted(seen)
        thread.join()
        assert done == [laps]
        assert set(words) == {first + laps}


@dataclass
class Waiting:
    """A PE with a heap of its own, in which a thread can wait as a program does."""

    heap: Any
    pe: Any

    @classmethod
    def opened(cls, nbytes: int = 1 << 16) -> Waiting:
        """In memory of this process, which stays."""
        ffi, lib = _core.ffi, _core.lib
        head = lib.sm_head_bytes()
        at = lib.sm_map_segment(0, head, 0, nbytes)
        pe = lib.sm_open(0, 1, [at], nbytes, 1, 0)
        assert at
        assert pe
        lib.sm_announce(pe)
        return cls(ffi.buffer(ffi.cast("char *", at + head), nbytes), pe)

    def counts(self) -> Any:
        """Sleeps entered and what ended them."""
        found = _core.ffi.new("sm_counts *")
        _core.lib.sm_counts_read(self.pe, found)
        return found


@pytest.mark.parametrize("how", ["placed", "added", "flagged", "landed", "again"])
def test_who_waits_for_a_word_is_woken(how: str) -> None:
    """Not found when the sleep's cap was over, which would be counted; no machine stands still for all of it."""
    waiting, memory = Waiting.opened(), Memory()
    memory.spaces[0], memory.spaces["local", 0] = waiting.heap, bytearray(b"\1" * 64)
    here = NativeMachine(varied("udma", repeat=how == "again"), memory)
    here.lib.sm_net_wakes(here.net, here._space(0), waiting.pe, 0)
    word, other = Place(0, 1000, 1008), Place(0, 64, 72)
    kinds: dict[str, tuple[Kind, dict[str, Any]]] = {
        "placed": (Kind.WRITE, {"at": word, "data": b"\1" * 8}),
        "again": (Kind.WRITE, {"at": word, "data": b"\1" * 8}),
        "added": (Kind.ATOMIC, {"at": word, "update": Update("add", 1, 0, 8)}),
        "flagged": (Kind.WRITE, {"at": other, "data": bytes(8), "word": word, "word_update": Update("set", 1, 0, 8)}),
        "landed": (Kind.READ, {"at": Place(("local", 0), 0, 8), "result": word}),
    }
    kind, more = kinds[how]
    here.post(Request(here.name(0), kind, ("ctx", 0, 0), 0, units=(), **more))
    if how == "again":
        here.fire(here.enabled()[0])
        memory.write(word, bytes(8))
    ended: list[int] = []
    limit = 20 * 10**9
    here.lib.sm_set_cap(waiting.pe, limit // 2)
    thread = threading.Thread(target=lambda: ended.append(here.lib.sm_wait(waiting.pe, word.lo, 3, 1, 0, limit)))
    thread.start()
    while not waiting.counts().sleeps and thread.is_alive():
        pass
    here.deliver()
    thread.join()
    assert ended == [0]
    assert waiting.counts().missed == 0
