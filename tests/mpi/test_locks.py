"""Locks: mutual exclusion, order of acquisition, and misuse."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import shmem
from shmem import locks
from shmem.errors import ArgumentError, DtypeError, FreedBlock, LockError, NotSymmetric, ShmemTimeout, SizeMismatch

from .data import everyone

pytestmark = pytest.mark.mpi
ROUNDS = 100


@pytest.mark.core
def test_the_order_of_acquisition_is_the_order_of_the_queue(monkeypatch):
    """Each entry of the log, written under the lock, follows the one whose PE its own swap found at the tail."""
    n, me = shmem.n_pes(), shmem.my_pe()
    lock = shmem.new_lock()
    log, length = shmem.zeros(n * ROUNDS, np.int64), shmem.zeros(1, np.int64)
    ahead: list[int] = []
    enter = locks._enter
    monkeypatch.setattr(locks, "_enter", lambda pe, node: ahead.append(enter(pe, node)) or ahead[-1])
    turns = []
    shmem.barrier_all()
    for _ in range(ROUNDS):
        shmem.set_lock(lock)
        turn = int(shmem.g(length, 0))  # plain accesses: only the lock orders them
        shmem.p(log[turn : turn + 1], me, 0)
        shmem.p(length, turn + 1, 0)
        turns.append(turn)
        shmem.clear_lock(lock)
    shmem.barrier_all()
    assert lock[0] == 0
    order = np.zeros_like(log)
    shmem.get(order, log, 0)
    assert sorted(t for each in everyone(turns) for t in each) == list(range(n * ROUNDS))
    for turn, front in zip(turns, ahead, strict=True):
        assert order[turn] == me
        assert front == 0 or order[turn - 1] == front - 1
    shmem.barrier_all()
    shmem.del_lock(lock)
    shmem.free(length)
    shmem.free(log)


@pytest.mark.core
def test_test_lock_takes_a_free_lock_only():
    n, me = shmem.n_pes(), shmem.my_pe()
    whole = shmem.zeros(3, np.int64)
    lock = whole[1:2]
    for holder in range(n):
        if me == holder:
            assert shmem.test_lock(lock) is False  # acquired
        shmem.barrier_all()
        if me != holder:
            assert shmem.test_lock(lock) is True
        shmem.barrier_all()
        if me == holder:
            shmem.clear_lock(lock)
        shmem.barrier_all()
    shmem.free(whole)


def test_what_the_holder_sent_is_there_for_the_next():
    n = shmem.n_pes()
    counts = shmem.zeros(4, np.int64)
    with_lock = shmem.Lock()
    private = np.zeros(4, np.int64)
    for _ in range(50):
        with with_lock:
            shmem.get(private, counts, n - 1)
            private += [1, 2, 3, 4]
            shmem.put_nbi(counts, private, n - 1)
    shmem.barrier_all()
    shmem.get(private, counts, n - 1)
    assert private.tolist() == [50 * n * k for k in (1, 2, 3, 4)]
    shmem.barrier_all()
    with_lock.destroy()
    with_lock.destroy()
    with pytest.raises(LockError, match="destroyed"):
        with_lock.acquire()
    shmem.free(counts)


def test_lock_object_without_blocking():
    n, me = shmem.n_pes(), shmem.my_pe()
    lock = shmem.Lock()
    if me == 0:
        assert lock.acquire()
    shmem.barrier_all()
    if me == n - 1 != 0:
        assert lock.acquire(blocking=False) is False
    shmem.barrier_all()
    if me == 0:
        lock.release()
    shmem.barrier_all()
    if me == n - 1:
        assert lock.acquire(blocking=False) is True
        lock.release()
    shmem.barrier_all()
    lock.destroy()


@pytest.mark.mpi(min_size=2)
def test_a_deadline_in_the_queue_leaves_the_place():
    me = shmem.my_pe()
    lock, order = shmem.new_lock(), shmem.zeros(1, np.int64)
    if me == 0:
        shmem.set_lock(lock)
    shmem.barrier_all()
    if me == 1:
        with pytest.raises(ShmemTimeout, match=r"the lock at heap offset .* the tail of its queue at PE 1"):
            shmem.set_lock(lock, timeout=0.01)
        with pytest.raises(LockError, match="waits for"):
            shmem.test_lock(lock)
    shmem.barrier_all()
    if me == 0:
        shmem.clear_lock(lock)
        shmem.set_lock(lock)  # behind PE 1
        assert order[0] == 1
        shmem.clear_lock(lock)
    if me == 1:
        shmem.set_lock(lock)
        shmem.p(order, 1, 0)
        shmem.clear_lock(lock)
    shmem.barrier_all()
    shmem.del_lock(lock)
    shmem.free(order)


def test_misuse_raises():
    lock, word = shmem.new_lock(), shmem.zeros(2, np.int32)
    with pytest.raises(LockError, match="does not hold"):
        shmem.clear_lock(lock)
    with pytest.raises(DtypeError):
        shmem.set_lock(word[:1])
    with pytest.raises(DtypeError):
        shmem.set_lock(word.view(np.uint64))
    with pytest.raises(NotSymmetric):
        shmem.test_lock(np.zeros(1, np.int64))
    with pytest.raises(SizeMismatch):
        shmem.set_lock(np.zeros(2, np.int64))
    if shmem.my_pe() == 0:
        shmem.set_lock(lock)
        with pytest.raises(LockError, match="already"):
            shmem.set_lock(lock)
        with pytest.raises(LockError, match="holds"):
            shmem.test_lock(lock)
    shmem.barrier_all()
    shmem.free(lock)  # held: gone all the same
    with pytest.raises(FreedBlock):
        shmem.clear_lock(lock)
    again = shmem.new_lock()
    if shmem.my_pe() == shmem.n_pes() - 1:
        shmem.set_lock(again)
        shmem.clear_lock(again)
    shmem.barrier_all()
    shmem.del_lock(again)
    shmem.free(word)


def test_threads_of_a_pe_share_its_place_in_the_queue():
    """A lock belongs to a PE: a second thread is refused, and loses nothing by it."""
    n, crew, rounds = shmem.n_pes(), 3, 20
    lock, count = shmem.new_lock(), shmem.zeros(1, np.int64)
    turns, over = [0], threading.Condition()  # of this PE: how often it has given the lock back

    def body(i: int) -> None:
        done = 0
        while done < rounds:
            seen = turns[0]
            try:
                shmem.set_lock(lock)
            except LockError:
                with over:  # eight PEs of threads that ask again and again would leave no core to the one that holds it
                    over.wait_for(lambda seen=seen: turns[0] > seen)
                continue
            shmem.p(count, int(shmem.g(count, 0)) + 1, 0)
            shmem.clear_lock(lock)
            done += 1
            with over:
                turns[0] += 1
                over.notify_all()

    shmem.workers(crew, body)
    shmem.barrier_all()
    assert shmem.g(count, 0) == n * crew * rounds
    assert lock[0] == 0
    shmem.barrier_all()
    shmem.del_lock(lock)
    shmem.free(count)


@pytest.mark.parametrize("timeout", [-1, np.nan, "1"])
def test_a_call_that_is_refused_does_not_queue(timeout):
    n, me = shmem.n_pes(), shmem.my_pe()
    lock = shmem.new_lock()
    for turn in range(n):
        if turn == me:
            shmem.set_lock(lock)
        shmem.barrier_all()
        with pytest.raises(ArgumentError):
            shmem.set_lock(lock, timeout=timeout)
        shmem.barrier_all()
        if turn == me:
            with pytest.raises(ArgumentError):
                shmem.clear_lock(lock, timeout=timeout)
            shmem.clear_lock(lock)
        shmem.barrier_all()
    assert lock[0] == 0
    shmem.barrier_all()
    shmem.del_lock(lock)
