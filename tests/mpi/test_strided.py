"""iput, iget, ibput and ibget against loops over single elements, for every dtype, stride and kind of view.

What lies between the elements keeps its bytes. The oracle moves one element after the other in plain Python.
"""

from __future__ import annotations

import numpy as np
import pytest

import shmem

from .data import DTYPES, Array, dtype_id, payload, peers, same

pytestmark = pytest.mark.mpi

LENGTH = 40


def moved(target: Array, source: Array, tst: int, sst: int, bsize: int, nblocks: int) -> Array:
    """What target holds afterwards."""
    wanted = target.copy()
    for block in range(nblocks):
        for i in range(bsize):
            wanted[block * tst + i : block * tst + i + 1] = source[block * sst + i : block * sst + i + 1]
    return wanted


def count_of(length: int, stride: int) -> int:
    """How many elements a stride leaves of so many."""
    return sum(1 for i in range(length) if i % stride == 0)


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_iput_and_iget_of_every_dtype_at_every_pe(dtype):
    n, me = shmem.n_pes(), shmem.my_pe()
    x, held = shmem.zeros((n, LENGTH), dtype), shmem.array(payload(dtype, LENGTH, me))
    for pe in peers():
        assert shmem.iput(x[me], payload(dtype, LENGTH, me, pe), pe, 3, 2, 11) is None
    shmem.barrier_all()
    for sender in range(n):
        wanted = moved(np.zeros(LENGTH, dtype), payload(dtype, LENGTH, sender, me), 3, 2, 1, 11)
        assert same(x[sender], wanted), sender
    for pe in peers():
        got = np.zeros(LENGTH, dtype)
        assert shmem.iget(got, held, pe, 2, 3, 13) is None
        assert same(got, moved(np.zeros(LENGTH, dtype), payload(dtype, LENGTH, pe), 2, 3, 1, 13))
    shmem.barrier_all()
    shmem.free(held)
    shmem.free(x)


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_ibput_and_ibget_of_every_dtype_at_every_pe(dtype):
    n, me = shmem.n_pes(), shmem.my_pe()
    x, held = shmem.zeros((n, LENGTH), dtype), shmem.array(payload(dtype, LENGTH, me))
    for pe in peers():
        assert shmem.ibput(x[me], payload(dtype, LENGTH, me, pe), pe, 7, 5, 3, 6) is None
    shmem.barrier_all()
    for sender in range(n):
        wanted = moved(np.zeros(LENGTH, dtype), payload(dtype, LENGTH, sender, me), 7, 5, 3, 6)
        assert same(x[sender], wanted), sender
    for pe in peers():
        got = np.zeros(LENGTH, dtype)
        assert shmem.ibget(got, held, pe, 4, 9, 4, 5) is None
        assert same(got, moved(np.zeros(LENGTH, dtype), payload(dtype, LENGTH, pe), 4, 9, 4, 5))
    shmem.barrier_all()
    shmem.free(held)
    shmem.free(x)


@pytest.mark.parametrize("size", [None, 0, 1, 5])
@pytest.mark.parametrize("sst", [1, 2, 7, 40, 41, 1 << 70])
@pytest.mark.parametrize("tst", [1, 3, 39, 40])
def test_default_size_is_the_smaller_number_of_elements_that_the_strides_leave(tst, sst, size):
    n, me = shmem.n_pes(), shmem.my_pe()
    right, left = (me + 1) % n, (me - 1) % n
    x, dtype = shmem.zeros(LENGTH, np.int32), np.dtype(np.int32)
    least = min(count_of(LENGTH, tst), count_of(31, sst))
    if size is not None and size > least:
        with pytest.raises(shmem.SizeMismatch):
            shmem.iput(x, payload(dtype, 31, me), right, tst, sst, size)
        with pytest.raises(shmem.SizeMismatch):
            shmem.iget(np.zeros(LENGTH, dtype), x[:31], right, tst, sst, size)
        moves = 0
    else:
        shmem.iput(x, payload(dtype, 31, me), right, tst, sst, size)
        moves = least if size is None else size
    shmem.barrier_all()
    assert same(x, moved(np.zeros(LENGTH, dtype), payload(dtype, 31, left), tst, sst, 1, moves))
    got = np.zeros(LENGTH, dtype)
    shmem.iget(got, x[:31], right, tst, sst, moves)
    there = moved(np.zeros(LENGTH, dtype), payload(dtype, 31, me), tst, sst, 1, moves)
    assert same(got, moved(np.zeros(LENGTH, dtype), there, tst, sst, 1, moves))
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.parametrize("bsize", [0, 1, 2, 5])
@pytest.mark.parametrize("nblocks", [0, 1, 2, 6])
@pytest.mark.parametrize("gaps", [(0, 0), (1, 0), (0, 2), (1, 1)])
def test_blocks_of_every_shape(gaps, nblocks, bsize):
    """Up to blocks that touch; the last one ends with its array."""
    n, me, dtype = shmem.n_pes(), shmem.my_pe(), np.dtype(np.int16)
    right, left = (me + 1) % n, (me - 1) % n
    tst, sst = (max(1, bsize) + gap for gap in gaps)
    x = shmem.zeros(60, dtype)
    ends = [max(0, (nblocks - 1) * step + bsize) for step in (tst, sst)]
    shmem.ibput(x[1 : 1 + ends[0]], payload(dtype, ends[1], me), right, tst, sst, bsize, nblocks)
    shmem.barrier_all()
    wanted = np.zeros(60, dtype)
    wanted[1 : 1 + ends[0]] = moved(wanted[1 : 1 + ends[0]], payload(dtype, ends[1], left), tst, sst, bsize, nblocks)
    assert same(x, wanted)
    got = np.zeros(ends[1], dtype)
    shmem.ibget(got, x[1 : 1 + ends[0]], right, sst, tst, bsize, nblocks)
    assert same(got, moved(np.zeros_like(got), payload(dtype, ends[1], me), sst, sst, bsize, nblocks))
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.parametrize("where", ["own", "other"])
def test_ibput_of_blocks_of_one_is_iput(where):
    n, me, dtype = shmem.n_pes(), shmem.my_pe(), np.dtype("f8")
    pe = me if where == "own" else (me + 1) % n
    x, y = shmem.zeros(LENGTH, dtype), shmem.zeros(LENGTH, dtype)
    shmem.iput(x[::-1], payload(dtype, LENGTH, me)[::2], pe, 3, 2, 8)
    shmem.ibput(y[::-1], payload(dtype, LENGTH, me)[::2], pe, 3, 2, 1, 8)
    shmem.barrier_all()
    assert x.any()
    assert same(x, y)
    got, also = np.zeros(LENGTH, dtype), np.zeros(LENGTH, dtype)
    shmem.iget(got[1:], x[2::2], pe, 4, 2, 9)
    shmem.ibget(also[1:], x[2::2], pe, 4, 2, 1, 9)
    assert got.any()
    assert same(got, also)
    shmem.barrier_all()
    shmem.free(y)
    shmem.free(x)


def test_strides_multiply_with_the_step_of_a_view():
    n, me, dtype = shmem.n_pes(), shmem.my_pe(), np.dtype("i8")
    x = shmem.zeros((4, 12), dtype)
    shmem.iput(x[:, 5], payload(dtype, 12, me)[::-1], (me + 1) % n, 2, 3)
    shmem.iput(x.reshape(-1)[::-4], payload(dtype, 1, me, 1), (me + 1) % n, 5)
    shmem.barrier_all()
    wanted, left = np.zeros(48, dtype), (me - 1) % n
    sent = payload(dtype, 12, left)
    wanted[5], wanted[29] = sent[11], sent[8]
    wanted[47] = payload(dtype, 1, left, 1)[0]
    assert same(x, wanted.reshape(4, 12))
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.parametrize("steps", [(1, 2), (2, 1), (-1, 3), (3, -2)])
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_blocks_of_views_with_steps(dtype, steps):
    """Also onto itself, where all is read before anything is written."""
    n, me = shmem.n_pes(), shmem.my_pe()
    x, held = shmem.zeros((n, 2 * LENGTH), dtype), shmem.array(payload(dtype, 2 * LENGTH, me))
    tst, sst = steps
    for pe in peers():
        shmem.ibput(x[me, ::tst], payload(dtype, 2 * LENGTH, me, pe)[::sst], pe, 5, 4, 3, 4)
    shmem.barrier_all()
    for sender in range(n):
        wanted = np.zeros(2 * LENGTH, dtype)
        wanted[::tst] = moved(wanted[::tst], payload(dtype, 2 * LENGTH, sender, me)[::sst], 5, 4, 3, 4)
        assert same(x[sender], wanted), sender
    for pe in peers():
        got, wanted = np.zeros((2, 2 * LENGTH), dtype)
        shmem.ibget(got[::tst], held[::sst], pe, 4, 5, 3, 4)
        wanted[::tst] = moved(wanted[::tst], payload(dtype, 2 * LENGTH, pe)[::sst], 4, 5, 3, 4)
        assert same(got, wanted)
    before = x[me].copy()
    shmem.ibput(x[me, ::tst][1:], x[me, ::sst], me, 4, 3, 3, 3)
    wanted = before.copy()
    wanted[::tst][1:] = moved(before[::tst][1:], before[::sst], 4, 3, 3, 3)
    assert same(x[me], wanted)
    shmem.barrier_all()
    shmem.free(held)
    shmem.free(x)


def test_a_strided_transfer_onto_itself_reads_before_it_writes():
    me, dtype = shmem.my_pe(), np.dtype(np.int32)
    x = shmem.array(payload(dtype, LENGTH, me))
    shmem.iput(x[1:], x, me, 2, 1, 20)
    wanted = payload(dtype, LENGTH, me)
    wanted[1:] = moved(wanted[1:], payload(dtype, LENGTH, me), 2, 1, 1, 20)
    assert same(x, wanted)
    before = x.copy()
    shmem.ibget(x[2:], x, me, 5, 4, 4, 7)
    before[2:] = moved(before[2:], before.copy(), 5, 4, 4, 7)
    assert same(x, before)
    shmem.barrier_all()
    shmem.free(x)


# name: (exception, call with x = symmetric int32 [12], y = private int32 [12], pe = the last one)
WRONG = {
    "tst 0": (shmem.ArgumentError, lambda x, y, pe: shmem.iput(x, y, pe, 0)),
    "sst -1": (shmem.ArgumentError, lambda x, y, pe: shmem.iput(x, y, pe, 1, -1)),
    "tst 1.5": (shmem.DtypeError, lambda x, y, pe: shmem.iget(y, x, pe, 1.5)),
    "size above": (shmem.SizeMismatch, lambda x, y, pe: shmem.iput(x, y, pe, 3, 1, 5)),
    "size below": (shmem.SizeMismatch, lambda x, y, pe: shmem.iget(y, x, pe, 1, 1, -1)),
    "PE n": (shmem.InvalidPE, lambda x, y, pe: shmem.iput(x, y, pe + 1)),
    "PE n, nothing moves": (shmem.InvalidPE, lambda x, y, pe: shmem.ibput(x, y, pe + 1, 1, 1, 1, 0)),
    "private": (shmem.NotSymmetric, lambda x, y, pe: shmem.iput(y, y, pe)),
    "iget private": (shmem.NotSymmetric, lambda x, y, pe: shmem.iget(y, y, pe, 2, 2)),
    "dtypes": (shmem.DtypeError, lambda x, y, pe: shmem.iput(x, y.astype("f4"), pe)),
    "a list": (shmem.DtypeError, lambda x, y, pe: shmem.iput(x, [1, 2], pe)),
    "rows apart": (shmem.LayoutError, lambda x, y, pe: shmem.iput(x.reshape(3, 4)[:, :2], y, pe)),
    "blocks of a private view": (shmem.NotSymmetric, lambda x, y, pe: shmem.ibput(y[::2], y, pe, 2, 2, 2, 2)),
    "blocks from a private view": (shmem.NotSymmetric, lambda x, y, pe: shmem.ibget(y, y[::2], pe, 2, 2, 2, 2)),
    "blocks of another dtype": (shmem.DtypeError, lambda x, y, pe: shmem.ibput(x[::2], y.astype("f4"), pe, 2, 2, 2, 2)),
    "Fortran order": (shmem.LayoutError, lambda x, y, pe: shmem.iput(x.reshape(3, 4).T, y, pe)),
    "overlapping blocks": (shmem.ArgumentError, lambda x, y, pe: shmem.ibput(x, y, pe, 2, 3, 3, 2)),
    "overlapping sources": (shmem.ArgumentError, lambda x, y, pe: shmem.ibget(y, x, pe, 3, 2, 3, 2)),
    "blocks beyond the target": (shmem.SizeMismatch, lambda x, y, pe: shmem.ibput(x, y, pe, 10, 3, 3, 2)),
    "blocks beyond the source": (shmem.SizeMismatch, lambda x, y, pe: shmem.ibput(x, y, pe, 3, 5, 3, 3)),
    "nblocks -1": (shmem.ArgumentError, lambda x, y, pe: shmem.ibput(x, y, pe, 3, 3, 3, -1)),
    "bsize -1": (shmem.ArgumentError, lambda x, y, pe: shmem.ibget(y, x, pe, 3, 3, -1, 1)),
    "a context": (shmem.ContextError, lambda x, y, pe: shmem.ibput(x, y, pe, 3, 3, 3, 1, 7)),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_raise_and_write_nothing(case):
    error, call = WRONG[case]
    x, y = shmem.full(12, 7, np.int32), np.full(12, 5, np.int32)
    with pytest.raises(error) as caught:
        call(x, y, shmem.n_pes() - 1)
    assert caught.value.pe == shmem.my_pe()
    shmem.barrier_all()
    assert (x == 7).all()
    assert (y == 5).all()
    shmem.free(x)


def test_a_freed_block_between_live_ones_is_refused():
    blocks = [shmem.zeros(8, np.int64) for _ in range(3)]
    far = np.lib.stride_tricks.as_strided(blocks[0], (24,), (8,))
    shmem.free(blocks[1])
    for call in (
        lambda: shmem.iput(far, np.ones(24, np.int64), 0, 16),
        lambda: shmem.ibget(np.zeros(24, np.int64), far, 0, 4, 16, 4, 2),
    ):
        with pytest.raises(shmem.FreedBlock):
            call()
    shmem.barrier_all()
    shmem.free(blocks[2])
    shmem.free(blocks[0])


def test_a_subclass_is_the_bytes_it_has():
    """A matrix stays of two dimensions in all its reshapes."""
    me, n = shmem.my_pe(), shmem.n_pes()
    x = shmem.zeros(8)
    shmem.iput(x, np.matrix(np.arange(8.0)), (me + 1) % n, 1, 2)
    shmem.barrier_all()
    assert x.tolist() == [0, 2, 4, 6, 0, 0, 0, 0]
    got = np.matrix(np.zeros(8))
    shmem.iget(got, x, (me + 1) % n, 2, 1)
    assert got.tolist() == [[0, 0, 2, 0, 4, 0, 6, 0]]
    shmem.barrier_all()
    shmem.free(x)
