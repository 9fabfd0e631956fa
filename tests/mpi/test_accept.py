"""`check.accept` and `check.tagged` where nobody knows who wrote a byte: they do nothing."""

from __future__ import annotations

import numpy as np
import pytest

import shmem

pytestmark = pytest.mark.mpi


def test_they_do_nothing_here():
    box, flag = shmem.zeros(3, np.int64), shmem.zeros(1, np.uint64)
    n, me = shmem.n_pes(), shmem.my_pe()
    with shmem.check.tagged(1):
        shmem.put_signal(box, np.full(3, me), (me + 1) % n, flag, 1, shmem.SIGNAL_SET)
    shmem.signal_wait_until(flag, "==", 1)
    for view, tag in ((box, ((me - 1) % n, 1)), (box[::2], shmem.check.Tag(n + 7, 9)), (None, None)):
        assert shmem.check.accept(view, tag) is None  # looks at no argument
    assert box.tolist() == [(me - 1) % n] * 3
    assert not shmem.runtime.current().fabric.caps.tags
    shmem.barrier_all()
    shmem.free(flag)
    shmem.free(box)
