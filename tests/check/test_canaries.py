"""Canaries: what must fail does, before anything else of the explorer is tested (`conftest`).

Each strategy finds a failure and its replay is that failure; a program that is not the same twice is told so; and a
search that prunes without care loses an outcome, which the tests of reductions would have to notice.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmem
from shmem.check import dpor, eager, tokens
from shmem.check.executions import run
from shmem.check.exploration import explore, replay
from shmem.check.found import Found
from shmem.check.litmus.language import parse
from shmem.check.litmus.run import Run
from shmem.check.report import Failure, Report
from shmem.check.saved import read, save
from shmem.check.strategies import STRATEGIES
from shmem.delivery.profiles import varied
from shmem.errors import NondeterministicProgram

from .planted import PLANTED, Planted, words

SMALL = ("missing_fence", "a_lost_update", "a_value_that_is_passed_by", "a_barrier_that_one_skips")


def explored(bug: Planted, strategy: str) -> Report:
    profile = varied(bug.profile, **bug.changes)
    return explore(bug.program, bug.pes, profile, strategy, args=(False,), budget=200)


def again(bug: Planted, token: str) -> Failure:
    [failure] = replay(bug.program, token, bug.pes, varied(bug.profile, **bug.changes), args=(False,)).failures
    return failure


def shown(failure: Failure) -> tuple[object, ...]:
    return failure.kind, failure.who, failure.text, failure.story, failure.token


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", SMALL)
def test_a_failure_is_found_and_its_replay_is_that_failure(name: str, strategy: str, tmp_path: Path) -> None:
    bug = PLANTED[name]
    report = explored(bug, strategy)
    [failure] = report.failures
    assert failure.kind == bug.kind
    assert failure.story
    assert shown(again(bug, failure.token)) == shown(failure)
    assert shown(again(bug, read(save(report, failure, tmp_path)).token)) == shown(failure)
    hashed = failure.token.split(".")[1]
    assert tokens.encode(hashed, tokens.decode(failure.token)) == failure.token


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_canary_dies_of_a_strategy_that_tries_nothing(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def lazy(start: Callable[[], Any], bounds: object, seed: int, ended: Callable[..., bool], *more: object) -> Found:
        found, system = Found(), start()
        moves, _, _ = run(system, lambda moves: 0)
        found.end(system.outcome())
        ended(system, moves)
        return found

    monkeypatch.setitem(STRATEGIES, strategy, lazy)
    assert explored(PLANTED["missing_fence"], strategy).ok


class Thing:
    """It is compared and hashed by its address."""


def tells(*numbers: int) -> list[int]:
    """Sends numbers to the other PE; what came."""
    there = words(len(numbers))
    shmem.put(there, np.array(numbers, np.uint64), 1 - shmem.my_pe())
    shmem.barrier_all()
    return there.tolist()  # type: ignore[no-any-return]


def the_time() -> object:
    return tells(time.perf_counter_ns())


def an_address() -> object:
    return tells(id(Thing()))


def the_order_of_addresses() -> object:
    things = [Thing() for _ in range(64)]
    return tells(*sorted(range(64), key=lambda i: id(things[i])))


def the_order_of_a_set() -> object:
    things = [Thing() for _ in range(64)]
    return tells(*(things.index(thing) for thing in set(things)))


def the_order_of_a_dict() -> object:
    """It is that in which keys came, and they came by address."""
    things = [Thing() for _ in range(64)]
    numbers = dict.fromkeys(set(things))
    return tells(*map(things.index, numbers))


def random_bytes() -> object:
    return tells(int.from_bytes(os.urandom(7), "little"))


def a_uuid() -> object:
    return tells(uuid.uuid4().int % 2**63)


def what_nobody_looks_at() -> None:
    shmem.p(words(), time.perf_counter_ns(), 1 - shmem.my_pe())
    shmem.barrier_all()


def a_file_that_grows(path: str) -> object:
    with open(path, "a") as file:
        file.write("x")
    return tells(os.path.getsize(path))


def one_put_more_each_time(path: str) -> None:
    a_file_that_grows(path)
    for _ in range(os.path.getsize(path)):
        shmem.p(words(), 0, 1 - shmem.my_pe())


BY_ITSELF = [
    the_time, an_address, the_order_of_addresses, the_order_of_a_set, the_order_of_a_dict, random_bytes, a_uuid,
    what_nobody_looks_at,
]  # fmt: skip


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("program", BY_ITSELF, ids=lambda program: program.__name__)
def test_what_differs_when_it_is_run_again_is_told(program: Callable[[], object], strategy: str) -> None:
    with pytest.raises(NondeterministicProgram):
        explore(program, 2, "tso", strategy, budget=3)


@pytest.mark.parametrize("program", [a_file_that_grows, one_put_more_each_time], ids=lambda program: program.__name__)
def test_a_file_that_grows_is_told(program: Callable[[str], object], tmp_path: Path) -> None:
    with pytest.raises(NondeterministicProgram):
        explore(program, 2, "tso", args=(str(tmp_path / "file"),))


def test_a_failure_that_does_not_come_again_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file"

    def program() -> None:
        there = path.exists()
        path.touch()
        assert there

    with pytest.raises(NondeterministicProgram, match=r"ended differently: assertion.*then the PEs returned"):
        explore(program, 1)


def test_the_second_time_new_objects_lie_in_another_order() -> None:
    """In a process of its own: how memory lies in this one is an affair of all tests before."""
    code = (
        "from itertools import pairwise\nfrom shmem.check.executions import stirred\n\n"
        "def turns():\n    objects = [bytes(20) for _ in range(300)]\n"
        "    return sum(id(one) > id(other) for one, other in pairwise(objects))\n\n"
        "filled = [bytes(20) for _ in range(100_000)]\nbefore = turns()\nwith stirred():\n    print(before, turns())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before < 50 < 100 < after


def test_with_twice_every_execution_is_made_again(tmp_path: Path) -> None:
    """What differs from the tenth run on is seen by nothing else, where executions are drawn."""
    path = tmp_path / "file"

    def program() -> bool:
        a_line(path)
        return path.stat().st_size > 9

    def a_line(path: Path) -> None:
        with path.open("a") as file:
            file.write("x")

    assert len(explore(program, 1, strategy="random", budget=20).outcomes) == 2
    path.unlink()
    with pytest.raises(NondeterministicProgram):
        explore(program, 1, strategy="random", budget=20, twice=True)


class Naive(dpor.Search):
    """Goes on from each state once, and forgets what was touched below it: so nothing below a state that is met again
    is tried before what led there another way."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.seen: set[object] = set()

    def _enter(self, sleep: dict[Any, Any]) -> None:
        state = self.trail.here.digest()  # type: ignore[attr-defined]
        super()._enter(sleep)
        if state in self.seen:
            self.path[-1].enabled, self.path[-1].todo = [], []
        self.seen.add(state)


# A profile, what PEs do, and whether sleep sets make up for it.
PRUNED = [
    ("openshmem", ["P0: r = y", "P1: atomic_set y@0 = 1"], True),
    ("tso", ["P0: put x@1 = 1", "P1: x = 2; r = x"], False),
]


@pytest.mark.parametrize(("name", "lines", "helped"), PRUNED, ids=lambda value: value if isinstance(value, str) else "")
def test_naive_pruning_loses_an_outcome(name: str, lines: list[str], helped: bool) -> None:
    [test] = parse("\n".join(['test T "t"', "init x = 0, y = 0", *lines, "verdict udma clean", ""]))

    def start() -> Run:
        return Run(test, varied(name, unit=8))

    every = set(eager.search(start).outcomes)
    for sleep in (True, False):
        assert set(dpor.Search(start, sleep=sleep).run().outcomes) == every
        naive = Naive(start, sleep=sleep).run()
        assert naive.complete
        assert set(naive.outcomes) < every or (sleep and helped and set(naive.outcomes) == every)
