"""Workers on `sim` are explored like PEs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmem
from shmem.check import explore
from shmem.check.report import Report
from shmem.delivery.profiles import varied

PROFILE = varied("openshmem", unit=8)


def one_publisher(meets: bool) -> None:
    """Each of two workers puts its half; worker 0 tells of both."""
    data, flag = shmem.zeros(2, np.uint64), shmem.zeros(1, np.uint64)

    def work(i: int) -> None:
        shmem.put(data[i : i + 1], np.array([i + 1], np.uint64), 1)
        shmem.quiet()
        if meets:
            shmem.worker_barrier()
        if i == 0:
            shmem.atomic_set(flag, 1, 1)

    if shmem.my_pe() == 0:
        shmem.workers(2, work)
    else:
        shmem.wait_until(flag, "==", 1)
        assert data.tolist() == [1, 2]


def two_posters(atomic: bool) -> int:
    """Two workers take a ticket each."""
    taken, count = [], shmem.zeros(1, np.int64)

    def work(i: int) -> None:
        if atomic:
            taken.append(shmem.atomic_fetch_inc(count, 0))
        else:
            taken.append(shmem.g(count, 0))
            shmem.p(count, taken[-1] + 1, 0)
            shmem.quiet()

    if shmem.my_pe() == 0:
        shmem.workers(2, work)
        assert sorted(taken) == [0, 1]
    return len(taken)


def explored(program: Any, good: bool) -> Report:
    return explore(program, 2, PROFILE, args=(good,))


@pytest.mark.parametrize("program", [one_publisher, two_posters])
def test_a_hazard_among_workers_is_found_and_its_repair_passes(program: Any) -> None:
    assert [failure.kind for failure in explored(program, False).failures] == ["assertion"]
    repaired = explored(program, True)
    assert repaired.ok, repaired
    assert repaired.complete


def results() -> list[int]:
    def work(i: int) -> int:
        for _ in range(3):
            shmem.worker_barrier()
        return 10 * i + shmem.my_pe()

    return shmem.workers(3, work)


def test_results_come_in_order() -> None:
    report = explore(results, 2)
    assert (report.ok, dict(report.outcomes)) == (True, {((0, 10, 20), (1, 11, 21)): report.executions})


def fails() -> None:
    def work(i: int) -> None:
        if i == 1:
            raise ValueError("planted")
        shmem.worker_barrier()

    shmem.workers(2, work)


def test_the_failure_of_one_is_raised() -> None:
    report = explore(fails, 1)
    assert [(one.kind, one.text) for one in report.failures] == [("exception", "ValueError: planted")]


def stuck() -> None:
    shmem.workers(2, lambda i: shmem.worker_barrier() if i else None)


def test_a_worker_that_waits_for_ever_is_a_deadlock() -> None:
    [failure] = explore(stuck, 1).failures
    assert failure.kind == "deadlock"
    assert "PE 0 worker 2 waits in worker_barrier" in failure.text
