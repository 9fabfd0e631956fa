"""Signals: put_signal and its nbi form, signal_set, signal_add, signal_fetch, signal_wait_until."""

from __future__ import annotations

import numpy as np
import pytest

import shmem

from .data import DTYPES, dtype_id, payload, peers, same

pytestmark = pytest.mark.mpi

PUTS = {"put_signal": shmem.put_signal, "put_signal_nbi": shmem.put_signal_nbi}


@pytest.mark.core
@pytest.mark.parametrize("name", PUTS)
@pytest.mark.parametrize("sigop", [shmem.SIGNAL_SET, shmem.SIGNAL_ADD, "set", "add"], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_payload_is_there_when_its_signal_is(name, sigop, dtype):
    n, me, count = shmem.n_pes(), shmem.my_pe(), 7
    x, signals = shmem.zeros((n, count), dtype), shmem.full(n, 1000, np.uint64)
    adds = sigop in (shmem.SIGNAL_ADD, "add")
    for pe in peers():
        PUTS[name](x[me], payload(dtype, count, me, pe), pe, signals[me : me + 1], pe + 1, sigop)
    expected = me + 1 + (1000 if adds else 0)
    for sender in peers():
        assert shmem.signal_wait_until(signals[sender : sender + 1], shmem.CMP_EQ, expected) == expected
        assert same(x[sender], payload(dtype, count, sender, me))
        assert shmem.signal_fetch(signals[sender : sender + 1]) == expected
    shmem.barrier_all()
    shmem.free(signals)
    shmem.free(x)


@pytest.mark.parametrize("count", [0, 1, 3, 8, 1000, 70_000])
def test_rounds_of_messages_of_many_sizes(count):
    """A ring: each PE sends to the next, answers only what it has read; every byte is compared in every round."""
    n, me = shmem.n_pes(), shmem.my_pe()
    right, left = (me + 1) % n, (me - 1) % n
    x, signal, credit = shmem.zeros(count, np.uint16), shmem.zeros(1, np.uint64), shmem.zeros(1, np.uint64)
    for round_ in range(1, 31):
        shmem.put_signal(x, payload(x.dtype, count, me, round_), right, signal, round_, shmem.SIGNAL_SET)
        shmem.signal_wait_until(signal, ">=", round_)
        assert same(x, payload(x.dtype, count, left, round_))
        shmem.signal_add(credit, 1, left)
        shmem.signal_wait_until(credit, shmem.CMP_GE, round_)
    shmem.barrier_all()
    for array in (credit, signal, x):
        shmem.free(array)


def test_put_signal_into_strided_views():
    n, me = shmem.n_pes(), shmem.my_pe()
    right, left = (me + 1) % n, (me - 1) % n
    x, signal = shmem.zeros((4, 6), np.int32), shmem.zeros(1, np.uint64)
    for i, view in enumerate((np.s_[:, 2], np.s_[1, ::-1], np.s_[::2, 1:4])):
        target = x[view]
        shmem.put_signal(target, payload(x.dtype, target.size, me, i).reshape(target.shape), right, signal, 1, "add")
        shmem.signal_wait_until(signal, "==", i + 1)
        assert same(np.ascontiguousarray(target), payload(x.dtype, target.size, left, i).reshape(target.shape))
        shmem.barrier_all()
    shmem.free(signal)
    shmem.free(x)


@pytest.mark.parametrize("view", [np.s_[::2], np.s_[6::-2], np.s_[::3], np.s_[5::3]], ids=str)
def test_a_signal_word_may_lie_between_the_elements_of_its_target(view):
    right = (shmem.my_pe() + 1) % shmem.n_pes()
    x = shmem.zeros(9, np.uint64)
    target, signal = x[view], x[7:8]
    shmem.put_signal(target, np.arange(10, 10 + target.size, dtype=np.uint64), right, signal, 5, "set")
    shmem.signal_wait_until(signal, "==", 5)
    wanted = [0] * 9
    for i, at in enumerate(range(9)[view]):
        wanted[at] = 10 + i
    wanted[7] = 5
    assert x.tolist() == wanted
    with pytest.raises(shmem.ArgumentError):
        shmem.put_signal(target, np.ones(target.size, np.uint64), right, x[range(9)[view][-1] :][:1], 5, "set")
    shmem.barrier_all()
    shmem.free(x)


def test_put_signal_from_a_strided_source_and_with_a_size():
    n, me = shmem.n_pes(), shmem.my_pe()
    right, left = (me + 1) % n, (me - 1) % n
    x, signal = shmem.zeros(10, np.int32), shmem.zeros(1, np.uint64)
    shmem.put_signal(x, payload(x.dtype, 20, me)[::-2], right, signal, 1, shmem.SIGNAL_SET, 6)
    shmem.signal_wait_until(signal, "==", 1)
    wanted = np.zeros(10, np.int32)
    wanted[:6] = payload(x.dtype, 20, left)[::-2][:6]
    assert same(x, wanted)
    shmem.barrier_all()
    shmem.free(signal)
    shmem.free(x)


@pytest.mark.core
def test_set_and_add_on_every_pe():
    n, me = shmem.n_pes(), shmem.my_pe()
    signals = shmem.zeros(n + 1, np.uint64)
    mine, shared = signals[me : me + 1], signals[n:]
    top = (1 << 64) - 1
    for pe in peers():
        shmem.signal_set(mine, top, pe)
        shmem.fence()
        shmem.signal_add(mine, me + 2, pe)  # wraps
        shmem.signal_add(shared, 1 << 40, pe)
    shmem.barrier_all()
    assert signals.tolist() == [*(pe + 1 for pe in range(n)), n << 40]
    assert [shmem.signal_fetch(signals[i : i + 1]) for i in range(n + 1)] == signals.tolist()
    shmem.barrier_all()
    shmem.free(signals)


def test_adds_of_all_pes_arrive_and_wake():
    n, me = shmem.n_pes(), shmem.my_pe()
    signal = shmem.zeros(1, np.uint64)
    for round_ in range(1, 101):
        for pe in peers():
            shmem.signal_add(signal, 1, pe)
        assert shmem.signal_wait_until(signal, ">=", n * round_) >= n * round_
        shmem.barrier_all()
        assert shmem.signal_fetch(signal) == n * round_
        shmem.barrier_all()
    shmem.free(signal)
    assert me < n


@pytest.mark.parametrize(
    ("cmp", "value", "holds"),
    [
        (shmem.CMP_EQ, 5, True), (shmem.CMP_NE, 4, True), (shmem.CMP_GT, 4, True), (shmem.CMP_LE, 5, True),
        (shmem.CMP_LT, 6, True), (shmem.CMP_GE, 5, True), ("==", 5, True), ("!=", 6, True), (">", 4, True),
        ("<=", 5, True), ("<", 1 << 63, True), (">=", 0, True), ("eq", 5, True), ("ne", 5, False), (">", 5, False),
        ("<", 5, False), (">=", (1 << 64) - 1, False), ("==", 5 + (1 << 32), False),
    ],
)  # fmt: skip
def test_comparisons_are_of_all_bits_and_unsigned(cmp, value, holds):
    signal = shmem.full(1, 5, np.uint64)
    if holds:
        assert shmem.signal_wait_until(signal, cmp, value) == 5
    else:
        with pytest.raises(shmem.ShmemTimeout):
            shmem.signal_wait_until(signal, cmp, value, timeout=0.0)
    assert shmem.test(signal, cmp, value) == holds
    shmem.barrier_all()
    shmem.free(signal)


ONE = np.ones(2, np.int32)
WRONG = {
    "int64": (shmem.DtypeError, lambda x, s, n: shmem.signal_set(s[:1].view(np.int64), 1, 0)),
    "int32": (shmem.DtypeError, lambda x, s, n: shmem.signal_fetch(x[:1])),
    "private": (shmem.NotSymmetric, lambda x, s, n: shmem.signal_add(np.zeros(1, np.uint64), 1, 0)),
    "two words": (shmem.SizeMismatch, lambda x, s, n: shmem.signal_set(s, 1, 0)),
    "PE n": (shmem.InvalidPE, lambda x, s, n: shmem.signal_set(s[:1], 1, n)),
    "below 0": (OverflowError, lambda x, s, n: shmem.signal_set(s[:1], -1, 0)),
    "above 64 bits": (OverflowError, lambda x, s, n: shmem.signal_add(s[:1], 1 << 64, 0)),
    "1.0": (TypeError, lambda x, s, n: shmem.signal_add(s[:1], 1.0, 0)),
    "wait for 1.0": (TypeError, lambda x, s, n: shmem.signal_wait_until(s[:1], "==", 1.0)),
    "comparison": (shmem.ArgumentError, lambda x, s, n: shmem.signal_wait_until(s[:1], "=", 1)),
    "wait in int64": (shmem.DtypeError, lambda x, s, n: shmem.signal_wait_until(s[:1].view("i8"), "==", 0)),
    "sigop 0": (shmem.ArgumentError, lambda x, s, n: shmem.put_signal(x, ONE, 0, s[:1], 1, 0)),
    "sigop text": (shmem.ArgumentError, lambda x, s, n: shmem.put_signal(x, ONE, 0, s[:1], 1, "sub")),
    "sigop is a CMP": (shmem.ArgumentError, lambda x, s, n: shmem.put_signal(x, ONE, 0, s[:1], 1, shmem.CMP_EQ)),
    "put to PE n": (shmem.InvalidPE, lambda x, s, n: shmem.put_signal(x, ONE, n, s[:1], 1, "set")),
    "put too much": (shmem.SizeMismatch, lambda x, s, n: shmem.put_signal(x[:1], ONE, 0, s[:1], 1, "set")),
    "put other dtype": (TypeError, lambda x, s, n: shmem.put_signal(x, ONE.astype("f4"), 0, s[:1], 1, "set")),
    "put private": (shmem.NotSymmetric, lambda x, s, n: shmem.put_signal(ONE, ONE, 0, s[:1], 1, "set")),
    "put, signal private": (
        shmem.NotSymmetric,
        lambda x, s, n: shmem.put_signal(x, ONE, 0, np.zeros(1, np.uint64), 1, "set"),
    ),
    "put, signal int64": (shmem.DtypeError, lambda x, s, n: shmem.put_signal(x, ONE, 0, s[:1].view("i8"), 1, "set")),
    "put, value": (OverflowError, lambda x, s, n: shmem.put_signal(x, ONE, 0, s[:1], -5, "set")),
    "signal in its target": (
        shmem.ArgumentError,
        lambda x, s, n: shmem.put_signal(s, np.ones(2, np.uint64), 0, s[1:], 1, "set"),
    ),
    "signal in its strided target": (
        shmem.ArgumentError,
        lambda x, s, n: shmem.put_signal(s[::-1], np.ones(2, np.uint64), 0, s[1:], 1, "set"),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_raise_and_write_nothing(case):
    error, call = WRONG[case]
    x, signals = shmem.full(2, 7, np.int32), shmem.full(2, 9, np.uint64)
    with pytest.raises(error):
        call(x, signals, shmem.n_pes())
    shmem.barrier_all()
    assert x.tolist() == [7, 7]
    assert signals.tolist() == [9, 9]
    shmem.free(signals)
    shmem.free(x)
