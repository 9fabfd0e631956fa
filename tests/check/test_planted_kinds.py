"""The planted bugs are many, of many kinds, and some of them are rare; the page about them is as they are."""

from __future__ import annotations

import pytest

from shmem.check.exploration import explore
from shmem.delivery.profiles import varied

from .planted_all import PLANTED
from .planted_page import PAGE, START, table
from .planted_rates import FAILURES_MAX, RENEW, RUNS, failing, prepared, saved
from .test_planted import FULL

SAVED = saved()
RARE = [name for name, bug in PLANTED.items() if bug.rare]
AGAIN = RUNS if FULL else 15  # runs of each that are made again, from the first on


def test_there_are_enough_of_each_sort() -> None:
    bugs = PLANTED.values()
    assert len(bugs) >= 40
    assert len({bug.sort for bug in bugs}) >= 25
    assert len({bug.source for bug in bugs if bug.source}) >= 15
    assert sum(bug.pes >= 3 or bug.rounds >= 2 for bug in bugs) >= 10
    assert len(RARE) >= 10


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_said_of_each_is_in_order(name: str) -> None:
    bug = PLANTED[name]
    assert bug.sort == bug.sort.strip(" .")
    assert bug.source == "" or bug.source.partition("#")[2].isdigit()
    assert bug.rounds >= 1


@pytest.mark.parametrize("name", RARE)
def test_a_rare_one_fails_in_less_than_one_random_run_of_a_hundred(name: str) -> None:
    """The runs that failed are saved; some are made again, whether they failed or not."""
    assert name in SAVED, f"the random runs of {name} are not saved yet: {RENEW}"
    entry, program = SAVED[name], prepared(name)
    assert entry["program"] == program.identity, f"{name} has changed since its random runs were made: {RENEW}"
    assert entry["runs"] == RUNS
    assert len(entry["failed"]) <= FAILURES_MAX
    runs = sorted({*range(AGAIN), *entry["failed"][:1]})
    assert failing(program, runs) == [i for i in entry["failed"] if i in runs]


def test_no_others_are_saved() -> None:
    assert list(SAVED) == RARE, RENEW


def test_the_runs_are_those_of_the_strategy() -> None:
    bug = PLANTED["missing_fence"]
    first, *_ = failing(prepared("missing_fence"), range(40))
    report = explore(bug.program, bug.pes, varied(bug.profile, **bug.changes), "random", args=(False,), budget=40)
    assert report.executions == first + 1 > 1


def test_the_page_is_that_of_the_programs() -> None:
    """Write it anew with `python -m tests.check.planted_page`."""
    assert PAGE.read_text(encoding="utf-8").partition(START)[2] == "\n" + table()
