"""Every planted bug is found, by each strategy within its budget, and its repaired twin is exhausted without one."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from shmem.check import dpor, eager
from shmem.check.bounds import Bounds
from shmem.check.exploration import explore, prepare, replay
from shmem.check.report import Report
from shmem.check.surroundings import live
from shmem.delivery.profiles import varied
from shmem.fabric.sim import Job
from tests.launcher.cells import FULL

from .planted_all import PLANTED

STATES = 3_000 if FULL else 650  # for the slow oracle
# Too large for it, or slow: programs, and whether they are right.
TOO_LARGE = [
    ("locks_in_two_orders", False), ("locks_in_two_orders", True), ("nothing_is_ever_signaled", True),
    ("a_source_reused_at_once", False),
    ("an_array_that_is_not_freed", False), ("an_array_that_is_not_freed", True),
    ("a_line_whose_words_come_in_any_order", False),
    *product(
        ["a_stack_whose_top_comes_back", "a_version_modulo_six", "two_buffers_and_a_slow_reader",
         "a_thief_that_looks_at_the_end_first", "an_end_that_was_counted_wrong", "a_ring_filled_to_its_last_place",
         "the_next_buffer_is_cleared", "two_barriers_with_the_same_words", "a_sum_of_two_flags",
         "one_message_more_than_there_are_slots", "a_count_for_the_rows_of_two",
         "two_writes_on_an_unordered_transport", "a_row_that_is_five_rounds_late", "a_count_behind_a_lock"],
        (False, True),
    ),
]  # fmt: skip
COMPARED = [
    (name, right)
    for i, name in enumerate(PLANTED)
    for right in (False, True)
    if FULL or ((name, right) not in TOO_LARGE and right == i % 2 and i % 3 == 0)  # a bug or a twin, of every third
]


def explored(name: str, right: bool, strategy: str, budget: Any = None) -> Report:
    bug = PLANTED[name]
    profile = varied(bug.profile, **bug.changes)
    return explore(bug.program, bug.pes, profile, strategy, args=(right,), budget=budget, **bug.options)


SAMPLED = {"random": 800, "pct": 400, "delay": 400}
# Each bug by the exhaustive search and, of those that are not rare, every second by one that samples, in turn.
FOUND_BY = [
    (name, strategy, budget)
    for i, name in enumerate(PLANTED)
    for k, (strategy, budget) in enumerate([("exhaustive", None), *SAMPLED.items()])
    if k == 0 or (not PLANTED[name].rare and (FULL or (i % 2 == 0 and k == 1 + i // 2 % len(SAMPLED))))
]


@pytest.mark.parametrize(("name", "strategy", "budget"), FOUND_BY)
def test_a_planted_bug_is_found(name: str, strategy: str, budget: int | None) -> None:
    bug = PLANTED[name]
    report = explored(name, False, strategy, budget)
    assert [failure.kind for failure in report.failures] == [bug.kind], report
    profile = varied(bug.profile, **bug.changes)
    again = replay(bug.program, report.failures[0].token, bug.pes, profile, args=(False,), **bug.options)
    assert [failure.kind for failure in again.failures] == [bug.kind], again
    assert again.failures[0].text == report.failures[0].text


@pytest.mark.parametrize("name", PLANTED)
def test_its_repaired_twin_is_exhausted(name: str) -> None:
    report = explored(name, True, "exhaustive")
    assert report.ok, report
    assert report.complete, report


@pytest.mark.parametrize(("name", "right"), COMPARED)
def test_the_search_sees_what_the_slow_oracle_sees(name: str, right: bool) -> None:
    bug = PLANTED[name]
    program = prepare(bug.program, bug.pes, varied(bug.profile, **bug.changes), (right,))
    with live(program):
        found = dpor.Search(lambda: Job(program)).run()
        oracle = eager.search(lambda: Job(program), digest=Job.digest, bounds=Bounds(states=STATES))  # type: ignore[arg-type]
    assert found.complete
    assert oracle.complete or (name, right) in TOO_LARGE
    if oracle.complete:
        assert set(found.outcomes) == set(oracle.outcomes)
