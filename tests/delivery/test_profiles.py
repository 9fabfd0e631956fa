"""Profiles as data, and the tables they compile to, against the order that the field's documents state."""

from __future__ import annotations

import itertools

import pytest

from shmem.delivery.machine import Machine
from shmem.delivery.memory import Memory
from shmem.delivery.profiles import NAMED, profile, varied
from shmem.delivery.requests import Key, Kind, Order, Place, Request, Stage
from shmem.delivery.tables import Rules
from shmem.errors import ArgumentError

WRITE, READ, ATOMIC, SEND = Kind.WRITE, Kind.READ, Kind.ATOMIC, Kind.SEND
KINDS = (WRITE, READ, ATOMIC, SEND)
# One reliable connected queue pair: the second takes effect at the target after the first.
STRICT = {(first, second) for first in (SEND, WRITE, ATOMIC) for second in KINDS}
# With relaxed ordering WRITEs may be placed early, and atomics may pass them.
RELAXED = STRICT - {(first, WRITE) for first in KINDS} - {(WRITE, ATOMIC), (WRITE, SEND)}
ORDERED = {
    "rc_strict": STRICT,
    "rc_relaxed": RELAXED,
    "tso": {(first, second) for first in (SEND, WRITE, ATOMIC) for second in (SEND, WRITE, ATOMIC)},
    "openshmem": set(),
    "udma": set(),
    "udma_engine_scoped": set(),
    "srd": set(),
}


def request(key: Key, kind: Kind, queue: str = "qp", **more: object) -> Request:
    return Request(key, kind, queue, 1, Place(1, 0, 8), (), **more)  # type: ignore[arg-type]


def ordered(name: str, first: Request, second: Request) -> bool:
    return (Stage.PLACED, Stage.PLACED) in Rules(NAMED[name]).between(first, second)


@pytest.mark.parametrize("name", sorted(NAMED))
def test_order_on_one_queue_pair(name: str) -> None:
    found = {
        (one, two)
        for one, two in itertools.product(KINDS, KINDS)
        if ordered(name, request((0, 0), one), request((0, 1), two))
    }
    assert found == ORDERED[name]


@pytest.mark.parametrize("name", sorted(NAMED))
def test_between_queue_pairs_nothing_is_ordered_but_on_an_ordered_machine(name: str) -> None:
    for one, two in itertools.product(KINDS, KINDS):
        rules = Rules(NAMED[name]).between(request((0, 0), one), request((0, 1), two, "other"))
        assert bool(rules) == (name == "tso" and READ not in (one, two))


def test_urma_flags() -> None:
    for first, second in itertools.product(Order, Order):
        got = ordered("udma", request((0, 0), WRITE, order=first), request((0, 1), WRITE, order=second))
        assert got == (second is Order.STRONG and first is not Order.NONE)
        assert not ordered("srd", request((0, 0), WRITE, order=first), request((0, 1), WRITE, order=second))


@pytest.mark.parametrize("name", ["rc_strict", "rc_relaxed", "udma"])
def test_a_fence_flag_waits_for_reads_and_atomics_only(name: str) -> None:
    fenced = request((0, 1), WRITE, fence=True)
    for kind in KINDS:
        rules = Rules(NAMED[name]).between(request((0, 0), kind), fenced)
        assert ((Stage.ANSWERED, Stage.SOURCE) in rules) == (kind in (READ, ATOMIC))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"unit": 3}, "no power of two"),
        ({"unit": 8192}, "no power of two"),
        ({"units": "descending"}, "units='descending'"),
        ({"fence_flag": frozenset({"send"})}, "fence_flag"),
        ({"color": 1}, "has no color"),
    ],
)
def test_a_profile_of_nonsense_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        varied("udma", **changes)


def test_a_profile_is_named_for_its_changes() -> None:
    assert varied("udma", unit=4).name == "udma(unit=4)"
    assert profile(None) is NAMED["openshmem"]
    with pytest.raises(ArgumentError, match="there are openshmem, "):
        profile("nfs")


@pytest.mark.parametrize("change", [{"repeat": True}, {"reader": "lazy"}, {"lost_ack": True}])
def test_an_ordered_machine_has_no_such_thing(change: dict[str, object]) -> None:
    with pytest.raises(ArgumentError, match="ordered"):
        Machine(varied("tso", **change), Memory())
