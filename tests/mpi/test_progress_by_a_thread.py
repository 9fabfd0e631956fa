"""Adapters driven by their threads alone: what is posted arrives, however far the program is ahead."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import shmem

from .data import payload, peers, same, stop

pytestmark = [pytest.mark.mpi(min_size=2), pytest.mark.needs("queue pairs", "its PEs have adapters")]


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """SHMEMU_PROGRESS=thread for one test."""
    stop()
    monkeypatch.setenv("SHMEMU_PROGRESS", "thread")
    shmem.init()
    yield
    stop()
    monkeypatch.undo()
    shmem.init()


def test_many_small_puts_do_not_pile_up():
    """32768 of each PE; each choice among so many in flight would take longer than the deadline of a test."""
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros((n, (1 << 15) // n, 8), np.uint8)
    for pe in peers():
        shmem.put_many(x[me], payload(x.dtype, x[me].size, me, pe).reshape(x[me].shape), pe)
    shmem.barrier_all()
    for pe in range(n):
        assert same(x[pe], payload(x.dtype, x[pe].size, pe, me).reshape(x[pe].shape))
    shmem.barrier_all()
    shmem.free(x)


def test_a_put_arrives_while_its_pe_does_something_else():
    """PE 0 posts, and comes back to the library only when PE 1 has seen all of it."""
    x, seen = shmem.zeros(1000, np.int64), shmem.zeros(1, np.int64)
    flag, there = shmem.zeros(1, np.uint64), shmem.ptr(seen, 1)
    given = np.arange(1, 1001)
    if shmem.my_pe() == 0:
        shmem.put_signal_nbi(x, given, 1, flag, 1, "set")
        while there[0] == 0:
            pass
    elif shmem.my_pe() == 1:
        shmem.signal_wait_until(flag, "==", 1)
        assert (x == given).all()
        seen[:] = 1
    shmem.barrier_all()
    for array in (flag, seen, x):
        shmem.free(array)
