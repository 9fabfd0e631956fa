"""Thread levels, a program's own polling loop, and what several threads may do at once."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import shmem
from shmem.errors import ArgumentError

pytestmark = pytest.mark.mpi


@pytest.mark.core
def test_every_level_is_provided():
    shmem.my_pe()  # started
    assert shmem.init_thread() is shmem.THREAD_MULTIPLE
    assert shmem.init_thread(shmem.THREAD_SINGLE) is shmem.THREAD_MULTIPLE
    assert shmem.query_thread() is shmem.THREAD_MULTIPLE
    shmem.finalize()  # starts nest
    shmem.finalize()
    assert shmem.initialized()
    with pytest.raises(ArgumentError, match="THREAD_"):
        shmem.init_thread(3)
    assert shmem.pcontrol() is None
    assert shmem.pcontrol(2) is None
    with pytest.raises(ArgumentError):
        shmem.pcontrol("all")


@pytest.mark.core
def test_a_polling_loop_of_the_program():
    n, me = shmem.n_pes(), shmem.my_pe()
    word = shmem.zeros(1, np.int64)
    shmem.p(word, me + 1, (me + 1) % n)
    turns = 0
    while not shmem.test(word, "!=", 0):
        shmem.spin()
        turns += 1
    shmem.spin()
    assert word[0] == (me - 1) % n + 1
    shmem.barrier_all()
    shmem.free(word)


def test_a_local_store_of_another_thread_wakes_a_wait():
    """The store alone wakes nobody; a fence or quiet after it does."""
    word, go = shmem.zeros(2, np.int64), threading.Event()

    def store() -> None:
        go.wait()
        word[0] = 5
        shmem.quiet()
        word[1] = 6
        shmem.fence()

    missed = shmem.runtime.current().fabric.counts()["missed"]
    thread = threading.Thread(target=store)
    thread.start()
    go.set()
    shmem.wait_until(word[:1], "==", 5)
    shmem.wait_until(word[1:], "==", 6)
    thread.join()
    assert shmem.runtime.current().fabric.counts()["missed"] == missed
    shmem.barrier_all()
    shmem.free(word)


@pytest.mark.parametrize("crew", [2, 6])
def test_threads_use_the_library_freely(crew):
    """Every thread of every PE adds to every PE's words, writes its own cells everywhere, and reads them back."""
    n, me, rounds = shmem.n_pes(), shmem.my_pe(), 200
    counters, cells = shmem.zeros(crew, np.int64), shmem.zeros((n, crew, 3), np.int32)
    failures: list[str] = []

    def body(t: int) -> None:
        mine = np.empty(3, np.int32)
        for k in range(rounds):
            for pe in range(n):
                shmem.atomic_add(counters[(t + k) % crew : (t + k) % crew + 1], 1, pe)
                shmem.put(cells[me, t], np.array([me, t, k], np.int32), pe)
                shmem.quiet()
                shmem.get(mine, cells[me, t], pe)
                if mine.tolist() != [me, t, k]:
                    failures.append(f"{mine} instead of {[me, t, k]}")

    threads = [threading.Thread(target=body, args=(t,)) for t in range(crew)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    shmem.barrier_all()
    assert counters.sum() == n * crew * rounds
    assert cells.tolist() == [[[pe, t, rounds - 1] for t in range(crew)] for pe in range(n)]
    shmem.barrier_all()
    shmem.free(cells)
    shmem.free(counters)
