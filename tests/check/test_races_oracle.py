"""Vector clocks find the same races as the closure of all edges, on the events of random programs."""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from shmem import config
from shmem.check.executions import Possible, run
from shmem.check.exploration import prepare
from shmem.check.litmus import races as litmus
from shmem.check.litmus.language import parse
from shmem.check.once import once
from shmem.check.races.judge import Judge
from shmem.check.races.rules import MODES
from shmem.check.strategies.random import drawn as by_chance
from shmem.check.surroundings import live
from shmem.delivery.profiles import NAMED
from shmem.fabric.events import Event, Kind, Operation, Quiet
from shmem.fabric.sim import Program
from tests.launcher.cells import FULL

from . import closure, closure_pairs
from . import nic_programs as pairs
from .programs import race_program
from .race_requests import MORE, longer

SEEDS = 400 if FULL else 40
PROFILES = ("openshmem", "rc_relaxed", "tso")


def events_of(seed: int, profile: str) -> list[Event]:
    """The events of a random program in a random order of deliveries."""
    [test] = parse(race_program(random.Random(seed)))
    settings = replace(config.read(warn=False), fabric="sim")
    body = lambda pe: litmus._run(test, pe)  # noqa: E731
    program = Program(body, test.pes, replace(NAMED[profile], unit=8), settings, races="lenient")
    with once(program, seed) as job:
        assert job.observed is not None
        return list(job.observed.events)


def clocks(events: Sequence[Event], mode: str) -> set[tuple[tuple[int, str], tuple[int, str]]]:
    """The races as pairs of (event, part), by the detector."""
    numbers = {}  # of the step of each task
    count: dict[object, int] = {}
    for i, event in enumerate(events):
        task = getattr(event, "task", None)
        if task is not None:
            count[task] = count.get(task, 0) + 1
            numbers[task, count[task]] = i
            count[task] += type(event).__name__ == "Waited"  # an access, and what it learns
    found = set()
    for race in Judge(mode).run(events):
        one, other = ((numbers[each.task, each.point], each.part) for each in race.ends)
        found.add((one, other))
    return found


def apart(events: Sequence[Event]) -> list[Event]:
    """The same, each of another line."""
    return [event._replace(where=str(i)) if hasattr(event, "where") else event for i, event in enumerate(events)]


@pytest.mark.parametrize("profile", PROFILES)
def test_clocks_agree_with_the_closure(profile: str) -> None:
    racy, kinds, orders = 0, set[Kind](), set[str]()
    for seed in range(SEEDS):
        events = events_of(seed, profile)
        for mode in MODES:
            wanted = closure.Closure(events, mode == "lenient").races()
            assert clocks(apart(events), mode) == wanted, f"seed {seed}, {mode}:\n{race_program(random.Random(seed))}"
            assert bool(Judge(mode).run(events)) == bool(wanted)  # equal steps of one line count once
            racy += bool(wanted)
        kinds |= {event.kind for event in events if isinstance(event, Operation)}
        orders |= {type(event).__name__ for event in events}
    assert SEEDS / 5 < racy < 2 * SEEDS * 19 / 20
    assert kinds == {Kind.PUT, Kind.GET, Kind.FETCH, Kind.UPDATE}
    assert orders >= {"Landed", "Waited", "Answered", "Fence", "Quiet", "Release", "Acquire"}


PAIRED = sorted(pairs.PROFILES) if FULL else ["lost_ack", "rc_strict", "tso", "udma"]


def paired(seed: int, profile: str) -> list[Event]:
    """The events of a random program with queue pairs, in a random order of deliveries."""
    whole = prepare(
        pairs.program, 2, replace(pairs.PROFILES[profile], unit=8), (longer(random.Random(seed)), MORE), races="lenient"
    )
    with live(whole):
        job = pairs.Begun(whole)
        run(job, by_chance(seed, 0), sys.maxsize, stop=lambda: job.failure, order=Possible())
        assert job.observed is not None
        events = list(job.observed.events)
        job.close()
    return events


@pytest.mark.parametrize("profile", PAIRED)
def test_clocks_agree_with_the_closure_on_queue_pairs(profile: str) -> None:
    racy, orders, after = 0, set[str](), 0
    for seed in range(SEEDS // 2):
        events = paired(seed, profile)
        for mode in MODES:
            wanted = closure_pairs.PairedClosure(events, mode == "lenient").races()
            assert clocks(apart(events), mode) == wanted, f"seed {seed}, {mode}: {longer(random.Random(seed))}"
            racy += bool(wanted)
        orders |= {type(event).__name__ for event in events}
        after += sum(len(event.after) for event in events if isinstance(event, Operation))
    assert SEEDS / 5 < racy < SEEDS * 19 / 20
    assert orders >= {"Landed", "Waited", "Fence", "Quiet", "Rung", "Ended", "Received"}
    promised = pairs.PROFILES[profile]
    if promised.requests == "any" and promised.write_atomic in ("any", "none"):
        assert not after  # no request takes effect after another
    elif promised.requests != "flag":  # there few do
        assert after


def test_the_closure_notices_an_edge_that_is_gone() -> None:
    """Without its quiets a program has more races, for both."""
    more = 0
    for seed in range(100):
        events = events_of(seed, "rc_relaxed")
        fewer = [event for event in events if not isinstance(event, Quiet)]
        wanted = closure.Closure(fewer, True).races()
        assert bool(Judge("lenient").run(fewer)) == bool(wanted)
        more += len(wanted) > len(closure.Closure(events, True).races())
    assert more >= 5


def test_they_share_nothing_but_the_events() -> None:
    tree = ast.parse(Path(closure.__file__).read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name for name in modules if name and name.startswith("shmem")} == {"shmem.fabric.events"}
