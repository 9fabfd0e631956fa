"""Every planted bug is found, by each strategy within its budget, and its repaired twin is exhausted without one."""

from __future__ import annotations

import os
from typing import Any

import pytest

from shmem.check import dpor, eager
from shmem.check.bounds import Bounds
from shmem.check.exploration import explore, prepare, replay
from shmem.check.report import Report
from shmem.check.surroundings import live
from shmem.delivery.profiles import varied
from shmem.fabric.sim import Job

from . import planted_requests as planted_requests  # registers some
from .planted import PLANTED

STATES = 3_000 if os.environ.get("SHMEMU_TEST_CELLS") == "full" else 300


def explored(name: str, right: bool, strategy: str, budget: Any = None) -> Report:
    bug = PLANTED[name]
    profile = varied(bug.profile, **bug.changes)
    return explore(bug.program, bug.pes, profile, strategy, args=(right,), budget=budget)


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize(("strategy", "budget"), [("exhaustive", None), ("random", 800), ("pct", 400), ("delay", 400)])
def test_a_planted_bug_is_found(name: str, strategy: str, budget: int | None) -> None:
    bug = PLANTED[name]
    report = explored(name, False, strategy, budget)
    assert [failure.kind for failure in report.failures] == [bug.kind], report
    again = replay(bug.program, report.failures[0].token, bug.pes, varied(bug.profile, **bug.changes), args=(False,))
    assert [failure.kind for failure in again.failures] == [bug.kind], again
    assert again.failures[0].text == report.failures[0].text


@pytest.mark.parametrize("name", PLANTED)
def test_its_repaired_twin_is_exhausted(name: str) -> None:
    report = explored(name, True, "exhaustive")
    assert report.ok, report
    assert report.complete, report


def ends(name: str, right: bool) -> tuple[set[Any], set[Any] | None]:
    """What the search sees, and what the slow oracle does; None where that is too much for it."""
    bug = PLANTED[name]
    program = prepare(bug.program, bug.pes, varied(bug.profile, **bug.changes), (right,))
    with live(program):
        found = dpor.Search(lambda: Job(program)).run()
        oracle = eager.search(lambda: Job(program), digest=Job.digest, bounds=Bounds(states=STATES))  # type: ignore[arg-type]
    assert found.complete
    return set(found.outcomes), set(oracle.outcomes) if oracle.complete else None


def test_the_search_sees_what_the_slow_oracle_sees() -> None:
    compared = 0
    for name in PLANTED:
        for right in (False, True):
            found, wanted = ends(name, right)
            if wanted is not None:
                compared += 1
                assert found == wanted, name
    assert compared >= len(PLANTED)


def test_there_are_enough() -> None:
    assert len(PLANTED) >= 20
