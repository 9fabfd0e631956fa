"""Batch: every kind of record against NumPy and explicit loops, their order, and wrong arguments."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import shmem

from .data import DTYPES, dtype_id, everyone, payload, peers, same

pytestmark = pytest.mark.mpi

BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_put_to_every_pe(dtype):
    n, me, count = shmem.n_pes(), shmem.my_pe(), 9
    x = shmem.zeros((n, count + 2), dtype)
    batch = shmem.Batch()
    for pe in peers():
        batch.put(x[me, 1:-1], payload(dtype, count, me, pe), pe)
    assert len(batch) == n
    batch.quiet()
    batch.barrier()
    batch.run()
    wanted = np.zeros((n, count + 2), dtype)
    for sender in range(n):
        wanted[sender, 1:-1] = payload(dtype, count, sender, me)
    assert same(x, wanted)
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.core
@pytest.mark.parametrize("uniform", [True, False], ids=["one size", "sizes"])
def test_put_many_blocks(uniform):
    n, me = shmem.n_pes(), shmem.my_pe()
    rng = np.random.default_rng([5, me])
    blocks = 40
    x = shmem.zeros((n, blocks, 64), np.uint8)  # [sender, block]
    nbytes = 24 if uniform else rng.integers(0, 65, blocks)
    source = payload(x.dtype, 5000, me)
    starts = rng.integers(0, 4900, blocks)
    pes = rng.integers(0, n, blocks).astype(np.int32)
    batch = shmem.Batch()
    batch.put_many(x, (me * blocks + np.arange(blocks)) * 64, source, starts, nbytes, pes)
    assert len(batch) == blocks
    batch.barrier()
    batch.run()
    wanted = np.zeros((n, blocks, 64), np.uint8)
    for sender, (sizes, at, to) in enumerate(everyone((nbytes, starts, pes))):
        data = payload(x.dtype, 5000, sender)
        for i in range(blocks):
            size = sizes if uniform else sizes[i]
            if to[i] == me:
                wanted[sender, i, :size] = data[at[i] : at[i] + size]
    assert same(x, wanted)
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.core
def test_put_strided_blocks():
    n, me = shmem.n_pes(), shmem.my_pe()
    cases = [(3, 10, 5, 7, 4, 12), (90, -9, 0, 4, 4, 10), (0, 4, 40, -5, 3, 8), (50, 0, 8, 0, 6, 1), (1, 8, 1, 8, 8, 9)]
    x = shmem.zeros((n, len(cases), 128), np.uint8)
    source = payload(x.dtype, 128, me)
    batch = shmem.Batch()
    for i, (to, step, start, source_step, width, blocks) in enumerate(cases):
        for pe in peers():
            base = (me * len(cases) + i) * 128
            batch.put_strided(x, base + to, step, source, start, source_step, width, blocks, pe)
    batch.put_strided(x, 0, 0, source, 0, 0, 4, 0, 0)  # nothing
    assert len(batch) == len(cases) * n
    batch.barrier()
    batch.run()
    wanted = np.zeros((n, len(cases), 128), np.uint8)
    for sender in range(n):
        data = payload(x.dtype, 128, sender)
        for i, (to, step, start, source_step, width, blocks) in enumerate(cases):
            for k in range(blocks):
                at, of = to + k * step, start + k * source_step
                wanted[sender, i, at : at + width] = data[of : of + width]
    assert same(x, wanted)
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.core
@pytest.mark.parametrize("dtype", ["i4", "i8", "u8"])
def test_signal_covers_the_puts_before_it(dtype):
    n, me, count = shmem.n_pes(), shmem.my_pe(), 300
    x, flags = shmem.zeros((n, count), np.int16), shmem.zeros(n + 1, dtype)
    counter = n
    for round_ in range(1, 21):
        batch = shmem.Batch()
        for pe in peers():
            batch.put(x[me], payload(x.dtype, count, me, pe, round_), pe)
            batch.signal(flags, me, -round_ if dtype != "u8" else round_, pe)
            batch.atomic_add(flags, counter, 3, pe)
        batch.wait(flags[:n], "==", -round_ if dtype != "u8" else round_)
        batch.run()
        assert same(x, np.stack([payload(x.dtype, count, sender, me, round_) for sender in range(n)]))
        shmem.barrier_all()
        assert flags[counter] == 3 * n * round_
        shmem.barrier_all()
    shmem.free(flags)
    shmem.free(x)


PUTS = {
    "put": lambda batch, to, what, pe: batch.put(to, what, pe),
    "put_many": lambda batch, to, what, pe: batch.put_many(to, I64, what, I64, np.array([8, 96]), PES + pe),
    "put_strided": lambda batch, to, what, pe: batch.put_strided(to, 0, 8, what, 0, 8, 8, 13, pe),
}


@pytest.mark.parametrize("kind", PUTS)
def test_atomic_add_covers_each_kind_of_put_before_it(kind):
    """Those that come after another atomic as well."""
    n, me = shmem.n_pes(), shmem.my_pe()
    right, left = (me + 1) % n, (me - 1) % n
    x, more, words = shmem.zeros(13, np.int64), shmem.zeros(13, np.int64), shmem.zeros(2, np.int64)
    for round_ in range(1, 31):
        batch = shmem.Batch()
        PUTS[kind](batch, x, payload(x.dtype, 13, me, round_), right)
        batch.atomic_add(words, 0, 1, right)
        PUTS[kind](batch, more, payload(x.dtype, 13, me, -round_ % 97), right)
        batch.atomic_add(words, 1, 1, right)
        batch.wait(words, ">=", round_)
        batch.run()
        assert same(x, payload(x.dtype, 13, left, round_))
        assert same(more, payload(x.dtype, 13, left, -round_ % 97))
        shmem.barrier_all()
    for array in (words, more, x):
        shmem.free(array)


def test_signals_of_floats_and_adds_that_wrap():
    x, floats = shmem.full(2, np.iinfo(np.int32).max, np.int32), shmem.zeros(3, np.float32)
    batch = shmem.Batch()
    batch.atomic_add(x, 1, 1, shmem.my_pe())
    batch.signal(floats, 2, 1.5, shmem.my_pe())
    batch.run()
    assert x.tolist() == [np.iinfo(np.int32).max, np.iinfo(np.int32).min]
    assert floats.tolist() == [0, 0, 1.5]
    shmem.barrier_all()
    shmem.free(floats)
    shmem.free(x)


def test_records_run_in_the_order_in_which_they_were_added():
    """A word is put, copied, added to and put again; each step sees the one before."""
    me = shmem.my_pe()
    x, log = shmem.zeros(1, np.int64), np.zeros(4, np.int64)
    batch = shmem.Batch()
    for i in range(4):
        batch.put(x, np.array([10 * i]), me)
        batch.atomic_add(x, 0, 1, me)
        batch.fence()
        batch.wait(x, "==", 10 * i + 1)
        batch.copy_rows(log, np.array([i]), 8, x, None, 8, 8)
    batch.run()
    assert log.tolist() == [1, 11, 21, 31]
    shmem.barrier_all()
    shmem.free(x)


def test_a_batch_runs_again_with_what_its_arrays_hold_then():
    n, me = shmem.n_pes(), shmem.my_pe()
    x, source = shmem.zeros((n, 5), np.int32), np.zeros(5, np.int32)
    batch = shmem.Batch()
    for pe in peers():
        batch.put(x[me], source, pe)
    batch.barrier("exchange()")
    for round_ in range(3):
        source[...] = 10 * me + round_
        batch.run()
        assert x.tolist() == [[10 * sender + round_] * 5 for sender in range(n)]
        shmem.barrier_all()
    batch.put(x[me], np.full(5, -1, np.int32), me)  # records may be added after a run
    batch.run()
    assert x[me].tolist() == [-1] * 5
    shmem.barrier_all()
    shmem.free(x)


def test_an_empty_batch_runs():
    batch = shmem.Batch()
    batch.run()
    assert len(batch) == 0


def test_arrays_of_a_batch_live_as_long_as_it():
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros((n, 4000), np.int64)
    batch = shmem.Batch()
    for pe in peers():
        batch.put(x[me], np.arange(4000) * (me + 1), pe)  # the only reference is the batch's
        np.full(4000, 7)
    batch.barrier()
    batch.run()
    assert same(x, np.stack([np.arange(4000) * (sender + 1) for sender in range(n)]))
    shmem.barrier_all()
    shmem.free(x)


# -- local rows ------------------------------------------------------------------------------------------


@pytest.mark.core
@pytest.mark.parametrize("width", [1, 7, 32, 100])
def test_copy_rows(width):
    rng = np.random.default_rng(width)
    source = rng.integers(0, 256, (20, 112), np.uint8)
    lists = {"none": None, "some": rng.permutation(20)[:11].astype(np.int64), "twice": np.zeros(11, np.int64) + 3}
    for to, of in (("some", "some"), ("some", "none"), ("none", "twice"), ("none", "none")):
        target, wanted = np.zeros((20, 104), np.uint8), np.zeros((20, 104), np.uint8)
        batch = shmem.Batch()
        batch.copy_rows(target, lists[to], 104, source, lists[of], 112, width, 11)
        batch.run()
        for i in range(11):
            row = i if lists[to] is None else lists[to][i]
            wanted[row, :width] = source[i if lists[of] is None else lists[of][i], :width]
        assert same(target, wanted), (to, of)


def test_rows_are_those_of_when_they_were_given():
    source, target, rows = np.arange(64, dtype=np.uint8).reshape(8, 8), np.zeros((3, 8), np.uint8), np.array([5, 1, 7])
    batch = shmem.Batch()
    batch.copy_rows(target, None, 8, source, rows, 8, 8)
    rows[:] = 0
    batch.run()
    assert same(target, source[[5, 1, 7]])


def reduced(source: np.ndarray, offsets: np.ndarray, biases: list[np.ndarray]) -> np.ndarray:
    """The sums as the contract says: float32, from +0.0, biases first, terms in order, one rounding at the end."""
    rows, width = offsets.shape[0], source.shape[1]
    out = np.zeros((rows, width), BF16)
    for i in range(rows):
        total = np.zeros(width, np.float32)
        for bias in biases:
            total = total + bias[i].astype(np.float32)
        for offset in offsets[i]:
            if offset >= 0:
                total = total + source[offset // (2 * width)].astype(np.float32)
        out[i] = total.astype(BF16)
    return out


@pytest.mark.core
@pytest.mark.parametrize("biases", [0, 1, 2])
@pytest.mark.parametrize("width", [1, 8, 33])
def test_reduce_rows_is_exact(width, biases):
    """Values of very different sizes, so that another order or another rounding would differ; with -0, inf and NaN."""
    rng = np.random.default_rng([width, biases])
    source = (rng.standard_normal((30, width)) * 10.0 ** rng.integers(-6, 6, (30, width))).astype(BF16)
    source[0], source[1], source[2] = -0.0, np.inf, np.nan
    offsets = rng.integers(-1, 30, (25, 5)).astype(np.int64) * 2 * width
    offsets[offsets < 0] = -1
    offsets[3], offsets[4] = -1, 0
    added = [rng.standard_normal((25, width)).astype(BF16) for _ in range(biases)]
    target = np.zeros((25, width + 3), BF16)
    batch = shmem.Batch()
    bias = None if biases == 0 else added[0] if biases == 1 else tuple(added)
    batch.reduce_rows(target, 2 * (width + 3), offsets, source, width, bias)
    batch.run()
    wanted = reduced(source, offsets, added)
    known = ~np.isnan(wanted.astype(np.float32))
    assert np.array_equal(target[:, :width].view("u2")[known], wanted.view("u2")[known])
    assert np.isnan(target[:, :width].astype(np.float32)[~known]).all()
    assert not target[:, width:].view("u2").any()


# -- barriers and errors ---------------------------------------------------------------------------------


@pytest.mark.mpi(min_size=2)
def test_barriers_with_different_calls_raise_on_every_pe():
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros(2, np.int32)
    for other in ("dispatch(3)", None):
        batch = shmem.Batch()
        batch.signal(x, 0, 1, me)
        batch.barrier("dispatch(2)" if me else other)
        batch.signal(x, 1, 1, me)
        with pytest.raises(shmem.SymmetryError) as caught:
            batch.run()
        assert [caught.value.calls[pe] for pe in range(1, n)] == ["dispatch(2)"] * (n - 1)
        assert caught.value.calls[0] == (other or "barrier in a batch")
        assert x.tolist() == [1, 0]  # what stands before has run, what stands behind has not
    with pytest.raises(shmem.SymmetryError) as caught:
        shmem.barrier_all() if me == 0 else batch.run()
    assert caught.value.calls[0] == "barrier_all()"
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.mpi(min_size=2)
def test_deadline_in_a_batch_says_what_was_awaited():
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros(4, np.int64)
    batch = shmem.Batch()
    batch.signal(x, 0, 5, me)
    batch.wait(x, ">=", 5)
    with pytest.raises(shmem.ShmemTimeout) as caught:
        batch.run(timeout=0.05)
    assert "heap offset" in caught.value.awaited
    assert x.tolist() == [5, 0, 0, 0]
    shmem.barrier_all()
    if me == n - 1:
        shmem.wait_until(x[1:2], "==", n - 1)
    else:
        batch = shmem.Batch()
        batch.barrier("late")
        with pytest.raises(shmem.ShmemTimeout) as caught:
            batch.run(timeout=0.05)
        assert "late" in caught.value.awaited
        assert f"PE {n - 1}" in str(caught.value.seen)
        shmem.atomic_inc(x[1:2], n - 1)
    batch = shmem.Batch()
    batch.barrier("late")
    batch.run()
    shmem.free(x)


A = np.arange(8, dtype=np.int32)
I64 = np.array([0, 8], np.int64)
PES = np.zeros(2, np.int32)
WRONG = {
    "put to PE n": (shmem.InvalidPE, lambda b, x, n: b.put(x, A, n)),
    "put private": (shmem.NotSymmetric, lambda b, x, n: b.put(A, A, 0)),
    "put other dtype": (shmem.DtypeError, lambda b, x, n: b.put(x, A.astype("f4"), 0)),
    "put too much": (shmem.SizeMismatch, lambda b, x, n: b.put(x[:7], A, 0)),
    "put strided target": (shmem.LayoutError, lambda b, x, n: b.put(x[::2], A[:4], 0)),
    "put strided source": (shmem.LayoutError, lambda b, x, n: b.put(x, A[::2], 0)),
    "many: PE n": (shmem.InvalidPE, lambda b, x, n: b.put_many(x, I64, A, I64, 4, np.array([0, n]))),
    "many: PE -1": (shmem.InvalidPE, lambda b, x, n: b.put_many(x, I64, A, I64, 4, np.array([0, -1]))),
    "many: target": (shmem.SizeMismatch, lambda b, x, n: b.put_many(x, I64 + 21, A, I64, 4, PES)),
    "many: source": (shmem.SizeMismatch, lambda b, x, n: b.put_many(x, I64, A, I64 + 21, 4, PES)),
    "many: below 0": (shmem.SizeMismatch, lambda b, x, n: b.put_many(x, I64 - 1, A, I64, 4, PES)),
    "many: size below 0": (shmem.SizeMismatch, lambda b, x, n: b.put_many(x, I64, A, I64, -1, PES)),
    "many: private": (shmem.NotSymmetric, lambda b, x, n: b.put_many(A, I64, A, I64, 4, PES)),
    "strided: PE n": (shmem.InvalidPE, lambda b, x, n: b.put_strided(x, 0, 4, A, 0, 4, 4, 2, n)),
    "strided: target": (shmem.SizeMismatch, lambda b, x, n: b.put_strided(x, 0, 4, A, 0, 0, 4, 9, 0)),
    "strided: source": (shmem.SizeMismatch, lambda b, x, n: b.put_strided(x, 0, 0, A, 0, 4, 4, 9, 0)),
    "strided: down": (shmem.SizeMismatch, lambda b, x, n: b.put_strided(x, 4, -4, A, 0, 4, 4, 3, 0)),
    "signal: index": (shmem.SizeMismatch, lambda b, x, n: b.signal(x, 8, 1, 0)),
    "signal: index -1": (shmem.SizeMismatch, lambda b, x, n: b.signal(x, -1, 1, 0)),
    "signal: dtype": (shmem.DtypeError, lambda b, x, n: b.signal(x.view("i2"), 0, 1, 0)),
    "signal: value": (OverflowError, lambda b, x, n: b.signal(x, 0, 1 << 31, 0)),
    "signal: PE n": (shmem.InvalidPE, lambda b, x, n: b.signal(x, 0, 1, n)),
    "signal: private": (shmem.NotSymmetric, lambda b, x, n: b.signal(A, 0, 1, 0)),
    "add: float": (shmem.DtypeError, lambda b, x, n: b.atomic_add(x.view("f4"), 0, 1.0, 0)),
    "wait: float": (shmem.DtypeError, lambda b, x, n: b.wait(x.view("f4"), "==", 1.0)),
    "wait: private": (shmem.NotSymmetric, lambda b, x, n: b.wait(A, "==", 1)),
    "wait: comparison": (shmem.ArgumentError, lambda b, x, n: b.wait(x, "=>", 1)),
    "rows: target": (shmem.SizeMismatch, lambda b, x, n: b.copy_rows(A, np.array([8]), 4, A, None, 4, 4)),
    "rows: source": (shmem.SizeMismatch, lambda b, x, n: b.copy_rows(A, None, 4, A, np.array([-1]), 4, 4)),
    "rows: width": (shmem.SizeMismatch, lambda b, x, n: b.copy_rows(A, np.array([7]), 4, A, None, 4, 8)),
    "context": (shmem.ContextError, lambda b, x, n: b.run(ctx=3)),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_raise_and_add_no_record(case):
    error, call = WRONG[case]
    x = shmem.full(8, 7, np.int32)
    batch = shmem.Batch()
    with pytest.raises(error):
        call(batch, x, shmem.n_pes())
    assert len(batch) == 0
    batch.run()
    shmem.barrier_all()
    assert (x == 7).all()
    assert A.tolist() == list(range(8))
    shmem.free(x)


# -- the core's copies past the cache --------------------------------------------------------------------


def test_streaming_copies_are_visible_before_the_flag_behind_them():
    """Non-temporal stores of every size and alignment, each followed at once by a flag in the same batch."""
    from shmem.records import STREAMING

    n, me = shmem.n_pes(), shmem.my_pe()
    right, left = (me + 1) % n, (me - 1) % n
    x, flag, credit = shmem.zeros(70_000, np.uint8), shmem.zeros(1, np.int64), shmem.zeros(1, np.int64)
    sizes = [1, 3, 8, 15, 16, 31, 32, 33, 63, 64, 65, 127, 129, 255, 1000, 4096, 65_536, 69_000]
    for i, size in enumerate([*sizes, *sizes[::-1]], 1):
        start = i * 7 % 61
        batch = shmem.Batch()
        batch.put(x[start : start + size], payload(x.dtype, size + 64, me, i)[i % 64 :][:size], right)
        batch._parts[-1]["flags"] |= STREAMING
        batch.signal(flag, 0, i, right)
        batch.wait(flag, ">=", i)
        batch.run()
        assert same(x[start : start + size], payload(x.dtype, size + 64, left, i)[i % 64 :][:size])
        assert not x[:start].any()
        assert not x[start + size :].any()
        x[...] = 0
        shmem.atomic_inc(credit, left)
        shmem.wait_until(credit, ">=", i)
    shmem.barrier_all()
    for array in (credit, flag, x):
        shmem.free(array)
