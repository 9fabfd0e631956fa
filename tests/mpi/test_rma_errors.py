"""Wrong arguments of put, get, p and g: the named exception on the PE that erred, and nothing written anywhere."""

from __future__ import annotations

import numpy as np
import pytest

import shmem

pytestmark = pytest.mark.mpi

FOREIGN = np.zeros(8, np.int32)
OTHER = np.ones(8, np.int32)

# name: (exception, call with x = symmetric int32 [8], last = number of the last PE)
WRONG = {
    "put to PE n": (shmem.InvalidPE, lambda x, last: shmem.put(x, OTHER, last + 1)),
    "put to PE -1": (shmem.InvalidPE, lambda x, last: shmem.put(x, OTHER, -1)),
    "put to PE 2**40": (shmem.InvalidPE, lambda x, last: shmem.put(x, OTHER, 1 << 40)),
    "put to PE 0.0": (shmem.InvalidPE, lambda x, last: shmem.put(x, OTHER, 0.0)),
    "put to PE False": (shmem.InvalidPE, lambda x, last: shmem.put(x, OTHER, False)),
    "put of rows to PE False": (shmem.InvalidPE, lambda x, last: shmem.put(x[::2], OTHER[:4], False)),
    "p to PE False": (shmem.InvalidPE, lambda x, last: shmem.p(x[:1], 1, False)),
    "atomic on PE False": (shmem.InvalidPE, lambda x, last: shmem.atomic_inc(x[:1], False)),
    "put to PE None": (shmem.InvalidPE, lambda x, last: shmem.put(x, OTHER, None)),
    "put_nbi to PE n": (shmem.InvalidPE, lambda x, last: shmem.put_nbi(x, OTHER, last + 1)),
    "get from PE n": (shmem.InvalidPE, lambda x, last: shmem.get(OTHER, x, last + 1)),
    "get_nbi from PE -1": (shmem.InvalidPE, lambda x, last: shmem.get_nbi(OTHER, x, -1)),
    "p to PE n": (shmem.InvalidPE, lambda x, last: shmem.p(x[:1], 1, last + 1)),
    "g from PE n": (shmem.InvalidPE, lambda x, last: shmem.g(x[:1], last + 1)),
    "put into private memory": (shmem.NotSymmetric, lambda x, last: shmem.put(FOREIGN, OTHER, last)),
    "put into a copy": (shmem.NotSymmetric, lambda x, last: shmem.put(x[[0, 1]], OTHER[:2], last)),
    "put into an expression": (shmem.NotSymmetric, lambda x, last: shmem.put(x + 0, OTHER, last)),
    "put into private, strided": (shmem.NotSymmetric, lambda x, last: shmem.put(FOREIGN[::2], OTHER[:4], last)),
    "put_nbi into private memory": (shmem.NotSymmetric, lambda x, last: shmem.put_nbi(FOREIGN, OTHER, last)),
    "get from private memory": (shmem.NotSymmetric, lambda x, last: shmem.get(OTHER, FOREIGN, last)),
    "get_nbi from private memory": (shmem.NotSymmetric, lambda x, last: shmem.get_nbi(OTHER, FOREIGN, last)),
    "p into private memory": (shmem.NotSymmetric, lambda x, last: shmem.p(FOREIGN[:1], 1, last)),
    "g from private memory": (shmem.NotSymmetric, lambda x, last: shmem.g(FOREIGN[:1], last)),
    "put of too much": (shmem.SizeMismatch, lambda x, last: shmem.put(x[:7], OTHER, last)),
    "put_nbi of too much": (shmem.SizeMismatch, lambda x, last: shmem.put_nbi(x[:7], OTHER, last)),
    "put size above source": (shmem.SizeMismatch, lambda x, last: shmem.put(x, OTHER[:3], last, 4)),
    "put size above target": (shmem.SizeMismatch, lambda x, last: shmem.put(x[:3], OTHER, last, 4)),
    "put size below 0": (shmem.SizeMismatch, lambda x, last: shmem.put(x, OTHER, last, -1)),
    "put size 1.5": (shmem.SizeMismatch, lambda x, last: shmem.put(x, OTHER, last, 1.5)),
    "get of too much": (shmem.SizeMismatch, lambda x, last: shmem.get(OTHER[:7], x, last)),
    "get size above both": (shmem.SizeMismatch, lambda x, last: shmem.get(OTHER, x, last, 9)),
    "p of many": (shmem.SizeMismatch, lambda x, last: shmem.p(x, 1, last)),
    "p of none": (shmem.SizeMismatch, lambda x, last: shmem.p(x[:0], 1, last)),
    "g of many": (shmem.SizeMismatch, lambda x, last: shmem.g(x[:2], last)),
    "put of another dtype": (shmem.DtypeError, lambda x, last: shmem.put(x, OTHER.astype("f4"), last)),
    "put of another width": (shmem.DtypeError, lambda x, last: shmem.put(x, OTHER.astype("i8"), last)),
    "put of another sign": (shmem.DtypeError, lambda x, last: shmem.put(x, OTHER.astype("u4"), last)),
    "put of another byte order": (shmem.DtypeError, lambda x, last: shmem.put(x, OTHER.astype(">i4"), last)),
    "get of another dtype": (shmem.DtypeError, lambda x, last: shmem.get(OTHER.astype("f4"), x, last)),
    "put of a list": (shmem.DtypeError, lambda x, last: shmem.put(x, [1, 2], last)),
    "put of a number": (shmem.DtypeError, lambda x, last: shmem.put(x, 1, last)),
    "put into an element": (shmem.DtypeError, lambda x, last: shmem.put(x[3], OTHER[:1], last)),
    "put of an element": (shmem.DtypeError, lambda x, last: shmem.put(x, OTHER[3], last)),
    "put of objects": (shmem.DtypeError, lambda x, last: shmem.put(x, np.array([None]), last)),
    "get into a list": (shmem.DtypeError, lambda x, last: shmem.get([0] * 8, x, last)),
    "get from an element": (shmem.DtypeError, lambda x, last: shmem.get(OTHER, x[0], last)),
    "p into an element": (shmem.DtypeError, lambda x, last: shmem.p(x[3], 1, last)),
    "g of an element": (shmem.DtypeError, lambda x, last: shmem.g(x[3], last)),
    "p of 1.5 into int": (shmem.DtypeError, lambda x, last: shmem.p(x[:1], 1.5, last)),
    "p of text": (shmem.DtypeError, lambda x, last: shmem.p(x[:1], "1", last)),
    "p of too large a number": (OverflowError, lambda x, last: shmem.p(x[:1], 1 << 31, last)),
    "put with a context": (shmem.ContextError, lambda x, last: shmem.put(x, OTHER, last, ctx=7)),
    "g with a context": (shmem.ContextError, lambda x, last: shmem.g(x[:1], last, ctx=7)),
    "get into read-only memory": (shmem.ArgumentError, lambda x, last: shmem.get(frozen(), x, last)),
    "get into strided read-only": (shmem.ArgumentError, lambda x, last: shmem.get(frozen()[::2], x[:4], last)),
}


def frozen():
    array = np.ones(8, np.int32)
    array.flags.writeable = False
    return array


@pytest.mark.core
@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_raise_and_write_nothing(case):
    error, call = WRONG[case]
    x = shmem.full(8, 77, np.int32)
    FOREIGN[...], OTHER[...] = 5, 6
    with pytest.raises(error) as caught:
        call(x, shmem.n_pes() - 1)
    if isinstance(caught.value, shmem.ShmemError):
        assert caught.value.pe == shmem.my_pe()
        assert str(caught.value)
    shmem.barrier_all()
    assert (x == 77).all()
    assert (FOREIGN == 5).all()
    assert (OTHER == 6).all()
    shmem.free(x)


def test_message_of_a_wrong_pe_names_the_range():
    x, n = shmem.zeros(1), shmem.n_pes()
    numbers = f"PEs 0 to {n - 1}" if n > 1 else "PE 0 only"
    with pytest.raises(ValueError, match=f"PE {n} does not exist: the job has {numbers}$"):
        shmem.put(x, np.ones(1), n)
    shmem.barrier_all()
    shmem.free(x)


def test_block_between_two_live_ones_is_refused():
    """A view may not reach beyond its block, not even into the next one."""
    x, y = shmem.zeros(8, np.int64), shmem.zeros(8, np.int64)
    far = np.lib.stride_tricks.as_strided(x, (32,), (8,))
    for call in (lambda: shmem.put(far, np.ones(32, int), 0), lambda: shmem.get(np.ones(32, int), far, 0)):
        with pytest.raises((shmem.FreedBlock, shmem.NotSymmetric)):
            call()
    shmem.barrier_all()
    assert not x.any()
    assert not y.any()
    shmem.free(y)
    shmem.free(x)
