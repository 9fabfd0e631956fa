"""ptr: loads and stores through a view of another PE's memory, and waiters that look by themselves from then on."""

from __future__ import annotations

import numpy as np
import pytest

import shmem

from .data import DTYPES, dtype_id, payload, peers, same

pytestmark = pytest.mark.mpi


@pytest.mark.core
@pytest.mark.parametrize("dtype", DTYPES, ids=dtype_id)
def test_stores_through_a_view_are_there_after_a_barrier(dtype):
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros((n, 5), dtype)
    for pe in peers():
        there = shmem.ptr(x, pe)
        assert (there.shape, there.dtype) == (x.shape, x.dtype)
        there[me] = payload(dtype, 5, me, pe)
    shmem.barrier_all()
    for sender in range(n):
        assert same(x[sender], payload(dtype, 5, sender, me))
    for pe in peers():
        seen = shmem.ptr(x[me, 1:3], pe)
        assert same(seen.copy(), payload(dtype, 5, me, pe)[1:3])
    shmem.barrier_all()
    shmem.free(x)


def test_view_of_the_own_pe_is_the_array_itself():
    x = shmem.zeros(6, np.int64)
    own = shmem.ptr(x, shmem.my_pe())
    own[2] = 9
    assert x.tolist() == [0, 0, 9, 0, 0, 0]
    shmem.barrier_all()
    shmem.free(x)


def test_plain_store_through_a_view_reaches_a_sleeping_waiter():
    """It wakes nobody; the waiter looks every millisecond once there is a view."""
    n, me = shmem.n_pes(), shmem.my_pe()
    x = shmem.zeros(1, np.int64)
    there = shmem.ptr(x, (me + 1) % n)
    shmem.barrier_all()
    for round_ in range(1, 101):
        there[0] = round_
        shmem.wait_until(x, "==", round_)
        assert x[0] == round_
        shmem.barrier_all()
    shmem.free(x)


def test_wrong_arguments():
    x = shmem.zeros(4, np.int64)
    with pytest.raises(shmem.NotSymmetric):
        shmem.ptr(np.zeros(4), 0)
    with pytest.raises(shmem.InvalidPE):
        shmem.ptr(x, shmem.n_pes())
    with pytest.raises(shmem.DtypeError):
        shmem.ptr([1], 0)
    shmem.barrier_all()
    shmem.free(x)
