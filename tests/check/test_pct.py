"""What `pct` promises: failures of depth d show at least as often as 1 / (n k^(d-1)), with the n and k of the report.

Samples are fixed by their seeds, and compared with the bound less four standard deviations. That a program has depth d
is seen as well: with fewer changes nothing shows.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from shmem.check.bounds import Bounds
from shmem.check.exploration import explore, prepare
from shmem.check.found import Chance
from shmem.check.litmus.language import parse
from shmem.check.litmus.model import Impossible
from shmem.check.litmus.run import Run
from shmem.check.litmus.syntax import Test
from shmem.check.strategies import pct
from shmem.check.strategies.parties import Parties
from shmem.check.surroundings import live
from shmem.delivery.facts import alternative
from shmem.delivery.machine import Machine, Memory
from shmem.delivery.profiles import NAMED, Profile, varied
from shmem.delivery.requests import Act
from shmem.fabric.sim import Job

from .planted import PLANTED
from .programs import program

WORDS = varied("openshmem", unit=8)
STRICT = NAMED["rc_strict"]


def litmus(*lines: str) -> Test:
    head = ['test T "t"', "init x = 0, y = 0, z = 0", "local b = 0"]
    [test] = parse("\n".join([*head, *lines, "verdict udma clean", ""]))
    return test


class Threads:
    """A system without deliveries: tasks that take steps, all of them always possible."""

    def __init__(self, *programs: list[Callable[[dict[str, int]], object]]) -> None:
        self.programs, self.at, self.has = programs, [0] * len(programs), {"x": 0}
        self.machine = Machine(WORDS, Memory())

    def moves(self) -> list[int]:
        return [i for i, program in enumerate(self.programs) if self.at[i] < len(program)]

    def perform(self, move: int) -> tuple[object, ...]:
        self.at[move] += 1
        self.programs[move][self.at[move] - 1](self.has)
        return ()

    def outcome(self) -> object:
        return tuple(sorted(self.has.items()))

    def close(self) -> None:
        pass


def sets(value: int) -> Callable[[dict[str, int]], object]:
    return lambda has: has.update(x=value)


def reads(name: str) -> Callable[[dict[str, int]], object]:
    return lambda has: has.update({name: has["x"]})


def run_of(profile: Profile, *lines: str) -> Callable[[], Any]:
    test = litmus(*lines)
    return lambda: Run(test, profile)


@dataclass(frozen=True)
class Bug:
    """Something that fails, how, and how many must be held back for that."""

    start: Callable[[], Any]
    depth: int
    fails: dict[str, int]  # what was read


BUGS = {
    "one comes last": Bug(lambda: Threads([sets(1)], [sets(2)], [sets(3)]), 1, {"x": 2}),
    "a reader between": Bug(lambda: Threads([sets(i) for i in range(1, 6)], [reads("r")]), 2, {"r": 3}),
    "two reads apart": Bug(lambda: Threads([sets(1), sets(2)], [reads("r"), reads("s")]), 3, {"r": 1, "s": 2}),
    # The data held back.
    "data after a flag": Bug(run_of(WORDS, "P0: put x@1 = 1; put y@1 = 1", "P1: wait y == 1; r = x"), 1, {"r": 0}),
    # The reader, then the second of the writes, which come in order.
    "a stale read": Bug(run_of(STRICT, "P0: put x@1 = 1; put x@1 = 2; put x@1 = 3", "P1: r = x"), 2, {"r": 2}),
    # The reader, the second write, the reader again.
    "two stale reads": Bug(run_of(STRICT, "P0: put x@1 = 1; put x@1 = 2", "P1: r = x; s = x"), 3, {"r": 1, "s": 2}),
}


def fails(bug: Bug, end: Any) -> bool:
    has = dict(end.registers[1] if hasattr(end, "registers") else end)
    return all(has[name] == value for name, value in bug.fails.items())


def sample(bug: Bug, depth: int, executions: int) -> tuple[int, Chance]:
    """How many of so many executions fail, and what is promised."""
    bounds = Bounds(executions=executions)
    found = pct.search(bug.start, bounds, 0, lambda system, moves: False, depth)
    assert found.chance is not None
    return sum(n for end, n in found.outcomes.items() if fails(bug, end)), found.chance


@pytest.mark.parametrize("name", BUGS)
def test_a_failure_shows_as_often_as_is_promised(name: str) -> None:
    bug = BUGS[name]
    failed, chance = sample(bug, bug.depth, 2000)
    wanted = 2000 * chance.least
    least = wanted - 4 * math.sqrt(wanted * (1 - chance.least))
    assert least > 5 or name == "two stale reads"  # which could not fail alone
    assert failed >= max(least, 1), (failed, chance)


@pytest.mark.parametrize("name", [name for name in BUGS if BUGS[name].depth > 1])
def test_with_fewer_changes_it_does_not_show(name: str) -> None:
    assert sample(BUGS[name], BUGS[name].depth - 1, 1000)[0] == 0


def test_more_changes_than_needed_promise_their_own_bound() -> None:
    failed, chance = sample(BUGS["data after a flag"], 3, 1000)
    assert failed >= 1000 * chance.least


def test_the_promise_holds_for_a_program_in_python() -> None:
    bug = PLANTED["missing_fence"]
    made = prepare(bug.program, bug.pes, varied(bug.profile, **bug.changes), (False,))
    with live(made):
        found = pct.search(lambda: Job(made), Bounds(executions=200), 0, lambda system, moves: False, 1)
    assert found.chance is not None
    failed = sum(n for end, n in found.outcomes.items() if end.kind == "assertion")
    least = found.chance.least
    assert (found.chance.parties, least) == (4, 0.25)  # two PEs, the data, the flag
    assert failed >= 200 * least - 4 * math.sqrt(200 * least * (1 - least))


def test_n_and_k_are_those_that_were_seen() -> None:
    """Counted once more, by what is possible at each move of the same executions."""
    seen: list[int] = []

    def start() -> Any:
        run = BUGS["a stale read"].start()
        perform, moves, several = run.perform, run.moves, [0]

        def counted(move: object) -> tuple[object, ...]:
            several[0] += len(moves()) > 1
            seen[-1] = several[0]
            return perform(move)

        seen.append(0)
        run.perform = counted
        return run

    found = pct.search(start, Bounds(executions=300), 5, lambda system, moves: False)
    chance = found.chance
    assert chance is not None
    assert (chance.parties, chance.choices, chance.depth) == (3, max(seen) + 2, 3)
    assert chance.executions == 300 - 1 - seen.index(max(seen))  # the rest drew from fewer
    assert chance.least == 1 / (3 * (max(seen) + 2) ** 2)
    assert chance.missed == (1 - chance.least) ** chance.executions


def test_the_report_of_a_program_has_it() -> None:
    bug = PLANTED["missing_fence"]
    report = explore(bug.program, 2, varied("openshmem", unit=8), "pct", args=(True,), budget=20)
    assert report.chance is not None
    assert f"k={report.chance.choices} choices" in report.looked()
    assert f"= {report.chance.least:.2g}" in report.looked()
    assert explore(bug.program, 2, args=(True,), profile="tso", strategy="random", budget=20).chance is None


def parties(text: str, profile: Profile, seed: int = 0) -> dict[object, list[object]]:
    """The moves of each party along one execution drawn at random."""
    run, rng = Run(litmus(*text.splitlines()), profile), random.Random(seed)
    found, whose = dict[object, list[object]](), Parties(run.machine)
    while moves := run.moves():
        now = [whose.of(move) for move in moves]
        for i, move in enumerate(moves):
            assert not any(now[i] == now[k] and not alternative(move, moves[k]) for k in range(i)), moves
        k = rng.randrange(len(moves))
        found.setdefault(now[k], []).append(moves[k])
        run.perform(moves[k])
    return found


def test_what_a_queue_keeps_in_order_is_one_party() -> None:
    text = "P0: put x@1 = 1; put y@1 = 2; put x@1 = 3\nP1: r = x"
    for seed in range(20):
        assert len(parties(text, STRICT, seed)) == 3
        assert len(parties(text, WORDS, seed)) == 5
    fenced = "P0: put x@1 = 1; put y@1 = 2; fence; put x@1 = 3\nP1: r = x"
    assert len(parties(fenced, WORDS)) in (4, 5)  # what has arrived before the fence is ordered by no rule
    assert min(len(parties(fenced, WORDS, seed)) for seed in range(20)) == 4


def test_queues_and_targets_are_parties_of_their_own() -> None:
    text = "P0: write x@1 = 1; write x@1 = 2; write x@2 = 1; write x@1 = 3 {qp=2}\nP1: r = x\nP2: r = x"
    for seed in range(20):
        places = [[each for each in those if getattr(each, "act", None) is Act.PLACE]
                  for those in parties(text, STRICT, seed).values()]  # fmt: skip
        assert sorted(len(chain) for chain in places if chain) == [1, 1, 2]


@pytest.mark.parametrize("name", sorted(NAMED))
def test_no_two_moves_of_a_party_are_possible_at_once(name: str) -> None:
    for knobs in ({}, {"reader": "lazy"} if name != "tso" else {"unit": 4}):
        profile = replace(NAMED[name], **{"unit": 4, **knobs})
        for seed in range(40):
            text = program(random.Random(seed)).splitlines()
            try:
                parties("\n".join(line for line in text if line[0] == "P"), profile, seed)
            except Impossible:
                continue
