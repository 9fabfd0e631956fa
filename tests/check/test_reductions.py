"""Reductions of the search lose nothing and invent nothing: every search gives the same set of ends.

The oracle tries every step of a PE and every delivery at every state; where that is too much it goes on from each state
once, and is itself compared with the plain one where both can be run.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from shmem.check import dpor, eager
from shmem.check.bounds import Bounds
from shmem.check.litmus.language import parse, read
from shmem.check.litmus.model import Impossible
from shmem.check.litmus.run import Run
from shmem.check.litmus.syntax import Test
from shmem.delivery.profiles import NAMED, Profile
from tests.launcher.cells import FULL

from .programs import program

FILES = sorted((Path(__file__).parents[1] / "litmus").glob("*/*.litmus" if FULL else "contract/*.litmus"))
CASES = [(test, name) for path in FILES for test in read(path) for name in test.verdicts]
SHAPES = {test.name for path in FILES if path.parent.name == "shapes" for test in read(path)}
PLAIN_MAX, REMEMBERED_MAX = (6_000, 6_000) if FULL else (500, 1_500)  # states
SEEDS = 60 if FULL else 6


def profile_for(test: Test, name: str) -> Profile:
    """The profile with units of a word at least: eight bytes in flight one by one are 256 states for the oracle."""
    chosen = NAMED[name]
    return replace(chosen, unit=int(test.settings.get("placement", max(chosen.unit, 8))))


def ends(test: Test, profile: Profile) -> tuple[set[object], str]:
    """What the slow oracle sees, and which it was."""
    plain = eager.search(lambda: Run(test, profile), bounds=Bounds(states=PLAIN_MAX))
    if plain.complete:
        return set(plain.outcomes), "plain"
    remembered = eager.search(lambda: Run(test, profile), digest=Run.digest, bounds=Bounds(states=REMEMBERED_MAX))
    return set(remembered.outcomes), "remembered" if remembered.complete else ""


def compare(test: Test, profile: Profile) -> str:
    """Compares all searches; returns which oracle was used."""
    wanted, oracle = ends(test, profile)
    if oracle == "plain":
        remembered = eager.search(lambda: Run(test, profile), digest=Run.digest, bounds=Bounds(states=PLAIN_MAX))
        assert remembered.complete
        assert set(remembered.outcomes) == wanted
    if oracle:
        for sleep in (True, False):
            found = dpor.Search(lambda: Run(test, profile), sleep=sleep).run()
            assert found.complete
            assert set(found.outcomes) == wanted, f"sleep sets: {sleep}"
    return oracle


@pytest.mark.parametrize(("test", "name"), CASES, ids=[f"{test.name}-{name}" for test, name in CASES])
def test_searches_agree_on_the_files(test: Test, name: str) -> None:
    oracle = compare(test, profile_for(test, name))
    assert oracle or not FULL or test.name in SHAPES  # some of the shapes are too much for it


# What a completion does not say must not order a later load after a placement that happened to come first.
COMPLETIONS = {
    "a receive covers nothing of another queue": "P0: write x@1 = 1 {qp=2}; write_imm y@1 = 1\nP1: poll_recv; r = x",
    "a completion of the second says nothing of the first": (
        "P0: write x@1 = 1; write y@1 = 1; poll_cq 1 n=2; tell 1\nP1: hear 0; r = x"
    ),
}


@pytest.mark.parametrize("what", COMPLETIONS)
@pytest.mark.parametrize("name", ["rc_strict", "rc_relaxed"])
def test_completions_order_no_more_than_they_say(what: str, name: str) -> None:
    [test] = parse(
        f'test C "{what}"\ninit x = 0, y = 0\n{COMPLETIONS[what]}\noutcome 1:r == 1\nverdict {name} allowed\n'
    )
    assert compare(test, NAMED[name])
    ends = dpor.Search(lambda: Run(test, NAMED[name])).run().outcomes
    assert {dict(end.registers[1])["r"] for end in ends} == {0, 1}


@pytest.mark.parametrize("name", sorted(NAMED))
def test_searches_agree_on_random_programs(name: str) -> None:
    profile = replace(NAMED[name], unit=8)
    used = []
    for seed in range(SEEDS):
        [test] = parse(program(random.Random(seed)))
        try:
            used.append(compare(test, profile))
        except Impossible:  # an atomic of the adapter, where there is none
            continue
        except AssertionError as error:
            raise AssertionError(f"seed {seed} under {name}:\n{program(random.Random(seed))}") from error
    assert used.count("plain") >= SEEDS // 4
    assert used.count("") <= SEEDS // 4
