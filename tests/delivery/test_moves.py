"""What may happen next, not written out, is what it would be if it were; large transfers arrive as small ones do."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import shmem
from shmem.check.executions import Possible, Usual, run
from shmem.check.exploration import prepare
from shmem.check.surroundings import live
from shmem.delivery.machine import Machine
from shmem.delivery.memory import Memory
from shmem.delivery.moves import RUN_MIN, Run, joined, ranges_of, run_of
from shmem.delivery.profiles import NAMED, Profile, varied
from shmem.delivery.requests import Act, Event, Kind, Place, Request, units_of
from shmem.delivery.units import UNITS_MAX
from shmem.fabric.sim import Job

KEY = (0, 3)
LAZY = [varied(name, reader="lazy") for name in NAMED if not NAMED[name].program_order]
TWICE = [varied(name, repeat=True) for name in ("rc_strict", "udma")]
PROFILES = [*NAMED.values(), *LAZY, *TWICE]


def written_out(units: int) -> list[Event]:
    return [Event(KEY, Act.PLACE, i) for i in range(units.bit_length()) if units >> i & 1]


@pytest.mark.parametrize("bits", [1, 15, 16, 17, 64, 65, 400])
def test_a_run_of_units_is_the_list_of_them(bits: int) -> None:
    rng = random.Random(bits)
    for _ in range(20):
        units = rng.getrandbits(bits)
        made, wanted = run_of(KEY, Act.PLACE, units), written_out(units)
        assert list(made) == wanted
        assert len(made) == len(wanted)
        assert [made[i] for i in range(len(made))] == wanted
        assert isinstance(made, Run) == (len(wanted) >= RUN_MIN)
        assert all(event in made for event in wanted)
        others = [Event(KEY, Act.LAND, 0), Event((1, 3), Act.PLACE, 0), 0]
        others += [event for event in written_out((1 << bits + 2) - 1) if event not in wanted]
        assert not any(other in made for other in others)
        assert [i for first, end in ranges_of(units) for i in range(first, end)] == [event.unit for event in wanted]


def test_moves_stand_one_behind_the_other() -> None:
    parts: list[Sequence[Any]] = [[7], run_of(KEY, Act.PLACE, 1 << 90 | (1 << 40) - 1), [], [0, 1]]
    moves, wanted = joined(parts), [7, *written_out(1 << 90 | (1 << 40) - 1), 0, 1]
    assert list(moves) == wanted
    assert len(moves) == len(wanted)
    assert [moves[i] for i in range(len(moves))] == wanted
    assert moves[3:6] == wanted[3:6]
    assert wanted[-2] in moves
    assert 2 not in moves
    with pytest.raises(IndexError):
        moves[len(wanted)]


@pytest.mark.parametrize(("lo", "hi", "unit"), [(0, 4096, 1), (3, 4099, 2), (5, 20_001, 8), (8, 16_384, 8)])
def test_units_of_a_long_transfer_are_its_aligned_pieces(lo: int, hi: int, unit: int) -> None:
    made = units_of(lo, hi, unit)
    wanted = [(max(lo, at), min(hi, at + unit)) for at in range(lo // unit * unit, hi, unit)]
    assert len(made) > UNITS_MAX
    assert not isinstance(made, tuple)
    assert list(made) == wanted
    assert len(made) == len(wanted)
    with pytest.raises(IndexError):
        made[len(wanted)]


@pytest.mark.parametrize("kind", [Kind.WRITE, Kind.READ])
@pytest.mark.parametrize("profile", PROFILES, ids=[profile.name for profile in PROFILES])
def test_all_at_once_is_what_one_by_one_gives(profile: Profile, kind: Kind) -> None:
    """Two transfers that overlap, one of them half way; each event of the one machine is fired by itself."""
    machines = []
    for _ in range(2):
        memory = Memory()
        for space in (0, 1, "private"):
            memory.spaces[space] = bytearray(range(200))
        machine = Machine(profile, memory)
        for at in (8, 40):
            more: dict[str, Any] = {"data": bytes(range(100, 200))} if kind is Kind.WRITE else {}
            more |= {} if kind is Kind.WRITE else {"result": Place("private", at, at + 100)}
            machine.post(Request(machine.name(0), kind, "q", 1, Place(1, at, at + 100), (), **more))
        for _ in range(5):
            machine.fire(machine.enabled()[0])
        machines.append(machine)
    whole, single = machines
    whole.deliver()
    while events := single.enabled():
        single.fire(events[0])
    assert whole.digest() == single.digest()
    assert not whole.flight


def swap() -> list[int]:
    """Each PE puts to the next and gets from it, with a signal."""
    n, me = 40, shmem.my_pe()
    box, flag = shmem.zeros(n, np.uint8), shmem.zeros(1, np.uint64)
    there, got = 1 - me, np.zeros(n, np.uint8)
    shmem.put_signal(box, np.arange(n, dtype=np.uint8) + me, there, flag, 1, shmem.SIGNAL_SET)
    shmem.signal_wait_until(flag, "==", 1)
    shmem.get_nbi(got, box, there)
    shmem.pe_quiet([there])
    return [*box.tolist(), *got.tolist()]


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_run_in_the_usual_order_makes_the_first_move_each_time(name: str) -> None:
    program = prepare(swap, 2, name, ())
    with live(program):
        job = Job(program)
        run(job, lambda moves: 0)
        wanted = job.end()
        job.close()
    assert not wanted.kind, wanted.text
    assert shmem.run(swap, 2, profile=name) == [list(one) for one in wanted.what]


def test_a_million_units_are_nothing_special() -> None:
    def main() -> bool:
        n = 1 << 20
        box, flag = shmem.zeros(n, np.uint8), shmem.zeros(1, np.uint64)
        sent = np.arange(n, dtype=np.uint32).astype(np.uint8)
        if shmem.my_pe() == 0:
            shmem.put_signal(box, sent, 1, flag, 1, shmem.SIGNAL_SET)
            return True
        shmem.signal_wait_until(flag, "==", 1)
        return bool((np.array(box) == sent).all())

    assert shmem.run(main, 2, profile="openshmem") == [True, True]


def test_late_moves_come_last_in_the_order_they_were_passed_over() -> None:
    class Fixed:
        def moves(self) -> Sequence[Any]:
            return possible

    usual, possible = Usual(), list("abcdef")
    usual.made(usual.moves(Fixed()), 2)  # type: ignore[arg-type]
    possible.remove("c")
    assert list(usual.moves(Fixed())) == list("defab")  # type: ignore[arg-type]
    usual.made(usual.moves(Fixed()), 3)  # type: ignore[arg-type]
    possible.remove("a")
    moves = usual.moves(Fixed())  # type: ignore[arg-type]
    assert list(moves) == list("bdef")
    assert moves[0] == "b"
    assert len(moves) == 4
    assert "c" not in moves
    assert list(Possible().moves(Fixed())) == list("bdef")  # type: ignore[arg-type]
