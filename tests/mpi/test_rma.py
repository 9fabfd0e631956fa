"""put, get, p, g and their nbi forms between all pairs of PEs: right bytes in the right place, and nowhere else.

Every PE sends to every PE (itself, the next, the last), so that each transfer has its own payload and place; what lies
around it keeps its bytes.
"""

from __future__ import annotations

import numpy as np
import pytest

import shmem

from .data import DTYPES, dtype_id, payload, peers, same

pytestmark = pytest.mark.mpi

PUTS = {"put": shmem.put, "put_nbi": shmem.put_nbi}
GETS = {"get": shmem.get, "get_nbi": shmem.get_nbi}


@pytest.mark.core
@pytest.mark.parametrize("name", PUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_put_to_every_pe(name, dtype):
    n, me, count = shmem.n_pes(), shmem.my_pe(), 9
    x = shmem.zeros((n, count + 2), dtype)
    for pe in peers():
        PUTS[name](x[me, 1:-1], payload(dtype, count, me, pe), pe)
    shmem.barrier_all()
    wanted = np.zeros((n, count + 2), dtype)
    for sender in range(n):
        wanted[sender, 1:-1] = payload(dtype, count, sender, me)
    assert same(x, wanted)
    shmem.free(x)


@pytest.mark.core
@pytest.mark.parametrize("name", GETS)
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_get_from_every_pe(name, dtype):
    n, me, count = shmem.n_pes(), shmem.my_pe(), 9
    x = shmem.empty((n, count), dtype)
    for reader in range(n):
        x[reader] = payload(dtype, count, me, reader)
    shmem.barrier_all()
    got = np.zeros((n, count + 2), dtype)
    wanted = got.copy()
    for pe in peers():
        GETS[name](got[pe, 1:-1], x[me], pe)
        wanted[pe, 1:-1] = payload(dtype, count, pe, me)
    shmem.quiet()
    assert same(got, wanted)
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_p_and_g_of_one_element(dtype):
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros((n, 3), dtype)
    for pe in peers():
        shmem.p(x[me, 1:2], payload(dtype, 1, me, pe)[0], pe)
    shmem.barrier_all()
    wanted = np.zeros((n, 3), dtype)
    for sender in range(n):
        wanted[sender, 1:2] = payload(dtype, 1, sender, me)
    assert same(x, wanted)
    for pe in peers():
        for sender in range(n):
            got = shmem.g(x[sender, 1:2], pe)
            assert same(np.array([got], dtype), payload(dtype, 1, sender, pe))
            assert isinstance(got, type(x[sender, 1]))
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "i8", "u8"])
def test_p_takes_the_ends_of_the_range_and_no_more(dtype):
    limits = np.iinfo(dtype)
    x = shmem.zeros(1, dtype)
    last = shmem.n_pes() - 1
    shmem.barrier_all()
    for value in (limits.min, limits.max):
        if shmem.my_pe() == last:
            shmem.p(x, value, 0)
        shmem.barrier_all()
        if shmem.my_pe() == 0:
            assert x[0] == value
        assert shmem.g(x, 0) == value
        shmem.barrier_all()
    for value in (limits.min - 1, limits.max + 1):
        with pytest.raises(OverflowError):
            shmem.p(x, value, 0)
    shmem.barrier_all()
    assert shmem.g(x, 0) == limits.max
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.parametrize("name", PUTS)
def test_puts_of_every_size_and_alignment_move_exactly_their_bytes(name):
    """Sizes around the edges of vector loops, at offsets that are no multiples of anything."""
    me = shmem.my_pe()
    x = shmem.zeros(9000, np.uint8)
    right = (me + 1) % shmem.n_pes()
    left = (me - 1) % shmem.n_pes()
    sizes = [*range(1, 70), 95, 96, 97, 127, 128, 129, 255, 256, 257, 4095, 4096, 4097, 8191]
    for i, size in enumerate(sizes):
        start, skew = 1 + i % 67, i % 31
        source = payload(x.dtype, size + skew, me, i)[skew:]
        PUTS[name](x[start : start + size], source, right)
        shmem.barrier_all()
        wanted = np.zeros(9000, np.uint8)
        wanted[start : start + size] = payload(x.dtype, size + skew, left, i)[skew:]
        assert same(x, wanted), size
        shmem.barrier_all()
        x[...] = 0
        shmem.barrier_all()
    shmem.free(x)


@pytest.mark.parametrize("name", GETS)
def test_gets_of_every_size_and_alignment_move_exactly_their_bytes(name):
    me = shmem.my_pe()
    x = shmem.array(payload(np.dtype("u1"), 9000, me))
    pe = (me + 1) % shmem.n_pes()
    there = payload(x.dtype, 9000, pe)
    for i, size in enumerate([*range(1, 70), 127, 128, 129, 256, 4095, 4096, 4097, 8191]):
        start, skew = 1 + i % 67, i % 31
        got = np.zeros(size + skew + 1, np.uint8)
        GETS[name](got[skew:-1], x[start : start + size], pe)
        shmem.quiet()
        wanted = np.zeros_like(got)
        wanted[skew:-1] = there[start : start + size]
        assert same(got, wanted), size
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.parametrize("mebibytes", [1, 3])
def test_large_blocks(mebibytes):
    n, me = shmem.n_pes(), shmem.my_pe()
    count = (mebibytes << 20) // 8 + 1
    x = shmem.zeros(count, np.int64)
    shmem.put(x, payload(x.dtype, count, me), (me + 1) % n)
    shmem.barrier_all()
    assert same(x, payload(x.dtype, count, (me - 1) % n))
    got = np.zeros(count, np.int64)
    shmem.get(got, x, (me + 1) % n)
    assert same(got, payload(x.dtype, count, me))
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.parametrize("name", [*PUTS, *GETS])
def test_nothing_moves_for_zero_elements(name):
    call = {**PUTS, **GETS}[name]
    x = shmem.zeros(4, np.int32)
    other = np.ones(4, np.int32)
    for pe in peers():
        for target, source in ((x[:0], other[:0]), (x[4:], other[4:]), (x, other[:0])):
            call(target, source, pe) if name in PUTS else call(source, target[: len(source)], pe)
        call(x, other, pe, 0) if name in PUTS else call(other, x, pe, 0)
        call(x[::-1], other, pe, size=0) if name in PUTS else call(other[::-1], x, pe, size=0)
    shmem.barrier_all()
    assert not x.any()
    assert other.all()
    empty = shmem.zeros((0, 4), np.int32)
    call(empty, empty, 0)
    shmem.free(empty)
    shmem.free(x)


@pytest.mark.parametrize("dtype", ["u1", "i8"])
def test_last_byte_of_the_heap_and_no_further(dtype):
    stats = shmem.heap_stats()
    whole = shmem.empty(stats.size // np.dtype(dtype).itemsize, dtype)
    assert whole.nbytes == stats.size
    me, n = shmem.my_pe(), shmem.n_pes()
    whole[-2 * n :] = 0
    shmem.barrier_all()
    for pe in peers():
        shmem.put(whole[-1 - me :][:1], np.array([me + 1], dtype), pe)
        shmem.p(whole[-1 - n - me :][:1], me + 11, pe)
    shmem.barrier_all()
    assert whole[-n:].tolist() == [pe + 1 for pe in reversed(range(n))]
    assert whole[-2 * n : -n].tolist() == [pe + 11 for pe in reversed(range(n))]
    for pe in peers():
        assert shmem.g(whole[-1:], pe) == 1
        got = np.zeros(2, dtype)
        shmem.get(got[:1], whole[-1:], pe)
        assert got.tolist() == [1, 0]
        with pytest.raises(shmem.NotSymmetric):
            shmem.put(np.lib.stride_tricks.as_strided(whole[-1:], (2,), whole.strides), np.zeros(2, dtype), pe)
    shmem.barrier_all()
    shmem.free(whole)


def test_size_takes_the_first_elements():
    n, me = shmem.n_pes(), shmem.my_pe()
    x, right = shmem.zeros(8, np.int16), (me + 1) % n
    given = payload(x.dtype, 8, me)
    shmem.put(x, given, right, 3)
    shmem.put(x[4:], given[4:], right, size=np.int64(2))
    shmem.barrier_all()
    from_left = payload(x.dtype, 8, (me - 1) % n)
    wanted = np.zeros(8, np.int16)
    wanted[:3], wanted[4:6] = from_left[:3], from_left[4:6]
    assert same(x, wanted)
    got = np.zeros(8, np.int16)
    shmem.get(got, x, right, 2)
    assert same(got, np.concatenate([given[:2], np.zeros(6, np.int16)]))
    shmem.barrier_all()
    shmem.free(x)


def test_larger_target_keeps_its_rest():
    x = shmem.full(6, -1, np.int64)
    shmem.put(x, np.arange(3), (shmem.my_pe() + 1) % shmem.n_pes())
    shmem.barrier_all()
    assert x.tolist() == [0, 1, 2, -1, -1, -1]
    got = np.full(9, 5)
    shmem.get(got, x, shmem.n_pes() - 1)
    assert got.tolist() == [0, 1, 2, -1, -1, -1, 5, 5, 5]
    shmem.barrier_all()
    shmem.free(x)


def test_source_may_be_reused_after_put():
    n, me = shmem.n_pes(), shmem.my_pe()
    x, source = shmem.zeros((n, 1000), np.int64), np.empty(1000, np.int64)
    for pe in peers():
        source[...] = me * 100 + pe
        shmem.put(x[me], source, pe)
        source[...] = -1
    shmem.barrier_all()
    assert same(x, np.repeat(np.arange(n) * 100 + me, 1000).reshape(n, 1000))
    shmem.free(x)


def test_source_and_target_may_both_be_symmetric():
    n, me = shmem.n_pes(), shmem.my_pe()
    x, y = shmem.array(payload(np.dtype("f4"), 50, me)), shmem.zeros((n, 50), np.float32)
    for pe in peers():
        shmem.put(y[me], x, pe)
    shmem.barrier_all()
    assert same(y, np.stack([payload(x.dtype, 50, sender) for sender in range(n)]))
    z = shmem.zeros((n, 50), np.float32)
    for pe in peers():
        shmem.get(z[pe], x, pe)
    assert same(z, y)
    shmem.barrier_all()
    for array in (x, y, z):
        shmem.free(array)


def test_read_only_source_is_fine():
    x, source = shmem.zeros(4), np.arange(4.0)
    source.flags.writeable = False
    shmem.put(x, source, shmem.n_pes() - 1 - shmem.my_pe())
    shmem.barrier_all()
    assert x.tolist() == [0, 1, 2, 3]
    shmem.free(x)


def test_bytes_of_other_dtypes_move_as_uint8_views():
    x, source = shmem.zeros(5, np.float64), payload(np.dtype("i8"), 5, shmem.my_pe())
    pe = shmem.n_pes() - 1 - shmem.my_pe()
    shmem.put(x.view(np.uint8), source.view(np.uint8), pe)
    shmem.barrier_all()
    assert x.tobytes() == payload(np.dtype("i8"), 5, pe).tobytes()
    shmem.free(x)


def test_zero_dimensional_and_multi_dimensional_arrays():
    n, me = shmem.n_pes(), shmem.my_pe()
    x, scalar = shmem.zeros((2, 3, 4), np.int32), shmem.zeros((), np.float32)
    given = payload(x.dtype, 24, me).reshape(2, 3, 4)
    shmem.put(x, given, (me + 1) % n)
    shmem.put(scalar, np.array(me + 0.5, np.float32), (me + 1) % n)
    shmem.barrier_all()
    left = (me - 1) % n
    assert same(x, payload(x.dtype, 24, left).reshape(2, 3, 4))
    assert scalar == left + 0.5
    assert shmem.g(scalar, (me + 1) % n) == me + 0.5
    row = np.zeros((2, 4), np.int32)
    shmem.get(row, x[1, :2], (me + 1) % n)
    assert same(row, given[1, :2])
    shmem.barrier_all()
    shmem.free(scalar)
    shmem.free(x)


def test_subclasses_and_row_views_are_targets():
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros((n, 4), np.int64)
    shmem.put(x[me], np.full(4, me + 1).view(np.matrix).A1, n - 1)
    shmem.fence()
    shmem.put(x.view(np.recarray)[me][2:], np.array([7, 8]), n - 1)
    shmem.barrier_all()
    if me == n - 1:
        assert x.tolist() == [[pe + 1, pe + 1, 7, 8] for pe in range(n)]
    shmem.barrier_all()
    shmem.free(x)
