"""Knobs of profiles that no named one turns: what they add, against enumerations in plain Python, and the searches
against each other with them on."""

from __future__ import annotations

import itertools
import os
import random
from dataclasses import replace
from typing import Any

import pytest

from shmem.check import dpor
from shmem.check.litmus.language import parse
from shmem.check.litmus.model import Impossible
from shmem.check.litmus.run import Run
from shmem.check.litmus.syntax import Test
from shmem.delivery.profiles import Profile, varied

from .programs import program, shmem_program
from .test_reductions import compare
from .test_sim import ends_as_data, ends_as_program

SEEDS = 60 if os.environ.get("SHMEMU_TEST_CELLS") == "full" else 12

# Each knob with a profile that keeps an order, and one that keeps none.
KNOBS: dict[str, tuple[Profile, ...]] = {
    "repeat": (varied("rc_strict", repeat=True), varied("openshmem", unit=8, repeat=True)),
}
PROFILES = [profile for profiles in KNOBS.values() for profile in profiles]
ON_CONTEXTS = [profile for name in ("repeat",) for profile in KNOBS[name]]


def made(text: str, names: str = "x = 0, y = 0, s = 0") -> Test:
    [test] = parse(f'test K "knob"\ninit {names}\nlocal b = 0, c = 0\n{text}\nverdict udma clean\n')
    return test


def seen(text: str, profile: Profile, *registers: str, final: str = "") -> set[tuple[Any, ...]]:
    """What registers of PE 1 (`0r`: of PE 0) are at the ends, behind them a final word of PE 1; -1: PE 1 waits."""
    test = made(text)
    compare(test, replace(profile, unit=max(profile.unit, 8)))
    found = dpor.Search(lambda: Run(test, profile)).run()
    assert found.complete
    first = Run(test, profile).layout.symmetric[final] if final else 0
    ends = set()
    for end in found.outcomes:
        values = [dict(end.registers[0 if name[0] == "0" else 1]).get(name.lstrip("0"), 0) for name in registers]
        if final:
            values.append(int.from_bytes(end.heaps[1][first : first + 8], "little"))
        ends.add((*values, -1) if 1 in end.blocked else tuple(values))
    return ends


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_searches_agree_on_random_programs(profile: Profile) -> None:
    used = []
    for seed in range(SEEDS):
        text = program(random.Random(f"{profile.name} {seed}"))
        [test] = parse(text)
        try:
            used.append(compare(test, profile))
        except Impossible:
            continue
        except AssertionError as error:
            raise AssertionError(f"seed {seed} under {profile.name}:\n{text}") from error
    assert used.count("") <= len(used) // 2


@pytest.mark.parametrize("profile", ON_CONTEXTS, ids=lambda profile: profile.name)
def test_programs_have_the_ends_of_their_litmus_tests(profile: Profile) -> None:
    compared = 0
    for seed in range(SEEDS):
        text = shmem_program(random.Random(f"{profile.name} {seed}"))
        [test] = parse(text)
        wanted = ends_as_data(test, profile)
        found = ends_as_program(test, profile) if wanted is not None else None
        if wanted is not None and found is not None:
            assert found == wanted, f"seed {seed} under {profile.name}:\n{text}"
            compared += 1
    assert compared >= SEEDS // 3


# ---- repeat ----


def deliveries(ordered: bool) -> set[tuple[int, ...]]:
    """Orders of writes 1 and 2, each delivered twice, and looks (0) of a reader: the first of each in order or not."""
    found = set()
    for order in itertools.permutations(["1", "1 again", "2", "2 again", "r0", "r1"]):
        at = order.index
        kept = at("1") < at("1 again") and at("2") < at("2 again") and at("r0") < at("r1")
        if kept and (at("1") < at("2") or not ordered):
            now, looks = 0, []
            for step in order:
                if step[0] == "r":
                    looks.append(now)
                else:
                    now = int(step[0])
            found.add((*looks, now))
    return found


@pytest.mark.parametrize(("name", "ordered"), [("rc_strict", True), ("srd", False)])
def test_a_write_comes_twice_and_late(name: str, ordered: bool) -> None:
    text = "P0: write x@1 = 1; write x@1 = 2\nP1: r0 = x; r1 = x"
    assert seen(text, varied(name, repeat=True), "r0", "r1", final="x") == deliveries(ordered)


@pytest.mark.parametrize(
    ("between", "stale"),
    [("poll_cq 1", True), ("fence", True), ("quiet", False), ("pe_quiet 1", False), ("barrier_all", False)],
)
def test_only_a_quiet_is_past_the_second_delivery(between: str, stale: bool) -> None:
    first, second = ("write", "write") if between == "poll_cq 1" else ("put", "put")
    meets = "barrier_all; " if between == "barrier_all" else ""
    text = f"P0: {first} x@1 = 1; {between}; {second} x@1 = 2\nP1: {meets}r0 = x"
    ends = seen(text, varied("rc_strict", repeat=True), final="x")
    assert ends == ({(1,), (2,)} if stale else {(2,)})


def test_words_and_atomics_come_once() -> None:
    profile = varied("rc_strict", repeat=True)
    assert seen("P0: faa x@1 += 1; faa x@1 += 1\nP1: r0 = y", profile, final="x") == {(2,)}
    assert seen("P0: put_signal y@1 = 1, s@1 add 1\nP1: signal_wait s == 1", profile, final="s") == {(1,)}
