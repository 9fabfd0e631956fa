"""The `sim` fabric against the litmus language: the same statements as a program and as data have the same ends."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import shmem
from shmem import config
from shmem.check import dpor, eager
from shmem.check.bounds import Bounds
from shmem.check.exploration import prepare
from shmem.check.litmus.language import parse
from shmem.check.litmus.run import Run
from shmem.check.litmus.syntax import Test
from shmem.check.surroundings import live
from shmem.delivery.profiles import NAMED, Profile
from shmem.fabric.sim import Job, Program
from tests.launcher.cells import FULL

from .as_program import Watched, body
from .programs import shmem_program

SEEDS = 80 if FULL else 25
STATES = 3_000 if FULL else 500  # of a test as data; the few larger ones take most of the time
SETTINGS = replace(config.read({}, warn=False), heap_size=1 << 16)


def ends_as_data(test: Test, profile: Profile) -> set[Any] | None:
    found = dpor.Search(lambda: Run(test, profile), bounds=Bounds(states=STATES)).run()
    return {(_named(end.registers), end.blocked) for end in found.outcomes} if found.complete else None


def _named(registers: Any) -> Any:
    """Without those of a statement that waits."""
    return tuple(tuple(item for item in each if not item[0].startswith(".")) for each in registers)


def ends_as_program(test: Test, profile: Profile, made_of: Any = body) -> set[Any] | None:
    jobs: list[Watched] = []

    def start() -> Watched:
        program = Program(made_of(lambda: jobs[-1], test), test.pes, profile, SETTINGS)
        made = Watched.__new__(Watched)
        jobs.append(made)
        made.__init__(program, test)  # type: ignore[misc]
        return made

    found = dpor.Search(start, bounds=Bounds(states=4 * STATES)).run()
    return set(found.outcomes) if found.complete else None


def agreeing(profile: Profile, seeds: Iterable[object]) -> int:
    """Of how many random tests both ends were found; they are the same."""
    compared = 0
    for seed in seeds:
        text = shmem_program(random.Random(str(seed)))
        [test] = parse(text)
        wanted = ends_as_data(test, profile)
        found = ends_as_program(test, profile) if wanted is not None else None
        if wanted is not None and found is not None:
            assert found == wanted, f"seed {seed} under {profile.name}:\n{text}"
            compared += 1
    return compared


@pytest.mark.parametrize("name", sorted(NAMED))
def test_programs_have_the_ends_of_their_litmus_tests(name: str) -> None:
    assert agreeing(replace(NAMED[name], unit=8), range(SEEDS)) >= SEEDS // 2


def brings(how: str) -> int:
    word, own = shmem.zeros(1, np.int64), np.zeros(1, np.int64)
    if shmem.my_pe() == 1:
        word[0] = 1
        return 0
    if how == "get_nbi":
        shmem.get_nbi(own, word, 1)
        shmem.quiet()
        return int(own[0])
    return int(shmem.g(word, 1) if how == "g" else shmem.atomic_fetch_add(word, 0, 1))


@pytest.mark.parametrize("how", ["g", "get_nbi", "atomic_fetch_add"])
def test_what_a_pe_was_told_is_part_of_a_state(how: str) -> None:
    """Else the slow oracle would take two states for one, which differ only in what came from another PE."""
    program = prepare(brings, 2, "srd", (how,))
    with live(program):
        found = eager.search(lambda: Job(program), digest=Job.digest)  # type: ignore[arg-type]
    assert found.complete
    assert {end.what for end in found.outcomes} == {(0, 0), (1, 0)}
