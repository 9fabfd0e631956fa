"""Arguments of the wrong kind: an error of ours that names the argument, on every PE, and no PE left waiting."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import shmem

from .data import rank

pytestmark = pytest.mark.mpi

BF16 = np.zeros(8, ml_dtypes.bfloat16)
RAGGED = [[1], [2, 3]]
SEVERAL = np.zeros((2, 2))


def batch():
    return shmem.Batch()


def copied(make, how):
    with make() as local:
        return how(local)


def acquired(timeout):
    lock = shmem.Lock()
    try:
        lock.acquire(timeout=timeout)
    finally:
        lock.destroy()


def wrong(x):
    """name: (exception, what its text must name, call); x is symmetric, int64 [8]."""
    return {**of_contexts_and_teams(), **of_memory(), **of_calls(x), **of_batches(x), **of_layouts(), **of_copies()}


def of_contexts_and_teams():
    return {
        "ctx_destroy(None)": (shmem.ContextError, "None", lambda: shmem.ctx_destroy(None)),
        "Ctx of text": (shmem.DtypeError, "'x'", lambda: shmem.Ctx("x")),
        "Team of 5": (shmem.DtypeError, "5", lambda: shmem.Team(5)),
        "total_ops of an array": (shmem.DtypeError, "total_ops", lambda: shmem.ctx_session_start(None, 0, SEVERAL)),
        "pe_quiet(None)": (shmem.InvalidPE, "None", lambda: shmem.pe_quiet(None)),
        "addr_accessible(None)": (shmem.DtypeError, "NoneType", lambda: shmem.addr_accessible(None, 0)),
        "workers of too many": (shmem.ArgumentError, "at most", lambda: shmem.workers(2**64, print)),
        "team_from_pes(5)": (shmem.TeamError, "pes=5", lambda: shmem.team_from_pes(5)),
        "team_from_pes(None)": (shmem.TeamError, "pes=None", lambda: shmem.team_from_pes(None)),
        "team_from_pes of rows": (shmem.TeamError, "a PE", lambda: shmem.team_from_pes(SEVERAL)),
        "split_strided(config=5)": (shmem.TeamError, "config 5", lambda: shmem.TEAM_WORLD.split_strided(config=5)),
        "split_strided of an array": (shmem.TeamError, "start", lambda: shmem.TEAM_WORLD.split_strided(SEVERAL)),
        "split_strided from far": (shmem.TeamError, "no such part", lambda: shmem.TEAM_WORLD.split_strided(-(2**70))),
        "split_2d of an array": (shmem.TeamError, "xrange", lambda: shmem.TEAM_WORLD.split_2d(SEVERAL)),
    }


def of_memory():
    return {
        "array of ragged rows": (shmem.ArgumentError, "obj", lambda: shmem.array(RAGGED)),
        "array of no dtype": (shmem.DtypeError, "'x'", lambda: shmem.array([1], "x")),
        "array in the order of an array": (shmem.ArgumentError, "order", lambda: shmem.array([1], order=SEVERAL)),
        "zeros of ragged rows": (shmem.DtypeError, "shape", lambda: shmem.zeros(RAGGED)),
        "zeros of a set": (shmem.DtypeError, "shape", lambda: shmem.zeros({1, 2})),
        "zeros of no dtype": (shmem.DtypeError, "'x'", lambda: shmem.zeros(2, "x")),
        "full of ragged rows": (shmem.ArgumentError, "fill_value", lambda: shmem.full(2, RAGGED)),
        "full of no dtype": (shmem.DtypeError, "3", lambda: shmem.full(2, 1, 3)),
        "new_array(clear=array)": (shmem.DtypeError, "clear", lambda: shmem.new_array(2, clear=SEVERAL)),
        "alloc(clear=array)": (shmem.DtypeError, "clear", lambda: shmem.alloc(2, clear=SEVERAL)),
        "alloc(align=array)": (shmem.DtypeError, "align", lambda: shmem.alloc(2, align=SEVERAL)),
        "align(array)": (shmem.DtypeError, "alignment", lambda: shmem.align(SEVERAL, 8)),
        "init with no size": (shmem.ArgumentError, "heap_size", lambda: shmem.init(heap_size=[])),
        "init with no number": (shmem.ArgumentError, "heap_size", lambda: shmem.init(heap_size=float("nan"))),
        "init with no fabric": (shmem.ArgumentError, "fabric", lambda: shmem.init(fabric=SEVERAL)),
    }


def of_calls(x):
    return {
        "alltoalls(tst=array)": (shmem.DtypeError, "stride of target", lambda: shmem.alltoalls(x, x, SEVERAL)),
        "status of ragged rows": (shmem.ArgumentError, "status", lambda: shmem.test_any(x, "==", 0, RAGGED)),
        "put_many to ragged PEs": (shmem.ArgumentError, "pes", lambda: shmem.put_many(x, x.copy(), RAGGED)),
        "Lock.acquire until an array": (shmem.ArgumentError, "timeout", lambda: acquired(SEVERAL)),
    }


def of_batches(x):
    rows = np.array([0, 1])
    return {
        "launch(None)": (shmem.DtypeError, "stream", lambda: batch().launch(None)),
        "Batch.signal at None": (shmem.DtypeError, "index", lambda: batch().signal(x, None, 1, 0)),
        "Batch.put_many of 2**64 bytes": (
            shmem.ArgumentError, "nbytes", lambda: batch().put_many(x, rows[:1], x, rows[:1], 2**64, [0])),
        "Batch.put_strided of n=-1": (
            shmem.ArgumentError, "n is -1", lambda: batch().put_strided(x, 0, 8, x, 0, 8, 8, -1, 0)),
        "Batch.put_strided of width None": (
            shmem.DtypeError, "width", lambda: batch().put_strided(x, 0, 8, x, 0, 8, None, 1, 0)),
        "Batch.put_strided at an array": (
            shmem.DtypeError, "target_offset", lambda: batch().put_strided(x, SEVERAL, 8, x, 0, 8, 8, 1, 0)),
        "Batch.copy_rows of n=-1": (
            shmem.ArgumentError, "n is -1", lambda: batch().copy_rows(x, None, 8, x.copy(), None, 8, 8, -1)),
        "Batch.copy_rows of row 0-d": (
            shmem.SizeMismatch, "target_rows", lambda: batch().copy_rows(x, np.array(1), 8, x.copy(), None, 8, 8)),
        "Batch.copy_rows of different numbers": (
            shmem.SizeMismatch, "source_rows", lambda: batch().copy_rows(x, rows, 8, x.copy(), rows[:1], 8, 8)),
        "Batch.copy_rows of a wide stride": (
            shmem.SizeMismatch, "target", lambda: batch().copy_rows(x, rows, 2**64, x.copy(), rows, 8, 8)),
        "Batch.copy_rows of no array": (
            shmem.DtypeError, "target", lambda: batch().copy_rows(None, rows, 8, x.copy(), rows, 8, 8)),
        "Batch.reduce_rows of 1-D offsets": (
            shmem.SizeMismatch, "offsets", lambda: batch().reduce_rows(BF16, 4, rows, BF16.copy(), 2)),
        "Batch.reduce_rows of ragged offsets": (
            shmem.ArgumentError, "offsets", lambda: batch().reduce_rows(BF16, 4, RAGGED, BF16.copy(), 2)),
        "Batch.reduce_rows of width None": (
            shmem.DtypeError, "width", lambda: batch().reduce_rows(BF16, 4, rows[:, None], BF16.copy(), None)),
    }  # fmt: skip


def of_layouts():
    layout = {"name": "mine", "line": 8, "pieces": ((0, 4),), "flags": (4,)}
    return {
        "Layout with a line of text": (shmem.DtypeError, "line", lambda: shmem.Layout(**{**layout, "line": "8"})),
        "Layout with one piece": (shmem.ArgumentError, "pieces", lambda: shmem.Layout(**{**layout, "pieces": (0, 4)})),
        "Layout with no flags": (shmem.ArgumentError, "flags", lambda: shmem.Layout(**{**layout, "flags": None})),
        "Layout with no order": (shmem.ArgumentError, "order", lambda: shmem.Layout(**layout, order=SEVERAL)),
        "Layout too far apart": (shmem.ArgumentError, "pitch", lambda: shmem.LL.apart(2**64)),
        "lines of no bytes": (shmem.DtypeError, "nbytes", lambda: shmem.LL.lines(None)),
        "capacity below 0": (shmem.ArgumentError, "nbytes", lambda: shmem.LL.capacity(-1)),
    }


def of_copies():
    return {
        "pickle of a Ctx": (shmem.DtypeError, "Ctx", lambda: copied(shmem.ctx_create, pickle.dumps)),
        "pickle of a Batch": (shmem.DtypeError, "Batch", lambda: pickle.dumps(batch())),
        "copy of a Batch": (shmem.DtypeError, "Batch", lambda: copy.deepcopy(batch())),
        "copy of a Stream": (shmem.DtypeError, "Stream", lambda: copied(shmem.Stream, copy.copy)),
    }


@pytest.mark.parametrize("name", wrong(None))
def test_an_error_of_ours_names_the_argument(name):
    x = shmem.zeros(8, np.int64)
    error, named, call = wrong(x)[name]
    with pytest.raises(error) as caught:
        call()
    assert named in str(caught.value)
    assert caught.value.pe in (rank(), None)
    shmem.barrier_all()  # nobody is left in a call
    shmem.free(x)


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("wrong_at", [0, 1])
@pytest.mark.parametrize(
    "name", ["team_from_pes(5)", "team_from_pes of rows", "split_strided(config=5)", "split_2d of an array"]
)
def test_one_pe_with_a_wrong_team_leaves_no_other_waiting(name, wrong_at):
    right = {"split_strided": shmem.TEAM_WORLD.split_strided, "split_2d": lambda: shmem.TEAM_WORLD.split_2d(1)}
    call = right.get(name.partition("(")[0].partition(" ")[0], lambda: shmem.team_from_pes([0]))
    with pytest.raises(shmem.SymmetryError) as caught:
        (wrong(None)[name][2] if rank() == wrong_at else call)()
    assert len(set(caught.value.calls.values())) == 2


def test_shapes_may_be_arrays():
    for shape in (np.array([2, 3]), [np.int64(2), 3], (2, np.uint8(3))):
        x = shmem.zeros(shape)
        assert x.shape == (2, 3)
        shmem.free(x)
    y = shmem.zeros(np.array(4))
    assert y.shape == (4,)
    shmem.free(y)


def test_numbers_of_workers_may_be_numpys():
    assert shmem.workers(np.int64(3), lambda i: i * i) == [0, 1, 4]


def test_a_timeout_may_be_any_number():
    shmem.sync_all(timeout=10**400)
    shmem.sync_all(timeout=np.float32(30))


def test_copies_of_contexts_are_handles():
    with shmem.ctx_create() as ctx:
        for handle in (copy.copy(ctx), copy.deepcopy([ctx])[0]):
            assert handle == ctx
            assert handle is not ctx
        destroyed = copy.deepcopy(ctx)
    assert destroyed == shmem.CTX_INVALID
    for constant in (shmem.CTX_DEFAULT, shmem.CTX_INVALID):
        assert pickle.loads(pickle.dumps(constant)) is constant
        assert pickle.loads(pickle.dumps(shmem.Ctx(constant))) == constant


def test_blocks_of_no_bytes_end_at_once():
    x = shmem.zeros(8, np.int64)
    one = batch()
    one.put_strided(x, 0, 0, x, 0, 0, 0, 2**62, 0)
    one.copy_rows(x, None, 0, x.copy(), None, 0, 0, 2**62)
    assert len(one) == 0
    shmem.barrier_all()
    shmem.free(x)
