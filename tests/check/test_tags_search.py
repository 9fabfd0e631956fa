"""Ghost tags and the search: a write that changes no byte is seen by who asks for its tag, and costs nothing else."""

from __future__ import annotations

import numpy as np
import pytest

import shmem
from shmem.check import dpor, eager
from shmem.check.exploration import explore, prepare
from shmem.check.surroundings import live
from shmem.delivery.profiles import varied
from shmem.fabric.sim import Job


def silent(put: bool) -> None:
    """The message is what memory holds already; the receiver is told too early, or by a signal that covers it."""
    box, flag = shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        with shmem.check.tagged(1):
            if put:
                shmem.put(box, np.zeros(1, np.uint64), 1)
                shmem.p(flag, 1, 1)
            else:
                shmem.put_signal(box, np.zeros(1, np.uint64), 1, flag, 1, shmem.SIGNAL_SET)
    else:
        shmem.signal_wait_until(flag, "==", 1)
        shmem.check.accept(box, (0, 1))


@pytest.mark.parametrize("strategy", ["exhaustive", "eager", "random", "pct", "delay"])
def test_a_write_that_changes_no_byte_is_seen_by_who_asks(strategy: str) -> None:
    profile = varied("openshmem", unit=8)
    report = explore(silent, 2, profile, strategy, args=(True,), budget=300)
    assert [failure.kind for failure in report.failures] == ["stale"]
    assert explore(silent, 2, profile, strategy, args=(False,), budget=300).ok


def two_writers() -> None:
    """Both write what is there already, in either order; no loads, so nobody is told of it."""
    box = shmem.zeros(1, np.uint64)
    if shmem.my_pe() == 0:
        with shmem.check.tagged(1):
            shmem.put(box, np.zeros(1, np.uint64), 1)
    else:
        box[0] = 0
    shmem.barrier_all()
    if shmem.my_pe() == 1:
        shmem.check.accept(box, (0, 1))


def test_states_that_differ_in_tags_are_two() -> None:
    program = prepare(two_writers, 2, varied("openshmem", unit=8), ())
    with live(program):
        plain = dpor.Search(lambda: Job(program)).run()
        hashed = eager.search(lambda: Job(program), digest=Job.digest)  # type: ignore[arg-type]
    assert plain.complete
    assert hashed.complete
    assert set(plain.outcomes) == set(hashed.outcomes)
    assert len(plain.outcomes) == 2


def unasked() -> None:
    box = shmem.zeros(1, np.uint64)
    if shmem.my_pe():
        shmem.put(box, np.zeros(1, np.uint64), 0)
    else:
        _ = box[0]


def test_it_costs_no_state_where_nobody_asks() -> None:
    report = explore(unasked, 2, varied("openshmem", unit=8))
    assert (report.complete, report.executions) == (True, 1)
