"""put_many in each of its forms against single assignments; its C front and the Python function give the same."""

from __future__ import annotations

import numpy as np
import pytest

import shmem
from shmem.runtime import current

from .data import DTYPES, dtype_id, payload, same

pytestmark = pytest.mark.mpi

CALLS = {
    "front": lambda targets, sources, pes: shmem.put_many(targets, sources, pes),
    "python": lambda targets, sources, pes: shmem.put_many(targets, sources, pes, shmem.CTX_DEFAULT),
}


def plan(n: int, sender: int, puts: int) -> tuple[np.ndarray, np.ndarray]:
    """PE and row of each put of a sender; no place gets two values of one sender."""
    rng = np.random.default_rng([5, sender, puts])
    return rng.integers(0, n, puts), rng.permutation(puts)


@pytest.mark.core
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("width", [None, 1, 3, 5])
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_rows_of_every_dtype_to_random_pes(dtype, width, call):
    n, me, puts = shmem.n_pes(), shmem.my_pe(), 30
    shape = (puts,) if width is None else (puts, width)
    x = shmem.zeros((n, *shape), dtype)
    pes, rows = plan(n, me, puts)
    sources = payload(dtype, int(np.prod(shape)), me).reshape(shape)
    CALLS[call](x[me], sources, pes)
    shmem.barrier_all()
    wanted = np.zeros((n, *shape), dtype)
    for sender in range(n):
        sent = payload(dtype, int(np.prod(shape)), sender).reshape(shape)
        for i, pe in enumerate(plan(n, sender, puts)[0]):
            if pe == me:
                wanted[sender, i : i + 1] = sent[i : i + 1]
    assert same(x, wanted)
    shmem.barrier_all()
    x[...] = np.zeros((), dtype)
    shmem.barrier_all()
    CALLS[call]((x[me], rows), sources, pes)
    shmem.barrier_all()
    wanted[...] = np.zeros((), dtype)
    for sender in range(n):
        sent = payload(dtype, int(np.prod(shape)), sender).reshape(shape)
        for i, (pe, row) in enumerate(zip(*plan(n, sender, puts), strict=True)):
            if pe == me:
                wanted[sender, row : row + 1] = sent[i : i + 1]
    assert same(x, wanted)
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.core
@pytest.mark.parametrize("call", CALLS)
def test_what_has_length_one_serves_all_puts(call):
    n, me = shmem.n_pes(), shmem.my_pe()
    put_many, everybody = CALLS[call], np.arange(n)
    x = shmem.zeros((5, n), np.int64)
    put_many(x[0, me : me + 1], np.arange(n) + 100 * me, everybody)  # one target, on each PE its own value
    put_many((x[1], np.array([me])), np.array([me + 7]), everybody)  # one target and one source
    put_many(x[2:3], np.full((1, n), 3), 0)  # one put
    if me == n - 1:
        put_many((x[3], np.arange(n)), np.array([9]), 0)  # one source, one PE
        put_many(x[4], np.arange(n) + 1, n - 1)
    shmem.barrier_all()
    wanted = np.zeros((5, n), np.int64)
    wanted[0] = [100 * sender + me for sender in range(n)]
    wanted[1] = np.arange(n) + 7
    if me == 0:
        wanted[2] = 3
        wanted[3] = 9
    if me == n - 1:
        wanted[4] = np.arange(n) + 1
    assert same(x, wanted)
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.core
def test_lists_of_arrays_of_any_dtype_and_size():
    n, me = shmem.n_pes(), shmem.my_pe()
    dtypes = [dtype for dtype in DTYPES if dtype.kind != "V"]
    arrays = [shmem.zeros((n, 6), dtype) for dtype in dtypes]
    pes = [(me + i) % n for i in range(len(dtypes))]
    sources = [payload(dtype, 1 + i % 5, me, i) for i, dtype in enumerate(dtypes)]
    shmem.put_many([x[me] for x in arrays], sources, pes)
    shmem.barrier_all()
    for i, (x, dtype) in enumerate(zip(arrays, dtypes, strict=True)):
        wanted = np.zeros((n, 6), dtype)
        sender = (me - i) % n
        wanted[sender, : 1 + i % 5] = payload(dtype, 1 + i % 5, sender, i)
        assert same(x, wanted), dtype
    for x in reversed(arrays):
        shmem.free(x)


def test_views_as_rows():
    """Columns, every second row, row blocks, and rows that are wider than what comes."""
    n, me, dtype = shmem.n_pes(), shmem.my_pe(), np.dtype(np.int32)
    right, left = (me + 1) % n, (me - 1) % n
    x = shmem.zeros((8, 10), dtype)
    sent = [payload(dtype, 32, me, i) for i in range(5)]
    shmem.put_many(x[:, 3], sent[0][:8], right)
    shmem.put_many(x[::-2, 4:6], sent[1][:8].reshape(4, 2), right)
    shmem.put_many((x[:, 6:9], [5, 0]), sent[2][:6].reshape(2, 3)[::-1], right)
    shmem.put_many(x[2:4, 9:10], sent[3][:8].reshape(4, 2).T[:, :1], [right, right])
    shmem.put_many(x, sent[4][:8].reshape(8, 1), right)
    shmem.barrier_all()
    wanted = np.zeros((8, 10), dtype)
    came = [payload(dtype, 32, left, i) for i in range(5)]
    for i in range(8):
        wanted[i, 3] = came[0][i]
        wanted[i, 0] = came[4][i]
    for i in range(4):
        wanted[7 - 2 * i, 4:6] = came[1][2 * i : 2 * i + 2]
    wanted[5, 6:9], wanted[0, 6:9] = came[2][3:6], came[2][:3]
    wanted[2, 9], wanted[3, 9] = came[3][0], came[3][1]
    assert same(x, wanted)
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("nothing", [
    lambda x: (x[:0], np.zeros(0, np.int64), np.zeros(0, np.int64)),
    lambda x: (x[:0], np.zeros(0, np.int64), 0),
    lambda x: ([], [], []),
    lambda x: ((x, np.zeros(0, np.int64)), np.ones(1, np.int64), 0),
    lambda x: (x.reshape(3, 3)[:, :0], np.zeros((3, 0), np.int64), [0, 0, 0]),
    lambda x: (x, np.zeros((9, 0), np.int64), 0),
])  # fmt: skip
def test_nothing_moves_nothing(nothing, call):
    x = shmem.full(9, 4, np.int64)
    CALLS[call](*nothing(x))
    shmem.barrier_all()
    assert (x == 4).all()
    shmem.free(x)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("nbytes", [8, 4096])
def test_large_calls(call, nbytes):
    """Beyond what the front takes with the interpreter held."""
    n, me, puts = shmem.n_pes(), shmem.my_pe(), 1 << 15 >> (nbytes > 8) * 9
    x, dtype = shmem.zeros((puts, nbytes), np.uint8), np.dtype(np.uint8)
    CALLS[call](x, payload(dtype, puts * nbytes, me).reshape(puts, nbytes), (me + 1) % n)
    shmem.barrier_all()
    assert same(x, payload(dtype, puts * nbytes, (me - 1) % n).reshape(puts, nbytes))
    shmem.free(x)


@pytest.mark.core
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("form", ["rows", "numbers", "list"])
def test_each_put_is_pending_until_quiet(form, call):
    fabric, x = current().fabric, shmem.zeros(5, np.int64)
    shmem.quiet()
    targets = {"rows": x, "numbers": (x, np.arange(5)), "list": [x[i : i + 1] for i in range(5)]}[form]
    CALLS[call](targets, np.arange(5), np.zeros(5, np.int64))
    assert fabric.pending(0) == 5
    shmem.quiet()
    assert fabric.pending(0) == 0
    shmem.barrier_all()
    shmem.free(x)


@pytest.mark.core
def test_sources_may_be_reused_at_once_and_flush_local_completes_nothing_else():
    n, me = shmem.n_pes(), shmem.my_pe()
    right, left = (me + 1) % n, (me - 1) % n
    x, source = shmem.zeros((3, 4), np.int64), np.arange(4) + 10 * me
    shmem.put_many(x[0], source, right)
    source[...] = -1
    later = np.arange(4) + 10 * me
    shmem.put_nbi(x[1], later, right)
    pending = current().fabric.pending(0)
    assert shmem.flush_local() is None
    later[...] = -1
    assert current().fabric.pending(0) == pending >= 5
    with pytest.raises(shmem.ContextError):
        shmem.flush_local(3)
    shmem.barrier_all()
    assert x.tolist() == [[10 * left + i for i in range(4)]] * 2 + [[0] * 4]
    shmem.barrier_all()
    shmem.free(x)


PRIVATE = np.zeros(4, np.int64)
ONES = np.ones(4, np.int64)
ZERO = np.zeros(4, np.int64)
# name: (exception, call with x = symmetric int64 [4], n)
WRONG = {
    "PE n": (shmem.InvalidPE, lambda x, n: shmem.put_many(x, ONES, np.array([0, 0, n, 0]))),
    "PE -1": (shmem.InvalidPE, lambda x, n: shmem.put_many(x, ONES, np.array([0, 0, 0, -1]))),
    "PE 2**63-1": (shmem.InvalidPE, lambda x, n: shmem.put_many(x, ONES, np.array([0, (1 << 63) - 1, 0, 0]))),
    "PE -2**63": (shmem.InvalidPE, lambda x, n: shmem.put_many(x, ONES, np.array([0, -1 << 63, 0, 0]))),
    "one PE n": (shmem.InvalidPE, lambda x, n: shmem.put_many(x, ONES, n)),
    "one PE n in an array": (shmem.InvalidPE, lambda x, n: shmem.put_many(x, ONES, np.array([n]))),
    "PE 0.0": (shmem.DtypeError, lambda x, n: shmem.put_many(x, ONES, 0.0)),
    "PE None": (shmem.DtypeError, lambda x, n: shmem.put_many(x, ONES, None)),
    "too few PEs": (shmem.SizeMismatch, lambda x, n: shmem.put_many(x, ONES, ZERO[:3])),
    "too few sources": (shmem.SizeMismatch, lambda x, n: shmem.put_many(x, ONES[:2], ZERO)),
    "too few targets": (shmem.SizeMismatch, lambda x, n: shmem.put_many(x[:3], ONES, ZERO)),
    "two lengths": (shmem.SizeMismatch, lambda x, n: shmem.put_many(x[:3], ONES[:1], ZERO)),
    "no PEs": (shmem.SizeMismatch, lambda x, n: shmem.put_many(x, ONES, ZERO[:0])),
    "row 4": (shmem.SizeMismatch, lambda x, n: shmem.put_many((x, np.array([0, 1, 4, 2])), ONES, ZERO)),
    "row -1": (shmem.SizeMismatch, lambda x, n: shmem.put_many((x, np.array([0, 1, -1, 2])), ONES, ZERO)),
    "row 2**62": (shmem.SizeMismatch, lambda x, n: shmem.put_many((x, np.array([0, 1, 1 << 62, 2])), ONES, ZERO)),
    "row 1.0": (shmem.DtypeError, lambda x, n: shmem.put_many((x, np.ones(4)), ONES, ZERO)),
    "rows as a table": (shmem.SizeMismatch, lambda x, n: shmem.put_many((x, np.zeros((2, 2), int)), ONES, ZERO)),
    "three in a pair": (shmem.DtypeError, lambda x, n: shmem.put_many((x, ZERO, ZERO), ONES, ZERO)),
    "private": (shmem.NotSymmetric, lambda x, n: shmem.put_many(PRIVATE, ONES, ZERO)),
    "private rows": (shmem.NotSymmetric, lambda x, n: shmem.put_many((PRIVATE, ZERO), ONES, ZERO)),
    "private in a list": (shmem.NotSymmetric, lambda x, n: shmem.put_many([x, PRIVATE], [ONES, ONES], [0, 0])),
    "wider sources": (shmem.SizeMismatch, lambda x, n: shmem.put_many(x, np.ones((4, 2), int), ZERO)),
    "wider source in a list": (shmem.SizeMismatch, lambda x, n: shmem.put_many([x, x[:3]], [ONES, ONES], 0)),
    "dtype": (shmem.DtypeError, lambda x, n: shmem.put_many(x, np.ones(4), ZERO)),
    "dtype in a list": (shmem.DtypeError, lambda x, n: shmem.put_many([x, x], [ONES, np.ones(4)], 0)),
    "numbers": (shmem.DtypeError, lambda x, n: shmem.put_many(x, [1, 2, 3, 4], ZERO)),
    "0-d": (shmem.LayoutError, lambda x, n: shmem.put_many(x[:1].reshape(()), ONES[:1], 0)),
    "view in a list": (shmem.LayoutError, lambda x, n: shmem.put_many([x[::2]], [ONES[:2]], 0)),
    "Fortran order": (shmem.LayoutError, lambda x, n: shmem.put_many(x.reshape(2, 2).T, ONES.reshape(2, 2), 0)),
    "read-only": (shmem.ArgumentError, lambda x, n: shmem.put_many(np.broadcast_to(x, (4, 4)), ONES, 0)),
    "context": (shmem.ContextError, lambda x, n: shmem.put_many(x, ONES, ZERO, 1)),
}


@pytest.mark.core
@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_raise_and_write_nothing(case):
    error, call = WRONG[case]
    x = shmem.full(4, 7, np.int64)
    with pytest.raises(error) as caught:
        call(x, shmem.n_pes())
    assert caught.value.pe == shmem.my_pe()
    shmem.barrier_all()
    assert (x == 7).all()
    assert not PRIVATE.any()
    shmem.free(x)


def test_a_freed_array_is_refused():
    x = shmem.zeros(4, np.int64)
    shmem.free(x)
    for targets in (x, (x, ZERO), [x[i : i + 1] for i in range(4)]):
        with pytest.raises(shmem.FreedBlock):
            shmem.put_many(targets, ONES, ZERO)
