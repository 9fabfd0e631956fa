"""The search loses no race: what an execution in any order shows, one of its executions shows."""

from __future__ import annotations

import random
import sys
from dataclasses import replace

import pytest

from shmem import config
from shmem.check import dpor
from shmem.check.bounds import Bounds
from shmem.check.executions import Possible, run
from shmem.check.exploration import prepare
from shmem.check.litmus import races as litmus
from shmem.check.litmus.language import parse
from shmem.check.once import once
from shmem.check.races.judge import Judge
from shmem.check.races.rules import MODES
from shmem.check.strategies.random import drawn as by_chance
from shmem.check.surroundings import live
from shmem.check.system import System
from shmem.delivery.profiles import NAMED
from shmem.fabric.sim import Job, Program
from tests.launcher.cells import FULL

from . import nic_programs as pairs
from .programs import meeting_program
from .race_requests import MORE, told
from .test_races_oracle import apart

SEEDS, STATES, ORDERS = (400, 20_000, 100) if FULL else (8, 2_500, 30)

Seen = set[frozenset[object]]


def races(job: Job, mode: str) -> frozenset[object]:
    """The races of an execution, by what each access is."""
    assert job.observed is not None
    found = Judge(mode).run(apart(job.observed.events))
    at = lambda span: span if isinstance(span.space, int) else "private"  # noqa: E731  # it lies elsewhere in each run
    return frozenset(frozenset((each.task, each.what, at(each.at), each.part) for each in race.ends) for race in found)


def program_of(seed: int, profile: str) -> Program:
    """A random program."""
    [test] = parse(meeting_program(random.Random(seed)))
    settings = replace(config.read(warn=False), fabric="sim")
    body = lambda pe: litmus._run(test, pe)  # noqa: E731
    return Program(body, test.pes, replace(NAMED[profile], unit=8), settings, races="lenient")


def by_the_search(program: Program, kind: type[Job] = Job) -> tuple[list[Seen], bool]:
    """What its executions show, by mode, and whether they are all."""
    seen: list[Seen] = [set() for _ in MODES]

    def ended(system: System, moves: object) -> bool:
        assert isinstance(system, Job)
        for each, mode in zip(seen, MODES, strict=True):
            each.add(races(system, mode))
        return False

    with live(program):
        found = dpor.Search(lambda: kind(program), bounds=Bounds(states=STATES), ended=ended).run()
    return seen, found.complete


def paired(seed: int, profile: str) -> Program:
    """A random program with queue pairs."""
    made = told(random.Random(seed))
    return prepare(pairs.program, 2, replace(NAMED[profile], unit=8), (made, MORE), races="lenient")


@pytest.mark.parametrize("profile", ["rc_relaxed", "udma"])
def test_what_any_order_shows_of_queue_pairs_the_search_has_seen(profile: str) -> None:
    several = 0
    for seed in range(20, 20 + SEEDS * 2 // 3):
        program = paired(seed, profile)
        seen, complete = by_the_search(program, pairs.Begun)
        assert complete
        drawn: list[Seen] = [set() for _ in MODES]
        with live(program):
            for order in range(ORDERS // 2):
                job = pairs.Begun(program)
                run(job, by_chance(order, 0), sys.maxsize, stop=lambda job=job: job.failure, order=Possible())
                for each, mode in zip(drawn, MODES, strict=True):
                    if job.failure is None:  # else it was not made to its end
                        each.add(races(job, mode))
                job.close()
        for one, other in zip(drawn, seen, strict=True):
            assert one <= other, f"seed {seed}: {told(random.Random(seed))}"
        several += len(drawn[0]) > 1
    assert several >= SEEDS // 6


@pytest.mark.parametrize("profile", ["openshmem", "rc_relaxed"])
def test_what_any_order_shows_the_search_has_seen(profile: str) -> None:
    compared, several = 0, 0
    for seed in range(SEEDS):
        program = program_of(seed, profile)
        seen, complete = by_the_search(program)
        if not complete:
            continue
        drawn: list[Seen] = [set() for _ in MODES]
        for order in range(ORDERS):
            with once(program, order) as job:
                for each, mode in zip(drawn, MODES, strict=True):
                    each.add(races(job, mode))
        for one, other in zip(drawn, seen, strict=True):
            assert one <= other, f"seed {seed}:\n{meeting_program(random.Random(seed))}"
        compared += 1
        several += len(drawn[0]) > 1
    assert compared >= SEEDS // 2
    assert several >= SEEDS // 8
