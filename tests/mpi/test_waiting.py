"""wait_until and test of one word: every comparison on every dtype, waking by every kind of store, deadlines.

The waiter says that it is about to wait, its neighbour then stores: no order of the two may lose the wake-up.
Rounds are many, so that wake-ups that are lost (and made good by the cap of each sleep) would cost more than the
deadline.
"""

from __future__ import annotations

import operator
import threading

import numpy as np
import pytest

import shmem

from .data import WORDS, Array, dtype_id

pytestmark = pytest.mark.mpi

COMPARE = {
    "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<=": operator.le, "<": operator.lt, ">=": operator.ge,
}  # fmt: skip
CONSTANTS = dict(zip(COMPARE, ("EQ", "NE", "GT", "LE", "LT", "GE"), strict=True))


def edges(dtype: np.dtype) -> list[int]:
    """Numbers of the dtype around which comparisons of the wrong width or sign would differ."""
    limits = np.iinfo(dtype)
    middle = {1 << 15, 1 << 31, (1 << 32) + 5, 1 << 63}
    ends = {limits.min, limits.min + 1, 0, 1, 5, limits.max - 1, limits.max}
    return sorted(number for number in ends | middle if limits.min <= number <= limits.max)


@pytest.mark.core
@pytest.mark.parametrize("symbol", COMPARE)
@pytest.mark.parametrize("dtype", WORDS, ids=dtype_id)
def test_test_is_the_comparison(dtype, symbol):
    x = shmem.zeros(3, dtype)
    word = x[1:2]
    for seen in edges(dtype):
        word[0] = seen
        for value in edges(dtype):
            holds = COMPARE[symbol](seen, value)
            for spelled in (symbol, CONSTANTS[symbol].lower(), getattr(shmem, f"CMP_{CONSTANTS[symbol]}")):
                got = shmem.test(word, spelled, value)
                assert (got, type(got)) == (holds, bool), (seen, spelled, value)
            if holds:
                assert shmem.wait_until(word, symbol, value) is None
            else:
                with pytest.raises(shmem.ShmemTimeout):
                    shmem.wait_until(word, symbol, value, timeout=0)
    shmem.barrier_all()
    shmem.free(x)


def handshake(ready: Array, left: int, round_: int) -> None:
    """Tells the left neighbour that this PE is about to wait, and hears the same from the right one."""
    shmem.atomic_set(ready, round_, left)
    shmem.wait_until(ready, "==", round_)


# symbol: (word before, value to wait for, what the neighbour stores)
EVENTS = {
    "==": (0, 7, 7), "!=": (7, 7, 8), ">": (7, 7, 8), "<=": (8, 7, 7), "<": (8, 8, 7), ">=": (6, 7, 7),
}  # fmt: skip


@pytest.mark.core
@pytest.mark.parametrize("symbol", EVENTS)
@pytest.mark.parametrize("dtype", WORDS, ids=dtype_id)
def test_wait_until_returns_when_the_neighbour_stores(dtype, symbol):
    n, me = shmem.n_pes(), shmem.my_pe()
    right, left = (me + 1) % n, (me - 1) % n
    before, value, after = EVENTS[symbol]
    x, ready = shmem.zeros(1, dtype), shmem.zeros(1, np.int32)
    for round_ in range(1, 21):
        x[0] = before
        shmem.barrier_all()
        assert not shmem.test(x, symbol, value)
        handshake(ready, left, round_)
        shmem.atomic_set(x, after, right)
        shmem.wait_until(x, symbol, value)
        assert x[0] == after
        shmem.barrier_all()
    shmem.free(ready)
    shmem.free(x)


STORES = {
    "p": lambda word, value, pe: shmem.p(word, value, pe),
    "put": lambda word, value, pe: shmem.put(word, np.array([value], word.dtype), pe),
    "put_nbi": lambda word, value, pe: shmem.put_nbi(word, np.array([value], word.dtype), pe),
    "strided put": lambda word, value, pe: shmem.put(word[::-1], np.array([value], word.dtype), pe),
    "set": lambda word, value, pe: shmem.atomic_set(word, value, pe),
    "add": lambda word, value, pe: shmem.atomic_add(word, value, pe),
    "fetch_add": lambda word, value, pe: shmem.atomic_fetch_add(word, value, pe),
    "swap": lambda word, value, pe: shmem.atomic_swap(word, value, pe),
    "compare_swap": lambda word, value, pe: shmem.atomic_compare_swap(word, 0, value, pe),
    "or": lambda word, value, pe: shmem.atomic_or(word, value, pe),
    "xor": lambda word, value, pe: shmem.atomic_fetch_xor(word, value, pe),
}


@pytest.mark.parametrize("value", [1, 1 << 40, -(1 << 63)], ids=["low", "high", "sign"])
@pytest.mark.parametrize("store", STORES)
def test_every_store_wakes_a_waiter_of_64_bits(store, value):
    """Also where only the upper half of the word changes, which a futex on the word itself would not see."""
    n, me = shmem.n_pes(), shmem.my_pe()
    right, left = (me + 1) % n, (me - 1) % n
    x, ready = shmem.zeros(2, np.int64), shmem.zeros(1, np.int32)
    word = x[1:]
    for round_ in range(1, 26):
        handshake(ready, left, round_)
        STORES[store](word, value, right)
        shmem.wait_until(word, "!=", 0)
        assert x.tolist() == [0, value]
        shmem.barrier_all()
        word[0] = 0
        shmem.barrier_all()
    shmem.free(ready)
    shmem.free(x)


@pytest.mark.mpi(min_size=2)
def test_ping_pong_loses_no_wake_up():
    """A token goes around; a lost wake-up costs a sleep's cap of 100 ms, 500 of them more than the deadline."""
    n, me = shmem.n_pes(), shmem.my_pe()
    right = (me + 1) % n
    x = shmem.zeros(1, np.int64)
    rounds = 2000 // n
    for round_ in range(1, rounds + 1):
        shmem.fence()  # or bytes of the token before this one come after it
        if me == 0:
            shmem.p(x, round_, right)
        shmem.wait_until(x, ">=", round_)
        if me != 0:
            shmem.p(x, round_, right)
    shmem.barrier_all()
    assert x[0] == rounds
    shmem.free(x)


def test_waiters_of_many_words_are_woken_each_by_its_own():
    """All PEs wait on different words of one another in turn, in an order that a seed gives."""
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros(300, np.int32)
    order = np.random.default_rng(3).permutation(300)
    for i in order:
        shmem.atomic_set(x[i : i + 1], i + 1, (me + 1) % n)
        shmem.wait_until(x[i : i + 1], "==", i + 1)
    shmem.barrier_all()
    assert x.tolist() == list(range(1, 301))
    shmem.free(x)


@pytest.mark.usefixtures("only_woken")
@pytest.mark.parametrize("call", [shmem.fence, shmem.quiet])
def test_store_by_another_thread_is_noticed(call):
    """A plain store wakes nobody; the fence or quiet after it does, so no sleep ends by its cap."""
    x = shmem.zeros(1, np.int64)
    waits = threading.Event()

    def store() -> None:
        waits.wait()
        x[0] = 5
        call()

    for _ in range(50):
        thread = threading.Thread(target=store)
        thread.start()
        waits.set()
        shmem.wait_until(x, "==", 5)
        thread.join()
        x[0] = 0
        waits.clear()
    shmem.barrier_all()
    shmem.free(x)


def test_two_threads_wait_at_once():
    x = shmem.zeros(2, np.int64)
    seen = []

    def wait() -> None:
        shmem.wait_until(x[:1], "==", 1)
        seen.append("first")
        shmem.atomic_set(x[1:], 1, shmem.my_pe())

    thread = threading.Thread(target=wait)
    thread.start()
    shmem.atomic_set(x[:1], 1, shmem.my_pe())
    shmem.wait_until(x[1:], "==", 1)
    thread.join()
    assert seen == ["first"]
    shmem.barrier_all()
    shmem.free(x)


# -- deadlines -------------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize("dtype", WORDS, ids=dtype_id)
def test_deadline_says_what_was_awaited_and_seen(dtype):
    x = shmem.full(4, 3, dtype)
    place = int(x[2:3].__array_interface__["data"][0]) - shmem.runtime.current().heap.base
    with pytest.raises(shmem.ShmemTimeout) as caught:
        shmem.wait_until(x[2:3], ">", 41, timeout=0.05)
    error = caught.value
    assert isinstance(error, TimeoutError)
    assert "> 41" in error.awaited
    assert f"{place:#x}" in error.awaited
    assert error.seen == 3
    assert error.waited_s >= 0.05
    assert error.pe == shmem.my_pe()
    for part in (error.awaited, "3", f"PE {shmem.my_pe()}", f"{error.waited_s:.1f} s"):
        assert part in str(error)
    shmem.atomic_set(x[2:3], 42, shmem.my_pe())
    shmem.wait_until(x[2:3], ">", 41, timeout=0)
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("call", [shmem.barrier_all, shmem.sync_all, shmem.barrier, shmem.sync])
def test_deadline_of_a_barrier_names_who_is_missing_and_it_can_be_tried_again(call):
    n, me = shmem.n_pes(), shmem.my_pe()
    late, flag = n - 1, shmem.zeros(1, np.int32)
    if me == late:
        shmem.wait_until(flag, "==", n - 1)
    else:
        with pytest.raises(shmem.ShmemTimeout) as caught:
            call(timeout=0.05)
        assert f"PE {late}" in str(caught.value.seen)
        shmem.atomic_inc(flag, late)
    call()
    shmem.barrier_all()
    shmem.free(flag)


def test_a_long_wait_says_so_once(monkeypatch, capfd):
    """After ten seconds; here they are made short. One line: who waits for what, since when, and what it sees."""
    x = shmem.full(1, 3, np.int64)
    monkeypatch.setattr(shmem.waiting, "NOTICE_S", 0.02)  # not before: that call may wait for a slow PE as well
    with pytest.raises(shmem.ShmemTimeout):
        shmem.wait_until(x, "==", 4, timeout=0.1)
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"PE {shmem.my_pe()}: waits since ")
    assert "word == 4" in said[0]
    assert said[0].endswith("it sees 3")
    shmem.barrier_all()
    shmem.free(x)


def test_wrong_timeouts_are_refused():
    x = shmem.zeros(1, np.int64)
    for timeout in (-1, float("nan")):
        with pytest.raises(shmem.ArgumentError):
            shmem.wait_until(x, "==", 1, timeout=timeout)
    shmem.wait_until(x, "==", 0, timeout=float("inf"))
    shmem.barrier_all(timeout=float("inf"))
    shmem.free(x)


WRONG = {
    "private": (shmem.NotSymmetric, lambda x: shmem.wait_until(np.zeros(1, int), "==", 1)),
    "two words": (shmem.SizeMismatch, lambda x: shmem.wait_until(x, "==", 1)),
    "no word": (shmem.SizeMismatch, lambda x: shmem.test(x[:0], "==", 1)),
    "float64": (shmem.DtypeError, lambda x: shmem.wait_until(x[:1].view("f8"), "==", 1.0)),
    "float32": (shmem.DtypeError, lambda x: shmem.test(x.view("f4")[:1], "==", 1.0)),
    "int16": (shmem.DtypeError, lambda x: shmem.wait_until(x.view("i2")[:1], "==", 1)),
    "not aligned": (shmem.LayoutError, lambda x: shmem.test(x.view("u1")[4:12].view("i8"), "==", 1)),
    "an element": (shmem.DtypeError, lambda x: shmem.wait_until(x[0], "==", 1)),
    "comparison": (shmem.ArgumentError, lambda x: shmem.wait_until(x[:1], "=>", 1)),
    "comparison 0": (shmem.ArgumentError, lambda x: shmem.test(x[:1], 0, 1)),
    "comparison SIGNAL": (shmem.ArgumentError, lambda x: shmem.test(x[:1], shmem.SIGNAL_SET, 1)),
    "value 1.5": (TypeError, lambda x: shmem.wait_until(x[:1], "==", 1.5)),
    "value too large": (OverflowError, lambda x: shmem.wait_until(x[:1], "==", 1 << 63)),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_raise_at_once(case):
    error, call = WRONG[case]
    x = shmem.zeros(2, np.int64)
    with pytest.raises(error):
        call(x)
    shmem.barrier_all()
    shmem.free(x)
