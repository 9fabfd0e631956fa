"""Collective calls that a signal handler ends with an exception, as Ctrl-C does: the same call again goes on."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import shmem
from shmem.errors import ArgumentError, ShmemTimeout
from shmem.records import Op
from shmem.runtime import current

from .groups import free

pytestmark = pytest.mark.mpi(min_size=2)


class Stopped(Exception):
    """What the handler raises."""


@contextmanager
def stopped_soon() -> Iterator[None]:
    """The block is ended by a signal."""

    def stop(number, frame):
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.03)
    try:
        with pytest.raises(Stopped):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("known", [0, 2])
def test_before_the_others_came(known):
    """known: how often the call was made before, so that the C front replays it."""
    n, me = shmem.n_pes(), shmem.my_pe()
    source, target, go = shmem.zeros(3, np.int64), shmem.zeros(3, np.int64), shmem.zeros(1, np.uint64)
    for _ in range(known):
        shmem.sum_reduce(target, source)
    source[...] = me + 1
    if me:
        shmem.signal_wait_until(go, "==", 1)
    else:
        with stopped_soon():
            shmem.sum_reduce(target, source)
        for pe in range(1, n):
            shmem.signal_set(go, 1, pe)
    shmem.sum_reduce(target, source)
    assert target.tolist() == [n * (n + 1) // 2] * 3
    shmem.barrier_all()
    free(source, target, go)


def test_between_two_rounds():
    """PE 0 is stopped when it has met the others a few times in the call, and they wait until it is."""
    n, me = shmem.n_pes(), shmem.my_pe()
    pe = current()
    size = 5 * pe.heap.scratch(0, 0)[1] // 8
    source, target, go = shmem.zeros(size, np.int64), shmem.zeros(size, np.int64), shmem.zeros(1, np.uint64)
    shmem.sum_inscan(target, source)
    plan = next(reversed(pe.plans.values()))
    source[...] = np.arange(size) * (me + 1)
    shmem.barrier_all()
    if me:
        ops = plan.records[pe.fabric.rounds(pe.members) & 1]
        third = [i for i, op in enumerate(ops["op"]) if op == Op.BARRIER][2]
        pe.fabric.submit(pe.fabric.inner, ops[:third], 0, 20.0)
        shmem.signal_wait_until(go, "==", 1)
        pe.fabric.submit(pe.fabric.inner, ops, third, 20.0)
    else:
        with stopped_soon():
            shmem.sum_inscan(target, source)
        for other in range(1, n):
            shmem.signal_set(go, 1, other)
        shmem.sum_inscan(target, source)
    assert np.array_equal(target, np.arange(size) * sum(range(1, me + 2)))
    shmem.barrier_all()
    free(source, target, go)


@pytest.mark.mpi(min_size=2)
def test_a_collect_that_was_given_up_goes_on_with_its_own_size():
    n, me = shmem.n_pes(), shmem.my_pe()
    x, y, given_up = shmem.zeros(8, np.int64), shmem.zeros(8 * n, np.int64), shmem.zeros(1, np.uint64)
    x[:] = 10 * me + np.arange(8)
    shmem.barrier_all()
    if me == 0:
        with pytest.raises(ShmemTimeout):
            shmem.collect(y, x, 3, timeout=0)
        with pytest.raises(ArgumentError, match=r"collect\(5 x int64.* has given up collect\(3 x int64"):
            shmem.collect(y, x, 5)
        for pe in range(n):
            shmem.signal_set(given_up, 1, pe)
    shmem.signal_wait_until(given_up, "==", 1)
    shmem.collect(y, x, 3)
    assert y[: 3 * n].tolist() == [10 * pe + i for pe in range(n) for i in range(3)]
    shmem.barrier_all()
    free(x, y, given_up)
