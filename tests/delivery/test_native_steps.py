"""The native machine and the Python one, event by event: the same may happen next, and does the same."""

from __future__ import annotations

import pytest

from shmem.delivery.machine import Machine
from shmem.delivery.memory import Memory
from shmem.delivery.native import NativeMachine
from shmem.delivery.profiles import NAMED, varied
from shmem.delivery.requests import Act, Event, Kind, Place, Request, Update
from shmem.errors import ArgumentError
from tests.launcher.cells import FULL

from .both_machines import PROFILES, Program

PROGRAMS = 10_000 if FULL else 200
PART = 50


@pytest.mark.parametrize("first", range(0, PROGRAMS, PART))
def test_random_programs_take_the_same_steps(first: int) -> None:
    for seed in range(first, first + PART):
        Program(seed).run()


def test_the_programs_see_every_kind_of_event_and_many_rules() -> None:
    """Those that every run of the tests makes."""
    seen: set[object] = set()
    for seed in range(200):
        (program := Program(f"seen {seed}")).run()
        seen |= program.seen
    assert {each for each in seen if isinstance(each, Act)} == set(Act) - {Act.SHOW}
    assert sum(isinstance(each, tuple) for each in seen) >= 20
    assert len(PROFILES) == 21


def machine(profile: str, **more: object) -> NativeMachine:
    made = Memory()
    for pe in range(2):
        made.spaces[pe] = bytearray(64)
    return NativeMachine(varied(profile, **more), made)


def put(owner: Machine, lo: int, data: bytes, **more: object) -> Request:
    place = Place(1, lo, lo + len(data))
    made = Request(owner.name(0), Kind.WRITE, ("ctx", 0, 0), 1, place, (), data=data, **more)  # type: ignore[arg-type]
    owner.post(made)
    return made


@pytest.mark.parametrize("made", [Machine, NativeMachine])
def test_an_atomic_of_an_ordered_machine_does_not_see_a_later_put(made: type[Machine]) -> None:
    memory = Memory()
    memory.spaces[1] = bytearray(b"\5" + bytes(7))
    here = made(NAMED["tso"], memory)
    update, place = Update("add", 1, 0, 8), Place(1, 0, 8)
    here.post(Request(here.name(0), Kind.ATOMIC, ("ctx", 0, 0), 1, place, (), update=update, keep=True))
    put(here, 0, b"\x09" * 8)
    here.deliver()
    assert here.answers == {(0, 0): b"\5" + bytes(7)}
    assert memory.read(place) == b"\x09" * 8


@pytest.mark.parametrize("bad", ["", "rem_access"])
@pytest.mark.parametrize("made", [Machine, NativeMachine])
def test_a_pe_sees_what_it_has_yet_to_store_but_not_what_will_fail(made: type[Machine], bad: str) -> None:
    memory = Memory()
    memory.spaces[1] = bytearray(8)
    here, place, queue = made(NAMED["tso"], memory), Place(1, 0, 8), ("qp", 0, 1, 0)
    here.queue_pair(queue, ("cq", 0), 8)
    here.post(Request(here.name(0), Kind.WRITE, queue, 1, place, (), data=b"\x09" * 8, ring=True, bad=bad))
    assert here.look(0, place) == (bytes(8) if bad else b"\x09" * 8)


@pytest.mark.parametrize("made", [Machine, NativeMachine])
def test_a_copy_goes_its_own_way(made: type[Machine]) -> None:
    memory = Memory()
    memory.spaces[1] = bytearray(16)
    first = made(NAMED["udma"], memory)
    put(first, 0, b"a" * 16)
    second = first.copy()
    second.fire(Event((0, 0), Act.PLACE, 1))
    assert (first.memory.spaces[1], second.memory.spaces[1]) == (bytes(16), bytes(8) + b"a" * 8)
    first.fire(Event((0, 0), Act.PLACE, 0))
    assert (first.memory.spaces[1], second.memory.spaces[1]) == (b"a" * 8 + bytes(8), bytes(8) + b"a" * 8)
    assert [list(each.enabled()) for each in (first, second)] == [
        [Event((0, 0), Act.PLACE, 1)], [Event((0, 0), Act.PLACE, 0)],
    ]  # fmt: skip


def test_a_long_transfer_is_counted_and_looked_into_without_a_list() -> None:
    here = machine("openshmem")
    here.memory.spaces[1] = bytearray(1000)
    put(here, 3, bytes(range(250)) * 3)
    for unit in (0, 64, 700, 749):
        here.fire(Event((0, 0), Act.PLACE, unit))
    left = [unit for unit in range(750) if unit not in (0, 64, 700, 749)]
    assert [each.unit for each in here.enabled()] == left
    for i in (0, 62, 63, 64, 699, 745):
        assert here.lib.sm_net_enabled(here.net, i, 1, here._events) == len(left)
        assert here._events[0].unit == left[i]
    assert here.lib.sm_net_enabled(here.net, 10, 5, here._events) == len(left)
    assert [each.unit for each in here._events[0:5]] == left[10:15]


def test_the_pool_grows_and_places_in_it_are_used_again() -> None:
    here = machine("rc_relaxed")
    for lap in range(2):
        for i in range(80):
            put(here, i % 8 * 8, bytes([lap + i % 8]) * 8)
        assert len(here.enabled()) == 80
        here.deliver()
        assert here.memory.spaces[1] == b"".join(bytes([lap + i]) * 8 for i in range(8))
    assert not here.flight


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (Kind.WRITE, {"data": b"1"}),
        (Kind.WRITE, {"at": Place(1, 60, 68), "data": bytes(8)}),
        (Kind.WRITE, {"source": Place(0, 0, 4)}),
        (Kind.WRITE, {"data": bytes(8), "word": Place(1, 20, 28), "word_update": Update("set", 1, 0, 8)}),
        (Kind.ATOMIC, {"at": Place(1, 4, 12), "update": Update("add", 1, 0, 8)}),
        (Kind.ATOMIC, {"at": Place(1, 0, 2), "update": Update("add", 1, 0, 2)}),
        (Kind.READ, {"result": Place(0, 0, 9)}),
        (Kind.READ, {"result": Place("nobody's", 0, 8)}),
    ],
)
def test_what_means_nothing_is_refused(kind: Kind, more: dict[str, object]) -> None:
    here = machine("openshmem")
    given = {"at": Place(1, 0, 8), **more}
    with pytest.raises(ArgumentError, match="refuses the request"):
        here.post(Request(here.name(0), kind, ("ctx", 0, 0), 1, units=(), **given))  # type: ignore[arg-type]
    assert here.enabled() == []


def test_what_the_engine_does_not_carry_is_refused() -> None:
    with pytest.raises(ArgumentError, match="lazy"):
        machine("rc_strict", reader="lazy")
    with pytest.raises(ArgumentError, match="ordered machine"):
        machine("tso", repeat=True)
