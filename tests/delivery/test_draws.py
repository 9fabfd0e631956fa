"""With a seed every choice that a profile leaves open is drawn: each order of events that the Python machine allows for
some requests is seen, and no other."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import pytest

from shmem.delivery.machine import Machine
from shmem.delivery.memory import Memory
from shmem.delivery.native import NativeMachine
from shmem.delivery.profiles import NAMED, Profile, varied
from shmem.delivery.requests import FAULTS, Act, Kind, Place, Request, Update

UNITS = (Act.PLACE, Act.LAND, Act.AGAIN)
PROFILES = {profile.name: profile for profile in (*NAMED.values(), varied("udma", repeat=True))}
ORDERS_MAX = 3000
Step = tuple[int, Act, int]  # number of the request, what happened, at which byte
Steps = tuple[Step, ...]


def memory() -> Memory:
    """Three heaps, and private memory of PE 0."""
    made = Memory()
    made.spaces.update({0: bytearray(256), 1: bytearray(256), 2: bytearray(256), "local": bytearray(256)})
    return made


class Posting:
    """Posts requests of PE 0 on a machine, each at bytes of its own."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.unit, self.number = machine, machine.profile.unit, 0
        machine.queue_pair(("qp", 0, 1, 0), ("cq", 0), 16)

    def _post(self, kind: Kind, units: int = 1, target: int = 1, pair: bool = False, **more: object) -> None:
        width = 8 if kind is Kind.ATOMIC else max(1, self.unit * units if self.unit <= 16 else 8 * units)
        at = Place(target, 64 * self.number, 64 * self.number + width)
        queue = ("qp", 0, 1, 0) if pair else ("ctx", 0, 0)
        if kind is Kind.WRITE and "source" not in more:
            more["data"] = bytes(width)
        if kind is Kind.READ or more.pop("answer", False):
            more["result"] = Place("local", 64 * self.number, 64 * self.number + width)
        if "source" in more:
            more["source"] = Place("local", 64 * self.number, 64 * self.number + width)
        if more.pop("flag", False):
            more |= {"word": Place(target, 64 * self.number + 48, 64 * self.number + 56)}
            more["word_update"] = Update("set", 1, 0, 8)
        if kind is Kind.ATOMIC:
            more["update"] = Update("add", 1, 0, 8)
        key = self.machine.name(0)
        self.machine.post(Request(key, kind, queue, target, at, (), ring=pair, rung=True, **more))  # type: ignore[arg-type]
        self.number += 1

    def put(self, units: int = 1, **more: object) -> None:
        self._post(Kind.WRITE, units, **more)

    def get(self, **more: object) -> None:
        self._post(Kind.READ, **more)

    def atomic(self, **more: object) -> None:
        self._post(Kind.ATOMIC, **more)

    def fence(self) -> None:
        self.machine.fence(0, ("ctx", 0, 0), True)


CASES: dict[str, Callable[[Posting], object]] = {
    "units of a put": lambda p: p.put(3),
    "two puts": lambda p: (p.put(), p.put()),
    "two puts to two PEs": lambda p: (p.put(), p.put(target=2)),
    "puts across a fence": lambda p: (p.put(), p.fence(), p.put()),
    "a put and its signal, another put": lambda p: (p.put(flag=True), p.put()),
    "two sources read late": lambda p: (p.put(source=True), p.put(source=True)),
    "a put and a get": lambda p: (p.put(), p.get()),
    "a get and a put": lambda p: (p.get(), p.put()),
    "a put and an atomic": lambda p: (p.put(), p.atomic()),
    "an atomic with an answer and a put": lambda p: (p.atomic(answer=True), p.put()),
    "two atomics": lambda p: (p.atomic(), p.atomic()),
    "two writes on a queue pair": lambda p: (p.put(pair=True), p.put(pair=True)),
    "a read and a fenced write on a queue pair": lambda p: (p.get(pair=True), p.put(pair=True, fence=True)),
    "an atomic and a write on a queue pair": lambda p: (p.atomic(pair=True, answer=True), p.put(pair=True)),
}


def steps(machine: Machine) -> Iterator[tuple[Step, Machine]]:
    """What may happen next, each with the machine behind it."""
    for event in machine.enabled():
        if event.act in FAULTS:
            continue
        after = machine.copy()
        request = machine.flight[event.key]
        lo = request.units[event.unit][0] if event.act in UNITS else 0
        after.fire(event)
        yield (event.key[1], event.act, lo), after


def orders(profile: Profile, case: Callable[[Posting], object]) -> set[Steps]:
    """All of them, by the Python machine."""
    start = Machine(profile, memory())
    case(Posting(start))
    found: set[Steps] = set()
    todo: list[tuple[Steps, Machine]] = [((), start)]
    while todo:
        before, machine = todo.pop()
        after = [((*before, step), other) for step, other in steps(machine)]
        todo += after
        if not after:
            found.add(before)
    return found


def drawn(profile: Profile, case: Callable[[Posting], object], seed: int) -> Steps:
    """One order, by the native machine and a seed."""
    machine = NativeMachine(profile, memory())
    case(Posting(machine))
    ffi, lib, net = machine.ffi, machine.lib, machine.net
    assert not lib.sm_net_log(net, 100)
    assert lib.sm_net_step(net, 1000, ffi.new("uint64_t *", zlib.crc32(b"%d" % seed)), 0) >= 0
    n = ffi.new("uint64_t *")
    marks = lib.sm_net_logged(net, n, ffi.new("int *"))
    seen = [(mark.number, Act(mark.act), mark.lo) for mark in ffi.unpack(marks, n[0])]
    return tuple((number, act, lo if act in UNITS else 0) for number, act, lo in seen)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("profile", PROFILES)
def test_each_order_is_drawn_and_no_other(profile: str, case: str) -> None:
    wanted = orders(PROFILES[profile], CASES[case])
    assert len(wanted) < ORDERS_MAX
    seen: set[Steps] = set()
    for seed in range(60 * len(wanted) + 60):
        seen.add(drawn(PROFILES[profile], CASES[case], seed))
        if len(seen) == len(wanted):
            break
    assert seen == wanted
