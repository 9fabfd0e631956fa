"""Atomics: each routine on each dtype, at every PE, against Python's integers; and under contention."""

from __future__ import annotations

import numpy as np
import pytest

import shmem

from .data import FLOAT_WORDS, WORDS, dtype_id, everyone, peers

pytestmark = pytest.mark.mpi

# name: (function of (old, value) -> new, takes a value, returns the old one)
UPDATES = {
    "atomic_set": (lambda old, value: value, True, False),
    "atomic_add": (lambda old, value: old + value, True, False),
    "atomic_inc": (lambda old, value: old + 1, False, False),
    "atomic_and": (lambda old, value: old & value, True, False),
    "atomic_or": (lambda old, value: old | value, True, False),
    "atomic_xor": (lambda old, value: old ^ value, True, False),
    "atomic_swap": (lambda old, value: value, True, True),
    "atomic_fetch_add": (lambda old, value: old + value, True, True),
    "atomic_fetch_inc": (lambda old, value: old + 1, False, True),
    "atomic_fetch_and": (lambda old, value: old & value, True, True),
    "atomic_fetch_or": (lambda old, value: old | value, True, True),
    "atomic_fetch_xor": (lambda old, value: old ^ value, True, True),
}


def wrapped(value: int, dtype: np.dtype) -> int:
    """An integer of any size as the dtype holds it."""
    bits = 8 * dtype.itemsize
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def values(dtype: np.dtype) -> list[int]:
    limits = np.iinfo(dtype)
    return [0, 1, 2, 12345, limits.max, limits.min, limits.max - 1, wrapped(-1, dtype), wrapped(0xF0F0F0F0F0F0, dtype)]


@pytest.mark.core
@pytest.mark.parametrize("dtype", WORDS, ids=dtype_id)
@pytest.mark.parametrize("name", UPDATES)
def test_update_of_a_word_on_every_pe(name, dtype):
    """Each PE has a word of its own on every PE, between two neighbours that must keep their values."""
    update, takes, fetches = UPDATES[name]
    call, n, me = getattr(shmem, name), shmem.n_pes(), shmem.my_pe()
    x = shmem.full((n, 3), 99, dtype)
    mine = x[me, 1:2]
    for pe in peers():
        now = 99
        for value in values(dtype):
            old = call(mine, value, pe) if takes else call(mine, pe)
            assert old == (now if fetches else None)
            assert not fetches or type(old) is int
            now = wrapped(update(now, value), dtype)
            shmem.fence()
            assert shmem.atomic_fetch(mine, pe) == now
    shmem.barrier_all()
    assert (x[:, 0] == 99).all()
    assert (x[:, 2] == 99).all()
    assert x[:, 1].tolist() == [now] * n
    shmem.free(x)


@pytest.mark.core
@pytest.mark.parametrize("dtype", WORDS, ids=dtype_id)
def test_compare_swap(dtype):
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.full((n, 3), 99, dtype)
    mine = x[me, 1:2]
    for pe in peers():
        now = 99
        for value in values(dtype):
            wrong = wrapped(now + 1, dtype)
            high = wrapped(now ^ (1 << (8 * dtype.itemsize - 1)), dtype)  # differs in the highest bit only
            assert shmem.atomic_compare_swap(mine, wrong, value, pe) == now
            assert shmem.atomic_compare_swap(mine, high, value, pe) == now
            assert shmem.atomic_fetch(mine, pe) == now
            assert shmem.atomic_compare_swap(mine, now, value, pe) == now
            assert shmem.atomic_fetch(mine, pe) == value
            now = value
    shmem.barrier_all()
    assert x[:, 1].tolist() == [now] * n
    assert (x[:, ::2] == 99).all()
    shmem.free(x)


@pytest.mark.core
@pytest.mark.parametrize("dtype", FLOAT_WORDS, ids=dtype_id)
def test_floats_set_fetch_and_swap(dtype):
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.full((n, 3), 9.5, dtype)
    mine = x[me, 1:2]
    numbers = [0.0, -0.0, 1.5, -2.25, float("inf"), float(np.finfo(dtype).tiny), float(dtype.type(0.1)), 3]
    for pe in peers():
        now = 9.5
        for number in numbers:
            old = shmem.atomic_swap(mine, number, pe)
            assert (old, str(old)) == (now, str(now))
            shmem.atomic_set(mine, -1.5, pe)
            shmem.fence()
            assert shmem.atomic_fetch(mine, pe) == -1.5
            shmem.atomic_set(mine, number, pe)
            now = float(number)
            shmem.fence()
            assert str(shmem.atomic_fetch(mine, pe)) == str(now)
        shmem.atomic_set(mine, float("nan"), pe)
        shmem.fence()
        assert np.isnan(shmem.atomic_fetch(mine, pe))
        shmem.atomic_set(mine, 9.5, pe)
    shmem.barrier_all()
    assert (x == 9.5).all()
    shmem.free(x)


@pytest.mark.parametrize("dtype", FLOAT_WORDS, ids=dtype_id)
@pytest.mark.parametrize("name", [name for name in UPDATES if name not in ("atomic_set", "atomic_swap")])
def test_floats_refuse_arithmetic(name, dtype):
    x = shmem.full(1, 2.5, dtype)
    arguments = (x, 1.0, 0) if UPDATES[name][1] else (x, 0)
    with pytest.raises(TypeError):
        getattr(shmem, name)(*arguments)
    with pytest.raises(TypeError):
        shmem.atomic_compare_swap(x, 2.5, 1.0, 0)
    shmem.barrier_all()
    assert x[0] == 2.5
    shmem.free(x)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "f2", "g", "F", "?", "M8[ns]", ">i4", ">i8"])
def test_other_dtypes_are_refused(dtype):
    x = shmem.zeros(1, dtype)
    for call in (
        lambda: shmem.atomic_fetch(x, 0),
        lambda: shmem.atomic_set(x, 1, 0),
        lambda: shmem.atomic_add(x, 1, 0),
        lambda: shmem.atomic_inc(x, 0),
        lambda: shmem.atomic_compare_swap(x, 0, 1, 0),
        lambda: shmem.atomic_fetch_xor(x, 1, 0),
    ):
        with pytest.raises(shmem.DtypeError):
            call()
    assert not any(x.tobytes())
    shmem.barrier_all()
    shmem.free(x)


WRONG = {
    "PE n": (shmem.InvalidPE, lambda x, n: shmem.atomic_add(x[:1], 1, n)),
    "PE -1": (shmem.InvalidPE, lambda x, n: shmem.atomic_fetch(x[:1], -1)),
    "private": (shmem.NotSymmetric, lambda x, n: shmem.atomic_inc(np.zeros(1, int), 0)),
    "many": (shmem.SizeMismatch, lambda x, n: shmem.atomic_set(x, 1, 0)),
    "none": (shmem.SizeMismatch, lambda x, n: shmem.atomic_swap(x[:0], 1, 0)),
    "an element": (shmem.DtypeError, lambda x, n: shmem.atomic_fetch_add(x[0], 1, 0)),
    "a list": (shmem.DtypeError, lambda x, n: shmem.atomic_fetch_add([0], 1, 0)),
    "not aligned": (shmem.LayoutError, lambda x, n: shmem.atomic_inc(x.view("u1")[4:12].view("i8"), 0)),
    "too large": (OverflowError, lambda x, n: shmem.atomic_add(x[:1], 1 << 63, 0)),
    "too small": (OverflowError, lambda x, n: shmem.atomic_set(x[:1], -(1 << 63) - 1, 0)),
    "float for int": (TypeError, lambda x, n: shmem.atomic_add(x[:1], 1.0, 0)),
    "text": (TypeError, lambda x, n: shmem.atomic_or(x[:1], "1", 0)),
    "cond too large": (OverflowError, lambda x, n: shmem.atomic_compare_swap(x[:1], 1 << 63, 1, 0)),
    "context": (shmem.ContextError, lambda x, n: shmem.atomic_add(x[:1], 1, 0, ctx=3)),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_raise_and_change_nothing(case):
    error, call = WRONG[case]
    x = shmem.full(4, 7, np.int64)
    with pytest.raises(error):
        call(x, shmem.n_pes())
    shmem.barrier_all()
    assert x.tolist() == [7] * 4
    shmem.free(x)


def test_negative_values_of_unsigned_words_are_refused():
    for dtype in ("u4", "u8"):
        x = shmem.zeros(1, dtype)
        with pytest.raises(OverflowError):
            shmem.atomic_add(x, -1, 0)
        with pytest.raises(OverflowError):
            shmem.atomic_set(x, 1 << (8 * x.itemsize), 0)
        shmem.barrier_all()
        assert x[0] == 0
        shmem.free(x)


def test_numpy_scalars_are_values():
    x = shmem.zeros(1, np.int32)
    shmem.atomic_add(x, np.int64(5), shmem.my_pe())
    shmem.atomic_add(x, np.array([6]), shmem.my_pe())
    assert shmem.atomic_fetch(x, np.int32(shmem.my_pe())) == 11
    shmem.barrier_all()
    shmem.free(x)


# -- contention ------------------------------------------------------------------------------------------

ROUNDS = 10_000


@pytest.mark.parametrize("where", ["first", "last"])
@pytest.mark.parametrize("dtype", WORDS, ids=dtype_id)
def test_each_value_of_a_shared_counter_is_returned_once(dtype, where):
    n = shmem.n_pes()
    pe = 0 if where == "first" else n - 1
    x, got = shmem.zeros(1, dtype), shmem.zeros(ROUNDS, np.int64)
    add = shmem.atomic_fetch_add
    for i in range(ROUNDS):
        got[i] = add(x, 1, pe)
    shmem.barrier_all()
    assert (np.diff(got) > 0).all()
    seen = np.sort(np.concatenate(everyone(got.copy())))
    assert np.array_equal(seen, np.arange(n * ROUNDS))
    assert shmem.atomic_fetch(x, pe) == n * ROUNDS
    shmem.barrier_all()
    shmem.free(got)
    shmem.free(x)


@pytest.mark.parametrize("name", ["atomic_add", "atomic_inc", "atomic_fetch_inc", "signal_add"])
def test_no_update_of_a_shared_word_is_lost(name):
    n = shmem.n_pes()
    x = shmem.zeros(n, np.uint64)
    call = getattr(shmem, name)
    takes = name.endswith("add")
    for i in range(ROUNDS // 5):
        pe = i % n
        call(x[pe : pe + 1], 3, pe) if takes else call(x[pe : pe + 1], pe)
    shmem.barrier_all()
    me = shmem.my_pe()
    rounds = len(range(me, ROUNDS // 5, n))
    assert x.tolist() == [(3 if takes else 1) * n * rounds if pe == me else 0 for pe in range(n)]
    shmem.free(x)


def test_neighbours_in_the_same_eight_bytes_stay_right():
    """Two int32 words that share eight bytes, each hit by half of the PEs, and read by all meanwhile."""
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros(2, np.int32)
    word = x[me % 2 : me % 2 + 1]
    for _ in range(ROUNDS):
        shmem.atomic_add(word, 1 if me % 2 else -1, 0)
    shmem.barrier_all()
    if me == 0:
        assert x.tolist() == [-ROUNDS * len(range(0, n, 2)), ROUNDS * len(range(1, n, 2))]
    shmem.barrier_all()
    shmem.free(x)


def test_neighbours_survive_swaps_and_stores():
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros(2 * n, np.int32)
    mine = x[me : me + 1]
    for i in range(1, 2001):
        assert shmem.atomic_swap(mine, i, 0) == i - 1
        shmem.p(x[n + me : n + me + 1], i, 0)
        shmem.fence()
    shmem.barrier_all()
    if me == 0:
        assert x.tolist() == [2000] * (2 * n)
    shmem.barrier_all()
    shmem.free(x)


def test_bits_of_one_word_belong_to_different_pes():
    x, bit = shmem.zeros(1, np.uint32), 1 << (4 * shmem.my_pe() + 3)
    for i in range(1000):
        sets = i % 2 == 0
        before = shmem.atomic_fetch_or(x, bit, 0) if sets else shmem.atomic_fetch_and(x, ~bit & 0xFFFFFFFF, 0)
        assert bool(before & bit) != sets
        assert bool(shmem.atomic_fetch_xor(x, bit, 0) & bit) == sets
        assert bool(shmem.atomic_fetch(x, 0) & bit) != sets
        shmem.atomic_xor(x, bit, 0)
        shmem.fence()
    shmem.barrier_all()
    assert shmem.atomic_fetch(x, 0) == 0
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.parametrize("dtype", ["i4", "u8"])
def test_compare_swap_makes_a_lock(dtype):
    """Increments by hand under a spin on compare_swap that waits politely: for the word, not in a loop of its own."""
    n, rounds = shmem.n_pes(), 50
    lock, count = shmem.zeros(1, dtype), shmem.zeros(1, np.int64)
    me, done = shmem.my_pe(), 0
    while done < rounds:
        if shmem.atomic_compare_swap(lock, 0, me + 1, 0) == 0:
            shmem.p(count, int(shmem.g(count, 0)) + 1, 0)
            shmem.quiet()
            assert shmem.atomic_swap(lock, 0, 0) == me + 1
            done += 1
        elif me == 0:
            shmem.wait_until(lock, "==", 0)
    shmem.barrier_all()
    assert shmem.g(count, 0) == n * rounds
    shmem.barrier_all()
    shmem.free(count)
    shmem.free(lock)
