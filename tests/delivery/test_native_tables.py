"""What the native machine is told of the model: the numbers of things, and order tables that say what `Rules` say."""

from __future__ import annotations

import random
from enum import IntEnum
from typing import Any

import pytest

from shmem._native import _core
from shmem.delivery.compiled import COLUMNS, Column, column, compiled, packed, unpacked
from shmem.delivery.engine import OPS, STATUSES
from shmem.delivery.machine import Machine
from shmem.delivery.profiles import CHOICES, Profile
from shmem.delivery.requests import Act, Kind, Order, Place, Request, Stage, Update
from shmem.delivery.tables import Rules
from tests.launcher.cells import FULL

from .both_machines import PROFILES, Both

ENUMS: dict[str, type[IntEnum]] = {"KIND": Kind, "STAGE": Stage, "ACT": Act, "ORDER": Order}


def numbers(prefix: str) -> dict[str, int]:
    """The constants of the engine with a prefix."""
    return {name.removeprefix(prefix): getattr(_core.lib, name) for name in dir(_core.lib) if name.startswith(prefix)}


@pytest.mark.parametrize("name", ENUMS)
def test_the_numbers_are_those_of_the_requests(name: str) -> None:
    assert numbers(f"SM_{name}_") == {each.name: int(each) for each in ENUMS[name]}


def test_the_numbers_are_those_of_what_is_looked_up_by_name() -> None:
    assert {name.lower(): number for name, number in numbers("SM_OP_").items() if number} == {
        name: i for i, name in enumerate(OPS) if name
    }
    assert {name.lower(): number for name, number in numbers("SM_STATUS_").items() if number} == {
        name: i for i, name in enumerate(STATUSES[:8]) if name
    }
    assert numbers("SM_IF_") == {**{each.name or "": int(each) for each in Column}, "ALL": COLUMNS}
    assert [number for _, number in sorted(numbers("SM_COVERS_").items())] == [2, 1, 0]
    assert CHOICES["receive_covers"] == ("own", "earlier", "all")
    assert numbers("SM_ON_ERROR") == {"": 0, "_SUSPEND": 1, "_GO_ON": 2}
    assert CHOICES["on_error"] == ("error", "suspend", "go_on")


def drawn(rng: random.Random) -> tuple[Request, Request]:
    """Two requests of a PE, the second posted later; they have been through fences."""
    made = []
    for number in range(2):
        target, lo = rng.choice([0, 1, 1, 2]), rng.choice([0, 4, 8])
        fenced, notified = rng.random() < 0.4, rng.random() < 0.4
        made.append(
            Request(
                (0, number), rng.choice(list(Kind)), rng.choice([("ctx", 0, 0), ("ctx", 0, 1), "qp"]), target,
                Place(target, lo, lo + 8), (), ring=rng.random() < 0.5, fence=rng.random() < 0.5,
                order=rng.choice(list(Order)), needs_receive=rng.random() < 0.3, stripe=rng.randrange(2),
                put=rng.choice([None, (0, 0), (0, 5)]), word=Place(target, 16, 24) if notified else None,
                fenced=fenced, spread=fenced and rng.random() < 0.5,
            )
        )  # fmt: skip
    return made[0], made[1]


@pytest.mark.parametrize("profile", PROFILES, ids=[each.name for each in PROFILES])
def test_the_tables_say_what_the_rules_say(profile: Profile) -> None:
    """Of random requests; nothing that matters is left out of the columns."""
    rng, rules = random.Random(profile.name), Rules(profile)
    same, apart = compiled(profile)
    assert (len(same), len(apart)) == (25 * COLUMNS, 25)
    for _ in range(20_000 if FULL else 500):
        first, second = drawn(rng)
        kinds = 5 * first.kind + second.kind
        entry = same[kinds * COLUMNS + column(first, second)] if first.target == second.target else apart[kinds]
        assert unpacked(entry) == rules.between(first, second)


def test_entries_are_packed_and_unpacked() -> None:
    rules = [(Stage.SOURCE, Stage.SOURCE), (Stage.RETIRED, Stage.RETIRED), (Stage.PLACED, Stage.ANSWERED)]
    assert unpacked(packed(rules)) == rules
    assert unpacked(packed([])) == []


def post(machine: Machine, number: int, kind: Kind, bits: int) -> None:
    """Posts the first or the second request of a column, with what it needs, and rings for it."""
    target, last = 0 if bits & Column.OWN else 1, number == 1
    lo = 8 if last and not bits & Column.OVERLAP else 0
    place, queue = Place(target, lo, lo + 8), ("qp", 0, target, 1 if last and not bits & Column.QUEUE else 0)
    more: dict[str, Any] = {"put": (0, 0), "needs_receive": not last and bool(bits & Column.RECEIVE)}
    if last:
        more |= {"fence": bool(bits & Column.FENCE), "stripe": 0 if bits & Column.STRIPE else 1}
        if bits & Column.PUT:
            more |= {"word": Place(target, 16, 24), "word_update": Update("set", 1, 0, 8)}
        else:
            more["put"] = None
    if bits & Column.STRONG:
        more["order"] = Order.STRONG if last else Order.RELAX
    if kind is Kind.ATOMIC:
        more["update"] = Update("add", 1, 0, 8)
    elif kind is Kind.STORE:
        more["data"] = bytes(8)
    elif kind is not Kind.READ:
        more["source"] = Place(("local", 0), 0, 8)
    if kind is Kind.STORE:
        machine.post(Request(machine.name(0), kind, ("cpu", 0), target, place, (), **more))
    else:
        pair = machine.queue_pair(queue, ("cq", 0), 64)
        machine.post(Request(machine.name(0), kind, queue, target, place, (), ring=True, rung=False, **more))
        pair.ring(machine.flight)


def columns(profile: Profile, first: Kind, second: Kind) -> dict[int, int]:
    """A column for each different entry of two kinds that says something, of those that there can be: a fence reaches
    other queues only where it reaches its own, and none where it misses the queue pairs."""
    same, _ = compiled(profile)
    start, found = (5 * first + second) * COLUMNS, dict[int, int]()
    for bits in range(COLUMNS):
        missed = bits & Column.FENCED and profile.engine_scoped and first is not Kind.STORE
        if (bits & Column.FENCED or not bits & Column.SPREAD) and not missed and same[start + bits]:
            found.setdefault(same[start + bits], bits)
    return found


@pytest.mark.parametrize("profile", PROFILES, ids=[each.name for each in PROFILES])
def test_every_entry_makes_its_gates(profile: Profile) -> None:
    """Two requests are posted for each different entry: the second waits for what the entry says."""
    n = 0
    for first in Kind:
        for second in Kind:
            for entry, bits in columns(profile, first, second).items():
                both = Both(profile)
                for machine in (both.python, both.native):
                    post(machine, 0, first, bits)
                    if bits & Column.FENCED:
                        spread = bool(bits & Column.SPREAD)
                        machine.fence(0, ("ctx", 0, 0) if spread else machine.known[0, 0].queue, spread)
                    post(machine, 1, second, bits)
                    assert machine.flight[0, 1].gates == tuple(((0, 0), *rule) for rule in unpacked(entry))
                both.check()
                n += 1
    assert n
    if profile.program_order:  # all but READs, after each other
        assert n == 4 * 4
