"""Workers: threads inside a PE, their barrier, their failures, and free use of the library from all of them."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import shmem
from shmem.errors import ArgumentError, ShmemTimeout, StateError

pytestmark = pytest.mark.mpi


@pytest.mark.core
def test_results_come_in_order_and_the_barrier_separates():
    seen: list[list[int]] = []
    came: list[int] = []

    def body(i: int) -> int:
        for _ in range(20):
            came.append(i)
            shmem.worker_barrier()
            if i == 0:
                seen.append(sorted(came))
                came.clear()
            shmem.worker_barrier()
        return i * i

    assert shmem.workers(5, body) == [0, 1, 4, 9, 16]
    assert seen == [[0, 1, 2, 3, 4]] * 20


@pytest.mark.core
def test_every_worker_may_send_and_wait():
    """Each worker of each PE sends its own numbers to its own row at the right neighbour, which waits for them."""
    n, me, crew, rounds = shmem.n_pes(), shmem.my_pe(), 4, 25
    x, flags = shmem.zeros((crew, 8), np.int64), shmem.zeros(crew, np.uint64)
    back, total = shmem.zeros(crew, np.uint64), shmem.zeros(1, np.int64)
    right, left = (me + 1) % n, (me - 1) % n
    got: list[list[int]] = [[] for _ in range(crew)]

    def body(i: int) -> None:
        for k in range(1, rounds + 1):
            data = np.full(8, 1000 * me + 100 * i + k, np.int64)
            shmem.put_signal(x[i], data, right, flags[i : i + 1], k, shmem.SIGNAL_SET)
            shmem.signal_wait_until(flags[i : i + 1], ">=", k)
            got[i].append(int(x[i, 7]))
            shmem.atomic_add(total, 1, 0)
            shmem.signal_set(back[i : i + 1], k, left)
            shmem.signal_wait_until(back[i : i + 1], ">=", k)

    shmem.workers(crew, body)
    assert got == [[1000 * left + 100 * i + k for k in range(1, rounds + 1)] for i in range(crew)]
    shmem.barrier_all()
    assert shmem.atomic_fetch(total, 0) == n * crew * rounds
    shmem.barrier_all()
    for array in (total, back, flags, x):
        shmem.free(array)


def test_the_failure_of_one_is_raised_and_frees_the_others():
    ended: list[int] = []

    def body(i: int) -> None:
        try:
            if i == 1:
                raise KeyError("mine")
            shmem.worker_barrier()
        finally:
            ended.append(i)

    with pytest.raises(KeyError, match="mine"):
        shmem.workers(3, body)
    assert sorted(ended) == [0, 1, 2]


def test_misuse_raises():
    with pytest.raises(StateError, match="outside"):
        shmem.worker_barrier()
    for n in (0, -1, np.int64(0), 2.0, "2", None, np.array([2, 3])):
        with pytest.raises(ArgumentError, match="at least one"):
            shmem.workers(n, print)
    with pytest.raises(ArgumentError, match="must be callable"):
        shmem.workers(2, None)
    with pytest.raises(ShmemTimeout, match="its 2 workers"):
        shmem.workers(2, lambda i: shmem.worker_barrier(timeout=0.01) if i else None)
    assert shmem.workers(1, lambda i: shmem.worker_barrier()) == [None]
    assert shmem.workers(np.int64(2), lambda i: i) == [0, 1]
    assert shmem.workers(np.array(3), lambda i: i) == [0, 1, 2]


def test_workers_meet_no_more_once_one_gave_up_waiting():
    """It may catch its ShmemTimeout and go on; the others, waiting or late, get StateError."""
    late = threading.Event()

    def body(i: int) -> str:
        if i == 0:
            with pytest.raises(ShmemTimeout, match=r"waited 0\.0 s for its 3 workers"):
                shmem.worker_barrier(timeout=0)
            late.set()
        elif i == 1:
            late.wait()
        with pytest.raises(StateError, match="one of them gave up waiting in it"):
            shmem.worker_barrier()
        return "went on"

    assert shmem.workers(3, body) == ["went on"] * 3
