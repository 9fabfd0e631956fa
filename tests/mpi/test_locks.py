"""Locks: mutual exclusion, order of acquisition, and misuse."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable

import numpy as np
import pytest

import shmem
from shmem.errors import ArgumentError, DtypeError, FreedBlock, LockError, NotSymmetric, ShmemTimeout, SizeMismatch
from shmem.lock_queue import GAVE_UP, Place, Step

from .data import everyone
from .windows import interrupted

pytestmark = pytest.mark.mpi
ROUNDS = 100
OUTSIDE = (Step.OUT, Step.GONE, Step.LEFT)


def place_of(lock: np.ndarray) -> Place:
    pe = shmem.runtime.current()
    node = shmem.views.address_of(lock) - pe.heap.base
    return pe.locks.get(node, Place(pe.me, node))


def half_word(lock: np.ndarray, half: int) -> np.ndarray:
    return lock.view(np.uint32)[half : half + 1]


def with_lock(lock: np.ndarray, body: Callable[[], object]) -> None:
    shmem.set_lock(lock)
    body()
    shmem.clear_lock(lock)


@pytest.mark.core
def test_the_order_of_acquisition_is_the_order_of_the_queue():
    """Each entry of the log, written under the lock, follows the one whose PE its own swap found at the tail."""
    n, me = shmem.n_pes(), shmem.my_pe()
    lock = shmem.new_lock()
    log, length = shmem.zeros(n * ROUNDS, np.int64), shmem.zeros(1, np.int64)
    ahead: list[int] = []
    turns = []
    shmem.barrier_all()
    for _ in range(ROUNDS):
        shmem.set_lock(lock)
        ahead.append(place_of(lock).results[Step.ENTER])
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


def test_acquire_takes_the_arguments_of_threading_lock():
    n, me = shmem.n_pes(), shmem.my_pe()
    lock = shmem.Lock()
    for turn in range(n):
        if me == turn:
            assert lock.acquire(True, -1)
        shmem.barrier_all()
        if me != turn:
            assert lock.acquire(False, -1) is False
        for other in range(n):  # one by one: who has just come may end the links for those who come with it
            if me == other != turn:
                with pytest.raises(ShmemTimeout, match=f"PE {turn} at the head of its queue"):
                    lock.acquire(True, 0.001)
            shmem.barrier_all()
        with pytest.raises(ArgumentError, match="does not block"):
            lock.acquire(False, 0.3)
        shmem.barrier_all()
        if me == turn:
            lock.release()
        shmem.barrier_all()
        assert lock._word[0] == 0
        shmem.barrier_all()
    lock.destroy()


@pytest.mark.mpi(min_size=2)
def test_whoever_gives_up_is_passed_over():
    """All but PE 0 give up, some of them twice; the lock is free when PE 0 has released it, and all can have it."""
    n, me = shmem.n_pes(), shmem.my_pe()
    lock, count = shmem.new_lock(), shmem.zeros(1, np.int64)
    for rounds in range(3):
        if me == 0:
            shmem.set_lock(lock)
        shmem.barrier_all()
        if me:
            for _ in range(1 + me % 2):
                with pytest.raises(ShmemTimeout, match=r"the lock at heap offset .* PE \d+ at the head"):
                    shmem.set_lock(lock, timeout=0.001)
            assert shmem.test_lock(lock) is True
        shmem.barrier_all()
        if me == 0:
            shmem.clear_lock(lock)
        shmem.barrier_all()
        assert lock[0] == 0
        shmem.barrier_all()
        with_lock(lock, lambda: shmem.p(count, int(shmem.g(count, 0)) + 1, 0))
        shmem.barrier_all()
        assert shmem.g(count, 0) == n * (rounds + 1)
        shmem.barrier_all()
    shmem.del_lock(lock)
    shmem.free(count)


@pytest.mark.mpi(min_size=3)
@pytest.mark.parametrize("returns", [False, True])
def test_who_comes_back_in_time_has_the_old_place(returns):
    """PE 1 gives up before PE 2 comes, and comes back or not before PE 0 releases the lock."""
    me = shmem.my_pe()
    lock, log, length = shmem.new_lock(), shmem.zeros(2, np.int64), shmem.zeros(1, np.int64)

    def enter() -> None:
        at = int(shmem.g(length, 0))
        shmem.p(log[at : at + 1], me, 0)
        shmem.p(length, at + 1, 0)

    if me == 0:
        shmem.set_lock(lock)
    shmem.barrier_all()
    if me == 1:
        with pytest.raises(ShmemTimeout):
            shmem.set_lock(lock, timeout=0.001)
    shmem.barrier_all()
    if me == 2:
        with pytest.raises(ShmemTimeout, match="PE 0 at the head of its queue, and before this PE, PE 1"):
            shmem.set_lock(lock, timeout=0.001)
    shmem.barrier_all()
    if me == 2 or (me == 1 and returns):
        with_lock(lock, enter)
    if me == 0:
        queued = [2, 1] if returns else [2]
        while any(shmem.atomic_fetch(half_word(lock, 0), pe) & GAVE_UP for pe in queued):
            shmem.spin()
        shmem.clear_lock(lock)
    shmem.barrier_all()
    assert lock[0] == 0
    if me == 0:
        assert log.tolist() == ([1, 2] if returns else [2, 0])
    shmem.barrier_all()
    for array in (lock, log, length):
        shmem.free(array)


def test_an_interrupted_set_lock_has_not_got_it():
    """One PE after the other: after an exception anywhere in `set_lock` and `test_lock` the lock is as it was."""
    lock = shmem.new_lock()
    for turn in range(shmem.n_pes()):
        if shmem.my_pe() == turn:
            for call in (lambda: shmem.set_lock(lock), lambda: shmem.test_lock(lock)):
                for k in itertools.count(1):
                    if not interrupted(k, call):
                        shmem.clear_lock(lock)
                        break
                    assert shmem.test_lock(lock) is False, k
                    shmem.clear_lock(lock)
                assert k > 10
        shmem.barrier_all()
        assert lock[0] == 0
        shmem.barrier_all()
    shmem.del_lock(lock)


@pytest.mark.parametrize("how", ["clear_lock", "with"])
def test_an_interrupted_clear_lock_has_released_it(how):
    """But for the entries of the functions around it, at which nothing of ours has begun."""
    lock = shmem.Lock()

    def leave() -> None:
        if how == "with":
            lock.__exit__(None, None, None)
        else:
            shmem.clear_lock(lock._word)

    kept = 0
    for turn in range(shmem.n_pes()):
        if shmem.my_pe() == turn:
            kept = 0
            for k in itertools.count(1):
                lock.acquire()
                if not interrupted(k, leave):
                    break
                if lock._word[0] or shmem.g(lock._word, 0):
                    lock.release()
                    kept += 1
            assert k > 20
        shmem.barrier_all()
        assert lock._word[0] == 0
        shmem.barrier_all()
    assert kept == 2
    lock.destroy()


@pytest.mark.mpi(min_size=2)
def test_an_interrupted_wait_leaves_the_queue():
    """PE 0 holds the lock, and each PE in turn is interrupted anywhere on its way into the queue and out of it."""
    n, me = shmem.n_pes(), shmem.my_pe()
    lock, more = shmem.new_lock(), shmem.zeros(1, np.int64)

    def wait() -> None:
        with contextlib.suppress(ShmemTimeout):
            shmem.set_lock(lock, timeout=0)

    for turn in range(1, min(n, 3)):
        more[0] = 1
        for k in itertools.count(1):
            if me == 0:
                shmem.set_lock(lock)
            shmem.barrier_all()
            if me == turn:
                came = interrupted(k, wait)
                assert place_of(lock).step in OUTSIDE, k
                for pe in range(n):
                    shmem.p(more, int(came), pe)
            shmem.barrier_all()
            if me == 0:
                shmem.clear_lock(lock)
            shmem.barrier_all()
            assert lock[0] == 0, k
            if not more[0]:
                break
        assert k > 50
    shmem.barrier_all()
    shmem.del_lock(lock)
    shmem.free(more)


@pytest.mark.mpi(min_size=2)
def test_an_interrupted_release_hands_the_lock_on():
    """PE 1 waits for the lock when PE 0 is interrupted anywhere in its release."""
    me = shmem.my_pe()
    lock, more, got = shmem.new_lock(), shmem.ones(1, np.int64), shmem.zeros(1, np.int64)
    for k in itertools.count(1):
        if me == 0:
            shmem.set_lock(lock)
        shmem.barrier_all()
        if me == 1:
            with_lock(lock, lambda: None)
        if me == 0:
            while not int(half_word(lock, 0)[0]):  # PE 1 has linked
                shmem.spin()
            more[0] = interrupted(k, lambda: shmem.clear_lock(lock))
            if place_of(lock).step is Step.HELD:
                shmem.clear_lock(lock)
            for pe in range(1, shmem.n_pes()):
                shmem.p(more, int(more[0]), pe)
        shmem.barrier_all()
        assert lock[0] == 0, k
        if not more[0]:
            break
        shmem.barrier_all()
    assert k > 20
    for array in (got, more, lock):
        shmem.free(array)


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
