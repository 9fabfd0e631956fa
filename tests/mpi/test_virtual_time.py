"""`virtual_time` and `compute` where time is that of the machine."""

from __future__ import annotations

import time

import pytest

import shmem

pytestmark = pytest.mark.mpi


@pytest.mark.core
def test_the_clock_is_the_machines():
    before, mine, after = time.perf_counter(), shmem.virtual_time(), time.perf_counter()
    assert before <= mine <= after


@pytest.mark.core
def test_to_say_that_one_computes_takes_no_time():
    assert shmem.compute(1e6) is None  # days, were it to wait


@pytest.mark.parametrize("seconds", [-1, float("nan"), "1"])
def test_what_is_no_time_is_refused(seconds):
    with pytest.raises(shmem.ArgumentError, match="seconds"):
        shmem.compute(seconds)
